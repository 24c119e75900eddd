//! Stores the arriving updates of an item: the local copy and its age.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::{Disconnect, digest};
use trunkline_types::wire::{DecodeError, decode_exact, encode_value};
use trunkline_types::{
    ArrayType, DataType, Lost, Position, Quality, Reading, Reason, Sample, Tick, Timestamp, Value,
};

use super::reading_buffer::Entry;
use crate::error::malformed;

/// Maximum size in bytes of the default value for a variable that has no value.
const DEFAULT_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug)]
/// An update that has arrived.
pub(crate) struct Received {
    /// The value; `None` if the variable has not been written yet. The placeholder value is created
    /// only when the program takes the reading, because a hostile engine could name a type with a
    /// large default value.
    pub(crate) value: Option<Value>,
    pub(crate) source_timestamp: Timestamp,
    pub(crate) engine_timestamp: Timestamp,
    pub(crate) quality: Quality,
    /// The position in the record. If there is no value yet, that of the last update of the former
    /// variable with this name, or 0.
    record_position: Position,
    /// True if the variable has not been written yet.
    has_no_value_yet: bool,
    pub(crate) own: bool,
    /// True if the reading was stale when the program took it.
    is_stale: bool,
    /// Time of arrival.
    pub(crate) at: Tick,
    /// The age at arrival in nanoseconds, by the engine's clock alone. After the program has taken
    /// a stale reading, the age at that time.
    age_ns: u64,
}

impl Received {
    /// Prepares the update for the program. `stale` is the age of a stale update.
    #[inline(always)]
    pub(crate) fn prepare(&mut self, data_type: Option<&DataType>, stale: Option<Duration>) {
        if self.value.is_none() {
            self.value = Some(placeholder(data_type));
        }
        if let Some(age) = stale {
            self.is_stale = true;
            self.age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        }
    }

    /// Returns the age at the time of [`prepare`](Self::prepare) if the reading was stale then.
    pub(crate) fn stale_when_taken(&self) -> Option<Duration> {
        self.is_stale.then(|| Duration::from_nanos(self.age_ns))
    }
}

/// The arrival time and the epoch of all records of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) now: Tick,
    pub(crate) epoch: u64,
    /// The engine's wall clock when it sent WELCOME, and the time since WELCOME arrived.
    pub(crate) engine_wall: Timestamp,
    pub(crate) since_welcome: Duration,
}

impl Arrival {
    /// Returns a reading that answers a request.
    ///
    /// # Errors
    /// The value does not match the type.
    #[inline(always)]
    pub(crate) fn entry(
        &self,
        record: &UpdateRecord<'_>,
        data_type: &DataType,
        max_age: Option<Duration>,
    ) -> Result<Entry, Disconnect> {
        let value = match record.value.map(|bytes| decode_exact(data_type, bytes)) {
            Some(Ok(value)) => value,
            Some(Err(error)) => return Err(not_valid(&error)),
            None => placeholder(Some(data_type)),
        };
        let mut entry = Entry {
            value: Some(value),
            source_timestamp: record.source_timestamp,
            engine_timestamp: record.engine_timestamp,
            sequence: record.sequence,
            age_ns: 0,
            quality: record.quality,
            is_stale: false,
            own: record.own,
        };
        if record.quality.has_reason(Reason::Stale) || max_age.is_some() {
            self.note_age(record, max_age, &mut entry);
        }
        Ok(entry)
    }

    #[cold]
    fn note_age(&self, record: &UpdateRecord<'_>, max_age: Option<Duration>, entry: &mut Entry) {
        if record.value.is_some() {
            entry.age_ns = self.age_ns(record.engine_timestamp);
        }
        let is_old = max_age.is_some_and(|max| Duration::from_nanos(entry.age_ns) > max);
        entry.is_stale = is_old || record.quality.has_reason(Reason::Stale);
    }

    /// Converts an arriving update record and its value. A `first` record may have been at the
    /// engine for a long time, so its age is computed from the engine's clock alone.
    #[inline(always)]
    pub(crate) fn receive(
        &self,
        record: &UpdateRecord<'_>,
        value: Option<Value>,
        first: bool,
    ) -> Received {
        // A stale update may also have been at the engine for a long time.
        let is_old = first || record.quality.has_reason(Reason::Stale);
        let age_ns = match is_old && value.is_some() {
            true => self.age_ns(record.engine_timestamp),
            false => 0,
        };
        Received {
            value,
            source_timestamp: record.source_timestamp,
            engine_timestamp: record.engine_timestamp,
            quality: record.quality,
            record_position: Position {
                epoch: self.epoch,
                sequence: record.sequence,
            },
            has_no_value_yet: record.has_no_value_yet(),
            own: record.own,
            is_stale: false,
            at: self.now,
            age_ns,
        }
    }

    /// Returns the age of an update in nanoseconds since the engine accepted it, by the engine's
    /// clock.
    #[cold]
    fn age_ns(&self, written: Timestamp) -> u64 {
        let engine_now = i128::from(self.engine_wall.as_nanos());
        let engine_now = engine_now + self.since_welcome.as_nanos() as i128;
        let age = engine_now - i128::from(written.as_nanos());
        u64::try_from(age.max(0)).unwrap_or(u64::MAX)
    }
}

#[cold]
pub(crate) fn not_valid(error: &DecodeError) -> Disconnect {
    malformed(format!("the engine sent an invalid value: {error}"))
}

impl Received {
    /// Returns the position of the update. Its sequence is 0 if there is no value yet.
    #[inline(always)]
    pub(crate) fn position(&self) -> Position {
        let at = self.record_position;
        match self.has_no_value_yet {
            true => Position { sequence: 0, ..at },
            false => at,
        }
    }

    /// Returns the sequence in the record. If there is no value yet, this is the sequence that
    /// precedes the first update.
    #[inline(always)]
    pub(crate) fn record_sequence(&self) -> u64 {
        self.record_position.sequence
    }

    /// Returns true if this is an update, and not the record of a variable without a value.
    pub(crate) fn is_update(&self) -> bool {
        self.position().sequence > 0
    }

    /// Returns the age at arrival plus the local time since then. This never compares two wall
    /// clocks.
    pub(crate) fn age(&self, now: Tick) -> Duration {
        Duration::from_nanos(self.age_ns).saturating_add(now.since(self.at))
    }

    #[inline]
    pub(crate) fn is_marked_stale(&self) -> bool {
        self.quality.has_reason(Reason::Stale)
    }

    /// Returns `age` if it exceeds `max_age`, or if the engine marked the update as stale.
    pub(crate) fn stale_age(&self, age: Duration, max_age: Option<Duration>) -> Option<Duration> {
        let is_old = max_age.is_some_and(|max| age > max) || self.is_marked_stale();
        is_old.then_some(age)
    }

    /// Returns the digest of the record that contained the update.
    pub(crate) fn digest(&self, handle: u32) -> u64 {
        let mut bytes = Vec::new();
        let value = self.value.as_ref().map(|value| {
            encode_value(value, &mut bytes);
            bytes.as_slice()
        });
        digest::of_record(&UpdateRecord {
            handle,
            sequence: self.position().sequence,
            engine_timestamp: self.engine_timestamp,
            source_timestamp: self.source_timestamp,
            quality: self.quality,
            own: false,
            value,
        })
    }

    /// Converts a [prepared](Self::prepare) update into the reading for the program.
    #[inline(always)]
    pub(crate) fn into_reading(self, lost: Lost, stale: Option<Duration>) -> Reading {
        let position = self.position();
        Reading {
            sample: Sample {
                value: self.value.unwrap_or(Value::Bool(false)),
                source_timestamp: self.source_timestamp,
                engine_timestamp: self.engine_timestamp,
                quality: self.quality,
            },
            position,
            lost,
            stale,
            own: self.own,
        }
    }

    pub(crate) fn take(&mut self) -> Self {
        let value = self.value.take();
        Self { value, ..*self }
    }

    pub(crate) fn of_reading(reading: Reading) -> Self {
        let Reading {
            sample,
            position,
            stale,
            own,
            ..
        } = reading;
        let mut received = Self {
            value: Some(sample.value),
            source_timestamp: sample.source_timestamp,
            engine_timestamp: sample.engine_timestamp,
            quality: sample.quality,
            record_position: position,
            has_no_value_yet: false,
            own,
            is_stale: false,
            at: Tick::ZERO,
            age_ns: 0,
        };
        received.prepare(None, stale);
        received
    }
}

/// Returns the placeholder value for a variable that was never written.
#[cold]
fn placeholder(data_type: Option<&DataType>) -> Value {
    let data_type = data_type.unwrap_or(&DataType::Bool);
    default_of(data_type, &mut { DEFAULT_BYTES_MAX })
}

/// Returns the default value of a type. An array whose fixed lengths need more than `bytes_left`
/// bytes is empty.
fn default_of(data_type: &DataType, bytes_left: &mut usize) -> Value {
    match data_type {
        DataType::Struct(ty) => Value::Struct(
            ty.fields
                .iter()
                .map(|(_, ty)| default_of(ty, bytes_left))
                .collect(),
        ),
        DataType::Array(ty) => {
            let lengths = ty.shape.iter().map(|length| length.unwrap_or(0) as usize);
            let element_bytes = ty.element.fixed_size().unwrap_or(16);
            let bytes = lengths.fold(element_bytes, usize::saturating_mul);
            if bytes <= *bytes_left {
                *bytes_left -= bytes;
                return Value::default_of(data_type);
            }
            let free = ArrayType {
                element: ty.element,
                shape: vec![None; ty.shape.len()],
            };
            Value::default_of(&DataType::Array(Arc::new(free)))
        }
        _ => Value::default_of(data_type),
    }
}

#[cfg(test)]
impl Received {
    /// Returns the update of a variable that was never written.
    pub(crate) fn of_nothing() -> Self {
        let record = UpdateRecord::nothing_yet(0);
        let arrival = Arrival {
            now: Tick::ZERO,
            epoch: 1,
            engine_wall: Timestamp::UNIX_EPOCH,
            since_welcome: Duration::ZERO,
        };
        arrival.receive(&record, None, true)
    }
}
