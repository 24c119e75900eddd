//! Ends with several peers whose element type is known only at run time.

use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_types::wire::decode_whole;
use trunkline_types::{DataType, Value};

use super::forwarding::forward;
use crate::bytes::ByteRegion;
use crate::element;
use crate::error::StreamError;
use crate::fan_bytes::{
    Acquired, FanInOptions, FanOutOptions, GatherCore, Lacking, OutCore, Present, Run,
};
use crate::properties::{Monitor, Properties};
use crate::rendezvous;
use crate::wait::{Blocking, Task, Waits, block};

/// The writing end with several readers for any Trunkline type, which is given at creation.
///
/// In all other respects it is a [`FanOutWriter`](crate::FanOutWriter); its readers can be of
/// either kind.
pub struct FanOutValueWriter {
    pub(super) core: OutCore,
    data_type: DataType,
    /// Any bytes of the right length are a valid element.
    takes_any_bytes: bool,
    scratch: Vec<u8>,
}

/// The reading end with several writers for any Trunkline type, which is given at creation.
///
/// In all other respects it is a [`FanInReader`](crate::FanInReader); its writers can be of either
/// kind.
pub struct FanInValueReader {
    pub(super) core: GatherCore,
    data_type: DataType,
}

impl FanOutValueWriter {
    /// Creates the writing end `url` and waits for its first readers.
    ///
    /// # Errors
    /// Those of [`FanOutWriter::create`](crate::FanOutWriter::create).
    pub fn create(
        url: &str,
        data_type: &DataType,
        options: FanOutOptions,
    ) -> Result<Self, StreamError> {
        block(Self::create_over(&Blocking, url, data_type, options))
    }

    /// Async version of [`create`](Self::create).
    ///
    /// # Errors
    /// Those of `create`.
    pub async fn create_async(
        url: &str,
        data_type: &DataType,
        options: FanOutOptions,
    ) -> Result<Self, StreamError> {
        Self::create_over(&Task, url, data_type, options).await
    }

    async fn create_over(
        waits: &impl Waits,
        url: &str,
        data_type: &DataType,
        options: FanOutOptions,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::fan_out(waits, url, data_type.clone(), options).await?,
            data_type: data_type.clone(),
            takes_any_bytes: element::takes_any_bytes(data_type),
            scratch: Vec::new(),
        })
    }

    /// Type of the elements.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Writes all of `values`, or none.
    ///
    /// # Errors
    /// [`StreamError::Type`]: a value is of another type; nothing was written. Otherwise those of
    /// [`FanOutWriter::write_many`](crate::FanOutWriter::write_many).
    pub fn write_many(
        &mut self,
        values: &[Value],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        block(self.write_over(&Blocking, values, timeout))
    }

    /// Async version of [`write_many`](Self::write_many).
    ///
    /// # Errors
    /// Those of `write_many`.
    ///
    /// # Cancel safety
    /// A future that is dropped has written nothing.
    pub async fn write_many_async(
        &mut self,
        values: &[Value],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.write_over(&Task, values, timeout).await
    }

    async fn write_over(
        &mut self,
        waits: &impl Waits,
        values: &[Value],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.scratch.clear();
        for value in values {
            if !value.has_type(&self.data_type) {
                return Err(self.wrong_type());
            }
            let before = self.scratch.len();
            element::put_value(self.core.form, value, &mut self.scratch);
            self.core.check_element(self.scratch.len() - before)?;
        }
        self.core
            .write(waits, &self.scratch, values.len(), timeout)
            .await
    }

    /// Writes elements of fixed size in place. Waits for room for one element, then gives `fill`
    /// the memory for as many as there is room for, at most `most`. `fill` writes elements in their
    /// memory layout, little-endian, and returns the number of bytes written; a partial element at
    /// the end is ignored. Returns the number of elements written. With `most` 0 it does not wait,
    /// and `fill` gets an empty slice.
    ///
    /// # Errors
    /// The error of `fill`; nothing was written then. [`StreamError::Varying`] if elements vary in
    /// size, [`StreamError::Type`] if the bytes are not valid elements; otherwise those of
    /// [`write_many`](Self::write_many).
    pub fn write_bytes_with<E: From<StreamError>>(
        &mut self,
        most: usize,
        timeout: Option<Duration>,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let (form, core) = (self.core.form, &mut self.core);
        let size = element::size(form, &self.data_type)?;
        let room = match core.room().min(most) {
            0 if most > 0 => {
                block(core.wait_for_room(&Blocking, size, 1, timeout))?;
                core.room().min(most)
            }
            room => room,
        };
        let space = core.free_space(room * size);
        let bytes = fill(&mut *space)?.min(space.len());
        let count = bytes / size;
        let bytes = count * size;
        let is_of_type = self.takes_any_bytes
            || element::each(form, &space[..bytes])
                .all(|one| decode_whole(&self.data_type, one).is_ok());
        if !is_of_type {
            return Err(self.wrong_type().into());
        }
        self.core.commit(bytes, count);
        Ok(count)
    }

    fn wrong_type(&self) -> StreamError {
        StreamError::Type {
            data_type: self.data_type.clone(),
        }
    }
}

forward!(writer to several [] FanOutValueWriter);

impl FanInValueReader {
    /// Creates the reading end `url` and waits for its first writers.
    ///
    /// # Errors
    /// Those of [`FanInReader::create`](crate::FanInReader::create).
    pub fn create(
        url: &str,
        data_type: &DataType,
        options: FanInOptions,
    ) -> Result<Self, StreamError> {
        block(Self::create_over(&Blocking, url, data_type, options))
    }

    /// Async version of [`create`](Self::create).
    ///
    /// # Errors
    /// Those of `create`.
    pub async fn create_async(
        url: &str,
        data_type: &DataType,
        options: FanInOptions,
    ) -> Result<Self, StreamError> {
        Self::create_over(&Task, url, data_type, options).await
    }

    async fn create_over(
        waits: &impl Waits,
        url: &str,
        data_type: &DataType,
        options: FanInOptions,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::fan_in(waits, url, data_type.clone(), options).await?,
            data_type: data_type.clone(),
        })
    }

    /// Type of the elements.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// See [`FanInReader::read_run`](crate::FanInReader::read_run).
    ///
    /// # Errors
    /// Those of `FanInReader::read_run`.
    pub fn read_run(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Run<Value>, StreamError> {
        block(self.read_over(&Blocking, max, timeout))
    }

    /// Async version of [`read_run`](Self::read_run).
    ///
    /// # Errors
    /// Those of `read_run`.
    ///
    /// # Cancel safety
    /// A future that is dropped has read nothing.
    pub async fn read_run_async(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Run<Value>, StreamError> {
        self.read_over(&Task, max, timeout).await
    }

    async fn read_over(
        &mut self,
        waits: &impl Waits,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Run<Value>, StreamError> {
        let decode = |form, bytes: &[u8], _| {
            let values = element::each(form, bytes);
            let values = values.map(|one| decode_whole(&self.data_type, one));
            Ok(values.collect::<Result<_, _>>()?)
        };
        self.core.read_run(waits, max, timeout, decode).await
    }
}

impl FanInValueReader {
    /// Like [`read_run`](Self::read_run) for elements of fixed size, but returns them in place, as
    /// little-endian bytes, without a copy. Dropping the region releases them. Until then the other
    /// writers continue, each in its own buffer.
    ///
    /// # Errors
    /// [`StreamError::Varying`] if elements vary in size; otherwise those of `read_run`.
    pub fn acquire_bytes_run(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Acquired<ByteRegion<'_>>, StreamError> {
        let size = element::size(self.core.hub.terms.link.form, &self.data_type)?;
        let acquired = block(self.core.acquire(&Blocking, max, timeout))?;
        Ok(acquired.map(|(core, count)| ByteRegion::new(core, size, count)))
    }
}

forward!(reader of several [] FanInValueReader);
