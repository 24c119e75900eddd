//! Defines endpoints with several peers for element types that are known only at run time.

use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_types::wire::decode_exact;
use trunkline_types::{DataType, Value};

use super::forwarding::forward;
use super::value_encoder::ValueEncoder;
use crate::bytes::ByteRegion;
use crate::element;
use crate::error::StreamError;
use crate::fan_bytes::{
    Acquired, FanInCore, FanInOptions, FanOutCore, FanOutOptions, PeerStatus, Run, Undelivered,
};
use crate::properties::{Monitor, Properties};
use crate::rendezvous;
use crate::wait::{Blocking, Task, Waiter, block};

/// A writer with several readers for elements of any Trunkline type. The type is specified when the
/// writer is created.
///
/// In all other respects, it works like a [`FanOutWriter`](crate::FanOutWriter). The readers can be
/// `Reader`s or `ValueReader`s.
pub struct FanOutValueWriter {
    pub(super) core: FanOutCore,
    encoder: ValueEncoder,
}

/// A reader with several writers for elements of any Trunkline type. The type is specified when the
/// reader is created.
///
/// In all other respects, it works like a [`FanInReader`](crate::FanInReader). The writers can be
/// `Writer`s or `ValueWriter`s.
pub struct FanInValueReader {
    pub(super) core: FanInCore,
    data_type: DataType,
}

impl FanOutValueWriter {
    async fn create_impl(
        waiter: &impl Waiter,
        url: &str,
        data_type: &DataType,
        options: FanOutOptions,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::fan_out(waiter, url, data_type.clone(), options).await?,
            encoder: ValueEncoder::new(data_type),
        })
    }

    async fn write_bytes_impl(
        &mut self,
        waiter: &impl Waiter,
        bytes: &[u8],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        let size = element::size(self.core.form, &self.encoder.data_type)?;
        let count = self.encoder.check_whole(self.core.form, size, bytes)?;
        self.core.write(waiter, bytes, count, timeout).await
    }

    /// Writes elements of fixed size in place. Waits for room for one element, then passes `fill`
    /// the memory for as many elements as there is room for, at most `max`. `fill` writes elements
    /// in their memory layout, little-endian, and returns the number of bytes written; a partial
    /// element at the end is ignored. Returns the number of elements written. If `max` is 0, the
    /// call does not wait, and `fill` gets an empty slice.
    ///
    /// # Errors
    /// The error of `fill`, in which case nothing was written. [`StreamError::VariableSize`] if elements
    /// vary in size, [`StreamError::Type`] if the bytes are not valid elements; otherwise those of
    /// [`write_many`](Self::write_many).
    pub fn write_bytes_with<E: From<StreamError>>(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let size = element::size(self.core.form, &self.encoder.data_type)?;
        let room = self.wait_for_one(size, max, timeout)?;
        self.write_in_place(size, room, fill)
    }
}

forward! {
    /// Creates the writer `url` and waits for its first readers.
    create(url: &str, data_type: &DataType, options: FanOutOptions), [] FanOutValueWriter
}

forward! {
    /// Writes all of `values`, or none.
    ///
    /// # Errors
    /// [`StreamError::Type`]: a value is of another type; nothing was written. Otherwise those of
    /// [`FanOutWriter::write_many`](crate::FanOutWriter::write_many).
    write_many, write_many_async(values: &[Value], timeout: Option<Duration>) -> ()
        = write_impl(values, timeout), cancelled "A future that is dropped has written nothing.",
    [] FanOutValueWriter
}

forward! {
    /// Writes the elements of fixed size in `bytes`, in their memory layout, little-endian: all of
    /// them, or none.
    ///
    /// # Errors
    /// [`StreamError::VariableSize`] if elements vary in size, [`StreamError::Type`] if the bytes are not
    /// complete and valid elements; otherwise those of [`write_many`](Self::write_many).
    write_bytes, write_bytes_async(bytes: &[u8], timeout: Option<Duration>) -> ()
        = write_bytes_impl(bytes, timeout),
        cancelled "A future that is dropped has written nothing.",
    [] FanOutValueWriter
}

impl FanOutValueWriter {
    /// Like [`close_async`](Self::close_async), for a program that keeps the writer.
    pub async fn end_async(&mut self, timeout: Option<Duration>) -> Vec<Undelivered> {
        self.core.close(&Task, timeout).await
    }

    /// Like [`abort_because`](Self::abort_because), for a program that keeps the writer.
    pub async fn end_because_async(&mut self, reason: &str) -> Vec<Undelivered> {
        self.core.abort(&Task, reason).await
    }
}

impl FanInValueReader {
    /// Like [`close`](Self::close), for a program that keeps the reader.
    pub async fn end_async(&mut self) {
        self.core.close(&Task).await;
    }
}

forward!(writes values FanOutValueWriter);
forward!(writer to several [] FanOutValueWriter);

impl FanInValueReader {
    async fn create_impl(
        waiter: &impl Waiter,
        url: &str,
        data_type: &DataType,
        options: FanInOptions,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::fan_in(waiter, url, data_type.clone(), options).await?,
            data_type: data_type.clone(),
        })
    }

    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    async fn read_impl(
        &mut self,
        waiter: &impl Waiter,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Run<Value>, StreamError> {
        let decode = |form, bytes: &[u8], _| {
            let values = element::split_elements(form, bytes);
            let values = values.map(|element| decode_exact(&self.data_type, element));
            Ok(values.collect::<Result<_, _>>()?)
        };
        self.core.read_run(waiter, max, timeout, decode).await
    }
}

impl FanInValueReader {
    async fn read_bytes_impl(
        &mut self,
        waiter: &impl Waiter,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Run<u8>, StreamError> {
        element::size(self.core.hub.settings.link.form, &self.data_type)?;
        let takes_any_bytes = element::takes_any_bytes(&self.data_type);
        let copy = |form, bytes: &[u8], _| {
            let bytes = bytes.to_vec();
            if !takes_any_bytes {
                for element in element::split_elements(form, &bytes) {
                    decode_exact(&self.data_type, element)?;
                }
            }
            Ok(bytes)
        };
        self.core.read_run(waiter, max, timeout, copy).await
    }

    /// Like [`read_run`](Self::read_run) for elements of fixed size, but returns the elements in
    /// place, as little-endian bytes, without a copy. Dropping the region releases the elements.
    /// Until then the other writers continue, each in its own buffer.
    ///
    /// # Errors
    /// [`StreamError::VariableSize`] if elements vary in size; otherwise those of `read_run`.
    pub fn acquire_bytes_run(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Acquired<ByteRegion<'_>>, StreamError> {
        let size = element::size(self.core.hub.settings.link.form, &self.data_type)?;
        let acquired = block(self.core.acquire(&Blocking, max, timeout))?;
        Ok(acquired.map(|(core, count)| ByteRegion::new(core, size, count)))
    }
}

forward! {
    /// Creates the reader `url` and waits for its first writers.
    create(url: &str, data_type: &DataType, options: FanInOptions), [] FanInValueReader
}

forward! {
    /// See [`FanInReader::read_run`](crate::FanInReader::read_run).
    read_run, read_run_async(max: usize, timeout: Option<Duration>) -> Run<Value>
        = read_impl(max, timeout), cancelled "A future that is dropped has read nothing.",
    [] FanInValueReader
}

forward! {
    /// Like [`read_run`](Self::read_run) for elements of fixed size, but returns them as little-endian
    /// bytes.
    ///
    /// # Errors
    /// [`StreamError::VariableSize`] if elements vary in size; otherwise those of `read_run`.
    read_bytes_run, read_bytes_run_async(max: usize, timeout: Option<Duration>) -> Run<u8>
        = read_bytes_impl(max, timeout), cancelled "A future that is dropped has read nothing.",
    [] FanInValueReader
}

forward!(reader of several [] FanInValueReader);
