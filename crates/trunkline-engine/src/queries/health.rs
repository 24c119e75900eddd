//! Computes totals over all variables.
//!
//! Variables are counted in slices, so that counting a very large engine takes several calls.
//! Subscriptions are not visited one by one, because there may be a hundred times as many as
//! variables. The engine's own libraries, whose names begin with `_`, are left out.

use std::collections::HashMap;

use trunkline_types::name::is_reserved;

use crate::delivery::budget::FLOOR_BYTES;
use crate::subscriptions::Subscriptions;
use crate::sync::Arc;
use crate::write::{EngineCore, View};

/// Sums over all variables. Counts of updates and writes include variables that have been
/// undeployed, so that they never decrease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub offered: u64,
    pub written: u64,
    pub refused: u64,
    /// Bytes queued in `all` and `first` subscriptions of connections.
    pub queued_bytes: u64,
}

/// A count over all variables, carried out in slices.
#[derive(Debug, Default)]
pub struct TotalsCounter {
    next: u32,
    totals: Totals,
    /// The previous totals. A variable removed during a count is included in the next count.
    last: Totals,
    /// Queued bytes of each consumer with a buffer, by its address. Empty if the engine's memory is
    /// bounded, because the engine's budget then counts these bytes.
    queued: HashMap<usize, usize>,
}

impl TotalsCounter {
    /// Counts up to `budget` more variables. Returns the totals once all variables are counted; the
    /// next call starts a new count.
    pub fn advance(&mut self, core: &EngineCore, budget: usize) -> Option<Totals> {
        let end = core.variables.end();
        if self.next == 0 {
            let gone = &core.counters.removed;
            self.totals = Totals {
                offered: gone.offered.get(),
                written: gone.written.get(),
                refused: gone.refused.get(),
                queued_bytes: 0,
            };
        }
        let until = self.next.saturating_add(budget as u32).min(end);
        for slot in self.next.max(1)..until {
            if let Some(variable) = core.variables.at(slot)
                && !is_reserved(variable.name())
            {
                let ledger = variable.ledger();
                self.totals.offered += ledger.offered;
                self.totals.written += ledger.written;
                self.totals.refused += ledger.refused;
                if core.memory.is_none() {
                    variable.visit_buffers(&mut |outbox| {
                        let key = Arc::as_ptr(outbox) as usize;
                        self.queued.insert(key, outbox.budget.used());
                    });
                }
            }
        }
        self.next = until;
        if until < end {
            return None;
        }
        let mut census = std::mem::take(self);
        let (totals, last) = (&mut census.totals, census.last);
        totals.offered = totals.offered.max(last.offered);
        totals.written = totals.written.max(last.written);
        totals.refused = totals.refused.max(last.refused);
        self.last = *totals;
        census.totals.queued_bytes = match &core.memory {
            Some(memory) => memory.used() as u64,
            None => census.queued.values().map(|bytes| *bytes as u64).sum(),
        };
        Some(census.totals)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueMemory {
    /// Bytes in use, in chunks of 4 KiB per subscriber. Each update counts as the length of its
    /// value plus 64 bytes.
    pub used: u64,
    pub max: u64,
    /// Number of times that free memory was insufficient: a subscription was refused, ended or
    /// dropped updates, or a writer waited.
    pub refusals: u64,
}

impl QueueMemory {
    /// Returns true if too little memory is left for a new buffered subscription.
    pub fn is_full(&self) -> bool {
        self.used.saturating_add(FLOOR_BYTES as u64) > self.max
    }
}

pub type Health<'e> = View<'e, Subscriptions>;

impl Health<'_> {
    /// Returns the number of subscribed variables over all subscriptions, except those of the
    /// engine's own services and libraries, and except the FIFOs of programs in this process.
    pub fn subscription_count(&self) -> u64 {
        self.core.counters.subscribed.get()
    }

    pub fn queue_memory(&self) -> Option<QueueMemory> {
        let memory = self.core.memory.as_ref()?;
        Some(QueueMemory {
            used: memory.used() as u64,
            max: memory.max() as u64,
            refusals: memory.refusals() as u64,
        })
    }

    /// Returns two counts: items resent because the client had a different value, and items found
    /// pending without a mark (B-10). Both are 0 unless there is a fault.
    pub fn repaired_and_marked(&self) -> (u64, u64) {
        let counters = &self.core.counters;
        (counters.repaired.get(), counters.marked.get())
    }

    /// Returns two counts: updates that subscriptions lost, and `all` subscriptions
    /// that ended with `overrun`.
    pub fn lost_and_overruns(&self) -> (u64, u64) {
        let counters = &self.core.counters;
        (counters.lost.get(), counters.overruns.get())
    }

    /// Returns the number of lost sessions whose state is still stored or is being removed. Their
    /// queued updates count in the [queue memory](Self::queue_memory).
    pub fn detached_sessions(&self) -> u64 {
        self.table.absences.count() as u64
    }
}
