//! Lists with columns of any kind: names found, folders, steps of a diagnosis.

use serde_json::Value as Json;

use super::csv;
use super::json::Object;
use crate::arguments::Form;
use crate::problem::{Problem, Stop};
use crate::settings::{Columns, Settings};
use crate::terminal::{Mood, Terminal, padded, plain, tabbed, width};

/// A list being collected. Tables are printed at the end, when the widths are known; every other
/// form is printed row by row.
#[derive(Debug)]
pub(crate) struct Records {
    terminal: Terminal,
    form: Form,
    is_terse: bool,
    columns: &'static [&'static str],
    /// True if a table begins with the names of its columns.
    is_headed: bool,
    rows: Vec<Row>,
}

/// One row.
#[derive(Debug)]
pub(crate) struct Row {
    /// For people and CSV: one text per column.
    pub(crate) cells: Vec<String>,
    /// For programs: all data.
    pub(crate) object: Object,
    /// Style of the first column.
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

    /// Makes a table begin with the names of its columns.
    pub(crate) fn headed(mut self) -> Self {
        self.is_headed = true;
        self
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, mut row: Row) -> Result<(), Stop> {
        row.cells.resize(self.columns.len(), String::new());
        if self.form.is_for_people() {
            // Nothing in a cell may move the cursor or begin another column.
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
            Form::Table | Form::Plain => tabbed(row.cells.iter().map(String::as_str)),
            Form::Json | Form::Jsonl => Json::to_string(&row.object.into_json()),
            Form::Csv => {
                let cells: Vec<&str> = row.cells.iter().map(String::as_str).collect();
                csv::line(&cells)
            }
        };
        self.terminal.line(&line)
    }

    /// Prints the rows held back.
    pub(crate) fn finish(self) -> Result<(), Stop> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut widths = vec![0; self.columns.len()];
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(&row.cells) {
                *widest = (*widest).max(width(cell));
            }
        }
        if self.is_headed {
            for (widest, column) in widths.iter_mut().zip(self.columns) {
                // A column without content has no header.
                if *widest > 0 {
                    *widest = (*widest).max(width(column));
                }
            }
            let names = self.columns.iter().map(|name| name.to_uppercase());
            let names: Vec<String> = names.collect();
            let header = self.aligned(&names, &widths, Mood::Plain);
            self.terminal
                .line(&self.terminal.paint(Mood::Dim, &header))?;
        }
        for row in &self.rows {
            self.terminal
                .line(&self.aligned(&row.cells, &widths, row.mood))?;
        }
        Ok(())
    }

    /// Joins cells to a line; columns without width are left out.
    fn aligned(&self, cells: &[String], widths: &[usize], mood: Mood) -> String {
        let mut line = String::new();
        for (index, (width, cell)) in widths.iter().zip(cells).enumerate() {
            let text = padded(cell, *width);
            match index {
                _ if *width == 0 => {}
                0 => line.push_str(&self.terminal.paint(mood, &text)),
                _ => {
                    line.push_str("   ");
                    line.push_str(&text);
                }
            }
        }
        line.trim_end().to_owned()
    }
}
