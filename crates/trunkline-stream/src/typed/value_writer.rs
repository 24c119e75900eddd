//! A writing end whose element type is known only at run time.

use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_proto::stream::ElementForm;
use trunkline_types::wire::decode_whole;
use trunkline_types::{DataType, Value};

use super::forwarding::forward;
use crate::bytes::{Closed, WriterCore};
use crate::element;
use crate::error::StreamError;
use crate::options::Options;
use crate::properties::{Monitor, Properties};
use crate::rendezvous::{self, Here};
use crate::wait::{Blocking, Task, Waits, block};

/// The writing end of a stream of any Trunkline type, which is given at creation.
///
/// In all other respects it is a [`Writer`](crate::Writer); its reader can be of either kind.
///
/// # Example
/// ```no_run
/// # use trunkline_stream::{Options, StreamError, ValueWriter};
/// # use trunkline_types::{Value, text::parse_type};
/// let data_type = parse_type("struct(channel: u16, volts: f64)").unwrap();
/// let options = Options::to("tl://analysis/daq/raw");
/// let mut writer = ValueWriter::create("daq/out", &data_type, options)?;
/// writer.write(&Value::Struct([Value::U16(3), Value::F64(1.5)].into()), None)?;
/// # Ok::<(), StreamError>(())
/// ```
pub struct ValueWriter {
    core: WriterCore,
    data_type: DataType,
    /// Any bytes of the right length are a valid element.
    takes_any_bytes: bool,
    /// Elements that `fill` produced but the journal had no room for yet.
    unwritten: Vec<u8>,
    scratch: Vec<u8>,
    /// Length of the longest element known to fit both buffers.
    fits: usize,
}

impl ValueWriter {
    /// Creates the writing end `url` and waits until it is connected to its reader (NS-12).
    ///
    /// # Errors
    /// Those of [`Writer::create`](crate::Writer::create).
    pub fn create(url: &str, data_type: &DataType, options: Options) -> Result<Self, StreamError> {
        block(Self::create_over(&Blocking, url, data_type, options))
    }

    /// Async version of [`create`](Self::create).
    ///
    /// # Errors
    /// Those of `create`.
    pub async fn create_async(
        url: &str,
        data_type: &DataType,
        options: Options,
    ) -> Result<Self, StreamError> {
        Self::create_over(&Task, url, data_type, options).await
    }

    async fn create_over(
        waits: &impl Waits,
        url: &str,
        data_type: &DataType,
        options: Options,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::writer(waits, &Here, url, data_type.clone(), options).await?,
            data_type: data_type.clone(),
            takes_any_bytes: element::takes_any_bytes(data_type),
            unwritten: Vec::new(),
            scratch: Vec::new(),
            fits: 0,
        })
    }

    /// Type of the elements.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Writes one element, waiting for room for at most `timeout` (`None`: no limit).
    ///
    /// # Errors
    /// [`StreamError::Type`]: the value is of another type. [`StreamError::Timeout`]: there was no
    /// room. In both cases nothing was written. Any other error means that the stream is over.
    pub fn write(&mut self, value: &Value, timeout: Option<Duration>) -> Result<(), StreamError> {
        self.write_many(std::slice::from_ref(value), timeout)
    }

    /// Writes all of `values`, or none (NS-30).
    ///
    /// # Errors
    /// Those of [`write`](Self::write). [`StreamError::TooMany`], without waiting, if there are
    /// more elements than the buffer can hold.
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
    /// A future that is dropped has written nothing, with one exception: with a journal on
    /// `Durability::Disk`, a future dropped while it waits for the disk has written everything.
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
            let bytes = self.scratch.len() - before;
            if bytes > self.fits && self.core.form == ElementForm::Variable {
                self.core.check_element(bytes)?;
                self.fits = bytes;
            }
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
    /// With a journal, elements that `fill` has produced but that could not be written are kept:
    /// the next call writes them, whatever its `most`, and does not call `fill`.
    ///
    /// # Errors
    /// The error of `fill`; nothing was written then. [`StreamError::Varying`] if elements vary in
    /// size, [`StreamError::Type`] if the bytes are not valid elements; otherwise those of
    /// [`write`](Self::write).
    pub fn write_bytes_with<E: From<StreamError>>(
        &mut self,
        most: usize,
        timeout: Option<Duration>,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let size = element::size(self.core.form, &self.data_type)?;
        if self.core.journal.is_some() {
            return self.write_bytes_journaled(size, most, timeout, fill);
        }
        let room = match self.core.room().min(most) {
            0 if most > 0 => {
                block(self.core.wait_for_room(&Blocking, size, 1, timeout))?;
                self.core.room().min(most)
            }
            room => room,
        };
        let (position, core) = (self.core.ring.written(), &mut self.core);
        // Refreshes the ring's view of the free space, which `free_at` relies on.
        let is_free = core.ring.has_room((room * size) as u64, room as u64);
        debug_assert_eq!(is_free.ok(), Some(true));
        // The memory is mirrored: the space is in one piece.
        let space = self.core.ring.free_at(position, room * size);
        let space = space.map(|[piece, _]| piece).unwrap_or_default();
        let bytes = fill(&mut *space)?.min(space.len());
        let count = bytes / size;
        let bytes = count * size;
        let is_of_type = self.takes_any_bytes
            || element::each(self.core.form, &space[..bytes])
                .all(|one| decode_whole(&self.data_type, one).is_ok());
        if !is_of_type {
            return Err(self.wrong_type().into());
        }
        self.core.ring.commit(bytes as u64, count as u64);
        self.core.wrote(bytes as u64);
        Ok(count)
    }

    /// The same with a journal, which needs the bytes before the ring does.
    fn write_bytes_journaled<E: From<StreamError>>(
        &mut self,
        size: usize,
        most: usize,
        timeout: Option<Duration>,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        if self.unwritten.is_empty() {
            let mut space = vec![0; most.min(self.core.capacity()) * size];
            let count = fill(&mut space)?.min(space.len()) / size;
            space.truncate(count * size);
            let is_of_type = self.takes_any_bytes
                || element::each(self.core.form, &space)
                    .all(|one| decode_whole(&self.data_type, one).is_ok());
            if !is_of_type {
                return Err(self.wrong_type().into());
            }
            self.unwritten = space;
        }
        let count = self.unwritten.len() / size;
        if count == 0 {
            // Even an empty record would take room in the journal.
            return Ok(0);
        }
        block(self.core.write(&Blocking, &self.unwritten, count, timeout))?;
        self.unwritten.clear();
        Ok(count)
    }

    fn wrong_type(&self) -> StreamError {
        StreamError::Type {
            data_type: self.data_type.clone(),
        }
    }
}

forward!(writer [] ValueWriter);
