//! What a look at the machine finds, and the trait of what looks.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_types::{Reason, Tick, Timestamp};

use crate::IoError;

/// What was found, or why it was not; never a 0 in place of what could not be read.
pub type Found<T> = Result<T, Reason>;

/// Looks at a machine. [`SysinfoProbe`](super::SysinfoProbe) looks at this one.
pub trait HostProbe: Send {
    /// Makes it ready; called again after a failure.
    ///
    /// # Errors
    /// [`IoError`] when the machine cannot be looked at.
    fn open(&mut self, now: Tick) -> Result<(), IoError>;

    /// What there is to look at.
    fn inventory(&mut self) -> Inventory;

    /// What changes within seconds and costs little to read.
    fn look(&mut self, now: Tick) -> Look;

    /// What changes slowly, or costs more to read.
    fn survey(&mut self) -> Survey;
}

/// The parts of a machine that have variables of their own.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Inventory {
    /// Number of logical processors.
    pub processors: usize,
    /// Mount points of its disks.
    pub disks: Vec<String>,
    /// Names of its network interfaces.
    pub interfaces: Vec<String>,
    /// Names of its temperature sensors.
    pub sensors: Vec<String>,
}

/// Readings that change within seconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Look {
    /// Busy share of all processors together, percent.
    pub total_usage: Found<f64>,
    /// Busy share of each logical processor, percent.
    pub usage: Found<Vec<f64>>,
    /// Processes that ran or waited to run, averaged over 1, 5 and 15 minutes.
    pub load: Found<[f64; 3]>,
    /// Main memory.
    pub memory: Found<Memory>,
    /// Swap space; total 0 when there is none.
    pub swap: Found<Memory>,
    /// Traffic of each network interface that is there.
    pub traffic: BTreeMap<String, Traffic>,
    /// Time since the machine started.
    pub uptime: Found<Duration>,
}

/// A memory's size and use, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Size.
    pub total: u64,
    /// What programs can still have, caches given up.
    pub available: u64,
}

/// What went through a network interface since it appeared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Receptions that failed.
    pub receive_errors: u64,
    /// Transmissions that failed.
    pub send_errors: u64,
}

/// Readings that change slowly.
#[derive(Clone, PartialEq, Debug)]
pub struct Survey {
    /// Clock frequency of each logical processor, MHz.
    pub frequency: Found<Vec<f64>>,
    /// Space and traffic of each disk that is there, by mount point.
    pub disks: BTreeMap<String, Disk>,
    /// Temperature of each sensor that is there, °C, by its name.
    pub temperatures: BTreeMap<String, Found<f64>>,
    /// Number of processes.
    pub processes: Found<u32>,
    /// When the machine started.
    pub started: Found<Timestamp>,
    /// The machine's name in its network.
    pub host_name: Found<String>,
    /// Operating system and its version.
    pub system: Found<String>,
    /// Kernel and its version.
    pub kernel: Found<String>,
    /// Processor architecture, such as `x86_64`.
    pub architecture: Found<String>,
    /// Processor model.
    pub model: Found<String>,
}

/// A disk's space and traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct Disk {
    /// Size and free space in bytes.
    pub space: Found<Memory>,
    /// Bytes read from its device since the machine started.
    pub read: Found<u64>,
    /// Bytes written to its device since the machine started.
    pub written: Found<u64>,
    /// File system, such as `ext4`.
    pub file_system: Found<String>,
}
