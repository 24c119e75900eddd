//! Memory of the system for a ring, in as large pages as there are.

use std::ffi::c_void;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::param::page_size;

/// A huge page, where the system has one of another size it is asked for in this one.
const HUGE_BYTES: usize = 2 << 20;

/// Asks for large pages in place of the ones that are there, even where shared memory has none by
/// itself (Linux 6.1; `madvise(2)`). Not every C library that is linked has the name.
const MADV_COLLAPSE: libc::c_int = 25;

/// Nobody can make the file shorter, which would kill whoever touches what is gone.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// Which pages a ring is to be made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PagesWanted {
    /// Huge pages set aside by the administrator; else large pages as the system finds them; else
    /// ordinary ones. [`RegionMemory::pages`](super::RegionMemory::pages) says which it came to.
    #[default]
    LargestThereAre,
    /// Huge pages set aside by the administrator, and nothing else.
    Huge,
    /// Ordinary ones.
    Ordinary,
}

/// Which pages a ring is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Pages {
    /// Huge pages set aside by the administrator.
    Huge,
    /// The system was asked for large pages and gave them to this many bytes, when the memory was
    /// made.
    Large {
        /// Bytes in large pages. 0: the system has none, or is not allowed to use them.
        bytes: u64,
    },
    /// Ordinary ones, as wanted.
    Ordinary,
    /// Made by another process, which knows.
    OfAnother,
}

/// A mapping of a sealed file without a name.
pub(super) struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
    pub(super) file: OwnedFd,
}

// SAFETY: an address and a length; what lies there is for who has the mapping to guard.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// New memory of zeroes, at least `bytes`, all of it there.
    pub(super) fn create(bytes: usize, wanted: PagesWanted) -> io::Result<(Self, Pages)> {
        if wanted != PagesWanted::Ordinary {
            match Self::of_huge_pages(bytes) {
                Ok(mapped) => return Ok((mapped, Pages::Huge)),
                Err(error) if wanted == PagesWanted::Huge => return Err(no_huge_pages(error)),
                // There are none, or too few: the next best, and `Pages` says so.
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

    /// Before it is touched. What cannot be done is not done: [`Pages`] has what it came to.
    fn ask_for_large_pages(&self) {
        let all = self.start.as_ptr().cast::<c_void>();
        // Some systems give them to shared memory when they are advised to.
        // SAFETY: the whole of this mapping; the advice changes nothing of what lies in it.
        let _ = unsafe { rustix::mm::madvise(all, self.bytes, Advice::LinuxHugepage) };
        // Most do not, and make large pages only of memory that is there. A page of each is enough,
        // and where there is nothing the large page has zeroes.
        for at in (0..self.bytes).step_by(HUGE_BYTES) {
            let first_bytes = page_size().min(self.bytes - at);
            // SAFETY: within this mapping, at a page; what lies there does not change.
            let touched = unsafe {
                let first = self.start.add(at).as_ptr().cast::<c_void>();
                rustix::mm::madvise(first, first_bytes, Advice::LinuxPopulateWrite)
            };
            if touched.is_err() {
                return;
            }
        }
        // SAFETY: the whole of this mapping, which nobody has yet; its bytes stay what they are.
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

    /// The memory behind a file of another process.
    pub(super) fn accept(file: OwnedFd) -> io::Result<Self> {
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SEALS) {
            return Err(not_ours("its length can be changed"));
        }
        let bytes = usize::try_from(rustix::fs::fstat(&file)?.st_size);
        let bytes = bytes.map_err(|_| not_ours("it is longer than there are addresses"))?;
        Self::map(file, bytes)
    }

    /// Maps it where a large page may begin, without which the system uses none.
    fn map(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        let block_bytes = usize::try_from(rustix::fs::fstat(&file)?.st_blksize).unwrap_or(0);
        let start = match block_bytes > page_size() {
            // The system knows by itself where pages of this file may begin.
            true => Self::map_anywhere(&file, bytes)?,
            false => Self::map_aligned(&file, bytes)?,
        };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes, file })
    }

    fn map_anywhere(file: &OwnedFd, bytes: usize) -> io::Result<*mut c_void> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let nowhere = std::ptr::null_mut();
        // SAFETY: a new range of addresses at a place of the system's choice, so nothing of this
        // program lies there. The file has that length for ever, because it is sealed.
        Ok(unsafe { rustix::mm::mmap(nowhere, bytes, protection, MapFlags::SHARED, file, 0)? })
    }

    fn map_aligned(file: &OwnedFd, bytes: usize) -> io::Result<*mut c_void> {
        let length = round_up(bytes, page_size())?;
        // SAFETY: as above. It only keeps addresses free: nobody can touch it.
        let first = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let nowhere = std::ptr::null_mut();
            rustix::mm::mmap_anonymous(nowhere, length + HUGE_BYTES, ProtFlags::empty(), flags)?
        };
        let before = first.addr().next_multiple_of(HUGE_BYTES) - first.addr();
        // SAFETY: within the range that was just made, which nobody else knows. Where the file is
        // not mapped the addresses between may be somebody else's already, so they stay as they
        // are; the ends are this function's own still, and are given back.
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

    /// Makes all of it be there: what there is no memory for is told here, and not by a signal when
    /// it is used.
    fn touch(&self) -> io::Result<()> {
        match self.advise(Advice::LinuxPopulateWrite) {
            // A system that cannot do that.
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
        // SAFETY: the whole of this mapping; neither advice changes what lies in it.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast::<c_void>(), self.bytes, advice) }
    }

    /// Bytes of it that are mapped by large pages, as the system tells.
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
        // SAFETY: the range that `map` made; who has this keeps it until nobody has a pointer into
        // it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

fn round_up(bytes: usize, to: usize) -> io::Result<usize> {
    let rounded = bytes.checked_next_multiple_of(to);
    rounded
        .filter(|bytes| *bytes < isize::MAX as usize / 4)
        .ok_or(ErrorKind::OutOfMemory.into())
}

pub(super) fn not_ours(text: &str) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("this is not the memory of a ring of regions: {text}"),
    )
}

fn no_huge_pages(error: io::Error) -> io::Error {
    let text = format!(
        "there are not enough huge pages set aside ({error}); set vm.nr_hugepages, or take the \
         largest pages there are"
    );
    io::Error::new(error.kind(), text)
}
