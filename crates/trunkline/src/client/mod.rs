//! Clients: the same verbs blocking, async and polled, on the same kind of connection.
//!
//! A call passes its request to the connection and then waits for the answer. A blocking caller
//! meanwhile drives the socket on its own thread; a task is woken; a program polls a polled call at
//! a time of its choice. None of the forms uses a thread pool.
//!
//! # Layout
//! - `verbs`: the list of verbs, each defined once, and how each form waits; `clients`: the client
//!   of each form.
//! - `events`: the event sources of a client: subscriptions, watched patterns.
//! - [`Callbacks`]: a subscription with a callback; [`RecordedSubscription`]: a subscription that
//!   begins in the past.
//! - [`LocalReader`]: last values in memory that the engine shares.
//! - [`Variable`]: one variable as a type of the program, blocking and async.

mod callbacks;
mod clients;
mod events;
mod local_reader;
mod options;
mod recorded;
mod typed;
pub(crate) mod verbs;

pub use callbacks::{Callbacks, OnChangeError};
pub use clients::blocking::Client;
pub use events::{EVENTS, PatternSet, PatternSubscription, Subscription, Watch};
pub use local_reader::LocalReader;
pub use options::{ConnectError, ConnectOptions};
pub use recorded::RecordedSubscription;
pub use typed::{Variable, VariableError};
pub use verbs::VERBS;

/// The async client: the verbs of [`Client`] as `async fn`, on any executor.
pub mod aio {
    pub use super::clients::aio::Client;
    pub use super::events::aio::{PatternSubscription, Subscription, Watch};
}

/// The polled client: the verbs of [`Client`] return at once, and the program polls the answers.
pub mod polled {
    pub use super::clients::polled::Client;
    pub use super::verbs::PendingCall;
}

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
    /// No answer arrived in time.
    #[error(
        "no answer within {:.1} s; the engine is busy or the network is slow: increase the timeout",
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
