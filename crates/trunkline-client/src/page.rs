//! Current readings of many variables in one block of memory: what a read of many gives.

use std::time::Duration;

use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{Lost, Position, Quality, Reading, Sample, Timestamp, Value};

use crate::typed::FromValue;
use crate::variable::{VariableRef, Variables};

/// What stands for a value where there is none; never shown.
const NO_VALUE: &Value = &Value::Bool(false);

/// The readings of a list of variables, in its order, in one block of memory: looked at where they
/// lie, by index or one after the other, and made readings of their own only where a program asks
/// for it. What is wrong with one variable stands in its place.
///
/// A program keeps one and has it filled again and again: its room is used again.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReadingPage {
    entries: Vec<Entry>,
    /// Of the entries without a value: their places, ascending.
    faults: Vec<(u32, Fault)>,
    epoch: u64,
}

/// A reading in a [`ReadingPage`].
#[derive(Clone, Copy, Debug)]
pub struct PageReading<'a> {
    entry: &'a Entry,
    epoch: u64,
}

/// One place of a page: 64 bytes.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    /// `None`: a fault.
    pub(crate) value: Option<Value>,
    pub(crate) source_timestamp: Timestamp,
    pub(crate) engine_timestamp: Timestamp,
    pub(crate) sequence: u64,
    /// Where it is stale: how old it is, in nanoseconds.
    pub(crate) age_ns: u64,
    pub(crate) quality: Quality,
    pub(crate) is_stale: bool,
    pub(crate) own: bool,
}

const _: () = assert!(size_of::<Entry>() <= 64);

impl ReadingPage {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many variables were read.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no variable was read.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What came of the variable at this place of the list that was read; `None` beyond its end.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Result<PageReading<'_>, &Fault>> {
        let entry = self.entries.get(index)?;
        Some(self.result(index, entry))
    }

    /// What came of each variable, in the order of the list that was read.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<PageReading<'_>, &Fault>> {
        let entries = self.entries.iter().enumerate();
        entries.map(|(index, entry)| self.result(index, entry))
    }

    /// The values as a type of the program, in the order of the list that was read; `None` for one
    /// that has another type, and where there is a fault.
    #[inline]
    pub fn values<T: FromValue>(&self) -> impl ExactSizeIterator<Item = Option<T>> {
        let entries = self.entries.iter();
        entries.map(|entry| entry.value.as_ref().and_then(T::from_value))
    }

    /// The faults, with the places of their variables.
    pub fn faults(&self) -> impl Iterator<Item = (usize, &Fault)> {
        let faults = self.faults.iter();
        faults.map(|(place, fault)| (*place as usize, fault))
    }

    /// Each as a reading of its own.
    pub fn to_readings(&self) -> Vec<Result<Reading, Fault>> {
        let readings = self.iter();
        readings
            .map(|one| {
                one.map(|reading| reading.to_reading())
                    .map_err(Clone::clone)
            })
            .collect()
    }

    /// Forgets everything, and keeps the room.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.faults.clear();
    }

    #[inline]
    fn result<'p>(&'p self, index: usize, entry: &'p Entry) -> Result<PageReading<'p>, &'p Fault> {
        match entry.value {
            Some(_) => Ok(PageReading {
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
            .binary_search_by_key(&index, |(place, _)| *place as usize);
        let fault = found.ok().and_then(|at| self.faults.get(at));
        fault.map_or(&NO_FAULT, |(_, fault)| fault)
    }

    fn into_readings(self) -> Vec<Result<Reading, Fault>> {
        if !self.faults.is_empty() {
            return self.to_readings();
        }
        let epoch = self.epoch;
        let entries = self.entries.into_iter();
        entries.map(|entry| Ok(entry.into_reading(epoch))).collect()
    }
}

/// Never shown: every entry without a value has its own.
static NO_FAULT: Fault = Fault {
    code: FaultCode::Internal,
    sentence: String::new(),
};

impl<'a> PageReading<'a> {
    /// The value, in engineering units.
    #[inline]
    pub fn value(&self) -> &'a Value {
        self.entry.value.as_ref().unwrap_or(NO_VALUE)
    }

    /// The value as a type of the program; `None` when it is of another type, or there is none yet.
    #[inline]
    pub fn get<T: FromValue>(&self) -> Option<T> {
        match self.quality().has_value() {
            true => T::from_value(self.value()),
            false => None,
        }
    }

    /// When it was measured.
    #[inline]
    pub fn source_timestamp(&self) -> Timestamp {
        self.entry.source_timestamp
    }

    /// When the engine accepted it.
    #[inline]
    pub fn engine_timestamp(&self) -> Timestamp {
        self.entry.engine_timestamp
    }

    /// How far it can be trusted.
    #[inline]
    pub fn quality(&self) -> Quality {
        self.entry.quality
    }

    /// The update's number within its engine's life.
    #[inline]
    pub fn position(&self) -> Position {
        self.entry.position(self.epoch)
    }

    /// As [`Reading::stale`].
    #[inline]
    pub fn stale(&self) -> Option<Duration> {
        self.entry.stale()
    }

    /// Whether this client wrote the update.
    #[inline]
    pub fn own(&self) -> bool {
        self.entry.own
    }

    /// The same as a reading of its own, to be kept.
    pub fn to_reading(&self) -> Reading {
        self.entry.clone().into_reading(self.epoch)
    }
}

impl Entry {
    /// One that was not answered.
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

/// Variables that are read, and what has come of them so far.
#[derive(Debug)]
pub(crate) struct ReadList {
    variables: Vec<VariableRef>,
    /// What was sent: item of the request, and its handle.
    pub(crate) asked: Vec<(u32, u32)>,
    /// Items that were not, ascending.
    refused: Vec<(u32, Fault)>,
    page: ReadingPage,
}

impl ReadList {
    /// A list whose readings go into `page`.
    pub(crate) fn new(variables: &[VariableRef], mut page: ReadingPage) -> Self {
        page.clear();
        Self {
            variables: variables.to_vec(),
            asked: Vec::new(),
            refused: Vec::new(),
            page,
        }
    }

    /// Decides what is asked for: the variables that have a handle, the others have their faults.
    pub(crate) fn ask(&mut self, known: &Variables) -> u32 {
        self.page.clear();
        self.page.entries.reserve(self.variables.len());
        self.refused.clear();
        self.asked.clear();
        self.asked.reserve_exact(self.variables.len());
        for (variable, item) in self.variables.iter().zip(0..) {
            match known.get(*variable).and_then(|known| known.handle) {
                Some(handle) => self.asked.push((item, handle)),
                None => {
                    let fault = known.handle(*variable).err();
                    self.refused.extend(fault.map(|fault| (item, fault)));
                }
            }
        }
        self.asked.len() as u32
    }

    /// The item behind this index of what was sent, and its variable. What is answered is entered
    /// next.
    #[inline]
    pub(crate) fn answered(&mut self, index: u32) -> Option<VariableRef> {
        let (item, _) = *self.asked.get(index as usize)?;
        if self.page.entries.len() != item as usize {
            // Those between were not asked.
            self.page.entries.resize(item as usize, Entry::MISSING);
        }
        self.variables.get(item as usize).copied()
    }

    /// All that is answered from now on comes of this life of the engine.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        self.page.epoch = epoch;
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        self.page.entries.push(entry);
    }

    pub(crate) fn push_fault(&mut self, fault: Fault) {
        let item = self.page.entries.len() as u32;
        self.page.faults.push((item, fault));
        self.page.entries.push(Entry::MISSING);
    }

    /// The page; what has no answer yet gets this fault.
    pub(crate) fn finish(self, missing: &Fault) -> ReadingPage {
        let (refused, mut page) = (self.refused, self.page);
        let answered = page.entries.len() as u32;
        let total = self.variables.len();
        page.entries.resize(total, Entry::MISSING);
        for item in answered..total as u32 {
            if refused.binary_search_by_key(&item, |(at, _)| *at).is_err() {
                page.faults.push((item, missing.clone()));
            }
        }
        if !refused.is_empty() {
            page.faults.extend(refused);
            page.faults.sort_by_key(|(at, _)| *at);
        }
        page
    }

    /// [`finish`](Self::finish), as readings of their own.
    pub(crate) fn finish_readings(self, missing: &Fault) -> Vec<Result<Reading, Fault>> {
        self.finish(missing).into_readings()
    }
}

#[cfg(test)]
mod tests;
