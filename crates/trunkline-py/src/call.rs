//! A call in progress: a request that was sent, and whose answer Python waits for or awaits.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use trunkline::CallError;
use trunkline::polled::PendingCall;

use crate::errors;
use crate::wake::WakeQueue;

/// Converts the answer of a call.
type Convert<A> = Box<dyn FnOnce(Python<'_>, A) -> PyResult<Py<PyAny>> + Send + Sync>;

/// The answer of a call, to be converted once the interpreter is attached again.
pub(crate) type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// A call whose answer has any type.
pub(crate) trait Pending: Send + Sync {
    fn wait(&mut self, timeout: Duration) -> Option<Answer>;
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer>;
    fn end(&mut self, after: Duration) -> Answer;
}

struct Converted<A> {
    call: PendingCall<A>,
    convert: Option<Convert<A>>,
}

impl<A: Send + 'static> Converted<A> {
    fn answer(&mut self, answer: Result<A, CallError>) -> Answer {
        let convert = self.convert.take();
        Box::new(move |py| match (answer, convert) {
            (Ok(answer), Some(convert)) => convert(py, answer),
            (Ok(_), None) => Err(taken()),
            (Err(error), _) => Err(errors::of_call(py, &error)),
        })
    }
}

impl<A: Send + 'static> Pending for Converted<A> {
    fn wait(&mut self, timeout: Duration) -> Option<Answer> {
        let answer = self.call.wait(timeout)?;
        Some(self.answer(answer))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        let answer = Pin::new(&mut self.call).poll(context);
        answer.map(|answer| self.answer(answer))
    }

    fn end(&mut self, after: Duration) -> Answer {
        let answer = self.call.end(after);
        self.answer(answer)
    }
}

/// A call in progress. The answer can be taken once. Dropping the object abandons the call.
#[pyclass(frozen)]
pub(crate) struct Call(Mutex<Option<Box<dyn Pending>>>);

impl Call {
    /// Wraps a call that was begun. `convert` gives its answer the form that Python gets.
    pub(crate) fn new<A: Send + 'static>(
        py: Python<'_>,
        call: Result<PendingCall<A>, CallError>,
        convert: impl FnOnce(Python<'_>, A) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
    ) -> PyResult<Self> {
        let call = call.map_err(|error| errors::of_call(py, &error))?;
        let convert: Option<Convert<A>> = Some(Box::new(convert));
        Ok(Self(Mutex::new(Some(Box::new(Converted {
            call,
            convert,
        })))))
    }

    pub(crate) fn of(pending: impl Pending + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(pending))))
    }

    fn take(&self) -> PyResult<Box<dyn Pending>> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.take().ok_or_else(taken)
    }

    fn put_back(&self, pending: Box<dyn Pending>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(pending);
    }
}

#[pymethods]
impl Call {
    /// Waits up to `seconds` for the answer. Returns it in a tuple, or `None` if it has not arrived.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<(Py<PyAny>,)>> {
        let mut pending = self.take()?;
        let timeout = duration(seconds);
        let (pending, answer) = py.detach(move || {
            let answer = pending.wait(timeout);
            (pending, answer)
        });
        let Some(answer) = answer else {
            self.put_back(pending);
            return Ok(None);
        };
        Ok(Some((answer(py)?,)))
    }

    /// Returns the answer in a tuple, or `None` if it has not arrived. Then `queue` gets `token` when
    /// the call can continue.
    fn poll(
        &self,
        py: Python<'_>,
        queue: &WakeQueue,
        token: u64,
    ) -> PyResult<Option<(Py<PyAny>,)>> {
        let mut pending = self.take()?;
        let waker = queue.waker(token);
        match pending.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => Ok(Some((answer(py)?,))),
            Poll::Pending => {
                self.put_back(pending);
                Ok(None)
            }
        }
    }

    /// Abandons the call, unless another thread waits for it.
    fn cancel(&self) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(pending.take());
    }

    /// Ends the call as after a timeout of `seconds`: returns the answer if a part of it is known, as
    /// for writes, or raises the error.
    fn end(&self, py: Python<'_>, seconds: f64) -> PyResult<Py<PyAny>> {
        let mut pending = self.take()?;
        pending.end(duration(seconds))(py)
    }
}

/// Converts seconds. What is not a valid duration counts as none, and what is too long as the longest.
pub(crate) fn duration(seconds: f64) -> Duration {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) => duration,
        Err(_) if seconds > 0.0 => Duration::MAX,
        Err(_) => Duration::ZERO,
    }
}

fn taken() -> PyErr {
    PyRuntimeError::new_err(
        "the answer of this call was already taken, or another thread waits for it",
    )
}
