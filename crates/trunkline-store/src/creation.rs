//! Creates the file of a store atomically.
//!
//! SQLite treats an empty file as a new database, so it would treat a store that was emptied by accident
//! as a new store. A new store is therefore written to a temporary file in the same folder, which is then
//! renamed. An empty file at the store's path counts as damage.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::error::Error;
use crate::schema;

/// The smallest page size of SQLite, in bytes. A shorter file is not a database.
const MIN_DATABASE_BYTES: u64 = 512;
/// File mode of the store: only the engine's user may read and write it.
const MODE: u32 = 0o600;

/// Creates the file if there is none. Refuses a file that cannot be a store.
pub(crate) fn create_if_missing(path: &Path) -> Result<(), Error> {
    match fs::metadata(path) {
        Ok(file) if file.is_dir() => Ok(()),
        Ok(file) if file.len() == 0 => Err(Error::damaged(
            "it is empty; if it was never a store, remove it",
        )),
        // SQLite would treat the file as a new database, and overwrite the remains of the store.
        Ok(file) if file.len() < MIN_DATABASE_BYTES => Err(Error::Damaged(format!(
            "it has only {} bytes, too few for a store",
            file.len()
        ))),
        Ok(file) => {
            if file.permissions().mode() & 0o077 != 0 {
                // An earlier version created the file. This call fails if another user owns the file; the
                // mode then stays unchanged.
                let _ = fs::set_permissions(path, fs::Permissions::from_mode(MODE));
            }
            Ok(())
        }
        Err(_) => create(path),
    }
}

fn create(path: &Path) -> Result<(), Error> {
    let mut memory = Connection::open_in_memory()?;
    schema::prepare(&mut memory)?;
    let content = memory.serialize(rusqlite::MAIN_DB)?;
    let temporary = temporary_path(path);
    // If a startup was killed, its temporary file is overwritten. A startup in progress holds the lock.
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(MODE)
        .open(&temporary)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::InUse),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    if path.exists() {
        return Ok(());
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.write_all(&content))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_folder(path));
    if written.is_err() {
        // A partial file would take up space on a full disk. A failure to remove it is harmless.
        let _ = fs::remove_file(&temporary);
    }
    Ok(written?)
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    temporary.into()
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
