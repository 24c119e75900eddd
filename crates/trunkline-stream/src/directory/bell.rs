//! Wakes a connection to a directory that has something to send.

use std::os::fd::OwnedFd;

use trunkline_net::Notifier;

/// The connection of a session.
#[derive(Clone)]
pub(crate) enum Bell {
    /// A connection of a server.
    Net(Notifier),
    /// A connection in a simulated world.
    #[cfg(feature = "sim")]
    Simulated(crate::sim::Bell),
}

impl Bell {
    /// Requests output from the session soon.
    pub(super) fn notify(&self) {
        match self {
            Self::Net(notifier) => notifier.notify(),
            #[cfg(feature = "sim")]
            Self::Simulated(bell) => bell.ring(),
        }
    }

    /// Sends a whole frame to the session's peer, together with a descriptor.
    pub(super) fn pass(&self, frame: Vec<u8>, file: OwnedFd) {
        match self {
            Self::Net(notifier) => notifier.pass(frame, file),
            #[cfg(feature = "sim")]
            Self::Simulated(_) => {}
        }
    }
}
