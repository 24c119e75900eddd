//! One subscription of the program: its items, what waits for it, and its ledger.

mod take;

use std::collections::VecDeque;
use std::sync::Arc;

use trunkline_proto::Fault;
use trunkline_proto::message::ended::EndReason;
use trunkline_types::ledger::ClientLedger;
use trunkline_types::{Contract, Lost, Position, Tick};

use crate::account::Missed;
use crate::event::Event;
use crate::options::SubscribeOptions;
use crate::queue::{Queue, Queued};
use crate::reading::Received;
use crate::table::Key;
use crate::wire::WireSubscription;

/// An emptied buffer with more room than this gives it back.
const KEPT_SERIALS_MAX: usize = 64;
/// What a reading that waits takes beside its value.
const COST: usize = size_of::<Queued>();
/// As the options say it.
const _: () = assert!(COST <= 120);

/// What so many readings take with these bytes of values.
fn held(bytes: usize, readings: u64) -> usize {
    // As many as there is memory for.
    bytes.saturating_add((readings as usize).saturating_mul(COST))
}

/// The wire item of a place where no item is.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A subscription of the program. Survives reconnects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionId(pub(crate) Key);

/// What became of every update of the variables of one subscription, as its client knows: what came
/// and what the program did with it, and what did not come, with its cause.
///
/// Between two updates that came, the sequence rises by one for each that came, each that was
/// missed, and each that a filter of the subscription held back:
///
/// ```text
/// written since the first reading = received - items + missed.coalesced + missed.queue
///                                   + missed.overrun + missed.disconnect + filtered
/// received                        = taken + coalesced + dropped + waiting
/// ```
///
/// Across epochs nobody can count what was missed: `missed.unknown` says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SubscriptionAccount {
    /// What came, and what became of it here.
    pub ledger: ClientLedger,
    /// What did not come: merged or dropped by the engine, or written while there was no
    /// connection.
    pub missed: Lost,
}

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) wire: u32,
    pub(crate) contract: Contract,
    pub(crate) options: SubscribeOptions,
    pub(crate) items: Vec<LocalItem>,
    queue: Queue,
    pub(crate) ledger: ClientLedger,
    /// What did not come, of all items together.
    pub(crate) missed: Lost,
    /// Bytes of the values that wait.
    bytes: usize,
    /// Rises with everything that begins to wait.
    pub(crate) changes: u64,
}

/// One item of a subscription.
#[derive(Debug)]
pub(crate) struct LocalItem {
    /// Its item of the wire subscription.
    pub(crate) wire_item: u32,
    waiting: Waiting,
    /// Missed since its last reading that was queued (buffers) or taken (cells).
    missed: Missed,
    notice: Option<Box<(u64, Notice)>>,
}

/// What waits for one item.
#[derive(Debug)]
enum Waiting {
    /// The local copy is news: the entry that says so, and its era.
    Cell(Option<(u64, u32)>),
    /// Serials of its readings, oldest first.
    #[allow(
        clippy::box_collection,
        reason = "most items have a cell, and stay small"
    )]
    Buffer(Box<VecDeque<u64>>),
    /// How many of its readings wait.
    Count(u32),
}

/// Something about an item that is no reading; the newest replaces one that still waits.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    Fault(Fault),
    Ended {
        reason: EndReason,
        last: Option<Position>,
        lost: Option<u64>,
        sentence: Arc<str>,
    },
}

/// An update for one item.
pub(crate) struct Delivery<'a> {
    pub(crate) received: &'a Received,
    pub(crate) missed: Missed,
    /// As in [`Queued`].
    pub(crate) bytes: u32,
    pub(crate) credit: u32,
    /// The local copy that it replaces is of an update, not of a variable that nobody had written.
    pub(crate) replaces_update: bool,
}

/// What is needed to make readings of what waits.
#[derive(Clone, Copy)]
pub(crate) struct Taking<'a> {
    pub(crate) now: Tick,
    pub(crate) wire: &'a WireSubscription,
    pub(crate) connected: bool,
}

impl Subscription {
    pub(crate) fn new(wire: u32, contract: Contract, options: SubscribeOptions) -> Self {
        Self {
            wire,
            contract,
            options,
            items: Vec::new(),
            queue: Queue::default(),
            ledger: ClientLedger::default(),
            missed: Lost::NONE,
            bytes: 0,
            changes: 0,
        }
    }

    /// Puts an item at a place: after the last one, or where one has left.
    pub(crate) fn put_item(&mut self, place: u32, wire_item: u32) {
        let waiting = self.nothing_waits();
        let item = LocalItem {
            wire_item,
            waiting,
            missed: Missed::NOTHING,
            notice: None,
        };
        match self.items.get_mut(place as usize) {
            Some(free) => *free = item,
            None => self.items.push(item),
        }
    }

    /// Takes an item out of its place; what waits of it is dropped. Its wire item, if it had one.
    pub(crate) fn take_item(&mut self, place: u32) -> Option<u32> {
        let nothing = self.nothing_waits();
        let item = self.items.get_mut(place as usize)?;
        let wire_item = std::mem::replace(&mut item.wire_item, NOBODY);
        if let Some(notice) = item.notice.take() {
            self.queue.kill_mark(notice.0);
        }
        match std::mem::replace(&mut item.waiting, nothing) {
            Waiting::Cell(cell) => {
                if cell.is_some_and(|(serial, _)| self.queue.kill_mark(serial)) {
                    self.count_dropped();
                }
            }
            Waiting::Buffer(serials) => {
                serials.iter().for_each(|serial| self.drop_reading(*serial));
            }
            Waiting::Count(count) => {
                for _ in 0..count {
                    let Some(serial) = self.queue.first_reading_of(place) else {
                        break;
                    };
                    self.drop_reading(serial);
                }
            }
        }
        (wire_item != NOBODY).then_some(wire_item)
    }

    /// Drops a reading that waits, and counts it.
    fn drop_reading(&mut self, serial: u64) {
        if let Some(bytes) = self.queue.kill_reading(serial, |queued| queued.bytes) {
            self.bytes -= bytes as usize;
            self.count_dropped();
        }
    }

    fn count_dropped(&mut self) {
        self.ledger.dropped += 1;
        self.ledger.waiting -= 1;
    }

    fn nothing_waits(&self) -> Waiting {
        match self.contract {
            Contract::Last(_) => Waiting::Buffer(Box::default()),
            Contract::First(_) | Contract::All { .. } => Waiting::Count(0),
            Contract::Latest | Contract::Sampled(_) => Waiting::Cell(None),
        }
    }

    /// Whether an `all` subscription has room for one more update. The engine keeps to the credit,
    /// so that only values far larger than expected can exceed it, or readings left from before a
    /// reconnect: at most twice the bound waits here, and the first readings of the items beside
    /// it.
    #[inline(always)]
    pub(crate) fn has_room(&self, update_bytes: usize) -> bool {
        let Contract::All { elements, bytes } = self.contract else {
            return true;
        };
        let (elements, bytes) = (2 * u64::from(elements), 2 * bytes as usize);
        self.ledger.waiting < elements + self.items.len() as u64
            && (self.bytes == 0 || self.bytes + update_bytes <= bytes)
    }

    /// An update has arrived for an item.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, item: u32, delivery: Delivery<'_>) {
        let Some(entry) = self.items.get_mut(item as usize) else {
            return;
        };
        self.ledger.received += 1;
        if !delivery.missed.is_nothing() {
            self.missed = self.missed.plus(delivery.missed.lost());
        }
        self.changes += 1;
        match &mut entry.waiting {
            Waiting::Cell(cell) => {
                let era = self.queue.era();
                entry.missed.add(delivery.missed);
                match *cell {
                    None => self.ledger.waiting += 1,
                    Some((serial, its_era)) => {
                        self.ledger.coalesced += 1;
                        let updates = u64::from(delivery.replaces_update);
                        entry.missed.add(Missed::coalesced(updates));
                        if its_era == era {
                            return;
                        }
                        self.queue.kill_mark(serial);
                    }
                }
                *cell = Some((self.queue.push_cell(item), era));
            }
            Waiting::Count(count) => {
                let mut missed = delivery.missed;
                if let Contract::First(n) = self.contract {
                    let held = held(self.bytes, self.ledger.waiting);
                    let bytes = held + COST + delivery.bytes as usize;
                    let is_full = held > 0 && bytes > self.options.buffer_bytes_max;
                    entry.missed.add(missed);
                    if *count >= n || is_full {
                        self.ledger.dropped += 1;
                        entry.missed.add(dropped_by_queue());
                        return;
                    }
                    missed = std::mem::take(&mut entry.missed);
                }
                *count += 1;
                self.bytes += delivery.bytes as usize;
                self.ledger.waiting += 1;
                let (received, bytes) = (delivery.received.clone(), delivery.bytes);
                self.queue
                    .push_reading(item, received, missed, bytes, delivery.credit);
            }
            Waiting::Buffer(_) => self.deliver_last(item, delivery),
        }
    }

    /// An update has arrived for an item under `last:n`.
    fn deliver_last(&mut self, item: u32, delivery: Delivery<'_>) {
        let Some(entry) = self.items.get_mut(item as usize) else {
            return;
        };
        let (Waiting::Buffer(serials), Contract::Last(n)) = (&mut entry.waiting, self.contract)
        else {
            return;
        };
        let mut missed = delivery.missed;
        let max = self.options.buffer_bytes_max;
        while serials.len() >= n as usize
            || (!serials.is_empty()
                && held(self.bytes, self.ledger.waiting) + COST + delivery.bytes as usize > max)
        {
            let oldest = serials.pop_front().and_then(|serial| {
                self.queue.kill_reading(serial, |queued| {
                    let missed = std::mem::take(&mut queued.missed);
                    (queued.bytes, missed, queued.received.position.sequence)
                })
            });
            let Some((bytes, mut before, sequence)) = oldest else {
                continue;
            };
            self.bytes -= bytes as usize;
            self.ledger.dropped += 1;
            self.ledger.waiting -= 1;
            // That nothing was written yet is no update.
            if sequence > 0 {
                before.add(dropped_by_queue());
            }
            let next = serials.front();
            match next.and_then(|next| self.queue.reading_mut(*next)) {
                Some(next) => next.missed.add(before),
                None => missed.add(before),
            }
        }
        let (received, bytes) = (delivery.received.clone(), delivery.bytes);
        let serial = self
            .queue
            .push_reading(item, received, missed, bytes, delivery.credit);
        serials.push_back(serial);
        self.bytes += bytes as usize;
        self.ledger.waiting += 1;
    }

    /// Something about an item that is no reading.
    pub(crate) fn notify(&mut self, item: u32, notice: Notice) {
        let Some(entry) = self.items.get_mut(item as usize) else {
            return;
        };
        if let Some(old) = entry.notice.take() {
            self.queue.kill_mark(old.0);
        }
        let serial = self.queue.push_notice(item);
        entry.notice = Some(Box::new((serial, notice)));
        self.changes += 1;
    }

    /// The connection has changed.
    pub(crate) fn connection_changed(&mut self, event: Event) {
        self.queue.push_connection(event);
        self.changes += 1;
    }

    /// Readings that wait.
    pub(crate) fn readings_waiting(&self) -> u64 {
        self.ledger.waiting
    }

    /// Nothing waits.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty()
    }

    /// Events that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }
}

/// One update that found no room.
fn dropped_by_queue() -> Missed {
    Missed::of(Lost {
        queue: 1,
        ..Lost::NONE
    })
}
