//! Free space on the disk.

use std::path::Path;

use super::super::stream::units::bytes_text;
use crate::replace::folder_of;

/// Returns the bytes available to this user on the disk of a file; `None` if the system does not
/// report them.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let stats = rustix::fs::statvfs(folder_of(path)).ok()?;
    Some(stats.f_bavail.saturating_mul(stats.f_frsize))
}

/// Describes the free space on the disk of a file, and how long it lasts at this rate.
pub(super) fn free_space_text(path: &Path, bytes_per_second: f64) -> String {
    let free = free_bytes(path);
    let lasts = free.filter(|_| bytes_per_second >= 1.0);
    format_free_space(free, lasts.map(|free| free as f64 / bytes_per_second))
}

/// Describes the free space, and the time until the disk is full.
pub(super) fn format_free_space(bytes: Option<u64>, full_in: Option<f64>) -> String {
    let free = bytes.map(|bytes| format!("{} left", bytes_text(bytes as f64)));
    let free = free.unwrap_or_else(|| "free space unknown".to_owned());
    match full_in {
        Some(seconds) => format!("{free}, full in {}", span_text(seconds)),
        None => free,
    }
}

fn span_text(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s if s < 8.64e7 => format!("{:.0} days", s / 86_400.0),
        _ => "years".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_disk_time_has_two_or_three_digits() {
        let expected = [
            (5.0, "5 s"),
            (600.0, "10 min"),
            (7_200.0, "2 h"),
            (432_000.0, "5 days"),
            (1e12, "years"),
        ];
        for (seconds, text) in expected {
            assert_eq!(span_text(seconds), text);
        }
        assert!(free_bytes(Path::new("here.tdms")).is_some_and(|bytes| bytes > 0));
        assert!(free_space_text(Path::new("here.tdms"), 0.0).ends_with("left"));
    }
}
