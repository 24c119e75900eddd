//! Updates out of a recording, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline_tdms::{ObjectPath, TdmsFile, TdmsTime, Values};
use trunkline_types::wire::{VALUE_BYTES_MAX, encoded_len};
use trunkline_types::{DataType, Quality, Timestamp, Value};

use super::column_reader::{Ahead, Fault};
use super::columns::{self, Source};
use super::found::{Found, Times, VariableReader};
use crate::playback::{PlaybackError, open_recording};

/// Values that are read ahead, of all channels together.
const AHEAD: u64 = 1 << 16;

/// Bytes of text that are read ahead, of all channels together.
const TEXT_BYTES_AHEAD: u64 = 16 << 20;

/// A variable of a recording.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct PlayedVariable {
    /// Its name: of its group, or of its group and channel.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
    /// Updates of it.
    pub updates: u64,
    /// Updates behind those that the file has in part only, because it was cut off. They are not
    /// played.
    pub cut_off: u64,
}

/// An update of a recording.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct PlayedUpdate {
    /// Which variable, by its place in [`RecordedVariables::variables`].
    pub variable: usize,
    /// How long after the first update of the recording. It never goes back. What was there before
    /// it, or before its file, comes at once.
    pub after: Duration,
    /// The value.
    pub value: Value,
    /// When it was measured.
    pub source_timestamp: Timestamp,
    /// How far it can be trusted; good where the recording does not say.
    pub quality: Quality,
}

/// Plays the updates of a recording, of all its variables in the order of their times.
///
/// A variable is a group as [`VariableRecording`](super::VariableRecording) writes it, or any
/// channel whose property `wf_increment` says when its values were taken. Up to 65,536 values and
/// 16 MiB of text are read ahead, of all channels together, and at least 16 values of each.
#[derive(Debug)]
pub struct RecordedVariables {
    path: PathBuf,
    file: TdmsFile<File>,
    variables: Vec<PlayedVariable>,
    readers: Vec<VariableReader>,
    ahead: Ahead,
    /// The next update of each variable: time, and which.
    next: BinaryHeap<Reverse<(i128, usize)>>,
    first: Option<i128>,
    last: i128,
    skipped: Vec<ObjectPath>,
}

impl RecordedVariables {
    /// Looks at what is in a recording. Channels that cannot be played are left out:
    /// [`skipped`](Self::skipped).
    ///
    /// # Errors
    /// [`PlaybackError`].
    pub fn open(path: &Path) -> Result<Self, PlaybackError> {
        let file = open_recording(path)?;
        let found = Found::of(&file).map_err(|source| PlaybackError::Read {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let columns: usize = found.readers.iter().map(|one| one.columns.len() + 2).sum();
        let columns = columns.max(1) as u64;
        let mut opened = Self {
            path: path.to_owned(),
            file,
            variables: found.variables,
            readers: found.readers,
            ahead: Ahead {
                values: (AHEAD / columns).max(16),
                text_bytes: (TEXT_BYTES_AHEAD / columns).max(64),
            },
            next: BinaryHeap::new(),
            first: None,
            last: 0,
            skipped: found.skipped,
        };
        opened.first = opened.first_of_its_own()?;
        for variable in 0..opened.readers.len() {
            opened.line_up(variable)?;
        }
        Ok(opened)
    }

    /// The variables, in the order of the file.
    #[must_use]
    pub fn variables(&self) -> &[PlayedVariable] {
        &self.variables
    }

    /// Channels that cannot be played: nothing says when their values were taken, no variable has
    /// such values, or others that belong to their variable are missing or hold something else.
    #[must_use]
    pub fn skipped(&self) -> &[ObjectPath] {
        &self.skipped
    }

    /// The next update; none when there are no more. Where a clock was put back, what came later is
    /// played at once.
    ///
    /// # Errors
    /// [`PlaybackError::Read`]; [`PlaybackError::Damaged`]: it is no value of its variable, of
    /// which nothing more is played. The next call goes on with the others.
    pub fn next_update(&mut self) -> Result<Option<PlayedUpdate>, PlaybackError> {
        let Some(Reverse((time, variable))) = self.next.pop() else {
            return Ok(None);
        };
        let first = *self.first.get_or_insert(time);
        self.last = self.last.max(time.saturating_sub(first));
        let after = u64::try_from(self.last).unwrap_or(u64::MAX);
        let (value, quality) = self.read(variable)?;
        self.line_up(variable)?;
        Ok(Some(PlayedUpdate {
            variable,
            after: Duration::from_nanos(after),
            value,
            source_timestamp: Timestamp::from_nanos(i64::try_from(time).unwrap_or(0)),
            quality,
        }))
    }

    /// The next value of a variable, and its quality.
    fn read(&mut self, variable: usize) -> Result<(Value, Quality), PlaybackError> {
        let unknown = || PlaybackError::Damaged {
            path: self.path.clone(),
            variable: variable.to_string(),
            update: 0,
            why: "there is no such variable".to_owned(),
        };
        let reader = self.readers.get_mut(variable);
        let (Some(reader), Some(known)) = (reader, self.variables.get(variable)) else {
            return Err(unknown());
        };
        let read = reader.read(&self.file, &known.data_type, self.ahead);
        read.map_err(|fault| match fault {
            Fault::Read(source) => PlaybackError::Read {
                path: self.path.clone(),
                source,
            },
            Fault::Wrong(why) => PlaybackError::Damaged {
                path: self.path.clone(),
                variable: known.name.clone(),
                update: reader.played,
                why,
            },
        })
    }

    /// Puts the next update of a variable in its place among those of the others.
    fn line_up(&mut self, variable: usize) -> Result<(), PlaybackError> {
        let Some(reader) = self.readers.get_mut(variable) else {
            return Ok(());
        };
        if reader.played >= reader.updates {
            return Ok(());
        }
        match reader.next_time(&self.file, self.ahead) {
            Ok(time) => {
                self.next.push(Reverse((time, variable)));
                Ok(())
            }
            Err(Fault::Read(source)) => Err(PlaybackError::Read {
                path: self.path.clone(),
                source,
            }),
            // Fewer times than updates there are not.
            Err(Fault::Wrong(_)) => Ok(()),
        }
    }

    /// The time of the first update that was not there before the file, where others were; of the
    /// last one that was where there is no other.
    fn first_of_its_own(&self) -> Result<Option<i128>, PlaybackError> {
        let (mut first, mut before) = (None, None);
        if self.readers.iter().all(|reader| reader.from_before == 0) {
            return Ok(None);
        }
        for reader in &self.readers {
            let has_own = reader.updates > reader.from_before;
            let row = match has_own {
                true => reader.from_before,
                false => reader.from_before.saturating_sub(1),
            };
            let has_any = reader.updates > row;
            if let Some(path) = reader.path_of_times().filter(|_| has_any)
                && let Some(channel) = self.file.channel(path)
            {
                let mut time = [TdmsTime::default()];
                let read = channel.read_into(row, &mut time);
                read.map_err(|source| PlaybackError::Read {
                    path: self.path.clone(),
                    source: Box::new(source),
                })?;
                let time = nanos(time[0]);
                match has_own {
                    true => first = Some(first.map_or(time, |other: i128| other.min(time))),
                    false => before = before.max(Some(time)),
                }
            }
        }
        Ok(first.or(before))
    }
}

impl VariableReader {
    fn path_of_times(&self) -> Option<&ObjectPath> {
        match &self.times {
            Times::Channel(times) => Some(times.path()),
            Times::Even(_) => None,
        }
    }

    /// When the next update was measured, in nanoseconds since 1970.
    fn next_time(&mut self, file: &TdmsFile<File>, ahead: Ahead) -> Result<i128, Fault> {
        match &mut self.times {
            Times::Channel(times) => {
                let (values, at) = times.peek(file, ahead)?;
                let time = match values {
                    Values::Time(all) => all.get(at).copied(),
                    _ => None,
                };
                Ok(time.map_or(0, nanos))
            }
            Times::Even(waveform) => {
                let after = waveform.offset + waveform.increment * self.played as f64;
                // As far as numbers go: a file may claim anything.
                let start = waveform.start.map_or(0, nanos);
                Ok(start.saturating_add((after * 1e9) as i128))
            }
        }
    }

    /// Takes the next update.
    fn read(
        &mut self,
        file: &TdmsFile<File>,
        data_type: &DataType,
        ahead: Ahead,
    ) -> Result<(Value, Quality), Fault> {
        let mut source = Next {
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
            let (values, at) = qualities.next(file, 1, ahead)?;
            if let Values::U32(all) = values
                && let Some(bits) = all.get(at)
            {
                quality = Quality::from_bits(*bits);
            }
            qualities.release();
        }
        self.columns.iter_mut().for_each(|column| column.release());
        self.played += 1;
        Ok((value, quality))
    }
}

/// The columns of a variable as a source of its next value.
struct Next<'a> {
    reader: &'a mut VariableReader,
    file: &'a TdmsFile<File>,
    ahead: Ahead,
}

impl Next<'_> {
    fn value(&mut self, data_type: &DataType) -> Result<Value, Fault> {
        let part = std::mem::replace(&mut self.reader.value, super::layout::Part::Scalar(0));
        let value = columns::value(&part, data_type, self);
        self.reader.value = part;
        let value = value?;
        if !value.has_type(data_type) {
            return Err(Fault::Wrong(format!("it is none of the type {data_type}")));
        }
        match encoded_len(&value) <= VALUE_BYTES_MAX {
            true => Ok(value),
            false => Err(Fault::Wrong(format!(
                "it has more than {VALUE_BYTES_MAX} bytes"
            ))),
        }
    }
}

impl Source for Next<'_> {
    type Error = Fault;

    fn next(&mut self, column: usize, count: u64) -> Result<(&Values, usize), Fault> {
        match self.reader.columns.get_mut(column) {
            Some(column) => column.next(self.file, count, self.ahead),
            None => Err(Fault::Wrong("a part without a channel".to_owned())),
        }
    }

    fn wrong(&self, column: usize, why: &'static str) -> Fault {
        let column = self.reader.columns.get(column);
        let name = column.map(|column| column.path().name().to_string());
        Fault::Wrong(format!(
            "the channel {} has {why}",
            name.unwrap_or_default()
        ))
    }
}

/// Nanoseconds since 1970.
fn nanos(time: TdmsTime) -> i128 {
    let since_1904 = TdmsTime::from(Timestamp::UNIX_EPOCH).seconds;
    let below = (u128::from(time.fraction) * 1_000_000_000) >> 64;
    (i128::from(time.seconds) - i128::from(since_1904)) * 1_000_000_000 + below as i128
}
