//! Prints readings in the chosen form.

use trunkline_types::{Position, Timestamp};

use super::human::HumanForm;
use super::json::Object;
use super::template::Template;
use super::times::TimeColumn;
use super::values::ValueStyle;
use super::{Shown, csv, json};
use crate::arguments::Form;
use crate::problem::Stop;
use crate::settings::{Columns, Settings};
use crate::terminal::Terminal;

/// Prints readings, one line each.
#[derive(Debug)]
pub(crate) struct ReadingPrinter {
    terminal: Terminal,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Human(Box<HumanForm>),
    Template {
        template: Template,
        values: ValueStyle,
        time: Option<TimeColumn>,
    },
    Json(ValueStyle),
    Csv(ValueStyle),
}

/// The layout of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Width of the longest name.
    pub(crate) name_width: usize,
    /// Shows the time unless the user decides otherwise.
    pub(crate) with_time: bool,
    /// Start time of the command.
    pub(crate) started: Timestamp,
}

/// A value that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    /// The previous value, as far as it could be read.
    pub(crate) old: Option<&'a Shown<'a>>,
    /// The new value.
    pub(crate) new: Shown<'a>,
    /// The engine did not report its value: `new` has the written value, and its number is known
    /// only from `position`.
    pub(crate) is_assumed: bool,
    /// Position of the update, from the answer to the write.
    pub(crate) position: Option<Position>,
    /// Outcome of the write, in one word.
    pub(crate) outcome: &'static str,
    /// Commit number of the write's group.
    pub(crate) commit: Option<u64>,
    /// Remark for people: who confirmed the write, and how long it took.
    pub(crate) remark: &'a str,
}

impl ReadingPrinter {
    /// Begins a sequence of readings.
    pub(crate) fn new(settings: &Settings, terminal: &Terminal, plan: Plan) -> Result<Self, Stop> {
        let values = settings.values;
        let is_wide = settings.columns == Columns::Wide;
        let in_time = plan.with_time || is_wide;
        let kind = match (settings.form, &settings.columns) {
            (Form::Json | Form::Jsonl, _) => {
                if settings.form == Form::Json {
                    terminal.begin_list();
                }
                Kind::Json(values)
            }
            (Form::Csv, _) => {
                terminal.line(&csv::line(&csv::HEADER))?;
                Kind::Csv(values)
            }
            (_, Columns::Template(template)) => Kind::Template {
                template: template.clone(),
                values,
                time: settings.times.column(true, plan.started),
            },
            (form, columns) => Kind::Human(Box::new(HumanForm {
                terminal: terminal.clone(),
                is_table: form == Form::Table,
                is_terse: *columns == Columns::Terse,
                is_wide,
                values,
                time: settings.times.column(in_time, plan.started),
                name_width: plan.name_width,
            })),
        };
        Ok(Self {
            terminal: terminal.clone(),
            kind,
        })
    }

    /// Prints one reading.
    pub(crate) fn print(&mut self, shown: &Shown<'_>) -> Result<(), Stop> {
        let line = match &mut self.kind {
            Kind::Human(form) => form.line(shown),
            Kind::Template {
                template,
                values,
                time,
            } => return self.terminal.lines(&template.line(shown, *values, time)),
            Kind::Json(values) => json::reading(shown, *values).into_json().to_string(),
            Kind::Csv(values) => csv::reading(shown, *values),
        };
        self.terminal.line(&line)
    }

    /// Prints the outcome of a write.
    pub(crate) fn print_change(&mut self, change: &Change<'_>) -> Result<(), Stop> {
        let line = match &mut self.kind {
            Kind::Human(form) => {
                let old = change.old.map(|old| form.value(old));
                form.change(old.as_deref(), &change.new, change.remark)
            }
            Kind::Template {
                template,
                values,
                time,
            } => {
                let lines = template.line(&change.new, *values, time);
                return self.terminal.lines(&lines);
            }
            Kind::Json(values) => changed(change, *values).into_json().to_string(),
            Kind::Csv(values) => csv::reading(&change.new, *values),
        };
        self.terminal.line(&line)
    }
}

fn changed(change: &Change<'_>, values: ValueStyle) -> Object {
    let mut object = match change.is_assumed {
        true => json::value(&change.new, values),
        false => json::reading(&change.new, values),
    };
    if let Some(position) = change.position.filter(|_| change.is_assumed) {
        object.put("epoch", values.json_u64(position.epoch));
        object.put("seq", values.json_u64(position.sequence));
    }
    if let Some(old) = change.old.filter(|old| old.has_value) {
        let old = values.json(&old.reading.sample.value, &old.facts.data_type);
        object.put("old", old.into_plain());
    }
    object.put("outcome", change.outcome);
    if let Some(commit) = change.commit {
        object.put("commit", values.json_u64(commit));
    }
    object
}
