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
