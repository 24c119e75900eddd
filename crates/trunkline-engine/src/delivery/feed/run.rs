//! A run: consecutive entries of a shared log, encoded once for all members.

use std::collections::VecDeque;

use super::{Event, FeedEntry, QueueSize};

/// A run of updates of an `all` feed, encoded by the first subscriber that reached it. Its content
/// is the same for all subscribers that share the feed.
#[derive(Debug, Default)]
pub struct SharedRun {
    start: u64,
    room: QueueSize,
    updates: Vec<(u32, u64)>,
    /// The updates themselves, for subscribers that resume at an earlier update.
    entries: VecDeque<FeedEntry>,
    /// The sessions that wrote the updates, in ascending order without duplicates.
    writers: Vec<u32>,
    value_max: usize,
    bytes: Vec<u8>,
    digest: u64,
}

impl SharedRun {
    /// Replaces the content with the `entries` that begin at `start`, encoded by `encode`, and
    /// removes them from `entries`. Reuses the memory of the old content. If an entry is not an
    /// update, or cannot be encoded, leaves all of them in `entries` and returns false.
    pub(crate) fn fill(
        &mut self,
        start: u64,
        entries: &mut VecDeque<FeedEntry>,
        encode: impl FnOnce(&mut dyn Iterator<Item = &FeedEntry>, &mut Vec<u8>) -> Option<u64>,
    ) -> bool {
        let bytes = std::mem::take(&mut self.bytes);
        let updates = std::mem::take(&mut self.updates);
        let kept = std::mem::take(&mut self.entries);
        let writers = std::mem::take(&mut self.writers);
        *self = Self {
            start,
            updates,
            bytes,
            entries: kept,
            writers,
            ..Self::default()
        };
        self.updates.clear();
        self.bytes.clear();
        self.entries.clear();
        self.writers.clear();
        for entry in entries.iter() {
            let Event::Next(update) = &entry.event else {
                return false;
            };
            self.updates.push((entry.place, update.sequence));
            self.room.add(entry.room());
            self.value_max = self.value_max.max(update.value.as_slice().len());
            if self.writers.last() != Some(&update.writer) {
                self.writers.push(update.writer);
            }
        }
        self.writers.sort_unstable();
        self.writers.dedup();
        let digest = encode(&mut entries.iter(), &mut self.bytes);
        self.digest = digest.unwrap_or_default();
        if digest.is_some() {
            std::mem::swap(&mut self.entries, entries);
        }
        digest.is_some()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub fn count(&self) -> u32 {
        // There are at most a few hundred.
        self.updates.len() as u32
    }

    /// Returns true if this session wrote any of the updates.
    pub fn is_of(&self, session: u32) -> bool {
        self.writers.binary_search(&session).is_ok()
    }

    pub fn value_max(&self) -> usize {
        self.value_max
    }

    pub(crate) fn updates(&self) -> &[(u32, u64)] {
        &self.updates
    }

    pub(crate) fn entries(&self) -> &VecDeque<FeedEntry> {
        &self.entries
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.updates.len() as u64
    }

    pub(crate) fn room(&self) -> QueueSize {
        self.room
    }
}
