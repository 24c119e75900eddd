//! The ends of a write, and the errors of reads and writes.

pub(crate) mod orders;

use std::sync::Arc;
use std::time::Duration;

use trunkline_types::scaling::ScalingError;
use trunkline_types::wire::DecodeError;
use trunkline_types::{Access, Fault, FaultCode, Tick, Timestamp};

use crate::update::NoMemory;

/// The end of a write. It cannot say that a write was not tried: [`Attempt`] does. `Superseded`
/// does not occur, because only clients replace writes that wait.
pub type WriteOutcome = trunkline_types::WriteOutcome<u64, Refusal, UnknownCause>;

/// The result of a write attempt that never waits.
#[derive(Clone, PartialEq, Debug)]
pub enum Attempt {
    /// The write has ended.
    Done(WriteOutcome),
    /// An `all` subscription is full and the variable's owner lets writers wait for it, or the
    /// audit has no room. The write has no sequence and is not counted. Try again when woken, or at
    /// `until` at the latest.
    WouldBlock {
        /// Time to try the write again, woken or not: the subscription may have ended with
        /// `overrun` by then.
        until: Tick,
    },
    /// The variable's provider was asked. The outcome is delivered through the consumer under the
    /// write's id.
    Pending,
}

/// The reason why a write was refused, with a remedy.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The system has no memory for a copy of the value.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The variable's access forbids writing.
    #[error("the variable is read-only: only its source writes it; change `access` in its library")]
    ReadOnly,
    /// The caller lacks the right to write.
    #[error("you may not write this variable; ask its administrator for the right to write")]
    Denied,
    /// The value has another type than the variable.
    #[error("the variable is {expected}, the value is not; write a value of that type")]
    WrongType {
        /// The variable's type as text.
        expected: String,
    },
    /// The bytes are not a value of the variable's type.
    #[error("the value cannot be read: {0}; the writing program is at fault")]
    InvalidValue(DecodeError),
    /// The value has another number of elements than the real-time FIFO takes.
    #[error(
        "the value has {given} elements, the variable's FIFO takes {expected}; write {expected}"
    )]
    Length {
        /// Number of elements that every value must have.
        expected: u64,
        /// Number of elements in the value.
        given: u64,
    },
    /// The value is outside the engineering range, and the variable does not coerce.
    #[error("the value is outside the range {low} to {high}; write a value within it")]
    OutOfRange {
        /// Lowest value allowed.
        low: f64,
        /// Highest value allowed.
        high: f64,
    },
    /// The value is longer than a value may be.
    #[error("the value has {bytes} bytes, more than the limit of {max}; write less at once")]
    TooLarge {
        /// Length of the value in wire form, in bytes.
        bytes: usize,
        /// Maximum length, in bytes.
        max: usize,
    },
    /// The sample was measured before the live value.
    #[error("the sample is older than the live value ({live:?}): it cannot replace it")]
    Late {
        /// Source timestamp of the live value.
        live: Timestamp,
    },
    /// The value cannot be scaled.
    #[error("{0}")]
    Scaling(ScalingError),
    /// The variable requires a complete audit, and its entries cannot be stored.
    #[error(
        "the audit of this variable has to be complete, and the engine cannot store its entries; \
         `trunkline limits` says why: make room for the store, then write again"
    )]
    AuditFull,
    /// The variable was undeployed.
    #[error("the variable is no longer deployed; open it again by its name")]
    Gone,
    /// The variable is not at the position that the writer expected (B-22).
    #[error(
        "the variable is at update {actual} of epoch {epoch}, not where the writer expected it; \
             read it again, then decide"
    )]
    Conflict {
        /// The engine's epoch.
        epoch: u64,
        /// Sequence of the variable's newest update.
        actual: u64,
    },
    /// The variable is an alias, and its target is missing or unsuitable.
    #[error("the variable is an alias, and {sentence}")]
    Unbound {
        /// A sentence that names the fault of the target and the remedy.
        sentence: Arc<str>,
    },
    /// The variable is an alias, and its target refuses the write.
    #[error("{target}, which the variable is an alias of, refuses: {refusal}")]
    Target {
        /// Name of the target; in a chain of aliases, of the last one.
        target: Arc<str>,
        /// The target's refusal.
        refusal: Box<Refusal>,
    },
    /// The variable is forced (H-27).
    #[error("the variable is forced by {by}; have it unforced, then write again")]
    Forced {
        /// Caller that forced it.
        by: Arc<str>,
    },
    /// Another session holds the variable's lease (B-22).
    #[error(
        "the variable is leased by {by} for {left:?} more; wait until it is given back or over"
    )]
    Leased {
        /// Caller that holds the lease.
        by: Arc<str>,
        /// Time until the lease ends.
        left: Duration,
    },
    /// The session does not hold the variable's lease, or no longer holds it.
    #[error("you do not hold the lease of this variable, or no longer; read it, then acquire it")]
    NotLeased,
    /// The variable has a single writer, which is another session (H-19).
    #[error(
        "the variable has a single writer, which is {by}; you take over when it disconnects and \
             those before you have gone"
    )]
    SingleWriter {
        /// Caller that is the single writer.
        by: Arc<str>,
    },
    /// The variable is not forced.
    #[error("the variable is not forced; `trunkline force --list` lists those that are")]
    NotForced,
    /// The variable has no value that could be sent.
    #[error("nothing was written to the variable yet, so there is nothing to send; set it first")]
    NoValue,
    /// The variable's library is stopped.
    #[error("the variable's library is stopped; start it, then write again")]
    LibraryStopped,
    /// The write belongs to a group in which another member was refused (B-23).
    #[error("not written: the whole group was refused because of {name}")]
    Group {
        /// Name of the first member that was refused by a rule of its own.
        name: Arc<str>,
    },
    /// The write cannot be part of a group: it is not a client's put or set, its value belongs to a
    /// provider, or the variable is an alias.
    #[error("{why}")]
    NotGroupable {
        /// The reason, and what to do instead.
        why: &'static str,
    },
    /// The group contains the variable twice.
    #[error("the group has this variable twice; write it once")]
    TwiceInGroup,
    /// The group has more variables than allowed.
    #[error("a group has at most {max} variables, this one has {given}; make several of it")]
    GroupTooLarge {
        /// Number of variables in the group.
        given: usize,
        /// Maximum number of variables in a group.
        max: usize,
    },
    /// The handle does not belong to this engine, or to no variable that the caller can see.
    #[error("{handle} is no handle of this engine; open the variable by its name")]
    UnknownHandle {
        /// The handle.
        handle: u32,
    },
    /// The provider has too many unanswered writes.
    #[error("{provider} has not yet answered {pending} earlier writes; write less often or wait")]
    ProviderBusy {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// Number of writes that the provider has not answered.
        pending: usize,
    },
    /// The provider refused the write.
    #[error("{provider} refused: {reason}")]
    Provider {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// Reason given by the provider.
        reason: String,
    },
    /// The provider is not running.
    #[error("{provider}, which this variable is written through, is not running; start it")]
    ProviderGone {
        /// Name of the I/O server.
        provider: Arc<str>,
    },
}

/// The reason why the outcome of a write is unknown.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnknownCause {
    /// The provider did not answer within its time limit.
    #[error("{provider} did not answer within its time; read the variable to see what it holds")]
    ProviderTimedOut {
        /// Name of the I/O server.
        provider: Arc<str>,
    },
    /// The provider stopped before it answered.
    #[error("{provider} stopped before it answered; read the variable to see what it holds")]
    ProviderGone {
        /// Name of the I/O server.
        provider: Arc<str>,
    },
    /// The provider does not know the outcome either.
    #[error("{provider} does not know whether it took effect: {why}")]
    Provider {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// Reason given by the provider.
        why: String,
    },
    /// The provider accepted the value, but the value it read back is not a value of the variable.
    #[error(
        "{provider} took the value, but what it then read back is no value of the variable: {why}"
    )]
    ReadBack {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// The rule that the value read back breaks.
        why: String,
    },
    /// The provider accepted the value, but there is no memory for the value it read back.
    #[error("{provider} took the value, but what it then read back cannot be shown: {error}")]
    ReadBackMemory {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// Error with the amount of memory needed.
        error: NoMemory,
    },
}

/// The reason why a variable could not be opened, read or subscribed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum AccessError {
    /// No variable has this name.
    #[error("{}", unknown_name(name, suggestion.as_deref()))]
    UnknownName {
        /// The requested name.
        name: String,
        /// The nearest existing name, if it was looked up with `Engine::suggest`.
        suggestion: Option<String>,
    },
    /// Variables have no field of this name.
    #[error("{name} has no field {field}; there are {known}")]
    UnknownField {
        /// Name of the variable.
        name: String,
        /// The requested field.
        field: String,
        /// The names of the fields that there are.
        known: String,
    },
    /// The name breaks the rules of names.
    #[error("{0}")]
    InvalidName(trunkline_types::name::NameError),
    /// The variable's access forbids reading.
    #[error("the variable is write-only; change `access` in its library to read it")]
    NotReadable,
    /// The caller lacks the right to read.
    #[error("you may not read this variable; ask its administrator for the right to read")]
    Denied,
    /// The variable was undeployed.
    #[error("the variable is no longer deployed; open it again by its name")]
    Gone,
    /// The handle does not belong to this engine, or to no variable that the caller can see.
    #[error("{handle} is no handle of this engine; open the variable by its name")]
    UnknownHandle {
        /// The handle.
        handle: u32,
    },
    /// A limit of the session or the engine was reached.
    #[error("{what} is limited to {max}; {hint}")]
    Limit {
        /// The limited resource, as the subject of the message.
        what: &'static str,
        /// The maximum number.
        max: u64,
        /// The remedy.
        hint: &'static str,
    },
    /// The memory for updates queued for subscribers is full.
    #[error(
        "the engine's memory for waiting updates ({max} bytes) is full: slow subscribers hold it; \
         try again when they have caught up, subscribe with `latest`, or raise `queue_bytes_max`"
    )]
    MemoryFull {
        /// Size of that memory in bytes.
        max: u64,
    },
    /// The contract is invalid.
    #[error("{0}")]
    Contract(&'static str),
}

fn unknown_name(name: &str, suggestion: Option<&str>) -> String {
    match suggestion {
        Some(suggestion) => format!("no variable is named {name}; did you mean {suggestion}?"),
        None => format!("no variable is named {name}; `trunkline find` lists those there are"),
    }
}

impl AccessError {
    /// The code of the fault.
    pub fn code(&self) -> FaultCode {
        match self {
            AccessError::UnknownName { .. } => FaultCode::UnknownName,
            AccessError::UnknownField { .. } => FaultCode::UnknownField,
            AccessError::InvalidName(_) => FaultCode::BadName,
            AccessError::NotReadable => FaultCode::NotReadable,
            AccessError::Denied => FaultCode::Denied,
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
    /// The code of the fault.
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
    /// The code of the fault.
    pub fn code(&self) -> FaultCode {
        match self {
            Refusal::ReadOnly => FaultCode::NotWritable,
            Refusal::Denied => FaultCode::Denied,
            Refusal::WrongType { .. } => FaultCode::WrongType,
            Refusal::InvalidValue(_) | Refusal::Length { .. } => FaultCode::InvalidValue,
            Refusal::OutOfRange { .. } | Refusal::Scaling(_) => FaultCode::OutOfRange,
            Refusal::TooLarge { .. } | Refusal::GroupTooLarge { .. } => FaultCode::TooLarge,
            Refusal::Leased { .. } => FaultCode::Leased,
            Refusal::NotLeased => FaultCode::NotLeased,
            Refusal::SingleWriter { .. } => FaultCode::SingleWriter,
            Refusal::Group { .. } => FaultCode::GroupRefused,
            Refusal::NotGroupable { .. } => FaultCode::NotGroupable,
            Refusal::TwiceInGroup => FaultCode::TwiceInGroup,
            Refusal::UnknownHandle { .. } => FaultCode::UnknownHandle,
            Refusal::Late { .. } => FaultCode::Late,
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

    /// Returns the refusal that an access type implies for a client's write.
    pub(crate) fn by_access(access: Access) -> Option<Refusal> {
        (access == Access::ReadOnly).then_some(Refusal::ReadOnly)
    }

    /// Wraps the refusal for the writer of an alias of `target`. In a chain of aliases it names the
    /// last target.
    pub(crate) fn of_target(self, target: &str) -> Refusal {
        match self {
            named @ Refusal::Target { .. } => named,
            refusal => Refusal::Target {
                target: Arc::from(target),
                refusal: Box::new(refusal),
            },
        }
    }
}
