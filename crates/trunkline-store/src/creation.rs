//! Creates the file of a store atomically.
//!
//! SQLite treats an empty file as a new database, so a store that was emptied by accident would
//! pass for a new one. A new store is therefore written to a file next to its place and renamed. An
//! empty file in its place counts as damage.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::schema;
use crate::trouble::Problem;

/// Minimum length of a file that may be a database.
const HEADER_BYTES: u64 = 512;
/// Only the engine's user may read the store.
const MODE: u32 = 0o600;

/// Creates the file if there is none. Refuses a file that cannot be a store.
pub(crate) fn ensure(path: &Path) -> Result<(), Problem> {
    match fs::metadata(path) {
        Ok(file) if file.is_dir() => Ok(()),
        Ok(file) if file.len() == 0 => Err(Problem::damaged(
            "it is empty; if it never was a store, remove it",
        )),
        // SQLite would treat it as a new database, and overwrite the rest of a store.
        Ok(file) if file.len() < HEADER_BYTES => Err(Problem::Damaged(format!(
            "only {} bytes of it are left",
            file.len()
        ))),
        Ok(file) => {
            if file.permissions().mode() & 0o077 != 0 {
                // The file is from an earlier version. A file owned by another user stays as it is.
                let _theirs = fs::set_permissions(path, fs::Permissions::from_mode(MODE));
            }
            Ok(())
        }
        Err(_) => create(path),
    }
}

fn create(path: &Path) -> Result<(), Problem> {
    let mut memory = Connection::open_in_memory()?;
    schema::prepare(&mut memory)?;
    let content = memory.serialize(rusqlite::MAIN_DB)?;
    let beside = beside(path);
    // The leftover of a start that was killed is overwritten. A running start holds the lock.
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(MODE)
        .open(&beside)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Problem::InUse),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    if path.exists() {
        return Ok(());
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.write_all(&content))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| sync_folder(path));
    if written.is_err() {
        // A partial file would take up space on a full disk.
        let _stays = fs::remove_file(&beside);
    }
    Ok(written?)
}

fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    beside.into()
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
