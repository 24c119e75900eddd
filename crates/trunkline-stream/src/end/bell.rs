//! Wakes a program that waits on any of several connections.

use std::sync::{Arc, Weak};

use trunkline_net::{Clock, Dialler, Link, LinkOptions, StartError};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::wait::Waiter;

/// A link without a connection, used only to wait on.
pub(crate) type BellLink = Link<BellEnd>;

/// The endpoint of a [`BellLink`] link, which does nothing.
pub(crate) struct BellEnd;

/// Notifies a waiting program. Each connection rings the bell after a change.
///
/// A connection may ring the bell while its lock is held, so a waiter must not access a connection
/// while it waits.
pub(crate) struct Bell {
    /// Number of waiters.
    waiting: AtomicUsize,
    /// Number of times that the bell was rung while there were waiters.
    ring_count: AtomicU64,
    link: Weak<BellLink>,
}

impl Bell {
    /// Creates a bell and its link. The link belongs to the program; dropping it ends all waits.
    pub(crate) fn start() -> Result<(Arc<BellLink>, Arc<Self>), StartError> {
        let no_dialler = Dialler::pipe(|| Err(std::io::ErrorKind::Unsupported.into()));
        let link = Link::start(no_dialler, BellEnd, LinkOptions::default())?;
        let bell = Self {
            waiting: AtomicUsize::new(0),
            ring_count: AtomicU64::new(0),
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
        self.ring_count.fetch_add(1, Ordering::Relaxed);
        if let Some(link) = self.link.upgrade() {
            link.wake_waiters();
        }
    }

    /// Begins a wait. From now on, changes ring the bell.
    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Watch {
            bell: self.clone(),
            last_count: self.ring_count.load(Ordering::Relaxed),
        }
    }
}

/// A wait for a bell, which ends when this is dropped.
pub(crate) struct Watch {
    bell: Arc<Bell>,
    /// The ring count up to which the waiter has been notified.
    last_count: u64,
}

impl Watch {
    /// Waits until the bell has been rung since the last call or the start of the watch. Returns
    /// false once the deadline has passed, even if the bell was rung.
    pub(crate) async fn wait_for_ring(
        &mut self,
        waiter: &impl Waiter,
        link: &BellLink,
        deadline: Option<Tick>,
    ) -> bool {
        let (bell, last_count) = (&self.bell, self.last_count);
        let rung = waiter.wait(link, deadline, |_, _| {
            let count = bell.ring_count.load(Ordering::Relaxed);
            (count != last_count).then_some(count)
        });
        match rung.await {
            Some(count) => {
                self.last_count = count;
                deadline.is_none_or(|deadline| Clock::new().now() < deadline)
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
