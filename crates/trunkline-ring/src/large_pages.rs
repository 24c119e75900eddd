//! Large pages for private memory.

/// The length of a large page on most systems. A system with longer large pages uses ordinary pages
/// if no large page fits.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Advises the system to use large pages for those parts of `memory` that have no pages yet.
///
/// A large allocation gets its pages when they are first written to, with one page fault for each.
/// With ordinary pages of 4 KiB, these faults take longer than copying the data. Existing pages do
/// not change, so call this directly after the allocation, for instance on `vec![0; len]`, for
/// which the system provides the zeros.
///
/// Only whole large pages within `memory` are advised, so memory below 4 MiB may have none. The
/// contents never change. The advice is valid until the memory is returned to the system. It has no
/// effect if the system has no large pages, or is not Linux.
pub fn advise_large_pages(memory: &mut [u8]) {
    let all = memory.as_mut_ptr_range();
    let skipped = all.start.addr().next_multiple_of(LARGE_PAGE_BYTES) - all.start.addr();
    let bytes = memory.len().saturating_sub(skipped) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    if let Some(whole_pages) = memory.get_mut(skipped..).and_then(|m| m.get_mut(..bytes))
        && !whole_pages.is_empty()
    {
        advise(whole_pages);
    }
}

#[cfg(all(not(loom), target_os = "linux"))]
fn advise(whole_pages: &mut [u8]) {
    use rustix::mm::{Advice, madvise};
    let (start, bytes) = (whole_pages.as_mut_ptr().cast(), whole_pages.len());
    // SAFETY: these pages belong to the slice alone, and the advice does not change their contents.
    // Without large pages the call fails, and the memory remains usable.
    let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
}

#[cfg(not(all(not(loom), target_os = "linux")))]
fn advise(_: &mut [u8]) {}
