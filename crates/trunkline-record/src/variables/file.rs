//! Appends whole segments to a file.

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

/// A destination to which whole segments are appended.
pub trait Segments {
    /// Appends all of `bytes`, or leaves the previous content unchanged.
    ///
    /// # Errors
    /// The system's error, after which the caller may call this again.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the appended segments durable, so that they survive a power loss.
    ///
    /// # Errors
    /// The system's error. Segments appended since the last successful call do not count as durable
    /// then, even if a later call succeeds.
    fn sync(&mut self) -> io::Result<()>;

    /// Returns the number of free bytes in the file system; `None` if it does not report free
    /// space.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the location of the file if its original name no longer refers to it.
    fn moved_file(&self) -> Option<MovedFile> {
        None
    }

    /// Returns the location of the checksum file if its original name no longer refers to it.
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
    /// Creates the file. On return, the file's name survives a power loss. Removes the index file
    /// and the checksum file of an earlier file with this name, because readers would trust them.
    ///
    /// # Errors
    /// The file already exists, or cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::create_with(path, false)
    }

    /// Creates the file like [`create`](Self::create), with a checksum file `x.tdms.sums`. A
    /// segment counts as written only once its checksum is in that file.
    pub fn create_summed(path: &Path) -> io::Result<Self> {
        Self::create_with(path, true)
    }

    /// Returns the backend report, which is the same for every segment file.
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
            // Removing the files allows another attempt with the same names.
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
        // After a failed write, the next entry overwrites the partial entry.
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
            // Without truncation, readers would find a partial segment or a segment without a
            // checksum. If truncation fails too, the next append overwrites these bytes.
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

    fn free_bytes(&self) -> Option<u64> {
        crate::backend::free_bytes(&self.file).ok()
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

pub(super) fn new_writer(out: &impl Segments) -> Writer {
    let mut writer = Writer::new(WriterOptions::default());
    if let Some(number) = out.sums_number() {
        // The first segment identifies the checksum file of this file. Setting the property cannot
        // fail, because every file may have it.
        let _ = writer.set(&ObjectPath::File, "sums_id", number);
    }
    writer
}
