//! Memory of the machine.

/// Memory in bytes that is assumed if the system does not report any.
const MEMORY_UNKNOWN: u64 = 4 << 30;

/// Returns a quarter of the memory that this process may use. This is the default limit for updates
/// that wait for subscribers, and for requests.
pub(crate) fn quarter_of_memory() -> usize {
    usize::try_from(memory_bytes() / 4).unwrap_or(usize::MAX)
}

/// Returns the machine's memory, or the container's limit if that is lower.
fn memory_bytes() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| parse_meminfo(&text));
    let container = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    let lower = machine.into_iter().chain(container).min();
    lower.unwrap_or(MEMORY_UNKNOWN)
}

fn parse_meminfo(text: &str) -> Option<u64> {
    bytes_of(text, "MemTotal:")
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
        let text = "MemFree: 1 kB\nMemTotal:       16384 kB\n";
        assert_eq!(parse_meminfo(text), Some(16 << 20));
        assert_eq!(parse_meminfo("nonsense"), None);
        assert!(memory_bytes() > 0 && quarter_of_memory() as u64 <= memory_bytes());
    }
}
