//! Parses times in the forms that people use: a date, a time of day, a word, or an age.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{ToSpan, Zoned};
use trunkline_types::Timestamp;
use trunkline_types::contract::parse_duration;
use trunkline_types::text::parse_rfc3339;

/// Accepted forms, for error messages of options that take a time.
pub(crate) const FORMS: &str = "write a time such as 2026-11-21T08:00, 14:30, today or yesterday, \
                                or an age such as 10m or \"2 hours ago\"";

/// The reference for times without a zone or a date.
#[derive(Clone, Debug)]
pub(crate) struct Now {
    pub(crate) time: Timestamp,
    pub(crate) zone: TimeZone,
}

impl Now {
    /// Parses a time:
    ///
    /// - `now`, or `today`, `yesterday` or `tomorrow`, optionally with a time of day;
    /// - a time of day, which means today, or a date, optionally with a time of day;
    /// - any of these followed by a zone; `@` followed by seconds since 1970;
    /// - an age, or a duration with a leading `+`, which is a time in the future.
    pub(crate) fn parse(&self, text: &str) -> Option<Timestamp> {
        let text = text.trim();
        if has_zone(text)
            && let Ok(time) = parse_rfc3339(text)
        {
            return Some(time);
        }
        if let Some(seconds) = text.strip_prefix('@') {
            return Some(Timestamp::from_nanos(duration(seconds)?));
        }
        if let Some(nanos) = self.distance(text) {
            return Some(self.time.saturating_add_nanos(nanos));
        }
        let (text, zone) = match text.strip_suffix("UTC").or(text.strip_suffix('Z')) {
            Some(text) => (text.trim_end(), TimeZone::UTC),
            None => (text, self.zone.clone()),
        };
        if text == "now" {
            return Some(self.time);
        }
        let zoned = self.civil(text, &zone)?.to_zoned(zone).ok()?;
        let nanos = i64::try_from(zoned.timestamp().as_nanosecond()).ok()?;
        Some(Timestamp::from_nanos(nanos))
    }

    /// Parses an age, or a duration with a leading `+`, as nanoseconds relative to now.
    fn distance(&self, text: &str) -> Option<i64> {
        // A number with a sign could mean a row or an index, so it is accepted only with a unit.
        let is_signed = text.starts_with(['+', '-']);
        if is_signed && text.ends_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        if let Some(ahead) = text.strip_prefix('+') {
            return duration(ahead);
        }
        let ago = text.strip_suffix("ago").map(str::trim_end);
        let ago = ago.unwrap_or(text);
        duration(ago.strip_prefix('-').unwrap_or(ago)).map(|nanos| -nanos)
    }

    fn civil(&self, text: &str, zone: &TimeZone) -> Option<DateTime> {
        let (first, rest) = match text.split_once(' ') {
            Some((first, rest)) => (first, Some(rest.trim_start())),
            None => (text, None),
        };
        let time = match rest {
            Some(rest) => time_of_day(rest)?,
            None => Time::midnight(),
        };
        if let Some(days) = day(first) {
            let date = self.today(zone)?.checked_add(days.days()).ok()?;
            return Some(date.to_datetime(time));
        }
        match (time_of_day(text), rest) {
            (Some(time), _) => Some(self.today(zone)?.to_datetime(time)),
            (None, Some(_)) => Some(first.parse::<Date>().ok()?.to_datetime(time)),
            (None, None) => text.parse().ok(),
        }
    }

    fn today(&self, zone: &TimeZone) -> Option<Date> {
        let now = jiff::Timestamp::from_nanosecond(i128::from(self.time.as_nanos())).ok()?;
        Some(Zoned::new(now, zone.clone()).date())
    }
}

fn has_zone(text: &str) -> bool {
    const DATE: usize = "2026-11-21".len();
    let time = text.get(DATE..).unwrap_or_default();
    text.ends_with(['Z', 'z']) || time.contains(['+', '-'])
}

fn day(word: &str) -> Option<i64> {
    match word {
        "yesterday" => Some(-1),
        "today" => Some(0),
        "tomorrow" => Some(1),
        _ => None,
    }
}

/// Parses a time of day with at least hours and minutes; `14` alone is not one.
fn time_of_day(text: &str) -> Option<Time> {
    match text.as_bytes() {
        [b'0'..=b'9', b':', ..] => format!("0{text}").parse().ok(),
        [b'0'..=b'9', b'0'..=b'9', b':', ..] => text.parse().ok(),
        _ => None,
    }
}

/// Parses a sum of numbers with units, such as `1h 30min`, into nanoseconds. A bare number is in
/// seconds.
fn duration(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_i64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        if unit.is_empty() && !after.is_empty() {
            return None;
        }
        let (unit, factor) = unit_of(unit)?;
        let nanos = parse_duration(&format!("{number}{unit}"))?.as_nanos();
        let nanos = i64::try_from(nanos).ok()?.checked_mul(factor)?;
        sum = sum.checked_add(nanos)?;
        rest = after.trim_start();
    }
    Some(sum)
}

/// Maps a word to a unit of [`parse_duration`] and a factor.
fn unit_of(word: &str) -> Option<(&str, i64)> {
    Some(match word {
        "sec" | "second" | "seconds" => ("s", 1),
        "min" | "minute" | "minutes" => ("m", 1),
        "hr" | "hour" | "hours" => ("h", 1),
        "day" | "days" => ("d", 1),
        "w" | "week" | "weeks" => ("d", 7),
        "" | "ns" | "us" | "ms" | "s" | "m" | "h" | "d" => (word, 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21, 10:30:15 in a zone two hours ahead of UTC.
    fn now() -> Now {
        Now {
            time: parse_rfc3339("2026-11-21T08:30:15Z").unwrap(),
            zone: TimeZone::fixed(jiff::tz::offset(2)),
        }
    }

    #[test]
    fn times_without_a_zone_are_local_times() {
        for (text, expected) in [
            ("now", "2026-11-21T08:30:15Z"),
            ("today", "2026-11-20T22:00:00Z"),
            ("yesterday", "2026-11-19T22:00:00Z"),
            ("tomorrow", "2026-11-21T22:00:00Z"),
            ("yesterday 14:30", "2026-11-20T12:30:00Z"),
            ("14:30", "2026-11-21T12:30:00Z"),
            ("9:05", "2026-11-21T07:05:00Z"),
            ("14:30:05.25", "2026-11-21T12:30:05.25Z"),
            ("2026-11-20", "2026-11-19T22:00:00Z"),
            ("2026-11-20 08:00", "2026-11-20T06:00:00Z"),
            ("2026-11-20T08:00", "2026-11-20T06:00:00Z"),
            (" 2026-11-20 08:00:30 ", "2026-11-20T06:00:30Z"),
            ("2026-11-20 08:00 UTC", "2026-11-20T08:00:00Z"),
            ("08:00 UTC", "2026-11-21T08:00:00Z"),
            ("today UTC", "2026-11-21T00:00:00Z"),
            ("2026-11-20T08:00:00Z", "2026-11-20T08:00:00Z"),
            ("2026-11-20T08:00:00+05:00", "2026-11-20T03:00:00Z"),
            ("@0", "1970-01-01T00:00:00Z"),
            ("@1.5", "1970-01-01T00:00:01.5Z"),
        ] {
            assert_eq!(now().parse(text), parse_rfc3339(expected).ok(), "{text}");
        }
    }

    #[test]
    fn durations_are_relative_to_now() {
        const SECOND: i64 = 1_000_000_000;
        for (text, seconds) in [
            ("10", -10),
            ("10s", -10),
            ("10m", -600),
            ("10 min ago", -600),
            ("-10 min", -600),
            ("1h30m", -5_400),
            ("1h 30min ago", -5_400),
            ("2 hours ago", -7_200),
            ("1.5h", -5_400),
            ("3d", -259_200),
            ("1 week ago", -604_800),
            ("+1h", 3_600),
        ] {
            let expected = now().time.saturating_add_nanos(seconds * SECOND);
            assert_eq!(now().parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            " ",
            "@",
            "ago",
            "-",
            "+",
            "1 fortnight",
            "10x",
            "1 2",
            "1.m",
            ".5h",
            "25:00",
            "14:75",
            "yester",
            "yesterday 25:00",
            "today 14",
            "2026-13-01",
            "2026-11-20 8",
            "99999999999d",
            "@99999999999999",
            "today tomorrow",
            "noon",
            "-1",
            "+1",
            "Z",
            "UTC",
        ] {
            assert_eq!(now().parse(text), None, "{text}");
        }
    }
}
