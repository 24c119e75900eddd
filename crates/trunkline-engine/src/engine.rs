//! The engine: the variables of one process.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use trunkline_types::name::{NameError, is_reserved, register_number};
use trunkline_types::{Effort, Moment, Name, Pattern, Tick, Timestamp};

use crate::caller::Caller;
use crate::delivery::budget::EngineBudget;
use crate::delivery::feed::Feeds;
use crate::delivery::outbox::Wakes;
use crate::features::ages::Ages;
use crate::features::alias::Aliases;
use crate::features::audit::Audit;
use crate::features::forcing::Forcing;
use crate::features::leases::Leases;
use crate::features::libraries::Library;
use crate::features::providers::{PROVIDER_TIMEOUT_DEFAULT, Providers};
use crate::features::realtime::Pump;
use crate::features::tables::Mirrors;
use crate::outcome::{AccessError, Refusal};
use crate::queries::health::{Departed, Losses, Subscriptions};
use crate::queries::names::Watchers;
use crate::queries::search::LOOK_STEPS;
use crate::queries::writers::Writers;
use crate::subscriptions::Absences;
use crate::sync::{Arc, AtomicU32, AtomicUsize, Mutex, Ordering, Weak};
use crate::variable::Variable;
use crate::variables::{HandleReader, Registry, SlotCounts};
use crate::write::BeginWrite;
use crate::write::wall_clock::WallClock;

/// Maximum number of items that one slice of [`Engine::poll`] or of
/// [`Consumer::poll`](crate::Consumer::poll) handles before other work gets its turn.
pub const SLICE: usize = 1000;

/// Settings of a new engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The engine's name, shown to people.
    pub name: String,
    /// The epoch, different at every start: see `Start::epoch` in `store`.
    pub epoch: u64,
    /// Time a provider has to answer a write.
    pub provider_timeout: Duration,
    /// Bytes that may be queued for all subscribers together, counting the values and 64 bytes per
    /// update. `usize::MAX` means unlimited and uncounted.
    pub queue_bytes_max: usize,
}

impl EngineOptions {
    /// Creates options for an engine named `name` in epoch `epoch`, with default limits.
    pub fn new(name: impl Into<String>, epoch: u64) -> Self {
        Self {
            name: name.into(),
            epoch,
            provider_timeout: PROVIDER_TIMEOUT_DEFAULT,
            queue_bytes_max: usize::MAX,
        }
    }
}

/// The variables of one process. Clones refer to the same engine.
///
/// The engine starts no thread, reads no clock and never blocks: `now` and `wall` are arguments,
/// and [`Engine::poll`] does the work that is due.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    options: EngineOptions,
    registry: Registry,
    providers: Providers,
    pump: Pump,
    forcing: Forcing,
    writers: Writers,
    watchers: Watchers,
    ages: Ages,
    /// Number of open fields.
    fields: AtomicU32,
    /// All open fields. The one opened or examined longest ago comes first.
    field_list: Mutex<VecDeque<Weak<Variable>>>,
    departed: Departed,
    leases: Arc<Leases>,
    /// Number of groups committed so far.
    commits: AtomicUsize,
    audit: Arc<Audit>,
    aliases: Aliases,
    losses: Losses,
    subscriptions: Subscriptions,
    feeds: Feeds,
    mirrors: Mirrors,
    absences: Absences,
    /// Memory bound of all subscribers' queues together; `None` if it is unbounded.
    memory: Option<Arc<EngineBudget>>,
    wall_clock: WallClock,
    /// Serializes changes to libraries and sources, which may take long. Locked before `libraries`.
    changes: Mutex<()>,
    /// Held for a lookup or one step only, never for a time that grows with the size of a library.
    libraries: Mutex<Vec<Library>>,
}

impl Engine {
    /// Creates an engine without variables.
    pub fn new(options: EngineOptions) -> Self {
        let providers = Providers::new(options.provider_timeout);
        let max = options.queue_bytes_max;
        let memory = (max != usize::MAX).then(|| Arc::new(EngineBudget::new(max)));
        Self {
            inner: Arc::new(Inner {
                options,
                registry: Registry::new(),
                providers,
                pump: Pump::new(),
                forcing: Forcing::default(),
                writers: Writers::default(),
                watchers: Watchers::default(),
                ages: Ages::default(),
                fields: AtomicU32::new(0),
                field_list: Mutex::new(VecDeque::new()),
                departed: Departed::default(),
                leases: Arc::default(),
                commits: AtomicUsize::new(0),
                audit: Arc::default(),
                aliases: Aliases::default(),
                losses: Losses::default(),
                subscriptions: Subscriptions::default(),
                feeds: Feeds::default(),
                mirrors: Mirrors::default(),
                absences: Absences::default(),
                memory,
                wall_clock: WallClock::default(),
                changes: Mutex::new(()),
                libraries: Mutex::new(Vec::new()),
            }),
        }
    }

    /// The engine's name.
    pub fn name(&self) -> &str {
        &self.inner.options.name
    }

    /// The number of this engine start. Positions of different epochs cannot be compared.
    pub fn epoch(&self) -> u64 {
        self.inner.options.epoch
    }

    /// Returns the variable behind a handle, or `None` if it was removed.
    #[inline]
    pub fn variable(&self, handle: u32) -> Option<Arc<Variable>> {
        self.inner.registry.get(handle)
    }

    /// Returns a reader that follows many handles without a lock, for use by one thread at a time.
    pub fn handles(&self) -> HandleReader {
        self.inner.registry.handles()
    }

    /// Returns the reason why there is no variable behind a handle.
    pub fn no_variable(&self, handle: u32) -> AccessError {
        match self.inner.registry.was_given(handle) {
            true => AccessError::Gone,
            false => AccessError::UnknownHandle { handle },
        }
    }

    /// Returns the refusal of a write whose handle has no variable.
    pub(crate) fn refuse_handle(&self, handle: u32) -> Refusal {
        match self.inner.registry.was_given(handle) {
            true => Refusal::Gone,
            false => Refusal::UnknownHandle { handle },
        }
    }

    /// Returns the number of slots for variables: used, retired and in total.
    pub fn slots(&self) -> SlotCounts {
        self.inner.registry.counts()
    }

    /// Returns the variable behind a handle, if `caller` can see it.
    pub fn visible(&self, caller: &Caller, handle: u32) -> Option<Arc<Variable>> {
        self.variable(handle)
            .filter(|variable| variable.is_visible_to(caller))
    }

    /// Returns the variable with this full name.
    ///
    /// # Errors
    /// [`AccessError::InvalidName`] if the name breaks the rules of names,
    /// [`AccessError::UnknownName`] otherwise. No suggestion is looked up, so that a list of
    /// 100,000 unknown names costs no more than one of known names. Call [`Engine::suggest`] for a
    /// few of them.
    pub fn resolve(&self, caller: &Caller, name: &str) -> Result<Arc<Variable>, AccessError> {
        if let Some(variable) = self.inner.registry.find(name)
            && variable.is_visible_to(caller)
        {
            return Ok(variable);
        }
        // The slow path handles spellings that differ only in their escapes, and builds the error.
        let parsed = Name::parse(name).map_err(AccessError::InvalidName)?;
        let registry = &self.inner.registry;
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

    /// Calls [`Engine::resolve`] for a single name; the error of an unknown name includes a
    /// suggestion.
    pub(crate) fn resolve_one(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<Arc<Variable>, AccessError> {
        self.resolve(caller, name).map_err(|error| match error {
            AccessError::UnknownName { name, .. } => {
                let suggestion = self.suggest(caller, &name);
                AccessError::UnknownName { name, suggestion }
            }
            other => other,
        })
    }

    /// Returns the nearest name that `caller` can see among the first [`SUGGEST_MAX`] variables.
    /// The search takes some milliseconds, so it is meant for single misses.
    pub fn suggest(&self, caller: &Caller, name: &str) -> Option<String> {
        let shows = |listed: &str| !is_reserved(listed) || is_reserved(name);
        let candidates = (1..self.end().min(SUGGEST_MAX)).filter_map(|slot| {
            let shown = |one: &Arc<Variable>| {
                one.is_visible_to(caller) && !one.is_gone() && shows(one.name())
            };
            self.registry().at(slot).filter(shown)
        });
        let candidates: Vec<Arc<Variable>> = candidates.collect();
        let names = candidates.iter().map(|variable| variable.name());
        let body = name.split_once('#').map_or(name, |(body, _)| body);
        trunkline_types::name::suggest(body, names)
    }

    /// Visits the visible, deployed variables whose names match, from slot `cursor` on.
    ///
    /// Stops when `limit` variables have matched or `effort` is spent, but examines at least one
    /// slot. Returns the cursor to continue from, or `None` at the end. Names of the engine's own
    /// libraries match only patterns that begin with `_` themselves.
    pub fn find(
        &self,
        caller: &Caller,
        pattern: &Pattern,
        cursor: u32,
        limit: usize,
        effort: &mut Effort,
        mut visit: impl FnMut(&Arc<Variable>),
    ) -> Option<u32> {
        let end = self.end();
        let shows = |name: &str| !is_reserved(name) || is_reserved(pattern.as_str());
        let mut found = 0;
        for (looked, slot) in (cursor.max(1)..end).enumerate() {
            if found >= limit || (looked > 0 && effort.is_spent()) {
                return Some(slot);
            }
            effort.spend(LOOK_STEPS);
            if let Some(variable) = self.registry().at(slot)
                && variable.is_visible_to(caller)
                && pattern.matches_within(effort, variable.name())
                && shows(variable.name())
                && !variable.is_gone()
            {
                found += 1;
                visit(&variable);
            }
        }
        None
    }

    /// Does the work that is due, in slices: provider time-outs, values that have become too old,
    /// expired leases, expired state of broken sessions, and updates of the tables of last values.
    /// Returns the time at which it must be called again.
    pub fn poll(&self, now: Tick, wall: Timestamp, wakes: &mut Wakes) -> Option<Tick> {
        self.watch_clock(now, wall);
        let moment = Moment { now, wall };
        let aged = self.mark_stale(moment, SLICE, wakes);
        if self.expire_pending(moment, SLICE, wakes) == SLICE {
            return Some(now);
        }
        if !self.mark_ended(&mut { SLICE }, moment, wakes) {
            return Some(now);
        }
        if self.fill_tables(SLICE) {
            return Some(now);
        }
        let (_, lease_ends) = self.expire_leases(now, SLICE);
        let kept = self.expire_absent(now, SLICE, wakes);
        let due = [aged, self.next_provider_deadline(), lease_ends, kept];
        due.into_iter().flatten().min()
    }

    pub(crate) fn end(&self) -> u32 {
        self.inner.registry.end()
    }

    pub(crate) fn for_each_variable(&self, mut visit: impl FnMut(&Arc<Variable>)) {
        for slot in 1..self.end() {
            if let Some(variable) = self.registry().at(slot) {
                visit(&variable);
            }
        }
    }

    /// What is asked before each write that a feature may carry out in another way, in this order.
    pub(crate) fn hooks(&self) -> [BeginWrite; 4] {
        [
            Engine::begin_audited,
            Engine::begin_alias,
            Engine::begin_forced,
            Engine::begin_provided,
        ]
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    pub(crate) fn providers(&self) -> &Providers {
        &self.inner.providers
    }

    pub(crate) fn mirrors(&self) -> &Mirrors {
        &self.inner.mirrors
    }

    pub(crate) fn forcing(&self) -> &Forcing {
        &self.inner.forcing
    }

    pub(crate) fn writers(&self) -> &Writers {
        &self.inner.writers
    }

    /// Counts one more field, and returns true, unless there are already `max`.
    pub(crate) fn count_field(&self, max: u32) -> bool {
        let fields = &self.inner.fields;
        let more = |count: u32| (count < max).then(|| count + 1);
        // Relaxed: the counter orders no other data.
        let counted = fields.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok()
    }

    pub(crate) fn uncount_field(&self) {
        self.inner.fields.fetch_sub(1, Ordering::Relaxed);
    }

    /// Number of open fields.
    pub fn open_fields(&self) -> u64 {
        u64::from(self.inner.fields.load(Ordering::Relaxed))
    }

    pub(crate) fn field_list(&self) -> &Mutex<VecDeque<Weak<Variable>>> {
        &self.inner.field_list
    }

    pub(crate) fn departed(&self) -> &Departed {
        &self.inner.departed
    }

    pub(crate) fn ages(&self) -> &Ages {
        &self.inner.ages
    }

    pub(crate) fn watchers(&self) -> &Watchers {
        &self.inner.watchers
    }

    pub(crate) fn leases(&self) -> &Arc<Leases> {
        &self.inner.leases
    }

    pub(crate) fn commits(&self) -> &AtomicUsize {
        &self.inner.commits
    }

    pub(crate) fn audit(&self) -> &Arc<Audit> {
        &self.inner.audit
    }

    pub(crate) fn feeds(&self) -> &Feeds {
        &self.inner.feeds
    }

    pub(crate) fn absences(&self) -> &Absences {
        &self.inner.absences
    }

    #[inline]
    pub(crate) fn wall_clock(&self) -> &WallClock {
        &self.inner.wall_clock
    }

    pub(crate) fn losses(&self) -> &Losses {
        &self.inner.losses
    }

    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.inner.subscriptions
    }

    /// Memory bound of all subscribers' queues together; `None` if it is not counted.
    pub(crate) fn memory(&self) -> Option<&Arc<EngineBudget>> {
        self.inner.memory.as_ref()
    }

    pub(crate) fn aliases(&self) -> &Aliases {
        &self.inner.aliases
    }

    pub(crate) fn pump_state(&self) -> &Pump {
        &self.inner.pump
    }

    /// Locks out other changes to the libraries and their sources.
    pub(crate) fn changes_lock(&self) -> crate::sync::MutexGuard<'_, ()> {
        self.inner.changes.lock()
    }

    pub(crate) fn libraries_lock(&self) -> crate::sync::MutexGuard<'_, Vec<Library>> {
        self.inner.libraries.lock()
    }
}

/// Maximum number of names examined for a suggestion, so that a misspelling in a large engine does
/// not cost a full scan.
pub const SUGGEST_MAX: u32 = 50_000;

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("name", &self.name())
            .field("epoch", &self.epoch())
            .field("variables", &self.variable_count())
            .finish_non_exhaustive()
    }
}

impl From<NameError> for AccessError {
    fn from(error: NameError) -> Self {
        AccessError::InvalidName(error)
    }
}
