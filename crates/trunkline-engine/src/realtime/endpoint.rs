//! Endpoints of time-critical threads: a writing or a reading end, with all its memory.

use trunkline_ring::Fifo as Ring;
use trunkline_ring::{
    FifoReader, LastValue, MarkSet, Overflow, Reader, RtCell, WholeWord, WordArray, Words,
};
use trunkline_types::Timestamp;

use super::layout::Layout;
use super::pump::Source;
use super::{RealTime, Target};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::interest::{Interest, Kind};
use crate::outbox::{NoWake, Outbox};
use crate::outcome::{AccessError, Refusal};
use crate::sync::{Arc, Mutex};
use crate::update::Update;
use crate::variable::Variable;

/// The outcome of a real-time write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtWrite {
    /// The value is in the FIFO.
    Written,
    /// The value is in the FIFO, which was full: the oldest elements were discarded, and counted.
    Overflowed {
        /// Number of elements discarded. It exceeds one if other writers took the room made by this
        /// one.
        discarded: u64,
    },
    /// The value is not in the FIFO, and is counted as lost: the slot of the next element is held
    /// by a thread that was interrupted while it copied.
    Lost {
        /// Number of older elements discarded before the write was given up. They are counted too.
        discarded: u64,
    },
    /// The value was not stored: three other writers of a single-element FIFO are stuck in the
    /// middle of a write.
    Busy,
}

/// The kind of result of a real-time read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtRead {
    /// An element that this reader has not had before. Of a single-element FIFO it may be the same
    /// again.
    Fresh,
    /// The FIFO was empty. The value is this reader's last element, or the type's default.
    Underflow,
    /// Writers overtook the reader on every attempt. The value is its previous reading.
    Overtaken,
}

/// A real-time reading: the value, and whether it is new.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RtReading<T> {
    /// The value.
    pub value: T,
    /// Time at which the value was measured; `None` if the variable has no timestamps.
    pub timestamp: Option<Timestamp>,
    /// Tells a new value from a repeated one.
    pub status: RtRead,
}

/// The reason why a real-time endpoint could not be created.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RtError {
    /// The variable cannot be opened.
    #[error("{0}")]
    Access(AccessError),
    /// The variable may not be written.
    #[error("{0}")]
    Refused(Refusal),
    /// The engine has no more places for real-time writers.
    #[error("this engine has no place for another real-time writer; reuse those you have")]
    TooMany,
    /// The variable has no FIFO configured.
    #[error("{name} has no real-time FIFO; set `fifo` in its library")]
    NoFifo {
        /// Name of the variable.
        name: String,
    },
}
/// A writing endpoint for a time-critical thread.
///
/// # Real-time
/// Creating and dropping it allocates and frees memory. [`RtWriter::write`] does not allocate,
/// takes no lock and makes no system call.
#[derive(Debug)]
pub struct RtWriter {
    side: WriteSide,
    marks: Arc<MarkSet>,
    mark: u32,
    stamped: bool,
    /// Dropped to tell the pump that nothing more follows.
    open: Option<Arc<()>>,
}

impl RtWriter {
    /// Writes one value, stamped `at` if the variable has timestamps. An array has one word per
    /// element; a waveform consists of its start time, its interval and its samples.
    ///
    /// # Panics
    /// If `T` does not have the width of the variable, which [`Engine::rt_words`] returns.
    #[inline]
    pub fn write<T: Words>(&mut self, value: T, at: Timestamp) -> RtWrite {
        self.write_words(value.to_words().as_ref(), at)
    }

    /// Writes one value given as a slice of numbers that are words, such as a block of `f64`. It is
    /// copied into the FIFO without conversion.
    ///
    /// # Panics
    /// If the width is not the variable's.
    pub fn write_slice<W: WholeWord>(&mut self, values: &[W], at: Timestamp) -> RtWrite {
        self.write_words(W::as_words(values), at)
    }

    /// Writes one value given as words.
    ///
    /// # Panics
    /// If the width is not the variable's.
    #[inline]
    pub fn write_words(&mut self, words: &[u64], at: Timestamp) -> RtWrite {
        let at = [at.as_nanos() as u64];
        let stamp = match self.stamped {
            true => &at[..],
            false => &[],
        };
        let written = self.side.write(words, stamp);
        // No wake-up is needed, because the pump checks by itself every few milliseconds.
        self.marks.mark(self.mark);
        written
    }
}

/// Destination of a writer's elements.
#[derive(Debug)]
pub(super) enum WriteSide {
    /// The cell, and a buffer to assemble an element in.
    Single(Arc<RtCell>, Box<[u64]>),
    /// The FIFO, and a cell for the last element if others look at it.
    Multi(Arc<Ring>, Option<Arc<LastValue>>),
}

impl WriteSide {
    pub(super) fn new(target: &Target, last: Option<Arc<LastValue>>) -> Self {
        match target {
            Target::Single(cell) => {
                WriteSide::Single(Arc::clone(cell), vec![0; cell.words()].into())
            }
            Target::Multi(ring) => WriteSide::Multi(Arc::clone(ring), last),
        }
    }

    /// Writes an element given in two parts.
    #[inline]
    pub(super) fn write(&mut self, words: &[u64], stamp: &[u64]) -> RtWrite {
        match self {
            WriteSide::Single(cell, element) => {
                let (value, rest) = element.split_at_mut(words.len());
                value.copy_from_slice(words);
                rest.copy_from_slice(stamp);
                match cell.write(element) {
                    Ok(_) => RtWrite::Written,
                    Err(_) => RtWrite::Busy,
                }
            }
            WriteSide::Multi(ring, last) => {
                let (overflow, place) = ring.push_parts_overwriting(words, stamp);
                // Only for observers. One that looks in between sees the previous element.
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
                        // The lost element itself is counted too.
                        discarded: dropped.saturating_sub(1),
                    },
                }
            }
        }
    }
}

impl Drop for RtWriter {
    fn drop(&mut self) {
        self.open = None;
        // The pump takes the remaining elements, then frees the place.
        self.marks.mark(self.mark);
    }
}

/// A reading endpoint for a time-critical thread.
///
/// # Real-time
/// Creating it allocates memory. [`RtReader::read`] does not allocate, takes no lock and makes no
/// system call.
#[derive(Debug)]
pub struct RtReader {
    side: ReadSide,
    stamped: bool,
    /// Set if the reader has a FIFO of its own, which is removed from the variable on drop.
    hosted: Option<(Arc<Variable>, Arc<Outbox>)>,
}

#[derive(Debug)]
pub(super) enum ReadSide {
    Single(Reader<Arc<RtCell>>),
    Multi(FifoReader<Arc<Ring>>),
}

impl RtReader {
    /// Reads a value: the newest one of a single-element FIFO, the next one of a multi-element
    /// FIFO.
    ///
    /// # Panics
    /// If `T` does not have the width that the endpoint was created for.
    #[inline]
    pub fn read<T: Words>(&mut self) -> RtReading<T> {
        let stamped = self.stamped;
        let (words, status) = self.read_words();
        let width = words.len() - usize::from(stamped);
        let mut array = T::Array::ZERO;
        array.as_mut().copy_from_slice(&words[..width]);
        let timestamp = stamped.then(|| Timestamp::from_nanos(words[width] as i64));
        RtReading {
            value: T::from_words(array),
            timestamp,
            status,
        }
    }

    /// Reads a value as a slice of numbers that are words, such as a block of `f64`. The slice is
    /// the reader's buffer of its last element.
    pub fn read_slice<W: WholeWord>(&mut self) -> RtReading<&[W]> {
        let stamped = self.stamped;
        let (words, status) = self.read_words();
        let (words, stamp) = words.split_at(words.len() - usize::from(stamped));
        RtReading {
            value: W::of_words(words),
            timestamp: stamp
                .first()
                .map(|word| Timestamp::from_nanos(*word as i64)),
            status,
        }
    }

    /// Reads a value as words, followed by its timestamp if the variable has timestamps.
    #[inline]
    pub fn read_words(&mut self) -> (&[u64], RtRead) {
        match &mut self.side {
            ReadSide::Single(reader) => {
                let reading = reader.read();
                let status = if reading.stale_read {
                    RtRead::Overtaken
                } else {
                    RtRead::Fresh
                };
                (reading.words, status)
            }
            ReadSide::Multi(reader) => {
                let reading = reader.read();
                let status = if reading.underflow {
                    RtRead::Underflow
                } else {
                    RtRead::Fresh
                };
                (reading.words, status)
            }
        }
    }

    /// Number of elements discarded because this reader's FIFO was full.
    pub fn overflows(&self) -> u64 {
        match &self.side {
            ReadSide::Single(_) => 0,
            ReadSide::Multi(reader) => reader.fifo().overflows(),
        }
    }
}

impl Drop for RtReader {
    fn drop(&mut self) {
        if let Some((variable, outbox)) = &self.hosted {
            crate::consumer::forget(variable, outbox, 0);
        }
    }
}

/// The FIFO of one real-time reader of a hosted variable, as seen by the variable's commits.
#[derive(Debug)]
pub(crate) struct ReaderFifo {
    layout: Layout,
    /// Uncontended, because commits are serialized by the variable's lock. Protects the buffer.
    side: Mutex<(WriteSide, Box<[u64]>)>,
}

impl ReaderFifo {
    /// Writes an update into the reader's FIFO. A full FIFO discards its oldest element and counts
    /// it (NV-12). A value with another length than declared was already refused.
    pub(crate) fn deliver(&self, update: &Update) {
        let (side, element) = &mut *self.side.lock();
        if self.layout.to_words(update, element) {
            side.write(element, &[]);
        }
    }
}

impl Engine {
    /// Creates a writing endpoint of a variable with a FIFO. All memory is allocated here (SP-20).
    ///
    /// # Errors
    /// [`RtError`]: the variable is unknown, cannot be written by the caller, or has no FIFO, or
    /// there are too many writers.
    pub fn rt_writer(&self, caller: &Caller, name: &str) -> Result<RtWriter, RtError> {
        let variable = self.resolve_one(caller, name).map_err(RtError::Access)?;
        if !caller.rights.write {
            return Err(RtError::Refused(Refusal::Denied));
        }
        if let Some(refusal) = Refusal::by_access(variable.properties().access) {
            return Err(RtError::Refused(refusal));
        }
        let realtime = realtime(&variable)?;
        let properties = variable.properties();
        let open = Arc::new(());
        let target = match &realtime.own {
            Some(own) => own.target.clone(),
            None => Target::new(properties.fifo, &realtime.layout),
        };
        let pump = self.pump_state();
        let mark = match &realtime.own {
            Some(own) => {
                pump.register_shared(&own.mark, || Source::watch(&variable, &target, &own.newest))
            }
            None => pump.register(Source::drain(&variable, &target, &open)),
        };
        let mark = mark.ok_or(RtError::TooMany)?;
        let own = realtime.own.as_ref();
        let last = own.map(|own| own.newest.add_writer(realtime.layout.words()));
        Ok(RtWriter {
            side: WriteSide::new(&target, last),
            marks: pump.marks(),
            mark,
            stamped: properties.timestamps,
            open: Some(open),
        })
    }

    /// Creates a reading endpoint of a variable with a FIFO. All memory is allocated here (SP-20).
    ///
    /// # Errors
    /// [`RtError`]: the variable is unknown, cannot be read by the caller, or has no FIFO.
    pub fn rt_reader(&self, caller: &Caller, name: &str) -> Result<RtReader, RtError> {
        let variable = self.resolve_one(caller, name).map_err(RtError::Access)?;
        variable.check_readable(caller).map_err(RtError::Access)?;
        let realtime = realtime(&variable)?;
        let stamped = variable.properties().timestamps;
        if let Some(own) = &realtime.own {
            return Ok(RtReader {
                side: own.target.reader(),
                stamped,
                hosted: None,
            });
        }
        let layout = realtime.layout.clone();
        let target = Target::new(variable.properties().fifo, &layout);
        let side = target.reader();
        let element = vec![0; layout.words()].into();
        let fifo = Arc::new(ReaderFifo {
            layout,
            side: Mutex::new((WriteSide::new(&target, None), element)),
        });
        // Readers of a real-time endpoint poll.
        let outbox = Arc::new(Outbox::new(Box::new(NoWake), false, None));
        let mut state = variable.lock();
        let current = variable.update_locked(&state);
        if current.sequence > 0 {
            fifo.deliver(&current);
        }
        state.make_interests().add(Interest {
            outbox: Arc::clone(&outbox),
            item: 0,
            only_changes: false,
            filtered: 0,
            kind: Kind::Fifo(fifo),
        });
        drop(state);
        Ok(RtReader {
            side,
            stamped,
            hosted: Some((Arc::clone(&variable), outbox)),
        })
    }

    /// Number of words in one value of a variable with a FIFO, without its timestamp.
    ///
    /// # Errors
    /// [`RtError`]: the variable is unknown or has no FIFO.
    pub fn rt_words(&self, caller: &Caller, name: &str) -> Result<usize, RtError> {
        let variable = self.resolve_one(caller, name).map_err(RtError::Access)?;
        let stamp = usize::from(variable.properties().timestamps);
        Ok(realtime(&variable)?.layout.words() - stamp)
    }
}
fn realtime(variable: &Variable) -> Result<&RealTime, RtError> {
    variable.realtime.as_deref().ok_or_else(|| RtError::NoFifo {
        name: variable.name().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(ring: &Arc<Ring>) -> WriteSide {
        WriteSide::Multi(Arc::clone(ring), None)
    }

    #[test]
    fn a_write_that_makes_room_says_how_much_it_discarded() {
        let ring = Arc::new(Ring::new(2, 1));
        let mut sut = side(&ring);
        let written = [1, 2, 3].map(|word| sut.write(&[word], &[]));
        let expected = [
            RtWrite::Written,
            RtWrite::Written,
            RtWrite::Overflowed { discarded: 1 },
        ];
        assert_eq!(written, expected);
        assert_eq!(ring.overflows(), 1);
    }

    /// The only slot is held by a reader that was interrupted.
    #[test]
    fn a_write_that_is_stored_nowhere_says_so() {
        let ring = Arc::new(Ring::new(1, 1));
        let mut sut = side(&ring);
        assert_eq!(sut.write(&[1], &[]), RtWrite::Written);
        let lost = ring.try_pop_with(|_| sut.write(&[2], &[]));
        assert_eq!(lost, Ok(RtWrite::Lost { discarded: 0 }));
        assert_eq!(ring.overflows(), 1, "it counts as lost");
        assert!(ring.try_pop(&mut [0]).is_err(), "and is not there");
    }

    /// The losses reported to all writers add up to those counted by the FIFO.
    #[test]
    fn what_several_writers_report_adds_up_to_what_was_lost() {
        const WRITES: u64 = 20_000;
        let ring = Arc::new(Ring::new(4, 1));
        let reported = std::thread::scope(|scope| {
            let writers = [0, 1, 2].map(|_| {
                let mut sut = side(&ring);
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
