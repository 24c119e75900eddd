//! Taking from a subscription: one by one, in lists, in batches, or item by item.

use trunkline_types::{Quality, Reading, Tick};

use crate::batch::Batch;
use crate::client::ClientCore;
use crate::event::Event;
use crate::subscription::{Subscription, SubscriptionId, Taking};
use crate::wire::Pause;

impl ClientCore {
    /// Takes the next event of a subscription; `None` if nothing is queued.
    pub fn next_event(&mut self, now: Tick, subscription: SubscriptionId) -> Option<Event> {
        let mut next = None;
        self.take_with(now, subscription, 1, |event| next = Some(event));
        next
    }

    /// Appends the next events of a subscription to `events`, in order, up to `most`. The result is
    /// the same as with [`next_event`](Self::next_event), at a fraction of its cost. Returns their
    /// number.
    ///
    /// A program that takes repeatedly should clear and reuse its list: then nothing is allocated
    /// except the contents of text and array values.
    pub fn take_events(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        most: usize,
        events: &mut Vec<Event>,
    ) -> usize {
        let before = events.len();
        let waiting = self.waiting(subscription);
        events.reserve(waiting.min(most));
        self.take_with(now, subscription, most, |event| events.push(event));
        events.len() - before
    }

    /// Replaces the contents of a batch with the next readings of a subscription, up to `most`, and
    /// the event after them if it is not a reading. This is the cheapest way to take readings,
    /// because the program looks at them in place. Returns false if nothing is queued.
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

    fn take_with(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        most: usize,
        give: impl FnMut(Event),
    ) {
        self.take_by(now, subscription, |entry, taking| {
            entry.take(taking, most, give)
        });
    }

    /// Takes from a subscription. `take` returns the number of events taken, and of credits freed.
    #[inline]
    fn take_by(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        take: impl FnOnce(&mut Subscription, Taking<'_>) -> (usize, u32),
    ) {
        let connected = self.connection.is_open();
        let Some(entry) = self.subscriptions.get_mut(subscription.0) else {
            return;
        };
        let Some(wire) = self.wires.get(entry.wire) else {
            return;
        };
        let taking = Taking {
            now,
            wire,
            connected,
        };
        let (given, credits) = take(entry, taking);
        if given > 0 {
            self.taken(subscription, credits);
        }
    }

    /// Takes the next reading of one item; each is new once. Returns `None` if there is none: a
    /// caller that has waited long enough then uses [`read_current`](Self::read_current).
    ///
    /// Under `first:n` and `all`, it scans every event queued before the reading.
    pub fn read_new(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        item: u32,
    ) -> Option<Reading> {
        let connected = self.connection.is_open();
        let entry = self.subscriptions.get_mut(subscription.0)?;
        let wire = self.wires.get(entry.wire)?;
        let taking = Taking {
            now,
            wire,
            connected,
        };
        let (reading, credits) = entry.next_of(item, taking)?;
        self.taken(subscription, credits);
        Some(reading)
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

    /// Returns the local copy of the item's last update without taking it: a new reading stays new.
    /// While the connection is down its quality is bad, with the reason. Returns `None` before the
    /// first update has arrived.
    pub fn value(&self, now: Tick, subscription: SubscriptionId, item: u32) -> Option<Reading> {
        let entry = self.subscriptions.get(subscription.0)?;
        let wire = self.wires.get(entry.wire)?;
        let taking = Taking {
            now,
            wire,
            connected: self.connection.is_open(),
        };
        let mut reading = entry.peek(item, taking)?;
        if let Some(cause) = self.connection.down_because() {
            let before = reading.sample.quality;
            reading.sample.quality = Quality::bad(cause.quality_reason())
                .with_clock(before.clock(), before.clock_sync());
        }
        Some(reading)
    }

    /// Grants the credits of taken readings to the engine, and ends a pause if its condition is
    /// met.
    fn taken(&mut self, subscription: SubscriptionId, credits: u32) {
        let Some(entry) = self.subscriptions.get(subscription.0) else {
            return;
        };
        let (wire_id, drained, reopen) = (entry.wire, entry.is_drained(), entry.options.reopen);
        let Some(wire) = self.wires.get_mut(wire_id) else {
            return;
        };
        if wire.count_taken(credits) {
            self.connection.receipt.grant_due(wire_id);
        }
        let goes_on = match wire.pause {
            Pause::No => false,
            Pause::Overrun => drained && reopen,
            Pause::Backlog => drained,
        };
        if goes_on {
            self.end_pause(wire_id);
        }
    }
}
