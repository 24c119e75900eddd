//! Defines the writer of a stream whose element type is known at compile time.

use std::marker::PhantomData;
use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_proto::stream::ElementForm;

use super::forwarding::forward;
use crate::bytes::{Closed, WriterCore};
use crate::element::{self, Element, Plain};
use crate::error::StreamError;
use crate::options::Options;
use crate::properties::{Monitor, Properties};
use crate::rendezvous::{self, RealWorld};
use crate::wait::{Blocking, Task, Waiter, block};

/// The writer of a stream of elements of type `T`.
///
/// Elements go into the endpoint's own buffer, and from there into the reader's buffer as soon as
/// that has room. The writer keeps elements until the reader has them, even if the connection is
/// lost. While disconnected, writing continues until the buffer is full (NS-60, NS-67).
///
/// Dropping the writer closes it: remaining elements are sent, for up to ten seconds. If the thread
/// is panicking, dropping aborts the stream instead. A program that cannot write everything must
/// call [`abort_because`](Self::abort_because); otherwise the reader treats the elements that it
/// received as the complete stream.
///
/// With a journal, dropping the writer leaves the stream to the next endpoint that has this name and
/// the same journal.
///
/// # Example
/// ```no_run
/// # use std::time::Duration;
/// # use trunkline_stream::{Options, StreamError, Until, Writer};
/// let peer = "tl://analysis/daq/raw";
/// let mut writer = Writer::<f64>::create("daq/out", Options::to(peer))?;
/// writer.write_many(&[1.0, 2.0, 3.0], None)?;
/// writer.flush(Until::Read, Some(Duration::from_secs(1)))?;
/// # Ok::<(), StreamError>(())
/// ```
pub struct Writer<T: Element> {
    pub(super) core: WriterCore,
    scratch: Vec<u8>,
    element_type: PhantomData<fn(T)>,
}

impl<T: Element> Writer<T> {
    async fn create_impl(
        waiter: &impl Waiter,
        url: &str,
        options: Options,
    ) -> Result<Self, StreamError> {
        let core = rendezvous::writer(waiter, &RealWorld, url, T::data_type(), options).await?;
        Ok(Self {
            core,
            scratch: Vec::new(),
            element_type: PhantomData,
        })
    }

    /// Writes one element, waiting for room for at most `timeout` (`None`: no limit).
    ///
    /// # Errors
    /// [`StreamError::Timeout`]: there was no room, and nothing was written. Any other error means
    /// that the stream is over.
    #[inline]
    pub fn write(&mut self, element: &T, timeout: Option<Duration>) -> Result<(), StreamError> {
        let bytes = element.plain_bytes();
        if bytes.is_some_and(|bytes| self.core.try_write(bytes, 1)) {
            return Ok(());
        }
        self.write_one(element, timeout)
    }

    /// The slow part of [`write`](Self::write), kept separate so that the fast path stays small.
    #[cold]
    #[inline(never)]
    fn write_one(&mut self, element: &T, timeout: Option<Duration>) -> Result<(), StreamError> {
        self.write_many(std::slice::from_ref(element), timeout)
    }

    /// Writes all of `elements`, or none (NS-30).
    ///
    /// # Errors
    /// Those of [`write`](Self::write). [`StreamError::TooMany`], without waiting, if there are
    /// more elements than the buffer can hold.
    #[inline]
    pub fn write_many(
        &mut self,
        elements: &[T],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        if self.core.form != ElementForm::Variable {
            let bytes = T::to_bytes(elements, &mut self.scratch);
            if self.core.try_write(bytes, elements.len()) {
                return Ok(());
            }
        }
        block(self.write_impl(&Blocking, elements, timeout))
    }

    /// Async version of [`write_many`](Self::write_many).
    ///
    /// # Cancel safety
    /// A future that is dropped has written nothing, with one exception: with a journal on
    /// `Durability::Disk`, a future dropped while it waits for the disk has written everything.
    pub async fn write_many_async(
        &mut self,
        elements: &[T],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.write_impl(&Task, elements, timeout).await
    }
}

forward! {
    /// Creates the writer `url` and waits until it is connected to its reader (NS-12).
    ///
    /// # Errors
    /// [`StreamError`] names the cause: the URL, the name, memory, a peer of another type or
    /// direction, or no peer in time.
    create(url: &str, options: Options), [T: Element] Writer<T>
}

forward!(writes elements [T: Element] Writer<T>);
forward!(writer [T: Element] Writer<T>);

impl<T: Plain> Writer<T> {
    /// Writes `count` elements in place: `fill` gets the memory from which they are sent, and must
    /// write all of it. This program does not copy the elements.
    pub fn write_with<R>(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
        fill: impl FnOnce(&mut [T]) -> R,
    ) -> Result<R, StreamError> {
        let bytes = count
            .checked_mul(size_of::<T>())
            .ok_or(StreamError::TooMany {
                asked: count,
                capacity: self.core.capacity(),
            })?;
        let core = &mut self.core;
        core.check_open()?;
        if core.journal.is_some() {
            // The journal needs the elements before the ring does.
            core.check_size(bytes, count)?;
            let mut elements = vec![T::zeroed(); count];
            let result = fill(&mut elements);
            block(core.write(&Blocking, bytemuck::cast_slice(&elements), count, timeout))?;
            return Ok(result);
        }
        let has_room = core.ring.has_room(bytes as u64, count as u64);
        if !core.can_ever_fit(bytes, count as u64) || !has_room.unwrap_or(false) {
            block(core.wait_for_room(&Blocking, bytes, count, timeout))?;
        }
        let result = fill(bytemuck::cast_slice_mut(core.free_space(bytes)));
        core.commit(bytes, count);
        Ok(result)
    }
}
