//! `monitor --rate`: counts of received and lost readings, once per period.

use trunkline_types::Lost;

use super::record::{JsonSchema, Record, Serialize, Table};
use super::values::{Amount, ValueStyle, WideInt};
use crate::arguments::OutputFormat;
use crate::settings::{Columns, Settings};
use crate::terminal::{Style, Terminal, escaped, padded};
use crate::{CliError, Problem};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rate {
    pub(crate) readings: u64,
    pub(crate) lost: Lost,
}

/// A line of `monitor --rate`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum RateEvent {
    /// Number of readings of one variable in the last period.
    Rate {
        /// Name of the variable.
        name: String,
        /// Readings per second.
        rate: Amount,
        /// Number of updates lost in the period. Null when it is unknown.
        lost: Option<WideInt>,
        /// Number of updates merged into newer ones in the period.
        coalesced: WideInt,
        /// Text of the column `lost` when the number is unknown.
        #[serde(skip)]
        unknown: &'static str,
    },
}

impl Record for RateEvent {
    const COLUMNS: &'static [&'static str] = &["name", "rate", "lost", "coalesced"];

    fn cell(&self, column: &str) -> Option<String> {
        let Self::Rate {
            rate,
            lost,
            unknown,
            ..
        } = self;
        match column {
            "rate" => Some(format!("{:.1}", rate.0)),
            "lost" if lost.is_none() => Some((*unknown).to_owned()),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct RatePrinter {
    terminal: Terminal,
    format: OutputFormat,
    values: ValueStyle,
    name_width: usize,
    table: Table,
}

impl RatePrinter {
    pub(crate) fn new(
        settings: &Settings,
        terminal: &Terminal,
        name_width: usize,
    ) -> Result<Self, CliError> {
        if settings.columns != Columns::Default {
            let sentence = "--rate cannot be combined with -t, -a or --format; leave them out";
            return Err(Problem::usage(sentence).into());
        }
        Ok(Self {
            terminal: terminal.clone(),
            format: settings.output_format,
            values: settings.values,
            name_width,
            table: Table::new(settings, terminal, RateEvent::COLUMNS, false)?,
        })
    }

    /// Prints the rate of one variable; `seconds` is the length of the period.
    pub(crate) fn print(&mut self, name: &str, rate: Rate, seconds: f64) -> Result<(), CliError> {
        let per_second = rate.readings as f64 / seconds;
        let (lost, coalesced) = (rate.lost.count(), rate.lost.coalesced);
        if self.format != OutputFormat::Table {
            return self.table.push(&RateEvent::Rate {
                name: name.to_owned(),
                rate: Amount(per_second),
                lost: lost.map(|count| self.values.int_or_text(count)),
                coalesced: self.values.int_or_text(coalesced),
                unknown: if self.format == OutputFormat::Csv {
                    ""
                } else {
                    "unknown"
                },
            });
        }
        let style = match lost {
            Some(0) => Style::Dim,
            _ => Style::Bad,
        };
        let lost = lost.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
        let lost = self.terminal.paint(style, &format!("lost={lost}"));
        let name = padded(&escaped(name), self.name_width);
        let line = format!("{name}   {per_second:.1} /s   {lost}   coalesced={coalesced}");
        self.terminal.line(&line)
    }
}
