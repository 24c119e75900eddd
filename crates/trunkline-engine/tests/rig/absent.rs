//! Sessions that are lost and resumed.

use std::time::Duration;

use trunkline_engine::Consumer;
use trunkline_types::{DataType, Properties, VariableDefinition};

use super::{Rig, define};

/// Bytes that may be queued for an engine or a session.
pub const MAX: usize = 1 << 20;
/// The cost of an update of a number: 64 bytes, and its value.
pub const COST: u64 = 72;

/// Returns `count` number variables: `x0`, `x1` and so on.
pub fn numbers(count: usize) -> Vec<VariableDefinition> {
    let number = |at: usize| define(&format!("x{at}"), Properties::new(DataType::F64));
    (0..count).map(number).collect()
}

/// Returns the number of used bytes of the engine's budget.
pub fn used(rig: &Rig) -> u64 {
    rig.engine
        .health()
        .queue_memory()
        .expect("the engine's memory is bounded")
        .used
}

/// Returns a session that confirms its deliveries and can be resumed.
pub fn session(rig: &Rig, queue_bytes_max: usize) -> Consumer {
    let consumer = rig.consumer().confirmed_by_peer();
    consumer.queue_bytes_max(queue_bytes_max).resumable()
}

/// Ends the session as lost.
pub fn leave(rig: &Rig, consumer: Consumer) {
    let until = rig.now().saturating_add(Duration::from_secs(30));
    consumer.leave(&rig.caller, until);
}

/// Returns the successor of the lost sessions.
pub fn return_of(rig: &Rig) -> Consumer {
    let mut next = session(rig, MAX);
    next.follow(&rig.caller, rig.caller.session);
    next
}
