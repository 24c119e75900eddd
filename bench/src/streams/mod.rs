//! W3 and W4: elements of f64, lossless and in order, from one process to another.
//!
//! W3: as many as can be, by call size. W4: one at a time, each sent at once, there and back. S6:
//! with journals. The published methods: throughput by buffer and by call (NS-87), and what
//! processors do at a fixed rate (NS-88).

pub mod disk;
pub mod drain;
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
/// Journals, beside the disk that they are on.
pub const JOURNALS: &str = "stream_journal";
/// Throughput by size of buffer, then by size of call.
pub const SWEEP: &str = "stream_sweep";
/// CPU by rate.
pub const PACED: &str = "stream_paced";
/// Elements of each call of W3.
pub const CALLS: [usize; 6] = [1, 10, 100, 1000, 10_000, 100_000];

/// Over TCP, elements copied into the endpoint and out of it.
pub const COPIED: &str = "trunkline";
/// Over TCP, elements written and read where they lie.
pub const IN_PLACE: &str = "trunkline-in-place";
/// As [`COPIED`], through memory that both processes have mapped.
pub const SHARED_COPIED: &str = "trunkline-shm";
/// As [`IN_PLACE`], through that memory.
pub const SHARED_IN_PLACE: &str = "trunkline-shm-in-place";

/// Raw, with a connection for each direction, as two streams have: nothing that is sent back brings
/// the acknowledgements of TCP, which are packets of their own then.
pub const RAW_EACH_WAY: &str = "raw-tcp-each-way";

/// The systems of W3.
pub const SYSTEMS: [&str; 6] = [
    RAW,
    COPIED,
    IN_PLACE,
    RAW_MEMORY,
    SHARED_COPIED,
    SHARED_IN_PLACE,
];
/// The systems of W4 where ends sleep. Memory that is polled is beside those that spin.
pub const SLEEPING_SYSTEMS: [&str; 4] = [RAW, RAW_EACH_WAY, COPIED, SHARED_COPIED];
/// The systems of W4 where ends look.
pub const SPINNING_SYSTEMS: [&str; 5] = [RAW, RAW_EACH_WAY, COPIED, RAW_MEMORY, SHARED_COPIED];

/// How an end of Trunkline goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    is_shared: bool,
    is_in_place: bool,
}

impl Form {
    fn of(system: &str) -> Outcome<Self> {
        let (is_shared, is_in_place) = match system {
            COPIED => (false, false),
            IN_PLACE => (false, true),
            SHARED_COPIED => (true, false),
            SHARED_IN_PLACE => (true, true),
            _ => return Err(format!("there is no system {system}").into()),
        };
        Ok(Self {
            is_shared,
            is_in_place,
        })
    }

    /// Options of an end with a buffer of so many elements.
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

/// A port that nobody uses at the moment.
fn free_port() -> Outcome<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
