//! Models one alarm according to `docs/reference/alarms.md` ("the reference page") and H-06 to H-11.
//!
//! The model shares no code with the product. It uses only the names of states and events.

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_types::alarm::{
    Acknowledge, AlarmAction, AlarmDefinition, AlarmEvent, AlarmKind, AlarmState, BitsNeeded,
    Operand, SavedAlarm,
};
use trunkline_types::{Level, Moment, Quality, Reason, Tick, Timestamp, Value};

/// A value of the alarm's variable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// The value as a number; `None` if it is NaN or a boolean.
    pub number: Option<f64>,
    /// The value as an integer; `None` if it is neither an integer nor a boolean.
    pub integer: Option<i64>,
    pub quality: Quality,
}

impl Measured {
    pub fn new(value: &Value, quality: Quality) -> Self {
        let (number, integer) = match value {
            Value::F64(number) => (Some(*number), None),
            Value::Bool(set) => (None, Some(i64::from(*set))),
            Value::U32(bits) => (Some(f64::from(*bits)), Some(i64::from(*bits))),
            _ => (None, None),
        };
        Self {
            number: number.filter(|number| !number.is_nan()),
            integer,
            quality,
        }
    }

    fn is_bad(self) -> bool {
        self.quality.level() == Level::Bad
    }
}

/// The state of an alarm, without suppression, shelving and service state, which hide the alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Process {
    Normal,
    /// The condition is met.
    Active {
        is_acknowledged: bool,
    },
    /// The condition ended before the alarm was acknowledged.
    Returned,
    /// The condition has ended, and the alarm must be reset.
    Latched {
        is_acknowledged: bool,
    },
}

/// A change that the engine must report.
#[derive(Clone, PartialEq, Debug)]
pub struct ExpectedChange {
    pub event: AlarmEvent,
    pub from: AlarmState,
    pub to: AlarmState,
    pub is_active: bool,
    pub when: Timestamp,
    pub who: String,
    /// The value that raised the alarm; `None` if the value is not compared.
    pub value: Option<Option<f64>>,
}

/// The part of an alarm's state that survives a restart.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredState {
    definition: AlarmDefinition,
    process: Process,
    suppressed: bool,
    out_of_service: bool,
    shelved_until: Option<Timestamp>,
    delayed_since: Option<Timestamp>,
}

/// An action that the engine must refuse according to the reference page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

#[derive(Clone, Debug)]
pub struct Model {
    pub definition: AlarmDefinition,
    process: Process,
    suppressed: bool,
    out_of_service: bool,
    /// End of the shelving, by the monotonic clock and by the wall clock; `None` if not shelved.
    shelved: Option<(Tick, Timestamp)>,
    /// True if the condition is met.
    is_met: bool,
    /// Limit or setpoint; `None` if the variable that provides it has no good value.
    operand: Option<f64>,
    /// For a rate of change: the values of the last `2 * time` with their times, oldest first.
    recent: VecDeque<(Tick, f64)>,
    /// End of the current delay by the monotonic clock, and its beginning by the wall clock.
    delay: Option<(Tick, Timestamp)>,
    /// True if the condition is still that of an earlier run, because no value has arrived.
    is_of_earlier_run: bool,
}

/// The result of evaluating a rate of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Certainty {
    Met,
    NotMet,
    /// The reference page permits both results, because the change took between 63/64 of `time` and
    /// `time`.
    Either,
}

impl Model {
    pub fn new(definition: &AlarmDefinition) -> Self {
        let operand = match &definition.kind {
            AlarmKind::Limit { limit: operand, .. }
            | AlarmKind::Deviation {
                setpoint: operand, ..
            } => Some(operand),
            AlarmKind::RateOfChange { .. }
            | AlarmKind::Discrete { .. }
            | AlarmKind::Bits { .. }
            | AlarmKind::BadQuality
            | AlarmKind::Stale => None,
        };
        let constant = match operand {
            Some(Operand::Constant(number)) => Some(*number),
            Some(Operand::Variable(_)) | None => None,
        };
        Self {
            definition: definition.clone(),
            process: Process::Normal,
            suppressed: false,
            out_of_service: false,
            shelved: None,
            is_met: false,
            operand: constant,
            recent: VecDeque::new(),
            delay: None,
            is_of_earlier_run: false,
        }
    }

    /// Continues an alarm of an earlier run. Delays and shelving continue by the wall clock. Returns
    /// `None` if the definition has changed.
    pub fn resume(definition: &AlarmDefinition, kept: &StoredState, at: Moment) -> Option<Self> {
        if kept.definition != *definition {
            return None;
        }
        let mut model = Self::new(definition);
        model.process = kept.process;
        (model.suppressed, model.out_of_service) = (kept.suppressed, kept.out_of_service);
        let until = |end: Timestamp| {
            let remaining = end.nanos_since(at.wall).max(0).cast_unsigned();
            at.now.saturating_add(Duration::from_nanos(remaining))
        };
        model.shelved = kept.shelved_until.map(|end| (until(end), end));
        let is_active = model.is_active();
        model.is_met = is_active != kept.delayed_since.is_some();
        let delay = model.delay_when(is_active);
        model.delay = kept.delayed_since.map(|since| {
            let elapsed = at.wall.nanos_since(since).max(0).cast_unsigned();
            let remaining = delay.saturating_sub(Duration::from_nanos(elapsed));
            (at.now.saturating_add(remaining), since)
        });
        model.is_of_earlier_run = true;
        Some(model)
    }

    pub fn stored_state(&self) -> StoredState {
        StoredState {
            definition: self.definition.clone(),
            process: self.process,
            suppressed: self.suppressed,
            out_of_service: self.out_of_service,
            shelved_until: self.shelved.map(|(_, end)| end),
            delayed_since: self.delay.map(|(_, since)| since),
        }
    }

    pub fn state(&self) -> AlarmState {
        match (self.out_of_service, self.suppressed, self.shelved) {
            (true, ..) => AlarmState::OutOfService,
            (_, true, _) => AlarmState::SuppressedByDesign,
            (.., Some(_)) => AlarmState::Shelved,
            _ => match self.process {
                Process::Normal => AlarmState::Normal,
                Process::Active {
                    is_acknowledged: false,
                } => AlarmState::Unacknowledged,
                Process::Active {
                    is_acknowledged: true,
                } => AlarmState::Acknowledged,
                Process::Returned => AlarmState::ReturnedUnacknowledged,
                Process::Latched {
                    is_acknowledged: false,
                } => AlarmState::LatchedUnacknowledged,
                Process::Latched {
                    is_acknowledged: true,
                } => AlarmState::LatchedAcknowledged,
            },
        }
    }

    pub fn is_active(&self) -> bool {
        matches!(self.process, Process::Active { .. })
    }

    pub fn shelved_until(&self) -> Option<Timestamp> {
        self.shelved.map(|(_, end)| end)
    }

    pub fn continues_earlier_run(&self) -> bool {
        self.is_of_earlier_run
    }

    /// Returns true if this value would change the state, or begin or end a delay. Such a value must
    /// become an update even if it is within the variable's deadband.
    pub fn would_change(&self, measured: Measured, at: Moment) -> bool {
        let mut after = self.clone();
        let mut changes = Vec::new();
        after.measure(measured, at, None, &mut changes);
        !changes.is_empty() || after.delay.is_some() != self.delay.is_some()
    }

    /// Processes a value of the variable. `engine_condition` is true if the engine considers the
    /// condition met. It decides if the reference page permits both results.
    pub fn measure(
        &mut self,
        measured: Measured,
        at: Moment,
        engine_condition: Option<bool>,
        changes: &mut Vec<ExpectedChange>,
    ) {
        if !self.definition.enabled {
            return;
        }
        // First process a delay that ended before this value, even if the engine has not polled since.
        let value = Some(measured.number);
        let count = changes.len();
        self.end_delay(at, value, changes);
        self.is_of_earlier_run = false;
        if let (AlarmKind::RateOfChange { .. }, Some(number), false) =
            (&self.definition.kind, measured.number, measured.is_bad())
        {
            self.recent.push_back((at.now, number));
        }
        self.is_met = self.condition(Some(measured), at, engine_condition);
        // A value causes at most one change. A second change waits for its own delay.
        match changes.len() > count {
            true => self.follow_condition(at),
            false => self.end_delay(at, value, changes),
        }
    }

    /// Sets the limit or the setpoint to the value of another variable; `None` if that variable has no
    /// good value.
    pub fn set_operand(
        &mut self,
        operand: Option<f64>,
        newest: Option<Measured>,
        at: Moment,
        changes: &mut Vec<ExpectedChange>,
    ) {
        self.operand = operand;
        if let Some(newest) = newest {
            self.measure(newest, at, None, changes);
        }
    }

    pub fn set_suppressed(
        &mut self,
        is_suppressed: bool,
        newest: Option<f64>,
        at: Moment,
        changes: &mut Vec<ExpectedChange>,
    ) {
        let event = match is_suppressed {
            true => AlarmEvent::Suppress,
            false => AlarmEvent::Unsuppress,
        };
        self.change(event, at, String::new(), Some(newest), changes, |model| {
            model.suppressed = is_suppressed;
        });
    }

    /// Ends shelving and delays that are due. `newest` is the newest number of the variable in this run.
    pub fn advance(
        &mut self,
        at: Moment,
        engine_condition: Option<bool>,
        newest: Option<f64>,
        changes: &mut Vec<ExpectedChange>,
    ) {
        if self.shelved.is_some_and(|(end, _)| end <= at.now) {
            let event = AlarmEvent::Unshelve;
            self.change(event, at, String::new(), Some(newest), changes, |model| {
                model.shelved = None;
            });
        }
        if !self.definition.enabled {
            return;
        }
        if matches!(self.definition.kind, AlarmKind::RateOfChange { .. }) && !self.is_of_earlier_run
        {
            self.is_met = self.condition(None, at, engine_condition);
        }
        self.end_delay(at, Some(newest), changes);
    }

    /// Returns true if the reference page permits both results of the condition now.
    pub fn is_uncertain(&self, at: Moment) -> bool {
        matches!(self.definition.kind, AlarmKind::RateOfChange { .. })
            && self.rate(at) == Certainty::Either
    }

    /// Carries out an operator's action.
    pub fn act(
        &mut self,
        action: AlarmAction,
        who: &str,
        at: Moment,
        changes: &mut Vec<ExpectedChange>,
    ) -> Result<AlarmState, Refused> {
        let state = self.state();
        let who = who.to_owned();
        let event = action.event();
        match action {
            AlarmAction::Acknowledge => {
                let next = match state {
                    AlarmState::Unacknowledged => Process::Active {
                        is_acknowledged: true,
                    },
                    AlarmState::ReturnedUnacknowledged => Process::Normal,
                    AlarmState::LatchedUnacknowledged => Process::Latched {
                        is_acknowledged: true,
                    },
                    _ => return Err(Refused),
                };
                self.change(event, at, who, None, changes, |model| model.process = next);
            }
            AlarmAction::Reset => {
                if state != AlarmState::LatchedAcknowledged {
                    return Err(Refused);
                }
                self.change(event, at, who, None, changes, |model| {
                    model.process = Process::Normal;
                });
            }
            AlarmAction::Shelve(time) => {
                if self.out_of_service {
                    return Err(Refused);
                }
                let end = at.now.saturating_add(time);
                let shown = at.wall.saturating_add_nanos(time.as_nanos() as i64);
                self.change(event, at, who, None, changes, |model| {
                    model.shelved = Some((end, shown));
                });
            }
            AlarmAction::Unshelve => {
                if self.shelved.is_none() {
                    return Err(Refused);
                }
                self.change(event, at, who, None, changes, |model| model.shelved = None);
            }
            AlarmAction::TakeOutOfService => {
                self.change(event, at, who, None, changes, |model| {
                    model.out_of_service = true;
                });
            }
            AlarmAction::ReturnToService => {
                if !self.out_of_service {
                    return Err(Refused);
                }
                self.change(event, at, who, None, changes, |model| {
                    model.out_of_service = false;
                });
            }
        }
        Ok(self.state())
    }

    /// Ends the alarm because it is removed or its definition changes.
    pub fn remove(&self, at: Moment, changes: &mut Vec<ExpectedChange>) {
        let from = self.state();
        if from != AlarmState::Normal {
            changes.push(ExpectedChange {
                event: AlarmEvent::Clear,
                from,
                to: AlarmState::Normal,
                is_active: false,
                when: at.wall,
                who: String::new(),
                value: None,
            });
        }
    }

    fn change(
        &mut self,
        event: AlarmEvent,
        at: Moment,
        who: String,
        value: Option<Option<f64>>,
        changes: &mut Vec<ExpectedChange>,
        change: impl FnOnce(&mut Self),
    ) {
        let (from, was_active) = (self.state(), self.is_active());
        change(self);
        if self.state().is_hidden() && self.is_active() {
            // An active alarm becomes unacknowledged while it is hidden.
            self.process = Process::Active {
                is_acknowledged: false,
            };
        }
        let (to, is_active) = (self.state(), self.is_active());
        if from != to || was_active != is_active {
            changes.push(ExpectedChange {
                event,
                from,
                to,
                is_active,
                when: at.wall,
                who,
                value: value.filter(|_| event == AlarmEvent::Raise),
            });
        }
    }

    fn delay_when(&self, is_active: bool) -> Duration {
        match is_active {
            true => self.definition.off_delay,
            false => self.definition.on_delay,
        }
    }

    /// Begins a delay if the condition differs from the state. Otherwise cancels the delay.
    fn follow_condition(&mut self, at: Moment) {
        let is_active = self.is_active();
        if self.is_met == is_active {
            self.delay = None;
        } else if self.delay.is_none() {
            let end = at.now.saturating_add(self.delay_when(is_active));
            self.delay = Some((end, at.wall));
        }
    }

    fn end_delay(
        &mut self,
        at: Moment,
        value: Option<Option<f64>>,
        changes: &mut Vec<ExpectedChange>,
    ) {
        self.follow_condition(at);
        if self.delay.is_none_or(|(end, _)| end > at.now) {
            return;
        }
        self.delay = None;
        let (event, next) = match self.is_met {
            true => (
                AlarmEvent::Raise,
                Process::Active {
                    is_acknowledged: false,
                },
            ),
            false => (AlarmEvent::Clear, self.when_cleared()),
        };
        self.change(event, at, String::new(), value, changes, |model| {
            model.process = next;
        });
    }

    fn when_cleared(&self) -> Process {
        let AlarmDefinition {
            acknowledge,
            latched,
            ..
        } = &self.definition;
        let acknowledged = match self.process {
            Process::Active { is_acknowledged } => {
                is_acknowledged || *acknowledge == Acknowledge::Auto
            }
            other => return other,
        };
        match (self.state().is_hidden(), *latched, acknowledged) {
            (true, ..) | (_, false, true) => Process::Normal,
            (_, true, is_acknowledged) => Process::Latched { is_acknowledged },
            (_, false, false) => Process::Returned,
        }
    }

    /// Returns true if the condition is met now.
    fn condition(
        &mut self,
        measured: Option<Measured>,
        at: Moment,
        engine_condition: Option<bool>,
    ) -> bool {
        let usable = measured.filter(|measured| !measured.is_bad());
        let number = usable.and_then(|measured| measured.number);
        let integer = usable.and_then(|measured| measured.integer);
        let was_met = self.is_met;
        let is_met = match &self.definition.kind {
            AlarmKind::Limit {
                level, deadband, ..
            } => {
                let beyond = |number: f64, limit: f64| match level.is_high() {
                    true => number - limit,
                    false => limit - number,
                };
                let (Some(number), Some(limit)) = (number, self.operand) else {
                    return was_met;
                };
                // Use the formula of the reference page, so that rounding is the same as in the product.
                let cleared = match level.is_high() {
                    true => number < limit - deadband,
                    false => number > limit + deadband,
                };
                Some(beyond(number, limit) > 0.0 || (was_met && !cleared))
            }
            AlarmKind::Deviation {
                limit, deadband, ..
            } => {
                let (Some(number), Some(setpoint)) = (number, self.operand) else {
                    return was_met;
                };
                let distance = (number - setpoint).abs();
                Some(distance > *limit || (was_met && distance >= limit - deadband))
            }
            AlarmKind::RateOfChange { .. } => match self.rate(at) {
                Certainty::Met => Some(true),
                Certainty::NotMet => Some(false),
                Certainty::Either => engine_condition,
            },
            AlarmKind::Discrete { values } => integer.map(|code| values.contains(&code)),
            AlarmKind::Bits {
                needed,
                invert,
                select,
            } => integer.map(|bits| {
                let set = (bits as u64 ^ invert) & select;
                match needed {
                    BitsNeeded::Any => set != 0,
                    BitsNeeded::All => set == *select,
                }
            }),
            AlarmKind::BadQuality => measured.map(Measured::is_bad),
            AlarmKind::Stale => measured.map(|measured| measured.quality.reason() == Reason::Stale),
        };
        is_met.unwrap_or(was_met)
    }

    fn rate(&self, at: Moment) -> Certainty {
        let AlarmKind::RateOfChange { change, time } = &self.definition.kind else {
            return Certainty::NotMet;
        };
        let spread = |within: Duration| {
            let recent = self.recent.iter();
            let within_span = recent.filter(|(when, _)| at.now.since(*when) <= within);
            let (low, high) = within_span.fold((f64::MAX, f64::MIN), |(low, high), (_, number)| {
                (low.min(*number), high.max(*number))
            });
            (high - low).max(0.0)
        };
        match (spread(*time * 63 / 64) > *change, spread(*time) > *change) {
            (true, _) => Certainty::Met,
            (false, true) => Certainty::Either,
            (false, false) => Certainty::NotMet,
        }
    }

    /// Drops values that are too old for a rate of change.
    pub fn forget_old(&mut self, now: Tick) {
        if let AlarmKind::RateOfChange { time, .. } = &self.definition.kind {
            let limit = *time + *time;
            while self
                .recent
                .front()
                .is_some_and(|(when, _)| now.since(*when) > limit)
            {
                self.recent.pop_front();
            }
        }
    }
}

impl StoredState {
    /// Returns true if `stored` has this state.
    pub fn matches(&self, stored: &SavedAlarm) -> bool {
        let model = self.model();
        let hidden = [
            self.shelved_until.is_some(),
            self.suppressed,
            self.out_of_service,
        ];
        stored.hidden == hidden
            && stored.delayed_since == self.delayed_since
            && stored.record.shelved_until == self.shelved_until
            && stored.record.state == model.state()
            && stored.record.is_active == model.is_active()
    }

    /// Ends an alarm whose definition changed while the engine was not running.
    pub fn remove(&self, at: Moment, changes: &mut Vec<ExpectedChange>) {
        self.model().remove(at, changes);
    }

    fn model(&self) -> Model {
        Model {
            process: self.process,
            suppressed: self.suppressed,
            out_of_service: self.out_of_service,
            shelved: self.shelved_until.map(|end| (Tick::ZERO, end)),
            ..Model::new(&self.definition)
        }
    }
}
