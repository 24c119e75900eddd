//! Parses sizes in bytes that users type.

/// Units of bytes, in lower case. Single letters are powers of ten.
const UNITS: [(&str, u64); 13] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("kb", 1_000),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Parses a number of bytes such as `4096`, `64 KiB`, `1.5 MB` or `1GB`: powers of ten with `kB`,
/// `MB`, `GB` and `TB`, powers of two with `KiB`, `MiB`, `GiB` and `TiB`, in any case. A fraction
/// of a byte is truncated. Returns `None` if the text is not such a number or does not fit into 64
/// bits.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim_start().to_ascii_lowercase();
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let factor = u128::from(*factor);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // The largest factor has 12 zeros, so more decimal places are refused.
    if fraction.is_empty() || fraction.len() > 12 {
        return None;
    }
    let part = fraction.parse::<u128>().ok()? * factor / 10u128.pow(fraction.len() as u32);
    let whole = u128::from(whole.parse::<u64>().ok()?);
    u64::try_from(whole * factor + part).ok()
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4_096),
            ("12 B", 12),
            ("8kB", 8_000),
            ("64 KiB", 65_536),
            ("64kib", 65_536),
            ("1.5 MB", 1_500_000),
            ("16 MiB", 16 << 20),
            ("1GB", 1_000_000_000),
            ("1G", 1_000_000_000),
            ("1GiB", 1 << 30),
            (" 0.1 KiB ", 102),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in [
            "",
            "GB",
            "-1",
            "+1",
            "1 XB",
            "1.",
            ".5",
            "1.2.3",
            "1e30",
            "18446744073709551616",
            "18446744073709551615 KiB",
            "340282366920938463463374607431768211456 TB",
            "1.0000000000000 B",
        ] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
