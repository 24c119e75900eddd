//! Free space on the disk.

use std::path::Path;
use std::time::Duration;

use super::super::stream::units::bytes_text;

/// Returns the bytes available to this user on the disk of a file; `None` if the system does not
/// report them.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let known = rustix::fs::statvfs(folder.unwrap_or(Path::new("."))).ok()?;
    Some(known.f_bavail.saturating_mul(known.f_frsize))
}

/// Describes the free space, and how long it lasts at this rate.
pub(super) fn room_text(path: &Path, bytes_per_second: f64) -> String {
    let Some(free) = free_bytes(path) else {
        return "disk left unknown".to_owned();
    };
    let left = format!("{} left", bytes_text(free as f64));
    if bytes_per_second < 1.0 {
        return left;
    }
    let seconds = free as f64 / bytes_per_second;
    format!("{left}, full in {}", span_text(seconds))
}

/// Formats the time that a disk lasts.
pub(super) fn span_text(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s if s < 8.64e7 => format!("{:.0} days", s / 86_400.0),
        _ => "years".to_owned(),
    }
}

/// Interval at which the progress is updated.
pub(super) const SHOWN_EVERY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_a_disk_lasts_is_said_in_two_digits_or_three() {
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
        assert!(room_text(Path::new("here.tdms"), 0.0).ends_with("left"));
    }
}
