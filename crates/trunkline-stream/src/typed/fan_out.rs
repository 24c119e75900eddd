//! Defines the writer with several readers for element types that are known at compile time.

use std::marker::PhantomData;
use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_proto::stream::ElementForm;

use super::forwarding::forward;
use crate::element::{self, Element, Plain};
use crate::error::StreamError;
use crate::fan_bytes::{FanOutCore, FanOutOptions, PeerStatus, Undelivered};
use crate::properties::{Monitor, Properties};
use crate::rendezvous;
use crate::wait::{Blocking, Task, Waiter, block};

/// A writer of elements of type `T` with any number of readers, each of which gets all elements.
///
/// The readers are ordinary readers that name this endpoint as their peer. All readers share one
/// buffer, in which each reader has a cursor. Room becomes free once the slowest reader has the
/// elements. The [`Policy`](crate::Policy) decides what happens to a reader that is too slow.
///
/// - A reader that joins while there are other readers begins with the next element written. A reader
///   that joins when there is no other reader begins with the elements still in the buffer.
/// - A disconnected reader keeps its place for the time given by
///   [`gone_after`](crate::Options::gone_after). After that, or when it closes, it has left, and
///   the writer no longer waits for it.
/// - Without readers, the buffer fills. When it is full, the writer waits with
///   [`Policy::Slowest`](crate::Policy::Slowest), as it does for a slow reader. With a quota, the
///   buffer keeps the newest elements, and the next reader gets no report about the older ones.
///
/// Dropping the writer closes it, which can take up to ten seconds.
///
/// # Example
/// ```no_run
/// # use std::time::Duration;
/// # use trunkline_stream::{FanOutOptions, FanOutWriter, Policy, StreamError};
/// let options = FanOutOptions {
///     policy: Policy::Quota(10_000),
///     readers_min: 2,
///     ..FanOutOptions::default()
/// };
/// let mut writer = FanOutWriter::<f64>::create("daq/raw", options)?;
/// writer.write_many(&[1.0, 2.0, 3.0], None)?;
/// for undelivered in writer.close(Some(Duration::from_secs(10))) {
///     println!("{} lacks {}", undelivered.member.url, undelivered.left.elements);
/// }
/// # Ok::<(), StreamError>(())
/// ```
pub struct FanOutWriter<T: Element> {
    pub(super) core: FanOutCore,
    scratch: Vec<u8>,
    element_type: PhantomData<fn(T)>,
}

impl<T: Element> FanOutWriter<T> {
    async fn create_impl(
        waiter: &impl Waiter,
        url: &str,
        options: FanOutOptions,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::fan_out(waiter, url, T::data_type(), options).await?,
            scratch: Vec::new(),
            element_type: PhantomData,
        })
    }

    /// Writes one element, waiting for room for at most `timeout` (`None`: no limit).
    ///
    /// # Errors
    /// [`StreamError::Timeout`]: the slowest reader made no room, or there is no reader; nothing
    /// was written. [`StreamError::TooLong`]: the element is longer than the buffer of one of the
    /// ends.
    pub fn write(&mut self, element: &T, timeout: Option<Duration>) -> Result<(), StreamError> {
        self.write_many(std::slice::from_ref(element), timeout)
    }
}

forward! {
    /// Creates the writer `url` and waits for its first readers.
    ///
    /// # Errors
    /// [`StreamError`] names the cause: the URL, the name, memory, or too few readers in time. A
    /// reader of another type is refused with the reason, and creation continues to wait.
    create(url: &str, options: FanOutOptions), [T: Element] FanOutWriter<T>
}

forward! {
    /// Writes all of `elements`, or none.
    ///
    /// # Errors
    /// Those of [`write`](Self::write). [`StreamError::TooMany`], without waiting, if there are
    /// more elements than the buffer can hold.
    write_many, write_many_async(elements: &[T], timeout: Option<Duration>) -> ()
        = write_impl(elements, timeout), cancelled "A future that is dropped has written nothing.",
    [T: Element] FanOutWriter<T>
}

forward!(writes elements [T: Element] FanOutWriter<T>);
forward!(writer to several [T: Element] FanOutWriter<T>);

impl<T: Plain> FanOutWriter<T> {
    /// Writes `count` elements in place: `fill` gets the memory from which they are sent, and must
    /// write all of it. This program does not copy the elements.
    pub fn write_with<R>(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
        fill: impl FnOnce(&mut [T]) -> R,
    ) -> Result<R, StreamError> {
        let core = &mut self.core;
        let Some(bytes) = count.checked_mul(size_of::<T>()) else {
            let (asked, capacity) = (count, core.capacity());
            return Err(StreamError::TooMany { asked, capacity });
        };
        block(core.wait_for_room(&Blocking, bytes, count, timeout))?;
        let result = fill(bytemuck::cast_slice_mut(core.free_space(bytes)));
        core.commit(bytes, count);
        Ok(result)
    }
}
