//! The writing end with several readers.

use std::marker::PhantomData;
use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_proto::stream::ElementForm;

use super::member::{Lacking, Present};
use super::options::FanOutOptions;
use super::out::OutCore;
use crate::element::{self, Element, LENGTH_BYTES, Plain};
use crate::error::StreamError;
use crate::forwarding::forward;
use crate::properties::{Monitor, Properties};
use crate::rendezvous;
use crate::wait::{Blocking, Task, Waits, block};

/// The writing end of a stream of elements of type `T` with any number of readers, each of which
/// gets everything.
///
/// The readers are ordinary ones that name this end as their peer. There is one buffer, in which
/// each has a cursor of its own, and its place is free when the slowest has what is there. What
/// becomes of a reader that is too slow is said by the [`Policy`](super::Policy).
///
/// - A reader that comes while others are there begins with the next element that is written. One
///   that comes when none is there begins with what the buffer has kept.
/// - A reader whose connection is cut keeps its place for as long as
///   [`gone_after`](crate::Options::gone_after) says; then, or when it closes, it leaves, and
///   nobody waits for it any more.
/// - While no reader is there, the buffer fills. A full one is waited for as for a slow reader with
///   [`Policy::Slowest`](super::Policy::Slowest); with a quota the newest elements are kept, and
///   the reader that comes next is not told of those before.
///
/// Dropping it is closing it, for up to ten seconds.
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
/// for lacking in writer.close(Some(Duration::from_secs(10))) {
///     println!("{} lacks {}", lacking.member.url, lacking.left.elements);
/// }
/// # Ok::<(), StreamError>(())
/// ```
pub struct FanOutWriter<T: Element> {
    pub(super) core: OutCore,
    scratch: Vec<u8>,
    of: PhantomData<fn(T)>,
}

impl<T: Element> FanOutWriter<T> {
    /// Creates the writing end `url` and waits for its first readers.
    ///
    /// # Errors
    /// [`StreamError`] says who is at fault: the URL, the name, memory; not enough readers came in
    /// time. A reader of another type is refused and told so, and the others are waited for.
    pub fn create(url: &str, options: FanOutOptions) -> Result<Self, StreamError> {
        block(Self::create_over(&Blocking, url, options))
    }

    /// [`create`](Self::create) for tasks.
    ///
    /// # Errors
    /// As there.
    pub async fn create_async(url: &str, options: FanOutOptions) -> Result<Self, StreamError> {
        Self::create_over(&Task, url, options).await
    }

    async fn create_over(
        waits: &impl Waits,
        url: &str,
        options: FanOutOptions,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::fan_out(waits, url, T::data_type(), options).await?,
            scratch: Vec::new(),
            of: PhantomData,
        })
    }

    /// Writes one element, waiting for room for at most `timeout` (`None`: for ever).
    ///
    /// # Errors
    /// [`StreamError::Timeout`]: the slowest reader has made no room, or none is there, and nothing
    /// was written. [`StreamError::TooLong`]: it is longer than the buffer of one of the ends.
    pub fn write(&mut self, element: &T, timeout: Option<Duration>) -> Result<(), StreamError> {
        self.write_many(std::slice::from_ref(element), timeout)
    }

    /// Writes all of `elements`, or none.
    ///
    /// # Errors
    /// As of [`write`](Self::write); [`StreamError::TooMany`] at once when the buffer holds fewer.
    pub fn write_many(
        &mut self,
        elements: &[T],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        block(self.write_over(&Blocking, elements, timeout))
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
        elements: &[T],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.write_over(&Task, elements, timeout).await
    }

    async fn write_over(
        &mut self,
        waits: &impl Waits,
        elements: &[T],
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        let bytes = T::to_bytes(elements, &mut self.scratch);
        if self.core.form == ElementForm::Variable {
            for one in element::each(self.core.form, bytes) {
                self.core.check_element(one.len() + LENGTH_BYTES)?;
            }
        }
        self.core.write(waits, bytes, elements.len(), timeout).await
    }
}

forward!(writer to several [T: Element] FanOutWriter<T>);

impl<T: Plain> FanOutWriter<T> {
    /// Writes `count` elements where they are sent from: `fill` is given their memory, of which it
    /// writes all. No copy is made of them in this program.
    ///
    /// # Errors
    /// As of [`write_many`](Self::write_many).
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
        let answer = fill(bytemuck::cast_slice_mut(core.free_space(bytes)));
        core.commit(bytes, count);
        Ok(answer)
    }
}
