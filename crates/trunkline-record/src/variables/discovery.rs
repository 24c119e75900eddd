//! Finds the variables of a file and their channels.

use std::collections::HashSet;
use std::fs::File;

use trunkline_tdms::{Channel, ObjectPath, ReadError, TdmsFile, TdmsType, Waveform};
use trunkline_types::DataType;
use trunkline_types::text::parse_type;

use super::column_reader::ColumnReader;
use super::layout::{Layout, Part};
use super::playing::PlayedVariable;
use super::{CARRIED, INITIAL, QUALITY, SERIES_ROW, TIME, TYPE, VALUE};

/// Maximum number of element counts read at a time.
const COUNTS_READ_MAX: u64 = 1 << 16;

/// The variables of a file that can be played, in the order of the file, and the skipped channels.
#[derive(Debug, Default)]
pub(super) struct PlayableChannels {
    pub(super) variables: Vec<PlayedVariable>,
    pub(super) readers: Vec<VariableReader>,
    pub(super) skipped: Vec<ObjectPath>,
}

#[derive(Debug)]
pub(super) struct VariableReader {
    pub(super) value: Part,
    pub(super) columns: Vec<ColumnReader>,
    pub(super) times: Times,
    pub(super) qualities: Option<ColumnReader>,
    /// Number of updates played so far.
    pub(super) played: u64,
    /// Total number of updates.
    pub(super) updates: u64,
    /// Number of updates at the beginning that are older than the file, because they were copied
    /// from the previous file or measured before the recording began.
    pub(super) older_updates: u64,
    /// Path of the variable's group or channel.
    pub(super) object: ObjectPath,
    /// The variable's position in a series, according to its properties.
    pub(super) series_position: SeriesPosition,
    /// Number of updates at the beginning that are not played, because an earlier file contains
    /// them.
    pub(super) skipped_updates: u64,
    /// True if a NUL character at the end of a text is part of the text.
    pub(super) is_exact: bool,
}

/// The properties of a group that refer to earlier files of the series.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeriesPosition {
    /// Number of updates at the beginning that were copied from the previous file.
    pub(super) carried: u64,
    /// Number of updates in all earlier files.
    pub(super) row: Option<u64>,
}

#[derive(Debug)]
pub(super) enum Times {
    Channel(ColumnReader),
    EvenlySpaced(Waveform),
}

impl PlayableChannels {
    pub(super) fn of(file: &TdmsFile<File>) -> Result<Self, ReadError> {
        let mut found = Self::default();
        let (mut groups, mut variable_paths) = (HashSet::new(), HashSet::new());
        for channel in file.channels() {
            let path = channel.path();
            let group = path.parent().unwrap_or(ObjectPath::File);
            let declared = declared_type(file, &group);
            if groups.insert(group.clone())
                && let DeclaredType::Type(data_type) = &declared
                && let Some((variable, reader, paths)) = recorded_variable(file, &group, data_type)?
            {
                found.variables.push(variable);
                found.readers.push(reader);
                variable_paths.extend(paths);
            }
            if variable_paths.contains(path) {
                continue;
            }
            match plain_channel(file, &channel, &group, &declared) {
                Some((variable, reader)) => {
                    found.variables.push(variable);
                    found.readers.push(reader);
                }
                None if declared.is_scalar() && is_time_or_quality(file, path, &group) => {}
                None => found.skipped.push(path.clone()),
            }
        }
        Ok(found)
    }
}

/// The type of a variable, according to the properties of its group.
enum DeclaredType {
    /// The group has no such property.
    Missing,
    Type(DataType),
    /// The property is not a valid type.
    Invalid,
}

impl DeclaredType {
    /// Returns true if the type allows one value of a channel to be one value of the variable.
    fn is_scalar(&self) -> bool {
        match self {
            Self::Missing => true,
            Self::Type(data_type) => {
                let layout = Layout::of(data_type);
                layout.is_ok_and(|layout| matches!(layout.value, Part::Scalar(_)))
            }
            Self::Invalid => false,
        }
    }
}

fn declared_type(file: &TdmsFile<File>, group: &ObjectPath) -> DeclaredType {
    let properties = file.properties(group);
    match properties.and_then(|all| all.get(TYPE.as_bytes())) {
        None => DeclaredType::Missing,
        Some(declared) => {
            let declared = declared
                .as_text()
                .and_then(|text| parse_type(&text.to_str()).ok());
            declared.map_or(DeclaredType::Invalid, DeclaredType::Type)
        }
    }
}

/// Returns a recorded variable and its channels; `None` if a channel is missing or has the wrong
/// type.
fn recorded_variable(
    file: &TdmsFile<File>,
    group: &ObjectPath,
    data_type: &DataType,
) -> Result<Option<(PlayedVariable, VariableReader, Vec<ObjectPath>)>, ReadError> {
    let Ok(layout) = Layout::of(data_type) else {
        return Ok(None);
    };
    let path = |name: &str| ObjectPath::channel(group.name(), name);
    let channel = |name: &str| file.channel(&path(name));
    let Some(times) = channel(TIME) else {
        return Ok(None);
    };
    let rows = times.len();
    // A channel without values may have no type.
    let has_type = |channel: &Channel<'_, File>, data_type| {
        channel.data_type() == data_type || channel.is_empty() && rows == 0
    };
    let quality = channel(QUALITY);
    let is_quality = quality
        .as_ref()
        .is_none_or(|channel| has_type(channel, TdmsType::U32));
    if !has_type(&times, TdmsType::Time) || !is_quality {
        return Ok(None);
    }
    // At a truncated end, only updates that are present in all channels count.
    let mut complete_updates = rows.min(quality.as_ref().map_or(u64::MAX, Channel::len));
    let mut channels = Vec::with_capacity(layout.columns.len());
    for column in &layout.columns {
        let found = channel(&column.name);
        let is_valid = match &found {
            Some(channel) if column.count_column.is_some() => {
                channel.data_type() == column.data_type || channel.is_empty()
            }
            Some(channel) => has_type(channel, column.data_type),
            None => column.count_column.is_some() || rows == 0,
        };
        if !is_valid {
            return Ok(None);
        }
        if column.count_column.is_none() {
            complete_updates = complete_updates.min(found.as_ref().map_or(0, Channel::len));
        }
        channels.push(found);
    }
    for (column, elements) in layout.columns.iter().zip(&channels) {
        let counts = column
            .count_column
            .and_then(|index| channels.get(index)?.as_ref());
        if let Some(counts) = counts {
            let element_count = elements.as_ref().map_or(0, Channel::len);
            complete_updates = match count_complete_updates(counts, complete_updates, element_count)
            {
                Ok(complete_updates) => complete_updates,
                Err(error @ ReadError::Source { .. }) => return Err(error),
                // Only this variable cannot be played.
                Err(_) => return Ok(None),
            };
        }
    }
    let lengths = channels
        .iter()
        .map(|channel| channel.as_ref().map_or(0, Channel::len));
    let columns = layout.columns.iter().zip(lengths);
    let columns: Vec<_> = columns
        .map(|(column, length)| ColumnReader::new(path(&column.name), column.data_type, length))
        .collect();
    let names = layout.columns.iter().map(|column| &*column.name);
    let paths = names.chain([TIME, QUALITY]).map(path).collect();
    let series_position = series_position(file, group);
    let initial = number_property(file, group, INITIAL).unwrap_or(0);
    let reader = VariableReader {
        value: layout.value,
        columns,
        times: Times::Channel(ColumnReader::new(path(TIME), TdmsType::Time, rows)),
        qualities: quality
            .map(|channel| ColumnReader::new(path(QUALITY), TdmsType::U32, channel.len())),
        played: 0,
        updates: complete_updates,
        older_updates: series_position.carried.max(initial).min(complete_updates),
        object: group.clone(),
        series_position,
        skipped_updates: 0,
        is_exact: true,
    };
    let name = group.name().to_string();
    let variable = played_variable(file, group, name, data_type.clone(), complete_updates, rows);
    Ok(Some((variable, reader, paths)))
}

/// Returns a variable with `updates` complete updates in `rows` rows, and with the gaps that the
/// properties of its group record.
fn played_variable(
    file: &TdmsFile<File>,
    group: &ObjectPath,
    name: String,
    data_type: DataType,
    updates: u64,
    rows: u64,
) -> PlayedVariable {
    let mut variable = PlayedVariable {
        name,
        data_type,
        updates,
        cut_off: rows - updates,
        unreadable: 0,
        gaps: 0,
        lost: 0,
        unknown_gaps: 0,
    };
    let properties = file.properties(group);
    let lost = |number: u64| properties?.get(format!("gap_{number}_lost").as_bytes());
    for lost in (1..).map_while(lost) {
        variable.gaps += 1;
        match lost.as_u64() {
            Some(lost) => variable.lost = variable.lost.saturating_add(lost),
            // The value -1 means that the number is unknown.
            None => variable.unknown_gaps += 1,
        }
    }
    variable
}

/// Returns a property of a group if the property is a non-negative number.
fn number_property(file: &TdmsFile<File>, group: &ObjectPath, name: &str) -> Option<u64> {
    file.properties(group)?.get(name.as_bytes())?.as_u64()
}

fn series_position(file: &TdmsFile<File>, group: &ObjectPath) -> SeriesPosition {
    SeriesPosition {
        carried: number_property(file, group, CARRIED).unwrap_or(0),
        row: number_property(file, group, SERIES_ROW),
    }
}

/// Returns the number of updates at the beginning that have all their elements, of `elements`
/// available elements.
fn count_complete_updates(
    counts: &Channel<'_, File>,
    updates: u64,
    elements: u64,
) -> Result<u64, ReadError> {
    let (mut complete, mut sum) = (0, 0_u64);
    let mut buffer = vec![0_u32; updates.min(COUNTS_READ_MAX) as usize];
    while complete < updates {
        let count_max = (updates - complete).min(COUNTS_READ_MAX) as usize;
        let read = counts.read_into(complete, buffer.get_mut(..count_max).unwrap_or_default())?;
        for count in buffer.iter().take(read) {
            sum = sum.saturating_add(u64::from(*count));
            if sum > elements {
                return Ok(complete);
            }
            complete += 1;
        }
        if read < count_max {
            return Ok(complete);
        }
    }
    Ok(complete)
}

/// Interprets a channel as a variable with one value per update; `None` if this is not possible.
fn plain_channel(
    file: &TdmsFile<File>,
    channel: &Channel<'_, File>,
    group: &ObjectPath,
    declared: &DeclaredType,
) -> Option<(PlayedVariable, VariableReader)> {
    let path = channel.path();
    let data_type = channel.data_type().of_variable()?;
    let channel_in_group = |name: &str, data_type| {
        let path = ObjectPath::channel(group.name(), name);
        let channel = file.channel(&path)?;
        let reader = ColumnReader::new(path, data_type, channel.len());
        (channel.data_type() == data_type).then(|| (channel.len(), reader))
    };
    let is_value = path.name() == VALUE && declared.is_scalar();
    let times = is_value
        .then(|| channel_in_group(TIME, TdmsType::Time))
        .flatten();
    let (name, object, times, qualities, updates) = match times {
        Some((count, times)) => {
            let (qualities, reader) = channel_in_group(QUALITY, TdmsType::U32).unzip();
            let updates = channel.len().min(count).min(qualities.unwrap_or(u64::MAX));
            (
                group.name().to_string(),
                group.clone(),
                Times::Channel(times),
                reader,
                updates,
            )
        }
        None => {
            let is_finite =
                |waveform: &Waveform| waveform.increment.is_finite() && waveform.offset.is_finite();
            let waveform = channel.waveform().filter(is_finite)?;
            let name = format!("{}/{}", group.name(), path.name());
            (
                name,
                path.clone(),
                Times::EvenlySpaced(waveform),
                None,
                channel.len(),
            )
        }
    };
    let column = ColumnReader::new(path.clone(), channel.data_type(), channel.len());
    let reader = VariableReader {
        value: Part::Scalar(0),
        columns: vec![column],
        times,
        qualities,
        played: 0,
        updates,
        older_updates: 0,
        object,
        series_position: series_position(file, group),
        skipped_updates: 0,
        is_exact: false,
    };
    let variable = played_variable(file, group, name, data_type, updates, channel.len());
    Some((variable, reader))
}

/// Returns true if the channel contains the times or the qualities of a variable.
fn is_time_or_quality(file: &TdmsFile<File>, path: &ObjectPath, group: &ObjectPath) -> bool {
    let name = path.name();
    let value = ObjectPath::channel(group.name(), VALUE);
    (name == TIME || name == QUALITY) && file.channel(&value).is_some()
}
