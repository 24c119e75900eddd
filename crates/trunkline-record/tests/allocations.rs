//! A recording that runs asks for no memory.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rig::{LONG, assert_prefix, recording, ring, rows};
use trunkline_record::{BackendWanted, Directness, QueueOptions, open_file};

thread_local! {
    // Initialised at compile time, so that counting allocates nothing itself.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    // A thread that is ending has no counter any more, and nothing to check either.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Behaviour: ZC-22.
#[test]
fn after_the_first_regions_nothing_is_allocated() {
    const REGION_ROWS: u64 = 512;
    let folder = tempfile::tempdir().unwrap();
    for (index, wanted) in [BackendWanted::BestThereIs, BackendWanted::PlainWrites]
        .into_iter()
        .enumerate()
    {
        let path = folder.path().join(format!("{index}.tdms"));
        let options = QueueOptions {
            reserve_bytes: 1 << 20,
            ..QueueOptions::default()
        };
        let writes_max = options.writes_max();
        let opened = open_file(&path, wanted, Directness::IfPossible, writes_max).unwrap();
        let mut ring = ring(8 * REGION_ROWS as usize);
        let mut sut = recording(opened.backend, &ring, options);
        let data = rows(0..400 * REGION_ROWS as i64);
        let mut regions = data.chunks_exact(REGION_ROWS as usize * rig::ROW);
        let mut write = |count: usize| {
            for region in regions.by_ref().take(count) {
                while ring.filler.room().unwrap() < REGION_ROWS {
                    sut.poll().unwrap();
                }
                ring.filler.push(region).unwrap();
                sut.write(ring.reader.acquire(REGION_ROWS).unwrap())
                    .unwrap();
                sut.begin_sync().unwrap();
            }
        };
        // The first of a shape are described, and a thread that waits is known to its channels.
        write(100);
        let before = CALLS.get();
        write(300);
        assert_eq!(CALLS.get() - before, 0, "{:?}", opened.report);
        sut.close(LONG).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        assert_prefix(file, 400 * REGION_ROWS, 400 * REGION_ROWS);
    }
}
