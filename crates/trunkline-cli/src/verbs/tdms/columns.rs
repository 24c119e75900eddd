//! The selected channels as columns, and the values of their cells.

use std::borrow::Cow;
use std::collections::HashMap;

use trunkline_tdms::{
    Channel, ObjectPath, PropertyValue, ReadAt, ReadError, Scaling, TdmsFile, TdmsType, Text,
    Values,
};
use trunkline_types::name::escape_segment;
use trunkline_types::{
    Array, ArrayType, DataType, ElementType, Elements, Pattern, Quality, Timestamp, Value,
};

use super::RowArgs;
use super::opened::escaped;
use crate::{CliError, Context, Problem, counted};

/// Returns the name of a channel, `group/channel`, or of a group.
pub(crate) fn name_of(path: &ObjectPath) -> String {
    let segment = |text: &Text| escape_segment(&text.to_str()).into_owned();
    match path {
        ObjectPath::File => "/".to_owned(),
        ObjectPath::Group(group) => segment(group),
        ObjectPath::Channel(group, channel) => format!("{}/{}", segment(group), segment(channel)),
    }
}

/// Returns the names by which a channel can be selected: its name with escapes, and its name without
/// escapes. The group of a recorded variable has the name of the variable, so that the name without
/// escapes is `boiler/level/value`.
pub(crate) fn names_of(path: &ObjectPath) -> [String; 2] {
    let escaped_name = name_of(path);
    match path {
        ObjectPath::Channel(group, channel) => {
            let unescaped_name = format!("{}/{}", group.to_str(), channel.to_str());
            [escaped_name, unescaped_name]
        }
        _ => [escaped_name.clone(), escaped_name],
    }
}

/// The channels that the user has selected.
#[derive(Debug)]
pub(super) struct ChannelSelection {
    patterns: Vec<Selector>,
    exclude: Vec<Pattern>,
}

#[derive(Debug)]
struct Selector {
    text: String,
    matcher: Matcher,
}

#[derive(Debug)]
enum Matcher {
    Pattern(Pattern),
    /// A path in the syntax of TDMS.
    Path(ObjectPath),
}

impl ChannelSelection {
    pub(super) fn new(channels: &[String], context: &Context) -> Result<Self, Problem> {
        let patterns = channels.iter().map(|text| -> Result<_, Problem> {
            let matcher = match text.starts_with("/'") {
                true => ObjectPath::parse(text.as_bytes())
                    .map(Matcher::Path)
                    .map_err(|error| {
                        let position = error.at;
                        format!(
                            "it is not a path such as /'group'/'channel'; the error is at byte \
                             {position}"
                        )
                    }),
                false => Pattern::parse(text)
                    .map(Matcher::Pattern)
                    .map_err(|error| error.to_string()),
            };
            let matcher =
                matcher.map_err(|why| Problem::usage(format!("--channel \"{text}\": {why}")))?;
            let text = text.clone();
            Ok(Selector { text, matcher })
        });
        Ok(Self {
            patterns: patterns.collect::<Result<_, _>>()?,
            exclude: context.settings.exclude.clone(),
        })
    }

    pub(super) fn has(&self, path: &ObjectPath) -> bool {
        let names = names_of(path);
        let is_selected = self
            .patterns
            .iter()
            .any(|selector| selector.matches(path, &names));
        let is_excluded = |pattern: &Pattern| names.iter().any(|name| pattern.matches(name));
        (is_selected || self.patterns.is_empty()) && !self.exclude.iter().any(is_excluded)
    }

    /// Checks that every pattern matches a channel.
    pub(super) fn check<R: ReadAt>(&self, file: &TdmsFile<R>) -> Result<(), Problem> {
        let mut unmatched: Vec<&Selector> = self.patterns.iter().collect();
        for path in file.paths().filter(|path| path.is_channel()) {
            if unmatched.is_empty() {
                break;
            }
            let names = names_of(path);
            unmatched.retain(|selector| !selector.matches(path, &names));
        }
        let Some(selector) = unmatched.first() else {
            return Ok(());
        };
        let group = file.paths().find(|path| match path {
            ObjectPath::Group(group) => group.to_str() == selector.text,
            _ => false,
        });
        let hint = match group {
            Some(group) => format!("did you mean {}/*?", escaped(&name_of(group))),
            None => "`trunkline tdms info -t FILE` lists the channels".to_owned(),
        };
        let text = escaped(&selector.text);
        let sentence = match Pattern::has_wildcards(&selector.text) {
            true => format!("no channel matches {text}; {hint}"),
            false => format!("there is no channel named {text}; {hint}"),
        };
        Err(Problem::failed("no-channel", sentence))
    }
}

impl Selector {
    fn matches(&self, path: &ObjectPath, names: &[String]) -> bool {
        match &self.matcher {
            Matcher::Pattern(pattern) => names.iter().any(|name| pattern.matches(name)),
            Matcher::Path(selected) => selected == path,
        }
    }
}

/// A column: a channel, or one scaler of a channel.
#[derive(Debug)]
pub(super) struct Column<'a, R> {
    pub(super) channel: Channel<'a, R>,
    /// Name of the column, which no other column has.
    pub(super) name: String,
    reading: Reading,
    pub(super) data_type: TdmsType,
}

/// How the values of a column are computed from the stored values.
#[derive(Debug)]
enum Reading {
    /// Unchanged.
    Plain,
    Scaled(Scaling),
    /// Raw values of the scaler with this ID.
    Scaler(u32),
    /// Qualities of a recorded variable, converted to words.
    Quality,
    /// Nanoseconds since 1970, converted to times.
    Timestamp,
}

impl<'a, R: ReadAt> Column<'a, R> {
    /// Returns true if the cells are strings unchanged from the file.
    pub(super) fn is_of_strings(&self) -> bool {
        self.data_type == TdmsType::String && matches!(self.reading, Reading::Plain)
    }

    /// Reads at most `count` cells, starting at row `start`, and at most `text_bytes` bytes of text.
    pub(super) fn read(
        &self,
        start: u64,
        count: u64,
        text_bytes: u64,
    ) -> Result<Values, ReadError> {
        match &self.reading {
            Reading::Plain if self.data_type == TdmsType::String => self
                .channel
                .read_strings_within(start, count, text_bytes)
                .map(Values::String),
            Reading::Plain => self.channel.read(start, count),
            Reading::Timestamp => match self.channel.read(start, count)? {
                Values::I64(nanos) => {
                    let times = nanos.into_iter().map(Timestamp::from_nanos);
                    Ok(Values::Time(times.map(Into::into).collect()))
                }
                other => Ok(other),
            },
            Reading::Quality => match self.channel.read(start, count)? {
                Values::U32(bits) => {
                    let words = bits.into_iter().map(Quality::from_bits);
                    let words = words.map(|quality| Text::from(quality.to_string()));
                    Ok(Values::String(words.collect()))
                }
                other => Ok(other),
            },
            Reading::Scaler(id) => self.channel.read_scaler(*id, start, count),
            Reading::Scaled(scaling) => {
                let available = count.min(self.channel.len().saturating_sub(start));
                let mut values = vec![0.0; available as usize];
                self.channel.read_scaled_into(scaling, start, &mut values)?;
                Ok(Values::F64(values))
            }
        }
    }
}

/// Returns the columns of the selected channels, except channels that never had a value.
pub(super) fn columns<'a, R: ReadAt>(
    file: &'a TdmsFile<R>,
    args: &RowArgs,
    context: &Context,
) -> Result<Vec<Column<'a, R>>, CliError> {
    let selection = ChannelSelection::new(&args.channel, context)?;
    selection.check(file)?;
    let (mut columns, mut without_values) = (Vec::new(), 0);
    for channel in file
        .channels()
        .filter(|channel| selection.has(channel.path()))
    {
        let name = name_of(channel.path());
        let scaling = match args.raw {
            true => Scaling::None,
            false => channel.scaling(),
        };
        if let Scaling::Unknown(why) = &scaling {
            let note = format!("{}: {why}; its numbers are not scaled", escaped(&name));
            context.terminal.note(&note)?;
        }
        let scalers = channel.scalers();
        let (reading, data_type) = if matches!(scaling, Scaling::Chain(_)) {
            (Reading::Scaled(scaling), TdmsType::F64)
        } else if scalers.len() > 1 {
            for (scaler, same_channel) in scalers.iter().zip(repeat_channel(file, channel.path())) {
                columns.push(Column {
                    channel: same_channel,
                    name: format!("{name}[{}]", scaler.scale_id),
                    reading: Reading::Scaler(scaler.scale_id),
                    data_type: scaler.data_type,
                });
            }
            continue;
        } else {
            match scalers.first().map_or(channel.data_type(), |s| s.data_type) {
                TdmsType::Void | TdmsType::Daqmx => {
                    without_values += 1;
                    continue;
                }
                data_type if args.raw => (Reading::Plain, data_type.without_unit()),
                data_type => reading(file, &channel, data_type),
            }
        };
        columns.push(Column {
            channel,
            name,
            reading,
            data_type,
        });
    }
    if without_values > 0 {
        let channels = counted(without_values, "channel");
        let note = format!("the output omits {channels} without values");
        context.terminal.note(&note)?;
    }
    use_unescaped_names(&mut columns);
    number_duplicates(&mut columns);
    Ok(columns)
}

fn reading<R: ReadAt>(
    file: &TdmsFile<R>,
    channel: &Channel<'_, R>,
    data_type: TdmsType,
) -> (Reading, TdmsType) {
    let value_type = channel.properties().get(b"value_type".as_slice());
    let is_time = value_type.and_then(PropertyValue::as_text);
    if data_type == TdmsType::I64 && is_time.is_some_and(|text| *text == "timestamp") {
        return (Reading::Timestamp, TdmsType::Time);
    }
    let path = channel.path();
    let group = path.parent().and_then(|group| file.properties(&group));
    let is_variable = group.is_some_and(|all| all.contains_key(b"variable_type".as_slice()));
    match is_variable && data_type == TdmsType::U32 && *path.name().to_str() == *"quality" {
        true => (Reading::Quality, TdmsType::String),
        false => (Reading::Plain, data_type.without_unit()),
    }
}

/// Names the columns without escapes, except where two columns would have the same name.
fn use_unescaped_names<R: ReadAt>(columns: &mut [Column<'_, R>]) {
    let unescaped_name = |column: &Column<'_, R>| {
        let [escaped, unescaped] = names_of(column.channel.path());
        let suffix = column.name.strip_prefix(&*escaped).unwrap_or_default();
        format!("{unescaped}{suffix}")
    };
    let mut counts: HashMap<String, u64> = HashMap::new();
    for column in &*columns {
        *counts.entry(unescaped_name(column)).or_default() += 1;
    }
    for column in columns {
        let name = unescaped_name(column);
        if counts.get(&name) == Some(&1) {
            column.name = name;
        }
    }
}

/// Returns the same channel repeatedly.
fn repeat_channel<'a, R: ReadAt>(
    file: &'a TdmsFile<R>,
    path: &'a ObjectPath,
) -> impl Iterator<Item = Channel<'a, R>> {
    std::iter::repeat_with(move || file.channel(path)).map_while(|channel| channel)
}

/// Appends numbers to duplicate names. Names that differ only in bytes that are not UTF-8 become
/// duplicates.
fn number_duplicates<R>(columns: &mut [Column<'_, R>]) {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for column in columns {
        let count = counts.entry(column.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            column.name = format!("{}#{count}", column.name);
        }
    }
}

pub(super) fn cell_type(data_type: TdmsType) -> DataType {
    match data_type {
        TdmsType::ComplexF32 => complex(ElementType::F32),
        TdmsType::ComplexF64 => complex(ElementType::F64),
        other => other.of_variable().unwrap_or(DataType::F64),
    }
}

/// Returns the type of a complex number: an array of its real and imaginary parts.
fn complex(element: ElementType) -> DataType {
    let shape = vec![Some(2)];
    DataType::Array(ArrayType { element, shape }.into())
}

pub(super) fn cell(values: &Values, row: usize) -> Option<Value> {
    let pair = |elements| Value::Array(Array::vector(elements).into());
    Some(match values {
        Values::I8(v) => Value::I8(*v.get(row)?),
        Values::I16(v) => Value::I16(*v.get(row)?),
        Values::I32(v) => Value::I32(*v.get(row)?),
        Values::I64(v) => Value::I64(*v.get(row)?),
        Values::U8(v) => Value::U8(*v.get(row)?),
        Values::U16(v) => Value::U16(*v.get(row)?),
        Values::U32(v) => Value::U32(*v.get(row)?),
        Values::U64(v) => Value::U64(*v.get(row)?),
        Values::F32(v) => Value::F32(*v.get(row)?),
        Values::F64(v) => Value::F64(*v.get(row)?),
        Values::Extended(v) => Value::F64(v.get(row)?.to_f64()),
        Values::Bool(v) => Value::Bool(*v.get(row)?),
        Values::String(v) => Value::String(v.get(row)?.to_str().into()),
        Values::Time(v) => {
            let time = v.get(row)?;
            match time.to_timestamp() {
                Some(time) => Value::Timestamp(time),
                // A time beyond the range of 64-bit nanoseconds is shown as text.
                None => Value::String(time.to_string().into()),
            }
        }
        Values::ComplexF32(v) => pair(Elements::F32(v.get(row)?.to_vec())),
        Values::ComplexF64(v) => pair(Elements::F64(v.get(row)?.to_vec())),
        _ => return None,
    })
}

pub(super) fn unit<'a, R: ReadAt>(channel: &Channel<'a, R>) -> Option<Cow<'a, str>> {
    let unit = channel.properties().get(b"unit_string".as_slice())?;
    unit.as_text().map(Text::to_str)
}
