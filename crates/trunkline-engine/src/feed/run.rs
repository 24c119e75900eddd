//! A piece of a shared log as somebody has encoded it for all who share.

use std::collections::VecDeque;

use super::{Event, FeedEntry, Room};

/// Updates of an `all` feed in one piece, encoded by the first subscriber that came to it. What it
/// says is the same for all who share the feed.
#[derive(Debug, Default)]
pub struct SharedRun {
    /// Number of its first entry in the log.
    start: u64,
    room: Room,
    /// The place in the feed of each update, and its number.
    updates: Vec<(u32, u64)>,
    /// They themselves, for whoever has to begin before them again.
    entries: VecDeque<FeedEntry>,
    /// The sessions that wrote them, in the order of their numbers, each once.
    writers: Vec<u32>,
    value_max: usize,
    bytes: Vec<u8>,
    /// What the sink noted about them.
    digest: u64,
}

impl SharedRun {
    /// Becomes these entries, which begin at `start`, as `encode` puts them down, and takes them.
    /// Keeps its memory. False when they are not updates only, or are not encoded: they stay then.
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

    /// What the sink made of them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number that the sink noted about them.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Number of updates.
    pub fn count(&self) -> u32 {
        // At most a few hundred.
        self.updates.len() as u32
    }

    /// Whether this session has written one of them.
    pub fn is_of(&self, session: u32) -> bool {
        self.writers.binary_search(&session).is_ok()
    }

    /// Bytes of the longest value.
    pub fn value_max(&self) -> usize {
        self.value_max
    }

    /// The place in the feed of each update, and its number.
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

    pub(crate) fn room(&self) -> Room {
        self.room
    }
}
