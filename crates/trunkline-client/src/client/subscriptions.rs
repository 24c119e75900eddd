//! The subscription, pattern and provider verbs of the client.

use std::sync::Arc;

use trunkline_types::ledger::ClientLedger;
use trunkline_types::{Contract, Pattern, Reading, Tick};

use super::ClientCore;
use crate::ask::{OwnRequest, Unwatch};
use crate::client_state::ClientState;
use crate::error::{RequestError, SubscribeError};
use crate::event::Event;
use crate::options::SubscribeOptions;
use crate::parts::Parts;
use crate::patterns::Patterns;
use crate::patterns::follow::{Follow, FollowContext, FollowEvent, FollowId};
use crate::patterns::watch::{WatchEvent, WatchId};
use crate::provider::{ProviderEvent, ProviderReply, Publication};
use crate::recorded::RecordedEvents;
use crate::subscriptions::Subscriptions;
use crate::subscriptions::batch::Batch;
use crate::subscriptions::subscribe::Item;
use crate::subscriptions::subscription::{
    Subscription, SubscriptionAccount, SubscriptionId, Taking,
};

impl ClientCore {
    /// Subscribes to variables by their full names. One request opens and subscribes all of them.
    /// [`next_event`](Self::next_event) reports the result for each item. The subscription
    /// continues across reconnections until it is ended.
    ///
    /// The queue for the program is limited: under `latest` and `sampled` to one reading per item,
    /// under `last:n` and `first:n` to `n` readings per item and a size in bytes, and under `all`
    /// to the bound of the contract, which the engine knows and does not exceed. Readings that do
    /// not fit are counted in `lost` of the item's next reading.
    ///
    /// # Errors
    /// [`SubscribeError`] if the contract's number is out of range, a limit is reached or the
    /// client is closed.
    pub fn subscribe<N: AsRef<str>>(
        &mut self,
        names: &[N],
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<SubscriptionId, SubscribeError> {
        let (subscriptions, base) = self.split();
        subscriptions.subscribe(base, names, contract, options)
    }

    /// Ends a subscription and drops its queued events.
    pub fn unsubscribe(&mut self, subscription: SubscriptionId) {
        let (subscriptions, base) = self.split();
        subscriptions.unsubscribe(base, subscription);
    }

    /// Subscribes again after an `overrun`, for a subscription that does not do so automatically.
    /// Delivery resumes after the last update that arrived, and missing updates are counted.
    pub fn resubscribe(&mut self, subscription: SubscriptionId) {
        let (subscriptions, base) = self.split();
        if let Some(entry) = subscriptions.get(subscription) {
            let remote = entry.remote;
            subscriptions.end_pause(base, remote);
        }
    }

    fn split(&mut self) -> (&mut Subscriptions, &mut ClientState) {
        (&mut self.parts.subscriptions, &mut self.parts.base)
    }

    fn entry(&self, subscription: SubscriptionId) -> Option<&Subscription> {
        self.parts.subscriptions.get(subscription)
    }

    /// Returns the current state of an item.
    pub fn item(&self, subscription: SubscriptionId, item: u32) -> Option<Item> {
        let parts = &self.parts;
        parts.subscriptions.item(&parts.base, subscription, item)
    }

    /// Returns the ledger of a subscription, which counts every update that arrived.
    pub fn ledger(&self, subscription: SubscriptionId) -> Option<ClientLedger> {
        self.entry(subscription).map(|entry| entry.ledger)
    }

    /// Accounts for every update of the subscription's variables, including those that did not
    /// arrive.
    pub fn account(&self, subscription: SubscriptionId) -> Option<SubscriptionAccount> {
        let entry = self.entry(subscription)?;
        Some(SubscriptionAccount {
            ledger: entry.ledger,
            missed: entry.missed,
        })
    }

    /// Returns the subscription's number in the protocol, as in the answer to [`info`](Self::info).
    /// `latest` subscriptions with the same filters share one number.
    pub fn wire_number(&self, subscription: SubscriptionId) -> Option<u32> {
        self.entry(subscription).map(|entry| entry.remote)
    }

    /// Returns the number of queued events of a subscription.
    pub fn waiting(&self, subscription: SubscriptionId) -> usize {
        self.parts.subscriptions.waiting(subscription)
    }

    /// Returns a number that increases with every event that is queued for a subscription. If the
    /// number has not changed, there is no new event.
    pub fn subscription_changes(&self, subscription: SubscriptionId) -> u64 {
        self.entry(subscription).map_or(0, |entry| entry.changes)
    }

    /// Takes the next event of a subscription; `None` if there is none.
    pub fn next_event(&mut self, now: Tick, subscription: SubscriptionId) -> Option<Event> {
        let (subscriptions, base) = self.split();
        subscriptions.next_event(base, now, subscription)
    }

    /// Passes the next event of a subscription under the contract `all` to `recorded`. Returns false
    /// if there is none.
    pub fn next_recorded(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        recorded: &mut RecordedEvents,
    ) -> bool {
        let (subscriptions, base) = self.split();
        match subscriptions.next_with_sequence(base, now, subscription) {
            Some((event, sequence)) => recorded.take_event(event, sequence),
            None => return false,
        }
        true
    }

    /// Appends up to `most` of the next events of a subscription to `events`, in order, and returns
    /// their number. The events are those of [`next_event`](Self::next_event), at a fraction of its
    /// cost.
    ///
    /// Programs should clear one list and use it again for every call. Then only the contents of
    /// text and array values are allocated.
    pub fn take_events(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        most: usize,
        events: &mut Vec<Event>,
    ) -> usize {
        let len_before = events.len();
        events.reserve(self.waiting(subscription).min(most));
        self.take_by(now, subscription, |entry, taking| {
            entry.take(taking, most, |event, _| events.push(event))
        });
        events.len() - len_before
    }

    /// Replaces the contents of a batch with up to `most` of the next readings of a subscription.
    /// If the event after them is not a reading, the batch contains it as well. This is the fastest
    /// way to take readings, because the program uses them in place. Returns false if nothing is
    /// queued.
    ///
    /// ```
    /// # use trunkline_client::{Batch, ClientCore, SubscriptionId};
    /// # use trunkline_types::Tick;
    /// fn sum(client: &mut ClientCore, now: Tick, id: SubscriptionId, batch: &mut Batch) -> f64 {
    ///     let mut sum = 0.0;
    ///     while client.take_batch(now, id, 1000, batch) {
    ///         let values = batch.readings().iter();
    ///         sum += values.filter_map(|reading| reading.get::<f64>()).sum::<f64>();
    ///     }
    ///     sum
    /// }
    /// ```
    pub fn take_batch(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        most: usize,
        batch: &mut Batch,
    ) -> bool {
        batch.clear();
        self.take_by(now, subscription, |entry, taking| {
            let credits = entry.take_batch(taking, most.max(1), batch);
            (usize::from(!batch.is_empty()), credits)
        });
        !batch.is_empty()
    }

    #[inline]
    fn take_by(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        take: impl FnOnce(&mut Subscription, Taking<'_>) -> (usize, u32),
    ) {
        let (subscriptions, base) = self.split();
        subscriptions.take_by(base, now, subscription, take);
    }

    /// Takes the next new reading of one item. Returns `None` if there is none. A caller whose wait
    /// for it has timed out can use [`read_current`](Self::read_current).
    ///
    /// Under `first:n` and `all`, the call scans all events that are queued before the reading.
    pub fn read_new(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        item: u32,
    ) -> Option<Reading> {
        let mut reading = None;
        self.take_by(now, subscription, |entry, taking| {
            let (next, credits) = entry.next_of(item, taking).unzip();
            reading = next;
            (usize::from(reading.is_some()), credits.unwrap_or(0))
        });
        reading
    }

    /// Takes the next reading of one item, or returns the local copy if there is none. The reading
    /// counts as read. Returns `None` before the first update has arrived.
    pub fn read_current(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        item: u32,
    ) -> Option<Reading> {
        self.read_new(now, subscription, item)
            .or_else(|| self.value(now, subscription, item))
    }

    /// Returns the local copy of the item's last update without taking it, so a new reading stays
    /// new. While the connection is down, its quality is bad, with the reason. Returns `None` before
    /// the first update has arrived.
    pub fn value(&self, now: Tick, subscription: SubscriptionId, item: u32) -> Option<Reading> {
        let parts = &self.parts;
        let subscriptions = &parts.subscriptions;
        subscriptions.value(&parts.base, now, subscription, item)
    }

    /// Watches the names that match a pattern, across reconnections, until
    /// [`unwatch`](Self::unwatch). [`next_watch_event`](Self::next_watch_event) returns the events.
    ///
    /// The watch fails if the pattern matches more than
    /// [`items_max`](crate::ClientOptions::items_max) names.
    ///
    /// # Errors
    /// [`RequestError::Closed`] if the client is closed.
    pub fn watch(&mut self, pattern: &str) -> Result<WatchId, RequestError> {
        let Parts { base, patterns, .. } = &mut self.parts;
        patterns.watches.watch(base, pattern)
    }

    /// Ends a watch and drops its pending events.
    pub fn unwatch(&mut self, watch: WatchId) {
        let Parts { base, patterns, .. } = &mut self.parts;
        let Some(number) = patterns.watches.end(watch) else {
            return;
        };
        let may_be_at_engine = self.requests.end_watch(base, watch.0) && number != 0;
        if may_be_at_engine && base.connection.is_open() {
            base.own_requests.push(OwnRequest::Unwatch(Unwatch(number)));
            base.changes += 1;
        }
    }

    /// Takes the next event; `None` if there is none.
    pub fn next_watch_event(&mut self, watch: WatchId) -> Option<WatchEvent> {
        self.parts.patterns.watches.next_event(watch)
    }

    /// Returns the matching names that the engine has reported so far, sorted.
    pub fn watched_names(&self, watch: WatchId) -> Vec<Arc<str>> {
        self.parts.patterns.watches.names(watch)
    }

    /// Subscribes to names, and to all variables that match patterns and no `excluded` pattern,
    /// including variables that appear later. The items of `names` are numbered in the given order.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn follow<N: AsRef<str>>(
        &mut self,
        names: &[N],
        patterns: &[Pattern],
        excluded: &[Pattern],
        contract: Contract,
        options: SubscribeOptions,
    ) -> Result<FollowId, SubscribeError> {
        let subscription = self.subscribe(names, contract, options)?;
        let mut watches = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            // `watch` cannot fail here, because a closed client has already refused the
            // subscription.
            watches.extend(self.watch(pattern.as_str()).ok());
        }
        let follow = Follow::new(subscription, names, watches, excluded);
        Ok(FollowId(self.parts.patterns.follows.insert(follow)))
    }

    /// Ends a subscription by patterns and drops its queued events.
    pub fn unfollow(&mut self, follow: FollowId) {
        if let Some(follow) = self.parts.patterns.follows.remove(follow.0) {
            self.unsubscribe(follow.subscription);
            follow
                .watches
                .into_iter()
                .for_each(|watch| self.unwatch(watch));
        }
    }

    /// Returns the subscription behind the patterns, which has the local copies and the ledger.
    pub fn followed(&self, follow: FollowId) -> Option<SubscriptionId> {
        let follow = self.parts.patterns.follows.get(follow.0)?;
        Some(follow.subscription)
    }

    /// Takes the next event; `None` if there is none.
    pub fn next_followed(&mut self, now: Tick, id: FollowId) -> Option<FollowEvent> {
        let Parts {
            base,
            subscriptions,
            patterns: Patterns { watches, follows },
            ..
        } = &mut self.parts;
        let mut context = FollowContext {
            base,
            subscriptions,
            watches,
        };
        follows.get_mut(id.0)?.next(&mut context, now)
    }

    /// Makes this client the source of every variable whose `source` begins with `name` and a
    /// colon, on this connection and all later ones.
    /// [`take_provider_event`](Self::take_provider_event) returns the events of this role.
    pub fn provide(&mut self, name: &str) {
        let Parts { base, provider, .. } = &mut self.parts;
        provider.provide(base, name);
    }

    /// Takes the next event of the provider.
    pub fn take_provider_event(&mut self) -> Option<ProviderEvent> {
        self.parts.provider.events.pop_front()
    }

    /// Queues a value, which is sent as soon as the write credit allows. Has no effect without the
    /// provider role.
    pub fn publish(&mut self, publication: Publication) {
        let Parts { base, provider, .. } = &mut self.parts;
        provider.publish(base, publication);
    }

    /// Answers a write or a read. Has no effect without the provider role, or if the ticket is from
    /// an earlier connection.
    pub fn answer_provider(&mut self, ticket: u64, reply: ProviderReply) {
        let Parts { base, provider, .. } = &mut self.parts;
        provider.answer(base, ticket, reply);
    }

    /// Returns the number of values dropped because the connection was too slow, and the number of
    /// values that the engine refused.
    pub fn provider_losses(&self) -> (u64, u64) {
        (self.parts.provider.lost, self.parts.provider.refused)
    }
}
