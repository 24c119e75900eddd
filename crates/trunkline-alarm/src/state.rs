//! Defines the states of an alarm and the transitions between them, as in ISA-18.2-2016, section 5.
//!
//! A state has two parts. The first part depends on the process and the operator: the alarm can be active,
//! acknowledged, or waiting for a reset. The second part hides the alarm from the operator: the alarm can be
//! shelved, suppressed by design, or out of service. If an alarm is raised and cleared while it is hidden, it
//! is normal when it is shown again. If it is active when it is shown again, it is unacknowledged.

pub use trunkline_types::alarm::{AlarmEvent as Event, AlarmState as State};

/// The reason why an operator's action is not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ActionError {
    #[error("the alarm is {0}, so there is nothing to acknowledge")]
    NothingToAcknowledge(State),
    #[error("the alarm is {0}; acknowledge it before you reset it")]
    NotAcknowledged(State),
    #[error("the alarm is {0}, so there is no latch to reset")]
    NothingToReset(State),
    #[error("the alarm is {0}, not shelved")]
    NotShelved(State),
    #[error("the alarm is {0}, not out of service")]
    NotOutOfService(State),
    #[error("the alarm is out of service; return it to service first")]
    OutOfService,
}

/// The part of an alarm's configuration that affects its states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// The alarm is acknowledged automatically once the process is normal again (H-08, "Auto").
    pub auto_acknowledges: bool,
    /// The alarm must be reset after the process is normal again.
    pub is_latched: bool,
}

/// The complete state of an alarm, which together with the rules determines its next state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Machine {
    /// The state without the second part. Never [`State::Acknowledged`] while the alarm is hidden.
    process: State,
    is_shelved: bool,
    is_suppressed: bool,
    is_out_of_service: bool,
}

impl Machine {
    /// Restores a machine from its parts, as returned by [`parts`](Self::parts).
    pub fn from_parts(process: State, hidden: [bool; 3]) -> Option<Self> {
        let [is_shelved, is_suppressed, is_out_of_service] = hidden;
        let is_hidden = hidden.contains(&true);
        let is_possible = match process {
            State::Shelved | State::SuppressedByDesign | State::OutOfService => false,
            State::Acknowledged => !is_hidden,
            State::Normal
            | State::Unacknowledged
            | State::ReturnedUnacknowledged
            | State::LatchedUnacknowledged
            | State::LatchedAcknowledged => true,
        };
        is_possible.then_some(Self {
            process,
            is_shelved,
            is_suppressed,
            is_out_of_service,
        })
    }

    /// Returns the first part of the state, and three flags: shelved, suppressed, out of service.
    pub fn parts(self) -> (State, [bool; 3]) {
        let hidden = [self.is_shelved, self.is_suppressed, self.is_out_of_service];
        (self.process, hidden)
    }

    /// Returns the state that an operator sees. Out of service takes precedence over suppressed, and
    /// suppressed over shelved.
    pub fn state(self) -> State {
        if self.is_out_of_service {
            State::OutOfService
        } else if self.is_suppressed {
            State::SuppressedByDesign
        } else if self.is_shelved {
            State::Shelved
        } else {
            self.process
        }
    }

    /// Returns true while the condition of the alarm is met, even if the alarm is hidden.
    pub fn is_active(self) -> bool {
        matches!(self.process, State::Unacknowledged | State::Acknowledged)
    }

    /// Returns the machine after `event`.
    ///
    /// # Errors
    /// [`ActionError`] if an operator's action is not possible. Other events are never refused, but may
    /// have no effect.
    pub fn after(self, event: Event, rules: Rules) -> Result<Self, ActionError> {
        let state = self.state();
        let mut next = self;
        match event {
            Event::Raise => {
                if !self.is_active() {
                    next.process = State::Unacknowledged;
                }
            }
            Event::Clear if state.is_hidden() => {
                if self.is_active() {
                    next.process = State::Normal;
                }
            }
            Event::Clear => next.process = state_after_clear(self.process, rules),
            Event::Acknowledge => {
                next.process = match state {
                    State::Unacknowledged => State::Acknowledged,
                    State::ReturnedUnacknowledged => State::Normal,
                    State::LatchedUnacknowledged => State::LatchedAcknowledged,
                    State::Normal
                    | State::Acknowledged
                    | State::LatchedAcknowledged
                    | State::Shelved
                    | State::SuppressedByDesign
                    | State::OutOfService => return Err(ActionError::NothingToAcknowledge(state)),
                }
            }
            Event::Reset => match state {
                State::LatchedAcknowledged => next.process = State::Normal,
                State::LatchedUnacknowledged => return Err(ActionError::NotAcknowledged(state)),
                State::Normal
                | State::Unacknowledged
                | State::Acknowledged
                | State::ReturnedUnacknowledged
                | State::Shelved
                | State::SuppressedByDesign
                | State::OutOfService => return Err(ActionError::NothingToReset(state)),
            },
            Event::Shelve if self.is_out_of_service => return Err(ActionError::OutOfService),
            Event::Shelve => next.is_shelved = true,
            Event::Unshelve if !self.is_shelved => return Err(ActionError::NotShelved(state)),
            Event::Unshelve => next.is_shelved = false,
            Event::Suppress => next.is_suppressed = true,
            Event::Unsuppress => next.is_suppressed = false,
            Event::TakeOutOfService => next.is_out_of_service = true,
            Event::ReturnToService if !self.is_out_of_service => {
                return Err(ActionError::NotOutOfService(state));
            }
            Event::ReturnToService => next.is_out_of_service = false,
        }
        if next.state().is_hidden() && next.is_active() {
            next.process = State::Unacknowledged;
        }
        Ok(next)
    }
}

/// Returns the next state of a visible alarm whose condition is no longer met.
fn state_after_clear(process: State, rules: Rules) -> State {
    match (process, rules.is_latched) {
        (State::Unacknowledged, true) if rules.auto_acknowledges => State::LatchedAcknowledged,
        (State::Unacknowledged, true) => State::LatchedUnacknowledged,
        (State::Unacknowledged, false) if rules.auto_acknowledges => State::Normal,
        (State::Unacknowledged, false) => State::ReturnedUnacknowledged,
        (State::Acknowledged, true) => State::LatchedAcknowledged,
        (State::Acknowledged, false) => State::Normal,
        (inactive, _) => inactive,
    }
}
