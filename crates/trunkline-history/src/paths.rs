//! The names of the files and folders of a history, and operations on such files.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Name of the catalogue.
pub const CATALOGUE: &str = "catalogue.sqlite";
pub(crate) const CATALOGUE_LOG: &str = "catalogue.sqlite-wal";
/// Name of the folder with files that are being written.
pub const UNFINISHED: &str = "unfinished";
/// Name of the folder with files that the catalogue does not list.
pub(crate) const SET_APART: &str = "set-apart";
/// Name of the identity file, both in the folder of a history and in a spool.
pub(crate) const IDENTITY: &str = "identity";

/// Fails if the file `identity` of a folder has another content: another disk may be mounted there now.
pub(crate) fn check_identity(folder: &Path, identity: &str) -> Result<(), Error> {
    match std::fs::read(folder.join(IDENTITY))? == identity.as_bytes() {
        true => Ok(()),
        false => Err(Error::Replaced),
    }
}

/// Removes a file, if it exists.
pub(crate) fn remove_if_there(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns all files in the date folders below a folder.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let dates = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
        dates => dates?,
    };
    for date in dates {
        let date = date?;
        if !date.file_type()?.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(date.path())? {
            found.push(file?.path());
        }
    }
    Ok(found)
}

/// Makes the name of a new folder durable.
pub(crate) fn sync_name(folder: &Path) -> Result<(), Error> {
    let above = folder.parent().filter(|above| *above != Path::new(""));
    Ok(File::open(above.unwrap_or(Path::new(".")))?.sync_all()?)
}
