//! Tests of a reader that is overtaken by writers.

use std::cell::Cell;

use super::*;

/// A cell of one word whose writers overtake the reader while `is_overtaking` is set.
#[derive(Default)]
struct Overtaking {
    count: Cell<u64>,
    is_overtaking: Cell<bool>,
}

impl sealed::Sealed for Overtaking {}

impl WordCell for Overtaking {
    fn words(&self) -> usize {
        1
    }

    fn count(&self) -> u64 {
        self.count.get()
    }

    fn read(&self, out: &mut [u64]) -> Snapshot {
        if self.is_overtaking.get() {
            // Words from several writes.
            out[0] = u64::MAX;
            Snapshot::overtaken(self.count.get())
        } else {
            out[0] = self.count.get() * 10;
            Snapshot::complete(self.count.get())
        }
    }
}

#[test]
fn overtaken_reader_returns_its_previous_reading_and_reports_it() {
    let cell = Overtaking::default();
    let mut reader = Reader::new(&cell);
    cell.count.set(1);
    assert_eq!(
        reader.read(),
        Reading {
            words: &[10],
            count: 1,
            stale_read: false
        }
    );

    cell.count.set(2);
    cell.is_overtaking.set(true);
    for _ in 0..2 {
        assert_eq!(
            reader.read(),
            Reading {
                words: &[10],
                count: 1,
                stale_read: true
            }
        );
    }

    cell.is_overtaking.set(false);
    assert_eq!(
        reader.read(),
        Reading {
            words: &[20],
            count: 2,
            stale_read: false
        }
    );
}

#[test]
fn reader_without_a_complete_reading_returns_zeros() {
    let cell = Overtaking::default();
    cell.count.set(3);
    cell.is_overtaking.set(true);
    let mut reader = Reader::new(&cell);
    assert_eq!(
        reader.read(),
        Reading {
            words: &[0],
            count: 0,
            stale_read: true
        }
    );
}
