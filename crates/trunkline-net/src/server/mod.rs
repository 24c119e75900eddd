//! The engine's side of connections: accepts them and drives their sessions.
//!
//! ```text
//!   acceptor           accepts or refuses; distributes sessions to the connection threads
//!   connection thread  owns sessions: reads for their endpoints, sends, runs their timers
//!   Notifier           any thread announces through it that a session has output
//! ```
//!
//! A session's receive half belongs to its connection thread, which uses it in turns of bounded
//! size, so that no session starves the others of its thread. A lock guards its endpoint and its
//! send half, the *outlet*. The connection thread takes the lock for its turn. A thread that has
//! changed something for a session whose connection thread sleeps tries to take the lock, and then
//! sends the output itself.

mod acceptor;
mod admission;
mod arrivals;
mod inherited;
mod listen;
mod mailbox;
mod notifier;
mod session;
mod turns;
mod unix_listener;
mod worker;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::Poll;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trunkline_types::{ListenAddress, SocketPath};

use crate::clock::Clock;
use crate::peer_user;
use crate::spin::{SPIN_DEFAULT, spinners_max};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::transport::Transport;
use crate::transport::pipe::PIPE_CAPACITY;
use crate::transport::tcp::USER_TIMEOUT;
use crate::transport::tls::{Security, TlsServer};

use acceptor::{Acceptor, AcceptorFlags, ArrivalLimits, ListenSocket};
use admission::{Admission, Bounds, SessionCounts};
use inherited::Listener;
use mailbox::{Mailbox, WakeThread};
use unix_listener::BoundSocket;
use worker::{MAILBOX, Mail, Worker};

pub use admission::{Refusal, ServerCounters, SessionFactory, SharedFile};
pub use inherited::{InheritedError, InheritedSockets};
pub use listen::BindError;
pub use notifier::{Notifier, never_send_on_this_thread};

/// Number of descriptors left for the rest of the process when `ulimit -n` limits the sessions.
const DESCRIPTORS_RESERVED: usize = 32;

#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Addresses to listen on. Port 0 takes any free port. If the list is empty, only in-memory
    /// pipes are available.
    pub listen: Vec<ListenAddress>,
    /// Sockets of a service manager that listen already. The server uses those whose address is in
    /// `listen`, and opens the others itself.
    pub inherited: InheritedSockets,
    /// The folder for Unix sockets named after ports: each port on this machine's loopback address
    /// also gets `PORT.sock` there if possible. See [`Dialler::near`](crate::Dialler::near).
    pub near: Option<PathBuf>,
    /// Allows addresses that other machines can reach although connections are not encrypted. With
    /// [`tls`](Self::tls), such addresses need no permission, and accept unencrypted connections as
    /// well if this is set.
    pub insecure: bool,
    /// The certificates for encrypted connections. With them, ports that other machines can reach
    /// accept only TLS, and ports of this machine's loopback addresses accept both. Without them,
    /// no connection is encrypted.
    pub tls: Option<Arc<TlsServer>>,
    /// Refuses TCP peers that are not programs of this process's user, if the system reports the
    /// user, and all peers on other machines. Unix sockets always accept only that user.
    pub same_user: bool,
    /// Number of connection threads. `None`: half the processors, 1 to 4.
    pub threads: Option<usize>,
    /// Maximum number of open sessions. The limit of `ulimit -n` also applies.
    pub sessions_max: usize,
    pub handshakes_max: usize,
    /// Maximum number of connections per second from one address of another machine; also the
    /// maximum size of a burst. At least 1.
    pub connections_per_address: u32,
    /// Time-out for unacknowledged data; see
    /// [`tcp::USER_TIMEOUT`](crate::transport::tcp::USER_TIMEOUT).
    pub user_timeout: Duration,
    /// Capacity in bytes of each direction of an in-memory pipe.
    pub pipe_capacity: usize,
    /// Offers shared memory to clients at Unix sockets.
    pub shared_memory: bool,
    /// Maximum time that a connection thread polls for work before it sleeps. Zero disables
    /// polling. See [`spin`](crate::spin).
    pub spin: Duration,
    /// Listens at once, but accepts no connection before [`Server::release`].
    pub held: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            inherited: InheritedSockets::default(),
            near: None,
            insecure: false,
            tls: None,
            same_user: false,
            threads: None,
            sessions_max: 1000,
            handshakes_max: 100,
            connections_per_address: 20,
            user_timeout: USER_TIMEOUT,
            pipe_capacity: PIPE_CAPACITY,
            shared_memory: true,
            spin: SPIN_DEFAULT,
            held: false,
        }
    }
}

/// The limits of a server that can be changed while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerLimits {
    /// See [`ServerOptions::sessions_max`]. Open sessions beyond a lower limit continue.
    pub sessions_max: usize,
    pub handshakes_max: usize,
    /// See [`ServerOptions::connections_per_address`].
    pub connections_per_address: u32,
    /// Applies to connections that begin later.
    pub user_timeout: Duration,
}

/// A running server. Dropping it shuts it down at once.
pub struct Server {
    local_addrs: Vec<SocketAddr>,
    listening: Vec<ListenAddress>,
    near: Vec<SocketPath>,
    admission: Arc<Admission>,
    mailboxes: Vec<Arc<Mailbox<Mail, mio::Waker>>>,
    stop: Arc<AtomicBool>,
    held: Arc<AtomicBool>,
    acceptor: mio::Waker,
    arrival_limits: Arc<Mutex<ArrivalLimits>>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    acceptor: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts listening. `factory` creates the endpoint of every session.
    pub fn bind(
        options: ServerOptions,
        factory: Arc<dyn SessionFactory>,
    ) -> Result<Server, BindError> {
        let Listeners {
            sockets,
            listening,
            near,
        } = Listeners::open(&options)?;
        let local_addrs: Vec<_> = listening.iter().filter_map(ListenAddress::tcp).collect();
        if !local_addrs.is_empty() {
            peer_user::prepare();
        }

        let mut polls = Vec::new();
        let mut mailboxes = Vec::new();
        for _ in 0..options.threads.unwrap_or_else(threads_default).max(1) {
            let (poll, waker) = poll_and_waker().map_err(BindError::Descriptors)?;
            polls.push(poll);
            mailboxes.push(Arc::new(Mailbox::new(waker)));
        }
        let bounds = Bounds {
            sessions_max: sessions_max(options.sessions_max),
            handshakes_max: options.handshakes_max.max(1),
        };
        let counts = Arc::new(SessionCounts::new(bounds));
        let capacity = options.pipe_capacity;
        let admission = Arc::new(Admission::new(factory, counts, mailboxes.clone(), capacity));

        let limits = Arc::new(Mutex::new(ArrivalLimits {
            user_timeout: options.user_timeout,
            shared_memory: options.shared_memory,
            same_user: options.same_user,
            per_address: options.connections_per_address,
        }));
        let (poll, acceptor) = poll_and_waker().map_err(BindError::Descriptors)?;
        let server = Self {
            local_addrs,
            listening,
            near,
            admission: admission.clone(),
            mailboxes: mailboxes.clone(),
            stop: Arc::new(AtomicBool::new(false)),
            held: Arc::new(AtomicBool::new(options.held)),
            acceptor,
            arrival_limits: Arc::clone(&limits),
            threads: Mutex::default(),
        };
        // The first call needs descriptors. Call it here, where an error can still be reported.
        let _spinners = spinners_max();
        for (poll, mailbox) in polls.into_iter().zip(mailboxes) {
            let worker = Worker::new(poll, mailbox, admission.clone(), options.spin);
            let thread = spawn("trunkline-conn", move || worker.run())?;
            lock(&server.threads).workers.push(thread);
        }
        let flags = AcceptorFlags {
            stop: server.stop.clone(),
            held: server.held.clone(),
        };
        let acceptor = Acceptor::new(poll, sockets, admission, flags, limits)
            .map_err(BindError::Descriptors)?;
        let thread = spawn("trunkline-accept", move || acceptor.run())?;
        lock(&server.threads).acceptor = Some(thread);
        Ok(server)
    }

    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// The TCP ports and Unix sockets the server listens on, in the order of the options.
    pub fn listening(&self) -> &[ListenAddress] {
        &self.listening
    }

    pub fn local_sockets(&self) -> &[SocketPath] {
        &self.near
    }

    /// Maximum number of open sessions: the value of the options, or less if `ulimit -n` is lower.
    pub fn sessions_max(&self) -> usize {
        self.admission.counts.bounds().sessions_max
    }

    /// Replaces the limits. Nothing that is open ends.
    pub fn set_limits(&self, limits: ServerLimits) {
        self.admission.counts.set_bounds(Bounds {
            sessions_max: sessions_max(limits.sessions_max),
            handshakes_max: limits.handshakes_max.max(1),
        });
        let mut arrivals = lock(&self.arrival_limits);
        arrivals.per_address = limits.connections_per_address;
        arrivals.user_timeout = limits.user_timeout;
    }

    pub fn counters(&self) -> ServerCounters {
        self.admission.counts.counters()
    }

    /// Connects to this server through memory. The session is like any other.
    ///
    /// # Errors
    /// The server has been shut down (connection refused), or no descriptor is left.
    pub fn accept_pipe(&self) -> io::Result<Transport> {
        self.admission.accept_pipe()
    }

    /// Starts accepting connections, for a server that was started `held`. Connections that are
    /// already waiting are accepted first.
    pub fn release(&self) {
        self.held.store(false, Ordering::Release);
        self.acceptor.wake_thread();
    }

    /// Stops accepting, lets every session send its pending output, closes all sessions and ends
    /// the threads, within `grace` at most. Endpoints that send a final message must be notified
    /// before.
    pub fn shutdown(&self, grace: Duration) {
        self.admission.close();
        self.stop.store(true, Ordering::Release);
        self.acceptor.wake_thread();
        // Ends the acceptor first, so that no connection arrives after the message that ends the
        // other threads.
        let threads = std::mem::take(&mut *lock(&self.threads));
        join(threads.acceptor);
        let deadline = Clock::new().now().saturating_add(grace);
        for mailbox in &self.mailboxes {
            mailbox.post(Mail::Shutdown { deadline });
        }
        threads
            .workers
            .into_iter()
            .for_each(|worker| join(Some(worker)));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("local_addrs", &self.local_addrs)
            .finish_non_exhaustive()
    }
}

struct Listeners {
    sockets: Vec<ListenSocket>,
    listening: Vec<ListenAddress>,
    near: Vec<SocketPath>,
}

impl Listeners {
    fn open(options: &ServerOptions) -> Result<Self, BindError> {
        let mut listeners = Self {
            sockets: Vec::new(),
            listening: Vec::new(),
            near: Vec::new(),
        };
        for address in &options.listen {
            let (socket, address) = match address {
                ListenAddress::Tcp(address) => {
                    // Open it before the port: a client that finds the port then finds the socket
                    // too. A port that the system chooses is not known to clients yet.
                    let is_chosen = address.port() == 0;
                    if !is_chosen {
                        listeners.open_near(options, *address);
                    }
                    let is_allowed = options.insecure || options.tls.is_some();
                    let socket = match options.inherited.take_tcp(*address) {
                        Some(listener) => listen::adopt(listener, *address, is_allowed)?,
                        None => listen::listen(*address, is_allowed)?,
                    };
                    let address = socket.local_addr().map_err(BindError::Descriptors)?;
                    if is_chosen {
                        listeners.open_near(options, address);
                    }
                    let security = security_of(options, address);
                    (ListenSocket::Tcp(socket, security), address.into())
                }
                ListenAddress::Unix(path) => match options.inherited.take(address) {
                    Some(Listener::Unix(socket)) => {
                        (ListenSocket::Inherited(socket), address.clone())
                    }
                    _ => {
                        let bound = BoundSocket::bind(path)?;
                        let address = bound.path().clone().into();
                        (ListenSocket::Unix(bound), address)
                    }
                },
            };
            listeners.sockets.push(socket);
            listeners.listening.push(address);
        }
        Ok(listeners)
    }

    /// Opens the socket named after a port. If that fails, clients use the port.
    fn open_near(&mut self, options: &ServerOptions, address: SocketAddr) {
        let folder = options.near.as_ref().filter(|_| is_near(address.ip()));
        let path = folder.and_then(|folder| {
            let path = folder.join(format!("{}.sock", address.port()));
            SocketPath::parse(path.to_str()?).ok()
        });
        if let Some(bound) = path.and_then(|path| BoundSocket::bind(&path).ok()) {
            self.near.push(bound.path().clone());
            self.sockets.push(ListenSocket::Unix(bound));
        }
    }
}

fn security_of(options: &ServerOptions, address: SocketAddr) -> Security {
    let accepts_plain = options.insecure || address.ip().to_canonical().is_loopback();
    match &options.tls {
        None => Security::Plain,
        Some(server) if accepts_plain => Security::Either(server.clone()),
        Some(server) => Security::Tls(server.clone()),
    }
}

fn is_near(ip: IpAddr) -> bool {
    ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V4(Ipv4Addr::UNSPECIFIED)
}

/// Raises the process's descriptor limit so that `sessions` fit, or as far as the system allows.
/// Systems start programs with a low limit for compatibility with old programs. Call it at the
/// start of a server program; it changes the whole process.
pub fn raise_descriptor_limit(sessions: usize) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = sessions.saturating_add(DESCRIPTORS_RESERVED) as u64;
    let reachable = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if limit.current.is_some_and(|current| current < reachable) {
        let raised = Rlimit {
            current: Some(reachable),
            ..limit
        };
        // If it fails, the limit is unchanged and fewer sessions are admitted.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// The session limit that leaves descriptors for the rest of the process.
fn sessions_max(wanted: usize) -> usize {
    match getrlimit(Resource::Nofile)
        .current
        .and_then(|limit| usize::try_from(limit).ok())
    {
        Some(limit) => wanted
            .min(limit.saturating_sub(DESCRIPTORS_RESERVED))
            .max(1),
        None => wanted,
    }
}

fn threads_default() -> usize {
    thread::available_parallelism().map_or(1, |processors| (processors.get() / 2).clamp(1, 4))
}

fn poll_and_waker() -> io::Result<(Poll, mio::Waker)> {
    let poll = Poll::new()?;
    let waker = mio::Waker::new(poll.registry(), MAILBOX)?;
    Ok((poll, waker))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, BindError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(BindError::Thread)
}

fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread
        && thread.thread().id() != thread::current().id()
    {
        // A thread that panicked has nothing left to end.
        let _ = thread.join();
    }
}
