//! Creates an endpoint and a caller for each connection. The first frame decides whether the
//! endpoint serves the engine's variables or the streams of this machine.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use trunkline_access::Host;
use trunkline_engine::{Caller, Engine, MirrorGuard, Principal, Rights, SessionInfo, Wake};
use trunkline_net::server::{Refusal, Server, ServerCounters, SessionFactory};
use trunkline_net::{Notifier, Peer, SharedFile, create_table};
use trunkline_proto::frame::{FrameHeader, HEADER_BYTES};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::{Channel, Disconnect, Endpoint, FaultCode, FrameKind, Negotiation};
use trunkline_serve::{EngineFacts, RequestBudget, ServeOptions, Session};
use trunkline_stream::directory::{DirectoryHost, is_first};
use trunkline_types::{Tick, Timestamp, WhyStep};
use zeroize::Zeroizing;

use crate::deployments::{Deployments, lock};
use crate::engine::EngineOptions;
use crate::logins::Logins;
use crate::stream_sessions::StreamSession;

pub(crate) struct Sessions {
    pub(crate) engine: Engine,
    /// The options of new sessions. Locked only to copy or replace the reference.
    pub(crate) options: Arc<Mutex<Arc<ServeOptions>>>,
    pub(crate) numbers: Arc<SessionNumbers>,
    /// User id of this process.
    pub(crate) uid: u32,
    /// The directory of stream endpoints on this machine.
    pub(crate) directory: Arc<DirectoryHost>,
    pub(crate) logins: Arc<Logins>,
    /// The newest table of last values that clients have mapped into memory.
    pub(crate) shown_values: Mutex<Weak<ShownValues>>,
}

/// The last values of the engine's variables, in a file that clients map into memory.
pub(crate) struct ShownValues {
    file: OwnedFd,
    slots: usize,
    _mirror: MirrorGuard,
}

impl AsFd for ShownValues {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Session numbers, unique within one start of the engine. 0 is the engine itself.
#[derive(Debug)]
pub(crate) struct SessionNumbers(AtomicU32);

impl SessionNumbers {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(1))
    }

    pub(crate) fn next(&self) -> u32 {
        // Relaxed: only the uniqueness of the numbers matters.
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Facts about the engine's host that ENGINE frames report.
pub(crate) struct Facts {
    /// Memory for the requests and items of all sessions.
    pub(crate) requests: Arc<RequestBudget>,
    /// Maximum number of connections whose client has not logged in.
    pub(crate) handshakes_max: AtomicUsize,
    /// Maximum number of connections per second from one address of another machine.
    pub(crate) connections_per_address: AtomicU32,
    pub(crate) server: OnceLock<Weak<Server>>,
    pub(crate) deployments: OnceLock<Weak<Deployments>>,
    /// Set before the server is shut down, because the shutdown wakes every session.
    pub(crate) stopping: AtomicBool,
}

impl Facts {
    pub(crate) fn new(requests: Arc<RequestBudget>, options: &EngineOptions) -> Self {
        Self {
            requests,
            handshakes_max: AtomicUsize::new(options.handshakes_max),
            connections_per_address: AtomicU32::new(options.connections_per_address),
            server: OnceLock::new(),
            deployments: OnceLock::new(),
            stopping: AtomicBool::new(false),
        }
    }

    /// Returns the counters of the listeners; zeros before they exist.
    pub(crate) fn counters(&self) -> ServerCounters {
        let server = self.server.get().and_then(Weak::upgrade);
        server.map_or_else(ServerCounters::default, |server| server.counters())
    }

    /// Returns the limit on sessions; `u64::MAX` if there is none.
    pub(crate) fn sessions_max(&self) -> u64 {
        let server = self.server.get().and_then(Weak::upgrade);
        server.map_or(u64::MAX, |server| server.sessions_max() as u64)
    }
}

impl EngineFacts for Facts {
    fn sessions(&self) -> u64 {
        // A connection counts as a session once its client has introduced itself.
        let counters = self.counters();
        counters.sessions.saturating_sub(counters.handshakes) as u64
    }

    fn goodbye(&self) -> Option<Goodbye> {
        let is_stopping = self.stopping.load(Ordering::Acquire);
        is_stopping.then(|| Goodbye {
            code: FaultCode::ShuttingDown,
            // The engine may restart at once, and clients already spread their reconnections over
            // time.
            retry_after: None,
            sentence: "the engine was stopped".to_owned(),
        })
    }

    fn recording(&self, variable: &str) -> Option<WhyStep> {
        let deployments = self.deployments.get().and_then(Weak::upgrade)?;
        Some(deployments.history()?.explain(variable))
    }
}

/// Wakes the connection thread of a session, or lets another thread send its data.
struct NotifyWake {
    notifier: Notifier,
    session: u32,
    origin: Arc<str>,
}

impl Wake for NotifyWake {
    fn wake(&self) {
        self.notifier.notify();
    }

    fn session_info(&self) -> SessionInfo {
        SessionInfo {
            session: self.session,
            from: self.origin.to_string(),
            transport: self.notifier.transport_name(),
        }
    }

    fn send(&self) {
        self.notifier.send();
    }
}

impl Sessions {
    /// Describes the peer with what its transport knows about it. The login determines its rights.
    fn caller(&self, peer: Peer) -> Caller {
        let session = self.numbers.next();
        let host = match peer {
            Peer::Tcp(address) => Host::Address(address.ip()),
            Peer::Unix { .. } | Peer::Memory => Host::Local,
        };
        let (principal, origin, remote) = match peer {
            Peer::Tcp(address) if address.ip().is_loopback() => {
                (Principal::Loopback, address.to_string(), true)
            }
            Peer::Tcp(address) => (Principal::Unauthenticated, address.to_string(), true),
            Peer::Unix { uid, .. } => (Principal::Local(uid), peer.to_string(), true),
            Peer::Memory => (Principal::Local(self.uid), "this process".to_owned(), false),
        };
        Caller {
            session,
            principal,
            origin: Arc::from(origin),
            host,
            rights: Rights::NONE,
            remote,
        }
    }
}

impl SessionFactory for Sessions {
    fn open(&self, peer: Peer, notifier: Notifier) -> Result<Box<dyn Endpoint>, Vec<u8>> {
        let caller = self.caller(peer);
        let wake = Box::new(NotifyWake {
            notifier: notifier.clone(),
            session: caller.session,
            origin: Arc::clone(&caller.origin),
        });
        let options = Arc::clone(&lock(&self.options));
        let session = Session::new(self.engine.clone(), options, caller, wake);
        let directory = Arc::clone(&self.directory);
        let can_hand_over = matches!(peer, Peer::Unix { .. });
        Ok(Box::new(FirstFrameRouter {
            session: Kind::Variables(session),
            received: Some(Zeroizing::default()),
            directory,
            logins: Arc::clone(&self.logins),
            notifier,
            can_hand_over,
            channel: Channel::default(),
        }))
    }

    fn hand_over(&self, number: u64, _: Peer, socket: OwnedFd) {
        self.directory.hand_over(number, socket);
    }

    fn last_values(&self, peer: Peer) -> Option<SharedFile> {
        // All clients share one table, so only clients that may read every variable get it.
        let may_read_all = match peer {
            Peer::Unix { uid, .. } => uid == self.uid || uid == 0,
            Peer::Memory => true,
            Peer::Tcp(_) => false,
        };
        if !may_read_all {
            return None;
        }
        let mut shown_values = lock(&self.shown_values);
        let current = shown_values.upgrade();
        let has_enough_slots =
            |values: &Arc<ShownValues>| values.slots >= self.engine.tables().slots_end();
        if let Some(current) = current.filter(has_enough_slots) {
            return Some(current);
        }
        let slots = self.engine.tables().slots_for_new_table();
        // Without memory for the table, clients request last values from the engine instead.
        let (table, file) = create_table(slots).ok()?;
        let values = Arc::new(ShownValues {
            file,
            slots,
            _mirror: self.engine.tables().mirror_into(table),
        });
        *shown_values = Arc::downgrade(&values);
        Some(values)
    }

    fn refusal(&self, _peer: Peer, refusal: Refusal, retry_after: Option<Duration>) -> Vec<u8> {
        let code = match refusal {
            // The next attempt has the same user, so retrying does not help.
            Refusal::OtherUser { .. }
            | Refusal::NotSameUser { .. }
            | Refusal::EncryptionRequired => FaultCode::Denied,
            Refusal::SessionsMax { .. }
            | Refusal::HandshakesMax { .. }
            | Refusal::RateLimited { .. }
            | Refusal::Descriptors => FaultCode::Overloaded,
        };
        let refused = Refused {
            code,
            versions: Negotiation::OURS.versions,
            retry_after,
            sentence: refusal.to_string(),
        };
        let mut bytes = Vec::new();
        refused.encode(&mut bytes);
        bytes
    }
}

/// A connection that waits for its first frame. That frame selects the engine's variables or the
/// stream endpoints of this machine.
struct FirstFrameRouter {
    session: Kind,
    /// The bytes received while the kind is undecided, fewer than a frame header has; `None`
    /// afterwards. Erased, because a password or a token may follow the header.
    received: Option<Zeroizing<Vec<u8>>>,
    directory: Arc<DirectoryHost>,
    logins: Arc<Logins>,
    notifier: Notifier,
    /// The connection's socket can be handed over to another process.
    can_hand_over: bool,
    /// The security of the connection, for the session that the first frame selects.
    channel: Channel,
}

/// The kind of a session: variables, unless the first frame selects streams.
#[allow(
    clippy::large_enum_variant,
    reason = "almost all are of the large variant, which is on the way of every update"
)]
enum Kind {
    Variables(Session),
    Streams(Box<StreamSession>),
}

impl FirstFrameRouter {
    /// Decides from the header of the first frame. Returns the bytes received so far once the kind
    /// is decided.
    fn decide(&mut self, now: Tick, bytes: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut received = self.received.take()?;
        received.extend_from_slice(bytes);
        let Some(header) = received.first_chunk::<HEADER_BYTES>() else {
            self.received = Some(received);
            return None;
        };
        let kind = FrameKind::from_number(FrameHeader::from_bytes(header).kind);
        if kind.is_some_and(is_first)
            && let Kind::Variables(session) = &self.session
        {
            let session = StreamSession::new(
                session.caller().clone(),
                self.channel.clone(),
                Arc::clone(&self.logins),
                Arc::clone(&self.directory),
                (self.notifier.clone(), self.can_hand_over),
                now,
            );
            self.session = Kind::Streams(Box::new(session));
        }
        Some(received)
    }
}

macro_rules! forward {
    ($self:expr, $session:ident => $call:expr) => {
        match $self {
            Kind::Variables($session) => $call,
            Kind::Streams($session) => $call,
        }
    };
}

impl Endpoint for FirstFrameRouter {
    fn handle_channel(&mut self, channel: &Channel) {
        self.channel = channel.clone();
        forward!(&mut self.session, session => session.handle_channel(channel));
    }

    fn handle_connected(&mut self, now: Tick, wall: Timestamp) {
        forward!(&mut self.session, session => session.handle_connected(now, wall));
    }

    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        if self.received.is_some() {
            if let Some(received) = self.decide(now, bytes) {
                forward!(&mut self.session, session => session.handle_input(now, wall, &received));
            }
            return;
        }
        forward!(&mut self.session, session => session.handle_input(now, wall, bytes));
    }

    fn wants_input(&self) -> bool {
        forward!(&self.session, session => session.wants_input())
    }

    fn poll_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        forward!(&mut self.session, session => session.poll_output(now, wall, budget, out))
    }

    fn lets_writers_send(&self) -> bool {
        forward!(&self.session, session => session.lets_writers_send())
    }

    fn poll_timeout(&self) -> Option<Tick> {
        forward!(&self.session, session => session.poll_timeout())
    }

    fn handle_timeout(&mut self, now: Tick, wall: Timestamp) {
        forward!(&mut self.session, session => session.handle_timeout(now, wall));
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        forward!(&mut self.session, session => session.handle_disconnected(now, cause));
    }

    fn wants_close(&self) -> Option<Disconnect> {
        forward!(&self.session, session => session.wants_close())
    }

    fn is_in_handshake(&self) -> bool {
        forward!(&self.session, session => session.is_in_handshake())
    }

    fn wants_handover(&self) -> Option<u64> {
        forward!(&self.session, session => session.wants_handover())
    }
}
