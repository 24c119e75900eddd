//! Live patterns: reports names that appear and disappear (B-32).
//!
//! ```text
//! slots                1 2 3 4 5 ... end      a new watch lists the variables here,
//! log of changes       +7 +8 -3 +9 -7 ...     then follows the log from the start of the listing
//! ```
//!
//! The log is maintained while any pattern is watched, and is bounded. A watch that falls behind
//! the start of the log lists all names again. Its client recognizes names that disappeared in the
//! meantime by their absence from the list, as after a reconnect.

use std::collections::{BTreeSet, HashSet};

use trunkline_types::{Pattern, StepBudget};

use crate::caller::Caller;
use crate::features::fields::open_fields;
use crate::subscriptions::Consumer;
use crate::sync::Arc;
use crate::variable::Variable;
use crate::variables::Registry;
use crate::write::engine_core::STEPS_PER_VARIABLE;

const LOG_SLICE: usize = 1000;

#[derive(Debug)]
pub struct Watch {
    pattern: Pattern,
    /// The next slot to list; 0 if the listing has not begun.
    cursor: u32,
    end: u32,
    /// The next log entry to examine; during the listing, the first entry after it began.
    log: u64,
    is_listed: bool,
    is_behind: bool,
    /// Handles of variables that had already been removed when the log entry of their addition was
    /// examined. The entry of their removal follows in the log; neither is reported. The bound of
    /// the log also bounds this set.
    already_removed: BTreeSet<u32>,
    /// During the listing: handles of the variables that were added after it began and are
    /// therefore in the log, and the entry up to which they were collected. The bound of the log
    /// also bounds this set.
    added: HashSet<u32>,
    added_until: u64,
}

#[derive(Debug, Default)]
pub struct WatchSlice {
    /// Number of appearances and disappearances of names when the slice was made.
    pub revision: u64,
    /// Handles of variables that disappeared. It may contain handles that were never reported to
    /// the client.
    pub gone: Vec<u32>,
    pub appeared: Vec<Arc<Variable>>,
    /// True if the listing starts again because the watch was called too rarely. Names that the new
    /// listing does not contain have disappeared.
    pub is_restarted: bool,
    pub listed: bool,
    pub progress: WatchProgress,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WatchProgress {
    /// Everything was reported. The consumer is woken when there are more changes.
    #[default]
    Idle,
    More,
    /// The consumer has not taken the last updates of a removed variable. Call again after it has
    /// taken them.
    Waiting,
}

impl Watch {
    pub fn new(pattern: Pattern) -> Self {
        Self {
            pattern,
            cursor: 0,
            end: 0,
            log: 0,
            is_listed: false,
            is_behind: false,
            already_removed: BTreeSet::new(),
            added: HashSet::new(),
            added_until: 0,
        }
    }

    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Returns the next slice of changes: at most `limit` names, until `budget` is used up.
    /// Examines at least one name.
    ///
    /// The disappearance of a variable is reported once `consumer` has no more updates to deliver
    /// from it.
    pub fn next(
        &mut self,
        consumer: &Consumer,
        caller: &Caller,
        limit: usize,
        budget: &mut StepBudget,
    ) -> WatchSlice {
        let names = &consumer.engine().variables;
        if self.cursor == 0 {
            // Registered first, so that no change is missed.
            names.watch(&consumer.outbox);
            (self.log, self.end) = names.mark();
            (self.cursor, self.added_until) = (1, self.log);
        }
        let mut slice = WatchSlice {
            is_restarted: std::mem::take(&mut self.is_behind),
            progress: WatchProgress::More,
            ..WatchSlice::default()
        };
        if self.is_listed {
            self.follow(consumer, caller, limit, budget, &mut slice);
        } else {
            self.list(names, caller, limit, budget, &mut slice.appeared);
            self.is_listed = self.cursor >= self.end;
            slice.listed = self.is_listed;
            if self.is_listed {
                self.added = HashSet::new();
            }
        }
        slice.revision = self.log;
        slice
    }

    /// Reports the changes in the log, in order.
    fn follow(
        &mut self,
        consumer: &Consumer,
        caller: &Caller,
        limit: usize,
        budget: &mut StepBudget,
        slice: &mut WatchSlice,
    ) {
        let names = &consumer.engine().variables;
        let Some(entries) = names.log_from(self.log, LOG_SLICE) else {
            (self.cursor, self.is_listed, self.is_behind) = (0, false, true);
            self.already_removed.clear();
            return;
        };
        for entry in &entries {
            if slice.gone.len() + slice.appeared.len() >= limit || budget.is_spent() {
                return;
            }
            budget.spend(STEPS_PER_VARIABLE);
            let variable = &entry.variable;
            if variable.is_visible_to(caller)
                && self.pattern.matches_within(budget, variable.name())
            {
                let handle = variable.handle();
                if !entry.is_gone && variable.is_gone() {
                    self.already_removed.insert(handle);
                } else if !entry.is_gone {
                    slice.appeared.push(Arc::clone(variable));
                } else if self.already_removed.remove(&handle) {
                    // The variable appeared and disappeared without being reported.
                } else if has_item_of(consumer, variable) {
                    slice.progress = WatchProgress::Waiting;
                    return;
                } else {
                    slice.gone.push(handle);
                }
            }
            self.log += 1;
        }
        if entries.len() < LOG_SLICE {
            slice.progress = WatchProgress::Idle;
        }
    }

    /// Returns true if a variable was added after the listing began and is therefore in the log.
    fn was_added(&mut self, names: &Registry, variable: &Variable) -> bool {
        self.added_until = names.added_since(self.added_until, &mut self.added);
        self.added.contains(&variable.handle())
    }

    fn list(
        &mut self,
        names: &Registry,
        caller: &Caller,
        limit: usize,
        budget: &mut StepBudget,
        out: &mut Vec<Arc<Variable>>,
    ) {
        while self.cursor < self.end && out.len() < limit {
            budget.spend(STEPS_PER_VARIABLE);
            if let Some(variable) = names.at(self.cursor)
                && variable.is_visible_to(caller)
                && self.pattern.matches_within(budget, variable.name())
                && !variable.is_gone()
                && !self.was_added(names, &variable)
            {
                out.push(variable);
            }
            self.cursor += 1;
            if budget.is_spent() {
                break;
            }
        }
    }
}

/// Returns true if updates of this variable or its fields may still be delivered to the consumer.
fn has_item_of(consumer: &Consumer, variable: &Variable) -> bool {
    let state = variable.lock();
    let mut fields = open_fields(&state).iter();
    state.items_of(&consumer.outbox).next().is_some()
        || consumer.has_in_feed(variable.handle())
        || fields.any(|open| has_item_of(consumer, &open.variable))
}
