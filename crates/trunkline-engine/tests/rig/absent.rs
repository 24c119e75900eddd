//! Sessions that break and resume.

use std::time::Duration;

use trunkline_engine::Consumer;
use trunkline_types::{DataType, Properties, VariableDefinition};

use super::{Rig, define};

/// Bytes that may wait, of an engine or a session.
pub const MAX: usize = 1 << 20;
/// The cost of an update of a number: 64 bytes, and its value.
pub const COST: u64 = 72;

/// Numbers `x0`, `x1` and so on.
pub fn numbers(count: usize) -> Vec<VariableDefinition> {
    let number = |at: usize| define(&format!("x{at}"), Properties::new(DataType::F64));
    (0..count).map(number).collect()
}

/// The engine's bytes that are taken.
pub fn used(rig: &Rig) -> u64 {
    rig.engine
        .health()
        .queue_memory()
        .expect("it has a bound")
        .used
}

/// A session that confirms its deliveries, and may resume.
pub fn session(rig: &Rig, queue_bytes_max: usize) -> Consumer {
    let consumer = rig.consumer().confirmed_by_peer();
    consumer.queue_bytes_max(queue_bytes_max).keeping_sent()
}

/// It breaks.
pub fn leave(rig: &Rig, consumer: Consumer) {
    let until = rig.now().saturating_add(Duration::from_secs(30));
    consumer.leave(&rig.caller, until);
}

/// The session after those that broke.
pub fn return_of(rig: &Rig) -> Consumer {
    let mut next = session(rig, MAX);
    next.follow(&rig.caller, rig.caller.session);
    next
}
