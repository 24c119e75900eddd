//! Updates out of a recording, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trunkline_tdms::{
    Channel, ObjectPath, ReadError, TdmsFile, TdmsTime, TdmsType, Values, Waveform,
};
use trunkline_types::text::parse_type;
use trunkline_types::{DataType, Quality, Timestamp, Value};

use super::values;
use super::{QUALITY, TIME, TYPE, VALUE};
use crate::playback::{PlaybackError, open_recording};

/// Updates that are read ahead, of all variables together.
const AHEAD: usize = 1 << 16;

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
}

/// An update of a recording.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct PlayedUpdate {
    /// Which variable, by its place in [`RecordedVariables::variables`].
    pub variable: usize,
    /// How long after the first update of the recording. It never goes back.
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
/// channel whose property `wf_increment` says when its values were taken. Up to 65,536 updates are
/// read ahead.
#[derive(Debug)]
pub struct RecordedVariables {
    path: PathBuf,
    file: TdmsFile<File>,
    variables: Vec<PlayedVariable>,
    cursors: Vec<Cursor>,
    /// The next update of each variable: time, and which.
    next: BinaryHeap<Reverse<(i128, usize)>>,
    first: Option<i128>,
    last: i128,
    skipped: Vec<ObjectPath>,
}

#[derive(Debug)]
struct Cursor {
    value: ObjectPath,
    source: TimeSource,
    quality: Option<ObjectPath>,
    /// What was read ahead: its first update, and the columns.
    from: u64,
    at: usize,
    values: Values,
    times: Vec<TdmsTime>,
    qualities: Vec<u32>,
}

#[derive(Clone, Debug)]
enum TimeSource {
    Channel(ObjectPath),
    Even(Waveform),
}

impl RecordedVariables {
    /// Looks at what is in a recording. Channels that cannot be played are left out:
    /// [`skipped`](Self::skipped).
    ///
    /// # Errors
    /// [`PlaybackError`].
    pub fn open(path: &Path) -> Result<Self, PlaybackError> {
        let file = open_recording(path)?;
        let (mut variables, mut cursors, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for channel in file.channels() {
            let path = channel.path();
            let group = path.parent().unwrap_or(ObjectPath::File);
            match described(&file, &channel, &group) {
                Some((variable, cursor)) => {
                    variables.push(variable);
                    cursors.push(cursor);
                }
                None if belongs_to_a_value(&file, path, &group) => {}
                None => skipped.push(path.clone()),
            }
        }
        let mut opened = Self {
            path: path.to_owned(),
            file,
            variables,
            cursors,
            next: BinaryHeap::new(),
            first: None,
            last: 0,
            skipped,
        };
        for variable in 0..opened.cursors.len() {
            opened.line_up(variable)?;
        }
        Ok(opened)
    }

    /// The variables, in the order of the file.
    #[must_use]
    pub fn variables(&self) -> &[PlayedVariable] {
        &self.variables
    }

    /// Channels that cannot be played: nothing says when their values were taken, or no variable
    /// has such values.
    #[must_use]
    pub fn skipped(&self) -> &[ObjectPath] {
        &self.skipped
    }

    /// The next update; none when there are no more. Where a clock was put back, what came later is
    /// played at once.
    ///
    /// # Errors
    /// [`PlaybackError::Read`].
    pub fn next_update(&mut self) -> Result<Option<PlayedUpdate>, PlaybackError> {
        let Some(Reverse((time, variable))) = self.next.pop() else {
            return Ok(None);
        };
        let first = *self.first.get_or_insert(time);
        self.last = self.last.max(time.saturating_sub(first));
        let after = u64::try_from(self.last).unwrap_or(u64::MAX);
        let update = self.cursors.get_mut(variable).and_then(|cursor| {
            let data_type = &self.variables.get(variable)?.data_type;
            let value = values::value(&cursor.values, cursor.at, data_type)?;
            let quality = cursor.qualities.get(cursor.at);
            cursor.at += 1;
            Some(PlayedUpdate {
                variable,
                after: Duration::from_nanos(after),
                value,
                source_timestamp: Timestamp::from_nanos(i64::try_from(time).unwrap_or(0)),
                quality: quality.map_or(Quality::GOOD, |bits| Quality::from_bits(*bits)),
            })
        });
        self.line_up(variable)?;
        Ok(update)
    }

    /// Puts the next update of a variable in its place among those of the others.
    fn line_up(&mut self, variable: usize) -> Result<(), PlaybackError> {
        let ahead = (AHEAD / self.cursors.len().max(1)).max(16);
        let path = &self.path;
        let (Some(cursor), Some(known)) =
            (self.cursors.get_mut(variable), self.variables.get(variable))
        else {
            return Ok(());
        };
        if cursor.from + cursor.at as u64 >= known.updates {
            return Ok(());
        }
        if cursor.at >= cursor.values.len() {
            cursor.from += cursor.at as u64;
            cursor.at = 0;
            let count = (known.updates - cursor.from).min(ahead as u64);
            cursor
                .read(&self.file, count)
                .map_err(|source| PlaybackError::Read {
                    path: path.clone(),
                    source: Box::new(source),
                })?;
        }
        let number = cursor.from + cursor.at as u64;
        let time = match &cursor.source {
            TimeSource::Channel(_) => cursor.times.get(cursor.at).map_or(0, |time| nanos(*time)),
            TimeSource::Even(waveform) => {
                let after = waveform.offset + waveform.increment * number as f64;
                // As far as numbers go: a file may claim anything.
                let start = waveform.start.map_or(0, nanos);
                start.saturating_add((after * 1e9) as i128)
            }
        };
        self.next.push(Reverse((time, variable)));
        Ok(())
    }
}

impl Cursor {
    fn read(&mut self, file: &TdmsFile<File>, count: u64) -> Result<(), ReadError> {
        if let Some(channel) = file.channel(&self.value) {
            self.values = channel.read(self.from, count)?;
        }
        if let TimeSource::Channel(path) = &self.source
            && let Some(channel) = file.channel(path)
        {
            // At most what is read ahead.
            self.times.resize(count as usize, TdmsTime::default());
            channel.read_into(self.from, &mut self.times)?;
        }
        if let Some(channel) = self.quality.as_ref().and_then(|path| file.channel(path)) {
            self.qualities.resize(count as usize, 0);
            channel.read_into(self.from, &mut self.qualities)?;
        }
        Ok(())
    }
}

/// What a channel is as a variable; none where it is none.
fn described(
    file: &TdmsFile<File>,
    channel: &Channel<'_, File>,
    group: &ObjectPath,
) -> Option<(PlayedVariable, Cursor)> {
    let path = channel.path();
    let beside = |name: &str, data_type| {
        let path = ObjectPath::channel(group.name(), name);
        let channel = file.channel(&path)?;
        (channel.data_type() == data_type).then(|| (channel.len(), path))
    };
    let time = (path.name() == VALUE)
        .then(|| beside(TIME, TdmsType::Time))
        .flatten();
    let (name, source, quality, updates) = match time {
        Some((times, time)) => {
            let quality = beside(QUALITY, TdmsType::U32);
            let qualities = quality.as_ref().map_or(u64::MAX, |(count, _)| *count);
            // Of what was cut off, as far as all of them go.
            let updates = channel.len().min(times).min(qualities);
            let quality = quality.map(|(_, path)| path);
            (
                group.name().to_string(),
                TimeSource::Channel(time),
                quality,
                updates,
            )
        }
        None => {
            let is_known = |one: &Waveform| one.increment.is_finite() && one.offset.is_finite();
            let even = channel.waveform().filter(is_known)?;
            let name = format!("{}/{}", group.name(), path.name());
            (name, TimeSource::Even(even), None, channel.len())
        }
    };
    let said = file
        .properties(group)
        .and_then(|all| all.get(TYPE.as_bytes())?.as_text());
    let said = said.and_then(|text| parse_type(&text.to_str()).ok());
    let of_channel = values::type_of_channel(channel.data_type())?;
    let is_enum = |data_type: &DataType| {
        matches!(data_type, DataType::Enum(_)) && of_channel == DataType::U32
    };
    let said = said.filter(|said| *said == of_channel || is_enum(said));
    let variable = PlayedVariable {
        name,
        data_type: said.unwrap_or(of_channel),
        updates,
    };
    let cursor = Cursor {
        value: path.clone(),
        source,
        quality,
        from: 0,
        at: 0,
        values: Values::Void,
        times: Vec::new(),
        qualities: Vec::new(),
    };
    Some((variable, cursor))
}

/// Whether it is the time or the quality of a variable.
fn belongs_to_a_value(file: &TdmsFile<File>, path: &ObjectPath, group: &ObjectPath) -> bool {
    let name = path.name();
    let value = ObjectPath::channel(group.name(), VALUE);
    (name == TIME || name == QUALITY) && file.channel(&value).is_some()
}

/// Nanoseconds since 1970.
fn nanos(time: TdmsTime) -> i128 {
    let since_1904 = TdmsTime::from(Timestamp::UNIX_EPOCH).seconds;
    let below = (u128::from(time.fraction) * 1_000_000_000) >> 64;
    (i128::from(time.seconds) - i128::from(since_1904)) * 1_000_000_000 + below as i128
}
