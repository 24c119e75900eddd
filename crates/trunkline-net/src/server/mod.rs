//! The engine's side of connections: accepts them and drives their sessions.
//!
//! ```text
//!   acceptor           accepts, admits or turns away, hands to the connection threads in turn
//!   connection thread  owns sessions: reads, hands to their endpoints, sends, keeps their timers
//!   Notifier           from any thread: this session has something to send
//! ```
//!
//! A session's receive half belongs to its connection thread, which uses it in turns of bounded
//! size, so that no session starves the others of its thread. Its endpoint and its send half lie
//! behind a lock, the *outlet*: the connection thread takes it, and a thread that has changed
//! something for a session whose connection thread sleeps tries it, and sends by itself.

mod acceptor;
mod admission;
mod arrivals;
mod listen;
mod mailbox;
mod notifier;
mod outlet;
mod peer_user;
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

use crate::Clock;
use crate::pipe::PIPE_CAPACITY;
use crate::spin::{SPIN_DEFAULT, most_at_once};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::tcp::USER_TIMEOUT;
use crate::transport::Transport;

use acceptor::{Acceptor, ArrivalLimits, ListenSocket, Told};
use admission::{Admission, Bounds, Census};
use mailbox::{Mailbox, Ring};
use unix_listener::BoundSocket;
use worker::{MAILBOX, Mail, Worker};

pub use admission::{Refusal, ServerCounters, SessionFactory, SharedFile};
pub use listen::BindError;
pub use notifier::{Notifier, only_mark};

/// Descriptors left for everything else in the process when sessions are limited by `ulimit -n`.
const DESCRIPTORS_KEPT: usize = 32;

/// How a server listens and what it bounds.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen. Port 0 takes any free one; none at all leaves pipes in memory.
    pub listen: Vec<ListenAddress>,
    /// A folder for Unix sockets that are named after ports: for each port of this machine's
    /// loopback address there is `PORT.sock` as well, where that can be had. See
    /// [`Dialler::near`](crate::Dialler::near).
    pub near: Option<PathBuf>,
    /// Allows addresses that other machines can reach, although nothing is protected yet.
    pub insecure: bool,
    /// Refuses TCP peers that are not programs of this process's user, as far as the system says,
    /// and all of other machines. Unix sockets are for that user alone in any case.
    pub same_user: bool,
    /// Connection threads; `None`: half the processors, 1 to 4.
    pub threads: Option<usize>,
    /// Sessions open at a time; also kept below what `ulimit -n` allows.
    pub sessions_max: usize,
    /// Sessions that are being set up at a time: whose peers have not introduced themselves yet.
    pub handshakes_max: usize,
    /// Connections per second from one address of another machine; as many may come at once. At
    /// least 1.
    pub connections_per_address: u32,
    /// See [`tcp::USER_TIMEOUT`](crate::tcp::USER_TIMEOUT).
    pub user_timeout: Duration,
    /// Bytes in each direction of a pipe in memory.
    pub pipe_capacity: usize,
    /// Whether clients at Unix sockets may have shared memory beside it.
    pub shared_memory: bool,
    /// How long a connection thread looks for something to do before it sleeps, at most; zero: not
    /// at all. See [`spin`](crate::spin).
    pub spin: Duration,
    /// Listens at once, and accepts nobody before [`Server::release`].
    pub held: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            near: None,
            insecure: false,
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
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    acceptor: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts listening. Every session gets its endpoint from `factory`.
    ///
    /// # Errors
    /// An address cannot be listened on, or the machine has no descriptor or thread left.
    pub fn bind(
        options: ServerOptions,
        factory: Arc<dyn SessionFactory>,
    ) -> Result<Server, BindError> {
        let Listeners {
            sockets,
            listening,
            near,
        } = Listeners::open(&options)?;
        let local_addrs = listening.iter().filter_map(ListenAddress::tcp).collect();

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
        let census = Arc::new(Census::new(bounds));
        let capacity = options.pipe_capacity;
        let admission = Arc::new(Admission::new(factory, census, mailboxes.clone(), capacity));

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
            threads: Mutex::default(),
        };
        // Here, where a failure for want of descriptors would be told.
        let _processors = most_at_once();
        for (poll, mailbox) in polls.into_iter().zip(mailboxes) {
            let worker = Worker::new(poll, mailbox, admission.clone(), options.spin);
            let thread = spawn("trunkline-conn", move || worker.run())?;
            lock(&server.threads).workers.push(thread);
        }
        let told = Told {
            stop: server.stop.clone(),
            held: server.held.clone(),
        };
        let limits = ArrivalLimits {
            user_timeout: options.user_timeout,
            shared_memory: options.shared_memory,
            same_user: options.same_user,
            per_address: options.connections_per_address,
        };
        let acceptor = Acceptor::new(poll, sockets, admission, told, limits)
            .map_err(BindError::Descriptors)?;
        let thread = spawn("trunkline-accept", move || acceptor.run())?;
        lock(&server.threads).acceptor = Some(thread);
        Ok(server)
    }

    /// Its TCP ports, with those that the system chose.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// Where the server listens: TCP ports and Unix sockets, in the order of the options.
    pub fn listening(&self) -> &[ListenAddress] {
        &self.listening
    }

    /// The Unix sockets that are named after its ports.
    pub fn near_sockets(&self) -> &[SocketPath] {
        &self.near
    }

    /// Sessions that may be open at a time: what the options say, or less where `ulimit -n` is
    /// lower.
    pub fn sessions_max(&self) -> usize {
        self.admission.census.bounds.sessions_max
    }

    /// What the server counts.
    pub fn counters(&self) -> ServerCounters {
        self.admission.census.counters()
    }

    /// Connects to this server through memory; the session is one like any other.
    ///
    /// # Errors
    /// The server is shut down (connection refused), or no descriptor is left.
    pub fn accept_pipe(&self) -> io::Result<Transport> {
        self.admission.accept_pipe()
    }

    /// Accepts those who wait and those who come: for a server that was started `held`.
    pub fn release(&self) {
        self.held.store(false, Ordering::Release);
        self.acceptor.ring();
    }

    /// Stops accepting, lets every session send what it has ready, closes them, and ends the
    /// threads; `grace` is the longest this takes. Endpoints that want to say goodbye are told so
    /// before.
    pub fn shutdown(&self, grace: Duration) {
        self.admission.close();
        self.stop.store(true, Ordering::Release);
        self.acceptor.ring();
        // The acceptor first, so that nothing arrives behind the message that ends the others.
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

/// What a server listens on.
struct Listeners {
    sockets: Vec<ListenSocket>,
    listening: Vec<ListenAddress>,
    near: Vec<SocketPath>,
}

impl Listeners {
    /// # Errors
    /// The first address that cannot be listened on.
    fn open(options: &ServerOptions) -> Result<Self, BindError> {
        let mut listeners = Self {
            sockets: Vec::new(),
            listening: Vec::new(),
            near: Vec::new(),
        };
        for address in &options.listen {
            let (socket, address) = match address {
                ListenAddress::Tcp(address) => {
                    // Before the port: whoever finds that one finds the socket too. A port that the
                    // system chooses is nobody's before it is known.
                    let is_chosen = address.port() == 0;
                    if !is_chosen {
                        listeners.open_near(options, *address);
                    }
                    let socket = listen::listen(*address, options.insecure)?;
                    let address = socket.local_addr().map_err(BindError::Descriptors)?;
                    if is_chosen {
                        listeners.open_near(options, address);
                    }
                    (ListenSocket::Tcp(socket), address.into())
                }
                ListenAddress::Unix(path) => {
                    let bound = BoundSocket::bind(path)?;
                    let address = bound.path().clone().into();
                    (ListenSocket::Unix(bound), address)
                }
            };
            listeners.sockets.push(socket);
            listeners.listening.push(address);
        }
        Ok(listeners)
    }

    /// Opens the socket that is named after a port. Where it cannot be had, the port is the way.
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

/// Whether 127.0.0.1 reaches it.
fn is_near(ip: IpAddr) -> bool {
    ip == IpAddr::V4(Ipv4Addr::LOCALHOST) || ip == IpAddr::V4(Ipv4Addr::UNSPECIFIED)
}

/// Raises the process's limit on descriptors so far that `sessions` fit, or as far as the system
/// lets it: systems start programs with a low one, for the sake of old programs. For the start of a
/// program that serves; it changes the whole process.
pub fn raise_descriptor_limit(sessions: usize) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = sessions.saturating_add(DESCRIPTORS_KEPT) as u64;
    let reachable = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if limit.current.is_some_and(|current| current < reachable) {
        let raised = Rlimit {
            current: Some(reachable),
            ..limit
        };
        // Where it fails the limit stays as it is, and fewer sessions are let in.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// The limit of sessions that leaves descriptors for everything else in the process.
fn sessions_max(wanted: usize) -> usize {
    match getrlimit(Resource::Nofile)
        .current
        .and_then(|limit| usize::try_from(limit).ok())
    {
        Some(limit) => wanted.min(limit.saturating_sub(DESCRIPTORS_KEPT)).max(1),
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
