//! The bounded buffers of updates behind `last:n` and `first:n`.

use std::collections::VecDeque;

use crate::delivery::budget::{Budget, EngineBudget, cost};
use crate::sync::Arc;
use crate::update::Update;

/// Maximum size of the values in one buffer, except values that are short enough to be stored in
/// place. Beyond it, the buffer drops updates as if it were full, and counts them.
pub const BUFFER_BYTES_MAX: usize = 64 << 20;

/// Bytes that a ring borrows from the engine at a time. Small, because there may be a million
/// rings.
const RING_CHUNK_BYTES: usize = 512;

/// The rings of one variable: one for all updates, one for updates that differ from the previous
/// one.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    pub(crate) all: Option<Ring>,
    pub(crate) changes: Option<Ring>,
}

impl Rings {
    pub(crate) fn of(&self, only_changes: bool) -> Option<&Ring> {
        if only_changes {
            self.changes.as_ref()
        } else {
            self.all.as_ref()
        }
    }

    pub(crate) fn of_mut(&mut self, only_changes: bool) -> &mut Option<Ring> {
        if only_changes {
            &mut self.changes
        } else {
            &mut self.all
        }
    }
}

/// The newest updates of one variable, shared by all its `last:n` subscribers. Each subscriber has
/// a cursor. Updates after the cursor that the ring has already dropped count as drops of that
/// subscriber's buffer.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Length of the longest buffer among its subscribers.
    capacity: usize,
    /// Number of pushes before the oldest stored update. A cursor is a push number.
    start: u64,
    updates: VecDeque<Update>,
    bytes: usize,
    /// Cost of the stored updates in the engine's budget, in bytes.
    cost: usize,
    borrowed: usize,
    engine: Option<Arc<EngineBudget>>,
}

/// The updates that a ring has for a cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingRead {
    /// Number of updates dropped between the cursor and the first stored update.
    pub(crate) dropped: u64,
    /// Push number of the first stored update after the cursor.
    pub(crate) first: u64,
    /// Number of stored updates from `first` on.
    pub(crate) kept: u64,
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self {
            capacity: 0,
            start: 0,
            updates: VecDeque::new(),
            bytes: 0,
            cost: 0,
            borrowed: 0,
            engine: None,
        }
    }

    /// Makes the ring borrow its bytes from the engine's budget. If it cannot borrow, it drops
    /// updates as if it were full, but always stores the newest one.
    pub(crate) fn borrow_from(&mut self, engine: &Arc<EngineBudget>) {
        if self.engine.is_none() {
            self.engine = Some(Arc::clone(engine));
        }
    }

    /// Sets the capacity to the longest buffer among its subscribers, and frees surplus memory.
    pub(crate) fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        while self.updates.len() > capacity {
            self.drop_oldest();
        }
        if self.updates.capacity() > capacity.saturating_mul(2).max(8) {
            self.updates.shrink_to(capacity);
        }
        let kept = self.cost.next_multiple_of(RING_CHUNK_BYTES);
        if let Some(engine) = self.engine.as_ref().filter(|_| self.borrowed > kept) {
            // Writers that wait for bytes are woken when a consumer next returns some.
            engine.return_without_waking(self.borrowed - kept);
            self.borrowed = kept;
        }
    }

    pub(crate) fn push(&mut self, update: Update) {
        let bytes = update.value.shared_bytes();
        let is_full = |ring: &Self| {
            let too_long = ring.bytes.saturating_add(bytes) > BUFFER_BYTES_MAX;
            ring.updates.len() >= ring.capacity || (too_long && !ring.updates.is_empty())
        };
        while is_full(self) && !self.updates.is_empty() {
            self.drop_oldest();
        }
        self.cost += cost(update.value.as_slice().len());
        self.bytes += bytes;
        while self.cost > self.borrowed && !self.borrow() && !self.updates.is_empty() {
            self.drop_oldest();
        }
        self.updates.push_back(update);
    }

    fn borrow(&mut self) -> bool {
        let Some(engine) = &self.engine else {
            return true;
        };
        let more = (self.cost - self.borrowed).next_multiple_of(RING_CHUNK_BYTES);
        let is_lent = engine.borrow(more, self.updates.is_empty());
        if is_lent {
            self.borrowed += more;
        }
        is_lent
    }

    fn drop_oldest(&mut self) {
        if let Some(update) = self.updates.pop_front() {
            self.start += 1;
            self.bytes -= update.value.shared_bytes();
            self.cost -= cost(update.value.as_slice().len());
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.start + self.updates.len() as u64
    }

    /// Returns the updates pending after `cursor` for a subscriber with a buffer of `n` updates.
    pub(crate) fn pending(&self, cursor: u64, n: u32) -> RingRead {
        let oldest = self.start.max(self.end().saturating_sub(u64::from(n)));
        let first = cursor.max(oldest);
        RingRead {
            dropped: first - cursor,
            first,
            kept: self.end().saturating_sub(first),
        }
    }

    /// Like [`Ring::pending`], and also appends up to `limit` of the updates to `out`.
    pub(crate) fn read(
        &self,
        cursor: u64,
        n: u32,
        limit: usize,
        out: &mut Vec<Update>,
    ) -> RingRead {
        let pending = self.pending(cursor, n);
        // `first` is never below `start`, and the difference fits in memory, like the updates
        // themselves.
        let offset = usize::try_from(pending.first - self.start).unwrap_or(usize::MAX);
        out.extend(self.updates.iter().skip(offset).take(limit).cloned());
        pending
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Some(engine) = &self.engine {
            engine.return_without_waking(self.borrowed);
        }
    }
}

/// The buffer of one `first:n` subscriber. When full, it drops new updates.
#[derive(Debug)]
pub(crate) struct FirstQueue {
    capacity: usize,
    /// Each update with the number of updates dropped before it.
    updates: VecDeque<(u64, Update)>,
    dropped: u64,
    bytes: usize,
    charged: usize,
}

impl FirstQueue {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            capacity: capacity as usize,
            updates: VecDeque::new(),
            dropped: 0,
            bytes: 0,
            charged: 0,
        }
    }

    /// Stores `update` and returns true, or counts it as dropped and returns false. The consumer's
    /// budget must also have room.
    pub(crate) fn push(&mut self, update: &Update, budget: &Budget) -> bool {
        let bytes = self.bytes.saturating_add(update.value.shared_bytes());
        let room = self.updates.len() < self.capacity
            && (bytes <= BUFFER_BYTES_MAX || self.updates.is_empty());
        let cost = cost(update.value.as_slice().len());
        let room = room && budget.claim(cost);
        if room {
            self.charged += cost;
            let dropped = std::mem::take(&mut self.dropped);
            self.bytes = bytes;
            self.updates.push_back((dropped, update.clone()));
        } else {
            self.dropped += 1;
        }
        room
    }

    /// Takes the oldest update. Returns the number of updates dropped before it, the update, and
    /// its cost in the budget.
    pub(crate) fn pop(&mut self) -> Option<(u64, Update, usize)> {
        let (dropped, update) = self.updates.pop_front()?;
        self.bytes -= update.value.shared_bytes();
        let cost = cost(update.value.as_slice().len());
        self.charged -= cost;
        Some((dropped, update, cost))
    }

    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    pub(crate) fn len(&self) -> usize {
        self.updates.len()
    }

    pub(crate) fn unreported(&self) -> u64 {
        self.dropped + self.updates.iter().map(|(dropped, _)| dropped).sum::<u64>()
    }
}
