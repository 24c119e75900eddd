//! Memory for headers and for the odd ends of regions: aligned for direct writes, made once.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use rustix::mm::{Advice, madvise};

/// Aligned to this whatever the block of the disk is.
const ALIGN: usize = 4096;

/// A large page. From this length on it is asked for such pages: a write of memory that lies in one
/// piece costs the kernel and the disk less than one of scattered pages.
const LARGE_BYTES: usize = 2 << 20;

/// As many places as there may be writes.
#[derive(Debug)]
pub(crate) struct Staging {
    start: NonNull<u8>,
    layout: Layout,
    place_bytes: usize,
}

// SAFETY: memory of this alone; who writes into it has it mutably.
unsafe impl Send for Staging {}
// SAFETY: as above.
unsafe impl Sync for Staging {}

impl Staging {
    /// `places`, at least one, of at least `place_bytes` each.
    ///
    /// # Panics
    /// There is no such memory: a mistake in the options.
    pub(crate) fn new(places: usize, place_bytes: usize) -> Self {
        let place_bytes = place_bytes.max(1).next_multiple_of(ALIGN);
        let bytes = place_bytes.saturating_mul(places.max(1));
        let is_large = bytes >= LARGE_BYTES;
        let layout = Layout::from_size_align(bytes, if is_large { LARGE_BYTES } else { ALIGN });
        assert!(layout.is_ok(), "{bytes} bytes for headers are too many");
        let layout = layout.unwrap_or(Layout::new::<u8>());
        // SAFETY: the size is not 0.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        if is_large {
            // SAFETY: memory that was just made, and the advice changes nothing that lies there. A
            // system without large pages has others.
            let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        // SAFETY: all of what was just made.
        unsafe { start.write_bytes(0, bytes) };
        Self {
            start,
            layout,
            place_bytes,
        }
    }

    /// Bytes of a place.
    pub(crate) fn place_bytes(&self) -> usize {
        self.place_bytes
    }

    /// All of it.
    pub(crate) fn span(&self) -> (NonNull<u8>, usize) {
        (self.start, self.layout.size())
    }

    /// Where a place begins, below the number of places.
    pub(crate) fn place(&self, place: usize) -> NonNull<u8> {
        let at = place * self.place_bytes;
        assert!(at < self.layout.size());
        // SAFETY: within the memory.
        unsafe { self.start.add(at) }
    }

    /// The bytes of a place, which no write is running from.
    pub(crate) fn bytes_mut(&mut self, place: usize) -> &mut [u8] {
        let start = self.place(place);
        // SAFETY: within the memory, which was initialised, and this has it mutably.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.place_bytes) }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
