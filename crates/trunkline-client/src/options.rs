//! Options of the client, of opening and of subscribing.

use std::time::Duration;

use trunkline_proto::limits::{ITEMS_MAX_DEFAULT, WINDOW_BYTES_DEFAULT, WINDOW_RECORDS_DEFAULT};
use trunkline_proto::{Backoff, Negotiation, ThroughputMode};
use trunkline_types::Contract;

/// The identity of the client, and the limits on its memory. When a limit is reached, the call is
/// refused and has no effect, as documented for each verb.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The client's name, shown to operators of the engine.
    pub client_name: String,
    /// The program's name and release.
    pub program: String,
    /// The user under which the program runs.
    pub user: String,
    /// The process id; 0 if unknown.
    pub pid: u32,
    /// Supported versions and features, and frame sizes.
    pub negotiation: Negotiation,
    /// Gathers data before sending at both ends, if the engine supports that. `None`: data is sent
    /// at once.
    pub throughput_mode: Option<ThroughputMode>,
    /// Maximum number of unacknowledged update records that the engine may send.
    pub window_records: u32,
    /// Maximum size of those records in bytes.
    pub window_bytes: u32,
    /// Upper limit of the first wait before dialling again. It doubles with each attempt.
    pub backoff_base: Duration,
    /// Upper limit of any wait before dialling again.
    pub backoff_max: Duration,
    /// Seed for the jitter: different for every process, fixed in a simulation.
    pub seed: u64,
    /// Maximum number of requests that are unanswered, or whose answers were not taken.
    pub requests_max: usize,
    /// Maximum number of items in those requests, and in the answer to one FIND.
    pub request_items_max: usize,
    /// Maximum number of items of all subscriptions together.
    pub items_max: usize,
    /// Maximum number of writes waiting to be sent, and of outcomes waiting to be taken.
    pub writes_max: usize,
    /// Maximum total size of the values of writes waiting to be sent, in bytes.
    pub write_bytes_max: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            client_name: String::new(),
            program: String::new(),
            user: String::new(),
            pid: 0,
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

/// The need for an access when variables are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Need {
    /// The access is used if the variable permits it.
    #[default]
    Allowed,
    /// Opening fails if the variable forbids the access.
    Required,
    /// The access is not wanted, and is removed from the opened variable's access.
    None,
}

/// Options of opening variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// True to include the current readings in the answer.
    pub include_readings: bool,
    /// True to include the properties in the answer.
    pub describe: bool,
    /// The need for read access.
    pub reading: Need,
    /// The need for write access.
    pub writing: Need,
}

/// Options of a subscription, in addition to its contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeOptions {
    /// Delivers only updates that differ from the previous one in value or quality. Other updates
    /// count as filtered.
    pub only_changes: bool,
    /// Leaves out updates that result from this client's own writes.
    pub own_suppressed: bool,
    /// Age beyond which readings are stale. `None`: the age from the variable's properties, if
    /// known.
    pub max_age: Option<Duration>,
    /// Resumes an `all` subscription after an overrun, once the program has taken all queued
    /// events, including the end. Otherwise the subscription stays ended.
    pub reopen: bool,
    /// Maximum size of queued readings under `last:n` and `first:n`, for all items together: values
    /// in wire form, plus 120 bytes per reading. Beyond it, updates are dropped as they are beyond
    /// `n`, but every item keeps at least one. Under `all` only the contract's bound applies: its
    /// number of elements limits the overhead of the readings.
    pub buffer_bytes_max: usize,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        Self {
            only_changes: false,
            own_suppressed: false,
            max_age: None,
            reopen: true,
            buffer_bytes_max: 64 << 20,
        }
    }
}

/// The error for a buffer of one element, which would buffer nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a buffer of 1 element buffers nothing; use 0 for the newest value only, or 2 or more")]
pub struct BufferError;

/// Returns the contract for a buffer size: 0 means only the newest value, 2 or more means a buffer
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
