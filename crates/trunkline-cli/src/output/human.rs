//! Readings for people: a table on a terminal, the same columns with tabs in a pipe.

use trunkline_types::{Level, Lost, Quality};

use super::Shown;
use super::times::TimeColumn;
use super::values::ValueStyle;
use crate::terminal::{Mood, Terminal, padded, plain, tabbed};

/// The columns and their format.
#[derive(Debug)]
pub(crate) struct HumanForm {
    pub(crate) terminal: Terminal,
    /// True for aligned columns, false for tabs between them.
    pub(crate) is_table: bool,
    /// Shows the value alone.
    pub(crate) is_terse: bool,
    /// Shows the whole quality, even if it is good.
    pub(crate) is_wide: bool,
    pub(crate) values: ValueStyle,
    pub(crate) time: Option<TimeColumn>,
    /// Width of the longest name.
    pub(crate) name_width: usize,
}

impl HumanForm {
    /// Formats the line of a reading.
    pub(crate) fn line(&mut self, shown: &Shown<'_>) -> String {
        let value = self.value(shown);
        self.line_with(shown, &[&value])
    }

    /// Formats the line of a change: the previous value and the resulting reading.
    pub(crate) fn change(&mut self, old: Option<&str>, shown: &Shown<'_>, remark: &str) -> String {
        let new = self.value(shown);
        let mut line = match (self.is_table, self.is_terse) {
            (_, true) => return new,
            (true, _) => {
                let arrow = old.map_or_else(String::new, |old| format!("{old} "));
                self.line_with(shown, &[&format!("{arrow}→ {new}")])
            }
            (false, _) => self.line_with(shown, &[old.unwrap_or_default(), &new]),
        };
        if self.is_table && !remark.is_empty() {
            line.push_str(&self.terminal.paint(Mood::Dim, &format!("   ({remark})")));
        }
        line
    }

    /// Formats the value.
    pub(crate) fn value(&self, shown: &Shown<'_>) -> String {
        if !shown.has_value {
            return "-".to_owned();
        }
        let facts = shown.facts;
        self.values.text(
            &shown.reading.sample.value,
            &facts.data_type,
            facts.precision,
        )
    }

    /// Formats a line with `values` in place of the value; with tabs, each is a column of its own.
    fn line_with(&mut self, shown: &Shown<'_>, values: &[&str]) -> String {
        if self.is_terse {
            return values.concat();
        }
        let time = self.time.as_mut().map(|time| match shown.is_written() {
            true => time.text(shown.name, shown.times()),
            // A variable that was never written has the time 1970.
            false => "-".to_owned(),
        });
        let marks = self.marks(shown);
        if !self.is_table {
            let mut cells = vec![shown.name];
            cells.extend(time.as_deref());
            cells.extend_from_slice(values);
            cells.push(&shown.facts.units);
            let marks: Vec<&str> = marks.iter().map(|(mark, _)| mark.as_str()).collect();
            let marks = marks.join(", ");
            cells.push(&marks);
            return tabbed(cells);
        }
        let mut line = padded(&plain(shown.name), self.name_width);
        if let Some(time) = time {
            line.push_str("   ");
            line.push_str(&self.terminal.paint(Mood::Dim, &time));
        }
        line.push_str("   ");
        line.push_str(
            &self
                .terminal
                .paint(mood(shown.reading.sample.quality), &values.concat()),
        );
        if !shown.facts.units.is_empty() {
            line.push(' ');
            line.push_str(&plain(&shown.facts.units));
        }
        for (mark, mood) in marks {
            line.push_str("   ");
            line.push_str(&self.terminal.paint(mood, &mark));
        }
        line
    }

    /// Returns the remarks shown after the value.
    fn marks(&self, shown: &Shown<'_>) -> Vec<(String, Mood)> {
        let mut marks = Vec::new();
        let reading = shown.reading;
        let quality = reading.sample.quality;
        if !shown.is_written() && !shown.has_value {
            marks.push(("nothing written yet".to_owned(), Mood::Bad));
        } else if self.is_wide || !quality.is_good() || quality.is_forced() {
            marks.push((quality.to_string(), mood(quality)));
        }
        if let Some(age) = reading.stale {
            marks.push((format!("stale {:.1} s", age.as_secs_f64()), Mood::Uncertain));
        }
        marks.extend(gap_marks(&reading.lost));
        marks
    }
}

/// Returns the remarks about updates lost before a reading.
fn gap_marks(lost: &Lost) -> Vec<(String, Mood)> {
    let mut marks = Vec::new();
    match lost.count() {
        Some(0) => {}
        Some(count) => marks.push((format!("lost={count}"), Mood::Bad)),
        None => marks.push(("lost=unknown".to_owned(), Mood::Bad)),
    }
    if lost.coalesced > 0 {
        marks.push((format!("coalesced={}", lost.coalesced), Mood::Dim));
    }
    marks
}

fn mood(quality: Quality) -> Mood {
    match quality.level() {
        Level::Good => Mood::Plain,
        Level::Uncertain => Mood::Uncertain,
        Level::Bad => Mood::Bad,
    }
}
