//! Live patterns: names that appear and vanish, and subscriptions by pattern.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{FollowEvent, FollowId, SubscribeOptions, WatchEvent, WatchId};
use trunkline_types::{Contract, Pattern, Reading};

use super::verbs::Shared;
use super::{CallError, Client};
use crate::aio;

/// The names and patterns of a subscription by pattern.
#[derive(Clone, Copy, Debug, Default)]
pub struct PatternSet<'a> {
    /// Names that are followed whether or not they exist; items 0 and up, in this order.
    pub names: &'a [&'a str],
    /// Patterns. A variable that matches is followed while it exists.
    pub patterns: &'a [Pattern],
    /// Variables that match one of these are left out.
    pub excluded: &'a [Pattern],
}

/// The names that match a pattern, followed across reconnections. Dropping it ends that.
pub struct Watch {
    shared: Arc<Shared>,
    id: WatchId,
}

/// A subscription to the variables that match patterns. Dropping it ends the subscription.
pub struct PatternSubscription {
    shared: Arc<Shared>,
    id: FollowId,
}

impl Shared {
    fn watch(self: &Arc<Self>, pattern: &str) -> Result<Watch, CallError> {
        let id = self.link.with(|core, _, _| core.watch(pattern))?;
        let shared = Arc::clone(self);
        Ok(Watch { shared, id })
    }

    fn subscribe_patterns(
        self: &Arc<Self>,
        set: &PatternSet<'_>,
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<PatternSubscription, CallError> {
        let id = self.link.with(|core, _, _| {
            core.follow(set.names, set.patterns, set.excluded, contract, options)
        })?;
        let shared = Arc::clone(self);
        Ok(PatternSubscription { shared, id })
    }
}

impl Client {
    /// Follows the names that match a pattern: first those that exist, then those that appear and
    /// vanish.
    ///
    /// # Errors
    /// [`CallError::Request`] if the client is closed. An invalid pattern is reported as an event.
    pub fn watch(&self, pattern: &str) -> Result<Watch, CallError> {
        self.shared.watch(pattern)
    }

    /// Subscribes to every variable that matches the patterns, now and later, under one contract.
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn subscribe_patterns(
        &self,
        set: &PatternSet<'_>,
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<PatternSubscription, CallError> {
        self.shared.subscribe_patterns(set, contract, options)
    }
}

impl aio::Client {
    /// As [`Client::watch`](crate::Client::watch); never waits.
    ///
    /// # Errors
    /// As there.
    pub fn watch(&self, pattern: &str) -> Result<Watch, CallError> {
        self.shared.watch(pattern)
    }

    /// As [`Client::subscribe_patterns`](crate::Client::subscribe_patterns); never waits.
    ///
    /// # Errors
    /// As there.
    pub fn subscribe_patterns(
        &self,
        set: &PatternSet<'_>,
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<PatternSubscription, CallError> {
        self.shared.subscribe_patterns(set, contract, options)
    }
}

impl Watch {
    /// Waits for the next event. Returns `None` if there is none within `timeout`; without a
    /// timeout it waits until the client is closed.
    pub fn next(&self, timeout: Option<Duration>) -> Option<WatchEvent> {
        let deadline = timeout.map(|timeout| self.shared.deadline(timeout));
        let link = &self.shared.link;
        link.wait_until(deadline, |core, _| core.next_watch_event(self.id))
    }

    /// As [`Watch::next`], for tasks. No event is lost if the call is dropped.
    pub async fn next_async(&self) -> Option<WatchEvent> {
        let link = &self.shared.link;
        link.wait(None, |core, _| core.next_watch_event(self.id))
            .await
    }

    /// Returns the next event if one is waiting.
    pub fn try_next(&self) -> Option<WatchEvent> {
        let link = &self.shared.link;
        link.with(|core, _, _| core.next_watch_event(self.id))
    }

    /// Returns the names that currently match, as far as the engine has reported them, sorted.
    pub fn names(&self) -> Vec<Arc<str>> {
        let link = &self.shared.link;
        link.with(|core, _, _| core.watched_names(self.id))
    }
}

impl PatternSubscription {
    /// Waits for the next event. Returns `None` if there is none within `timeout`; without a
    /// timeout it waits until the client is closed.
    pub fn next(&self, timeout: Option<Duration>) -> Option<FollowEvent> {
        let deadline = timeout.map(|timeout| self.shared.deadline(timeout));
        let link = &self.shared.link;
        link.wait_until(deadline, |core, now| core.next_followed(now, self.id))
    }

    /// As [`PatternSubscription::next`], for tasks. No event is lost if the call is dropped.
    pub async fn next_async(&self) -> Option<FollowEvent> {
        let link = &self.shared.link;
        link.wait(None, |core, now| core.next_followed(now, self.id))
            .await
    }

    /// Returns the next event if one is waiting.
    pub fn try_next(&self) -> Option<FollowEvent> {
        let link = &self.shared.link;
        link.with(|core, now, _| core.next_followed(now, self.id))
    }

    /// Returns the client's own copy of an item's newest value, without a round trip.
    pub fn value(&self, item: u32) -> Option<Reading> {
        let link = &self.shared.link;
        link.with(|core, now, _| core.value(now, core.followed(self.id)?, item))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let link = &self.shared.link;
        link.with(|core, _, _| core.unwatch(self.id));
    }
}

impl Drop for PatternSubscription {
    fn drop(&mut self) {
        let link = &self.shared.link;
        link.with(|core, _, _| core.unfollow(self.id));
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.id).finish()
    }
}

impl fmt::Debug for PatternSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PatternSubscription")
            .field(&self.id)
            .finish()
    }
}
