//! The spool: a folder on another disk that stores rows while the history's folder cannot be written.
//!
//! ```text
//! identity            identities of this spool and of its history, and the highest number of a log so far
//! log-0000000003.tlh  rows in the format of the log; the number counts the logs of the spool
//! lock                held by the engine that records
//! ```
//!
//! The history's folder has a file `identity`, too. Each operation compares the identities, because another
//! disk may have been mounted at the same path. A log is deleted when its rows are in files of the history.
//! The transaction that enters these files in the catalogue also enters the log, so that the log is not
//! read again if its deletion fails. The number of a log is never used again, because files name the log for
//! as long as they exist, even in a backup. An older copy of the file `identity` may be put back, so opening
//! the spool also looks at the logs in the folder and in the catalogue.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use trunkline_engine::history::ForeignSpoolReason;
use trunkline_types::Timestamp;

use crate::catalogue::{ENGINE_SERIES, Series, SpoolLog};
use crate::error::Error;
use crate::lock_file;
use crate::log::{self, Log, LogEnd, Recovered};
use crate::paths::{CATALOGUE, IDENTITY, remove_if_there, sync_parent};
use crate::private;

/// Name of the file in a history's folder that contains the path of the spool.
pub(crate) const SPOOL_PATH: &str = "spool";
/// Number of hexadecimal digits of an identity.
const ID_DIGITS: usize = 32;
/// Maximum of the highest number in the file `identity`. The catalogue stores numbers as `i64`, and no spool
/// reaches them.
const NUMBER_MAX: u64 = i64::MAX as u64 / 2;

/// The folder of a spool, and the identity that the spool had when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct SpoolFolder {
    folder: PathBuf,
    /// Identity of the spool.
    id: String,
    /// Identity of its history.
    history: String,
}

/// The content of the file `identity` in a spool.
struct Identity {
    /// Identity of the spool.
    spool: String,
    /// Identity of its history.
    history: String,
    /// The highest number of a log so far; 0 if there was none.
    highest_number: u64,
}

/// The open spool of an engine.
#[derive(Debug)]
pub(crate) struct Spool {
    spool_folder: SpoolFolder,
    /// Content of the file `identity` in the history's folder.
    history: String,
    /// The highest number of a log so far. The file `identity` may have a lower one if it is an older copy.
    highest_number: u64,
    _lock: File,
}

impl Spool {
    /// Opens the spool in `folder` for the history in `history`. Creates the spool if it does not exist, but
    /// not its parent folders, which are missing if the disk is not mounted. `known` are the logs that the
    /// catalogue lists.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the folder is not the spool of this history.
    pub(crate) fn open<'a>(
        folder: &Path,
        history_folder: &Path,
        known: impl IntoIterator<Item = &'a SpoolLog>,
    ) -> Result<Self, Error> {
        let history = history_id(history_folder);
        let history = history.map_err(|error| Error::Located(error.of(history_folder)))?;
        let history_identity_text = history_identity(&history);
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => {
                created?;
                sync_parent(folder)?;
            }
        }
        let folder_lock = lock_file::acquire(folder)?;
        let logs = log::segments(folder)?;
        let path = folder.join(IDENTITY);
        if !path.try_exists()? {
            // A history that never had a spool has no identity.
            if folder.join(CATALOGUE).try_exists()? || folder.join("samples").try_exists()? {
                return Err(foreign(folder, ForeignSpoolReason::History));
            }
            if !logs.is_empty() {
                return Err(foreign(folder, ForeignSpoolReason::NoIdentity));
            }
            let identity = Identity {
                spool: new_id()?,
                history: history.clone(),
                highest_number: 0,
            };
            create_file(&path, identity.text().as_bytes())?;
        }
        let (spool_folder, highest_number) = SpoolFolder::of(folder, &history)?;
        // An operator may have put back an older copy of the file `identity`. A log of the catalogue would then
        // have the number of a new one, which would be deleted.
        let of_this_spool = known.into_iter().filter(|log| log.spool == spool_folder.id);
        let used_numbers = of_this_spool.map(|log| log.log).chain(logs);
        let valid_numbers = used_numbers.filter(|number| *number < NUMBER_MAX);
        let highest_number = valid_numbers.fold(highest_number, u64::max);
        // Only commands that run without an engine need this file. If it cannot be written now, the next
        // start writes it.
        let _ = write_spool_path(history_folder, folder);
        Ok(Self {
            spool_folder,
            highest_number,
            history: history_identity_text,
            _lock: folder_lock,
        })
    }

    pub(crate) fn spool_folder(&self) -> &SpoolFolder {
        &self.spool_folder
    }

    /// Returns the content of the file `identity` in the history's folder.
    pub(crate) fn history(&self) -> &str {
        &self.history
    }

    /// Returns the identification of the log with this number.
    pub(crate) fn log(&self, number: u64) -> SpoolLog {
        self.spool_folder.log(number)
    }

    /// Returns the numbers of the logs, in ascending order.
    pub(crate) fn logs(&self) -> Result<Vec<u64>, Error> {
        self.spool_folder.logs()
    }

    /// Creates the next log, which continues a log in the history's folder.
    pub(crate) fn create_log(
        &mut self,
        follows: LogEnd,
        epoch: u64,
        wall: Timestamp,
    ) -> Result<Log, Error> {
        self.spool_folder.check()?;
        let number = self.reserve_number()?;
        let mut log = Log::create_new(&self.spool_folder.folder, number, epoch)?;
        let mut commit = log.begin();
        commit.note_end(follows, wall);
        if let Err(error) = commit.finish() {
            let _ = std::fs::remove_file(log::path(&self.spool_folder.folder, number));
            return Err(error);
        }
        Ok(log)
    }

    /// Returns a number that no log had before. It is durable before the log exists, so it is not used again
    /// after the log was removed.
    fn reserve_number(&mut self) -> Result<u64, Error> {
        let SpoolFolder {
            folder,
            id,
            history,
        } = &self.spool_folder;
        let identity = Identity {
            spool: id.clone(),
            history: history.clone(),
            highest_number: self.highest_number + 1,
        };
        create_file(&folder.join(IDENTITY), identity.text().as_bytes())?;
        self.highest_number = identity.highest_number;
        Ok(self.highest_number)
    }

    /// Returns the end of the log in the history's folder that this log continues. Returns `None` if nothing
    /// has been committed to this log.
    pub(crate) fn end_before(&self, number: u64) -> Result<Option<LogEnd>, Error> {
        self.spool_folder.check()?;
        log::end_before(&log::path(&self.spool_folder.folder, number), number)
    }

    /// Removes a log whose rows are in files.
    pub(crate) fn remove(&self, log: &SpoolLog) -> Result<(), Error> {
        self.spool_folder.check_log(log)?;
        remove_if_there(&log::path(&self.spool_folder.folder, log.log))
    }

    /// Makes removals durable, so that a removed log does not reappear after a power loss.
    pub(crate) fn sync_removals(&self) -> Result<(), Error> {
        Ok(File::open(&self.spool_folder.folder)?.sync_all()?)
    }
}

impl SpoolFolder {
    /// Opens the spool in `folder` for reading. `history` is the folder of its history.
    pub(crate) fn open(folder: &Path, history: &Path) -> Result<Self, Error> {
        let text = read_text(&history.join(IDENTITY))?;
        let (opened, _) = Self::of(folder, &parse_history_identity(&text)?)?;
        Ok(opened)
    }

    /// Also returns the highest number of a log so far.
    fn of(folder: &Path, history: &str) -> Result<(Self, u64), Error> {
        let text = read_text(&folder.join(IDENTITY))?;
        let Some(identity) = Identity::parse(&text) else {
            let reason = match text.starts_with("history ") {
                true => ForeignSpoolReason::History,
                false => ForeignSpoolReason::DamagedIdentity,
            };
            return Err(foreign(folder, reason));
        };
        let Identity {
            spool,
            history: owner,
            highest_number,
        } = identity;
        if owner != history {
            let history = history.to_owned();
            let reason = ForeignSpoolReason::OtherHistory { owner, history };
            return Err(foreign(folder, reason));
        }
        let opened = Self {
            folder: folder.to_owned(),
            id: spool,
            history: owner,
        };
        Ok((opened, highest_number))
    }

    /// Returns the path of the most recent spool of a history; `None` if the history never had one.
    pub(crate) fn path_of(history: &Path) -> Result<Option<PathBuf>, Error> {
        match std::fs::read(history.join(SPOOL_PATH)) {
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

    /// Reads a log. If `end` is given, reads only that number of bytes, the acknowledged part.
    pub(crate) fn read(&self, log: &SpoolLog, end: Option<u64>) -> Result<Recovered, Error> {
        self.check_log(log)?;
        log::recover_up_to(&log::path(&self.folder, log.log), log.log, end)
    }

    fn check_log(&self, log: &SpoolLog) -> Result<(), Error> {
        match log.spool == self.id {
            true => self.check(),
            false => Err(foreign(&self.folder, ForeignSpoolReason::Replaced)),
        }
    }

    /// Fails if the folder now contains another spool, for example because another disk is mounted there.
    fn check(&self) -> Result<(), Error> {
        let found = Identity::parse(&read_text(&self.folder.join(IDENTITY))?);
        let is_same = |one: &Identity| one.spool == self.id && one.history == self.history;
        match found.is_some_and(|one| is_same(&one)) {
            true => Ok(()),
            false => Err(foreign(&self.folder, ForeignSpoolReason::Replaced)),
        }
    }
}

/// Replaces the series ids in a log with the ids of the history, which may differ because an earlier run of
/// the engine wrote the log. Unknown series get new ids and are added to `new`. Rows of series without a
/// readable definition are dropped and reported as damage.
pub(crate) fn translate(recovered: &mut Recovered, known: &[Series], new: &mut Vec<Series>) {
    let mut ids = vec![(ENGINE_SERIES, ENGINE_SERIES)];
    for one in &recovered.series {
        let is_same = |other: &&Series| other.name == one.name && other.data_type == one.data_type;
        let id = match known.iter().chain(new.iter()).find(is_same) {
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
        Some(translated) => {
            *id = *translated;
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
    read_text(&folder.join(IDENTITY)).is_ok_and(|text| Identity::parse(&text).is_some())
}

/// Returns the identity of the history in a folder. Creates an identity if there is none.
fn history_id(folder: &Path) -> Result<String, Error> {
    let path = folder.join(IDENTITY);
    if !path.try_exists()? {
        create_file(&path, history_identity(&new_id()?).as_bytes())?;
    }
    parse_history_identity(&read_text(&path)?)
}

/// Stores the path of the spool in the folder of its history.
fn write_spool_path(history: &Path, spool: &Path) -> Result<(), Error> {
    let spool = std::path::absolute(spool)?;
    let path = history.join(SPOOL_PATH);
    match std::fs::read(&path) {
        Ok(stored) if stored == spool.as_os_str().as_bytes() => Ok(()),
        _ => create_file(&path, spool.as_os_str().as_bytes()),
    }
}

fn parse_history_identity(text: &str) -> Result<String, Error> {
    let id = text
        .strip_prefix("history ")
        .and_then(|id| id.strip_suffix('\n'));
    match id.filter(|id| is_id(id)) {
        Some(id) => Ok(id.to_owned()),
        None => Err(Error::Identity),
    }
}

fn history_identity(id: &str) -> String {
    format!("history {id}\n")
}

impl Identity {
    fn text(&self) -> String {
        let Self {
            spool,
            history,
            highest_number,
        } = self;
        format!("spool {spool}\nhistory {history}\nlogs {highest_number}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let (spool, rest) = text.strip_prefix("spool ")?.split_once('\n')?;
        let (history, rest) = rest.strip_prefix("history ")?.split_once('\n')?;
        let highest_number = rest.strip_prefix("logs ")?.strip_suffix('\n')?;
        let highest_number: u64 = highest_number.parse().ok()?;
        let is_valid = is_id(spool) && is_id(history) && highest_number <= NUMBER_MAX;
        is_valid.then_some(Self {
            spool: spool.to_owned(),
            history: history.to_owned(),
            highest_number,
        })
    }
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn new_id() -> Result<String, Error> {
    let connection = Connection::open_in_memory()?;
    let id = "SELECT lower(hex(randomblob(16)))";
    Ok(connection.query_row(id, [], |row| row.get(0))?)
}

fn foreign(folder: &Path, reason: ForeignSpoolReason) -> Error {
    Error::Foreign {
        spool: folder.to_owned(),
        reason,
    }
}

/// Reads a small text file. Bytes that are not UTF-8 are replaced, so the text then equals no identity.
fn read_text(path: &Path) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// Creates a file atomically.
fn create_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let mut file = private::create_file(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
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
        drop(Spool::open(&spool, &history, []).unwrap());
        let error = Spool::open(&spool, &other, []).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
        drop(Spool::open(&spool, &history, []).unwrap());
        assert!(is_spool(&spool) && !is_spool(&history));
        let error = Spool::open(&other, &history, []).unwrap_err();
        let message = error.of(&history).to_string();
        assert!(message.contains("is the folder of a history"), "{message}");
        for name in [CATALOGUE, "samples"] {
            let without_spool = folder.path().join(format!("without {name}"));
            std::fs::create_dir(&without_spool).unwrap();
            std::fs::write(without_spool.join(name), b"").unwrap();
            std::fs::write(log::path(&without_spool, 1), b"").unwrap();
            let error = Spool::open(&without_spool, &history, []).unwrap_err();
            let message = error.of(&history).to_string();
            assert!(message.contains("is the folder of a history"), "{message}");
            assert!(!without_spool.join(IDENTITY).exists());
        }
        std::fs::remove_file(spool.join(IDENTITY)).unwrap();
        std::fs::write(log::path(&spool, 1), b"").unwrap();
        let error = Spool::open(&spool, &history, []).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    }

    /// H-14: an identity must not be replaced because its disk fails.
    #[test]
    fn identity_that_cannot_be_looked_up_is_not_replaced() {
        let (_folder, history, spool) = folders();
        drop(Spool::open(&spool, &history, []).unwrap());
        for folder in [&history, &spool] {
            let (path, kept) = (folder.join(IDENTITY), folder.join("kept"));
            std::fs::rename(&path, &kept).unwrap();
            // Looking up the file fails, because the link refers to itself.
            std::os::unix::fs::symlink(IDENTITY, &path).unwrap();
            let error = Spool::open(&spool, &history, []).unwrap_err();
            let message = error.of_spool(&spool).to_string();
            assert!(message.contains("its disk reports an error"), "{message}");
            let name = folder.display().to_string();
            assert!(message.contains(&name), "{message}");
            std::fs::rename(&kept, &path).unwrap();
        }
        drop(Spool::open(&spool, &history, []).unwrap());
    }

    /// H-14: another disk may be mounted in place of the spool.
    #[test]
    fn spool_that_was_replaced_is_not_used() {
        let (folder, history, spool) = folders();
        let mut sut = Spool::open(&spool, &history, []).unwrap();
        let wall = Timestamp::from_nanos(1);
        drop(sut.create_log(END, 1, wall).unwrap());
        assert_eq!(sut.logs().unwrap(), [1]);
        std::fs::rename(&spool, folder.path().join("unmounted")).unwrap();
        assert!(matches!(sut.logs(), Err(Error::Io(_))));
        drop(Spool::open(&spool, &history, []).unwrap());
        std::fs::write(log::path(&spool, 1), b"another").unwrap();
        assert!(matches!(sut.logs(), Err(Error::Foreign { .. })));
        assert!(sut.spool_folder().read(&sut.log(1), None).is_err());
        assert!(sut.create_log(END, 1, wall).is_err());
        sut.remove(&sut.log(1)).unwrap_err();
        assert_eq!(std::fs::read(log::path(&spool, 1)).unwrap(), b"another");
    }

    /// H-14: if both the creation and the removal of a log fail, recording continues in the old log.
    #[test]
    fn log_without_rows_does_not_end_the_log_before_it() {
        let (_folder, history, spool) = folders();
        let mut sut = Spool::open(&spool, &history, []).unwrap();
        let wall = Timestamp::from_nanos(1);
        let mut log = sut.create_log(END, 1, wall).unwrap();
        assert_eq!(sut.end_before(1).unwrap(), None);
        let mut commit = log.begin();
        commit.note(wall);
        commit.finish().unwrap();
        assert_eq!(sut.end_before(1).unwrap(), Some(END));
    }

    /// H-14: the catalogue and the files identify a log by its number.
    #[test]
    fn log_numbers_are_not_reused() {
        let (_folder, history, spool) = folders();
        let wall = Timestamp::from_nanos(1);
        for number in [1, 2, 3] {
            let mut sut = Spool::open(&spool, &history, []).unwrap();
            drop(sut.create_log(END, 1, wall).unwrap());
            assert_eq!(sut.logs().unwrap(), [number]);
            sut.remove(&sut.log(number)).unwrap();
        }
        let mut sut = Spool::open(&spool, &history, []).unwrap();
        drop(sut.create_log(END, 1, wall).unwrap());
        drop(sut.create_log(END, 1, wall).unwrap());
        assert_eq!(sut.logs().unwrap(), [4, 5]);
    }

    /// H-14: an operator may put back an older copy of the file `identity`.
    #[test]
    fn log_numbers_are_not_reused_with_an_older_identity() {
        let (_folder, history, spool) = folders();
        let wall = Timestamp::from_nanos(1);
        let mut sut = Spool::open(&spool, &history, []).unwrap();
        let older = std::fs::read(spool.join(IDENTITY)).unwrap();
        for _ in 0..3 {
            drop(sut.create_log(END, 1, wall).unwrap());
        }
        let of_another_spool = SpoolLog {
            spool: "9f0c".to_owned(),
            log: 70,
        };
        let cases = [
            (vec![], 4, "a log of the spool is in its folder"),
            (
                vec![sut.log(7), of_another_spool],
                8,
                "the catalogue lists one",
            ),
        ];
        for (known, expected, what) in cases {
            drop(sut);
            std::fs::write(spool.join(IDENTITY), &older).unwrap();
            sut = Spool::open(&spool, &history, &known).unwrap();
            let created = sut.create_log(END, 1, wall).unwrap();
            assert_eq!(created.segment, expected, "{what}");
            sut.remove(&sut.log(expected)).unwrap();
        }
    }
}
