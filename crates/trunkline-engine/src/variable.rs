//! One variable: its cold properties (shared) and its newest update. What else its lock guards,
//! such as who wants to know, is in `state`.

mod state;

use std::fmt;
use std::ops::Deref;

use trunkline_types::ledger::UpstreamLedger;
use trunkline_types::{
    Access, AuditMode, DataType, Properties, Quality, Reason, Sample, Scope, Tick, Timestamp, Value,
};

pub(crate) use self::state::{Extra, State};
use crate::caller::Caller;
use crate::cell::{Cell, CellRead};
use crate::feed::Room;
use crate::flags::{AUDITED, EDITED, first_flags};
use crate::interest::Pressure;
use crate::outbox::{Outbox, Reader, Wakes};
use crate::outcome::AccessError;
use crate::plain::PlainUpdate;
use crate::provider::ProviderId;
use crate::realtime::RealTime;
use crate::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering};
use crate::update::{Encoded, Update};

/// A deployed variable. Kept small: a plain `f64` costs under 300 bytes with its name and its slot.
pub struct Variable {
    handle: u32,
    /// Index of its provider plus one (0: held, nobody else owns the value), and above
    /// that what few variables are; see [`flags`](crate::flags).
    pub(crate) flags: AtomicU32,
    name: Box<str>,
    /// As it was deployed. What [`State::edited`] says instead leaves the type, the scope, the FIFO
    /// and the timestamps as they are.
    properties: Arc<Properties>,
    cell: Cell,
    pub(crate) realtime: Option<Box<RealTime>>,
    state: Mutex<State>,
}

impl Variable {
    pub(crate) fn new(handle: u32, name: Box<str>, properties: Arc<Properties>) -> Self {
        Self {
            handle,
            flags: AtomicU32::new(first_flags(&properties)),
            name,
            cell: Cell::new(&properties.data_type),
            realtime: RealTime::new(&properties),
            properties,
            state: Mutex::new(State::default()),
        }
    }

    /// The handle: the same number for every connection, never reused within an epoch. The slot in
    /// it is: see [`slot_of`](trunkline_types::definition::slot_of).
    #[inline]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// The full name, `library/path`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What configuration says about it now. Takes no lock unless that was edited after it was
    /// deployed.
    #[inline]
    pub fn properties(&self) -> PropertiesRef<'_> {
        // Acquire: pairs with the release in `edit`.
        if self.flags.load(Ordering::Acquire) & EDITED == 0 {
            return PropertiesRef::Deployed(&self.properties);
        }
        self.edited_properties()
    }

    #[cold]
    fn edited_properties(&self) -> PropertiesRef<'_> {
        self.shared_properties(&self.lock())
    }

    /// [`properties`](Self::properties) for a caller that holds the lock.
    pub(crate) fn shared_properties(&self, state: &State) -> PropertiesRef<'_> {
        match state.edited() {
            Some(edited) => PropertiesRef::Edited(Arc::clone(edited)),
            None => PropertiesRef::Deployed(&self.properties),
        }
    }

    /// Whether `properties` are what holds now. The caller holds the lock.
    #[inline]
    pub(crate) fn is_current(&self, state: &State, properties: &PropertiesRef<'_>) -> bool {
        match (properties, state.edited()) {
            (PropertiesRef::Deployed(_), None) => true,
            (PropertiesRef::Edited(seen), Some(edited)) => Arc::ptr_eq(seen, edited),
            _ => false,
        }
    }

    /// From now on `properties` hold, which differ in nothing that the variable is made for: see
    /// [`is_made_for`](Self::is_made_for).
    pub(crate) fn edit(
        &self,
        properties: Arc<Properties>,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let mut state = self.lock();
        self.refresh_guard(&mut state, &properties);
        match properties.audit {
            AuditMode::Off => self.clear(&state, AUDITED),
            AuditMode::BestEffort | AuditMode::Complete => self.set(&state, AUDITED),
        }
        if properties == self.properties {
            if let Some(extra) = &mut state.extra {
                extra.edited = None;
            }
            self.clear(&state, EDITED);
        } else {
            state.extra.get_or_insert_default().edited = Some(properties);
            self.set(&state, EDITED);
        }
        // It may be readable no longer, or again.
        self.mirror(&state);
        self.refresh_fields(&state, now, wall, wakes);
    }

    /// What holds now, while the caller holds the variable's lock.
    pub(crate) fn properties_locked<'s>(&'s self, state: &'s State) -> &'s Properties {
        state.edited().unwrap_or(&self.properties)
    }

    /// Whether a variable with these properties can be this one: what its memory was laid out for
    /// is the same.
    pub(crate) fn is_made_for(&self, properties: &Properties) -> bool {
        let own = &self.properties;
        own.data_type == properties.data_type
            && own.scope == properties.scope
            && own.fifo == properties.fifo
            && own.timestamps == properties.timestamps
            && own.alias.is_empty() == properties.alias.is_empty()
    }

    /// What it was deployed with: its type, scope, FIFO and timestamps are still those.
    pub(crate) fn deployed(&self) -> &Arc<Properties> {
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
        if self.properties().access == Access::WriteOnly {
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
        let mut ledger = UpstreamLedger {
            offered: state.offered,
            written: self.sequence(),
            ..UpstreamLedger::default()
        };
        let Some(unapplied) = state.unapplied() else {
            return ledger;
        };
        ledger = UpstreamLedger {
            unchanged: unapplied.unchanged,
            superseded: unapplied.superseded,
            refused: unapplied.refused,
            unknown: unapplied.unknown,
            fifo_overflow: unapplied.fifo_overflow,
            upstream_lost: unapplied.upstream_lost,
            ..ledger
        };
        ledger
    }

    /// Enters writes that were lost before they reached the engine: in a mirrored source, or by an
    /// I/O server that had to wait for too long.
    pub fn count_upstream_lost(&self, count: u64) {
        self.lock()
            .count(count, |unapplied| &mut unapplied.upstream_lost);
    }

    /// Enters writes that their writer replaced by a newer one before they were sent.
    pub fn count_superseded(&self, count: u64) {
        self.lock()
            .count(count, |unapplied| &mut unapplied.superseded);
    }

    /// Number of subscriptions, those of the engine's own services not counted.
    pub fn subscribers(&self) -> usize {
        let state = self.lock();
        let is_counted = |one: &&Arc<Outbox>| !one.is_service;
        let plain = state.plains.outboxes().filter(is_counted).count();
        plain + buffers(&state, &mut |_| ())
    }

    /// Who subscribes to it, each once, `max` at most.
    pub fn readers(&self, max: usize) -> Vec<Reader> {
        let mut outboxes: Vec<Arc<Outbox>> = Vec::new();
        let mut note = |outbox: &Arc<Outbox>| {
            let known = outboxes.iter().any(|known| Arc::ptr_eq(known, outbox));
            if !known && outboxes.len() < max {
                outboxes.push(Arc::clone(outbox));
            }
        };
        {
            let state = self.lock();
            let plain = state.plains.outboxes().filter(|one| !one.is_service);
            plain.for_each(&mut note);
            buffers(&state, &mut note);
        }
        // They say who they are outside the lock.
        outboxes.iter().map(|outbox| outbox.reader()).collect()
    }

    /// Visits the consumers behind those that are not simply of `latest`, each once for each of
    /// them; the lock is held.
    pub(crate) fn of_buffers(&self, visit: &mut dyn FnMut(&Arc<Outbox>)) {
        buffers(&self.lock(), visit);
    }

    /// Tells how the buffer of each of those subscriptions stands before an update of `bytes`.
    pub(crate) fn of_pressures(&self, bytes: usize, visit: &mut dyn FnMut(Pressure)) {
        let state = self.lock();
        let Some(interests) = state.interests() else {
            return;
        };
        for interest in interests.iter().filter(|one| !one.outbox.is_service) {
            visit(interest.pressure());
        }
        for interest in interests.feeds() {
            interest.feed.pressures(Room::one(bytes), visit);
        }
    }

    /// Publishes a number as the newest update, and returns that one's number. The caller holds the
    /// lock of this plain variable.
    #[inline]
    pub(crate) fn publish_word(
        &self,
        stamp: Timestamp,
        quality: Quality,
        writer: u32,
        word: u64,
    ) -> u64 {
        self.cell.publish_word(stamp, quality, writer, word)
    }

    /// The newest update of this plain variable; `None` when there is none yet, or writers overtook
    /// the reader every time.
    #[inline]
    pub(crate) fn read_word(&self) -> Option<PlainUpdate> {
        self.cell.read_word()
    }

    pub(crate) fn read_cell(&self) -> CellRead {
        self.cell.read(self.data_type())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The newest update, while the caller holds the variable's lock.
    pub(crate) fn update_locked(&self, state: &State) -> Update {
        if let Some(bytes) = state.extra.as_ref().and_then(|extra| extra.shared.as_ref()) {
            return self.cell.read_with(Encoded::from_shared(Arc::clone(bytes)));
        }
        match self.cell.read(self.data_type()) {
            CellRead::Complete(update) => update,
            // With the lock held nobody publishes, so a read cannot be lapped; and a shared value
            // would have been found above.
            CellRead::Shared | CellRead::Lapped => self.cell.read_with(Encoded::EMPTY),
        }
    }

    /// [`update_locked`](Self::update_locked) for a caller that does not look at the value.
    pub(crate) fn update_without_value(&self) -> Update {
        self.cell.read_with(Encoded::EMPTY)
    }

    /// Publishes `update` as the newest one, and returns its number. The caller holds the lock.
    pub(crate) fn publish(&self, state: &mut State, update: &mut Update) -> u64 {
        if let Some(extra) = &mut state.extra {
            self.publish_to(&mut extra.shared, update);
        } else {
            if let Some(bytes) = update.value.shared() {
                state.extra.get_or_insert_default().shared = Some(Arc::clone(bytes));
            }
            update.sequence = self.cell.publish(self.data_type(), update);
        }
        self.mirror(state);
        update.sequence
    }

    /// [`publish`](Self::publish) for a caller that has the rest of the state in use: `shared` is
    /// the state's.
    #[inline]
    pub(crate) fn publish_to(&self, shared: &mut Option<Arc<[u8]>>, update: &mut Update) {
        *shared = update.value.shared().map(Arc::clone);
        update.sequence = self.cell.publish(self.data_type(), update);
    }

    /// Whether somebody else owns its value: clients' writes go there first.
    pub fn is_provided(&self) -> bool {
        self.provider_index().is_some()
    }

    /// Who owns its value, if somebody does.
    pub fn provider(&self) -> Option<ProviderId> {
        self.provider_index().map(ProviderId::at)
    }
}

/// Visits the consumers behind the subscriptions that are not simply of `latest`, those of the
/// engine's own services aside. Returns how many there are.
fn buffers(state: &State, visit: &mut dyn FnMut(&Arc<Outbox>)) -> usize {
    let Some(interests) = state.interests() else {
        return 0;
    };
    let mut count = 0;
    for interest in interests.iter().filter(|one| !one.outbox.is_service) {
        visit(&interest.outbox);
        count += 1;
    }
    let of_feeds = interests.feeds().map(|one| one.feed.visit(visit));
    count + of_feeds.sum::<usize>()
}

/// What a variable's configuration says at the moment it is asked.
#[derive(Clone, Debug)]
pub enum PropertiesRef<'a> {
    /// What it was deployed with.
    Deployed(&'a Arc<Properties>),
    /// What was put in their place since.
    Edited(Arc<Properties>),
}

impl Deref for PropertiesRef<'_> {
    type Target = Arc<Properties>;

    #[inline]
    fn deref(&self) -> &Arc<Properties> {
        match self {
            PropertiesRef::Deployed(properties) => properties,
            PropertiesRef::Edited(properties) => properties,
        }
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variable({} = {})", self.handle, self.name)
    }
}
