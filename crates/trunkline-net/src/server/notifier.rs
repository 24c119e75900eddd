//! How a session learns that it has something to send, and how another thread sends it.

use std::cell::Cell;
use std::fmt;
use std::os::fd::OwnedFd;

use trunkline_types::{Tick, Timestamp};

use crate::Clock;
use crate::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering, fence, lock, try_lock};

use super::mailbox::{Mailbox, Ring};
use super::outlet::Outlet;
use super::worker::{Mail, SessionKey};
use crate::transport::{Peer, SHARED_MEMORY, SourceHint, Transport};

/// Tells a session's connection thread, from any thread, that the session has output, another
/// time-out or wants input again.
///
/// Cheap, and once is enough: notifying a session that was notified and not yet asked does nothing.
/// What is to be sent must be in the endpoint's reach before.
#[derive(Clone)]
pub struct Notifier {
    pub(super) target: Arc<Target<mio::Waker>>,
    peer: Peer,
    source: SourceHint,
}

/// A session as other threads reach it.
pub(super) struct Target<R> {
    notified: AtomicBool,
    session: SessionKey,
    thread: Arc<Mailbox<Mail, R>>,
    /// `None` before the session begins and once it has ended.
    outlet: Mutex<Option<Outlet>>,
    /// The connection thread has found a writer at the outlet, and goes on with other sessions
    /// until that one tells it.
    wanted: AtomicBool,
}

thread_local! {
    static ONLY_MARKS: Cell<bool> = const { Cell::new(false) };
}

/// This thread never sends for a session: [`Notifier::send`] notifies. For threads that have more
/// to do than to write: those that scan, call functions of the program or serve real-time threads.
pub fn only_mark() {
    ONLY_MARKS.set(true);
}

impl Notifier {
    pub(super) fn new(
        session: SessionKey,
        thread: Arc<Mailbox<Mail, mio::Waker>>,
        transport: &Transport,
    ) -> Self {
        Self {
            target: Arc::new(Target::new(session, thread)),
            peer: transport.peer,
            source: transport.source.hint(),
        }
    }

    /// What the session's connection is made of at the moment, in a word or two.
    pub fn transport_name(&self) -> &'static str {
        match self.source.is_shared() {
            true => SHARED_MEMORY,
            false => self.peer.transport_name(),
        }
    }

    /// Has the session asked for output soon. Never waits; does nothing once the session has ended.
    pub fn notify(&self) {
        self.target.notify();
    }

    /// Sends a whole frame to the session's peer with a descriptor beside it, over a Unix socket;
    /// another transport ends with it. Does nothing once the session has ended.
    pub fn pass(&self, frame: Vec<u8>, file: OwnedFd) {
        let Target {
            thread, session, ..
        } = &*self.target;
        thread.post(Mail::Pass(*session, frame, file));
    }

    /// As [`notify`](Self::notify), after what a thread has changed: where the connection thread
    /// would have to be woken for it, and nobody else is at it, this thread sends it by itself. It
    /// never waits, and sends a bounded number of bytes. Call it holding no lock.
    pub fn send(&self) {
        // A thread that is awake takes the mark without a wake-up, and the writer has its time for
        // itself.
        if !self.target.thread.is_asleep() || ONLY_MARKS.get() {
            return self.notify();
        }
        let (now, wall) = Clock::new().moment();
        self.target.send(now, wall);
    }
}

impl<R: Ring> Target<R> {
    pub(super) fn new(session: SessionKey, thread: Arc<Mailbox<Mail, R>>) -> Self {
        Self {
            notified: AtomicBool::new(false),
            session,
            thread,
            outlet: Mutex::new(None),
            wanted: AtomicBool::new(false),
        }
    }

    pub(super) fn notify(&self) {
        // A swap on both sides: whoever finds the mark set knows that the thread has yet to look.
        if !self.notified.swap(true, Ordering::AcqRel) {
            self.thread.post(Mail::Notified(self.session));
        }
    }

    /// Sends, or notifies.
    pub(super) fn send(&self, now: Tick, wall: Timestamp) {
        let is_seen_to = {
            let mut outlet = try_lock(&self.outlet);
            let outlet = outlet.as_deref_mut().and_then(Option::as_mut);
            outlet.is_some_and(|outlet| outlet.send(now, wall))
        };
        // SYNC POINT, pairs with the fence in `turn`: either the connection thread finds the lock
        // free at its second try, or this thread finds that it is wanted.
        fence(Ordering::SeqCst);
        let is_wanted = self.wanted.swap(false, Ordering::SeqCst);
        // Without the lock: the thread that wakes up wants it.
        if is_wanted || !is_seen_to {
            self.notify();
        }
    }

    /// The session is about to be asked: the next notification counts again.
    pub(super) fn accept(&self) {
        self.notified.swap(false, Ordering::AcqRel);
    }

    /// The outlet, for a turn. `None` while a writer has it, who may have lost its processor: then
    /// a notification comes when it has let go.
    pub(super) fn turn(&self) -> Option<MutexGuard<'_, Option<Outlet>>> {
        if let Some(outlet) = try_lock(&self.outlet) {
            return Some(outlet);
        }
        self.wanted.store(true, Ordering::SeqCst);
        // SYNC POINT, see `send`.
        fence(Ordering::SeqCst);
        let outlet = try_lock(&self.outlet)?;
        self.wanted.store(false, Ordering::SeqCst);
        Some(outlet)
    }

    /// The outlet, for the connection thread; waits for a writer that has it.
    pub(super) fn outlet(&self) -> MutexGuard<'_, Option<Outlet>> {
        lock(&self.outlet)
    }

    /// The session begins.
    pub(super) fn open(&self, outlet: Outlet) {
        *self.outlet() = Some(outlet);
    }

    /// The session ends: its outlet, unless it was taken before. The endpoint holds what reaches
    /// this, so without it nothing of the session would ever be freed.
    pub(super) fn close(&self) -> Option<Outlet> {
        self.outlet().take()
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier")
            .field("session", &self.target.session)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod tests;
