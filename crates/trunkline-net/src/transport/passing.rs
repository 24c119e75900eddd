//! Passes connections from one process to another over a Unix socket.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use trunkline_types::SocketPath;

use crate::sync::{Arc, Mutex, lock};
use crate::transport::halves::{SocketSend, not_blocked};
use crate::transport::shm::passing::receive_with;
use crate::transport::tcp::tcp_transport;
use crate::transport::unix::{self, Credentials, unix_transport};
use crate::transport::{ReceiveHalf, Source, SourceKind, Transport};

/// Maximum number of descriptors waiting to be taken. Each belongs to a frame that has arrived.
const WAITING_MAX: usize = 64;

/// Descriptors received over a connection, in order of arrival. A descriptor is available here
/// before the byte that it was sent with is read.
#[derive(Clone, Default)]
pub struct Descriptors(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<OwnedFd>,
    /// The current connection can carry descriptors.
    is_open: bool,
}

struct PassingReceive {
    stream: Arc<UnixStream>,
    descriptors: Descriptors,
}

/// Connects to the Unix socket at `path` and accepts descriptors from it.
pub fn connect_passing(path: &SocketPath) -> io::Result<(Transport, Descriptors)> {
    let (stream, peer) = unix::connect(path.as_path()).map_err(|error| {
        let (kind, text) = unix::failure(path.as_path(), &error);
        io::Error::new(kind, text)
    })?;
    let descriptors = Descriptors::default();
    Ok((passing_transport(stream, peer, &descriptors), descriptors))
}

/// Creates a transport from a connected Unix socket that accepts descriptors.
pub(crate) fn passing_transport(
    stream: UnixStream,
    peer: Credentials,
    descriptors: &Descriptors,
) -> Transport {
    let stream = Arc::new(stream);
    descriptors.begin(true);
    Transport {
        peer: peer.into(),
        source: Source::new(stream.clone(), SourceKind::UnixSocket),
        receive: Box::new(PassingReceive {
            stream: stream.clone(),
            descriptors: descriptors.clone(),
        }),
        send: Box::new(SocketSend(stream)),
    }
}

/// Creates a transport from a connected socket that another process has handed over.
///
/// # Errors
/// The socket is neither TCP nor Unix, it is not connected, or the system reports another error.
pub fn transport_of(socket: OwnedFd, user_timeout: Duration) -> io::Result<Transport> {
    match socket_domain(&socket)? {
        AddressFamily::INET | AddressFamily::INET6 => {
            let stream = TcpStream::from(socket);
            let peer = stream.peer_addr()?;
            tcp_transport(stream, peer, user_timeout)
        }
        AddressFamily::UNIX => {
            let peer = Credentials::of_peer(&socket)?;
            let stream = UnixStream::from(socket);
            stream.set_nonblocking(true)?;
            Ok(unix_transport(stream, peer))
        }
        _ => Err(ErrorKind::Unsupported.into()),
    }
}

impl Descriptors {
    /// Removes and returns the oldest descriptor.
    pub fn take(&self) -> Option<OwnedFd> {
        lock(&self.0).waiting.pop_front()
    }

    /// Returns true if the current connection can carry descriptors.
    pub fn is_open(&self) -> bool {
        lock(&self.0).is_open
    }

    /// Starts over for a new connection.
    pub(crate) fn begin(&self, is_open: bool) {
        *lock(&self.0) = Queue {
            waiting: VecDeque::new(),
            is_open,
        };
    }
}

impl ReceiveHalf for PassingReceive {
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        not_blocked(|| {
            let (count, file) = receive_with(&self.stream, buffer)?;
            if let Some(file) = file {
                let waiting = &mut lock(&self.descriptors.0).waiting;
                if waiting.len() >= WAITING_MAX {
                    let text = "the peer sent file descriptors without frames";
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
                waiting.push_back(file);
            }
            Ok(count)
        })
    }
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Descriptors").field(&*lock(&self.0)).finish()
    }
}
