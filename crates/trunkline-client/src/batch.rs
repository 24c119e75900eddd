//! Readings that are taken together: the form for programs that take millions per second.

use std::time::Duration;

use trunkline_types::{Lost, Position, Quality, Reading, Sample, Timestamp, Value};

use crate::event::Event;
use crate::queue::Queued;
use crate::typed::FromValue;

/// What stands for a value where there is none; never shown.
const NO_VALUE: &Value = &Value::Bool(false);

/// Readings in the order in which they happened, and what happened behind them if that was no
/// reading. A program keeps one and has it filled again and again: its room is used again, and
/// nothing is allocated, beside what values of text and arrays hold.
#[derive(Debug, Default)]
pub struct Batch {
    readings: Vec<BatchReading>,
    event: Option<Event>,
}

/// A reading of a [`Batch`].
#[derive(Debug)]
pub struct BatchReading(Queued);

impl Batch {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The readings, oldest first.
    pub fn readings(&self) -> &[BatchReading] {
        &self.readings
    }

    /// What happened behind the readings: a change of the connection, or the fault or end of an
    /// item. Never a reading.
    pub fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Whether there is neither a reading nor an event.
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty() && self.event.is_none()
    }

    /// Forgets everything, and keeps the room.
    pub fn clear(&mut self) {
        self.readings.clear();
        self.event = None;
    }

    /// Gives room for so many readings.
    pub(crate) fn reserve(&mut self, readings: usize) {
        self.readings.reserve(readings);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, queued: Queued) {
        self.readings.push(BatchReading(queued));
    }

    pub(crate) fn end_with(&mut self, event: Event) {
        self.event = Some(event);
    }
}

impl BatchReading {
    /// Which item, counted as the names were given.
    #[inline]
    pub fn item(&self) -> u32 {
        self.0.item
    }

    /// The value, in engineering units.
    #[inline]
    pub fn value(&self) -> &Value {
        self.0.received.value.as_ref().unwrap_or(NO_VALUE)
    }

    /// The value as a type of the program; `None` when it is of another type, or there is none yet.
    #[inline]
    pub fn get<T: FromValue>(&self) -> Option<T> {
        match self.quality().has_value() {
            true => T::from_value(self.value()),
            false => None,
        }
    }

    /// When it was measured.
    #[inline]
    pub fn source_timestamp(&self) -> Timestamp {
        self.0.received.source_timestamp
    }

    /// When the engine accepted it.
    #[inline]
    pub fn engine_timestamp(&self) -> Timestamp {
        self.0.received.engine_timestamp
    }

    /// How far it can be trusted.
    #[inline]
    pub fn quality(&self) -> Quality {
        self.0.received.quality
    }

    /// The update's number within its engine's life.
    #[inline]
    pub fn position(&self) -> Position {
        self.0.received.position
    }

    /// What was missed between the item's previous reading and this one.
    #[inline]
    pub fn lost(&self) -> Lost {
        self.0.missed.lost()
    }

    /// As [`Reading::stale`].
    #[inline]
    pub fn stale(&self) -> Option<Duration> {
        self.0.received.stale_when_taken()
    }

    /// Whether this client wrote the update.
    #[inline]
    pub fn own(&self) -> bool {
        self.0.received.own
    }

    /// The same as a reading of its own, to be kept.
    pub fn to_reading(&self) -> Reading {
        Reading {
            sample: Sample {
                value: self.value().clone(),
                source_timestamp: self.source_timestamp(),
                engine_timestamp: self.engine_timestamp(),
                quality: self.quality(),
            },
            position: self.position(),
            lost: self.lost(),
            stale: self.stale(),
            own: self.own(),
        }
    }
}
