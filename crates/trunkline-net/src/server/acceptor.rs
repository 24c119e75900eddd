//! The thread that accepts connections.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use trunkline_types::Tick;

use crate::clock::Clock;
use crate::peer_user;
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::transport::Peer;
use crate::transport::shm::{Side, local_transport};
use crate::transport::tls::{Security, accepted};
use crate::transport::unix::{Credentials, own_uid, unix_transport};

use super::admission::{Admission, Refusal};
use super::arrivals::Arrivals;
use super::listen::BoundPort;
use super::unix_listener::BoundSocket;
use super::worker::MAILBOX;

/// First and longest pause after an attempt to accept a connection failed for lack of descriptors. Pauses
/// become longer until a descriptor is free, even if no client waits in between.
/// A waiting connection is therefore accepted within the longest pause after a descriptor becomes
/// free.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Maximum number of connections turned away with the spare descriptor at each attempt that fails
/// after the longest pause. Before that, connections wait, because most shortages are short.
const TURNED_AWAY_MAX: usize = 16;

pub(super) struct Acceptor {
    poll: Poll,
    listeners: Vec<Listener>,
    admission: Arc<Admission>,
    flags: AcceptorFlags,
    /// Locked only to copy or replace it.
    limits: Arc<Mutex<ArrivalLimits>>,
    arrivals: Arrivals,
    clock: Clock,
    /// A descriptor reserved for use when no other is left.
    spare: Option<File>,
    pause: Option<Pause>,
}

pub(super) struct AcceptorFlags {
    pub(super) stop: Arc<AtomicBool>,
    pub(super) held: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
pub(super) struct ArrivalLimits {
    pub(super) user_timeout: Duration,
    pub(super) shared_memory: bool,
    pub(super) per_address: u32,
    /// Accept only TCP peers that run as this process's user.
    pub(super) same_user: bool,
}

struct Listener {
    socket: ListenSocket,
    /// Connections may be waiting.
    ready: bool,
}

pub(super) enum ListenSocket {
    Tcp(BoundPort, Security),
    Unix(BoundSocket),
    /// A Unix socket that the service manager has created, and removes.
    Inherited(UnixListener),
}

enum Arrival {
    Tcp(TcpStream, SocketAddr, Security),
    Unix(UnixStream),
}

impl ListenSocket {
    fn accept(&self) -> io::Result<Arrival> {
        Ok(match self {
            ListenSocket::Tcp(socket, security) => {
                let (stream, peer) = socket.accept()?;
                Arrival::Tcp(stream, peer, security.clone())
            }
            ListenSocket::Unix(bound) => Arrival::Unix(bound.socket.accept()?.0),
            ListenSocket::Inherited(socket) => Arrival::Unix(socket.accept()?.0),
        })
    }
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ListenSocket::Tcp(socket, _) => socket.as_fd(),
            ListenSocket::Unix(bound) => bound.socket.as_fd(),
            ListenSocket::Inherited(socket) => socket.as_fd(),
        }
    }
}

#[derive(Clone, Copy)]
struct Pause {
    /// End of the pause; `None` while no client waits, but the shortage may last.
    until: Option<Tick>,
    length: Duration,
}

impl Acceptor {
    pub(super) fn new(
        poll: Poll,
        listeners: Vec<ListenSocket>,
        admission: Arc<Admission>,
        flags: AcceptorFlags,
        limits: Arc<Mutex<ArrivalLimits>>,
    ) -> io::Result<Self> {
        let per_address = lock(&limits).per_address;
        for (index, listener) in listeners.iter().enumerate() {
            let fd = listener.as_fd().as_raw_fd();
            poll.registry()
                .register(&mut SourceFd(&fd), Token(index), Interest::READABLE)?;
        }
        let ready = |socket| Listener {
            socket,
            ready: true,
        };
        Ok(Self {
            poll,
            listeners: listeners.into_iter().map(ready).collect(),
            admission,
            flags,
            limits,
            arrivals: Arrivals::new(per_address),
            clock: Clock::new(),
            spare: spare(),
            pause: None,
        })
    }

    /// Runs the main loop of the thread until the stop flag is set. Returning closes the listeners.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(16);
        while !self.flags.stop.load(Ordering::Acquire) {
            let now = self.clock.now();
            let until = self.pause.and_then(|pause| pause.until);
            if until.is_none_or(|until| until <= now) && !self.flags.held.load(Ordering::Acquire) {
                self.accept_waiting();
            }
            let until = self.pause.and_then(|pause| pause.until);
            let pause = until.map(|until| until.since(self.clock.now()));
            // Fails if a signal interrupts it or memory is exhausted; the loop continues in both
            // cases.
            let polled = self.poll.poll(&mut events, pause);
            for event in events
                .iter()
                .filter(|event| polled.is_ok() && event.token() != MAILBOX)
            {
                if let Some(listener) = self.listeners.get_mut(event.token().0) {
                    listener.ready = true;
                }
            }
        }
    }

    fn accept_waiting(&mut self) {
        self.spare = self.spare.take().or_else(spare);
        for index in 0..self.listeners.len() {
            while self.listeners[index].ready && !self.flags.stop.load(Ordering::Acquire) {
                match self.listeners[index].socket.accept() {
                    Ok(arrival) => {
                        self.pause = None;
                        self.admit(arrival);
                    }
                    Err(error) => match classify(&error) {
                        AcceptError::NoConnection => {
                            // The system had a descriptor, so the shortage is over.
                            self.pause = None;
                            self.listeners[index].ready = false;
                        }
                        AcceptError::ConnectionLost => {}
                        AcceptError::Shortage => return self.pause_accepting(),
                    },
                }
            }
        }
    }

    fn admit(&mut self, arrival: Arrival) {
        // After an error, the peer is already gone.
        match arrival {
            Arrival::Tcp(stream, peer, security) => {
                let limits = *lock(&self.limits);
                self.arrivals.set_rate(limits.per_address);
                let Ok(local) = stream.local_addr() else {
                    return;
                };
                let user = move || peer_user::of_tcp_peer(local, peer);
                let stream = Arc::new(stream);
                let transport = accepted(stream, peer, limits.user_timeout, &security);
                let Ok(transport) = transport else {
                    return;
                };
                if let Err(wait) = self.arrivals.admit(peer, self.clock.now()) {
                    let per_second = limits.per_address;
                    let refusal = Refusal::RateLimited { per_second };
                    return self.admission.refuse(transport, refusal, Some(wait));
                }
                let is_ours = move || user() == Some(own_uid());
                if limits.same_user && !is_ours() {
                    let (owner, uid) = (own_uid(), user());
                    let refusal = Refusal::NotSameUser { owner, uid };
                    return self.admission.refuse(transport, refusal, None);
                }
                self.admission.admit(transport, is_ours);
            }
            Arrival::Unix(stream) => {
                let credentials = Credentials::of_peer(&stream);
                if let (Ok(peer), Ok(())) = (credentials, stream.set_nonblocking(true)) {
                    self.admit_user(stream, peer, own_uid());
                }
            }
        }
    }

    /// Admits or refuses a peer on a Unix socket, which is for programs of `owner` only. The mode
    /// of the file has the same effect, except for the system administrator.
    fn admit_user(&self, stream: UnixStream, peer: Credentials, owner: u32) {
        match refusal_of(peer.uid, owner) {
            None if lock(&self.limits).shared_memory => {
                // This cannot fail, because an acceptor makes no offer.
                if let Ok(transport) = local_transport(stream, peer, Side::Acceptor) {
                    self.admission.admit(transport, || true);
                }
            }
            None => self.admission.admit(unix_transport(stream, peer), || true),
            Some(refusal) => {
                let transport = unix_transport(stream, peer);
                self.admission.refuse(transport, refusal, None);
            }
        }
    }

    /// Pauses after the system had no descriptor or memory for a connection, because retrying at
    /// once would only waste processor time. If the shortage lasts, waiting peers are turned away
    /// with a reason.
    fn pause_accepting(&mut self) {
        let last = self.pause.map(|pause| pause.length);
        // The system reserves the descriptor before it looks for a connection, so it reports a
        // shortage even if no connection is waiting. Such a shortage does not count as a failure, and
        // `poll` reports the next connection.
        self.update_ready();
        if !self.listeners.iter().any(|listener| listener.ready) {
            // The length stays: in a lasting shortage, the next client gets the reason as soon as this one.
            if let Some(pause) = &mut self.pause {
                pause.until = None;
            }
            return;
        }
        self.admission
            .counts
            .accept_failures
            .fetch_add(1, Ordering::Relaxed);
        if last == Some(PAUSE_MAX) {
            self.turn_away();
        }
        let length = last.map_or(PAUSE_MIN, |last| (last * 2).min(PAUSE_MAX));
        self.pause = Some(Pause {
            until: Some(self.clock.now().saturating_add(length)),
            length,
        });
    }

    /// Determines at which listeners connections are waiting. If the system does not report it, changes
    /// nothing.
    fn update_ready(&mut self) {
        let mut polled: Vec<_> = self
            .listeners
            .iter()
            .map(|listener| PollFd::from_borrowed_fd(listener.socket.as_fd(), PollFlags::IN))
            .collect();
        let at_once = Timespec::default();
        if retry_on_intr(|| poll(&mut polled, Some(&at_once))).is_err() {
            return;
        }
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        for (listener, ready) in self.listeners.iter_mut().zip(ready) {
            listener.ready = ready;
        }
    }

    /// Accepts connections with the spare descriptor, one after the other, only to send the reason
    /// for the refusal.
    fn turn_away(&mut self) {
        if self.spare.take().is_none() {
            return;
        }
        for listener in &self.listeners {
            for _ in 0..TURNED_AWAY_MAX {
                let Ok(arrival) = listener.socket.accept() else {
                    break;
                };
                self.admission
                    .counts
                    .refused
                    .fetch_add(1, Ordering::Relaxed);
                let factory = &self.admission.factory;
                let retry_after = self.admission.retry_after(Refusal::Descriptors);
                // A fresh socket takes the bytes at once or not at all; waiting is not worthwhile.
                let refusal = |peer| factory.refusal(peer, Refusal::Descriptors, retry_after);
                let _ = match arrival {
                    Arrival::Tcp(mut stream, peer, _) => stream
                        .set_nonblocking(true)
                        .and_then(|()| stream.write_all(&refusal(Peer::Tcp(peer)))),
                    Arrival::Unix(mut stream) => stream
                        .set_nonblocking(true)
                        .and_then(|()| Credentials::of_peer(&stream))
                        .and_then(|peer| stream.write_all(&refusal(peer.into()))),
                };
            }
        }
        self.spare = spare();
    }
}

enum AcceptError {
    NoConnection,
    /// The connection broke before it was accepted; the next one may be usable.
    ConnectionLost,
    Shortage,
}

fn classify(error: &io::Error) -> AcceptError {
    if error.kind() == ErrorKind::WouldBlock {
        return AcceptError::NoConnection;
    }
    match Errno::from_io_error(error) {
        Some(
            Errno::CONNABORTED
            | Errno::INTR
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
            | Errno::PERM,
        ) => AcceptError::ConnectionLost,
        _ => AcceptError::Shortage,
    }
}

/// Returns the reason why a program of `uid` may not use a socket of `owner`.
fn refusal_of(uid: u32, owner: u32) -> Option<Refusal> {
    (uid != owner).then_some(Refusal::OtherUser { owner, uid })
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

#[cfg(test)]
#[cfg(not(shuttle))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
mod tests {
    use trunkline_proto::Endpoint;

    use super::super::admission::{Bounds, SessionCounts};
    use super::super::listen::listen;
    use super::super::{Notifier, SessionFactory};
    use super::*;

    struct NoSessions;

    impl SessionFactory for NoSessions {
        fn open(&self, _: Peer, _: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
            Err(Vec::new())
        }

        fn refusal(&self, _: Peer, _: Refusal, _: Option<Duration>) -> Vec<u8> {
            Vec::new()
        }
    }

    fn acceptor() -> (Acceptor, SocketAddr) {
        let port = listen("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let address = port.local_addr().unwrap();
        let bounds = Bounds {
            sessions_max: 1,
            handshakes_max: 1,
        };
        let counts = Arc::new(SessionCounts::new(bounds));
        let admission = Admission::new(Arc::new(NoSessions), counts, Vec::new(), 0);
        let flags = AcceptorFlags {
            stop: Arc::new(AtomicBool::new(false)),
            held: Arc::new(AtomicBool::new(false)),
        };
        let limits = ArrivalLimits {
            user_timeout: Duration::from_secs(1),
            shared_memory: false,
            per_address: 1,
            same_user: false,
        };
        let listeners = vec![ListenSocket::Tcp(port, Security::Plain)];
        let poll = Poll::new().unwrap();
        let acceptor = Acceptor::new(
            poll,
            listeners,
            Arc::new(admission),
            flags,
            Arc::new(Mutex::new(limits)),
        );
        (acceptor.unwrap(), address)
    }

    /// The system reports a shortage also while no client waits. The next client must then not wait
    /// for the end of a pause.
    #[test]
    fn shortage_is_followed_by_a_pause_only_while_a_client_waits() {
        let (mut sut, address) = acceptor();
        sut.pause_accepting();
        assert!(sut.pause.is_none());
        assert!(!sut.listeners[0].ready, "it is ready at the next event");
        assert_eq!(sut.admission.counts.counters().accept_failures, 0);

        let _client = TcpStream::connect(address).unwrap();
        let mut events = Events::with_capacity(4);
        sut.poll.poll(&mut events, None).unwrap();
        assert!(!events.is_empty(), "the client is an event");
        sut.pause_accepting();
        assert_eq!(sut.pause.unwrap().length, PAUSE_MIN);
        assert!(sut.listeners[0].ready);
        sut.pause_accepting();
        assert_eq!(sut.pause.unwrap().length, 2 * PAUSE_MIN);
        assert_eq!(sut.admission.counts.counters().accept_failures, 2);
    }

    /// In a lasting shortage, each client gets the reason after the same time, whether or not another one was
    /// turned away right before it.
    #[test]
    fn pause_for_a_client_is_as_long_as_for_the_one_before_it_in_the_same_shortage() {
        let (mut sut, address) = acceptor();
        let mut events = Events::with_capacity(4);
        let client = TcpStream::connect(address).unwrap();
        sut.poll.poll(&mut events, None).unwrap();
        while sut.pause.is_none_or(|pause| pause.length < PAUSE_MAX) {
            sut.pause_accepting();
        }
        // The client is turned away, and nobody waits.
        sut.pause_accepting();
        drop(client);
        assert!(sut.pause.unwrap().until.is_some());
        sut.pause_accepting();
        assert_eq!(sut.pause.unwrap().until, None);

        let _client = TcpStream::connect(address).unwrap();
        sut.poll.poll(&mut events, None).unwrap();
        sut.pause_accepting();
        let pause = sut.pause.unwrap();
        assert_eq!((pause.length, pause.until.is_some()), (PAUSE_MAX, true));
        sut.accept_waiting();
        assert!(sut.pause.is_none(), "the shortage is over");
    }

    #[test]
    fn other_users_and_the_administrator_may_not_use_a_socket() {
        assert_eq!(refusal_of(1000, 1000), None);
        let refusal = Refusal::OtherUser {
            owner: 1000,
            uid: 0,
        };
        assert_eq!(refusal_of(0, 1000), Some(refusal));
    }
}
