//! The table of last values, and its readers' behaviour with arbitrary memory.
#![cfg(not(loom))]
// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use trunkline_ring::{
    TABLE_SLOT_BYTES, TABLE_VALUE_BYTES, TableEntry, TableMemory, TableReader, TableSlot,
    TableValue, TableWriter, value_table,
};

const WORDS: usize = TABLE_SLOT_BYTES / 8;
const SLOTS: usize = 3;

fn value(number: u64) -> TableValue {
    TableValue {
        sequence: number,
        source_timestamp: number as i64 * 3,
        engine_timestamp: number as i64 * 5,
        quality: number as u32,
        writer: !number as u32,
        value: [number, number * 7, number * 11],
        length: TABLE_VALUE_BYTES,
    }
}

/// Memory whose words a test reaches past the two ends.
#[repr(C, align(128))]
struct Tampered([AtomicU64; SLOTS * WORDS]);

fn tampered() -> (Arc<Tampered>, TableWriter, TableReader) {
    let words = Arc::new(Tampered(std::array::from_fn(|_| AtomicU64::new(0))));
    let memory = || {
        let start = NonNull::from(words.0.as_slice()).cast::<TableSlot>();
        // SAFETY: aligned memory for this number of slots, kept by the owner; all words are
        // atomics.
        #[allow(unsafe_code)]
        unsafe {
            TableMemory::from_raw(start, SLOTS, words.clone())
        }
    };
    assert!(memory().reader().is_none(), "nobody has made a table yet");
    let writer = memory().writer();
    let reader = memory().reader().expect("a table");
    (words, writer, reader)
}

#[test]
fn the_last_store_is_read() {
    let (writer, reader) = value_table(SLOTS);
    assert_eq!((writer.end(), reader.end()), (SLOTS, SLOTS));
    assert_eq!(reader.read(1, 0), None, "nothing was stored");
    for number in 1..=5 {
        writer.store(1, 0, &TableEntry::Value(value(number)));
        assert_eq!(reader.read(1, 0), Some(TableEntry::Value(value(number))));
    }
    assert_eq!(reader.read(2, 0), None, "that is another slot");
    for entry in [TableEntry::Elsewhere, TableEntry::Gone] {
        writer.store(1, 0, &entry);
        assert_eq!(reader.read(1, 0), Some(entry));
    }
    for index in [0, SLOTS, usize::MAX] {
        writer.store(index, 0, &TableEntry::Gone);
        assert_eq!(reader.read(index, 0), None, "no slot of a variable");
    }
    assert!(reader.is_current());
}

#[test]
fn bytes_are_the_bytes_of_the_words() {
    let mut short = value(1);
    (short.value, short.length) = ([0x0403_0201, 0, 0], 4);
    let (writer, reader) = value_table(SLOTS);
    writer.store(2, 0, &TableEntry::Value(short));
    let Some(TableEntry::Value(read)) = reader.read(2, 0) else {
        panic!("no value");
    };
    assert_eq!(read.bytes()[..read.length], [1, 2, 3, 4]);
}

/// A table that has ended holds nothing that could be taken for the last value.
#[test]
fn ended_table_returns_no_values() {
    let (writer, reader) = value_table(SLOTS);
    writer.store(1, 0, &TableEntry::Value(value(1)));
    writer.finish();
    assert!(!reader.is_current());
    assert_eq!(reader.read(1, 0), None);
}

/// A writer that is killed in the middle of a store has changed one half and not published it.
#[test]
fn interrupted_store_leaves_the_previous_value() {
    for cut in 0..=7 {
        let (words, writer, reader) = tampered();
        for number in 1..=4 {
            writer.store(1, 0, &TableEntry::Value(value(number)));
            // The half that the next store begins with: that of `number + 1`.
            let half = if number % 2 == 1 { 1 } else { 8 };
            for word in 0..cut {
                words.0[WORDS + half + word].store(u64::MAX, Ordering::Relaxed);
            }
            assert_eq!(reader.read(1, 0), Some(TableEntry::Value(value(number))));
        }
    }
}

/// Readers copy while a thread stores without a pause.
#[test]
fn readers_get_whole_values_in_order() {
    let (writer, reader) = value_table(2);
    let (writer, over) = (Arc::new(writer), Arc::new(AtomicBool::new(false)));
    let stores = {
        let (writer, over) = (Arc::clone(&writer), Arc::clone(&over));
        thread::spawn(move || {
            for number in 1..=200_000 {
                writer.store(1, 0, &TableEntry::Value(value(number)));
            }
            over.store(true, Ordering::Release);
        })
    };
    let mut last = 0;
    while !over.load(Ordering::Acquire) {
        if let Some(entry) = reader.read(1, 0) {
            let TableEntry::Value(read) = entry else {
                panic!("{entry:?} was never stored");
            };
            assert_eq!(read, value(read.sequence), "torn");
            assert!(read.sequence >= last, "went back");
            last = read.sequence;
        }
    }
    stores.join().unwrap();
    assert_eq!(reader.read(1, 0), Some(TableEntry::Value(value(200_000))));
}

proptest! {
    /// With any content, changed at any time: a read ends, and returns nothing that does not fit
    /// its answer.
    #[test]
    fn any_content_is_read(content in prop::collection::vec(any::<u64>(), SLOTS * WORDS)) {
        let (words, _writer, reader) = tampered();
        for (index, word) in content.iter().enumerate() {
            words.0[index].store(*word, Ordering::Relaxed);
        }
        for current in [content[1], 1] {
            words.0[1].store(current, Ordering::Relaxed);
            for index in 0..=SLOTS {
                if let Some(TableEntry::Value(read)) = reader.read(index, 0) {
                    prop_assert!(read.length <= TABLE_VALUE_BYTES);
                    prop_assert!(current == 1 && index > 0 && index < SLOTS);
                }
            }
        }
    }

    /// The last store into each slot is the one that is read.
    #[test]
    fn slots_do_not_disturb_each_other(
        stores in prop::collection::vec((1..SLOTS, any::<u32>(), 0..4_u8), 0..40),
    ) {
        let (writer, reader) = value_table(SLOTS);
        let mut expected = [None; SLOTS];
        for (index, number, kind) in stores {
            let entry = match kind {
                0 => TableEntry::Elsewhere,
                1 => TableEntry::Gone,
                _ => TableEntry::Value(value(u64::from(number))),
            };
            writer.store(index, 0, &entry);
            expected[index] = Some(entry);
            for (index, entry) in expected.iter().enumerate() {
                prop_assert_eq!(reader.read(index, 0), *entry);
            }
        }
    }
}
