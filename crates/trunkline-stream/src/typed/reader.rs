//! Defines the reader of a stream whose element type is known at compile time.

use std::time::Duration;

use trunkline_proto::stream::ElementForm;

use super::forwarding::forward;
use crate::bytes::{ReadAmount, ReaderCore, Region};
use crate::element::{Element, Plain};
use crate::error::StreamError;
use crate::options::Options;
use crate::properties::{Monitor, Properties};
use crate::rendezvous::{self, RealWorld};
use crate::wait::{Blocking, Task, Waiter, block};

/// The reader of a stream of elements of type `T`.
///
/// Elements that arrive stay in the endpoint's own buffer until they are read; reading allows the
/// writer to send more (NS-62). After the writer is gone, reading continues until nothing is left
/// (NS-47).
///
/// Dropping the reader destroys it, and the writer learns how far the stream was read. With a
/// journal, dropping the reader leaves the stream to the next endpoint that has this name and the
/// same journal.
///
/// # Example
/// ```no_run
/// # use std::time::Duration;
/// # use trunkline_stream::{Options, Reader, StreamError};
/// let mut reader = Reader::<f64>::create("daq/raw", Options::default())?;
/// let elements = reader.read_many(1000, Some(Duration::from_secs(1)))?;
/// let sum: f64 = reader.acquire(1000, None)?.iter().sum();
/// # Ok::<(), StreamError>(())
/// ```
pub struct Reader<T: Element> {
    core: ReaderCore,
    /// Memory for decoding one element; empty between calls.
    element_buffer: Vec<T>,
}

impl<T: Element> Reader<T> {
    async fn create_impl(
        waiter: &impl Waiter,
        url: &str,
        options: Options,
    ) -> Result<Self, StreamError> {
        let core = rendezvous::reader(waiter, &RealWorld, url, T::data_type(), options).await?;
        Ok(Self {
            core,
            element_buffer: Vec::new(),
        })
    }

    /// Reads one element, waiting for at most `timeout` (`None`: no limit).
    ///
    /// # Errors
    /// [`StreamError::Timeout`]: no element arrived. [`StreamError::Ended`]: there are no more
    /// elements. `StreamError::Lost`: elements are missing here; the next call continues after
    /// them.
    #[inline]
    pub fn read(&mut self, timeout: Option<Duration>) -> Result<T, StreamError> {
        if let Some(element) = T::read_plain(|bytes| self.core.try_read(bytes, 1)) {
            return Ok(element);
        }
        self.read_slowly(timeout)
    }

    #[inline(never)]
    fn read_slowly(&mut self, timeout: Option<Duration>) -> Result<T, StreamError> {
        let count = block(
            self.core
                .wait_for(&Blocking, ReadAmount::Exactly(1), timeout),
        )?;
        let bytes = self.core.region(count)?;
        let len = bytes.len();
        T::append(bytes, &mut self.element_buffer)?;
        self.core.release(len, count);
        self.element_buffer.pop().ok_or(StreamError::Ended)
    }

    /// Reads all available elements, possibly none, without waiting (NS-36).
    ///
    /// # Errors
    /// [`StreamError::Ended`], or the reason why the stream is over.
    pub fn read_available(&mut self) -> Result<Vec<T>, StreamError> {
        block(self.read_impl(&Blocking, ReadAmount::Available, None))
    }

    async fn read_impl(
        &mut self,
        waiter: &impl Waiter,
        amount: ReadAmount,
        timeout: Option<Duration>,
    ) -> Result<Vec<T>, StreamError> {
        let count = self.core.wait_for(waiter, amount, timeout).await?;
        let mut elements = Vec::with_capacity(count);
        let bytes = self.core.region(count)?;
        let len = bytes.len();
        T::append(bytes, &mut elements)?;
        if count > 1 && self.core.form == ElementForm::Variable {
            T::check_equal(&elements)?;
        }
        self.core.release(len, count);
        Ok(elements)
    }
}

forward! {
    /// Creates the reader `url` and waits until it is connected to its writer (NS-12).
    ///
    /// # Errors
    /// [`StreamError`] names the cause: the URL, the name, memory, a peer of another type or
    /// direction, or no peer in time.
    create(url: &str, options: Options), [T: Element] Reader<T>
}

forward! {
    /// Reads `count` elements, or none (NS-30). Returns fewer elements only at the end of the stream
    /// (NS-48), or before elements that the writer has dropped.
    ///
    /// # Errors
    /// Those of [`read`](Self::read). [`StreamError::TooMany`], without waiting, if `count` exceeds
    /// the buffer's capacity.
    read_many, read_many_async(count: usize, timeout: Option<Duration>) -> Vec<T>
        = read_impl(ReadAmount::Exactly(count), timeout),
        cancelled "A future that is dropped has read nothing.",
    [T: Element] Reader<T>
}

forward!(reader [T: Element] Reader<T>);

impl<T: Plain> Reader<T> {
    /// Reads as many elements as `into` holds, or none, and returns the number of elements read.
    /// This number is smaller than the length of `into` only at the end of the stream, or before
    /// elements that the writer has dropped.
    #[inline]
    pub fn read_into(
        &mut self,
        into: &mut [T],
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        let len = into.len();
        if self.core.try_read(bytemuck::cast_slice_mut(into), len) {
            return Ok(len);
        }
        let amount = ReadAmount::Exactly(len);
        let count = block(self.core.wait_for(&Blocking, amount, timeout))?;
        let bytes = self.core.region(count)?;
        let len = bytes.len();
        bytemuck::cast_slice_mut(&mut into[..count]).copy_from_slice(bytes);
        self.core.release(len, count);
        Ok(count)
    }

    /// Returns the next `count` elements in place, without a copy; they are released when the
    /// region is dropped. Returns fewer only at the end of the stream, or before elements that the
    /// writer has dropped.
    #[inline]
    pub fn acquire(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<Region<'_, T>, StreamError> {
        if self.core.can_read_now(count) {
            return Ok(Region::new(&mut self.core, count));
        }
        let amount = ReadAmount::Exactly(count);
        let count = block(self.core.wait_for(&Blocking, amount, timeout))?;
        Ok(Region::new(&mut self.core, count))
    }
}
