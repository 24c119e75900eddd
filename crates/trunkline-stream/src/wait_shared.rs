//! Waiting on a ring that another process uses too.

use std::time::Duration;

use trunkline_net::Spin;
use trunkline_types::Tick;

use crate::end::{End, Inner};
use crate::error::StreamError;
use crate::held::Held;
use crate::linger::Linger;
use crate::wait::Waits;

/// How long after an end has said that it waits it looks once more: the other one looks at what was
/// said without a fence, and may have missed it.
const LAST_LOOK: Duration = Duration::from_millis(1);

/// What a program waits for in the ring.
pub(crate) trait Ring {
    /// It is there.
    fn has(&mut self) -> bool;
    /// Has the other end ring the bell when it has changed something. True when it is there by now.
    fn say(&mut self) -> bool;
    /// Elements that this end has written, or read.
    fn position(&self) -> u64;
}

/// How an end waits there.
#[derive(Debug)]
pub(crate) struct Patience {
    linger: Linger,
    spin: Spin,
}

impl Patience {
    pub(crate) fn new(spin: Spin) -> Self {
        Self {
            linger: Linger::new(spin.is_on()),
            spin,
        }
    }

    /// Whether what is waited for is there within half a microsecond, as it is of an end that looks
    /// for itself: before anybody asks the clock.
    pub(crate) fn is_there(&mut self, ring: &mut impl Ring) -> bool {
        self.linger.run(ring.position(), || ring.has())
    }
}

/// How a sleep ended.
enum Woken {
    Found,
    /// The other end has changed something, which is not enough.
    Bell,
    TimeOver,
}

/// Waits until it is there (true), or the time is over (false), where it
/// [was not at once](Patience::is_there).
///
/// # Errors
/// `over` says why it will never be.
pub(crate) async fn wait_shared<S: Inner + 'static>(
    waits: &impl Waits,
    link: &Held<S>,
    patience: &mut Patience,
    until: Option<Tick>,
    ring: &mut impl Ring,
    over: impl Fn(&End<S>) -> Option<StreamError>,
) -> Result<bool, StreamError> {
    let spin = &mut patience.spin;
    let start = link.now();
    let longest = until.map(|until| until.since(start));
    if spin.run(longest, || ring.has()) {
        return Ok(true);
    }
    // Before it is asked for, or one that comes meanwhile would be missed.
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
            // The next bell is not asked for at once, or each element could cost one.
            Woken::Bell => says = false,
            Woken::TimeOver if is_late() => return Ok(ring.has()),
            Woken::TimeOver if !says => says = true,
            Woken::TimeOver => match sleep(waits, link, until, &mut bells, ring, &over).await? {
                Woken::Found => break,
                Woken::Bell => says = false,
                Woken::TimeOver => return Ok(ring.has()),
            },
        }
    }
    spin.waited(link.now().since(start));
    Ok(true)
}

/// Sleeps until it is there, a bell came since there were `bells`, or the time is over.
async fn sleep<S: Inner + 'static>(
    waits: &impl Waits,
    link: &Held<S>,
    until: Option<Tick>,
    bells: &mut (u64, bool),
    ring: &mut impl Ring,
    over: &impl Fn(&End<S>) -> Option<StreamError>,
) -> Result<Woken, StreamError> {
    let woken = link.wait(waits, until, |end, _| {
        end.look();
        if ring.has() {
            return Some(Ok(Woken::Found));
        }
        if let Some(error) = over(end) {
            return Some(Err(error));
        }
        // The other end may be another one by now, over a connection.
        let now = (end.link.bells(), end.inner.shared().is_some());
        (std::mem::replace(bells, now) != now).then_some(Ok(Woken::Bell))
    });
    woken.await.unwrap_or(Ok(Woken::TimeOver))
}
