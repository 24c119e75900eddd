//! What a program sleeps on that waits for any of several connections.

use std::sync::{Arc, Weak};

use trunkline_net::{Clock, Dialler, Link, LinkOptions, StartError};
use trunkline_proto::{Disconnect, Endpoint};
use trunkline_types::{Tick, Timestamp};

use crate::sync::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::wait::Waits;

/// A link without a connection: there only to be waited on.
pub(crate) type Bells = Link<BellEnd>;

/// Its end, which does nothing.
pub(crate) struct BellEnd;

/// Rung by each connection when something has changed.
///
/// It may be rung under the lock of a connection; who waits on it looks at no connection meanwhile.
pub(crate) struct Bell {
    /// How many wait.
    waiting: AtomicUsize,
    /// How often it was rung while somebody waited.
    rung: AtomicU64,
    link: Weak<Bells>,
}

impl Bell {
    /// The link is the program's: with it all waits end.
    ///
    /// # Errors
    /// The machine has no descriptor or thread left.
    pub(crate) fn start() -> Result<(Arc<Bells>, Arc<Self>), StartError> {
        let nobody = Dialler::pipe(|| Err(std::io::ErrorKind::Unsupported.into()));
        let link = Link::start(nobody, BellEnd, LinkOptions::default())?;
        let bell = Self {
            waiting: AtomicUsize::new(0),
            rung: AtomicU64::new(0),
            link: Arc::downgrade(&link),
        };
        Ok((link, Arc::new(bell)))
    }

    /// Something has changed.
    pub(crate) fn ring(&self) {
        // Pairs with the one in `watch`: either who waits sees what has changed, or it is seen here
        // that somebody waits.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.rung.fetch_add(1, Ordering::Relaxed);
        if let Some(link) = self.link.upgrade() {
            link.wake_waiters();
        }
    }

    /// Begins to wait; what changes from now on rings.
    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Watch {
            bell: self.clone(),
            seen: self.rung.load(Ordering::Relaxed),
        }
    }
}

/// Somebody waits for a bell.
pub(crate) struct Watch {
    bell: Arc<Bell>,
    seen: u64,
}

impl Watch {
    /// Waits until it was rung since this was asked last, or the watch began. False when the time
    /// is over, also where it was.
    pub(crate) async fn rung(
        &mut self,
        waits: &impl Waits,
        link: &Bells,
        until: Option<Tick>,
    ) -> bool {
        let (bell, seen) = (&self.bell, self.seen);
        let rung = waits.wait(link, until, |_, _| {
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
