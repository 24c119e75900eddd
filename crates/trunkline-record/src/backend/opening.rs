//! Opening a file that is there, to be read.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::choice::{unsupported, with_backend};
use super::{BackendWanted, Directness, OpenedFile, WhyNot};

/// A file that is there, ready to be read.
#[derive(Debug)]
pub struct FileToRead {
    /// What reads it, and which backend it is.
    pub opened: OpenedFile,
    /// Its bytes when it was opened.
    pub length: u64,
}

/// Opens a file and what reads it, with `reads_max` reads running at a time.
///
/// # Errors
/// The file cannot be opened, or is no regular file; or what is required is not to be had, and the
/// error says why ([`WhyNot`]).
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

/// What is no regular file is refused before it is opened: opening a pipe waits for its other end.
///
/// # Errors
/// There is no such file, or something else is there.
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
