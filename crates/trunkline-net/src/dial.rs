//! Connects a client to its engine: resolves the host name, tries each address in turn, and records
//! the cause of each failure.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use trunkline_proto::frame::Frame;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::{Disconnect, Negotiation};
use trunkline_types::{SocketPath, Tick};

use crate::peer_user;
use crate::sleeper::Sleeper;
use crate::transport::passing::Descriptors;
use crate::transport::shm::{Side, local_transport};
use crate::transport::tcp::{start_connect, take_connected, tcp_transport};
use crate::transport::tls::{ClientHandshake, Failure, Shaken, TlsClient};
use crate::transport::unix;
pub use crate::transport::unix::SocketExtra;
use crate::transport::{Interest, Source, SourceKind, Transport};

/// The user id of the system administrator.
const ROOT: u32 = 0;

/// The folder of the engine that is installed as a service (`RuntimeDirectory` of its unit). It exists while
/// the service runs.
const SERVICE_FOLDER: &str = "/run/trunkline";

/// Whose programs a dialler accepts at a port without encryption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortOwner {
    Anyone,
    /// See [`Dialler::for_own_user`].
    OwnUser,
    /// See [`Dialler::for_engine`].
    Engine,
}

/// The place a link connects to.
pub enum Dialler {
    /// A TCP port of a host. Each dial resolves the name and tries all its addresses.
    Tcp {
        host: String,
        port: u16,
        owner: PortOwner,
    },
    /// A TCP port of a host, encrypted with TLS 1.3. The handshake is part of the dial. The engine's
    /// certificate must be for this host, a name or an IP address.
    Tls {
        host: String,
        port: u16,
        tls: Arc<TlsClient>,
    },
    /// A Unix socket of this machine, without shared memory.
    Unix(SocketPath),
    /// A Unix socket of this machine with shared memory. Without shared memory the dial fails.
    Shared(SocketPath),
    /// The Unix socket named after a TCP port of this machine, or the port itself if the socket
    /// cannot be used. The dial then continues with the port and reports no error. A socket cannot
    /// be used, for example, if it does not exist or does not lead to this machine's port.
    Near {
        socket: SocketPath,
        host: String,
        port: u16,
        /// The second use of the Unix socket: shared memory or descriptors.
        beside: SocketExtra,
        owner: PortOwner,
    },
    /// A connection made by the closure, such as
    /// [`Server::accept_pipe`](crate::Server::accept_pipe). The link's background thread calls it
    /// without holding a lock.
    Pipe(Box<dyn FnMut() -> io::Result<Transport> + Send>),
}

#[derive(Clone, Copy, Debug)]
pub struct DialLimits {
    pub lookup: Duration,
    /// Maximum time for each address to answer. TCP repeats its request after 1 s and again after
    /// another 2 s. If the network drops the first two packets, a longer time only delays the next
    /// dial.
    pub connect: Duration,
    /// Maximum time for the TLS handshake with each address.
    pub handshake: Duration,
    /// Time-out for unacknowledged data; see
    /// [`tcp::USER_TIMEOUT`](crate::transport::tcp::USER_TIMEOUT).
    pub user_timeout: Duration,
}

impl Default for DialLimits {
    fn default() -> Self {
        Self {
            lookup: Duration::from_secs(5),
            connect: Duration::from_millis(1500),
            handshake: Duration::from_secs(5),
            user_timeout: crate::transport::tcp::USER_TIMEOUT,
        }
    }
}

impl Dialler {
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Dialler::Tcp {
            host: host.into(),
            port,
            owner: PortOwner::Anyone,
        }
    }

    /// Creates a dialler for a TCP port with TLS.
    pub fn tls(host: impl Into<String>, port: u16, tls: Arc<TlsClient>) -> Self {
        Dialler::Tls {
            host: host.into(),
            port,
            tls,
        }
    }

    /// Creates a dialler for a TCP port of this machine that prefers `socket` if the same program
    /// listens there.
    pub fn near(socket: SocketPath, host: impl Into<String>, port: u16) -> Self {
        Dialler::Near {
            socket,
            host: host.into(),
            port,
            beside: SocketExtra::SharedMemory,
            owner: PortOwner::Anyone,
        }
    }

    /// Makes the dialler refuse a port without encryption unless the program that listens there runs on this
    /// machine as the user of this program, or as root, from whom nothing is hidden. If the system does not
    /// report the user, the port is refused.
    #[must_use]
    pub fn for_own_user(mut self) -> Self {
        self.set_owner(PortOwner::OwnUser);
        self
    }

    /// Makes the dialler refuse a port of this machine without encryption unless the program that listens there
    /// runs as the user of this program, as root, or as the user of the engine that is installed as a service:
    /// the owner of the service's folder in `/run`, in which only root can create one. If the system does not
    /// report the user at a loopback address, the port is refused.
    #[must_use]
    pub fn for_engine(mut self) -> Self {
        self.set_owner(PortOwner::Engine);
        self
    }

    fn set_owner(&mut self, required: PortOwner) {
        if let Dialler::Tcp { owner, .. } | Dialler::Near { owner, .. } = self {
            *owner = required;
        }
    }

    /// Makes the dialler accept file descriptors over its socket and store them in `descriptors`,
    /// instead of offering shared memory.
    #[must_use]
    pub fn taking(mut self, descriptors: Descriptors) -> Self {
        if let Dialler::Near { beside, .. } = &mut self {
            *beside = SocketExtra::Descriptors(descriptors);
        }
        self
    }

    /// Creates a dialler that calls `connect`, such as
    /// [`Server::accept_pipe`](crate::Server::accept_pipe).
    pub fn pipe(connect: impl FnMut() -> io::Result<Transport> + Send + 'static) -> Self {
        Dialler::Pipe(Box::new(connect))
    }
}

impl fmt::Debug for Dialler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dialler::Tcp { host, port, .. } => write!(f, "Dialler::Tcp({host}:{port})"),
            Dialler::Tls { host, port, .. } => write!(f, "Dialler::Tls({host}:{port})"),
            Dialler::Unix(path) => write!(f, "Dialler::Unix({path})"),
            Dialler::Shared(path) => write!(f, "Dialler::Shared({path})"),
            Dialler::Near {
                socket, host, port, ..
            } => {
                write!(f, "Dialler::Near({socket}, {host}:{port})")
            }
            Dialler::Pipe(_) => f.write_str("Dialler::Pipe"),
        }
    }
}

/// One dial, from the name resolution to the last address. Never blocks.
pub(crate) struct Dial {
    limits: DialLimits,
    protection: Protection,
    /// The Unix socket that could not be used when the dial began.
    near: Option<(SocketPath, SocketExtra)>,
    stage: Stage,
    failures: Vec<(SocketAddr, io::Error)>,
    /// The reason why the first connection was not used. It is more informative than other failures,
    /// because a program has answered.
    refusal: Option<Disconnect>,
}

/// What a TCP connection must fulfil.
enum Protection {
    /// The program that listens must run as one of these users.
    Owner(PortOwner),
    /// The connection must be encrypted to this host.
    Encryption {
        host: String,
        client: Arc<TlsClient>,
    },
}

enum Stage {
    Lookup {
        host: String,
        answer: Receiver<io::Result<Vec<SocketAddr>>>,
        until: Tick,
    },
    Addresses {
        rest: VecDeque<SocketAddr>,
        current: Option<Attempt>,
    },
    /// The result, if it was known at the start of the dial.
    Ended(Option<Result<Transport, Disconnect>>),
}

struct Attempt {
    address: SocketAddr,
    stream: Arc<TcpStream>,
    until: Tick,
    /// The handshake, once the connection is there.
    handshake: Option<Box<ClientHandshake>>,
}

/// The result of a step of an attempt.
enum AttemptStep {
    Wait(Interest),
    Connected(Transport),
    Failed(io::Error),
    /// The encrypted connection cannot be set up, or a program of another user listens.
    Refused(Disconnect),
}

pub(crate) enum DialStep {
    /// Call again when the source is ready, the sleeper is kicked, or the given time is reached.
    Wait(Option<(Source, Interest)>, Tick),
    Connected(Transport),
    Failed(Disconnect),
}

impl Dial {
    /// Begins a dial. The name resolution kicks `sleeper` when it has a result.
    pub(crate) fn start(
        dialler: &mut Dialler,
        limits: DialLimits,
        now: Tick,
        sleeper: &Arc<Sleeper>,
    ) -> Self {
        let mut unusable_socket = None;
        let mut protection = Protection::Owner(PortOwner::Anyone);
        let stage = match dialler {
            Dialler::Pipe(connect) => Stage::Ended(Some(connect().map_err(Disconnect::from))),
            Dialler::Unix(path) => Stage::Ended(Some(connect_unix(path, false))),
            Dialler::Shared(path) => Stage::Ended(Some(connect_unix(path, true))),
            Dialler::Tcp { host, port, owner } => {
                protection = Protection::Owner(*owner);
                Stage::host(host, *port, limits, now, sleeper)
            }
            Dialler::Tls { host, port, tls } => {
                protection = Protection::Encryption {
                    host: host.clone(),
                    client: tls.clone(),
                };
                Stage::host(host, *port, limits, now, sleeper)
            }
            Dialler::Near {
                socket,
                host,
                port,
                beside,
                owner,
            } => match unix::connect_near(socket.as_path(), beside) {
                Ok(transport) => Stage::Ended(Some(Ok(transport))),
                Err(_) => {
                    if let SocketExtra::Descriptors(descriptors) = beside {
                        descriptors.begin(false);
                    }
                    unusable_socket = Some((socket.clone(), beside.clone()));
                    protection = Protection::Owner(*owner);
                    Stage::host(host, *port, limits, now, sleeper)
                }
            },
        };
        Self {
            limits,
            protection,
            near: unusable_socket,
            stage,
            failures: Vec::new(),
            refusal: None,
        }
    }

    /// Tries the Unix socket once more. A program that answers at the port has already created its
    /// socket, but perhaps only after the first attempt of this dial.
    fn prefer_socket(&mut self, transport: Transport) -> Transport {
        let near = self.near.take();
        near.and_then(|(socket, beside)| unix::connect_near(socket.as_path(), &beside).ok())
            .unwrap_or(transport)
    }

    /// Advances as far as possible without waiting.
    pub(crate) fn advance(&mut self, now: Tick) -> DialStep {
        loop {
            match &mut self.stage {
                Stage::Lookup {
                    host,
                    answer,
                    until,
                } => match answer.try_recv() {
                    Ok(Ok(addresses)) => self.stage = Stage::addresses(addresses),
                    Ok(Err(error)) => return lookup_failed(host, &error.to_string()),
                    Err(TryRecvError::Empty) if now < *until => {
                        return DialStep::Wait(None, *until);
                    }
                    Err(TryRecvError::Empty) => return lookup_failed(host, "no answer in time"),
                    Err(TryRecvError::Disconnected) => {
                        return lookup_failed(host, "the look-up could not be started");
                    }
                },
                Stage::Ended(result) => {
                    return match result.take() {
                        Some(Ok(transport)) => DialStep::Connected(transport),
                        Some(Err(cause)) => DialStep::Failed(cause),
                        None => DialStep::Failed(Disconnect::ClosedLocally),
                    };
                }
                Stage::Addresses {
                    rest,
                    current: None,
                } => match rest.pop_front() {
                    None => {
                        let refusal = self.refusal.take();
                        let cause = refusal.unwrap_or_else(|| no_address_answered(&self.failures));
                        return DialStep::Failed(cause);
                    }
                    Some(address) => match start_connect(address) {
                        Ok(stream) => {
                            let until = now.saturating_add(self.limits.connect);
                            let attempt = Attempt {
                                address,
                                stream: Arc::new(stream),
                                until,
                                handshake: None,
                            };
                            let rest = std::mem::take(rest);
                            self.stage = Stage::Addresses {
                                rest,
                                current: Some(attempt),
                            };
                        }
                        Err(error) => self.failures.push((address, error)),
                    },
                },
                Stage::Addresses {
                    current: Some(attempt),
                    ..
                } => match attempt.advance(now, self.limits, &self.protection) {
                    AttemptStep::Wait(interest) => {
                        let source = Source::new(attempt.stream.clone(), SourceKind::Socket);
                        return DialStep::Wait(Some((source, interest)), attempt.until);
                    }
                    AttemptStep::Connected(transport) => {
                        return DialStep::Connected(self.prefer_socket(transport));
                    }
                    AttemptStep::Failed(error) => {
                        self.failures.push((attempt.address, error));
                        self.next_address();
                    }
                    AttemptStep::Refused(cause) => {
                        self.refusal.get_or_insert(cause);
                        self.next_address();
                    }
                },
            }
        }
    }

    fn next_address(&mut self) {
        if let Stage::Addresses { current, .. } = &mut self.stage {
            *current = None;
        }
    }
}

impl Stage {
    fn host(host: &str, port: u16, limits: DialLimits, now: Tick, sleeper: &Arc<Sleeper>) -> Self {
        match host.parse::<IpAddr>() {
            Ok(address) => Stage::addresses([SocketAddr::new(address, port)]),
            // This name always means this machine (RFC 6761, section 6.3). In a container without
            // /etc/hosts, a resolver would ask a name server.
            Err(_) if host.eq_ignore_ascii_case("localhost") => {
                let addresses: [IpAddr; 2] =
                    [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
                Stage::addresses(addresses.map(|address| SocketAddr::new(address, port)))
            }
            Err(_) => Stage::lookup(host, port, now.saturating_add(limits.lookup), sleeper),
        }
    }

    fn addresses(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Stage::Addresses {
            rest: addresses.into_iter().collect(),
            current: None,
        }
    }

    /// Resolves `host` in a separate thread, because the system's resolver may block for an
    /// unlimited time. The dial does not wait for the thread, which ends when the resolver returns.
    fn lookup(host: &str, port: u16, until: Tick, sleeper: &Arc<Sleeper>) -> Self {
        let (sender, answer) = sync_channel(1);
        let (name, sleeper) = (host.to_owned(), sleeper.clone());
        let lookup = move || {
            let found = (name.as_str(), port)
                .to_socket_addrs()
                .map(Iterator::collect);
            // No receiver is left if the resolution took too long.
            let _ = sender.send(found);
            sleeper.kick();
        };
        // If no thread can be started, the sender is dropped, and `advance` reports this.
        let _ = thread::Builder::new()
            .name("trunkline-lookup".to_owned())
            .spawn(lookup);
        Stage::Lookup {
            host: host.to_owned(),
            answer,
            until,
        }
    }
}

impl Attempt {
    fn advance(&mut self, now: Tick, limits: DialLimits, protection: &Protection) -> AttemptStep {
        if let Some(handshake) = self.handshake.take() {
            return self.shake(handshake, now, limits, protection);
        }
        match (take_connected(&self.stream, self.address), protection) {
            (Ok(Some(())), Protection::Owner(owner)) => {
                if let Err(cause) = self.check_user(*owner) {
                    return AttemptStep::Refused(cause);
                }
                let stream = self.stream.clone();
                tcp_transport(stream, self.address, limits.user_timeout).into()
            }
            (Ok(Some(())), Protection::Encryption { host, client }) => {
                self.until = now.saturating_add(limits.handshake);
                // So that the messages of the handshake are not delayed.
                if let Err(error) = self.stream.set_nodelay(true) {
                    return AttemptStep::Failed(error);
                }
                let stream = self.stream.clone();
                match ClientHandshake::new(stream, self.address, host, client) {
                    Ok(handshake) => self.shake(Box::new(handshake), now, limits, protection),
                    Err(sentence) => AttemptStep::Refused(Disconnect::Tls { sentence }),
                }
            }
            (Ok(None), _) if now >= self.until => AttemptStep::Failed(ErrorKind::TimedOut.into()),
            (Ok(None), _) => AttemptStep::Wait(Interest {
                read: false,
                write: true,
            }),
            (Err(error), _) => AttemptStep::Failed(error),
        }
    }

    /// # Errors
    /// The program that listens runs as a user whom the owner does not include.
    fn check_user(&self, owner: PortOwner) -> Result<(), Disconnect> {
        let is_engine = match owner {
            PortOwner::Anyone => return Ok(()),
            PortOwner::OwnUser => false,
            PortOwner::Engine => true,
        };
        let own = unix::own_uid();
        match peer_user::of_listener(&self.stream, self.address) {
            Some(uid) if uid == own || uid == ROOT => Ok(()),
            Some(uid) if is_engine && service_user(Path::new(SERVICE_FOLDER)) == Some(uid) => {
                Ok(())
            }
            // The engine is on another machine.
            None if is_engine && !self.address.ip().to_canonical().is_loopback() => Ok(()),
            uid => Err(Disconnect::OtherUser {
                address: self.address,
                uid,
                own,
                is_engine,
            }),
        }
    }

    fn shake(
        &mut self,
        mut handshake: Box<ClientHandshake>,
        now: Tick,
        limits: DialLimits,
        protection: &Protection,
    ) -> AttemptStep {
        match handshake.advance() {
            Ok(Shaken::Done) => handshake.into_transport(limits.user_timeout).into(),
            Ok(Shaken::Wait { .. }) if now >= self.until => {
                AttemptStep::Refused(Disconnect::Slow {
                    what: "TLS handshake",
                    deadline: limits.handshake,
                })
            }
            Ok(Shaken::Wait { is_blocked }) => {
                self.handshake = Some(handshake);
                AttemptStep::Wait(Interest {
                    read: true,
                    write: is_blocked,
                })
            }
            Err(failure) => {
                let host = match protection {
                    Protection::Encryption { host, .. } => host.as_str(),
                    Protection::Owner(_) => "the engine",
                };
                AttemptStep::Refused(handshake_failed(failure, host))
            }
        }
    }
}

impl From<io::Result<Transport>> for AttemptStep {
    fn from(result: io::Result<Transport>) -> Self {
        match result {
            Ok(transport) => AttemptStep::Connected(transport),
            Err(error) => AttemptStep::Failed(error),
        }
    }
}

/// Returns the owner of a service's folder; `None` if there is no such folder, or if others than root could have
/// created it.
fn service_user(folder: &Path) -> Option<u32> {
    let parent = fs::symlink_metadata(folder.parent()?).ok()?;
    let is_of_root = parent.is_dir() && parent.uid() == ROOT && parent.mode() & 0o022 == 0;
    let folder = fs::symlink_metadata(folder).ok()?;
    (is_of_root && folder.is_dir()).then(|| folder.uid())
}

fn handshake_failed(failure: Failure, host: &str) -> Disconnect {
    match failure {
        Failure::Io { kind, text } => Disconnect::Io { kind, text },
        // An engine at its limits does not take part in a handshake: it refuses without encryption.
        Failure::NotTls { first_bytes } if let Some(refused) = plain_refusal(&first_bytes) => {
            refused
        }
        failure => Disconnect::Tls {
            sentence: failure.of_server(host),
        },
    }
}

/// Reads a refusal that was sent without encryption. Anyone on the way can send one, so it counts
/// only if the client tries again afterwards.
fn plain_refusal(bytes: &[u8]) -> Option<Disconnect> {
    let frame = Frame::take_from(&mut &*bytes).ok()??;
    let refused = Refused::decode(&frame).ok()?;
    let cause = Disconnect::from_refused(&refused, Negotiation::OURS.versions);
    cause.may_retry().then_some(cause)
}

fn connect_unix(path: &SocketPath, shared: bool) -> Result<Transport, Disconnect> {
    match unix::connect(path.as_path()) {
        Ok((stream, peer)) if shared => {
            let side = Side::Dialler { demanded: true };
            local_transport(stream, peer, side).map_err(Disconnect::from)
        }
        Ok((stream, peer)) => Ok(unix::unix_transport(stream, peer)),
        Err(error) => {
            let (kind, text) = unix::failure(path.as_path(), &error);
            Err(Disconnect::Io { kind, text })
        }
    }
}

fn lookup_failed(host: &str, text: &str) -> DialStep {
    DialStep::Failed(Disconnect::NameLookup {
        host: host.to_owned(),
        text: text.to_owned(),
    })
}

/// Combines the failures of all addresses: takes the kind of the most informative failure and the
/// texts of all.
fn no_address_answered(failures: &[(SocketAddr, io::Error)]) -> Disconnect {
    // A refusal proves that the machine is reachable, so it is more informative than no answer.
    let most_informative = failures
        .iter()
        .find(|(_, error)| error.kind() == ErrorKind::ConnectionRefused);
    let kind = most_informative
        .or(failures.first())
        .map_or(ErrorKind::NotFound, |(_, error)| error.kind());
    let texts = failures
        .iter()
        .map(|(address, error)| format!("{address}: {}", error_text(error)));
    let text = match failures {
        [] => "the host's name has no address".to_owned(),
        _ => texts.collect::<Vec<_>>().join("; "),
    };
    Disconnect::Io { kind, text }
}

fn error_text(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
