//! Defines the writer of a stream whose element type is known only at run time.

use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_types::{DataType, Value};

use super::forwarding::forward;
use super::value_encoder::ValueEncoder;
use crate::bytes::{Closed, WriterCore};
use crate::element;
use crate::error::StreamError;
use crate::options::Options;
use crate::properties::{Monitor, Properties};
use crate::rendezvous::{self, RealWorld};
use crate::wait::{Blocking, Task, Waiter, block};

/// A writer for elements of any Trunkline type. The type is specified when the writer is created.
///
/// In all other respects, it works like a [`Writer`](crate::Writer). The reader can be a `Reader` or
/// a `ValueReader`.
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
    encoder: ValueEncoder,
    /// Elements that `fill` has produced, but for which the journal had no room yet.
    unwritten: Vec<u8>,
    /// The elements that the program fills between `reserve` and `commit`, if there is a journal.
    reserved: Vec<u8>,
    /// Number of elements that `commit` may add.
    reserved_count: usize,
}

impl ValueWriter {
    async fn create_impl(
        waiter: &impl Waiter,
        url: &str,
        data_type: &DataType,
        options: Options,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::writer(waiter, &RealWorld, url, data_type.clone(), options).await?,
            encoder: ValueEncoder::new(data_type),
            unwritten: Vec::new(),
            reserved: Vec::new(),
            reserved_count: 0,
        })
    }

    /// Writes one element, waiting for room for at most `timeout` (`None`: no limit).
    ///
    /// # Errors
    /// [`StreamError::Type`]: the value is of another type. [`StreamError::Timeout`]: there was no
    /// room. In both cases nothing was written. Any other error means that the stream is over.
    pub fn write(&mut self, value: &Value, timeout: Option<Duration>) -> Result<(), StreamError> {
        self.write_many(std::slice::from_ref(value), timeout)
    }

    /// Writes elements of fixed size in place. Waits for room for one element, then passes `fill`
    /// the memory for as many elements as there is room for, at most `max`. `fill` writes elements
    /// in their memory layout, little-endian, and returns the number of bytes written; a partial
    /// element at the end is ignored. Returns the number of elements written. If `max` is 0, the
    /// call does not wait, and `fill` gets an empty slice.
    ///
    /// With a journal, the writer keeps elements that `fill` has produced but that could not be
    /// written. The next call writes these elements, even if they are more than its `max`, and does
    /// not call `fill`.
    ///
    /// # Errors
    /// The error of `fill`, in which case nothing was written. [`StreamError::VariableSize`] if elements
    /// vary in size, [`StreamError::Type`] if the bytes are not valid elements; otherwise those of
    /// [`write`](Self::write).
    pub fn write_bytes_with<E: From<StreamError>>(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let size = element::size(self.core.form, &self.encoder.data_type)?;
        self.core.check_open()?;
        if self.core.journal.is_some() {
            return self.write_bytes_journaled(size, max, timeout, fill);
        }
        let room = self.wait_for_one(size, max, timeout)?;
        // Refreshes the ring's view of the free space, which `free_at` relies on.
        let is_free = self.core.ring.has_room((room * size) as u64, room as u64);
        debug_assert_eq!(is_free.ok(), Some(true));
        self.write_in_place(size, room, fill)
    }

    async fn write_bytes_impl(
        &mut self,
        waiter: &impl Waiter,
        bytes: &[u8],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        let size = element::size(self.core.form, &self.encoder.data_type)?;
        let count = self.encoder.check_whole(self.core.form, size, bytes)?;
        self.reserved_count = 0;
        self.core.write(waiter, bytes, count, timeout).await
    }

    /// Waits for room for `count` elements of fixed size, and returns the memory from which they are
    /// sent. The program fills it, in the elements' memory layout, little-endian, and then calls
    /// [`commit`](Self::commit). Any other write in between ends the reservation. With a journal, the
    /// memory is a copy.
    ///
    /// # Errors
    /// [`StreamError::VariableSize`] if elements vary in size; otherwise those of
    /// [`write`](Self::write).
    pub fn reserve(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<&mut [u8], StreamError> {
        let size = element::size(self.core.form, &self.encoder.data_type)?;
        self.reserved_count = 0;
        self.core.check_open()?;
        let bytes = count.saturating_mul(size);
        self.core.check_size(bytes, count)?;
        if self.core.journal.is_some() {
            self.reserved.clear();
            self.reserved.resize(bytes, 0);
            self.reserved_count = count;
            return Ok(&mut self.reserved);
        }
        let has_room = self.core.ring.has_room(bytes as u64, count as u64);
        if !has_room.unwrap_or(false) {
            block(self.core.wait_for_room(&Blocking, bytes, count, timeout))?;
        }
        self.reserved_count = count;
        Ok(self.core.free_space(bytes))
    }

    /// Waits until [`reserve`](Self::reserve) of `count` elements would not wait. With a journal, it
    /// does not wait.
    ///
    /// # Cancel safety
    /// A future that is dropped has done nothing.
    pub async fn room_async(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        let size = element::size(self.core.form, &self.encoder.data_type)?;
        self.core.check_open()?;
        if self.core.journal.is_some() {
            return Ok(());
        }
        let bytes = count.saturating_mul(size);
        self.core.wait_for_room(&Task, bytes, count, timeout).await
    }

    /// Writes the first `count` of the elements that were reserved.
    ///
    /// # Errors
    /// [`StreamError::TooMany`] if fewer are reserved, [`StreamError::Type`] if the bytes are not valid
    /// elements. With a journal, those of [`write`](Self::write). Nothing was written, and the elements
    /// are still reserved.
    pub fn commit(&mut self, count: usize, timeout: Option<Duration>) -> Result<(), StreamError> {
        let size = element::size(self.core.form, &self.encoder.data_type)?;
        if count > self.reserved_count {
            return Err(StreamError::TooMany {
                asked: count,
                capacity: self.reserved_count,
            });
        }
        let (form, bytes) = (self.core.form, count * size);
        if self.core.journal.is_some() {
            let elements = &self.reserved[..bytes];
            self.encoder.check(form, elements)?;
            block(self.core.write(&Blocking, elements, count, timeout))?;
        } else {
            self.core.check_open()?;
            self.encoder.check(form, self.core.free_space(bytes))?;
            self.core.commit(bytes, count);
        }
        self.reserved_count = 0;
        Ok(())
    }

    /// Implements [`write_bytes_with`](Self::write_bytes_with) with a journal, which gets the bytes
    /// before the ring does.
    fn write_bytes_journaled<E: From<StreamError>>(
        &mut self,
        size: usize,
        max: usize,
        timeout: Option<Duration>,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        if self.unwritten.is_empty() {
            let mut space = vec![0; max.min(self.core.capacity()) * size];
            let count = fill(&mut space)?.min(space.len()) / size;
            space.truncate(count * size);
            self.encoder.check(self.core.form, &space)?;
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
}

forward! {
    /// Creates the writer `url` and waits until it is connected to its reader (NS-12).
    create(url: &str, data_type: &DataType, options: Options), [] ValueWriter
}

forward! {
    /// Writes all of `values`, or none (NS-30).
    ///
    /// # Errors
    /// Those of [`write`](Self::write). [`StreamError::TooMany`], without waiting, if there are
    /// more elements than the buffer can hold.
    write_many, write_many_async(values: &[Value], timeout: Option<Duration>) -> ()
        = write_impl(values, timeout), cancelled "A future that is dropped has written nothing, with one exception: with a journal on \
        `Durability::Disk`, a future dropped while it waits for the disk has written everything.",
    [] ValueWriter
}

forward! {
    /// Writes the elements of fixed size in `bytes`, in their memory layout, little-endian: all of
    /// them, or none (NS-30).
    ///
    /// # Errors
    /// [`StreamError::VariableSize`] if elements vary in size, [`StreamError::Type`] if the bytes are not
    /// complete and valid elements; otherwise those of [`write_many`](Self::write_many).
    write_bytes, write_bytes_async(bytes: &[u8], timeout: Option<Duration>) -> ()
        = write_bytes_impl(bytes, timeout), cancelled "As `write_many_async`.",
    [] ValueWriter
}

impl ValueWriter {
    /// Like [`close_async`](Self::close_async), for a program that still refers to the buffer: its
    /// memory stays valid until the writer is dropped.
    pub async fn end_async(&mut self, timeout: Option<Duration>) -> Closed {
        self.core.close(&Task, timeout).await
    }

    /// Like [`abort_because`](Self::abort_because), for a program that still refers to the buffer.
    pub async fn end_because_async(&mut self, reason: &str) -> Closed {
        self.core.abort(&Task, reason).await
    }
}

forward!(writes values ValueWriter);
forward!(writer [] ValueWriter);
