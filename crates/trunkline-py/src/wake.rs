//! Wakes an event loop of Python.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

/// The calls of an event loop that can continue. Readable while there is at least one.
#[pyclass(frozen)]
pub(crate) struct WakeQueue(Arc<Ready>);

struct Ready {
    fd: OwnedFd,
    tokens: Mutex<Vec<u64>>,
}

struct TokenWaker {
    ready: Arc<Ready>,
    token: u64,
}

#[pymethods]
impl WakeQueue {
    #[new]
    fn new() -> PyResult<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let fd = eventfd(0, flags).map_err(|error| PyOSError::new_err(error.to_string()))?;
        let tokens = Mutex::new(Vec::new());
        Ok(Self(Arc::new(Ready { fd, tokens })))
    }

    /// Returns the descriptor for the event loop to watch.
    fn fileno(&self) -> i32 {
        self.0.fd.as_raw_fd()
    }

    /// Returns the tokens of the calls that can continue, and removes them.
    fn take(&self) -> Vec<u64> {
        // Before the tokens are taken, so that a later one makes the descriptor readable again. It
        // fails only if there is nothing to read.
        let _ = rustix::io::read(&self.0.fd, &mut [0u8; 8]);
        std::mem::take(&mut *self.0.tokens())
    }
}

impl WakeQueue {
    /// Returns a waker that adds `token`.
    pub(crate) fn waker(&self, token: u64) -> Waker {
        let ready = Arc::clone(&self.0);
        Waker::from(Arc::new(TokenWaker { ready, token }))
    }
}

impl Ready {
    fn tokens(&self) -> MutexGuard<'_, Vec<u64>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for TokenWaker {
    fn wake(self: Arc<Self>) {
        let mut tokens = self.ready.tokens();
        tokens.push(self.token);
        if tokens.len() == 1 {
            // Fails only if the counter is full, and the descriptor is readable then.
            let _ = rustix::io::write(&self.ready.fd, &1u64.to_ne_bytes());
        }
    }
}
