//! Slots that are followed without a lock.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use trunkline_ring::SlotTable;

#[test]
fn slot_keeps_its_content_until_it_is_emptied() {
    let table = SlotTable::new(10_000);
    let mut reader = table.reader();
    assert!(table.get(5_000).is_none());
    assert!(table.set(5_000, Arc::new("level")));
    assert_eq!(table.get(5_000).as_deref(), Some(&"level"));
    assert_eq!(reader.pin().get(5_000), Some(&"level"));
    assert!(!table.remove_if(5_000, |name| **name == "flow"));
    assert!(table.remove_if(5_000, |name| **name == "level"));
    assert!(!table.remove_if(5_000, |_| true));
    assert_eq!(reader.pin().get(5_000), None);
    let is_empty = table.with(5_000, |value| value.is_none());
    assert!(is_empty);
}

#[test]
fn there_is_nothing_beyond_the_slots() {
    let table = SlotTable::new(4096);
    let mut reader = table.reader();
    assert!(!table.set(1 << 40, Arc::new(1)));
    assert!(table.get(usize::MAX).is_none());
    assert!(reader.pin().get(usize::MAX).is_none());
    assert!(!table.remove_if(4096, |_| true));
}

#[test]
fn removed_value_is_kept_until_earlier_readings_finish() {
    let table = SlotTable::new(2);
    let mut before = table.reader();
    let mut after = table.reader();
    let level = Arc::new(1.5);
    let kept: Weak<f64> = Arc::downgrade(&level);
    table.set(1, level);
    let pinned = before.pin();
    let seen = pinned.get(1).unwrap();
    table.remove_if(1, |_| true);
    // One that begins later neither finds it nor keeps it.
    let later = after.pin();
    assert!(later.get(1).is_none());
    table.reclaim();
    assert!(kept.upgrade().is_some());
    assert_eq!(*seen, 1.5);
    drop(pinned);
    assert!(kept.upgrade().is_none(), "the last reader drops it");
    drop(later);
}

#[test]
fn value_removed_without_readers_is_dropped_at_once() {
    let table = SlotTable::new(2);
    let _idle = table.reader();
    let level = Arc::new(1.5);
    let kept = Arc::downgrade(&level);
    table.set(1, level);
    // Filled again without having been emptied: the same.
    table.set(1, Arc::new(2.5));
    table.reclaim();
    assert!(kept.upgrade().is_none());
}

#[test]
fn one_call_drops_a_part_and_reports_if_more_remains() {
    let table = SlotTable::new(200);
    let mut reader = table.reader();
    let values: Vec<Arc<usize>> = (0..200).map(Arc::new).collect();
    let weak: Vec<_> = values.iter().map(Arc::downgrade).collect();
    let left = || weak.iter().filter(|one| one.strong_count() > 0).count();
    for (slot, value) in values.into_iter().enumerate() {
        table.set(slot, value);
    }
    let pinned = reader.pin();
    for slot in 0..200 {
        table.remove_if(slot, |_| true);
    }
    assert!(!table.reclaim());
    assert_eq!(left(), 200);
    drop(pinned);
    assert_eq!(left(), 136, "a reader drops as many at most");
    assert!(table.reclaim());
    assert!(table.reclaim());
    assert!(!table.reclaim());
    assert_eq!(left(), 0);
}

#[test]
fn a_reader_keeps_the_table() {
    let table = SlotTable::new(2);
    let mut reader = table.reader();
    table.set(1, Arc::new(1.5));
    drop(table);
    assert_eq!(reader.pin().get(1), Some(&1.5));
}

/// Its number twice: freed and reused memory has other content, sooner or later.
struct Twice(u64, Box<u64>);

/// The number of existing instances.
static ALIVE: AtomicU64 = AtomicU64::new(0);

impl Drop for Twice {
    fn drop(&mut self) {
        *self.1 = u64::MAX;
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn concurrent_readers_see_whole_values_and_all_removed_are_dropped() {
    const ROUNDS: u64 = 20_000;
    let table = SlotTable::new(4);
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            let mut reader = table.reader();
            let has_ended = &has_ended;
            scope.spawn(move || {
                let mut newest = 0;
                while !has_ended.load(Ordering::Relaxed) {
                    let pinned = reader.pin();
                    for slot in 0..4 {
                        if let Some(Twice(number, twin)) = pinned.get(slot) {
                            assert_eq!(*number, **twin);
                            assert!(slot != 1 || *number >= newest, "a slot goes back");
                            newest = if slot == 1 { *number } else { newest };
                        }
                    }
                }
            });
        }
        for number in 0..ROUNDS {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            let slot = (number % 4) as usize;
            if number % 3 == 0 {
                table.remove_if(slot, |_| true);
            }
            table.set(slot, Arc::new(Twice(number, Box::new(number))));
            if number % 16 == 0 {
                table.reclaim();
            }
        }
        has_ended.store(true, Ordering::Relaxed);
    });
    while table.reclaim() {}
    assert_eq!(ALIVE.load(Ordering::Relaxed), 4);
    drop(table);
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}
