//! Wakes a program that waits on any of several connections.

use std::sync::{Arc, Weak};

use trunkline_net::{Clock, Dialler, Link, LinkOptions, StartError};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::wait::Waiter;

/// A link without a connection, used only to wait on.
pub(crate) type Bells = Link<BellEnd>;

/// The end of that link, which does nothing.
pub(crate) struct BellEnd;

/// Rung by each connection after a change.
///
/// It may be rung under the lock of a connection, so a waiter must not access a connection while it
/// waits.
pub(crate) struct Bell {
    waiting: AtomicUsize,
    /// Number of times the bell was rung while there were waiters.
    rung: AtomicU64,
    link: Weak<Bells>,
}

impl Bell {
    /// Creates a bell and its link. The link belongs to the program; dropping it ends all waits.
    pub(crate) fn start() -> Result<(Arc<Bells>, Arc<Self>), StartError> {
        let no_dialler = Dialler::pipe(|| Err(std::io::ErrorKind::Unsupported.into()));
        let link = Link::start(no_dialler, BellEnd, LinkOptions::default())?;
        let bell = Self {
            waiting: AtomicUsize::new(0),
            rung: AtomicU64::new(0),
            link: Arc::downgrade(&link),
        };
        Ok((link, Arc::new(bell)))
    }

    pub(crate) fn ring(&self) {
        // Pairs with the fence in `watch`: either the waiter sees the change, or this thread sees
        // the waiter.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.rung.fetch_add(1, Ordering::Relaxed);
        if let Some(link) = self.link.upgrade() {
            link.wake_waiters();
        }
    }

    /// Begins a wait: changes from here on ring the bell.
    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Watch {
            bell: self.clone(),
            seen: self.rung.load(Ordering::Relaxed),
        }
    }
}

pub(crate) struct Watch {
    bell: Arc<Bell>,
    seen: u64,
}

impl Watch {
    /// Waits until the bell has been rung since the last call or the start of the watch. Returns
    /// false once `until` has passed, even if the bell was rung.
    pub(crate) async fn rung(
        &mut self,
        waiter: &impl Waiter,
        link: &Bells,
        until: Option<Tick>,
    ) -> bool {
        let (bell, seen) = (&self.bell, self.seen);
        let rung = waiter.wait(link, until, |_, _| {
            let now = bell.rung.load(Ordering::Relaxed);
            (now != seen).then_some(now)
        });
        match rung.await {
            Some(now) => {
                self.seen = now;
                until.is_none_or(|until| Clock::new().now() < until)
            }
            None => false,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bell.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Endpoint for BellEnd {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, _: Tick, _: Timestamp, _: &[u8]) {}

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, _: &mut Vec<u8>) -> bool {
        false
    }

    fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    fn handle_timeout(&mut self, _: Tick, _: Timestamp) {}

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {}

    fn wants_close(&self) -> Option<Disconnect> {
        None
    }
}
