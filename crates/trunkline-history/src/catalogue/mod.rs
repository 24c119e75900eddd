//! The catalogue of a history: an SQLite database of the series and of the Parquet files.
//!
//! ```text
//! series   id | name | data_type | units | sum          one row per variable and type
//! part     path | segment | first_time | last_time | rows | bytes | expires | data_bytes | footer |
//!          summary | sum                                one row per file
//! spool    id | log                                      logs of a spool whose rows are in files
//! spool_end id | log | bytes                             acknowledged lengths of other logs of a spool
//! ```

pub(crate) mod snapshot;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};
use trunkline_types::DataType;
use trunkline_types::wire::{self, Reader};

use crate::error::Error;
use crate::paths::check_identity;
use crate::private;

/// Version of the database schema.
const VERSION: u32 = 1;
/// Id of the series of events that concern all variables, such as the start of the engine.
pub(crate) const ENGINE_SERIES: u32 = 0;
/// Sequence number of the event that a variable was undeployed. These events have no sequence number of
/// their own; the reserved numbers sort them after the updates with the same time.
pub(crate) const RETIRED: u64 = u64::MAX - 2;
/// Sequence number of the event that the recording of a variable began.
pub(crate) const ADDED: u64 = u64::MAX - 1;
/// Sequence number of the events that the engine stopped or was interrupted, and that rows are damaged.
pub(crate) const STOPPED: u64 = u64::MAX;
/// Maximum length of the name and of the units in a series definition, in bytes each.
const TEXT_BYTES_MAX: usize = 4096;

/// Creates the tables for logs of spools. They are created when the first log is entered.
const SPOOL_TABLES: &str = "
    CREATE TABLE IF NOT EXISTS spool (
        id TEXT NOT NULL, log INTEGER NOT NULL, PRIMARY KEY (id, log)
    );
    CREATE TABLE IF NOT EXISTS spool_end (
        id TEXT NOT NULL, log INTEGER NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (id, log)
    );";

pub(crate) struct Catalogue {
    path: PathBuf,
    /// Content of the file `identity` in the history's folder; `None` if it is not known.
    identity: Option<String>,
    /// The open database; `None` while it cannot be opened for writing.
    opened: Option<OpenCatalogue>,
}

struct OpenCatalogue {
    connection: Connection,
    /// Device and inode of the database file when it was opened.
    file: (u64, u64),
}

/// A series: the rows of one variable with one data type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Series {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) units: String,
}

/// A row of the table `part`: a Parquet file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartRow {
    /// Path relative to the history's folder.
    pub(crate) path: String,
    /// Number of the newest log segment with rows in the file.
    pub(crate) segment: u64,
    pub(crate) first_time: i64,
    pub(crate) last_time: i64,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// The time after which all rows of the file have expired; `i64::MAX` if some never expire.
    pub(crate) expires: i64,
    /// Number of bytes before the footer. The footer has checksums of these bytes.
    pub(crate) data_bytes: u64,
    /// CRC32C of the footer.
    pub(crate) footer: u32,
    /// CRC32C of the summary beside the file; 0 if there is none.
    pub(crate) summary: u32,
}

/// A log of a spool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SpoolLog {
    /// Identity of the spool.
    pub(crate) spool: String,
    /// Number of the log in the spool.
    pub(crate) log: u64,
}

/// The end of a log of a spool that another log continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SpoolEnd {
    pub(crate) log: SpoolLog,
    /// Number of acknowledged bytes in the log.
    pub(crate) bytes: u64,
}

impl Series {
    /// Encodes the definition of the series, which is everything except the id, as the log stores it.
    pub(crate) fn encode_definition(&self, out: &mut Vec<u8>) {
        wire::put_str(out, &self.name);
        wire::put_str(out, &self.units);
        wire::encode_type(&self.data_type, out);
    }

    /// Decodes the output of [`encode_definition`](Self::encode_definition).
    pub(crate) fn decode_definition(id: u32, definition: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(definition);
        Ok(Self {
            id,
            name: reader.str(TEXT_BYTES_MAX)?.to_owned(),
            units: reader.str(TEXT_BYTES_MAX)?.to_owned(),
            data_type: wire::decode_type(&mut reader)?,
        })
    }

    /// Returns the series of events that concern all variables.
    pub(crate) fn of_engine() -> Self {
        Self {
            id: ENGINE_SERIES,
            name: String::new(),
            data_type: DataType::Bytes,
            units: String::new(),
        }
    }

    /// Returns a checksum of all fields of the series.
    fn sum(&self) -> u32 {
        let mut data_type = Vec::new();
        wire::encode_type(&self.data_type, &mut data_type);
        let text = format!("{} {} {data_type:?} {}", self.id, self.name, self.units);
        crc32c::crc32c(text.as_bytes())
    }
}

impl PartRow {
    /// Returns a checksum of all fields of the part. Catalogues on disk contain this checksum, so the names
    /// of the type and its fields must not change.
    fn sum(&self) -> u32 {
        crc32c::crc32c(format!("{self:?}").as_bytes())
    }
}

fn damaged_row(table: &str, name: &str) -> Error {
    Error::damaged(format!(
        "its catalogue: the checksum of {name} in the table {table} is wrong"
    ))
}

impl Catalogue {
    /// Opens the catalogue. If `is_new` is true, creates it if it does not exist.
    pub(crate) fn open(path: &Path, is_new: bool) -> Result<Self, Error> {
        Ok(Self {
            path: path.to_owned(),
            identity: None,
            opened: Some(OpenCatalogue::connect(path, is_new)?),
        })
    }

    /// Returns a catalogue that is not open. The next use opens it.
    pub(crate) fn unopened(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            identity: None,
            opened: None,
        }
    }

    /// Sets the expected content of the file `identity`. The catalogue is opened again only if the file still
    /// has this content.
    pub(crate) fn set_identity(&mut self, identity: &str) {
        self.identity = Some(identity.to_owned());
    }

    /// Performs a step with the connection. Opens the connection first if it is closed, or if the database
    /// file was replaced since. If the disk fails during the step, closes the connection, because open files
    /// cannot be used after their disk was disconnected.
    fn with_connection<T>(
        &mut self,
        step: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let file = file_identity(&self.path).ok();
        let is_current = |opened: &OpenCatalogue| Some(opened.file) == file;
        if !self.opened.as_ref().is_some_and(is_current) {
            self.disconnect();
            if let (Some(identity), Some(folder)) = (&self.identity, self.path.parent()) {
                check_identity(folder, identity)?;
            }
            self.opened = Some(OpenCatalogue::connect(&self.path, false)?);
        }
        let done = match &mut self.opened {
            Some(opened) => step(&mut opened.connection),
            None => Err(Error::damaged("its catalogue is closed")),
        };
        if done.as_ref().is_err_and(Error::is_disk_failure) {
            self.disconnect();
        }
        done
    }

    /// Closes the connection without a checkpoint, which would change files that another process may use.
    fn disconnect(&mut self) {
        if let Some(opened) = self.opened.take() {
            let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let _ = opened.connection.set_db_config(option, true);
        }
    }

    /// Closes the catalogue. This merges the write-ahead log into the database file.
    pub(crate) fn close(self) -> Result<(), Error> {
        match self.opened {
            Some(opened) => opened.connection.close().map_err(|(_, error)| error.into()),
            None => Ok(()),
        }
    }

    /// Checks the integrity of the database pages.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let found: String = self.with_connection(|connection| {
            Ok(connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?)
        })?;
        match found.as_str() {
            "ok" => Ok(()),
            finding => Err(Error::damaged(format!("its catalogue: {finding}"))),
        }
    }

    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.with_connection(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    /// Returns all series, sorted by id.
    pub(crate) fn series(&mut self) -> Result<Vec<Series>, Error> {
        self.with_connection(|connection| read_series(connection))
    }

    /// Adds series, all or none. Their ids must not be in use.
    pub(crate) fn add_series(&mut self, series: &[Series]) -> Result<(), Error> {
        self.transaction(|transaction| {
            let mut insert = transaction.prepare("INSERT INTO series VALUES (?, ?, ?, ?, ?)")?;
            for one in series {
                let mut data_type = Vec::new();
                wire::encode_type(&one.data_type, &mut data_type);
                insert.execute(params![one.id, one.name, data_type, one.units, one.sum()])?;
            }
            Ok(())
        })
    }

    /// Returns all parts, sorted by their first time.
    pub(crate) fn parts(&mut self) -> Result<Vec<PartRow>, Error> {
        self.with_connection(|connection| read_parts(connection))
    }

    /// Returns the logs of spools whose rows are in files, in the order in which they were entered.
    pub(crate) fn spool_logs(&mut self) -> Result<Vec<SpoolLog>, Error> {
        self.with_connection(|connection| read_spool_logs(connection))
    }

    /// Returns the ends of logs of spools whose rows are not in files.
    pub(crate) fn spool_ends(&mut self) -> Result<Vec<SpoolEnd>, Error> {
        self.with_connection(|connection| read_spool_ends(connection))
    }

    /// Enters logs of spools whose rows are in files, and the ends of other logs, all or none.
    pub(crate) fn add_spool_entries(
        &mut self,
        logs: &[SpoolLog],
        ends: &[SpoolEnd],
    ) -> Result<(), Error> {
        if logs.is_empty() && ends.is_empty() {
            return Ok(());
        }
        self.transaction(|transaction| {
            transaction.execute_batch(SPOOL_TABLES)?;
            let mut insert =
                transaction.prepare("INSERT OR REPLACE INTO spool_end VALUES (?, ?, ?)")?;
            for one in ends {
                insert.execute(params![one.log.spool, one.log.log as i64, one.bytes as i64])?;
            }
            // Entering a log deletes its end.
            logs.iter()
                .try_for_each(|log| enter_spool_log(transaction, log))
        })
    }

    /// Deletes the entries of removed logs of spools.
    pub(crate) fn forget_spool_logs(&mut self, removed: &[SpoolLog]) -> Result<(), Error> {
        self.transaction(|transaction| {
            for one in removed {
                let delete = "DELETE FROM spool WHERE id = ? AND log = ?";
                transaction.execute(delete, params![one.spool, one.log as i64])?;
            }
            Ok(())
        })
    }

    /// Replaces parts with others in one transaction. If the new parts have the rows of a log of a spool,
    /// also enters that log.
    pub(crate) fn replace_parts(
        &mut self,
        removed: &[String],
        added: &[PartRow],
        spool_log: Option<&SpoolLog>,
    ) -> Result<(), Error> {
        self.transaction(|transaction| {
            let mut delete = transaction.prepare("DELETE FROM part WHERE path = ?")?;
            for path in removed {
                delete.execute([path])?;
            }
            let mut insert = transaction
                .prepare("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
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
                    part.summary,
                    part.sum(),
                ])?;
            }
            if let Some(one) = spool_log {
                transaction.execute_batch(SPOOL_TABLES)?;
                enter_spool_log(transaction, one)?;
            }
            Ok(())
        })
    }
}

impl OpenCatalogue {
    fn connect(path: &Path, is_new: bool) -> Result<Self, Error> {
        let mut flags = OpenFlags::default();
        // If the disk is not mounted, no catalogue must be created in the empty mount point.
        flags.set(OpenFlags::SQLITE_OPEN_CREATE, false);
        if is_new {
            // SQLite treats an empty file as a new database, and creates its other files with the same mode.
            private::options().append(true).create(true).open(path)?;
        }
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match found {
            VERSION => {}
            0 if !is_new => return Err(Error::damaged("its catalogue is empty")),
            0 => {
                let transaction = connection.transaction()?;
                transaction.execute_batch(
                    "CREATE TABLE series (
                         id INTEGER PRIMARY KEY, name TEXT NOT NULL, data_type BLOB NOT NULL,
                         units TEXT NOT NULL, sum INTEGER NOT NULL
                     );
                     CREATE INDEX series_by_name ON series (name);
                     CREATE TABLE part (
                         path TEXT PRIMARY KEY, segment INTEGER NOT NULL,
                         first_time INTEGER NOT NULL, last_time INTEGER NOT NULL,
                         rows INTEGER NOT NULL, bytes INTEGER NOT NULL, expires INTEGER NOT NULL,
                         data_bytes INTEGER NOT NULL, footer INTEGER NOT NULL,
                         summary INTEGER NOT NULL, sum INTEGER NOT NULL
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
        let file = file_identity(path)?;
        Ok(Self { connection, file })
    }
}

/// Enters a log whose rows are in files. The tables for spools must exist.
fn enter_spool_log(transaction: &Transaction<'_>, one: &SpoolLog) -> Result<(), Error> {
    let insert = "INSERT OR REPLACE INTO spool VALUES (?, ?)";
    transaction.execute(insert, params![one.spool, one.log as i64])?;
    let delete = "DELETE FROM spool_end WHERE id = ? AND log = ?";
    transaction.execute(delete, params![one.spool, one.log as i64])?;
    Ok(())
}

fn read_series(connection: &Connection) -> Result<Vec<Series>, Error> {
    let mut select =
        connection.prepare("SELECT id, name, data_type, units, sum FROM series ORDER BY id")?;
    let mut rows = select.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let data_type: Vec<u8> = row.get(2)?;
        let mut reader = Reader::new(&data_type);
        let series = Series {
            id: row.get(0)?,
            name: row.get(1)?,
            data_type: wire::decode_type(&mut reader)?,
            units: row.get(3)?,
        };
        if series.sum() != row.get::<_, u32>(4)? {
            return Err(damaged_row("series", &series.name));
        }
        all.push(series);
    }
    Ok(all)
}

fn read_parts(connection: &Connection) -> Result<Vec<PartRow>, Error> {
    let mut select = connection.prepare(
        "SELECT path, segment, first_time, last_time, rows, bytes, expires, data_bytes, footer,
             summary, sum
         FROM part ORDER BY first_time, path",
    )?;
    let rows = select.query_map([], |row| {
        let part = PartRow {
            path: row.get(0)?,
            segment: row.get::<_, i64>(1)? as u64,
            first_time: row.get(2)?,
            last_time: row.get(3)?,
            rows: row.get::<_, i64>(4)? as u64,
            bytes: row.get::<_, i64>(5)? as u64,
            expires: row.get(6)?,
            data_bytes: row.get::<_, i64>(7)? as u64,
            footer: row.get(8)?,
            summary: row.get(9)?,
        };
        Ok((part, row.get::<_, u32>(10)?))
    })?;
    let mut parts = Vec::new();
    for row in rows {
        let (part, sum) = row?;
        if part.sum() != sum {
            return Err(damaged_row("part", &part.path));
        }
        parts.push(part);
    }
    Ok(parts)
}

fn read_spool_logs(connection: &Connection) -> Result<Vec<SpoolLog>, Error> {
    if !has_table(connection, "spool")? {
        return Ok(Vec::new());
    }
    let mut select = connection.prepare("SELECT id, log FROM spool ORDER BY rowid")?;
    let logs = select.query_map([], |row| {
        Ok(SpoolLog {
            spool: row.get(0)?,
            log: row.get::<_, i64>(1)? as u64,
        })
    })?;
    Ok(logs.collect::<Result<_, _>>()?)
}

fn read_spool_ends(connection: &Connection) -> Result<Vec<SpoolEnd>, Error> {
    if !has_table(connection, "spool_end")? {
        return Ok(Vec::new());
    }
    let mut select = connection.prepare("SELECT id, log, bytes FROM spool_end")?;
    let ends = select.query_map([], |row| {
        let log = SpoolLog {
            spool: row.get(0)?,
            log: row.get::<_, i64>(1)? as u64,
        };
        Ok(SpoolEnd {
            log,
            bytes: row.get::<_, i64>(2)? as u64,
        })
    })?;
    Ok(ends.collect::<Result<_, _>>()?)
}

fn has_table(connection: &Connection, name: &str) -> Result<bool, Error> {
    let count = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?";
    let count: u32 = connection.query_row(count, [name], |row| row.get(0))?;
    Ok(count > 0)
}

/// Returns the device and the inode of a file.
fn file_identity(path: &Path) -> Result<(u64, u64), Error> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
mod tests {
    use super::*;

    /// H-14: open files cannot be used after their disk was disconnected.
    #[test]
    fn catalogue_is_opened_again_after_an_error_of_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalogue.sqlite");
        let mut sut = Catalogue::open(&path, true).unwrap();
        let failed = sut.with_connection::<()>(|_| Err(std::io::Error::other("away").into()));
        assert!(matches!(failed, Err(Error::Io(_))));
        assert!(sut.opened.is_none());
        assert_eq!(sut.series().unwrap(), []);
        std::fs::rename(&path, folder.path().join("away")).unwrap();
        sut.series().unwrap_err();
        assert!(!path.exists(), "no other catalogue is created in its place");
        std::fs::rename(folder.path().join("away"), &path).unwrap();
        assert_eq!(sut.series().unwrap(), []);
    }
    /// H-14: a catalogue with only some of these entries would move the rows of a log to files twice.
    #[test]
    fn entries_of_spools_are_entered_all_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalogue.sqlite");
        let mut sut = Catalogue::open(&path, true).unwrap();
        let log = |log| SpoolLog {
            spool: "9f0c".to_owned(),
            log,
        };
        let end = |number| SpoolEnd {
            log: log(number),
            bytes: 24,
        };
        let ends = [end(2), end(3)];
        // Entering the second log fails.
        let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON spool WHEN new.log = 2
                      BEGIN SELECT RAISE(ABORT, 'refused'); END";
        let prepared = sut.with_connection(|connection| {
            connection.execute_batch(SPOOL_TABLES)?;
            Ok(connection.execute_batch(refuse)?)
        });
        prepared.unwrap();
        sut.add_spool_entries(&[log(1), log(2)], &ends).unwrap_err();
        assert_eq!(sut.spool_logs().unwrap(), []);
        assert_eq!(sut.spool_ends().unwrap(), []);
        let allow =
            |connection: &mut Connection| Ok(connection.execute_batch("DROP TRIGGER refuse")?);
        sut.with_connection(allow).unwrap();
        sut.add_spool_entries(&[log(1), log(2)], &ends).unwrap();
        assert_eq!(sut.spool_logs().unwrap(), [log(1), log(2)]);
        assert_eq!(sut.spool_ends().unwrap(), [end(3)]);
    }
}
