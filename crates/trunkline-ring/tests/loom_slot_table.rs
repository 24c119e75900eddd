//! Interleavings of readers that follow slots and a remover: nothing is dropped while a reader can
//! follow it, and everything is dropped in the end.
#![cfg(loom)]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc as Value;

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use trunkline_ring::{SlotReader, SlotTable};

/// Preemptions that the models of three threads go through.
const PREEMPTIONS_MAX: usize = 2;

/// Says when it was dropped.
struct Probe {
    number: u32,
    is_dropped: Arc<AtomicBool>,
}

impl Probe {
    fn new(number: u32) -> (Value<Self>, Arc<AtomicBool>) {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let probe = Self {
            number,
            is_dropped: Arc::clone(&is_dropped),
        };
        (Value::new(probe), is_dropped)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
    }
}

/// Looks twice at slot 1 in one reading. What it found is not dropped before it has ended.
fn look(reader: &mut SlotReader<Probe>) -> Vec<u32> {
    let pinned = reader.pin();
    let mut seen = Vec::new();
    let mut flags = Vec::new();
    for _ in 0..2 {
        if let Some(probe) = pinned.get(1) {
            seen.push(probe.number);
            flags.push(Arc::clone(&probe.is_dropped));
        }
        thread::yield_now();
    }
    for flag in flags {
        assert!(!flag.load(Ordering::Relaxed), "dropped under a reader");
    }
    seen
}

#[test]
fn removed_value_is_dropped_after_its_reader_has_finished() {
    loom::model(|| {
        let table = SlotTable::new(2);
        let (probe, is_dropped) = Probe::new(7);
        assert!(table.set(1, probe));
        let mut reader = table.reader();
        let reading = thread::spawn(move || look(&mut reader));
        assert!(table.remove_if(1, |probe| probe.number == 7));
        table.reclaim();
        let seen = reading.join().unwrap();
        assert!(seen.iter().all(|number| *number == 7));
        // The last one has dropped it, or it is dropped now.
        table.reclaim();
        assert!(is_dropped.load(Ordering::Relaxed));
        assert!(table.get(1).is_none());
    });
}

#[test]
fn reused_slot_has_the_old_value_no_value_or_the_new_one() {
    loom::model(|| {
        let table = SlotTable::new(2);
        let (old, is_old_dropped) = Probe::new(1);
        let (new, is_new_dropped) = Probe::new(2);
        assert!(table.set(1, old));
        let mut reader = table.reader();
        let reading = thread::spawn(move || look(&mut reader));
        assert!(table.remove_if(1, |_| true));
        assert!(table.set(1, new));
        table.reclaim();
        let seen = reading.join().unwrap();
        assert!(seen.is_sorted(), "{seen:?}");
        table.reclaim();
        assert!(is_old_dropped.load(Ordering::Relaxed));
        assert!(!is_new_dropped.load(Ordering::Relaxed));
        drop(table);
        assert!(is_new_dropped.load(Ordering::Relaxed));
    });
}

#[test]
fn two_readers_and_a_count_keep_their_values_alive() {
    let mut model = Builder::new();
    model.preemption_bound = Some(PREEMPTIONS_MAX);
    model.check(|| {
        let table = SlotTable::new(2);
        let (probe, is_dropped) = Probe::new(7);
        assert!(table.set(1, probe));
        let mut reader = table.reader();
        let reading = thread::spawn(move || look(&mut reader));
        let counting = {
            let table = table.clone();
            thread::spawn(move || {
                let mut reader = table.reader();
                drop(look(&mut reader));
                table.get(1)
            })
        };
        assert!(table.remove_if(1, |_| true));
        table.reclaim();
        reading.join().unwrap();
        let counted = counting.join().unwrap();
        table.reclaim();
        assert_eq!(is_dropped.load(Ordering::Relaxed), counted.is_none());
        drop(counted);
        assert!(is_dropped.load(Ordering::Relaxed));
    });
}
