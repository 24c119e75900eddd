//! Event sources of a client, in a blocking and an async form: subscriptions, watches of names, and
//! subscriptions by pattern.

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

/// The names and patterns that a subscription by pattern selects.
#[derive(Clone, Copy, Debug, Default)]
pub struct PatternSet<'a> {
    /// Names to subscribe to, whether they exist or not. Their items are numbered from 0 in this
    /// order.
    pub names: &'a [&'a str],
    /// Patterns of names. A matching variable is subscribed while it exists.
    pub patterns: &'a [Pattern],
    /// Patterns of names to exclude.
    pub excluded: &'a [Pattern],
}

/// The identifier of an event source in the client core.
pub(super) trait EventSource: Copy + fmt::Debug {
    fn end(self, core: &mut ClientCore);
}

impl EventSource for SubscriptionId {
    fn end(self, core: &mut ClientCore) {
        core.unsubscribe(self);
    }
}

impl EventSource for WatchId {
    fn end(self, core: &mut ClientCore) {
        core.unwatch(self);
    }
}

impl EventSource for FollowId {
    fn end(self, core: &mut ClientCore) {
        core.unfollow(self);
    }
}

/// A handle of an event source. Dropping the handle ends the event source.
pub(super) struct EventSourceHandle<I: EventSource> {
    pub(super) shared: Arc<Shared>,
    pub(super) id: I,
}

impl<I: EventSource> EventSourceHandle<I> {
    fn with<T>(&self, take: impl FnOnce(&mut ClientCore, Tick) -> T) -> T {
        self.shared.link.with(|core, now, _| take(core, now))
    }

    pub(super) fn wait<T>(
        &self,
        timeout: Option<Duration>,
        take: impl FnMut(&mut ClientCore, Tick) -> Option<T>,
    ) -> Option<T> {
        let deadline = timeout.map(|timeout| self.shared.deadline(timeout));
        self.shared.link.wait_until(deadline, take)
    }
}

impl<I: EventSource> Drop for EventSourceHandle<I> {
    fn drop(&mut self) {
        self.with(|core, _| self.id.end(core));
    }
}

impl<I: EventSource> fmt::Debug for EventSourceHandle<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// Takes up to `most` queued events of a subscription. Returns `None` if there are none.
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
            let item = $me.0.wait(timeout, $take);
            $(let item = $then(item);)?
            item
        }
    };
    (aio waits [$($doc:tt)*] $name:ident ($me:ident $($args:tt)*) [$answer:ty] [$take:expr] [$($then:expr)?]) => {
        $($doc)*
        pub async fn $name(&$me $($args)*) -> $answer {
            let item = $me.0.shared.link.wait(None, $take).await;
            $(let item = $then(item);)?
            item
        }
    };
}

/// Expands an event source to two types: a blocking one, whose waiting methods have a timeout, and
/// an async one.
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
            pub struct $type(pub(super) EventSourceHandle<$id>);

            impl $type {
                pub(super) fn new(shared: &Arc<Shared>, id: $id) -> Self {
                    let shared = Arc::clone(shared);
                    Self(EventSourceHandle { shared, id })
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
                pub struct $type(EventSourceHandle<$id>);

                impl $type {
                    pub(in super::super) fn new(shared: &Arc<Shared>, id: $id) -> Self {
                        let shared = Arc::clone(shared);
                        Self(EventSourceHandle { shared, id })
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
    /// Programs that receive millions of readings per second should use batches. Refilling a batch
    /// needs no allocation, and the program reads the values in place.
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
        /// Waits for the next event, a reading or a change of the connection, in the order in which
        /// they occurred. Returns `None` once the client is closed. The blocking form also returns
        /// `None` if no event arrives within `timeout`.
        waits fn next(&self) -> Option<Event> = |core, now| core.next_event(now, self.0.id);

        /// Returns the next event without waiting; `None` if there is none.
        now fn try_next(&self) -> Option<Event> = |core, now| core.next_event(now, self.0.id);

        /// Waits for an event as [`next`](Self::next) does, and returns up to `most` queued events
        /// in order. This is much faster than one call per event.
        waits fn next_many(&self, most: usize) -> Vec<Event>
            = |core, now| take_events(core, now, self.0.id, most), then Option::unwrap_or_default;

        /// Waits as [`next`](Self::next) does, and replaces the contents of `batch` with up to
        /// `most` queued readings in order. If the next event after them is not a reading, the
        /// batch contains it as well. Returns false if nothing arrives.
        waits fn next_batch(&self, batch: &mut Batch, most: usize) -> bool = |core, now| {
            batch.clear();
            core.take_batch(now, self.0.id, most, batch).then_some(())
        }, then |filled: Option<()>| filled.is_some();

        /// Returns the client's local copy of an item's newest value, without a round trip. The
        /// value may be one that the program has already seen. The reading is marked `stale` while
        /// the connection is down.
        now fn value(&self, item: u32) -> Option<Reading>
            = |core, now| core.value(now, self.0.id, item);

        /// Returns the name of an item, and its type once the item is open.
        now fn item(&self, item: u32) -> Option<Item> = |core, _| core.item(self.0.id, item);

        /// Accounts for all updates of the subscribed variables: those that arrived, with what the
        /// program did with them, and those that did not arrive, by cause. Returns `None` if the
        /// subscription is closed.
        now fn account(&self) -> Option<SubscriptionAccount> = |core, _| core.account(self.0.id);

        /// Accounts for the updates that reached this client only.
        now fn ledger(&self) -> Option<ClientLedger> = |core, _| core.ledger(self.0.id);
    }

    /// A watch of the names that match a pattern. It continues across reconnections. Dropping it
    /// ends the watch.
    Watch(WatchId) {
        /// Waits for the next event. Returns `None` once the client is closed. The blocking form
        /// also returns `None` if no event arrives within `timeout`.
        waits fn next(&self) -> Option<WatchEvent> = |core, _| core.next_watch_event(self.0.id);

        /// Returns the next event without waiting; `None` if there is none.
        now fn try_next(&self) -> Option<WatchEvent> = |core, _| core.next_watch_event(self.0.id);

        /// Returns the matching names that the engine has reported so far, sorted.
        now fn names(&self) -> Vec<Arc<str>> = |core, _| core.watched_names(self.0.id);
    }

    /// A subscription to the variables that match patterns. Dropping it ends the subscription.
    PatternSubscription(FollowId) {
        /// Waits for the next event. Returns `None` once the client is closed. The blocking form
        /// also returns `None` if no event arrives within `timeout`.
        waits fn next(&self) -> Option<FollowEvent> = |core, now| core.next_followed(now, self.0.id);

        /// Returns the next event without waiting; `None` if there is none.
        now fn try_next(&self) -> Option<FollowEvent> = |core, now| core.next_followed(now, self.0.id);

        /// Returns the client's local copy of an item's newest value, without a round trip.
        now fn value(&self, item: u32) -> Option<Reading>
            = |core, now| core.value(now, core.followed(self.0.id)?, item);
    }
}
