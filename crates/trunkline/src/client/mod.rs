//! Clients of an engine: the same verbs in blocking, async and polled form, on the same kind of
//! connection.
//!
//! A call passes its request to the connection and then waits for the answer. A blocking call
//! drives the socket on its own thread while it waits. An async call suspends its task. A polled
//! call returns at once, and the program polls it later. None of the forms uses a thread pool.
//!
//! # Layout
//! - `verbs`: the list of verbs, each defined once, and how each form waits.
//! - `clients`: the client of each form.
//! - `events`: the event sources of a client, such as subscriptions and watches of names.
//! - [`Callbacks`]: a subscription with a callback.
//! - [`RecordedSubscription`]: a subscription that starts with the recorded past.
//! - [`LocalReader`]: reads last values from memory that the engine shares.
//! - [`Variable`]: one variable with a type of the program, in blocking and async form.

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

/// The reason why a call returned no result.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The client is not connected to the engine.
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
        /// Time for which the call waited.
        after: Duration,
    },
    /// The engine refused the request as a whole.
    #[error("{0}")]
    Fault(Fault),
    /// The client could not make the request.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// The client could not create the subscription.
    #[error("{0}")]
    Subscribe(#[from] SubscribeError),
    /// The client could not queue the writes.
    #[error("{0}")]
    Write(#[from] trunkline_client::WriteError),
    /// The engine's answer does not match the request.
    #[error("the engine's answer does not match the request; this is a defect of the engine")]
    Answer,
}
