//! Totals over all variables: what the engine as a whole is doing.
//!
//! Counted in slices, so that an engine with very many variables is looked through over several
//! calls. Nothing is looked at per subscription: there may be a hundred times as many. Libraries
//! whose names begin with `_` are the engine's own, and are not counted.

use std::collections::HashMap;

use trunkline_types::ledger::UpstreamLedger;
use trunkline_types::name::is_reserved;

use crate::budget::FLOOR_BYTES;
use crate::engine::Engine;
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::variable::Variable;

/// What all variables come to. Counts of updates and writes include those of
/// variables that were undeployed since, so that they only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Writes that have ended.
    pub offered: u64,
    /// Of those, the ones that became an update.
    pub written: u64,
    /// Of those, the ones that were refused.
    pub refused: u64,
    /// Bytes that wait in `all` and `first` subscriptions of connections.
    pub queued_bytes: u64,
}

/// A count that goes on where it was.
#[derive(Debug, Default)]
pub struct Census {
    next: u32,
    totals: Totals,
    /// The last ones: what goes while it is looked for is counted the next time.
    last: Totals,
    /// Of each consumer with a buffer, once; where the engine's bytes have a bound, they are
    /// counted there.
    queued: HashMap<usize, usize>,
}

impl Census {
    /// Looks at up to `budget` further variables. Returns the totals once all were looked at; the
    /// next call begins anew.
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

/// Writes to variables that are gone. Relaxed: they stand alone.
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

/// Subscriptions of single variables, but those of the engine's own services and of its own
/// libraries. Relaxed: the number stands alone.
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

/// What subscriptions did not get, of all consumers together. Relaxed: they stand alone.
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

/// The memory for updates that wait for subscribers, of the whole engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueMemory {
    /// Bytes in use: values, and 64 for each update, in chunks of 4 KiB for each subscriber.
    pub used: u64,
    /// Bytes there are.
    pub max: u64,
    /// How often somebody needed more than there was: a subscription was refused, ended or
    /// dropped updates, or a writer waited.
    pub refusals: u64,
}

impl QueueMemory {
    /// Whether so little is left that further buffered subscriptions are refused.
    pub fn is_full(&self) -> bool {
        self.used.saturating_add(FLOOR_BYTES as u64) > self.max
    }
}

impl Engine {
    /// Subscriptions of single variables, but those of the engine's own services, of its own
    /// libraries, and the FIFOs of this process's own programs.
    pub fn subscription_count(&self) -> u64 {
        count(&self.subscriptions().0)
    }

    /// The memory for updates that wait; `None` where it has no bound.
    pub fn queue_memory(&self) -> Option<QueueMemory> {
        let memory = self.memory()?;
        Some(QueueMemory {
            used: memory.used() as u64,
            max: memory.max() as u64,
            refusals: memory.refusals() as u64,
        })
    }

    /// Items of subscriptions whose client had something else than it was sent and was sent it
    /// again, and items that waited without a mark and were found (B-10), since the engine started.
    /// Neither happens unless something is broken.
    pub fn repaired_and_marked(&self) -> (u64, u64) {
        let losses = self.losses();
        (count(&losses.repaired), count(&losses.marked))
    }

    /// Updates that subscriptions with a bound did not get, and `all` subscriptions that ended
    /// because of it, since the engine started.
    pub fn lost_and_overruns(&self) -> (u64, u64) {
        self.losses().get()
    }
}
