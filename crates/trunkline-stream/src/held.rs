//! A program's handle on its end of a stream, within the link that drives it.
//!
//! Everything that takes the end's lock goes through this module, and nothing else does. With the
//! feature `sim` an end can also belong to a simulated process.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use trunkline_net::{Link, TransportUsed};
use trunkline_types::{Tick, Timestamp};

use crate::end::syncing::{self, Syncs};
use crate::end::{End, Inner};
use crate::journal::Lineage;
use crate::machine::Machine;
use crate::wait::Waits;

/// An end, and its driver.
pub(crate) enum Held<S: Inner + 'static> {
    /// A link with a thread and sockets.
    Net(Arc<Link<End<S>>>),
    /// A simulated process.
    #[cfg(feature = "sim")]
    Simulated(Arc<crate::sim::Placed<S>>),
}

impl<S: Inner + 'static> Clone for Held<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Net(link) => Self::Net(link.clone()),
            #[cfg(feature = "sim")]
            Self::Simulated(seat) => Self::Simulated(seat.clone()),
        }
    }
}

impl<S: Inner + 'static> Held<S> {
    /// Runs `f` on the end under its lock, then sends what is due.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut End<S>, Tick, Timestamp) -> R) -> R {
        match self {
            Self::Net(link) => link.with(f),
            #[cfg(feature = "sim")]
            Self::Simulated(seat) => seat.with(f),
        }
    }

    /// Waits until `f` returns an answer; `None` on timeout or if the end is closed.
    pub(crate) async fn wait<R>(
        &self,
        waits: &impl Waits,
        deadline: Option<Tick>,
        f: impl FnMut(&mut End<S>, Tick) -> Option<R>,
    ) -> Option<R> {
        match self {
            Self::Net(link) => waits.wait(link, deadline, f).await,
            #[cfg(feature = "sim")]
            Self::Simulated(seat) => seat.wait(deadline, f).await,
        }
    }

    fn machine(&self) -> Machine {
        match self {
            Self::Net(_) => Machine::Real,
            #[cfg(feature = "sim")]
            Self::Simulated(seat) => Machine::Simulated(seat.process.clone()),
        }
    }

    pub(crate) fn now(&self) -> Tick {
        self.machine().now()
    }

    /// The deadline of a wait that begins now; `None`: no deadline.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Option<Tick> {
        self.machine().deadline(timeout)
    }

    /// Returns a random lineage, different from that of any journal.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub(crate) fn new_lineage(&self) -> io::Result<Lineage> {
        self.machine().new_lineage()
    }

    /// Sends what the end still holds, until `deadline` at the latest, then closes the connection.
    pub(crate) fn close(&self, deadline: Tick) {
        match self {
            Self::Net(link) => link.close(deadline),
            #[cfg(feature = "sim")]
            Self::Simulated(seat) => seat.close(deadline),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Net(link) => link.is_closed(),
            #[cfg(feature = "sim")]
            Self::Simulated(seat) => seat.is_closed(),
        }
    }

    /// The transport in use, while connected.
    pub(crate) fn transport(&self) -> Option<TransportUsed> {
        match self {
            Self::Net(link) => link.transport(),
            #[cfg(feature = "sim")]
            Self::Simulated(_) => None,
        }
    }
}

impl<S: Syncs + 'static> Held<S> {
    /// Syncs the end's journal after each message from `wakes`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start_syncing(&self, wakes: Receiver<()>) -> io::Result<()> {
        match self {
            Self::Net(link) => syncing::start(link, wakes),
            #[cfg(feature = "sim")]
            Self::Simulated(seat) => {
                crate::sim::start_syncing(seat, wakes);
                Ok(())
            }
        }
    }
}
