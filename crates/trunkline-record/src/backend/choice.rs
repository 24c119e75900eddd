//! Which backend a file gets: what was asked for, what came of it, and why.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::{Backend, BackendKind, PlainWrites, Uring};
use crate::place::Place;

/// Which backend is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BackendWanted {
    /// io_uring where it is to be had, plain writes where not; [`FileReport`] says which.
    #[default]
    BestThereIs,
    /// io_uring and nothing else.
    Uring,
    /// Plain writes and nothing else.
    PlainWrites,
}

/// Whether the system's cache is gone around (`O_DIRECT`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Directness {
    /// Where the file system can; [`FileReport`] says.
    #[default]
    IfPossible,
    /// Or not at all.
    Required,
    /// Through the cache.
    Cached,
}

/// Why something better was not to be had.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WhyNot {
    /// io_uring is there and may not be used.
    NotPermitted {
        /// What `kernel.io_uring_disabled` is, where it can be read. 0: it is not that, so a filter
        /// of system calls forbids it.
        disabled: Option<u8>,
    },
    /// This kernel has none, or a filter says so.
    NotThere,
    /// This kernel's is too old: it cannot wait for a bounded time.
    TooOld,
    /// Too little memory may be locked.
    LockedMemory,
    /// The file system writes through its cache alone.
    NoDirectWrites,
    /// Anything else, as the system says it.
    Other(String),
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted {
                disabled: Some(level @ 1..),
            } => write!(
                f,
                "io_uring is switched off by kernel.io_uring_disabled = {level}; set it to 0, or \
                 take plain writes"
            ),
            Self::NotPermitted { .. } => f.write_str(
                "io_uring is forbidden to this program, as by the filter of system calls that \
                 containers set; allow io_uring_setup, io_uring_enter and io_uring_register, or \
                 take plain writes",
            ),
            Self::NotThere => f.write_str(
                "this kernel has no io_uring, or a filter of system calls says so; take plain \
                 writes",
            ),
            Self::TooOld => f.write_str(
                "this kernel's io_uring cannot wait for a bounded time (Linux 5.11 can); take plain \
                 writes",
            ),
            Self::LockedMemory => f.write_str(
                "too little memory may be locked to register the ring with io_uring; raise the \
                 limit (ulimit -l)",
            ),
            Self::NoDirectWrites => f.write_str(
                "this file system writes and reads through its cache alone (no O_DIRECT); take \
                 another one, or allow its cache",
            ),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for WhyNot {}

impl WhyNot {
    /// Why io_uring does not start.
    pub(super) fn of_uring(error: &io::Error) -> Self {
        use rustix::io::Errno;
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted {
                disabled: std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
                    .ok()
                    .and_then(|text| text.trim().parse().ok()),
            },
            Some(Errno::NOSYS) => Self::NotThere,
            Some(Errno::NOMEM) => Self::LockedMemory,
            _ => Self::Other(error.to_string()),
        }
    }
}

/// What a file is written or read with.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FileReport {
    /// The backend.
    pub backend: BackendKind,
    /// Whether the system's cache is gone around.
    pub is_direct: bool,
    /// Why it is not what would have been better; empty where it is.
    pub why_not: Vec<WhyNot>,
}

/// A new file, ready to be written.
#[derive(Debug)]
pub struct OpenedFile {
    /// What writes it.
    pub backend: Box<dyn Backend>,
    /// Which backend it is, and why.
    pub report: FileReport,
}

/// Makes a new file and what writes it, with `writes_max` writes running at a time. The name is
/// safe from a loss of power when this returns.
///
/// # Errors
/// The file is there already or cannot be made; or what is required is not to be had, and the error
/// says why ([`WhyNot`]). Nothing is left behind then.
pub fn open_file(
    path: &Path,
    wanted: BackendWanted,
    directness: Directness,
    writes_max: usize,
) -> io::Result<OpenedFile> {
    let mut why_not = Vec::new();
    let (file, is_direct) = create(path, directness, &mut why_not)?;
    let opened = Place::of(path)
        .and_then(|place| with_backend(file, Some(place), wanted, is_direct, writes_max, why_not));
    let synced = opened.and_then(|opened| sync_folder(path).map(|()| opened));
    if synced.is_err() {
        // What it is that did not work is said; that an empty file stays as well is not worth it.
        let _ = std::fs::remove_file(path);
    }
    synced
}

fn create(
    path: &Path,
    directness: Directness,
    why_not: &mut Vec<WhyNot>,
) -> io::Result<(File, bool)> {
    let open = |flags: OFlags| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.custom_flags(flags.bits().cast_signed()).open(path)
    };
    if directness == Directness::Cached {
        return Ok((open(OFlags::empty())?, false));
    }
    match open(OFlags::DIRECT) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            // Some systems make the file before they refuse; it was not there when this began.
            let _ = std::fs::remove_file(path);
            if directness == Directness::Required {
                return Err(unsupported(WhyNot::NoDirectWrites));
            }
            why_not.push(WhyNot::NoDirectWrites);
            Ok((open(OFlags::empty())?, false))
        }
        Err(error) => Err(error),
    }
}

pub(super) fn with_backend(
    file: File,
    mut place: Option<Place>,
    wanted: BackendWanted,
    is_direct: bool,
    writes_max: usize,
    mut why_not: Vec<WhyNot>,
) -> io::Result<OpenedFile> {
    let mut backend: Option<Box<dyn Backend>> = None;
    if wanted != BackendWanted::PlainWrites {
        match Uring::new(file.try_clone()?, is_direct, writes_max) {
            Ok(uring) => backend = Some(Box::new(uring.named(place.take()))),
            Err(reason) if wanted == BackendWanted::Uring => return Err(unsupported(reason)),
            Err(reason) => why_not.push(reason),
        }
    }
    let backend = match backend {
        Some(backend) => backend,
        None => Box::new(PlainWrites::new(file, is_direct, writes_max)?.named(place)),
    };
    let report = FileReport {
        backend: backend.kind(),
        is_direct,
        why_not,
    };
    Ok(OpenedFile { backend, report })
}

pub(super) fn unsupported(reason: WhyNot) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

/// Makes the name of a new file safe.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
