//! The spool: a folder on another disk that takes rows while the folder of the history cannot be
//! written.
//!
//! ```text
//! identity            identities of this spool and of its history
//! log-0000000003.tlh  rows, in the format of the log, numbered by the spool
//! lock                held by the engine that records
//! ```
//!
//! The folder of the history has a file `identity` too. Each operation compares the identities, because
//! another disk may have been mounted at the same place. A log is deleted when its rows are in files of
//! the history. The transaction that enters these files also enters the log, so that a log is
//! recognised even if its deletion failed.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use trunkline_types::Timestamp;

use crate::catalogue::{ENGINE_SERIES, Series, SpoolLog};
use crate::error::Error;
use crate::lock_file;
use crate::log::{self, Log, LogEnd, Recovered};
use crate::paths::{IDENTITY, remove_if_there, sync_name};

/// Name of the file in the folder of a history with the path of its spool.
const PLACE: &str = "spool";
/// Length of an identity in hexadecimal digits.
const ID_DIGITS: usize = 32;

/// The folder of a spool, with the identity that it had when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct SpoolFolder {
    folder: PathBuf,
    /// Content of its file `identity`.
    identity: String,
    /// Its own identity.
    id: String,
}

/// The open spool of an engine.
#[derive(Debug)]
pub(crate) struct Spool {
    place: SpoolFolder,
    /// Content of the file `identity` of its history.
    history: String,
    /// The highest log number so far. Numbers are not reused.
    newest: u64,
    _held: File,
}

impl Spool {
    /// Opens the spool of the history in a folder. A new spool is created, but not the folders above
    /// it: these are missing if its disk is. `in_files` are the spool logs whose rows are in files.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it is not the spool of this history.
    pub(crate) fn open(
        folder: &Path,
        history: &Path,
        in_files: &[SpoolLog],
    ) -> Result<Self, Error> {
        let of_history = history;
        let history = history_id(of_history)?;
        let of_folder = history_identity(&history);
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => {
                created?;
                sync_name(folder)?;
            }
        }
        let held = lock_file::hold(folder)?;
        let logs = log::segments(folder)?;
        let path = folder.join(IDENTITY);
        if !path.try_exists()? {
            if !logs.is_empty() {
                return Err(foreign(folder, "has logs, but no file `identity`"));
            }
            let identity = format!("spool {}\nhistory {history}\n", new_id()?);
            create_file(&path, identity.as_bytes())?;
        }
        let place = SpoolFolder::of(folder, &history)?;
        // Only commands without an engine need it. If it cannot be written now, the next start writes it.
        let _ = note_place(of_history, folder);
        let in_files = in_files.iter().filter(|one| one.spool == place.id);
        let in_files = in_files.map(|one| one.log);
        let newest = logs.into_iter().chain(in_files).max();
        Ok(Self {
            place,
            newest: newest.unwrap_or(0),
            history: of_folder,
            _held: held,
        })
    }

    pub(crate) fn place(&self) -> &SpoolFolder {
        &self.place
    }

    /// Returns the content of the file `identity` of its history.
    pub(crate) fn history(&self) -> &str {
        &self.history
    }

    /// Returns the identification of the log with this number.
    pub(crate) fn log(&self, number: u64) -> SpoolLog {
        self.place.log(number)
    }

    /// Returns the numbers of the logs, in ascending order.
    pub(crate) fn logs(&self) -> Result<Vec<u64>, Error> {
        self.place.logs()
    }

    /// Creates the next log, which continues a log in the history's folder.
    pub(crate) fn create_log(
        &mut self,
        follows: LogEnd,
        epoch: u64,
        wall: Timestamp,
    ) -> Result<Log, Error> {
        self.place.check()?;
        self.newest += 1;
        let mut log = Log::create_new(&self.place.folder, self.newest, epoch)?;
        let mut commit = log.begin();
        commit.note_end(follows, wall);
        if let Err(error) = commit.finish() {
            let _ = std::fs::remove_file(log::path(&self.place.folder, self.newest));
            return Err(error);
        }
        Ok(log)
    }

    /// Returns the end of the log in the history's folder that this log continues, if this log has been
    /// used.
    pub(crate) fn end_before(&self, number: u64) -> Result<Option<LogEnd>, Error> {
        self.place.check()?;
        log::end_before(&log::path(&self.place.folder, number), number)
    }

    /// Removes a log whose rows are in files.
    pub(crate) fn remove(&self, log: &SpoolLog) -> Result<(), Error> {
        self.place.check_log(log)?;
        remove_if_there(&log::path(&self.place.folder, log.log))
    }

    /// Makes earlier removals durable, so that a removed log does not reappear after a power loss.
    pub(crate) fn sync_removals(&self) -> Result<(), Error> {
        Ok(File::open(&self.place.folder)?.sync_all()?)
    }
}

impl SpoolFolder {
    /// Opens the spool of the history in a folder for reading.
    pub(crate) fn open(folder: &Path, history: &Path) -> Result<Self, Error> {
        let text = read_text(&history.join(IDENTITY))?;
        Self::of(folder, &parse_history(&text)?)
    }

    fn of(folder: &Path, history: &str) -> Result<Self, Error> {
        let identity = read_text(&folder.join(IDENTITY))?;
        let Some((id, of_history)) = spool_of(&identity) else {
            let reason = match identity.starts_with("history ") {
                true => "is the folder of a history",
                false => "has a damaged file `identity`",
            };
            return Err(foreign(folder, reason));
        };
        if of_history != history {
            let reason = format!("belongs to the history {of_history}, and this one is {history}");
            return Err(foreign(folder, reason));
        }
        Ok(Self {
            folder: folder.to_owned(),
            id: id.to_owned(),
            identity,
        })
    }

    /// Returns the path of the spool that the history in a folder had last; `None` if it had none.
    pub(crate) fn path_of(history: &Path) -> Result<Option<PathBuf>, Error> {
        match std::fs::read(history.join(PLACE)) {
            Ok(path) => Ok(Some(PathBuf::from(OsString::from_vec(path)))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the identification of the log with this number.
    pub(crate) fn log(&self, number: u64) -> SpoolLog {
        SpoolLog {
            spool: self.id.clone(),
            log: number,
        }
    }

    /// Returns the numbers of the logs, in ascending order.
    pub(crate) fn logs(&self) -> Result<Vec<u64>, Error> {
        self.check()?;
        log::segments(&self.folder)
    }

    /// Returns the length of a log in bytes.
    pub(crate) fn length(&self, log: &SpoolLog) -> Result<u64, Error> {
        self.check_log(log)?;
        Ok(std::fs::metadata(log::path(&self.folder, log.log))?.len())
    }

    /// Reads a log, up to the end of its acknowledged part if it is known.
    pub(crate) fn read(&self, log: &SpoolLog, end: Option<u64>) -> Result<Recovered, Error> {
        self.check_log(log)?;
        log::recover_up_to(&log::path(&self.folder, log.log), log.log, end)
    }

    fn check_log(&self, log: &SpoolLog) -> Result<(), Error> {
        match log.spool == self.id {
            true => self.check(),
            false => Err(foreign(&self.folder, "was replaced by another one")),
        }
    }

    /// Fails if another spool has replaced this one in the folder.
    fn check(&self) -> Result<(), Error> {
        match read_text(&self.folder.join(IDENTITY))? == self.identity {
            true => Ok(()),
            false => Err(foreign(&self.folder, "was replaced by another one")),
        }
    }
}

/// Replaces the series ids in a log by those of the history. An earlier run of the engine, with other
/// series, may have written the log. Unknown series get new ids and are added to `new`. Rows of
/// series whose definition is damaged are dropped.
pub(crate) fn translate(recovered: &mut Recovered, known: &[Series], new: &mut Vec<Series>) {
    let mut ids = vec![(ENGINE_SERIES, ENGINE_SERIES)];
    for one in &recovered.series {
        let is_it = |other: &&Series| other.name == one.name && other.data_type == one.data_type;
        let id = match known.iter().chain(new.iter()).find(is_it) {
            Some(same) => same.id,
            None => {
                let used = known.iter().chain(new.iter()).map(|one| one.id);
                let id = used.max().unwrap_or(ENGINE_SERIES) + 1;
                new.push(Series { id, ..one.clone() });
                id
            }
        };
        ids.push((one.id, id));
    }
    let ids: std::collections::HashMap<u32, u32> = ids.into_iter().collect();
    recovered.series.clear();
    let before = recovered.rows.len();
    recovered.rows.retain_mut(|(id, _)| match ids.get(id) {
        Some(known) => {
            *id = *known;
            true
        }
        None => false,
    });
    if recovered.rows.len() < before && recovered.damage.is_empty() {
        recovered.damage.push(recovered.last_commit);
    }
}

/// Returns true if the folder is a spool.
pub(crate) fn is_spool(folder: &Path) -> bool {
    read_text(&folder.join(IDENTITY)).is_ok_and(|text| spool_of(&text).is_some())
}

/// Returns the identity of the history in a folder, and creates it if it is missing.
fn history_id(folder: &Path) -> Result<String, Error> {
    let path = folder.join(IDENTITY);
    if !path.try_exists()? {
        create_file(&path, history_identity(&new_id()?).as_bytes())?;
    }
    parse_history(&read_text(&path)?)
}

/// Notes the path of the spool in the folder of its history.
fn note_place(history: &Path, spool: &Path) -> Result<(), Error> {
    let spool = std::path::absolute(spool)?;
    let path = history.join(PLACE);
    match std::fs::read(&path) {
        Ok(known) if known == spool.as_os_str().as_bytes() => Ok(()),
        _ => create_file(&path, spool.as_os_str().as_bytes()),
    }
}

fn parse_history(text: &str) -> Result<String, Error> {
    let id = text
        .strip_prefix("history ")
        .and_then(|id| id.strip_suffix('\n'));
    match id.filter(|id| is_id(id)) {
        Some(id) => Ok(id.to_owned()),
        None => Err(Error::damaged("its file `identity`")),
    }
}

fn history_identity(id: &str) -> String {
    format!("history {id}\n")
}

/// Parses an identity file into the identities of a spool and of its history.
fn spool_of(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("spool ")?;
    let (spool, rest) = rest.split_once('\n')?;
    let history = rest.strip_prefix("history ")?.strip_suffix('\n')?;
    (is_id(spool) && is_id(history)).then_some((spool, history))
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn new_id() -> Result<String, Error> {
    let connection = Connection::open_in_memory()?;
    let id = "SELECT lower(hex(randomblob(16)))";
    Ok(connection.query_row(id, [], |row| row.get(0))?)
}

fn foreign(folder: &Path, reason: impl Into<String>) -> Error {
    Error::Foreign {
        spool: folder.to_owned(),
        reason: reason.into(),
    }
}

/// Reads a small file. Bytes that are not UTF-8 make it differ from every identity.
fn read_text(path: &Path) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// Creates a file atomically.
fn create_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod tests {
    use super::*;

    fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (history, spool) = (folder.path().join("history"), folder.path().join("spool"));
        std::fs::create_dir(&history).unwrap();
        (folder, history, spool)
    }

    const END: LogEnd = LogEnd {
        segment: 7,
        bytes: 24,
    };

    /// H-14: rows must not be added to another history.
    #[test]
    fn spool_of_another_history_is_refused() {
        let (folder, history, spool) = folders();
        let other = folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        drop(Spool::open(&spool, &history, &[]).unwrap());
        let error = Spool::open(&spool, &other, &[]).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
        drop(Spool::open(&spool, &history, &[]).unwrap());
        assert!(is_spool(&spool) && !is_spool(&history));
        let error = Spool::open(&other, &history, &[]).unwrap_err();
        let message = error.of(&history).to_string();
        assert!(message.contains("is the folder of a history"), "{message}");
        std::fs::remove_file(spool.join(IDENTITY)).unwrap();
        std::fs::write(log::path(&spool, 1), b"").unwrap();
        let error = Spool::open(&spool, &history, &[]).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    }

    /// H-14: a disk that fails must not get another identity.
    #[test]
    fn identity_that_cannot_be_looked_up_is_not_replaced() {
        let (_folder, history, spool) = folders();
        drop(Spool::open(&spool, &history, &[]).unwrap());
        for folder in [&history, &spool] {
            let (path, kept) = (folder.join(IDENTITY), folder.join("kept"));
            std::fs::rename(&path, &kept).unwrap();
            // A look-up fails, because the link refers to itself.
            std::os::unix::fs::symlink(IDENTITY, &path).unwrap();
            let error = Spool::open(&spool, &history, &[]).unwrap_err();
            assert!(matches!(error, Error::Io(_)), "{error:?}");
            std::fs::rename(&kept, &path).unwrap();
        }
        drop(Spool::open(&spool, &history, &[]).unwrap());
    }

    /// H-14: another disk may be mounted in place of the spool.
    #[test]
    fn spool_that_was_replaced_is_not_used() {
        let (folder, history, spool) = folders();
        let mut sut = Spool::open(&spool, &history, &[]).unwrap();
        let wall = Timestamp::from_nanos(1);
        drop(sut.create_log(END, 1, wall).unwrap());
        assert_eq!(sut.logs().unwrap(), [1]);
        std::fs::rename(&spool, folder.path().join("unmounted")).unwrap();
        assert!(matches!(sut.logs(), Err(Error::Io(_))));
        drop(Spool::open(&spool, &history, &[]).unwrap());
        std::fs::write(log::path(&spool, 1), b"another").unwrap();
        assert!(matches!(sut.logs(), Err(Error::Foreign { .. })));
        assert!(sut.place().read(&sut.log(1), None).is_err());
        assert!(sut.create_log(END, 1, wall).is_err());
        sut.remove(&sut.log(1)).unwrap_err();
        assert_eq!(std::fs::read(log::path(&spool, 1)).unwrap(), b"another");
    }

    /// H-14: creating a log may fail, and its removal too. Then the other log continues.
    #[test]
    fn log_without_rows_does_not_end_the_log_before_it() {
        let (_folder, history, spool) = folders();
        let mut sut = Spool::open(&spool, &history, &[]).unwrap();
        let wall = Timestamp::from_nanos(1);
        let mut log = sut.create_log(END, 1, wall).unwrap();
        assert_eq!(sut.end_before(1).unwrap(), None);
        let mut commit = log.begin();
        commit.note(wall);
        commit.finish().unwrap();
        assert_eq!(sut.end_before(1).unwrap(), Some(END));
    }

    /// H-14: the catalogue identifies a log by its number.
    #[test]
    fn numbers_of_logs_are_not_used_again() {
        let (_folder, history, spool) = folders();
        let mut sut = Spool::open(&spool, &history, &[]).unwrap();
        let wall = Timestamp::from_nanos(1);
        drop(sut.create_log(END, 1, wall).unwrap());
        drop(sut.create_log(END, 1, wall).unwrap());
        let known = [sut.log(5)];
        sut.remove(&sut.log(2)).unwrap();
        drop(sut.create_log(END, 1, wall).unwrap());
        assert_eq!(sut.logs().unwrap(), [1, 3]);
        drop(sut);
        let mut sut = Spool::open(&spool, &history, &known).unwrap();
        drop(sut.create_log(END, 1, wall).unwrap());
        assert_eq!(sut.logs().unwrap(), [1, 3, 6]);
    }
}
