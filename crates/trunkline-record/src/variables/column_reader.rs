//! Reads the values of one channel in order and ahead of their use, within a memory limit.

use std::fs::File;
use std::ops::Range;

use trunkline_tdms::{ObjectPath, ReadError, TdmsFile, TdmsType, Values};
use trunkline_types::wire::VALUE_BYTES_MAX;

/// The amount of data that is read ahead from each channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAhead {
    /// Maximum number of values, unless a single update has more.
    pub(super) values: u64,
    /// Maximum size of texts in bytes, excluding the longest text.
    pub(super) text_bytes: u64,
}

/// The reason why values cannot be read.
#[derive(Debug)]
pub(super) enum Fault {
    /// The file cannot be read.
    Read(Box<ReadError>),
    /// The data is not valid, for this reason.
    Invalid(String),
}

/// A channel that is read from its first value to its last.
#[derive(Debug)]
pub(super) struct ColumnReader {
    path: ObjectPath,
    total: u64,
    /// Number of the first value that was read ahead.
    first: u64,
    /// Number of values in `values` that were taken.
    taken: usize,
    /// Values that were read ahead.
    values: Values,
    /// Index ranges of the values in `values` that are empty because they cannot be read.
    unreadable: Vec<Range<usize>>,
    /// True if an unreadable value was taken.
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

    /// Returns true if a value that was taken since the last call is empty because it cannot be
    /// read.
    pub(super) fn take_unreadable(&mut self) -> bool {
        std::mem::take(&mut self.has_taken_unreadable)
    }

    pub(super) fn path(&self) -> &ObjectPath {
        &self.path
    }

    /// Takes the next `count` values. Returns the buffer that contains them, and the index of the
    /// first.
    pub(super) fn next(
        &mut self,
        file: &TdmsFile<File>,
        count: u64,
        ahead: ReadAhead,
    ) -> Result<(&Values, usize), Fault> {
        self.read_ahead(file, count, ahead)?;
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
        self.read_ahead(file, 1, ahead)?;
        Ok((&self.values, self.taken))
    }

    /// Frees the memory of the values that were read ahead, if all of them were taken.
    pub(super) fn release(&mut self) {
        if self.taken > 0 && self.taken >= self.values.len() {
            self.first += self.taken as u64;
            self.taken = 0;
            self.values = Values::Void;
        }
    }

    fn read_ahead(
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
            // In wire encoding, a time has only half as many bytes.
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
        let values_max = count.max(ahead.values).min(remaining);
        let read = match channel.data_type() {
            TdmsType::String => {
                let bytes = if count > 1 {
                    value_bytes_max
                } else {
                    ahead.text_bytes
                };
                let strings = channel.read_strings_lossy(next, values_max, bytes);
                strings.map(|(mut strings, unreadable)| {
                    self.unreadable = unreadable;
                    let length: usize = strings.iter().map(|text| text.as_bytes().len()).sum();
                    if strings.len() as u64 > count && length as u64 > 2 * bytes {
                        // The long last text is read again when it is the next value.
                        strings.pop();
                    }
                    Values::String(strings)
                })
            }
            _ => channel.read(next, values_max),
        };
        self.values = read.map_err(|error| match error {
            ReadError::Source { .. } => Fault::Read(Box::new(error)),
            // The channel is damaged, but other channels can still be read.
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
