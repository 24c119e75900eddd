//! Stores the readings that a scan publishes.

use trunkline_types::{Quality, Reason, Timestamp, Value};

use crate::ItemId;

#[derive(Clone, PartialEq, Debug)]
pub struct Published {
    /// The item that was read.
    pub item: ItemId,
    /// The raw value; `None` if there is none. The variable then keeps its last value.
    pub value: Option<Value>,
    /// Quality of the value, with the reason.
    pub quality: Quality,
    /// Time of measurement by the source's clock. `None` if the source has no clock; the engine
    /// then uses the time of the scan.
    pub source_timestamp: Option<Timestamp>,
}

/// A buffer of published readings, in the order of publication. A scan fills the buffer, and the
/// next scan uses it again. An item that is published twice results in two updates.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    published: Vec<Published>,
}

impl Scan {
    /// Returns an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes a reading. The engine sets its timestamp.
    pub fn publish(&mut self, item: ItemId, value: Value, quality: Quality) {
        let value = Some(value);
        self.published.push(Published {
            item,
            value,
            quality,
            source_timestamp: None,
        });
    }

    /// Publishes a reading with the time of its measurement, by the clock of the source.
    pub fn publish_at(&mut self, item: ItemId, value: Value, quality: Quality, at: Timestamp) {
        self.published.push(Published {
            item,
            value: Some(value),
            quality,
            source_timestamp: Some(at),
        });
    }

    /// Publishes that an item has no value, with the reason. The variable becomes bad, and keeps
    /// its last value.
    pub fn fail(&mut self, item: ItemId, reason: Reason) {
        let quality = Quality::bad(reason);
        self.published.push(Published {
            item,
            value: None,
            quality,
            source_timestamp: None,
        });
    }

    /// Iterates over the readings published since the last [`clear`](Self::clear).
    pub fn iter(&self) -> std::slice::Iter<'_, Published> {
        self.published.iter()
    }

    /// Removes and returns all readings, and keeps the memory.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Published> {
        self.published.drain(..)
    }

    /// Returns the number of readings.
    pub fn len(&self) -> usize {
        self.published.len()
    }

    /// Returns true if nothing was published.
    pub fn is_empty(&self) -> bool {
        self.published.is_empty()
    }

    /// Removes all readings, and keeps the memory.
    pub fn clear(&mut self) {
        self.published.clear();
    }
}

impl<'a> IntoIterator for &'a Scan {
    type Item = &'a Published;
    type IntoIter = std::slice::Iter<'a, Published>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
