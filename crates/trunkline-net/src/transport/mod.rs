//! The interface of connected byte streams to the rest of this crate. They run over TCP, Unix
//! sockets, shared memory and in-memory pipes.

mod halves;
pub mod passing;
pub mod pipe;
pub(crate) mod shm;
pub mod tcp;
pub mod tls;
pub(crate) mod unix;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};

use trunkline_proto::{Channel, EndKeys};
use trunkline_types::Tick;

use self::shm::{Local, TableAnswer};
use crate::sync::{AtomicBool, Ordering};

/// A connected byte stream, in the two halves that different threads use.
///
/// The receive half belongs to the thread that currently drives the connection. The send half is
/// protected by the lock of the thread that encodes. Neither half ever blocks.
pub struct Transport {
    pub peer: Peer,
    /// The source to poll until a half may continue.
    pub source: Source,
    pub receive: Box<dyn ReceiveHalf>,
    pub send: Box<dyn SendHalf>,
}

/// The receiving half of a byte stream. Dropping it informs the other end that no more data will be
/// read.
pub trait ReceiveHalf: Send {
    /// Copies bytes that have arrived into `buffer`. Returns `Some(0)` at the end of the stream and
    /// `None` if nothing is available at the moment. The stream is unusable after an error.
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Like [`try_read`](Self::try_read), but fills `first` and puts any further bytes into
    /// `second`.
    fn try_read_two(&mut self, first: &mut [u8], second: &mut [u8]) -> io::Result<Option<usize>> {
        self.try_read(if first.is_empty() { second } else { first })
    }

    /// Returns true if a read that returned `count` of `room` bytes has taken everything available,
    /// here and in `source`. Otherwise the caller must read again before it sleeps, because the
    /// source may not report the rest.
    fn is_drained(&self, source: &Source, count: usize, room: usize) -> bool {
        source.is_drained(count, room)
    }

    /// Returns what is known about the security of the connection. A state of `Encrypted` is
    /// returned once.
    fn channel(&mut self) -> ChannelState {
        ChannelState::Plain
    }

    /// Reads until the other end has ended its encryption, so that another program can continue the
    /// connection with the socket alone. What has arrived until then is discarded. Returns false while
    /// the other end has not done so.
    ///
    /// # Errors
    /// The stream ended or failed, or the other end sent too much. The stream is unusable.
    fn release(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Must be called after the source was ready. `hung_up` is true if the source also reported
    /// that the other end has closed.
    fn acknowledge(&mut self, hung_up: bool) {
        let _ = hung_up;
    }

    /// Returns true if a read would find something, or `None` if only a system call can show that.
    fn glance(&mut self) -> Option<bool> {
        None
    }

    /// Returns true if reads have made the connection produce bytes, which the send half must
    /// [flush](SendHalf::flush) before the caller sleeps.
    fn wants_flush(&self) -> bool {
        false
    }

    /// Must be called before sleeping on the source, after reads have found nothing more; otherwise
    /// the source may not report new input. Returns true if something has arrived; the caller must
    /// not sleep then.
    fn arm(&mut self) -> bool {
        false
    }
}

/// The sending half of a byte stream.
pub trait SendHalf: Send {
    /// Takes as many bytes of `bytes`, which must not be empty, as there is room for. Returns their
    /// number, or `None` if there is no room at the moment. The stream is unusable after an error.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>>;

    /// Like [`try_write`](Self::try_write), but takes `first` followed by `second`. At least one of
    /// them must not be empty.
    fn try_write_two(&mut self, first: &[u8], second: &[u8]) -> io::Result<Option<usize>> {
        self.try_write(if first.is_empty() { second } else { first })
    }

    /// Like [`try_write`](Self::try_write), with a descriptor attached to the first byte.
    fn try_write_with(&mut self, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<Option<usize>> {
        let _ = (bytes, file);
        Err(ErrorKind::Unsupported.into())
    }

    /// Sends bytes that this half has taken, or has to send on its own account, and that the
    /// transport had no room for. Returns false if there is still no room. Must be called after each
    /// read, which may produce such bytes.
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Returns false while nothing can be sent, however much room there is: encryption is still
    /// being set up.
    fn is_open(&self) -> bool {
        true
    }

    /// Falls back to plaintext if encryption has not begun. Only the reason why the peer is refused
    /// is sent after that.
    fn fall_back_to_plaintext(&mut self) {}

    /// Ends the encryption of this half, after everything else was sent, so that another program
    /// can continue the connection with the socket alone. Returns false while there is no room for
    /// the notice of the end. After true, this half does not touch the socket any more.
    ///
    /// # Errors
    /// The connection is gone.
    fn release(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Ends the encryption with the program at the other end, and begins a new one with the program
    /// that has the peer's key, once the other end has ended the old one too. Until then,
    /// [`is_open`](Self::is_open) returns false.
    ///
    /// # Errors
    /// The connection is not encrypted, or the keys cannot be used.
    fn continue_with(&mut self, keys: &EndKeys) -> io::Result<()> {
        let _ = keys;
        Err(ErrorKind::Unsupported.into())
    }

    /// Informs the other end that no more data follows. Data that was already written still
    /// arrives.
    fn finish(&mut self);

    /// Called instead of [`finish`](Self::finish) if the other end is considered dead: unsent data
    /// is discarded. If the other end is alive after all, it is informed as soon as the halves are
    /// dropped, without waiting for bytes that the network has lost.
    fn abort(&mut self) {
        self.finish();
    }
}

/// What a receive half knows about the security of its connection.
#[derive(Debug)]
pub enum ChannelState {
    /// The connection is not encrypted, or not by this crate.
    Plain,
    /// No byte has arrived, or the handshake is not complete.
    Undecided,
    /// The handshake is complete.
    Encrypted(Box<Channel>),
    /// The peer does not encrypt, although it must. Send it the reason and close the connection.
    EncryptionMissing,
}

/// The source to poll until a transport may continue; valid while any clone exists.
#[derive(Clone)]
pub struct Source {
    fd: Arc<dyn AsFd + Send + Sync>,
    kind: SourceKind,
    /// State of a Unix socket that may use shared memory.
    local: Option<Arc<Local>>,
    /// Set once the connection is encrypted; `None` if it never will be.
    is_encrypted: Option<Arc<AtomicBool>>,
}

/// The way in which a source reports events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// A socket: readable, writable and closed are separate events, and a read that does not fill
    /// its buffer has taken everything.
    Socket,
    /// A socket that reports room whenever the other end reads. It is polled for room only after a
    /// send found none; otherwise every message would cost one more wake-up.
    UnixSocket,
    /// A socket used together with shared memory: readable means that either half may continue.
    SharedMemory,
    /// A signal: readable means that either half may continue. The thread that polled it
    /// acknowledges it, then reads until nothing is left and writes pending data.
    Signal,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl SourceKind {
    /// Returns the events of the descriptor that end a sleep with this interest.
    pub(crate) fn events(self, interest: Interest) -> Interest {
        match self {
            SourceKind::Socket | SourceKind::UnixSocket => interest,
            SourceKind::SharedMemory => Interest {
                read: interest.read || interest.write,
                write: false,
            },
            SourceKind::Signal => Interest {
                read: true,
                write: false,
            },
        }
    }
}

/// The name of shared memory as a transport; the others are in [`Peer::transport_name`].
pub(crate) const SHARED_MEMORY: &str = "shared memory";

/// The name of encrypted TCP.
pub(crate) const TLS: &str = "TLS";

/// Reports how a source carries bytes, without keeping the source open.
#[derive(Clone)]
pub(crate) struct SourceHint {
    local: Option<Weak<Local>>,
    is_encrypted: Option<Arc<AtomicBool>>,
}

impl SourceHint {
    /// Returns the name of the transport of a connection with `peer`.
    pub(crate) fn transport_name(&self, peer: Peer) -> &'static str {
        let local = self.local.as_ref().and_then(Weak::upgrade);
        if local.is_some_and(|local| local.is_agreed()) {
            return SHARED_MEMORY;
        }
        match is_set(self.is_encrypted.as_ref()) {
            true => TLS,
            false => peer.transport_name(),
        }
    }
}

fn is_set(mark: Option<&Arc<AtomicBool>>) -> bool {
    mark.is_some_and(|mark| mark.load(Ordering::Acquire))
}

/// The kind of transport in use at the moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransportUsed {
    /// Short name: TCP, TLS, Unix socket, shared memory, memory.
    pub name: &'static str,
    /// The reason why a connection over a Unix socket has no shared memory, if that was tried.
    pub why_not_shared_memory: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Peer {
    Tcp(SocketAddr),
    /// A process of this machine, over a Unix socket. Both values come from the system, so they can
    /// be trusted.
    Unix {
        /// User id of the process when it connected or began to listen.
        uid: u32,
        /// Process id. 0 if the process is not visible from here.
        pid: u32,
    },
    /// This process, over a pipe in memory.
    Memory,
}

impl Peer {
    pub fn transport_name(&self) -> &'static str {
        match self {
            Peer::Tcp(_) => "TCP",
            Peer::Unix { .. } => "Unix socket",
            Peer::Memory => "memory",
        }
    }

    /// Describes an unencrypted connection with this peer.
    pub(crate) fn plain_channel(&self) -> Channel {
        match self {
            Peer::Tcp(address) => Channel {
                address: Some(address.ip()),
                ..Channel::default()
            },
            Peer::Unix { uid, .. } => Channel {
                is_private: true,
                uid: Some(*uid),
                ..Channel::default()
            },
            Peer::Memory => Channel {
                is_private: true,
                ..Channel::default()
            },
        }
    }
}

impl Source {
    pub fn new(fd: Arc<dyn AsFd + Send + Sync>, kind: SourceKind) -> Self {
        Self {
            fd,
            kind,
            local: None,
            is_encrypted: None,
        }
    }

    /// Adds the mark that is set once the connection is encrypted.
    pub(crate) fn encrypted(mut self, is_encrypted: Arc<AtomicBool>) -> Self {
        self.is_encrypted = Some(is_encrypted);
        self
    }

    /// Returns true if another process could not continue the connection with the descriptor alone,
    /// because the keys are here.
    pub(crate) fn has_keys(&self) -> bool {
        is_set(self.is_encrypted.as_ref())
    }

    pub(crate) fn local(local: Arc<Local>) -> Self {
        Self {
            fd: local.clone(),
            kind: SourceKind::UnixSocket,
            local: Some(local),
            is_encrypted: None,
        }
    }

    /// Returns the way in which the source reports events. A Unix socket may change to shared
    /// memory.
    pub fn kind(&self) -> SourceKind {
        match &self.local {
            Some(local) if local.is_shared() => SourceKind::SharedMemory,
            _ => self.kind,
        }
    }

    /// Returns true if a receive half must be armed before a thread sleeps on this source.
    pub(crate) fn wants_arming(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.may_share())
    }

    /// Returns a hint, which may outlive the source.
    pub(crate) fn hint(&self) -> SourceHint {
        SourceHint {
            local: self.local.as_ref().map(Arc::downgrade),
            is_encrypted: self.is_encrypted.clone(),
        }
    }

    /// Returns a table of the other end's last values that has a slot for `index`.
    pub(crate) fn table(&self, index: u32, now: Tick) -> TableAnswer {
        match &self.local {
            Some(local) => local.table(index, now),
            None => TableAnswer::None,
        }
    }

    /// Returns the shared memory in which the other end has asked for a table of last values, and
    /// the number of the request.
    pub(crate) fn table_request(&self) -> Option<(&Local, u64)> {
        let local = self.local.as_ref()?;
        Some((local, local.table_request()?))
    }

    /// Returns the reason why the two ends do not use shared memory although it was possible.
    pub(crate) fn why_not_shared(&self) -> Option<&str> {
        self.local.as_ref()?.why_not()
    }

    /// Clears a signal before the halves are used; does nothing for a socket.
    pub fn acknowledge(&self) {
        if self.kind == SourceKind::Signal {
            // The only possible error of a valid signal is that it is already cleared.
            let _ = rustix::io::read(self.as_fd(), &mut [0u8; 8]);
        }
    }

    /// Returns true if both poll the same descriptor.
    pub(crate) fn is_same(&self, other: &Source) -> bool {
        Arc::ptr_eq(&self.fd, &other.fd)
    }

    /// Returns true if a read that returned `count` of `room` bytes has taken everything available.
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
