//! Selects rows by number or by time, and computes the time of each.

use serde_json::Value as Json;
use trunkline_tdms::{Channel, ReadAt, TdmsFile, Waveform};
use trunkline_types::Timestamp;
use trunkline_types::contract::parse_duration;

use super::RowArgs;
use super::columns::Column;
use super::opened::escaped;
use super::times::Times;
use crate::instant::Now;
use crate::{CliError, Context, Problem};

const NANOS: f64 = 1e9;

/// The time axis of the rows, if all channels share one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Axis {
    /// Time of row 0 without the offset, in nanoseconds since 1970; `None` if unknown.
    start: Option<i64>,
    /// Distance of row 0 from the start, in the unit of the axis: seconds if there is a start time.
    offset: f64,
    /// Distance between two rows, in the unit of the axis.
    increment: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum RowTime {
    Time(Timestamp),
    /// The axis has no start time: only a distance is known, in the unit of the axis.
    Distance(f64),
}

impl RowTime {
    pub(super) fn json(self) -> Json {
        match self {
            Self::Time(time) => Json::from(time.to_string()),
            Self::Distance(distance) => Json::from(distance),
        }
    }
}

/// A value of `--from` or `--to`.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Bound {
    Row(u64),
    /// Seconds after row 0.
    SinceFirst(f64),
    /// Nanoseconds since 1970.
    Time(i64),
}

impl Axis {
    /// Returns the axis of these columns, or `None` if a column has no axis or the axes differ.
    pub(super) fn of<R: ReadAt>(columns: &[Column<'_, R>]) -> Option<Self> {
        let mut all = columns.iter().map(|column| column.channel.waveform());
        let first = all.next().flatten()?;
        let is_common = all.all(|other| {
            other.is_some_and(|other| {
                (other.start, other.offset, other.increment)
                    == (first.start, first.offset, first.increment)
            })
        });
        is_common.then(|| Self::new(first)).flatten()
    }

    pub(super) fn of_channel<R: ReadAt>(channel: &Channel<'_, R>) -> Option<Self> {
        channel.waveform().and_then(Self::new)
    }

    fn new(waveform: Waveform) -> Option<Self> {
        let Waveform {
            offset, increment, ..
        } = waveform;
        let is_usable = increment > 0.0 && increment.is_finite() && offset.is_finite();
        is_usable.then(|| Self {
            start: waveform
                .start
                .and_then(|start| Some(start.to_timestamp()?.as_nanos())),
            offset,
            increment,
        })
    }

    pub(super) fn at(&self, row: u64) -> RowTime {
        let distance = self.offset + row as f64 * self.increment;
        match self.start {
            None => RowTime::Distance(distance),
            Some(start) => {
                // Add whole seconds separately, so that rounding does not lose nanoseconds.
                let nanos = (distance.fract() * NANOS).round() as i64;
                let whole_seconds = (distance.trunc() as i64).saturating_mul(NANOS as i64);
                let time = Timestamp::from_nanos(start).saturating_add_nanos(whole_seconds);
                RowTime::Time(time.saturating_add_nanos(nanos))
            }
        }
    }

    /// Returns the first row that is not before a bound.
    fn row(&self, bound: Bound) -> Result<u64, &'static str> {
        let seconds = match (bound, self.start) {
            (Bound::Row(row), _) => return Ok(row),
            (Bound::SinceFirst(seconds), _) => seconds,
            (Bound::Time(_), None) => return Err("the waveform has no start time"),
            (Bound::Time(time), Some(start)) => {
                (i128::from(time) - i128::from(start)) as f64 / NANOS - self.offset
            }
        };
        let row = seconds / self.increment;
        let nearest = row.round();
        // A bound very close to a row selects that row, whatever the rounding error of the division.
        let tolerance = (1e-9 * row.abs())
            .max(0.5 / NANOS / self.increment)
            .min(0.5);
        let row = match (row - nearest).abs() <= tolerance {
            true => nearest,
            false => row.ceil(),
        };
        // The conversion saturates at the limits of `u64`.
        Ok(row.max(0.0) as u64)
    }
}

impl Bound {
    fn parse(option: &str, text: &str, now: &Now) -> Result<Self, Problem> {
        let text = text.trim();
        if let Ok(row) = text.parse() {
            return Ok(Self::Row(row));
        }
        if let Some(duration) = parse_duration(text) {
            return Ok(Self::SinceFirst(duration.as_secs_f64()));
        }
        match now.parse(text) {
            Some(time) => Ok(Self::Time(time.as_nanos())),
            None => Err(Problem::usage(format!(
                "{option} \"{text}\" is not a row; write its number from 0, a time since the first \
                 row such as 1.5s, or a time such as 2026-11-20T21:39:04, 14:30 or yesterday"
            ))),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum RangeEnd {
    From,
    To,
}

/// Returns the selected rows that exist, at most `count`, as the first row and the row after the
/// last.
pub(super) fn range<R: ReadAt>(
    file: &TdmsFile<R>,
    args: &RowArgs,
    count: Option<u64>,
    columns: &[Column<'_, R>],
    axis: Option<&Axis>,
    now: &Now,
) -> Result<(u64, u64), Problem> {
    let len = columns.iter().map(|column| column.channel.len()).max();
    let len = len.unwrap_or(0);
    let bound = |end: RangeEnd, text: &Option<String>, default: u64| -> Result<u64, Problem> {
        let Some(text) = text else {
            return Ok(default);
        };
        let option = match end {
            RangeEnd::From => "--from",
            RangeEnd::To => "--to",
        };
        let no_row = |reason: &str, remedy: Option<&str>| {
            let remedy =
                remedy.unwrap_or("choose other channels with --channel, or give row numbers");
            Problem::usage(format!("{option} {text}: {reason}; {remedy}"))
        };
        match (Bound::parse(option, text, now)?, axis) {
            (Bound::Row(row), _) => Ok(row),
            (bound, Some(axis)) => axis.row(bound).map_err(|reason| no_row(reason, None)),
            (bound, None) => {
                let times = Times::of(file, columns)
                    .map_err(|no_times| no_row(&no_times.reason, no_times.remedy.as_deref()))?;
                row_by_times(&times, bound, end)
            }
        }
    };
    let from = bound(RangeEnd::From, &args.from, 0)?.min(len);
    let to = bound(RangeEnd::To, &args.to, len)?.min(len);
    let to = to.min(from.saturating_add(count.unwrap_or(u64::MAX)));
    Ok((from, to.max(from)))
}

fn row_by_times<R: ReadAt>(
    times: &Times<'_, R>,
    bound: Bound,
    end: RangeEnd,
) -> Result<u64, Problem> {
    let time = match bound {
        Bound::Row(row) => return Ok(row),
        Bound::Time(nanos) => Timestamp::from_nanos(nanos).into(),
        Bound::SinceFirst(seconds) => times.time_after_first(seconds)?,
    };
    match end {
        RangeEnd::From => times.first_from(time),
        RangeEnd::To => times.end_before(time),
    }
}

/// Reports a selection without rows, because an empty output does not show the reason.
pub(super) fn report_no_rows<R: ReadAt>(
    args: &RowArgs,
    columns: &[Column<'_, R>],
    (from, to): (u64, u64),
    context: &Context,
) -> Result<(), CliError> {
    let len = columns.iter().map(|column| column.channel.len()).max();
    let len = len.unwrap_or(0);
    let reason = match (&args.from, &args.to) {
        _ if from < to || args.count == Some(0) => return Ok(()),
        (None, None) => return Ok(()),
        (Some(text), _) if from >= len => format!("--from {text} is after the last row"),
        (Some(text), Some(end)) => format!("--to {end} is not after --from {text}"),
        (_, end) => format!(
            "no row is before --to {}",
            end.as_deref().unwrap_or_default()
        ),
    };
    let rows = match len {
        0 => "there are no rows".to_owned(),
        1 => "the only row is not selected".to_owned(),
        len => format!("none of the {len} rows is selected"),
    };
    let line = escaped(&format!("{rows}: {reason}"));
    context.note_with_code("no-rows", &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(start: Option<i64>, offset: f64, increment: f64) -> Axis {
        Axis {
            start,
            offset,
            increment,
        }
    }

    #[test]
    fn bound_is_a_row_number_a_time_since_the_first_row_or_a_date() {
        let sut = axis(Some(1_000_000_000), 0.5, 0.001);
        let now = Now {
            time: Timestamp::UNIX_EPOCH,
            zone: jiff::tz::TimeZone::UTC,
        };
        let row = |text: &str| sut.row(Bound::parse("--from", text, &now).unwrap());
        for (text, expected) in [
            ("17", 17),
            ("0s", 0),
            ("1s", 1000),
            ("1.0005s", 1001),
            ("500us", 1),
            // Row 0 is half a second after the start.
            ("1970-01-01T00:00:01.5Z", 0),
            ("1970-01-01T00:00:01.501Z", 1),
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01 00:00:01.501", 1),
            ("00:00:01.501", 1),
            ("today", 0),
        ] {
            assert_eq!(row(text), Ok(expected), "{text}");
        }
        for text in ["", "-1", "x", "1 fortnight"] {
            assert!(Bound::parse("--from", text, &now).is_err(), "{text}");
        }
        let without_start = axis(None, 0.0, 0.5);
        assert_eq!(without_start.row(Bound::SinceFirst(2.0)), Ok(4));
        assert!(without_start.row(Bound::Time(0)).is_err());
    }

    #[test]
    fn every_row_is_found_again_by_its_time() {
        for increment in [1e-6, 0.001, 1.0 / 48_000.0, 0.1, 7.0] {
            let sut = axis(Some(1_767_225_600_123_456_789), -0.25, increment);
            for row in [0, 1, 2, 999, 1_000_003, 86_400_000] {
                let RowTime::Time(time) = sut.at(row) else {
                    panic!("the axis has a start time")
                };
                let found = sut.row(Bound::Time(time.as_nanos()));
                assert_eq!(found, Ok(row), "{increment}");
            }
        }
    }

    #[test]
    fn invalid_waveform_gives_no_axis() {
        for (offset, increment) in [(0.0, 0.0), (0.0, -1.0), (0.0, f64::NAN), (f64::NAN, 1.0)] {
            let waveform = Waveform {
                offset,
                increment,
                ..Waveform::default()
            };
            assert_eq!(Axis::new(waveform), None);
        }
    }
}
