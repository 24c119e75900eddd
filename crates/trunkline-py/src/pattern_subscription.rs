//! Subscriptions to variables that match patterns.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyList;
use trunkline::types::Reading as TypedReading;
use trunkline::{Event as SubscriptionEvent, FollowEvent, aio};

use crate::call::duration;
use crate::errors;
use crate::reading::{Block, ItemReading, Reading, Source};
use crate::subscription::{Event, READINGS_MAX};
use crate::wake::WakeQueue;

type Next = Pin<Box<dyn Future<Output = Option<FollowEvent>> + Send>>;

/// A subscription, in the form that its program waits in.
enum Form {
    /// The program has closed the subscription.
    Closed,
    Blocking(trunkline::PatternSubscription),
    Async {
        subscription: Arc<aio::PatternSubscription>,
        next: Option<Next>,
    },
}

/// A subscription to the variables that match patterns. It has the methods of `Subscription`.
#[pyclass(frozen)]
pub(crate) struct PatternSubscription {
    state: Mutex<State>,
    /// A thread that waits holds the lock most of the time, so it learns of the end without it.
    closing: OnceLock<()>,
}

struct State {
    form: Form,
    arrived: VecDeque<FollowEvent>,
    /// Wakes the event loop that waits, if the subscription is closed.
    waker: Option<Waker>,
    /// What the readings of each item have in common, while the item exists.
    sources: Vec<Option<Source>>,
}

impl PatternSubscription {
    pub(crate) fn of_blocking(subscription: trunkline::PatternSubscription) -> Self {
        Self::new(Form::Blocking(subscription))
    }

    pub(crate) fn of_aio(subscription: aio::PatternSubscription) -> Self {
        let subscription = Arc::new(subscription);
        Self::new(Form::Async {
            subscription,
            next: None,
        })
    }

    fn new(form: Form) -> Self {
        let state = State {
            form,
            arrived: VecDeque::new(),
            waker: None,
            sources: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            closing: OnceLock::new(),
        }
    }

    /// Releases the interpreter while another thread waits on the subscription.
    fn state(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        self.state
            .lock_py_attached(py)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PatternSubscription {
    /// Waits up to `seconds` until there is a reading or an event, or the subscription is closed.
    /// Returns false if nothing arrived.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        py.detach(|| {
            if self.closing.get().is_some() {
                return true;
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { form, arrived, .. } = &mut *state;
            let Form::Blocking(subscription) = form else {
                return true;
            };
            if arrived.is_empty() {
                arrived.extend(subscription.next(Some(duration(seconds))));
            }
            while arrived.len() < READINGS_MAX
                && !arrived.is_empty()
                && let Some(event) = subscription.try_next()
            {
                arrived.push_back(event);
            }
            !arrived.is_empty()
        })
    }

    /// Returns true if there is a reading or an event, or the subscription is closed. If not, `queue`
    /// gets `token` when there is one.
    fn poll(&self, py: Python<'_>, queue: &WakeQueue, token: u64) -> bool {
        let mut state = self.state(py);
        let State {
            form,
            arrived,
            waker,
            ..
        } = &mut *state;
        let Form::Async { subscription, next } = form else {
            return true;
        };
        if arrived.is_empty() {
            let waiting = next.get_or_insert_with(|| {
                let subscription = Arc::clone(subscription);
                Box::pin(async move { subscription.next().await })
            });
            let new = queue.waker(token);
            match waiting.as_mut().poll(&mut Context::from_waker(&new)) {
                Poll::Ready(event) => {
                    *next = None;
                    arrived.extend(event);
                }
                Poll::Pending => *waker = Some(new),
            }
        }
        while arrived.len() < READINGS_MAX
            && !arrived.is_empty()
            && let Some(event) = subscription.try_next()
        {
            arrived.push_back(event);
        }
        !arrived.is_empty()
    }

    /// Returns the next reading or event that has arrived; `None` if there is none.
    fn pop(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let mut state = self.state(py);
        while let Some(event) = state.arrived.pop_front() {
            if let FollowEvent::Event(SubscriptionEvent::Reading { item, reading }) = event {
                let Some(source) = state.source(item) else {
                    continue;
                };
                let reading = Reading::new(py, source, &(item, reading).parts())?;
                return Ok(Some(Py::new(py, reading)?.into_any()));
            }
            if let Some(event) = state.note(py, event) {
                return Ok(Some(Py::new(py, event)?.into_any()));
            }
        }
        Ok(None)
    }

    /// Returns the readings that have arrived in columns, up to the next event, which is returned by
    /// the next call; `None` if there is nothing.
    fn pop_block(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let mut state = self.state(py);
        loop {
            let mut readings: Vec<(u32, TypedReading)> = Vec::new();
            while let Some(FollowEvent::Event(SubscriptionEvent::Reading { .. })) =
                state.arrived.front()
            {
                if let Some(FollowEvent::Event(SubscriptionEvent::Reading { item, reading })) =
                    state.arrived.pop_front()
                {
                    readings.push((item, reading));
                }
            }
            if !readings.is_empty() {
                let names = PyList::empty(py);
                for source in &state.sources {
                    match source {
                        Some(source) => names.append(&source.name)?,
                        None => names.append("")?,
                    }
                }
                let block = Block::new(py, names.unbind(), |item| state.source(item), &readings)?;
                return Ok(Some(Py::new(py, block)?.into_any()));
            }
            let Some(event) = state.arrived.pop_front() else {
                return Ok(None);
            };
            if let Some(event) = state.note(py, event) {
                return Ok(Some(Py::new(py, event)?.into_any()));
            }
        }
    }

    /// Ends the subscription. What has arrived can still be taken.
    fn close(&self, py: Python<'_>) {
        let _ = self.closing.set(());
        let (form, waker) = {
            let mut state = self.state(py);
            (
                std::mem::replace(&mut state.form, Form::Closed),
                state.waker.take(),
            )
        };
        // Outside of the lock: ending a subscription takes the lock of the connection.
        py.detach(|| drop(form));
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl State {
    fn source(&self, item: u32) -> Option<&Source> {
        self.sources.get(item as usize)?.as_ref()
    }

    /// Takes note of an event that is not a reading, and converts it for Python; `None` if Python has
    /// no use for it.
    fn note(&mut self, py: Python<'_>, event: FollowEvent) -> Option<Event> {
        match event {
            FollowEvent::Appeared {
                item,
                name,
                data_type,
                ..
            } => {
                let index = item as usize;
                if index >= self.sources.len() {
                    self.sources.resize_with(index + 1, || None);
                }
                self.sources[index] = Some(Source::new(py, &name, "", data_type));
                Some(Event::about("appeared", Some(name.to_string()), None))
            }
            FollowEvent::Gone { item, name } => {
                if let Some(source) = self.sources.get_mut(item as usize) {
                    *source = None;
                }
                Some(Event::about("gone", Some(name.to_string()), None))
            }
            FollowEvent::Listed { .. } => None,
            FollowEvent::PatternError { fault, .. } => {
                let error = errors::of_fault(py, &fault, None).into_value(py).into_any();
                Some(Event::about("failed", None, Some(error)))
            }
            FollowEvent::Event(event) => {
                let name = |item: u32| {
                    let source = self.source(item)?;
                    Some(source.name.bind(py).to_string())
                };
                Event::of(py, &event, name)
            }
        }
    }
}
