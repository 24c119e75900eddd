//! Formats rows as lines of a table, of JSON or of CSV.

use serde_json::{Map, Value as Json};
use trunkline_tdms::ReadAt;
use trunkline_types::text::escape;
use trunkline_types::{DataType, Value};

use super::blocks::Block;
use super::columns::{Column, cell_type};
use super::opened::escaped;
use super::rows::{Axis, RowTime};
use crate::arguments::OutputFormat;
use crate::output::csv;
use crate::output::record::{self, JsonSchema, Serialize};
use crate::output::times::TimeColumn;
use crate::output::values::{ValueStyle, WideInt};
use crate::terminal::{padded, width};

pub(super) const TIME: &str = "time";

/// Maximum width of a column in a table, in character cells of the terminal.
const WIDTH_MAX: usize = 40;

/// A line of `tdms cat` or `tdms head`, or of a JSON Lines file that `tdms convert` writes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "A row of a TDMS file, version 1")]
pub(crate) struct Row {
    /// Number of the row, from 0. A string with --int-strings.
    row: WideInt,
    /// Time of the row: RFC 3339 with nanoseconds, or a position on the axis. Left out if the
    /// channels do not share an axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = ["string", "number"]))]
    time: Option<Json>,
    /// Values by channel; channels that have ended are left out.
    values: Map<String, Json>,
    /// `nan`, `inf` or `-inf` for each channel whose value is null because JSON cannot represent it.
    #[serde(skip_serializing_if = "Map::is_empty")]
    special: Map<String, Json>,
}

#[derive(Debug)]
pub(super) struct Lines {
    format: OutputFormat,
    names: Vec<String>,
    types: Vec<DataType>,
    axis: Option<Axis>,
    /// Format of times for people; programs get RFC 3339.
    times: Option<TimeColumn>,
    style: ValueStyle,
    /// True if spreadsheets must not evaluate text in CSV as a formula.
    is_guarded: bool,
    /// Widths of the columns of a table, which the first block determines.
    widths: Vec<usize>,
}

impl Lines {
    pub(super) fn new<R: ReadAt>(
        format: OutputFormat,
        columns: &[Column<'_, R>],
        axis: Option<Axis>,
        times: Option<TimeColumn>,
        style: ValueStyle,
    ) -> Self {
        Self {
            format,
            names: columns.iter().map(|column| column.name.clone()).collect(),
            types: columns.iter().map(|c| cell_type(c.data_type)).collect(),
            axis,
            times,
            style,
            is_guarded: false,
            widths: Vec::new(),
        }
    }

    /// If `is_spreadsheet`, puts a `'` before text cells of CSV that begin like a formula.
    pub(super) fn guarded_if(mut self, is_spreadsheet: bool) -> Self {
        self.is_guarded = is_spreadsheet && self.format == OutputFormat::Csv;
        self
    }

    /// Passes every line of a block to `out`. In a table, a header precedes the first block.
    pub(super) fn write<E>(
        &mut self,
        block: &Block,
        mut out: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.format.is_json() {
            return (0..block.rows)
                .try_for_each(|index| out(&escape(&record::json(&self.row(block, index)))));
        }
        let mut lines: Vec<Vec<String>> = (0..block.rows)
            .map(|index| self.cells(block, index))
            .collect();
        if self.format != OutputFormat::Table {
            return lines.iter().try_for_each(|line| out(&self.joined(line)));
        }
        let is_first = self.widths.is_empty();
        if is_first {
            lines.insert(0, self.header_cells());
            self.widths = (0..lines[0].len())
                .map(|index| {
                    let cells = lines.iter().filter_map(|line| line.get(index));
                    let widest = cells.map(|cell| width(cell)).max();
                    widest.unwrap_or(0).min(WIDTH_MAX)
                })
                .collect();
        }
        for line in lines {
            let cells = line.iter().zip(&self.widths);
            let cells: Vec<String> = cells.map(|(cell, width)| padded(cell, *width)).collect();
            out(cells.join("   ").trim_end())?;
        }
        Ok(())
    }

    /// Returns the header line, if the first block does not include it.
    pub(super) fn header(&self) -> Option<String> {
        let cells = self.header_cells();
        match self.format {
            OutputFormat::Csv | OutputFormat::Plain if !cells.is_empty() => {
                Some(self.joined(&cells))
            }
            _ => None,
        }
    }

    fn joined(&self, cells: &[String]) -> String {
        match self.format {
            OutputFormat::Csv => {
                let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
                match cells.as_slice() {
                    // A parser would skip an empty row.
                    [""] => "\"\"".to_owned(),
                    cells => csv::line(cells),
                }
            }
            _ => cells.join("\t"),
        }
    }

    fn header_cells(&self) -> Vec<String> {
        let time = self.axis.map(|_| TIME.to_owned());
        let names = self.names.iter();
        let names = names.map(|name| self.safe(self.guarded(name)));
        time.into_iter().chain(names).collect()
    }

    fn cells(&mut self, block: &Block, row: usize) -> Vec<String> {
        let time = self.time(block.first + row as u64);
        let cells = self.types.iter().enumerate();
        let cells = cells.map(|(column, ty)| self.safe(self.text(block.cell(column, row), ty)));
        time.into_iter().chain(cells).collect()
    }

    fn time(&mut self, row: u64) -> Option<String> {
        let row_time = self.axis?.at(row);
        match (row_time, &mut self.times) {
            (RowTime::Time(time), Some(column)) => Some(column.text("", time.into())),
            (RowTime::Time(time), None) => Some(time.to_string()),
            (RowTime::Distance(distance), _) => Some(distance.to_string()),
        }
    }

    fn guarded(&self, text: &str) -> String {
        match self.is_guarded {
            true => csv::spreadsheet_text(text),
            false => text.to_owned(),
        }
    }

    /// Escapes text for people, so that it cannot move the cursor or start another column.
    fn safe(&self, text: String) -> String {
        match self.format.is_for_people() {
            true => escaped(&text),
            false => text,
        }
    }

    fn text(&self, cell: Option<Value>, ty: &DataType) -> String {
        match cell {
            None => String::new(),
            Some(Value::String(text)) if self.is_guarded => self.guarded(&text),
            Some(value) if self.format == OutputFormat::Csv => csv::cell(&value, ty, self.style),
            // `safe` escapes the text.
            Some(Value::String(text)) => text.to_string(),
            Some(value) => self.style.text(&value, ty, None),
        }
    }

    fn row(&self, block: &Block, row_in_block: usize) -> Row {
        let row = block.first + row_in_block as u64;
        let (mut values, mut special) = (Map::new(), Map::new());
        for ((column, ty), name) in self.types.iter().enumerate().zip(&self.names) {
            let value = match block.cell(column, row_in_block) {
                // The channel has ended, or the cell is unreadable.
                None => continue,
                Some(Value::String(text)) => Json::from(text.to_string()),
                Some(value) => {
                    let json = self.style.json(&value, ty);
                    if let Some(word) = json.special {
                        special.insert(name.clone(), Json::from(word));
                    }
                    json.value
                }
            };
            values.insert(name.clone(), value);
        }
        Row {
            row: self.style.int_or_text(row),
            time: self.axis.map(|axis| axis.at(row).json()),
            values,
            special,
        }
    }
}
