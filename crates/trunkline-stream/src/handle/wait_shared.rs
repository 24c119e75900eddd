//! Waiting on a ring that is shared with another process.

use std::time::Duration;

use trunkline_net::Spin;
use trunkline_proto::stream::Link;
use trunkline_types::Tick;

use super::EndpointHandle;
use super::catch_up::CatchUpBackoff;
use crate::end::EndpointRole;
use crate::error::StreamError;
use crate::wait::Waits;

/// Time after which an end that has announced its wait polls again: the other end reads the
/// announcement without a fence, and may have missed it.
const LAST_LOOK: Duration = Duration::from_millis(1);

/// A condition that a program waits for in the ring.
pub(crate) trait Ring {
    fn has(&mut self) -> bool;
    /// Asks the other end to ring the bell after its next change. Returns true if the condition
    /// already holds.
    fn say(&mut self) -> bool;
    /// Elements that this end has written, or read.
    fn position(&self) -> u64;
}

/// The waiting state of an end.
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
    pub(crate) fn is_there(&mut self, ring: &mut impl Ring) -> bool {
        self.backoff.run(ring.position(), || ring.has())
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
    /// [`is_there`](WaitPolicy::is_there) returned false.
    ///
    /// # Errors
    /// The error that `over` returns when the condition can no longer come true.
    pub(crate) async fn wait_shared(
        &self,
        waits: &impl Waits,
        wait_policy: &mut WaitPolicy,
        timeout: Option<Duration>,
        ring: &mut impl Ring,
        over: impl Fn(&Link<S::Half>) -> Option<StreamError>,
    ) -> Result<bool, StreamError> {
        let link = self;
        let until = link.deadline(timeout);
        let spin = &mut wait_policy.spin;
        let start = link.now();
        let longest = until.map(|until| until.since(start));
        if spin.run(longest, || ring.has()) {
            return Ok(true);
        }
        // Read before requesting a bell; otherwise a bell that arrives in between would be missed.
        let mut bells = link.with(|end, _, _| (end.link.bells(), end.inner.shared().is_some()));
        let is_late = || until.is_some_and(|until| until <= link.now()) || link.is_closed();
        let mut says = true;
        loop {
            if says && ring.say() {
                break;
            }
            let soon = link.now().saturating_add(LAST_LOOK);
            let soon = until.map_or(soon, |until| until.min(soon));
            match sleep(waits, link, Some(soon), &mut bells, ring, &over).await? {
                Woken::Found => break,
                // The next bell is not requested at once; otherwise every element could cost one.
                Woken::Bell => says = false,
                Woken::TimeOver if is_late() => return Ok(ring.has()),
                Woken::TimeOver if !says => says = true,
                Woken::TimeOver => {
                    match sleep(waits, link, until, &mut bells, ring, &over).await? {
                        Woken::Found => break,
                        Woken::Bell => says = false,
                        Woken::TimeOver => return Ok(ring.has()),
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
    waits: &impl Waits,
    link: &EndpointHandle<S>,
    until: Option<Tick>,
    bells: &mut (u64, bool),
    ring: &mut impl Ring,
    over: &impl Fn(&Link<S::Half>) -> Option<StreamError>,
) -> Result<Woken, StreamError> {
    let woken = link.wait(waits, until, |end, _| {
        end.poll_ring();
        if ring.has() {
            return Some(Ok(Woken::Found));
        }
        if let Some(error) = over(&end.link) {
            return Some(Err(error));
        }
        // The other end may have been replaced by one that is reached over a connection.
        let now = (end.link.bells(), end.inner.shared().is_some());
        (std::mem::replace(bells, now) != now).then_some(Ok(Woken::Bell))
    });
    woken.await.unwrap_or(Ok(Woken::TimeOver))
}
