//! A signal for which a thread of this process waits.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use trunkline_engine::Wake;

/// A flag that an engine raises when there is something to take.
#[derive(Debug, Default)]
pub(super) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

pub(super) struct SignalWake(pub(super) Arc<Signal>);

impl Wake for SignalWake {
    fn wake(&self) {
        *self.0.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

impl Signal {
    /// Waits until the signal is raised or `timeout` has passed, and lowers it.
    pub(super) fn wait(&self, timeout: Option<Duration>) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let lowered = |raised: &mut bool| !*raised;
        let mut raised = match timeout {
            None => self
                .changed
                .wait_while(raised, lowered)
                .unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                let waited = self.changed.wait_timeout_while(raised, timeout, lowered);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *raised = false;
    }
}
