//! Opens a file with the best available backend, and reports the choice and its reasons.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::{Backend, BackendKind, LocalFile, PlainWrites, Uring};
use crate::watched_path::{WatchedPath, sync_folder};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BackendChoice {
    /// io_uring if it is available, otherwise plain writes. [`FileReport`] gives the result.
    #[default]
    BestAvailable,
    /// io_uring only.
    Uring,
    PlainWrites,
}

/// The requested use of the page cache; direct I/O (`O_DIRECT`) bypasses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheMode {
    /// Direct I/O if the file system supports it. [`FileReport`] gives the result.
    #[default]
    PreferDirect,
    /// Direct I/O only; opening fails if the file system does not support it.
    RequireDirect,
    Cached,
}

/// The reason why a better choice was not available.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FallbackReason {
    /// io_uring exists but may not be used.
    NotPermitted {
        /// The value of `kernel.io_uring_disabled`, if it can be read. If it is 0, a system call
        /// filter forbids io_uring.
        disabled: Option<u8>,
    },
    /// The kernel has no io_uring, or a system call filter hides it.
    Missing,
    /// The kernel's io_uring is too old: it cannot wait with a timeout.
    TooOld,
    /// The limit on locked memory is too low.
    LockedMemory,
    /// The file system does not support direct I/O.
    NoDirectWrites,
    /// Another reason, in the words of the operating system.
    Other(String),
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted {
                disabled: Some(level @ 1..),
            } => write!(
                f,
                "io_uring is switched off by kernel.io_uring_disabled = {level}; set it to 0, or \
                 use plain writes"
            ),
            Self::NotPermitted { .. } => f.write_str(
                "io_uring is forbidden for this program, for example by a container's system call \
                 filter; allow io_uring_setup, io_uring_enter and io_uring_register, or \
                 use plain writes",
            ),
            Self::Missing => f.write_str(
                "this kernel has no io_uring, or a system call filter hides it; use plain \
                 writes",
            ),
            Self::TooOld => f.write_str(
                "this kernel's io_uring cannot wait with a timeout; use Linux 5.11 or later, or plain \
                 writes",
            ),
            Self::LockedMemory => f.write_str(
                "the limit on locked memory is too low to register the ring with io_uring; raise \
                 the limit (ulimit -l)",
            ),
            Self::NoDirectWrites => f.write_str(
                "this file system does not support direct I/O (O_DIRECT); use another file system, \
                 or allow cached I/O",
            ),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for FallbackReason {}

impl FallbackReason {
    /// Converts an error from setting up io_uring.
    pub(super) fn of_uring(error: &io::Error) -> Self {
        use rustix::io::Errno;
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted {
                disabled: std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
                    .ok()
                    .and_then(|text| text.trim().parse().ok()),
            },
            Some(Errno::NOSYS) => Self::Missing,
            Some(Errno::NOMEM) => Self::LockedMemory,
            _ => Self::Other(error.to_string()),
        }
    }
}

/// Reports the backend of a file and whether I/O uses the page cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileReport {
    pub backend: BackendKind,
    /// True if I/O bypasses the page cache.
    pub is_direct: bool,
    /// The reasons why a better choice was not available; empty if this is the best choice.
    pub fallback_reasons: Vec<FallbackReason>,
}

/// A new file, ready to be written.
#[derive(Debug)]
pub struct OpenedFile {
    pub backend: Box<dyn Backend>,
    pub report: FileReport,
}

/// Creates a file, and a backend that runs up to `writes_max` writes at a time. On return, the
/// directory entry survives a power loss.
///
/// # Errors
/// The file exists or cannot be created, or a required feature is not available; the error then
/// contains a [`FallbackReason`]. No new file remains.
pub fn open_file(
    path: &Path,
    choice: BackendChoice,
    cache_mode: CacheMode,
    writes_max: usize,
) -> io::Result<OpenedFile> {
    let mut fallback_reasons = Vec::new();
    let (file, is_direct) = open_direct(path, true, cache_mode, &mut fallback_reasons)?;
    let opened = WatchedPath::of(path).and_then(|watched_path| {
        with_backend(
            file,
            Some(watched_path),
            choice,
            is_direct,
            writes_max,
            fallback_reasons,
        )
    });
    let synced = opened.and_then(|opened| sync_folder(path).map(|()| opened));
    if synced.is_err() {
        // Report the original error, even if the empty file cannot be removed.
        let _ = std::fs::remove_file(path);
    }
    synced
}

/// An existing file, ready to be read.
#[derive(Debug)]
pub struct FileToRead {
    pub opened: OpenedFile,
    /// Length of the file in bytes when it was opened.
    pub length: u64,
}

/// Opens a file and a backend that runs up to `reads_max` reads at a time.
///
/// # Errors
/// The file cannot be opened, it is not a regular file, or a required feature is not available; in
/// the last case the error contains a [`FallbackReason`].
pub fn open_to_read(
    path: &Path,
    choice: BackendChoice,
    cache_mode: CacheMode,
    reads_max: usize,
) -> io::Result<FileToRead> {
    check_regular(path)?;
    let mut fallback_reasons = Vec::new();
    let (file, is_direct) = open_direct(path, false, cache_mode, &mut fallback_reasons)?;
    let length = file.metadata()?.len();
    let opened = with_backend(file, None, choice, is_direct, reads_max, fallback_reasons)?;
    Ok(FileToRead { opened, length })
}

/// Checks that a path refers to a regular file. The check precedes opening, because opening a pipe
/// blocks until another process opens its other end.
///
/// # Errors
/// The file does not exist or is not a regular file.
pub(crate) fn check_regular(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)?.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path is not a regular file",
        )),
    }
}

/// Opens an existing file or creates a new one. Also returns true if its I/O bypasses the page
/// cache.
fn open_direct(
    path: &Path,
    is_new: bool,
    cache_mode: CacheMode,
    fallback_reasons: &mut Vec<FallbackReason>,
) -> io::Result<(File, bool)> {
    let open = |flags: OFlags| {
        let mut options = OpenOptions::new();
        options.read(true).write(is_new).create_new(is_new);
        options.custom_flags(flags.bits().cast_signed()).open(path)
    };
    if cache_mode == CacheMode::Cached {
        return Ok((open(OFlags::empty())?, false));
    }
    match open(OFlags::DIRECT) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            if is_new {
                // Some systems create the file before they reject the flag. The file did not exist
                // when this call began.
                let _ = std::fs::remove_file(path);
            }
            if cache_mode == CacheMode::RequireDirect {
                return Err(unsupported(FallbackReason::NoDirectWrites));
            }
            fallback_reasons.push(FallbackReason::NoDirectWrites);
            Ok((open(OFlags::empty())?, false))
        }
        Err(error) => Err(error),
    }
}

fn with_backend(
    file: File,
    watched_path: Option<WatchedPath>,
    choice: BackendChoice,
    is_direct: bool,
    writes_max: usize,
    mut fallback_reasons: Vec<FallbackReason>,
) -> io::Result<OpenedFile> {
    let mut local = LocalFile {
        file,
        is_direct,
        watched_path,
    };
    if choice != BackendChoice::PlainWrites {
        match Uring::new(local, writes_max) {
            Ok(uring) => return Ok(opened_file(Box::new(uring), is_direct, fallback_reasons)),
            Err((_, reason)) if choice == BackendChoice::Uring => return Err(unsupported(reason)),
            Err((file, reason)) => {
                local = file;
                fallback_reasons.push(reason);
            }
        }
    }
    let backend = Box::new(PlainWrites::new(local, writes_max)?);
    Ok(opened_file(backend, is_direct, fallback_reasons))
}

fn opened_file(
    backend: Box<dyn Backend>,
    is_direct: bool,
    fallback_reasons: Vec<FallbackReason>,
) -> OpenedFile {
    let report = FileReport {
        backend: backend.kind(),
        is_direct,
        fallback_reasons,
    };
    OpenedFile { backend, report }
}

fn unsupported(reason: FallbackReason) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, reason)
}
