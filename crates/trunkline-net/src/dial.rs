//! How a client reaches its engine: the name looked up, every address tried in turn, each cause
//! kept.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use trunkline_proto::Disconnect;
use trunkline_types::{SocketPath, Tick};

use crate::passing::Descriptors;
use crate::shm::{Side, local_transport};
use crate::sleeper::Sleeper;
use crate::tcp::{start_connect, take_connected, tcp_transport};
use crate::transport::{Source, SourceKind, Transport};
use crate::unix;

/// Where a link connects to.
#[non_exhaustive]
pub enum Dialler {
    /// A TCP port of a host. The name is looked up at every dial, and every address it has is
    /// tried.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix socket of this machine, without shared memory beside it.
    Unix(SocketPath),
    /// A Unix socket of this machine, and shared memory beside it or nothing.
    Shared(SocketPath),
    /// A TCP port of this machine, and first the Unix socket that is named after it. Nothing is
    /// said about a socket that is not there, or that does not lead to this machine's port.
    Near {
        /// Where that socket would be.
        socket: SocketPath,
        /// Name or address of this machine.
        host: String,
        /// Port.
        port: u16,
        /// What goes beside the bytes over the socket.
        beside: Beside,
    },
    /// Whatever the closure connects, such as [`Server::accept_pipe`](crate::Server::accept_pipe).
    /// Called on the link's background thread, without a lock.
    Pipe(Box<dyn FnMut() -> io::Result<Transport> + Send>),
}

/// What goes beside the bytes over a Unix socket.
#[derive(Clone, Debug)]
pub enum Beside {
    /// Shared memory is offered, through which the bytes go from then on.
    SharedMemory,
    /// Descriptors may come.
    Descriptors(Descriptors),
}

/// Bounds of one dial.
#[derive(Clone, Copy, Debug)]
pub struct DialLimits {
    /// Time for the look-up of a host's name.
    pub lookup: Duration,
    /// Time for each address to answer. TCP asks again after 1 s and after another 2 s, so a longer
    /// time only delays the next dial where the network dropped the first two.
    pub connect: Duration,
    /// See [`tcp::USER_TIMEOUT`](crate::tcp::USER_TIMEOUT).
    pub user_timeout: Duration,
}

impl Default for DialLimits {
    fn default() -> Self {
        Self {
            lookup: Duration::from_secs(5),
            connect: Duration::from_millis(1500),
            user_timeout: crate::tcp::USER_TIMEOUT,
        }
    }
}

impl Dialler {
    /// Connects to a TCP port of a host.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Dialler::Tcp {
            host: host.into(),
            port,
        }
    }

    /// Connects to a TCP port of this machine, or rather to `socket` if the same program listens
    /// there.
    pub fn near(socket: SocketPath, host: impl Into<String>, port: u16) -> Self {
        Dialler::Near {
            socket,
            host: host.into(),
            port,
            beside: Beside::SharedMemory,
        }
    }

    /// The same dialler, without shared memory beside its socket: descriptors may come over it,
    /// into `descriptors`.
    #[must_use]
    pub fn taking(mut self, descriptors: Descriptors) -> Self {
        if let Dialler::Near { beside, .. } = &mut self {
            *beside = Beside::Descriptors(descriptors);
        }
        self
    }

    /// Connects through `connect`, such as [`Server::accept_pipe`](crate::Server::accept_pipe).
    pub fn pipe(connect: impl FnMut() -> io::Result<Transport> + Send + 'static) -> Self {
        Dialler::Pipe(Box::new(connect))
    }
}

impl fmt::Debug for Dialler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dialler::Tcp { host, port } => write!(f, "Dialler::Tcp({host}:{port})"),
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

/// One dial, from the look-up to the last address. Never blocks.
pub(crate) struct Dial {
    limits: DialLimits,
    /// A Unix socket that was not there when the dial began.
    near: Option<(SocketPath, Beside)>,
    stage: Stage,
    failures: Vec<(SocketAddr, io::Error)>,
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
    /// Decided when the dial began.
    Ended(Option<Result<Transport, Disconnect>>),
}

struct Attempt {
    address: SocketAddr,
    stream: Arc<TcpStream>,
    until: Tick,
}

/// What [`Dial::advance`] reached.
pub(crate) enum DialStep {
    /// Call again when the source is writable, the sleeper was kicked or the time has come.
    Wait(Option<Source>, Tick),
    Connected(Transport),
    Failed(Disconnect),
}

impl Dial {
    /// Begins a dial; `sleeper` is kicked when the look-up has an answer.
    pub(crate) fn start(
        dialler: &mut Dialler,
        limits: DialLimits,
        now: Tick,
        sleeper: &Arc<Sleeper>,
    ) -> Self {
        let mut not_there = None;
        let stage = match dialler {
            Dialler::Pipe(connect) => Stage::Ended(Some(connect().map_err(Disconnect::from))),
            Dialler::Unix(path) => Stage::Ended(Some(connect_unix(path, false))),
            Dialler::Shared(path) => Stage::Ended(Some(connect_unix(path, true))),
            Dialler::Tcp { host, port } => Stage::host(host, *port, limits, now, sleeper),
            Dialler::Near {
                socket,
                host,
                port,
                beside,
            } => match unix::connect_near(socket.as_path(), beside) {
                Ok(transport) => Stage::Ended(Some(Ok(transport))),
                Err(_) => {
                    if let Beside::Descriptors(descriptors) = beside {
                        descriptors.begin(false);
                    }
                    not_there = Some((socket.clone(), beside.clone()));
                    Stage::host(host, *port, limits, now, sleeper)
                }
            },
        };
        Self {
            limits,
            near: not_there,
            stage,
            failures: Vec::new(),
        }
    }

    /// A port that answers belongs to a program that has made its Unix socket before: perhaps since
    /// the dial looked for it.
    fn nearer(&mut self, transport: Transport) -> Transport {
        let near = self.near.take();
        near.and_then(|(socket, beside)| unix::connect_near(socket.as_path(), &beside).ok())
            .unwrap_or(transport)
    }

    /// Goes as far as it can without waiting.
    pub(crate) fn advance(&mut self, now: Tick) -> DialStep {
        loop {
            match &mut self.stage {
                Stage::Lookup {
                    host,
                    answer,
                    until,
                } => match answer.try_recv() {
                    Ok(Ok(addresses)) => self.stage = Stage::addresses(addresses),
                    Ok(Err(error)) => return no_address(host, &error.to_string()),
                    Err(TryRecvError::Empty) if now < *until => {
                        return DialStep::Wait(None, *until);
                    }
                    Err(TryRecvError::Empty) => return no_address(host, "no answer in time"),
                    Err(TryRecvError::Disconnected) => {
                        return no_address(host, "the look-up could not be started");
                    }
                },
                Stage::Ended(result) => {
                    return match result.take() {
                        Some(Ok(transport)) => DialStep::Connected(transport),
                        Some(Err(cause)) => DialStep::Failed(cause),
                        None => DialStep::Failed(Disconnect::Local),
                    };
                }
                Stage::Addresses {
                    rest,
                    current: None,
                } => match rest.pop_front() {
                    None => return DialStep::Failed(none_answers(&self.failures)),
                    Some(address) => match start_connect(address) {
                        Ok(stream) => {
                            let until = now.saturating_add(self.limits.connect);
                            let attempt = Attempt {
                                address,
                                stream: Arc::new(stream),
                                until,
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
                } => match attempt.advance(now, self.limits.user_timeout) {
                    Ok(None) => {
                        let source = Source::new(attempt.stream.clone(), SourceKind::Socket);
                        return DialStep::Wait(Some(source), attempt.until);
                    }
                    Ok(Some(transport)) => return DialStep::Connected(self.nearer(transport)),
                    Err(error) => {
                        self.failures.push((attempt.address, error));
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
            Err(_) => Stage::lookup(host, port, now.saturating_add(limits.lookup), sleeper),
        }
    }

    fn addresses(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Stage::Addresses {
            rest: addresses.into_iter().collect(),
            current: None,
        }
    }

    /// Looks `host` up in a thread of its own, because the system's resolver blocks for as long as
    /// it likes. The thread ends when it does; the dial does not wait for it.
    fn lookup(host: &str, port: u16, until: Tick, sleeper: &Arc<Sleeper>) -> Self {
        let (sender, answer) = sync_channel(1);
        let (name, sleeper) = (host.to_owned(), sleeper.clone());
        let lookup = move || {
            let found = (name.as_str(), port)
                .to_socket_addrs()
                .map(Iterator::collect);
            // Nobody listens any more when the look-up took too long.
            let _ = sender.send(found);
            sleeper.kick();
        };
        // Where no thread can be started the sender is dropped, which `advance` reports.
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
    fn advance(&mut self, now: Tick, user_timeout: Duration) -> io::Result<Option<Transport>> {
        match take_connected(&self.stream, self.address)? {
            Some(()) => tcp_transport(self.stream.clone(), self.address, user_timeout).map(Some),
            None if now >= self.until => Err(ErrorKind::TimedOut.into()),
            None => Ok(None),
        }
    }
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

fn no_address(host: &str, text: &str) -> DialStep {
    DialStep::Failed(Disconnect::NameLookup {
        host: host.to_owned(),
        text: text.to_owned(),
    })
}

/// One cause for all addresses: the kind of the first that says most, the words of every one.
fn none_answers(failures: &[(SocketAddr, io::Error)]) -> Disconnect {
    // A machine that refuses is there; that tells more than one that does not answer.
    let telling = failures
        .iter()
        .find(|(_, error)| error.kind() == ErrorKind::ConnectionRefused);
    let kind = telling
        .or(failures.first())
        .map_or(ErrorKind::NotFound, |(_, error)| error.kind());
    let texts = failures
        .iter()
        .map(|(address, error)| format!("{address}: {}", words(error)));
    let text = match failures {
        [] => "the host's name stands for no address".to_owned(),
        _ => texts.collect::<Vec<_>>().join("; "),
    };
    Disconnect::Io { kind, text }
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
