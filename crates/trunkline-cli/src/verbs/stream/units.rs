//! Sizes and rates as people write them.

use std::time::Duration;

/// Powers of ten, as networks and disks are sold.
const UNITS: [(&str, f64); 4] = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];

/// A size with three digits that count.
pub(crate) fn bytes_text(bytes: f64) -> String {
    match UNITS.iter().find(|(_, size)| bytes >= *size) {
        None => format!("{bytes:.0} B"),
        Some((unit, size)) => {
            let number = bytes / size;
            let digits = usize::from(number < 100.0) + usize::from(number < 10.0);
            format!("{number:.digits$} {unit}")
        }
    }
}

/// A large number with three digits that count.
pub(super) fn counted_text(count: u64) -> String {
    let count = count as f64;
    match [("G", 1e9), ("M", 1e6), ("k", 1e3)]
        .iter()
        .find(|(_, size)| count >= *size)
    {
        None => format!("{count:.0}"),
        Some((unit, size)) => format!("{:.2} {unit}", count / size),
    }
}

pub(crate) fn rate_text(bytes_per_second: f64) -> String {
    format!("{}/s", bytes_text(bytes_per_second))
}

/// So much within that time, per second.
pub(super) fn per_second(count: u64, elapsed: Duration) -> f64 {
    // A clock that has not moved makes no rate infinite.
    count as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// Reads a size such as `1GB`, `64 MiB`, `4096`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" | "k" => 1e3,
        "mb" | "m" => 1e6,
        "gb" | "g" => 1e9,
        "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        _ => f64::NAN,
    };
    let bytes = number.parse::<f64>().map_or(f64::NAN, |n| n * factor);
    match (1.0..=1e18).contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err(
            "it is not a size; write a number of bytes, or one with kB, MB, GB, KiB, \
                      MiB or GiB"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("4096", 4096),
            ("1GB", 1_000_000_000),
            ("1.5 MB", 1_500_000),
            ("64 KiB", 65_536),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GB", "-1", "1 XB", "0", "1e30"] {
            assert!(size(text).is_err(), "{text}");
        }
        for (bytes, text) in [
            (999.0, "999 B"),
            (1000.0, "1.00 kB"),
            (96_000_000.0, "96.0 MB"),
            (1.234e11, "123 GB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
