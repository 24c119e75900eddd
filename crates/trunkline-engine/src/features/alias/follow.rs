//! Propagates an update of a target to each of its aliases.

use trunkline_types::{Clock, ClockSync, DataType, Properties, Quality, Reason, Timestamp, Value};

use super::{AliasLinks, Target};
use crate::delivery::outbox::Wakes;
use crate::outcome::{Refusal, WriteOutcome};
use crate::variable::{Admission, Committed, State, Variable};
use crate::write::accept::{Accepted, accept_value};
use crate::write::{
    Commit, Origin, Write, WriteValue, commit_undelayed, is_withheld, reason_of, requalify_admitted,
};

/// Applies the committed update of a target to `alias` and, through it, to the aliases of `alias`.
/// The caller holds the locks of both. With `refresh`, an update that the alias already shows is
/// not published again.
pub(super) fn follow(
    commit: &Committed<'_>,
    alias: &Variable,
    state: &mut State,
    refresh: bool,
    wakes: &mut Wakes,
) {
    let outcome = apply(commit, alias, state, refresh, wakes);
    if let Some(redirect) = commit.redirect {
        redirect.note(alias, &outcome);
    }
}

fn apply(
    commit: &Committed<'_>,
    alias: &Variable,
    state: &mut State,
    refresh: bool,
    wakes: &mut Wakes,
) -> WriteOutcome {
    if let Some(links) = state.extension_mut::<AliasLinks>()
        && let Some(Target::Bound { seen, .. }) = &mut links.target
    {
        *seen = commit.update.sequence;
    }
    let mut accepted = Accepted::nothing();
    let properties = alias.shared_properties(state);
    if let Err(refusal) = convert_update(commit, alias, &properties, &mut accepted) {
        // The quality of a bad target already contains the reason.
        let quality = match commit.update.quality.is_bad() {
            true => commit.update.quality,
            false => Quality::bad(reason_of(&refusal).unwrap_or(Reason::OutOfRange)),
        };
        requalify_admitted(alias, state, quality, commit.moment, wakes);
        return WriteOutcome::Refused(refusal);
    }
    let admission = Admission::Source(&accepted.update);
    if let Err(refusal) = alias.admit(state, &admission, commit.moment) {
        if !refresh {
            state.count_refused(alias.sequence(), &refusal);
        }
        return WriteOutcome::Refused(refusal);
    }
    let current = alias.update_locked(state);
    let is_same = current.sequence > 0
        && current.quality == accepted.update.quality
        && current.value.as_slice() == accepted.update.value.as_slice();
    let sequence = current.sequence;
    if refresh && is_same && current.source_timestamp == accepted.update.source_timestamp {
        return WriteOutcome::Unchanged(sequence);
    }
    let write = source(WriteValue::Wire(&[]));
    let moment = commit.moment;
    if is_withheld(
        alias,
        state,
        &properties,
        &write,
        &accepted,
        &current,
        moment,
    ) {
        state.count_unchanged(sequence);
        return WriteOutcome::Unchanged(sequence);
    }
    drop(properties);
    let update = &mut accepted.update;
    update.writer = commit.update.writer;
    if alias.deployed().timestamps {
        update.engine_timestamp = commit.moment.wall;
    }
    // The target's update already has its sequence, so the alias's update must not be delayed.
    let own = Commit {
        changed: !is_same,
        redirect: commit.redirect,
        ..Commit::at(commit.moment)
    };
    WriteOutcome::Applied(commit_undelayed(alias, state, update, own, wakes))
}

/// Converts the update to the type and units of the alias, with the quality and timestamp of the
/// target.
fn convert_update(
    commit: &Committed<'_>,
    alias: &Variable,
    properties: &Properties,
    accepted: &mut Accepted,
) -> Result<(), Refusal> {
    let Committed {
        variable,
        update,
        moment,
        ..
    } = *commit;
    let is_stamped = variable.deployed().timestamps;
    let (source_timestamp, quality) = match (properties.timestamps, is_stamped) {
        (true, true) => (update.source_timestamp, update.quality),
        (true, false) => (
            moment.wall,
            update.quality.with_clock(Clock::Engine, ClockSync::Unknown),
        ),
        (false, _) => (
            Timestamp::UNIX_EPOCH,
            update
                .quality
                .with_clock(Clock::Unknown, ClockSync::Unknown),
        ),
    };
    accepted.update.source_timestamp = source_timestamp;
    accepted.update.quality = quality;
    let from = variable.data_type();
    if from == alias.data_type() && is_plain(properties) {
        accepted.update.value = update.value.clone();
        return Ok(());
    }
    let value = update.value.try_decode(from)?;
    let value = engineering(&value, properties)?;
    accept_value(properties, &source(WriteValue::Value(&value)), accepted)
}

/// Returns true if the alias shows the value of its target without scaling, range or deadband.
fn is_plain(properties: &Properties) -> bool {
    properties.scaling.is_none()
        && properties.range.is_none()
        && properties.deadband.source_percent == 0.0
}

fn engineering(value: &Value, properties: &Properties) -> Result<Value, Refusal> {
    let data_type = &properties.data_type;
    match &properties.scaling {
        Some(scaling) => scaling
            .to_engineering(value, data_type)
            .map_err(Refusal::Scaling),
        None => convert(value, data_type),
    }
}

/// Returns the value unchanged if it has the type `data_type`, otherwise the same number in that
/// type.
pub(super) fn convert(value: &Value, data_type: &DataType) -> Result<Value, Refusal> {
    if value.has_type(data_type) {
        return Ok(value.clone());
    }
    value
        .to_number(data_type)
        .ok_or_else(|| Refusal::WrongType {
            expected: data_type.to_string(),
        })
}

/// Returns a write by a source, of a value that is already in engineering units.
fn source(value: WriteValue<'_>) -> Write<'_> {
    Write {
        origin: Origin::Source,
        ..Write::of(value)
    }
}
