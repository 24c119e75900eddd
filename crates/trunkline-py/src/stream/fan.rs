//! Endpoints with several peers.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use trunkline::stream::{
    FanInOptions, FanInValueReader, FanOutOptions, FanOutValueWriter, PeerStatus, Policy, Run,
    RunEnd, StreamError, Undelivered,
};

use super::arrays::ElementDtype;
use super::operation::Operation;
use super::options::{EndpointOptions, left_of, limit, properties, until};
use super::shared::Shared;
use crate::call::{Answer, Call};
use crate::errors;

/// A writer with any number of readers.
#[pyclass(frozen)]
pub(crate) struct FanOutWriter {
    shared: Arc<Shared<FanOutValueWriter>>,
    dtype: Arc<ElementDtype>,
}

/// A reader with any number of writers.
#[pyclass(frozen)]
pub(crate) struct FanInReader {
    shared: Arc<Shared<FanInValueReader>>,
    dtype: Arc<ElementDtype>,
}

/// Begins to create the writer `url`. The answer is a `FanOutWriter`, once `readers` are connected.
#[pyfunction]
pub(crate) fn create_fan_out(
    py: Python<'_>,
    url: String,
    dtype: &Bound<'_, PyAny>,
    options: EndpointOptions,
    readers: usize,
    readers_max: usize,
    quota: Option<u64>,
) -> PyResult<Call> {
    let dtype = ElementDtype::of(dtype)?;
    let options = FanOutOptions {
        options: options.build(py)?,
        policy: quota.map_or(Policy::Slowest, Policy::Quota),
        readers_min: readers,
        readers_max,
    };
    Ok(Call::of(Operation::start(move |cancellation| async move {
        let created = {
            let created = FanOutValueWriter::create_async(&url, &dtype.data_type, options);
            super::shared::unless_cancelled(Box::pin(created), &cancellation).await
        };
        let answer: Answer = Box::new(move |py| match created {
            Some(Ok(writer)) => {
                let monitor = writer.monitor();
                let writer = FanOutWriter {
                    shared: Shared::new(writer, monitor),
                    dtype: Arc::new(dtype),
                };
                Ok(Py::new(py, writer)?.into_any())
            }
            Some(Err(error)) => Err(errors::of_stream(py, &error, &url)),
            None => Err(super::shared::no_peer(py, &url)),
        });
        answer
    })))
}

/// Begins to create the reader `url`. The answer is a `FanInReader`, once `writers` are connected.
#[pyfunction]
pub(crate) fn create_fan_in(
    py: Python<'_>,
    url: String,
    dtype: &Bound<'_, PyAny>,
    options: EndpointOptions,
    writers: usize,
    writers_max: usize,
) -> PyResult<Call> {
    let dtype = ElementDtype::of(dtype)?;
    let options = FanInOptions {
        options: options.build(py)?,
        writers_min: writers,
        writers_max,
    };
    Ok(Call::of(Operation::start(move |cancellation| async move {
        let created = {
            let created = FanInValueReader::create_async(&url, &dtype.data_type, options);
            super::shared::unless_cancelled(Box::pin(created), &cancellation).await
        };
        let answer: Answer = Box::new(move |py| match created {
            Some(Ok(reader)) => {
                let monitor = reader.monitor();
                let reader = FanInReader {
                    shared: Shared::new(reader, monitor),
                    dtype: Arc::new(dtype),
                };
                Ok(Py::new(py, reader)?.into_any())
            }
            Some(Err(error)) => Err(errors::of_stream(py, &error, &url)),
            None => Err(super::shared::no_peer(py, &url)),
        });
        answer
    })))
}

#[pymethods]
impl FanOutWriter {
    /// As `StreamWriter.write`: all elements to all readers, or none.
    fn write(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        seconds: f64,
    ) -> PyResult<Option<bool>> {
        let bytes = self.dtype.bytes(array)?;
        let timeout = limit(Some(seconds));
        let written = self
            .shared
            .attempt(py, |writer| writer.write_bytes(bytes, timeout))?;
        Ok(written.map(|()| true))
    }

    /// Begins to write a copy of the array. The answer is true.
    fn begin_write(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Call> {
        let bytes = self.dtype.bytes(array)?.to_vec();
        self.shared.begin(
            py,
            move |writer| Box::pin(async move { writer.write_bytes_async(&bytes, None).await }),
            |py, ()| Ok(true.into_pyobject(py)?.to_owned().into_any().unbind()),
        )
    }

    /// As `StreamWriter.flush`, for all readers.
    fn flush(&self, py: Python<'_>, stage: &str, seconds: f64) -> PyResult<Option<bool>> {
        let (stage, timeout) = (until(stage)?, limit(Some(seconds)));
        let flushed = self
            .shared
            .attempt(py, |writer| writer.flush(stage, timeout))?;
        Ok(flushed.map(|()| true))
    }

    /// As `StreamWriter.begin_flush`, for all readers.
    fn begin_flush(&self, py: Python<'_>, stage: &str) -> PyResult<Call> {
        let stage = until(stage)?;
        self.shared.begin(
            py,
            move |writer| Box::pin(writer.flush_async(stage, None)),
            |py, ()| Ok(true.into_pyobject(py)?.to_owned().into_any().unbind()),
        )
    }

    /// Begins to close the writer. The answer has a tuple for each reader.
    fn begin_close(&self, seconds: Option<f64>) -> Call {
        let timeout = limit(seconds);
        self.shared.begin_close(
            move |writer| Box::pin(async move { Ok(writer.end_async(timeout).await) }),
            undelivered,
        )
    }

    /// Begins to abort the writer: the readers get the reason. The answer has a tuple for each reader.
    fn begin_abort(&self, reason: String) -> Call {
        self.shared.begin_close(
            move |writer| Box::pin(async move { Ok(writer.end_because_async(&reason).await) }),
            undelivered,
        )
    }

    /// Returns number, URL, program, whether it is connected, waiting and lost elements of each reader.
    fn readers(&self, py: Python<'_>) -> PyResult<Vec<PeerRow>> {
        let peers = self
            .shared
            .attempt(py, |writer| Ok::<_, StreamError>(writer.readers()))?;
        Ok(rows(&peers.unwrap_or_default()))
    }

    /// Returns a tuple for each reader that has left since the last call.
    fn departed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let departed = self
            .shared
            .attempt(py, |writer| Ok::<_, StreamError>(writer.departed()))?;
        undelivered(py, departed.unwrap_or_default())
    }

    #[getter]
    fn available(&self, py: Python<'_>) -> u64 {
        self.shared.properties(py).available_for_writing()
    }

    #[getter]
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        properties(py, &self.shared.properties(py))
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.dtype.clone_ref(py).into_any()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.shared.name
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }
}

#[pymethods]
impl FanInReader {
    /// Waits up to `seconds`. Returns number, URL and program of a writer, and up to `max` of its
    /// elements, or `None`, the kind of its end, and the reason; `None` if nothing arrived.
    fn read_run(&self, py: Python<'_>, max: usize, seconds: f64) -> PyResult<Option<Py<PyAny>>> {
        let timeout = limit(Some(seconds));
        let run = self
            .shared
            .attempt(py, |reader| reader.read_bytes_run(max, timeout))?;
        run.map(|run| run_of(py, &self.dtype, run)).transpose()
    }

    /// Begins to wait for a run. The answer is as the result of `read_run`.
    fn begin_read_run(&self, py: Python<'_>, max: usize) -> PyResult<Call> {
        let dtype = Arc::clone(&self.dtype);
        self.shared.begin(
            py,
            move |reader| Box::pin(reader.read_bytes_run_async(max, None)),
            move |py, run| run_of(py, &dtype, run),
        )
    }

    /// Begins to close the reader.
    fn begin_close(&self) -> Call {
        self.shared.begin_close(
            move |reader| {
                Box::pin(async move {
                    reader.end_async().await;
                    Ok(())
                })
            },
            |py, ()| Ok(py.None()),
        )
    }

    /// Returns number, URL, program, whether it is connected, waiting and lost elements of each writer.
    fn writers(&self, py: Python<'_>) -> PyResult<Vec<PeerRow>> {
        let peers = self
            .shared
            .attempt(py, |reader| Ok::<_, StreamError>(reader.writers()))?;
        Ok(rows(&peers.unwrap_or_default()))
    }

    #[getter]
    fn available(&self, py: Python<'_>) -> u64 {
        self.shared.properties(py).available_for_reading()
    }

    #[getter]
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        properties(py, &self.shared.properties(py))
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.dtype.clone_ref(py).into_any()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.shared.name
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }
}

type PeerRow = (u64, String, String, bool, u64, u64);

fn rows(peers: &[PeerStatus]) -> Vec<PeerRow> {
    let row = |peer: &PeerStatus| {
        let member = &peer.member;
        (
            member.number,
            member.url.clone(),
            member.program.clone(),
            peer.is_connected,
            peer.waiting,
            peer.lost,
        )
    };
    peers.iter().map(row).collect()
}

/// Returns number, URL, program, elements not delivered and in doubt, lost elements, and the reason why
/// the reader left, of each reader.
fn undelivered(py: Python<'_>, of: Vec<Undelivered>) -> PyResult<Py<PyAny>> {
    let rows = PyList::empty(py);
    for one in of {
        let (elements, in_doubt) = left_of(one.left);
        let fault = one.fault.as_ref().map(ToString::to_string);
        let member = &one.member;
        let who = (member.number, &member.url, &member.program);
        rows.append((who.0, who.1, who.2, elements, in_doubt, one.lost, fault))?;
    }
    Ok(rows.into_any().unbind())
}

fn run_of(py: Python<'_>, dtype: &ElementDtype, run: Run<u8>) -> PyResult<Py<PyAny>> {
    let (writer, elements, end) = match run {
        Run::Elements { writer, elements } => {
            (writer, Some(dtype.array_of(py, &elements)?), (None, None))
        }
        Run::Ended { writer, end } => (writer, None, end_of(&end)),
    };
    let who = (writer.number, &writer.url, &writer.program);
    let row = (who.0, who.1, who.2, elements, end.0, end.1);
    Ok(row.into_pyobject(py)?.into_any().unbind())
}

fn end_of(end: &RunEnd) -> (Option<&'static str>, Option<String>) {
    match end {
        RunEnd::Closed => (Some("closed"), None),
        RunEnd::Aborted { reason, .. } => (Some("aborted"), Some(reason.clone())),
        RunEnd::Fault(fault) => (Some("fault"), Some(fault.to_string())),
    }
}
