//! What waits for the program under one subscription, in the order it is to be taken.
//!
//! Readings, notices about items and changes of the connection share one queue, so that "the value
//! after the reconnect" is never confused with "the value before". Under `latest` and `sampled` an
//! entry only says *that* an item has something new; the value is in the item's local copy.

use std::collections::VecDeque;

use trunkline_types::Lost;

use crate::event::Event;
use crate::reading::Received;

/// Changes of the connection that wait at most; beyond, the two oldest are forgotten together.
pub(crate) const CONNECTION_EVENTS_MAX: usize = 16;
/// An empty queue with more room than this gives it back.
const KEPT_ENTRIES_MAX: usize = 1024;

/// The entries of one subscription.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: VecDeque<Entry>,
    next_serial: u64,
    /// Entries that were taken out of the middle and leave with their neighbours.
    dead: usize,
    /// Serials of the connection events that wait.
    connection: VecDeque<u64>,
    /// Rises with every connection event: a cell may be replaced in place only within one era.
    era: u32,
}

#[derive(Debug)]
struct Entry {
    serial: u64,
    body: Body,
}

/// What an entry stands for.
#[derive(Debug)]
pub(crate) enum Body {
    /// Taken out.
    Dead,
    /// The item's local copy has something new.
    Cell { item: u32 },
    /// A reading of its own.
    Reading(Box<Queued>),
    /// The item has a notice.
    Notice { item: u32 },
    /// The connection changed.
    Connection(Box<Event>),
}

/// A reading that waits.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) item: u32,
    pub(crate) received: Received,
    pub(crate) lost: Lost,
    /// Bytes of the value in wire form.
    pub(crate) bytes: usize,
    /// The life of its wire subscription in which taking it makes room for one more; 0 for none.
    pub(crate) credit: u32,
}

impl Queue {
    pub(crate) fn push(&mut self, body: Body) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.entries.push_back(Entry { serial, body });
        serial
    }

    /// Appends a change of the connection.
    pub(crate) fn push_connection(&mut self, event: Event) {
        if self.connection.len() >= CONNECTION_EVENTS_MAX {
            for _ in 0..2 {
                if let Some(serial) = self.connection.pop_front() {
                    self.kill(serial);
                }
            }
        }
        self.era = self.era.wrapping_add(1);
        let serial = self.push(Body::Connection(Box::new(event)));
        self.connection.push_back(serial);
    }

    pub(crate) fn era(&self) -> u32 {
        self.era
    }

    /// Takes an entry out, wherever it is.
    pub(crate) fn kill(&mut self, serial: u64) -> Option<Body> {
        let index = self.index_of(serial)?;
        let entry = self.entries.get_mut(index)?;
        let body = std::mem::replace(&mut entry.body, Body::Dead);
        self.dead += 1;
        self.trim();
        if self.dead > 32 && self.dead > self.entries.len() / 2 {
            self.entries
                .retain(|entry| !matches!(entry.body, Body::Dead));
            self.dead = 0;
        }
        Some(body)
    }

    /// The reading with this serial.
    pub(crate) fn reading_mut(&mut self, serial: u64) -> Option<&mut Queued> {
        let index = self.index_of(serial)?;
        match &mut self.entries.get_mut(index)?.body {
            Body::Reading(queued) => Some(queued),
            _ => None,
        }
    }

    /// The serial of the item's oldest reading. Looks at every entry before it.
    pub(crate) fn first_reading_of(&self, item: u32) -> Option<u64> {
        let is_his = |entry: &&Entry| match &entry.body {
            Body::Reading(queued) => queued.item == item,
            _ => false,
        };
        self.entries.iter().find(is_his).map(|entry| entry.serial)
    }

    pub(crate) fn pop(&mut self) -> Option<Body> {
        let entry = self.entries.pop_front()?;
        self.trim();
        if matches!(entry.body, Body::Connection(_)) {
            self.connection.pop_front();
        }
        if self.entries.is_empty() && self.entries.capacity() > KEPT_ENTRIES_MAX {
            self.entries = VecDeque::new();
        }
        Some(entry.body)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries that wait.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.dead
    }

    fn index_of(&self, serial: u64) -> Option<usize> {
        self.entries
            .binary_search_by_key(&serial, |entry| entry.serial)
            .ok()
    }

    /// The first entry is never a dead one.
    fn trim(&mut self) {
        while let Some(Entry {
            body: Body::Dead, ..
        }) = self.entries.front()
        {
            self.entries.pop_front();
            self.dead -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(sut: &mut Queue) -> Vec<u32> {
        let item = |body| match body {
            Body::Cell { item } => item,
            other => panic!("not a cell: {other:?}"),
        };
        std::iter::from_fn(|| sut.pop()).map(item).collect()
    }

    #[test]
    fn an_entry_can_be_taken_out_of_the_middle() {
        let mut sut = Queue::default();
        let serials: Vec<u64> = (0..5).map(|item| sut.push(Body::Cell { item })).collect();
        assert!(matches!(sut.kill(serials[2]), Some(Body::Cell { item: 2 })));
        assert!(matches!(sut.kill(serials[0]), Some(Body::Cell { item: 0 })));
        assert_eq!((sut.len(), items(&mut sut)), (3, vec![1, 3, 4]));
    }

    #[test]
    fn entries_that_were_taken_out_do_not_pile_up() {
        let mut sut = Queue::default();
        sut.push(Body::Cell { item: 7 });
        for item in 0..10_000 {
            let serial = sut.push(Body::Cell { item });
            sut.kill(serial);
        }
        assert!(sut.entries.len() < 100, "{} entries", sut.entries.len());
        assert_eq!(items(&mut sut), [7]);
    }

    #[test]
    fn connection_changes_are_bounded_and_stay_in_pairs() {
        let mut sut = Queue::default();
        for session in 0..100 {
            sut.push_connection(Event::Connected { session, epoch: 1 });
            let cause = std::sync::Arc::new(trunkline_proto::Disconnect::PeerClosed);
            sut.push_connection(Event::Disconnected {
                cause,
                reconnecting: true,
            });
        }
        assert_eq!(sut.len(), CONNECTION_EVENTS_MAX);
        let Some(Body::Connection(first)) = sut.pop() else {
            panic!("nothing waits")
        };
        assert_eq!(
            *first,
            Event::Connected {
                session: 92,
                epoch: 1
            }
        );
    }

    #[test]
    fn an_emptied_queue_gives_its_memory_back() {
        let mut sut = Queue::default();
        for item in 0..100_000 {
            sut.push(Body::Cell { item });
        }
        assert_eq!(items(&mut sut).len(), 100_000);
        assert_eq!(sut.entries.capacity(), 0);
    }
}
