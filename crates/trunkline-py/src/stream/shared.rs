//! An endpoint that several threads and tasks of a program use, one at a time.

use std::future::poll_fn;
use std::pin::Pin;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use trunkline::stream::{Monitor, Properties, StreamError};

use super::operation::{Cancellation, Operation};
use crate::call::{Answer, Call};
use crate::errors;

/// An endpoint, with the calls of a program that use it.
pub(super) struct Shared<E: Send + 'static> {
    pub(super) name: String,
    monitor: Monitor,
    state: Mutex<State<E>>,
    /// Set when the program closes the endpoint.
    is_closing: OnceLock<()>,
    /// Wakes the call that closes the endpoint, once another call has given it back.
    closer: Mutex<Option<Waker>>,
    /// The process that created the endpoint, whose threads no other process has.
    process: u32,
}

enum State<E> {
    Idle(E),
    /// An operation uses it.
    InUse,
    /// The program uses its memory.
    Leased,
    /// It is closed. Its memory stays valid while a program may refer to it.
    Closed(Option<E>),
}

/// A future on an endpoint.
pub(super) type On<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

enum Attempt<R> {
    Done(Result<R, StreamError>),
    InUse,
    Leased,
    Closed,
}

impl<E: Send + 'static> Shared<E> {
    pub(super) fn new(endpoint: E, monitor: Monitor) -> Arc<Self> {
        let url = monitor.properties().url;
        let name = url.strip_prefix("tl://localhost/").unwrap_or(&url);
        Arc::new(Self {
            name: name.to_owned(),
            monitor,
            state: Mutex::new(State::Idle(endpoint)),
            is_closing: OnceLock::new(),
            closer: Mutex::new(None),
            process: process::id(),
        })
    }

    pub(super) fn properties(&self, py: Python<'_>) -> Properties {
        py.detach(|| self.monitor.properties())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closing.get().is_some()
    }

    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn error(&self, py: Python<'_>, error: &StreamError) -> PyErr {
        errors::of_stream(py, error, &self.name)
    }

    fn closed(&self, py: Python<'_>) -> PyErr {
        let sentence = "this end of the stream was closed by this program; create it again";
        errors::new(py, "Closed", "closed", sentence, Some(&self.name))
    }

    fn leased(&self, py: Python<'_>) -> PyErr {
        let sentence =
            "this program still uses the elements of a lease; leave its `with` block first";
        errors::new(py, "Error", "leased", sentence, Some(&self.name))
    }

    fn in_use(&self, py: Python<'_>) -> PyErr {
        let sentence = "another task uses this end of the stream; await its call first";
        errors::new(py, "Error", "in-use", sentence, Some(&self.name))
    }

    /// Runs `f` on the endpoint without the interpreter. Returns `None` if it timed out.
    pub(super) fn attempt<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut E) -> Result<R, StreamError> + Send,
    ) -> PyResult<Option<R>> {
        let attempt = py.detach(|| self.try_on(&mut self.state(), f));
        self.result(py, attempt)
    }

    /// As [`attempt`](Self::attempt), and keeps the endpoint for a lease, which gives it back with
    /// [`end_lease`](Self::end_lease).
    pub(super) fn lease<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut E) -> Result<R, StreamError> + Send,
    ) -> PyResult<Option<(E, R)>> {
        let attempt = py.detach(|| {
            let state = &mut *self.state();
            let leased = match self.try_on(state, f) {
                Attempt::Done(Ok(leased)) => leased,
                Attempt::Done(Err(error)) => return Attempt::Done(Err(error)),
                Attempt::InUse => return Attempt::InUse,
                Attempt::Leased => return Attempt::Leased,
                Attempt::Closed => return Attempt::Closed,
            };
            match std::mem::replace(state, State::Leased) {
                State::Idle(endpoint) => Attempt::Done(Ok((endpoint, leased))),
                // `f` ran on an endpoint that was idle.
                other => {
                    *state = other;
                    Attempt::InUse
                }
            }
        });
        self.result(py, attempt)
    }

    fn try_on<R>(
        &self,
        state: &mut State<E>,
        f: impl FnOnce(&mut E) -> Result<R, StreamError>,
    ) -> Attempt<R> {
        match state {
            _ if self.is_closed() => Attempt::Closed,
            State::Idle(endpoint) => Attempt::Done(f(endpoint)),
            State::InUse => Attempt::InUse,
            State::Leased => Attempt::Leased,
            State::Closed(_) => Attempt::Closed,
        }
    }

    fn result<R>(&self, py: Python<'_>, attempt: Attempt<R>) -> PyResult<Option<R>> {
        match attempt {
            Attempt::Done(Ok(result)) => Ok(Some(result)),
            Attempt::Done(Err(StreamError::Timeout { .. })) => Ok(None),
            Attempt::Done(Err(error)) => Err(self.error(py, &error)),
            Attempt::InUse => Err(self.in_use(py)),
            Attempt::Leased => Err(self.leased(py)),
            Attempt::Closed => Err(self.closed(py)),
        }
    }

    /// Gives the endpoint back, or returns it if it is to be closed.
    pub(super) fn end_lease(&self, endpoint: E) -> Option<E> {
        let mut state = self.state();
        if self.is_closed() {
            return Some(endpoint);
        }
        *state = State::Idle(endpoint);
        None
    }

    /// Keeps the memory of an endpoint that was closed.
    pub(super) fn keep(&self, endpoint: E) {
        *self.state() = State::Closed(Some(endpoint));
    }

    /// Begins a call that uses the endpoint until it is complete or cancelled.
    pub(super) fn begin<R: Send + 'static>(
        self: &Arc<Self>,
        py: Python<'_>,
        on: impl for<'a> FnOnce(&'a mut E) -> On<'a, Result<R, StreamError>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, R) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Call> {
        if self.is_closed() {
            return Err(self.closed(py));
        }
        let mut endpoint = {
            // Another thread may hold the lock while it waits.
            let locked = self.state.lock_py_attached(py);
            let mut state = locked.unwrap_or_else(PoisonError::into_inner);
            match std::mem::replace(&mut *state, State::InUse) {
                State::Idle(endpoint) => endpoint,
                other => {
                    let error = match &other {
                        State::Leased => self.leased(py),
                        State::Closed(_) => self.closed(py),
                        State::Idle(_) | State::InUse => self.in_use(py),
                    };
                    *state = other;
                    return Err(error);
                }
            }
        };
        let shared = Arc::clone(self);
        let operation = Operation::start(move |cancellation| async move {
            let result = unless_cancelled(on(&mut endpoint), &cancellation).await;
            shared.give_back(endpoint);
            let answer: Answer = Box::new(move |py| match result {
                Some(Ok(result)) => convert(py, result),
                Some(Err(error)) => Err(shared.error(py, &error)),
                None if shared.is_closed() => Err(shared.closed(py)),
                None => Ok(py.None()),
            });
            answer
        });
        Ok(Call::of(operation))
    }

    fn give_back(&self, endpoint: E) {
        *self.state() = State::Idle(endpoint);
        let closer = self
            .closer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(closer) = closer {
            closer.wake();
        }
    }

    /// Waits until no operation uses the endpoint, and takes it; `None` if it is closed or leased.
    fn poll_take(&self, context: &mut Context<'_>) -> Poll<Option<E>> {
        *self.closer.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::InUse) {
            State::Idle(endpoint) => Poll::Ready(Some(endpoint)),
            State::InUse => Poll::Pending,
            other => {
                *state = other;
                Poll::Ready(None)
            }
        }
    }

    /// Begins to close the endpoint: other calls fail from now on. An endpoint that is leased is closed
    /// at the end of its lease, and the answer is `None` then.
    pub(super) fn begin_close<R: Send + 'static>(
        self: &Arc<Self>,
        on: impl for<'a> FnOnce(&'a mut E) -> On<'a, Result<R, StreamError>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, R) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Call {
        let _is_first = self.is_closing.set(());
        let shared = Arc::clone(self);
        let operation = Operation::start(move |cancellation| async move {
            let taken = poll_fn(|context| match cancellation.is_set() {
                true => Poll::Ready(None),
                false => shared.poll_take(context),
            });
            let Some(mut endpoint) = taken.await else {
                let none: Answer = Box::new(|py| Ok(py.None()));
                return none;
            };
            let result = unless_cancelled(on(&mut endpoint), &cancellation).await;
            // The program and this call refer to it anyway; everything else is a lease.
            let is_referred_to = Arc::strong_count(&shared) > 2;
            *shared.state() = State::Closed(is_referred_to.then_some(endpoint));
            let answer: Answer = Box::new(move |py| match result {
                Some(Ok(result)) => convert(py, result),
                Some(Err(error)) => Err(shared.error(py, &error)),
                None => Ok(py.None()),
            });
            answer
        });
        Call::of(operation)
    }
}

/// Returns the exception for an endpoint to which no peer has connected.
pub(super) fn no_peer(py: Python<'_>, name: &str) -> PyErr {
    let sentence = "no peer has connected in time; create the other end of the stream, which must name \
                    this one or be named by it";
    errors::new(py, "TimedOut", "no-peer", sentence, Some(name))
}

pub(super) async fn unless_cancelled<R>(
    mut running: On<'_, R>,
    cancellation: &Cancellation,
) -> Option<R> {
    poll_fn(|context| match cancellation.is_set() {
        true => Poll::Ready(None),
        false => running.as_mut().poll(context).map(Some),
    })
    .await
}

impl<E: Send + 'static> Drop for Shared<E> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let state = std::mem::replace(state, State::Closed(None));
        match self.process == process::id() {
            // Closing an endpoint can take seconds.
            true => {
                let mut state = Some(state);
                // Without an interpreter, the endpoint is closed when `state` is dropped.
                let _dropped = Python::try_attach(|py| py.detach(|| drop(state.take())));
            }
            // The threads of the endpoint are those of the parent process.
            false => std::mem::forget(state),
        }
    }
}
