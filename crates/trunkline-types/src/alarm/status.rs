//! Defines the states of alarms, and the actions of operators.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::AlarmDefinition;
use crate::Timestamp;

/// The state of an alarm as shown to operators.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum AlarmState {
    /// The alarm is not active, and no action is necessary.
    #[default]
    Normal,
    /// The alarm is active, and no operator has acknowledged it.
    Unacknowledged,
    /// The alarm is active, and an operator has acknowledged it.
    Acknowledged,
    /// The process returned to normal before an operator acknowledged the alarm.
    ReturnedUnacknowledged,
    /// The process returned to normal, but the alarm is latched: it must be acknowledged and reset.
    LatchedUnacknowledged,
    /// The process returned to normal, and an operator has acknowledged the alarm, but it is
    /// latched: it must be reset.
    LatchedAcknowledged,
    /// An operator has hidden the alarm for a limited time.
    Shelved,
    /// A condition of the process suppresses the alarm.
    SuppressedByDesign,
    /// The alarm is out of service until an operator returns it to service.
    OutOfService,
}

impl AlarmState {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Normal,
        Self::Unacknowledged,
        Self::Acknowledged,
        Self::ReturnedUnacknowledged,
        Self::LatchedUnacknowledged,
        Self::LatchedAcknowledged,
        Self::Shelved,
        Self::SuppressedByDesign,
        Self::OutOfService,
    ];

    /// Returns the name used in files, frames and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Unacknowledged => "unacknowledged",
            Self::Acknowledged => "acknowledged",
            Self::ReturnedUnacknowledged => "returned-unacknowledged",
            Self::LatchedUnacknowledged => "latched-unacknowledged",
            Self::LatchedAcknowledged => "latched-acknowledged",
            Self::Shelved => "shelved",
            Self::SuppressedByDesign => "suppressed-by-design",
            Self::OutOfService => "out-of-service",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Returns the number of the state in stores and frames.
    pub fn number(self) -> u8 {
        self as u8
    }

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns true if the alarm needs an acknowledgement.
    pub const fn is_unacknowledged(self) -> bool {
        matches!(
            self,
            Self::Unacknowledged | Self::ReturnedUnacknowledged | Self::LatchedUnacknowledged
        )
    }

    /// Returns true if the alarm is hidden from the operator.
    pub const fn is_hidden(self) -> bool {
        matches!(
            self,
            Self::Shelved | Self::SuppressedByDesign | Self::OutOfService
        )
    }
}

impl fmt::Display for AlarmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An event that can change the state of an alarm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AlarmEvent {
    /// The condition is met, and the on-delay has passed.
    Raise,
    /// The condition is no longer met, and the off-delay has passed.
    Clear,
    Acknowledge,
    /// An operator resets a latched alarm that is no longer active.
    Reset,
    Shelve,
    Unshelve,
    Suppress,
    Unsuppress,
    TakeOutOfService,
    ReturnToService,
}

impl AlarmEvent {
    /// All events, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Raise,
        Self::Clear,
        Self::Acknowledge,
        Self::Reset,
        Self::Shelve,
        Self::Unshelve,
        Self::Suppress,
        Self::Unsuppress,
        Self::TakeOutOfService,
        Self::ReturnToService,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Raise => "raise",
            Self::Clear => "clear",
            Self::Acknowledge => "acknowledge",
            Self::Reset => "reset",
            Self::Shelve => "shelve",
            Self::Unshelve => "unshelve",
            Self::Suppress => "suppress",
            Self::Unsuppress => "unsuppress",
            Self::TakeOutOfService => "take-out-of-service",
            Self::ReturnToService => "return-to-service",
        }
    }

    /// Returns the number of the event in stores and frames.
    pub const fn number(self) -> u8 {
        match self {
            Self::Raise => 1,
            Self::Clear => 2,
            Self::Acknowledge => 3,
            Self::Reset => 4,
            Self::Shelve => 5,
            Self::Unshelve => 6,
            Self::Suppress => 7,
            Self::Unsuppress => 8,
            Self::TakeOutOfService => 9,
            Self::ReturnToService => 10,
        }
    }

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.number() == number)
    }
}

/// The state of an alarm with its times and values, but without its definition.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AlarmRecord {
    pub state: AlarmState,
    pub is_active: bool,
    /// The value when the alarm was last raised; `None` if it is not a number.
    pub value: Option<f64>,
    /// The limit or the setpoint when the alarm was last raised; `None` if the alarm has none.
    pub operand: Option<f64>,
    pub raised: Option<Timestamp>,
    pub cleared: Option<Timestamp>,
    pub acknowledged: Option<Timestamp>,
    /// The principal that acknowledged the alarm; empty if it has not been acknowledged.
    pub acknowledged_by: String,
    pub comment: String,
    pub shelved_until: Option<Timestamp>,
}

/// An alarm with its variable, its definition and its current state.
#[derive(Clone, PartialEq, Debug)]
pub struct AlarmStatus {
    pub handle: u32,
    /// Full name of the variable.
    pub variable: String,
    pub definition: Arc<AlarmDefinition>,
    /// The current limit or setpoint; `None` if it is unknown or the alarm has none.
    pub operand: Option<f64>,
    pub record: AlarmRecord,
}

/// An operator's action on an alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlarmAction {
    Acknowledge,
    Reset,
    /// Hides the alarm for this period.
    Shelve(Duration),
    Unshelve,
    TakeOutOfService,
    ReturnToService,
}

impl AlarmAction {
    /// Returns the event that the action causes.
    pub fn event(self) -> AlarmEvent {
        match self {
            Self::Acknowledge => AlarmEvent::Acknowledge,
            Self::Reset => AlarmEvent::Reset,
            Self::Shelve(_) => AlarmEvent::Shelve,
            Self::Unshelve => AlarmEvent::Unshelve,
            Self::TakeOutOfService => AlarmEvent::TakeOutOfService,
            Self::ReturnToService => AlarmEvent::ReturnToService,
        }
    }
}
