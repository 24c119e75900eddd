//! Memory for headers and the unaligned ends of regions: aligned for direct writes, allocated once.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use rustix::mm::{Advice, madvise};

use crate::backend::Span;

/// Alignment of each place, independent of the disk's block size.
const ALIGN: usize = 4096;

/// The size of a huge page. Allocations of at least this size ask for huge pages: writing from
/// physically contiguous memory costs the kernel and the disk less than writing from scattered
/// pages.
const LARGE_BYTES: usize = 2 << 20;

/// Staging memory with one place for each write that may be outstanding.
#[derive(Debug)]
pub(crate) struct Staging {
    start: NonNull<u8>,
    layout: Layout,
    place_bytes: usize,
}

// SAFETY: the memory belongs to this value alone; writing into it requires `&mut`.
unsafe impl Send for Staging {}
// SAFETY: as above.
unsafe impl Sync for Staging {}

impl Staging {
    /// Allocates `places` places, at least one, of at least `place_bytes` each.
    ///
    /// # Panics
    /// Panics if the total size is not a valid allocation size: a mistake in the options.
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
            // SAFETY: the memory was just allocated, and the advice does not change its contents. A
            // system without huge pages uses normal ones.
            let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        // SAFETY: covers exactly the memory just allocated.
        unsafe { start.write_bytes(0, bytes) };
        Self {
            start,
            layout,
            place_bytes,
        }
    }

    pub(crate) fn place_bytes(&self) -> usize {
        self.place_bytes
    }

    pub(crate) fn span(&self) -> Span {
        Span {
            start: self.start,
            bytes: self.layout.size(),
        }
    }

    /// Returns the memory of a place, which must be below the number of places.
    pub(crate) fn place(&self, place: usize) -> Span {
        self.span().part(place * self.place_bytes, self.place_bytes)
    }

    /// Returns the bytes of a place. No write from this place may be running.
    pub(crate) fn bytes_mut(&mut self, place: usize) -> &mut [u8] {
        let Span { start, bytes } = self.place(place);
        // SAFETY: within the memory, which is initialised and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
