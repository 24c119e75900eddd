//! Formats readings and lists in the format that the user selects.
//!
//! # Layout
//! - [`readings`]: prints readings one at a time. [`human`], [`reading`], [`csv`] and [`template`]
//!   implement its formats; [`values`] and [`times`] format the parts of a reading; [`rates`]
//!   prints counts instead of readings.
//! - [`record`]: all other output, as typed records and lists of records.
//! - [`schema`]: the JSON schema of all output.

pub(crate) mod csv;
pub(crate) mod human;
pub(crate) mod rates;
pub(crate) mod reading;
pub(crate) mod readings;
pub(crate) mod record;
pub(crate) mod schema;
pub(crate) mod template;
pub(crate) mod times;
pub(crate) mod values;

use trunkline_types::{DataType, Reading, Timestamp};

use self::times::Times;

/// Formats a count followed by its noun, in the singular or plural.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// A reading together with the metadata of its variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadingView<'a> {
    pub(crate) name: &'a str,
    pub(crate) metadata: &'a Metadata,
    pub(crate) reading: &'a Reading,
    /// Time of arrival in this process.
    pub(crate) received: Timestamp,
    /// False before the first write, and when the source reports that it has no value.
    pub(crate) has_value: bool,
    /// True for a reading from a history. Such a reading may be interpolated, without an update at its
    /// time.
    pub(crate) is_recorded: bool,
}

/// The properties of a variable that are shown with its readings.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Metadata {
    pub(crate) data_type: DataType,
    pub(crate) units: String,
    pub(crate) precision: Option<u8>,
}

impl<'a> ReadingView<'a> {
    pub(crate) fn new(
        name: &'a str,
        metadata: &'a Metadata,
        reading: &'a Reading,
        received: Timestamp,
    ) -> Self {
        let has_value = reading.has_value();
        Self {
            name,
            metadata,
            reading,
            received,
            has_value,
            is_recorded: false,
        }
    }

    /// Like [`Self::new`], for a reading from a history.
    pub(crate) fn recorded(
        name: &'a str,
        metadata: &'a Metadata,
        reading: &'a Reading,
        received: Timestamp,
    ) -> Self {
        Self {
            is_recorded: true,
            ..Self::new(name, metadata, reading, received)
        }
    }

    pub(crate) fn is_written(&self) -> bool {
        self.reading.position.sequence > 0 || self.is_recorded
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
pub(crate) mod fixtures {
    //! Readings for tests of the output formats.

    use std::time::Duration;

    use trunkline_types::{
        DataType, Lost, Position, Quality, Reading, Reason, Sample, Timestamp, Value,
    };

    use super::Metadata;

    /// 2026-11-20T21:39:04.123456789Z.
    pub(crate) const T: Timestamp = Timestamp::from_nanos(1_795_210_744_123_456_789);

    pub(crate) fn metadata() -> Metadata {
        Metadata {
            data_type: DataType::F64,
            units: "%".into(),
            precision: Some(1),
        }
    }

    /// Returns a reading of good quality.
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

    /// Returns a reading with bad quality, in which every field differs from [`reading`].
    pub(crate) fn with_bad_quality() -> Reading {
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
