//! Resource use of this process, read from `/proc` on Linux; unknown on other systems.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use trunkline_engine::figures::ProcessFigures;
use trunkline_types::Timestamp;

use crate::machine::bytes_of;

/// Ticks per second of the times in `/proc`: a constant of the kernel's interface.
const USER_HZ: u64 = 100;

/// The fields of `/proc/self/stat` that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stat {
    cpu_time: Duration,
    threads: u64,
    /// Time from the start of the system to the start of the process.
    started: Duration,
}

/// Measures the process, except for its use of the processor in percent. `wall` is the current time.
pub(super) fn figures(wall: Timestamp) -> ProcessFigures {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let stat = read("/proc/self/stat").and_then(|text| parse_stat(&text));
    let status = read("/proc/self/status");
    let status = status.as_deref().unwrap_or_default();
    let up = read("/proc/uptime").and_then(|text| parse_uptime(&text));
    ProcessFigures {
        cpu_time: stat.map(|stat| stat.cpu_time),
        cpu_percent: None,
        resident_bytes: bytes_of(status, "VmRSS:"),
        virtual_bytes: bytes_of(status, "VmSize:"),
        threads: stat.map(|stat| stat.threads),
        open_descriptors: open_descriptors(),
        descriptors_max: getrlimit(Resource::Nofile).current,
        started: stat.zip(up).map(|(stat, up)| {
            let age = up.saturating_sub(stat.started).as_nanos();
            wall.saturating_add_nanos(-i64::try_from(age).unwrap_or(i64::MAX))
        }),
    }
}

fn open_descriptors() -> Option<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    // The folder itself is open while it is read.
    Some((entries.count() as u64).saturating_sub(1))
}

/// Parses the fields after the program name. The name is in parentheses and may contain any
/// character. The 12th and 13th of these fields are the user and the system time.
fn parse_stat(stat: &str) -> Option<Stat> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let duration = |ticks: u64| Some(Duration::from_millis(ticks.checked_mul(1000 / USER_HZ)?));
    Some(Stat {
        cpu_time: duration(number(11)?.checked_add(number(12)?)?)?,
        threads: number(17)?,
        started: duration(number(19)?)?,
    })
}

/// Parses the time since the start of the system.
fn parse_uptime(text: &str) -> Option<Duration> {
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_after_any_process_name() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 123 45 0 0 20 0 7 0 250 1 2";
        let expected = Stat {
            cpu_time: Duration::from_millis(1680),
            threads: 7,
            started: Duration::from_millis(2500),
        };
        assert_eq!(parse_stat(stat), Some(expected));
        assert_eq!(parse_stat("42 (a) S 1 2"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn resident_memory_is_found_in_its_line() {
        let status = "Name:\ta\nVmRSS:\t    1024 kB\nThreads:\t3\n";
        assert_eq!(bytes_of(status, "VmRSS:"), Some(1 << 20));
        assert_eq!(bytes_of("Name:\ta\n", "VmRSS:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn figures_of_this_process_are_plausible() {
        let wall = trunkline_net::Clock::new().wall();
        let sut = figures(wall);
        assert!(sut.resident_bytes > Some(0) && sut.virtual_bytes >= sut.resident_bytes);
        assert!(sut.threads >= Some(1));
        assert!(sut.open_descriptors >= Some(1) && sut.open_descriptors <= sut.descriptors_max);
        assert!(sut.started.is_some_and(|started| started <= wall));
    }

    #[test]
    fn uptime_is_the_first_number() {
        assert_eq!(
            parse_uptime("12.5 40.1\n"),
            Some(Duration::from_millis(12_500))
        );
        assert_eq!(parse_uptime("-1 2"), None);
        assert_eq!(parse_uptime(""), None);
    }
}
