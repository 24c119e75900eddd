//! The disk as a journal uses it: one folder, files that grow, and names that are changed.
//!
//! Everything a crash can come between is one call here, so a disk of a test can stop at each.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;

/// One folder of a disk.
pub trait Disk: Send + Sync + fmt::Debug {
    /// The folder, to be shown to people.
    fn folder(&self) -> &Path;

    /// Which start of the machine this is: another number after each loss of power. 0: unknown.
    fn boot(&self) -> u32;

    /// Names of the files in it, in any order.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// A new file, in the place of any of this name. Its name is safe after
    /// [`sync_folder`](Self::sync_folder).
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// A file that is there, to be read and written.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, in the place of any that has it, in one step.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Returns when all changes of names are safe from a loss of power.
    ///
    /// # Errors
    /// What the system says.
    fn sync_folder(&self) -> io::Result<()>;
}

/// One file of a [`Disk`].
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Its length in bytes.
    ///
    /// # Errors
    /// What the system says.
    fn size(&self) -> io::Result<u64>;

    /// Writes both pieces, one behind the other, from `offset` on: in one call of the system,
    /// unless that takes only a part.
    ///
    /// # Errors
    /// What the system says. Any part of it may have been written.
    fn write_at(&self, offset: u64, pieces: [&[u8]; 2]) -> io::Result<()>;

    /// Reads up to the end of `bytes` or of the file; how many.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;

    /// Cuts it off behind so many bytes.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Returns when its bytes are safe from a loss of power: `fdatasync`.
    ///
    /// # Errors
    /// What the system says; what was written since the last time may be lost then, even if a later
    /// call succeeds.
    fn sync(&self) -> io::Result<()>;
}

/// A folder of this machine, of which no other journal has the lock.
#[derive(Debug)]
pub struct RealDisk {
    folder: PathBuf,
    handle: File,
    /// Locked for as long as this is there.
    lock: File,
}

/// What is in a journal is for its user alone.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The file whose lock says that the folder is in use. It is empty, and is never removed.
pub const LOCK_FILE: &str = "lock";

impl RealDisk {
    /// Makes the folder, and those above it, if they are not there, and locks it.
    ///
    /// # Errors
    /// What the system says; [`WouldBlock`](io::ErrorKind::WouldBlock): another endpoint uses it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let is_new = !folder.is_dir();
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true).mode(FOLDER_MODE).create(folder)?;
        let handle = File::open(folder)?;
        if is_new && let Some(above) = folder.parent() {
            // A folder whose name is lost takes everything in it along.
            let above = if above.as_os_str().is_empty() {
                Path::new(".")
            } else {
                above
            };
            File::open(above)?.sync_all()?;
        }
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE);
        // A link that somebody put there would have another file locked, or made.
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
        // Closing it is not enough: a process that another thread starts just then has it too,
        // until it is the other program.
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Disk for RealDisk {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn boot(&self) -> u32 {
        // Linux draws it anew at each start. Elsewhere nothing is known of that.
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
        let mut have = 0;
        while have < bytes.len() {
            match self
                .0
                .read_at(&mut bytes[have..], offset.saturating_add(have as u64))
            {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
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
    fn a_folder_is_free_at_once_although_another_process_has_its_lock_still() {
        let folder = tempfile::tempdir().unwrap();
        let sut = RealDisk::open(folder.path()).unwrap();
        // As a child has it between its start and the other program.
        let _inherited = sut.lock.try_clone().unwrap();
        let taken = RealDisk::open(folder.path()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::WouldBlock);
        drop(sut);
        RealDisk::open(folder.path()).unwrap();
    }
}
