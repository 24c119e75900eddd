//! `tdms info`: shows the contents of a file.

use std::path::PathBuf;

use serde_json::{Map, Value as Json};
use trunkline_tdms::{
    Channel, ObjectPath, Properties, PropertyValue, ReadAt, Scaling, TdmsFile, TdmsType,
};

use super::columns::{ChannelSelection, name_of, unit};
use super::opened::{escaped, escaped_path, findings, index_of, open, report_defects};
use super::rows::Axis;
use super::sums::sums_of;
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::WideInt;
use crate::settings::Columns;
use crate::verbs::stream::units::bytes_text;
use crate::{CliError, Context, Exit, Problem, counted};

/// Show the groups, channels and properties of a file
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The TDMS file to read
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only channels that match, such as 'daq/*'; may be given several times
    #[arg(long, value_name = "PATTERN")]
    channel: Vec<String>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let file = open(&args.file)?;
    let selection = ChannelSelection::new(&args.channel, context)?;
    selection.check(&file)?;
    if context.settings.is_json() {
        context.list([Contents::of(&file, args, &selection, context)?])?;
        report_defects(&file, &args.file, context)?;
        return Ok(Exit::Success);
    }
    let is_wide = context.settings.columns == Columns::Wide;
    if context.settings.output_format.is_for_people() && context.settings.columns != Columns::Terse
    {
        context.terminal.line(&headline(&file, args)?)?;
        if is_wide {
            for path in file.paths().filter(|path| !path.is_channel()) {
                properties(&file, path, context)?;
            }
        }
    }
    let selected = || {
        file.channels()
            .filter(|channel| selection.has(channel.path()))
    };
    context.list(selected().map(|channel| Contained::of(&channel, context)))?;
    if is_wide {
        for channel in selected() {
            properties(&file, channel.path(), context)?;
        }
    }
    report_defects(&file, &args.file, context)?;
    Ok(Exit::Success)
}

/// The line of `tdms info` with --json.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A TDMS file, version 1")]
pub(crate) struct Contents {
    /// The file, as named on the command line.
    file: String,
    /// Length of the file in bytes.
    bytes: u64,
    /// Format version of the last segment: 4712 (1.0) or 4713 (2.0). Null if there is no segment.
    version: Option<u32>,
    /// Number of segments that were read.
    segments: u64,
    /// Whether there is an index file next to the file.
    index: bool,
    /// Whether there are checksums next to the file. `tdms verify` compares them with the file.
    sums: bool,
    /// Number of findings; `tdms verify` lists them.
    findings: u64,
    /// Number of bytes at the end that belong to no value.
    bytes_lost: u64,
    /// Properties of the file. Times, and numbers that JSON cannot represent, are text; complex
    /// numbers are pairs.
    properties: Map<String, Json>,
    /// Groups, in the order of the file.
    groups: Vec<Group>,
    /// The selected channels.
    channels: Vec<Contained>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Group {
    /// Name in the file.
    name: String,
    /// Properties of the group.
    properties: Map<String, Json>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Contained {
    /// `group/channel`, with escapes.
    name: String,
    /// Path in the syntax of TDMS.
    path: String,
    /// Type of the values.
    #[serde(rename = "type")]
    data_type: String,
    /// Number of values. A string with --int-strings.
    values: WideInt,
    /// Unit. Left out when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    unit: String,
    /// Interval between two values, in the unit of the axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<f64>,
    /// Position of value 0: a time, or a number if the file has no start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = ["string", "number"]))]
    begins: Option<Json>,
    /// Whether the scales of the channel are applied. Left out if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    scaled: Option<bool>,
    /// Why the scales are not applied. Left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_scaled: Option<String>,
    /// Properties of the channel.
    properties: Map<String, Json>,
}

impl Record for Contents {
    const COLUMNS: &'static [&'static str] = Contained::COLUMNS;
}

impl Record for Contained {
    const COLUMNS: &'static [&'static str] = &[
        "channel", "type", "values", "unit", "interval", "begins", "scaled",
    ];
    const IS_HEADED: bool = false;

    fn cell(&self, column: &str) -> Option<String> {
        match column {
            "channel" => Some(self.name.clone()),
            "interval" => self.interval.map(|interval| interval.to_string()),
            // A JSON number would show a whole number with a decimal place.
            "begins" => Some(self.begins.as_ref()?.as_f64()?.to_string()),
            "scaled" => match (&self.not_scaled, self.scaled) {
                (Some(why), _) => Some(format!("no: {why}")),
                (None, scaled) => scaled.map(|_| "yes".to_owned()),
            },
            _ => None,
        }
    }
}

fn headline<R: ReadAt>(file: &TdmsFile<R>, args: &Args) -> Result<String, Problem> {
    let report = file.report();
    let version = match report.version {
        Some(4712) => "TDMS 1.0".to_owned(),
        Some(4713) => "TDMS 2.0".to_owned(),
        Some(other) => format!("TDMS version {other}"),
        None => "TDMS".to_owned(),
    };
    let index = index_of(&args.file).map_or("", |_| ", with its index file");
    let sums = sums_of(&args.file).map_or("", |_| ", with checksums");
    let values: u64 = file.channels().map(|channel| channel.len()).sum();
    Ok(format!(
        "{}: {version}, {}, {}, {}, {}, {}{index}{sums}",
        escaped_path(&args.file),
        bytes_text(size(file)? as f64),
        counted(report.segments, "segment"),
        counted(file.groups().count() as u64, "group"),
        counted(file.channels().count() as u64, "channel"),
        counted(values, "value"),
    ))
}

fn size<R: ReadAt>(file: &TdmsFile<R>) -> Result<u64, Problem> {
    let size = file.source().byte_len();
    size.map_err(|error| {
        Problem::failed(
            "not-readable",
            format!("the length of the file is unknown: {error}"),
        )
    })
}

fn type_text<R: ReadAt>(channel: &Channel<'_, R>) -> String {
    match (channel.data_type(), channel.scalers()) {
        (TdmsType::Daqmx, [scaler]) => format!("DAQmx {}", scaler.data_type),
        (TdmsType::Daqmx, scalers) => format!("DAQmx, {} scalers", scalers.len()),
        (other, _) => other.to_string(),
    }
}

fn properties<R: ReadAt>(
    file: &TdmsFile<R>,
    path: &ObjectPath,
    context: &Context,
) -> Result<(), CliError> {
    for (name, value) in file.properties(path).into_iter().flatten() {
        context.terminal.line(&format!(
            "{}#{}\t{}",
            escaped(&name_of(path)),
            escaped(&name.to_str()),
            escaped(&value_text(value))
        ))?;
    }
    Ok(())
}

pub(super) fn value_text(value: &PropertyValue) -> String {
    match value_json(value) {
        Json::String(text) => text,
        Json::Null => String::new(),
        other => other.to_string(),
    }
}

/// Formats a property as JSON; values that are not JSON numbers become text.
fn value_json(value: &PropertyValue) -> Json {
    let float = |number: f64| match number.is_finite() {
        true => Json::from(number),
        false => Json::from(number.to_string()),
    };
    match value {
        PropertyValue::Void => Json::Null,
        PropertyValue::Bool(value) => Json::from(*value),
        PropertyValue::String(text) => Json::from(text.to_str().as_ref()),
        PropertyValue::Time(time) => Json::from(time.to_string()),
        PropertyValue::I8(n) => Json::from(*n),
        PropertyValue::I16(n) => Json::from(*n),
        PropertyValue::I32(n) => Json::from(*n),
        PropertyValue::I64(n) => Json::from(*n),
        PropertyValue::U8(n) => Json::from(*n),
        PropertyValue::U16(n) => Json::from(*n),
        PropertyValue::U32(n) => Json::from(*n),
        PropertyValue::U64(n) => Json::from(*n),
        // Keep the digits of the `f32`; the converted `f64` would have more.
        PropertyValue::F32(n) => n.to_string().parse().map_or(float(f64::from(*n)), float),
        PropertyValue::F64(n) => float(*n),
        PropertyValue::Extended(n) => float(n.to_f64()),
        PropertyValue::ComplexF32(pair) => pair.iter().map(|n| float(f64::from(*n))).collect(),
        PropertyValue::ComplexF64(pair) => pair.iter().map(|n| float(*n)).collect(),
    }
}

fn properties_json(properties: Option<&Properties>) -> Map<String, Json> {
    let properties = properties.into_iter().flatten();
    properties
        .map(|(name, value)| (name.to_str().into_owned(), value_json(value)))
        .collect()
}

impl Contents {
    fn of<R: ReadAt>(
        file: &TdmsFile<R>,
        args: &Args,
        selection: &ChannelSelection,
        context: &Context,
    ) -> Result<Self, Problem> {
        let report = file.report();
        let groups = file
            .paths()
            .filter(|path| matches!(path, ObjectPath::Group(_)));
        let channels = file
            .channels()
            .filter(|channel| selection.has(channel.path()));
        Ok(Self {
            file: args.file.display().to_string(),
            bytes: size(file)?,
            version: report.version,
            segments: report.segments,
            index: index_of(&args.file).is_some(),
            sums: sums_of(&args.file).is_some(),
            findings: findings(file).len() as u64 + report.findings_dropped,
            bytes_lost: report.bytes_lost,
            properties: properties_json(file.properties(&ObjectPath::File)),
            groups: groups
                .map(|path| Group {
                    name: path.name().to_str().into_owned(),
                    properties: properties_json(file.properties(path)),
                })
                .collect(),
            channels: channels
                .map(|channel| Contained::of(&channel, context))
                .collect(),
        })
    }
}

impl Contained {
    fn of<R: ReadAt>(channel: &Channel<'_, R>, context: &Context) -> Self {
        let (scaled, not_scaled) = match channel.scaling() {
            Scaling::None => (None, None),
            Scaling::Chain(_) => (Some(true), None),
            Scaling::Unknown(why) => (Some(false), Some(why.to_string())),
        };
        Self {
            name: name_of(channel.path()),
            path: channel.path().to_string(),
            data_type: type_text(channel),
            values: context.settings.values.int_or_text(channel.len()),
            unit: unit(channel).unwrap_or_default().into_owned(),
            interval: channel.waveform().map(|waveform| waveform.increment),
            begins: Axis::of_channel(channel).map(|axis| axis.at(0).json()),
            scaled,
            not_scaled,
            properties: properties_json(Some(channel.properties())),
        }
    }
}
