//! Forcing: a person holds a variable at a value, overriding its source and other writers (H-27).
//!
//! ```text
//! source, writers --> [ behind ]          remembered, not published, counted as refused
//! force           --> [ cell   ] --> everybody, marked `forced` in its quality
//! unforce         --> what is behind is published
//! ```
//!
//! Forcing can be switched off and on for the whole engine. While it is off, every variable shows
//! the value behind, and the list of forced values remains. In this way many values can be entered
//! first and then applied at once.
//!
//! Lock order: the list of forced variables, then a variable.

use std::collections::BTreeSet;

use trunkline_types::{
    AuditAction, AuditOutcome, Quality, Reason, Tick, Timestamp, Value, WhyStage, WhyStep,
};

use crate::accept::{Accepted, encode};
use crate::audit::{Change, Held, NoAuditRoom, OrderNote};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::provider::{Ask, Waiting};
use crate::sync::{Arc, Mutex};
use crate::update::{Encoded, Update};
use crate::variable::{State, Variable};
use crate::write::{Put, Write, publish_locked};

/// The forced state of a variable.
#[derive(Clone, Debug)]
pub(crate) struct Forced {
    /// The forced value.
    value: Encoded,
    /// Caller that forced it, for people.
    pub(crate) by: Arc<str>,
    since: Timestamp,
    /// The last update by its source, or its value before; `None` if it never had one.
    pub(crate) behind: Option<Update>,
}

impl Forced {
    /// Updates the quality of the value behind, as reported by the source.
    pub(crate) fn requalify(&mut self, quality: Quality, wall: Timestamp) {
        if let Some(behind) = &mut self.behind {
            behind.quality = match behind.quality.has_value() {
                true => quality,
                false => quality.without_value(),
            };
            behind.source_timestamp = wall;
        }
    }
}

/// An entry of the engine's list of forced variables.
#[derive(Clone, PartialEq, Debug)]
pub struct ForcedVariable {
    /// Handle of the variable.
    pub handle: u32,
    /// The forced value.
    pub value: Value,
    /// Caller that forced it, for people.
    pub by: Arc<str>,
    /// Time at which it was forced.
    pub since: Timestamp,
    /// Value and quality of its source or last writer, which it shows once it is unforced; `None`
    /// if there is none yet.
    pub behind: Option<(Value, Quality)>,
}

/// A part of the engine's list of forced variables.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ForcedPage {
    /// True if forcing is on for the engine.
    pub is_on: bool,
    /// Number of variables on the list.
    pub total: usize,
    /// The entries of this page that the caller can see.
    pub variables: Vec<ForcedVariable>,
    /// Handle at which the next page begins; `None` on the last page.
    pub next: Option<u32>,
}

/// The engine's side of forcing.
#[derive(Debug, Default)]
pub(crate) struct Forcing {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    is_off: bool,
    handles: BTreeSet<u32>,
}

impl Engine {
    pub(crate) fn force(
        &self,
        put: Put<'_>,
        variable: &Variable,
        write: &Write<'_>,
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        let mut accepted = Accepted::nothing();
        encode(
            variable.data_type(),
            &write.value,
            &mut accepted.update.value,
        )?;
        if let Some(realtime) = &variable.realtime {
            realtime.check_length(accepted.update.value.as_slice())?;
        }
        let value = accepted.update.value;
        let mut list = self.forcing().list.lock();
        let mut state = variable.lock();
        if variable.is_gone() {
            return Err(Refusal::Gone);
        }
        let old = Held::of_update(&variable.update_locked(&state));
        let change = Change {
            wall: put.wall,
            old,
            new: Some(&value),
        };
        let note = |outcome: &WriteOutcome, wakes: &mut Wakes| {
            if let Some(audited) = put.audited {
                self.note_write(audited, variable, change, outcome, wakes);
            }
        };
        let before = state.put_forced(None);
        let behind = match &before {
            Some(before) => before.behind.clone(),
            None => None,
        };
        list.handles.insert(variable.handle());
        let is_applied = variable.is_forced();
        let forced = Forced {
            value: value.clone(),
            by: Arc::from(put.caller.to_string()),
            since: put.wall,
            behind,
        };
        state.put_forced(Some(Box::new(forced)));
        if list.is_off {
            let sequence = variable.sequence();
            let outcome = WriteOutcome::Unchanged(sequence);
            note(&outcome, wakes);
            return Ok(Attempt::Done(outcome));
        }
        let sequence = apply(variable, &mut state, !is_applied, put, wakes);
        let outcome = WriteOutcome::Applied(sequence);
        note(&outcome, wakes);
        drop(state);
        drop(list);
        self.force_output(variable, put.now);
        Ok(Attempt::Done(outcome))
    }

    /// Forces an output at the device too. The device's answer is kept behind.
    fn force_output(&self, variable: &Variable, now: Tick) {
        let properties = variable.properties();
        if properties.access == trunkline_types::Access::ReadOnly {
            return;
        }
        if let Some(index) = variable.provider_index() {
            let value = variable.update().value.try_decode(variable.data_type());
            let raw = match (value, &properties.scaling) {
                (Ok(value), Some(scaling)) => scaling.to_raw(&value, properties.raw_type()).ok(),
                (value, _) => value.ok(),
            };
            // Lack of memory has the same result as a provider that does not follow.
            if let Some(raw) = raw
                && let Some(known) = self.variable(variable.handle())
            {
                // The variable stays forced even if the provider takes no more writes.
                let _sent =
                    self.providers()
                        .send(index, now, &known, Ask::Take(raw), Waiting::default());
            }
        }
    }

    pub(crate) fn unforce(
        &self,
        put: Put<'_>,
        variable: &Variable,
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        let mut list = self.forcing().list.lock();
        let mut state = variable.lock();
        let old = Held::of_update(&variable.update_locked(&state));
        let sequence =
            release(variable, &mut state, put.now, put.wall, wakes).ok_or(Refusal::NotForced)?;
        let outcome = WriteOutcome::Applied(sequence);
        if let Some(audited) = put.audited {
            let change = Change {
                wall: put.wall,
                old,
                new: Some(&variable.update_locked(&state).value),
            };
            self.note_write(audited, variable, change, &outcome, wakes);
        }
        drop(state);
        list.handles.remove(&variable.handle());
        drop(list);
        let _is_provided = self.request(variable.handle());
        Ok(Attempt::Done(outcome))
    }

    /// Removes a variable that is gone from the list.
    pub(crate) fn forget_forced(&self, handle: u32) {
        self.forcing().list.lock().handles.remove(&handle);
    }

    /// Returns true if forcing is on. While it is off, every variable shows the value of its
    /// source.
    pub fn is_forcing(&self) -> bool {
        !self.forcing().list.lock().is_off
    }

    /// Switches forcing on or off for the whole engine; the list remains. Returns the number of
    /// variables concerned. The caller's right must be checked before. The switch is recorded in
    /// the audit.
    ///
    /// # Errors
    /// The audit has no room for the entry; nothing was changed.
    pub fn set_forcing(
        &self,
        caller: &Caller,
        on: bool,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<usize, NoAuditRoom> {
        let room = self.claim_audit(1, now)?;
        let mut list = self.forcing().list.lock();
        list.is_off = !on;
        let action = match on {
            true => AuditAction::ForcingOn,
            false => AuditAction::ForcingOff,
        };
        let effect = variables(list.handles.len());
        let note = OrderNote {
            action,
            name: "",
            effect: &effect,
            outcome: AuditOutcome::Done,
        };
        self.note_order(caller, wall, note, &room, wakes);
        let engine = Caller::engine();
        let put = Put {
            caller: &engine,
            now,
            wall,
            may_stall: false,
            completion: None,
            audited: None,
            watch: None,
        };
        for variable in list
            .handles
            .iter()
            .filter_map(|handle| self.variable(*handle))
        {
            let mut state = variable.lock();
            match (on, variable.is_forced()) {
                (true, false) => {
                    apply(&variable, &mut state, true, put, wakes);
                }
                (false, true) => show_behind(&variable, &mut state, now, wall, wakes),
                _ => {}
            }
        }
        Ok(list.handles.len())
    }

    /// Unforces every variable, with one entry in the audit. Returns the number of variables that
    /// were forced.
    ///
    /// # Errors
    /// The audit has no room for the entry; nothing was changed.
    pub fn clear_forcing(
        &self,
        caller: &Caller,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<usize, NoAuditRoom> {
        let room = self.claim_audit(1, now)?;
        let mut list = self.forcing().list.lock();
        let handles = std::mem::take(&mut list.handles);
        let effect = variables(handles.len());
        let action = AuditAction::ForcingClear;
        let note = OrderNote {
            action,
            name: "",
            effect: &effect,
            outcome: AuditOutcome::Done,
        };
        self.note_order(caller, wall, note, &room, wakes);
        for variable in handles.iter().filter_map(|handle| self.variable(*handle)) {
            let _sequence = release(&variable, &mut variable.lock(), now, wall, wakes);
        }
        Ok(handles.len())
    }

    /// The line that `explain` shows for a forced variable.
    pub(crate) fn forced_state(&self, variable: &Variable) -> Option<WhyStep> {
        let state = variable.lock();
        let forced = state.forced().filter(|_| variable.is_forced())?;
        let sentence = format!("it is forced by {} since {}", forced.by, forced.since);
        let next = format!("trunkline unforce {}", variable.name());
        Some(WhyStep::fault(WhyStage::Filter, sentence, next))
    }

    /// The deployed variables on the list, whether forcing is on or off.
    pub fn forced(&self) -> Vec<ForcedVariable> {
        let caller = Caller::engine();
        self.forced_page(&caller, 0, usize::MAX).variables
    }

    /// A page of that list: the variables that `caller` can see among the next `limit` entries from
    /// handle `cursor` on.
    pub fn forced_page(&self, caller: &Caller, cursor: u32, limit: usize) -> ForcedPage {
        let mut list = self.forcing().list.lock();
        let is_deployed = |handle: &u32| {
            let variable = self.variable(*handle);
            variable.is_some_and(|variable| !variable.is_gone())
        };
        if cursor == 0 {
            list.handles.retain(is_deployed);
        }
        let mut rest = list.handles.range(cursor..).copied();
        let page: Vec<u32> = rest.by_ref().take(limit).collect();
        let next = rest.next();
        let variables = page.iter().filter_map(|handle| {
            let variable = self.visible(caller, *handle)?;
            held(&variable)
        });
        ForcedPage {
            is_on: !list.is_off,
            total: list.handles.len(),
            variables: variables.collect(),
            next,
        }
    }

    /// The forced state of one variable, if it is on the list.
    pub fn forced_of(&self, variable: &Variable) -> Option<ForcedVariable> {
        held(variable)
    }
}

fn held(variable: &Variable) -> Option<ForcedVariable> {
    let state = variable.lock();
    let forced = state.forced().filter(|_| !variable.is_gone())?;
    let shown = match variable.is_forced() {
        true => forced.behind.clone(),
        false => Some(variable.update_locked(&state)).filter(|update| update.sequence > 0),
    };
    let data_type = variable.data_type();
    Some(ForcedVariable {
        handle: variable.handle(),
        value: forced.value.decode(data_type),
        by: Arc::clone(&forced.by),
        since: forced.since,
        behind: shown.map(|update| (update.value.decode(data_type), update.quality)),
    })
}

/// Publishes the forced value. With `remember`, the current update becomes the value behind.
fn apply(
    variable: &Variable,
    state: &mut State,
    remember: bool,
    put: Put<'_>,
    wakes: &mut Wakes,
) -> u64 {
    let current = variable.update_locked(state);
    let Some(forced) = state.forced_mut() else {
        return current.sequence;
    };
    if remember {
        forced.behind = (current.sequence > 0).then_some(current);
    }
    let stamp = match variable.deployed().timestamps {
        true => put.wall,
        false => Timestamp::UNIX_EPOCH,
    };
    let update = Update {
        sequence: 0,
        source_timestamp: stamp,
        engine_timestamp: stamp,
        quality: Quality::GOOD.with_forced(true),
        writer: put.caller.session,
        value: forced.value.clone(),
    };
    variable.set_forced(state, true);
    publish_locked(variable, state, update, put.now, put.wall, wakes)
}

/// Ends the forcing of a variable. Returns `None` if it was not forced. The caller holds the lock.
fn release(
    variable: &Variable,
    state: &mut State,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) -> Option<u64> {
    state.forced()?;
    if variable.is_forced() {
        show_behind(variable, state, now, wall, wakes);
    }
    state.put_forced(None);
    Some(variable.sequence())
}

/// Ends the forcing and publishes the value behind.
fn show_behind(
    variable: &Variable,
    state: &mut State,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) {
    variable.set_forced(state, false);
    let behind = state.forced_mut().and_then(|forced| forced.behind.take());
    let stamp = match variable.deployed().timestamps {
        true => wall,
        false => Timestamp::UNIX_EPOCH,
    };
    let update = match behind {
        Some(behind) => Update {
            engine_timestamp: stamp,
            ..behind
        },
        None => Update {
            sequence: 0,
            source_timestamp: stamp,
            engine_timestamp: stamp,
            quality: Quality::bad(Reason::NoValue),
            writer: 0,
            value: Encoded::from_value(&Value::default_of(variable.data_type())),
        },
    };
    publish_locked(variable, state, update, now, wall, wakes);
}

/// The number of variables concerned, in words.
fn variables(count: usize) -> String {
    match count {
        1 => "1 variable".to_owned(),
        _ => format!("{count} variables"),
    }
}
