//! Defines the reader with several writers for element types that are known at compile time.

use std::marker::PhantomData;
use std::time::Duration;

use super::forwarding::forward;
use crate::bytes::Region;
use crate::element::{Element, Plain};
use crate::error::StreamError;
use crate::fan_bytes::{Acquired, FanInCore, FanInOptions, PeerStatus, Run};
use crate::properties::{Monitor, Properties};
use crate::rendezvous;
use crate::wait::{Blocking, Task, Waiter, block};

/// A reader of elements of type `T` from any number of writers.
///
/// The writers are ordinary writers that name this endpoint as their peer. Each writer has its own
/// buffer in the reader, so no writer can block another. A read returns a run of elements of one
/// writer, in the order in which they were written, and writers take turns. Elements of different
/// writers are not ordered.
///
/// A disconnected writer reconnects; [`gone_after`](crate::Options::gone_after) limits the wait for
/// the writer. The end of a writer's stream is reported once, after the last element of that writer.
/// Another writer may always connect, so this reader never ends by itself.
///
/// Dropping the reader destroys it. Each writer learns how far its stream was read.
///
/// # Example
/// ```no_run
/// # use trunkline_stream::{FanInOptions, FanInReader, Run, StreamError};
/// let mut reader = FanInReader::<f64>::create("daq/all", FanInOptions::default())?;
/// loop {
///     match reader.read_run(1000, None)? {
///         Run::Elements { writer, elements } => println!("{}: {elements:?}", writer.url),
///         Run::Ended { writer, end } => println!("{} has ended: {end:?}", writer.url),
///     }
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), StreamError>(())
/// ```
pub struct FanInReader<T: Element> {
    pub(super) core: FanInCore,
    element_type: PhantomData<fn() -> T>,
}

impl<T: Element> FanInReader<T> {
    async fn create_impl(
        waiter: &impl Waiter,
        url: &str,
        options: FanInOptions,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::fan_in(waiter, url, T::data_type(), options).await?,
            element_type: PhantomData,
        })
    }

    async fn read_impl(
        &mut self,
        waiter: &impl Waiter,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Run<T>, StreamError> {
        let append = |_, bytes: &[u8], count| {
            let mut elements = Vec::with_capacity(count);
            T::append(bytes, &mut elements)?;
            Ok(elements)
        };
        self.core.read_run(waiter, max, timeout, append).await
    }
}

impl<T: Plain> FanInReader<T> {
    /// Like [`read_run`](Self::read_run), but returns the elements in place, without a copy.
    /// Dropping the region releases them. Until then the other writers continue, each in its own
    /// buffer.
    pub fn acquire_run(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Acquired<Region<'_, T>>, StreamError> {
        let acquired = block(self.core.acquire(&Blocking, max, timeout))?;
        Ok(acquired.map(|(core, count)| Region::new(core, count)))
    }
}

forward! {
    /// Creates the reader `url` and waits for its first writers.
    ///
    /// # Errors
    /// [`StreamError`] names the cause: the URL, the name, memory, or too few writers in time. A
    /// writer of another type is refused with the reason, and creation continues to wait.
    create(url: &str, options: FanInOptions), [T: Element] FanInReader<T>
}

forward! {
    /// Waits for elements of any writer, or for the end of a writer's stream, and returns up to
    /// `max` elements of that writer. Arrays may have different lengths.
    ///
    /// # Errors
    /// [`StreamError::Timeout`]: nothing arrived. [`StreamError::Element`]: a writer has sent an
    /// invalid element; that writer stays connected, and nothing was read.
    read_run, read_run_async(max: usize, timeout: Option<Duration>) -> Run<T>
        = read_impl(max, timeout), cancelled "A future that is dropped has read nothing.",
    [T: Element] FanInReader<T>
}

forward!(reader of several [T: Element] FanInReader<T>);
