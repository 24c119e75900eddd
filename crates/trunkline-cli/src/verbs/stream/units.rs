//! Formats and parses sizes and rates.

use std::time::Duration;

use trunkline_types::text::parse_size;

/// Powers of ten, as usual for networks and disks.
const UNITS: [(&str, f64); 4] = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];

/// Formats a size with three significant digits.
pub(in crate::verbs) fn bytes_text(bytes: f64) -> String {
    match UNITS.iter().find(|(_, size)| bytes >= *size) {
        None => format!("{bytes:.0} B"),
        Some((unit, size)) => {
            let number = bytes / size;
            let digits = usize::from(number < 100.0) + usize::from(number < 10.0);
            format!("{number:.digits$} {unit}")
        }
    }
}

/// Formats a number. From 1,000 on, it has two decimal places and a unit prefix.
pub(in crate::verbs) fn counted_text(count: u64) -> String {
    let count = count as f64;
    match [("G", 1e9), ("M", 1e6), ("k", 1e3)]
        .iter()
        .find(|(_, size)| count >= *size)
    {
        None => format!("{count:.0}"),
        Some((unit, size)) => format!("{:.2} {unit}", count / size),
    }
}

pub(in crate::verbs) fn rate_text(bytes_per_second: f64) -> String {
    format!("{}/s", bytes_text(bytes_per_second))
}

pub(in crate::verbs) fn per_second(count: u64, elapsed: Duration) -> f64 {
    // The rate must not be infinite if the clock has not advanced.
    count as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// Parses a size such as `1GB`, `64 MiB`, `4096`.
pub(in crate::verbs) fn size(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Some(bytes @ 1..=1_000_000_000_000_000_000) => Ok(bytes),
        _ => Err(
            "it is not a size greater than 0; write a number of bytes, or a number with a unit: \
             kB, MB, GB, KiB, MiB or GiB"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_formatted() {
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
