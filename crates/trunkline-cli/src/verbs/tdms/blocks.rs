//! Rows piece by piece: memory is bounded whatever the length of the file.

use trunkline_tdms::{ReadAt, ReadError, TdmsType, Values};

use super::columns::Column;
use super::opened::plain;
use crate::exit::Exit;
use crate::problem::Problem;

/// Numbers in a block, of all columns together.
const CELLS: u64 = 256 * 1024;
/// Rows in a block.
const ROWS_MAX: u64 = 8 * 1024;
/// Bytes of text in a block, unless one string has more.
const TEXT_BYTES: u64 = 4 * 1024 * 1024;

/// Rows that follow each other.
#[derive(Debug)]
pub(super) struct Block {
    /// Number of the first one.
    pub(super) first: u64,
    pub(super) rows: usize,
    /// The cells of each column; fewer than rows where a channel has ended.
    pub(super) columns: Vec<Values>,
}

/// Reads rows in blocks.
#[derive(Debug)]
pub(super) struct Blocks<'c, 'a, R> {
    columns: &'c [Column<'a, R>],
    next: u64,
    end: u64,
    rows: u64,
    text_bytes: u64,
}

impl<'c, 'a, R: ReadAt> Blocks<'c, 'a, R> {
    /// The rows from `range.0` on and before `range.1`.
    pub(super) fn new(columns: &'c [Column<'a, R>], range: (u64, u64)) -> Self {
        let texts = columns.iter().filter(|column| is_text(column)).count() as u64;
        Self {
            columns,
            next: range.0,
            end: range.1,
            rows: (CELLS / (columns.len() as u64).max(1)).clamp(16, ROWS_MAX),
            text_bytes: (TEXT_BYTES / texts.max(1)).max(1),
        }
    }

    /// The next block; none behind the last one.
    ///
    /// # Errors
    /// A channel cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Block>, Problem> {
        let mut rows = self.rows.min(self.end.saturating_sub(self.next));
        if rows == 0 {
            return Ok(None);
        }
        // How many strings fit says how many rows there are.
        let mut texts = Vec::new();
        for column in self.columns.iter().filter(|column| is_text(column)) {
            let values = self.read(column, rows)?;
            let there = column.channel.len().saturating_sub(self.next);
            if (values.len() as u64) < there {
                rows = rows.min(values.len() as u64);
            }
            texts.push(values);
        }
        let mut texts = texts.into_iter();
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in self.columns {
            columns.push(match is_text(column) {
                false => self.read(column, rows)?,
                true => match texts.next() {
                    Some(Values::String(mut texts)) => {
                        texts.truncate(rows as usize);
                        Values::String(texts)
                    }
                    other => other.unwrap_or(Values::Void),
                },
            });
        }
        let first = self.next;
        self.next += rows;
        Ok(Some(Block {
            first,
            rows: rows as usize,
            columns,
        }))
    }

    fn read(&self, column: &Column<'_, R>, rows: u64) -> Result<Values, Problem> {
        let read = column.read(self.next, rows, self.text_bytes);
        read.map_err(|error| unreadable(&error))
    }
}

fn is_text<R>(column: &Column<'_, R>) -> bool {
    column.data_type == TdmsType::String
}

/// What it means that a channel cannot be read.
pub(super) fn unreadable(error: &ReadError) -> Problem {
    let mut problem = Problem::new(Exit::SomeFailed, "not-readable", "");
    problem.message = plain(&error.to_string());
    problem.hint = Some("`trunkline tdms verify` says more about it".to_owned());
    problem
}
