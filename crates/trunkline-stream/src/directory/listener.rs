//! Manages the listening ports of this process, for endpoints of this process whose URLs name a port.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use trunkline_net::{
    BindError, Clock, Notifier, Peer, Server, ServerOptions, SessionFactory, near,
};
use trunkline_proto::Endpoint;
use trunkline_proto::stream::DirectoryLimits;

use super::{DirectoryHost, DirectorySession, OpenGate};

/// One endpoint's use of a listening port, and the directory of the endpoints on that port. Dropping
/// the last `Listener` of a port closes the port.
pub(crate) struct Listener {
    pub(crate) host: Arc<DirectoryHost>,
    address: SocketAddr,
}

struct Port {
    host: Arc<DirectoryHost>,
    /// Held so that the server's threads keep running.
    _server: Server,
    /// Number of [`Listener`]s of this port.
    uses: usize,
}

struct Factory(Arc<DirectoryHost>);

impl SessionFactory for Factory {
    fn open(&self, _: Peer, notifier: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        let now = Clock::new().now();
        // This directory holds only the endpoints of this process.
        let gate = Arc::new(OpenGate);
        let session = DirectorySession::new(self.0.clone(), notifier, gate, now);
        Ok(Box::new(session.without_registration()))
    }

    fn hand_over(&self, number: u64, _: Peer, socket: OwnedFd) {
        self.0.hand_over(number, socket);
    }
}

/// The listening ports of this process, by address.
static PORTS: Mutex<BTreeMap<SocketAddr, Port>> = Mutex::new(BTreeMap::new());

impl Listener {
    /// Returns the listener at an address, and opens it if necessary.
    pub(crate) fn at(
        address: SocketAddr,
        sockets: Option<&Path>,
        insecure: bool,
    ) -> Result<Self, BindError> {
        let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = ports.get_mut(&address) {
            port.uses += 1;
            let host = port.host.clone();
            return Ok(Self { host, address });
        }
        let host = Arc::new(DirectoryHost::new(DirectoryLimits::default()));
        let options = ServerOptions {
            listen: vec![address.into()],
            near: sockets
                .map(Path::to_owned)
                .or_else(near::prepare_socket_folder),
            shared_memory: false,
            insecure,
            threads: Some(1),
            ..ServerOptions::default()
        };
        let server = Server::bind(options, Arc::new(Factory(host.clone())))?;
        // Port 0 selects a different free port each time.
        let address = server.local_addrs().first().copied().unwrap_or(address);
        let port = Port {
            host: host.clone(),
            _server: server,
            uses: 1,
        };
        ports.insert(address, port);
        Ok(Self { host, address })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(port) = ports.get_mut(&self.address) else {
            return;
        };
        port.uses -= 1;
        if port.uses == 0 {
            // The port is closed under the lock, before another thread can open it again.
            ports.remove(&self.address);
        }
    }
}

/// Returns the local address to listen on for `host`; `None` if `host` is another machine.
pub(crate) fn own_address(host: &str) -> Option<IpAddr> {
    if host == "localhost" {
        return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        // Only an address of this machine can be bound.
        let is_own = address.is_loopback() || UdpSocket::bind((address, 0)).is_ok();
        return is_own.then_some(address);
    }
    let uname = rustix::system::uname();
    let own = uname.nodename().to_str().unwrap_or_default();
    own.eq_ignore_ascii_case(host)
        .then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}
