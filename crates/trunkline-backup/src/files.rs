//! Copies and reads files, and computes their checksums.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

use crate::error::Error;
use crate::{Progress, Watch};

/// Number of bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Length and CRC-32C of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) bytes: u64,
    pub(crate) crc32c: u32,
}

/// Tracks the progress of a command, and lets the caller interrupt the command.
pub(crate) struct Meter<'a, 'w> {
    progress: Progress,
    watch: &'a mut Watch<'w>,
}

impl<'a, 'w> Meter<'a, 'w> {
    pub(crate) fn new(of_bytes: Option<u64>, watch: &'a mut Watch<'w>) -> Self {
        let progress = Progress {
            of_bytes,
            ..Progress::default()
        };
        Self { progress, watch }
    }

    fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.progress.bytes += bytes as u64;
        match (self.watch)(self.progress) {
            true => Ok(()),
            false => Err(Error::Interrupted),
        }
    }

    pub(crate) fn end_file(&mut self) {
        self.progress.files += 1;
    }
}

/// Creates a file that only its owner may access.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    options.mode(0o600).open(path)
}

/// Creates a folder and its missing parents. Only the owner may access them.
pub(crate) fn create_folder(path: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(path);
    created.map_err(Error::io(path))
}

pub(crate) fn sync_folder(path: &Path) -> Result<(), Error> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(Error::io(path))
}

/// Returns the parent folder of a path.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Appends a suffix to the last component of a path.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) fn remove_file_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn remove_folder_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io(path)(error)),
        _ => Ok(()),
    }
}

/// Copies a file up to its current length, and makes the copy durable.
pub(crate) fn copy(from: &Path, to: &Path, meter: &mut Meter<'_, '_>) -> Result<Sum, Error> {
    let mut source = File::open(from).map_err(Error::io(from))?;
    let length = source.metadata().map_err(Error::io(from))?.len();
    let mut target = create_file(to).map_err(Error::io(to))?;
    let sum = read_through(&mut source, length, from, meter, &mut |bytes| {
        target.write_all(bytes).map_err(Error::io(to))
    })?;
    target.sync_all().map_err(Error::io(to))?;
    Ok(sum)
}

/// Reads a file, and computes its length and checksum. Bypasses the page cache if the system allows it.
pub(crate) fn sum_of(path: &Path, meter: &mut Meter<'_, '_>) -> Result<Sum, Error> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let length = file.metadata().map_err(Error::io(path))?.len();
    // This is only a hint: if the system keeps the cached pages, the file is read from memory.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    read_through(&mut file, length, path, meter, &mut |_| Ok(()))
}

fn read_through(
    file: &mut File,
    length: u64,
    path: &Path,
    meter: &mut Meter<'_, '_>,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Sum, Error> {
    let mut source = file.take(length);
    let mut buffer = vec![0; CHUNK];
    let mut sum = Sum::default();
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(sum),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io(path)(error)),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        sink(bytes)?;
        sum.bytes += count as u64;
        sum.crc32c = crc32c::crc32c_append(sum.crc32c, bytes);
        meter.add(count)?;
    }
}
