//! Waits for changes of a ring that is shared with another process.

use std::time::Duration;

use trunkline_net::Spin;
use trunkline_proto::stream::Link;
use trunkline_types::Tick;

use super::EndpointHandle;
use super::catch_up::CatchUpBackoff;
use crate::end::EndpointRole;
use crate::error::StreamError;
use crate::wait::Waiter;

/// Time after which an endpoint that has announced its wait polls again. The peer reads the
/// announcement without a fence, so it may have missed the announcement.
const POLL_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// A condition of the ring for which a program waits.
pub(crate) trait RingCondition {
    fn holds(&mut self) -> bool;
    /// Asks the peer to ring the bell after its next change of the ring. Returns true if the
    /// condition already holds.
    fn announce_wait(&mut self) -> bool;
    /// Returns the number of elements that this endpoint has written or read.
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

enum WakeReason {
    /// The condition holds.
    Found,
    /// The peer has changed the ring, but the condition does not hold yet.
    Bell,
    DeadlinePassed,
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
        end_error: impl Fn(&Link<S::LinkRole>) -> Option<StreamError>,
    ) -> Result<bool, StreamError> {
        let link = self;
        let deadline = link.deadline(timeout);
        let spin = &mut wait_policy.spin;
        let start = link.now();
        let spin_max = deadline.map(|deadline| deadline.since(start));
        if spin.run(spin_max, || condition.holds()) {
            return Ok(true);
        }
        // The number of bells is read before a bell is requested. Otherwise a bell that arrives in
        // between would be missed.
        let mut bells = link.with(|end, _, _| (end.link.bells(), end.inner.shared().is_some()));
        let is_over =
            || deadline.is_some_and(|deadline| deadline <= link.now()) || link.is_closed();
        let mut announces = true;
        loop {
            if announces && condition.announce_wait() {
                break;
            }
            let next_poll = link.now().saturating_add(POLL_AGAIN_AFTER);
            let next_poll = deadline.map_or(next_poll, |deadline| deadline.min(next_poll));
            let first = sleep(
                waiter,
                link,
                Some(next_poll),
                &mut bells,
                condition,
                &end_error,
            );
            match first.await? {
                WakeReason::Found => break,
                // The next bell is not requested at once. Otherwise every element could cost a bell.
                WakeReason::Bell => announces = false,
                WakeReason::DeadlinePassed if is_over() => return Ok(condition.holds()),
                WakeReason::DeadlinePassed if !announces => announces = true,
                WakeReason::DeadlinePassed => {
                    match sleep(waiter, link, deadline, &mut bells, condition, &end_error).await? {
                        WakeReason::Found => break,
                        WakeReason::Bell => announces = false,
                        WakeReason::DeadlinePassed => return Ok(condition.holds()),
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
    deadline: Option<Tick>,
    bells: &mut (u64, bool),
    condition: &mut impl RingCondition,
    end_error: &impl Fn(&Link<S::LinkRole>) -> Option<StreamError>,
) -> Result<WakeReason, StreamError> {
    let woken = link.wait(waiter, deadline, |end, _| {
        end.poll_ring();
        if condition.holds() {
            return Some(Ok(WakeReason::Found));
        }
        if let Some(error) = end_error(&end.link) {
            return Some(Err(error));
        }
        // The peer may have been replaced by one that does not share the ring.
        let now = (end.link.bells(), end.inner.shared().is_some());
        (std::mem::replace(bells, now) != now).then_some(Ok(WakeReason::Bell))
    });
    woken.await.unwrap_or(Ok(WakeReason::DeadlinePassed))
}
