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

forward!(writes values ValueWriter);
forward!(writer [] ValueWriter);
