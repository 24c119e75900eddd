//! One variable: its shared properties and its newest update. Module `state` contains the other
//! data that the variable's lock protects, such as the subscribers, and module `extensions` the
//! data of features.

mod extensions;
mod redirect;
mod state;

use std::fmt;
use std::ops::Deref;

use trunkline_access::Action;
use trunkline_types::ledger::WriteLedger;
use trunkline_types::{
    Access, AuditMode, Clock, ClockSync, DataType, Moment, Properties, Quality, Reason, Sample,
    Scope, Timestamp, Value,
};

pub(crate) use self::extensions::{Admission, Committed, Extension, QuietRange};
pub(crate) use self::redirect::{Redirect, count_unreached};
pub(crate) use self::state::{Extra, State};
use crate::caller::Caller;
use crate::delivery::feed::QueueSize;
use crate::delivery::mail::ProviderId;
use crate::delivery::outbox::{Outbox, Reader, Wakes};
use crate::delivery::subscribers::{Pressure, Subscribers};
use crate::fifo::VariableFifo;
use crate::outcome::AccessError;
use crate::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering};
use crate::update::{Cell, Encoded, PlainUpdate, Update, f64_of_word};

/// A deployed variable. Kept small: a plain `f64` takes less than 300 bytes, including its name and
/// its slot.
pub struct Variable {
    handle: u32,
    /// Low bits: index of the provider plus one, or 0 without a provider. High bits: the rare
    /// states below, which can be read without the lock.
    flags: AtomicU32,
    name: Box<str>,
    /// The properties as deployed. [`State::edited`] overrides them, except for the type, the
    /// scope, the FIFO and the timestamps.
    properties: Arc<Properties>,
    cell: Cell,
    pub(crate) realtime: Option<Box<VariableFifo>>,
    state: Mutex<State>,
}

const GONE: u32 = 1 << 31;
const STOPPED: u32 = 1 << 30;
const FORCED: u32 = 1 << 28;
const EDITED: u32 = 1 << 29;
/// The variable has [extensions](crate::variable::Extension) that do more than monitor its value.
const EXTENDED: u32 = 1 << 25;
/// The audit trail records writes by clients.
const AUDITED: u32 = 1 << 24;
/// The variable is a number without rules; see [`write_plain`](Variable::write_plain).
const PLAIN: u32 = 1 << 26;
/// The variable is an alias: it shows another variable and passes writes on to it.
const ALIAS: u32 = 1 << 27;
/// Set on a plain variable with subscribers that the fast path does not serve.
const SLOW_PATH: u32 = 1 << 23;
/// The variable has extensions, and all of them [only monitor](Extension::only_monitors) its value.
const MONITORED: u32 = 1 << 22;
/// The bits of the provider's index plus one.
const PROVIDER: u32 = (1 << 22) - 1;

impl Variable {
    /// Creates a variable whose first update follows the sequence `base`.
    pub(crate) fn new(handle: u32, name: Box<str>, properties: Arc<Properties>, base: u64) -> Self {
        Self {
            handle,
            flags: AtomicU32::new(initial_flags(&properties)),
            name,
            cell: Cell::new(&properties.data_type, base),
            realtime: VariableFifo::new(&properties),
            properties,
            state: Mutex::new(State::default()),
        }
    }

    /// Returns the handle: the same number for every connection, never reused within an epoch. Its
    /// slot is reused: see [`slot_of`](trunkline_types::definition::slot_of).
    #[inline]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the current configuration. Takes no lock unless it was edited after deployment.
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

    /// Like [`properties`](Self::properties), for a caller that holds the lock.
    pub(crate) fn shared_properties(&self, state: &State) -> PropertiesRef<'_> {
        match state.edited() {
            Some(edited) => PropertiesRef::Edited(Arc::clone(edited)),
            None => PropertiesRef::Deployed(&self.properties),
        }
    }

    /// Returns true if `properties` are the current ones. The caller holds the lock.
    #[inline]
    pub(crate) fn is_current(&self, state: &State, properties: &PropertiesRef<'_>) -> bool {
        match (properties, state.edited()) {
            (PropertiesRef::Deployed(_), None) => true,
            (PropertiesRef::Edited(seen), Some(edited)) => Arc::ptr_eq(seen, edited),
            _ => false,
        }
    }

    /// Replaces the current properties with `properties`, which must satisfy
    /// [`has_layout_of`](Self::has_layout_of). The caller holds the lock.
    pub(crate) fn edit(
        &self,
        state: &mut State,
        properties: Arc<Properties>,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        match properties.audit {
            AuditMode::Off => self.clear(state, AUDITED),
            AuditMode::BestEffort | AuditMode::Complete => self.set(state, AUDITED),
        }
        if properties == self.properties {
            if let Some(extra) = &mut state.extra {
                extra.edited = None;
            }
            self.clear(state, EDITED);
        } else {
            state.extra.get_or_insert_default().edited = Some(properties);
            self.set(state, EDITED);
        }
        // The variable may have become readable or unreadable.
        state.mirror(self);
        self.reconfigured(state, moment, wakes);
    }

    pub(crate) fn properties_locked<'s>(&'s self, state: &'s State) -> &'s Properties {
        state.edited().unwrap_or(&self.properties)
    }

    /// Returns true if the properties have the memory layout of this variable, so that the variable
    /// can be edited instead of replaced.
    pub(crate) fn has_layout_of(&self, properties: &Properties) -> bool {
        let own = &self.properties;
        own.data_type == properties.data_type
            && own.scope == properties.scope
            && own.fifo == properties.fifo
            && own.timestamps == properties.timestamps
            && own.alias.is_empty() == properties.alias.is_empty()
    }

    /// Returns the deployed properties. Their type, scope, FIFO and timestamps are always current.
    pub(crate) fn deployed(&self) -> &Arc<Properties> {
        &self.properties
    }

    #[inline]
    pub fn has_timestamps(&self) -> bool {
        self.deployed().timestamps
    }

    pub fn data_type(&self) -> &DataType {
        &self.properties.data_type
    }

    /// Returns the sequence of the newest update; 0 before the first write. The sequences of a name
    /// continue if it is undeployed and deployed again (B-01).
    pub fn sequence(&self) -> u64 {
        self.cell.sequence()
    }

    /// Returns the sequence that precedes the variable's first update: the last one of the former
    /// variable with this name in this start of the engine, or 0.
    pub fn base_sequence(&self) -> u64 {
        self.cell.base()
    }

    /// Returns the sequence of the newest update, or [`base_sequence`](Self::base_sequence) before the first
    /// one.
    pub(crate) fn highest_sequence(&self) -> u64 {
        self.cell.base() + self.cell.count()
    }

    /// Returns the newest update. Takes no lock unless the value is longer than 24 bytes.
    pub fn update(&self) -> Update {
        let update = self.cell.read(self.data_type());
        update.unwrap_or_else(|| self.update_locked(&self.lock()))
    }

    /// Returns the newest update as a sample. Before the first write, it is the type's default with
    /// the quality `bad: no-value`.
    pub fn sample(&self) -> Sample {
        self.sample_of(&self.update())
    }

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

    pub fn check_readable(&self, caller: &Caller) -> Result<(), AccessError> {
        if !self.is_visible_to(caller) {
            return Err(AccessError::Denied {
                action: Action::Read,
            });
        }
        if self.properties().access == Access::WriteOnly {
            return Err(AccessError::NotReadable);
        }
        Ok(())
    }

    /// Returns true if `caller` may read the variable. For any other caller, the variable does not
    /// exist (B-82). Connections do not see single-process variables.
    #[inline]
    pub fn is_visible_to(&self, caller: &Caller) -> bool {
        self.permits(caller, Action::Read)
    }

    /// Returns true if `caller` may perform `action` on the variable. Every other action needs the
    /// right to read as well.
    #[inline]
    pub fn permits(&self, caller: &Caller, action: Action) -> bool {
        caller.rights.permit(action, self.handle(), self.name())
            && !(caller.remote && self.properties.scope == Scope::Process)
    }

    /// Returns the counters of every write so far, by outcome.
    pub fn ledger(&self) -> WriteLedger {
        let state = self.lock();
        let mut ledger = WriteLedger {
            offered: state.offered,
            written: self.cell.count(),
            ..WriteLedger::default()
        };
        let Some(unapplied) = state.unapplied() else {
            return ledger;
        };
        ledger = WriteLedger {
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

    /// Counts writes that were lost before they reached the engine, either in a mirrored source or
    /// in an I/O server that had to wait too long.
    pub fn count_upstream_lost(&self, count: u64) {
        self.lock()
            .count(count, |unapplied| &mut unapplied.upstream_lost);
    }

    /// Counts writes that their writer replaced by newer ones before sending them.
    pub fn count_superseded(&self, count: u64) {
        self.lock()
            .count(count, |unapplied| &mut unapplied.superseded);
    }

    /// Returns the number of subscriptions, except those of the engine's own services.
    pub fn subscribers(&self) -> usize {
        let state = self.lock();
        let is_counted = |one: &&Arc<Outbox>| !one.is_service;
        let plain = state.latest.outboxes().filter(is_counted).count();
        plain + buffers(&state, &mut |_| ())
    }

    /// Returns the subscribing connections, each once, at most `max`.
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
            let plain = state.latest.outboxes().filter(|one| !one.is_service);
            plain.for_each(&mut note);
            buffers(&state, &mut note);
        }
        // Called outside the lock, because `reader` runs code of the consumer's owner.
        outboxes.iter().map(|outbox| outbox.reader()).collect()
    }

    /// Visits the consumers of all subscriptions other than plain `latest` ones, once per
    /// subscription, while holding the lock.
    pub(crate) fn visit_buffers(&self, visit: &mut dyn FnMut(&Arc<Outbox>)) {
        buffers(&self.lock(), visit);
    }

    /// Visits the buffer pressure of each subscription other than plain `latest` ones, before an
    /// update of `bytes` bytes.
    pub(crate) fn visit_pressures(&self, bytes: usize, visit: &mut dyn FnMut(Pressure)) {
        let state = self.lock();
        let Some(subscribers) = state.subscribers() else {
            return;
        };
        for subscriber in subscribers.iter().filter(|one| !one.outbox.is_service) {
            visit(subscriber.pressure());
        }
        for subscriber in subscribers.feeds() {
            subscriber.feed.pressures(QueueSize::one(bytes), visit);
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn update_locked(&self, state: &State) -> Update {
        if let Some(bytes) = state.extra.as_ref().and_then(|extra| extra.shared.as_ref()) {
            return self.cell.read_with(Encoded::from_shared(Arc::clone(bytes)));
        }
        // No writer publishes while the lock is held, so no writer can overtake the read. A
        // reference-counted buffer would have been found above.
        let update = self.cell.read(self.data_type());
        update.unwrap_or_else(|| self.update_without_value())
    }

    /// Like [`update_locked`](Self::update_locked), for a caller that does not use the value.
    pub(crate) fn update_without_value(&self) -> Update {
        self.cell.read_with(Encoded::EMPTY)
    }

    /// Publishes `update` as the newest one and returns its sequence. The caller holds the lock.
    pub(crate) fn publish(&self, state: &mut State, update: &mut Update) -> u64 {
        let shared = update.value.shared();
        if let Some(extra) = &mut state.extra {
            extra.shared = shared.map(Arc::clone);
        } else if let Some(bytes) = shared {
            state.extra.get_or_insert_default().shared = Some(Arc::clone(bytes));
        }
        update.sequence = self.cell.publish(self.data_type(), update);
        state.mirror(self);
        update.sequence
    }

    /// Like [`publish`](Self::publish), for a caller that has borrowed the rest of the state.
    /// `shared` is the state's field of that name.
    #[inline]
    pub(crate) fn publish_to(&self, shared: &mut Option<Arc<[u8]>>, update: &mut Update) {
        *shared = update.value.shared().map(Arc::clone);
        update.sequence = self.cell.publish(self.data_type(), update);
    }

    pub fn is_gone(&self) -> bool {
        // Acquire: pairs with the release in `set_gone`, so that everything published before it is
        // visible.
        self.flags.load(Ordering::Acquire) & GONE != 0
    }

    /// Returns true if the variable's library is stopped. The variable then keeps its value and
    /// refuses writes.
    pub fn is_stopped(&self) -> bool {
        self.flags.load(Ordering::Acquire) & STOPPED != 0
    }

    /// Returns true if the variable is an alias: it shows another variable and passes writes on
    /// (H-20).
    #[inline]
    pub fn is_alias(&self) -> bool {
        // Relaxed: the flag is set at creation and never changes.
        self.flags.load(Ordering::Relaxed) & ALIAS != 0
    }

    pub fn is_forced(&self) -> bool {
        self.flags.load(Ordering::Acquire) & FORCED != 0
    }

    /// Returns true if the variable has extensions. The result remains valid while the caller holds
    /// the lock.
    #[inline]
    pub(crate) fn is_extended(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (EXTENDED | MONITORED) != 0
    }

    /// Returns true if the variable has extensions, and all of them only monitor its value. The
    /// result remains valid while the caller holds the lock.
    #[inline]
    pub(crate) fn is_monitored(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & MONITORED != 0
    }

    /// Returns true if an extension must be called for this update. The caller holds the lock.
    #[inline]
    pub(crate) fn concerns_extensions(&self, state: &State, update: &Update) -> bool {
        match self.flags.load(Ordering::Relaxed) & (EXTENDED | MONITORED) {
            0 => false,
            MONITORED => {
                let number = update.value.to_f64(self.data_type());
                !state.is_quiet(number, update.quality)
            }
            _ => true,
        }
    }

    fn set_extended(&self, state: &State, extended: bool) {
        match extended {
            true => self.set(state, EXTENDED),
            false => self.clear(state, EXTENDED),
        }
    }

    fn set_monitored(&self, state: &State, monitored: bool) {
        match monitored {
            true => self.set(state, MONITORED),
            false => self.clear(state, MONITORED),
        }
    }

    /// Returns true if a hook may have to carry out a write instead of an ordinary commit.
    #[inline]
    pub(crate) fn is_hooked(&self, is_client: bool) -> bool {
        let flags = match is_client {
            true => ALIAS | AUDITED | PROVIDER,
            false => ALIAS,
        };
        // Relaxed: see `is_alias` and `provider_index`.
        self.flags.load(Ordering::Relaxed) & flags != 0
    }

    /// Returns true if a write may be refused: the variable is gone or stopped, or has extensions
    /// that do more than monitor it. The result remains valid while the caller holds the lock.
    #[inline]
    pub(crate) fn has_rules(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (GONE | STOPPED | EXTENDED) != 0
    }

    /// Returns true if the audit trail records writes by clients (B-24).
    #[inline]
    pub(crate) fn is_audited(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & AUDITED != 0
    }

    /// Returns true if the variable is plain and still unchanged: no provider, not forced, not
    /// edited, not stopped. It may be monitored. The result remains valid while the caller holds
    /// the lock.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & !MONITORED == PLAIN
    }

    /// Marks the variable as having subscribers that the fast path does not serve. The caller holds
    /// the lock.
    pub(crate) fn set_slow_path(&self, state: &State) {
        self.set(state, SLOW_PATH);
    }

    /// Clears the mark of [`set_slow_path`](Self::set_slow_path) if no such subscriber is left,
    /// which enables the fast path again. The caller holds the lock.
    pub(crate) fn clear_slow_path(&self, state: &State) {
        if state.subscribers().is_none_or(Subscribers::has_only_feeds) {
            self.clear(state, SLOW_PATH);
        }
    }

    /// Returns true if a reader needs only the cell.
    #[inline]
    pub(crate) fn is_plain_to_read(&self) -> bool {
        // Acquire: as in `is_gone`.
        self.flags.load(Ordering::Acquire) & (PLAIN | GONE | EDITED) == PLAIN
    }

    /// Returns true if every write is refused, even from the source. The result remains valid while
    /// the caller holds the lock.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (GONE | STOPPED | FORCED) != 0
    }

    /// Marks the variable as undeployed. The caller holds the lock, so no write can be between its
    /// check and its commit.
    pub(crate) fn set_gone(&self, state: &State) {
        self.set(state, GONE);
        state.mirror(self);
    }

    pub(crate) fn set_stopped(&self, state: &State, stopped: bool) {
        match stopped {
            true => self.set(state, STOPPED),
            false => self.clear(state, STOPPED),
        }
    }

    pub(crate) fn set_forced(&self, state: &State, forced: bool) {
        match forced {
            true => self.set(state, FORCED),
            false => self.clear(state, FORCED),
        }
    }

    fn set(&self, _state: &State, flag: u32) {
        self.flags.fetch_or(flag, Ordering::Release);
    }

    fn clear(&self, _state: &State, flag: u32) {
        self.flags.fetch_and(!flag, Ordering::Release);
    }

    pub(crate) fn provider_index(&self) -> Option<usize> {
        // Relaxed: the index orders no other data. The providers' own lock protects the lookup of
        // the provider.
        ((self.flags.load(Ordering::Relaxed) & PROVIDER) as usize).checked_sub(1)
    }

    pub(crate) fn set_provider(&self, index: Option<usize>) {
        let stored = index.map_or(0, |index| index as u32 + 1);
        let _previous = self
            .flags
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |flags| {
                Some(flags & !PROVIDER | stored & PROVIDER)
            });
    }

    /// Returns true if a provider owns the variable's value. Clients' writes go to the provider
    /// first.
    pub fn is_provided(&self) -> bool {
        self.provider_index().is_some()
    }

    pub fn provider(&self) -> Option<ProviderId> {
        self.provider_index().map(ProviderId)
    }
}

// The fast path for numbers without rules whose only subscribers are `latest` ones and those that
// share one `all` feed. Most variables of a program are of this kind.
//
// These reads and writes are the ordinary ones without the steps that would have no effect. When
// the fast path does not apply, the caller uses the ordinary path, `Engine::try_write` and
// `Variable::update`, which also reports the reason for a refusal.
impl Variable {
    /// Returns the length of the variable's value in wire form, in bytes, if the fast path can
    /// [read](Self::read_plain) it.
    #[inline]
    pub fn plain_bytes(&self) -> usize {
        self.data_type().fixed_size().unwrap_or(size_of::<u64>())
    }

    /// Writes `value` for a client, with the timestamp `wall`, and returns the sequence of the
    /// update.
    ///
    /// Applies only if the write involves nothing but the variable, `latest` subscribers and
    /// subscribers of one `all` feed that has room: no rule, no other subscriber, no provider, no
    /// alias, no edited configuration, and no alarm whose state may change. Otherwise writes
    /// nothing and returns `None`; the caller then uses the ordinary path.
    #[inline(always)]
    pub fn write_plain(
        &self,
        caller: &Caller,
        wall: Timestamp,
        value: &Value,
        wakes: &mut Wakes,
    ) -> Option<u64> {
        if !self.is_plain() {
            return None;
        }
        let word = match (value, self.data_type()) {
            (Value::F64(v), DataType::F64) => v.to_bits(),
            (Value::F32(v), DataType::F32) => u64::from(v.to_bits()),
            (Value::I64(v), DataType::I64) => *v as u64,
            (Value::I32(v), DataType::I32) => u64::from(*v as u32),
            (Value::Bool(v), DataType::Bool) => u64::from(*v),
            _ => return None,
        };
        self.write_word(caller, wall, word, wakes)
    }

    /// Like [`write_plain`](Self::write_plain), for an unchecked value in wire form. Booleans use
    /// the ordinary path, because not every byte is a valid boolean.
    #[inline]
    pub fn write_plain_wire(
        &self,
        caller: &Caller,
        wall: Timestamp,
        value: &[u8],
        wakes: &mut Wakes,
    ) -> Option<u64> {
        if !self.is_plain() {
            return None;
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these types matter")]
        let word = match self.data_type() {
            DataType::F64 | DataType::I64 => u64::from_le_bytes(value.try_into().ok()?),
            DataType::F32 | DataType::I32 => u64::from(u32::from_le_bytes(value.try_into().ok()?)),
            _ => return None,
        };
        self.write_word(caller, wall, word, wakes)
    }

    /// Those of steps 1 to 4 of the write path that apply to a plain variable.
    #[inline(always)]
    fn write_word(
        &self,
        caller: &Caller,
        wall: Timestamp,
        word: u64,
        wakes: &mut Wakes,
    ) -> Option<u64> {
        if !self.permits(caller, Action::Write) {
            return None;
        }
        let properties = self.deployed();
        let (stamp, quality) = match properties.timestamps {
            true => (wall, STAMPED),
            false => (Timestamp::UNIX_EPOCH, UNSTAMPED),
        };
        let mut guard = self.lock();
        if !self.is_plain() {
            return None;
        }
        let state = &mut *guard;
        let sequence = match &mut state.extra {
            None => self.cell.publish_word(stamp, quality, caller.session, word),
            Some(extra) if extra.subscribers.has_at_most_one_feed() => {
                if self.is_monitored()
                    && !extra
                        .extensions
                        .is_quiet(f64_of_word(word, self.data_type()), quality)
                {
                    return None;
                }
                let publish = || self.cell.publish_word(stamp, quality, caller.session, word);
                let update = Update {
                    sequence: 0,
                    source_timestamp: stamp,
                    engine_timestamp: stamp,
                    quality,
                    writer: caller.session,
                    value: Encoded::from_words(&[word, 0, 0], self.plain_bytes()),
                };
                extra.subscribers.commit_inline(update, wakes, publish)?
            }
            // Two feeds are being merged into one that its subscribers have not joined yet.
            Some(extra) if extra.subscribers.has_only_feeds() => return None,
            Some(_) => {
                // Sets the flag, so that later writes skip this path without checking again.
                self.set_slow_path(state);
                return None;
            }
        };
        state.offered += 1;
        state.mirror(self);
        state.latest.announce(wakes);
        Some(sequence)
    }

    /// Returns the newest update if a read needs only the cell, or `None` if the ordinary path must
    /// be used.
    #[inline]
    pub fn read_plain(&self, caller: &Caller) -> Option<PlainUpdate> {
        if !self.is_visible_to(caller) || !self.is_plain_to_read() {
            return None;
        }
        self.cell.read_word()
    }
}

/// The quality that [`stamp`](crate::write::accept) gives a write without its own timestamp.
const STAMPED: Quality = Quality::GOOD;
const UNSTAMPED: Quality = Quality::GOOD.with_clock(Clock::Unknown, ClockSync::Unknown);

fn initial_flags(properties: &Properties) -> u32 {
    let mut flags = 0;
    if properties.audit != AuditMode::Off {
        flags |= AUDITED;
    }
    if !properties.alias.is_empty() {
        flags |= ALIAS;
    }
    if is_plain(properties) {
        flags |= PLAIN;
    }
    flags
}

/// Returns true if a variable with these properties is plain when it is deployed. Later changes are
/// in its flags, and in the state protected by its lock.
pub(crate) fn is_plain(properties: &Properties) -> bool {
    let is_number = matches!(
        properties.data_type,
        DataType::F64 | DataType::F32 | DataType::I64 | DataType::I32 | DataType::Bool
    );
    is_number
        && properties.access == Access::ReadWrite
        && properties.range.is_none()
        && properties.deadband.user_percent == 0.0
        && properties.fifo == trunkline_types::Fifo::Off
        && properties.alias.is_empty()
        && !properties.single_writer
        && properties.audit == AuditMode::Off
}

/// Visits the consumers of all subscriptions other than plain `latest` ones, except the engine's
/// own services. Returns the number of these subscriptions.
fn buffers(state: &State, visit: &mut dyn FnMut(&Arc<Outbox>)) -> usize {
    let Some(subscribers) = state.subscribers() else {
        return 0;
    };
    let mut count = 0;
    for subscriber in subscribers.iter().filter(|one| !one.outbox.is_service) {
        visit(&subscriber.outbox);
        count += 1;
    }
    let of_feeds = subscribers.feeds().map(|one| one.feed.visit(visit));
    count + of_feeds.sum::<usize>()
}

/// A variable's configuration at the time of the call.
#[derive(Clone, Debug)]
pub enum PropertiesRef<'a> {
    Deployed(&'a Arc<Properties>),
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
