//! `info`: shows everything the engine knows about a variable.

mod trend;
mod words;

use serde_json::{Value as Json, json};
use trunkline::proto::VariableInfo;
use trunkline::{Found, OpenOptions, Opened};
use trunkline_types::Value;

use self::words::{
    access, deadband, fifo, held_by, ledger, range, read_by, scaling, scope_name, source, writes,
};
use super::find::access_name;
use super::{Context, Verb};
use crate::arguments::Form;
use crate::connection::{Connection, Entry, facts, reading_fault};
use crate::exit::{Exit, Tally};
use crate::output::json::{self, Object};
use crate::output::times::TimeColumn;
use crate::output::{Shown, csv};
use crate::problem::{Problem, Stop};
use crate::settings::Columns;
use crate::targets;
use crate::terminal::{Mood, padded, plain, tabbed};

/// Show everything the engine knows about variables
///
/// This includes the type, units, range, access, source and its state, the last update and its
/// writer, the outcomes of all writes, the place of the configuration, and the fields that can be
/// opened as NAME#FIELD.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Names, URLs, or patterns such as 'boiler/*'
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Also show COUNT values of each variable as a line of marks: the current value and the next
    /// ones that arrive within the time of -w
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trend: Option<u32>,
}

pub(crate) const VERB: Verb = Verb::reading(
    "info",
    &[
        Exit::Done,
        Exit::SomeFailed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::NotPermitted,
        Exit::Interrupted,
    ],
);

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Stop> {
    crate::interrupt::end_process_on_interrupt(&context.terminal)?;
    let settings = &context.settings;
    if !matches!(settings.columns, Columns::Usual | Columns::Wide) {
        return Err(
            Problem::usage("-t and --format are for readings; leave them out with info").into(),
        );
    }
    let targets = targets::resolve(&args.names, settings)?;
    let connection = Connection::new(&targets.engine, context)?;
    let entries = connection.expand(targets, context)?;
    let options = OpenOptions {
        read: true,
        ..OpenOptions::default()
    };
    let opened = connection.open(&entries.names(), options)?;
    let variables: Vec<_> = opened
        .iter()
        .flatten()
        .map(|opened| opened.variable)
        .collect();
    let told = connection.client.info(&variables, connection.timeout());
    let mut told = told.map_err(|error| connection.failed(&error))?.into_iter();
    let mut trends = match args.trend {
        Some(count) => {
            let names = entries.names().into_iter().zip(&opened);
            let open = names
                .filter(|(_, opened)| opened.is_ok())
                .map(|(name, _)| name);
            trend::collect(&connection, &open.collect::<Vec<_>>(), count, context)?
        }
        None => Vec::new(),
    }
    .into_iter();
    let mut printer = Printer::new(context)?;
    let mut names = entries.names().into_iter().zip(&opened);
    if let Some((name, _)) = names.find(|(_, opened)| opened.is_ok()) {
        // All variables of an engine have the same fields.
        let found = connection
            .client
            .find(&format!("{name}#*"), None, connection.timeout());
        let found = found.map_err(|error| connection.failed(&error))?;
        let field = |found: &Found| Some(found.name.split_once('#')?.1.to_owned());
        printer.fields = found.iter().filter_map(field).collect();
    }
    let mut opened = opened.into_iter();
    let mut tally = Tally::default();
    for entry in &entries.0 {
        let result = match entry {
            Entry::Problem(problem) => Err(problem.clone()),
            Entry::Name(name) => match opened.next() {
                None => break,
                Some(Err(problem)) => Err(problem),
                Some(Ok(opened)) => match told.next() {
                    None => break,
                    Some(Ok(info)) => Ok((opened, info, trends.next().unwrap_or_default())),
                    Some(Err(fault)) => {
                        trends.next();
                        Err(reading_fault(&fault).of(name))
                    }
                },
            },
        };
        match result {
            Ok((opened, info, trend)) => printer.print(&opened, &info, &trend)?,
            Err(problem) => tally.item_failed(context.show(&problem, 0)?),
        }
    }
    Ok(tally.exit())
}

struct Printer<'a> {
    context: &'a Context,
    times: Option<TimeColumn>,
    is_first: bool,
    /// Names that can be opened after a `#`.
    fields: Vec<String>,
}

/// A line for people: label and text.
type Line = (&'static str, String);

impl<'a> Printer<'a> {
    fn new(context: &'a Context) -> Result<Self, Stop> {
        match context.settings.form {
            Form::Json => context.terminal.begin_list(),
            Form::Csv => context
                .terminal
                .line(&csv::line(&["name", "key", "value"]))?,
            _ => {}
        }
        let times = context.settings.times.column(true, context.started);
        Ok(Self {
            context,
            times,
            is_first: true,
            fields: Vec::new(),
        })
    }

    fn print(&mut self, opened: &Opened, info: &VariableInfo, trend: &[Value]) -> Result<(), Stop> {
        let terminal = &self.context.terminal;
        if matches!(self.context.settings.form, Form::Json | Form::Jsonl) {
            return terminal.line(&self.object(opened, info, trend).into_json().to_string());
        }
        let lines = self.lines(opened, info, trend);
        match self.context.settings.form {
            Form::Table => {
                if !std::mem::replace(&mut self.is_first, false) {
                    terminal.line("")?;
                }
                terminal.line(&plain(&info.name))?;
                for (key, value) in lines {
                    let key = terminal.paint(Mood::Dim, &padded(key, 12));
                    terminal.line(&format!("  {key} {}", plain(&value)))?;
                }
            }
            Form::Csv => {
                for (key, value) in lines {
                    terminal.line(&csv::line(&[&info.name, key, &value]))?;
                }
            }
            _ => {
                for (key, value) in lines {
                    terminal.line(&tabbed([info.name.as_str(), key, &value]))?;
                }
            }
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
        put("writes", writes(&info.upstream));
        put(
            "scaling",
            properties.scaling.as_ref().map(scaling).unwrap_or_default(),
        );
        put("deadband", deadband(properties));
        put("fifo", fifo(properties.fifo));
        put(
            "initial",
            properties
                .initial
                .as_ref()
                .map(|value| {
                    self.context
                        .settings
                        .values
                        .text(value, &properties.data_type, None)
                })
                .unwrap_or_default(),
        );
        put(
            "retained",
            if properties.retain { "yes" } else { "" }.to_owned(),
        );
        put("audited", info.audit.clone());
        put(
            "number",
            properties
                .number
                .map(|number| number.to_string())
                .unwrap_or_default(),
        );
        put(
            "max age",
            properties
                .max_age
                .map(|age| format!("{age:?}"))
                .unwrap_or_default(),
        );
        let stall = properties.stall;
        put(
            "stall",
            if stall.is_zero() {
                String::new()
            } else {
                format!("{stall:?}")
            },
        );
        put("configured", properties.origin.clone());
        put("fields", self.fields.join(", "));
        lines
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
        let values = self.context.settings.values;
        let text = values.text(
            &reading.sample.value,
            &properties.data_type,
            properties.precision,
        );
        let units = match properties.units.as_str() {
            "" => String::new(),
            units => format!(" {units}"),
        };
        format!("{text}{units}, {}", reading.sample.quality)
    }

    /// Describes who holds the variable, and the value it would have otherwise.
    fn forced(&self, info: &VariableInfo) -> String {
        let Some(forced) = &info.forced else {
            return String::new();
        };
        let values = self.context.settings.values;
        let text = |value| values.text(value, &forced.data_type, info.properties.precision);
        let behind = match &forced.behind {
            Some((value, quality)) => format!("{}, {quality}", text(value)),
            None => "nothing yet".to_owned(),
        };
        format!(
            "at {} by {} since {}; value of its source: {behind}",
            text(&forced.value),
            forced.by,
            forced.since
        )
    }

    fn trend(&self, info: &VariableInfo, values: &[Value]) -> String {
        let marks = trend::marks(values);
        if !marks.is_empty() {
            return marks;
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
        let at = match &self.times {
            Some(times) => times.absolute(info.engine_timestamp),
            None => info.engine_timestamp.to_string(),
        };
        format!("{at}, number {}", info.sequence)
    }

    fn object(&self, opened: &Opened, info: &VariableInfo, trend: &[Value]) -> Object {
        let values = self.context.settings.values;
        let properties = &info.properties;
        let mut object = match &opened.reading {
            Some(reading) => {
                let mut facts = facts(opened);
                facts.units.clone_from(&properties.units);
                let received = self.context.clock.wall();
                json::reading(&Shown::new(&info.name, &facts, reading, received), values)
            }
            None => {
                let mut object = Object::new();
                object.put("name", info.name.as_str());
                object.put("type", properties.data_type.to_string());
                object.put_text("units", &properties.units);
                object
            }
        };
        object.put_text("description", &properties.description);
        if let Some((low, high)) = properties.range {
            object.put("range", json!([low, high]));
            object.put("coerce", properties.coerce);
        }
        if properties.retain {
            object.put("retain", true);
        }
        if let Some(number) = properties.number {
            object.put("number", number);
        }
        object.put_text("audit", &info.audit);
        object.put("access", access_name(properties.access));
        object.put("scope", scope_name(properties.scope));
        object.put_text("source", &properties.source);
        object.put_text("alias", &properties.alias);
        object.put_text("source_state", &info.source_state);
        if let Some(forced) = &info.forced {
            object.put(
                "forced",
                values.json(&forced.value, &forced.data_type).value,
            );
            object.put("forced_by", forced.by.as_str());
            object.put("forced_since", forced.since.to_string());
            if let Some((value, quality)) = &forced.behind {
                object.put("behind", values.json(value, &forced.data_type).value);
                object.put("behind_q", quality.to_string());
            }
        }
        object.put("updates", values.json_u64(info.sequence));
        object.put_text("last_writer", &info.last_writer);
        if properties.single_writer {
            object.put("single_writer", true);
        }
        object.put_text("held_by", &info.held_by);
        if !info.lease_left.is_zero() {
            object.put("lease_left", info.lease_left.as_secs_f64());
        }
        if info.writers_waiting > 0 {
            object.put("writers_waiting", info.writers_waiting);
        }
        object.put("subscribers", info.subscribers);
        let readers = info.readers.iter().map(|reader| {
            let mut shown = json!({
                "session": reader.session,
                "repaired": values.json_u64(reader.repaired),
            });
            for (key, text) in [("from", &reader.from), ("transport", &reader.transport)] {
                if !text.is_empty() {
                    shown[key] = json!(text);
                }
            }
            shown
        });
        if !info.readers.is_empty() {
            object.put("readers", readers.collect::<Vec<Json>>());
        }
        object.put(
            "writes",
            ledger(&info.upstream, |count| values.json_u64(count)),
        );
        object.put_text("configured", &properties.origin);
        if !self.fields.is_empty() {
            object.put("fields", self.fields.clone());
        }
        if !trend.is_empty() {
            let json = |value| values.json(value, &properties.data_type).into_plain();
            object.put("trend", trend.iter().map(json).collect::<Vec<Json>>());
        }
        object
    }
}
