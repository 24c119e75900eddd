//! Sends writes of an alias to its target, under the alias's rules and then the target's.

use std::cell::OnceCell;

use trunkline_types::Position;

use super::follow::convert;
use super::{Following, Target};
use crate::accept::{Accepted, accept};
use crate::audit::{Asked, AuditRoom, Audited, NoAuditRoom, is_noted};
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::{State, Variable};
use crate::write::{Completion, Origin, Put, Write, WriteValue, WriteVerb, check, count_refused};

/// Captures the outcome of a write at the alias through which it came.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) handle: u32,
    /// Its outcome at the alias, set once the update has reached it.
    pub(crate) found: OnceCell<WriteOutcome>,
}

impl Engine {
    /// Does the work of [`Engine::put`] for an alias. It holds no lock while the target is written.
    #[cold]
    pub(crate) fn put_through(
        &self,
        put: Put<'_>,
        alias: &Variable,
        write: &Write<'_>,
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        match (write.origin, write.verb) {
            (Origin::Client, WriteVerb::Force | WriteVerb::Unforce) => {
                // The alias is forced separately; its target continues.
                return self.order(put, alias, write, wakes);
            }
            (Origin::Client, _) => {}
            _ => return Err(Refusal::ReadOnly),
        }
        let properties = alias.properties();
        check(put.caller, alias, &properties, write)?;
        let (target, expected) = self.target_for(alias, write)?;
        // Recorded where the write is carried out, whichever of the two is audited.
        let is_noted = put.audited.is_some() || is_noted(&target, write.verb);
        let room = match put.audited.map(|audited| audited.asked.room()) {
            Some(room) if room.is_claimed() => room.clone(),
            _ if !is_noted => AuditRoom::default(),
            _ => match self.claim_for(&target, write.verb, put.now) {
                Ok(room) => room,
                Err(NoAuditRoom::Wait(until)) => return Ok(Attempt::WouldBlock { until }),
                Err(NoAuditRoom::Unstored) => {
                    count_refused(&target, Refusal::AuditFull);
                    return Err(Refusal::AuditFull.of_target(target.name()));
                }
            },
        };
        let mut through = Write {
            value: WriteValue::Wire(&[]),
            expected,
            completion: write.completion.clone().map(|known| Completion {
                alias: known.alias.or_else(|| self.variable(alias.handle())),
                ..known
            }),
            ..write.clone()
        };
        let raw;
        if matches!(write.verb, WriteVerb::Put | WriteVerb::Set) {
            let mut accepted = Accepted::nothing();
            accept(&properties, write, put.wall, &mut accepted)?;
            let value = accepted.update.value.try_decode(alias.data_type())?;
            raw = match &properties.scaling {
                Some(scaling) => scaling
                    .to_raw(&value, target.data_type())
                    .map_err(Refusal::Scaling)?,
                None => convert(&value, target.data_type())?,
            };
            through.value = WriteValue::Value(&raw);
            if accepted.update.quality.is_coerced() {
                through.quality = Some(accepted.update.quality);
            }
        }
        // A request only reads, so it does not make its session the writer; nor does a write that
        // the alias itself refuses.
        if alias.is_guarded() && write.verb != WriteVerb::Request {
            let mut state = alias.lock();
            let properties = alias.shared_properties(&state);
            self.check_guard(put.caller, put.now, alias, &mut state, &properties)?;
            self.take_guard(put.caller, alias, &mut state, &properties);
        }
        let own = Watch {
            handle: alias.handle(),
            found: OnceCell::new(),
        };
        let is_outermost = put.watch.is_none();
        let watch = Some(put.watch.unwrap_or(&own));
        let noted = is_noted.then(|| Audited::new(Asked::of(put.caller, &target, &through, room)));
        let inner = Put {
            watch,
            audited: noted.as_ref(),
            ..put
        };
        let result = self.put(inner, &target, &through, wakes);
        if let (Err(refusal), Some(noted)) = (&result, &noted) {
            let outcome = WriteOutcome::Refused(refusal.clone());
            self.note_end(noted, &target, put.wall, &outcome, wakes);
            if let Some(audited) = put.audited {
                audited.end_with(noted);
            }
        }
        match result {
            Ok(Attempt::Done(outcome)) if is_outermost => {
                let found = own.found.into_inner();
                let outcome = found.unwrap_or_else(|| end_at(alias, write.verb, outcome));
                Ok(Attempt::Done(outcome))
            }
            Ok(attempt) => Ok(attempt),
            // The conflict names the alias's own sequence, which the target does not know.
            Err(Refusal::Conflict { .. }) => Err(self.conflict(alias)),
            Err(refusal) => {
                count_refused(&target, refusal.clone());
                Err(refusal.of_target(target.name()))
            }
        }
    }

    /// Returns the target of the alias, and the position that the target is expected to have.
    fn target_for(
        &self,
        alias: &Variable,
        write: &Write<'_>,
    ) -> Result<(Arc<Variable>, Option<Position>), Refusal> {
        let state = alias.lock();
        if let Some(refusal) = alias.blocked_by(&state) {
            return Err(refusal);
        }
        let (handle, seen) = match state.target() {
            Some(Target::Bound { handle, seen }) => (*handle, *seen),
            Some(Target::Unbound(unbound)) => {
                let sentence = Arc::clone(&unbound.sentence);
                return Err(Refusal::Unbound { sentence });
            }
            None => return Err(Refusal::Gone),
        };
        let epoch = self.epoch();
        let expected = match write.expected {
            None => None,
            Some(expected) if (expected.epoch, expected.sequence) == (epoch, alias.sequence()) => {
                let sequence = seen;
                Some(Position { sequence, epoch })
            }
            Some(_) => {
                drop(state);
                return Err(self.conflict(alias));
            }
        };
        let target = self.variable(handle).ok_or(Refusal::Gone)?;
        Ok((target, expected))
    }

    fn conflict(&self, alias: &Variable) -> Refusal {
        Refusal::Conflict {
            epoch: self.epoch(),
            actual: alias.sequence(),
        }
    }

    /// Converts the outcome of a write that a provider answered into the outcome for the alias
    /// through which it came, if any.
    pub(crate) fn end_for(completion: &Completion, outcome: WriteOutcome) -> WriteOutcome {
        let Some(alias) = &completion.alias else {
            return outcome;
        };
        match &outcome {
            WriteOutcome::Refused(refusal) => {
                alias.lock().count_refused(alias.sequence(), refusal);
            }
            WriteOutcome::Unknown(_) => {
                alias.lock().count(1, |unapplied| &mut unapplied.unknown);
            }
            _ => return end_at(alias, WriteVerb::Put, outcome),
        }
        outcome
    }
}

/// Step 4 for a variable with aliases. Each of them gets the update before the lock is released.
#[cold]
pub(crate) fn commit_followed(
    put: Put<'_>,
    variable: &Variable,
    state: &mut State,
    update: &mut Update,
    changed: bool,
    wakes: &mut Wakes,
) -> WriteOutcome {
    let told = put
        .completion
        .and_then(|completion| completion.alias.as_ref());
    let watched = match (put.watch, told) {
        (Some(watch), _) => watch.handle,
        (None, Some(alias)) => alias.handle(),
        (None, None) => 0,
    };
    if let Some(completion) = put.completion {
        wakes.add(&completion.outbox);
    }
    let mut sequence = 0;
    let mut publish = || {
        sequence = variable.publish(state, update);
        state.announce(update, changed, None, wakes);
        if !state.fields().is_empty() {
            variable.refresh_fields(state, put.now, put.wall, wakes);
        }
        let following = Following {
            source: variable,
            update,
            now: put.now,
            wall: put.wall,
            watched,
        };
        let found = following.tell(state, wakes);
        let applied = WriteOutcome::Applied(sequence);
        match (put.watch, told, found) {
            (Some(watch), _, found) => {
                if let Some(outcome) = found {
                    let _first = watch.found.set(outcome);
                }
                applied
            }
            (None, Some(_), Some(outcome)) => outcome,
            (None, Some(alias), None) => end_at(alias, WriteVerb::Put, applied),
            (None, None, _) => applied,
        }
    };
    match put.completion {
        Some(completion) => completion.outbox.complete_with(completion.id, publish),
        None => {
            publish();
        }
    }
    WriteOutcome::Applied(sequence)
}

/// Returns the outcome at the alias of a write whose update did not reach it.
fn end_at(alias: &Variable, verb: WriteVerb, outcome: WriteOutcome) -> WriteOutcome {
    match outcome {
        WriteOutcome::Applied(_) | WriteOutcome::Unchanged(_) => {
            let sequence = alias.sequence();
            if matches!(verb, WriteVerb::Put | WriteVerb::Set) {
                alias.lock().count(1, |unapplied| &mut unapplied.unchanged);
            }
            WriteOutcome::Unchanged(sequence)
        }
        other => other,
    }
}
