//! How a recording, or playing, is told to end.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Ends what has its [`Stopped`], by being dropped.
#[derive(Debug)]
pub struct Stopper(#[allow(dead_code, reason = "that it is there is what it says")] Sender<()>);

/// Says when to end.
#[derive(Debug)]
pub struct Stopped(Receiver<()>);

/// Both ends of it.
#[must_use]
pub fn stopper() -> (Stopper, Stopped) {
    let (stopper, stopped) = channel();
    (Stopper(stopper), Stopped(stopped))
}

impl Stopped {
    /// Whether it is to end; waits for it for at most `wait`.
    #[must_use]
    pub fn within(&self, wait: Duration) -> bool {
        self.0.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected)
    }

    /// Whether it is to end now.
    #[must_use]
    pub fn now(&self) -> bool {
        self.within(Duration::ZERO)
    }
}
