//! The trait of probes, and the data they return.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_types::{Reason, Tick, Timestamp};

use crate::IoError;

/// A value, or the reason why it could not be read; never a 0 in place of a missing value.
pub type Found<T> = Result<T, Reason>;

/// Reads the state of a machine. [`SysinfoProbe`](super::SysinfoProbe) reads this one.
pub trait HostProbe: Send {
    /// Prepares the probe; called again after a failure.
    fn open(&mut self, now: Tick) -> Result<(), IoError>;

    /// Returns the parts of the machine.
    fn inventory(&mut self) -> Inventory;

    /// Reads values that change within seconds and are cheap to read.
    fn read_fast(&mut self, now: Tick) -> FastReadings;

    /// Reads values that change slowly or are expensive to read.
    fn read_slow(&mut self) -> SlowReadings;
}

/// The parts of a machine that have variables of their own.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Inventory {
    /// Number of logical processors.
    pub processors: usize,
    /// Mount points of the disks.
    pub disks: Vec<String>,
    /// Names of the network interfaces.
    pub interfaces: Vec<String>,
    /// Names of the temperature sensors.
    pub sensors: Vec<String>,
}

/// Readings that change within seconds.
#[derive(Clone, PartialEq, Debug)]
pub struct FastReadings {
    /// Busy share of all processors together, percent.
    pub total_usage: Found<f64>,
    /// Busy share of each logical processor, percent.
    pub usage: Found<Vec<f64>>,
    /// Processes that ran or waited to run, averaged over 1, 5 and 15 minutes.
    pub load: Found<[f64; 3]>,
    /// Size and use of main memory.
    pub memory: Found<Memory>,
    /// Size and use of swap space; total 0 if there is none.
    pub swap: Found<Memory>,
    /// Traffic of each network interface present.
    pub traffic: BTreeMap<String, Traffic>,
    /// Time since the machine started.
    pub uptime: Found<Duration>,
}

/// A memory's size and use, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Size in bytes.
    pub total: u64,
    /// Bytes still available to programs, including reclaimable caches.
    pub available: u64,
}

/// Traffic of a network interface since it appeared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    pub received: u64,
    pub sent: u64,
    /// Number of failed receptions.
    pub receive_errors: u64,
    /// Number of failed transmissions.
    pub send_errors: u64,
}

/// Readings that change slowly.
#[derive(Clone, PartialEq, Debug)]
pub struct SlowReadings {
    /// Clock frequency of each logical processor, MHz.
    pub frequency: Found<Vec<f64>>,
    /// Space and traffic of each disk present, by mount point.
    pub disks: BTreeMap<String, Disk>,
    /// Temperature of each sensor present, °C, by name.
    pub temperatures: BTreeMap<String, Found<f64>>,
    pub processes: Found<u32>,
    /// Time at which the machine started.
    pub started: Found<Timestamp>,
    /// Name of the machine in its network.
    pub host_name: Found<String>,
    /// Operating system and its version.
    pub system: Found<String>,
    /// Kernel and its version.
    pub kernel: Found<String>,
    /// Processor architecture, such as `x86_64`.
    pub architecture: Found<String>,
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
