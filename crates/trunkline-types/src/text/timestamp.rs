//! Formats and parses timestamps in UTC and in the proleptic Gregorian calendar.
//!
//! The day arithmetic counts from 0000-03-01, which makes the leap day the last day of a year:
//! "chrono-Compatible Low-Level Date Algorithms", Howard Hinnant.

use std::fmt;

use crate::Timestamp;

use super::{ConvertError, clip};

/// Formats as `2026-11-20T21:39:04.123456789Z`, always with nine decimal places.
pub fn format_rfc3339(timestamp: Timestamp) -> String {
    timestamp.to_string()
}

/// Formats as `2026-11-20 21:39:04.123456`: UTC, truncated (not rounded) to microseconds. This is
/// the wide form of EPICS tools.
pub fn format_wide(timestamp: Timestamp) -> String {
    let mut text = timestamp.to_string().replacen('T', " ", 1);
    text.truncate("2026-11-20 21:39:04.123456".len());
    text
}

/// Parses the output of [`format_rfc3339`] and [`format_wide`], and all of RFC 3339: a space or
/// lower-case `t` between date and time, any number of decimal places (only zeros after the ninth),
/// `z`, and an offset such as `+02:00`. Without an offset the time is UTC.
///
/// # Errors
/// [`ConvertError::NotATime`], including for second 60, which this time scale does not have;
/// [`ConvertError::TimeRange`] outside the years 1677 to 2262.
pub fn parse_rfc3339(text: &str) -> Result<Timestamp, ConvertError> {
    let nanos = parse(text).ok_or_else(|| ConvertError::NotATime { text: clip(text) })?;
    let nanos = i64::try_from(nanos).map_err(|_| ConvertError::TimeRange { text: clip(text) })?;
    Ok(Timestamp::from_nanos(nanos))
}

/// Writes the same form as [`format_rfc3339`].
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DateTime {
            year,
            month,
            day,
            hour,
            minute,
            second,
            nanos,
        } = DateTime::of(*self);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z"
        )
    }
}

/// A date and a time of day, in UTC.
struct DateTime {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: i64,
}

impl DateTime {
    fn of(timestamp: Timestamp) -> Self {
        let seconds = timestamp.as_nanos().div_euclid(NANOS_PER_SECOND);
        let second_of_day = seconds.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
        Self {
            year,
            month,
            day,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            nanos: timestamp.as_nanos().rem_euclid(NANOS_PER_SECOND),
        }
    }
}

/// Converts days after 1970-01-01 to year, month and day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + DAYS_BEFORE_1970;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the number of days from 1970-01-01 to this day.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_BEFORE_1970
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

fn parse(text: &str) -> Option<i128> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    punctuation(&mut rest, &['-'])?;
    let month = digits(&mut rest, 2)?;
    punctuation(&mut rest, &['-'])?;
    let day = digits(&mut rest, 2)?;
    punctuation(&mut rest, &['T', 't', ' '])?;
    let hour = digits(&mut rest, 2)?;
    punctuation(&mut rest, &[':'])?;
    let minute = digits(&mut rest, 2)?;
    punctuation(&mut rest, &[':'])?;
    let second = digits(&mut rest, 2)?;
    let date_fits = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if !date_fits || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let nanos = fraction(&mut rest)?;
    let offset = offset_seconds(rest)?;
    let seconds =
        days_from_civil(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second
            - offset;
    Some(i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos))
}

/// Reads the nanoseconds after the decimal point; returns 0 if there is no decimal point.
fn fraction(rest: &mut &str) -> Option<i64> {
    let Some(after) = rest.strip_prefix('.') else {
        return Some(0);
    };
    let length = after.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, tail) = after.split_at(length);
    let (nanos, finer) = digits.split_at(length.min(9));
    if nanos.is_empty() || finer.bytes().any(|digit| digit != b'0') {
        return None;
    }
    *rest = tail;
    let scale = 10_i64.pow(9_u32.saturating_sub(nanos.len() as u32));
    Some(nanos.parse::<i64>().ok()? * scale)
}

fn offset_seconds(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text {
        "" | "Z" | "z" => return Some(0),
        _ => match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(rest), _) => (1, rest),
            (_, Some(rest)) => (-1, rest),
            _ => return None,
        },
    };
    let hours = digits(&mut rest, 2)?;
    punctuation(&mut rest, &[':'])?;
    let minutes = digits(&mut rest, 2)?;
    let fits = rest.is_empty() && hours <= 23 && minutes <= 59;
    fits.then_some(sign * (hours * 3600 + minutes * 60))
}

fn digits(rest: &mut &str, count: usize) -> Option<i64> {
    let (digits, tail) = rest.split_at_checked(count)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    *rest = tail;
    digits.parse().ok()
}

fn punctuation(rest: &mut &str, any: &[char]) -> Option<()> {
    *rest = rest.strip_prefix(any)?;
    Some(())
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// Number of days in 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
/// Number of days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_468;
