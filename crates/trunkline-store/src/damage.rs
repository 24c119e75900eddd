//! Rows that are not as they were written: found by their checksums, taken out and kept apart.
//!
//! Every row has a checksum of its columns, `row_sum`, in its last column. SQLite checks the
//! structure of its file and not the content. What is damaged is confined to its row: the rest of
//! the store is used, and the table `damaged` has the columns of the row for whoever repairs it.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Transaction};
use trunkline_engine::store::Damage;

use crate::trouble::Problem;

/// Rows of one table, as SQL names them.
pub(crate) struct Rows {
    /// What people call one.
    noun: &'static str,
    table: &'static str,
    /// The column that tells one from the other.
    name: &'static str,
    /// All that the checksum is of.
    columns: &'static str,
}

/// The tables whose damaged rows are taken out. The audit keeps its own, because nothing but its
/// oldest entry may be removed.
const TABLES: [Rows; 3] = [
    Rows {
        noun: "library",
        table: "library",
        name: "name",
        columns: "name, description, state, variables",
    },
    Rows {
        noun: "retained value",
        table: "retained",
        name: "name",
        columns: "name, type, value, source_timestamp, quality",
    },
    Rows {
        noun: "count of starts",
        table: "start",
        name: "count",
        columns: "count, engine_id",
    },
];

/// Makes `row_sum` known to SQL: CRC-32C over the type, the length and the bytes of each argument.
pub(crate) fn add_row_sum(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("row_sum", -1, flags, |row| Ok(row_sum(row)))
}

fn row_sum(row: &Context<'_>) -> i64 {
    let mut sum = 0;
    for index in 0..row.len() {
        let (tag, bytes): (u8, &[u8]) = match row.get_raw(index) {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(number) => {
                sum = add(sum, 1, &number.to_le_bytes());
                continue;
            }
            ValueRef::Real(number) => {
                sum = add(sum, 2, &number.to_le_bytes());
                continue;
            }
            ValueRef::Text(text) => (3, text),
            ValueRef::Blob(bytes) => (4, bytes),
        };
        sum = add(sum, tag, bytes);
    }
    i64::from(sum)
}

fn add(sum: u32, tag: u8, bytes: &[u8]) -> u32 {
    let sum = crc32c::crc32c_append(sum, &[tag]);
    let sum = crc32c::crc32c_append(sum, &(bytes.len() as u64).to_le_bytes());
    crc32c::crc32c_append(sum, bytes)
}

/// Takes damaged rows out of their tables. What was there before is told again each time.
pub(crate) fn quarantine(transaction: &Transaction<'_>) -> Result<Vec<Damage>, Problem> {
    for rows in TABLES {
        let Rows {
            noun,
            table,
            name,
            columns,
        } = rows;
        let is_damaged = format!("sum IS NOT row_sum({columns})");
        let found: i64 = transaction.query_row(
            &format!("SELECT count(*) FROM {table} WHERE {is_damaged}"),
            [],
            |row| row.get(0),
        )?;
        if found == 0 {
            continue;
        }
        // As text that SQL reads back, byte by byte.
        let quoted: Vec<_> = columns
            .split(", ")
            .map(|one| format!("quote({one})"))
            .collect();
        let quoted = quoted.join(" || ', ' || ");
        transaction.execute(
            &format!(
                "INSERT INTO damaged (kind, name, content)
                 SELECT '{noun}', CAST({name} AS TEXT), {quoted} FROM {table} WHERE {is_damaged}"
            ),
            [],
        )?;
        transaction.execute(&format!("DELETE FROM {table} WHERE {is_damaged}"), [])?;
    }
    all(transaction)
}

/// What is kept apart.
fn all(transaction: &Transaction<'_>) -> Result<Vec<Damage>, Problem> {
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
