//! Copies an SQLite database in WAL mode while another process uses it.
//!
//! An engine keeps its store locked, so another process cannot open it with SQLite. The files can be
//! copied without a lock: first the database file, then the write-ahead log. SQLite writes a change to the
//! log before it writes to the database file. The change stays in the log until the log restarts, which
//! changes the log's header. If the header is the same before and after the copy, the log contains every
//! page that may have changed in the database file during the copy, and SQLite combines both files as it
//! does after a crash.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Length of the header of a write-ahead log, in bytes.
const HEAD: usize = 32;

/// The reason why a database was not copied.
#[derive(Debug)]
pub enum CopyError<E> {
    /// A file of the database cannot be read or removed.
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The database changed during every attempt.
    Changing,
    /// A file cannot be copied.
    Copy(E),
}

impl<E> CopyError<E> {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |error| Self::Io {
            path: path.to_owned(),
            error,
        }
    }
}

/// Identifies a state of the files of a database. A copy is consistent if the state does not change.
#[derive(PartialEq, Eq, Debug)]
enum State {
    /// The database has a log: device and inode of the database file, and the header of the log.
    Growing((u64, u64), [u8; HEAD]),
    /// The database has no log: device and inode, length, and times of the database file.
    Alone((u64, u64), u64, [i64; 4]),
}

fn state<E>(database: &Path) -> Result<State, CopyError<E>> {
    let file = fs::metadata(database).map_err(CopyError::io(database))?;
    let identity = (file.dev(), file.ino());
    let log = log_of(database);
    let mut head = [0; HEAD];
    let read = File::open(&log).and_then(|mut file| file.read_exact(&mut head));
    match read {
        Ok(()) => Ok(State::Growing(identity, head)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
            let times = [
                file.mtime(),
                file.mtime_nsec(),
                file.ctime(),
                file.ctime_nsec(),
            ];
            Ok(State::Alone(identity, file.len(), times))
        }
        Err(error) => Err(CopyError::io(&log)(error)),
    }
}

/// Returns the path of the write-ahead log of a database.
fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Copies a database to `to`, and its log to `to` with `-wal` appended. `copy` copies one file, and
/// returns false if the file does not exist.
///
/// # Errors
/// [`CopyError`]. If there is no database, this is [`CopyError::Io`].
pub fn copy_database<E>(
    from: &Path,
    to: &Path,
    attempts: u32,
    copy: &mut dyn FnMut(&Path, &Path) -> Result<bool, E>,
) -> Result<(), CopyError<E>> {
    let (log, log_copy) = (log_of(from), log_of(to));
    for _ in 0..attempts {
        let before = state(from)?;
        let has_main = copy(from, to).map_err(CopyError::Copy)?;
        let has_log = copy(&log, &log_copy).map_err(CopyError::Copy)?;
        if !has_log {
            // An earlier attempt may have copied a log.
            match fs::remove_file(&log_copy) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(CopyError::io(&log_copy)(error));
                }
                _ => {}
            }
        }
        if has_main && state(from)? == before {
            return Ok(());
        }
    }
    Err(CopyError::Changing)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
mod tests {
    use rusqlite::Connection;

    use super::*;

    fn count(database: &Path) -> u32 {
        let opened = Connection::open(database).unwrap();
        let verdict: String = opened
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(verdict, "ok");
        opened
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap()
    }

    /// SQLite restarts the log during the copy, so that the copied header is from the old log and the rest is
    /// from the new log.
    #[test]
    fn log_that_restarts_during_the_copy_is_copied_again() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        let writer = Connection::open(&from).unwrap();
        writer.pragma_update(None, "journal_mode", "WAL").unwrap();
        writer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        writer.execute_batch("CREATE TABLE t (a TEXT)").unwrap();
        let insert = |rows: u32| {
            for _ in 0..rows {
                let row = "INSERT INTO t VALUES (hex(randomblob(2000)))";
                writer.execute_batch(row).unwrap();
            }
        };
        insert(50);
        let mut logs = 0;
        let copied = copy_database::<io::Error>(&from, &to, 5, &mut |from, to| {
            let before = fs::read(from)?;
            if !from.to_string_lossy().ends_with("-wal") {
                fs::write(to, before)?;
                return Ok(true);
            }
            logs += 1;
            let head = before.get(..HEAD).unwrap_or_default().to_vec();
            if logs == 1 {
                let restart = "PRAGMA wal_checkpoint(RESTART)";
                writer.query_row(restart, [], |_| Ok(())).unwrap();
                insert(1);
            }
            let after = fs::read(from)?;
            fs::write(to, [&head, after.get(HEAD..).unwrap_or_default()].concat())?;
            Ok(true)
        });
        copied.unwrap();
        assert_eq!(logs, 2, "the first copy was inconsistent");
        assert_eq!(count(&to), 51);
    }

    #[test]
    fn database_that_changes_during_every_attempt_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&from, "x").unwrap();
        let mut length = 1;
        let copied = copy_database::<io::Error>(&from, &to, 3, &mut |from, _| {
            length += 1;
            fs::write(from, "x".repeat(length))?;
            Ok(true)
        });
        assert!(matches!(copied, Err(CopyError::Changing)), "{copied:?}");
        fs::remove_file(&from).unwrap();
        let none = copy_database::<io::Error>(&from, &to, 3, &mut |_, _| Ok(false));
        assert!(matches!(none, Err(CopyError::Io { .. })), "{none:?}");
    }
}
