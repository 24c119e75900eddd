//! One variable: its cold properties (shared), its newest update, and who wants to know.

use std::fmt;

use trunkline_types::ledger::UpstreamLedger;
use trunkline_types::{Access, DataType, Properties, Quality, Reason, Sample, Scope, Value};

use crate::caller::Caller;
use crate::cell::{Cell, CellRead};
use crate::interest::Interest;
use crate::outcome::AccessError;
use crate::realtime::RealTime;
use crate::retained::Ring;
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
    pub(crate) interests: Vec<Interest>,
    /// The newest updates for `last:n` subscribers: all of them, and the changes only.
    pub(crate) ring_all: Option<Ring>,
    pub(crate) ring_changes: Option<Ring>,
    pub(crate) unchanged: u64,
    pub(crate) superseded: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) fifo_overflow: u64,
    pub(crate) upstream_lost: u64,
}

impl State {
    pub(crate) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
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
    /// [`AccessError::NotReadable`] by its access type, [`AccessError::Denied`] by the caller's rights.
    pub fn check_readable(&self, caller: &Caller) -> Result<(), AccessError> {
        if self.properties.access == Access::WriteOnly {
            return Err(AccessError::NotReadable);
        }
        if !caller.rights.read {
            return Err(AccessError::Denied);
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
        let mut ledger = UpstreamLedger {
            offered: state.offered,
            written: self.sequence(),
            ..UpstreamLedger::default()
        };
        if let Some(extra) = &state.extra {
            ledger.unchanged = extra.unchanged;
            ledger.superseded = extra.superseded;
            ledger.refused = extra.refused;
            ledger.unknown = extra.unknown;
            ledger.fifo_overflow = extra.fifo_overflow;
            ledger.upstream_lost = extra.upstream_lost;
        }
        ledger
    }

    /// Number of subscriptions.
    pub fn subscribers(&self) -> usize {
        self.lock().extra.as_ref().map_or(0, |extra| extra.interests.len())
    }

    /// Whether it was undeployed.
    pub fn is_gone(&self) -> bool {
        // Acquire: pairs with the release in `set_gone`, so that what was published before it is seen.
        self.flags.load(Ordering::Acquire) & GONE != 0
    }

    /// Marks it as undeployed. The caller holds the lock, so no write is between its check and commit.
    pub(crate) fn set_gone(&self, _state: &mut State) {
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

    /// Publishes `update` as the newest one. The caller holds the lock.
    pub(crate) fn publish(&self, state: &mut State, update: &mut Update) {
        state.shared = update.value.shared().map(Arc::clone);
        update.sequence = self.cell.publish(self.data_type(), update);
    }

    /// Whether somebody else owns its value: clients' writes go there first.
    pub fn is_provided(&self) -> bool {
        self.provider_index().is_some()
    }

    pub(crate) fn provider_index(&self) -> Option<usize> {
        // Relaxed: a number that stands alone; what it names is found under the providers' own lock.
        ((self.flags.load(Ordering::Relaxed) & !GONE) as usize).checked_sub(1)
    }

    pub(crate) fn set_provider(&self, index: Option<usize>) {
        let stored = index.map_or(0, |index| index as u32 + 1);
        let _previous = self.flags.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |flags| {
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
