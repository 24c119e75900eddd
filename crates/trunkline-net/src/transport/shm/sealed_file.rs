//! Anonymous files whose length cannot change, and their mappings into this process.

use std::ffi::CStr;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

/// Seals that fix the length of a file: an access beyond the end of a shortened file would kill the
/// process.
pub(super) const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// Creates a file of zeros, not sealed yet.
pub(super) fn create(name: &CStr, length: u64) -> io::Result<OwnedFd> {
    // Beyond this limit the system would not just refuse, but kill the process.
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < length) {
        let text = "the memory is larger than a file may be; raise `ulimit -f`";
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::ftruncate(&file, length)?;
    Ok(file)
}

/// Returns the length of a file that another process has created, if it has these seals.
pub(super) fn sealed_length(file: &OwnedFd, seals: SealFlags) -> io::Result<usize> {
    if !rustix::fs::fcntl_get_seals(file)?.contains(seals) {
        return Err(unusable("the length of the shared memory is not fixed"));
    }
    Ok(usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0))
}

/// Creates the error for an unsuitable file of another process.
pub(super) fn unusable(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text.to_owned())
}

/// An address range with a mapping. Dropping it removes the mapping.
pub(super) struct Mapped {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: only an address range; code that creates references into it guarantees their validity.
#[allow(unsafe_code)]
unsafe impl Send for Mapped {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `length` bytes of a file whose length is or will be fixed.
    #[allow(unsafe_code, reason = "a mapping is a pointer to memory of the system")]
    pub(super) fn new(file: impl AsFd, length: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the system chooses, so it overlaps nothing of
        // this program.
        let start = unsafe {
            let nowhere = std::ptr::null_mut();
            rustix::mm::mmap(nowhere, length, protection, MapFlags::SHARED, file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Reserves an address range that cannot be accessed before something is mapped into it.
    #[allow(unsafe_code, reason = "a mapping is a pointer to memory of the system")]
    pub(super) fn reserve(length: usize) -> io::Result<Self> {
        // SAFETY: as in `new`.
        let start = unsafe {
            let nowhere = std::ptr::null_mut();
            rustix::mm::mmap_anonymous(nowhere, length, ProtFlags::empty(), MapFlags::PRIVATE)?
        };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Start of the range, at a page.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapped {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the range that this has created, whatever is mapped there. What refers to it
        // keeps this alive.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
