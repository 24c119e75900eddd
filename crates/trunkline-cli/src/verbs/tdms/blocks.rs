//! Reads rows in blocks, so that memory is bounded whatever the length of the file.

use std::collections::BTreeMap;
use std::ops::Range;

use trunkline_tdms::{ReadAt, ReadError, TdmsType, Text, Values};
use trunkline_types::Value;

use super::columns::{Column, cell};
use super::opened::plain;
use crate::exit::Exit;
use crate::output::counted;
use crate::problem::{Problem, Stop};
use crate::verbs::Context;

/// Maximum number of cells in a block, over all columns.
const CELLS: u64 = 256 * 1024;
/// Maximum number of rows in a block.
const ROWS_MAX: u64 = 8 * 1024;
/// Bytes of text in a block, unless one string has more.
const TEXT_BYTES: u64 = 4 * 1024 * 1024;

/// A sequence of consecutive rows.
#[derive(Debug)]
pub(super) struct Block {
    /// Number of the first row.
    pub(super) first: u64,
    pub(super) rows: usize,
    /// The cells of each column; fewer than the rows if a channel has ended.
    pub(super) columns: Vec<Values>,
    /// Ranges of unreadable cells of each column, whose values are empty.
    pub(super) unreadable: Vec<Vec<Range<usize>>>,
}

impl Block {
    /// Returns the value of a cell; `None` after the end of the channel, and for an unreadable
    /// cell.
    pub(super) fn cell(&self, column: usize, at: usize) -> Option<Value> {
        let values = self.columns.get(column)?;
        let unreadable = self.unreadable.get(column)?;
        match unreadable.iter().any(|range| range.contains(&at)) {
            true => None,
            false => cell(values, at),
        }
    }
}

/// The unreadable part of a column.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) name: String,
    pub(super) cells: u64,
    /// The first cause.
    pub(super) why: String,
}

/// Reads rows in blocks.
#[derive(Debug)]
pub(super) struct Blocks<'c, 'a, R> {
    columns: &'c [Column<'a, R>],
    next: u64,
    end: u64,
    rows: u64,
    text_bytes: u64,
    /// By the number of the column.
    unreadable: BTreeMap<usize, Unreadable>,
}

impl<'c, 'a, R: ReadAt> Blocks<'c, 'a, R> {
    /// Returns the rows from `range.0` up to, but not including, `range.1`.
    pub(super) fn new(columns: &'c [Column<'a, R>], range: (u64, u64)) -> Self {
        let texts = columns.iter().filter(|column| is_text(column)).count() as u64;
        Self {
            columns,
            next: range.0,
            end: range.1,
            rows: (CELLS / (columns.len() as u64).max(1)).clamp(16, ROWS_MAX),
            text_bytes: (TEXT_BYTES / texts.max(1)).max(1),
            unreadable: BTreeMap::new(),
        }
    }

    /// Returns the next block; `None` after the last one.
    ///
    /// # Errors
    /// A channel cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Block>, Problem> {
        let mut rows = self.rows.min(self.end.saturating_sub(self.next));
        if rows == 0 {
            return Ok(None);
        }
        // The strings that fit determine the number of rows.
        let mut texts = Vec::new();
        let all = self.columns.iter().enumerate();
        for (number, column) in all.filter(|(_, column)| is_text(column)) {
            let values = self.texts(number, column, rows)?;
            let there = column.channel.len().saturating_sub(self.next);
            if (values.0.len() as u64) < there {
                rows = rows.min(values.0.len() as u64);
            }
            texts.push(values);
        }
        let mut texts = texts.into_iter();
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut unreadable = Vec::with_capacity(self.columns.len());
        for (number, column) in self.columns.iter().enumerate() {
            let (values, ranges) = match is_text(column) {
                false => self.read(number, column, rows)?,
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
            if let Some(found) = self.unreadable.get_mut(&number) {
                found.cells += cells as u64;
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

    /// Returns the unreadable parts so far.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        self.unreadable.values()
    }

    /// Reads strings. Unreadable ones are empty, and listed by their ranges.
    fn texts(
        &mut self,
        number: usize,
        column: &Column<'_, R>,
        rows: u64,
    ) -> Result<(Vec<Text>, Vec<Range<usize>>), Problem> {
        let channel = &column.channel;
        let (texts, ranges) = channel
            .read_strings_lossy(self.next, rows, self.text_bytes)
            .map_err(|error| unreadable(&error))?;
        if !ranges.is_empty() {
            self.note(
                number,
                column,
                "the ends of strings do not fit the text they are in",
            );
        }
        Ok((texts, ranges))
    }

    /// Reads cells of any other type. Damage in the file affects only the cells in it.
    fn read(
        &mut self,
        number: usize,
        column: &Column<'_, R>,
        rows: u64,
    ) -> Result<(Values, Vec<Range<usize>>), Problem> {
        match column.read(self.next, rows, self.text_bytes) {
            Ok(values) => Ok((values, Vec::new())),
            Err(error @ ReadError::Source { .. }) => Err(unreadable(&error)),
            Err(error) => {
                self.note(number, column, &error.to_string());
                let left = column.channel.len().saturating_sub(self.next).min(rows) as usize;
                // Keeps the column's type, whatever can be read.
                let cells = empty(column.data_type, left);
                let all = 0..left;
                Ok((cells, vec![all]))
            }
        }
    }

    fn note(&mut self, number: usize, column: &Column<'_, R>, why: &str) {
        self.unreadable.entry(number).or_insert_with(|| Unreadable {
            name: column.name.clone(),
            cells: 0,
            why: why.to_owned(),
        });
    }
}

fn is_text<R: ReadAt>(column: &Column<'_, R>) -> bool {
    column.is_of_strings()
}

/// Returns placeholders for unreadable cells.
fn empty(data_type: TdmsType, count: usize) -> Values {
    match data_type {
        TdmsType::I8 => Values::I8(vec![0; count]),
        TdmsType::I16 => Values::I16(vec![0; count]),
        TdmsType::I32 => Values::I32(vec![0; count]),
        TdmsType::I64 => Values::I64(vec![0; count]),
        TdmsType::U8 => Values::U8(vec![0; count]),
        TdmsType::U16 => Values::U16(vec![0; count]),
        TdmsType::U32 => Values::U32(vec![0; count]),
        TdmsType::U64 => Values::U64(vec![0; count]),
        TdmsType::F32 => Values::F32(vec![0.0; count]),
        TdmsType::F64 => Values::F64(vec![0.0; count]),
        TdmsType::Extended => Values::Extended(vec![Default::default(); count]),
        TdmsType::Bool => Values::Bool(vec![false; count]),
        TdmsType::Time => Values::Time(vec![Default::default(); count]),
        TdmsType::ComplexF32 => Values::ComplexF32(vec![[0.0; 2]; count]),
        TdmsType::ComplexF64 => Values::ComplexF64(vec![[0.0; 2]; count]),
        TdmsType::String => Values::String(vec![Text::default(); count]),
        _ => Values::Void,
    }
}

/// Reports the unreadable parts. Returns true if there were any.
pub(super) fn say_unreadable<'u>(
    all: impl Iterator<Item = &'u Unreadable>,
    context: &Context,
) -> Result<bool, Stop> {
    let mut is_some = false;
    for one in all {
        is_some = true;
        let sentence = format!(
            "{} cannot be read and are left empty: {}; --exclude '{}' leaves the channel out",
            counted(one.cells, "value"),
            plain(&one.why),
            plain(&one.name)
        );
        let problem = Problem::new(Exit::Found, "unreadable", &sentence).of(&one.name);
        context.terminal.problem(&problem, 0)?;
    }
    Ok(is_some)
}

/// Returns the problem of a channel that cannot be read.
pub(super) fn unreadable(error: &ReadError) -> Problem {
    let mut problem = Problem::new(Exit::SomeFailed, "not-readable", "");
    problem.message = plain(&error.to_string());
    problem.hint = Some("`trunkline tdms verify` shows details".to_owned());
    problem
}
