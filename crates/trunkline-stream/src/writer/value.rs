//! A writing end of elements whose type is known when the program runs.

use std::time::Duration;

use trunkline_proto::stream::ElementForm;
use trunkline_types::{DataType, Value};

use super::{Closed, Until, WriterCore};
use crate::element;
use crate::error::StreamError;
use crate::forwarding::forward;
use crate::machine::Machine;
use crate::options::Options;
use crate::properties::{Monitor, Properties};
use crate::rendezvous;
use crate::wait::{Blocking, Task, Waits, block};

/// The writing end of a stream of elements of any type of Trunkline, which is said at its creation.
///
/// It is a [`Writer`](crate::Writer) in everything else, and its reader may be of either kind.
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
    /// Whether every bytes of an element's length are one.
    takes_any_bytes: bool,
    /// Elements for the journal that it had no room for yet.
    unwritten: Vec<u8>,
    scratch: Vec<u8>,
    /// The longest element that was found to fit both buffers.
    fits: usize,
}

impl ValueWriter {
    /// Creates the writing end `url` and waits until it is connected with its reader (NS-12).
    ///
    /// # Errors
    /// As [`Writer::create`](crate::Writer::create).
    pub fn create(url: &str, data_type: &DataType, options: Options) -> Result<Self, StreamError> {
        block(Self::create_over(&Blocking, url, data_type, options))
    }

    /// [`create`](Self::create) for tasks.
    ///
    /// # Errors
    /// As there.
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
            core: rendezvous::writer(waits, &Machine::Real, url, data_type.clone(), options)
                .await?,
            data_type: data_type.clone(),
            takes_any_bytes: element::takes_any_bytes(data_type),
            unwritten: Vec::new(),
            scratch: Vec::new(),
            fits: 0,
        })
    }

    /// The type of the elements.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Writes one element, waiting for room for at most `timeout` (`None`: for ever).
    ///
    /// # Errors
    /// [`StreamError::Type`]: it is of another type. [`StreamError::Timeout`]: there was no room.
    /// Nothing was written then. Otherwise the stream is over.
    pub fn write(&mut self, value: &Value, timeout: Option<Duration>) -> Result<(), StreamError> {
        self.write_many(std::slice::from_ref(value), timeout)
    }

    /// Writes all of `values`, or none (NS-30).
    ///
    /// # Errors
    /// As of [`write`](Self::write); [`StreamError::TooMany`] at once when the buffer holds fewer.
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

    /// Writes elements of one size where they are sent from. Waits for room for one, and gives
    /// `fill` the memory of as many as there is room for, at most `most`; it answers how many bytes
    /// it has written there, as the elements lie in memory, little-endian. Bytes of a part of an
    /// element at the end are not taken. Returns how many elements were written.
    ///
    /// With a journal, elements that `fill` has given and that could not be written are kept: the
    /// next call writes them, and does not call `fill`.
    ///
    /// # Errors
    /// What `fill` says: nothing was written then. [`StreamError::Varying`] where elements vary in
    /// size, [`StreamError::Type`] where the bytes are none; otherwise as of
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
            0 => {
                block(self.core.wait_for_room(&Blocking, size, 1, timeout))?;
                self.core.room().min(most)
            }
            room => room,
        };
        let (position, core) = (self.core.ring.written(), &mut self.core);
        // Looked at again, so that it is known to be free.
        let is_free = core.ring.has_room((room * size) as u64, room as u64);
        debug_assert_eq!(is_free.ok(), Some(true));
        // Mirrored memory: it lies in one piece.
        let space = self.core.ring.free_at(position, room * size);
        let space = space.map(|[piece, _]| piece).unwrap_or_default();
        let bytes = fill(&mut *space)?.min(space.len());
        let count = bytes / size;
        let bytes = count * size;
        let is_of_type = self.takes_any_bytes
            || element::each(self.core.form, &space[..bytes])
                .all(|one| element::decode(&self.data_type, one).is_ok());
        if !is_of_type {
            return Err(self.wrong_type().into());
        }
        self.core.ring.commit(bytes as u64, count as u64);
        self.core.wrote(bytes as u64);
        Ok(count)
    }

    /// The same with a journal, which has to get the bytes first.
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
                    .all(|one| element::decode(&self.data_type, one).is_ok());
            if !is_of_type {
                return Err(self.wrong_type().into());
            }
            self.unwritten = space;
        }
        let count = self.unwritten.len() / size;
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
