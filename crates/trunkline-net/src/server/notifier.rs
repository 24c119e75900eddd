//! How a session learns that it has something to send.

use std::fmt;

use crate::sync::{Arc, AtomicBool, Ordering};

use super::mailbox::Mailbox;
use super::worker::{Mail, SessionKey};
use crate::transport::{Peer, SHARED_MEMORY, SourceHint, Transport};

/// Tells a session's connection thread, from any thread, that the session has output, another
/// time-out or wants input again.
///
/// Cheap, and once is enough: notifying a session that was notified and not yet asked does nothing.
/// What is to be sent must be in the endpoint's reach before.
#[derive(Clone)]
pub struct Notifier {
    target: Arc<Target>,
}

struct Target {
    notified: AtomicBool,
    session: SessionKey,
    thread: Arc<Mailbox<Mail, mio::Waker>>,
    peer: Peer,
    source: SourceHint,
}

impl Notifier {
    pub(super) fn new(
        session: SessionKey,
        thread: Arc<Mailbox<Mail, mio::Waker>>,
        transport: &Transport,
    ) -> Self {
        Self {
            target: Arc::new(Target {
                notified: AtomicBool::new(false),
                session,
                thread,
                peer: transport.peer,
                source: transport.source.hint(),
            }),
        }
    }

    /// What the session's connection is made of at the moment, in a word or two.
    pub fn transport_name(&self) -> &'static str {
        match self.target.source.is_shared() {
            true => SHARED_MEMORY,
            false => self.target.peer.transport_name(),
        }
    }

    /// Has the session asked for output soon. Never waits; does nothing once the session has ended.
    pub fn notify(&self) {
        // A swap on both sides: whoever finds the mark set knows that the thread has yet to look.
        if !self.target.notified.swap(true, Ordering::AcqRel) {
            self.target.thread.post(Mail::Notified(self.target.session));
        }
    }

    /// The session is about to be asked: the next notification counts again.
    pub(super) fn accept(&self) {
        self.target.notified.swap(false, Ordering::AcqRel);
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier")
            .field("session", &self.target.session)
            .finish_non_exhaustive()
    }
}
