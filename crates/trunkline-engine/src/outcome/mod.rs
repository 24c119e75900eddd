//! The outcomes of a write, and the errors of reads and writes.

pub(crate) mod orders;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trunkline_access::Action;
use trunkline_types::scaling::ScalingError;
use trunkline_types::wire::DecodeError;
use trunkline_types::{Access, ControlLevel, Fault, FaultCode, Folder, Position, Tick, Timestamp};

use crate::update::NoMemory;

/// The outcome of a write. A write that was not attempted has none; [`Attempt`] reports that.
/// `Superseded` does not occur, because only clients replace waiting writes.
pub type WriteOutcome = trunkline_types::WriteOutcome<u64, Refusal, UnknownCause>;

#[derive(Clone, PartialEq, Debug)]
pub enum Attempt {
    Done(WriteOutcome),
    /// An `all` subscription is full and the variable lets writers wait for it, or the audit trail
    /// has no room. The write has no sequence and is not counted. Retry when woken, but no later
    /// than at `until`.
    WouldBlock {
        /// Time to retry the write, woken or not. By then, the subscription may have ended with
        /// `overrun`.
        until: Tick,
    },
    /// The variable's provider was asked. The consumer delivers the outcome under the id of the
    /// write.
    Pending,
}

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    #[error(
        "the variable is read-only: only its source can write it; to make it writable, change `access` \
         in its configuration"
    )]
    ReadOnly,
    #[error(
        "only the engine writes the fields of a variable; write the variable itself, or change its configuration"
    )]
    Field,
    /// The caller may read the variable, but may not perform this action.
    #[error(
        "your rights on this variable do not include `{action}`; ask the engine's administrator for it"
    )]
    Denied { action: Action },
    #[error("the value does not have the variable's type, {expected}; write a value of that type")]
    WrongType { expected: String },
    #[error("the value cannot be decoded: {0}; correct the program that wrote it")]
    InvalidValue(DecodeError),
    #[error(
        "the value has {given} elements, but the variable's FIFO needs {expected}; write {expected}"
    )]
    Length { expected: u64, given: u64 },
    #[error("the value is outside the range {low} to {high}; write a value within it")]
    OutOfRange { low: f64, high: f64 },
    #[error("the value has {bytes} bytes, more than the limit of {max}; write less at once")]
    TooLarge { bytes: usize, max: usize },
    #[error("the sample is older than the live value ({live:?}) and does not replace it{}", .kept.sentence())]
    Late { live: Timestamp, kept: LateKept },
    #[error("{0}")]
    Scaling(ScalingError),
    #[error(
        "the audit trail of this variable must be complete, but the engine cannot store its \
         entries; `trunkline limits` reports the cause: free space for the store, then write again"
    )]
    AuditFull,
    #[error("the variable is no longer deployed; open it again by its name")]
    Gone,
    #[error("{}; read the variable again, then decide", conflict(*actual, *expected))]
    Conflict {
        actual: Position,
        expected: Position,
    },
    #[error("the variable is an alias, and {sentence}")]
    Unbound {
        /// Full name of the variable that the alias should follow.
        target: Arc<str>,
        /// A sentence that names the fault of the target and its remedy.
        sentence: Arc<str>,
    },
    #[error("the variable is an alias of {target}, which refuses the write: {refusal}")]
    Target {
        target: Arc<str>,
        refusal: Box<Refusal>,
    },
    #[error("the variable is forced by {by}; unforce it, then write again")]
    Forced { by: Arc<str> },
    #[error(
        "the variable is leased by {by} for {left:?} more; wait until the lease is released or expires"
    )]
    Leased { by: Arc<str>, left: Duration },
    #[error("{0}")]
    Controlled(Arc<Controlled>),
    #[error("you do not hold the lease of this variable; read it, then acquire the lease")]
    NotLeased,
    #[error(
        "the variable has a single writer, which is {by}; you become the writer when it and \
             the writers queued before you have disconnected"
    )]
    SingleWriter { by: Arc<str> },
    #[error("the variable is not forced; `trunkline force --list` lists the forced variables")]
    NotForced,
    #[error(
        "nothing has been written to the variable yet, so there is nothing to send; set it first"
    )]
    NoValue,
    #[error("the variable's library is stopped; start it, then write again")]
    LibraryStopped,
    #[error("not written: the whole group was refused because of {name}")]
    Group {
        /// Name of the first member that violated a rule itself.
        name: Arc<str>,
    },
    /// The write cannot be part of a group: it is not a client's put or set, a provider owns its
    /// variable's value, or the variable is an alias.
    #[error("{why}")]
    NotGroupable {
        /// The reason, and the alternative.
        why: &'static str,
    },
    #[error("the group has this variable twice; write it once")]
    TwiceInGroup,
    #[error(
        "the group has {given} variables, but the limit is {max}; split it into several groups"
    )]
    GroupTooLarge { given: usize, max: usize },
    #[error("{handle} is not a handle of this engine; open the variable by its name")]
    UnknownHandle { handle: u32 },
    #[error("{provider} has not yet answered {pending} earlier writes; write less often or wait")]
    ProviderBusy { provider: Arc<str>, pending: usize },
    #[error("{provider} refused: {reason}")]
    Provider { provider: Arc<str>, reason: String },
    #[error(
        "I/O server {provider}, through which this variable is written, is not running; start it"
    )]
    ProviderGone { provider: Arc<str> },
}

/// The control of a folder, as refusals show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Controlled {
    pub folder: Folder,
    /// The holder, with the origin of its session.
    pub by: Arc<str>,
    pub level: ControlLevel,
    pub since: Timestamp,
}

impl fmt::Display for Controlled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            folder,
            by,
            level,
            since,
        } = self;
        write!(
            f,
            "the folder {folder} is controlled by {by}, {level}, since {since}; ask for control with \
             `trunkline control request {folder}`"
        )
    }
}

/// What happened to a sample that is older than the live value (B-41).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LateKept {
    /// No history records the variable.
    Nowhere,
    /// The history has accepted the sample and records it.
    History,
    /// The history records the variable, but has no room for the sample.
    NoRoom,
}

impl LateKept {
    fn sentence(self) -> &'static str {
        match self {
            Self::Nowhere => "",
            Self::History => "; it is recorded in the history only",
            Self::NoRoom => {
                "; the history has no room for it now: write it again when `_engine/history/failing` \
                 is false, or write late samples less often"
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnknownCause {
    #[error("{provider} did not answer in time; read the variable to check its value")]
    ProviderTimedOut { provider: Arc<str> },
    #[error("{provider} stopped before it answered; read the variable to check its value")]
    ProviderGone { provider: Arc<str> },
    #[error("{provider} does not know whether the write took effect: {why}")]
    Provider { provider: Arc<str>, why: String },
    #[error(
        "{provider} accepted the value, but the value read back is not valid for the \
         variable: {why}"
    )]
    ReadBack { provider: Arc<str>, why: String },
    #[error("{provider} accepted the value, but the value read back cannot be shown: {error}")]
    ReadBackMemory { provider: Arc<str>, error: NoMemory },
}

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum AccessError {
    #[error("{}", unknown_name(name, suggestion.as_deref()))]
    UnknownName {
        name: String,
        /// The nearest existing name, if it was looked up with `Engine::suggest`.
        suggestion: Option<String>,
    },
    #[error("{name} has no field {field}; its fields are {known}")]
    UnknownField {
        name: String,
        field: String,
        known: String,
    },
    #[error("{0}")]
    InvalidName(trunkline_types::name::NameError),
    #[error("the variable is write-only; change `access` in its library to read it")]
    NotReadable,
    /// The caller may not perform this action.
    #[error(
        "your rights on this variable do not include `{action}`; ask the engine's administrator for it"
    )]
    Denied { action: Action },
    #[error("the variable is no longer deployed; open it again by its name")]
    Gone,
    #[error("{handle} is not a handle of this engine; open the variable by its name")]
    UnknownHandle { handle: u32 },
    #[error("{what} is limited to {max}; {hint}")]
    Limit {
        /// The limited resource, as the subject of the message.
        what: &'static str,
        max: u64,
        hint: &'static str,
    },
    #[error(
        "the engine's memory for waiting updates ({max} bytes) is full because of slow subscribers; \
         try again when they have caught up, subscribe with `latest`, or raise `queue_bytes_max`"
    )]
    MemoryFull { max: u64 },
    #[error("{0}")]
    Contract(&'static str),
}

fn conflict(actual: Position, expected: Position) -> String {
    if actual.epoch != expected.epoch {
        let (actual, expected) = (actual.epoch, expected.epoch);
        return format!(
            "the engine was restarted: its epoch is {actual}, not {expected} as expected"
        );
    }
    let (actual, expected) = (actual.sequence, expected.sequence);
    match actual == expected {
        // The target of an alias has changed, and the alias does not reflect that yet.
        true => "the variable has changed in the meantime".to_owned(),
        false => format!(
            "the variable has changed: its sequence number is {actual}, not {expected} as expected"
        ),
    }
}

fn unknown_name(name: &str, suggestion: Option<&str>) -> String {
    match suggestion {
        Some(suggestion) => format!("no variable is named {name}; did you mean {suggestion}?"),
        None => format!("no variable is named {name}; `trunkline find` lists the existing ones"),
    }
}

impl AccessError {
    pub fn code(&self) -> FaultCode {
        match self {
            AccessError::UnknownName { .. } => FaultCode::UnknownName,
            AccessError::UnknownField { .. } => FaultCode::UnknownField,
            AccessError::InvalidName(_) => FaultCode::BadName,
            AccessError::NotReadable => FaultCode::NotReadable,
            AccessError::Denied { .. } => FaultCode::Denied,
            AccessError::Gone => FaultCode::Gone,
            AccessError::UnknownHandle { .. } => FaultCode::UnknownHandle,
            AccessError::Limit { .. } => FaultCode::LimitReached,
            AccessError::MemoryFull { .. } => FaultCode::MemoryFull,
            AccessError::Contract(_) => FaultCode::BadRequest,
        }
    }
}

impl From<&AccessError> for Fault {
    fn from(error: &AccessError) -> Self {
        Fault::new(error.code(), error.to_string())
    }
}

impl UnknownCause {
    pub fn code(&self) -> FaultCode {
        match self {
            UnknownCause::ProviderTimedOut { .. } => FaultCode::TimedOut,
            UnknownCause::ProviderGone { .. } => FaultCode::ProviderGone,
            UnknownCause::Provider { .. } => FaultCode::ProviderUnsure,
            UnknownCause::ReadBack { .. } => FaultCode::InvalidValue,
            UnknownCause::ReadBackMemory { .. } => FaultCode::MemoryFull,
        }
    }
}

impl From<&UnknownCause> for Fault {
    fn from(cause: &UnknownCause) -> Self {
        Fault::new(cause.code(), cause.to_string())
    }
}

impl From<&Refusal> for Fault {
    fn from(refusal: &Refusal) -> Self {
        Fault::new(refusal.code(), refusal.to_string())
    }
}

impl Refusal {
    pub fn code(&self) -> FaultCode {
        match self {
            Refusal::ReadOnly | Refusal::Field => FaultCode::NotWritable,
            Refusal::Denied { .. } => FaultCode::Denied,
            Refusal::WrongType { .. } => FaultCode::WrongType,
            Refusal::InvalidValue(_) | Refusal::Length { .. } => FaultCode::InvalidValue,
            Refusal::OutOfRange { .. } | Refusal::Scaling(_) => FaultCode::OutOfRange,
            Refusal::TooLarge { .. } | Refusal::GroupTooLarge { .. } => FaultCode::TooLarge,
            Refusal::Leased { .. } => FaultCode::Leased,
            Refusal::NotLeased => FaultCode::NotLeased,
            Refusal::Controlled(_) => FaultCode::Controlled,
            Refusal::SingleWriter { .. } => FaultCode::SingleWriter,
            Refusal::Group { .. } => FaultCode::GroupRefused,
            Refusal::NotGroupable { .. } => FaultCode::NotGroupable,
            Refusal::TwiceInGroup => FaultCode::TwiceInGroup,
            Refusal::UnknownHandle { .. } => FaultCode::UnknownHandle,
            Refusal::Late { kept, .. } => match kept {
                LateKept::History => FaultCode::LateRecorded,
                LateKept::Nowhere | LateKept::NoRoom => FaultCode::Late,
            },
            Refusal::Gone => FaultCode::Gone,
            Refusal::NoMemory(_) => FaultCode::MemoryFull,
            Refusal::Conflict { .. } => FaultCode::Conflict,
            Refusal::Forced { .. } => FaultCode::Forced,
            Refusal::NotForced => FaultCode::NotForced,
            Refusal::Unbound { .. } => FaultCode::AliasUnbound,
            Refusal::Target { refusal, .. } => refusal.code(),
            Refusal::NoValue => FaultCode::NoValue,
            Refusal::AuditFull => FaultCode::StoreFailed,
            Refusal::LibraryStopped => FaultCode::LibraryStopped,
            Refusal::ProviderBusy { .. } => FaultCode::Overloaded,
            Refusal::Provider { .. } => FaultCode::ProviderRefused,
            Refusal::ProviderGone { .. } => FaultCode::ProviderGone,
        }
    }

    pub(crate) fn by_access(name: &str, access: Access) -> Option<Refusal> {
        (access == Access::ReadOnly).then(|| match name.contains('#') {
            true => Refusal::Field,
            false => Refusal::ReadOnly,
        })
    }

    /// Wraps the refusal for the writer of an alias of `target`. In a chain of aliases, it names
    /// the last target.
    pub(crate) fn of_target(self, target: &str) -> Refusal {
        if let Refusal::Target { .. } = self {
            return self;
        }
        Refusal::Target {
            target: Arc::from(target),
            refusal: Box::new(self),
        }
    }
}
