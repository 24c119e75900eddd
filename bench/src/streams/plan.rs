//! The cells of the stream scenarios.

use super::{
    CALLS, JOURNALS, LATENCY, PACED, SLEEPING_SYSTEMS, SPINNING_SYSTEMS, SWEEP, SYSTEMS,
    THROUGHPUT, journal, paced, sweep,
};
use crate::peers::Peer;
use crate::plan::{Cell, Extent};
use crate::settings::Settings;

/// Call sizes of W3 for systems with a server between the ends: they are much slower than the
/// others.
const SERVED_CALLS: [usize; 3] = [1, 1000, 100_000];
/// Call sizes of W3 for systems that work on one machine only.
pub const NEAR_CALLS: [usize; 3] = [1, 100, 10_000];

pub(crate) fn cells(extent: Extent) -> Vec<Cell> {
    let is_quick = extent == Extent::Quick;
    let mut cells: Vec<Cell> = Vec::new();
    let calls: &[usize] = if is_quick { &[1, 1000] } else { &CALLS };
    for call in calls {
        let settings = extent.stream().with("call", call);
        cells.push((THROUGHPUT, &SYSTEMS, settings));
    }
    let count = if is_quick { 300 } else { 10_000 };
    let waits: [(u32, &[&str]); 2] = [(0, &SLEEPING_SYSTEMS), (1, &SPINNING_SYSTEMS)];
    for (spin, systems) in waits {
        let settings = Settings::default().with("count", count).with("spin", spin);
        cells.push((LATENCY, systems, settings));
    }
    let journaled = if is_quick {
        &journal::CALLS[..1]
    } else {
        &journal::CALLS
    };
    for call in journaled {
        let settings = extent.stream().with("call", call);
        cells.push((JOURNALS, &journal::SYSTEMS, settings));
    }
    let settings = Settings::default()
        .with("warm_ms", if is_quick { 20 } else { 200 })
        .with("ms", if is_quick { 50 } else { 400 });
    cells.push((SWEEP, &sweep::SYSTEMS, settings));
    for call in paced::CALLS {
        let settings = Settings::default()
            .with("call", call)
            .with("ms", if is_quick { 100 } else { 600 });
        let systems: &[&str] = match call {
            paced::SMALL => &paced::SYSTEMS,
            _ => &paced::SYSTEMS[1..],
        };
        cells.push((PACED, systems, settings));
    }
    cells
}

/// Returns true if another system takes part in a cell of streams.
pub(crate) fn has_peer(extent: Extent, scenario: &str, peer: &Peer, settings: &Settings) -> bool {
    let call: usize = settings.value_or("call", 0).unwrap_or(0);
    let is_sleeping = settings.value_or("spin", 1).unwrap_or(1) == 0;
    match scenario {
        THROUGHPUT if extent == Extent::Quick => true,
        THROUGHPUT if peer.is_near() => NEAR_CALLS.contains(&call),
        THROUGHPUT if peer.is_served() => SERVED_CALLS.contains(&call),
        // These poll, and the other systems sleep.
        LATENCY => is_sleeping != peer.is_near(),
        PACED => call == paced::SMALL,
        _ => true,
    }
}
