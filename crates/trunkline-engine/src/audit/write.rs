//! Audited writes of clients: the caller, the request and its outcome.

use std::cell::Cell;

use trunkline_types::audit::{AUDIT_TEXT_BYTES_MAX, cut};
use trunkline_types::{AuditAction, AuditOutcome, Position, Properties, Timestamp};

use super::{AuditRoom, Held, NoAuditRoom, Note, Noted, Target};
use crate::accept::Accepted;
use crate::caller::{Caller, Principal};
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::sync::Arc;
use crate::update::Encoded;
use crate::variable::{State, Variable};
use crate::write::{Origin, Put, Write, WriteVerb, count_refused};

/// A write whose outcome is to be recorded.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    who: Principal,
    from: Arc<str>,
    action: AuditAction,
    new: Held,
    room: AuditRoom,
}

/// An audited write while it is carried out.
#[derive(Debug)]
pub(crate) struct Audited {
    pub(crate) asked: Asked,
    is_noted: Cell<bool>,
}

impl Asked {
    /// Describes a client's request on a variable.
    pub(crate) fn of(
        caller: &Caller,
        variable: &Variable,
        write: &Write<'_>,
        room: AuditRoom,
    ) -> Self {
        let (action, new) = match write.verb {
            WriteVerb::Send | WriteVerb::Request => (AuditAction::Send, of_current(variable)),
            WriteVerb::Unforce => (AuditAction::Unforce, Held::Nothing),
            WriteVerb::Put => (AuditAction::Put, written(variable, write)),
            WriteVerb::Set => (AuditAction::Set, written(variable, write)),
            WriteVerb::Force => (AuditAction::Force, written(variable, write)),
        };
        Self {
            who: caller.principal.clone(),
            from: Arc::clone(&caller.origin),
            action,
            new,
            room,
        }
    }

    pub(crate) fn room(&self) -> &AuditRoom {
        &self.room
    }
}

fn of_current(variable: &Variable) -> Held {
    Held::of_update(&variable.update())
}

fn written(variable: &Variable, write: &Write<'_>) -> Held {
    Held::of_written(&write.value, variable.data_type())
}

impl Audited {
    pub(crate) fn new(asked: Asked) -> Self {
        Self {
            asked,
            is_noted: Cell::new(false),
        }
    }

    /// Adopts the state of the write at the target of an alias. If its outcome was recorded there,
    /// it is not recorded again.
    pub(crate) fn end_with(&self, inner: &Audited) {
        self.is_noted.set(inner.is_noted.get());
    }
}

/// The time of a write, and the variable's value before and after it.
pub(crate) struct Change<'a> {
    pub(crate) wall: Timestamp,
    pub(crate) old: Held,
    /// `None` if it is the requested value.
    pub(crate) new: Option<&'a Encoded>,
}

/// Returns true if a client's action on this variable is recorded in the audit. Forcing and
/// unforcing always are.
#[inline]
pub(crate) fn is_noted(variable: &Variable, verb: WriteVerb) -> bool {
    match verb {
        WriteVerb::Put | WriteVerb::Set | WriteVerb::Send => variable.is_audited(),
        WriteVerb::Force | WriteVerb::Unforce => true,
        // A request only reads.
        WriteVerb::Request => false,
    }
}

impl Engine {
    /// Does the work of [`Engine::try_write`] for a write whose outcome is always recorded in the
    /// audit.
    #[cold]
    pub(crate) fn put_audited(
        &self,
        put: Put<'_>,
        variable: &Variable,
        write: &Write<'_>,
        wakes: &mut Wakes,
    ) -> Attempt {
        let room = match self.claim_for(variable, write.verb, put.now) {
            Ok(room) => room,
            Err(NoAuditRoom::Wait(until)) => return Attempt::WouldBlock { until },
            Err(NoAuditRoom::Unstored) => {
                return Attempt::Done(count_refused(variable, Refusal::AuditFull));
            }
        };
        let audited = Audited::new(Asked::of(put.caller, variable, write, room));
        let put = Put {
            audited: Some(&audited),
            ..put
        };
        self.put(put, variable, write, wakes)
            .unwrap_or_else(|refusal| {
                let outcome = count_refused(variable, refusal);
                self.note_end(&audited, variable, put.wall, &outcome, wakes);
                Attempt::Done(outcome)
            })
    }

    /// Calls `decide`, and records the decision while the variable's lock is still held.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "what `decide` takes")]
    pub(crate) fn decide_audited(
        &self,
        (put, audited): (Put<'_>, &Audited),
        variable: &Variable,
        state: &mut State,
        properties: &Properties,
        write: &Write<'_>,
        accepted: &mut Accepted,
        wakes: &mut Wakes,
    ) -> Result<Attempt, Refusal> {
        let old = Held::of_update(&variable.update_locked(state));
        let result = self.decide(put, variable, state, properties, write, accepted, wakes);
        let refused;
        let (outcome, new) = match &result {
            Ok(Attempt::Done(outcome @ WriteOutcome::Applied(_))) => {
                (outcome, Some(&accepted.update.value))
            }
            Ok(Attempt::Done(outcome)) => (outcome, None),
            // The caller that asked a provider judges the value read back.
            Err(refusal) if write.origin == Origin::Client => {
                refused = WriteOutcome::Refused(refusal.clone());
                (&refused, None)
            }
            _ => return result,
        };
        let wall = put.wall;
        self.note_write(audited, variable, Change { wall, old, new }, outcome, wakes);
        result
    }

    /// Records the outcome of a write. The caller holds the variable's lock if the order matters.
    pub(crate) fn note_write(
        &self,
        audited: &Audited,
        variable: &Variable,
        change: Change<'_>,
        outcome: &WriteOutcome,
        wakes: &mut Wakes,
    ) {
        audited.is_noted.set(true);
        let at = |sequence: &u64| Position {
            epoch: self.epoch(),
            sequence: *sequence,
        };
        let sentence = |text: String| cut(&text, AUDIT_TEXT_BYTES_MAX);
        let outcome = match outcome {
            WriteOutcome::Applied(sequence) => AuditOutcome::Applied(at(sequence)),
            WriteOutcome::Unchanged(sequence) => AuditOutcome::Unchanged(at(sequence)),
            WriteOutcome::Superseded => {
                AuditOutcome::Refused("a newer value took its place".to_owned())
            }
            WriteOutcome::Refused(refusal) => AuditOutcome::Refused(sentence(refusal.to_string())),
            WriteOutcome::Unknown(cause) => AuditOutcome::Unknown(sentence(cause.to_string())),
            WriteOutcome::NotTried(never) => match *never {},
        };
        let asked = &audited.asked;
        let note = Note {
            when: change.wall,
            who: asked.who.clone(),
            from: Arc::clone(&asked.from),
            action: asked.action,
            subject: Target::Variable {
                name: Noted::of(self, variable),
                old: change.old,
                new: change.new.map_or_else(|| asked.new.clone(), Held::of),
            },
            outcome,
        };
        self.push_note(note, &asked.room, wakes);
    }

    /// Records the outcome of a write that changed nothing, unless that was already done.
    pub(crate) fn note_end(
        &self,
        audited: &Audited,
        variable: &Variable,
        wall: Timestamp,
        outcome: &WriteOutcome,
        wakes: &mut Wakes,
    ) {
        if !audited.is_noted.get() {
            let old = of_current(variable);
            let change = Change {
                wall,
                old,
                new: None,
            };
            self.note_write(audited, variable, change, outcome, wakes);
        }
    }
}
