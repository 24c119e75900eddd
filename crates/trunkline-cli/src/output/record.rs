//! Lines of output as typed records: programs get an object, people get cells or a sentence.

use std::fmt::Display;

pub(crate) use schemars::JsonSchema;
pub(crate) use serde::Serialize;
use serde_json::Value as Json;

use super::csv;
use crate::arguments::OutputFormat;
use crate::settings::{Columns, Settings};
use crate::terminal::{Style, Terminal, escaped, padded, tabbed, width};
use crate::{CliError, Problem};

/// A line of a list: an object for programs, cells for people and CSV.
pub(crate) trait Record: Serialize + JsonSchema {
    /// Columns for people and CSV; `-t` prints the first.
    const COLUMNS: &'static [&'static str];
    /// True if a table has a header with the names of its columns.
    const IS_HEADED: bool = true;

    /// Returns the cells that differ from the JSON value of the key with the name of their column.
    fn texts(&self) -> &[(&'static str, String)] {
        &[]
    }

    /// Returns the cell of a column. `None` means the JSON value of the key with the name of the column.
    fn cell(&self, column: &str) -> Option<String> {
        let mut texts = self.texts().iter();
        let (_, text) = texts.find(|(name, _)| *name == column)?;
        Some(text.clone())
    }

    fn style(&self) -> Style {
        Style::Plain
    }
}

/// A remark or a result: an object for programs, a sentence for people.
pub(crate) trait Notice: Serialize + JsonSchema + Display {
    fn style(&self) -> Style {
        Style::Plain
    }

    /// The sentence for people. A notice with names from other programs escapes line feeds as well.
    fn text(&self) -> String {
        self.to_string()
    }
}

/// A record with the version of its structure. No other type sets the version.
#[derive(Serialize)]
struct Line<'a, R> {
    v: u8,
    #[serde(flatten)]
    record: &'a R,
}

pub(crate) fn object(record: &impl Serialize) -> Json {
    serde_json::to_value(Line { v: 1, record }).unwrap_or_default()
}

pub(crate) fn json(record: &impl Serialize) -> String {
    // The keys of a record are strings, so this cannot fail.
    serde_json::to_string(&Line { v: 1, record }).unwrap_or_default()
}

/// Prints a list. A table is printed at the end, when the column widths are known, unless the list
/// has no end. All other formats are printed row by row.
#[derive(Debug)]
pub(crate) struct Table {
    terminal: Terminal,
    format: OutputFormat,
    is_terse: bool,
    columns: Vec<&'static str>,
    is_headed: bool,
    rows: Vec<(Vec<String>, Style)>,
    /// The column widths so far, if rows are printed immediately.
    widths_so_far: Option<Vec<usize>>,
}

impl Table {
    /// Begins a list. With `is_headed`, a table has a header with the names of its columns.
    pub(crate) fn new(
        settings: &Settings,
        terminal: &Terminal,
        columns: &[&'static str],
        is_headed: bool,
    ) -> Result<Self, CliError> {
        if matches!(settings.columns, Columns::Template(_)) {
            let sentence = "--format works only with commands that print readings, such as get, monitor \
                            and put; use -t to print only names";
            return Err(Problem::usage(sentence).into());
        }
        match settings.output_format {
            OutputFormat::Json => terminal.begin_list(),
            OutputFormat::Csv => terminal.line(&csv::line(columns))?,
            _ => {}
        }
        Ok(Self {
            terminal: terminal.clone(),
            format: settings.output_format,
            is_terse: settings.columns == Columns::Terse,
            columns: columns.to_vec(),
            is_headed,
            rows: Vec::new(),
            widths_so_far: None,
        })
    }

    /// Prints each row immediately, aligned with the rows before it, for a list that has no end.
    #[must_use]
    pub(crate) fn following(mut self) -> Self {
        self.widths_so_far = Some(vec![0; self.columns.len()]);
        self
    }

    pub(crate) fn push(&mut self, record: &impl Record) -> Result<(), CliError> {
        if self.format.is_json() {
            return self.terminal.line(&json(record));
        }
        let object = serde_json::to_value(record).unwrap_or_default();
        let cell = |column: &&str| {
            let text = || text(object.get(column));
            record.cell(column).unwrap_or_else(text)
        };
        self.push_cells(self.columns.iter().map(cell).collect(), record.style())
    }

    /// Adds a row for people or CSV, with one text per column.
    pub(crate) fn push_cells(
        &mut self,
        mut cells: Vec<String>,
        style: Style,
    ) -> Result<(), CliError> {
        if self.format.is_for_people() {
            // A cell must not move the cursor or start another column.
            cells.iter_mut().for_each(|cell| *cell = escaped(cell));
        }
        let texts = || cells.iter().map(String::as_str);
        let line = match self.format {
            OutputFormat::Table if !self.is_terse => {
                let Some(mut widths) = self.widths_so_far.take() else {
                    self.rows.push((cells, style));
                    return Ok(());
                };
                widen(&mut widths, &cells);
                let line = self.aligned(&cells, &widths, style);
                self.widths_so_far = Some(widths);
                line
            }
            OutputFormat::Csv => csv::line(&texts().collect::<Vec<_>>()),
            _ if self.is_terse => texts().next().unwrap_or_default().to_owned(),
            _ => tabbed(texts()),
        };
        self.terminal.line(&line)
    }

    pub(crate) fn finish(self) -> Result<(), CliError> {
        let mut lines = self.lines().into_iter();
        lines.try_for_each(|line| self.terminal.line(&line))
    }

    /// Returns the lines of the collected table, or none if it has no rows.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.rows.is_empty() {
            return lines;
        }
        let mut widths = vec![0; self.columns.len()];
        for (cells, _) in &self.rows {
            widen(&mut widths, cells);
        }
        if self.is_headed {
            for (widest, column) in widths.iter_mut().zip(&self.columns) {
                // A column without content has no header.
                if *widest > 0 {
                    *widest = (*widest).max(width(column));
                }
            }
            let names = self.columns.iter().map(|name| name.to_uppercase());
            let header = self.aligned(&names.collect::<Vec<_>>(), &widths, Style::Plain);
            lines.push(self.terminal.paint(Style::Dim, &header));
        }
        let rows = self.rows.iter();
        lines.extend(rows.map(|(cells, style)| self.aligned(cells, &widths, *style)));
        lines
    }

    /// Joins cells into a line, without the columns of width 0.
    fn aligned(&self, cells: &[String], widths: &[usize], style: Style) -> String {
        let mut line = String::new();
        for (index, (width, cell)) in widths.iter().zip(cells).enumerate() {
            let text = padded(cell, *width);
            match index {
                _ if *width == 0 => {}
                0 => line.push_str(&self.terminal.paint(style, &text)),
                _ => {
                    line.push_str("   ");
                    line.push_str(&text);
                }
            }
        }
        line.trim_end().to_owned()
    }
}

/// Makes the columns at least as wide as these cells.
fn widen(widths: &mut [usize], cells: &[String]) {
    for (widest, cell) in widths.iter_mut().zip(cells) {
        *widest = (*widest).max(width(cell));
    }
}

fn text(value: Option<&Json>) -> String {
    match value {
        None => String::new(),
        Some(Json::Null) => "-".to_owned(),
        Some(Json::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
