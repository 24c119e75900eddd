//! The two ends of a FIFO or of a cell.

use trunkline_ring::{Fifo as Ring, FifoReader, LastValue, Overflow, Reader, RtCell};

use super::FifoMemory;
use super::layout::Layout;
use crate::sync::{Arc, Mutex};
use crate::update::Update;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtWrite {
    Written,
    /// The value is in the FIFO. The FIFO was full, so the oldest elements were discarded and
    /// counted.
    Overflowed {
        /// Number of discarded elements. It exceeds one if other writers took the room that this
        /// one had made.
        discarded: u64,
    },
    /// The value is not in the FIFO, and is counted as lost. The slot of the next element is
    /// blocked by a thread that was interrupted while it copied.
    Lost {
        /// Number of older elements that were discarded before the write was abandoned. They are
        /// also counted.
        discarded: u64,
    },
    /// The value was not stored: three other writers of a single-element FIFO are in the middle of
    /// a write.
    Busy,
}

#[derive(Debug)]
pub(crate) enum WriteSide {
    Single(Arc<RtCell>),
    /// The FIFO, and a cell for the last element if there are observers.
    Multi(Arc<Ring>, Option<Arc<LastValue>>),
}

impl WriteSide {
    pub(crate) fn new(memory: &FifoMemory, last: Option<Arc<LastValue>>) -> Self {
        match memory {
            FifoMemory::Single(cell) => WriteSide::Single(Arc::clone(cell)),
            FifoMemory::Multi(ring) => WriteSide::Multi(Arc::clone(ring), last),
        }
    }

    /// Writes an element given in two parts.
    #[inline]
    pub(crate) fn write(&self, words: &[u64], stamp: &[u64]) -> RtWrite {
        match self {
            WriteSide::Single(cell) => match cell.write_parts(words, stamp) {
                Ok(_) => RtWrite::Written,
                Err(_) => RtWrite::Busy,
            },
            WriteSide::Multi(ring, last) => {
                let (overflow, place) = ring.push_parts_overwriting(words, stamp);
                // Only for observers. An observer that reads in between sees the previous element.
                if let Some(last) = last
                    && overflow.stored
                {
                    match stamp {
                        [] => last.publish_parts(words, &[place]),
                        [stamp, ..] => last.publish_parts(words, &[*stamp, place]),
                    };
                }
                match overflow {
                    _ if overflow.is_none() => RtWrite::Written,
                    Overflow {
                        stored: true,
                        dropped,
                    } => RtWrite::Overflowed { discarded: dropped },
                    Overflow { dropped, .. } => RtWrite::Lost {
                        // The lost element itself also counts.
                        discarded: dropped.saturating_sub(1),
                    },
                }
            }
        }
    }
}

#[derive(Debug)]
pub(crate) enum ReadSide {
    Single(Reader<Arc<RtCell>>),
    Multi(FifoReader<Arc<Ring>>),
}

/// The FIFO of one real-time reader of a hosted variable, written by the variable's commits.
#[derive(Debug)]
pub(crate) struct ReaderFifo {
    layout: Layout,
    /// Uncontended, because the variable's lock serializes commits. Protects the buffer.
    side: Mutex<(WriteSide, Box<[u64]>)>,
}

impl ReaderFifo {
    pub(crate) fn new(memory: &FifoMemory, layout: Layout) -> Self {
        let element = vec![0; layout.words()].into();
        Self {
            layout,
            side: Mutex::new((WriteSide::new(memory, None), element)),
        }
    }

    /// Writes an update into the reader's FIFO. A full FIFO discards its oldest element and counts
    /// it (NV-12). Values of a length other than the declared one were already refused.
    pub(crate) fn deliver(&self, update: &Update) {
        let (side, element) = &mut *self.side.lock();
        if self.layout.to_words(update, element) {
            side.write(element, &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(ring: &Arc<Ring>) -> WriteSide {
        WriteSide::Multi(Arc::clone(ring), None)
    }

    #[test]
    fn overwriting_write_reports_what_it_discarded() {
        let ring = Arc::new(Ring::new(2, 1));
        let sut = side(&ring);
        let written = [1, 2, 3].map(|word| sut.write(&[word], &[]));
        let expected = [
            RtWrite::Written,
            RtWrite::Written,
            RtWrite::Overflowed { discarded: 1 },
        ];
        assert_eq!(written, expected);
        assert_eq!(ring.overflows(), 1);
    }

    /// An interrupted reader blocks the only slot.
    #[test]
    fn write_that_is_not_stored_is_reported() {
        let ring = Arc::new(Ring::new(1, 1));
        let sut = side(&ring);
        assert_eq!(sut.write(&[1], &[]), RtWrite::Written);
        let lost = ring.try_pop_with(|_| sut.write(&[2], &[]));
        assert_eq!(lost, Ok(RtWrite::Lost { discarded: 0 }));
        assert_eq!(ring.overflows(), 1, "it counts as lost");
        assert!(ring.try_pop(&mut [0]).is_err(), "and is not in the FIFO");
    }

    /// The losses reported to all writers add up to those counted by the FIFO.
    #[test]
    fn losses_reported_by_several_writers_add_up() {
        const WRITES: u64 = 20_000;
        let ring = Arc::new(Ring::new(4, 1));
        let reported = std::thread::scope(|scope| {
            let writers = [0, 1, 2].map(|_| {
                let sut = side(&ring);
                scope.spawn(move || {
                    let lost = |written| match written {
                        RtWrite::Overflowed { discarded } => discarded,
                        RtWrite::Lost { discarded } => discarded + 1,
                        RtWrite::Written | RtWrite::Busy => 0,
                    };
                    (0..WRITES)
                        .map(|word| lost(sut.write(&[word], &[])))
                        .sum::<u64>()
                })
            });
            writers
                .map(|writer| writer.join().unwrap())
                .iter()
                .sum::<u64>()
        });
        assert_eq!(reported, ring.overflows());
        assert_eq!(reported + ring.len() as u64, 3 * WRITES);
    }
}
