//! Waiting on a ring that is shared with another process.

use std::time::Duration;

use trunkline_net::Spin;
use trunkline_proto::stream::Link;
use trunkline_types::Tick;

use super::EndpointHandle;
use super::catch_up::CatchUpBackoff;
use crate::end::EndpointRole;
use crate::error::StreamError;
use crate::wait::Waiter;

/// Time after which an endpoint that has announced its wait polls again: the other end reads the
/// announcement without a fence, and may have missed it.
const POLL_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// A condition that a program waits for in the ring.
pub(crate) trait RingCondition {
    fn holds(&mut self) -> bool;
    /// Asks the other end to ring the bell after its next change. Returns true if the condition
    /// holds already.
    fn announce_wait(&mut self) -> bool;
    /// Elements that this endpoint has written, or read.
    fn position(&self) -> u64;
}

/// Decides how an endpoint spins and pauses while it waits.
#[derive(Debug)]
pub(crate) struct WaitPolicy {
    backoff: CatchUpBackoff,
    spin: Spin,
}

impl WaitPolicy {
    pub(crate) fn new(spin: Spin) -> Self {
        Self {
            backoff: CatchUpBackoff::new(spin.is_on()),
            spin,
        }
    }

    /// Polls for half a microsecond, without reading the clock: a peer that is spinning answers
    /// within that time. Returns true if the condition holds.
    pub(crate) fn poll_briefly(&mut self, condition: &mut impl RingCondition) -> bool {
        self.backoff.run(condition.position(), || condition.holds())
    }
}

enum Woken {
    Found,
    /// The other end changed something, but the condition does not hold yet.
    Bell,
    TimeOver,
}

impl<S: EndpointRole + 'static> EndpointHandle<S> {
    /// Waits until the condition holds (true) or the timeout expires (false); called after
    /// [`poll_briefly`](WaitPolicy::poll_briefly) returned false.
    ///
    /// # Errors
    /// The error that `end_error` returns when the condition can no longer come true.
    pub(crate) async fn wait_shared(
        &self,
        waiter: &impl Waiter,
        wait_policy: &mut WaitPolicy,
        timeout: Option<Duration>,
        condition: &mut impl RingCondition,
        end_error: impl Fn(&Link<S::Half>) -> Option<StreamError>,
    ) -> Result<bool, StreamError> {
        let link = self;
        let until = link.deadline(timeout);
        let spin = &mut wait_policy.spin;
        let start = link.now();
        let longest = until.map(|until| until.since(start));
        if spin.run(longest, || condition.holds()) {
            return Ok(true);
        }
        // Read before requesting a bell; otherwise a bell that arrives in between would be missed.
        let mut bells = link.with(|end, _, _| (end.link.bells(), end.inner.shared().is_some()));
        let is_late = || until.is_some_and(|until| until <= link.now()) || link.is_closed();
        let mut announces = true;
        loop {
            if announces && condition.announce_wait() {
                break;
            }
            let soon = link.now().saturating_add(POLL_AGAIN_AFTER);
            let soon = until.map_or(soon, |until| until.min(soon));
            match sleep(waiter, link, Some(soon), &mut bells, condition, &end_error).await? {
                Woken::Found => break,
                // The next bell is not requested at once; otherwise every element could cost one.
                Woken::Bell => announces = false,
                Woken::TimeOver if is_late() => return Ok(condition.holds()),
                Woken::TimeOver if !announces => announces = true,
                Woken::TimeOver => {
                    match sleep(waiter, link, until, &mut bells, condition, &end_error).await? {
                        Woken::Found => break,
                        Woken::Bell => announces = false,
                        Woken::TimeOver => return Ok(condition.holds()),
                    }
                }
            }
        }
        spin.waited(link.now().since(start));
        Ok(true)
    }
}

/// Sleeps until the condition holds, a bell differs from `bells`, or the deadline passes.
async fn sleep<S: EndpointRole + 'static>(
    waiter: &impl Waiter,
    link: &EndpointHandle<S>,
    until: Option<Tick>,
    bells: &mut (u64, bool),
    condition: &mut impl RingCondition,
    end_error: &impl Fn(&Link<S::Half>) -> Option<StreamError>,
) -> Result<Woken, StreamError> {
    let woken = link.wait(waiter, until, |end, _| {
        end.poll_ring();
        if condition.holds() {
            return Some(Ok(Woken::Found));
        }
        if let Some(error) = end_error(&end.link) {
            return Some(Err(error));
        }
        // The other end may have been replaced by one that is reached over a connection.
        let now = (end.link.bells(), end.inner.shared().is_some());
        (std::mem::replace(bells, now) != now).then_some(Ok(Woken::Bell))
    });
    woken.await.unwrap_or(Ok(Woken::TimeOver))
}
