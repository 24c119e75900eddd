//! Runs the endpoint tests with two ends on one machine that share one ring. The guarantees are the
//! same.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![allow(dead_code, reason = "what only outages need")]

#[path = "../endpoints/closing.rs"]
mod closing;
#[path = "../endpoints/creation.rs"]
mod creation;
#[path = "../endpoints/flushing.rs"]
mod flushing;
#[path = "../endpoints/properties.rs"]
mod properties;
#[path = "../endpoints/proxy.rs"]
mod proxy;
#[path = "../endpoints/reads_and_writes.rs"]
mod reads_and_writes;
#[path = "../endpoints/rig.rs"]
mod rig;

/// Ends connect over Unix sockets, and share one ring.
const NEAR: bool = true;

/// If pairs did not share a ring, the other tests would check nothing new.
///
/// Behaviour: NS-02.
#[test]
fn pairs_share_one_ring() {
    for dials in rig::EITHER {
        let (writer, reader) = rig::pair::<f64>(dials, [4, 4]);
        for properties in [writer.properties(), reader.properties()] {
            assert_eq!(properties.transport, Some("shared memory"));
        }
    }
}
