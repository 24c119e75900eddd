//! I/O servers: Python programs as the source of an engine's variables.
//!
//! The class `IoServer` in `python/trunkline/io_server.py` runs the program's functions. No thread of
//! this library calls them.

use std::borrow::Cow;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trunkline::io::{ItemId, Published};
use trunkline::types::text::parse_type;
use trunkline::types::{DataType, Quality, Reason, Timestamp};
use trunkline::{
    ConnectOptions, OrderAnswer, ProviderStatus, QueuedProvider, QueuedProviderError,
    QueuedProviderOptions,
};

use crate::call::duration;
use crate::{definitions, errors, values};

/// A running I/O server. Its variables become bad when it is closed, or when the process ends.
#[pyclass(frozen)]
pub(crate) struct Provider {
    provider: QueuedProvider,
    /// The types of the items.
    types: Vec<DataType>,
}

/// What a client wants: a write, or a request for a fresh value.
#[pyclass(frozen)]
pub(crate) struct Order {
    /// Number of the order, for the answer.
    #[pyo3(get)]
    number: u64,
    /// Number of the item.
    #[pyo3(get)]
    item: u32,
    /// True for a write.
    #[pyo3(get)]
    is_write: bool,
    /// The value of a write, raw; otherwise `None`.
    #[pyo3(get)]
    value: Py<PyAny>,
}

#[pymethods]
impl Provider {
    /// Starts an I/O server for the engine at `url`. The engine need not be running.
    #[staticmethod]
    #[pyo3(signature = (url, program, name, items, rows, order_timeout, takes_requests))]
    #[allow(clippy::too_many_arguments, reason = "named arguments in Python")]
    fn start(
        py: Python<'_>,
        url: &str,
        program: String,
        name: String,
        items: Vec<(String, String)>,
        rows: Option<Vec<definitions::Row<'_>>>,
        order_timeout: f64,
        takes_requests: bool,
    ) -> PyResult<Self> {
        let mut types = Vec::with_capacity(items.len());
        for (item, data_type) in &items {
            let data_type = parse_type(data_type);
            types.push(
                data_type
                    .map_err(|error| PyValueError::new_err(format!("field {item}: {error}")))?,
            );
        }
        let library = rows.map(|rows| definitions::library(&name, &rows));
        let options = QueuedProviderOptions {
            name,
            items: items.into_iter().map(|(item, _)| item).collect(),
            libraries: library.transpose()?.into_iter().collect(),
            order_timeout: duration(order_timeout),
            takes_requests,
        };
        let started = ConnectOptions::new(url).and_then(|mut engine| {
            engine.program = program;
            QueuedProvider::start(&engine, options)
        });
        let provider = started.map_err(|error| errors::of_connect(py, &error))?;
        Ok(Self { provider, types })
    }

    /// Publishes the value of an item. With a reason, its quality is uncertain or bad.
    #[pyo3(signature = (item, value, reason, ts_ns))]
    fn publish(
        &self,
        py: Python<'_>,
        item: u32,
        value: &Bound<'_, PyAny>,
        reason: Option<&str>,
        ts_ns: Option<i64>,
    ) -> PyResult<()> {
        let published = Published {
            quality: match reason.map(reason_of).transpose()? {
                None => Quality::GOOD,
                Some(reason) if reason.code() < FIRST_BAD => Quality::uncertain(reason),
                Some(reason) => Quality::bad(reason),
            },
            source_timestamp: ts_ns.map(Timestamp::from_nanos),
            ..self.published(item, value)?
        };
        let sent = py.detach(|| self.provider.publish(&[published]));
        sent.map_err(|error| of_provider(py, &error))
    }

    /// Publishes several values of good quality together.
    fn publish_many(
        &self,
        py: Python<'_>,
        items: Vec<(u32, Bound<'_, PyAny>)>,
        ts_ns: Option<i64>,
    ) -> PyResult<()> {
        let source_timestamp = ts_ns.map(Timestamp::from_nanos);
        let published = items.iter().map(|(item, value)| {
            self.published(*item, value).map(|published| Published {
                source_timestamp,
                ..published
            })
        });
        let published: Vec<_> = published.collect::<PyResult<_>>()?;
        let sent = py.detach(|| self.provider.publish(&published));
        sent.map_err(|error| of_provider(py, &error))
    }

    /// Publishes that items cannot be read, for this reason.
    fn fail(&self, py: Python<'_>, items: Vec<u32>, reason: &str) -> PyResult<()> {
        let quality = Quality::bad(reason_of(reason)?);
        let failed = items.into_iter().map(|item| Published {
            item: ItemId(item),
            value: None,
            quality,
            source_timestamp: None,
        });
        let failed: Vec<_> = failed.collect();
        let sent = py.detach(|| self.provider.publish(&failed));
        sent.map_err(|error| of_provider(py, &error))
    }

    /// Returns the last value of an item in a tuple, or `None` if it has none.
    fn last(&self, py: Python<'_>, item: u32) -> PyResult<Option<(Py<PyAny>,)>> {
        let data_type = self.data_type(item)?;
        let last = self.provider.last(ItemId(item)).and_then(|last| last.value);
        last.map(|value| Ok((values::to_python(py, &value, data_type)?,)))
            .transpose()
    }

    /// Waits up to `seconds` for the next order. Returns `None` if there is none.
    fn next_order(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<Order>> {
        let timeout = duration(seconds);
        let order = py.detach(|| self.provider.next_order(Some(timeout)));
        let Some(order) = order.map_err(|error| of_provider(py, &error))? else {
            return Ok(None);
        };
        let data_type = self.data_type(order.item.0)?;
        let value = match &order.value {
            Some(value) => values::to_python(py, value, data_type)?,
            None => py.None(),
        };
        Ok(Some(Order {
            number: order.number,
            item: order.item.0,
            is_write: order.value.is_some(),
            value,
        }))
    }

    /// Answers an order with the value that the device has now; with `None`, it is the written one.
    fn accept(
        &self,
        py: Python<'_>,
        order: &Order,
        value: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let answer = match value {
            Some(value) => OrderAnswer::Has {
                value: values::from_python(&value, self.data_type(order.item)?)?,
                quality: Quality::GOOD,
                source_timestamp: None,
            },
            None => OrderAnswer::Done,
        };
        self.answer(py, order, answer)
    }

    /// Answers an order: the device keeps its value.
    fn refuse(&self, py: Python<'_>, order: &Order, reason: String) -> PyResult<()> {
        self.answer(py, order, OrderAnswer::Refused(reason))
    }

    /// Answers an order: it is unknown whether the device has the value.
    fn unknown(&self, py: Python<'_>, order: &Order, reason: String) -> PyResult<()> {
        self.answer(py, order, OrderAnswer::Unknown(reason))
    }

    /// The current state as a dictionary.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ProviderStatus {
            is_provided,
            variables,
            missing,
            missing_item,
            engine_error,
            device_error: _,
        } = self.provider.status();
        let (dropped, refused) = self.provider.losses();
        let status = PyDict::new(py);
        status.set_item("provided", is_provided)?;
        status.set_item("variables", variables)?;
        status.set_item("missing", missing)?;
        status.set_item("missing_item", missing_item)?;
        status.set_item("engine_error", engine_error)?;
        status.set_item("dropped", dropped)?;
        status.set_item("refused", refused)?;
        Ok(status)
    }

    /// Stops the I/O server. Waiting calls end.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.provider.stop());
    }
}

impl Provider {
    fn data_type(&self, item: u32) -> PyResult<&DataType> {
        let data_type = self.types.get(item as usize);
        data_type.ok_or_else(|| PyIndexError::new_err(format!("there is no item {item}")))
    }

    fn published(&self, item: u32, value: &Bound<'_, PyAny>) -> PyResult<Published> {
        Ok(Published {
            item: ItemId(item),
            value: Some(values::from_python(value, self.data_type(item)?)?),
            quality: Quality::GOOD,
            source_timestamp: None,
        })
    }

    fn answer(&self, py: Python<'_>, order: &Order, answer: OrderAnswer) -> PyResult<()> {
        let answered = py.detach(|| self.provider.answer(order.number, answer));
        answered.map_err(|error| of_provider(py, &error))
    }
}

/// The lowest code of the reasons for a bad quality.
const FIRST_BAD: u16 = 64;

/// Returns the reason with this name, as readings show it.
fn reason_of(name: &str) -> PyResult<Reason> {
    let reason = Reason::ALL.iter().find(|reason| reason.name() == name);
    reason.copied().ok_or_else(|| {
        let names: Vec<Cow<'_, str>> = Reason::ALL.iter().map(|one| one.name().into()).collect();
        PyValueError::new_err(format!(
            "{name:?} is no reason of a quality; the reasons are {}",
            names.join(", ")
        ))
    })
}

fn of_provider(py: Python<'_>, error: &QueuedProviderError) -> PyErr {
    let (class, code) = match error {
        QueuedProviderError::Closed => ("Closed", "closed"),
        QueuedProviderError::LateAnswer(_) => ("TimedOut", "late"),
        QueuedProviderError::UnknownItem { .. } => ("Error", "unknown-item"),
    };
    errors::new(py, class, code, &error.to_string(), None)
}
