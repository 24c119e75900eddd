//! A reading end of elements whose type is known when the program runs.

use std::ops::Deref;
use std::time::Duration;

use trunkline_proto::stream::ElementForm;
use trunkline_types::{DataType, Value};

use super::{ReaderCore, Wanted};
use crate::element;
use crate::error::StreamError;
use crate::forwarding::forward;
use crate::machine::Machine;
use crate::options::Options;
use crate::properties::{Monitor, Properties};
use crate::rendezvous;
use crate::wait::{Blocking, Task, Waits, block};

/// The reading end of a stream of elements of any type of Trunkline, which is said at its creation.
///
/// It is a [`Reader`](crate::Reader) in everything else, and its writer may be of either kind.
pub struct ValueReader {
    core: ReaderCore,
    data_type: DataType,
}

impl ValueReader {
    /// Creates the reading end `url` and waits until it is connected with its writer (NS-12).
    ///
    /// # Errors
    /// As [`Reader::create`](crate::Reader::create).
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
            core: rendezvous::reader(waits, &Machine::Real, url, data_type.clone(), options)
                .await?,
            data_type: data_type.clone(),
        })
    }

    /// The type of the elements.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Reads one element, waiting for it for at most `timeout` (`None`: for ever).
    ///
    /// # Errors
    /// [`StreamError::Timeout`]: there was none. [`StreamError::Ended`]: there will be none.
    pub fn read(&mut self, timeout: Option<Duration>) -> Result<Value, StreamError> {
        let mut one = self.read_many(1, timeout)?;
        one.pop().ok_or(StreamError::Ended)
    }

    /// Reads `count` elements, or none (NS-30). Fewer only where the stream has ended and fewer are
    /// left (NS-48).
    ///
    /// # Errors
    /// As of [`read`](Self::read); [`StreamError::TooMany`] at once when the buffer holds fewer;
    /// [`StreamError::Lengths`] when arrays are not of equal lengths (NS-35).
    pub fn read_many(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<Value>, StreamError> {
        block(self.read_over(&Blocking, Wanted::Exactly(count), timeout))
    }

    /// [`read_many`](Self::read_many) for tasks.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// A future that is dropped has read nothing.
    pub async fn read_many_async(
        &mut self,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<Value>, StreamError> {
        self.read_over(&Task, Wanted::Exactly(count), timeout).await
    }

    /// Reads everything that is there, which may be nothing, without waiting (NS-36).
    ///
    /// # Errors
    /// [`StreamError::Ended`], or why the stream is over.
    pub fn read_available(&mut self) -> Result<Vec<Value>, StreamError> {
        block(self.read_over(&Blocking, Wanted::Available, None))
    }

    async fn read_over(
        &mut self,
        waits: &impl Waits,
        wanted: Wanted,
        timeout: Option<Duration>,
    ) -> Result<Vec<Value>, StreamError> {
        let count = self.core.wait_for(waits, wanted, timeout).await?;
        self.take(count, element::check_equal_values)
    }

    /// Reads elements one by one as they come: waits for one, and takes what else is there, at most
    /// `most`. Arrays may be of any lengths.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub fn read_up_to(
        &mut self,
        most: usize,
        timeout: Option<Duration>,
    ) -> Result<Vec<Value>, StreamError> {
        let count = self.wait_for_some(most, timeout)?;
        self.take(count, |_| Ok(()))
    }

    /// Waits for one element and says how many there are, at most `most`.
    fn wait_for_some(
        &mut self,
        most: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, StreamError> {
        block(self.core.wait_for(&Blocking, Wanted::Exactly(1), timeout))?;
        Ok(self.core.available().min(most))
    }

    fn take(
        &mut self,
        count: usize,
        check: impl FnOnce(&[Value]) -> Result<(), StreamError>,
    ) -> Result<Vec<Value>, StreamError> {
        let form = self.core.form;
        let bytes = self.core.region(count)?;
        let len = bytes.len();
        let values = element::each(form, bytes).map(|one| element::decode(&self.data_type, one));
        let values: Vec<Value> = values.collect::<Result<_, _>>()?;
        check(&values)?;
        self.core.release(len, count);
        Ok(values)
    }

    /// The next elements of one size where they have arrived, as bytes, little-endian, without a
    /// copy: waits for one, and takes what else is there, at most `most`. They are given back when
    /// the region is dropped.
    ///
    /// # Errors
    /// [`StreamError::Varying`] where elements vary in size; otherwise as of [`read`](Self::read).
    pub fn acquire_bytes(
        &mut self,
        most: usize,
        timeout: Option<Duration>,
    ) -> Result<ByteRegion<'_>, StreamError> {
        let size = element::size(self.core.form, &self.data_type)?;
        let count = self.wait_for_some(most, timeout)?;
        Ok(ByteRegion::new(&mut self.core, size, count))
    }
}

forward!(reader [] ValueReader);

/// Bytes of whole elements of a reader's buffer, in one piece. Dropping it gives them back: they
/// have been read. The writing program may share this memory: see [`Region`](crate::Region).
pub struct ByteRegion<'a> {
    core: &'a mut ReaderCore,
    bytes: usize,
    count: usize,
}

impl<'a> ByteRegion<'a> {
    /// The next `count` elements of `size` bytes, which are there.
    pub(crate) fn new(core: &'a mut ReaderCore, size: usize, count: usize) -> Self {
        Self {
            core,
            bytes: count * size,
            count,
        }
    }

    /// How many elements they are.
    pub fn elements(&self) -> usize {
        self.count
    }
}

impl Deref for ByteRegion<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.core.known_region(self.bytes)
    }
}

impl Drop for ByteRegion<'_> {
    fn drop(&mut self) {
        self.core.release(self.bytes, self.count);
    }
}

impl std::fmt::Debug for ByteRegion<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByteRegion")
            .field("bytes", &self.bytes)
            .field("count", &self.count)
            .finish()
    }
}

/// Elements of this type all have so many bytes; `None` where they vary.
pub fn element_bytes(data_type: &DataType) -> Option<usize> {
    match element::form(data_type) {
        ElementForm::Fixed(size) => Some(size as usize),
        ElementForm::Variable => None,
    }
}
