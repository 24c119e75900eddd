//! What a caller may choose: for the client, for opening, for subscribing.

use std::time::Duration;

use trunkline_proto::limits::{ITEMS_MAX_DEFAULT, WINDOW_BYTES_DEFAULT, WINDOW_RECORDS_DEFAULT};
use trunkline_proto::{Backoff, Negotiation, Throughput};
use trunkline_types::Contract;

/// Who the client is, and the bounds of what it keeps. What happens at each bound is said at the
/// verb that meets it: the call is refused and nothing of it is done.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// What the client calls itself; shown to people who look at the engine.
    pub client_name: String,
    /// Its program and release.
    pub program: String,
    /// The user it runs as.
    pub user: String,
    /// Its process id; 0 when unknown.
    pub pid: u32,
    /// Versions, features and frame sizes it speaks.
    pub negotiation: Negotiation,
    /// Gathers what either end sends, where the engine does so as well; `None`: everything is sent
    /// at once.
    pub throughput: Option<Throughput>,
    /// Update records the engine may send before they are acknowledged.
    pub window_records: u32,
    /// Bytes of those records.
    pub window_bytes: u32,
    /// Ceiling of the first wait before dialling again; doubled from attempt to attempt.
    pub backoff_base: Duration,
    /// Ceiling of any wait before dialling again.
    pub backoff_max: Duration,
    /// Start of the jitter's random numbers: different for every process, fixed in a simulation.
    pub seed: u64,
    /// Requests that may be unanswered, or answered and not taken.
    pub requests_max: usize,
    /// Items of those requests, and of one FIND's answer.
    pub request_items_max: usize,
    /// Items of all subscriptions together.
    pub items_max: usize,
    /// Writes that may wait to be sent, and outcomes that may wait to be taken.
    pub writes_max: usize,
    /// Bytes of the values of the writes that wait to be sent.
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

/// Whether an access is needed when a variable is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Need {
    /// Used where the variable allows it.
    #[default]
    Allowed,
    /// Opening fails where the variable forbids it.
    Required,
    /// Not wanted: left out of what the opened variable says can be done with it.
    None,
}

/// What opening asks for beside handles and types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// The answer carries the current readings.
    pub read: bool,
    /// The answer carries the properties.
    pub describe: bool,
    /// Whether it will be read.
    pub reading: Need,
    /// Whether it will be written.
    pub writing: Need,
}

/// What a subscription asks for beside its contract.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeOptions {
    /// Only updates that differ from the one before in value or quality; the others are counted as
    /// filtered.
    pub only_changes: bool,
    /// Not the updates that this client wrote itself.
    pub own_suppressed: bool,
    /// Readings older than this are stale; `None`: as the variable's properties say, if they are
    /// known.
    pub max_age: Option<Duration>,
    /// When an `all` subscription has overrun its bound: go on from there, once the program has
    /// taken everything that waited, the end included. Otherwise it stays ended.
    pub reopen: bool,
    /// Bytes that may wait under `last:n` and `first:n`, all items together: values in wire form,
    /// and 120 for each reading; beyond, they drop as they do at `n`, and every item keeps one. The
    /// bound of `all` is in its contract: its elements bound what its readings take.
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

/// A buffer of one element would be no buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a buffer of 1 element holds nothing back; use 0 for the newest value only, or 2 and more")]
pub struct BufferError;

/// The contract that a plain buffer size means: 0 the newest value only, 2 and more a buffer that
/// drops its oldest.
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
