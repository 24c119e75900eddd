//! How a connection to a directory is told that there is something for it.

use std::os::fd::OwnedFd;

use trunkline_net::Notifier;

/// The connection of a session.
#[derive(Clone)]
pub(crate) enum Bell {
    /// A server's.
    Net(Notifier),
    /// One of a simulated world.
    #[cfg(feature = "sim")]
    Simulated(crate::sim::Bell),
}

impl Bell {
    /// Has the session asked for output soon.
    pub(super) fn notify(&self) {
        match self {
            Self::Net(notifier) => notifier.notify(),
            #[cfg(feature = "sim")]
            Self::Simulated(bell) => bell.ring(),
        }
    }

    /// Sends a whole frame to the session's peer with a descriptor beside it.
    pub(super) fn pass(&self, frame: Vec<u8>, file: OwnedFd) {
        match self {
            Self::Net(notifier) => notifier.pass(frame, file),
            #[cfg(feature = "sim")]
            Self::Simulated(_) => {}
        }
    }
}
