//! Live patterns: reports names that appear and disappear (B-32).
//!
//! ```text
//! slots                1 2 3 4 5 ... end      a new watch lists the variables here,
//! what came and went   +7 +8 -3 +9 -7 ...     then follows the log from where the listing began
//! ```
//!
//! The log is kept while any pattern is watched, and is bounded. A watch that falls behind the end
//! of the log lists all names again. Its client recognizes the names that disappeared meanwhile by
//! their absence from the list, as after a reconnect.

use std::collections::{BTreeSet, HashSet};

use trunkline_types::{Effort, Pattern};

use crate::caller::Caller;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::engine::Engine;
use crate::features::fields::open_fields;
use crate::queries::search::LOOK_STEPS;
use crate::subscriptions::Consumer;
use crate::sync::{Arc, Mutex, Weak};
use crate::variable::Variable;

/// Maximum number of log entries examined in one slice.
const LOG_SLICE: usize = 1000;

/// Consumers to wake when names appear or disappear.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    outboxes: Mutex<Vec<Weak<Outbox>>>,
}

/// The watch of one pattern, and its progress.
#[derive(Debug)]
pub struct Watch {
    pattern: Pattern,
    /// The next slot to list; 0 if the listing has not begun.
    cursor: u32,
    /// Slot at which the listing ends.
    end: u32,
    /// The next log entry to examine; during the listing, the first entry after it began.
    log: u64,
    is_listed: bool,
    /// True if it fell behind the log.
    is_behind: bool,
    /// Handles of variables that were already gone when the entry of their appearance was examined.
    /// The entry of their disappearance is still ahead in the log; neither is reported. Bounded by
    /// the bound of the log.
    unseen: BTreeSet<u32>,
    /// During the listing: handles of the variables added since it began, which are in the log, and
    /// the entry up to which they were collected. Bounded by the bound of the log.
    came: HashSet<u32>,
    came_until: u64,
}

/// The result of one slice of a watch.
#[derive(Debug, Default)]
pub struct WatchSlice {
    /// Number of names that had appeared and disappeared at the time of the slice.
    pub revision: u64,
    /// Handles of variables that disappeared. It may contain handles that were never reported, of
    /// variables that the client has not seen.
    pub gone: Vec<u32>,
    /// Variables that appeared, not reported before.
    pub appeared: Vec<Arc<Variable>>,
    /// True if the listing begins again because the watch was called too rarely. Names that are not
    /// listed now have disappeared.
    pub begins_again: bool,
    /// True if this slice completes the initial listing.
    pub listed: bool,
    /// The progress after this slice.
    pub progress: WatchProgress,
}

/// The progress of a watch after a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WatchProgress {
    /// Everything was reported. The consumer is woken when there is more.
    #[default]
    Idle,
    /// There is more at once.
    More,
    /// The consumer has not taken the last updates of a variable that is gone. Call again when it
    /// has.
    Waits,
}

impl Watch {
    /// Creates a watch of `pattern` that begins with the current names.
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

    /// The watched pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Returns the next slice of changes: at most `limit` names, until `effort` is spent, but
    /// examines at least one name.
    ///
    /// The disappearance of a variable is reported once `consumer` has nothing more to deliver from
    /// it.
    pub fn next(
        &mut self,
        consumer: &Consumer,
        caller: &Caller,
        limit: usize,
        effort: &mut Effort,
    ) -> WatchSlice {
        let engine = consumer.engine();
        if self.cursor == 0 {
            // First, so that nothing is missed in between.
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

    /// Reports the changes in the log, in order.
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
                    // It appeared and disappeared without being reported.
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

    /// Returns true if a variable was added after the listing began. Then it is in the log.
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
    /// Wakes the consumer from now on when names appear or disappear.
    /// [`take_names_changed`](Self::take_names_changed) then returns true.
    pub fn watch_names(&self) {
        let mut outboxes = self.engine().watchers().outboxes.lock();
        outboxes.retain(|outbox| outbox.strong_count() > 0);
        let own = Arc::downgrade(&self.outbox);
        if !outboxes.iter().any(|outbox| outbox.ptr_eq(&own)) {
            outboxes.push(own);
        }
        self.engine().registry().keep_log(true);
    }

    /// Returns true if names appeared or disappeared since the last call.
    pub fn take_names_changed(&self) -> bool {
        self.outbox.take_names_changed()
    }

    /// Returns true if updates of this variable or its fields may still be delivered to the
    /// consumer.
    pub(crate) fn has_item_of(&self, variable: &Variable) -> bool {
        let state = variable.lock();
        let mut fields = open_fields(&state).iter();
        state.items_of(&self.outbox).next().is_some()
            || self.has_in_feed(variable.handle())
            || fields.any(|open| self.has_item_of(&open.variable))
    }
}

impl Engine {
    /// Wakes the consumers that watch patterns, because names appeared or disappeared.
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
