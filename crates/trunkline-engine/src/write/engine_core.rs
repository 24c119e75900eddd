//! The part of an engine needed by writes and subscriptions: names, memory, counters, and the hooks
//! of features.

use std::fmt;

use trunkline_types::name::{NameError, is_reserved, register_number};
use trunkline_types::{Name, Pattern, StepBudget};

use super::hooks::Hook;
use super::wall_clock::WallClock;
use crate::caller::Caller;
use crate::delivery::budget::EngineBudget;
use crate::delivery::counters::Counters;
use crate::delivery::feed::Feeds;
use crate::outcome::{AccessError, Refusal};
use crate::sync::{Arc, Mutex};
use crate::variable::Variable;
use crate::variables::{HandleReader, Registry, SlotCounts};

/// Maximum number of items that one slice of [`Engine::poll`](crate::Engine::poll) or of
/// [`Consumer::poll`](crate::Consumer::poll) handles before other work continues.
pub const SLICE: usize = 1000;

/// Maximum number of names examined for a suggestion, so that a misspelling in a large engine does
/// not cause a full scan.
pub const SUGGEST_MAX: u32 = 50_000;

/// Cost of moving to the next variable, in steps of an [`StepBudget`].
pub(crate) const STEPS_PER_VARIABLE: usize = 32;

/// The core of an [`Engine`](crate::Engine): everything except its features.
pub struct EngineCore {
    name: String,
    epoch: u64,
    pub(crate) variables: Registry,
    pub(crate) feeds: Feeds,
    pub(crate) counters: Counters,
    /// Memory bound of all subscribers' queues together; `None` if it is unbounded.
    pub(crate) memory: Option<Arc<EngineBudget>>,
    pub(crate) wall_clock: WallClock,
    /// Serializes changes to libraries and sources, which may take long.
    pub(crate) changes: Mutex<()>,
    /// Hooks in the order in which they are called before a write.
    pub(super) hooks: Vec<Box<dyn Hook>>,
}

impl EngineCore {
    pub(crate) fn new(
        name: String,
        epoch: u64,
        queue_bytes_max: usize,
        hooks: Vec<Box<dyn Hook>>,
    ) -> Self {
        let is_bounded = queue_bytes_max != usize::MAX;
        Self {
            name,
            epoch,
            variables: Registry::new(),
            feeds: Feeds::default(),
            counters: Counters::default(),
            memory: is_bounded.then(|| Arc::new(EngineBudget::new(queue_bytes_max))),
            wall_clock: WallClock::default(),
            changes: Mutex::new(()),
            hooks,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of this engine start. Positions of different epochs cannot be compared.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    #[inline]
    pub fn variable(&self, handle: u32) -> Option<Arc<Variable>> {
        self.variables.get(handle)
    }

    /// Returns a reader that follows many handles without a lock, for use by one thread at a time.
    pub fn handles(&self) -> HandleReader {
        self.variables.handles()
    }

    /// Returns the error for a handle with which the caller sees no variable.
    pub fn no_variable(&self, caller: &Caller, handle: u32) -> AccessError {
        match self.may_be_gone(caller, handle) {
            true => AccessError::Gone,
            false => AccessError::UnknownHandle { handle },
        }
    }

    /// Returns the refusal for a handle with which the caller sees no variable.
    pub(crate) fn refuse_handle(&self, caller: &Caller, handle: u32) -> Refusal {
        match self.may_be_gone(caller, handle) {
            true => Refusal::Gone,
            false => Refusal::UnknownHandle { handle },
        }
    }

    /// A caller from which variables are hidden gets the same answer for every handle, because the
    /// difference would show which handles belong, or belonged, to hidden variables (B-82). It has
    /// been given each handle that it uses, so the variable is probably gone.
    fn may_be_gone(&self, caller: &Caller, handle: u32) -> bool {
        !caller.rights.permit_all_reads() || self.variables.may_have_existed(handle)
    }

    pub fn slots(&self) -> SlotCounts {
        self.variables.counts()
    }

    pub fn visible(&self, caller: &Caller, handle: u32) -> Option<Arc<Variable>> {
        self.variable(handle)
            .filter(|variable| variable.is_visible_to(caller))
    }

    pub fn resolve(&self, caller: &Caller, name: &str) -> Result<Arc<Variable>, AccessError> {
        if let Some(variable) = self.variables.find(name)
            && variable.is_visible_to(caller)
        {
            return Ok(variable);
        }
        // The slow path handles spellings that differ only in their escapes, and builds the error.
        let parsed = Name::parse(name).map_err(AccessError::InvalidName)?;
        let registry = &self.variables;
        let found = match register_number(parsed.as_str()) {
            Some(number) => registry.numbered(number),
            None => registry.find(parsed.as_str()),
        };
        if let Some(variable) = found
            && variable.is_visible_to(caller)
        {
            return Ok(variable);
        }
        Err(AccessError::UnknownName {
            name: parsed.as_str().to_owned(),
            suggestion: None,
        })
    }

    /// Calls [`resolve`](Self::resolve) for a single name; the error of an unknown name includes a
    /// suggestion.
    pub(crate) fn resolve_one(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<Arc<Variable>, AccessError> {
        self.resolve(caller, name).map_err(|mut error| {
            if let AccessError::UnknownName { name, suggestion } = &mut error {
                *suggestion = self.suggest(caller, name);
            }
            error
        })
    }

    /// Returns the most similar name visible to `caller` among the first [`SUGGEST_MAX`] variables.
    /// The search takes some milliseconds, so use it only for single unknown names.
    pub fn suggest(&self, caller: &Caller, name: &str) -> Option<String> {
        let shows = |listed: &str| !is_reserved(listed) || is_reserved(name);
        let candidates = (1..self.variables.end().min(SUGGEST_MAX)).filter_map(|slot| {
            let shown = |one: &Arc<Variable>| {
                one.is_visible_to(caller) && !one.is_gone() && shows(one.name())
            };
            self.variables.at(slot).filter(shown)
        });
        let candidates: Vec<Arc<Variable>> = candidates.collect();
        let names = candidates.iter().map(|variable| variable.name());
        let body = name.split_once('#').map_or(name, |(body, _)| body);
        trunkline_types::name::suggest(body, names)
    }

    /// Visits the visible, deployed variables whose names match, beginning with slot `cursor`.
    ///
    /// Stops when `limit` variables have matched or `budget` is used up, but examines at least one
    /// slot. Returns the cursor at which to continue, or `None` at the end. For a caller from which
    /// variables are hidden, a search that has reached `limit` continues at a variable that matches,
    /// so that the cursor does not report variables that follow and are all hidden. Names of the
    /// engine's own libraries match only patterns that also begin with `_`.
    pub fn find(
        &self,
        caller: &Caller,
        pattern: &Pattern,
        cursor: u32,
        limit: usize,
        budget: &mut StepBudget,
        mut visit: impl FnMut(&Arc<Variable>),
    ) -> Option<u32> {
        let end = self.variables.end();
        let shows = |name: &str| !is_reserved(name) || is_reserved(pattern.as_str());
        let sees_all = caller.rights.permit_all_reads();
        let mut found = 0;
        for (examined, slot) in (cursor.max(1)..end).enumerate() {
            let is_full = found >= limit;
            if (is_full && sees_all) || (examined > 0 && budget.is_spent()) {
                return Some(slot);
            }
            budget.spend(STEPS_PER_VARIABLE);
            if let Some(variable) = self.variables.at(slot)
                && variable.is_visible_to(caller)
                && pattern.matches_within(budget, variable.name())
                && shows(variable.name())
                && !variable.is_gone()
            {
                if is_full {
                    return Some(slot);
                }
                found += 1;
                visit(&variable);
            }
        }
        None
    }

    pub(crate) fn all_variables(&self) -> impl Iterator<Item = Arc<Variable>> {
        (1..self.variables.end()).filter_map(|slot| self.variables.at(slot))
    }
}

impl fmt::Debug for EngineCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.name)
            .field("epoch", &self.epoch)
            .field("slots", &self.slots())
            .finish_non_exhaustive()
    }
}

impl From<NameError> for AccessError {
    fn from(error: NameError) -> Self {
        AccessError::InvalidName(error)
    }
}

/// A feature of an engine: its data, and the core that it works on.
#[derive(Debug)]
pub struct View<'e, T> {
    pub(crate) core: &'e EngineCore,
    pub(crate) table: &'e Arc<T>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl<'e, T> View<'e, T> {
    pub(crate) fn of<U>(self, table: &'e Arc<U>) -> View<'e, U> {
        View {
            core: self.core,
            table,
        }
    }
}
