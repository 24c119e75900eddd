//! Defines the trait of probes, and the data that they return.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_types::{Reason, Tick, Timestamp};

use crate::IoError;

/// A value, or the reason why it could not be read. A missing value is never 0.
pub type Found<T> = Result<T, Reason>;

/// Reads the state of a machine. [`SysinfoProbe`](super::SysinfoProbe) reads the machine on which
/// it runs.
pub trait HostProbe: Send {
    /// Prepares the probe. This is called again after a failure.
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
    /// Busy share of all processors together, in percent.
    pub total_usage: Found<f64>,
    /// Busy share of each logical processor, in percent.
    pub usage: Found<Vec<f64>>,
    /// Average number of processes that ran or waited to run, over 1, 5 and 15 minutes.
    pub load: Found<[f64; 3]>,
    /// Size and use of main memory.
    pub memory: Found<Memory>,
    /// Size and use of swap space. The total is 0 if there is none.
    pub swap: Found<Memory>,
    /// Traffic of each network interface that is present, by name.
    pub traffic: BTreeMap<String, Traffic>,
    /// Time since the machine started.
    pub uptime: Found<Duration>,
}

/// Size and use of memory or of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Size in bytes.
    pub total: u64,
    /// Bytes that are available to programs, including caches that can be reclaimed.
    pub available: u64,
}

/// Traffic of a network interface since it appeared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Number of bytes received.
    pub received: u64,
    /// Number of bytes sent.
    pub sent: u64,
    /// Number of failed receptions.
    pub receive_errors: u64,
    /// Number of failed transmissions.
    pub send_errors: u64,
}

/// Readings that change slowly.
#[derive(Clone, PartialEq, Debug)]
pub struct SlowReadings {
    /// Clock frequency of each logical processor, in MHz.
    pub frequency: Found<Vec<f64>>,
    /// Space and traffic of each disk that is present, by mount point.
    pub disks: BTreeMap<String, Disk>,
    /// Temperature of each sensor that is present, in °C, by name.
    pub temperatures: BTreeMap<String, Found<f64>>,
    /// Number of processes.
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
    /// Model of the processor.
    pub model: Found<String>,
}

/// Space and traffic of a disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Disk {
    /// Size and free space in bytes.
    pub space: Found<Memory>,
    /// Bytes read from the disk's device since the machine started.
    pub read: Found<u64>,
    /// Bytes written to the disk's device since the machine started.
    pub written: Found<u64>,
    /// File system, such as `ext4`.
    pub file_system: Found<String>,
}
