//! ENGINE and ENGINE_ANSWER: information about the engine itself.

use std::time::Duration;

use trunkline_types::Timestamp;
use trunkline_types::time::duration_nanos;

use super::fields::{Always, IfSet, Many, fields};
use super::form::{Inner, Name, Nanos, Varint, Whole, mapped};
use super::layout::record;
use super::single::single_frame;
use crate::limits::ENGINE_LIBRARIES_MAX;

fields! {
    /// An engine's description of itself.
    #[derive(Eq, Default)]
    pub struct EngineInfo {
        /// The configured name of the engine.
        1: pub name: String = IfSet<Whole>,
        /// The version of the engine's program.
        2: pub version: String = IfSet<Whole>,
        /// The current epoch.
        3: pub epoch: u64 = Always<Varint>,
        /// Time since the engine was started.
        4: pub uptime: Duration = Always<VarintNanos> as "uptime_ns",
        /// The engine's process id; 0 if unknown.
        5: pub pid: u32 = Always<Varint>,
        /// Number of deployed variables that are reachable over the network.
        6: pub variables: u64 = Always<Varint>,
        /// Number of connected sessions.
        7: pub sessions: u64 = Always<Varint>,
        /// The name of the engine's machine.
        8: pub host: String = IfSet<Whole>,
        /// Start time, by the engine's wall clock.
        9: pub started: Timestamp = Always<Nanos>,
        /// The libraries, at most 1,024.
        10: pub libraries: Vec<LibraryInfo> = Many<ENGINE_LIBRARIES_MAX, Inner>,
    }
}

single_frame! { EngineAnswer, EngineInfo }

record! {
    /// A summary of a library.
    #[derive(Eq, Default)]
    pub struct LibraryInfo {
        /// The library's name.
        pub name: String = Name,
        /// The state: `running`, `stopped`, ...
        pub state: String = Name,
        /// Number of variables in the library.
        pub variables: u64 = Varint,
        /// The description, for users.
        pub description: String = Name,
    }
}

/// Nanoseconds as a varint.
#[derive(Debug)]
pub enum VarintNanos {}

mapped! {
    VarintNanos: Duration = Varint: u64, |time| duration_nanos(*time), Duration::from_nanos;
}
