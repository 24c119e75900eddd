//! Admission of connections, and their distribution to the connection threads.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use trunkline_proto::Endpoint;
use trunkline_types::Tick;

use crate::clock::Clock;
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use crate::transport::pipe::pipe;
use crate::transport::{Peer, Transport};

use super::arrivals::RetryTimes;
use super::mailbox::Mailbox;
use super::notifier::Notifier;
use super::worker::Mail;

/// Delay after which the first peer that is refused at the handshake limit should try again, and
/// the interval between such peers. A handshake takes less than 1 ms.
const HANDSHAKE_RETRY_DELAY: Duration = Duration::from_millis(100);
const HANDSHAKE_RETRY_INTERVAL: Duration = Duration::from_millis(1);
/// Delay and interval for peers that are refused because sessions or descriptors are exhausted,
/// which take longer to become free. Most of these peers are refused again; the interval is short
/// enough that a free session is used within a second.
const SESSION_RETRY_DELAY: Duration = Duration::from_secs(2);
pub(super) const SESSION_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A server reserves 1 / `RESERVED_SHARE` of its sessions, rounded down, for programs of its own
/// user, so that other users who open too many sessions cannot lock out the user who can stop them.
const RESERVED_SHARE: usize = 100;

/// A file given to other processes. Its contents last as long as any reference to it exists.
pub type SharedFile = Arc<dyn AsFd + Send + Sync>;

/// Creates the endpoint of each session. Called on the session's connection thread.
pub trait SessionFactory: Send + Sync {
    /// Creates the endpoint of a new session of `peer`. Other threads notify it through `notifier`.
    ///
    /// # Errors
    /// The bytes that inform the peer why it is refused. They are sent, then the connection closes.
    fn open(&self, peer: Peer, notifier: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>>;

    /// Returns the file of a table of last values
    /// ([`create_table`](crate::transport::shm::create_table)) for a session's peer that has asked
    /// for it. The peer's process maps the file, so the peer must have permission to read the whole
    /// table. The session keeps the file open until the session ends or the peer asks again.
    fn last_values(&self, peer: Peer) -> Option<SharedFile> {
        let _ = peer;
        None
    }

    /// Receives the connected socket of a session whose endpoint has requested a handover under
    /// this number ([`Endpoint::wants_handover`]). Every byte read from the socket has been passed
    /// to the endpoint.
    fn hand_over(&self, number: u64, peer: Peer, socket: OwnedFd) {
        let _ = (number, peer, socket);
    }

    /// Returns the bytes that inform a peer why it gets no session and when it should try again. If
    /// they are empty, the connection closes without a message.
    fn refusal(&self, peer: Peer, refusal: Refusal, retry_after: Option<Duration>) -> Vec<u8> {
        let _ = (peer, refusal, retry_after);
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

/// The reason why a server refused a peer before it had a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error(
        "{sessions_max} sessions are open, which is the limit; close some, or raise sessions_max"
    )]
    SessionsMax { sessions_max: usize },
    #[error(
        "{handshakes_max} connections are being set up, which is the limit; try again in a \
         moment, or raise handshakes_max"
    )]
    HandshakesMax { handshakes_max: usize },
    #[error(
        "this address makes more than {per_second} connections per second, which is the limit; try \
         again in a moment, or raise connections_per_address"
    )]
    RateLimited { per_second: u32 },
    /// The peer's program runs as a different user than the server, and the socket is for the
    /// server's user only.
    #[error(
        "the engine's Unix socket is for programs of user {owner}, and this one runs as user {uid}; \
         run it as that user, or connect over TCP where the engine listens there"
    )]
    OtherUser { owner: u32, uid: u32 },
    /// The server accepts only programs of its own user. This one belongs to another user, or to
    /// none that the system reports.
    #[error(
        "this engine accepts only programs of user {owner}, and this one {}; run it as that user on \
         the engine's machine, or start the engine without same_user",
        uid.map_or_else(|| "runs as a user that the system does not report".to_owned(),
            |uid| format!("runs as user {uid}"))
    )]
    NotSameUser { owner: u32, uid: Option<u32> },
    /// The peer does not encrypt, and the port is reachable from other machines.
    #[error(
        "this port accepts only encrypted connections; get a joining token with `trunkline pair` on the \
         engine's machine, then run `trunkline join`"
    )]
    EncryptionRequired,
    #[error("the engine has no file descriptor left; close connections, or raise its `ulimit -n`")]
    Descriptors,
}

/// Counters of a server since its start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ServerCounters {
    /// Open sessions, including those that are being set up.
    pub sessions: usize,
    /// Sessions that are being set up.
    pub handshakes: usize,
    /// Connections that became a session.
    pub accepted: u64,
    pub refused: u64,
    /// Number of attempts to accept a waiting connection that failed for lack of descriptors or
    /// memory.
    pub accept_failures: u64,
}

/// Shared by the acceptor, the connection threads and in-memory clients.
pub(super) struct Admission {
    pub(super) factory: Arc<dyn SessionFactory>,
    pub(super) counts: Arc<SessionCounts>,
    threads: Vec<Arc<Mailbox<Mail, mio::Waker>>>,
    next: AtomicUsize,
    closed: AtomicBool,
    pipe_capacity: usize,
    clock: Clock,
    /// Times at which refused peers should try again.
    handshake_retries: Mutex<RetryTimes>,
    session_retries: Mutex<RetryTimes>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) sessions_max: usize,
    pub(super) handshakes_max: usize,
}

pub(super) struct SessionCounts {
    /// Locked only to copy or replace it.
    bounds: Mutex<Bounds>,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) accept_failures: AtomicU64,
    sessions: AtomicUsize,
    handshakes: AtomicUsize,
}

/// One of the allowed sessions. Until the peer has completed its handshake, it also counts as one
/// of the allowed handshakes. Dropping it frees both.
pub(super) struct SessionPermit {
    counts: Arc<SessionCounts>,
    in_handshake: bool,
}

impl Admission {
    pub(super) fn new(
        factory: Arc<dyn SessionFactory>,
        counts: Arc<SessionCounts>,
        threads: Vec<Arc<Mailbox<Mail, mio::Waker>>>,
        pipe_capacity: usize,
    ) -> Self {
        let (next, closed) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self {
            factory,
            counts,
            threads,
            next,
            closed,
            pipe_capacity,
            clock: Clock::new(),
            handshake_retries: Mutex::new(RetryTimes::new(HANDSHAKE_RETRY_INTERVAL)),
            session_retries: Mutex::new(RetryTimes::new(SESSION_RETRY_INTERVAL)),
        }
    }

    /// Passes `transport` to a connection thread, which opens a session or refuses it. `is_ours`
    /// returns true if the peer is a program of this process's user, for which the last sessions
    /// are reserved.
    pub(super) fn admit(&self, transport: Transport, is_ours: impl Fn() -> bool) {
        match self.counts.acquire_permit(is_ours) {
            Ok(permit) => self.post(Mail::Arrived(transport, permit)),
            Err(refusal) => {
                let retry_after = self.retry_after(refusal);
                self.refuse(transport, refusal, retry_after);
            }
        }
    }

    pub(super) fn refuse(
        &self,
        transport: Transport,
        refusal: Refusal,
        retry_after: Option<Duration>,
    ) {
        self.post(Mail::Refused {
            bytes: self.factory.refusal(transport.peer, refusal, retry_after),
            transport,
        });
    }

    /// Returns the delay after which a peer that was refused at a limit should try again. Each peer
    /// gets a different time.
    pub(super) fn retry_after(&self, refusal: Refusal) -> Option<Duration> {
        let (retry_times, earliest) = match refusal {
            Refusal::HandshakesMax { .. } => (&self.handshake_retries, HANDSHAKE_RETRY_DELAY),
            Refusal::SessionsMax { .. } | Refusal::Descriptors => {
                (&self.session_retries, SESSION_RETRY_DELAY)
            }
            Refusal::RateLimited { .. }
            | Refusal::OtherUser { .. }
            | Refusal::NotSameUser { .. }
            | Refusal::EncryptionRequired => {
                return None;
            }
        };
        Some(lock(retry_times).next_delay(self.now(), earliest))
    }

    pub(super) fn now(&self) -> Tick {
        self.clock.now()
    }

    fn post(&self, mail: Mail) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(thread) = self.threads.get(turn % self.threads.len().max(1)) {
            thread.post(mail);
        }
    }

    /// Creates a connection in memory and returns its client end. The server end is admitted like
    /// any other connection.
    pub(super) fn accept_pipe(&self) -> io::Result<Transport> {
        if self.closed.load(Ordering::Acquire) {
            return Err(io::Error::from(ErrorKind::ConnectionRefused));
        }
        let (near, far) = pipe(self.pipe_capacity)?;
        self.admit(far, || true);
        Ok(near)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl SessionCounts {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds: Mutex::new(bounds),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            accept_failures: AtomicU64::new(0),
            sessions: AtomicUsize::new(0),
            handshakes: AtomicUsize::new(0),
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        *lock(&self.bounds)
    }

    /// Replaces the bounds. Sessions and handshakes beyond the new ones continue.
    pub(super) fn set_bounds(&self, bounds: Bounds) {
        *lock(&self.bounds) = bounds;
    }

    pub(super) fn counters(&self) -> ServerCounters {
        ServerCounters {
            sessions: self.sessions.load(Ordering::Relaxed),
            handshakes: self.handshakes.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            accept_failures: self.accept_failures.load(Ordering::Relaxed),
        }
    }

    fn acquire_permit(
        self: &Arc<Self>,
        is_ours: impl Fn() -> bool,
    ) -> Result<SessionPermit, Refusal> {
        let Bounds {
            sessions_max,
            handshakes_max,
        } = self.bounds();
        // Finding the peer's user requires a search of the system's tables, so do it only if a
        // reserved session is free.
        let acquire = |count: &AtomicUsize, max: usize| {
            let reserved = max / RESERVED_SHARE;
            let has_reserved = || reserved > 0 && count.load(Ordering::Acquire) < max;
            increment_below(count, max - reserved)
                || (has_reserved() && is_ours() && increment_below(count, max))
        };
        if !acquire(&self.sessions, sessions_max) {
            return Err(Refusal::SessionsMax { sessions_max });
        }
        let mut permit = SessionPermit {
            counts: self.clone(),
            in_handshake: false,
        };
        permit.in_handshake = acquire(&self.handshakes, handshakes_max);
        match permit.in_handshake {
            true => Ok(permit),
            false => Err(Refusal::HandshakesMax { handshakes_max }),
        }
    }
}

/// Increments `count` and returns true, unless it has reached `max`.
fn increment_below(count: &AtomicUsize, max: usize) -> bool {
    let is_free = count.fetch_add(1, Ordering::AcqRel) < max;
    if !is_free {
        count.fetch_sub(1, Ordering::AcqRel);
    }
    is_free
}

impl SessionPermit {
    /// Ends the handshake: the peer has identified itself, and another handshake may begin.
    pub(super) fn end_handshake(&mut self) {
        if std::mem::take(&mut self.in_handshake) {
            self.counts.handshakes.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        self.end_handshake();
        self.counts.sessions.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn new_bounds_admit_more_or_fewer_and_end_nothing() {
        let bounds = |max| Bounds {
            sessions_max: max,
            handshakes_max: max,
        };
        let sut = Arc::new(SessionCounts::new(bounds(1)));
        let take = || sut.acquire_permit(|| false);
        let first = take().unwrap_or_else(|refusal| panic!("{refusal}"));
        assert!(take().is_err());
        sut.set_bounds(bounds(3));
        let second = take().unwrap_or_else(|refusal| panic!("{refusal}"));
        sut.set_bounds(bounds(2));
        assert!(take().is_err());
        assert_eq!(sut.counters().sessions, 2);
        drop((first, second));
        assert!(take().is_ok());
    }

    #[test]
    fn peer_owner_is_queried_only_if_a_reserved_session_is_free() {
        for (max, reserved) in [(32, 0), (200, 2)] {
            let bounds = Bounds {
                sessions_max: max,
                handshakes_max: max,
            };
            let counts = Arc::new(SessionCounts::new(bounds));
            let queries = Cell::new(0);
            let take = |is_ours: bool| {
                queries.set(0);
                counts.acquire_permit(|| {
                    queries.set(queries.get() + 1);
                    is_ours
                })
            };
            let mut permits = Vec::new();
            for _ in 0..max - reserved {
                permits.push(take(false).ok());
                assert_eq!(queries.get(), 0);
            }
            assert!(take(false).is_err());
            assert_eq!(queries.get() > 0, reserved > 0);
            for _ in 0..reserved {
                permits.push(take(true).ok());
            }
            assert!(permits.iter().all(Option::is_some));
            assert!(take(true).is_err());
            assert_eq!(queries.get(), 0, "no session is free for any user");
        }
    }
}
