//! Lists with columns of any kind: names found, folders, steps of a diagnosis.

use serde_json::Value as Json;

use super::csv;
use super::json::Object;
use crate::arguments::Form;
use crate::problem::{Problem, Stop};
use crate::settings::{Columns, Settings};
use crate::terminal::{Mood, Terminal, padded, plain};

/// A list while it is gathered. Tables are printed at the end, when the widths are known;
/// everything else row by row.
#[derive(Debug)]
pub(crate) struct Records {
    terminal: Terminal,
    form: Form,
    is_terse: bool,
    columns: &'static [&'static str],
    /// Whether a table begins with the names of the columns.
    is_headed: bool,
    rows: Vec<Row>,
}

/// One row.
#[derive(Debug)]
pub(crate) struct Row {
    /// For people and CSV: one text per column.
    pub(crate) cells: Vec<String>,
    /// For programs: everything.
    pub(crate) object: Object,
    /// How the first column is to be seen.
    pub(crate) mood: Mood,
}

impl Records {
    /// Begins a list with these columns. With `-t` only the first is shown.
    pub(crate) fn new(
        settings: &Settings,
        terminal: &Terminal,
        columns: &'static [&'static str],
    ) -> Result<Self, Stop> {
        if matches!(settings.columns, Columns::Template(_)) {
            let sentence = "--format is for readings: get, monitor and put; use -t for names only";
            return Err(Problem::usage(sentence).into());
        }
        match settings.form {
            Form::Json => terminal.begin_list(),
            Form::Csv => terminal.line(&csv::line(columns))?,
            _ => {}
        }
        Ok(Self {
            terminal: terminal.clone(),
            form: settings.form,
            is_terse: settings.columns == Columns::Terse,
            columns,
            is_headed: false,
            rows: Vec::new(),
        })
    }

    /// A table begins with the names of its columns.
    pub(crate) fn headed(mut self) -> Self {
        self.is_headed = true;
        self
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, mut row: Row) -> Result<(), Stop> {
        row.cells.resize(self.columns.len(), String::new());
        if self.form.is_for_people() {
            // Nothing in it moves the cursor, or begins another column.
            row.cells.iter_mut().for_each(|cell| *cell = plain(cell));
        }
        let line = match self.form {
            Form::Table if !self.is_terse => {
                self.rows.push(row);
                return Ok(());
            }
            Form::Table | Form::Plain if self.is_terse => {
                row.cells.into_iter().next().unwrap_or_default()
            }
            Form::Table | Form::Plain => row.cells.join("\t").trim_end_matches('\t').to_owned(),
            Form::Json | Form::Jsonl => Json::to_string(&row.object.into_json()),
            Form::Csv => {
                let cells: Vec<&str> = row.cells.iter().map(String::as_str).collect();
                csv::line(&cells)
            }
        };
        self.terminal.line(&line)
    }

    /// Prints what was kept back.
    pub(crate) fn finish(mut self) -> Result<(), Stop> {
        if self.is_headed && !self.rows.is_empty() {
            let cells = self.columns.iter().map(|name| name.to_uppercase());
            let header = Row {
                cells: cells.collect(),
                object: Object::new(),
                mood: Mood::Dim,
            };
            self.rows.insert(0, header);
        }
        let mut widths = vec![0; self.columns.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(&row.cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for (index, (width, cell)) in widths.iter().zip(&row.cells).enumerate() {
                let text = padded(cell, *width);
                match index {
                    // A column that says nothing takes no room.
                    _ if *width == 0 => {}
                    0 => line.push_str(&self.terminal.paint(row.mood, &text)),
                    _ => {
                        line.push_str("   ");
                        line.push_str(&text);
                    }
                }
            }
            self.terminal.line(line.trim_end())?;
        }
        Ok(())
    }
}
