//! Checks that the memory for opening a recording of variables does not grow with its updates.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use trunkline_record::{RecordedVariables, series_path};
use trunkline_tdms::{Arrangement, Data, ObjectPath, TdmsTime, Writer, WriterOptions};
use trunkline_types::Timestamp;

thread_local! {
    // Initialised at compile time, so that counting allocates nothing itself.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    // While a thread exits, its counter may already be destroyed; nothing needs to be counted then.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(live.get())));
    });
}

// SAFETY: every call is forwarded unchanged to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Number of updates per file. Their counts alone take 4 MB.
const UPDATES: usize = 1_000_000;

/// Opening a recording reads all counts, piece by piece and, in a series, one file at a time.
///
/// Behaviour: B-72.
#[test]
fn opening_a_recording_takes_no_memory_for_each_update_or_file() {
    const FILES: u32 = 6;
    let folder = tempfile::tempdir().unwrap();
    let path = |number| series_path(folder.path(), "run", number).unwrap();
    let group = ObjectPath::group("rig/axes");
    let times: Vec<_> = (0..UPDATES as i64).map(Timestamp::from_nanos).collect();
    let times: Vec<_> = times.into_iter().map(TdmsTime::from).collect();
    let (counts, elements) = (vec![1_u32; UPDATES], vec![7_u8; UPDATES]);
    for number in 1..=FILES {
        let mut writer = Writer::new(WriterOptions::default());
        writer.set(&group, "variable_type", "array(u8, *)").unwrap();
        if number > 1 {
            let before = u64::from(number - 1) * UPDATES as u64;
            writer.set(&group, "series_row", before).unwrap();
        }
        let data = [
            ("time", Data::from(&*times)),
            ("value", Data::from(&*elements)),
            ("value.count", Data::from(&*counts)),
        ];
        let data = data.map(|(name, data)| {
            let channel = writer.channel("rig/axes", name, data.data_type());
            (channel.unwrap(), data)
        });
        let mut bytes = Vec::new();
        writer
            .write(&data, Arrangement::Contiguous, &mut bytes)
            .unwrap();
        std::fs::write(path(number), bytes).unwrap();
    }
    drop((times, counts, elements));
    let before = LIVE.get();
    MOST.set(before);
    let mut sut = RecordedVariables::open_series(&path(1)).unwrap();
    let updates = u64::from(FILES) * UPDATES as u64;
    assert_eq!(sut.variables()[0].updates, updates);
    let most = MOST.get() - before;
    assert!(most < 1 << 20, "{most} bytes");
    for _ in 0..3 * UPDATES / 2 {
        sut.next_update().unwrap().unwrap();
    }
    let most = MOST.get() - before;
    assert!(most < 3 << 19, "{most} bytes while it is played");
}
