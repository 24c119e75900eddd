//! The reading end with several writers.

use std::marker::PhantomData;
use std::time::Duration;

use super::gather::GatherCore;
use super::member::{Acquired, Present, Run};
use super::options::FanInOptions;
use crate::element::{Element, Plain};
use crate::error::StreamError;
use crate::forwarding::forward;
use crate::properties::{Monitor, Properties};
use crate::reader::Region;
use crate::rendezvous;
use crate::wait::{Blocking, Task, Waits, block};

/// The reading end of streams of elements of type `T` from any number of writers.
///
/// The writers are ordinary ones that name this end as their peer. Each has a buffer of its own
/// here, so that none can keep another from writing: what is read is a run of elements of one of
/// them, in its order, and the writers take turns. Between elements of two writers there is no
/// order.
///
/// A writer that is cut comes back; how long it is waited for is said by
/// [`gone_after`](crate::Options::gone_after). When nothing more comes of one, that is told once,
/// behind its last element. There may always come another one, so this end is never at an end by
/// itself.
///
/// Dropping it destroys it: each writer is told how far it came.
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
    pub(super) core: GatherCore,
    of: PhantomData<fn() -> T>,
}

impl<T: Element> FanInReader<T> {
    /// Creates the reading end `url` and waits for its first writers.
    ///
    /// # Errors
    /// [`StreamError`] says who is at fault: the URL, the name, memory; not enough writers came in
    /// time. A writer of another type is refused and told so, and the others are waited for.
    pub fn create(url: &str, options: FanInOptions) -> Result<Self, StreamError> {
        block(Self::create_over(&Blocking, url, options))
    }

    /// [`create`](Self::create) for tasks.
    ///
    /// # Errors
    /// As there.
    pub async fn create_async(url: &str, options: FanInOptions) -> Result<Self, StreamError> {
        Self::create_over(&Task, url, options).await
    }

    async fn create_over(
        waits: &impl Waits,
        url: &str,
        options: FanInOptions,
    ) -> Result<Self, StreamError> {
        Ok(Self {
            core: rendezvous::fan_in(waits, url, T::data_type(), options).await?,
            of: PhantomData,
        })
    }

    /// Waits for elements of any writer, or for the end of one, and takes what is there of it, at
    /// most `max` elements. Arrays may be of any lengths.
    ///
    /// # Errors
    /// [`StreamError::Timeout`]: nothing has come. [`StreamError::Element`]: a writer has sent what
    /// is no element; it is still there.
    pub fn read_run(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Run<T>, StreamError> {
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
    ) -> Result<Run<T>, StreamError> {
        self.read_over(&Task, max, timeout).await
    }

    async fn read_over(
        &mut self,
        waits: &impl Waits,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Run<T>, StreamError> {
        let append = |_, bytes: &[u8], count| {
            let mut elements = Vec::with_capacity(count);
            T::append(bytes, &mut elements)?;
            Ok(elements)
        };
        self.core.read_run(waits, max, timeout, append).await
    }
}

impl<T: Plain> FanInReader<T> {
    /// As [`read_run`](Self::read_run), but the elements are used where they have arrived, without
    /// a copy; they are given back to their writer when the region is dropped. Until then the other
    /// writers go on, each in its own buffer.
    ///
    /// # Errors
    /// As there.
    pub fn acquire_run(
        &mut self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Acquired<Region<'_, T>>, StreamError> {
        let acquired = block(self.core.acquire(&Blocking, max, timeout))?;
        Ok(acquired.map(|(core, count)| Region::new(core, count)))
    }
}

forward!(reader of several [T: Element] FanInReader<T>);
