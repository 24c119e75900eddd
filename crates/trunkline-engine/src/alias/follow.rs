//! Propagates an update of a target to each of its aliases.

use std::time::Duration;

use trunkline_types::{
    Clock, ClockSync, DataType, Properties, Quality, Reason, Tick, Timestamp, Value,
};

use super::Target;
use crate::accept::{Accepted, accept_value, within_deadband};
use crate::outbox::Wakes;
use crate::outcome::{Refusal, WriteOutcome};
use crate::sync::Arc;
use crate::update::Update;
use crate::variable::{State, Variable};
use crate::write::{Origin, Write, WriteValue, reason_of, requalify_locked};

/// One update being propagated along the aliases of a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Following<'a> {
    /// The variable whose update is propagated.
    pub(crate) source: &'a Variable,
    pub(crate) update: &'a Update,
    pub(crate) now: Tick,
    pub(crate) wall: Timestamp,
    /// Handle of the alias whose outcome is needed; 0 for none.
    pub(crate) watched: u32,
}

impl Following<'_> {
    /// Propagates the update to every alias of the variable, whose lock the caller holds, and to
    /// their aliases. Returns the outcome at the watched alias.
    #[cold]
    pub(crate) fn tell(self, state: &State, wakes: &mut Wakes) -> Option<WriteOutcome> {
        let mut watched = None;
        for alias in state.followers() {
            let mut alias_state = alias.lock();
            let (own, below) = self.follow(alias, &mut alias_state, false, wakes);
            let found = match alias.handle() == self.watched {
                true => Some(own),
                false => below,
            };
            watched = watched.or(found);
        }
        watched
    }

    /// Applies the update to `alias`, whose lock the caller also holds. With `refresh`, nothing is
    /// published that is already there. Returns the outcome at `alias`, and that at the watched
    /// alias below it.
    pub(super) fn follow(
        self,
        alias: &Variable,
        state: &mut State,
        refresh: bool,
        wakes: &mut Wakes,
    ) -> (WriteOutcome, Option<WriteOutcome>) {
        if let Some(Target::Bound { seen, .. }) = state.target_mut() {
            *seen = self.update.sequence;
        }
        let blocked = match alias.is_blocked() {
            true => alias.blocked_by(state),
            false => None,
        };
        let mut accepted = Accepted::nothing();
        let properties = alias.shared_properties(state);
        if let Err(refusal) = self.convert(alias, &properties, &mut accepted) {
            // A bad target already carries the reason.
            let quality = match self.update.quality.is_bad() {
                true => self.update.quality,
                false => Quality::bad(reason_of(&refusal).unwrap_or(Reason::OutOfRange)),
            };
            if blocked.is_none() {
                requalify_locked(alias, state, quality, self.now, self.wall, wakes);
            } else if let Some(forced) = state.forced_mut() {
                forced.requalify(quality, self.wall);
            }
            return (WriteOutcome::Refused(refusal), None);
        }
        if let Some(refusal) = blocked {
            if let Some(forced) = state.forced_mut() {
                accepted.update.engine_timestamp = self.wall;
                forced.behind = Some(accepted.update);
            }
            if !refresh {
                state.count_refused(alias.sequence(), &refusal);
            }
            return (WriteOutcome::Refused(refusal), None);
        }
        let current = alias.update_locked(state);
        let is_same = current.sequence > 0
            && current.quality == accepted.update.quality
            && current.value.as_slice() == accepted.update.value.as_slice();
        let sequence = current.sequence;
        if refresh && is_same && current.source_timestamp == accepted.update.source_timestamp {
            return (WriteOutcome::Unchanged(sequence), None);
        }
        if within_deadband(
            &properties,
            &source(WriteValue::Wire(&[])),
            &accepted,
            &current,
        ) {
            state.count_unchanged(sequence);
            return (WriteOutcome::Unchanged(sequence), None);
        }
        drop(properties);
        let (sequence, below) = self.publish(alias, state, &mut accepted.update, !is_same, wakes);
        (WriteOutcome::Applied(sequence), below)
    }

    /// Steps 3 and 4 of a write for an alias. The target already has its sequence, so nothing can
    /// delay this, and a full `all` subscription ends, whatever the owner's `stall` setting.
    fn publish(
        self,
        alias: &Variable,
        state: &mut State,
        update: &mut Update,
        changed: bool,
        wakes: &mut Wakes,
    ) -> (u64, Option<WriteOutcome>) {
        update.writer = self.update.writer;
        if alias.deployed().timestamps {
            update.engine_timestamp = self.wall;
        }
        if let Some(interests) = state.interests_mut() {
            let bytes = update.value.as_slice().len();
            let reserved = interests.reserve_room(changed, bytes, self.now, Duration::ZERO, wakes);
            debug_assert!(reserved.is_ok(), "without stall a full feed ends");
        }
        state.offered += 1;
        let sequence = alias.publish(state, update);
        state.announce(update, changed, None, wakes);
        if !state.fields().is_empty() {
            alias.refresh_fields(state, self.now, self.wall, wakes);
        }
        let next = Following {
            source: alias,
            update,
            ..self
        };
        let below = match state.followers().is_empty() {
            true => None,
            false => next.tell(state, wakes),
        };
        (sequence, below)
    }

    /// Converts the update to the alias's type and units, with the source's quality and timestamp.
    fn convert(
        &self,
        alias: &Variable,
        properties: &Properties,
        accepted: &mut Accepted,
    ) -> Result<(), Refusal> {
        let update = self.update;
        let (source_timestamp, quality) = match (properties.timestamps, self.is_stamped()) {
            (true, true) => (update.source_timestamp, update.quality),
            (true, false) => (
                self.wall,
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
        let from = self.source.data_type();
        if from == alias.data_type() && is_plain(properties) {
            accepted.update.value = update.value.clone();
            return Ok(());
        }
        let value = update.value.try_decode(from)?;
        let value = engineering(&value, properties)?;
        accept_value(properties, &source(WriteValue::Value(&value)), accepted)
    }

    fn is_stamped(&self) -> bool {
        self.source.deployed().timestamps
    }
}

/// Returns true if nothing has to be computed for the alias.
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

/// Converts the value to `data_type`: unchanged, or as the same number.
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

/// A write by a source, already in engineering units.
fn source(value: WriteValue<'_>) -> Write<'_> {
    Write {
        origin: Origin::Source,
        ..Write::of(value)
    }
}

impl State {
    /// The aliases bound to the variable.
    #[inline]
    pub(crate) fn followers(&self) -> &[Arc<Variable>] {
        match &self.extra {
            Some(extra) => extra.bonds.as_deref().map_or(&[], |bonds| &bonds.followers),
            None => &[],
        }
    }

    pub(crate) fn target(&self) -> Option<&Target> {
        self.extra.as_ref()?.bonds.as_ref()?.target.as_ref()
    }

    pub(crate) fn target_mut(&mut self) -> Option<&mut Target> {
        self.extra.as_mut()?.bonds.as_mut()?.target.as_mut()
    }
}
