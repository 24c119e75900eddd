//! Usage: CPU time and context switches of a process, and traffic on the loopback interface.

use std::fs;
use std::ops::Sub;

use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// Returns the CPU nanoseconds of this process: all threads, user and system.
pub fn process_cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// Returns the CPU nanoseconds of the calling thread, user and system.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Returns the CPU nanoseconds of all other threads of this process.
pub fn others_cpu_ns() -> u64 {
    // In this order: the time of this thread increases between the two.
    let own = thread_cpu_ns();
    process_cpu_ns().saturating_sub(own)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // CPU times are never negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Usage of the threads of a process so far. Exact for threads that sleep while it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU nanoseconds, user and system.
    pub cpu_ns: u64,
    /// Voluntary context switches: a thread had to wait.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
}

impl Usage {
    /// Returns the usage of this process.
    pub fn of_self() -> Outcome<Self> {
        Self::of(std::process::id())
    }

    /// Returns the usage of a process: of its current threads.
    pub fn of(pid: u32) -> Outcome<Self> {
        let mut usage = Self::default();
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end meanwhile.
            let Ok(task) = task else { continue };
            let task = task.path();
            let (Ok(status), Ok(times)) = (
                fs::read_to_string(task.join("status")),
                fs::read_to_string(task.join("schedstat")),
            ) else {
                continue;
            };
            usage.voluntary += counter(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            usage.involuntary += counter(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
            usage.cpu_ns += first_number(&times).unwrap_or(0);
        }
        Ok(usage)
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }
}

fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(first_number)
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Traffic on the loopback interface so far, of all programs of this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loopback {
    /// Bytes, including headers.
    pub bytes: u64,
    /// Packets of both directions, including acknowledgements.
    pub packets: u64,
}

impl Loopback {
    /// Reads the counters.
    pub fn now() -> Outcome<Self> {
        let text = fs::read_to_string("/proc/net/dev")?;
        Self::parse(&text).ok_or_else(|| "no loopback interface is listed".into())
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("lo:"))?;
        let mut fields = line.split_whitespace();
        let bytes = fields.next()?.parse().ok()?;
        Some(Self {
            bytes,
            packets: fields.next()?.parse().ok()?,
        })
    }
}

impl Sub for Loopback {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            packets: self.packets.saturating_sub(earlier.packets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t41\nnonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(counter(status, "voluntary_ctxt_switches:"), Some(41));
        assert_eq!(counter(status, "nonvoluntary_ctxt_switches:"), Some(2));
        let devices = "Inter-|   Receive\n    lo: 120 3 0 0 0 0 0 0 120 3\n  eth0: 9 9\n";
        assert_eq!(
            Loopback::parse(devices),
            Some(Loopback {
                bytes: 120,
                packets: 3
            })
        );
        assert_eq!(Loopback::parse("eth0: 1 2"), None);
    }

    #[test]
    fn work_costs_cpu_time() {
        let (thread, process) = (thread_cpu_ns(), process_cpu_ns());
        assert!((0..100_000_u64).map(std::hint::black_box).sum::<u64>() > 0);
        assert!(thread_cpu_ns() > thread && process_cpu_ns() > process);
        assert!(Usage::of_self().is_ok() && Loopback::now().is_ok());
    }
}
