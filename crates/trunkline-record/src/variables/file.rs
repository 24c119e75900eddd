//! A file that whole segments are appended to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use trunkline_tdms::{
    BodySum, ObjectPath, SUMS_ENTRY_BYTES, SegmentSum, SumsId, Writer, WriterOptions,
};

use crate::backend::{BackendKind, FileReport};
use crate::place::{Displaced, Place};
use crate::tdms_file::sums_path;

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

    /// Bytes that the file system has left; none where it does not say.
    fn room(&self) -> Option<u64> {
        None
    }

    /// Where the file is, if the name it was made with no longer leads to it.
    fn displaced(&self) -> Option<Displaced> {
        None
    }

    /// The same of the checksums beside it.
    fn sums_displaced(&self) -> Option<Displaced> {
        None
    }

    /// The number of the checksums beside it; none where there are none.
    fn sums_number(&self) -> Option<u64> {
        None
    }
}

/// A new file of this machine.
#[derive(Debug)]
pub struct SegmentFile {
    file: File,
    place: Place,
    length: u64,
    sums: Option<Sums>,
}

/// Checksums beside it.
#[derive(Debug)]
struct Sums {
    file: File,
    place: Place,
    id: SumsId,
    length: u64,
}

impl SegmentFile {
    /// Makes the file. Its name is safe from a loss of power when this returns. An index file and
    /// checksums of an earlier one with this name are removed: readers would believe them.
    ///
    /// # Errors
    /// The file is there already, or cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::made(path, false)
    }

    /// The same with checksums beside it, in `x.tdms.sums`. Every segment has its entry there
    /// before it counts as written.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_summed(path: &Path) -> io::Result<Self> {
        Self::made(path, true)
    }

    /// What every such file is written with.
    #[must_use]
    pub fn report() -> FileReport {
        FileReport {
            backend: BackendKind::PlainWrites,
            is_direct: false,
            why_not: Vec::new(),
        }
    }

    fn made(path: &Path, has_sums: bool) -> io::Result<Self> {
        let new = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let file = new(path)?;
        let sums_path = sums_path(path);
        for of_another in [&path.with_extension("tdms_index"), &sums_path] {
            match std::fs::remove_file(of_another) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    // Nothing is in it, and its name may be tried again.
                    let _ = std::fs::remove_file(path);
                    return Err(error);
                }
                _ => {}
            }
        }
        let sums = match has_sums {
            true => Some(Sums::begin(new(&sums_path)?, Place::of(&sums_path)?)?),
            false => None,
        };
        let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(Self {
            file,
            place: Place::of(path)?,
            length: 0,
            sums,
        })
    }
}

impl Sums {
    fn begin(file: File, place: Place) -> io::Result<Self> {
        let id = SumsId::new(fastrand::u64(..));
        file.write_all_at(&id.begin(), 0)?;
        let length = SUMS_ENTRY_BYTES as u64;
        Ok(Self {
            file,
            place,
            id,
            length,
        })
    }

    fn append(&mut self, position: u64, segment: &[u8]) -> io::Result<()> {
        let sum = SegmentSum::of(position, segment, BodySum::default());
        // What came of it only in part is written over by the next.
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
            // A part of it would be read as a segment that was cut off, and all of it as one
            // without a checksum. If this fails as well, the next append writes over it.
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

    fn displaced(&self) -> Option<Displaced> {
        self.place.displaced(&self.file)
    }

    fn sums_displaced(&self) -> Option<Displaced> {
        let sums = self.sums.as_ref()?;
        sums.place.displaced(&sums.file)
    }

    fn sums_number(&self) -> Option<u64> {
        Some(self.sums.as_ref()?.id.number())
    }
}

/// The writer of a new file.
pub(super) fn writer_of(out: &impl Segments) -> Writer {
    let mut writer = Writer::new(WriterOptions::default());
    if let Some(number) = out.sums_number() {
        // So that the first segment tells checksums of this file from those of another. This is a
        // property that every file may have.
        let _ = writer.set(&ObjectPath::File, "sums_id", number);
    }
    writer
}
