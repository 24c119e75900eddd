//! The write path: check, lock, decide, commit, and what is done after the lock is gone.
//!
//! It runs on the writer's thread. No engine thread, no global lock, nothing that blocks: a write that
//! would have to wait says so before it has a number. Lock order: variable, then feed.

use trunkline_types::{Clock, ClockSync, Level, Quality, Tick, Timestamp, Value};

use crate::accept::{Accepted, accept, stamp, within_deadband};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::interest::{Reservation, announce, reserve_room};
use crate::outbox::{Outbox, Wakes};
use crate::outcome::{Attempt, Refusal, UnknownCause, WriteOutcome};
use crate::provider::SendFailure;
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::{State, Variable};

/// One value to be written.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The value.
    pub value: WriteValue<'a>,
    /// When it was measured; `None`: now, by the engine's clock.
    pub source_timestamp: Option<Timestamp>,
    /// Its quality; `None`: good.
    pub quality: Option<Quality>,
    /// Who produced it.
    pub origin: Origin,
    /// Where the outcome goes when a provider has to be asked first; `None`: nowhere.
    pub completion: Option<Completion>,
}

/// A value in either form.
#[derive(Clone, Copy, Debug)]
pub enum WriteValue<'a> {
    /// As a value.
    Value(&'a Value),
    /// As the variable's wire form, not yet checked.
    Wire(&'a [u8]),
}

/// Who produced a value, which decides scaling, deadband and access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A client or program, in engineering units; a provided variable asks its provider first.
    Client,
    /// The variable's source, already in engineering units.
    Source,
    /// The variable's source, in raw units: scaled by the variable's scaling.
    SourceRaw,
}

/// Where the outcome of a write that a provider answers is delivered.
#[derive(Clone, Debug)]
pub struct Completion {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) id: u64,
}

impl<'a> Write<'a> {
    /// A client's write of `value`, stamped on arrival.
    pub fn value(value: &'a Value) -> Self {
        Self {
            value: WriteValue::Value(value),
            source_timestamp: None,
            quality: None,
            origin: Origin::Client,
            completion: None,
        }
    }

    /// A client's write of a value in wire form, stamped on arrival.
    pub fn wire(bytes: &'a [u8]) -> Self {
        Self { value: WriteValue::Wire(bytes), ..Self::value(&Value::Bool(false)) }
    }
}

impl Engine {
    /// Writes one value, or says at once why not. Never waits, and calls nobody's code while it holds a
    /// lock. `wakes` collects the consumers to be woken; they are when it is flushed or dropped.
    pub fn try_write(
        &self,
        caller: &Caller,
        now: Tick,
        wall: Timestamp,
        variable: &Variable,
        write: &Write<'_>,
        wakes: &mut Wakes,
    ) -> Attempt {
        if let Err(refusal) = self.check(caller, variable, write) {
            return refused(variable, refusal);
        }
        let (source_timestamp, quality) = stamp(write, wall);
        let accepted = match accept(variable.properties(), write, quality) {
            Ok(accepted) => accepted,
            Err(refusal) => return refused(variable, refusal),
        };
        if write.origin == Origin::Client
            && let Some(index) = variable.provider_index()
        {
            return self.ask_provider(index, now, variable, write, &accepted, wakes);
        }
        let stamps = Stamps { source_timestamp, wall, explicit: write.source_timestamp.is_some() };
        commit(caller, now, variable, write, accepted, stamps, wakes)
    }

    /// Step 1: everything that needs no lock.
    fn check(
        &self,
        caller: &Caller,
        variable: &Variable,
        write: &Write<'_>,
    ) -> Result<(), Refusal> {
        if write.origin != Origin::Client {
            return Ok(());
        }
        if let Some(refusal) = Refusal::by_access(variable.properties().access) {
            return Err(refusal);
        }
        if !caller.rights.write || !variable.is_visible_to(caller) {
            return Err(Refusal::Denied);
        }
        Ok(())
    }

    /// A write to a provided variable goes to the provider, outside every lock; the cell waits for what
    /// the provider says it holds.
    fn ask_provider(
        &self,
        index: usize,
        now: Tick,
        variable: &Variable,
        write: &Write<'_>,
        accepted: &Accepted,
        wakes: &mut Wakes,
    ) -> Attempt {
        if variable.is_gone() {
            return refused(variable, Refusal::Gone);
        }
        let properties = variable.properties();
        let value = accepted.value.decode(&properties.data_type);
        let raw = match &properties.scaling {
            Some(scaling) => match scaling.to_raw(&value, &properties.data_type) {
                Ok(raw) => raw,
                Err(error) => return refused(variable, Refusal::Scaling(error)),
            },
            None => value,
        };
        let completion = write.completion.clone();
        match self.providers().send(index, now, variable.handle(), raw, completion, wakes) {
            Ok(()) => Attempt::Pending,
            Err(SendFailure::Busy { provider, pending }) => {
                refused(variable, Refusal::ProviderBusy { provider, pending })
            }
            Err(SendFailure::Gone { provider }) => {
                refused(variable, Refusal::ProviderGone { provider })
            }
        }
    }
}

/// The timestamps of one write.
struct Stamps {
    source_timestamp: Timestamp,
    wall: Timestamp,
    /// The writer gave the source timestamp itself.
    explicit: bool,
}

/// Steps 2 to 4: lock, decide, commit.
fn commit(
    caller: &Caller,
    now: Tick,
    variable: &Variable,
    write: &Write<'_>,
    accepted: Accepted,
    stamps: Stamps,
    wakes: &mut Wakes,
) -> Attempt {
    let properties = variable.properties();
    let mut guard = variable.lock();
    let state = &mut *guard;
    if variable.is_gone() {
        return refuse_locked(state, Refusal::Gone);
    }
    let needs_current = stamps.explicit
        || accepted.number.is_some() && has_deadband(properties.deadband)
        || state.extra.is_some();
    let mut changed = true;
    if needs_current {
        let current = variable.update_locked(state);
        if stamps.explicit && is_late(&current, stamps.source_timestamp) {
            return refuse_locked(state, Refusal::Late { live: current.source_timestamp });
        }
        if within_deadband(properties, write, &accepted, &current) {
            state.offered += 1;
            state.extra().unchanged += 1;
            return Attempt::Done(WriteOutcome::Unchanged { sequence: current.sequence });
        }
        changed = current.sequence == 0
            || current.quality != accepted.quality
            || current.value.as_slice() != accepted.value.as_slice();
    }
    let bytes = accepted.value.as_slice().len();
    let reservation = match &state.extra {
        None => Reservation::default(),
        Some(extra) => match reserve_room(extra, variable, changed, bytes, now, wakes) {
            Ok(reservation) => reservation,
            Err(until) => return Attempt::WouldBlock { until },
        },
    };
    let (source_timestamp, engine_timestamp) = if properties.timestamps {
        (stamps.source_timestamp, stamps.wall)
    } else {
        (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH)
    };
    let mut update = Update {
        sequence: 0,
        source_timestamp,
        engine_timestamp,
        quality: accepted.quality,
        writer: caller.session,
        value: accepted.value,
    };
    state.offered += 1;
    variable.publish(state, &mut update);
    if let Some(extra) = &mut state.extra {
        announce(extra, &update, changed, &reservation, wakes);
    }
    Attempt::Done(WriteOutcome::Applied { sequence: update.sequence })
}

/// Publishes the current value again with another quality: what its source said about itself changed.
pub(crate) fn requalify(
    variable: &Variable,
    quality: Quality,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) {
    let mut guard = variable.lock();
    let state = &mut *guard;
    let current = variable.update_locked(state);
    if variable.is_gone() || current.quality == quality {
        return;
    }
    let value = if current.sequence == 0 {
        crate::update::Encoded::from_value(&Value::default_of(variable.data_type()))
    } else {
        current.value
    };
    let bytes = value.as_slice().len();
    let reservation = match &state.extra {
        None => Reservation::default(),
        // Nobody can be asked to wait here: the feed's own counts tell what it misses.
        Some(extra) => {
            reserve_room(extra, variable, true, bytes, now, wakes).unwrap_or_default()
        }
    };
    let mut update = Update {
        sequence: 0,
        source_timestamp: wall,
        engine_timestamp: wall,
        quality,
        writer: 0,
        value,
    };
    state.offered += 1;
    variable.publish(state, &mut update);
    if let Some(extra) = &mut state.extra {
        announce(extra, &update, true, &reservation, wakes);
    }
}

/// Counts a write whose outcome nobody knows.
pub(crate) fn count_unknown(variable: &Variable, cause: UnknownCause) -> WriteOutcome {
    let mut state = variable.lock();
    state.offered += 1;
    state.extra().unknown += 1;
    WriteOutcome::Unknown(cause)
}

/// Counts a refusal and returns it.
pub(crate) fn refused(variable: &Variable, refusal: Refusal) -> Attempt {
    refuse_locked(&mut variable.lock(), refusal)
}

fn refuse_locked(state: &mut State, refusal: Refusal) -> Attempt {
    state.offered += 1;
    state.extra().refused += 1;
    Attempt::Done(WriteOutcome::Refused(refusal))
}

fn has_deadband(deadband: trunkline_types::Deadband) -> bool {
    deadband.user_percent > 0.0 || deadband.source_percent > 0.0
}

/// A sample is late when it was measured before the live value and both clocks were set: it does not
/// overwrite the newer one (B-41). A live value without a trustworthy timestamp is replaced.
fn is_late(current: &Update, source_timestamp: Timestamp) -> bool {
    let trusted = current.sequence > 0
        && current.quality.level() != Level::Bad
        && !(current.quality.clock() == Clock::Source
            && current.quality.clock_sync() == ClockSync::Unset);
    trusted && source_timestamp < current.source_timestamp
}
