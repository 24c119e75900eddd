//! Taking what waits under a subscription: one by one, in lists, in batches, item by item.

use trunkline_types::{Quality, Reading, Tick};

use crate::batch::Batch;
use crate::client::ClientCore;
use crate::event::Event;
use crate::subscription::{Subscription, SubscriptionId, Taking};
use crate::wire::Pause;

impl ClientCore {
    /// What happened next under a subscription; `None` when nothing waits.
    pub fn next_event(&mut self, now: Tick, subscription: SubscriptionId) -> Option<Event> {
        let mut next = None;
        self.take_with(now, subscription, 1, |event| next = Some(event));
        next
    }

    /// Appends what happened next under a subscription, in order and up to `most` events, to
    /// `events`: what [`next_event`](Self::next_event) would give one by one, at a fraction of its
    /// cost. How many there were.
    ///
    /// A program that takes again and again clears its list and hands it back: nothing is allocated
    /// then, beside what readings of text and arrays hold.
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

    /// Replaces what a batch has by what happened next under a subscription: up to `most` readings,
    /// and the event behind them if it is no reading. The cheapest form to take readings: they are
    /// looked at where they lie. False when nothing waits.
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

    /// Takes something of a subscription: `take` says how much, and for how much that makes room.
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

    /// The next reading of one item that was not taken yet: each is new once. `None` when there is
    /// none; a caller that has waited long enough takes [`read_current`](Self::read_current)
    /// instead.
    ///
    /// Under `first:n` and `all` it looks at every event that waits before it.
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

    /// The item's reading, whether new or not: the next one that was not taken yet, else the local
    /// copy. It counts as read. `None` before the first update has arrived.
    pub fn read_current(
        &mut self,
        now: Tick,
        subscription: SubscriptionId,
        item: u32,
    ) -> Option<Reading> {
        self.read_new(now, subscription, item)
            .or_else(|| self.value(now, subscription, item))
    }

    /// The local copy of the item's last update; it stays, and news stays news. While the
    /// connection is down its quality is bad, with the reason. `None` before the first update has
    /// arrived.
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

    /// Something was taken, and readings among it that make room: it is granted to the engine.
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
