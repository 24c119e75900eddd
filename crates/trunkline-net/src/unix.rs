//! Unix sockets as transports: for programs of the same user on the same machine.
//!
//! A socket is a file that only its user may use; beyond that, both ends ask the system who the
//! other one is, and talk to nobody of another user.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rustix::net::sockopt::socket_peercred;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::dial::Beside;
use crate::halves::{SocketReceive, SocketSend};
use crate::passing::passing_transport;
use crate::shm::{Side, local_transport};
use crate::transport::{Peer, Source, SourceKind, Transport};

/// Who is at the other end of a Unix socket, as the system says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Credentials {
    pub(crate) uid: u32,
    pub(crate) pid: u32,
}

impl Credentials {
    /// # Errors
    /// The system does not say; then nobody is to be trusted.
    pub(crate) fn of_peer(socket: impl AsFd) -> io::Result<Self> {
        let peer = socket_peercred(socket)?;
        Ok(Self {
            uid: peer.uid.as_raw(),
            // 0 where the other process is not visible from here.
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

/// The user this process acts as.
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

/// Connects to the socket at `path`, which is decided at once. Nobody but a program of this user is
/// accepted there.
///
/// # Errors
/// What the system reports; that the queue of who listens is full counts as busy.
pub(crate) fn connect(path: &Path) -> io::Result<(UnixStream, Credentials)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?).map_err(|error| {
        match error.kind() {
            // There is no waiting for room in a queue as there is for TCP.
            ErrorKind::WouldBlock => ErrorKind::ResourceBusy.into(),
            _ => error,
        }
    })?;
    let stream = UnixStream::from(std::os::fd::OwnedFd::from(socket));
    let peer = Credentials::of_peer(&stream)?;
    if !peer.is_ours() {
        let text = format!(
            "it is a socket of user {}, and this program runs as user {}",
            peer.uid,
            own_uid()
        );
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    Ok((stream, peer))
}

/// As [`connect`], when the program there also means the same ports by the same numbers: it is in
/// the same network namespace.
pub(crate) fn connect_near(path: &Path, beside: &Beside) -> io::Result<Transport> {
    let (stream, peer) = connect(path)?;
    let network_of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    match network_of(&peer.pid.to_string())? == network_of("self")? {
        true => match beside {
            Beside::SharedMemory => {
                local_transport(stream, peer, Side::Dialler { demanded: false })
            }
            Beside::Descriptors(descriptors) => Ok(passing_transport(stream, peer, descriptors)),
        },
        false => Err(ErrorKind::AddrNotAvailable.into()),
    }
}

/// Why a connection to `path` failed, as an address and the words behind it.
pub(crate) fn failure(path: &Path, error: &io::Error) -> (ErrorKind, String) {
    let path = path.display();
    let (kind, words) = match error.kind() {
        ErrorKind::NotFound => (
            // No engine made it, or it removed it when it ended.
            ErrorKind::ConnectionRefused,
            "there is no such socket".to_owned(),
        ),
        ErrorKind::ConnectionRefused => (
            ErrorKind::ConnectionRefused,
            "nobody answers; it was left behind by an engine that was killed".to_owned(),
        ),
        ErrorKind::ResourceBusy => (
            ErrorKind::ResourceBusy,
            "more programs connect than the engine lets in at once".to_owned(),
        ),
        kind => (kind, error.to_string()),
    };
    (kind, format!("{path}: {words}"))
}
