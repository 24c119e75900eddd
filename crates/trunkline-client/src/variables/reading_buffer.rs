//! Stores the readings of many variables in one block of memory, as the result of a bulk read.

use std::time::Duration;

use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Lost, Position, Quality, Reading, Sample, Timestamp, Value};

use super::convert::FromValue;
use super::{VariableRef, Variables};

/// Placeholder for a missing value. The program never sees it.
const NO_VALUE: &Value = &Value::Bool(false);

/// The readings of a list of variables, in order, in one block of memory. A program reads them in
/// place, by index or in sequence, and copies a reading only on request. A variable that could not
/// be read has a fault instead of a reading.
///
/// Programs should use one buffer again and again, because refilling it needs no new memory.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReadingBuffer {
    entries: Vec<Entry>,
    /// Faults of the entries without a value, with their indices in ascending order.
    faults: Vec<(u32, Fault)>,
    epoch: u64,
}

/// A reading in a [`ReadingBuffer`].
#[derive(Clone, Copy, Debug)]
pub struct ReadingRef<'a> {
    entry: &'a Entry,
    epoch: u64,
}

/// One entry of a buffer, at most 64 bytes in size.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    /// The value; `None` if the entry is a fault.
    pub(crate) value: Option<Value>,
    pub(crate) source_timestamp: Timestamp,
    pub(crate) engine_timestamp: Timestamp,
    pub(crate) sequence: u64,
    /// The age of a stale reading in nanoseconds.
    pub(crate) age_ns: u64,
    pub(crate) quality: Quality,
    pub(crate) is_stale: bool,
    pub(crate) own: bool,
}

const _: () = assert!(size_of::<Entry>() <= 64);

impl ReadingBuffer {
    /// Returns an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of variables that were read.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no variable was read.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the result for the variable at `index` in the list; `None` beyond the end of the
    /// list.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Result<ReadingRef<'_>, &Fault>> {
        let entry = self.entries.get(index)?;
        Some(self.result(index, entry))
    }

    /// Returns the result for each variable, in the order of the list.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<ReadingRef<'_>, &Fault>> {
        let entries = self.entries.iter().enumerate();
        entries.map(|(index, entry)| self.result(index, entry))
    }

    /// Returns the values converted to `T`, in the order of the list. An element is `None` for a
    /// value of another type and for a fault.
    #[inline]
    pub fn values<T: FromValue>(&self) -> impl ExactSizeIterator<Item = Option<T>> {
        let entries = self.entries.iter();
        entries.map(|entry| entry.value.as_ref().and_then(T::from_value))
    }

    /// Returns the faults, with the indices of their variables.
    pub fn faults(&self) -> impl Iterator<Item = (usize, &Fault)> {
        let faults = self.faults.iter();
        faults.map(|(index, fault)| (*index as usize, fault))
    }

    /// Copies every result into a separate reading.
    pub fn to_readings(&self) -> Vec<Result<Reading, Fault>> {
        let readings = self.iter();
        readings
            .map(|one| {
                one.map(|reading| reading.to_reading())
                    .map_err(Clone::clone)
            })
            .collect()
    }

    /// Removes all contents and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.faults.clear();
    }

    #[inline]
    fn result<'p>(&'p self, index: usize, entry: &'p Entry) -> Result<ReadingRef<'p>, &'p Fault> {
        match entry.value {
            Some(_) => Ok(ReadingRef {
                entry,
                epoch: self.epoch,
            }),
            None => Err(self.fault(index)),
        }
    }

    #[cold]
    fn fault(&self, index: usize) -> &Fault {
        let found = self
            .faults
            .binary_search_by_key(&index, |(fault_index, _)| *fault_index as usize);
        let fault = found.ok().and_then(|at| self.faults.get(at));
        fault.map_or(&NO_FAULT, |(_, fault)| fault)
    }

    pub(crate) fn into_readings(self) -> Vec<Result<Reading, Fault>> {
        if !self.faults.is_empty() {
            return self.to_readings();
        }
        let epoch = self.epoch;
        let entries = self.entries.into_iter();
        entries.map(|entry| Ok(entry.into_reading(epoch))).collect()
    }
}

/// Placeholder that is never returned, because every entry without a value has its own fault.
static NO_FAULT: Fault = Fault {
    code: FaultCode::Internal,
    sentence: String::new(),
};

/// Defines the accessors of a reading that return the fields of `$parts` with the same names.
macro_rules! reading_parts {
    ($self:ident, $parts:expr) => {
        /// Returns the value converted to `T`; `None` if the value has another type, or if there is
        /// no value yet.
        #[inline]
        pub fn get<T: FromValue>(&$self) -> Option<T> {
            match $self.quality().has_value() {
                true => T::from_value($self.value()),
                false => None,
            }
        }

        /// Returns the time of measurement of the value.
        #[inline]
        pub fn source_timestamp(&$self) -> Timestamp {
            $parts.source_timestamp
        }

        /// Returns the time at which the engine accepted the update.
        #[inline]
        pub fn engine_timestamp(&$self) -> Timestamp {
            $parts.engine_timestamp
        }

        /// Returns the quality: good, uncertain or bad, with a reason.
        #[inline]
        pub fn quality(&$self) -> Quality {
            $parts.quality
        }

        /// Returns true if this client wrote the update.
        #[inline]
        pub fn own(&$self) -> bool {
            $parts.own
        }
    };
}
pub(crate) use reading_parts;

impl<'a> ReadingRef<'a> {
    reading_parts!(self, self.entry);

    /// Returns the value, in engineering units.
    #[inline]
    pub fn value(&self) -> &'a Value {
        self.entry.value.as_ref().unwrap_or(NO_VALUE)
    }

    /// Returns the epoch and the sequence number of the update.
    #[inline]
    pub fn position(&self) -> Position {
        self.entry.position(self.epoch)
    }

    /// Returns the age of a stale reading; see [`Reading::stale`]. `None` if the reading is not
    /// stale.
    #[inline]
    pub fn stale(&self) -> Option<Duration> {
        self.entry.stale()
    }

    /// Returns an independent copy of the reading.
    pub fn to_reading(&self) -> Reading {
        self.entry.clone().into_reading(self.epoch)
    }
}

impl Entry {
    /// The entry for a variable without an answer.
    const MISSING: Entry = Entry {
        value: None,
        source_timestamp: Timestamp::UNIX_EPOCH,
        engine_timestamp: Timestamp::UNIX_EPOCH,
        sequence: 0,
        age_ns: 0,
        quality: Quality::GOOD,
        is_stale: false,
        own: false,
    };

    fn position(&self, epoch: u64) -> Position {
        let sequence = self.sequence;
        Position { epoch, sequence }
    }

    fn stale(&self) -> Option<Duration> {
        self.is_stale.then(|| Duration::from_nanos(self.age_ns))
    }

    #[inline]
    pub(crate) fn into_reading(self, epoch: u64) -> Reading {
        let (position, stale) = (self.position(epoch), self.stale());
        Reading {
            sample: Sample {
                value: self.value.unwrap_or(Value::Bool(false)),
                source_timestamp: self.source_timestamp,
                engine_timestamp: self.engine_timestamp,
                quality: self.quality,
            },
            position,
            lost: Lost::NONE,
            stale,
            own: self.own,
        }
    }
}

#[derive(Debug)]
/// A list of variables to read, with the answers that have arrived.
pub(crate) struct ReadList {
    variables: Vec<VariableRef>,
    /// The items sent, each with its index in the list and its handle.
    pub(crate) sent: Vec<(u32, u32)>,
    /// The items that cannot be sent, with their faults, in ascending order.
    refused: Vec<(u32, Fault)>,
    buffer: ReadingBuffer,
}

impl ReadList {
    pub(crate) fn new(variables: &[VariableRef], mut buffer: ReadingBuffer) -> Self {
        buffer.clear();
        Self {
            variables: variables.to_vec(),
            sent: Vec::new(),
            refused: Vec::new(),
            buffer,
        }
    }

    /// Selects the variables to send, which have a handle. All others get a fault. Returns the
    /// number of items to send.
    pub(crate) fn ask(&mut self, variables: &Variables) -> u32 {
        self.buffer.clear();
        self.buffer.entries.reserve(self.variables.len());
        self.refused.clear();
        self.sent.clear();
        self.sent.reserve_exact(self.variables.len());
        for (variable, item) in self.variables.iter().zip(0..) {
            match variables.get(*variable).and_then(|entry| entry.handle) {
                Some(handle) => self.sent.push((item, handle)),
                None => {
                    let fault = variables.handle(*variable).err();
                    self.refused.extend(fault.map(|fault| (item, fault)));
                }
            }
        }
        self.sent.len() as u32
    }

    /// Returns the variable at `index` in the sent items. The caller must push its result next.
    #[inline]
    pub(crate) fn answered(&mut self, index: u32) -> Option<VariableRef> {
        let (item, _) = *self.sent.get(index as usize)?;
        if self.buffer.entries.len() != item as usize {
            // The items between the two were not sent.
            self.buffer.entries.resize(item as usize, Entry::MISSING);
        }
        self.variables.get(item as usize).copied()
    }

    /// Sets the engine's epoch, to which all following answers belong.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        self.buffer.epoch = epoch;
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        self.buffer.entries.push(entry);
    }

    pub(crate) fn push_fault(&mut self, fault: Fault) {
        let item = self.buffer.entries.len() as u32;
        self.buffer.faults.push((item, fault));
        self.buffer.entries.push(Entry::MISSING);
    }

    /// Returns the buffer. Items without an answer get the fault `missing`.
    pub(crate) fn finish(self, missing: &Fault) -> ReadingBuffer {
        let (refused, mut buffer) = (self.refused, self.buffer);
        let answered = buffer.entries.len() as u32;
        let total = self.variables.len();
        buffer.entries.resize(total, Entry::MISSING);
        for item in answered..total as u32 {
            if refused
                .binary_search_by_key(&item, |(index, _)| *index)
                .is_err()
            {
                buffer.faults.push((item, missing.clone()));
            }
        }
        if !refused.is_empty() {
            buffer.faults.extend(refused);
            buffer.faults.sort_by_key(|(index, _)| *index);
        }
        buffer
    }
}

#[cfg(test)]
mod tests;
