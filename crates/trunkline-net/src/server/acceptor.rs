//! The thread that accepts connections.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::io::Errno;
use trunkline_types::Tick;

use crate::Clock;
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::tcp::tcp_transport;
use crate::transport::Peer;

use super::admission::{Admission, Refusal};
use super::worker::MAILBOX;

/// First and longest pause after the system could not accept a connection. The next attempt
/// succeeds at most this long after a descriptor became free.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Connections turned away with the spare descriptor at each attempt that fails after the longest
/// pause. Until then they wait: most shortages are short.
const TURNED_AWAY_MAX: usize = 16;

pub(super) struct Acceptor {
    poll: Poll,
    listeners: Vec<Listener>,
    admission: Arc<Admission>,
    told: Told,
    user_timeout: Duration,
    clock: Clock,
    /// A descriptor kept for the moment in which no other is left.
    spare: Option<File>,
    pause: Option<Pause>,
}

/// What the server tells its acceptor, which it rings then.
pub(super) struct Told {
    /// To end.
    pub(super) stop: Arc<AtomicBool>,
    /// To accept nobody yet.
    pub(super) held: Arc<AtomicBool>,
}

struct Listener {
    socket: TcpListener,
    /// Connections may wait.
    ready: bool,
}

#[derive(Clone, Copy)]
struct Pause {
    until: Tick,
    length: Duration,
}

impl Acceptor {
    /// # Errors
    /// The listeners cannot be registered.
    pub(super) fn new(
        poll: Poll,
        listeners: Vec<TcpListener>,
        admission: Arc<Admission>,
        told: Told,
        user_timeout: Duration,
    ) -> io::Result<Self> {
        for (index, listener) in listeners.iter().enumerate() {
            let fd = listener.as_raw_fd();
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
            told,
            user_timeout,
            clock: Clock::new(),
            spare: spare(),
            pause: None,
        })
    }

    /// The thread's life. Ends, and closes the listeners, when told to stop.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(16);
        while !self.told.stop.load(Ordering::Acquire) {
            let now = self.clock.now();
            let paused = self.pause.filter(|pause| pause.until > now);
            if paused.is_none() && !self.told.held.load(Ordering::Acquire) {
                self.accept_waiting();
            }
            let pause = self.pause.map(|pause| pause.until.since(self.clock.now()));
            // An error is a signal of the system, or want of memory; the loop comes back either
            // way.
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
            while self.listeners[index].ready && !self.told.stop.load(Ordering::Acquire) {
                match self.listeners[index].socket.accept() {
                    Ok((stream, peer)) => {
                        self.pause = None;
                        self.admit(stream, peer);
                    }
                    Err(error) => match fate(&error) {
                        Fate::NoneWaits => self.listeners[index].ready = false,
                        Fate::GoneAgain => {}
                        Fate::Shortage => return self.pause_accepting(),
                    },
                }
            }
        }
        // Listeners that are still ready after a shortage have been tried again by now.
        self.pause = None;
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        // An error means that the peer is gone already.
        if let Ok(transport) = tcp_transport(stream, peer, self.user_timeout) {
            self.admission.admit(transport);
        }
    }

    /// The system has no descriptor or memory for a connection: asking at once would only burn the
    /// processor. After a shortage that lasts, those who wait are told.
    fn pause_accepting(&mut self) {
        self.admission
            .census
            .accept_failures
            .fetch_add(1, Ordering::Relaxed);
        let last = self.pause.map(|pause| pause.length);
        if last == Some(PAUSE_MAX) {
            self.turn_away();
        }
        let length = last.map_or(PAUSE_MIN, |last| (last * 2).min(PAUSE_MAX));
        self.pause = Some(Pause {
            until: self.clock.now().saturating_add(length),
            length,
        });
    }

    /// Accepts connections with the spare descriptor, one after the other, only to say why not.
    fn turn_away(&mut self) {
        if self.spare.take().is_none() {
            return;
        }
        for listener in &self.listeners {
            for _ in 0..TURNED_AWAY_MAX {
                let Ok((mut stream, peer)) = listener.socket.accept() else {
                    break;
                };
                self.admission
                    .census
                    .refused
                    .fetch_add(1, Ordering::Relaxed);
                let factory = &self.admission.factory;
                let bytes = factory.refusal(Peer::Tcp(peer), Refusal::Descriptors);
                // What a fresh socket does not take at once is not worth waiting for.
                let _ = stream
                    .set_nonblocking(true)
                    .and_then(|()| stream.write_all(&bytes));
            }
        }
        self.spare = spare();
    }
}

enum Fate {
    NoneWaits,
    /// This connection is of no use; the next may be.
    GoneAgain,
    Shortage,
}

fn fate(error: &io::Error) -> Fate {
    if error.kind() == ErrorKind::WouldBlock {
        return Fate::NoneWaits;
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
        ) => Fate::GoneAgain,
        _ => Fate::Shortage,
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}
