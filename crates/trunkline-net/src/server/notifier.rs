//! Notifications that a session has output, and sending by other threads.

use std::cell::Cell;
use std::fmt;
use std::os::fd::OwnedFd;

use trunkline_types::{Tick, Timestamp};

use crate::clock::Clock;
use crate::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering, fence, lock, try_lock};

use super::mailbox::{Mailbox, WakeThread};
use super::session::Outlet;
use super::worker::{Mail, SessionKey};
use crate::transport::{Peer, SourceHint, Transport};

/// Notifies a session's connection thread, from any thread, that the session has output, has a
/// different time-out, or accepts input again.
///
/// This is cheap. Notifying a session again before its connection thread has handled the first
/// notification has no effect. The data must be available to the endpoint before the call.
#[derive(Clone)]
pub struct Notifier {
    pub(super) target: Arc<Target<mio::Waker>>,
    peer: Peer,
    source: SourceHint,
}

pub(super) struct Target<R> {
    notified: AtomicBool,
    session: SessionKey,
    thread: Arc<Mailbox<Mail, R>>,
    /// `None` before the session begins and once it has ended.
    outlet: Mutex<Option<Outlet>>,
    /// The connection thread has found the outlet in use by a writer. It continues with other
    /// sessions until the writer notifies it.
    wanted: AtomicBool,
}

thread_local! {
    static ONLY_MARKS: Cell<bool> = const { Cell::new(false) };
}

/// Prevents this thread from sending for sessions: [`Notifier::send`] only notifies. Meant for
/// threads whose main work is not writing, such as threads that scan, call functions of the program
/// or serve real-time threads.
pub fn never_send_on_this_thread() {
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

    pub fn transport_name(&self) -> &'static str {
        self.source.transport_name(self.peer)
    }

    /// Requests that the session gets a turn soon. Never waits; does nothing once the session has
    /// ended.
    pub fn notify(&self) {
        self.target.notify();
    }

    /// Sends a whole frame to the session's peer together with a descriptor, over a Unix socket. On
    /// any other transport it ends the session. Does nothing once the session has ended.
    pub fn pass(&self, frame: Vec<u8>, file: OwnedFd) {
        let Target {
            thread, session, ..
        } = &*self.target;
        thread.post(Mail::Pass(*session, frame, file));
    }

    /// Like [`notify`](Self::notify), but for a thread that has changed something. If the
    /// connection thread sleeps and no other thread is sending for the session, this thread sends
    /// the output itself. It never waits, and sends a bounded number of bytes. Call it without
    /// holding a lock.
    pub fn send(&self) {
        // A connection thread that is awake handles the mark without a wake-up, so the writer need
        // not spend time on sending.
        if !self.target.thread.is_asleep() || ONLY_MARKS.get() {
            return self.notify();
        }
        let (now, wall) = Clock::new().moment();
        self.target.send(now, wall);
    }
}

impl<R: WakeThread> Target<R> {
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
        // Both sides use a swap, so a thread that finds the mark set knows that the connection
        // thread has yet to check.
        if !self.notified.swap(true, Ordering::AcqRel) {
            self.thread.post(Mail::Notified(self.session));
        }
    }

    pub(super) fn send(&self, now: Tick, wall: Timestamp) {
        let is_complete = {
            let mut outlet = try_lock(&self.outlet);
            let outlet = outlet.as_deref_mut().and_then(Option::as_mut);
            outlet.is_some_and(|outlet| outlet.send(now, wall))
        };
        // SYNC POINT, pairs with the fence in `turn`: either the connection thread finds the lock
        // free at its second try, or this thread finds that it is wanted.
        fence(Ordering::SeqCst);
        let is_wanted = self.wanted.swap(false, Ordering::SeqCst);
        // Notify without holding the lock, because the woken thread takes it.
        if is_wanted || !is_complete {
            self.notify();
        }
    }

    /// Clears the mark before the session is polled, so that the next notification takes effect.
    pub(super) fn accept(&self) {
        self.notified.swap(false, Ordering::AcqRel);
    }

    /// Returns the outlet for a turn, or `None` while a writer has it; that writer may have been
    /// preempted. It notifies after it has released the outlet.
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

    /// Returns the outlet for the connection thread; waits for a writer that has it.
    pub(super) fn outlet(&self) -> MutexGuard<'_, Option<Outlet>> {
        lock(&self.outlet)
    }

    /// Installs the outlet of a new session.
    pub(super) fn open(&self, outlet: Outlet) {
        *self.outlet() = Some(outlet);
    }

    /// Ends the session and returns its outlet, unless it was taken before. The endpoint holds a
    /// reference to this, so without this call nothing of the session would ever be freed.
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
