//! System memory for a ring, in the largest pages available.

use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::param::page_size;

/// Size of a huge page. This size is requested even if the system's default size is different.
const HUGE_BYTES: usize = 2 << 20;

/// Advice that requests large pages in place of existing pages, even if the system does not use
/// them for shared memory by default (Linux 6.1; `madvise(2)`). Not every C library defines this
/// constant.
const MADV_COLLAPSE: libc::c_int = 25;

/// Seals that fix the length of the file: an access beyond the end of a shortened file would kill
/// the process.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// The kind of pages requested for a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PagesWanted {
    /// Huge pages reserved by the administrator if available, otherwise large pages if the system
    /// provides them, otherwise ordinary pages. [`RegionMemory::pages`](super::RegionMemory::pages)
    /// returns the kind obtained.
    #[default]
    LargestAvailable,
    /// Only huge pages reserved by the administrator.
    Huge,
    Ordinary,
}

/// The kind of pages that a ring consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Huge pages reserved by the administrator.
    Huge,
    /// Large pages were requested from the system, which provided them for this many bytes when the
    /// memory was created.
    Large {
        /// Number of bytes in large pages; 0 if the system has none or may not use them.
        bytes: u64,
    },
    /// Ordinary pages, as requested.
    Ordinary,
    /// Created by another process; only that process knows the kind.
    UnknownOfPeer,
}

/// A mapping of a sealed anonymous file.
pub(super) struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
    pub(super) file: OwnedFd,
}

// SAFETY: an address and a length; the owner of the mapping guards access to the memory behind
// them.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Allocates zeroed memory of at least `bytes`, all of it present.
    pub(super) fn create(bytes: usize, wanted: PagesWanted) -> io::Result<(Self, Pages)> {
        if wanted != PagesWanted::Ordinary {
            match Self::of_huge_pages(bytes) {
                Ok(mapped) => return Ok((mapped, Pages::Huge)),
                Err(error) if wanted == PagesWanted::Huge => return Err(no_huge_pages(error)),
                // There are no huge pages, or too few: fall back to the next best kind, which
                // `Pages` reports.
                Err(_) => {}
            }
        }
        let bytes = round_up(bytes, page_size())?;
        let mapped = Self::of_new_file(bytes, MemfdFlags::empty())?;
        if wanted == PagesWanted::Ordinary {
            mapped.touch()?;
            return Ok((mapped, Pages::Ordinary));
        }
        mapped.ask_for_large_pages();
        mapped.touch()?;
        let bytes = mapped.bytes_in_large_pages().unwrap_or(0);
        Ok((mapped, Pages::Large { bytes }))
    }

    /// Requests large pages. Must be called before the memory is touched. Failures are ignored,
    /// because [`Pages`] contains the result.
    fn ask_for_large_pages(&self) {
        let all = self.start.as_ptr().cast::<c_void>();
        // Some systems use large pages for shared memory if they are advised to.
        // SAFETY: the whole of this mapping; the advice does not change its contents.
        let _ = unsafe { rustix::mm::madvise(all, self.bytes, Advice::LinuxHugepage) };
        // Most systems do not, and create large pages only from memory that is present. One
        // ordinary page in each large page is enough: the rest of the large page is filled with
        // zeros.
        for at in (0..self.bytes).step_by(HUGE_BYTES) {
            let first_bytes = page_size().min(self.bytes - at);
            // SAFETY: within this mapping, at a page boundary; the contents do not change.
            let touched = unsafe {
                let first = self.start.add(at).as_ptr().cast::<c_void>();
                rustix::mm::madvise(first, first_bytes, Advice::LinuxPopulateWrite)
            };
            if touched.is_err() {
                return;
            }
        }
        // SAFETY: the whole of this mapping, which nothing else uses yet; its bytes do not change.
        unsafe { libc::madvise(all, self.bytes, MADV_COLLAPSE) };
    }

    fn of_huge_pages(bytes: usize) -> io::Result<Self> {
        let bytes = round_up(bytes, HUGE_BYTES)?;
        let mapped = Self::of_new_file(bytes, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)?;
        mapped.touch()?;
        Ok(mapped)
    }

    fn of_new_file(bytes: usize, flags: MemfdFlags) -> io::Result<Self> {
        let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(c"trunkline-regions", flags)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&file, SEALS)?;
        Self::map(file, bytes)
    }

    /// Maps a file created by another process.
    pub(super) fn accept(file: OwnedFd) -> io::Result<Self> {
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SEALS) {
            return Err(invalid_memory("its length can be changed"));
        }
        let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size);
        let bytes = bytes.map_err(|_| invalid_memory("it is larger than the address space"))?;
        Self::map(file, bytes)
    }

    /// Maps the file at an address at which a large page can begin; at other addresses, the system
    /// uses no large pages.
    fn map(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        let block_bytes = usize::try_from(rustix::fs::fstat(&file)?.st_blksize).unwrap_or(0);
        let start = match block_bytes > page_size() {
            // The system itself aligns the mapping for the pages of this file.
            true => Self::map_anywhere(&file, bytes)?,
            false => Self::map_aligned(&file, bytes)?,
        };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes, file })
    }

    fn map_anywhere(file: &OwnedFd, bytes: usize) -> io::Result<*mut c_void> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let nowhere = std::ptr::null_mut();
        // SAFETY: a new address range that the system chooses, so it overlaps nothing of this
        // program. The length of the file cannot change, because it is sealed.
        Ok(unsafe { rustix::mm::mmap(nowhere, bytes, protection, MapFlags::SHARED, file, 0)? })
    }

    fn map_aligned(file: &OwnedFd, bytes: usize) -> io::Result<*mut c_void> {
        let length = round_up(bytes, page_size())?;
        // SAFETY: as above. This mapping only reserves addresses: they cannot be accessed.
        let first = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let nowhere = std::ptr::null_mut();
            rustix::mm::mmap_anonymous(nowhere, length + HUGE_BYTES, ProtFlags::empty(), flags)?
        };
        let before = first.addr().next_multiple_of(HUGE_BYTES) - first.addr();
        // SAFETY: within the range just reserved, which no other code knows. Addresses in it that
        // the file mapping may have released, if it failed, can belong to another mapping already,
        // so they are left alone. The ends still belong to this function and are unmapped.
        unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            let start = first.byte_add(before);
            let mapped = rustix::mm::mmap(start, bytes, protection, flags, file, 0);
            if before > 0 {
                let _ = rustix::mm::munmap(first, before);
            }
            let _ = rustix::mm::munmap(start.byte_add(length), HUGE_BYTES - before);
            Ok(mapped?)
        }
    }

    /// Makes all pages present, so that a lack of memory causes an error here and not a signal at
    /// first use.
    fn touch(&self) -> io::Result<()> {
        match self.advise(Advice::LinuxPopulateWrite) {
            // The system does not support this advice.
            Err(Errno::INVAL) => {
                let flags = FallocateFlags::empty();
                Ok(rustix::fs::fallocate(
                    &self.file,
                    flags,
                    0,
                    self.bytes as u64,
                )?)
            }
            done => Ok(done?),
        }
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the whole of this mapping; neither advice changes its contents.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast::<c_void>(), self.bytes, advice) }
    }

    /// Returns the number of bytes of this mapping in large pages, as reported by the system.
    fn bytes_in_large_pages(&self) -> Option<u64> {
        let first = format!("{:x}-", self.start.as_ptr().addr());
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let of_this = maps.lines().skip_while(|line| !line.starts_with(&first));
        let line = of_this
            .skip(1)
            .find_map(|line| line.strip_prefix("ShmemPmdMapped:"))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the range that `map` created; the owner keeps it until no pointer into it is
        // left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

fn round_up(bytes: usize, to: usize) -> io::Result<usize> {
    let rounded = bytes.checked_next_multiple_of(to);
    rounded
        .filter(|bytes| *bytes < isize::MAX as usize / 4)
        .ok_or(ErrorKind::OutOfMemory.into())
}

pub(super) fn invalid_memory(text: &str) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("the file is not the memory of a ring of regions: {text}"),
    )
}

fn no_huge_pages(error: io::Error) -> io::Error {
    let text = format!(
        "too few huge pages are reserved ({error}); raise vm.nr_hugepages, or allow smaller pages"
    );
    io::Error::new(error.kind(), text)
}
