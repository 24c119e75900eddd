//! Readings and lists in the form that the user wants.
//!
//! # Layout
//! - [`readings`]: prints readings, one after the other; [`human`], [`json`], [`csv`], [`template`]
//!   are its forms, [`values`] and [`times`] write their parts; [`rates`] counts them instead.
//! - [`records`]: prints lists with columns of any kind.

pub(crate) mod csv;
pub(crate) mod human;
pub(crate) mod json;
pub(crate) mod rates;
pub(crate) mod readings;
pub(crate) mod records;
pub(crate) mod template;
pub(crate) mod times;
pub(crate) mod values;

use trunkline_types::{DataType, Reading, Timestamp};

use self::times::Times;

/// A number of things, with the word for one of them, or for several.
pub(crate) fn counted(count: u64, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    }
}

/// A reading with what is known of its variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) name: &'a str,
    pub(crate) facts: &'a Facts,
    pub(crate) reading: &'a Reading,
    /// When it arrived here.
    pub(crate) received: Timestamp,
    /// Whether there is a value: before anything was written there is none, and a source may say
    /// that it has none.
    pub(crate) has_value: bool,
}

/// What of a variable's properties shows with its readings.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Facts {
    pub(crate) data_type: DataType,
    pub(crate) units: String,
    pub(crate) precision: Option<u8>,
}

impl<'a> Shown<'a> {
    /// A reading as it came.
    pub(crate) fn new(
        name: &'a str,
        facts: &'a Facts,
        reading: &'a Reading,
        received: Timestamp,
    ) -> Self {
        let has_value = reading.has_value();
        Self {
            name,
            facts,
            reading,
            received,
            has_value,
        }
    }

    /// Whether anything was written to the variable yet.
    pub(crate) fn is_written(&self) -> bool {
        self.reading.position.sequence > 0
    }

    pub(crate) fn times(&self) -> Times {
        let sample = &self.reading.sample;
        Times {
            source: sample.source_timestamp,
            engine: sample.engine_timestamp,
            local: self.received,
        }
    }
}

#[cfg(test)]
pub(crate) mod specimen {
    //! One reading to try the forms on.

    use std::time::Duration;

    use trunkline_types::{
        DataType, Lost, Position, Quality, Reading, Reason, Sample, Timestamp, Value,
    };

    use super::Facts;

    /// 2026-11-20T21:39:04.123456789Z.
    pub(crate) const T: Timestamp = Timestamp::from_nanos(1_795_210_744_123_456_789);

    pub(crate) fn facts() -> Facts {
        Facts {
            data_type: DataType::F64,
            units: "%".into(),
            precision: Some(1),
        }
    }

    /// A good one.
    pub(crate) fn reading() -> Reading {
        Reading {
            sample: Sample {
                value: Value::F64(72.41),
                source_timestamp: T,
                engine_timestamp: T,
                quality: Quality::GOOD,
            },
            position: Position {
                epoch: 12,
                sequence: 48_213,
            },
            lost: Lost::NONE,
            stale: None,
            own: false,
        }
    }

    /// One with everything to say.
    pub(crate) fn troubled() -> Reading {
        let mut reading = reading();
        reading.sample.value = Value::F64(f64::NAN);
        reading.sample.quality = Quality::bad(Reason::SensorFailure).with_simulated(true);
        reading.sample.engine_timestamp = T.saturating_add_nanos(1);
        reading.lost = Lost {
            coalesced: 4,
            queue: 2,
            overrun: 1,
            disconnect: 0,
            unknown: false,
        };
        reading.stale = Some(Duration::from_millis(3250));
        reading.own = true;
        reading
    }
}
