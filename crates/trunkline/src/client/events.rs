//! Event sources of a client: subscriptions, watched patterns and subscriptions by pattern, in a
//! blocking and an async form.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{
    Batch, ClientCore, Event, FollowEvent, FollowId, Item, SubscriptionAccount, SubscriptionId,
    WatchEvent, WatchId,
};
use trunkline_types::ledger::ClientLedger;
use trunkline_types::{Pattern, Reading, Tick};

use super::verbs::Shared;

/// The names and patterns of a subscription by pattern.
#[derive(Clone, Copy, Debug, Default)]
pub struct PatternSet<'a> {
    /// Names to subscribe to, whether or not they exist. Their items are numbered from 0, in this
    /// order.
    pub names: &'a [&'a str],
    /// Patterns. A matching variable is subscribed while it exists.
    pub patterns: &'a [Pattern],
    /// Patterns of variables to leave out.
    pub excluded: &'a [Pattern],
}

/// The id of an event source in the client core.
pub(super) trait Follow: Copy + fmt::Debug {
    fn end(self, core: &mut ClientCore);
}

impl Follow for SubscriptionId {
    fn end(self, core: &mut ClientCore) {
        core.unsubscribe(self);
    }
}

impl Follow for WatchId {
    fn end(self, core: &mut ClientCore) {
        core.unwatch(self);
    }
}

impl Follow for FollowId {
    fn end(self, core: &mut ClientCore) {
        core.unfollow(self);
    }
}

/// An event source of a connection. Dropping this ends it.
pub(super) struct Followed<I: Follow> {
    pub(super) shared: Arc<Shared>,
    pub(super) id: I,
}

impl<I: Follow> Followed<I> {
    fn with<T>(&self, take: impl FnOnce(&mut ClientCore, Tick) -> T) -> T {
        self.shared.link.with(|core, now, _| take(core, now))
    }

    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        take: impl FnMut(&mut ClientCore, Tick) -> Option<T>,
    ) -> Option<T> {
        let deadline = timeout.map(|timeout| self.shared.deadline(timeout));
        self.shared.link.wait_until(deadline, take)
    }
}

impl<I: Follow> Drop for Followed<I> {
    fn drop(&mut self) {
        self.with(|core, _| self.id.end(core));
    }
}

impl<I: Follow> fmt::Debug for Followed<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// Takes up to `most` events of a subscription. Returns `None` if none is waiting.
pub(super) fn take_events(
    core: &mut ClientCore,
    now: Tick,
    subscription: SubscriptionId,
    most: usize,
) -> Option<Vec<Event>> {
    let mut events = Vec::new();
    core.take_events(now, subscription, most.max(1), &mut events);
    (!events.is_empty()).then_some(events)
}

/// Expands one method of an event source.
macro_rules! event {
    ($form:ident now [$($doc:tt)*] $name:ident ($me:ident $($args:tt)*) [$answer:ty] [$take:expr] []) => {
        $($doc)*
        pub fn $name(&$me $($args)*) -> $answer {
            $me.0.with($take)
        }
    };
    (blocking waits [$($doc:tt)*] $name:ident ($me:ident $($args:tt)*) [$answer:ty] [$take:expr] [$($then:expr)?]) => {
        $($doc)*
        pub fn $name(&$me $($args)*, timeout: Option<Duration>) -> $answer {
            let taken = $me.0.wait(timeout, $take);
            $(let taken = $then(taken);)?
            taken
        }
    };
    (aio waits [$($doc:tt)*] $name:ident ($me:ident $($args:tt)*) [$answer:ty] [$take:expr] [$($then:expr)?]) => {
        $($doc)*
        pub async fn $name(&$me $($args)*) -> $answer {
            let taken = $me.0.shared.link.wait(None, $take).await;
            $(let taken = $then(taken);)?
            taken
        }
    };
}

/// Expands an event source to a blocking type, whose waiting methods have a timeout, and to an
/// async type.
macro_rules! events {
    ($(
        $(#[$type_doc:meta])*
        $type:ident($id:ty) {$(
            $(#[$doc:meta])*
            $kind:ident fn $name:ident(&$me:ident $(, $arg:ident: $ty:ty)*)
                -> $answer:ty = $take:expr $(, then $then:expr)?;
        )*}
    )*) => {
        $(
            $(#[$type_doc])*
            #[derive(Debug)]
            pub struct $type(pub(super) Followed<$id>);

            impl $type {
                pub(super) fn new(shared: &Arc<Shared>, id: $id) -> Self {
                    let shared = Arc::clone(shared);
                    Self(Followed { shared, id })
                }

                $(event! {
                    blocking $kind [$(#[$doc])*] $name ($me $(, $arg: $ty)*) [$answer] [$take] [$($then)?]
                })*
            }
        )*

        /// The async forms of the event sources.
        ///
        /// # Cancel safety
        /// Dropping a call loses no event or reading.
        pub(crate) mod aio {
            use super::*;

            $(
                $(#[$type_doc])*
                ///
                /// # Cancel safety
                /// Dropping a call loses no event or reading.
                #[derive(Debug)]
                pub struct $type(Followed<$id>);

                impl $type {
                    pub(in super::super) fn new(shared: &Arc<Shared>, id: $id) -> Self {
                        let shared = Arc::clone(shared);
                        Self(Followed { shared, id })
                    }

                    $(event! {
                        aio $kind [$(#[$doc])*] $name ($me $(, $arg: $ty)*) [$answer] [$take] [$($then)?]
                    })*
                }
            )*
        }

        /// The names of the methods of each type, for tests and for other languages.
        #[doc(hidden)]
        pub const EVENTS: &[(&str, &[&str])] =
            &[$((stringify!($type), &[$(stringify!($name)),*])),*];
    };
}

events! {
    /// A subscription of a client. Dropping it ends the subscription.
    ///
    /// Programs that take millions of readings per second should take them in batches. Refilling a
    /// batch allocates nothing, and the program uses its readings in place.
    ///
    /// ```no_run
    /// # use trunkline::types::Contract;
    /// # use trunkline::{Batch, Client, SubscribeOptions};
    /// # let client = Client::connect("tl:///")?;
    /// let levels = client.subscribe(&["rig/level"], Contract::ALL, SubscribeOptions::default())?;
    /// let (mut batch, mut sum) = (Batch::new(), 0.0);
    /// while levels.next_batch(&mut batch, 1000, None) {
    ///     for reading in batch.readings() {
    ///         sum += reading.get::<f64>().unwrap_or(0.0);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Subscription(SubscriptionId) {
        /// Waits for the next event: a reading or a change of the connection, in order of
        /// occurrence. Returns `None` once the client is closed, or, in the blocking form, if no
        /// event arrives within `timeout`.
        waits fn next(&self) -> Option<Event> = |core, now| core.next_event(now, self.0.id);

        /// Returns the next event if one is waiting.
        now fn try_next(&self) -> Option<Event> = |core, now| core.next_event(now, self.0.id);

        /// Waits for at least one event, as [`next`](Self::next) does, and returns up to `most`
        /// waiting events in order. This costs much less per event.
        waits fn next_many(&self, most: usize) -> Vec<Event>
            = |core, now| take_events(core, now, self.0.id, most), then Option::unwrap_or_default;

        /// Waits as [`next`](Self::next) does, and replaces the contents of `batch` with up to
        /// `most` waiting readings in order, and with the event after them if that is not a
        /// reading. Returns false if neither arrives.
        waits fn next_batch(&self, batch: &mut Batch, most: usize) -> bool = |core, now| {
            batch.clear();
            core.take_batch(now, self.0.id, most, batch).then_some(())
        }, then |filled: Option<()>| filled.is_some();

        /// Returns the client's local copy of an item's newest value, new or not, without a round
        /// trip. The reading is marked `stale` while the connection is down.
        now fn value(&self, item: u32) -> Option<Reading>
            = |core, now| core.value(now, self.0.id, item);

        /// Returns the name of an item, and its type once it is open.
        now fn item(&self, item: u32) -> Option<Item> = |core, _| core.item(self.0.id, item);

        /// Accounts for every update of the subscribed variables: those that arrived, with what the
        /// program did with them, and those that did not arrive, by cause. `None` if the
        /// subscription is closed.
        now fn account(&self) -> Option<SubscriptionAccount> = |core, _| core.account(self.0.id);

        /// Accounts for the updates that reached this client.
        now fn ledger(&self) -> Option<ClientLedger> = |core, _| core.ledger(self.0.id);
    }

    /// The names that match a pattern, watched across reconnections. Dropping this ends the watch.
    Watch(WatchId) {
        /// Waits for the next event. Returns `None` once the client is closed, or, in the blocking
        /// form, if no event arrives within `timeout`.
        waits fn next(&self) -> Option<WatchEvent> = |core, _| core.next_watch_event(self.0.id);

        /// Returns the next event if one is waiting.
        now fn try_next(&self) -> Option<WatchEvent> = |core, _| core.next_watch_event(self.0.id);

        /// Returns the names that currently match, as far as the engine has reported them, sorted.
        now fn names(&self) -> Vec<Arc<str>> = |core, _| core.watched_names(self.0.id);
    }

    /// A subscription to the variables that match patterns. Dropping it ends the subscription.
    PatternSubscription(FollowId) {
        /// Waits for the next event. Returns `None` once the client is closed, or, in the blocking
        /// form, if no event arrives within `timeout`.
        waits fn next(&self) -> Option<FollowEvent> = |core, now| core.next_followed(now, self.0.id);

        /// Returns the next event if one is waiting.
        now fn try_next(&self) -> Option<FollowEvent> = |core, now| core.next_followed(now, self.0.id);

        /// Returns the client's local copy of an item's newest value, without a round trip.
        now fn value(&self, item: u32) -> Option<Reading>
            = |core, now| core.value(now, core.followed(self.0.id)?, item);
    }
}
