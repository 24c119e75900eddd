//! Subscriptions, patterns and the provider role, as the program uses them.

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
use crate::subscriptions::Subscriptions;
use crate::subscriptions::batch::Batch;
use crate::subscriptions::subscribe::Item;
use crate::subscriptions::subscription::{
    Subscription, SubscriptionAccount, SubscriptionId, Taking,
};

impl ClientCore {
    /// Subscribes variables by their full names, with one request that opens and subscribes them.
    /// [`next_event`](Self::next_event) reports the results, item by item. The subscription
    /// survives reconnects until it is ended.
    ///
    /// The queue for the program is bounded: one reading per item under `latest` and `sampled`; `n`
    /// readings per item, and a limit in bytes, under `last:n` and `first:n`; under `all` the
    /// contract's bound, which the engine knows and does not exceed. Readings that do not fit count
    /// in `lost` of the item's next reading.
    ///
    /// # Errors
    /// [`SubscribeError`] if the contract's number is out of range, a bound is reached or the
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

    /// Ends a subscription and drops its queue.
    pub fn unsubscribe(&mut self, subscription: SubscriptionId) {
        let (subscriptions, base) = self.split();
        subscriptions.unsubscribe(base, subscription);
    }

    /// Reopens a subscription that ended with `overrun` and does not reopen automatically. Delivery
    /// resumes after the last update that arrived, and missing updates are counted.
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

    /// Returns the ledger of a subscription, which accounts for every update that arrived.
    pub fn ledger(&self, subscription: SubscriptionId) -> Option<ClientLedger> {
        self.entry(subscription).map(|entry| entry.ledger)
    }

    /// Returns the account of every update of the subscription's variables, including those that
    /// did not arrive.
    pub fn account(&self, subscription: SubscriptionId) -> Option<SubscriptionAccount> {
        let entry = self.entry(subscription)?;
        Some(SubscriptionAccount {
            ledger: entry.ledger,
            missed: entry.missed,
        })
    }

    /// Returns the engine's number of the subscription, as in the answer to [`info`](Self::info).
    /// `latest` subscriptions with the same filters share one.
    pub fn wire_number(&self, subscription: SubscriptionId) -> Option<u32> {
        self.entry(subscription).map(|entry| entry.remote)
    }

    /// Returns the number of queued events of a subscription.
    pub fn waiting(&self, subscription: SubscriptionId) -> usize {
        self.parts.subscriptions.waiting(subscription)
    }

    /// Returns a number that increases with every event queued for a subscription. While it is
    /// unchanged, there is nothing new.
    pub fn subscription_changes(&self, subscription: SubscriptionId) -> u64 {
        self.entry(subscription).map_or(0, |entry| entry.changes)
    }

    /// Takes the next event of a subscription; `None` if nothing is queued.
    pub fn next_event(&mut self, now: Tick, subscription: SubscriptionId) -> Option<Event> {
        let (subscriptions, base) = self.split();
        subscriptions.next_event(base, now, subscription)
    }

    /// Appends up to `most` next events of a subscription to `events`, in order, and returns their
    /// number. The result is the same as with [`next_event`](Self::next_event), at a fraction of
    /// its cost.
    ///
    /// A program that calls this repeatedly should clear and reuse its list. Then nothing is
    /// allocated except the contents of text and array values.
    pub fn take_events(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        most: usize,
        events: &mut Vec<Event>,
    ) -> usize {
        let before = events.len();
        events.reserve(self.waiting(subscription).min(most));
        self.take_by(now, subscription, |entry, taking| {
            entry.take(taking, most, |event| events.push(event))
        });
        events.len() - before
    }

    /// Replaces the contents of a batch with up to `most` next readings of a subscription, and with
    /// the event after them if it is not a reading. This is the cheapest way to take readings,
    /// because the program uses them in place. Returns false if nothing is queued.
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

    /// Takes the next new reading of one item. Returns `None` if there is none; a caller that has
    /// waited long enough then uses [`read_current`](Self::read_current).
    ///
    /// Under `first:n` and `all`, this scans every event queued before the reading.
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

    /// Takes the next reading of one item, or returns the local copy if there is none. The returned
    /// reading counts as read. Returns `None` before the first update has arrived.
    pub fn read_current(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        item: u32,
    ) -> Option<Reading> {
        self.read_new(now, subscription, item)
            .or_else(|| self.value(now, subscription, item))
    }

    /// Returns the local copy of the item's last update without taking it, so that a new reading
    /// stays new. While the connection is down, the quality is bad, with the reason. Returns `None`
    /// before the first update has arrived.
    pub fn value(&self, now: Tick, subscription: SubscriptionId, item: u32) -> Option<Reading> {
        let parts = &self.parts;
        let subscriptions = &parts.subscriptions;
        subscriptions.value(&parts.base, now, subscription, item)
    }

    /// Watches the names that match a pattern, across reconnects, until [`unwatch`](Self::unwatch).
    /// [`next_watch_event`](Self::next_watch_event) reports the events.
    ///
    /// A pattern that matches more than [`items_max`](crate::ClientOptions::items_max) names fails.
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
        let may_be_known = self.requests.end_watch(base, watch.0) && number != 0;
        if may_be_known && base.connection.is_open() {
            base.own_requests.push(OwnRequest::Unwatch(Unwatch(number)));
            base.changes += 1;
        }
    }

    /// Takes the next event; `None` if nothing is pending.
    pub fn next_watch_event(&mut self, watch: WatchId) -> Option<WatchEvent> {
        self.parts.patterns.watches.next_event(watch)
    }

    /// Returns all names that currently match, as far as the engine has reported them, sorted.
    pub fn watched_names(&self, watch: WatchId) -> Vec<Arc<str>> {
        self.parts.patterns.watches.names(watch)
    }

    /// Subscribes names, and the variables that match patterns now or later, except those that
    /// match an `excluded` pattern. The items of `names` are numbered in the order given.
    ///
    /// # Errors
    /// Same as for [`subscribe`](Self::subscribe).
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
            // `watch` cannot fail here: a closed client has already refused the subscription.
            watches.extend(self.watch(pattern.as_str()).ok());
        }
        let follow = Follow::new(subscription, names, watches, excluded);
        Ok(FollowId(self.parts.patterns.follows.insert(follow)))
    }

    /// Ends a subscription by patterns and drops its queued events.
    pub fn unfollow(&mut self, follow: FollowId) {
        if let Some(follow) = self.parts.patterns.follows.remove(follow.0) {
            self.unsubscribe(follow.subscription);
            follow.watches.into_iter().for_each(|w| self.unwatch(w));
        }
    }

    /// Returns the underlying subscription, for local copies and its ledger.
    pub fn followed(&self, follow: FollowId) -> Option<SubscriptionId> {
        let follow = self.parts.patterns.follows.get(follow.0)?;
        Some(follow.subscription)
    }

    /// Returns the next event, or `None` if none is queued.
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

    /// Becomes the source of every variable whose `source` begins with `name` and a colon, on this
    /// connection and all later ones. [`take_provider_event`](Self::take_provider_event) reports
    /// the results.
    pub fn provide(&mut self, name: &str) {
        let Parts { base, provider, .. } = &mut self.parts;
        provider.provide(base, name);
    }

    /// Takes the next event of the provider.
    pub fn take_provider_event(&mut self) -> Option<ProviderEvent> {
        self.parts.provider.events.pop_front()
    }

    /// Sends a value as soon as the write credit allows. Has no effect without the provider role.
    pub fn publish(&mut self, publication: Publication) {
        let Parts { base, provider, .. } = &mut self.parts;
        provider.publish(base, publication);
    }

    /// Answers a write or a read. Has no effect without the provider role, or with a ticket of an
    /// earlier connection.
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
