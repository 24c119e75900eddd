//! A client allocates nothing while updates stream in and are taken.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![allow(unsafe_code, reason = "counting allocations needs a custom allocator")]
#![allow(
    dead_code,
    unused_imports,
    reason = "the rig is for the tests of every verb"
)]

#[path = "client/rig/mod.rs"]
mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rig::{Rig, WALL};
use trunkline_client::{Batch, Event, SubscriptionId};
use trunkline_proto::Endpoint;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::updates::UpdatesBuilder;
use trunkline_types::{Quality, Timestamp, Value};

thread_local! {
    /// Calls of this thread that asked for memory.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; the counter is a plain cell
// of the calling thread, which allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, that is from the system, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Updates in a frame; twice around all items, so that `latest` coalesces half of them.
const RECORDS: u64 = 2 * ITEMS;
const ITEMS: u64 = 500;

/// How the program takes pending readings.
type Take = fn(&mut Rig, SubscriptionId, &mut Batch, &mut Vec<Event>) -> usize;

fn by_batch(rig: &mut Rig, id: SubscriptionId, batch: &mut Batch, _: &mut Vec<Event>) -> usize {
    let mut readings = 0;
    while rig.client.take_batch(rig.now, id, 100, batch) {
        let values = batch.readings().iter().map(|reading| reading.get::<f64>());
        readings += values.flatten().count();
    }
    readings
}

fn by_list(rig: &mut Rig, id: SubscriptionId, _: &mut Batch, events: &mut Vec<Event>) -> usize {
    let mut readings = 0;
    while rig.client.take_events(rig.now, id, 100, events) > 0 {
        readings += events.drain(..).count();
    }
    readings
}

fn one_by_one(rig: &mut Rig, id: SubscriptionId, _: &mut Batch, _: &mut Vec<Event>) -> usize {
    std::iter::from_fn(|| rig.client.next_event(rig.now, id)).count()
}

/// Frames of updates arrive, are taken and acknowledged, repeatedly. Returns the allocations after
/// the first rounds.
fn allocations(contract: &str, expected: u64, take: Take) -> u64 {
    let names: Vec<String> = (0..ITEMS).map(|item| format!("v{item}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rig = Rig::connected(&names);
    let id = rig.subscribe(&names, contract);
    let wire = rig.wire(id);
    let (mut batch, mut events) = (Batch::new(), Vec::new());
    let first = take(&mut rig, id, &mut batch, &mut events);
    assert!(first >= names.len());
    let (mut frame, mut out) = (Vec::new(), Vec::new());
    let mut sequence = 1;
    let mut counted = 0;
    for round in 0..60 {
        frame.clear();
        let mut updates = UpdatesBuilder::begin(&mut frame, wire);
        for record in 0..RECORDS {
            sequence += u64::from(record % ITEMS == 0);
            let at = Timestamp::from_nanos(WALL.as_nanos() + sequence as i64);
            updates.push(&UpdateRecord {
                handle: 100 + (record % ITEMS) as u32,
                sequence,
                engine_timestamp: at,
                source_timestamp: at,
                quality: Quality::GOOD,
                own: false,
                value: Some(&(record as f64).to_le_bytes()),
            });
        }
        updates.finish();
        out.clear();
        let before = ALLOCATIONS.with(Cell::get);
        rig.client.handle_input(rig.now, WALL, &frame);
        let taken = take(&mut rig, id, &mut batch, &mut events);
        while rig.client.poll_output(rig.now, WALL, 64 << 10, &mut out) {}
        if round >= 20 {
            counted += ALLOCATIONS.with(Cell::get) - before;
        }
        assert_eq!(taken as u64, expected);
    }
    counted
}

#[test]
fn a_stream_of_updates_allocates_nothing_at_the_client() {
    for (contract, expected) in [("all", RECORDS), ("latest", ITEMS), ("sampled:1ms", ITEMS)] {
        for take in [by_batch as Take, by_list, one_by_one] {
            assert_eq!(allocations(contract, expected, take), 0, "{contract}");
        }
    }
}

/// The counter works: text that is kept must be allocated.
#[test]
fn allocations_are_counted() {
    let before = ALLOCATIONS.with(Cell::get);
    drop(std::hint::black_box(Value::String("level".into())));
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 1);
}
