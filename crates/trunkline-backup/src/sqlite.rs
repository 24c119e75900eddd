//! Copies an SQLite database in write-ahead mode while another process uses it.
//!
//! An engine keeps its store locked, so SQLite itself cannot read it from outside. The files can be
//! read without a lock: the main file first, then the log. A change is in the log before it is in
//! the main file, and stays in the log until the log begins anew, which changes the log's head. So
//! if the head is the same before and after, the log has every page that may have changed in the
//! main file while that was read, and SQLite puts the two together as after a crash.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::Error;
use crate::files::{Meter, copy, remove_file_if_there, with_suffix};

/// Each attempt waits for the disk, so this takes some seconds at least.
const ATTEMPTS: u32 = 500;
const HEAD: usize = 32;

/// What tells one state of the files from another.
#[derive(PartialEq, Eq, Debug)]
enum State {
    /// The log began once, and has grown only: device and inode of the main file, head of the log.
    Growing((u64, u64), [u8; HEAD]),
    /// There is no log: device, inode, length and times of the main file.
    Alone((u64, u64), u64, [i64; 4]),
}

fn state(database: &Path) -> Result<State, Error> {
    let file = fs::metadata(database).map_err(Error::io(database))?;
    let identity = (file.dev(), file.ino());
    let log = with_suffix(database, "-wal");
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
        Err(error) => Err(Error::io(&log)(error)),
    }
}

/// Copies a database and its log to `to`, and `to` with `-wal`.
pub(crate) fn copy_database(
    from: &Path,
    to: &Path,
    meter: &mut Meter<'_, '_>,
) -> Result<(), Error> {
    let (log, log_copy) = (with_suffix(from, "-wal"), with_suffix(to, "-wal"));
    for _ in 0..ATTEMPTS {
        let before = state(from)?;
        copy(from, to, meter)?;
        remove_file_if_there(&log_copy)?;
        match copy(&log, &log_copy, meter) {
            Ok(_) => {}
            Err(error) if error.is_not_found() => remove_file_if_there(&log_copy)?,
            Err(error) => return Err(error),
        }
        if state(from)? == before {
            return Ok(());
        }
    }
    Err(Error::Changing(from.to_owned()))
}
