//! One alarm: its condition, its delays and its state.

use std::time::Duration;

use trunkline_types::alarm::{Acknowledge, AlarmDefinition};
use trunkline_types::{Tick, Value};

use crate::condition::{Condition, Input};
use crate::state::{ActionError, Event, Machine, Rules, State};

/// A change of an alarm's state. If the alarm is hidden, `from` and `to` may be the same, and only
/// `is_active` has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    pub event: Event,
    pub from: State,
    pub to: State,
    /// True while the condition of the alarm is met.
    pub is_active: bool,
}

/// An alarm of a variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Alarm {
    condition: Condition,
    rules: Rules,
    on_delay: Duration,
    off_delay: Duration,
    is_enabled: bool,
    machine: Machine,
    /// Set while the condition differs from the state: the time at which the state follows it.
    changes_at: Option<Tick>,
}

impl Alarm {
    pub fn new(definition: &AlarmDefinition) -> Self {
        Self {
            condition: Condition::new(&definition.kind),
            rules: Rules {
                auto_acknowledges: definition.acknowledge == Acknowledge::Auto,
                is_latched: definition.latched,
            },
            on_delay: definition.on_delay,
            off_delay: definition.off_delay,
            is_enabled: definition.enabled,
            machine: Machine::default(),
            changes_at: None,
        }
    }

    /// Restores the state of an alarm after a restart. `remaining` is the rest of a delay that had begun. The condition stays as it was until a sample arrives.
    pub fn restore(&mut self, machine: Machine, remaining: Option<Duration>, now: Tick) {
        self.machine = machine;
        self.condition
            .restore(machine.is_active() != remaining.is_some());
        self.changes_at = remaining.map(|remaining| now.saturating_add(remaining));
    }

    pub fn state(&self) -> State {
        self.machine.state()
    }

    pub fn machine(&self) -> Machine {
        self.machine
    }

    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// Evaluates a sample of the variable.
    pub fn update(&mut self, input: Input, now: Tick) -> Option<Change> {
        if !self.is_enabled {
            return None;
        }
        // A delay that has passed counts, even if the alarm was not polled before this sample.
        let first_change = self.follow_condition(now);
        self.condition.update(input, now);
        match first_change {
            // Any further change caused by the sample comes with a later poll, after its own delay.
            Some(_) => {
                self.begin_or_end_delay(now);
                first_change
            }
            None => self.follow_condition(now),
        }
    }

    /// Returns true if [`update`](Self::update) would change the state, or begin or end a delay.
    pub fn would_change(&self, input: Input, now: Tick) -> bool {
        let mut after = self.clone();
        let change = after.update(input, now);
        change.is_some() || after.changes_at.is_some() != self.changes_at.is_some()
    }

    /// Sets the value of the limit or setpoint if another variable gives it; `None` while that variable has
    /// no good value. `input` is the newest sample of the alarm's own variable, if there is one.
    pub fn set_operand(
        &mut self,
        value: Option<f64>,
        input: Option<Input>,
        now: Tick,
    ) -> Option<Change> {
        self.condition.set_operand(value);
        self.update(input?, now)
    }

    /// Suppresses the alarm or ends the suppression, according to the `value` of the suppressing variable. A
    /// value that is neither a number nor a boolean changes nothing.
    pub fn set_suppressed(&mut self, value: &Value) -> Option<Change> {
        let is_suppressed = match value {
            Value::Bool(value) => *value,
            value => value.as_f64()? != 0.0,
        };
        let event = match is_suppressed {
            true => Event::Suppress,
            false => Event::Unsuppress,
        };
        // These two events are never refused.
        self.apply(event).ok().flatten()
    }

    /// Carries out an operator's action.
    ///
    /// # Errors
    /// [`ActionError`] if the action does not apply to the alarm's state.
    pub fn apply(&mut self, event: Event) -> Result<Option<Change>, ActionError> {
        let before = self.machine;
        self.machine = before.after(event, self.rules)?;
        let (from, to) = (before.state(), self.machine.state());
        let is_active = self.machine.is_active();
        let has_changed = from != to || before.is_active() != is_active;
        Ok(has_changed.then_some(Change {
            event,
            from,
            to,
            is_active,
        }))
    }

    /// Returns the time at which the alarm can change without a new sample.
    pub fn next_deadline(&self) -> Option<Tick> {
        let times = self
            .changes_at
            .into_iter()
            .chain(self.condition.next_deadline());
        times.min().filter(|_| self.is_enabled)
    }

    /// Ends delays that have passed at `now`.
    pub fn poll(&mut self, now: Tick) -> Option<Change> {
        if !self.is_enabled {
            return None;
        }
        self.condition.poll(now);
        self.follow_condition(now)
    }

    /// Returns the remaining time at `now` of a delay that has begun.
    pub fn remaining_delay(&self, now: Tick) -> Option<Duration> {
        self.changes_at.map(|at| at.since(now))
    }

    /// Returns the numbers of good quality that change nothing, as an interval; `None` if every
    /// sample must be passed to [`update`](Self::update).
    pub fn quiet_range(&self) -> Option<(f64, f64)> {
        match (self.is_enabled, self.changes_at) {
            (false, _) => Some((f64::NEG_INFINITY, f64::INFINITY)),
            (true, Some(_)) => None,
            (true, None) => self.condition.quiet_range(),
        }
    }

    /// Lets the state follow the condition, after the delay.
    fn follow_condition(&mut self, now: Tick) -> Option<Change> {
        self.begin_or_end_delay(now);
        if self.changes_at? > now {
            return None;
        }
        self.changes_at = None;
        let event = match self.condition.is_met() {
            true => Event::Raise,
            false => Event::Clear,
        };
        // These two events are never refused.
        self.apply(event).ok().flatten()
    }

    /// Begins a delay if the condition differs from the state, and ends it if it does not.
    fn begin_or_end_delay(&mut self, now: Tick) {
        let is_met = self.condition.is_met();
        if is_met == self.machine.is_active() {
            self.changes_at = None;
            return;
        }
        let delay = match is_met {
            true => self.on_delay,
            false => self.off_delay,
        };
        self.changes_at
            .get_or_insert_with(|| now.saturating_add(delay));
    }
}
