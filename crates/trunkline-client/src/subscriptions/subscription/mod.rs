//! Subscriptions of the program: the items, the queue and the ledger of each.

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

/// Maximum capacity that an empty buffer keeps. A larger buffer is freed when it becomes empty.
const KEPT_SERIALS_MAX: usize = 64;
/// Memory for a queued reading in bytes, excluding its value.
const READING_BYTES: usize = size_of::<Queued>();
/// The documentation of `SubscribeOptions::buffer_bytes_max` states 120 bytes.
const _: () = assert!(READING_BYTES <= 120);

/// Returns the memory in bytes of `readings` queued readings, of which `bytes` are their values.
fn queue_bytes(bytes: usize, readings: u64) -> usize {
    // The cast is lossless, because the number of readings is limited by the memory.
    bytes.saturating_add((readings as usize).saturating_mul(READING_BYTES))
}

/// The `remote_item` of a free slot.
pub(crate) const NO_ITEM: u32 = u32::MAX;

/// Identifies a subscription of the program, across reconnections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionId(pub(crate) Key);

/// Accounts for every update of one subscription's variables, as far as the client knows: the
/// updates that arrived, with what the program did with them, and the updates that did not arrive,
/// by cause.
///
/// Between two arrived updates, the sequence number increases by one for each missed update, for
/// each update that a filter of the subscription excluded, and for the arrival itself:
///
/// ```text
/// written since the first reading = received - items + missed.coalesced + missed.queue
///                                   + missed.overrun + missed.disconnect + filtered
/// received                        = taken + coalesced + dropped + waiting
/// ```
///
/// Updates missed between two epochs cannot be counted. `missed.unknown` is set instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SubscriptionAccount {
    /// The updates that arrived, counted by what happened to them at the client.
    pub ledger: ClientLedger,
    /// The updates that did not arrive: the engine coalesced or dropped them, or they were written
    /// while there was no connection.
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
    /// The updates that did not arrive, summed over all items.
    pub(crate) missed: Lost,
    /// Total size of the queued values in bytes.
    bytes: usize,
    /// Number that increases with every queued event.
    pub(crate) changes: u64,
}

#[derive(Debug)]
/// An item of a subscription.
pub(crate) struct LocalItem {
    pub(crate) remote_item: u32,
    waiting: Waiting,
    /// Updates missed since the last reading was queued (for buffers) or taken (for cells).
    missed: Missed,
    notice: Option<Box<(u64, Notice)>>,
}

/// The queued readings of one item.
#[derive(Debug)]
enum Waiting {
    /// For a new value in the local copy: the serial of its mark, and its era.
    Cell(Option<(u64, u32)>),
    /// Serials of the queued readings, oldest first.
    #[allow(
        clippy::box_collection,
        reason = "most items have a cell, and stay small"
    )]
    Buffer(Box<VecDeque<u64>>),
    /// Number of the queued readings.
    Count(u32),
}

/// An event of an item other than a reading. A newer notice replaces the queued one.
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

/// An arriving update for one item.
pub(crate) struct Delivery<'a> {
    pub(crate) received: &'a Received,
    pub(crate) missed: Missed,
    /// As the field of [`Queued`].
    pub(crate) bytes: u32,
    /// As the field of [`Queued`].
    pub(crate) credit: u32,
    /// True if the replaced local copy was an update, and not the placeholder for a variable that
    /// was never written.
    pub(crate) replaces_update: bool,
}

/// The context for making readings from queued entries.
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

    /// Adds an item in a slot: after the last item, or in a free slot.
    pub(crate) fn put_item(&mut self, slot: u32, remote_item: u32) {
        let waiting = self.empty_waiting();
        let item = LocalItem {
            remote_item,
            waiting,
            missed: Missed::NOTHING,
            notice: None,
        };
        match self.items.get_mut(slot as usize) {
            Some(free) => *free = item,
            None => self.items.push(item),
        }
    }

    /// Removes an item from its slot and drops its queued entries. Returns its remote item, if any.
    pub(crate) fn take_item(&mut self, slot: u32) -> Option<u32> {
        let empty = self.empty_waiting();
        let item = self.items.get_mut(slot as usize)?;
        let remote_item = std::mem::replace(&mut item.remote_item, NO_ITEM);
        if let Some(notice) = item.notice.take() {
            self.queue.remove_mark(notice.0);
        }
        match std::mem::replace(&mut item.waiting, empty) {
            Waiting::Cell(cell) => {
                if cell.is_some_and(|(serial, _)| self.queue.remove_mark(serial)) {
                    self.count_dropped();
                }
            }
            Waiting::Buffer(serials) => {
                serials.iter().for_each(|serial| self.drop_reading(*serial));
            }
            Waiting::Count(count) => {
                for _ in 0..count {
                    let Some(serial) = self.queue.first_reading_of(slot) else {
                        break;
                    };
                    self.drop_reading(serial);
                }
            }
        }
        (remote_item != NO_ITEM).then_some(remote_item)
    }

    fn drop_reading(&mut self, serial: u64) {
        if let Some(bytes) = self.queue.remove_reading(serial, |queued| queued.bytes) {
            self.bytes -= bytes as usize;
            self.count_dropped();
        }
    }

    fn count_dropped(&mut self) {
        self.ledger.dropped += 1;
        self.ledger.waiting -= 1;
    }

    fn empty_waiting(&self) -> Waiting {
        match self.contract {
            Contract::Last(_) => Waiting::Buffer(Box::default()),
            Contract::First(_) | Contract::All { .. } => Waiting::Count(0),
            Contract::Latest | Contract::Sampled(_) => Waiting::Cell(None),
        }
    }

    /// Returns true if an `all` subscription has space for one more update. The queue may have
    /// twice the limit of the contract, plus the first readings of the items. The engine does not
    /// exceed the credit, so only values far larger than expected, or readings from before a
    /// reconnection, can exceed that.
    #[inline(always)]
    pub(crate) fn has_space(&self, update_bytes: usize) -> bool {
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
                    Some((serial, mark_era)) => {
                        self.ledger.coalesced += 1;
                        let updates = u64::from(delivery.replaces_update);
                        entry.missed.add(Missed::coalesced(updates));
                        if mark_era == era {
                            return;
                        }
                        self.queue.remove_mark(serial);
                    }
                }
                *cell = Some((self.queue.push_cell(item), era));
            }
            Waiting::Count(count) => {
                let mut missed = delivery.missed;
                if let Contract::First(n) = self.contract {
                    let queued = queue_bytes(self.bytes, self.ledger.waiting);
                    let bytes = queued + READING_BYTES + delivery.bytes as usize;
                    let is_full = queued > 0 && bytes > self.options.buffer_bytes_max;
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

    /// Queues an arrived update of an item under `last:n`.
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
                && queue_bytes(self.bytes, self.ledger.waiting)
                    + READING_BYTES
                    + delivery.bytes as usize
                    > max)
        {
            let oldest = serials.pop_front().and_then(|serial| {
                self.queue.remove_reading(serial, |queued| {
                    let missed = std::mem::take(&mut queued.missed);
                    (queued.bytes, missed, queued.received.is_update())
                })
            });
            let Some((bytes, mut missed_before, is_update)) = oldest else {
                continue;
            };
            self.bytes -= bytes as usize;
            self.ledger.dropped += 1;
            self.ledger.waiting -= 1;
            // The placeholder for a variable that was never written is not an update.
            if is_update {
                missed_before.add(dropped_by_queue());
            }
            let next = serials.front();
            match next.and_then(|next| self.queue.reading_mut(*next)) {
                Some(next) => next.missed.add(missed_before),
                None => missed.add(missed_before),
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
            self.queue.remove_mark(old.0);
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

/// Returns the loss of one update that was dropped because the queue was full.
fn dropped_by_queue() -> Missed {
    Missed::of(Lost {
        queue: 1,
        ..Lost::NONE
    })
}
