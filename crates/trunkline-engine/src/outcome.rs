//! How a write ends: the whole truth in five words, and why it was refused.

use std::sync::Arc;
use std::time::Duration;

use trunkline_types::scaling::ScalingError;
use trunkline_types::wire::DecodeError;
use trunkline_types::{Access, Tick, Timestamp};

use crate::update::NoMemory;

/// The end of a write. Every write has exactly one (B-20).
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum WriteOutcome {
    /// It is the variable's update with this sequence number.
    Applied {
        /// Its number within the epoch.
        sequence: u64,
    },
    /// It lies within the deadband of the current value, which has this sequence number.
    Unchanged {
        /// The number of the update it equals.
        sequence: u64,
    },
    /// A newer value of the same writer took its place, under the `newest` write mode only.
    Superseded {
        /// The number of the update that took its place.
        sequence: u64,
    },
    /// It changed nothing; the rule says why.
    Refused(Refusal),
    /// Nobody can say whether it took effect.
    Unknown(UnknownCause),
}

/// The result of trying a write without ever waiting.
#[derive(Clone, PartialEq, Debug)]
pub enum Attempt {
    /// It has ended.
    Done(WriteOutcome),
    /// An `all` subscription is at its bound and the variable's owner lets writers wait for it, or
    /// the audit has no room. The write has no number and is not counted; try again when woken, or
    /// at `until` at the latest.
    WouldBlock {
        /// When the write is to be tried again, woken or not: the subscription may have ended with
        /// `overrun` by then.
        until: Tick,
    },
    /// The variable's provider was asked; the outcome comes through the consumer under the write's
    /// id.
    Pending,
}

/// Why a write was refused: the rule, in the words of who has to act.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The system has no memory for a copy of the value.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The access type forbids it.
    #[error("the variable is read-only: only its source writes it; change `access` in its library")]
    ReadOnly,
    /// The caller's rights forbid it.
    #[error("you may not write this variable; ask its administrator for the right to write")]
    Denied,
    /// Another type of value.
    #[error("the variable is {expected}, the value is not; write a value of that type")]
    WrongType {
        /// The variable's type as text.
        expected: String,
    },
    /// The bytes are not a value of the type.
    #[error("the value cannot be read: {0}; the writing program is at fault")]
    InvalidValue(DecodeError),
    /// Another length than the real-time FIFO's elements have.
    #[error(
        "the value has {given} elements, the variable's FIFO takes {expected}; write {expected}"
    )]
    Length {
        /// Elements that every value has to have.
        expected: u64,
        /// Elements it has.
        given: u64,
    },
    /// Outside the engineering range, and the variable does not coerce.
    #[error("the value is outside the range {low} to {high}; write a value within it")]
    OutOfRange {
        /// Lowest value.
        low: f64,
        /// Highest value.
        high: f64,
    },
    /// More bytes than a value may have.
    #[error("the value has {bytes} bytes, more than the limit of {max}; write less at once")]
    TooLarge {
        /// Its size in wire form.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Measured before the live value.
    #[error("the sample is older than the live value ({live:?}): it cannot replace it")]
    Late {
        /// Source timestamp of the live value.
        live: Timestamp,
    },
    /// The value cannot be scaled.
    #[error("{0}")]
    Scaling(ScalingError),
    /// The audit has to be complete, and is full: its entries cannot be stored.
    #[error(
        "the audit of this variable has to be complete, and the engine cannot store its entries; \
         `trunkline limits` says why: make room for the store, then write again"
    )]
    AuditFull,
    /// The variable was undeployed.
    #[error("the variable is no longer deployed; open it again by its name")]
    Gone,
    /// The variable is not where the writer expected it (B-22).
    #[error(
        "the variable is at update {actual} of epoch {epoch}, not where the writer expected it; \
             read it again, then decide"
    )]
    Conflict {
        /// The engine's epoch.
        epoch: u64,
        /// The number of its newest update.
        actual: u64,
    },
    /// The variable is an alias, and its target is not there or does not fit.
    #[error("the variable is an alias, and {sentence}")]
    Unbound {
        /// What is wrong with the target and what to do.
        sentence: Arc<str>,
    },
    /// The variable is an alias, and its target refuses.
    #[error("{target}, which the variable is an alias of, refuses: {refusal}")]
    Target {
        /// Its name.
        target: Arc<str>,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// Somebody holds the variable at a value (H-27).
    #[error("the variable is forced by {by}; have it unforced, then write again")]
    Forced {
        /// Who.
        by: Arc<str>,
    },
    /// Another session holds its lease (B-22).
    #[error(
        "the variable is leased by {by} for {left:?} more; wait until it is given back or over"
    )]
    Leased {
        /// Who.
        by: Arc<str>,
        /// For how long.
        left: Duration,
    },
    /// This session does not hold its lease, or no longer.
    #[error("you do not hold the lease of this variable, or no longer; read it, then acquire it")]
    NotLeased,
    /// It has a single writer, and that is another session (H-19).
    #[error(
        "the variable has a single writer, which is {by}; you take over when it disconnects and \
             those before you have gone"
    )]
    SingleWriter {
        /// Who.
        by: Arc<str>,
    },
    /// It is not forced.
    #[error("the variable is not forced; `trunkline force --list` lists those that are")]
    NotForced,
    /// There is no value that could be sent.
    #[error("nothing was written to the variable yet, so there is nothing to send; set it first")]
    NoValue,
    /// The variable's library is stopped.
    #[error("the variable's library is stopped; start it, then write again")]
    LibraryStopped,
    /// It was written in a group of which another member was refused (B-23).
    #[error("not written: the whole group was refused because of {name}")]
    Group {
        /// The member that was refused first, by its rule.
        name: Arc<str>,
    },
    /// It can have no part in a group: its value is its provider's, or it is no plain write.
    #[error("{why}")]
    NotGroupable {
        /// What to do instead.
        why: &'static str,
    },
    /// A group has it twice.
    #[error("the group has this variable twice; write it once")]
    TwiceInGroup,
    /// More variables than a group may have.
    #[error("a group has at most {max} variables, this one has {given}; make several of it")]
    GroupTooLarge {
        /// Variables it has.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// A handle that is none of this engine's, or none that the caller can see.
    #[error("{handle} is no handle of this engine; open the variable by its name")]
    UnknownHandle {
        /// The handle.
        handle: u32,
    },
    /// The provider has too many writes to answer.
    #[error("{provider} has not yet answered {pending} earlier writes; write less often or wait")]
    ProviderBusy {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// Writes it has not answered.
        pending: usize,
    },
    /// The provider said no.
    #[error("{provider} refused: {reason}")]
    Provider {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// What it said.
        reason: String,
    },
    /// The provider is not running.
    #[error("{provider}, which this variable is written through, is not running; start it")]
    ProviderGone {
        /// Name of the I/O server.
        provider: Arc<str>,
    },
}

/// Why the outcome of a write cannot be known.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownCause {
    /// The provider did not answer in time.
    #[error("{provider} did not answer within its time; read the variable to see what it holds")]
    ProviderTimedOut {
        /// Name of the I/O server.
        provider: Arc<str>,
    },
    /// The provider went away before it answered.
    #[error("{provider} stopped before it answered; read the variable to see what it holds")]
    ProviderGone {
        /// Name of the I/O server.
        provider: Arc<str>,
    },
    /// The provider itself does not know.
    #[error("{provider} does not know whether it took effect: {why}")]
    Provider {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// What it said.
        why: String,
    },
    /// The provider says it is done, but what it says the device holds cannot be shown.
    #[error(
        "{provider} took the value, but what it then read back is no value of the variable: {why}"
    )]
    ReadBack {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// The rule that the value read back breaks.
        why: String,
    },
    /// The provider says it is done, and the system has no memory for what the device holds.
    #[error("{provider} took the value, but what it then read back cannot be shown: {error}")]
    ReadBackMemory {
        /// Name of the I/O server.
        provider: Arc<str>,
        /// How much there would have to be.
        error: NoMemory,
    },
}

/// Why a variable could not be opened, read or subscribed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// No such name.
    #[error("{}", unknown_name(name, suggestion.as_deref()))]
    UnknownName {
        /// What was asked for.
        name: String,
        /// The nearest name there is, when somebody has looked for it with `Engine::suggest`.
        suggestion: Option<String>,
    },
    /// Variables have no such field.
    #[error("{}", unknown_field(name, field))]
    UnknownField {
        /// The variable.
        name: String,
        /// What was asked for.
        field: String,
    },
    /// The name breaks the rules of names.
    #[error("{0}")]
    InvalidName(trunkline_types::name::NameError),
    /// The access type forbids reading.
    #[error("the variable is write-only; change `access` in its library to read it")]
    NotReadable,
    /// The caller's rights forbid it.
    #[error("you may not read this variable; ask its administrator for the right to read")]
    Denied,
    /// The variable was undeployed.
    #[error("the variable is no longer deployed; open it again by its name")]
    Gone,
    /// A handle that is none of this engine's, or none that the caller can see.
    #[error("{handle} is no handle of this engine; open the variable by its name")]
    UnknownHandle {
        /// The handle.
        handle: u32,
    },
    /// A session or engine limit.
    #[error("{what} is limited to {max}; {hint}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The limit.
        max: u64,
        /// What to do.
        hint: &'static str,
    },
    /// The memory for updates that wait for subscribers is full.
    #[error(
        "the engine's memory for waiting updates ({max} bytes) is full: slow subscribers hold it; \
         try again when they have caught up, subscribe with `latest`, or raise `queue_bytes_max`"
    )]
    MemoryFull {
        /// How many bytes it has.
        max: u64,
    },
    /// The contract makes no sense.
    #[error("{0}")]
    Contract(&'static str),
}

fn unknown_field(name: &str, field: &str) -> String {
    let known: Vec<&str> = crate::field::FIELDS
        .iter()
        .map(|field| field.name)
        .collect();
    format!(
        "{name} has no field {field}; there are {}",
        known.join(", ")
    )
}

fn unknown_name(name: &str, suggestion: Option<&str>) -> String {
    match suggestion {
        Some(suggestion) => format!("no variable is named {name}; did you mean {suggestion}?"),
        None => format!("no variable is named {name}; `trunkline find` lists those there are"),
    }
}

impl Refusal {
    /// The refusal that an access type implies for a client's write.
    pub(crate) fn by_access(access: Access) -> Option<Refusal> {
        (access == Access::ReadOnly).then_some(Refusal::ReadOnly)
    }

    /// The same, for the writer of an alias of `target`; of a chain the last one is named.
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
