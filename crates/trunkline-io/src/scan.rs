//! What one scan publishes.

use trunkline_types::{Quality, Reason, Timestamp, Value};

use crate::ItemId;

/// One published reading.
#[derive(Clone, PartialEq, Debug)]
pub struct Published {
    /// Which item.
    pub item: ItemId,
    /// The raw value; `None` when there is none to give, and the variable keeps its last one.
    pub value: Option<Value>,
    /// How far it can be trusted.
    pub quality: Quality,
    /// When it was measured by the source's clock; `None` when the source has none and the engine's
    /// time of the scan stands for it.
    pub source_timestamp: Option<Timestamp>,
}

/// A buffer of published readings, filled by a scan and reused by the next one, in the order in
/// which they were published. An item published twice is two updates.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    published: Vec<Published>,
}

impl Scan {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// A reading that the engine stamps.
    pub fn publish(&mut self, item: ItemId, value: Value, quality: Quality) {
        let value = Some(value);
        self.published.push(Published {
            item,
            value,
            quality,
            source_timestamp: None,
        });
    }

    /// A reading with the source's own timestamp; its quality should name the source's clock.
    pub fn publish_at(
        &mut self,
        item: ItemId,
        value: Value,
        quality: Quality,
        source_timestamp: Timestamp,
    ) {
        let (value, source_timestamp) = (Some(value), Some(source_timestamp));
        self.published.push(Published {
            item,
            value,
            quality,
            source_timestamp,
        });
    }

    /// There is no value, for this reason: the variable turns bad and keeps its last value.
    pub fn fail(&mut self, item: ItemId, reason: Reason) {
        let quality = Quality::bad(reason);
        self.published.push(Published {
            item,
            value: None,
            quality,
            source_timestamp: None,
        });
    }

    /// What was published since the last [`clear`](Self::clear).
    pub fn iter(&self) -> std::slice::Iter<'_, Published> {
        self.published.iter()
    }

    /// Takes everything out, keeping the memory.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Published> {
        self.published.drain(..)
    }

    /// Number of readings.
    pub fn len(&self) -> usize {
        self.published.len()
    }

    /// Whether nothing was published.
    pub fn is_empty(&self) -> bool {
        self.published.is_empty()
    }

    /// Forgets everything, keeping the memory.
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
