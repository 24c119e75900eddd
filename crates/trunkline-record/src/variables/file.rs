//! A file to which whole segments are appended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use trunkline_tdms::{
    BodySum, ObjectPath, SUMS_ENTRY_BYTES, SegmentSum, SumsId, Writer, WriterOptions,
};

use crate::backend::{BackendKind, FileReport};
use crate::tdms_file::{remove_leftovers, sums_path};
use crate::watched_path::{MovedFile, WatchedPath, sync_folder};

/// A destination of whole segments.
pub trait Segments {
    /// Appends all of `bytes`, or leaves the previous content unchanged.
    ///
    /// # Errors
    /// The system's error; the call may be repeated.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything appended so far durable, so that it survives a power loss.
    ///
    /// # Errors
    /// The system's error. Segments appended since the last successful call then do not count as
    /// durable, even if a later call succeeds.
    fn sync(&mut self) -> io::Result<()>;

    /// Returns the free bytes of the file system; `None` if it does not report them.
    fn room(&self) -> Option<u64> {
        None
    }

    /// Returns the file's location if the name it was created with no longer refers to it.
    fn moved_file(&self) -> Option<MovedFile> {
        None
    }

    /// Returns the same for the checksum file.
    fn moved_sums_file(&self) -> Option<MovedFile> {
        None
    }

    /// Returns the number that identifies the checksum file; `None` if there is none.
    fn sums_number(&self) -> Option<u64> {
        None
    }
}

#[derive(Debug)]
pub struct SegmentFile {
    file: File,
    watched_path: WatchedPath,
    length: u64,
    sums: Option<Sums>,
}

#[derive(Debug)]
struct Sums {
    file: File,
    watched_path: WatchedPath,
    id: SumsId,
    length: u64,
}

impl SegmentFile {
    /// Creates the file. On return, its name survives a power loss. Removes an index file and
    /// checksums left over from an earlier file of this name, because readers would trust them.
    ///
    /// # Errors
    /// The file already exists, or cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::create_with(path, false)
    }

    /// Same as [`create`](Self::create), with checksums in `x.tdms.sums`. Every segment has its
    /// entry there before it counts as written.
    pub fn create_summed(path: &Path) -> io::Result<Self> {
        Self::create_with(path, true)
    }

    /// Returns the backend report, which is the same for every such file.
    pub fn report() -> FileReport {
        FileReport {
            backend: BackendKind::PlainWrites,
            is_direct: false,
            fallback_reasons: Vec::new(),
        }
    }

    fn create_with(path: &Path, has_sums: bool) -> io::Result<Self> {
        let create_new = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let file = create_new(path)?;
        let sums_path = sums_path(path);
        let sums_file = remove_leftovers(path).and_then(|()| match has_sums {
            true => create_new(&sums_path).map(Some),
            false => Ok(None),
        });
        let has_sums_file = matches!(sums_file, Ok(Some(_)));
        let created = sums_file.and_then(|sums_file| Self::begin(path, file, sums_file));
        if created.is_err() {
            // Frees the names for another attempt.
            let _ = std::fs::remove_file(path);
            if has_sums_file {
                let _ = std::fs::remove_file(&sums_path);
            }
        }
        created
    }

    /// Prepares newly created files for writing, and makes their names durable.
    fn begin(path: &Path, file: File, sums_file: Option<File>) -> io::Result<Self> {
        let sums = match sums_file {
            Some(file) => Some(Sums::begin(file, WatchedPath::of(&sums_path(path))?)?),
            None => None,
        };
        sync_folder(path)?;
        Ok(Self {
            file,
            watched_path: WatchedPath::of(path)?,
            length: 0,
            sums,
        })
    }
}

impl Sums {
    fn begin(file: File, watched_path: WatchedPath) -> io::Result<Self> {
        let id = SumsId::new(fastrand::u64(..));
        file.write_all_at(&id.begin(), 0)?;
        let length = SUMS_ENTRY_BYTES as u64;
        Ok(Self {
            file,
            watched_path,
            id,
            length,
        })
    }

    fn append(&mut self, position: u64, segment: &[u8]) -> io::Result<()> {
        let sum = SegmentSum::of(position, segment, BodySum::default());
        // The next entry overwrites a partial one.
        self.file.write_all_at(&sum.entry(self.id), self.length)?;
        self.length += SUMS_ENTRY_BYTES as u64;
        Ok(())
    }
}

impl Segments for SegmentFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(bytes, self.length);
        let summed = written.and_then(|()| match &mut self.sums {
            Some(sums) => sums.append(self.length, bytes),
            None => Ok(()),
        });
        if let Err(error) = summed {
            // Otherwise readers would find truncated data if part of the segment was written, or a
            // segment without a checksum if all of it was. If truncating fails too, the next append
            // overwrites these bytes.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(sums) = &self.sums {
            sums.file.sync_data()?;
        }
        self.file.sync_data()
    }

    fn room(&self) -> Option<u64> {
        crate::backend::room(&self.file).ok()
    }

    fn moved_file(&self) -> Option<MovedFile> {
        self.watched_path.moved_file(&self.file)
    }

    fn moved_sums_file(&self) -> Option<MovedFile> {
        let sums = self.sums.as_ref()?;
        sums.watched_path.moved_file(&sums.file)
    }

    fn sums_number(&self) -> Option<u64> {
        Some(self.sums.as_ref()?.id.number())
    }
}

pub(super) fn writer_of(out: &impl Segments) -> Writer {
    let mut writer = Writer::new(WriterOptions::default());
    if let Some(number) = out.sums_number() {
        // The first segment identifies the checksums that belong to this file. This cannot fail,
        // because any file may have this property.
        let _ = writer.set(&ObjectPath::File, "sums_id", number);
    }
    writer
}
