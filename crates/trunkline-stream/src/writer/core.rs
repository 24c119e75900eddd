//! The writing end, in bytes: what every kind of writer does.

use std::sync::Arc;
use std::time::Duration;

use trunkline_net::{Clock, Link};
use trunkline_proto::message::stream::Until;
use trunkline_proto::stream::{ElementForm, Left, StreamFault, WriterLink};
use trunkline_ring::ElementProducer;
use trunkline_types::Tick;

use crate::end::{End, GATHER_BYTES, WriterEnd};
use crate::error::StreamError;
use crate::rendezvous::Registration;
use crate::wait::{Waits, deadline};

/// How long closing waits for what the writer still has, where nothing else is said.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct WriterCore {
    pub(crate) link: Arc<Link<End<WriterEnd>>>,
    pub(crate) ring: ElementProducer,
    pub(crate) form: ElementForm,
    /// Written since the link last had reason to look.
    unsent: u64,
    /// Ends with the endpoint.
    registration: Option<Registration>,
}

impl WriterCore {
    pub(crate) fn new(
        link: Arc<Link<End<WriterEnd>>>,
        ring: ElementProducer,
        form: ElementForm,
        registration: Option<Registration>,
    ) -> Self {
        Self {
            link,
            ring,
            form,
            unsent: 0,
            registration,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        // A capacity came as a usize.
        usize::try_from(self.ring.shape().capacity()).unwrap_or(usize::MAX)
    }

    /// Writes `elements` that lie in `bytes`: all of them, or none.
    pub(crate) async fn write(
        &mut self,
        waits: &impl Waits,
        bytes: &[u8],
        elements: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        if self.push(bytes, elements as u64) {
            return Ok(());
        }
        self.wait_for_room(waits, bytes.len(), elements, timeout)
            .await?;
        self.push(bytes, elements as u64);
        Ok(())
    }

    /// Appends to the ring, if there is room, and sees to it that it is sent.
    #[inline]
    fn push(&mut self, bytes: &[u8], elements: u64) -> bool {
        // Nobody but this program has the memory, so its positions are true.
        if !self.ring.push(bytes, elements).unwrap_or(false) {
            return false;
        }
        self.wrote(bytes.len() as u64);
        true
    }

    /// So many bytes were given to the ring.
    #[inline]
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.unsent += bytes;
        if self.ring.must_wake() {
            self.unsent = 0;
            self.link.with(|end, _, _| end.inner.wake());
        } else if self.unsent >= GATHER_BYTES {
            self.unsent = 0;
            // Who asks for the endpoint sends what there is.
            self.link.with(|_, _, _| ());
        }
    }

    /// Waits until so much fits.
    #[cold]
    pub(crate) async fn wait_for_room(
        &mut self,
        waits: &impl Waits,
        bytes: usize,
        elements: usize,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.check_size(bytes, elements)?;
        let until = deadline(timeout);
        let ring = &mut self.ring;
        let (bytes, count) = (bytes as u64, elements as u64);
        let found = waits.wait(&self.link, until, |end, _| {
            if let Some(error) = over(&end.link) {
                return Some(Err(error));
            }
            let has_room = ring.has_room(bytes, count).unwrap_or(false);
            end.link.set_short_of_room(!has_room);
            if !has_room {
                end.look();
                return None;
            }
            Some(Ok(()))
        });
        let found = found.await;
        match found {
            Some(result) => result,
            None => {
                self.link
                    .with(|end, _, _| end.link.set_short_of_room(false));
                Err(self.gave_up(timeout, "the buffer has no room for all of the elements"))
            }
        }
    }

    fn gave_up(&self, timeout: Option<Duration>, what: &'static str) -> StreamError {
        match timeout {
            Some(timeout) if !self.link.is_closed() => StreamError::Timeout { timeout, what },
            _ => StreamError::Closed,
        }
    }

    /// # Errors
    /// It can never fit (NS-33).
    fn check_size(&self, bytes: usize, elements: usize) -> Result<(), StreamError> {
        let shape = self.ring.shape();
        if elements as u64 > shape.capacity() || bytes > shape.bytes_max() {
            if elements == 1 {
                let max = shape.bytes_max() as u64;
                return Err(StreamError::TooLong { bytes, max });
            }
            return Err(StreamError::TooMany {
                asked: elements,
                capacity: self.capacity(),
            });
        }
        Ok(())
    }

    /// # Errors
    /// An element of varying length is longer than one of the two buffers.
    pub(crate) fn check_element(&self, bytes: usize) -> Result<(), StreamError> {
        let max = self.link.with(|end, _, _| end.link.element_bytes_max());
        match bytes as u64 > max {
            true => Err(StreamError::TooLong { bytes, max }),
            false => Ok(()),
        }
    }

    /// Elements that fit now.
    pub(crate) fn room(&mut self) -> usize {
        // Nobody but this program has the memory, so its positions are true.
        let freed = self.ring.read_elements().unwrap_or(0);
        let kept = self.ring.written_elements().saturating_sub(freed);
        let room = self.ring.shape().capacity().saturating_sub(kept);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Sends everything now, and waits until it has come so far.
    pub(crate) async fn flush(
        &mut self,
        waits: &impl Waits,
        until: Until,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        self.unsent = 0;
        let (position, is_reached) = self.link.with(|end, _, _| {
            end.look();
            let position = end.link.flush(until);
            (position, end.link.is_reached(until, position))
        });
        if is_reached || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        let reached = waits.wait(&self.link, deadline(timeout), |end, _| {
            if end.link.is_reached(until, position) {
                return Some(Ok(()));
            }
            over(&end.link).map(Err)
        });
        match reached.await {
            Some(result) => result,
            None => Err(self.gave_up(timeout, "not all elements have come so far")),
        }
    }

    /// Nothing more is written: waits until the reader has everything, and says what it lacks.
    pub(crate) async fn close(&mut self, waits: &impl Waits, timeout: Option<Duration>) -> Left {
        self.link.with(|end, _, _| {
            end.look();
            end.link.close();
        });
        self.end(waits, deadline(timeout)).await
    }

    /// Nothing more is sent.
    pub(crate) async fn abort(&mut self, waits: &impl Waits) -> Left {
        self.link.with(|end, _, _| {
            end.look();
            end.link.abort();
        });
        let soon = Clock::new().now().saturating_add(Duration::from_secs(1));
        self.end(waits, Some(soon)).await
    }

    async fn end(&mut self, waits: &impl Waits, until: Option<Tick>) -> Left {
        let closed = |end: &mut End<WriterEnd>, _| end.link.is_closed().then_some(());
        let _is_closed = waits.wait(&self.link, until, closed).await;
        let left = self.link.with(|end, _, _| {
            end.look();
            end.link.left(&end.inner)
        });
        self.link.close(Clock::new().now());
        self.registration = None;
        left
    }
}

impl Drop for WriterCore {
    fn drop(&mut self) {
        if !self.link.is_closed() {
            crate::wait::block(self.close(&crate::wait::Blocking, Some(CLOSE_TIMEOUT)));
        }
    }
}

/// Why nothing more can be written.
fn over(link: &WriterLink) -> Option<StreamError> {
    match link.fault() {
        Some(fault) => Some(fault.clone().into()),
        None if link.is_over() => Some(StreamFault::Destroyed.into()),
        None => None,
    }
}
