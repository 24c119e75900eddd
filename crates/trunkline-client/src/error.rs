//! Why a call did nothing. What goes wrong with a single item stands in the answer instead.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Disconnect;
use trunkline_types::Contract;
use trunkline_types::contract::{BUFFER_ELEMENTS_MAX, SAMPLED_PERIOD_MIN};

/// A request was not accepted; nothing of it was done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The client has given up on the connection, or was closed.
    #[error("there is no connection and none will be made: {cause}")]
    Closed {
        /// Why.
        cause: Arc<Disconnect>,
    },
    /// Too many requests at once.
    #[error(
        "{max} requests are unanswered or their answers were not taken; take the answers, or put \
         more items into one request"
    )]
    TooManyRequests {
        /// The bound.
        max: usize,
    },
    /// Too many items at once.
    #[error(
        "{items} items more would exceed the {max} that may be asked for at once; take answers first"
    )]
    TooManyItems {
        /// Items of this request.
        items: usize,
        /// The bound.
        max: usize,
    },
}

/// A subscription was not made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The client has given up on the connection, or was closed.
    #[error("there is no connection and none will be made: {cause}")]
    Closed {
        /// Why.
        cause: Arc<Disconnect>,
    },
    /// The contract's number is out of its range.
    #[error(
        "the contract {contract} cannot be kept; a buffer has 1 to {BUFFER_ELEMENTS_MAX} elements, a \
         period is at least {} us", SAMPLED_PERIOD_MIN.as_micros()
    )]
    Contract {
        /// What was asked for.
        contract: Contract,
    },
    /// Too many items.
    #[error(
        "{items} items more would exceed the {max} of one client; end other subscriptions first"
    )]
    TooManyItems {
        /// Items of this subscription.
        items: usize,
        /// The bound.
        max: usize,
    },
}

/// Writes were not accepted; none of the call was.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// More writes than a group may have, or none.
    #[error("a group has 1 to {max} writes, this one has {writes}; make several of it")]
    Group {
        /// Writes it has.
        writes: usize,
        /// The bound.
        max: usize,
    },
    /// The client has given up on the connection, or was closed.
    #[error("there is no connection and none will be made: {cause}")]
    Closed {
        /// Why.
        cause: Arc<Disconnect>,
    },
    /// The engine takes writes more slowly than they are made, or there is no connection.
    #[error(
        "{waiting} writes with {bytes} bytes wait to be sent; wait until some are, then try again"
    )]
    WouldBlock {
        /// Writes that wait.
        waiting: usize,
        /// Bytes of their values.
        bytes: usize,
    },
    /// Nobody takes the outcomes.
    #[error("the outcomes of {waiting} writes were not taken; take them, or write untracked")]
    OutcomesNotTaken {
        /// Outcomes that wait, those of writes not yet answered included.
        waiting: usize,
    },
}

/// The contract's number is within its range.
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
