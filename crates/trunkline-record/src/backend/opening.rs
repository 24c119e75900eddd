//! Opens an existing file for reading.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::choice::{unsupported, with_backend};
use super::{BackendWanted, Directness, OpenedFile, WhyNot};

/// An existing file, ready to be read.
#[derive(Debug)]
pub struct FileToRead {
    /// The backend that reads the file, and the choice of it.
    pub opened: OpenedFile,
    /// The length in bytes when the file was opened.
    pub length: u64,
}

/// Opens a file and a backend that runs up to `reads_max` reads at a time.
///
/// # Errors
/// The file cannot be opened or is not a regular file; or a required feature is not available, and
/// the error carries the reason ([`WhyNot`]).
pub fn open_to_read(
    path: &Path,
    wanted: BackendWanted,
    directness: Directness,
    reads_max: usize,
) -> io::Result<FileToRead> {
    check_regular(path)?;
    let mut why_not = Vec::new();
    let (file, is_direct) = open(path, directness, &mut why_not)?;
    let length = file.metadata()?.len();
    let opened = with_backend(file, None, wanted, is_direct, reads_max, why_not)?;
    Ok(FileToRead { opened, length })
}

/// Refuses anything but a regular file before it is opened: opening a pipe would block until its
/// other end is opened.
///
/// # Errors
/// The file does not exist or is not a regular file.
pub(crate) fn check_regular(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)?.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

fn open(
    path: &Path,
    directness: Directness,
    why_not: &mut Vec<WhyNot>,
) -> io::Result<(File, bool)> {
    let open = |flags: OFlags| {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        options.open(path)
    };
    if directness == Directness::Cached {
        return Ok((open(OFlags::empty())?, false));
    }
    match open(OFlags::DIRECT) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            if directness == Directness::Required {
                return Err(unsupported(WhyNot::NoDirectWrites));
            }
            why_not.push(WhyNot::NoDirectWrites);
            Ok((open(OFlags::empty())?, false))
        }
        Err(error) => Err(error),
    }
}
