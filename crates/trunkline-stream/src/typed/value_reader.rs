//! Defines the reader of a stream whose element type is known only at run time.

use std::time::Duration;

use trunkline_types::wire::decode_exact;
use trunkline_types::{DataType, Value};

use super::forwarding::forward;
use crate::bytes::{ByteRegion, ReadAmount, ReaderCore};
use crate::element;
use crate::error::StreamError;
use crate::options::Options;
use crate::properties::{Monitor, Properties};
use crate::rendezvous::{self, RealWorld};
use crate::wait::{Blocking, Task, Waiter, block};

/// A reader for elements of any Trunkline type. The type is specified when the reader is created.
///
/// In all other respects, it works like a [`Reader`](crate::Reader). The writer can be a `Writer`
/// or a `ValueWriter`.
pub struct ValueReader {
    core: ReaderCore,
    data_type: DataType,
    /// Any bytes of the right length are a valid element.
    takes_any_bytes: bool,
}

impl ValueReader {
    async fn create_impl(
        waiter: &impl Waiter,
        url: &str,
        data_type: &DataType,
        options: Options,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::reader(waiter, &RealWorld, url, data_type.clone(), options).await?,
            data_type: data_type.clone(),
            takes_any_bytes: element::takes_any_bytes(data_type),
        })
    }

    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Reads one element, waiting for at most `timeout` (`None`: no limit).
    ///
    /// # Errors
    /// [`StreamError::Timeout`]: no element arrived. [`StreamError::Ended`]: there are no more
    /// elements. `StreamError::Lost`: elements are missing here; the next call continues after
    /// them.
    pub fn read(&mut self, timeout: Option<Duration>) -> Result<Value, StreamError> {
        let mut elements = self.read_many(1, timeout)?;
        elements.pop().ok_or(StreamError::Ended)
    }

    /// Reads all available elements, possibly none, without waiting (NS-36).
    ///
    /// # Errors
    /// [`StreamError::Ended`], or the reason why the stream is over.
    pub fn read_available(&mut self) -> Result<Vec<Value>, StreamError> {
        block(self.read_impl(&Blocking, ReadAmount::Available, None))
    }

    async fn read_impl(
        &mut self,
        waiter: &impl Waiter,
        amount: ReadAmount,
        timeout: Option<Duration>,
    ) -> Result<Vec<Value>, StreamError> {
        let count = self.core.wait_for(waiter, amount, timeout).await?;
        self.take(count, element::check_equal_values)
    }

    /// Waits for one element, then reads all available elements, at most `max`. Arrays may have
    /// different lengths.
    pub fn read_up_to(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<Value>, StreamError> {
        let count = self.wait_for_some(max, timeout)?;
        self.take(count, |_| Ok(()))
    }

    /// Waits for one element, then returns the number of available elements, at most `max`.
    fn wait_for_some(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        block(
            self.core
                .wait_for(&Blocking, ReadAmount::Exactly(1), timeout),
        )?;
        Ok(self.core.available().min(max))
    }

    fn take(
        &mut self,
        count: usize,
        check: impl FnOnce(&[Value]) -> Result<(), StreamError>,
    ) -> Result<Vec<Value>, StreamError> {
        let form = self.core.form;
        let bytes = self.core.region(count)?;
        let len = bytes.len();
        let values = element::split_elements(form, bytes)
            .map(|element| decode_exact(&self.data_type, element));
        let values: Vec<Value> = values.collect::<Result<_, _>>()?;
        check(&values)?;
        self.core.release(len, count);
        Ok(values)
    }

    /// Returns the next elements in place, as little-endian bytes, without copying them. The
    /// elements must have a fixed size. Waits for one element, then returns all available elements,
    /// at most `max`. Dropping the region releases them.
    ///
    /// # Errors
    /// [`StreamError::VariableSize`] if elements vary in size; otherwise those of
    /// [`read`](Self::read).
    pub fn acquire_bytes(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<ByteRegion<'_>, StreamError> {
        let size = element::size(self.core.form, &self.data_type)?;
        let count = self.wait_for_some(max, timeout)?;
        Ok(ByteRegion::new(&mut self.core, size, count))
    }

    /// Reads as many elements of fixed size as `into` holds, or none, as little-endian bytes. Returns
    /// the number of elements read, which is smaller only at the end of the stream, or before elements
    /// that the writer has dropped. Bytes after the last complete element are not changed.
    ///
    /// # Errors
    /// [`StreamError::VariableSize`] if elements vary in size; otherwise those of
    /// [`read_many`](Self::read_many).
    pub fn read_bytes_into(
        &mut self,
        into: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        let size = element::size(self.core.form, &self.data_type)?;
        let count = into.len() / size;
        let into = &mut into[..count * size];
        if self.takes_any_bytes && self.core.try_read(into, count) {
            return Ok(count);
        }
        let amount = ReadAmount::Exactly(count);
        let count = block(self.core.wait_for(&Blocking, amount, timeout))?;
        let bytes = self.core.region(count)?;
        let into = &mut into[..bytes.len()];
        into.copy_from_slice(bytes);
        if !self.takes_any_bytes {
            // The copy is checked, because the other program can change the original.
            for element in element::split_elements(self.core.form, into) {
                decode_exact(&self.data_type, element)?;
            }
        }
        self.core.release(into.len(), count);
        Ok(count)
    }

    /// Returns the next `count` elements in place, as little-endian bytes, without copying them.
    /// Dropping the region releases them. Returns fewer only at the end of the stream, or before
    /// elements that the writer has dropped.
    ///
    /// # Errors
    /// [`StreamError::VariableSize`] if elements vary in size; otherwise those of
    /// [`read_many`](Self::read_many).
    pub fn acquire_bytes_exactly(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<ByteRegion<'_>, StreamError> {
        let size = element::size(self.core.form, &self.data_type)?;
        let amount = ReadAmount::Exactly(count);
        let count = block(self.core.wait_for(&Blocking, amount, timeout))?;
        Ok(ByteRegion::new(&mut self.core, size, count))
    }

    async fn ready_impl(
        &mut self,
        waiter: &impl Waiter,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        let amount = ReadAmount::Exactly(count);
        self.core.wait_for(waiter, amount, timeout).await
    }
}

impl ValueReader {
    async fn end_impl(&mut self, waiter: &impl Waiter) -> Result<(), StreamError> {
        self.core.destroy(waiter).await
    }
}

forward! {
    /// Like [`close`](Self::close), for a program that still refers to the buffer: its memory stays
    /// valid until the reader is dropped.
    ///
    /// # Errors
    /// Those of [`close`](Self::close).
    end, end_async() -> () = end_impl(), cancelled "The reader is closed when it is dropped.",
    [] ValueReader
}

forward! {
    /// Waits until a read of `count` elements would not wait, and returns the number of elements that
    /// it would return.
    ///
    /// # Errors
    /// Those of [`read_many`](Self::read_many). A gap that is reported here is not reported again by
    /// the next read.
    ready, ready_async(count: usize, timeout: Option<Duration>) -> usize
        = ready_impl(count, timeout), cancelled "A future that is dropped has done nothing.",
    [] ValueReader
}

forward! {
    /// Creates the reader with this URL and waits until it is connected to its writer (NS-12).
    create(url: &str, data_type: &DataType, options: Options), [] ValueReader
}

forward! {
    /// Reads `count` elements, or none (NS-30). Returns fewer elements only at the end of the
    /// stream (NS-48), or before elements that the writer has dropped.
    ///
    /// # Errors
    /// Those of [`read`](Self::read). [`StreamError::TooMany`], without waiting, if `count` exceeds
    /// the buffer's capacity. [`StreamError::UnequalLengths`] if the arrays differ in shape
    /// (NS-35).
    read_many, read_many_async(count: usize, timeout: Option<Duration>) -> Vec<Value>
        = read_impl(ReadAmount::Exactly(count), timeout),
        cancelled "A future that is dropped has read nothing.",
    [] ValueReader
}

forward!(reader [] ValueReader);
