//! Names that come and go: patterns that are followed live (B-32).
//!
//! ```text
//! slots, in the order of appearance   1 2 3 4 5 6 7 ... end      a watch's cursor walks here,
//! handles that are gone, in order     3 1 6 ... gone             and here
//! ```
//!
//! Handles are never used again within an epoch, so the slots are the log of what appeared and need
//! no other; what is gone is a list of handles beside them, 4 bytes for each slot that is spent
//! anyway. So no watch can fall behind what is kept, however seldom it is looked at.
//!
//! Both lists are seen at one moment, a [`Mark`]; a watch first tells what is gone up to it, then
//! what appeared, so that of a name that was replaced the old variable goes before the new one
//! comes.

use trunkline_types::{Effort, Pattern};

use crate::caller::Caller;
use crate::consumer::Consumer;
use crate::engine::Engine;
use crate::outbox::{Outbox, Wakes};
use crate::registry::Mark;
use crate::search::LOOK_STEPS;
use crate::sync::{Arc, Mutex, Weak};
use crate::variable::Variable;

/// Handles that are gone, looked at in one slice.
const GONE_SLICE: usize = 1000;

/// Who is woken when names come and go.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    outboxes: Mutex<Vec<Weak<Outbox>>>,
}

/// One pattern that is followed, and how far.
#[derive(Debug)]
pub struct Watch {
    pattern: Pattern,
    /// The slot to look at next; below it everything was told.
    cursor: u32,
    /// Entries of the list of gone handles that were told.
    gone: usize,
    /// What is being told.
    mark: Mark,
    is_listed: bool,
}

/// What one slice of a watch found.
#[derive(Debug, Default)]
pub struct WatchSlice {
    /// How many names had come and gone when it was looked.
    pub revision: u64,
    /// Variables that were told before and are no more. A handle among them that was not told is of
    /// a variable that nobody had seen.
    pub gone: Vec<u32>,
    /// Variables that were not told before, in the order of their handles.
    pub appeared: Vec<Arc<Variable>>,
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
            cursor: 1,
            gone: 0,
            mark: Mark::default(),
            is_listed: false,
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
        if self.is_told() {
            self.mark = engine.registry().mark();
            if !self.is_listed && self.cursor == 1 {
                // What was gone before nobody has heard of.
                self.gone = self.mark.gone;
            }
        }
        let mut slice = WatchSlice {
            revision: self.mark.revision(),
            ..WatchSlice::default()
        };
        if self.gone < self.mark.gone {
            let waits = self.take_gone(consumer, effort, &mut slice.gone);
            slice.progress = match waits {
                true => WatchProgress::Waits,
                false => WatchProgress::More,
            };
            return slice;
        }
        self.take_appeared(engine, caller, limit, effort, &mut slice.appeared);
        if !self.is_told() {
            slice.progress = WatchProgress::More;
        } else if !self.is_listed {
            self.is_listed = true;
            slice.listed = true;
            slice.progress = WatchProgress::More;
        }
        slice
    }

    fn is_told(&self) -> bool {
        self.gone >= self.mark.gone && self.cursor >= self.mark.end
    }

    /// Returns whether the consumer has to deliver something first.
    fn take_gone(&mut self, consumer: &Consumer, effort: &mut Effort, out: &mut Vec<u32>) -> bool {
        let engine = consumer.engine();
        let most = self.mark.gone.saturating_sub(self.gone).min(GONE_SLICE);
        for handle in engine.registry().gone_from(self.gone, most) {
            effort.spend(LOOK_STEPS);
            if let Some(variable) = engine.variable(handle)
                && handle < self.cursor
                && self.pattern.matches_within(effort, variable.name())
            {
                if consumer.has_item_of(variable) {
                    return true;
                }
                out.push(handle);
            }
            self.gone += 1;
            if effort.is_spent() {
                break;
            }
        }
        false
    }

    fn take_appeared(
        &mut self,
        engine: &Engine,
        caller: &Caller,
        limit: usize,
        effort: &mut Effort,
        out: &mut Vec<Arc<Variable>>,
    ) {
        while self.cursor < self.mark.end && out.len() < limit {
            effort.spend(LOOK_STEPS);
            if let Some(variable) = engine.visible(caller, self.cursor)
                && self.pattern.matches_within(effort, variable.name())
                && !variable.is_gone()
            {
                out.push(Arc::clone(variable));
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
        for outbox in self.watchers().outboxes.lock().iter() {
            if let Some(outbox) = outbox.upgrade() {
                outbox.set_names_changed();
                wakes.add(&outbox);
            }
        }
    }
}
