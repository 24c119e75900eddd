//! Options for clients, for opening variables and for subscriptions.

use std::time::Duration;

use trunkline_proto::limits::{ITEMS_MAX_DEFAULT, WINDOW_BYTES_DEFAULT, WINDOW_RECORDS_DEFAULT};
use trunkline_proto::{Backoff, Negotiation, ThroughputMode};
use trunkline_types::Contract;

use trunkline_proto::Credentials;

/// The identity of a client, and the limits of its memory. A call that would exceed a limit is
/// refused and has no effect; each verb documents its error.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The client's name, as operators of the engine see it.
    pub client_name: String,
    /// The name and release of the program.
    pub program: String,
    /// The user under which the program runs.
    pub user: String,
    /// The process id; 0 if unknown.
    pub pid: u32,
    /// The proof of the client's identity, for connections between machines. With `None`, the
    /// engine knows the client only by the user id that the system reports.
    pub credentials: Option<Credentials>,
    /// Supported versions and features, and frame sizes.
    pub negotiation: Negotiation,
    /// Settings of throughput mode, in which both ends gather data before sending it, if the engine
    /// supports this. With `None`, data is sent at once.
    pub throughput_mode: Option<ThroughputMode>,
    /// Maximum number of unacknowledged update records that the engine may send.
    pub window_records: u32,
    /// Maximum size of these records in bytes.
    pub window_bytes: u32,
    /// Upper limit of the delay before the first new attempt to dial. It doubles with each attempt.
    pub backoff_base: Duration,
    /// Upper limit of the delay before any attempt to dial.
    pub backoff_max: Duration,
    /// Seed of the random delays: different for every process, fixed in a simulation.
    pub seed: u64,
    /// Maximum number of requests that are unanswered, or whose answers the program has not taken.
    pub requests_max: usize,
    /// Maximum number of items in these requests, and in the answer to one FIND.
    pub request_items_max: usize,
    /// Maximum number of items of all subscriptions together.
    pub items_max: usize,
    /// Maximum number of writes that wait to be sent, and of outcomes that wait to be taken.
    pub writes_max: usize,
    /// Maximum total size in bytes of the values of writes that wait to be sent.
    pub write_bytes_max: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            client_name: String::new(),
            program: String::new(),
            user: String::new(),
            pid: 0,
            credentials: None,
            negotiation: Negotiation::OURS,
            throughput_mode: None,
            window_records: WINDOW_RECORDS_DEFAULT,
            window_bytes: WINDOW_BYTES_DEFAULT,
            backoff_base: Backoff::BASE,
            backoff_max: Backoff::CAP,
            seed: 0,
            requests_max: 4096,
            request_items_max: 4_000_000,
            items_max: ITEMS_MAX_DEFAULT as usize,
            writes_max: 1_000_000,
            write_bytes_max: 64 << 20,
        }
    }
}

/// How an opening treats read access, or write access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Need {
    /// The access is used if the variable permits it.
    #[default]
    Allowed,
    /// The opening fails if the variable does not permit the access.
    Required,
    /// The access is not used, even if the variable permits it.
    None,
}

/// Options for opening variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// If true, the answer includes the current readings.
    pub include_readings: bool,
    /// If true, the answer includes the properties.
    pub describe: bool,
    /// Treatment of read access.
    pub reading: Need,
    /// Treatment of write access.
    pub writing: Need,
}

/// Options of a subscription, in addition to its contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeOptions {
    /// Delivers only updates whose value or quality differs from the previous update. Other updates
    /// count as filtered.
    pub only_changes: bool,
    /// Excludes updates that result from this client's own writes.
    pub own_suppressed: bool,
    /// The updates are for a recording. The engine then requires the action `record` on each variable
    /// as well.
    pub recorded: bool,
    /// Age above which readings are stale. With `None`, the maximum age in the variable's
    /// properties applies, if known.
    pub max_age: Option<Duration>,
    /// If true, an `all` subscription resumes after an overrun as soon as the program has taken all
    /// queued events, including the end. If false, the subscription stays ended.
    pub reopen: bool,
    /// Maximum size in bytes of the queued readings of all items under `last:n` and `first:n`. A
    /// reading counts as its encoded value plus 120 bytes. Above the limit, updates are dropped in
    /// the same way as above `n`, but every item keeps at least one. Under `all`, only the
    /// contract's bound applies; its number of elements also limits the memory besides the values.
    pub buffer_bytes_max: usize,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        Self {
            only_changes: false,
            own_suppressed: false,
            recorded: false,
            max_age: None,
            reopen: true,
            buffer_bytes_max: 64 << 20,
        }
    }
}

/// The error for a buffer of one element, which buffers nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a buffer of 1 element buffers nothing; use 0 for the newest value only, or at least 2")]
pub struct BufferError;

/// Returns the contract for a buffer size: 0 is the newest value only, and at least 2 is a buffer
/// that drops its oldest element.
///
/// # Errors
/// [`BufferError`] for a size of 1.
pub fn contract_of_buffer(elements: u32) -> Result<Contract, BufferError> {
    match elements {
        0 => Ok(Contract::Latest),
        1 => Err(BufferError),
        elements => Ok(Contract::Last(elements)),
    }
}
