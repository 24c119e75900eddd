//! What was sent and is not confirmed, kept for the session that comes after a broken one.

use std::collections::VecDeque;

use super::in_flight::Table;
use crate::budget::EngineBudget;
use crate::engine::Engine;
use crate::feed::FeedEntry;
use crate::sync::Arc;

/// On top of the bytes that may wait for the consumer one in so many is kept once it is sent.
const SENT_PART: usize = 10;
/// Borrowed at a time.
const CHUNK: usize = 16 << 10;

/// Bytes of the engine's budget for what is kept. What waits goes before it: nothing is lent from
/// the second half of the budget.
#[derive(Debug, Default)]
pub(super) struct Charge {
    engine: Option<Arc<EngineBudget>>,
    used: usize,
    borrowed: usize,
}

impl Charge {
    pub(super) fn of(engine: &Engine) -> Self {
        Self {
            engine: engine.memory().map(Arc::clone),
            ..Self::default()
        }
    }

    /// Takes bytes; false when none are to spare.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let used = self.used + bytes;
        if used > self.borrowed
            && let Some(engine) = &self.engine
        {
            let more = (used - self.borrowed).next_multiple_of(CHUNK);
            if !engine.borrow_spare(more) {
                return false;
            }
            self.borrowed += more;
        }
        self.used = used;
        true
    }

    #[inline]
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        if self.borrowed > self.used + 4 * CHUNK || self.used == 0 {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        let kept = self.used.next_multiple_of(CHUNK).min(self.borrowed);
        if let Some(engine) = &self.engine {
            engine.take_back(self.borrowed - kept);
        }
        self.borrowed = kept;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used = 0;
        self.shrink();
    }
}

/// What was sent under `all` and is not confirmed, in the order in which it was.
#[derive(Debug)]
pub(super) struct Sent {
    batches: VecDeque<Batch>,
    /// Entries of all batches.
    count: usize,
    pub(super) charge: Charge,
    /// Bytes that are kept at most.
    max: usize,
    /// Memory of a batch that was confirmed, for the next one.
    spare: VecDeque<FeedEntry>,
}

/// Entries that were sent one after the other, and the items at their places.
#[derive(Debug)]
struct Batch {
    table: Arc<Table>,
    entries: VecDeque<FeedEntry>,
    /// Bytes that are charged for them.
    cost: usize,
}

impl Sent {
    /// `queue_max`: bytes that may wait for the consumer.
    pub(super) fn new(engine: &Engine, queue_max: usize) -> Self {
        Self {
            max: queue_max / SENT_PART,
            batches: VecDeque::new(),
            count: 0,
            charge: Charge::of(engine),
            spare: VecDeque::new(),
        }
    }

    /// These entries, which take `cost` bytes, were sent.
    pub(super) fn extend(
        &mut self,
        table: &Arc<Table>,
        entries: impl ExactSizeIterator<Item = FeedEntry>,
        cost: usize,
    ) {
        if self.charge.used + cost > self.max || !self.charge.take(cost) {
            // A gap in the middle is of no use.
            drop(entries);
            return self.clear();
        }
        self.count += entries.len();
        if let Some(last) = self.batches.back_mut()
            && Arc::ptr_eq(&last.table, table)
        {
            last.cost += cost;
            return last.entries.extend(entries);
        }
        let mut memory = std::mem::take(&mut self.spare);
        memory.extend(entries);
        self.batches.push_back(Batch {
            table: Arc::clone(table),
            entries: memory,
            cost,
        });
    }

    /// At most so many are not confirmed, of all contracts.
    #[inline]
    pub(super) fn trim(&mut self, unconfirmed: usize) {
        while self.count > unconfirmed
            && let Some(first) = self.batches.front_mut()
        {
            let over = self.count - unconfirmed;
            if over < first.entries.len() {
                let cost = first.entries.drain(..over).map(|entry| entry.cost()).sum();
                first.cost -= cost;
                self.count = unconfirmed;
                return self.charge.give_back(cost);
            }
            self.count -= first.entries.len();
            self.charge.give_back(first.cost);
            let Some(mut first) = self.batches.pop_front() else {
                return;
            };
            first.entries.clear();
            if self.spare.capacity() == 0 {
                self.spare = first.entries;
            }
        }
    }

    /// Takes everything out, each entry with the index of its item.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u32, FeedEntry)> {
        self.count = 0;
        std::mem::take(&mut self.batches)
            .into_iter()
            .flat_map(|batch| {
                let Batch { table, entries, .. } = batch;
                entries.into_iter().filter_map(move |entry| {
                    let index = table.get(entry.place as usize)?;
                    Some((*index, entry))
                })
            })
    }

    #[cold]
    fn clear(&mut self) {
        self.batches = VecDeque::new();
        self.count = 0;
        self.charge.give_back(usize::MAX);
    }
}
