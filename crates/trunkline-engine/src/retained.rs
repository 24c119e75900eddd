//! Bounded buffers of updates behind `last:n` and `first:n`.

use std::collections::VecDeque;

use crate::update::Update;

/// The newest updates of one variable, shared by all its `last:n` subscribers: each has a cursor, and
/// what the ring has moved past is what that subscriber's buffer dropped.
#[derive(Debug)]
pub(crate) struct Ring {
    capacity: usize,
    /// Pushes before the first kept one; a cursor is a push number.
    start: u64,
    updates: VecDeque<Update>,
}

/// What a cursor finds in a ring.
pub(crate) struct RingRead {
    /// Updates dropped between the cursor and the first one kept for it.
    pub(crate) dropped: u64,
    /// The cursor after reading.
    pub(crate) cursor: u64,
    /// More is kept for this cursor.
    pub(crate) more: bool,
}

impl Ring {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, start: 0, updates: VecDeque::new() }
    }

    /// Makes room for a subscriber with a longer buffer.
    pub(crate) fn grow(&mut self, capacity: usize) {
        self.capacity = self.capacity.max(capacity);
    }

    pub(crate) fn push(&mut self, update: Update) {
        if self.updates.len() >= self.capacity {
            self.updates.pop_front();
            self.start += 1;
        }
        self.updates.push_back(update);
    }

    /// Number of pushes so far.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.updates.len() as u64
    }

    /// How many wait for a cursor whose subscriber keeps `n`, and how many it has lost so far.
    pub(crate) fn pending(&self, cursor: u64, n: u32) -> (u64, u64) {
        let from = self.first_kept(cursor, n);
        (self.end() - from, from - cursor)
    }

    /// Appends up to `limit` updates from `cursor` on to `out`, for a subscriber that keeps `n`.
    pub(crate) fn read(
        &self,
        cursor: u64,
        n: u32,
        limit: usize,
        out: &mut Vec<Update>,
    ) -> RingRead {
        let from = self.first_kept(cursor, n);
        let offset = (from - self.start) as usize;
        let before = out.len();
        out.extend(self.updates.iter().skip(offset).take(limit).cloned());
        let next = from + (out.len() - before) as u64;
        RingRead { dropped: from - cursor, cursor: next, more: next < self.end() }
    }

    fn first_kept(&self, cursor: u64, n: u32) -> u64 {
        cursor.max(self.start).max(self.end().saturating_sub(u64::from(n)))
    }
}

/// The buffer of one `first:n` subscriber: when full it keeps what it has and drops what comes.
#[derive(Debug)]
pub(crate) struct FirstQueue {
    capacity: usize,
    /// Each update with the number that were dropped between it and the one kept before it.
    updates: VecDeque<(u64, Update)>,
    /// Dropped after the newest one kept.
    dropped: u64,
}

impl FirstQueue {
    pub(crate) fn new(capacity: u32) -> Self {
        Self { capacity: capacity as usize, updates: VecDeque::new(), dropped: 0 }
    }

    /// Keeps `update`, or counts it as dropped; says which.
    pub(crate) fn push(&mut self, update: &Update) -> bool {
        let room = self.updates.len() < self.capacity;
        if room {
            let dropped = std::mem::take(&mut self.dropped);
            self.updates.push_back((dropped, update.clone()));
        } else {
            self.dropped += 1;
        }
        room
    }

    /// The oldest update, and how many were dropped before it.
    pub(crate) fn pop(&mut self) -> Option<(u64, Update)> {
        self.updates.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.updates.len()
    }

    /// Dropped and not yet told to the subscriber.
    pub(crate) fn untold(&self) -> u64 {
        self.dropped + self.updates.iter().map(|(dropped, _)| dropped).sum::<u64>()
    }
}
