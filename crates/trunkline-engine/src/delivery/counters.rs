//! Counts over all variables and consumers of an engine.

use trunkline_types::ledger::WriteLedger;

use crate::sync::{AtomicUsize, Ordering};

/// The counters. Their accesses are relaxed, because they order no other data.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Subscribed variables over all subscriptions, except those of the engine's own services and
    /// libraries.
    pub(crate) subscribed: Counter,
    /// Updates that `last`, `first` and `all` subscriptions did not receive.
    pub(crate) lost: Counter,
    /// Subscriptions that ended with `overrun`.
    pub(crate) overruns: Counter,
    /// Items resent because the client had a different value.
    pub(crate) repaired: Counter,
    /// Items found pending without a mark by the periodic check.
    pub(crate) marked: Counter,
    /// Counts of the writes of removed variables.
    pub(crate) removed: RemovedVariables,
}

#[derive(Debug, Default)]
pub(crate) struct RemovedVariables {
    pub(crate) offered: Counter,
    pub(crate) written: Counter,
    pub(crate) refused: Counter,
}

impl RemovedVariables {
    pub(crate) fn add(&self, ledger: &WriteLedger) {
        self.offered.add(ledger.offered);
        self.written.add(ledger.written);
        self.refused.add(ledger.refused);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicUsize);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        if more > 0 {
            self.0.fetch_add(more as usize, Ordering::Relaxed);
        }
    }

    pub(crate) fn subtract_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed) as u64
    }
}
