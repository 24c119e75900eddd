//! Reads the rows in the spool of a history that are not in files yet.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::catalogue::{SpoolEnd, SpoolLog};
use crate::error::Error;
use crate::log::spool::SpoolFolder;
use crate::log::{self, Recovered};

/// Totals of the rows in the spool of a history that are not in files yet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spooled {
    /// The folder of the spool.
    pub folder: PathBuf,
    /// Number of logs whose rows are not in files yet.
    pub logs: u64,
    /// Number of updates and events in these logs.
    pub rows: u64,
    /// Total size of these logs in bytes.
    pub bytes: u64,
    /// The reason why the spool or one of its logs cannot be read; empty if all can be read.
    pub fault: String,
}

/// The logs of spools that a history's folder knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownLogs {
    /// Logs whose rows are in files.
    pub(crate) in_files: Vec<SpoolLog>,
    /// Ends of logs whose rows are not in files.
    pub(crate) ends: Vec<SpoolEnd>,
}

/// A callback that receives the number of a log, its length in bytes, and its content or the error that
/// prevents reading it. It returns false to skip the remaining logs.
pub(crate) type EachLog<'a> = &'a mut dyn FnMut(u64, u64, Result<&Recovered, &Error>) -> bool;

/// Reads the logs in the spool of a history whose rows are not in files. `history` is the history's folder.
/// Returns `None` if the history has no spool.
pub(crate) fn read(
    history: &Path,
    known: &KnownLogs,
    each: EachLog<'_>,
) -> Result<Option<Spooled>, Error> {
    let Some(folder) = SpoolFolder::path_of(history)? else {
        return Ok(None);
    };
    let mut spooled = Spooled {
        folder,
        ..Spooled::default()
    };
    let opened = SpoolFolder::open(&spooled.folder, history);
    let opened = opened.and_then(|spool| Ok((spool.logs()?, spool)));
    let (logs, spool) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            spooled.fault = error.of_spool(&spooled.folder).to_string();
            return Ok(Some(spooled));
        }
    };
    for log in logs.into_iter().map(|number| spool.log(number)) {
        if known.in_files.contains(&log) {
            continue;
        }
        let end = known.ends.iter().find(|end| end.log == log);
        let end = end.map(|end| end.bytes);
        let (bytes, read) = match spool.length(&log) {
            // An engine has moved the rows of this log to files in the meantime.
            Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => continue,
            Ok(length) => (end.unwrap_or(length).min(length), spool.read(&log, end)),
            Err(error) => (0, Err(error)),
        };
        spooled.logs += 1;
        spooled.bytes += bytes;
        spooled.rows += read.as_ref().map_or(0, Recovered::count);
        if !each(log.log, bytes, read.as_ref()) {
            break;
        }
        if let Err(error) = read {
            let path = log::path(&spooled.folder, log.log);
            spooled.fault = error.of_spool(&path).to_string();
        }
    }
    Ok(Some(spooled))
}
