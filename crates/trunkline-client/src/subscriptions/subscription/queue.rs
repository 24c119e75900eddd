//! The queue of one subscription: its entries in the order in which the program takes them.
//!
//! Readings, notices about items and changes of the connection share one order, so the program can
//! tell values before a reconnect from values after it. Under `latest` and `sampled`, an entry only
//! records *that* an item has a new value; the value is in the item's local copy.
//!
//! ```text
//! readings   |  0 |  1 |  2 |  5 |  6 |          values where they lie, no block of memory each
//! marks      |  3 (connection) |  4 (notice) |   everything else
//!               the numbers are serials: the smaller one at the two fronts is next
//! ```

use std::collections::VecDeque;

use trunkline_types::Reading;

use super::lane::{Lane, Slot};
use crate::event::Event;
use crate::subscriptions::remote::account::Missed;
use crate::variables::reading::Received;

/// Maximum number of queued connection events. Beyond it, the two oldest are dropped together.
pub(crate) const CONNECTION_EVENTS_MAX: usize = 16;
const DEAD: u32 = u32::MAX;

/// The queued entries of one subscription.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    readings: Lane<Queued>,
    marks: Lane<Mark>,
    next_serial: u64,
    /// Serials of the queued connection events.
    connection: VecDeque<u64>,
    /// Increases with every connection event. A cell may be replaced in place only within one era.
    era: u32,
}

#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) received: Received,
    pub(crate) missed: Missed,
    serial: u64,
    pub(crate) item: u32,
    /// Size of the value in wire form, in bytes.
    pub(crate) bytes: u32,
    /// The life of the remote subscription in which taking this reading returns one credit; 0 for
    /// none.
    pub(crate) credit: u32,
}

#[derive(Debug)]
struct Mark {
    serial: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Dead,
    Cell { item: u32 },
    Notice { item: u32 },
    Connection(Box<Event>),
}

/// The next entry, if it is not a queued reading.
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

    /// Same as [`into_reading`](Self::into_reading), but moves the value out.
    pub(crate) fn take_reading(&mut self) -> Reading {
        let (lost, stale) = (self.missed.lost(), self.received.stale_when_taken());
        self.received.take().into_reading(lost, stale)
    }

    /// Returns an entry for a reading that already exists and is not queued.
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

    /// Appends a mark that an item's local copy is new, and returns its serial.
    pub(crate) fn push_cell(&mut self, item: u32) -> u64 {
        self.push_mark(Kind::Cell { item })
    }

    pub(crate) fn push_notice(&mut self, item: u32) -> u64 {
        self.push_mark(Kind::Notice { item })
    }

    pub(crate) fn push_connection(&mut self, event: Event) {
        if self.connection.len() >= CONNECTION_EVENTS_MAX {
            for _ in 0..2 {
                if let Some(serial) = self.connection.pop_front() {
                    self.kill_mark(serial);
                }
            }
        }
        self.era = self.era.wrapping_add(1);
        let serial = self.push_mark(Kind::Connection(Box::new(event)));
        self.connection.push_back(serial);
    }

    pub(crate) fn era(&self) -> u32 {
        self.era
    }

    /// Removes a cell or a notice at any position. Returns true if it was queued.
    pub(crate) fn kill_mark(&mut self, serial: u64) -> bool {
        let Some(mark) = self.marks.find(serial) else {
            return false;
        };
        mark.kind = Kind::Dead;
        self.marks.bury();
        true
    }

    /// Removes a reading at any position, after passing it to `look`.
    pub(crate) fn kill_reading<T>(
        &mut self,
        serial: u64,
        look: impl FnOnce(&mut Queued) -> T,
    ) -> Option<T> {
        let queued = self.readings.find(serial)?;
        let result = look(queued);
        // Frees the contents now; the dead slot is removed with its neighbours.
        (queued.received.value, queued.missed, queued.item) = (None, Missed::NOTHING, DEAD);
        self.readings.bury();
        Some(result)
    }

    pub(crate) fn reading_mut(&mut self, serial: u64) -> Option<&mut Queued> {
        self.readings.find(serial)
    }

    /// Returns the serial of the item's oldest reading. Scans every entry before it.
    pub(crate) fn first_reading_of(&self, item: u32) -> Option<u64> {
        let mut readings = self.readings.slots.iter();
        readings
            .find(|queued| queued.item == item)
            .map(|queued| queued.serial)
    }

    /// Takes up to `most` readings from the front. First `look` visits all of them in place, then
    /// `give` receives each one. Returns their number, or 0 if the next entry is not a reading.
    #[inline(always)]
    pub(crate) fn take_readings(
        &mut self,
        most: usize,
        look: impl FnMut(&mut Queued),
        mut give: impl FnMut(Queued),
    ) -> usize {
        let Lane { slots, dead, peak } = &mut self.readings;
        let next = match self.marks.front_serial() {
            // Only the readings before the next mark.
            Some(mark) => slots.partition_point(|queued| queued.serial < mark),
            None => slots.len(),
        };
        *peak = (*peak).max(slots.len());
        let count = next.min(most);
        let alive = slots.range_mut(..count).filter(|queued| !queued.is_dead());
        alive.for_each(look);
        let mut taken = count;
        for queued in slots.drain(..count) {
            if queued.is_dead() {
                *dead -= 1;
                taken -= 1;
            } else {
                give(queued);
            }
        }
        if count > 0 {
            self.readings.left();
        }
        taken
    }

    /// Takes the next entry, unless it is a reading.
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
            // The first entry is never dead.
            Kind::Dead => return None,
        };
        Some(next)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.readings.len() + self.marks.len()
    }

    fn push_mark(&mut self, kind: Kind) -> u64 {
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

    fn is_dead(&self) -> bool {
        self.item == DEAD
    }
}

impl Slot for Mark {
    fn serial(&self) -> u64 {
        self.serial
    }

    fn is_dead(&self) -> bool {
        matches!(self.kind, Kind::Dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriptions::subscription::lane::KEPT_ENTRIES;

    /// Takes all entries, which must be cells, and returns their items in order.
    fn items(queue: &mut Queue) -> Vec<u32> {
        let mut items = Vec::new();
        while let Some(next) = queue.next_mark() {
            let Next::Cell { item } = next else {
                panic!("no cell: {next:?}")
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
        assert!(sut.kill_mark(serials[2]));
        assert!(sut.kill_mark(serials[0]));
        assert_eq!((sut.len(), items(&mut sut)), (3, vec![1, 3, 4]));
    }

    #[test]
    fn readings_and_everything_else_keep_one_order() {
        let mut sut = Queue::default();
        sut.push_cell(0);
        push_reading(&mut sut, 1);
        let gone = push_reading(&mut sut, 2);
        sut.push_notice(3);
        sut.push_connection(Event::Connected {
            session: 4,
            epoch: 1,
            engine_id: [0; 16],
        });
        push_reading(&mut sut, 5);
        assert_eq!(sut.kill_reading(gone, |queued| queued.item), Some(2));
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
    fn entries_that_were_taken_out_do_not_pile_up() {
        let mut sut = Queue::default();
        sut.push_cell(7);
        push_reading(&mut sut, 8);
        for item in 0..10_000 {
            let serial = sut.push_cell(item);
            sut.kill_mark(serial);
            let serial = push_reading(&mut sut, item);
            sut.kill_reading(serial, |_| ());
        }
        let held = (sut.marks.slots.len(), sut.readings.slots.len());
        assert!(held.0 < 100 && held.1 < 100, "{held:?} entries");
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
            panic!("nothing waits")
        };
        let expected = Event::Connected {
            session: 92,
            epoch: 1,
            engine_id: [0; 16],
        };
        assert_eq!(first, expected);
    }

    #[test]
    fn unneeded_room_is_released() {
        let mut sut = Queue::default();
        for item in 0..100_000 {
            sut.push_cell(item);
        }
        assert_eq!(items(&mut sut).len(), 100_000);
        sut.push_cell(7);
        assert_eq!(items(&mut sut), [7]);
        assert!(sut.marks.slots.capacity() <= 2 * KEPT_ENTRIES);
    }

    #[test]
    fn repeatedly_needed_room_is_kept() {
        let mut sut = Queue::default();
        let fill_and_empty = |queue: &mut Queue| {
            for item in 0..50_000 {
                queue.push_cell(item);
            }
            items(queue);
            queue.marks.slots.capacity()
        };
        let before = fill_and_empty(&mut sut);
        assert!(before >= 50_000);
        assert_eq!(fill_and_empty(&mut sut), before);
    }
}
