//! Probes this machine with the crate `sysinfo`.
//!
//! `sysinfo` returns 0 for many values that it cannot read. This module replaces each such 0 with a
//! reason.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use sysinfo::{
    Components, CpuRefreshKind, DiskRefreshKind, Disks, MemoryRefreshKind, Networks,
    ProcessRefreshKind, ProcessesToUpdate, System,
};
use trunkline_types::{Reason, Tick, Timestamp};

use super::probe::{
    Disk, FastReadings, Found, HostProbe, Inventory, Memory, SlowReadings, Traffic,
};
use crate::IoError;

/// Probes the machine on which it runs.
///
/// The probe lists the disks that the operating system mounts from a device. It excludes pseudo
/// file systems, and network file systems, which can block forever.
pub struct SysinfoProbe {
    system: System,
    networks: Networks,
    components: Components,
    usage_since: Option<Tick>,
    usage_ready: bool,
}

impl SysinfoProbe {
    /// Returns a probe of this machine.
    ///
    /// # Errors
    /// [`IoError::NotSupported`] if `sysinfo` does not support the operating system.
    pub fn new() -> Result<Self, IoError> {
        let probe = Self {
            system: System::new().map_err(|cause| not_supported("processor and memory", &cause))?,
            networks: Networks::new().map_err(|cause| not_supported("network", &cause))?,
            components: Components::new().map_err(|cause| not_supported("temperatures", &cause))?,
            usage_since: None,
            usage_ready: false,
        };
        Ok(probe)
    }

    /// Samples the processor usage. `sysinfo` computes the usage from two samples, which must be at
    /// least its minimum interval apart.
    fn refresh_usage(&mut self, now: Tick) {
        let due = match self.usage_since {
            None => true,
            Some(since) => now.since(since) >= sysinfo::MINIMUM_CPU_UPDATE_INTERVAL,
        };
        if due {
            self.system
                .refresh_cpu_specifics(CpuRefreshKind::nothing().with_usage());
            self.usage_ready = self.usage_since.is_some() && !self.system.cpus().is_empty();
            self.usage_since = Some(now);
        }
    }

    fn usage<T>(&self, read: impl FnOnce(&System) -> T) -> Found<T> {
        if self.usage_ready {
            Ok(read(&self.system))
        } else {
            Err(Reason::NoValue)
        }
    }

    /// Lists the disks again each time, because refreshing a list keeps the old values of a disk
    /// that can no longer be read.
    fn disks(&self) -> Vec<(String, Disk)> {
        let refresh_kind = DiskRefreshKind::nothing().with_storage().with_io_usage();
        let listed = Disks::new_with_refreshed_list_specifics(refresh_kind).ok();
        let listed = listed.iter().flat_map(|disks| disks.iter());
        // Excludes single files, which can be mounted as well, for example in containers.
        let volumes = listed.filter(|disk| disk.mount_point().is_dir());
        volumes.map(|disk| (mount(disk), read_disk(disk))).collect()
    }

    fn traffic(&mut self) -> BTreeMap<String, Traffic> {
        self.networks.refresh(true);
        let interfaces = self.networks.iter();
        let traffic = interfaces.map(|(name, data)| {
            let traffic = Traffic {
                received: data.total_received(),
                sent: data.total_transmitted(),
                receive_errors: data.total_errors_on_received(),
                send_errors: data.total_errors_on_transmitted(),
            };
            (name.to_string_lossy().into_owned(), traffic)
        });
        traffic.collect()
    }

    fn temperatures(&mut self) -> BTreeMap<String, Found<f64>> {
        self.components.refresh(true);
        let mut temperatures = BTreeMap::new();
        for component in self.components.iter() {
            let found = match component.temperature() {
                Some(celsius) if PLAUSIBLE.contains(&celsius) => Ok(f64::from(celsius)),
                _ => Err(Reason::SensorFailure),
            };
            let label = match component.label() {
                "" => component.id().unwrap_or("sensor"),
                label => label,
            };
            let mut name = label.to_owned();
            let mut number = 2;
            while temperatures.contains_key(&name) {
                name = format!("{label} {number}");
                number += 1;
            }
            temperatures.insert(name, found);
        }
        temperatures
    }
}

impl HostProbe for SysinfoProbe {
    fn open(&mut self, now: Tick) -> Result<(), IoError> {
        self.usage_since = None;
        self.usage_ready = false;
        self.refresh_usage(now);
        Ok(())
    }

    fn inventory(&mut self) -> Inventory {
        self.system.refresh_cpu_list(CpuRefreshKind::nothing());
        // Excludes pseudo file systems, which have no space.
        let with_space = self
            .disks()
            .into_iter()
            .filter(|(_, disk)| disk.space.is_ok());
        Inventory {
            processors: self.system.cpus().len(),
            disks: with_space.map(|(mount, _)| mount).collect(),
            interfaces: self.traffic().into_keys().collect(),
            sensors: self.temperatures().into_keys().collect(),
        }
    }

    fn read_fast(&mut self, now: Tick) -> FastReadings {
        self.refresh_usage(now);
        let memory = MemoryRefreshKind::nothing().with_ram().with_swap();
        self.system.refresh_memory_specifics(memory);
        let load = System::load_average().map(|load| [load.one, load.five, load.fifteen]);
        let (total, available) = (self.system.total_memory(), self.system.available_memory());
        let (swap, free) = (self.system.total_swap(), self.system.free_swap());
        let memory_known = if total > 0 {
            Ok(())
        } else {
            Err(Reason::DeviceFailure)
        };
        FastReadings {
            total_usage: self.usage(|system| f64::from(system.global_cpu_usage())),
            usage: self.usage(|system| {
                system
                    .cpus()
                    .iter()
                    .map(|cpu| f64::from(cpu.usage()))
                    .collect()
            }),
            load: load.map_err(|_| Reason::NotSupported),
            memory: memory_known.map(|()| Memory { total, available }),
            swap: memory_known.map(|()| Memory {
                total: swap,
                available: free,
            }),
            traffic: self.traffic(),
            uptime: System::uptime()
                .map(Duration::from_secs)
                .map_err(|_| Reason::NotSupported),
        }
    }

    fn read_slow(&mut self) -> SlowReadings {
        self.system.refresh_cpu_frequency();
        let processes = ProcessRefreshKind::nothing().without_tasks();
        self.system
            .refresh_processes_specifics(ProcessesToUpdate::All, true, processes);
        let cpus = self.system.cpus();
        let frequency: Vec<f64> = cpus.iter().map(|cpu| cpu.frequency() as f64).collect();
        let model = cpus
            .first()
            .map(|cpu| cpu.brand().trim())
            .filter(|model| !model.is_empty());
        let model = model.map(str::to_owned).ok_or(Reason::NotSupported);
        let processes = u32::try_from(self.system.processes().len()).unwrap_or(u32::MAX);
        SlowReadings {
            frequency: if frequency.contains(&0.0) {
                Err(Reason::NotSupported)
            } else {
                Ok(frequency)
            },
            disks: self.disks().into_iter().collect(),
            temperatures: self.temperatures(),
            processes: if processes > 0 {
                Ok(processes)
            } else {
                Err(Reason::NotSupported)
            },
            started: started(),
            host_name: text(System::host_name()),
            system: text(System::long_os_version()),
            kernel: text(System::kernel_long_version()),
            architecture: text(Ok::<_, ()>(System::cpu_arch())),
            model,
        }
    }
}

impl fmt::Debug for SysinfoProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SysinfoProbe")
            .field("usage_ready", &self.usage_ready)
            .finish()
    }
}

fn mount(disk: &sysinfo::Disk) -> String {
    disk.mount_point().to_string_lossy().into_owned()
}

fn read_disk(disk: &sysinfo::Disk) -> Disk {
    let usage = disk.usage();
    // At least one byte of a mounted device has been read. Zero bytes read mean that there are no
    // counters.
    let has_counters = usage.total_read_bytes > 0;
    let counter = |bytes| {
        if has_counters {
            Ok(bytes)
        } else {
            Err(Reason::NotSupported)
        }
    };
    let (total, available) = (disk.total_space(), disk.available_space());
    let file_system = disk.file_system().to_string_lossy().into_owned();
    Disk {
        space: if total > 0 {
            Ok(Memory { total, available })
        } else {
            Err(Reason::DeviceFailure)
        },
        read: counter(usage.total_read_bytes),
        written: counter(usage.total_written_bytes),
        file_system: text(Ok::<_, ()>(file_system)),
    }
}

fn started() -> Found<Timestamp> {
    let seconds = System::boot_time().ok().filter(|seconds| *seconds > 0);
    let nanos = seconds.and_then(|seconds| i64::try_from(seconds).ok()?.checked_mul(1_000_000_000));
    let started = nanos
        .map(Timestamp::from_nanos)
        .filter(|started| started.is_plausible());
    started.ok_or(Reason::NotSupported)
}

fn text<E>(text: Result<String, E>) -> Found<String> {
    text.ok()
        .filter(|text| !text.is_empty())
        .ok_or(Reason::NotSupported)
}

fn not_supported(readings: &str, cause: &dyn fmt::Display) -> IoError {
    IoError::NotSupported {
        what: format!("readings of its {readings}"),
        cause: cause.to_string(),
    }
}

/// Plausible temperatures in a computer, in °C. A disconnected sensor is far outside.
const PLAUSIBLE: std::ops::RangeInclusive<f32> = -50.0..=150.0;
