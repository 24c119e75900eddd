//! Endpoints of time-critical threads: a writer or a reader, with all its memory.

use trunkline_access::Action;
use trunkline_ring::{MarkSet, WholeWord, WordArray, Words};
use trunkline_types::Timestamp;

use super::Realtime;
use super::pump::Source;
use crate::caller::Caller;
use crate::delivery::outbox::{NoWake, Outbox};
use crate::delivery::subscribers::{Kind, Subscriber};
use crate::fifo::{FifoMemory, ReadSide, ReaderFifo, RtWrite, VariableFifo, WriteSide};
use crate::outcome::{AccessError, Refusal};
use crate::sync::Arc;
use crate::variable::Variable;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtRead {
    /// An element that this reader has not read before. With a single-element FIFO, it may be the
    /// same one again.
    Fresh,
    /// The FIFO was empty. The value is this reader's last element, or the type's default.
    Underflow,
    /// Writers overtook the reader on every attempt. The value is the reader's previous value.
    Overtaken,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RtReading<T> {
    pub value: T,
    /// Time at which the value was measured; `None` if the variable has no timestamps.
    pub timestamp: Option<Timestamp>,
    pub status: RtRead,
}

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RtError {
    #[error("{0}")]
    Access(AccessError),
    #[error("{0}")]
    Refused(Refusal),
    #[error("this engine has no room for another real-time writer; reuse existing writers")]
    TooMany,
    #[error("{name} has no real-time FIFO; set `fifo` in its library")]
    NoFifo { name: String },
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
    /// Dropped to tell the pump that no more elements follow.
    open: Option<Arc<()>>,
}

impl RtWriter {
    /// Writes one value, with the timestamp `at` if the variable has timestamps. An array has one
    /// word per element; a waveform consists of its start time, its interval and its samples.
    ///
    /// # Panics
    /// If `T` does not have the width of the variable, which [`words`](Realtime::words) returns.
    #[inline]
    pub fn write<T: Words>(&mut self, value: T, at: Timestamp) -> RtWrite {
        self.write_words(value.to_words().as_ref(), at)
    }

    /// Writes one value given as a slice of word-sized numbers, such as a block of `f64`. The slice
    /// is copied into the FIFO without conversion.
    ///
    /// # Panics
    /// If the number of words is not the width of the variable.
    pub fn write_slice<W: WholeWord>(&mut self, values: &[W], at: Timestamp) -> RtWrite {
        self.write_words(W::as_words(values), at)
    }

    /// Writes one value given as words.
    ///
    /// # Panics
    /// If the number of words is not the width of the variable.
    #[inline]
    pub fn write_words(&mut self, words: &[u64], at: Timestamp) -> RtWrite {
        let at = [at.as_nanos() as u64];
        let stamp = match self.stamped {
            true => &at[..],
            false => &[],
        };
        let written = self.side.write(words, stamp);
        // No wake-up is needed, because the pump polls every few milliseconds.
        self.marks.mark(self.mark);
        written
    }
}

impl Drop for RtWriter {
    fn drop(&mut self) {
        self.open = None;
        // The pump takes the remaining elements and then frees the place.
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
    /// Set if the reader has its own FIFO, which is removed from the variable on drop.
    hosted: Option<(Arc<Variable>, Arc<Outbox>)>,
}

impl RtReader {
    /// Reads a value: the newest element of a single-element FIFO, the next element of a
    /// multi-element FIFO.
    ///
    /// # Panics
    /// If the width of `T` is not the width for which the endpoint was created.
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

    /// Reads a value as a slice of word-sized numbers, such as a block of `f64`. The slice refers
    /// to the reader's buffer of its last element.
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
    // Kept as a separate function, so that the result is returned in registers: 2.0 ns instead of
    // 5.1 ns.
    #[inline(never)]
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
            crate::subscriptions::forget(variable, outbox, 0);
        }
    }
}

impl Realtime<'_> {
    /// Creates a writing endpoint for a variable with a FIFO. Allocates all memory (SP-20).
    pub fn writer(&self, caller: &Caller, name: &str) -> Result<RtWriter, RtError> {
        let variable = self
            .core
            .resolve_one(caller, name)
            .map_err(RtError::Access)?;
        if !variable.permits(caller, Action::Write) {
            return Err(RtError::Refused(Refusal::Denied {
                action: Action::Write,
            }));
        }
        if let Some(refusal) = Refusal::by_access(variable.name(), variable.properties().access) {
            return Err(RtError::Refused(refusal));
        }
        let realtime = realtime(&variable)?;
        let properties = variable.properties();
        let open = Arc::new(());
        let memory = match &realtime.shared {
            Some(shared) => shared.memory.clone(),
            None => FifoMemory::new(properties.fifo, &realtime.layout),
        };
        let pump = self.table;
        let mark = match &realtime.shared {
            Some(shared) => pump.register_shared(&shared.pump_index, || {
                Source::watch(&variable, &memory, &shared.newest)
            }),
            None => pump.register(Source::drain(&variable, &memory, &open)),
        };
        let mark = mark.ok_or(RtError::TooMany)?;
        let shared = realtime.shared.as_ref();
        let last = shared.map(|shared| shared.newest.add_writer(realtime.layout.words()));
        Ok(RtWriter {
            side: WriteSide::new(&memory, last),
            marks: pump.marks(),
            mark,
            stamped: properties.timestamps,
            open: Some(open),
        })
    }

    /// Creates a reading endpoint for a variable with a FIFO. Allocates all memory (SP-20).
    pub fn reader(&self, caller: &Caller, name: &str) -> Result<RtReader, RtError> {
        let variable = self
            .core
            .resolve_one(caller, name)
            .map_err(RtError::Access)?;
        variable.check_readable(caller).map_err(RtError::Access)?;
        let realtime = realtime(&variable)?;
        let stamped = variable.properties().timestamps;
        if let Some(shared) = &realtime.shared {
            return Ok(RtReader {
                side: shared.memory.reader(),
                stamped,
                hosted: None,
            });
        }
        let layout = realtime.layout.clone();
        let memory = FifoMemory::new(variable.properties().fifo, &layout);
        let side = memory.reader();
        let fifo = Arc::new(ReaderFifo::new(&memory, layout));
        // Real-time readers poll, so they need no wake-up.
        let outbox = Arc::new(Outbox::new(Box::new(NoWake), false, None));
        let mut state = variable.lock();
        let current = variable.update_locked(&state);
        if current.sequence > 0 {
            fifo.deliver(&current);
        }
        state.make_subscribers().add(Subscriber {
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

    /// Returns the number of words in one value of a variable with a FIFO, excluding its timestamp.
    pub fn words(&self, caller: &Caller, name: &str) -> Result<usize, RtError> {
        let variable = self
            .core
            .resolve_one(caller, name)
            .map_err(RtError::Access)?;
        let stamp = usize::from(variable.properties().timestamps);
        Ok(realtime(&variable)?.layout.words() - stamp)
    }
}
fn realtime(variable: &Variable) -> Result<&VariableFifo, RtError> {
    variable.realtime.as_deref().ok_or_else(|| RtError::NoFifo {
        name: variable.name().to_owned(),
    })
}
