//! A session whose system refuses memory for something large.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::type_complexity,
    reason = "tests may panic"
)]
#![cfg(not(shuttle))]

#[allow(unused_imports, reason = "the rig is that of other tests")]
#[path = "serve/rig/mod.rs"]
mod rig;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use trunkline_client::{ProviderEvent, Write, WriteOutcome};
use trunkline_proto::FaultCode;
use trunkline_types::{DataType, Value};

use crate::rig::{Pair, World, define};

/// Bytes of the value.
const VALUE_BYTES: usize = 4 << 20;

/// Refuses allocations above the limit of the calling thread.
struct Limited;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn is_refused(bytes: usize) -> bool {
    LARGEST.try_with(Cell::get).is_ok_and(|most| bytes > most)
}

// SAFETY: every call that is not refused is forwarded unchanged to `System`. A null pointer
// is how an allocator refuses; looking at the limit allocates nothing.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_refused(size) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// The engine has the value and no memory for the message to the I/O server: the engine refuses the
/// write, not the I/O server, which never has it.
///
/// Behaviour: B-06.
#[test]
fn write_without_memory_for_the_provider_is_refused_by_the_engine() {
    let text = define("text", DataType::String, |p| {
        p.source = "plant:text".to_owned();
    });
    let world = World::with_library("rig", vec![text]);
    let (mut plant, mut user) = (Pair::on(&world), Pair::on(&world));
    plant.client.provide("plant");
    plant.exchange();
    let text = user.variable("rig/text");
    let value = Value::String("x".repeat(VALUE_BYTES).into());
    let batch = user.client.write([Write::new(text, value)]).unwrap();
    user.exchange();

    LARGEST.set(VALUE_BYTES / 2);
    plant.wake_session();
    plant.exchange();
    LARGEST.set(usize::MAX);
    let mut events = std::iter::from_fn(|| plant.client.take_provider_event());
    assert!(!events.any(|one| matches!(one, ProviderEvent::Write { .. })));
    user.wake_session();
    user.exchange();
    let outcome = user.client.take_outcomes(batch).unwrap().remove(0);
    let WriteOutcome::Refused(fault) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(fault.code, FaultCode::MemoryFull, "{fault}");
    assert!(!fault.to_string().contains("refused"), "{fault}");
}
