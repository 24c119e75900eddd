//! Reads the next update of a variable from its channels.

use std::fs::File;

use trunkline_tdms::{TdmsFile, TdmsTime, Values, Waveform};
use trunkline_types::wire::{VALUE_BYTES_MAX, encoded_len};
use trunkline_types::{DataType, Quality, Value};

use super::column_reader::{ColumnReader, Fault, ReadAhead};
use super::columns::{self, Source};
use super::discovery::{Times, VariableReader};

impl VariableReader {
    /// Returns the time of the update in row `row`, in nanoseconds since 1970; `None` if it cannot
    /// be read.
    pub(super) fn time_of(&self, file: &TdmsFile<File>, row: u64) -> Result<Option<i128>, Fault> {
        let channel = match &self.times {
            Times::Channel(times) => file.channel(times.path()),
            Times::EvenlySpaced(waveform) => return Ok(Some(evenly_spaced_time(waveform, row))),
        };
        let Some(channel) = channel else {
            return Ok(None);
        };
        let mut time = [TdmsTime::default()];
        let read = channel.read_into(row, &mut time);
        let read = read.map_err(|source| Fault::Read(Box::new(source)))?;
        Ok((read == 1).then(|| time[0].unix_nanos()))
    }

    /// Returns the time of the next update, in nanoseconds since 1970.
    pub(super) fn next_time(
        &mut self,
        file: &TdmsFile<File>,
        ahead: ReadAhead,
    ) -> Result<i128, Fault> {
        match &mut self.times {
            Times::Channel(times) => {
                let (values, index) = times.peek(file, ahead)?;
                let time = match values {
                    Values::Time(all) => all.get(index).copied(),
                    _ => None,
                };
                Ok(time.map_or(0, TdmsTime::unix_nanos))
            }
            Times::EvenlySpaced(waveform) => Ok(evenly_spaced_time(waveform, self.played)),
        }
    }

    /// Takes the next update. Returns `None` if a part of the update cannot be read.
    pub(super) fn read(
        &mut self,
        file: &TdmsFile<File>,
        data_type: &DataType,
        ahead: ReadAhead,
    ) -> Result<Option<(Value, Quality)>, Fault> {
        let mut source = NextValue {
            reader: self,
            file,
            ahead,
        };
        let mut value = source.value(data_type)?;
        if let Value::String(text) = &value
            && !self.is_exact
            && let Some(text) = text.strip_suffix('\0')
        {
            value = Value::String(text.into());
        }
        if let Times::Channel(times) = &mut self.times {
            times.next(file, 1, ahead)?;
            times.release();
        }
        let mut quality = Quality::GOOD;
        if let Some(qualities) = &mut self.qualities {
            let (values, index) = qualities.next(file, 1, ahead)?;
            if let Values::U32(all) = values
                && let Some(bits) = all.get(index)
            {
                quality = Quality::from_bits(*bits);
            }
            qualities.release();
        }
        self.columns.iter_mut().for_each(|column| column.release());
        self.played += 1;
        let unreadable = self.columns.iter_mut().map(ColumnReader::take_unreadable);
        let is_unreadable = unreadable.fold(false, |any, taken| any | taken);
        Ok((!is_unreadable).then_some((value, quality)))
    }
}

/// Reads the parts of a variable's next value from the variable's columns.
struct NextValue<'a> {
    reader: &'a mut VariableReader,
    file: &'a TdmsFile<File>,
    ahead: ReadAhead,
}

impl NextValue<'_> {
    fn value(&mut self, data_type: &DataType) -> Result<Value, Fault> {
        let part = std::mem::replace(&mut self.reader.value, super::layout::Part::Scalar(0));
        let value = columns::value(&part, data_type, self);
        self.reader.value = part;
        let value = value?;
        if !value.has_type(data_type) {
            return Err(Fault::Invalid(format!(
                "the value does not have the type {data_type}"
            )));
        }
        match encoded_len(&value) <= VALUE_BYTES_MAX {
            true => Ok(value),
            false => Err(Fault::Invalid(format!(
                "the value has more than {VALUE_BYTES_MAX} bytes"
            ))),
        }
    }
}

impl Source for NextValue<'_> {
    type Error = Fault;

    fn next(&mut self, column: usize, count: u64) -> Result<(&Values, usize), Fault> {
        match self.reader.columns.get_mut(column) {
            Some(column) => column.next(self.file, count, self.ahead),
            None => Err(Fault::Invalid(
                "a part of the value has no channel".to_owned(),
            )),
        }
    }

    fn invalid(&self, column: usize, why: &'static str) -> Fault {
        let column = self.reader.columns.get(column);
        let name = column.map(|column| column.path().name().to_string());
        Fault::Invalid(format!(
            "the channel {} has {why}",
            name.unwrap_or_default()
        ))
    }
}

/// Returns the time of an evenly spaced value, in nanoseconds since 1970.
fn evenly_spaced_time(waveform: &Waveform, row: u64) -> i128 {
    let seconds = waveform.offset + waveform.increment * row as f64;
    // The conversion and the sum saturate, because a file may contain any number.
    let start = waveform.start.map_or(0, TdmsTime::unix_nanos);
    start.saturating_add((seconds * 1e9) as i128)
}
