//! Memory of the machine.

use trunkline_engine::figures::Space;

/// Memory in bytes that is assumed if the system does not report any.
const MEMORY_UNKNOWN: u64 = 4 << 30;

/// Returns a quarter of the memory that this process may use. This is the default limit for updates
/// that wait for subscribers, and for requests.
pub(crate) fn quarter_of_memory() -> usize {
    usize::try_from(memory_bytes() / 4).unwrap_or(usize::MAX)
}

/// Returns the machine's memory, or the container's limit if that is lower.
fn memory_bytes() -> u64 {
    memory().map_or(MEMORY_UNKNOWN, |memory| memory.total_bytes)
}

/// Returns the machine's memory, or the container's if its limit is lower.
pub(crate) fn memory() -> Option<Space> {
    let read = |file: &str| std::fs::read_to_string(file).ok();
    let machine = read("/proc/meminfo").and_then(|text| parse_meminfo(&text));
    let group = |file: &str| read(&format!("/sys/fs/cgroup/memory.{file}"));
    let container = group("max").and_then(|max| {
        // Without a limit it is not a number.
        let max = max.trim().parse().ok()?;
        Some(parse_group(max, &group("current")?, &group("stat")?))
    });
    let lower = machine.into_iter().chain(container);
    lower.min_by_key(|memory| memory.total_bytes)
}

fn parse_meminfo(text: &str) -> Option<Space> {
    Some(Space {
        total_bytes: bytes_of(text, "MemTotal:")?,
        free_bytes: bytes_of(text, "MemAvailable:")?,
    })
}

/// Parses the use of a control group. File pages that have not been used recently count as free,
/// because the system takes them back when memory is short.
fn parse_group(total_bytes: u64, current: &str, stat: &str) -> Space {
    let current: u64 = current.trim().parse().unwrap_or(0);
    let inactive = stat
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file "));
    let inactive: u64 = inactive.and_then(|text| text.parse().ok()).unwrap_or(0);
    Space {
        total_bytes,
        free_bytes: total_bytes.saturating_sub(current.saturating_sub(inactive)),
    }
}

/// Returns the size after `label` in a file of the system that gives sizes in KiB.
pub(crate) fn bytes_of(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_matches_the_system() {
        let text = "MemFree: 1 kB\nMemTotal:       16384 kB\nMemAvailable: 8192 kB\n";
        let expected = Space {
            total_bytes: 16 << 20,
            free_bytes: 8 << 20,
        };
        assert_eq!(parse_meminfo(text), Some(expected));
        assert_eq!(parse_meminfo("nonsense"), None);
        let sut = memory().unwrap();
        assert!(sut.free_bytes > 0 && sut.free_bytes <= sut.total_bytes);
        assert!(memory_bytes() > 0 && quarter_of_memory() as u64 <= memory_bytes());
    }

    #[test]
    fn inactive_file_pages_of_a_container_are_free() {
        let sut = parse_group(
            1000,
            "700\n",
            "anon 300\ninactive_file 150\nactive_file 250\n",
        );
        assert_eq!((sut.total_bytes, sut.free_bytes), (1000, 450));
        assert_eq!(parse_group(1000, "1200\n", "").free_bytes, 0);
    }
}
