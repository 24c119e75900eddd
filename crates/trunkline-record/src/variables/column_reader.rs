//! Reads the values of one channel in order, ahead of their use and within a memory limit.

use std::fs::File;
use std::ops::Range;

use trunkline_tdms::{ObjectPath, ReadError, TdmsFile, TdmsType, Values};
use trunkline_types::wire::VALUE_BYTES_MAX;

/// How much of each channel to read ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAhead {
    /// Number of values, unless a single update has more.
    pub(super) values: u64,
    /// Size of the texts, not counting the longest one, in bytes.
    pub(super) text_bytes: u64,
}

/// The reason why values cannot be read.
#[derive(Debug)]
pub(super) enum Fault {
    Read(Box<ReadError>),
    Invalid(String),
}

/// A channel that is read from its first value to its last.
#[derive(Debug)]
pub(super) struct ColumnReader {
    path: ObjectPath,
    total: u64,
    /// The number of the first value read ahead.
    first: u64,
    /// How many of the values read ahead were taken.
    taken: usize,
    /// The values read ahead.
    values: Values,
    /// Positions in `values` of values that are empty because they cannot be read.
    unreadable: Vec<Range<usize>>,
    /// True if such a value was taken.
    has_taken_unreadable: bool,
}

impl ColumnReader {
    /// Creates a reader of the first `total` values of a channel.
    pub(super) fn new(path: ObjectPath, data_type: TdmsType, total: u64) -> Self {
        Self {
            path,
            total,
            first: 0,
            taken: 0,
            values: Values::new(data_type),
            unreadable: Vec::new(),
            has_taken_unreadable: false,
        }
    }

    /// Returns true if one of the values taken since the last call is empty because it cannot be
    /// read.
    pub(super) fn take_unreadable(&mut self) -> bool {
        std::mem::take(&mut self.has_taken_unreadable)
    }

    pub(super) fn path(&self) -> &ObjectPath {
        &self.path
    }

    /// Takes the next `count` values. Returns the buffer and the position of the first one in it.
    pub(super) fn next(
        &mut self,
        file: &TdmsFile<File>,
        count: u64,
        ahead: ReadAhead,
    ) -> Result<(&Values, usize), Fault> {
        self.make_ready(file, count, ahead)?;
        let first = self.taken;
        self.taken += count as usize;
        let end = self.taken;
        let overlaps = |range: &Range<usize>| range.start < end && first < range.end;
        self.has_taken_unreadable |= self.unreadable.iter().any(overlaps);
        Ok((&self.values, first))
    }

    /// Returns the next value without taking it.
    pub(super) fn peek(
        &mut self,
        file: &TdmsFile<File>,
        ahead: ReadAhead,
    ) -> Result<(&Values, usize), Fault> {
        self.make_ready(file, 1, ahead)?;
        Ok((&self.values, self.taken))
    }

    /// Frees the memory of the values read ahead, if all of them were taken.
    pub(super) fn release(&mut self) {
        if self.taken > 0 && self.taken >= self.values.len() {
            self.first += self.taken as u64;
            self.taken = 0;
            self.values = Values::Void;
        }
    }

    fn make_ready(
        &mut self,
        file: &TdmsFile<File>,
        count: u64,
        ahead: ReadAhead,
    ) -> Result<(), Fault> {
        let ready = self.values.len().saturating_sub(self.taken) as u64;
        if count <= ready {
            return Ok(());
        }
        let next = self.first + self.taken as u64;
        let remaining = self.total.saturating_sub(next);
        if count > remaining {
            return Err(invalid(&self.path, "has too few values"));
        }
        let Some(channel) = file.channel(&self.path) else {
            return Err(invalid(&self.path, "is missing"));
        };
        let value_bytes_max = VALUE_BYTES_MAX as u64;
        let bytes = match channel.data_type() {
            // On the wire a time has half as many bytes.
            TdmsType::Time => 8,
            data_type => data_type.size().unwrap_or(1),
        };
        if count.saturating_mul(bytes) > value_bytes_max {
            return Err(invalid(
                &self.path,
                "has more elements than a value can have",
            ));
        }
        self.values = Values::Void;
        self.unreadable.clear();
        (self.first, self.taken) = (next, 0);
        let wanted = count.max(ahead.values).min(remaining);
        let read = match channel.data_type() {
            TdmsType::String => {
                let bytes = if count > 1 {
                    value_bytes_max
                } else {
                    ahead.text_bytes
                };
                let strings = channel.read_strings_lossy(next, wanted, bytes);
                strings.map(|(mut strings, unreadable)| {
                    self.unreadable = unreadable;
                    let length: usize = strings.iter().map(|text| text.as_bytes().len()).sum();
                    if strings.len() as u64 > count && length as u64 > 2 * bytes {
                        // The long text is read again when it is the next value.
                        strings.pop();
                    }
                    Values::String(strings)
                })
            }
            _ => channel.read(next, wanted),
        };
        self.values = read.map_err(|error| match error {
            ReadError::Source { .. } => Fault::Read(Box::new(error)),
            // The channel is damaged; others can still be read.
            other => Fault::Invalid(other.to_string()),
        })?;
        match self.values.len() as u64 >= count {
            true => Ok(()),
            false => Err(invalid(&self.path, "has more text than a value can have")),
        }
    }
}

fn invalid(path: &ObjectPath, problem: &str) -> Fault {
    Fault::Invalid(format!("the channel {} {problem}", path.name()))
}
