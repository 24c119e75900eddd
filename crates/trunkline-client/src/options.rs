//! Options for the client, for opening and for subscribing.

use std::time::Duration;

use trunkline_proto::limits::{ITEMS_MAX_DEFAULT, WINDOW_BYTES_DEFAULT, WINDOW_RECORDS_DEFAULT};
use trunkline_proto::{Backoff, Negotiation, Throughput};
use trunkline_types::Contract;

/// The identity of the client, and the bounds of its memory. Each verb documents its behaviour at
/// its bound: the call is refused and has no effect.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The client's name, shown to people who inspect the engine.
    pub client_name: String,
    /// The program and its release.
    pub program: String,
    /// The user that the program runs as.
    pub user: String,
    /// The process id; 0 if unknown.
    pub pid: u32,
    /// Supported versions and features, and frame sizes.
    pub negotiation: Negotiation,
    /// Gathers data before sending at both ends, if the engine supports it. `None` sends everything
    /// at once.
    pub throughput: Option<Throughput>,
    /// Maximum number of update records that the engine may send before they are acknowledged.
    pub window_records: u32,
    /// Maximum size of those records in bytes.
    pub window_bytes: u32,
    /// Upper bound of the first wait before dialling again; doubles with each attempt.
    pub backoff_base: Duration,
    /// Upper bound of any wait before dialling again.
    pub backoff_max: Duration,
    /// Seed for the jitter: different for every process, fixed in a simulation.
    pub seed: u64,
    /// Maximum number of requests that are unanswered, or answered and not taken.
    pub requests_max: usize,
    /// Maximum number of items of those requests, and of the answer to one FIND.
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
            throughput: None,
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

/// The need for an access when a variable is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Need {
    /// The access is used if the variable permits it.
    #[default]
    Allowed,
    /// Opening fails if the variable forbids the access.
    Required,
    /// The access is not wanted, and is left out of the opened variable's access.
    None,
}

/// Options of an opening, beyond handles and types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// True to include the current readings in the answer.
    pub read: bool,
    /// True to include the properties in the answer.
    pub describe: bool,
    /// The need for read access.
    pub reading: Need,
    /// The need for write access.
    pub writing: Need,
}

/// Options of a subscription, beyond its contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeOptions {
    /// Delivers only updates that differ from the previous one in value or quality. The others are
    /// counted as filtered.
    pub only_changes: bool,
    /// Leaves out the updates that this client wrote itself.
    pub own_suppressed: bool,
    /// Age beyond which readings are stale. `None` uses the variable's properties, if known.
    pub max_age: Option<Duration>,
    /// Resumes an `all` subscription that has overrun its bound, once the program has taken
    /// everything that waited, including the end. Otherwise the subscription stays ended.
    pub reopen: bool,
    /// Bytes that may wait under `last:n` and `first:n`, for all items together: values in wire
    /// form, plus 120 bytes per reading. Beyond this limit, updates are dropped as they are at `n`,
    /// but every item keeps one. For `all` the bound is in the contract: its number of elements
    /// limits the overhead of its readings.
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

/// A buffer of one element is rejected because it would buffer nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a buffer of 1 element holds nothing back; use 0 for the newest value only, or 2 and more")]
pub struct BufferError;

/// Returns the contract for a plain buffer size: 0 is the newest value only, 2 or more is a buffer
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
