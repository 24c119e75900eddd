//! The catalogue of a history, in SQLite: the series, and the Parquet files with their times.
//!
//! ```text
//! series   id | name | data_type | units | retired      one row per variable and type
//! part     path | segment | first_time | last_time | rows | bytes | expires | data_bytes | footer
//! ```

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use trunkline_types::DataType;
use trunkline_types::wire::{self, Reader};

use crate::error::Error;

/// Version of the tables.
const VERSION: u32 = 1;
/// The series of the history itself, whose events concern every variable.
pub(crate) const ENGINE_SERIES: u32 = 0;

pub(crate) struct Catalogue {
    connection: Connection,
}

/// The rows of one variable with one type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Series {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) units: String,
}

/// A Parquet file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartRow {
    /// Path within the history's folder.
    pub(crate) path: String,
    /// Number of the newest segment of the log that is in the file.
    pub(crate) segment: u64,
    pub(crate) first_time: i64,
    pub(crate) last_time: i64,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// The time after which no row is kept; `i64::MAX` if there is none.
    pub(crate) expires: i64,
    /// Number of bytes before the footer, which have checksums in the footer.
    pub(crate) data_bytes: u64,
    /// CRC32C of the footer.
    pub(crate) footer: u32,
}

impl Catalogue {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let mut connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match found {
            VERSION => {}
            0 => {
                let transaction = connection.transaction()?;
                transaction.execute_batch(
                    "CREATE TABLE series (
                         id INTEGER PRIMARY KEY, name TEXT NOT NULL, data_type BLOB NOT NULL,
                         units TEXT NOT NULL, retired INTEGER NOT NULL DEFAULT 0
                     );
                     CREATE INDEX series_by_name ON series (name);
                     CREATE TABLE part (
                         path TEXT PRIMARY KEY, segment INTEGER NOT NULL,
                         first_time INTEGER NOT NULL, last_time INTEGER NOT NULL,
                         rows INTEGER NOT NULL, bytes INTEGER NOT NULL, expires INTEGER NOT NULL,
                         data_bytes INTEGER NOT NULL, footer INTEGER NOT NULL
                     );",
                )?;
                transaction.pragma_update(None, "user_version", VERSION)?;
                transaction.commit()?;
            }
            found => {
                return Err(Error::Newer {
                    found,
                    known: VERSION,
                });
            }
        }
        Ok(Self { connection })
    }

    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&transaction)?;
        transaction.commit()?;
        Ok(value)
    }

    /// Returns all series, in the order of their ids.
    pub(crate) fn series(&mut self) -> Result<Vec<Series>, Error> {
        let mut select = self
            .connection
            .prepare("SELECT id, name, data_type, units FROM series ORDER BY id")?;
        let mut rows = select.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let data_type: Vec<u8> = row.get(2)?;
            let mut reader = Reader::new(&data_type);
            let data_type = wire::decode_type(&mut reader)?;
            all.push(Series {
                id: row.get(0)?,
                name: row.get(1)?,
                data_type,
                units: row.get(3)?,
            });
        }
        Ok(all)
    }

    /// Adds series, all or none. Their ids must be new.
    pub(crate) fn add_series(&mut self, series: &[Series]) -> Result<(), Error> {
        self.transaction(|transaction| {
            let mut insert = transaction
                .prepare("INSERT INTO series (id, name, data_type, units) VALUES (?, ?, ?, ?)")?;
            for one in series {
                let mut data_type = Vec::new();
                wire::encode_type(&one.data_type, &mut data_type);
                insert.execute(params![one.id, one.name, data_type, one.units])?;
            }
            Ok(())
        })
    }

    /// Returns all parts, in the order of their first times.
    pub(crate) fn parts(&mut self) -> Result<Vec<PartRow>, Error> {
        let mut select = self.connection.prepare(
            "SELECT path, segment, first_time, last_time, rows, bytes, expires, data_bytes, footer
             FROM part ORDER BY first_time, path",
        )?;
        let rows = select.query_map([], |row| {
            Ok(PartRow {
                path: row.get(0)?,
                segment: row.get::<_, i64>(1)? as u64,
                first_time: row.get(2)?,
                last_time: row.get(3)?,
                rows: row.get::<_, i64>(4)? as u64,
                bytes: row.get::<_, i64>(5)? as u64,
                expires: row.get(6)?,
                data_bytes: row.get::<_, i64>(7)? as u64,
                footer: row.get(8)?,
            })
        })?;
        rows.collect::<Result<_, _>>().map_err(Error::from)
    }

    /// Replaces parts by others in one step.
    pub(crate) fn replace_parts(
        &mut self,
        removed: &[String],
        added: &[PartRow],
    ) -> Result<(), Error> {
        self.transaction(|transaction| {
            let mut delete = transaction.prepare("DELETE FROM part WHERE path = ?")?;
            for path in removed {
                delete.execute([path])?;
            }
            let mut insert =
                transaction.prepare("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
            for part in added {
                insert.execute(params![
                    part.path,
                    part.segment as i64,
                    part.first_time,
                    part.last_time,
                    part.rows as i64,
                    part.bytes as i64,
                    part.expires,
                    part.data_bytes as i64,
                    part.footer,
                ])?;
            }
            Ok(())
        })
    }
}
