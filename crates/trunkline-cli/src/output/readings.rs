//! Prints readings in the selected format.

use serde_json::Value as Json;
use trunkline_types::{Position, Timestamp};

use super::human::HumanFormat;
use super::reading::Reading;
use super::record::{JsonSchema, Serialize, json};
use super::template::Template;
use super::times::TimeColumn;
use super::values::{ValueStyle, WideInt};
use super::{ReadingView, csv};
use crate::CliError;
use crate::arguments::OutputFormat;
use crate::settings::{Columns, Settings};
use crate::terminal::Terminal;

#[derive(Debug)]
pub(crate) struct ReadingPrinter {
    terminal: Terminal,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Human(Box<HumanFormat>),
    Template {
        template: Template,
        values: ValueStyle,
        time: Option<TimeColumn>,
    },
    Json(ValueStyle),
    Csv(ValueStyle),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PrinterOptions {
    pub(crate) name_width: usize,
    /// True if the time is shown by default.
    pub(crate) with_time: bool,
    pub(crate) started: Timestamp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) old: Option<&'a ReadingView<'a>>,
    pub(crate) new: ReadingView<'a>,
    /// True if the engine did not report the update: `new` then has the written value, and only
    /// `position` can identify the update.
    pub(crate) is_assumed: bool,
    pub(crate) position: Option<Position>,
    pub(crate) outcome: &'static str,
    pub(crate) commit: Option<u64>,
    /// Remark for people: what confirmed the write, and how long it took.
    pub(crate) remark: &'a str,
}

impl ReadingPrinter {
    pub(crate) fn new(
        settings: &Settings,
        terminal: &Terminal,
        options: PrinterOptions,
    ) -> Result<Self, CliError> {
        let values = settings.values;
        let is_wide = settings.columns == Columns::Wide;
        let shows_time = options.with_time || is_wide;
        let kind = match (settings.output_format, &settings.columns) {
            (OutputFormat::Json | OutputFormat::Jsonl, _) => {
                if settings.output_format == OutputFormat::Json {
                    terminal.begin_list();
                }
                Kind::Json(values)
            }
            (OutputFormat::Csv, _) => {
                terminal.line(&csv::line(&csv::HEADER))?;
                Kind::Csv(values)
            }
            (_, Columns::Template(template)) => Kind::Template {
                template: template.clone(),
                values,
                time: settings.times.column(true, options.started),
            },
            (format, columns) => Kind::Human(Box::new(HumanFormat {
                terminal: terminal.clone(),
                is_table: format == OutputFormat::Table,
                is_terse: *columns == Columns::Terse,
                is_wide,
                values,
                time: settings.times.column(shows_time, options.started),
                name_width: options.name_width,
            })),
        };
        Ok(Self {
            terminal: terminal.clone(),
            kind,
        })
    }

    pub(crate) fn print(&mut self, view: &ReadingView<'_>) -> Result<(), CliError> {
        let line = match &mut self.kind {
            Kind::Human(format) => format.line(view),
            Kind::Template {
                template,
                values,
                time,
            } => return self.terminal.lines(&template.line(view, *values, time)),
            Kind::Json(values) => json(&Reading::new(view, *values)),
            Kind::Csv(values) => csv::reading(view, *values),
        };
        self.terminal.line(&line)
    }

    pub(crate) fn print_change(&mut self, change: &Change<'_>) -> Result<(), CliError> {
        let line = match &mut self.kind {
            Kind::Human(format) => {
                let old = change.old.map(|old| format.value(old));
                format.change(old.as_deref(), &change.new, change.remark)
            }
            Kind::Json(values) => json(&Written::new(change, *values)),
            _ => return self.print(&change.new),
        };
        self.terminal.line(&line)
    }
}

/// One line of `put`: a reading of the variable's current value, and the outcome of the write.
/// Without the engine's confirmation, or when the variable already has a newer value, the reading has
/// the written value.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(
    title = "Trunkline write, version 1",
    extend("required" = ["name", "value", "type", "outcome"])
)]
pub(crate) struct Written {
    #[serde(flatten)]
    reading: Reading,
    /// The previous value, in the form of `value`; special numbers are strings. Left out when there
    /// was none or it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<Json>,
    /// `applied`; `unchanged`: within the deadband; `superseded` by a later write; `sent`: with
    /// `--no-wait`, the outcome is unknown.
    #[schemars(extend("enum" = ["applied", "unchanged", "superseded", "sent"]))]
    outcome: &'static str,
    /// With `--atomic`: the number of the group, from 1 within the engine's epoch. A string with
    /// `--int-strings`.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<WideInt>,
}

impl Written {
    fn new(change: &Change<'_>, values: ValueStyle) -> Self {
        let reading = match change.is_assumed {
            true => Reading::of_value(&change.new, change.position, values),
            false => Reading::new(&change.new, values),
        };
        let old = change.old.filter(|old| old.has_value).map(|old| {
            let old = values.json(&old.reading.sample.value, &old.metadata.data_type);
            old.into_plain()
        });
        Self {
            reading,
            old,
            outcome: change.outcome,
            commit: change.commit.map(|commit| values.int_or_text(commit)),
        }
    }
}
