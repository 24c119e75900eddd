//! Manages the listening ports of this process, for endpoints of this process whose URLs name a port.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_net::{Clock, Notifier, Peer, Refusal, Server, ServerOptions, SessionFactory, near};
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::control::encode_refused;
use trunkline_proto::stream::DirectoryLimits;
use trunkline_proto::{Endpoint, FaultCode, VersionRange};

use super::{DirectoryHost, DirectorySession, OpenGate};
use crate::error::StreamError;

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
    /// Programs of other users, and of other machines, may connect.
    insecure: bool,
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

    fn refusal(&self, _: Peer, refusal: Refusal, retry_after: Option<Duration>) -> Vec<u8> {
        let mut answer = Vec::new();
        if let Refusal::NotSameUser { owner, uid } = refusal {
            let user = match uid {
                Some(uid) => format!("as user {uid}"),
                None => "as a user that the system does not report".to_owned(),
            };
            let refused = Refused {
                code: FaultCode::Denied,
                versions: VersionRange::OURS,
                retry_after,
                sentence: format!(
                    "this port is for programs of user {owner}, and this one runs {user}; run it as \
                     that user, let both ends use an engine, or create the endpoint with the port with \
                     `insecure`"
                ),
            };
            encode_refused(&refused, &mut answer);
        }
        answer
    }
}

/// The listening ports of this process, by address.
static PORTS: Mutex<BTreeMap<SocketAddr, Port>> = Mutex::new(BTreeMap::new());

impl Listener {
    /// Returns the listener at an address, and opens it if necessary.
    ///
    /// # Errors
    /// [`StreamError::SharedPort`] if another endpoint of this process has opened the port with another
    /// value of `insecure`; otherwise [`StreamError::Listen`].
    pub(crate) fn at(
        address: SocketAddr,
        sockets: Option<&Path>,
        insecure: bool,
    ) -> Result<Self, StreamError> {
        let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = ports.get_mut(&address) {
            // A port is open to other users for all its endpoints or for none.
            if port.insecure != insecure {
                return Err(StreamError::SharedPort { address, insecure });
            }
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
            // Programs of other users have no account here.
            same_user: !insecure,
            threads: Some(1),
            ..ServerOptions::default()
        };
        let server = Server::bind(options, Arc::new(Factory(host.clone())))?;
        // Port 0 selects a different free port each time.
        let address = server.local_addrs().first().copied().unwrap_or(address);
        let port = Port {
            host: host.clone(),
            _server: server,
            insecure,
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
        let canonical = address.to_canonical();
        let is_own =
            canonical.is_loopback() || canonical.is_unspecified() || is_of_interface(canonical);
        return is_own.then_some(address);
    }
    let uname = rustix::system::uname();
    let own = uname.nodename().to_str().unwrap_or_default();
    own.eq_ignore_ascii_case(host)
        .then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// Returns true if an interface of this machine has the address. The port does not matter, because
/// nothing is sent.
///
/// It is not enough that the address can be bound: the system may permit other addresses, too
/// (`ip_nonlocal_bind`), as on machines that take over the address of another one. Then the route
/// shows which addresses are its own.
fn is_of_interface(address: IpAddr) -> bool {
    let is_source = UdpSocket::bind((address, 0))
        .and_then(|socket| socket.connect((address, DISCARD_PORT)))
        .is_ok();
    // IPv4 routes nothing from another machine's address. IPv6 does, but reaches an own address from
    // that address, and another machine's from an own one.
    is_source
        && match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(_) => {
                let free = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0));
                let source = free.and_then(|socket| {
                    socket.connect((address, DISCARD_PORT))?;
                    socket.local_addr()
                });
                source.is_ok_and(|source| source.ip() == address)
            }
        }
}

/// Some port.
const DISCARD_PORT: u16 = 9;

#[cfg(test)]
#[cfg(target_os = "linux")]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::process::Command;

    use super::own_address;

    /// Set in the process that has a network of its own.
    const NETWORK: &str = "TRUNKLINE_TEST_NETWORK";

    /// Addresses that this machine has, and others to which it can send.
    const OWN: [&str; 7] = [
        "127.0.0.1",
        "127.1.2.3",
        "::1",
        "10.0.0.5",
        // Routed from the first address of its network.
        "10.0.0.6",
        "10.0.0.9",
        "fd00::5",
    ];
    const OTHERS: [&str; 4] = ["10.0.0.7", "192.0.2.1", "fd00::7", "2001:db8::1"];

    fn check() {
        for own in OWN {
            assert_eq!(own_address(own), Some(own.parse().unwrap()));
        }
        for other in OTHERS {
            assert_eq!(own_address(other), None, "{other}");
        }
    }

    /// In a network of its own, if programs may create one.
    #[test]
    #[allow(clippy::print_stderr, reason = "why it was left out")]
    fn address_of_another_machine_is_not_its_own_although_it_can_be_bound() {
        assert_eq!(own_address("localhost"), Some([127, 0, 0, 1].into()));
        assert_eq!(own_address("127.0.0.1"), Some([127, 0, 0, 1].into()));
        if std::env::var_os(NETWORK).is_some() {
            return check();
        }
        let script = "set -e; ip link set lo up
            ip link add tla type veth peer name tlb; ip link set tla up; ip link set tlb up
            ip addr add 10.0.0.5/24 dev tla; ip addr add 10.0.0.6/24 dev tla
            ip addr add 10.0.0.9/32 dev tla; ip -6 addr add fd00::5/64 dev tla nodad
            ip route add default via 10.0.0.1; ip -6 route add default via fd00::1
            for version in 4 6; do echo $1 > /proc/sys/net/ipv$version/ip_nonlocal_bind; done
            shift; exec \"$@\"";
        let name = "address_of_another_machine_is_not_its_own_although_it_can_be_bound";
        for nonlocal in ["0", "1"] {
            let ran = Command::new("unshare")
                .args(["--user", "--map-root-user", "--net"])
                .args(["sh", "-c", script, "sh", nonlocal])
                .arg(std::env::current_exe().unwrap())
                .arg(name)
                .env(NETWORK, nonlocal)
                .output();
            let Ok(ran) = ran else {
                return eprintln!("left out: no unshare here");
            };
            let [out, err] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text));
            if out.contains("running ") {
                assert!(out.contains("1 passed"), "{nonlocal}: {out}\n{err}");
            } else {
                eprintln!("left out: no network of one's own here: {err}");
            }
        }
    }
}
