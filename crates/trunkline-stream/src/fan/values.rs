//! Ends with several peers of elements whose type is known when the program runs.

use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_types::{DataType, Value};

use super::gather::GatherCore;
use super::member::{Acquired, Lacking, Present, Run};
use super::options::{FanInOptions, FanOutOptions};
use super::out::OutCore;
use crate::element;
use crate::error::StreamError;
use crate::forwarding::forward;
use crate::properties::{Monitor, Properties};
use crate::reader::ByteRegion;
use crate::rendezvous;
use crate::wait::{Blocking, Task, Waits, block};

/// The writing end with several readers of elements of any type of Trunkline, which is said at its
/// creation.
///
/// It is a [`FanOutWriter`](crate::FanOutWriter) in everything else, and its readers may be of
/// either kind.
pub struct FanOutValueWriter {
    pub(super) core: OutCore,
    data_type: DataType,
    /// Whether every bytes of an element's length are one.
    takes_any_bytes: bool,
    scratch: Vec<u8>,
}

/// The reading end with several writers of elements of any type of Trunkline, which is said at its
/// creation.
///
/// It is a [`FanInReader`](crate::FanInReader) in everything else, and its writers may be of either
/// kind.
pub struct FanInValueReader {
    pub(super) core: GatherCore,
    data_type: DataType,
}

impl FanOutValueWriter {
    /// Creates the writing end `url` and waits for its first readers.
    ///
    /// # Errors
    /// As [`FanOutWriter::create`](crate::FanOutWriter::create).
    pub fn create(
        url: &str,
        data_type: &DataType,
        options: FanOutOptions,
    ) -> Result<Self, StreamError> {
        block(Self::create_over(&Blocking, url, data_type, options))
    }

    /// [`create`](Self::create) for tasks.
    ///
    /// # Errors
    /// As there.
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

    /// The type of the elements.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Writes all of `values`, or none.
    ///
    /// # Errors
    /// [`StreamError::Type`]: one is of another type; nothing was written. Otherwise as of
    /// [`FanOutWriter::write_many`](crate::FanOutWriter::write_many).
    pub fn write_many(
        &mut self,
        values: &[Value],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        block(self.write_over(&Blocking, values, timeout))
    }

    /// [`write_many`](Self::write_many) for tasks.
    ///
    /// # Errors
    /// As there.
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

    /// Writes elements of one size where they are sent from. Waits for room for one, and gives
    /// `fill` the memory of as many as there is room for, at most `most`; it answers how many bytes
    /// it has written there, as the elements lie in memory, little-endian. Bytes of a part of an
    /// element at the end are not taken. Returns how many elements were written.
    ///
    /// # Errors
    /// What `fill` says: nothing was written then. [`StreamError::Varying`] where elements vary in
    /// size, [`StreamError::Type`] where the bytes are none; otherwise as of
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
                .all(|one| element::decode(&self.data_type, one).is_ok());
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
    /// As [`FanInReader::create`](crate::FanInReader::create).
    pub fn create(
        url: &str,
        data_type: &DataType,
        options: FanInOptions,
    ) -> Result<Self, StreamError> {
        block(Self::create_over(&Blocking, url, data_type, options))
    }

    /// [`create`](Self::create) for tasks.
    ///
    /// # Errors
    /// As there.
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

    /// The type of the elements.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// As [`FanInReader::read_run`](crate::FanInReader::read_run).
    ///
    /// # Errors
    /// As there.
    pub fn read_run(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Run<Value>, StreamError> {
        block(self.read_over(&Blocking, max, timeout))
    }

    /// [`read_run`](Self::read_run) for tasks.
    ///
    /// # Errors
    /// As there.
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
            let values = values.map(|one| element::decode(&self.data_type, one));
            Ok(values.collect::<Result<_, _>>()?)
        };
        self.core.read_run(waits, max, timeout, decode).await
    }
}

impl FanInValueReader {
    /// As [`read_run`](Self::read_run) of elements of one size, but they are used where they have
    /// arrived, as bytes, little-endian, without a copy; they are given back to their writer when
    /// the region is dropped. Until then the other writers go on, each in its own buffer.
    ///
    /// # Errors
    /// [`StreamError::Varying`] where elements vary in size; otherwise as there.
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
