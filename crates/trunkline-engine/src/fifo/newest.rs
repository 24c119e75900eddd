//! The newest element of a FIFO, for observers.
//!
//! The readers of a single-process variable empty its FIFO, so its newest element may be gone when
//! an observer reads. Each writer therefore stores its last element in its own cell, with the
//! element's place in the FIFO. The element with the highest place is the newest. Because each cell
//! has only one writer, no atomic read-modify-write is needed.

use trunkline_ring::LastValue;

use crate::sync::{Arc, Mutex};

/// The last element of each writer of one FIFO.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    writers: Mutex<Vec<Arc<LastValue>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Number of writes by dropped writers.
    gone: u64,
    /// Number of writes that were seen or were replaced by a write that was seen.
    writes: u64,
    /// One past the place of the newest element that was seen.
    place: u64,
    element: Box<[u64]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Polled {
    pub(crate) is_new: bool,
    /// Number of writes replaced by newer ones since the last poll.
    pub(crate) replaced: u64,
}

impl Newest {
    pub(crate) fn add_writer(&self, words: usize) -> Arc<LastValue> {
        // One more word for the place.
        let last = Arc::new(LastValue::new(words + 1));
        self.writers.lock().push(Arc::clone(&last));
        last
    }

    /// Copies the newest element into `element` if it was not `seen` before.
    pub(crate) fn poll(&self, seen: &mut Seen, element: &mut [u64]) -> Polled {
        let mut writes = seen.gone;
        let mut is_new = false;
        let Seen {
            gone,
            place,
            element: read,
            ..
        } = seen;
        if read.len() != element.len() + 1 {
            *read = vec![0; element.len() + 1].into();
        }
        self.writers.lock().retain_mut(|last| {
            // Checked before the read: once the writer is gone, nothing follows, and everything
            // before is visible. A reference count alone would not guarantee that.
            let is_gone = Arc::get_mut(last).is_some();
            let snapshot = last.read(read);
            writes += snapshot.count;
            *gone += if is_gone { snapshot.count } else { 0 };
            if snapshot.complete
                && snapshot.count > 0
                && let [words @ .., at] = &**read
                && *at >= *place
            {
                *place = at + 1;
                element.copy_from_slice(words);
                is_new = true;
            }
            !is_gone
        });
        let new = writes.saturating_sub(seen.writes);
        seen.writes = writes;
        Polled {
            is_new,
            replaced: new.saturating_sub(u64::from(is_new)),
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn newest_value_is_the_one_with_the_highest_position() {
        let sut = Newest::default();
        let (a, b) = (sut.add_writer(1), sut.add_writer(1));
        let (mut seen, mut element) = (Seen::default(), [0]);
        let nothing = Polled {
            is_new: false,
            replaced: 0,
        };
        assert_eq!(sut.poll(&mut seen, &mut element), nothing);
        a.publish(&[10, 0]);
        let one = Polled {
            is_new: true,
            replaced: 0,
        };
        assert_eq!((sut.poll(&mut seen, &mut element), element), (one, [10]));
        assert_eq!(sut.poll(&mut seen, &mut element), nothing);
        b.publish(&[12, 2]);
        a.publish(&[11, 1]);
        let replaced = Polled {
            is_new: true,
            replaced: 1,
        };
        assert_eq!(
            (sut.poll(&mut seen, &mut element), element),
            (replaced, [12])
        );
        // This element was pushed earlier, but is published later.
        a.publish(&[11, 1]);
        let late = Polled {
            is_new: false,
            replaced: 1,
        };
        assert_eq!((sut.poll(&mut seen, &mut element), element), (late, [12]));
    }

    #[test]
    fn values_of_a_dropped_writer_still_count() {
        let sut = Newest::default();
        let (mut seen, mut element) = (Seen::default(), [0]);
        for place in 0..3 {
            let writer = sut.add_writer(1);
            writer.publish(&[7, 2 * place]);
            writer.publish(&[8 + place, 2 * place + 1]);
            drop(writer);
            let polled = sut.poll(&mut seen, &mut element);
            assert_eq!(
                (polled.is_new, polled.replaced, element),
                (true, 1, [8 + place])
            );
            assert!(sut.writers.lock().is_empty());
        }
    }
}
