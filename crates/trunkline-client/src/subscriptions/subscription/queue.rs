//! The queue of one subscription, with entries in the order in which the program takes them.
//!
//! Readings, notices about items and connection changes share one order, so the program can tell
//! readings before a reconnection from readings after it. Under `latest` and `sampled`, an entry
//! only records *that* an item has a new value. The value itself is in the item's local copy.
//!
//! ```text
//! readings   |  0 |  1 |  2 |  5 |  6 |          stored in the lane itself, without an allocation each
//! marks      |  3 (connection) |  4 (notice) |   all other entries
//!               The numbers are serials. The entry with the smaller serial of both fronts is next.
//! ```

use std::collections::VecDeque;

use trunkline_types::Reading;

use super::lane::{Lane, Slot};
use crate::event::Event;
use crate::subscriptions::remote::account::Missed;
use crate::variables::reading::Received;

/// Maximum number of queued connection events. Above it, the two oldest events are dropped
/// together.
pub(crate) const CONNECTION_EVENTS_MAX: usize = 16;
/// The `item` of a removed reading.
const REMOVED: u32 = u32::MAX;

/// The queued entries of one subscription.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    readings: Lane<Queued>,
    marks: Lane<Mark>,
    next_serial: u64,
    /// Serials of the queued connection events, oldest first.
    connection: VecDeque<u64>,
    /// Number of the current era, which every connection event increases. A new value may replace a
    /// queued one in place only within one era.
    era: u32,
}

#[derive(Debug)]
/// A queued reading.
pub(crate) struct Queued {
    pub(crate) received: Received,
    pub(crate) missed: Missed,
    serial: u64,
    pub(crate) item: u32,
    /// Size of the encoded value in bytes.
    pub(crate) bytes: u32,
    /// The credit period of the remote subscription to which the reading returns one credit when it
    /// is taken; 0 if it returns none.
    pub(crate) credit: u32,
}

#[derive(Debug)]
/// An entry other than a reading.
struct Mark {
    serial: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Removed,
    Cell { item: u32 },
    Notice { item: u32 },
    Connection(Box<Event>),
}

/// The next entry if it is not a reading.
#[derive(Debug)]
pub(crate) enum Next {
    /// The item's local copy has a new value.
    Cell {
        item: u32,
    },
    Notice {
        item: u32,
    },
    Connection(Event),
}

impl Queued {
    /// Converts the entry into the reading for the program.
    #[inline(always)]
    pub(crate) fn into_reading(self) -> Reading {
        let (lost, stale) = (self.missed.lost(), self.received.stale_when_taken());
        self.received.into_reading(lost, stale)
    }

    /// As [`into_reading`](Self::into_reading), but moves the value out of the entry.
    pub(crate) fn take_reading(&mut self) -> Reading {
        let (lost, stale) = (self.missed.lost(), self.received.stale_when_taken());
        self.received.take().into_reading(lost, stale)
    }

    /// Returns an entry for a reading outside a queue.
    #[inline]
    pub(crate) fn of_reading(item: u32, reading: Reading) -> Self {
        Self {
            missed: Missed::of(reading.lost),
            received: Received::of_reading(reading),
            serial: 0,
            item,
            bytes: 0,
            credit: 0,
        }
    }
}

impl Queue {
    #[inline(always)]
    pub(crate) fn push_reading(
        &mut self,
        item: u32,
        received: Received,
        missed: Missed,
        bytes: u32,
        credit: u32,
    ) -> u64 {
        let serial = self.take_serial();
        self.readings.push(Queued {
            received,
            missed,
            serial,
            item,
            bytes,
            credit,
        });
        serial
    }

    /// Appends a mark that an item's local copy has a new value. Returns the serial of the mark.
    pub(crate) fn push_cell(&mut self, item: u32) -> u64 {
        self.push_event(Kind::Cell { item })
    }

    pub(crate) fn push_notice(&mut self, item: u32) -> u64 {
        self.push_event(Kind::Notice { item })
    }

    pub(crate) fn push_connection(&mut self, event: Event) {
        if self.connection.len() >= CONNECTION_EVENTS_MAX {
            for _ in 0..2 {
                if let Some(serial) = self.connection.pop_front() {
                    self.remove_mark(serial);
                }
            }
        }
        self.era = self.era.wrapping_add(1);
        let serial = self.push_event(Kind::Connection(Box::new(event)));
        self.connection.push_back(serial);
    }

    pub(crate) fn era(&self) -> u32 {
        self.era
    }

    /// Removes a mark at any position. Returns true if it was queued.
    pub(crate) fn remove_mark(&mut self, serial: u64) -> bool {
        let Some(mark) = self.marks.find(serial) else {
            return false;
        };
        mark.kind = Kind::Removed;
        self.marks.count_removed();
        true
    }

    /// Passes a reading at any position to `visit`, then removes it.
    pub(crate) fn remove_reading<T>(
        &mut self,
        serial: u64,
        visit: impl FnOnce(&mut Queued) -> T,
    ) -> Option<T> {
        let queued = self.readings.find(serial)?;
        let result = visit(queued);
        // The contents are freed now. The slot is removed later, with its neighbours.
        (queued.received.value, queued.missed, queued.item) = (None, Missed::NOTHING, REMOVED);
        self.readings.count_removed();
        Some(result)
    }

    pub(crate) fn reading_mut(&mut self, serial: u64) -> Option<&mut Queued> {
        self.readings.find(serial)
    }

    /// Returns the serial of the item's oldest reading. Scans all entries before it.
    pub(crate) fn first_reading_of(&self, item: u32) -> Option<u64> {
        let mut readings = self.readings.slots.iter();
        readings
            .find(|queued| queued.item == item)
            .map(|queued| queued.serial)
    }

    /// Takes up to `most` readings from the front: first calls `visit` for all of them in place,
    /// then passes each to `take`. Returns their number, or 0 if the next entry is not a reading.
    #[inline(always)]
    pub(crate) fn take_readings(
        &mut self,
        most: usize,
        visit: impl FnMut(&mut Queued),
        mut take: impl FnMut(Queued),
    ) -> usize {
        let Lane {
            slots,
            removed,
            peak,
        } = &mut self.readings;
        let next = match self.marks.front_serial() {
            // Only the readings before the next mark are taken.
            Some(mark) => slots.partition_point(|queued| queued.serial < mark),
            None => slots.len(),
        };
        *peak = (*peak).max(slots.len());
        let count = next.min(most);
        let remaining = slots
            .range_mut(..count)
            .filter(|queued| !queued.is_removed());
        remaining.for_each(visit);
        let mut taken = count;
        for queued in slots.drain(..count) {
            if queued.is_removed() {
                *removed -= 1;
                taken -= 1;
            } else {
                take(queued);
            }
        }
        if count > 0 {
            self.readings.clean_up();
        }
        taken
    }

    /// Takes the next entry if it is not a reading.
    #[inline]
    pub(crate) fn next_mark(&mut self) -> Option<Next> {
        let mark = self.marks.front_serial()?;
        if self
            .readings
            .front_serial()
            .is_some_and(|first| first < mark)
        {
            return None;
        }
        let next = match self.marks.pop()?.kind {
            Kind::Cell { item } => Next::Cell { item },
            Kind::Notice { item } => Next::Notice { item },
            Kind::Connection(event) => {
                self.connection.pop_front();
                Next::Connection(*event)
            }
            // The first entry of a lane is never removed.
            Kind::Removed => return None,
        };
        Some(next)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.readings.len() + self.marks.len()
    }

    fn push_event(&mut self, kind: Kind) -> u64 {
        let serial = self.take_serial();
        self.marks.push(Mark { serial, kind });
        serial
    }

    fn take_serial(&mut self) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        serial
    }
}

impl Slot for Queued {
    fn serial(&self) -> u64 {
        self.serial
    }

    fn is_removed(&self) -> bool {
        self.item == REMOVED
    }
}

impl Slot for Mark {
    fn serial(&self) -> u64 {
        self.serial
    }

    fn is_removed(&self) -> bool {
        matches!(self.kind, Kind::Removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriptions::subscription::lane::EMPTY_LANE_CAPACITY_MAX;

    /// Takes all entries and returns their items in order. Every entry must be a cell.
    fn items(queue: &mut Queue) -> Vec<u32> {
        let mut items = Vec::new();
        while let Some(next) = queue.next_mark() {
            let Next::Cell { item } = next else {
                panic!("not a cell: {next:?}")
            };
            items.push(item);
        }
        items
    }

    fn push_reading(queue: &mut Queue, item: u32) -> u64 {
        queue.push_reading(item, Received::of_nothing(), Missed::NOTHING, 8, 0)
    }

    #[test]
    fn entries_leave_in_order_after_removals() {
        let mut sut = Queue::default();
        let serials: Vec<u64> = (0..5).map(|item| sut.push_cell(item)).collect();
        assert!(sut.remove_mark(serials[2]));
        assert!(sut.remove_mark(serials[0]));
        assert_eq!((sut.len(), items(&mut sut)), (3, vec![1, 3, 4]));
    }

    #[test]
    fn readings_and_marks_keep_one_order() {
        let mut sut = Queue::default();
        sut.push_cell(0);
        push_reading(&mut sut, 1);
        let middle = push_reading(&mut sut, 2);
        sut.push_notice(3);
        sut.push_connection(Event::Connected {
            session: 4,
            epoch: 1,
            engine_id: [0; 16],
        });
        push_reading(&mut sut, 5);
        assert_eq!(sut.remove_reading(middle, |queued| queued.item), Some(2));
        let mut order = Vec::new();
        loop {
            let taken = sut.take_readings(9, |_| {}, |queued| order.push(("reading", queued.item)));
            match sut.next_mark() {
                Some(Next::Cell { item }) => order.push(("cell", item)),
                Some(Next::Notice { item }) => order.push(("notice", item)),
                Some(Next::Connection(_)) => order.push(("connection", 4)),
                None if taken == 0 => break,
                None => {}
            }
        }
        let expected = [
            ("cell", 0),
            ("reading", 1),
            ("notice", 3),
            ("connection", 4),
            ("reading", 5),
        ];
        assert_eq!(order, expected);
        assert!(sut.is_empty());
    }

    #[test]
    fn removed_entries_do_not_accumulate() {
        let mut sut = Queue::default();
        sut.push_cell(7);
        push_reading(&mut sut, 8);
        for item in 0..10_000 {
            let serial = sut.push_cell(item);
            sut.remove_mark(serial);
            let serial = push_reading(&mut sut, item);
            sut.remove_reading(serial, |_| ());
        }
        let slots = (sut.marks.slots.len(), sut.readings.slots.len());
        assert!(slots.0 < 100 && slots.1 < 100, "{slots:?} entries");
        assert_eq!(sut.len(), 2);
    }

    #[test]
    fn connection_changes_are_bounded_and_stay_in_pairs() {
        let mut sut = Queue::default();
        for session in 0..100 {
            sut.push_connection(Event::Connected {
                session,
                epoch: 1,
                engine_id: [0; 16],
            });
            let cause = std::sync::Arc::new(trunkline_proto::Disconnect::PeerClosed);
            sut.push_connection(Event::Disconnected {
                cause,
                reconnecting: true,
            });
        }
        assert_eq!(sut.len(), CONNECTION_EVENTS_MAX);
        let Some(Next::Connection(first)) = sut.next_mark() else {
            panic!("the queue is empty")
        };
        let expected = Event::Connected {
            session: 92,
            epoch: 1,
            engine_id: [0; 16],
        };
        assert_eq!(first, expected);
    }

    #[test]
    fn unused_memory_is_released() {
        let mut sut = Queue::default();
        for item in 0..100_000 {
            sut.push_cell(item);
        }
        assert_eq!(items(&mut sut).len(), 100_000);
        sut.push_cell(7);
        assert_eq!(items(&mut sut), [7]);
        assert!(sut.marks.slots.capacity() <= 2 * EMPTY_LANE_CAPACITY_MAX);
    }

    #[test]
    fn repeatedly_used_memory_is_kept() {
        let mut sut = Queue::default();
        let fill_and_empty = |queue: &mut Queue| {
            for item in 0..50_000 {
                queue.push_cell(item);
            }
            items(queue);
            queue.marks.slots.capacity()
        };
        let capacity = fill_and_empty(&mut sut);
        assert!(capacity >= 50_000);
        assert_eq!(fill_and_empty(&mut sut), capacity);
    }
}
