//! Defines the backends of queues: each has one open file, with several operations in flight at a
//! time.

mod choice;
mod plain;
#[cfg(feature = "sim")]
mod sim_disk;
mod uring;

use std::fmt;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::time::Duration;

pub(crate) use self::choice::check_regular;
pub use self::choice::{
    BackendChoice, CacheMode, FallbackReason, FileReport, FileToRead, OpenedFile, open_file,
    open_to_read,
};
pub use self::plain::PlainWrites;
#[cfg(feature = "sim")]
pub use self::sim_disk::{SimDisk, SimFault};
pub use self::uring::Uring;
use crate::clock::monotonic;
use crate::watched_path::{MovedFile, WatchedPath};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackendKind {
    /// io_uring, with registered memory.
    Uring,
    /// One system call after another, in a separate thread.
    PlainWrites,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring => "io_uring",
            Self::PlainWrites => "plain writes and reads",
        })
    }
}

/// Alignment of direct writes in bytes.
const BLOCK_BYTES: usize = 4096;

/// An open file, and how it was opened.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    is_direct: bool,
    /// Path at which the file is expected, if the path is watched.
    watched_path: Option<WatchedPath>,
}

impl LocalFile {
    pub fn new(file: File, is_direct: bool) -> Self {
        Self {
            file,
            is_direct,
            watched_path: None,
        }
    }
}

/// Identifies an operation and its completion. The caller chooses it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

/// A range of memory, which another program may share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Address of the first byte.
    pub start: NonNull<u8>,
    pub bytes: usize,
}

impl Span {
    /// Returns the span without its first `bytes`, which must not exceed its length.
    pub(crate) fn after(self, bytes: usize) -> Self {
        assert!(bytes <= self.bytes, "{bytes} bytes of {}", self.bytes);
        Self {
            // SAFETY: the offset is at most the length of the memory.
            start: unsafe { self.start.add(bytes) },
            bytes: self.bytes - bytes,
        }
    }

    /// Returns at most `bytes` bytes of the span, starting at `offset`, which must be within the
    /// span.
    pub(crate) fn part(self, offset: usize, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes.saturating_sub(offset));
        Self {
            bytes,
            ..self.after(offset)
        }
    }
}

// SAFETY: a span is only an address and a length; code that uses the address ensures that it is
// valid.
unsafe impl Send for Span {}

/// One write at a position of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// Identifies the operation in its completion.
    pub token: Token,
    pub position: u64,
    pub memory: Span,
}

/// One read at a position of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// Identifies the operation in its completion.
    pub token: Token,
    pub position: u64,
    pub memory: Span,
}

/// A completed write, read or sync.
#[derive(Debug)]
pub struct Completed {
    pub token: Token,
    /// Number of bytes written or read, possibly fewer than requested; 0 for a sync and for a read
    /// at the end of the file.
    pub result: io::Result<usize>,
}

/// Whether, and how long, to wait for a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    No,
    /// Wait until [`Backend::now`] reaches this time.
    Until(Duration),
}

/// One open file that is written or read asynchronously. Completions arrive in any order.
///
/// Dropping a backend waits until no operation is running.
pub trait Backend: Send + fmt::Debug {
    fn kind(&self) -> BackendKind;

    /// Returns the local file of this backend, which the default methods use.
    fn local(&self) -> io::Result<&LocalFile> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the required alignment of addresses, positions and lengths in bytes; 1 if there is
    /// none.
    fn block_bytes(&self) -> usize {
        match self.local() {
            Ok(LocalFile {
                is_direct: true, ..
            }) => BLOCK_BYTES,
            _ => 1,
        }
    }

    /// Returns the current time of the clock used for timeouts.
    fn now(&self) -> Duration {
        monotonic()
    }

    /// Registers the memory of all later writes and reads. Called once, before the first operation.
    /// Returns `None` if the memory is registered with the kernel, or if this backend needs no
    /// registration. If registration fails, returns the reason; the kernel then maps the memory for
    /// each operation.
    ///
    /// # Safety
    /// The memory stays mapped for as long as this backend lives.
    unsafe fn register(&mut self, memory: &[Span]) -> Option<FallbackReason>;

    /// Starts a write.
    ///
    /// # Errors
    /// The write was not started, for the returned system error.
    ///
    /// # Safety
    /// The memory stays mapped until the completion has been returned or this backend has been
    /// dropped.
    unsafe fn submit(&mut self, write: Write) -> io::Result<()>;

    /// Starts a read.
    ///
    /// # Errors
    /// The read was not started, for the returned system error.
    ///
    /// # Safety
    /// The memory stays mapped, and no other code reads or writes it, until the completion has been
    /// returned or this backend has been dropped.
    unsafe fn submit_read(&mut self, read: Read) -> io::Result<()>;

    /// Starts an `fdatasync` of the data written so far.
    ///
    /// # Errors
    /// The sync was not started, for the returned system error.
    fn submit_sync(&mut self, token: Token) -> io::Result<()>;

    /// Returns the next completion, or `None` if none arrives in time.
    fn completed(&mut self, wait: Wait) -> io::Result<Option<Completed>>;

    /// Reserves space on the disk without making the file longer.
    ///
    /// # Errors
    /// `StorageFull`: there is not enough space. `Unsupported`: the file system cannot reserve
    /// space.
    fn reserve(&mut self, position: u64, bytes: u64) -> io::Result<()> {
        let file = &self.local()?.file;
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        loop {
            match rustix::fs::fallocate(file, flags, position, bytes) {
                Err(rustix::io::Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Extends the file with zeros to `length` bytes, which must exceed its current length.
    ///
    /// # Errors
    /// `Unsupported`: extending the file has no benefit with this backend. Other kinds are the
    /// system's errors.
    fn extend(&mut self, length: u64) -> io::Result<()> {
        self.local()?.file.set_len(length)
    }

    /// Returns the number of free bytes in the file system, without reserved ones.
    ///
    /// # Errors
    /// `Unsupported`: the file system does not report free space. Other kinds are the system's
    /// errors.
    fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.local()?.file)
    }

    /// Returns the location of the file if the name it was created with no longer refers to it.
    fn moved_file(&self) -> Option<MovedFile> {
        let local = self.local().ok()?;
        local.watched_path.as_ref()?.moved_file(&local.file)
    }

    /// Truncates the file to `length` and frees the space reserved after it. No operation may be
    /// running.
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.local()?.file.set_len(length)
    }
}

pub(crate) fn free_bytes(file: &File) -> io::Result<u64> {
    let stats = rustix::fs::fstatvfs(file)?;
    if stats.f_blocks == 0 {
        // Some user-space file systems report zeros.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(stats.f_bavail.saturating_mul(stats.f_frsize))
}
