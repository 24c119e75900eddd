//! Defines the disk operations that a journal uses, which work on the files of one folder.
//!
//! Each operation that a crash can interrupt is a separate call, so a simulated disk can stop at any
//! of them.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;

/// One folder on a disk.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Path of the folder, for messages.
    fn folder(&self) -> &Path;

    /// Returns a number that identifies the current boot of the machine; 0 if unknown. The number
    /// changes after each loss of power.
    fn boot(&self) -> u32;

    /// Returns the names of the files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates a file, replacing any file of this name. The name is durable after
    /// [`sync_folder`](Self::sync_folder).
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file atomically, replacing any file of the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Returns once all changes of names are durable against power loss.
    fn sync_folder(&self) -> io::Result<()>;
}

pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Returns the length of the file in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Writes both pieces, one after the other, starting at `offset`: in one system call, unless
    /// that call writes only a part.
    ///
    /// # Errors
    /// The system's error. Any part of the data may have been written.
    fn write_at(&self, offset: u64, pieces: [&[u8]; 2]) -> io::Result<()>;

    /// Reads until `bytes` is full or the file ends, and returns the number of bytes read.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Returns once the file's bytes are durable against power loss: `fdatasync`.
    ///
    /// # Errors
    /// The system's error. Data written since the last sync may then be lost, even if a later call
    /// succeeds.
    fn sync(&self) -> io::Result<()>;
}

/// A folder on this machine, locked against use by other journals.
#[derive(Debug)]
pub struct RealDisk {
    folder: PathBuf,
    handle: File,
    /// Locked until dropped.
    lock: File,
}

/// Only its owner can read a journal.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The file whose lock shows that the folder is in use. It is empty, and is never removed.
pub const LOCK_FILE: &str = "lock";

impl RealDisk {
    /// Creates the folder and its parents if necessary, and locks the folder.
    ///
    /// # Errors
    /// The system's error; [`WouldBlock`](io::ErrorKind::WouldBlock): another endpoint uses the
    /// folder.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let is_new = !folder.is_dir();
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true).mode(FOLDER_MODE).create(folder)?;
        let handle = File::open(folder)?;
        if is_new && let Some(parent) = folder.parent() {
            // If the name of a new folder is lost, everything in the folder is lost too.
            let parent = if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            };
            File::open(parent)?.sync_all()?;
        }
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE);
        // Following a symbolic link could lock or create a file elsewhere.
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
        let lock = options.open(folder.join(LOCK_FILE))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self {
            folder: folder.to_owned(),
            handle,
            lock,
        })
    }
}

impl Drop for RealDisk {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that another thread is starting holds a
        // copy of the descriptor until the child executes its program.
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Disk for RealDisk {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn boot(&self) -> u32 {
        // Linux generates this id at each boot. Other systems do not provide it.
        let id = fs::read("/proc/sys/kernel/random/boot_id");
        id.map_or(0, |id| crc32c::crc32c(&id))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| match entry {
            Ok(entry) => entry.file_name().into_string().ok().map(Ok),
            Err(error) => Some(Err(error)),
        };
        fs::read_dir(&self.folder)?.filter_map(name).collect()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(FILE_MODE);
        Ok(Arc::new(RealFile(options.open(self.folder.join(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        Ok(Arc::new(RealFile(options.open(self.folder.join(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.folder.join(from), self.folder.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.folder.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn write_at(&self, offset: u64, pieces: [&[u8]; 2]) -> io::Result<()> {
        let [first, second] = pieces;
        let both = [IoSlice::new(first), IoSlice::new(second)];
        let written = rustix::io::pwritev(&self.0, &both, offset)?;
        let mut at = offset.saturating_add(written as u64);
        let mut skipped = written;
        for piece in pieces {
            let rest = piece.get(skipped..).unwrap_or_default();
            skipped = skipped.saturating_sub(piece.len());
            self.0.write_all_at(rest, at)?;
            at = at.saturating_add(rest.len() as u64);
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self
                .0
                .read_at(&mut bytes[filled..], offset.saturating_add(filled as u64))
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_released_at_once_even_if_a_child_inherits_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let sut = RealDisk::open(folder.path()).unwrap();
        // A child holds such a copy between `fork` and `exec`.
        let _inherited = sut.lock.try_clone().unwrap();
        let error = RealDisk::open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(sut);
        RealDisk::open(folder.path()).unwrap();
    }
}
