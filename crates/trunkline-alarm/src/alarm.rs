//! Combines the condition, the delays and the state of one alarm.

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
    /// End of the delay in progress, at which the state follows the condition; `None` if state and condition
    /// agree.
    delay_end: Option<Tick>,
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
            delay_end: None,
        }
    }

    /// Restores the state of an alarm after a restart. `remaining` is the remaining time of a delay that was
    /// in progress. The condition keeps its restored result until a sample arrives.
    pub fn restore(&mut self, machine: Machine, remaining: Option<Duration>, now: Tick) {
        self.machine = machine;
        self.condition
            .restore(machine.is_active() != remaining.is_some());
        self.delay_end = remaining.map(|remaining| now.saturating_add(remaining));
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
        // If a delay has passed, the state changes, even if the alarm was not polled before this sample.
        let first_change = self.follow_condition(now);
        self.condition.update(input, now);
        match first_change {
            // A later poll reports any further change that the sample causes, after its own delay.
            Some(_) => {
                self.start_or_cancel_delay(now);
                first_change
            }
            None => self.follow_condition(now),
        }
    }

    /// Returns true if [`update`](Self::update) would change the state, or begin or end a delay.
    pub fn would_change(&self, input: Input, now: Tick) -> bool {
        let mut after = self.clone();
        let change = after.update(input, now);
        change.is_some() || after.delay_end.is_some() != self.delay_end.is_some()
    }

    /// Sets the limit or setpoint if another variable provides it; `None` while that variable has no good
    /// value. `input` is the newest sample of the alarm's own variable, if there is one.
    pub fn set_operand(
        &mut self,
        value: Option<f64>,
        input: Option<Input>,
        now: Tick,
    ) -> Option<Change> {
        self.condition.set_operand(value);
        self.update(input?, now)
    }

    /// Suppresses the alarm, or ends the suppression, according to the `value` of the suppressing variable. A
    /// value that is neither a number nor a boolean has no effect.
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
            .delay_end
            .into_iter()
            .chain(self.condition.next_deadline());
        times.min().filter(|_| self.is_enabled)
    }

    /// Evaluates the alarm at `now` without a new sample: changes its state if a delay has passed.
    pub fn poll(&mut self, now: Tick) -> Option<Change> {
        if !self.is_enabled {
            return None;
        }
        self.condition.poll(now);
        self.follow_condition(now)
    }

    /// Returns the time that remains at `now` of a delay in progress; `None` if there is none.
    pub fn remaining_delay(&self, now: Tick) -> Option<Duration> {
        self.delay_end.map(|at| at.since(now))
    }

    /// Returns the interval of numbers of good quality that change nothing; `None` if every sample must
    /// be passed to [`update`](Self::update).
    pub fn quiet_range(&self) -> Option<(f64, f64)> {
        match (self.is_enabled, self.delay_end) {
            (false, _) => Some((f64::NEG_INFINITY, f64::INFINITY)),
            (true, Some(_)) => None,
            (true, None) => self.condition.quiet_range(),
        }
    }

    /// Changes the state to match the condition, once the delay has passed.
    fn follow_condition(&mut self, now: Tick) -> Option<Change> {
        self.start_or_cancel_delay(now);
        if self.delay_end? > now {
            return None;
        }
        self.delay_end = None;
        let event = match self.condition.is_met() {
            true => Event::Raise,
            false => Event::Clear,
        };
        // These two events are never refused.
        self.apply(event).ok().flatten()
    }

    /// Begins a delay if the condition and the state differ, and cancels the delay if they agree.
    fn start_or_cancel_delay(&mut self, now: Tick) {
        let is_met = self.condition.is_met();
        if is_met == self.machine.is_active() {
            self.delay_end = None;
            return;
        }
        let delay = match is_met {
            true => self.on_delay,
            false => self.off_delay,
        };
        self.delay_end
            .get_or_insert_with(|| now.saturating_add(delay));
    }
}
