//! Checks that a running recording allocates no memory.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use rig::{LONG, assert_prefix, layout, ring, rows};
use trunkline_record::{
    BackendChoice, CacheMode, Copying, Durability, QueueOptions, TdmsRecording, tdms_queue,
};

thread_local! {
    // Initialised at compile time, so that counting allocates nothing itself.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    // While a thread exits, its counter may already be destroyed; nothing needs to be counted then.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is forwarded unchanged to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Behaviour: ZC-22.
#[test]
fn nothing_is_allocated_after_the_first_regions() {
    const REGION_ROWS: u64 = 512;
    let folder = tempfile::tempdir().unwrap();
    // Regions written in place, with checksums, and collected.
    for (index, (wanted, has_sums, odd_rows)) in [
        (BackendChoice::BestAvailable, false, 0),
        (BackendChoice::PlainWrites, false, 0),
        (BackendChoice::BestAvailable, true, 0),
        (BackendChoice::PlainWrites, true, 0),
        (BackendChoice::BestAvailable, true, 5),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("{index}.tdms"));
        let options = QueueOptions {
            reserve_bytes: 1 << 20,
            // Collect by size alone, because a segment with a different number of rows needs a new
            // description.
            copying: (odd_rows > 0).then(|| Copying {
                age_max: Duration::MAX,
                segment_bytes: 8 * REGION_ROWS as usize * rig::ROW,
                ..Copying::default()
            }),
            has_sums,
            ..rig::options()
        };
        let mut ring = ring(8 * REGION_ROWS as usize);
        let memories = vec![ring.memory.clone()];
        let queue = tdms_queue(&path, wanted, CacheMode::PreferDirect, options, memories);
        let (queue, report) = queue.unwrap();
        let mut sut = TdmsRecording::start(queue, &layout(), LONG).unwrap();
        let data = rows(0..400 * REGION_ROWS as i64);
        let mut regions = data.chunks_exact(REGION_ROWS as usize * rig::ROW);
        let mut write = |sut: &mut TdmsRecording, count: usize| {
            for region in regions.by_ref().take(count) {
                while ring.filler.room().unwrap() < REGION_ROWS {
                    sut.poll().unwrap();
                }
                ring.filler.push(region).unwrap();
                for count in [odd_rows, REGION_ROWS - odd_rows] {
                    if count > 0 {
                        sut.write(ring.reader.acquire(count).unwrap()).unwrap();
                    }
                }
                sut.begin_sync().unwrap();
            }
        };
        // The first segments of each shape allocate their description, and a thread allocates when
        // it first waits for a channel.
        write(&mut sut, 104);
        sut.flush(Durability::OnDisk, LONG).unwrap();
        let before = CALLS.get();
        write(&mut sut, 296);
        assert_eq!(CALLS.get() - before, 0, "case {index}: {report:?}");
        sut.close(LONG).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        assert_prefix(file, 400 * REGION_ROWS, 400 * REGION_ROWS);
    }
}
