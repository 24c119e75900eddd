//! Clients: the same verbs blocking and async, on the same kind of connection.
//!
//! A call passes its request to the connection and then waits for the answer. A blocking caller
//! drives the socket on its own thread meanwhile; a task is woken. Neither uses a thread pool.
//!
//! # Layout
//! - [`Client`], [`Subscription`]: blocking.
//! - [`Callbacks`]: a subscription with a callback.
//! - [`aio`](crate::aio): the same names with `async fn`.
//! - [`LocalReader`]: last values in memory that the engine shares.
//! - `asked`: requests whose answers a thread polls for.
//! - [`Variable`]: one variable as a type of the program, for both kinds of client.
//! - `verbs`: the requests and answers that both kinds have in common.

mod asked;
mod blocking;
mod callbacks;
mod forcing;
mod groups;
mod libraries;
mod local_reader;
mod options;
mod outcomes;
mod patterns;
mod subscription;
pub(crate) mod tasks;
mod typed;
pub(crate) mod verbs;

pub(crate) use asked::Asked;
pub use blocking::{Client, Subscription};
pub use callbacks::{Callbacks, OnChangeError};
pub use local_reader::LocalReader;
pub use options::{ConnectError, ConnectOptions};
pub use patterns::{PatternSet, PatternSubscription, Watch};
pub use typed::{Variable, VariableError};

use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{RequestError, SubscribeError};
use trunkline_proto::{Disconnect, Fault};

/// The reason why a call has no result.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no connection.
    #[error("not connected: {cause}")]
    NotConnected {
        /// The reason why the last attempt failed or the connection ended.
        cause: Arc<Disconnect>,
    },
    /// The answer did not come in time.
    #[error(
        "no answer within {:.1} s; the engine is busy or the network slow: allow more time",
        after.as_secs_f64()
    )]
    TimedOut {
        /// Time that the call waited.
        after: Duration,
    },
    /// The engine refused the request as a whole.
    #[error("{0}")]
    Fault(Fault),
    /// The request could not be made.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// The subscription could not be made.
    #[error("{0}")]
    Subscribe(#[from] SubscribeError),
    /// The writes could not be queued.
    #[error("{0}")]
    Write(#[from] trunkline_client::WriteError),
    /// The engine's answer does not match the request.
    #[error("the engine's answer does not fit the request; its program is at fault")]
    Answer,
}
