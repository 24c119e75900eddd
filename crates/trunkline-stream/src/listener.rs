//! Ports that this process listens on for its own endpoints: those whose URLs have one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use trunkline_net::{BindError, Clock, Notifier, Peer, Server, ServerOptions, SessionFactory};
use trunkline_proto::Endpoint;
use trunkline_proto::stream::DirectoryLimits;

use crate::directory::{DirectoryHost, DirectorySession};

/// A port, and the directory of the endpoints behind it. Dropping the last one closes the port.
pub(crate) struct Listener {
    pub(crate) host: Arc<DirectoryHost>,
    server: Server,
}

struct Factory(Arc<DirectoryHost>);

impl SessionFactory for Factory {
    fn open(&self, _: Peer, notifier: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        let now = Clock::new().now();
        // The names here are those of this process's endpoints.
        let session = DirectorySession::new(self.0.clone(), notifier, now);
        Ok(Box::new(session.without_names()))
    }

    fn hand_over(&self, number: u64, _: Peer, socket: OwnedFd) {
        self.0.hand_over(number, socket);
    }
}

/// Those of this process, by where they listen.
static LISTENERS: Mutex<Option<HashMap<SocketAddr, Weak<Listener>>>> = Mutex::new(None);

impl Listener {
    /// The listener at an address, which is opened if it is not there.
    ///
    /// # Errors
    /// It cannot be listened on.
    pub(crate) fn at(address: SocketAddr, insecure: bool) -> Result<Arc<Self>, BindError> {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners = listeners.get_or_insert_default();
        listeners.retain(|_, listener| listener.strong_count() > 0);
        // Any free port is another one each time.
        if let Some(listener) = listeners.get(&address).and_then(Weak::upgrade) {
            return Ok(listener);
        }
        let host = Arc::new(DirectoryHost::new(DirectoryLimits::default()));
        let options = ServerOptions {
            listen: vec![address.into()],
            insecure,
            threads: Some(1),
            ..ServerOptions::default()
        };
        let server = Server::bind(options, Arc::new(Factory(host.clone())))?;
        let listener = Arc::new(Self { host, server });
        if let Some(address) = listener.address() {
            listeners.insert(address, Arc::downgrade(&listener));
        }
        Ok(listener)
    }

    /// Where it listens, with the port that the system chose.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.server.local_addrs().first().copied()
    }
}

/// The address that a host of this machine stands for; `None` when it is another machine's.
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
