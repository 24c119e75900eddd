//! Totals over all variables.
//!
//! Totals are counted in slices, so that a very large engine is counted over several calls. Nothing
//! is counted per subscription, because there may be a hundred times as many. The engine's own
//! libraries, whose names begin with `_`, are left out.

use std::collections::HashMap;

use trunkline_types::ledger::UpstreamLedger;
use trunkline_types::name::is_reserved;

use crate::delivery::budget::FLOOR_BYTES;
use crate::engine::Engine;
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::variable::Variable;

/// Sums over all variables. Counts of updates and writes include variables that were undeployed
/// since, so that they never decrease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Writes that have ended, with any outcome.
    pub offered: u64,
    /// Writes that became an update.
    pub written: u64,
    /// Writes that were refused.
    pub refused: u64,
    /// Bytes queued in `all` and `first` subscriptions of connections.
    pub queued_bytes: u64,
}

/// A count of all variables that continues in slices.
#[derive(Debug, Default)]
pub struct Census {
    next: u32,
    totals: Totals,
    /// The previous totals. A variable removed during a count is included in the next one.
    last: Totals,
    /// Queued bytes of each consumer with a buffer, by its address. Not used if the engine's memory
    /// is bounded, because it is counted there.
    queued: HashMap<usize, usize>,
}

impl Census {
    /// Counts up to `budget` further variables. Returns the totals once all are counted; the next
    /// call starts again.
    pub fn advance(&mut self, engine: &Engine, budget: usize) -> Option<Totals> {
        let end = engine.end();
        if self.next == 0 {
            self.totals = engine.departed().totals();
        }
        let until = self.next.saturating_add(budget as u32).min(end);
        for slot in self.next.max(1)..until {
            if let Some(variable) = engine.registry().at(slot)
                && !is_reserved(variable.name())
            {
                let ledger = variable.ledger();
                self.totals.offered += ledger.offered;
                self.totals.written += ledger.written;
                self.totals.refused += ledger.refused;
                if engine.memory().is_none() {
                    variable.of_buffers(&mut |outbox| {
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
        census.totals.queued_bytes = match engine.queue_memory() {
            Some(memory) => memory.used,
            None => census.queued.values().map(|bytes| *bytes as u64).sum(),
        };
        Some(census.totals)
    }
}

/// Writes of variables that are gone. Relaxed: the counters order no other data.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    offered: AtomicUsize,
    written: AtomicUsize,
    refused: AtomicUsize,
}

impl Departed {
    pub(crate) fn add(&self, ledger: &UpstreamLedger) {
        let add = |counter: &AtomicUsize, more: u64| {
            counter.fetch_add(more as usize, Ordering::Relaxed);
        };
        add(&self.offered, ledger.offered);
        add(&self.written, ledger.written);
        add(&self.refused, ledger.refused);
    }

    fn totals(&self) -> Totals {
        Totals {
            offered: count(&self.offered),
            written: count(&self.written),
            refused: count(&self.refused),
            queued_bytes: 0,
        }
    }
}

/// Number of subscribed variables over all subscriptions, except those of the engine's own services
/// and libraries. Relaxed: the counter orders no other data.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(AtomicUsize);

impl Subscriptions {
    pub(crate) fn add(&self, variable: &Variable) {
        if !is_reserved(variable.name()) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn remove(&self, variable: &Variable) {
        if !is_reserved(variable.name()) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Updates that subscriptions did not get, over all consumers. Relaxed: the counters order no other
/// data.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    lost: AtomicUsize,
    overruns: AtomicUsize,
    repaired: AtomicUsize,
    marked: AtomicUsize,
}

impl Losses {
    pub(crate) fn add(&self, lost: u64) {
        if lost > 0 {
            self.lost.fetch_add(lost as usize, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_overrun(&self, lost: u64) {
        self.overruns.fetch_add(1, Ordering::Relaxed);
        self.add(lost);
    }

    pub(crate) fn add_repaired(&self) {
        self.repaired.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_marked(&self, items: u64) {
        if items > 0 {
            self.marked.fetch_add(items as usize, Ordering::Relaxed);
        }
    }

    fn get(&self) -> (u64, u64) {
        (count(&self.lost), count(&self.overruns))
    }
}

fn count(counter: &AtomicUsize) -> u64 {
    counter.load(Ordering::Relaxed) as u64
}

/// The engine's memory for updates queued for subscribers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueMemory {
    /// Bytes in use: values, and 64 for each update, in chunks of 4 KiB per subscriber.
    pub used: u64,
    /// Maximum number of bytes.
    pub max: u64,
    /// Number of times that more was needed than was free: a subscription was refused, ended or
    /// dropped updates, or a writer waited.
    pub refusals: u64,
}

impl QueueMemory {
    /// Returns true if so little is left that further buffered subscriptions are refused.
    pub fn is_full(&self) -> bool {
        self.used.saturating_add(FLOOR_BYTES as u64) > self.max
    }
}

impl Engine {
    /// Number of subscribed variables over all subscriptions, except those of the engine's own
    /// services and libraries, and the FIFOs of programs in this process.
    pub fn subscription_count(&self) -> u64 {
        count(&self.subscriptions().0)
    }

    /// The memory for queued updates; `None` if it is not bounded.
    pub fn queue_memory(&self) -> Option<QueueMemory> {
        let memory = self.memory()?;
        Some(QueueMemory {
            used: memory.used() as u64,
            max: memory.max() as u64,
            refusals: memory.refusals() as u64,
        })
    }

    /// Returns two counts since the engine started: items sent again because the client held
    /// something else, and items found pending without a mark (B-10). Both are 0 unless something
    /// is broken.
    pub fn repaired_and_marked(&self) -> (u64, u64) {
        let losses = self.losses();
        (count(&losses.repaired), count(&losses.marked))
    }

    /// Returns two counts since the engine started: updates that bounded subscriptions did not get,
    /// and `all` subscriptions that ended with `overrun`.
    pub fn lost_and_overruns(&self) -> (u64, u64) {
        self.losses().get()
    }
}
