//! Errors of calls that had no effect. Faults of single items are in the answers instead.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::{Disconnect, Frame};
use trunkline_types::Contract;
use trunkline_types::contract::{BUFFER_ELEMENTS_MAX, SAMPLED_PERIOD_MIN};

/// The reason why a request was not accepted. The request had no effect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// The client no longer tries to connect, or was closed.
    #[error("not connected, and the client no longer tries to connect: {cause}")]
    Closed {
        /// The reason why there is no connection.
        cause: Arc<Disconnect>,
    },
    /// Too many requests are unanswered or have untaken answers.
    #[error(
        "{max} requests are unanswered or have answers that the program has not collected; collect \
         the answers, or put more items into one request"
    )]
    TooManyRequests {
        /// The maximum number of requests.
        max: usize,
    },
    /// The requests would have too many items together.
    #[error(
        "{items} more items would exceed the limit of {max} items in requests; collect answers \
         first"
    )]
    TooManyItems {
        /// Number of items in this request.
        items: usize,
        /// The maximum number of items.
        max: usize,
    },
}

/// The reason why a subscription was not created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The client no longer tries to connect, or was closed.
    #[error("not connected, and the client no longer tries to connect: {cause}")]
    Closed {
        /// The reason why there is no connection.
        cause: Arc<Disconnect>,
    },
    /// The contract's number is out of range.
    #[error(
        "the contract {contract} is out of range; a buffer has 1 to {BUFFER_ELEMENTS_MAX} \
         elements, and a period is at least {} us", SAMPLED_PERIOD_MIN.as_micros()
    )]
    Contract {
        /// The requested contract.
        contract: Contract,
    },
    /// The client would have too many items.
    #[error(
        "{items} more items would exceed the limit of {max} per client; end other subscriptions \
         first"
    )]
    TooManyItems {
        /// Number of items in this subscription.
        items: usize,
        /// The maximum number of items per client.
        max: usize,
    },
}

/// The reason why writes were not accepted. None of the call's writes is carried out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// The group has no writes, or too many.
    #[error(
        "a group has 1 to {max} writes, but this one has {writes}; split it into several groups"
    )]
    Group {
        /// Number of writes in the group.
        writes: usize,
        /// The maximum number of writes.
        max: usize,
    },
    /// The client no longer tries to connect, or was closed.
    #[error("not connected, and the client no longer tries to connect: {cause}")]
    Closed {
        /// The reason why there is no connection.
        cause: Arc<Disconnect>,
    },
    /// The queue of unsent writes is full: the program writes faster than the engine accepts
    /// writes, or there is no connection.
    #[error(
        "{waiting} writes with {bytes} bytes are waiting to be sent; wait until some are sent, then \
         try again"
    )]
    WouldBlock {
        /// Number of queued writes.
        waiting: usize,
        /// Total size of the queued values in bytes.
        bytes: usize,
    },
    /// The program has not taken too many of the outcomes.
    #[error(
        "{waiting} writes have outcomes that the program has not collected; collect them with \
         `take_outcomes`, or use `write_untracked`"
    )]
    OutcomesNotTaken {
        /// Number of outcomes that the program has not taken, including those of unanswered writes.
        waiting: usize,
    },
}

/// Checks that the contract's number is within its range.
pub(crate) fn check_contract(contract: Contract) -> Result<(), SubscribeError> {
    let fits = match contract {
        Contract::Latest => true,
        Contract::Last(n) | Contract::First(n) => (1..=BUFFER_ELEMENTS_MAX).contains(&n),
        Contract::All { elements, bytes } => {
            (1..=BUFFER_ELEMENTS_MAX).contains(&elements) && bytes > 0
        }
        Contract::Sampled(period) => (SAMPLED_PERIOD_MIN..=Duration::MAX).contains(&period),
    };
    if fits {
        Ok(())
    } else {
        Err(SubscribeError::Contract { contract })
    }
}

/// The error for an engine that violates the protocol.
pub(crate) fn malformed(sentence: String) -> Disconnect {
    Disconnect::Malformed { sentence }
}

/// The error for an answer that does not match the request.
pub(crate) fn wrong_answer(frame: &Frame<'_>) -> Disconnect {
    let kind = frame.kind().map_or("a frame", |kind| kind.name());
    malformed(format!(
        "the engine answered a request with {kind}, which does not match the request"
    ))
}
