//! A piece of a shared log as somebody has encoded it for all who share.

use std::collections::VecDeque;

use super::{Event, FeedEntry, Room};

/// Writers that a run names; with more it says that anybody may be among them.
const WRITERS: usize = 4;

/// Updates of an `all` feed in one piece, encoded by the first subscriber that came to it. What it
/// says is the same for all who share the feed.
#[derive(Debug)]
pub struct SharedRun {
    /// Number of its first entry in the log.
    start: u64,
    room: Room,
    /// The place in the feed of each update, and its number.
    updates: Box<[(u32, u64)]>,
    /// The sessions that wrote them; `None`: too many to tell.
    writers: Option<([u32; WRITERS], usize)>,
    value_max: usize,
    bytes: Vec<u8>,
}

impl SharedRun {
    /// The entries as `bytes`, which a sink has made of them. `None` when they are not updates
    /// only.
    pub(crate) fn new(start: u64, entries: &VecDeque<FeedEntry>, bytes: Vec<u8>) -> Option<Self> {
        let mut room = Room::default();
        let mut value_max = 0;
        let mut writers = Some(([0; WRITERS], 0));
        let mut updates = Vec::with_capacity(entries.len());
        for entry in entries {
            let Event::Next(update) = &entry.event else {
                return None;
            };
            updates.push((entry.place, update.sequence));
            room.add(entry.room());
            value_max = value_max.max(update.value.as_slice().len());
            writers = writers.and_then(|known| with_writer(known, update.writer));
        }
        Some(Self {
            start,
            room,
            updates: updates.into(),
            writers,
            value_max,
            bytes,
        })
    }

    /// What the sink made of them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of updates.
    pub fn count(&self) -> u32 {
        // At most a few hundred.
        self.updates.len() as u32
    }

    /// Whether this session may have written one of them.
    pub fn may_be_of(&self, session: u32) -> bool {
        self.writers
            .is_none_or(|(known, count)| known.iter().take(count).any(|one| *one == session))
    }

    /// Bytes of the longest value.
    pub fn value_max(&self) -> usize {
        self.value_max
    }

    /// The place in the feed of each update, and its number.
    pub(crate) fn updates(&self) -> &[(u32, u64)] {
        &self.updates
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

fn with_writer(
    (mut known, count): ([u32; WRITERS], usize),
    writer: u32,
) -> Option<([u32; WRITERS], usize)> {
    if known.iter().take(count).any(|one| *one == writer) {
        return Some((known, count));
    }
    *known.get_mut(count)? = writer;
    Some((known, count + 1))
}
