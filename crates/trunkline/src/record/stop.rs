//! The stop signal of recording and playing.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Stops the operation that has the matching [`Stopped`] when it is dropped.
#[derive(Debug)]
pub struct Stopper(#[allow(dead_code, reason = "that it is there is what it says")] Sender<()>);

/// The receiving end of the stop signal.
#[derive(Debug)]
pub struct Stopped(Receiver<()>);

/// Returns both ends of a stop signal.
#[must_use]
pub fn stopper() -> (Stopper, Stopped) {
    let (stopper, stopped) = channel();
    (Stopper(stopper), Stopped(stopped))
}

impl Stopped {
    /// Waits at most `wait` for the stop signal. Returns true if the signal has been given.
    #[must_use]
    pub fn wait_for(&self, wait: Duration) -> bool {
        self.0.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected)
    }

    /// Returns true if the stop signal has been given.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.wait_for(Duration::ZERO)
    }
}
