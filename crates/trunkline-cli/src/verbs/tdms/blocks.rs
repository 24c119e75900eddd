//! Reads rows in blocks, so that memory is bounded for a file of any length.

use std::collections::BTreeMap;
use std::ops::Range;

use trunkline_tdms::{ReadAt, ReadError, Text, Values};
use trunkline_types::Value;

use super::columns::{Column, cell};
use super::opened::escaped;
use crate::{CliError, Context, Exit, Problem, counted};

/// Maximum number of cells in a block, over all columns.
const CELLS_MAX: u64 = 256 * 1024;
/// Maximum number of rows in a block.
const ROWS_MAX: u64 = 8 * 1024;
/// Maximum size of the text in a block in bytes, unless a single string is larger.
const TEXT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The cells of consecutive rows.
#[derive(Debug)]
pub(super) struct Block {
    /// Number of the first row.
    pub(super) first: u64,
    /// Number of rows.
    pub(super) rows: usize,
    /// The cells of each column. A channel that has ended has fewer cells than the block has rows.
    pub(super) columns: Vec<Values>,
    /// Ranges of unreadable cells in each column. The values of these cells are empty; if all cells of
    /// a column are unreadable, its values are void.
    pub(super) unreadable: Vec<Vec<Range<usize>>>,
}

impl Block {
    /// Returns the value of a cell; `None` after the end of the channel, and for an unreadable
    /// cell.
    pub(super) fn cell(&self, column: usize, row: usize) -> Option<Value> {
        let values = self.columns.get(column)?;
        let unreadable = self.unreadable.get(column)?;
        match unreadable.iter().any(|range| range.contains(&row)) {
            true => None,
            false => cell(values, row),
        }
    }
}

/// The unreadable cells of a channel.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) name: String,
    /// Number of unreadable cells.
    pub(super) cells: u64,
    pub(super) reason: String,
}

#[derive(Debug)]
pub(super) struct Blocks<'c, 'a, R> {
    columns: &'c [Column<'a, R>],
    /// First row of the next block.
    next: u64,
    /// The row after the last one to read.
    end: u64,
    /// Maximum number of rows in a block.
    rows_max: u64,
    /// Maximum size of the text in a block, in bytes per column.
    text_bytes_max: u64,
    /// Unreadable cells by the index of their column.
    unreadable: BTreeMap<usize, Unreadable>,
}

impl<'c, 'a, R: ReadAt> Blocks<'c, 'a, R> {
    /// Reads the rows from `range.0` up to, but not including, `range.1`.
    pub(super) fn new(columns: &'c [Column<'a, R>], range: (u64, u64)) -> Self {
        let texts = columns.iter().filter(|column| is_text(column)).count() as u64;
        Self {
            columns,
            next: range.0,
            end: range.1,
            rows_max: (CELLS_MAX / (columns.len() as u64).max(1)).clamp(16, ROWS_MAX),
            text_bytes_max: (TEXT_BYTES_MAX / texts.max(1)).max(1),
            unreadable: BTreeMap::new(),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Block>, Problem> {
        let mut rows = self.rows_max.min(self.end.saturating_sub(self.next));
        if rows == 0 {
            return Ok(None);
        }
        // The number of strings that fit into a block limits the number of its rows.
        let mut texts = Vec::new();
        let columns = self.columns.iter().enumerate();
        for (index, column) in columns.filter(|(_, column)| is_text(column)) {
            let values = self.texts(index, column, rows)?;
            let available = column.channel.len().saturating_sub(self.next);
            if (values.0.len() as u64) < available {
                rows = rows.min(values.0.len() as u64);
            }
            texts.push(values);
        }
        let mut texts = texts.into_iter();
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut unreadable = Vec::with_capacity(self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            let (values, ranges) = match is_text(column) {
                false => self.read(index, column, rows)?,
                true => {
                    let (mut texts, mut ranges) = texts.next().unwrap_or_default();
                    texts.truncate(rows as usize);
                    ranges.retain_mut(|range| {
                        range.end = range.end.min(rows as usize);
                        range.start < range.end
                    });
                    (Values::String(texts), ranges)
                }
            };
            let cells: usize = ranges.iter().map(ExactSizeIterator::len).sum();
            if let Some(unreadable) = self.unreadable.get_mut(&index) {
                unreadable.cells += cells as u64;
            }
            columns.push(values);
            unreadable.push(ranges);
        }
        let first = self.next;
        self.next += rows;
        Ok(Some(Block {
            first,
            rows: rows as usize,
            columns,
            unreadable,
        }))
    }

    pub(super) fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.values()
    }

    /// Reads strings. Unreadable strings are empty, and their ranges are returned.
    fn texts(
        &mut self,
        index: usize,
        column: &Column<'_, R>,
        rows: u64,
    ) -> Result<(Vec<Text>, Vec<Range<usize>>), Problem> {
        let channel = &column.channel;
        let (texts, ranges) = channel
            .read_strings_lossy(self.next, rows, self.text_bytes_max)
            .map_err(|error| unreadable(&error))?;
        if !ranges.is_empty() {
            self.note(
                index,
                column,
                "the string offsets do not match the string data",
            );
        }
        Ok((texts, ranges))
    }

    /// Reads cells of any other type. If the file is damaged, the cells are unreadable; this is not an
    /// error.
    fn read(
        &mut self,
        index: usize,
        column: &Column<'_, R>,
        rows: u64,
    ) -> Result<(Values, Vec<Range<usize>>), Problem> {
        match column.read(self.next, rows, self.text_bytes_max) {
            Ok(values) => Ok((values, Vec::new())),
            Err(error @ ReadError::Source { .. }) => Err(unreadable(&error)),
            Err(error) => {
                self.note(index, column, &error.to_string());
                let remaining = column.channel.len().saturating_sub(self.next).min(rows) as usize;
                let unreadable = 0..remaining;
                Ok((Values::Void, vec![unreadable]))
            }
        }
    }

    fn note(&mut self, index: usize, column: &Column<'_, R>, reason: &str) {
        self.unreadable.entry(index).or_insert_with(|| Unreadable {
            name: column.name.clone(),
            cells: 0,
            reason: reason.to_owned(),
        });
    }
}

fn is_text<R: ReadAt>(column: &Column<'_, R>) -> bool {
    column.is_of_strings()
}

/// Reports the unreadable cells. Returns true if there are any.
pub(super) fn report_unreadable<'u>(
    unreadable: impl Iterator<Item = &'u Unreadable>,
    context: &Context,
) -> Result<bool, CliError> {
    let mut has_unreadable = false;
    for channel in unreadable {
        has_unreadable = true;
        let sentence = format!(
            "{} cannot be read and are left empty: {}; --exclude '{}' omits the channel",
            counted(channel.cells, "value"),
            escaped(&channel.reason),
            escaped(&channel.name)
        );
        let problem =
            Problem::new(Exit::ProblemsFound, "unreadable", sentence).with_name(&channel.name);
        context.terminal.problem(&problem, 0)?;
    }
    Ok(has_unreadable)
}

pub(super) fn unreadable(error: &ReadError) -> Problem {
    Problem::from_message("not-readable", escaped(&error.to_string()))
        .with_hint("`trunkline tdms verify` shows details")
}
