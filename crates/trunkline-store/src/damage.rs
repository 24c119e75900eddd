//! Finds damaged rows by their checksums, and moves them to a separate table.
//!
//! The last column of every row contains `row_sum`, a checksum of the other columns, because SQLite checks
//! the structure of its file but not the content. Damage affects only one row: the rest of the store stays
//! in use. The table `damaged` contains the columns of the row for repair.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Transaction};
use trunkline_engine::store::Damage;

use crate::error::Error;

/// A table whose rows have checksums.
pub(crate) struct CheckedTable {
    /// Name for a row of this table in messages.
    noun: &'static str,
    table: &'static str,
    /// The column that identifies a row.
    key_column: &'static str,
    /// The columns covered by the checksum.
    columns: &'static str,
}

/// The tables whose damaged rows are moved. The audit trail and the alarm journal keep their damaged rows,
/// because only their oldest entries may be removed.
const TABLES: [CheckedTable; 4] = [
    CheckedTable {
        noun: "library",
        table: "library",
        key_column: "name",
        columns: "name, description, state, variables",
    },
    CheckedTable {
        noun: "retained value",
        table: "retained",
        key_column: "name",
        columns: "name, type, value, source_timestamp, quality",
    },
    CheckedTable {
        noun: "state of an alarm",
        table: "alarm_state",
        key_column: "variable",
        columns: "variable, alarm, definition, process, hidden, delayed_since, state, is_active, \
                  value, operand, raised, cleared, acknowledged, acknowledged_by, comment, \
                  shelved_until",
    },
    CheckedTable {
        noun: "count of starts",
        table: "start",
        key_column: "count",
        columns: "count, engine_id",
    },
];

/// Registers `row_sum` in SQL: CRC-32C over the type, the length and the bytes of each argument.
pub(crate) fn add_row_sum(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("row_sum", -1, flags, |row| Ok(row_sum(row)))
}

fn row_sum(row: &Context<'_>) -> i64 {
    let mut sum = RowSum::new();
    for index in 0..row.len() {
        match row.get_raw(index) {
            ValueRef::Null => sum.add(0, &[]),
            ValueRef::Integer(number) => sum.add(1, &number.to_le_bytes()),
            ValueRef::Real(number) => sum.add(2, &number.to_le_bytes()),
            ValueRef::Text(text) => sum.add(3, text),
            ValueRef::Blob(bytes) => sum.add(4, bytes),
        }
    }
    i64::from(sum.finish())
}

/// Computes the CRC-32C of many short pieces. Pieces are first collected in a buffer, because one call per
/// piece takes longer than processing the bytes of the piece.
struct RowSum {
    sum: u32,
    buffer: [u8; 256],
    len: usize,
}

impl RowSum {
    fn new() -> Self {
        Self {
            sum: 0,
            buffer: [0; 256],
            len: 0,
        }
    }

    fn add(&mut self, tag: u8, bytes: &[u8]) {
        self.push(&[tag]);
        self.push(&(bytes.len() as u64).to_le_bytes());
        self.push(bytes);
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.len + bytes.len() > self.buffer.len() {
            self.sum = self.finish();
            self.len = 0;
        }
        match self.buffer.get_mut(self.len..self.len + bytes.len()) {
            Some(free) => {
                free.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.sum = crc32c::crc32c_append(self.sum, bytes),
        }
    }

    fn finish(&self) -> u32 {
        let buffer = self.buffer.get(..self.len).unwrap_or_default();
        crc32c::crc32c_append(self.sum, buffer)
    }
}

/// Moves damaged rows out of their tables. Returns these rows and the rows that were moved earlier.
pub(crate) fn quarantine(transaction: &Transaction<'_>) -> Result<Vec<Damage>, Error> {
    for checked in TABLES {
        let CheckedTable {
            noun,
            table,
            key_column,
            columns,
        } = checked;
        let is_damaged = format!("sum IS NOT row_sum({columns})");
        let found: i64 = transaction.query_row(
            &format!("SELECT count(*) FROM {table} WHERE {is_damaged}"),
            [],
            |row| row.get(0),
        )?;
        if found == 0 {
            continue;
        }
        // Each column is stored as an SQL literal, from which every byte can be restored.
        let quoted: Vec<_> = columns
            .split(", ")
            .map(|column| format!("quote({column})"))
            .collect();
        let quoted = quoted.join(" || ', ' || ");
        transaction.execute(
            &format!(
                "INSERT INTO damaged (kind, name, content)
                 SELECT '{noun}', CAST({key_column} AS TEXT), {quoted} FROM {table} WHERE {is_damaged}"
            ),
            [],
        )?;
        transaction.execute(&format!("DELETE FROM {table} WHERE {is_damaged}"), [])?;
    }
    quarantined(transaction)
}

/// Returns all rows that have been moved so far.
fn quarantined(transaction: &Transaction<'_>) -> Result<Vec<Damage>, Error> {
    let mut statement = transaction.prepare("SELECT kind, name FROM damaged ORDER BY place")?;
    let rows = statement.query_map([], |row| {
        let text = |column| -> rusqlite::Result<String> {
            Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
        };
        Ok(Damage {
            kind: text(0)?,
            name: text(1)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_pieces_equals_checksum_of_their_concatenation() {
        for lengths in [[0, 1, 8], [200, 100, 300], [255, 256, 257], [1, 5000, 2]] {
            let mut sut = RowSum::new();
            let mut all = Vec::new();
            for (tag, length) in (0..).zip(lengths) {
                let piece: Vec<u8> = (0..length).map(|byte: u64| byte as u8 ^ tag).collect();
                sut.add(tag, &piece);
                all.push(tag);
                all.extend(length.to_le_bytes());
                all.extend(piece);
            }
            assert_eq!(sut.finish(), crc32c::crc32c(&all), "{lengths:?}");
        }
    }
}
