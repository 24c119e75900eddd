//! Subscriptions and their events.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyList;
use trunkline::types::DataType;
use trunkline::{Batch, Item, aio};

use crate::call::duration;
use crate::errors;
use crate::reading::{Block, ItemReading, Reading, Source};
use crate::wake::WakeQueue;

/// Readings that are taken from the connection at a time.
pub(crate) const READINGS_MAX: usize = 4096;

/// A change of the connection, or the fault or end of an item.
#[pyclass(frozen, get_all)]
pub(crate) struct Event {
    /// "connected", "disconnected", "failed" or "ended"; for patterns also "appeared" and "gone".
    kind: &'static str,
    /// Name of the variable that the event is about; `None` for the connection.
    name: Option<String>,
    /// The exception with the reason; `None` for "connected".
    error: Option<Py<PyAny>>,
    /// Number of updates that will not arrive; `None` if it is unknown or if nothing was lost.
    lost: Option<u64>,
}

impl Event {
    /// Converts an event; `None` for a reading. `name` returns the name of an item.
    pub(crate) fn of(
        py: Python<'_>,
        event: &trunkline::Event,
        name: impl Fn(u32) -> Option<String>,
    ) -> Option<Self> {
        use trunkline::Event as E;
        Some(match event {
            E::Connected { .. } => Event {
                kind: "connected",
                name: None,
                error: None,
                lost: None,
            },
            E::Disconnected { cause, .. } => {
                let cause = cause.to_string();
                let error = errors::new(py, "Disconnected", "not-connected", &cause, None);
                let error = Some(error.into_value(py).into_any());
                Event {
                    kind: "disconnected",
                    name: None,
                    error,
                    lost: None,
                }
            }
            E::ItemError { item, fault } => {
                let name = name(*item);
                let error = errors::of_fault(py, fault, name.as_deref());
                let error = Some(error.into_value(py).into_any());
                Event {
                    kind: "failed",
                    name,
                    error,
                    lost: None,
                }
            }
            E::Ended {
                item,
                lost,
                sentence,
                reason,
                ..
            } => {
                let name = name(*item);
                let code = format!("{reason:?}").to_lowercase();
                let class = if code == "overrun" {
                    "Overrun"
                } else {
                    "NotFound"
                };
                let error = errors::new(py, class, &code, sentence, name.as_deref());
                let error = Some(error.into_value(py).into_any());
                Event {
                    kind: "ended",
                    name,
                    error,
                    lost: *lost,
                }
            }
            // Readings are passed on as readings.
            E::Reading { .. } => return None,
        })
    }

    /// An event about one variable, or about a pattern.
    pub(crate) fn about(
        kind: &'static str,
        name: Option<String>,
        error: Option<Py<PyAny>>,
    ) -> Self {
        Self {
            kind,
            name,
            error,
            lost: None,
        }
    }
}

#[pymethods]
impl Event {
    fn __repr__(&self, py: Python<'_>) -> String {
        let name = self.name.as_ref().map(|name| format!(" of {name}"));
        let reason = self
            .error
            .as_ref()
            .map(|error| format!(": {}", error.bind(py)));
        format!(
            "Event({}{}{})",
            self.kind,
            name.unwrap_or_default(),
            reason.unwrap_or_default()
        )
    }
}

type Filling = Pin<Box<dyn Future<Output = (bool, Batch)> + Send>>;

/// A subscription, in the form that its program waits in.
enum Form {
    /// The program has closed the subscription.
    Closed,
    Blocking(Arc<trunkline::Subscription>),
    Async {
        subscription: Arc<aio::Subscription>,
        filling: Option<Filling>,
    },
}

/// A subscription to variables by name.
#[pyclass(frozen)]
pub(crate) struct Subscription {
    state: Mutex<State>,
    /// A thread that waits holds the lock most of the time, so it learns of the end without it.
    closing: OnceLock<()>,
}

struct State {
    form: Form,
    batch: Batch,
    /// Number of readings of the batch that Python has taken.
    taken: usize,
    event_taken: bool,
    /// Wakes the event loop that waits, if the subscription is closed.
    waker: Option<Waker>,
    /// What the readings of each item have in common, once it is known. A change of an item removes it.
    sources: Vec<Option<Source>>,
}

impl Subscription {
    pub(crate) fn of_blocking(subscription: trunkline::Subscription, items: usize) -> Self {
        Self::new(Form::Blocking(Arc::new(subscription)), items)
    }

    pub(crate) fn of_aio(subscription: aio::Subscription, items: usize) -> Self {
        let subscription = Arc::new(subscription);
        Self::new(
            Form::Async {
                subscription,
                filling: None,
            },
            items,
        )
    }

    fn new(form: Form, items: usize) -> Self {
        let state = State {
            form,
            batch: Batch::new(),
            taken: 0,
            event_taken: false,
            waker: None,
            sources: (0..items).map(|_| None).collect(),
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
impl Subscription {
    /// Waits up to `seconds` until there is a reading or an event, or the subscription is closed.
    /// Returns false if nothing arrived.
    fn wait(&self, py: Python<'_>, seconds: f64) -> bool {
        py.detach(|| {
            if self.closing.get().is_some() {
                return true;
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let state = &mut *state;
            if state.has_next() {
                return true;
            }
            let Form::Blocking(subscription) = &state.form else {
                return true;
            };
            let timeout = Some(duration(seconds));
            let filled = subscription.next_batch(&mut state.batch, READINGS_MAX, timeout);
            state.restart();
            filled
        })
    }

    /// Returns true if there is a reading or an event, or the subscription is closed. If not, `queue` gets `token` when there is one.
    fn poll(&self, py: Python<'_>, queue: &WakeQueue, token: u64) -> bool {
        let mut state = self.state(py);
        let state = &mut *state;
        if state.has_next() {
            return true;
        }
        let waker = queue.waker(token);
        let Form::Async {
            subscription,
            filling,
        } = &mut state.form
        else {
            return true;
        };
        let filling_now = filling.get_or_insert_with(|| {
            let subscription = Arc::clone(subscription);
            let mut batch = std::mem::take(&mut state.batch);
            Box::pin(async move {
                let filled = subscription.next_batch(&mut batch, READINGS_MAX).await;
                (filled, batch)
            })
        });
        match filling_now.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready((filled, batch)) => {
                *filling = None;
                state.batch = batch;
                state.restart();
                filled
            }
            Poll::Pending => {
                state.waker = Some(waker);
                false
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

    /// Returns the next reading or event that has arrived; `None` if there is none.
    fn pop(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let mut state = self.state(py);
        let state = &mut *state;
        if let Some(reading) = state.batch.readings().get(state.taken) {
            let item = reading.item();
            if state.sources.get(item as usize).is_none_or(Option::is_none) {
                state.sources =
                    with_source(py, &state.form, std::mem::take(&mut state.sources), item);
            }
            state.taken += 1;
            let Some(Some(source)) = state.sources.get(item as usize) else {
                return Ok(None);
            };
            let reading = Reading::new(py, source, &reading.parts())?;
            return Ok(Some(Py::new(py, reading)?.into_any()));
        }
        state.pop_event(py)
    }

    /// Returns the readings that have arrived in columns, then events one by one; `None` if there is
    /// nothing.
    fn pop_block(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let mut state = self.state(py);
        let state = &mut *state;
        let readings = state
            .batch
            .readings()
            .get(state.taken..)
            .unwrap_or_default();
        if readings.is_empty() {
            return state.pop_event(py);
        }
        let names = PyList::empty(py);
        for index in 0..state.sources.len() as u32 {
            if state.sources[index as usize].is_none() {
                state.sources =
                    with_source(py, &state.form, std::mem::take(&mut state.sources), index);
            }
            match &state.sources[index as usize] {
                Some(source) => names.append(&source.name)?,
                None => names.append("")?,
            }
        }
        let block = Block::new(
            py,
            names.unbind(),
            |item| state.sources.get(item as usize)?.as_ref(),
            readings,
        )?;
        state.taken = state.batch.readings().len();
        Ok(Some(Py::new(py, block)?.into_any()))
    }
}

impl State {
    fn has_next(&self) -> bool {
        self.taken < self.batch.readings().len()
            || (!self.event_taken && self.batch.event().is_some())
    }

    fn restart(&mut self) {
        self.taken = 0;
        self.event_taken = false;
    }

    fn pop_event(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.event_taken {
            return Ok(None);
        }
        let Some(event) = self.batch.event() else {
            return Ok(None);
        };
        self.event_taken = true;
        // The type of a variable may have changed.
        for source in &mut self.sources {
            *source = None;
        }
        let name = |item: u32| self.form.item(item).map(|item| item.name.to_string());
        let event = Event::of(py, event, name);
        event
            .map(|event| Ok(Py::new(py, event)?.into_any()))
            .transpose()
    }
}

impl Form {
    fn item(&self, index: u32) -> Option<Item> {
        match self {
            Form::Closed => None,
            Form::Blocking(subscription) => subscription.item(index),
            Form::Async { subscription, .. } => subscription.item(index),
        }
    }
}

/// Adds what is known about an item.
fn with_source(
    py: Python<'_>,
    form: &Form,
    mut sources: Vec<Option<Source>>,
    index: u32,
) -> Vec<Option<Source>> {
    if let Some(place) = sources.get_mut(index as usize)
        && let Some(item) = form.item(index)
    {
        let data_type = item.data_type.unwrap_or(DataType::Bool);
        *place = Some(Source::new(py, &item.name, "", data_type));
    }
    sources
}
