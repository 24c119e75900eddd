//! Passes writes of an alias on to its target, under the rules of the alias and then of the target.

use trunkline_types::Position;

use super::follow::convert;
use super::{Target, target};
use crate::delivery::outbox::Wakes;
use crate::outcome::{Attempt, Refusal};
use crate::sync::Arc;
use crate::variable::{Redirect, Variable};
use crate::write::accept::{Accepted, accept};
use crate::write::{
    Call, Completion, EngineCore, Hook, Origin, Write, WriteValue, WriteVerb, count_refused,
};

/// Passes a client's write of an alias on to its target. Forcing an alias does not force its
/// target.
pub(crate) struct AliasHook;

impl Hook for AliasHook {
    fn begin(
        &self,
        core: &EngineCore,
        call: &Call<'_>,
        wakes: &mut Wakes,
    ) -> Option<Result<Attempt, Refusal>> {
        if !call.variable.is_alias() {
            return None;
        }
        match (call.write.origin, call.write.verb) {
            (Origin::Client, WriteVerb::Force | WriteVerb::Unforce) => None,
            (Origin::Client, _) => Some(write_target(core, call, wakes)),
            (Origin::Source | Origin::SourceRaw, _) => Some(Err(Refusal::ReadOnly)),
        }
    }
}

/// Writes the target without holding the lock of the alias.
fn write_target(core: &EngineCore, call: &Call<'_>, wakes: &mut Wakes) -> Result<Attempt, Refusal> {
    let Call {
        variable: alias,
        write,
        ..
    } = *call;
    let properties = alias.properties();
    call.check(&properties)?;
    let (target, expected) = target_for(core, call)?;
    let mut target_write = Write {
        value: WriteValue::Wire(&[]),
        expected,
        completion: write.completion.clone().map(|completion| Completion {
            named: completion.named.or_else(|| core.variable(alias.handle())),
            ..completion
        }),
        ..write.clone()
    };
    let raw;
    if matches!(write.verb, WriteVerb::Put | WriteVerb::Set) {
        let mut accepted = Accepted::nothing();
        accept(&properties, write, call.moment.wall, &mut accepted)?;
        let value = accepted.update.value.try_decode(alias.data_type())?;
        raw = match &properties.scaling {
            Some(scaling) => scaling
                .to_raw(&value, target.data_type())
                .map_err(Refusal::Scaling)?,
            None => convert(&value, target.data_type())?,
        };
        target_write.value = WriteValue::Value(&raw);
        if accepted.update.quality.is_coerced() {
            target_write.quality = Some(accepted.update.quality);
        }
    }
    // A request only reads. Other writes count at the alias unless the alias itself refuses them.
    core.check_rules(call, write.verb != WriteVerb::Request)?;
    let own = Redirect::from(alias);
    let inner = Call {
        variable: &target,
        write: &target_write,
        redirect: call.redirect.or(Some(&own)),
        observer: None,
        outer: call.observer,
        ..*call
    };
    // Called even if the target itself has no hook, because the alias may have one.
    let begun = core.begin(&inner, wakes);
    match begun.unwrap_or_else(|| core.put(&inner, wakes)) {
        Ok(Attempt::Done(outcome)) if call.redirect.is_none() => {
            Ok(Attempt::Done(own.outcome(write.verb, outcome)))
        }
        Ok(attempt) => Ok(attempt),
        // The conflict must report the sequence of the alias, which the target does not know.
        Err(Refusal::Conflict { .. }) => {
            Err(conflict(core, alias, write.expected.unwrap_or_default()))
        }
        Err(refusal) => {
            count_refused(&target, refusal.clone());
            Err(refusal.of_target(call.caller.rights.shown(target.name())))
        }
    }
}

/// Returns the target of the alias, and the position of the target that the write expects.
fn target_for(
    core: &EngineCore,
    call: &Call<'_>,
) -> Result<(Arc<Variable>, Option<Position>), Refusal> {
    let (alias, write) = (call.variable, call.write);
    let state = alias.lock();
    let (handle, seen) = match target(&state) {
        Some(Target::Bound { handle, seen }) => (*handle, *seen),
        Some(Target::Unbound(unbound)) => {
            return Err(Refusal::Unbound {
                target: Arc::clone(&unbound.target),
                sentence: unbound.sentence_for(&call.caller.rights),
            });
        }
        None => return Err(Refusal::Gone),
    };
    let epoch = core.epoch();
    let expected = match write.expected {
        None => None,
        Some(expected) if (expected.epoch, expected.sequence) == (epoch, alias.sequence()) => {
            let sequence = seen;
            Some(Position { sequence, epoch })
        }
        Some(expected) => {
            drop(state);
            return Err(conflict(core, alias, expected));
        }
    };
    let target = core.variable(handle).ok_or(Refusal::Gone)?;
    Ok((target, expected))
}

fn conflict(core: &EngineCore, alias: &Variable, expected: Position) -> Refusal {
    let (epoch, sequence) = (core.epoch(), alias.sequence());
    Refusal::Conflict {
        actual: Position { epoch, sequence },
        expected,
    }
}
