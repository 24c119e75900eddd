//! W3 and W4: streams of f64 elements, lossless and in order, from one process to another.
//!
//! W3: throughput by call size. W4: the round trip of single elements. S6: journals. The published
//! methods: throughput by buffer size and by call size (NS-87), and CPU load at a fixed rate
//! (NS-88).

pub mod disk;
pub mod drain;
mod encrypted;
pub mod flow;
pub mod journal;
pub mod latency;
mod memory;
pub mod paced;
pub(crate) mod plan;
pub mod sweep;
pub mod throughput;

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use trunkline::stream::Options;

use crate::Outcome;
use crate::cells::RAW;
use crate::same_host::RAW_MEMORY;
use crate::settings::Settings;

pub const THROUGHPUT: &str = "stream_throughput";
pub const LATENCY: &str = "stream_latency";
/// Streams with journals, and the disk of the journals.
pub const JOURNALS: &str = "stream_journal";
/// Throughput by buffer size, then by call size.
pub const SWEEP: &str = "stream_sweep";
/// CPU load by rate.
pub const PACED: &str = "stream_paced";
/// Elements per call of W3.
pub const CALLS: [usize; 6] = [1, 10, 100, 1000, 10_000, 100_000];

/// Over TCP; elements are copied into and out of the endpoints.
pub const COPIED: &str = "trunkline";
/// Over TCP; elements are written and read in place.
pub const IN_PLACE: &str = "trunkline-in-place";
/// Like [`COPIED`], over TLS, as between two machines.
pub const ENCRYPTED: &str = "trunkline-tls";
/// Like [`COPIED`], over shared memory.
pub const SHARED_COPIED: &str = "trunkline-shm";
/// Like [`IN_PLACE`], over shared memory.
pub const SHARED_IN_PLACE: &str = "trunkline-shm-in-place";

/// Raw with one connection per direction, like two streams. TCP acknowledgements are separate
/// packets then, because no data flows in the other direction.
pub const RAW_EACH_WAY: &str = "raw-tcp-each-way";

/// The systems of W3.
pub const SYSTEMS: [&str; 7] = [
    RAW,
    COPIED,
    ENCRYPTED,
    IN_PLACE,
    RAW_MEMORY,
    SHARED_COPIED,
    SHARED_IN_PLACE,
];
/// The systems of W4 whose ends sleep. Polled memory is compared with the systems that spin.
pub const SLEEPING_SYSTEMS: [&str; 4] = [RAW, RAW_EACH_WAY, COPIED, SHARED_COPIED];
/// The systems of W4 whose ends spin.
pub const SPINNING_SYSTEMS: [&str; 5] = [RAW, RAW_EACH_WAY, COPIED, RAW_MEMORY, SHARED_COPIED];

/// Whether an endpoint uses shared memory, and whether it accesses elements in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    is_shared: bool,
    is_in_place: bool,
}

impl Form {
    fn of(system: &str) -> Outcome<Self> {
        let (is_shared, is_in_place) = match system {
            COPIED | ENCRYPTED => (false, false),
            IN_PLACE => (false, true),
            SHARED_COPIED => (true, false),
            SHARED_IN_PLACE => (true, true),
            _ => return Err(format!("unknown system {system}").into()),
        };
        Ok(Self {
            is_shared,
            is_in_place,
        })
    }

    /// Returns the options of an end with a buffer of `elements`.
    fn options(self, capacity: usize, settings: &Settings) -> Outcome<Options> {
        let mut options = Options {
            capacity,
            timeout: Some(Duration::from_secs(20)),
            ..Options::default()
        };
        options.tcp_only = !self.is_shared;
        if settings.value_or("spin", 1)? == 0 {
            options.spin = Duration::ZERO;
        }
        Ok(options)
    }
}

/// Returns a free port.
fn free_port() -> Outcome<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
