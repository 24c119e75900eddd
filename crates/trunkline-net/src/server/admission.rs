//! Who may come in, and to which connection thread.

use std::io::{self, ErrorKind};

use trunkline_proto::Endpoint;

use crate::pipe::pipe;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::transport::{Peer, Transport};

use super::mailbox::Mailbox;
use super::notifier::Notifier;
use super::worker::Mail;

/// Makes the endpoint of each session. Called on the connection thread that the session will live
/// on.
pub trait SessionFactory: Send + Sync {
    /// The endpoint of a new session of `peer`; `notifier` reaches it from other threads.
    ///
    /// # Errors
    /// The bytes that tell the peer why it is turned away; they are sent, then the connection
    /// closes.
    fn open(&self, peer: Peer, notifier: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>>;

    /// The bytes that tell a peer why there is no session for it; empty: close without a word.
    fn refusal(&self, peer: Peer, refusal: Refusal) -> Vec<u8> {
        let _ = (peer, refusal);
        Vec::new()
    }
}

impl<F> SessionFactory for F
where
    F: Fn(Peer, Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> + Send + Sync,
{
    fn open(&self, peer: Peer, notifier: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        self(peer, notifier)
    }
}

/// Why a server turned a peer away before it had a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// As many sessions are open as are allowed.
    #[error(
        "{sessions_max} sessions are open, which is the limit; close some, or raise sessions_max"
    )]
    SessionsMax {
        /// The limit.
        sessions_max: usize,
    },
    /// The peer's program runs as another user than the server, and the socket is for that user
    /// alone.
    #[error(
        "the engine's Unix socket is for programs of user {owner}, and this one runs as user {uid}; \
         run it as that user, or connect over TCP where the engine listens there"
    )]
    OtherUser {
        /// The server's user.
        owner: u32,
        /// The peer's.
        uid: u32,
    },
    /// The server's process has no file descriptor left.
    #[error("the engine has no file descriptor left; close connections, or raise its `ulimit -n`")]
    Descriptors,
}

/// What a server counts since it started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ServerCounters {
    /// Sessions open now.
    pub sessions: usize,
    /// Connections that became a session.
    pub accepted: u64,
    /// Connections that were turned away.
    pub refused: u64,
    /// Times the system could not accept a connection, for want of descriptors or memory.
    pub accept_failures: u64,
}

/// Shared by the acceptor, the connection threads and whoever connects in memory.
pub(super) struct Admission {
    pub(super) factory: Arc<dyn SessionFactory>,
    pub(super) census: Arc<Census>,
    threads: Vec<Arc<Mailbox<Mail, mio::Waker>>>,
    next: AtomicUsize,
    closed: AtomicBool,
    pipe_capacity: usize,
}

pub(super) struct Census {
    pub(super) sessions_max: usize,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) accept_failures: AtomicU64,
    sessions: AtomicUsize,
}

/// One of the sessions that may be open; free again when dropped.
pub(super) struct Seat(Arc<Census>);

impl Admission {
    pub(super) fn new(
        factory: Arc<dyn SessionFactory>,
        census: Arc<Census>,
        threads: Vec<Arc<Mailbox<Mail, mio::Waker>>>,
        pipe_capacity: usize,
    ) -> Self {
        let (next, closed) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self {
            factory,
            census,
            threads,
            next,
            closed,
            pipe_capacity,
        }
    }

    /// Gives `transport` to a connection thread, or has one turn it away.
    pub(super) fn admit(&self, transport: Transport) {
        let seat = self.census.take_seat();
        match seat {
            Some(seat) => self.post(Mail::Arrived(transport, seat)),
            None => {
                let limit = Refusal::SessionsMax {
                    sessions_max: self.census.sessions_max,
                };
                self.refuse(transport, limit);
            }
        }
    }

    /// Has a connection thread turn `transport` away.
    pub(super) fn refuse(&self, transport: Transport, refusal: Refusal) {
        self.post(Mail::Refused {
            bytes: self.factory.refusal(transport.peer, refusal),
            transport,
        });
    }

    fn post(&self, mail: Mail) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(thread) = self.threads.get(turn % self.threads.len().max(1)) {
            thread.post(mail);
        }
    }

    /// A new connection in memory; its other end is admitted like any other.
    pub(super) fn accept_pipe(&self) -> io::Result<Transport> {
        if self.closed.load(Ordering::Acquire) {
            return Err(io::Error::from(ErrorKind::ConnectionRefused));
        }
        let (near, far) = pipe(self.pipe_capacity)?;
        self.admit(far);
        Ok(near)
    }

    /// Nobody comes in any more.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl Census {
    pub(super) fn new(sessions_max: usize) -> Self {
        Self {
            sessions_max,
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            accept_failures: AtomicU64::new(0),
            sessions: AtomicUsize::new(0),
        }
    }

    pub(super) fn counters(&self) -> ServerCounters {
        ServerCounters {
            sessions: self.sessions.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            accept_failures: self.accept_failures.load(Ordering::Relaxed),
        }
    }

    fn take_seat(self: &Arc<Self>) -> Option<Seat> {
        if self.sessions.fetch_add(1, Ordering::AcqRel) >= self.sessions_max {
            self.sessions.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(Seat(self.clone()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::AcqRel);
    }
}
