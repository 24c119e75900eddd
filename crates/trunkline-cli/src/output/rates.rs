//! `monitor --rate`: counts of received and lost readings, once per period.

use trunkline_types::Lost;

use super::csv;
use super::json::Object;
use super::values::ValueStyle;
use crate::arguments::Form;
use crate::problem::{Problem, Stop};
use crate::settings::{Columns, Settings};
use crate::terminal::{Mood, Terminal, padded, plain, tabbed};

/// The counts of one variable in one period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rate {
    pub(crate) readings: u64,
    pub(crate) lost: Lost,
}

/// Prints rates, one line each.
#[derive(Debug)]
pub(crate) struct RatePrinter {
    terminal: Terminal,
    form: Form,
    values: ValueStyle,
    name_width: usize,
}

impl RatePrinter {
    pub(crate) fn new(
        settings: &Settings,
        terminal: &Terminal,
        name_width: usize,
    ) -> Result<Self, Stop> {
        if settings.columns != Columns::Usual {
            let sentence = "-t, -a and --format are for readings; leave them out with --rate";
            return Err(Problem::usage(sentence).into());
        }
        match settings.form {
            Form::Json => terminal.begin_list(),
            Form::Csv => terminal.line(&csv::line(&["name", "rate", "lost", "coalesced"]))?,
            _ => {}
        }
        let (form, values) = (settings.form, settings.values);
        Ok(Self {
            terminal: terminal.clone(),
            form,
            values,
            name_width,
        })
    }

    /// Prints the rate of one variable; `seconds` is the length of the period.
    pub(crate) fn print(&self, name: &str, rate: Rate, seconds: f64) -> Result<(), Stop> {
        let per_second = rate.readings as f64 / seconds;
        let (lost, coalesced) = (rate.lost.count(), rate.lost.coalesced);
        let lost_text = lost.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
        let line = match self.form {
            Form::Json | Form::Jsonl => {
                let mut object = Object::new();
                object.put("event", "rate");
                object.put("name", name);
                object.put("rate", per_second);
                object.put("lost", lost.map(|count| self.values.json_u64(count)));
                object.put("coalesced", self.values.json_u64(coalesced));
                object.into_json().to_string()
            }
            Form::Table => {
                let mood = if lost == Some(0) {
                    Mood::Dim
                } else {
                    Mood::Bad
                };
                let lost = self.terminal.paint(mood, &format!("lost={lost_text}"));
                let name = padded(&plain(name), self.name_width);
                format!("{name}   {per_second:.1} /s   {lost}   coalesced={coalesced}")
            }
            Form::Plain => tabbed([
                name,
                &format!("{per_second:.1}"),
                &lost_text,
                &coalesced.to_string(),
            ]),
            Form::Csv => {
                let lost = lost.map_or_else(String::new, |count| count.to_string());
                csv::line(&[
                    name,
                    &format!("{per_second:.1}"),
                    &lost,
                    &coalesced.to_string(),
                ])
            }
        };
        self.terminal.line(&line)
    }
}
