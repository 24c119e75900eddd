//! One subscription of the program: its items, what waits for it, and its ledger.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Fault;
use trunkline_proto::message::ended::EndReason;
use trunkline_types::ledger::ClientLedger;
use trunkline_types::{Contract, Lost, Position, Reading, Tick};

use crate::event::Event;
use crate::options::SubscribeOptions;
use crate::queue::{Body, Queue, Queued};
use crate::reading::Received;
use crate::table::Key;
use crate::wire::{Status, WireItem, WireSubscription};

/// An emptied buffer with more room than this gives it back.
const KEPT_SERIALS_MAX: usize = 64;

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
    lost: Lost,
    notice: Option<Box<(u64, Notice)>>,
}

/// What waits for one item.
#[derive(Debug)]
enum Waiting {
    /// The local copy is news: the entry that says so, and its era.
    Cell(Option<(u64, u32)>),
    /// Serials of its readings, oldest first.
    Buffer(VecDeque<u64>),
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

/// An update for the items of one wire item.
pub(crate) struct Delivery<'a> {
    pub(crate) received: &'a Received,
    pub(crate) lost: Lost,
    pub(crate) bytes: usize,
    /// As in [`Queued`].
    pub(crate) credit: u32,
}

/// What was taken.
pub(crate) struct Taken {
    pub(crate) event: Event,
    /// As in [`Queued`]; 0 for what is no reading.
    pub(crate) credit: u32,
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
            lost: Lost::NONE,
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
        let notice = item.notice.take().map(|notice| notice.0);
        let mut serials = Vec::from_iter(notice);
        match std::mem::replace(&mut item.waiting, nothing) {
            Waiting::Cell(cell) => serials.extend(cell.map(|(serial, _)| serial)),
            Waiting::Buffer(buffer) => serials.extend(buffer),
            Waiting::Count(count) => {
                for _ in 0..count {
                    let Some(serial) = self.queue.first_reading_of(place) else {
                        break;
                    };
                    self.drop_waiting(serial);
                }
            }
        }
        for serial in serials {
            self.drop_waiting(serial);
        }
        (wire_item != NOBODY).then_some(wire_item)
    }

    /// Drops what waits under this serial, and counts it if it is a reading.
    fn drop_waiting(&mut self, serial: u64) {
        let is_reading = match self.queue.kill(serial) {
            Some(Body::Reading(queued)) => {
                self.bytes -= queued.bytes;
                true
            }
            Some(Body::Cell { .. }) => true,
            _ => false,
        };
        if is_reading {
            self.ledger.dropped += 1;
            self.ledger.waiting -= 1;
        }
    }

    fn nothing_waits(&self) -> Waiting {
        match self.contract {
            Contract::Last(_) => Waiting::Buffer(VecDeque::new()),
            Contract::First(_) | Contract::All { .. } => Waiting::Count(0),
            Contract::Latest | Contract::Sampled(_) => Waiting::Cell(None),
        }
    }

    /// Whether an `all` subscription has room for one more update. The engine keeps to the credit,
    /// so that only values far larger than expected can exceed it, or readings left from before a
    /// reconnect: at most twice the bound waits here, and the first readings of the items beside
    /// it.
    pub(crate) fn has_room(&self, update_bytes: usize) -> bool {
        let Contract::All { elements, bytes } = self.contract else {
            return true;
        };
        let (elements, bytes) = (2 * u64::from(elements), 2 * bytes as usize);
        self.ledger.waiting < elements + self.items.len() as u64
            && (self.bytes == 0 || self.bytes + update_bytes <= bytes)
    }

    /// An update has arrived for an item.
    pub(crate) fn deliver(&mut self, item: u32, delivery: &Delivery<'_>) {
        let contract = self.contract;
        let Some(entry) = self.items.get_mut(item as usize) else {
            return;
        };
        self.ledger.received += 1;
        if delivery.lost != Lost::NONE {
            self.missed = self.missed.plus(delivery.lost);
        }
        self.changes += 1;
        match (&mut entry.waiting, contract) {
            (Waiting::Cell(cell), _) => {
                let era = self.queue.era();
                entry.lost = entry.lost.plus(delivery.lost);
                match *cell {
                    None => self.ledger.waiting += 1,
                    Some((serial, its_era)) => {
                        self.ledger.coalesced += 1;
                        entry.lost.coalesced += 1;
                        if its_era == era {
                            return;
                        }
                        self.queue.kill(serial);
                    }
                }
                *cell = Some((self.queue.push(Body::Cell { item }), era));
            }
            (Waiting::Buffer(serials), Contract::Last(n)) => {
                let mut lost = delivery.lost;
                let max = self.options.buffer_bytes_max;
                while serials.len() >= n as usize
                    || (!serials.is_empty() && self.bytes + delivery.bytes > max)
                {
                    let oldest = serials
                        .pop_front()
                        .and_then(|serial| self.queue.kill(serial));
                    let Some(Body::Reading(oldest)) = oldest else {
                        continue;
                    };
                    self.bytes -= oldest.bytes;
                    self.ledger.dropped += 1;
                    self.ledger.waiting -= 1;
                    let missed = Lost {
                        queue: 1,
                        ..Lost::NONE
                    }
                    .plus(oldest.lost);
                    match serials
                        .front()
                        .and_then(|next| self.queue.reading_mut(*next))
                    {
                        Some(next) => next.lost = next.lost.plus(missed),
                        None => lost = lost.plus(missed),
                    }
                }
                serials.push_back(push_reading(&mut self.queue, item, delivery, lost));
                self.bytes += delivery.bytes;
                self.ledger.waiting += 1;
            }
            (Waiting::Count(count), contract) => {
                entry.lost = entry.lost.plus(delivery.lost);
                let max = self.options.buffer_bytes_max;
                if let Contract::First(n) = contract
                    && (*count >= n || (self.bytes > 0 && self.bytes + delivery.bytes > max))
                {
                    self.ledger.dropped += 1;
                    entry.lost.queue += 1;
                    return;
                }
                *count += 1;
                let lost = std::mem::take(&mut entry.lost);
                push_reading(&mut self.queue, item, delivery, lost);
                self.bytes += delivery.bytes;
                self.ledger.waiting += 1;
            }
            (Waiting::Buffer(_), _) => {}
        }
    }

    /// Something about an item that is no reading.
    pub(crate) fn notify(&mut self, item: u32, notice: Notice) {
        let Some(entry) = self.items.get_mut(item as usize) else {
            return;
        };
        if let Some(old) = entry.notice.take() {
            self.queue.kill(old.0);
        }
        let serial = self.queue.push(Body::Notice { item });
        entry.notice = Some(Box::new((serial, notice)));
        self.changes += 1;
    }

    /// The connection has changed.
    pub(crate) fn connection_changed(&mut self, event: Event) {
        self.queue.push_connection(event);
        self.changes += 1;
    }

    /// What happened next, if anything waits.
    pub(crate) fn next(
        &mut self,
        now: Tick,
        wire: &WireSubscription,
        connected: bool,
    ) -> Option<Taken> {
        loop {
            let (event, credit) = match self.queue.pop()? {
                Body::Dead => continue,
                Body::Connection(event) => (*event, 0),
                Body::Cell { item } => match self.take_cell(now, item, wire, connected) {
                    Some(reading) => (Event::Reading { item, reading }, 0),
                    None => continue,
                },
                Body::Reading(queued) => {
                    let (item, credit) = (queued.item, queued.credit);
                    let reading = self.take_queued(now, *queued, wire, connected);
                    (Event::Reading { item, reading }, credit)
                }
                Body::Notice { item } => match self.take_notice(item) {
                    Some(event) => (event, 0),
                    None => continue,
                },
            };
            return Some(Taken { event, credit });
        }
    }

    /// The next reading of one item that was not taken yet, whatever waits before it.
    pub(crate) fn next_of(
        &mut self,
        now: Tick,
        item: u32,
        wire: &WireSubscription,
        connected: bool,
    ) -> Option<Taken> {
        let serial = match &self.items.get(item as usize)?.waiting {
            Waiting::Cell(cell) => cell.map(|(serial, _)| serial),
            Waiting::Buffer(serials) => serials.front().copied(),
            Waiting::Count(0) => None,
            Waiting::Count(_) => self.queue.first_reading_of(item),
        }?;
        let (reading, credit) = match self.queue.kill(serial)? {
            Body::Reading(queued) => {
                let credit = queued.credit;
                (self.take_queued(now, *queued, wire, connected), credit)
            }
            _ => (self.take_cell(now, item, wire, connected)?, 0),
        };
        Some(Taken {
            event: Event::Reading { item, reading },
            credit,
        })
    }

    /// The local copy of an item as it is now; it stays.
    pub(crate) fn peek(
        &self,
        now: Tick,
        item: u32,
        wire: &WireSubscription,
        connected: bool,
    ) -> Option<Reading> {
        let wire_item = wire.item(self.items.get(item as usize)?.wire_item)?;
        let copy = wire_item.copy.as_ref()?;
        let stale = self.staleness(now, copy, wire_item, connected);
        Some(copy.to_reading(wire_item.data_type.as_ref()?, Lost::NONE, stale))
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

    fn take_cell(
        &mut self,
        now: Tick,
        item: u32,
        wire: &WireSubscription,
        connected: bool,
    ) -> Option<Reading> {
        let mut reading = self.peek(now, item, wire, connected)?;
        let entry = self.items.get_mut(item as usize)?;
        entry.waiting = Waiting::Cell(None);
        reading.lost = std::mem::take(&mut entry.lost);
        self.ledger.taken += 1;
        self.ledger.waiting -= 1;
        Some(reading)
    }

    fn take_queued(
        &mut self,
        now: Tick,
        queued: Queued,
        wire: &WireSubscription,
        connected: bool,
    ) -> Reading {
        self.ledger.taken += 1;
        self.ledger.waiting -= 1;
        self.bytes -= queued.bytes;
        let mut wire_item = None;
        if let Some(entry) = self.items.get_mut(queued.item as usize) {
            match &mut entry.waiting {
                Waiting::Buffer(serials) => {
                    // `next_of` and the queue's order both take the oldest first.
                    serials.pop_front();
                    if serials.is_empty() && serials.capacity() > KEPT_SERIALS_MAX {
                        *serials = VecDeque::new();
                    }
                }
                Waiting::Count(count) => *count -= 1,
                Waiting::Cell(_) => {}
            }
            wire_item = wire.item(entry.wire_item);
        }
        let stale =
            wire_item.and_then(|item| self.staleness(now, &queued.received, item, connected));
        let data_type = wire_item.and_then(|item| item.data_type.as_ref());
        let data_type = data_type.unwrap_or(&trunkline_types::DataType::Bool);
        queued.received.to_reading(data_type, queued.lost, stale)
    }

    fn take_notice(&mut self, item: u32) -> Option<Event> {
        let (_, notice) = *self.items.get_mut(item as usize)?.notice.take()?;
        Some(match notice {
            Notice::Fault(fault) => Event::ItemError { item, fault },
            Notice::Ended {
                reason,
                last,
                lost,
                sentence,
            } => Event::Ended {
                item,
                reason,
                last,
                lost,
                sentence,
            },
        })
    }

    /// How old a reading is, when it may no longer be the current one.
    fn staleness(
        &self,
        now: Tick,
        received: &Received,
        item: &WireItem,
        connected: bool,
    ) -> Option<Duration> {
        let age = received.age(now);
        let is_live = connected && matches!(item.status, Status::Live);
        let max_age = self.options.max_age.or(item.max_age);
        match is_live {
            true => received.too_old(age, max_age),
            false => Some(age),
        }
    }
}

fn push_reading(queue: &mut Queue, item: u32, delivery: &Delivery<'_>, lost: Lost) -> u64 {
    queue.push(Body::Reading(Box::new(Queued {
        item,
        received: delivery.received.clone(),
        lost,
        bytes: delivery.bytes,
        credit: delivery.credit,
    })))
}
