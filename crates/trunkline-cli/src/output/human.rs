//! Formats readings for people: as a table on a terminal, or as tab-separated columns in a pipe.

use trunkline_types::{Level, Quality};

use super::ReadingView;
use super::times::TimeColumn;
use super::values::ValueStyle;
use crate::terminal::{Style, Terminal, escaped, padded, tabbed};

#[derive(Debug)]
pub(crate) struct HumanFormat {
    pub(crate) terminal: Terminal,
    /// True for aligned columns, false for columns separated by tabs.
    pub(crate) is_table: bool,
    pub(crate) is_terse: bool,
    /// Shows the quality even if it is good.
    pub(crate) is_wide: bool,
    pub(crate) values: ValueStyle,
    pub(crate) time: Option<TimeColumn>,
    pub(crate) name_width: usize,
}

impl HumanFormat {
    pub(crate) fn line(&mut self, view: &ReadingView<'_>) -> String {
        let value = self.value(view);
        self.line_with(view, &[&value])
    }

    pub(crate) fn change(
        &mut self,
        old: Option<&str>,
        view: &ReadingView<'_>,
        remark: &str,
    ) -> String {
        let new = self.value(view);
        let mut line = match (self.is_table, self.is_terse) {
            (_, true) => return new,
            (true, _) => {
                let old = old.map_or_else(String::new, |old| format!("{old} "));
                self.line_with(view, &[&format!("{old}→ {new}")])
            }
            (false, _) => self.line_with(view, &[old.unwrap_or_default(), &new]),
        };
        if self.is_table && !remark.is_empty() {
            line.push_str(&self.terminal.paint(Style::Dim, &format!("   ({remark})")));
        }
        line
    }

    pub(crate) fn value(&self, view: &ReadingView<'_>) -> String {
        if !view.has_value {
            return "-".to_owned();
        }
        let metadata = view.metadata;
        self.values.text(
            &view.reading.sample.value,
            &metadata.data_type,
            metadata.precision,
        )
    }

    /// Formats a line with `values` in place of the value; without a table, each is a separate column.
    fn line_with(&mut self, view: &ReadingView<'_>, values: &[&str]) -> String {
        if self.is_terse {
            return values.concat();
        }
        let time = self.time.as_mut().map(|time| match view.is_written() {
            true => time.text(view.name, view.times()),
            // A variable that was never written has a timestamp in 1970.
            false => "-".to_owned(),
        });
        let marks = self.marks(view);
        if !self.is_table {
            let mut cells = vec![view.name];
            cells.extend(time.as_deref());
            cells.extend_from_slice(values);
            cells.push(&view.metadata.units);
            let marks: Vec<&str> = marks.iter().map(|(mark, _)| mark.as_str()).collect();
            let marks = marks.join(", ");
            cells.push(&marks);
            return tabbed(cells);
        }
        let mut parts = vec![padded(&escaped(view.name), self.name_width)];
        let paint = |style, text: &str| self.terminal.paint(style, text);
        parts.extend(time.map(|time| paint(Style::Dim, &time)));
        let value = paint(style(view.reading.sample.quality), &values.concat());
        parts.push(match view.metadata.units.as_str() {
            "" => value,
            units => format!("{value} {}", escaped(units)),
        });
        parts.extend(marks.iter().map(|(mark, style)| paint(*style, mark)));
        parts.join("   ")
    }

    fn marks(&self, view: &ReadingView<'_>) -> Vec<(String, Style)> {
        let mut marks = Vec::new();
        let reading = view.reading;
        let quality = reading.sample.quality;
        if !view.is_written() && !view.has_value {
            marks.push(("nothing written yet".to_owned(), Style::Bad));
        } else if self.is_wide || !quality.is_good() || quality.is_forced() {
            marks.push((quality.to_string(), style(quality)));
        }
        if let Some(age) = reading.stale {
            let mark = format!("for {:.1} s", age.as_secs_f64());
            match marks.last_mut() {
                Some((quality, _)) if quality.ends_with("stale") => *quality += &format!(" {mark}"),
                _ => marks.push((format!("stale {mark}"), Style::Warning)),
            }
        }
        let lost = &reading.lost;
        match lost.count() {
            Some(0) => {}
            Some(count) => marks.push((format!("lost={count}"), Style::Bad)),
            None => marks.push(("lost=unknown".to_owned(), Style::Bad)),
        }
        if lost.coalesced > 0 {
            marks.push((format!("coalesced={}", lost.coalesced), Style::Dim));
        }
        marks
    }
}

fn style(quality: Quality) -> Style {
    match quality.level() {
        Level::Good => Style::Plain,
        Level::Uncertain => Style::Warning,
        Level::Bad => Style::Bad,
    }
}
