//! Formats times: `--time`, `--clock` and `--utc`.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use trunkline_types::Timestamp;
use trunkline_types::text::format_wide;

use crate::arguments::{ClockChoice, GlobalArgs, TimeStyle};

/// The options that determine which times are shown, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimeChoice {
    /// `None` if the command selects the style.
    style: Option<TimeStyle>,
    clock: ClockChoice,
    utc: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    pub(crate) source: Timestamp,
    pub(crate) engine: Timestamp,
    /// Time of arrival in this process.
    pub(crate) local: Timestamp,
}

#[derive(Debug)]
pub(crate) struct TimeColumn {
    style: TimeStyle,
    clock: ClockChoice,
    /// `None` for UTC.
    zone: Option<TimeZone>,
    started: Timestamp,
    /// Time of the last line of each variable.
    last: HashMap<String, Timestamp>,
}

impl From<Timestamp> for Times {
    /// Uses `time` for every clock, for an event that only one clock has measured.
    fn from(time: Timestamp) -> Self {
        Self {
            source: time,
            engine: time,
            local: time,
        }
    }
}

impl TimeChoice {
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        Self {
            style: global.time,
            clock: global.clock,
            utc: global.utc,
        }
    }

    pub(crate) fn zone(self) -> TimeZone {
        match self.utc {
            true => TimeZone::UTC,
            false => TimeZone::system(),
        }
    }

    /// Returns the column if `--time` or the command asks for one.
    pub(crate) fn column(self, by_default: bool, started: Timestamp) -> Option<TimeColumn> {
        let style = match self.style {
            Some(TimeStyle::None) => return None,
            Some(style) => style,
            None if by_default => TimeStyle::Abs,
            None => return None,
        };
        let zone = (!self.utc).then(TimeZone::system);
        Some(TimeColumn {
            style,
            clock: self.clock,
            zone,
            started,
            last: HashMap::new(),
        })
    }
}

impl TimeColumn {
    pub(crate) fn text(&mut self, name: &str, times: Times) -> String {
        let time = match self.clock {
            ClockChoice::Source => times.source,
            ClockChoice::Engine => times.engine,
            ClockChoice::Local => times.local,
        };
        match self.style {
            TimeStyle::Abs => self.absolute(time),
            TimeStyle::Rel => seconds(time.nanos_since(self.started), 6),
            TimeStyle::Delta => {
                let previous = self.last.insert(name.to_owned(), time).unwrap_or(time);
                seconds(time.nanos_since(previous), 6)
            }
            TimeStyle::Unix => seconds(time.as_nanos(), 9),
            TimeStyle::None => String::new(),
        }
    }

    pub(crate) fn absolute(&self, time: Timestamp) -> String {
        let Some(zone) = &self.zone else {
            return format_wide(time);
        };
        match jiff::Timestamp::from_nanosecond(i128::from(time.as_nanos())) {
            Ok(instant) => instant
                .to_zoned(zone.clone())
                .strftime("%Y-%m-%d %H:%M:%S%.6f")
                .to_string(),
            Err(_) => format_wide(time),
        }
    }
}

/// Formats nanoseconds as seconds with `digits` decimal places, truncated.
fn seconds(nanos: i64, digits: u32) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, rest) = (
        nanos.unsigned_abs() / 1_000_000_000,
        nanos.unsigned_abs() % 1_000_000_000,
    );
    let rest = rest / 10_u64.pow(9_u32.saturating_sub(digits));
    format!("{sign}{whole}.{rest:0width$}", width = digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Timestamp = Timestamp::from_nanos(1_795_210_744_123_456_789);

    fn column(style: TimeStyle, clock: ClockChoice) -> TimeColumn {
        let choice = TimeChoice {
            style: Some(style),
            clock,
            utc: true,
        };
        choice
            .column(false, T.saturating_add_nanos(-2_500_000_000))
            .unwrap()
    }

    fn times() -> Times {
        let engine = T.saturating_add_nanos(1_000_000_000);
        Times {
            source: T,
            engine,
            local: T.saturating_add_nanos(2_000_000_000),
        }
    }

    #[test]
    fn every_style_has_its_format() {
        let cases = [
            (TimeStyle::Abs, "2026-11-20 21:39:04.123456"),
            (TimeStyle::Rel, "2.500000"),
            (TimeStyle::Unix, "1795210744.123456789"),
            (TimeStyle::Delta, "0.000000"),
        ];
        for (style, expected) in cases {
            let mut sut = column(style, ClockChoice::Source);
            assert_eq!(sut.text("a/b", times()), expected, "{style:?}");
        }
    }

    #[test]
    fn the_option_selects_the_clock() {
        let shown = |clock| column(TimeStyle::Rel, clock).text("a/b", times());
        assert_eq!(shown(ClockChoice::Engine), "3.500000");
        assert_eq!(shown(ClockChoice::Local), "4.500000");
    }

    #[test]
    fn increments_are_counted_per_variable_and_may_be_negative() {
        let mut sut = column(TimeStyle::Delta, ClockChoice::Source);
        let at = |nanos| Times {
            source: T.saturating_add_nanos(nanos),
            ..times()
        };
        sut.text("a/b", at(0));
        assert_eq!(sut.text("a/c", at(5)), "0.000000");
        assert_eq!(sut.text("a/b", at(1_500_000_000)), "1.500000");
        assert_eq!(sut.text("a/b", at(250_000_000)), "-1.250000");
    }

    #[test]
    fn the_time_column_is_omitted_unless_requested() {
        let choice = TimeChoice {
            style: None,
            clock: ClockChoice::Source,
            utc: true,
        };
        assert!(choice.column(false, T).is_none());
        assert!(choice.column(true, T).is_some());
        let none = TimeChoice {
            style: Some(TimeStyle::None),
            ..choice
        };
        assert!(none.column(true, T).is_none());
    }
}
