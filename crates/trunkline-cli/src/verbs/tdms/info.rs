//! `tdms info`: shows the contents of a file.

use std::path::PathBuf;

use serde_json::{Map, Value as Json};
use trunkline_tdms::{
    Channel, ObjectPath, Properties, PropertyValue, ReadAt, Scaling, TdmsFile, TdmsType,
};

use super::columns::{Choice, name_of, unit};
use super::opened::{findings, index_of, open, plain, say, shown};
use super::rows::{Axis, When};
use super::sums::sums_of;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::counted;
use crate::output::json::Object;
use crate::output::records::{Records, Row};
use crate::problem::{Problem, Stop};
use crate::settings::Columns;
use crate::terminal::Mood;
use crate::verbs::Context;
use crate::verbs::stream::units::bytes_text;

/// Show the contents of a file: groups, channels, properties
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only channels that match, such as 'daq/*'; may be given several times
    #[arg(long, value_name = "PATTERN")]
    channel: Vec<String>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    interrupt::end_process_on_interrupt(&context.terminal)?;
    let file = open(&args.file)?;
    let choice = Choice::new(&args.channel, context)?;
    choice.check(&file)?;
    if context.settings.is_json() {
        let object = object(&file, args, &choice, context)?;
        let mut records = Records::new(&context.settings, &context.terminal, COLUMNS)?;
        records.push(Row {
            cells: Vec::new(),
            object,
            mood: Mood::Plain,
        })?;
        records.finish()?;
        say(&file, &args.file, context)?;
        return Ok(Exit::Done);
    }
    let is_wide = context.settings.columns == Columns::Wide;
    let is_for_people = context.settings.form.is_for_people();
    if is_for_people && context.settings.columns != Columns::Terse {
        context.terminal.line(&headline(&file, args)?)?;
        if is_wide {
            for path in file.paths().filter(|path| !path.is_channel()) {
                properties(&file, path, context)?;
            }
        }
    }
    let mut records = Records::new(&context.settings, &context.terminal, COLUMNS)?;
    let chosen = || file.channels().filter(|one| choice.has(one.path()));
    for channel in chosen() {
        records.push(Row {
            cells: cells(&channel, is_for_people),
            object: Object::new(),
            mood: Mood::Plain,
        })?;
    }
    records.finish()?;
    if is_wide {
        for channel in chosen() {
            properties(&file, channel.path(), context)?;
        }
    }
    say(&file, &args.file, context)?;
    Ok(Exit::Done)
}

const COLUMNS: &[&str] = &[
    "channel", "type", "values", "unit", "interval", "begins", "scaled",
];

/// Describes the file in one line.
fn headline<R: ReadAt>(file: &TdmsFile<R>, args: &Args) -> Result<String, Problem> {
    let report = file.report();
    let version = match report.version {
        Some(4712) => "TDMS 1.0".to_owned(),
        Some(4713) => "TDMS 2.0".to_owned(),
        Some(other) => format!("TDMS version {other}"),
        None => "TDMS".to_owned(),
    };
    let index = match index_of(&args.file) {
        Some(_) => ", with its index file",
        None => "",
    };
    let sums = match sums_of(&args.file) {
        Some(_) => ", with checksums",
        None => "",
    };
    let values: u64 = file.channels().map(|channel| channel.len()).sum();
    Ok(format!(
        "{}: {version}, {}, {}, {}, {}, {}{index}{sums}",
        shown(&args.file),
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
        Problem::new(
            Exit::SomeFailed,
            "not-readable",
            &format!("its length is not known: {error}"),
        )
    })
}

fn cells<R: ReadAt>(channel: &Channel<'_, R>, is_for_people: bool) -> Vec<String> {
    let safe = |text: String| match is_for_people {
        true => plain(&text),
        false => text,
    };
    let unit = unit(channel).unwrap_or_default().into_owned();
    let waveform = channel.waveform();
    let interval = waveform.map(|waveform| waveform.increment.to_string());
    let begins = Axis::of_one(channel).map(|axis| match axis.at(0) {
        When::Time(time) => time.to_string(),
        When::Distance(distance) => distance.to_string(),
    });
    let scaled = match channel.scaling() {
        Scaling::None => String::new(),
        Scaling::Chain(_) => "yes".to_owned(),
        Scaling::Unknown(why) => format!("no: {why}"),
    };
    vec![
        safe(name_of(channel.path())),
        type_text(channel),
        channel.len().to_string(),
        safe(unit),
        interval.unwrap_or_default(),
        begins.unwrap_or_default(),
        safe(scaled),
    ]
}

fn type_text<R: ReadAt>(channel: &Channel<'_, R>) -> String {
    match (channel.data_type(), channel.scalers()) {
        (TdmsType::Daqmx, [one]) => format!("DAQmx {}", one.data_type),
        (TdmsType::Daqmx, many) => format!("DAQmx, {} scalers", many.len()),
        (other, _) => other.to_string(),
    }
}

/// Prints the properties of an object, one per line.
fn properties<R: ReadAt>(
    file: &TdmsFile<R>,
    path: &ObjectPath,
    context: &Context,
) -> Result<(), Stop> {
    for (name, value) in file.properties(path).into_iter().flatten() {
        context.terminal.line(&format!(
            "{}#{}\t{}",
            plain(&name_of(path)),
            plain(&name.to_str()),
            plain(&value_text(value))
        ))?;
    }
    Ok(())
}

/// Formats a property as text.
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
        // With the digits of its own type.
        PropertyValue::F32(n) => n.to_string().parse().map_or(float(f64::from(*n)), float),
        PropertyValue::F64(n) => float(*n),
        PropertyValue::Extended(n) => float(n.to_f64()),
        PropertyValue::ComplexF32(pair) => pair.iter().map(|n| float(f64::from(*n))).collect(),
        PropertyValue::ComplexF64(pair) => pair.iter().map(|n| float(*n)).collect(),
        _ => Json::Null,
    }
}

fn all_json(properties: Option<&Properties>) -> Map<String, Json> {
    let all = properties.into_iter().flatten();
    all.map(|(name, value)| (name.to_str().into_owned(), value_json(value)))
        .collect()
}

/// Returns everything about a file as one object.
fn object<R: ReadAt>(
    file: &TdmsFile<R>,
    args: &Args,
    choice: &Choice,
    context: &Context,
) -> Result<Object, Problem> {
    let report = file.report();
    let mut object = Object::new();
    object.put("file", args.file.display().to_string());
    object.put("bytes", size(file)?);
    object.put("version", report.version.map_or(Json::Null, Json::from));
    object.put("segments", report.segments);
    object.put("index", index_of(&args.file).is_some());
    object.put("sums", sums_of(&args.file).is_some());
    object.put(
        "findings",
        findings(file).len() as u64 + report.findings_dropped,
    );
    object.put("bytes_lost", report.bytes_lost);
    object.put("properties", all_json(file.properties(&ObjectPath::File)));
    let groups: Vec<Json> = file
        .paths()
        .filter(|path| matches!(path, ObjectPath::Group(_)))
        .map(|path| {
            let mut group = Object::default();
            group.put("name", path.name().to_str().as_ref());
            group.put("properties", all_json(file.properties(path)));
            group.into_json()
        })
        .collect();
    object.put("groups", groups);
    let channels = file.channels().filter(|one| choice.has(one.path()));
    let channels: Vec<Json> = channels.map(|one| of_channel(&one, context)).collect();
    object.put("channels", channels);
    Ok(object)
}

fn of_channel<R: ReadAt>(channel: &Channel<'_, R>, context: &Context) -> Json {
    let mut object = Object::default();
    object.put("name", name_of(channel.path()));
    object.put("path", channel.path().to_string());
    object.put("type", type_text(channel));
    let count = context.settings.values.json_u64(channel.len());
    object.put("values", count);
    object.put_text("unit", &unit(channel).unwrap_or_default());
    if let Some(waveform) = channel.waveform() {
        object.put("interval", waveform.increment);
    }
    match Axis::of_one(channel).map(|axis| axis.at(0)) {
        Some(When::Time(time)) => object.put("begins", time.to_string()),
        Some(When::Distance(distance)) => object.put("begins", distance),
        None => {}
    }
    match channel.scaling() {
        Scaling::None => {}
        Scaling::Chain(_) => object.put("scaled", true),
        Scaling::Unknown(why) => {
            object.put("scaled", false);
            object.put("not_scaled", why.to_string());
        }
    }
    object.put("properties", all_json(Some(channel.properties())));
    object.into_json()
}
