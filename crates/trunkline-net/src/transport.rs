//! What a connected byte stream is to the rest of this crate.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};

use trunkline_types::Tick;

use crate::shm::{Local, TableAnswer};

/// One connected byte stream, already in the two halves that different threads use.
///
/// The receive half belongs to whichever thread drives the connection at the moment, the send half
/// lies behind the lock of whoever encodes. Neither half ever blocks.
pub struct Transport {
    /// Who is at the other end.
    pub peer: Peer,
    /// What to poll to learn that a half may go on.
    pub source: Source,
    /// The receive half.
    pub receive: Box<dyn ReceiveHalf>,
    /// The send half.
    pub send: Box<dyn SendHalf>,
}

/// The receiving half of a byte stream. Dropping it tells the other end that nothing is read any
/// more.
pub trait ReceiveHalf: Send {
    /// Moves bytes that have arrived into `buffer`: `Some(0)` at the end of the stream, `None` when
    /// nothing is there at the moment.
    ///
    /// # Errors
    /// What the system reports; the stream is of no further use then.
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// As [`try_read`](Self::try_read), into `first` and what is left of it into `second`.
    ///
    /// # Errors
    /// As there.
    fn try_read_two(&mut self, first: &mut [u8], second: &mut [u8]) -> io::Result<Option<usize>> {
        self.try_read(if first.is_empty() { second } else { first })
    }

    /// The source was ready; `hung_up`: it said as well that the other end has closed.
    fn acknowledge(&mut self, hung_up: bool) {
        let _ = hung_up;
    }

    /// Whether a read would find something, where that can be told without asking the system.
    fn glance(&mut self) -> Option<bool> {
        None
    }

    /// To be called before sleeping on the source, after reads that found nothing more: without
    /// it the source may stay silent. True when there is something by now; then there is no reason
    /// to sleep.
    fn arm(&mut self) -> bool {
        false
    }
}

/// The sending half of a byte stream.
pub trait SendHalf: Send {
    /// Hands as many of `bytes` (which are not empty) over as there is room for; `None` when there
    /// is none at the moment.
    ///
    /// # Errors
    /// What the system reports; the stream is of no further use then.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>>;

    /// As [`try_write`](Self::try_write), of `first` and behind it `second`; not both are empty.
    ///
    /// # Errors
    /// As there.
    fn try_write_two(&mut self, first: &[u8], second: &[u8]) -> io::Result<Option<usize>> {
        self.try_write(if first.is_empty() { second } else { first })
    }

    /// As [`try_write`](Self::try_write), with a descriptor beside the first byte.
    ///
    /// # Errors
    /// As there; the stream takes no descriptors.
    fn try_write_with(&mut self, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<Option<usize>> {
        let _ = (bytes, file);
        Err(ErrorKind::Unsupported.into())
    }

    /// Tells the other end that nothing follows. What was written before still arrives.
    fn finish(&mut self);

    /// To be called instead of [`finish`](Self::finish) when the other end counts as dead: what is
    /// not sent yet is given up. An other end that is there after all learns of it as soon as the
    /// halves are dropped, without waiting for bytes that the network has lost.
    fn abort(&mut self) {
        self.finish();
    }
}

/// What a thread polls to learn that a transport may go on; stays valid while anyone holds it.
#[derive(Clone)]
pub struct Source {
    fd: Arc<dyn AsFd + Send + Sync>,
    kind: SourceKind,
    /// A Unix socket that shared memory may lie beside.
    local: Option<Arc<Local>>,
}

/// How a source tells what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// A socket: readable, writable and closed are events of their own, and a read that returns
    /// less than it could has taken everything.
    Socket,
    /// A socket that says at every read of the other end that there is room: it is polled for room
    /// only while there was none, or every message would cost one wake-up more.
    UnixSocket,
    /// A socket beside shared memory: readable means that either half may go on.
    SharedMemory,
    /// A signal: readable means that either half may go on. Whoever polled it acknowledges it, then
    /// reads until there is nothing more and writes what waits.
    Signal,
}

/// What shared memory is called, beside the names of [`Peer::transport_name`].
pub(crate) const SHARED_MEMORY: &str = "shared memory";

/// Knows whether a source has become shared memory, without keeping anything open.
#[derive(Clone)]
pub(crate) struct SourceHint(Option<Weak<Local>>);

impl SourceHint {
    /// Whether the two ends use shared memory, or are about to.
    pub(crate) fn is_shared(&self) -> bool {
        let local = self.0.as_ref().and_then(Weak::upgrade);
        local.is_some_and(|local| local.is_agreed())
    }
}

/// What a connection is made of at the moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportUsed {
    /// In a word or two: TCP, Unix socket, shared memory, memory.
    pub name: &'static str,
    /// Why a connection over a Unix socket has no shared memory beside it, where it was tried.
    pub why_not_shared_memory: Option<String>,
}

/// Who is at the other end of a transport.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Peer {
    /// A socket of this address.
    Tcp(SocketAddr),
    /// A process of this machine, over a Unix socket. The system vouches for both.
    Unix {
        /// The user it ran as when it connected, or began to listen.
        uid: u32,
        /// Its process id.
        pid: u32,
    },
    /// This process, over a pipe in memory.
    Memory,
}

impl Peer {
    /// What the connection is made of, in a word or two.
    pub fn transport_name(&self) -> &'static str {
        match self {
            Peer::Tcp(_) => "TCP",
            Peer::Unix { .. } => "Unix socket",
            Peer::Memory => "memory",
        }
    }
}

impl Source {
    /// A source that polls `fd`.
    pub fn new(fd: Arc<dyn AsFd + Send + Sync>, kind: SourceKind) -> Self {
        Self {
            fd,
            kind,
            local: None,
        }
    }

    /// A Unix socket that shared memory may lie beside.
    pub(crate) fn local(local: Arc<Local>) -> Self {
        Self {
            fd: local.clone(),
            kind: SourceKind::UnixSocket,
            local: Some(local),
        }
    }

    /// How it tells what happened; a Unix socket may become shared memory.
    pub fn kind(&self) -> SourceKind {
        match &self.local {
            Some(local) if local.is_shared() => SourceKind::SharedMemory,
            _ => self.kind,
        }
    }

    /// Whether a receive half has to be armed before anybody sleeps on this.
    pub(crate) fn wants_arming(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.may_share())
    }

    /// For who outlives it.
    pub(crate) fn hint(&self) -> SourceHint {
        SourceHint(self.local.as_ref().map(Arc::downgrade))
    }

    /// Whether the two ends use shared memory, or are about to.
    pub(crate) fn is_shared(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.is_agreed())
    }

    /// A table of the last values at the other end, with a place for `index`.
    pub(crate) fn table(&self, index: u32, now: Tick) -> TableAnswer {
        match &self.local {
            Some(local) => local.table(index, now),
            None => TableAnswer::None,
        }
    }

    /// The shared memory in which the other end has asked for a table of last values, and its
    /// question.
    pub(crate) fn table_question(&self) -> Option<(&Local, u64)> {
        let local = self.local.as_ref()?;
        Some((local, local.table_question()?))
    }

    /// Why the two ends do not use shared memory although they could have.
    pub(crate) fn why_not_shared(&self) -> Option<&str> {
        self.local.as_ref()?.why_not()
    }

    /// Lowers a signal, before the halves are used; a socket needs nothing of the kind.
    pub fn acknowledge(&self) {
        if self.kind == SourceKind::Signal {
            // The only error of a healthy signal is that it is lowered already.
            let _ = rustix::io::read(self.as_fd(), &mut [0u8; 8]);
        }
    }

    /// True when both poll one descriptor.
    pub(crate) fn is_same(&self, other: &Source) -> bool {
        Arc::ptr_eq(&self.fd, &other.fd)
    }

    /// True when a read that returned `count` of `room` bytes has taken everything there was.
    pub(crate) fn is_drained(&self, count: usize, room: usize) -> bool {
        self.kind != SourceKind::Signal && count < room
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (*self.fd).as_fd()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("fd", &self.as_fd())
            .field("kind", &self.kind)
            .finish()
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("peer", &self.peer)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => address.fmt(f),
            Peer::Unix { uid, pid } => write!(f, "process {pid} of user {uid}"),
            Peer::Memory => f.write_str("this process"),
        }
    }
}
