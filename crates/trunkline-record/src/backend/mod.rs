//! What a queue writes or reads with: one open file, several writes or reads at a time.

mod choice;
mod opening;
mod plain;
mod sim_disk;
mod uring;

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::time::Duration;

pub use self::choice::{BackendWanted, Directness, FileReport, OpenedFile, WhyNot, open_file};
pub(crate) use self::opening::check_regular;
pub use self::opening::{FileToRead, open_to_read};
pub use self::plain::PlainWrites;
pub use self::sim_disk::{SimDisk, SimFault};
pub use self::uring::Uring;
use crate::place::Displaced;

/// Which backend it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BackendKind {
    /// io_uring, from registered memory.
    Uring,
    /// One call of the system after the other, in a thread.
    PlainWrites,
    /// A disk of a test.
    Simulated,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring => "io_uring",
            Self::PlainWrites => "plain writes and reads",
            Self::Simulated => "simulated disk",
        })
    }
}

/// What a completion belongs to; the caller's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

/// Memory, which may be another program's too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Where it begins.
    pub start: NonNull<u8>,
    /// Its bytes.
    pub bytes: usize,
}

// SAFETY: an address and a length; who follows it answers for that.
unsafe impl Send for Span {}

/// One write at a place of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// Comes back with its completion.
    pub token: Token,
    /// Where in the file.
    pub position: u64,
    /// What.
    pub memory: Span,
}

/// One read at a place of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// Comes back with its completion.
    pub token: Token,
    /// Where in the file.
    pub position: u64,
    /// Where to.
    pub memory: Span,
}

/// A write, a read or a sync that is over.
#[derive(Debug)]
pub struct Completed {
    /// Of the write, the read or the sync.
    pub token: Token,
    /// Bytes that were written or read, which may be fewer than were to be; 0 for a sync, and for a
    /// read at the end of the file.
    pub result: io::Result<usize>,
}

/// How long to wait for a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until [`Backend::now`] is this.
    Until(Duration),
}

/// One open file that is written or read asynchronously. Completions come in any order.
///
/// Dropping it waits until nothing is running any more.
pub trait Backend: Send + fmt::Debug {
    /// Which it is.
    fn kind(&self) -> BackendKind;

    /// What addresses, positions and lengths of writes are multiples of; 1 where they need not be.
    fn block_bytes(&self) -> usize;

    /// Time by which waits are bounded.
    fn now(&self) -> Duration;

    /// Says which memory will be written from or read into, once, before anything is. None: it is
    /// registered with the kernel, or that is of no use here; else why not, and each write or read
    /// registers its own.
    ///
    /// # Safety
    /// The memory stays mapped for as long as this backend lives.
    unsafe fn register(&mut self, memory: &[Span]) -> Option<WhyNot>;

    /// Begins a write.
    ///
    /// # Errors
    /// What the system says; it has not begun then.
    ///
    /// # Safety
    /// The memory stays mapped until its completion has come, or until this backend is dropped.
    unsafe fn submit(&mut self, write: Write) -> io::Result<()>;

    /// Begins a read.
    ///
    /// # Errors
    /// What the system says; it has not begun then.
    ///
    /// # Safety
    /// The memory stays mapped, and nobody else reads or writes it, until its completion has come,
    /// or until this backend is dropped.
    unsafe fn submit_read(&mut self, read: Read) -> io::Result<()>;

    /// Begins an `fdatasync` of what has been written by now.
    ///
    /// # Errors
    /// What the system says; it has not begun then.
    fn submit_sync(&mut self, token: Token) -> io::Result<()>;

    /// The next completion; none where nothing has come in time.
    ///
    /// # Errors
    /// What the system says.
    fn completed(&mut self, wait: Wait) -> io::Result<Option<Completed>>;

    /// Sets room on the disk aside, without making the file longer.
    ///
    /// # Errors
    /// `StorageFull`: there is none. `Unsupported`: this file system has no such thing.
    fn reserve(&mut self, position: u64, bytes: u64) -> io::Result<()>;

    /// Makes the file `length` bytes long, which is more than it has, with zeros at the end.
    ///
    /// # Errors
    /// `Unsupported`: nothing is gained by it here. Or what the system says.
    fn lengthen(&mut self, length: u64) -> io::Result<()> {
        let _ = length;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Bytes that the file system has left, without those that are set aside.
    ///
    /// # Errors
    /// `Unsupported`: it does not say. Or what the system says.
    fn room(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Where the file is, if the name it was made with no longer leads to it.
    fn displaced(&self) -> Option<Displaced> {
        None
    }

    /// Cuts the file off at `length`, and gives back what is reserved behind it. Nothing is running
    /// then.
    ///
    /// # Errors
    /// What the system says.
    fn trim(&mut self, length: u64) -> io::Result<()>;
}

impl Backend for Box<dyn Backend> {
    fn kind(&self) -> BackendKind {
        (**self).kind()
    }

    fn block_bytes(&self) -> usize {
        (**self).block_bytes()
    }

    fn now(&self) -> Duration {
        (**self).now()
    }

    unsafe fn register(&mut self, memory: &[Span]) -> Option<WhyNot> {
        // SAFETY: as the caller vouches.
        unsafe { (**self).register(memory) }
    }

    unsafe fn submit(&mut self, write: Write) -> io::Result<()> {
        // SAFETY: as the caller vouches.
        unsafe { (**self).submit(write) }
    }

    unsafe fn submit_read(&mut self, read: Read) -> io::Result<()> {
        // SAFETY: as the caller vouches.
        unsafe { (**self).submit_read(read) }
    }

    fn submit_sync(&mut self, token: Token) -> io::Result<()> {
        (**self).submit_sync(token)
    }

    fn completed(&mut self, wait: Wait) -> io::Result<Option<Completed>> {
        (**self).completed(wait)
    }

    fn reserve(&mut self, position: u64, bytes: u64) -> io::Result<()> {
        (**self).reserve(position, bytes)
    }

    fn lengthen(&mut self, length: u64) -> io::Result<()> {
        (**self).lengthen(length)
    }

    fn room(&self) -> io::Result<u64> {
        (**self).room()
    }

    fn displaced(&self) -> Option<Displaced> {
        (**self).displaced()
    }

    fn trim(&mut self, length: u64) -> io::Result<()> {
        (**self).trim(length)
    }
}

/// As [`Backend::reserve`], for a file of this machine.
fn reserve(file: &std::fs::File, position: u64, bytes: u64) -> io::Result<()> {
    let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
    loop {
        match rustix::fs::fallocate(file, flags, position, bytes) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// As [`Backend::room`], for a file of this machine.
pub(crate) fn room(file: &std::fs::File) -> io::Result<u64> {
    let told = rustix::fs::fstatvfs(file)?;
    if told.f_blocks == 0 {
        // Some file systems of programs answer with zeros.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}
