//! Elements in the memory of an endpoint, which the program uses in place.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use trunkline::stream::{StreamError, ValueReader, ValueWriter};

use super::arrays::{ElementDtype, make_empty};
use super::options::limit;
use super::shared::Shared;

/// Memory of an endpoint. It is valid as long as the [`Shared`] exists, because a closed endpoint is
/// kept there.
#[derive(Clone, Copy)]
pub(super) struct Memory(*mut u8);

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Memory {}
// SAFETY: as above; the pointer itself is only copied.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(bytes.as_ptr().cast_mut())
    }

    pub(super) fn of_mut(bytes: &mut [u8]) -> Self {
        Self(bytes.as_mut_ptr())
    }
}

struct Lease<E: Send + 'static> {
    /// The endpoint, which nothing else uses meanwhile; `None` once the lease has ended.
    endpoint: Mutex<Option<E>>,
    shared: Arc<Shared<E>>,
    dtype: Arc<ElementDtype>,
    memory: Memory,
    count: usize,
}

impl<E: Send + 'static> Lease<E> {
    fn take(&self) -> Option<E> {
        let mut endpoint = self.endpoint.lock().unwrap_or_else(PoisonError::into_inner);
        endpoint.take()
    }
}

/// Elements that a reader has received. They are not read until the lease ends.
#[pyclass(frozen)]
pub(crate) struct ReadLease(Lease<ValueReader>);

impl ReadLease {
    pub(super) fn new(
        endpoint: ValueReader,
        shared: Arc<Shared<ValueReader>>,
        dtype: Arc<ElementDtype>,
        (memory, count): (Memory, usize),
    ) -> Self {
        Self(Lease {
            endpoint: Mutex::new(Some(endpoint)),
            shared,
            dtype,
            memory,
            count,
        })
    }

    fn end(&self) -> Result<(), StreamError> {
        let Some(mut reader) = self.0.take() else {
            return Ok(());
        };
        // The region is the one that was acquired before, because nothing else has used the reader.
        let region = reader.acquire_bytes_exactly(self.0.count, Some(Duration::ZERO));
        let released = region.map(drop);
        if let Some(mut reader) = self.0.shared.end_lease(reader) {
            let ended = reader.end();
            self.0.shared.keep(reader);
            return released.and(ended);
        }
        released
    }
}

#[pymethods]
impl ReadLease {
    /// Returns the elements as an array that cannot be written.
    fn array<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let lease = &this.get().0;
        let owner = this.clone().into_any();
        // SAFETY: the lease owns a reference to the endpoint, whose buffer begins at a page boundary and
        // contains elements of one size.
        unsafe { lease.dtype.view(owner, lease.memory.0, lease.count, false) }
    }

    /// Ends the lease: the elements are read, and the writer can send more. `array` becomes empty.
    fn release(&self, py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<()> {
        make_empty(array);
        let ended = py.detach(|| self.end());
        ended.map_err(|error| self.0.shared.error(py, &error))
    }
}

impl Drop for ReadLease {
    fn drop(&mut self) {
        // The program has forgotten the lease, and nobody is there to get an error.
        let _ended = self.end();
    }
}

/// Room for elements in the memory from which a writer sends them.
#[pyclass(frozen)]
pub(crate) struct WriteLease(Lease<ValueWriter>);

impl WriteLease {
    pub(super) fn new(
        endpoint: ValueWriter,
        shared: Arc<Shared<ValueWriter>>,
        dtype: Arc<ElementDtype>,
        (memory, count): (Memory, usize),
    ) -> Self {
        Self(Lease {
            endpoint: Mutex::new(Some(endpoint)),
            shared,
            dtype,
            memory,
            count,
        })
    }

    fn give_back(&self, writer: ValueWriter) {
        if let Some(writer) = self.0.shared.end_lease(writer) {
            // Closing it here would wait for the reader. The elements that were written are sent when the
            // program drops the writer.
            self.0.shared.keep(writer);
        }
    }
}

#[pymethods]
impl WriteLease {
    /// Returns the room as an array. Its elements have any values.
    fn array<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let lease = &this.get().0;
        let owner = this.clone().into_any();
        // SAFETY: as for `ReadLease`. Nothing reads this memory before `commit`.
        unsafe { lease.dtype.view(owner, lease.memory.0, lease.count, true) }
    }

    /// Writes the first `count` elements of the room and ends the lease. `array` becomes empty. Returns
    /// false if a journal had no room in time.
    fn commit(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        count: usize,
        seconds: f64,
    ) -> PyResult<bool> {
        let Some(mut writer) = self.0.take() else {
            return Ok(true);
        };
        let written = py.detach(|| writer.commit(count, limit(Some(seconds))));
        if let Err(StreamError::Timeout { .. }) = written {
            *self
                .0
                .endpoint
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(writer);
            return Ok(false);
        }
        make_empty(array);
        self.give_back(writer);
        written
            .map(|()| true)
            .map_err(|error| self.0.shared.error(py, &error))
    }

    /// Ends the lease without writing anything. `array` becomes empty.
    fn release(&self, array: &Bound<'_, PyAny>) {
        make_empty(array);
        if let Some(writer) = self.0.take() {
            self.give_back(writer);
        }
    }
}

impl Drop for WriteLease {
    fn drop(&mut self) {
        if let Some(writer) = self.0.take() {
            self.give_back(writer);
        }
    }
}
