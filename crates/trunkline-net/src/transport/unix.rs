//! Unix sockets as transports, for programs of the same user on the same machine.
//!
//! The mode of the socket's file admits only its user. In addition, both ends ask the system for
//! the user of the other end, and refuse a different user.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rustix::net::sockopt::socket_peercred;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::transport::halves::{SocketReceive, SocketSend};
use crate::transport::passing::{Descriptors, passing_transport};
use crate::transport::shm::{Side, local_transport};
use crate::transport::{Peer, Source, SourceKind, Transport};

/// User and process at the other end of a Unix socket, as the system reports them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Credentials {
    pub(crate) uid: u32,
    pub(crate) pid: u32,
}

impl Credentials {
    /// # Errors
    /// The system does not report them. The peer must not be trusted then.
    pub(crate) fn of_peer(socket: impl AsFd) -> io::Result<Self> {
        let peer = socket_peercred(socket)?;
        Ok(Self {
            uid: peer.uid.as_raw(),
            // 0 if the other process is not visible from here.
            pid: u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0),
        })
    }

    pub(crate) fn is_ours(self) -> bool {
        self.uid == own_uid()
    }
}

impl From<Credentials> for Peer {
    fn from(Credentials { uid, pid }: Credentials) -> Self {
        Peer::Unix { uid, pid }
    }
}

/// The second use of a Unix socket, besides its bytes.
#[derive(Clone, Debug)]
pub enum SocketExtra {
    /// Shared memory is offered. If the peer accepts it, the bytes go through it.
    SharedMemory,
    /// File descriptors may arrive.
    Descriptors(Descriptors),
}

pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Turns a connected, non-blocking socket into a transport.
pub(crate) fn unix_transport(stream: UnixStream, peer: Credentials) -> Transport {
    let stream = Arc::new(stream);
    Transport {
        peer: peer.into(),
        source: Source::new(stream.clone(), SourceKind::UnixSocket),
        receive: Box::new(SocketReceive(stream.clone())),
        send: Box::new(SocketSend(stream)),
    }
}

/// Connects to the socket at `path`, or fails at once. Accepts only a peer that runs as this user.
pub(crate) fn connect(path: &Path) -> io::Result<(UnixStream, Credentials)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?).map_err(|error| {
        match error.kind() {
            // Unlike TCP, a Unix socket cannot wait for room in the queue without blocking.
            ErrorKind::WouldBlock => ErrorKind::ResourceBusy.into(),
            _ => error,
        }
    })?;
    let stream = UnixStream::from(std::os::fd::OwnedFd::from(socket));
    let peer = Credentials::of_peer(&stream)?;
    if !peer.is_ours() {
        let text = format!(
            "the socket belongs to user {}, but this program runs as user {}",
            peer.uid,
            own_uid()
        );
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    Ok((stream, peer))
}

/// Like [`connect`], but only if the peer is in the same network namespace, so that its port
/// numbers denote the same ports.
pub(crate) fn connect_near(path: &Path, beside: &SocketExtra) -> io::Result<Transport> {
    let (stream, peer) = connect(path)?;
    let network_of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    match network_of(&peer.pid.to_string())? == network_of("self")? {
        true => match beside {
            SocketExtra::SharedMemory => {
                local_transport(stream, peer, Side::Dialler { demanded: false })
            }
            SocketExtra::Descriptors(descriptors) => {
                Ok(passing_transport(stream, peer, descriptors))
            }
        },
        false => Err(ErrorKind::AddrNotAvailable.into()),
    }
}

/// Returns the reason why a connection to `path` failed, as a kind and a text that begins with the
/// path.
pub(crate) fn failure(path: &Path, error: &io::Error) -> (ErrorKind, String) {
    let path = path.display();
    let (kind, words) = match error.kind() {
        ErrorKind::NotFound => (
            // No engine created it, or the engine removed it when it ended.
            ErrorKind::ConnectionRefused,
            "the socket does not exist".to_owned(),
        ),
        ErrorKind::ConnectionRefused => (
            ErrorKind::ConnectionRefused,
            "no program listens on it; an engine that was killed left it behind".to_owned(),
        ),
        ErrorKind::ResourceBusy => (
            ErrorKind::ResourceBusy,
            "too many programs are connecting at the same time; try again".to_owned(),
        ),
        kind => (kind, error.to_string()),
    };
    (kind, format!("{path}: {words}"))
}
