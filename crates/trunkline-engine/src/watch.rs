//! Names that come and go: patterns that are followed live (B-32).
//!
//! ```text
//! slots                1 2 3 4 5 ... end      a new watch lists the variables here,
//! what came and went   +7 +8 -3 +9 -7 ...     then follows the log from where the listing began
//! ```
//!
//! The log is kept while anybody follows patterns, and has a bound. A watch that falls further
//! behind than the log reaches begins its listing anew, and its client sees what has gone meanwhile
//! by what is not listed, as after a reconnect.

use std::collections::{BTreeSet, HashSet};

use trunkline_types::{Effort, Pattern};

use crate::caller::Caller;
use crate::consumer::Consumer;
use crate::engine::Engine;
use crate::outbox::{Outbox, Wakes};
use crate::search::LOOK_STEPS;
use crate::sync::{Arc, Mutex, Weak};
use crate::variable::Variable;

/// Entries of the log that are looked at in one slice.
const LOG_SLICE: usize = 1000;

/// Who is woken when names come and go.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    outboxes: Mutex<Vec<Weak<Outbox>>>,
}

/// One pattern that is followed, and how far.
#[derive(Debug)]
pub struct Watch {
    pattern: Pattern,
    /// The slot to list next; 0: the listing has not begun.
    cursor: u32,
    /// Where the listing ends.
    end: u32,
    /// The entry of the log to look at next; while it lists, the first that comes after.
    log: u64,
    is_listed: bool,
    /// It fell behind the log.
    is_behind: bool,
    /// Handles that were gone when their coming was looked at, and whose going is still ahead in
    /// the log: neither is reported. The bound of the log bounds them.
    unseen: BTreeSet<u32>,
    /// While it lists: handles of the variables that came since it began, which are in the log, and
    /// the entry up to which they are here. The bound of the log bounds them, too.
    came: HashSet<u32>,
    came_until: u64,
}

/// What one slice of a watch found.
#[derive(Debug, Default)]
pub struct WatchSlice {
    /// How many names had come and gone when it was looked.
    pub revision: u64,
    /// Variables that were told before and are no more. A handle among them that was not told is of
    /// a variable that nobody had seen.
    pub gone: Vec<u32>,
    /// Variables that were not told before.
    pub appeared: Vec<Arc<Variable>>,
    /// The listing begins anew: the watch was looked at too seldom, and what is not listed now is
    /// gone.
    pub begins_again: bool,
    /// The listing of what there was at first is complete with this slice.
    pub listed: bool,
    /// Where it stands.
    pub progress: WatchProgress,
}

/// Where a watch stands after a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WatchProgress {
    /// Everything was told; the consumer is woken when there is more.
    #[default]
    Idle,
    /// There is more at once.
    More,
    /// The consumer has not taken the last updates of a variable that is gone: call again when it
    /// has.
    Waits,
}

impl Watch {
    /// Follows `pattern` from what there is now.
    pub fn new(pattern: Pattern) -> Self {
        Self {
            pattern,
            cursor: 0,
            end: 0,
            log: 0,
            is_listed: false,
            is_behind: false,
            unseen: BTreeSet::new(),
            came: HashSet::new(),
            came_until: 0,
        }
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The next slice of what came and went: at most `limit` names, until `effort` is spent. One
    /// name at least is looked at.
    ///
    /// A variable that is gone is told once `consumer` has nothing more of it to deliver.
    pub fn next(
        &mut self,
        consumer: &Consumer,
        caller: &Caller,
        limit: usize,
        effort: &mut Effort,
    ) -> WatchSlice {
        let engine = consumer.engine();
        if self.cursor == 0 {
            // First, so that nothing is missed between the two.
            consumer.watch_names();
            (self.log, self.end) = engine.registry().mark();
            (self.cursor, self.came_until) = (1, self.log);
        }
        let mut slice = WatchSlice {
            begins_again: std::mem::take(&mut self.is_behind),
            progress: WatchProgress::More,
            ..WatchSlice::default()
        };
        if self.is_listed {
            self.follow(consumer, caller, limit, effort, &mut slice);
        } else {
            self.list(engine, caller, limit, effort, &mut slice.appeared);
            self.is_listed = self.cursor >= self.end;
            slice.listed = self.is_listed;
            if self.is_listed {
                self.came = HashSet::new();
            }
        }
        slice.revision = self.log;
        slice
    }

    /// What came and went since, in its order.
    fn follow(
        &mut self,
        consumer: &Consumer,
        caller: &Caller,
        limit: usize,
        effort: &mut Effort,
        slice: &mut WatchSlice,
    ) {
        let registry = consumer.engine().registry();
        let Some(entries) = registry.log_from(self.log, LOG_SLICE) else {
            (self.cursor, self.is_listed, self.is_behind) = (0, false, true);
            self.unseen.clear();
            return;
        };
        for entry in &entries {
            if slice.gone.len() + slice.appeared.len() >= limit || effort.is_spent() {
                return;
            }
            effort.spend(LOOK_STEPS);
            let variable = &entry.variable;
            if variable.is_visible_to(caller)
                && self.pattern.matches_within(effort, variable.name())
            {
                let handle = variable.handle();
                if !entry.is_gone && variable.is_gone() {
                    self.unseen.insert(handle);
                } else if !entry.is_gone {
                    slice.appeared.push(Arc::clone(variable));
                } else if self.unseen.remove(&handle) {
                    // It came and went, and nobody was told.
                } else if consumer.has_item_of(variable) {
                    slice.progress = WatchProgress::Waits;
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

    /// Whether a variable came after the listing began: then it is in the log.
    fn has_come(&mut self, engine: &Engine, variable: &Variable) -> bool {
        let registry = engine.registry();
        self.came_until = registry.came_since(self.came_until, &mut self.came);
        self.came.contains(&variable.handle())
    }

    fn list(
        &mut self,
        engine: &Engine,
        caller: &Caller,
        limit: usize,
        effort: &mut Effort,
        out: &mut Vec<Arc<Variable>>,
    ) {
        while self.cursor < self.end && out.len() < limit {
            effort.spend(LOOK_STEPS);
            if let Some(variable) = engine.registry().at(self.cursor)
                && variable.is_visible_to(caller)
                && self.pattern.matches_within(effort, variable.name())
                && !variable.is_gone()
                && !self.has_come(engine, &variable)
            {
                out.push(variable);
            }
            self.cursor += 1;
            if effort.is_spent() {
                break;
            }
        }
    }
}

impl Consumer {
    /// From now on the consumer is woken when names come and go, and
    /// [`take_names_changed`](Self::take_names_changed) says so.
    pub fn watch_names(&self) {
        let mut outboxes = self.engine().watchers().outboxes.lock();
        outboxes.retain(|outbox| outbox.strong_count() > 0);
        let own = Arc::downgrade(&self.outbox);
        if !outboxes.iter().any(|outbox| outbox.ptr_eq(&own)) {
            outboxes.push(own);
        }
        self.engine().registry().keep_log(true);
    }

    /// Whether names came or went since this was asked last.
    pub fn take_names_changed(&self) -> bool {
        self.outbox.take_names_changed()
    }

    /// Whether something of this variable, or of its fields, may still be delivered to it.
    pub(crate) fn has_item_of(&self, variable: &Variable) -> bool {
        let state = variable.lock();
        let mut fields = state.fields().iter();
        state.items_of(&self.outbox).next().is_some()
            || self.has_in_feed(variable.handle())
            || fields.any(|open| self.has_item_of(&open.variable))
    }
}

impl Engine {
    /// Names came or went: whoever follows patterns looks.
    pub(crate) fn announce_names(&self, wakes: &mut Wakes) {
        let mut outboxes = self.watchers().outboxes.lock();
        outboxes.retain(|outbox| {
            let outbox = outbox.upgrade();
            if let Some(outbox) = &outbox {
                outbox.set_names_changed();
                wakes.add(outbox);
            }
            outbox.is_some()
        });
        if outboxes.is_empty() {
            self.registry().keep_log(false);
        }
    }
}
