//! One subscription of the program: its items, its queue, and its ledger.

mod lane;
pub(crate) mod queue;
mod take;

use std::collections::VecDeque;
use std::sync::Arc;

use trunkline_proto::Fault;
use trunkline_proto::message::ended::EndReason;
use trunkline_types::ledger::ClientLedger;
use trunkline_types::{Contract, Lost, Position, Tick};

use self::queue::{Queue, Queued};
use crate::event::Event;
use crate::options::SubscribeOptions;
use crate::subscriptions::remote::RemoteSubscription;
use crate::subscriptions::remote::account::Missed;
use crate::table::Key;
use crate::variables::reading::Received;

/// Emptied buffers with a larger capacity than this are freed.
const KEPT_SERIALS_MAX: usize = 64;
/// Memory for a queued reading, in addition to its value, in bytes.
const COST: usize = size_of::<Queued>();
/// The documentation of `SubscribeOptions::buffer_bytes_max` states 120 bytes.
const _: () = assert!(COST <= 120);

/// Returns the memory used by `readings` queued readings whose values take `bytes`.
fn held(bytes: usize, readings: u64) -> usize {
    // The cast is safe: the number of readings is limited by the memory.
    bytes.saturating_add((readings as usize).saturating_mul(COST))
}

/// The `remote_item` of a free place.
pub(crate) const NO_ITEM: u32 = u32::MAX;

/// A subscription of the program. It survives reconnects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionId(pub(crate) Key);

/// The account of every update of one subscription's variables, as known to the client: updates
/// that arrived, with what the program did with them, and updates that did not arrive, by cause.
///
/// Between two arrived updates, the sequence increases by one for each arrival, each missed update,
/// and each update that a filter of the subscription left out:
///
/// ```text
/// written since the first reading = received - items + missed.coalesced + missed.queue
///                                   + missed.overrun + missed.disconnect + filtered
/// received                        = taken + coalesced + dropped + waiting
/// ```
///
/// Updates missed across epochs cannot be counted; `missed.unknown` is set instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SubscriptionAccount {
    /// The updates that arrived, by what happened to them at the client.
    pub ledger: ClientLedger,
    /// The updates that did not arrive: coalesced or dropped by the engine, or written while there
    /// was no connection.
    pub missed: Lost,
}

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) remote: u32,
    pub(crate) contract: Contract,
    pub(crate) options: SubscribeOptions,
    pub(crate) items: Vec<LocalItem>,
    queue: Queue,
    pub(crate) ledger: ClientLedger,
    /// The updates that did not arrive, of all items together.
    pub(crate) missed: Lost,
    /// Total size of the queued values in bytes.
    bytes: usize,
    /// Increases with every queued event.
    pub(crate) changes: u64,
}

#[derive(Debug)]
pub(crate) struct LocalItem {
    pub(crate) remote_item: u32,
    waiting: Waiting,
    /// Updates missed since the last reading was queued (buffers) or taken (cells).
    missed: Missed,
    notice: Option<Box<(u64, Notice)>>,
}

/// The queued readings of one item.
#[derive(Debug)]
enum Waiting {
    /// Set while the local copy is new: the serial of its mark, and the era.
    Cell(Option<(u64, u32)>),
    /// Serials of the queued readings, oldest first.
    #[allow(
        clippy::box_collection,
        reason = "most items have a cell, and stay small"
    )]
    Buffer(Box<VecDeque<u64>>),
    Count(u32),
}

/// An event of an item other than a reading. A newer notice replaces a queued one.
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

pub(crate) struct Delivery<'a> {
    pub(crate) received: &'a Received,
    pub(crate) missed: Missed,
    /// See [`Queued`].
    pub(crate) bytes: u32,
    pub(crate) credit: u32,
    /// True if the replaced local copy is an update, not the placeholder of a variable that was
    /// never written.
    pub(crate) replaces_update: bool,
}

/// The context needed to make readings from queued entries.
#[derive(Clone, Copy)]
pub(crate) struct Taking<'a> {
    pub(crate) now: Tick,
    pub(crate) remote: &'a RemoteSubscription,
    pub(crate) connected: bool,
}

impl Subscription {
    pub(crate) fn new(remote: u32, contract: Contract, options: SubscribeOptions) -> Self {
        Self {
            remote,
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

    /// Puts an item at a place: after the last item, or at a free place.
    pub(crate) fn put_item(&mut self, place: u32, remote_item: u32) {
        let waiting = self.nothing_waits();
        let item = LocalItem {
            remote_item,
            waiting,
            missed: Missed::NOTHING,
            notice: None,
        };
        match self.items.get_mut(place as usize) {
            Some(free) => *free = item,
            None => self.items.push(item),
        }
    }

    /// Removes an item from its place and drops its queued entries. Returns its remote item, if any.
    pub(crate) fn take_item(&mut self, place: u32) -> Option<u32> {
        let nothing = self.nothing_waits();
        let item = self.items.get_mut(place as usize)?;
        let remote_item = std::mem::replace(&mut item.remote_item, NO_ITEM);
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
        (remote_item != NO_ITEM).then_some(remote_item)
    }

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

    /// Returns true if an `all` subscription has room for one more update. The engine does not
    /// exceed the credit, so only values far larger than expected, or readings from before a
    /// reconnect, exceed the bound. At most twice the bound is queued here, plus the first readings
    /// of the items.
    #[inline(always)]
    pub(crate) fn has_room(&self, update_bytes: usize) -> bool {
        let Contract::All { elements, bytes } = self.contract else {
            return true;
        };
        let (elements, bytes) = (2 * u64::from(elements), 2 * bytes as usize);
        self.ledger.waiting < elements + self.items.len() as u64
            && (self.bytes == 0 || self.bytes + update_bytes <= bytes)
    }

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

    /// Queues an arrived update for an item under `last:n`.
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
            // The placeholder of a variable that was never written is not an update.
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

    pub(crate) fn connection_changed(&mut self, event: Event) {
        self.queue.push_connection(event);
        self.changes += 1;
    }

    pub(crate) fn readings_waiting(&self) -> u64 {
        self.ledger.waiting
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }
}

/// One update that was dropped because the queue was full.
fn dropped_by_queue() -> Missed {
    Missed::of(Lost {
        queue: 1,
        ..Lost::NONE
    })
}
