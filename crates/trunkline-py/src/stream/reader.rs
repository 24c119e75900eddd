//! Readers with one writer.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};
use trunkline::stream::{StreamError, ValueReader};

use super::arrays::ElementDtype;
use super::lease::{Memory, ReadLease};
use super::operation::Operation;
use super::options::{EndpointOptions, limit, properties};
use super::shared::Shared;
use crate::call::{Answer, Call};
use crate::errors;

/// The reader of a stream.
#[pyclass(frozen)]
pub(crate) struct StreamReader {
    shared: Arc<Shared<ValueReader>>,
    dtype: Arc<ElementDtype>,
    has_journal: bool,
}

/// Begins to create the reader `url`. The answer is a `StreamReader`, once it is connected.
#[pyfunction]
pub(crate) fn create_reader(
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
            let created = ValueReader::create_async(&url, &dtype.data_type, options);
            super::shared::unless_cancelled(Box::pin(created), &cancellation).await
        };
        let answer: Answer = Box::new(move |py| match created {
            Some(Ok(reader)) => {
                let monitor = reader.monitor();
                let reader = StreamReader {
                    shared: Shared::new(reader, monitor),
                    dtype: Arc::new(dtype),
                    has_journal,
                };
                Ok(Py::new(py, reader)?.into_any())
            }
            Some(Err(error)) => Err(errors::of_stream(py, &error, &url)),
            None => Err(super::shared::no_peer(py, &url)),
        });
        answer
    })))
}

impl StreamReader {
    /// Reads `count` elements that were there a moment ago into a new array. Returns `None` if another
    /// thread has read them.
    fn read_now<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let array = self.dtype.empty(py, count)?;
        let into = self.dtype.bytes_mut(&array)?;
        let now = limit(Some(0.0));
        let read = self
            .shared
            .attempt(py, |reader| reader.read_bytes_into(into, now))?;
        match read {
            None => Ok(None),
            Some(read) if read == count => Ok(Some(array)),
            // Another thread has read some of them, and the rest are the last ones.
            Some(read) => {
                let rest = array.get_item(PySlice::new(py, 0, read.cast_signed(), 1))?;
                rest.call_method0("copy").map(Some)
            }
        }
    }
}

#[pymethods]
impl StreamReader {
    /// Waits up to `seconds` for as many elements as the array holds, and copies them into it. Returns
    /// their number; `None` if they did not arrive.
    fn read_into(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        seconds: f64,
    ) -> PyResult<Option<usize>> {
        let into = self.dtype.bytes_mut(array)?;
        let timeout = limit(Some(seconds));
        self.shared
            .attempt(py, |reader| reader.read_bytes_into(into, timeout))
    }

    /// Waits up to `seconds` for `count` elements, and returns those that are there in a new array;
    /// `None` if they did not arrive.
    fn read<'py>(
        &self,
        py: Python<'py>,
        count: usize,
        seconds: f64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let timeout = limit(Some(seconds));
        // The array is allocated when it is known how long it is.
        let ready = self
            .shared
            .attempt(py, |reader| reader.ready(count, timeout))?;
        let Some(count) = ready else {
            return Ok(None);
        };
        self.read_now(py, count)
    }

    /// Returns all elements that are there in a new array, without waiting.
    fn read_available<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let count = self.shared.attempt(py, |reader| {
            match reader.available() {
                // Detects the end of the stream.
                0 => reader
                    .ready(1, limit(Some(0.0)))
                    .map(|_| reader.available()),
                count => Ok(count),
            }
        })?;
        match self.read_now(py, count.unwrap_or(0))? {
            Some(array) => Ok(array),
            None => self.dtype.empty(py, 0),
        }
    }

    /// Waits up to `seconds` for `count` elements, and lends those that are there; `None` if they did not
    /// arrive.
    fn acquire(&self, py: Python<'_>, count: usize, seconds: f64) -> PyResult<Option<ReadLease>> {
        let timeout = limit(Some(seconds));
        let leased = self.shared.lease(py, |reader| {
            let region = reader.acquire_bytes_exactly(count, timeout)?;
            let acquired = (Memory::of(&region), region.elements());
            // The elements are released when the lease ends.
            std::mem::forget(region);
            Ok(acquired)
        })?;
        Ok(leased.map(|(reader, acquired)| {
            let shared = Arc::clone(&self.shared);
            ReadLease::new(reader, shared, Arc::clone(&self.dtype), acquired)
        }))
    }

    /// Begins to wait for `count` elements. The answer is `None`, once they can be read.
    fn begin_ready(&self, py: Python<'_>, count: usize) -> PyResult<Call> {
        self.shared.begin(
            py,
            move |reader| Box::pin(reader.ready_async(count, None)),
            |py, _| Ok(py.None()),
        )
    }

    /// Declares that the program has processed all elements that it has read.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.attempt(py, ValueReader::commit).map(drop)
    }

    /// Begins to close the reader. With a journal and without `destroys`, the next endpoint continues
    /// the stream.
    fn begin_close(&self, destroys: bool) -> Call {
        let is_suspended = self.has_journal && !destroys;
        self.shared.begin_close(
            move |reader| {
                Box::pin(async move {
                    // The journal of a stream that has ended is emptied, and the writer learns that
                    // everything was read.
                    match is_suspended && !reader.is_at_end() {
                        true => Ok(()),
                        false => reader.end_async().await,
                    }
                })
            },
            |py, ()| Ok(py.None()),
        )
    }

    /// Number of elements in the buffer, those of a lease included.
    #[getter]
    fn available(&self, py: Python<'_>) -> u64 {
        self.shared.properties(py).available_for_reading()
    }

    /// Number of elements that the writer has dropped, because this reader was too slow.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<u64> {
        let lost = self
            .shared
            .attempt(py, |reader| Ok::<_, StreamError>(reader.lost_total()));
        lost.map(|lost| lost.unwrap_or(0))
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
