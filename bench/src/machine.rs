//! The machine of a run. Contains nothing that identifies a single host.

use std::fs;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use trunkline::types::Timestamp;

use crate::Outcome;

/// The machine, the time and the extent of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Extent of the run: `full`, `default` or `quick`.
    pub run: String,
    /// Day in UTC, as in ISO 8601.
    pub date: String,
    /// Time of day at the start, `hh:mm` in UTC; missing from files of earlier releases.
    pub time: String,
    /// Model of the processor.
    pub cpu: String,
    /// Number of processors that the system may use.
    pub cpus: usize,
    pub virtual_machine: bool,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Memory in GiB, rounded.
    pub memory_gib: u64,
    /// Load average of the last minute, times 100.
    pub load_percent: u64,
    /// Version of the measured program.
    pub version: String,
}

impl Machine {
    /// Queries the system.
    pub fn here(run: &str) -> Outcome<Self> {
        let cpu_info = fs::read_to_string("/proc/cpuinfo")?;
        let memory = fs::read_to_string("/proc/meminfo")?;
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let memory_kib: u64 = entry(&memory, "MemTotal")
            .and_then(first_number)
            .unwrap_or(0);
        Ok(Self {
            run: run.to_owned(),
            date: today()?,
            time: time_of_day()?,
            cpu: entry(&cpu_info, "model name")
                .unwrap_or("unknown")
                .to_owned(),
            cpus: available_parallelism()?.get(),
            virtual_machine: entry(&cpu_info, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            kernel: format!("Linux {}", release.trim()),
            memory_gib: (memory_kib + (1 << 19)) >> 20,
            load_percent: load_percent()?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// Returns a short name of its kind, for file names.
    pub fn class(&self) -> String {
        let kind = if self.virtual_machine { "vm" } else { "metal" };
        format!("{kind}-{}cpu-{}", self.cpus, std::env::consts::ARCH)
    }
}

/// Returns the load average of the last minute, times 100.
pub fn load_percent() -> Outcome<u64> {
    let text = fs::read_to_string("/proc/loadavg")?;
    let load: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok((load * 100.0) as u64)
}

/// Returns the value of a `name : value` line.
fn entry<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn first_number(text: &str) -> Option<u64> {
    text.split(' ').next()?.parse().ok()
}

fn time_of_day() -> Outcome<String> {
    Ok(now()?[11..16].to_owned())
}

fn today() -> Outcome<String> {
    Ok(now()?[..10].to_owned())
}

/// Returns the time in UTC: `2026-11-20T21:39:04.123456789Z`.
fn now() -> Outcome<String> {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    Ok(Timestamp::from_nanos(i64::try_from(nanos)?).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_their_whole_name() {
        let text = "model : 6\nmodel name : A B\nMemTotal:   8000 kB\n";
        assert_eq!(entry(text, "model name"), Some("A B"));
        assert_eq!(entry(text, "MemTotal").and_then(first_number), Some(8000));
    }
}
