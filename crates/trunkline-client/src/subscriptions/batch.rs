//! Batches of readings, for programs that take millions of readings per second.

use std::time::Duration;

use trunkline_types::{Lost, Position, Quality, Reading, Sample, Timestamp, Value};

use super::subscription::queue::Queued;
use crate::event::Event;
use crate::variables::convert::FromValue;
use crate::variables::reading_buffer::reading_parts;

/// Placeholder for a missing value. The program never sees it.
const NO_VALUE: &Value = &Value::Bool(false);

/// Readings in the order in which they occurred, and the event after them if it is not a reading. A
/// program should use one batch again and again: refilling it reuses its memory, and only the
/// contents of text and array values are allocated.
#[derive(Debug, Default)]
pub struct Batch {
    readings: Vec<BatchReading>,
    event: Option<Event>,
}

/// A reading in a [`Batch`].
#[derive(Debug)]
pub struct BatchReading(Queued);

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the readings, oldest first.
    pub fn readings(&self) -> &[BatchReading] {
        &self.readings
    }

    /// Returns the event after the readings: a change of the connection, or the fault or end of an
    /// item. It is never a reading.
    pub fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Returns true if there is neither a reading nor an event.
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty() && self.event.is_none()
    }

    /// Removes all contents and keeps the memory.
    pub fn clear(&mut self) {
        self.readings.clear();
        self.event = None;
    }

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
    reading_parts!(self, self.0.received);

    /// Returns the index of the item, in the order in which the names were given.
    #[inline]
    pub fn item(&self) -> u32 {
        self.0.item
    }

    /// Returns the value, in engineering units.
    #[inline]
    pub fn value(&self) -> &Value {
        self.0.received.value.as_ref().unwrap_or(NO_VALUE)
    }

    /// Returns the epoch and the sequence number of the update.
    #[inline]
    pub fn position(&self) -> Position {
        self.0.received.position()
    }

    /// Returns the updates missed between the item's previous reading and this one.
    #[inline]
    pub fn lost(&self) -> Lost {
        self.0.missed.lost()
    }

    /// Returns the age of a stale reading; see [`Reading::stale`]. `None` if the reading is not
    /// stale.
    #[inline]
    pub fn stale(&self) -> Option<Duration> {
        self.0.received.stale_when_taken()
    }

    /// Returns an independent copy of the reading.
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
