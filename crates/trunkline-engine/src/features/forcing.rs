//! Forcing: an operator holds a variable at a value, overriding its source and other writers
//! (H-27).
//!
//! ```text
//! source, writers --> [ behind ]          refused, not published; the source's update is stored
//! force           --> [ cell   ] --> all readers, marked `forced` in its quality
//! unforce         --> the update in `behind` is published
//! ```
//!
//! Forcing can be switched off and on for the whole engine. While it is off, every variable shows
//! the value of its source, and the list of forced values remains. This allows an operator to enter
//! many values first and then apply them at once.
//!
//! Lock order: the list of forced variables, then a variable.

use std::collections::BTreeSet;

use trunkline_types::{
    AuditAction, AuditOutcome, Moment, Quality, Reason, Tick, Timestamp, Value, WhyStage, WhyStep,
};

use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::features::audit::{Audit, AuditLog, AuditRoom, NoAuditRoom, OrderNote};
use crate::features::providers::{DeviceRequest, ProviderTable, Waiting};
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::sync::{Arc, Mutex};
use crate::update::{Encoded, Update};
use crate::variable::{Admission, Extension, State, Variable};
use crate::write::accept::{Accepted, encode};
use crate::write::{Call, Commit, EngineCore, Hook, Origin, View, WriteVerb, commit_undelayed};

/// The forced state of a variable. It has no effect while forcing is off.
#[derive(Debug)]
pub(crate) struct Forced {
    value: Encoded,
    pub(crate) by: Arc<str>,
    since: Timestamp,
    /// The last update of the source, or the update before forcing began; `None` if there was none.
    behind: Option<Update>,
}

impl Extension for Forced {
    fn order(&self) -> u8 {
        2
    }

    fn admit(
        &mut self,
        variable: &Variable,
        admission: &Admission<'_>,
        moment: Moment,
    ) -> Result<(), Refusal> {
        if !variable.is_forced() {
            return Ok(());
        }
        match admission {
            Admission::Client { .. } => {}
            Admission::Source(update) => {
                self.behind = Some(Update {
                    engine_timestamp: moment.wall,
                    ..(*update).clone()
                });
            }
            Admission::Quality(quality) => self.requalify(*quality, moment.wall),
        }
        Err(Refusal::Forced {
            by: Arc::clone(&self.by),
        })
    }
}

impl Forced {
    /// Updates the quality of `behind` to that reported by the source.
    fn requalify(&mut self, quality: Quality, wall: Timestamp) {
        if let Some(behind) = &mut self.behind {
            behind.quality = match behind.quality.has_value() {
                true => quality,
                false => quality.without_value(),
            };
            behind.source_timestamp = wall;
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct ForcedVariable {
    pub handle: u32,
    pub value: Value,
    pub by: Arc<str>,
    pub since: Timestamp,
    /// Value and quality from the source or last writer, which the variable shows once it is
    /// unforced; `None` if there is no such value yet.
    pub behind: Option<(Value, Quality)>,
}

impl ForcedVariable {
    /// Returns the forced state of a variable, or `None` if the variable is not on the list.
    pub fn of(variable: &Variable) -> Option<Self> {
        let state = variable.lock();
        let forced = state.extension::<Forced>();
        let forced = forced.filter(|_| !variable.is_gone())?;
        let shown = match variable.is_forced() {
            true => forced.behind.clone(),
            false => Some(variable.update_locked(&state)).filter(|update| update.sequence > 0),
        };
        let data_type = variable.data_type();
        Some(Self {
            handle: variable.handle(),
            value: forced.value.decode(data_type),
            by: Arc::clone(&forced.by),
            since: forced.since,
            behind: shown.map(|update| (update.value.decode(data_type), update.quality)),
        })
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct ForcedPage {
    pub is_on: bool,
    pub total: usize,
    pub variables: Vec<ForcedVariable>,
    /// Handle at which the next page begins; `None` for the last page.
    pub next: Option<u32>,
}

pub type Forcing<'e> = View<'e, ForcingTable>;

#[derive(Debug)]
pub struct ForcingTable {
    list: Mutex<List>,
    audit: Arc<AuditLog>,
    providers: Arc<ProviderTable>,
}

#[derive(Debug, Default)]
struct List {
    is_off: bool,
    handles: BTreeSet<u32>,
}

impl ForcingTable {
    pub(crate) fn new(audit: &Arc<AuditLog>, providers: &Arc<ProviderTable>) -> Self {
        Self {
            list: Mutex::default(),
            audit: Arc::clone(audit),
            providers: Arc::clone(providers),
        }
    }
}

impl Hook for Arc<ForcingTable> {
    fn begin(
        &self,
        core: &EngineCore,
        call: &Call<'_>,
        wakes: &mut Wakes,
    ) -> Option<Result<Attempt, Refusal>> {
        let is_forcing = match (call.write.origin, call.write.verb) {
            (Origin::Client, WriteVerb::Force) => true,
            (Origin::Client, WriteVerb::Unforce) => false,
            _ => return None,
        };
        let checked = call.check(&call.variable.properties());
        let forcing = View { core, table: self };
        Some(checked.and_then(|()| match is_forcing {
            true => forcing.force(call, wakes),
            false => forcing.unforce(call, wakes),
        }))
    }
}

impl Forcing<'_> {
    fn force(&self, call: &Call<'_>, wakes: &mut Wakes) -> Result<Attempt, Refusal> {
        let Call {
            variable, moment, ..
        } = *call;
        let mut accepted = Accepted::nothing();
        encode(
            variable.data_type(),
            &call.write.value,
            &mut accepted.update.value,
        )?;
        if let Some(realtime) = &variable.realtime {
            realtime.check_length(accepted.update.value.as_slice())?;
        }
        let value = accepted.update.value;
        let mut list = self.table.list.lock();
        let mut state = variable.lock();
        if variable.is_gone() {
            return Err(Refusal::Gone);
        }
        let old = variable.update_locked(&state);
        let previous = state.extension::<Forced>();
        let behind = previous.and_then(|previous| previous.behind.clone());
        list.handles.insert(variable.handle());
        let is_applied = variable.is_forced();
        let forced = Forced {
            value: value.clone(),
            by: Arc::from(call.caller.to_string()),
            since: moment.wall,
            behind,
        };
        variable.attach(&mut state, forced);
        if list.is_off {
            let sequence = variable.sequence();
            let outcome = WriteOutcome::Unchanged(sequence);
            call.inform_observer(self.core, &old, Some(&value), &outcome, wakes);
            return Ok(Attempt::Done(outcome));
        }
        let session = call.caller.session;
        let sequence = apply(variable, &mut state, !is_applied, session, moment, wakes);
        let outcome = WriteOutcome::Applied(sequence);
        call.inform_observer(self.core, &old, Some(&value), &outcome, wakes);
        drop(state);
        drop(list);
        self.force_output(variable, moment.now);
        Ok(Attempt::Done(outcome))
    }

    /// Sends the forced value of an output to its device as well. The device's answer is stored in
    /// `behind`.
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
            // If there is not enough memory to decode the value, nothing is sent.
            if let Some(raw) = raw
                && let Some(known) = self.core.variable(variable.handle())
            {
                // The variable stays forced even if the provider accepts no more writes.
                let _sent = self.table.providers.send(
                    index,
                    now,
                    &known,
                    DeviceRequest::Write(raw),
                    Waiting::default(),
                );
            }
        }
    }

    fn unforce(&self, call: &Call<'_>, wakes: &mut Wakes) -> Result<Attempt, Refusal> {
        let variable = call.variable;
        let mut list = self.table.list.lock();
        let mut state = variable.lock();
        let old = variable.update_locked(&state);
        let sequence = release(variable, &mut state, call.moment, wakes);
        let outcome = WriteOutcome::Applied(sequence.ok_or(Refusal::NotForced)?);
        let new = variable.update_locked(&state).value;
        call.inform_observer(self.core, &old, Some(&new), &outcome, wakes);
        drop(state);
        list.handles.remove(&variable.handle());
        drop(list);
        let _is_provided = self.of(&self.table.providers).request(variable.handle());
        Ok(Attempt::Done(outcome))
    }

    pub(crate) fn forget(&self, handle: u32) {
        self.table.list.lock().handles.remove(&handle);
    }

    /// Returns true if forcing is on. While it is off, every variable shows the value of its
    /// source.
    pub fn is_on(&self) -> bool {
        !self.table.list.lock().is_off
    }

    /// Switches forcing on or off for the whole engine; the list remains. Returns the number of
    /// variables affected. Does not check the caller's rights. The switch is recorded in the audit
    /// trail.
    pub fn set(
        &self,
        caller: &Caller,
        on: bool,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<usize, NoAuditRoom> {
        let room = self.audit().claim(1, now)?;
        let mut list = self.table.list.lock();
        list.is_off = !on;
        let action = match on {
            true => AuditAction::ForcingOn,
            false => AuditAction::ForcingOff,
        };
        let moment = Moment { now, wall };
        self.note(caller, moment, action, list.handles.len(), &room, wakes);
        let variables = list.handles.iter();
        for variable in variables.filter_map(|handle| self.core.variable(*handle)) {
            let mut state = variable.lock();
            match (on, variable.is_forced()) {
                (true, false) => {
                    apply(&variable, &mut state, true, 0, moment, wakes);
                }
                (false, true) => show_behind(&variable, &mut state, moment, wakes),
                _ => {}
            }
        }
        Ok(list.handles.len())
    }

    /// Unforces every variable, with one entry in the audit trail. Returns the number of variables
    /// that were forced.
    pub fn clear(
        &self,
        caller: &Caller,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<usize, NoAuditRoom> {
        let room = self.audit().claim(1, now)?;
        let mut list = self.table.list.lock();
        let handles = std::mem::take(&mut list.handles);
        let action = AuditAction::ForcingClear;
        let moment = Moment { now, wall };
        self.note(caller, moment, action, handles.len(), &room, wakes);
        let variables = handles.iter();
        for variable in variables.filter_map(|handle| self.core.variable(*handle)) {
            let _sequence = release(&variable, &mut variable.lock(), moment, wakes);
        }
        Ok(handles.len())
    }

    /// Returns the deployed variables on the list, whether forcing is on or off.
    pub fn all(&self) -> Vec<ForcedVariable> {
        let caller = Caller::engine();
        self.page(&caller, 0, usize::MAX).variables
    }

    /// Returns a page of the list of forced variables: the next `limit` of those visible to
    /// `caller`, beginning at handle `cursor`.
    pub fn page(&self, caller: &Caller, cursor: u32, limit: usize) -> ForcedPage {
        let mut list = self.table.list.lock();
        let is_deployed = |handle: &u32| {
            let variable = self.core.variable(*handle);
            variable.is_some_and(|variable| !variable.is_gone())
        };
        if cursor == 0 {
            list.handles.retain(is_deployed);
        }
        let handles = list.handles.range(cursor..);
        let mut rest = handles.filter_map(|handle| self.core.visible(caller, *handle));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let next = rest.next().map(|variable| variable.handle());
        drop(rest);
        let variables = page
            .iter()
            .filter_map(|variable| ForcedVariable::of(variable));
        ForcedPage {
            is_on: !list.is_off,
            total: match caller.rights.permit_all_reads() {
                true => list.handles.len(),
                false => {
                    let handles = list.handles.iter();
                    let visible = handles.filter_map(|one| self.core.visible(caller, *one));
                    visible.count()
                }
            },
            variables: variables.collect(),
            next,
        }
    }

    /// Adds an audit entry for an action on `count` variables.
    fn note(
        &self,
        caller: &Caller,
        moment: Moment,
        action: AuditAction,
        count: usize,
        room: &AuditRoom,
        wakes: &mut Wakes,
    ) {
        let note = OrderNote {
            action,
            name: "",
            effect: &match count {
                1 => "1 variable".to_owned(),
                _ => format!("{count} variables"),
            },
            outcome: AuditOutcome::Done,
        };
        self.audit().note_order(caller, moment, note, room, wakes);
    }

    fn audit(&self) -> Audit<'_> {
        self.of(&self.table.audit)
    }
}

pub(crate) fn forced_state(variable: &Variable) -> Option<WhyStep> {
    let state = variable.lock();
    let forced = state.extension::<Forced>();
    let forced = forced.filter(|_| variable.is_forced())?;
    let sentence = format!("it is forced by {} since {}", forced.by, forced.since);
    let next = format!("trunkline unforce {}", variable.name());
    Some(WhyStep::fault(WhyStage::Filter, sentence, next))
}

/// Publishes the forced value. With `save_current`, first stores the current update in `behind`.
fn apply(
    variable: &Variable,
    state: &mut State,
    save_current: bool,
    session: u32,
    moment: Moment,
    wakes: &mut Wakes,
) -> u64 {
    let current = variable.update_locked(state);
    let Some(forced) = state.extension_mut::<Forced>() else {
        return current.sequence;
    };
    if save_current {
        forced.behind = (current.sequence > 0).then_some(current);
    }
    let stamp = stamp_of(variable, moment);
    let quality = Quality::GOOD.with_forced(true);
    let mut update = Update::new(stamp, quality, session, forced.value.clone());
    variable.set_forced(state, true);
    commit_undelayed(variable, state, &mut update, Commit::at(moment), wakes)
}

/// Ends the forcing of a variable. Returns `None` if it was not forced. The caller holds the lock.
fn release(
    variable: &Variable,
    state: &mut State,
    moment: Moment,
    wakes: &mut Wakes,
) -> Option<u64> {
    state.extension::<Forced>()?;
    if variable.is_forced() {
        show_behind(variable, state, moment, wakes);
    }
    variable.detach::<Forced>(state);
    Some(variable.sequence())
}

fn show_behind(variable: &Variable, state: &mut State, moment: Moment, wakes: &mut Wakes) {
    variable.set_forced(state, false);
    let forced = state.extension_mut::<Forced>();
    let stamp = stamp_of(variable, moment);
    let mut update = match forced.and_then(|forced| forced.behind.take()) {
        Some(behind) => Update {
            engine_timestamp: stamp,
            ..behind
        },
        None => {
            let value = Encoded::from_value(&Value::default_of(variable.data_type()));
            Update::new(stamp, Quality::bad(Reason::NoValue), 0, value)
        }
    };
    commit_undelayed(variable, state, &mut update, Commit::at(moment), wakes);
}

fn stamp_of(variable: &Variable, moment: Moment) -> Timestamp {
    match variable.deployed().timestamps {
        true => moment.wall,
        false => Timestamp::UNIX_EPOCH,
    }
}
