//! `info`: shows everything that the engine knows about a variable.

pub(crate) mod record;
mod trend;
mod words;

use std::time::Duration;

use trunkline::proto::VariableInfo;
use trunkline::{Found, Opened};
use trunkline_types::Value;

use self::record::Info;
use self::words::{
    access, alarm, deadband, fifo, held_by, range, read_by, scaling, source, writes,
};
use crate::arguments::{OutputFormat, number};
use crate::connection::{Connection, open_options, reading_fault};
use crate::output::record::{Table, json};
use crate::output::times::TimeColumn;
use crate::settings::Columns;
use crate::targets;
use crate::terminal::{Style, escaped, padded};
use crate::{CliError, Context, Exit, Problem, Tally};

/// Show everything that the engine knows about variables
///
/// For each variable, this includes the type, units, range, access, source and its state, the last
/// update and its writer, the outcomes of all writes, the file and line of its configuration, and
/// the fields that can be read as NAME#FIELD.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Names, URLs, or patterns such as 'boiler/*'
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Also show COUNT values of each variable as a small graph: the current value and those that
    /// arrive within --timeout
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = number::<u32>(1..=10_000),
        allow_negative_numbers = true
    )]
    trend: Option<u32>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, CliError> {
    let settings = &context.settings;
    if !matches!(settings.columns, Columns::Default | Columns::Wide) {
        let sentence = "`info` does not accept -t or --format; leave them out";
        return Err(Problem::usage(sentence).into());
    }
    let targets = targets::resolve(&args.names, settings)?;
    let connection = Connection::new(&targets.engine, context)?;
    let entries = connection.expand(targets, context)?;
    let opened = connection.open_all(&entries, open_options(true, false))?;
    let existing = opened.iter();
    let existing =
        existing.filter_map(|(name, opened)| Some((name.as_str(), opened.as_ref().ok()?)));
    let (names, variables): (Vec<_>, Vec<_>) = existing
        .map(|(name, opened)| (name, opened.variable))
        .unzip();
    let infos = connection.call(|client, wait| client.info(&variables, wait))?;
    let mut infos = infos.into_iter();
    let trends = match args.trend {
        Some(count) => trend::collect(&connection, &names, count, context)?,
        None => Vec::new(),
    };
    let mut trends = trends.into_iter();
    let mut printer = Printer::new(context)?;
    if let Some(name) = names.first() {
        // All variables of an engine have the same fields, except those of their alarms.
        let fields = format!("{name}#*");
        let found = connection.call(|client, wait| client.find(&fields, None, wait))?;
        let field = |found: &Found| Some(found.name.split_once('#')?.1.to_owned());
        let fields = found.iter().filter_map(field);
        printer.fields = fields
            .filter(|field| !field.starts_with("alarm."))
            .collect();
    }
    let mut tally = Tally::default();
    for (name, opened) in opened {
        let result = opened.and_then(|opened| {
            let trend = trends.next().unwrap_or_default();
            match infos.next() {
                Some(Err(fault)) => Err(reading_fault(&fault).with_name(&name)),
                Some(Ok(info)) => Ok(Some((opened, info, trend))),
                None => Ok(None),
            }
        });
        match result {
            Ok(Some((opened, info, trend))) => printer.print(&opened, &info, &trend)?,
            Ok(None) => break,
            Err(problem) => tally.item_failed(context.show(&problem, 0)?),
        }
    }
    Ok(tally.exit())
}

struct Printer<'a> {
    context: &'a Context,
    table: Table,
    times: Option<TimeColumn>,
    is_first: bool,
    /// Fields that every variable has.
    fields: Vec<String>,
}

type Line = (&'static str, String);

impl<'a> Printer<'a> {
    fn new(context: &'a Context) -> Result<Self, CliError> {
        let table = context.table_of(&["name", "key", "value"], false)?;
        let times = context.settings.times.column(true, context.started);
        Ok(Self {
            context,
            table,
            times,
            is_first: true,
            fields: Vec::new(),
        })
    }

    fn print(
        &mut self,
        opened: &Opened,
        info: &VariableInfo,
        trend: &[Value],
    ) -> Result<(), CliError> {
        let terminal = &self.context.terminal;
        if self.context.settings.is_json() {
            let fields = self.fields_of(info);
            let record = Info::new(opened, info, fields, trend, self.context);
            return terminal.line(&json(&record));
        }
        let lines = self.lines(opened, info, trend);
        if self.context.settings.output_format != OutputFormat::Table {
            return lines.into_iter().try_for_each(|(key, value)| {
                let cells = vec![info.name.clone(), key.to_owned(), value];
                self.table.push_cells(cells, Style::Plain)
            });
        }
        if !std::mem::replace(&mut self.is_first, false) {
            terminal.line("")?;
        }
        terminal.line(&escaped(&info.name))?;
        for (key, value) in lines {
            let key = terminal.paint(Style::Dim, &padded(key, 12));
            terminal.line(&format!("  {key} {}", escaped(&value)))?;
        }
        Ok(())
    }

    fn lines(&mut self, opened: &Opened, info: &VariableInfo, trend: &[Value]) -> Vec<Line> {
        let properties = &info.properties;
        let mut lines: Vec<Line> = Vec::new();
        let mut put = |key: &'static str, value: String| {
            if !value.is_empty() {
                lines.push((key, value));
            }
        };
        put("description", properties.description.clone());
        put("value", self.value(opened, info));
        put("trend", self.trend(info, trend));
        put("type", properties.data_type.to_string());
        put("units", properties.units.clone());
        put("range", range(properties));
        put("access", access(properties));
        put("source", source(info));
        put("forced", self.forced(info));
        put("updated", self.updated(info));
        put("last writer", info.last_writer.clone());
        put("held by", held_by(info));
        put("subscribers", info.subscribers.to_string());
        put("read by", read_by(&info.readers));
        put("writes", writes(&info.write_ledger));
        put("scaling", text_or_empty(&properties.scaling, scaling));
        put("deadband", deadband(properties));
        put("fifo", fifo(properties.fifo));
        let values = self.context.settings.values;
        let initial = |value: &Value| values.text(value, &properties.data_type, None);
        put("initial", text_or_empty(&properties.initial, initial));
        let retained = properties.retain.then(|| "yes".to_owned());
        put("retained", retained.unwrap_or_default());
        put("audited", info.audit.clone());
        put("number", text_or_empty(&properties.number, u32::to_string));
        put("max age", text_or_empty(&properties.max_age, duration));
        let stall = Some(properties.stall).filter(|stall| !stall.is_zero());
        put("stall", text_or_empty(&stall, duration));
        put("configured", properties.origin.clone());
        let alarms = properties.alarms.iter().map(alarm);
        put("alarms", alarms.collect::<Vec<_>>().join(", "));
        put("fields", self.fields_of(info).join(", "));
        lines
    }

    /// Returns the names that can follow a `#`, with one pattern for the fields of each alarm.
    fn fields_of(&self, info: &VariableInfo) -> Vec<String> {
        let alarms = info.properties.alarms.iter();
        let alarms = alarms.map(|alarm| format!("alarm.{}.*", alarm.name));
        self.fields.iter().cloned().chain(alarms).collect()
    }

    fn value(&self, opened: &Opened, info: &VariableInfo) -> String {
        let Some(reading) = &opened.reading else {
            return String::new();
        };
        if reading.position.sequence == 0 {
            return "nothing written yet".to_owned();
        }
        if !reading.has_value() {
            return reading.sample.quality.to_string();
        }
        let properties = &info.properties;
        let (values, sample) = (self.context.settings.values, &reading.sample);
        let text = values.text(&sample.value, &properties.data_type, properties.precision);
        match properties.units.as_str() {
            "" => format!("{text}, {}", sample.quality),
            units => format!("{text} {units}, {}", sample.quality),
        }
    }

    /// Describes the forced value, who forced it, and the value of the source.
    fn forced(&self, info: &VariableInfo) -> String {
        let Some(forced) = &info.forced else {
            return String::new();
        };
        let values = self.context.settings.values;
        let text = |value| values.text(value, &forced.data_type, info.properties.precision);
        let source_value = match &forced.behind {
            Some((value, quality)) => format!("{}, {quality}", text(value)),
            None => "nothing yet".to_owned(),
        };
        format!(
            "at {} by {} since {}; value of its source: {source_value}",
            text(&forced.value),
            forced.by,
            forced.since
        )
    }

    fn trend(&self, info: &VariableInfo, values: &[Value]) -> String {
        let sparkline = trend::sparkline(values);
        if !sparkline.is_empty() {
            return sparkline;
        }
        let properties = &info.properties;
        let style = self.context.settings.values;
        let text = |value| style.text(value, &properties.data_type, properties.precision);
        let texts: Vec<String> = values.iter().map(text).collect();
        texts.join("  ")
    }

    fn updated(&self, info: &VariableInfo) -> String {
        if info.sequence == 0 {
            return "never".to_owned();
        }
        let time = match &self.times {
            Some(times) => times.absolute(info.engine_timestamp),
            None => info.engine_timestamp.to_string(),
        };
        format!("{time}, sequence {}", info.sequence)
    }
}

/// Formats an optional value; `None` becomes an empty string.
fn text_or_empty<T>(value: &Option<T>, text: impl FnOnce(&T) -> String) -> String {
    value.as_ref().map(text).unwrap_or_default()
}

fn duration(time: &Duration) -> String {
    format!("{time:?}")
}
