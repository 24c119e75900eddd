//! Audits writes of clients: the caller, the request and its outcome.

use std::any::Any;
use std::cell::Cell;

use trunkline_types::audit::{AUDIT_TEXT_BYTES_MAX, cut};
use trunkline_types::{AuditAction, AuditOutcome, Position};

use super::{Audit, AuditLog, AuditRoom, AuditedValue, NoAuditRoom, Note, NotedVariable, Subject};
use crate::caller::{Caller, Principal};
use crate::delivery::outbox::{Outbox, Wakes};
use crate::outcome::{Attempt, Refusal, WriteOutcome};
use crate::sync::Arc;
use crate::variable::Variable;
use crate::write::{
    Call, EngineCore, Hook, Origin, View, Write, WriteEnd, WriteObserver, WriteVerb,
};

#[derive(Clone, Debug)]
pub(crate) struct Audited {
    audit: Arc<AuditLog>,
    who: Principal,
    from: Arc<str>,
    action: AuditAction,
    new: AuditedValue,
    room: AuditRoom,
    is_noted: Cell<bool>,
}

impl Audited {
    pub(crate) fn new(
        audit: &Arc<AuditLog>,
        caller: &Caller,
        variable: &Variable,
        write: &Write<'_>,
        room: AuditRoom,
    ) -> Self {
        let written = || AuditedValue::of_written(&write.value, variable.data_type());
        let (action, new) = match write.verb {
            WriteVerb::Send | WriteVerb::Request => (
                AuditAction::Send,
                AuditedValue::of_update(&variable.update()),
            ),
            WriteVerb::Unforce => (AuditAction::Unforce, AuditedValue::Nothing),
            WriteVerb::Put => (AuditAction::Put, written()),
            WriteVerb::Set => (AuditAction::Set, written()),
            WriteVerb::Force => (AuditAction::Force, written()),
        };
        Self {
            audit: Arc::clone(audit),
            who: caller.principal.clone(),
            from: Arc::clone(&caller.origin),
            action,
            new,
            room,
            is_noted: Cell::new(false),
        }
    }
}

/// Returns true if the audit trail records a client's action on this variable. Forcing and
/// unforcing are always recorded.
#[inline]
pub(crate) fn is_noted(variable: &Variable, verb: WriteVerb) -> bool {
    match verb {
        WriteVerb::Put | WriteVerb::Set | WriteVerb::Send => variable.is_audited(),
        WriteVerb::Force | WriteVerb::Unforce => true,
        // A request only reads.
        WriteVerb::Request => false,
    }
}

impl Audit<'_> {
    /// Carries out a client's write that the audit trail always records. A write of an alias is
    /// recorded at the target, where it is carried out.
    fn begin(&self, call: &Call<'_>, wakes: &mut Wakes) -> Option<Result<Attempt, Refusal>> {
        let Call {
            variable, write, ..
        } = *call;
        let outer = call.outer.map(|outer| outer as &dyn Any);
        let outer: Option<&Audited> = outer.and_then(|outer| outer.downcast_ref());
        let is_candidate = call.observer.is_none() && write.origin == Origin::Client;
        if !is_candidate || (outer.is_none() && !is_noted(variable, write.verb)) {
            return None;
        }
        let claimed = match outer.map(|outer| &outer.room) {
            Some(room) if room.is_claimed() => Ok(room.clone()),
            _ => self.claim_for(variable, write.verb, call.moment.now),
        };
        let room = match claimed {
            Ok(room) => room,
            Err(NoAuditRoom::Wait(until)) => return Some(Ok(Attempt::WouldBlock { until })),
            Err(NoAuditRoom::Unstored) => return Some(Err(Refusal::AuditFull)),
        };
        let audited = Audited::new(self.table, call.caller, variable, write, room);
        let call = Call {
            observer: Some(&audited),
            ..*call
        };
        let result = self.core.put(&call, wakes);
        if let Err(refusal) = &result {
            let refused = WriteOutcome::Refused(refusal.clone());
            call.inform_observer(self.core, &variable.update(), None, &refused, wakes);
            if let Some(outer) = outer {
                outer.is_noted.set(true);
            }
        }
        Some(result)
    }
}

impl Hook for Arc<AuditLog> {
    fn begin(
        &self,
        core: &EngineCore,
        call: &Call<'_>,
        wakes: &mut Wakes,
    ) -> Option<Result<Attempt, Refusal>> {
        View { core, table: self }.begin(call, wakes)
    }

    fn park(&self, outbox: &Arc<Outbox>) -> bool {
        AuditLog::park(self, outbox)
    }
}

impl WriteObserver for Audited {
    fn ended(&self, core: &EngineCore, end: &WriteEnd<'_>, wakes: &mut Wakes) {
        if self.is_noted.replace(true) {
            return;
        }
        let at = |sequence: &u64| Position {
            epoch: core.epoch(),
            sequence: *sequence,
        };
        let sentence = |text: String| cut(&text, AUDIT_TEXT_BYTES_MAX);
        let outcome = match end.outcome {
            WriteOutcome::Applied(sequence) => AuditOutcome::Applied(at(sequence)),
            WriteOutcome::Unchanged(sequence) => AuditOutcome::Unchanged(at(sequence)),
            WriteOutcome::Superseded => {
                AuditOutcome::Refused("superseded by a newer value".to_owned())
            }
            WriteOutcome::Refused(refusal) => AuditOutcome::Refused(sentence(refusal.to_string())),
            WriteOutcome::Unknown(cause) => AuditOutcome::Unknown(sentence(cause.to_string())),
            WriteOutcome::NotTried(never) => match *never {},
        };
        let note = Note {
            moment: end.moment,
            who: self.who.clone(),
            from: Arc::clone(&self.from),
            action: self.action,
            subject: Subject::Variable {
                name: NotedVariable::of(core, end.variable),
                old: AuditedValue::of_update(end.old),
                new: end.new.map_or_else(|| self.new.clone(), AuditedValue::of),
            },
            outcome,
        };
        self.audit.push(note, &self.room, wakes);
    }

    fn detach(&self) -> Box<dyn WriteObserver> {
        Box::new(self.clone())
    }
}
