//! Implements flushing, which waits until all written elements have been sent, or are available, read
//! or durable at the reader.

use std::time::Duration;

use trunkline_proto::message::stream::Until;
use trunkline_ring::ElementProducer;

use super::{WriterCore, end_of_stream_error};
use crate::end::{EndpointRole, StreamEndpoint, WriterEnd};
use crate::error::StreamError;
use crate::handle::RingCondition;
use crate::wait::Waiter;

const NOT_REACHED: &str = "not all elements have reached the requested state";

/// Holds when this many elements have been read in total.
struct ElementsRead<'a> {
    ring: &'a mut ElementProducer,
    elements: u64,
}

impl RingCondition for ElementsRead<'_> {
    fn holds(&mut self) -> bool {
        // The link detects invalid positions from the other program.
        let read = self.ring.read_elements();
        read.is_ok_and(|read| read >= self.elements)
    }

    fn announce_wait(&mut self) -> bool {
        // Asks for more room than can exist, so that any change wakes this endpoint.
        let _ = self.ring.wait_for_room(u64::MAX, 0);
        self.holds()
    }

    fn position(&self) -> u64 {
        self.ring.written_elements()
    }
}

impl WriterCore {
    /// Sends all written elements now, and waits until they have reached the stage `until`.
    pub(crate) async fn flush(
        &mut self,
        waiter: &impl Waiter,
        until: Until,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        if self.journal.is_some() || until == Until::Durable {
            self.check_durable(until)?;
        }
        if self.is_shared {
            self.wake_reader();
        }
        // Waking the reader updates `is_shared`.
        if self.is_shared {
            return self.flush_shared(waiter, until, timeout).await;
        }
        let written = self.ring.written_elements();
        self.flushes_each_element = written.saturating_sub(self.flushed) <= 1;
        self.flushed = written;
        let has_sent = std::mem::take(&mut self.has_sent) && self.unsent == 0;
        if has_sent && until == Until::Sent && timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        self.unsent = 0;
        let flushes_each_element = self.flushes_each_element;
        let (position, is_reached) = self.link.with(|end, _, _| {
            end.poll_ring();
            if flushes_each_element {
                end.stop_polling_now();
            }
            let position = end.link.flush(until);
            (position, end.link.is_reached(until, position))
        });
        if is_reached || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        let reached = self
            .link
            .wait(waiter, self.link.deadline(timeout), |end, _| {
                if end.link.is_reached(until, position) {
                    return Some(Ok(()));
                }
                end_of_stream_error(&end.link).map(Err)
            });
        match reached.await {
            Some(result) => result,
            None => Err(self.link.wait_error(timeout, NOT_REACHED)),
        }
    }

    /// Wakes the reader of a shared ring if it sleeps. The check costs a memory fence, but does not
    /// disturb a reader that is spinning.
    fn wake_reader(&mut self) {
        if let Some(woken_at) = self.woken_at {
            let has_read = self.ring.read_elements().is_ok_and(|read| read >= woken_at);
            self.woken_at = self.woken_at.filter(|_| !has_read);
        }
        if self.ring.must_wake() || self.woken_at.is_some() {
            self.wake();
        }
    }

    /// [`flush`](Self::flush) for a ring shared by both ends: nothing has to be sent.
    async fn flush_shared(
        &mut self,
        waiter: &impl Waiter,
        until: Until,
        timeout: Option<Duration>,
    ) -> Result<(), StreamError> {
        let written = self.ring.written_elements();
        let target = match until {
            Until::Sent => return Ok(()),
            Until::Available => {
                let fills = |end: &mut StreamEndpoint<WriterEnd>, _, _| {
                    end.inner.shared().map_or(0, |shared| shared.fills.reader)
                };
                written.saturating_sub(self.link.with(fills))
            }
            // Endpoints with journals share no ring, so no stage here depends on a disk.
            Until::Read | Until::Durable => written,
        };
        let mut read = ElementsRead {
            ring: &mut self.ring,
            elements: target,
        };
        if read.holds()
            || timeout == Some(Duration::ZERO)
            || self.wait_policy.poll_briefly(&mut read)
        {
            return Ok(());
        }
        let (link, policy) = (&self.link, &mut self.wait_policy);
        let found = link.wait_shared(waiter, policy, timeout, &mut read, end_of_stream_error);
        match found.await? {
            true => Ok(()),
            false => Err(self.link.wait_error(timeout, NOT_REACHED)),
        }
    }
}
