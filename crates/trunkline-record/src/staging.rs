//! Memory for headers and the unaligned ends of regions: aligned for direct writes, allocated once.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use rustix::mm::{Advice, madvise};

use crate::backend::Span;

/// Alignment of each slot, independent of the disk's block size.
const ALIGN: usize = 4096;

/// The size of a huge page. Allocations of at least this size ask for huge pages: writing from
/// physically contiguous memory costs the kernel and the disk less than writing from scattered
/// pages.
const LARGE_BYTES: usize = 2 << 20;

/// Staging memory with one slot for each write that may be outstanding.
#[derive(Debug)]
pub(crate) struct Staging {
    start: NonNull<u8>,
    layout: Layout,
    slot_bytes: usize,
}

// SAFETY: the memory belongs to this value alone; writing into it requires `&mut`.
unsafe impl Send for Staging {}
// SAFETY: as above.
unsafe impl Sync for Staging {}

impl Staging {
    /// Allocates `slots` slots, at least one, of at least `slot_bytes` each.
    ///
    /// # Panics
    /// Panics if the total size is not a valid allocation size: a mistake in the options.
    pub(crate) fn new(slots: usize, slot_bytes: usize) -> Self {
        let slot_bytes = slot_bytes.max(1).next_multiple_of(ALIGN);
        let bytes = slot_bytes.saturating_mul(slots.max(1));
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
            slot_bytes,
        }
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    pub(crate) fn span(&self) -> Span {
        Span {
            start: self.start,
            bytes: self.layout.size(),
        }
    }

    /// Returns the memory of a slot, which must be below the number of slots.
    pub(crate) fn slot(&self, slot: usize) -> Span {
        self.span().part(slot * self.slot_bytes, self.slot_bytes)
    }

    /// Returns the bytes of a slot. No write from this slot may be running.
    pub(crate) fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        let Span { start, bytes } = self.slot(slot);
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
