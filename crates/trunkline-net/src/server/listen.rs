//! The listening sockets of a server.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;

use rustix::net::Shutdown;
use socket2::{Domain, Protocol, Socket, Type};
use trunkline_types::SocketPath;

/// Maximum number of connections waiting to be accepted.
pub(super) const BACKLOG: i32 = 4096;

/// The reason why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error(
        "{address} can be reached from other machines, and the engine has no certificates and \
         accounts; create them with `trunkline init` and set `security` in the configuration to \
         their folder, listen on 127.0.0.1 or [::1], or use --insecure (in a configuration: \
         insecure = true) if everyone on that network may read and write every variable"
    )]
    NotLoopback { address: SocketAddr },
    #[error(
        "port {} on {} is in use by another program; stop it or choose another port",
        address.port(), address.ip()
    )]
    PortInUse { address: SocketAddr },
    /// The system does not allow this user to listen there.
    #[error(
        "this user has no permission to listen on port {} of {}; choose a port above 1023 with --listen",
        address.port(), address.ip()
    )]
    PortDenied { address: SocketAddr },
    #[error("this machine does not have the address {}; choose an address of this machine", address.ip())]
    NoSuchAddress { address: SocketAddr },
    #[error("listening on {address} failed: {source}")]
    Io {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "another program is listening on the socket {path}; stop it, or choose another path with \
         --listen"
    )]
    SocketInUse { path: SocketPath },
    /// A file that is not a socket exists at the path of the Unix socket.
    #[error("{path} exists and is not a socket; remove it, or choose another path with --listen")]
    NotASocket { path: SocketPath },
    #[error("the folder of the socket {path} does not exist; create it, or choose another path")]
    NoFolder { path: SocketPath },
    /// The system does not allow this user to create the Unix socket.
    #[error(
        "this user has no permission to create the socket {path} ({source}); choose a folder of \
         this user with --listen unix:PATH"
    )]
    SocketDenied { path: SocketPath, source: io::Error },
    #[error("listening at the socket {path} failed: {source}")]
    SocketIo { path: SocketPath, source: io::Error },
    #[error("no file descriptor is left for a server ({0}); close some, or raise `ulimit -n`")]
    Descriptors(#[source] io::Error),
    #[error(
        "a connection thread cannot be started ({0}); end other programs, or raise `ulimit -u`"
    )]
    Thread(#[source] io::Error),
}

/// A listening port. Dropping it frees the port.
///
/// Closing the socket is not enough: if another thread is starting a child process, the child also
/// has the socket open until it executes the new program.
#[derive(Debug)]
pub(super) struct BoundPort {
    listener: TcpListener,
    /// The service manager has opened the socket, and continues to listen after this is dropped.
    is_inherited: bool,
}

impl Deref for BoundPort {
    type Target = TcpListener;

    fn deref(&self) -> &TcpListener {
        &self.listener
    }
}

impl Drop for BoundPort {
    fn drop(&mut self) {
        if !self.is_inherited {
            // A listening socket has no data to lose.
            let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
        }
    }
}

/// Uses a socket of the service manager, which listens at `address`.
pub(super) fn adopt(
    listener: TcpListener,
    address: SocketAddr,
    insecure: bool,
) -> Result<BoundPort, BindError> {
    check_reachable(address, insecure)?;
    Ok(BoundPort {
        listener,
        is_inherited: true,
    })
}

pub(super) fn listen(address: SocketAddr, insecure: bool) -> Result<BoundPort, BindError> {
    check_reachable(address, insecure)?;
    open(address)
        .map(|listener| BoundPort {
            listener,
            is_inherited: false,
        })
        .map_err(|source| match source.kind() {
            ErrorKind::AddrInUse => BindError::PortInUse { address },
            ErrorKind::PermissionDenied => BindError::PortDenied { address },
            ErrorKind::AddrNotAvailable => BindError::NoSuchAddress { address },
            _ => BindError::Io { address, source },
        })
}

fn check_reachable(address: SocketAddr, insecure: bool) -> Result<(), BindError> {
    match insecure || address.ip().to_canonical().is_loopback() {
        true => Ok(()),
        false => Err(BindError::NotLoopback { address }),
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restarted server takes over its port while connections of its predecessor are still
    // closing.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn port_is_released_at_once_even_if_a_child_inherits_its_socket() {
        let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let sut = listen(any, false).unwrap();
        let address = sut.local_addr().unwrap();
        // As in a child process between its start and the execution of the new program.
        let _inherited = sut.try_clone().unwrap();
        assert!(matches!(
            listen(address, false),
            Err(BindError::PortInUse { .. })
        ));
        drop(sut);
        listen(address, false).unwrap();
    }
}
