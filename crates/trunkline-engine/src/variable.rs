//! One variable: its cold properties (shared), its newest update, and who wants to know.

use std::fmt;

use trunkline_types::ledger::UpstreamLedger;
use trunkline_types::{Access, DataType, Properties, Quality, Reason, Sample, Scope, Value};

use crate::caller::Caller;
use crate::cell::{Cell, CellRead};
use crate::interest::Interests;
use crate::outcome::AccessError;
use crate::realtime::RealTime;
use crate::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering};
use crate::update::{Encoded, Update};

/// A deployed variable. Kept small: a plain `f64` costs under 300 bytes with its name and its slot.
pub struct Variable {
    slot: u32,
    /// Index of its provider plus one (0: held, nobody else owns the value), and [`GONE`].
    flags: AtomicU32,
    name: Box<str>,
    properties: Arc<Properties>,
    cell: Cell,
    pub(crate) realtime: Option<Box<RealTime>>,
    state: Mutex<State>,
}

/// What the variable's lock guards.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Writes that have ended, whatever their outcome.
    pub(crate) offered: u64,
    /// The value when it is longer than the cell keeps in place.
    pub(crate) shared: Option<Arc<[u8]>>,
    /// Allocated with the first subscriber or the first write that was not applied.
    pub(crate) extra: Option<Box<Extra>>,
}

/// The part of the state that most variables do not need.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) interests: Interests,
    /// Allocated with the first write that was not applied.
    unapplied: Option<Box<Unapplied>>,
}

/// Writes that ended in another way than by being applied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unapplied {
    pub(crate) unchanged: u64,
    pub(crate) superseded: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) fifo_overflow: u64,
    pub(crate) upstream_lost: u64,
}

impl State {
    pub(crate) fn interests(&self) -> Option<&Interests> {
        self.extra.as_ref().map(|extra| &extra.interests)
    }

    pub(crate) fn interests_mut(&mut self) -> Option<&mut Interests> {
        self.extra.as_mut().map(|extra| &mut extra.interests)
    }

    /// The subscriptions; the place for them is made if there is none yet.
    pub(crate) fn make_interests(&mut self) -> &mut Interests {
        &mut self.extra.get_or_insert_default().interests
    }

    /// Enters `count` writes that ended without being applied, in the counter that `which` names.
    pub(crate) fn count(&mut self, count: u64, which: impl FnOnce(&mut Unapplied) -> &mut u64) {
        self.offered += count;
        let extra = self.extra.get_or_insert_default();
        *which(extra.unapplied.get_or_insert_default()) += count;
    }
}

impl Variable {
    pub(crate) fn new(slot: u32, name: Box<str>, properties: Arc<Properties>) -> Self {
        Self {
            slot,
            flags: AtomicU32::new(0),
            name,
            cell: Cell::new(&properties.data_type),
            realtime: RealTime::new(&properties),
            properties,
            state: Mutex::new(State::default()),
        }
    }

    /// The handle: the same number for every connection, never reused within an epoch.
    pub fn handle(&self) -> u32 {
        self.slot
    }

    /// The full name, `library/path`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What configuration says about it.
    pub fn properties(&self) -> &Arc<Properties> {
        &self.properties
    }

    /// The type of its value.
    pub fn data_type(&self) -> &DataType {
        &self.properties.data_type
    }

    /// The number of its newest update; 0 when nothing was written yet.
    pub fn sequence(&self) -> u64 {
        self.cell.sequence()
    }

    /// The newest update. Takes no lock unless the value is longer than 24 bytes.
    pub fn update(&self) -> Update {
        match self.cell.read(self.data_type()) {
            CellRead::Complete(update) => update,
            CellRead::Shared | CellRead::Lapped => self.update_locked(&self.lock()),
        }
    }

    /// The newest update as a sample; before the first write the type's default, `bad: no-value`.
    pub fn sample(&self) -> Sample {
        self.sample_of(&self.update())
    }

    /// `update` with its value decoded.
    pub fn sample_of(&self, update: &Update) -> Sample {
        if update.sequence == 0 {
            return Sample {
                value: Value::default_of(self.data_type()),
                source_timestamp: update.source_timestamp,
                engine_timestamp: update.engine_timestamp,
                quality: Quality::bad(Reason::NoValue),
            };
        }
        Sample {
            value: update.value.decode(self.data_type()),
            source_timestamp: update.source_timestamp,
            engine_timestamp: update.engine_timestamp,
            quality: update.quality,
        }
    }

    /// Whether `caller` may read it.
    ///
    /// # Errors
    /// [`AccessError::Denied`] by the caller's rights or because it is hidden from the caller,
    /// [`AccessError::NotReadable`] by its access type.
    pub fn check_readable(&self, caller: &Caller) -> Result<(), AccessError> {
        if !caller.rights.read || !self.is_visible_to(caller) {
            return Err(AccessError::Denied);
        }
        if self.properties.access == Access::WriteOnly {
            return Err(AccessError::NotReadable);
        }
        Ok(())
    }

    /// Whether `caller` can see it at all: connections do not see single-process variables.
    pub fn is_visible_to(&self, caller: &Caller) -> bool {
        !(caller.remote && self.properties.scope == Scope::Process)
    }

    /// What became of every write so far.
    pub fn ledger(&self) -> UpstreamLedger {
        let state = self.lock();
        let unapplied = state
            .extra
            .as_ref()
            .and_then(|extra| extra.unapplied.as_deref());
        let unapplied = unapplied.cloned().unwrap_or_default();
        UpstreamLedger {
            offered: state.offered,
            written: self.sequence(),
            unchanged: unapplied.unchanged,
            superseded: unapplied.superseded,
            refused: unapplied.refused,
            unknown: unapplied.unknown,
            fifo_overflow: unapplied.fifo_overflow,
            upstream_lost: unapplied.upstream_lost,
        }
    }

    /// Enters writes that were lost before they reached the engine: in a mirrored source, or by an
    /// I/O server that had to wait for too long.
    pub fn count_upstream_lost(&self, count: u64) {
        self.lock()
            .count(count, |unapplied| &mut unapplied.upstream_lost);
    }

    /// Number of subscriptions.
    pub fn subscribers(&self) -> usize {
        self.lock().interests().map_or(0, Interests::len)
    }

    /// Whether it was undeployed.
    pub fn is_gone(&self) -> bool {
        // Acquire: pairs with the release in `set_gone`, so that what was published before it is
        // seen.
        self.flags.load(Ordering::Acquire) & GONE != 0
    }

    /// Marks it as undeployed. The caller holds the lock, so no write is between its check and
    /// commit.
    pub(crate) fn set_gone(&self, _state: &State) {
        self.flags.fetch_or(GONE, Ordering::Release);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The newest update, while the caller holds the variable's lock.
    pub(crate) fn update_locked(&self, state: &State) -> Update {
        if let Some(bytes) = &state.shared {
            return self.cell.read_with(Encoded::from_shared(Arc::clone(bytes)));
        }
        match self.cell.read(self.data_type()) {
            CellRead::Complete(update) => update,
            // With the lock held nobody publishes, so a read cannot be lapped; and a shared value
            // would have been found above.
            CellRead::Shared | CellRead::Lapped => self.cell.read_with(Encoded::EMPTY),
        }
    }

    /// Publishes `update` as the newest one, and returns its number. The caller holds the lock.
    pub(crate) fn publish(&self, state: &mut State, update: &mut Update) -> u64 {
        state.shared = update.value.shared().map(Arc::clone);
        update.sequence = self.cell.publish(self.data_type(), update);
        update.sequence
    }

    /// Whether somebody else owns its value: clients' writes go there first.
    pub fn is_provided(&self) -> bool {
        self.provider_index().is_some()
    }

    pub(crate) fn provider_index(&self) -> Option<usize> {
        // Relaxed: a number that stands alone; what it names is found under the providers' own
        // lock.
        ((self.flags.load(Ordering::Relaxed) & !GONE) as usize).checked_sub(1)
    }

    pub(crate) fn set_provider(&self, index: Option<usize>) {
        let stored = index.map_or(0, |index| index as u32 + 1);
        let _previous = self
            .flags
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |flags| {
                Some(flags & GONE | stored & !GONE)
            });
    }
}

/// The flag of an undeployed variable.
const GONE: u32 = 1 << 31;

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variable({} = {})", self.slot, self.name)
    }
}
