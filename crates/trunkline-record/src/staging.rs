//! Provides aligned memory for direct writes of headers and of the unaligned ends of regions.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use rustix::mm::{Advice, madvise};

use crate::backend::Span;

/// Alignment of each slot in bytes, independent of the disk's block size.
const ALIGNMENT_BYTES: usize = 4096;

/// Size of a huge page in bytes. Allocations of at least this size ask for huge pages: writing from
/// physically contiguous memory costs the kernel and the disk less than writing from scattered
/// pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Staging memory, allocated once, with one slot for each outstanding write or read.
#[derive(Debug)]
pub(crate) struct Staging {
    start: NonNull<u8>,
    layout: Layout,
    slot_bytes: usize,
}

// SAFETY: the memory belongs to this value alone; writing into it requires `&mut`.
unsafe impl Send for Staging {}
// SAFETY: a shared reference gives no write access to the memory.
unsafe impl Sync for Staging {}

impl Staging {
    /// Allocates `slots` slots, at least one, of at least `slot_bytes` each.
    ///
    /// # Panics
    /// Panics if the options ask for more memory than one allocation can have.
    pub(crate) fn new(slots: usize, slot_bytes: usize) -> Self {
        let slot_bytes = slot_bytes.max(1).next_multiple_of(ALIGNMENT_BYTES);
        let bytes = slot_bytes.saturating_mul(slots.max(1));
        let is_large = bytes >= HUGE_PAGE_BYTES;
        let layout = Layout::from_size_align(
            bytes,
            if is_large {
                HUGE_PAGE_BYTES
            } else {
                ALIGNMENT_BYTES
            },
        );
        assert!(
            layout.is_ok(),
            "cannot allocate {bytes} bytes of staging memory; reduce the number or the size of the \
             outstanding operations"
        );
        let layout = layout.unwrap_or(Layout::new::<u8>());
        // SAFETY: the size of the layout is not 0.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        if is_large {
            // SAFETY: the memory was just allocated, and the advice does not change its contents. A
            // system without huge pages uses normal ones.
            let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        // SAFETY: the memory was just allocated with exactly this size.
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
        // SAFETY: the slot lies within the memory, which is initialised and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the memory with this layout, and only this call frees it.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
