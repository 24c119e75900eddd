//! Names the files and folders of a history, and provides operations on them.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// File name of the catalogue.
pub const CATALOGUE: &str = "catalogue.sqlite";
/// File name of the write-ahead log of the catalogue.
pub(crate) const CATALOGUE_LOG: &str = "catalogue.sqlite-wal";
/// File name of the index of the write-ahead log, which its users share.
pub(crate) const CATALOGUE_SHARED: &str = "catalogue.sqlite-shm";
/// Name of the folder with files that are still being written.
pub const UNFINISHED: &str = "unfinished";
/// Name of the folder to which files are moved that the catalogue does not list.
pub(crate) const SET_APART: &str = "set-apart";
/// Name of the identity file, both in the folder of a history and in a spool.
pub(crate) const IDENTITY: &str = "identity";

/// Fails if the file `identity` in a folder does not have this content, for example because another disk is
/// mounted there.
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

/// Returns the paths of all files in the subfolders of a folder; none if the folder does not exist.
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

/// Makes a new folder durable by syncing its parent folder.
pub(crate) fn sync_parent(folder: &Path) -> Result<(), Error> {
    let parent = folder.parent().filter(|parent| *parent != Path::new(""));
    Ok(File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?)
}
