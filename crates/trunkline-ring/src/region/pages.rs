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
        // Before it is touched. A system that cannot do it says so; what it came to is looked up.
        let _ = mapped.advise(Advice::LinuxHugepage);
        mapped.touch()?;
        let bytes = mapped.bytes_in_large_pages().unwrap_or(0);
        Ok((mapped, Pages::Large { bytes }))
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

    fn map(file: OwnedFd, bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new range of addresses at a place of the system's choice, so nothing of this
        // program lies there. The file has that length for ever, because it is sealed.
        let start = unsafe {
            let nowhere = std::ptr::null_mut();
            rustix::mm::mmap(nowhere, bytes, protection, MapFlags::SHARED, &file, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes, file })
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
