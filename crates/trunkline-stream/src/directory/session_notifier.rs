//! Wakes a session of a directory when the session has something to send.

use std::os::fd::OwnedFd;
#[cfg(feature = "sim")]
use std::sync::{Arc, atomic::AtomicBool, atomic::Ordering};

use trunkline_net::Notifier;

#[derive(Clone)]
pub(crate) enum SessionNotifier {
    Net(Notifier),
    #[cfg(feature = "sim")]
    Simulated(SimulatedBell),
}

impl SessionNotifier {
    /// Asks the session to produce output soon.
    pub(super) fn notify(&self) {
        match self {
            Self::Net(notifier) => notifier.notify(),
            #[cfg(feature = "sim")]
            Self::Simulated(bell) => bell.0.store(true, Ordering::Relaxed),
        }
    }

    /// Sends a complete frame and a descriptor to the session's peer.
    pub(super) fn pass(&self, frame: Vec<u8>, file: OwnedFd) {
        match self {
            Self::Net(notifier) => notifier.pass(frame, file),
            #[cfg(feature = "sim")]
            Self::Simulated(_) => {}
        }
    }
}

/// Remembers that a session of a simulated directory has something to send.
#[cfg(feature = "sim")]
#[derive(Clone, Debug, Default)]
pub struct SimulatedBell(Arc<AtomicBool>);

#[cfg(feature = "sim")]
impl SimulatedBell {
    /// Returns true if the bell has been rung.
    pub fn is_rung(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns true if the bell has been rung, and resets it.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
