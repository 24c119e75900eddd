//! Finds the variables of a file and the channels that contain them.

use std::collections::HashSet;
use std::fs::File;

use trunkline_tdms::{Channel, ObjectPath, ReadError, TdmsFile, TdmsType, Waveform};
use trunkline_types::DataType;
use trunkline_types::text::parse_type;

use super::column_reader::ColumnReader;
use super::layout::{Layout, Part};
use super::playing::PlayedVariable;
use super::{CARRIED, INITIAL, QUALITY, SERIES_ROW, TIME, TYPE, VALUE};

/// Number of counts read at a time.
const COUNTS: u64 = 1 << 16;

/// Everything in a file that can be played, in the file's order.
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
    /// Number of first updates that are older than the file: copied from the previous one, or
    /// measured before the recording began.
    pub(super) older_updates: u64,
    /// The group or channel of the variable.
    pub(super) object: ObjectPath,
    /// The variable's position in a series according to its properties.
    pub(super) in_series: InSeries,
    /// Number of first updates that are not played because a previous file contains them.
    pub(super) skip: u64,
    /// True if a NUL at the end of a text is part of it.
    pub(super) is_exact: bool,
}

/// The properties of a group that refer to previous files.
#[derive(Clone, Copy, Debug)]
pub(super) struct InSeries {
    /// Number of its first updates that were copied from the previous file.
    pub(super) carried: u64,
    /// Number of updates in all previous files.
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
        let (mut groups, mut taken_paths) = (HashSet::new(), HashSet::new());
        for channel in file.channels() {
            let path = channel.path();
            let group = path.parent().unwrap_or(ObjectPath::File);
            let stated = stated_type(file, &group);
            if groups.insert(group.clone())
                && let StatedType::Type(data_type) = &stated
                && let Some((variable, reader, paths)) = recorded_variable(file, &group, data_type)?
            {
                found.variables.push(variable);
                found.readers.push(reader);
                taken_paths.extend(paths);
            }
            if taken_paths.contains(path) {
                continue;
            }
            match plain_channel(file, &channel, &group, &stated) {
                Some((variable, reader)) => {
                    found.variables.push(variable);
                    found.readers.push(reader);
                }
                None if stated.is_scalar() && belongs_to_a_value(file, path, &group) => {}
                None => found.skipped.push(path.clone()),
            }
        }
        Ok(found)
    }
}

/// The type of a group's variable according to its properties.
enum StatedType {
    Nothing,
    Type(DataType),
    /// A property that is not a valid type.
    Invalid,
}

impl StatedType {
    /// Returns true if, according to the group, one value of the channel is one value of the
    /// variable.
    fn is_scalar(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Type(data_type) => {
                let layout = Layout::of(data_type);
                layout.is_ok_and(|layout| matches!(layout.value, Part::Scalar(_)))
            }
            Self::Invalid => false,
        }
    }
}

fn stated_type(file: &TdmsFile<File>, group: &ObjectPath) -> StatedType {
    let properties = file.properties(group);
    match properties.and_then(|all| all.get(TYPE.as_bytes())) {
        None => StatedType::Nothing,
        Some(stated) => {
            let stated = stated
                .as_text()
                .and_then(|text| parse_type(&text.to_str()).ok());
            stated.map_or(StatedType::Invalid, StatedType::Type)
        }
    }
}

/// Returns a recorded variable with its channels; `None` if a channel is missing or has another
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
    // A channel that never had a value has no type either.
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
    // If the end was cut off, only updates present in all channels count.
    let mut complete_updates = rows.min(quality.as_ref().map_or(u64::MAX, Channel::len));
    let mut channels = Vec::with_capacity(layout.columns.len());
    for column in &layout.columns {
        let found = channel(&column.name);
        let is_valid = match &found {
            Some(channel) if column.counted_by.is_some() => {
                channel.data_type() == column.data_type || channel.is_empty()
            }
            Some(channel) => has_type(channel, column.data_type),
            None => column.counted_by.is_some() || rows == 0,
        };
        if !is_valid {
            return Ok(None);
        }
        if column.counted_by.is_none() {
            complete_updates = complete_updates.min(found.as_ref().map_or(0, Channel::len));
        }
        channels.push(found);
    }
    for (column, elements) in layout.columns.iter().zip(&channels) {
        let counts = column
            .counted_by
            .and_then(|index| channels.get(index)?.as_ref());
        if let Some(counts) = counts {
            let element_count = elements.as_ref().map_or(0, Channel::len);
            complete_updates = match count_complete_updates(counts, complete_updates, element_count)
            {
                Ok(complete_updates) => complete_updates,
                Err(error @ ReadError::Source { .. }) => return Err(error),
                // This variable cannot be played; others can.
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
    let in_series = in_series(file, group);
    let initial = number(file, group, INITIAL).unwrap_or(0);
    let reader = VariableReader {
        value: layout.value,
        columns,
        times: Times::Channel(ColumnReader::new(path(TIME), TdmsType::Time, rows)),
        qualities: quality
            .map(|channel| ColumnReader::new(path(QUALITY), TdmsType::U32, channel.len())),
        played: 0,
        updates: complete_updates,
        older_updates: in_series.carried.max(initial).min(complete_updates),
        object: group.clone(),
        in_series,
        skip: 0,
        is_exact: true,
    };
    let name = group.name().to_string();
    let variable = played_variable(file, group, name, data_type.clone(), complete_updates, rows);
    Ok(Some((variable, reader, paths)))
}

/// Returns a variable with `updates` complete updates in `rows` rows, and the gaps that the
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
            // -1 means an unknown number.
            None => variable.unknown_gaps += 1,
        }
    }
    variable
}

/// Returns a property of a group, if it is a non-negative number.
fn number(file: &TdmsFile<File>, group: &ObjectPath, name: &str) -> Option<u64> {
    file.properties(group)?.get(name.as_bytes())?.as_u64()
}

fn in_series(file: &TdmsFile<File>, group: &ObjectPath) -> InSeries {
    InSeries {
        carried: number(file, group, CARRIED).unwrap_or(0),
        row: number(file, group, SERIES_ROW),
    }
}

/// Returns how many of the first updates have all their elements, given the number of elements
/// available.
fn count_complete_updates(
    counts: &Channel<'_, File>,
    updates: u64,
    elements: u64,
) -> Result<u64, ReadError> {
    let (mut complete, mut sum) = (0, 0_u64);
    let mut piece = vec![0_u32; updates.min(COUNTS) as usize];
    while complete < updates {
        let wanted = (updates - complete).min(COUNTS) as usize;
        let read = counts.read_into(complete, piece.get_mut(..wanted).unwrap_or_default())?;
        for count in piece.iter().take(read) {
            sum = sum.saturating_add(u64::from(*count));
            if sum > elements {
                return Ok(complete);
            }
            complete += 1;
        }
        if read < wanted {
            return Ok(complete);
        }
    }
    Ok(complete)
}

/// Interprets a channel as a variable with one value per update; `None` if it cannot be one.
fn plain_channel(
    file: &TdmsFile<File>,
    channel: &Channel<'_, File>,
    group: &ObjectPath,
    stated: &StatedType,
) -> Option<(PlayedVariable, VariableReader)> {
    let path = channel.path();
    let data_type = channel.data_type().of_variable()?;
    let sibling = |name: &str, data_type| {
        let path = ObjectPath::channel(group.name(), name);
        let channel = file.channel(&path)?;
        let reader = ColumnReader::new(path, data_type, channel.len());
        (channel.data_type() == data_type).then(|| (channel.len(), reader))
    };
    let is_value = path.name() == VALUE && stated.is_scalar();
    let times = is_value.then(|| sibling(TIME, TdmsType::Time)).flatten();
    let (name, object, times, qualities, updates) = match times {
        Some((count, times)) => {
            let (qualities, reader) = sibling(QUALITY, TdmsType::U32).unzip();
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
        in_series: in_series(file, group),
        skip: 0,
        is_exact: false,
    };
    let variable = played_variable(file, group, name, data_type, updates, channel.len());
    Some((variable, reader))
}

/// Returns true if the channel holds the time or the quality of a variable.
fn belongs_to_a_value(file: &TdmsFile<File>, path: &ObjectPath, group: &ObjectPath) -> bool {
    let name = path.name();
    let value = ObjectPath::channel(group.name(), VALUE);
    (name == TIME || name == QUALITY) && file.channel(&value).is_some()
}
