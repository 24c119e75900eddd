//! Writers with one reader.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use trunkline::stream::{Closed, Left, ValueWriter};

use super::arrays::ElementDtype;
use super::lease::{Memory, WriteLease};
use super::operation::Operation;
use super::options::{EndpointOptions, left_of, limit, properties, until};
use super::shared::Shared;
use crate::call::{Answer, Call};
use crate::errors;
use crate::values;

/// The writer of a stream.
#[pyclass(frozen)]
pub(crate) struct StreamWriter {
    shared: Arc<Shared<ValueWriter>>,
    dtype: Arc<ElementDtype>,
    has_journal: bool,
}

/// Begins to create the writer `url`. The answer is a `StreamWriter`, once it is connected.
#[pyfunction]
pub(crate) fn create_writer(
    py: Python<'_>,
    url: String,
    dtype: &Bound<'_, PyAny>,
    options: EndpointOptions,
) -> PyResult<Call> {
    let dtype = ElementDtype::of(dtype)?;
    let options = options.build(py)?;
    Ok(Call::of(Operation::start(move |cancellation| async move {
        let has_journal = options.journal.is_some();
        let created = {
            let created = ValueWriter::create_async(&url, &dtype.data_type, options);
            super::shared::unless_cancelled(Box::pin(created), &cancellation).await
        };
        let answer: Answer = Box::new(move |py| match created {
            Some(Ok(writer)) => {
                let monitor = writer.monitor();
                let writer = StreamWriter {
                    shared: Shared::new(writer, monitor),
                    dtype: Arc::new(dtype),
                    has_journal,
                };
                Ok(Py::new(py, writer)?.into_any())
            }
            Some(Err(error)) => Err(errors::of_stream(py, &error, &url)),
            None => Err(super::shared::no_peer(py, &url)),
        });
        answer
    })))
}

#[pymethods]
impl StreamWriter {
    /// Waits up to `seconds` for room, and writes all elements of the array. Returns `None` if there was
    /// no room, and nothing was written.
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

    /// As `write`, for one element.
    fn write_one(
        &self,
        py: Python<'_>,
        element: &Bound<'_, PyAny>,
        seconds: f64,
    ) -> PyResult<Option<bool>> {
        let value = values::from_python(element, &self.dtype.data_type)?;
        let timeout = limit(Some(seconds));
        let written = self
            .shared
            .attempt(py, |writer| writer.write(&value, timeout))?;
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

    /// Begins to write one element. The answer is true.
    fn begin_write_one(&self, py: Python<'_>, element: &Bound<'_, PyAny>) -> PyResult<Call> {
        let value = values::from_python(element, &self.dtype.data_type)?;
        self.shared.begin(
            py,
            move |writer| Box::pin(async move { writer.write_many_async(&[value], None).await }),
            |py, ()| Ok(true.into_pyobject(py)?.to_owned().into_any().unbind()),
        )
    }

    /// Waits up to `seconds` for room for `count` elements, and lends it; `None` if there was no room.
    fn reserve(&self, py: Python<'_>, count: usize, seconds: f64) -> PyResult<Option<WriteLease>> {
        let timeout = limit(Some(seconds));
        let leased = self.shared.lease(py, |writer| {
            let room = writer.reserve(count, timeout)?;
            Ok((Memory::of_mut(room), count))
        })?;
        Ok(leased.map(|(writer, room)| {
            let shared = Arc::clone(&self.shared);
            WriteLease::new(writer, shared, Arc::clone(&self.dtype), room)
        }))
    }

    /// Begins to wait for room for `count` elements. The answer is `None`.
    fn begin_room(&self, py: Python<'_>, count: usize) -> PyResult<Call> {
        self.shared.begin(
            py,
            move |writer| Box::pin(writer.room_async(count, None)),
            |py, ()| Ok(py.None()),
        )
    }

    /// Sends all elements, and waits up to `seconds` until they have reached a stage. Returns `None` if
    /// they have not.
    fn flush(&self, py: Python<'_>, stage: &str, seconds: f64) -> PyResult<Option<bool>> {
        let (stage, timeout) = (until(stage)?, limit(Some(seconds)));
        let flushed = self
            .shared
            .attempt(py, |writer| writer.flush(stage, timeout))?;
        Ok(flushed.map(|()| true))
    }

    /// Begins to send all elements. The answer is true, once they have reached a stage.
    fn begin_flush(&self, py: Python<'_>, stage: &str) -> PyResult<Call> {
        let stage = until(stage)?;
        self.shared.begin(
            py,
            move |writer| Box::pin(writer.flush_async(stage, None)),
            |py, ()| Ok(true.into_pyobject(py)?.to_owned().into_any().unbind()),
        )
    }

    /// Begins to close the writer, and waits up to `seconds` until the reader has everything. The answer
    /// is the number of elements that were not delivered, and how many of them are in doubt.
    fn begin_close(&self, seconds: Option<f64>) -> Call {
        let timeout = limit(seconds);
        self.shared.begin_close(
            move |writer| Box::pin(async move { Ok(writer.end_async(timeout).await) }),
            closed,
        )
    }

    /// Begins to abort the writer: the reader gets the reason. The answer is as that of `begin_close`.
    fn begin_abort(&self, reason: String) -> Call {
        self.shared.begin_close(
            move |writer| Box::pin(async move { Ok(writer.end_because_async(&reason).await) }),
            closed,
        )
    }

    /// Begins to leave the stream to the next endpoint with the same journal.
    fn begin_suspend(&self) -> Call {
        self.shared
            .begin_close(|_| Box::pin(async { Ok(()) }), |py, ()| Ok(py.None()))
    }

    /// Number of elements for which there is room.
    #[getter]
    fn available(&self, py: Python<'_>) -> u64 {
        self.shared.properties(py).available_for_writing()
    }

    #[getter]
    fn has_journal(&self) -> bool {
        self.has_journal
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

fn closed(py: Python<'_>, closed: Closed) -> PyResult<Py<PyAny>> {
    if let Some(error) = closed.journal_error {
        return Err(errors::new(
            py,
            "Error",
            "journal",
            &error.to_string(),
            None,
        ));
    }
    let left = left_of(Left {
        elements: closed.elements,
        in_doubt: closed.in_doubt,
    });
    Ok(left.into_pyobject(py)?.into_any().unbind())
}
