//! A file that whole segments are appended to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where whole segments go.
pub trait Segments {
    /// Appends all of `bytes`, or leaves what was there before as it was.
    ///
    /// # Errors
    /// What the system says; it may be tried again.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Everything that was appended outlives a loss of power when this returns.
    ///
    /// # Errors
    /// What the system says. Nothing that was appended since the last time is safe then, nor is it
    /// when a later call succeeds.
    fn sync(&mut self) -> io::Result<()>;
}

/// A new file of this machine.
#[derive(Debug)]
pub struct SegmentFile {
    file: File,
    length: u64,
}

impl SegmentFile {
    /// Makes the file. Its name is safe from a loss of power when this returns. An index file of an
    /// earlier one with this name is removed: readers would believe it.
    ///
    /// # Errors
    /// The file is there already, or cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        match std::fs::remove_file(path.with_extension("tdms_index")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                // Nothing is in it, and its name may be tried again.
                let _ = std::fs::remove_file(path);
                return Err(error);
            }
            _ => {}
        }
        let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Self { file, length: 0 })
    }
}

impl Segments for SegmentFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(bytes, self.length) {
            // A part of it would be read as a segment that was cut off. If this fails as well, the
            // next append writes over it.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}
