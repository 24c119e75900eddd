//! Defines the handle through which a program uses its endpoint.
//!
//! A program takes its endpoint's lock only through this module. With the feature `sim`, an
//! endpoint can also belong to a simulated process.

mod catch_up;
mod environment;
mod wait_shared;

#[cfg(feature = "sim")]
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
#[cfg(feature = "sim")]
use std::sync::MutexGuard;
use std::sync::mpsc::Receiver;
#[cfg(feature = "sim")]
use std::task::Poll;
use std::time::Duration;

use trunkline_net::{Link, TransportUsed};
use trunkline_types::{Tick, Timestamp};

use crate::end::syncing::{self, Syncs};
use crate::end::{EndpointRole, StreamEndpoint};
use crate::error::StreamError;
use crate::journal::Lineage;
use crate::wait::Waiter;

pub(crate) use self::environment::Environment;
#[cfg(feature = "sim")]
pub(crate) use self::environment::SimulatedEnvironment;
pub(crate) use self::wait_shared::{RingCondition, WaitPolicy};

pub(crate) enum EndpointHandle<S: EndpointRole + 'static> {
    /// A link with a thread and sockets.
    Net(Arc<Link<StreamEndpoint<S>>>),
    #[cfg(feature = "sim")]
    Simulated(Arc<dyn SimulatedLink<S>>),
}

/// A simulated process, which replaces a link.
#[cfg(feature = "sim")]
pub(crate) trait SimulatedLink<S: EndpointRole>: Send + Sync {
    fn environment(&self) -> Environment;

    fn end(&self) -> MutexGuard<'_, StreamEndpoint<S>>;

    /// Called after each poll of a program that waits until `deadline`. Returns true if the wait
    /// ends.
    fn ends_wait(&self, deadline: Option<Tick>, is_answered: bool) -> bool;

    /// Syncs the endpoint's journal after each message from `wakes`.
    fn start_syncing(&self, wakes: Receiver<()>);

    fn close(&self, deadline: Tick);

    fn is_closed(&self) -> bool;
}

impl<S: EndpointRole + 'static> Clone for EndpointHandle<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Net(link) => Self::Net(link.clone()),
            #[cfg(feature = "sim")]
            Self::Simulated(link) => Self::Simulated(link.clone()),
        }
    }
}

impl<S: EndpointRole + 'static> EndpointHandle<S> {
    /// Runs `f` on the endpoint under its lock, then sends all output that is due.
    pub(crate) fn with<R>(
        &self,
        f: impl FnOnce(&mut StreamEndpoint<S>, Tick, Timestamp) -> R,
    ) -> R {
        match self {
            Self::Net(link) => link.with(f),
            #[cfg(feature = "sim")]
            Self::Simulated(link) => f(&mut link.end(), self.now(), Timestamp::UNIX_EPOCH),
        }
    }

    /// Waits until `f` returns an answer; `None` on timeout or if the endpoint is closed.
    pub(crate) async fn wait<R>(
        &self,
        waiter: &impl Waiter,
        deadline: Option<Tick>,
        f: impl FnMut(&mut StreamEndpoint<S>, Tick) -> Option<R>,
    ) -> Option<R> {
        match self {
            Self::Net(link) => waiter.wait(link, deadline, f).await,
            #[cfg(feature = "sim")]
            Self::Simulated(link) => {
                let mut f = f;
                let waited = poll_fn(|_| {
                    let answer = f(&mut link.end(), self.now());
                    match link.ends_wait(deadline, answer.is_some()) {
                        true => Poll::Ready(answer),
                        false => Poll::Pending,
                    }
                });
                waited.await
            }
        }
    }

    fn environment(&self) -> Environment {
        match self {
            Self::Net(_) => Environment::Real,
            #[cfg(feature = "sim")]
            Self::Simulated(link) => link.environment(),
        }
    }

    pub(crate) fn now(&self) -> Tick {
        self.environment().now()
    }

    /// Returns the deadline of a wait that begins now; `None` if there is no timeout.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Option<Tick> {
        self.environment().deadline(timeout)
    }

    /// Returns the error of a wait that ended without success; `what` describes the unmet
    /// condition.
    pub(crate) fn wait_error(&self, timeout: Option<Duration>, what: &'static str) -> StreamError {
        match timeout {
            Some(timeout) if !self.is_closed() => StreamError::Timeout { timeout, what },
            _ => StreamError::Closed,
        }
    }

    /// Returns a random lineage, which differs from the lineage of every journal.
    pub(crate) fn new_lineage(&self) -> io::Result<Lineage> {
        self.environment().new_lineage()
    }

    /// Sends the endpoint's remaining data, until `deadline` at the latest, then closes the
    /// connection.
    pub(crate) fn close(&self, deadline: Tick) {
        match self {
            Self::Net(link) => link.close(deadline),
            #[cfg(feature = "sim")]
            Self::Simulated(link) => link.close(deadline),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Net(link) => link.is_closed(),
            #[cfg(feature = "sim")]
            Self::Simulated(link) => link.is_closed(),
        }
    }

    /// Returns the transport in use; `None` while disconnected.
    pub(crate) fn transport(&self) -> Option<TransportUsed> {
        match self {
            Self::Net(link) => link.transport(),
            #[cfg(feature = "sim")]
            Self::Simulated(_) => None,
        }
    }
}

impl<S: Syncs + 'static> EndpointHandle<S> {
    /// Syncs the endpoint's journal after each message from `wakes`.
    pub(crate) fn start_syncing(&self, wakes: Receiver<()>) -> io::Result<()> {
        match self {
            Self::Net(link) => syncing::start(link, wakes),
            #[cfg(feature = "sim")]
            Self::Simulated(link) => {
                link.start_syncing(wakes);
                Ok(())
            }
        }
    }
}
