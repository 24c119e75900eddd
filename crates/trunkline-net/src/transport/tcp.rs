//! TCP sockets as transports.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::transport::halves::{SocketReceive, SocketSend};
use crate::transport::{Peer, Source, SourceKind, Transport};

/// Maximum time for which sent data may stay unacknowledged, or the other end's window may stay
/// closed, before the system gives up the connection.
///
/// The endpoints' keep-alives find dead peers much earlier. This time-out ends connections that the
/// system still holds after they were closed, and connections to peers that have read nothing for
/// this time.
pub const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Turns a connected socket into a transport: non-blocking, without Nagle's delay, and given up by
/// the system after `user_timeout` without acknowledgement.
pub fn tcp_transport(
    stream: impl Into<Arc<TcpStream>>,
    peer: SocketAddr,
    user_timeout: Duration,
) -> io::Result<Transport> {
    let stream = stream.into();
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let millis = u32::try_from(user_timeout.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(&*stream, millis)?;
    Ok(Transport {
        peer: Peer::Tcp(peer),
        source: Source::new(stream.clone(), SourceKind::Socket),
        receive: Box::new(SocketReceive(stream.clone())),
        send: Box::new(SocketSend(stream)),
    })
}

/// Starts a connection to `address`. The socket becomes writable when the result is known: call
/// [`take_connected`] then.
///
/// # Errors
/// An error that the system reports at once, such as a refusal on this machine.
pub(crate) fn start_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error)
            if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Returns the result of the connection that [`start_connect`] began, or `Ok(None)` while it is
/// undecided.
pub(crate) fn take_connected(stream: &TcpStream, address: SocketAddr) -> io::Result<Option<()>> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        // If the system chooses the dialled port as the socket's own port, the socket connects to
        // itself.
        Ok(peer) if stream.local_addr()? == peer => {
            Err(io::Error::from(rustix::io::Errno::CONNREFUSED))
        }
        Ok(_) => Ok(Some(())),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{address}: {error}"))),
    }
}
