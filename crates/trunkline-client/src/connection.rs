//! The life cycle of the connection: hello, keep-alive, acknowledgements, end, and the next
//! attempt.
//!
//! ```text
//!            dial due             handle_connected            WELCOME
//! Offline ----------> (driver dials) ----------> Greeting -------------> Open
//!    ^                                              |                      |
//!    |                 handle_disconnected          v                      v
//!    +------------------------------------------ broken <------------------+
//!    |  jitter on every attempt, and the delay requested by the engine
//!    +--> Closed: closed by the program, or trying again cannot help (version, rights)
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::limits::HELLO_DEADLINE;
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::hello::{Hello, Resume, Welcome};
use trunkline_proto::{
    Agreement, Backoff, Channel, DecodeError, Disconnect, FaultCode, Features, Frame, FrameBuffer,
    FrameKind, FrameLimits, Gather, Liveness, ThroughputMode, digest,
};
use trunkline_types::{Tick, Timestamp};

use crate::error::malformed;
use crate::event::Event;
use crate::options::ClientOptions;
use crate::state::{ConnectionCounters, ConnectionState, Session};
use crate::variables::reading::Arrival;

/// Limits on the keep-alive interval that the engine may request.
const KEEPALIVE_MIN: Duration = Duration::from_millis(10);
const KEEPALIVE_MAX: Duration = Duration::from_secs(3600);

/// The connection of a client, in any phase, including offline.
#[derive(Debug)]
pub(crate) struct Connection {
    phase: Phase,
    pub(crate) frames: FrameBuffer,
    pub(crate) liveness: Liveness,
    backoff: Backoff,
    random: fastrand::Rng,
    last_failure: Option<Arc<Disconnect>>,
    /// The reason why the driver must close the transport; `None` while it must not.
    closing: Option<Disconnect>,
    goodbye: Option<Goodbye>,
    pub(crate) hello_due: bool,
    pub(crate) keepalive_due: bool,
    /// The last session, which the next hello asks to resume.
    last_session: Option<Resume>,
    /// The security of the transport.
    channel: Channel,
    /// The engine has accepted this client's credentials once.
    has_joined: bool,
    pub(crate) receipt: Receipt,
    pub(crate) counters: ConnectionCounters,
    /// Time at which bytes last arrived.
    pub(crate) last_input: Option<Tick>,
    /// Gathers data before sending, in throughput mode.
    pub(crate) gather: Option<Box<Gather>>,
    /// True if the gathered data must be sent with the next output.
    pub(crate) send_gathered: bool,
}

#[derive(Debug)]
enum Phase {
    /// No connection. The driver dials at `dial_at`.
    Offline { dial_at: Tick },
    /// The transport is connected, and WELCOME has not arrived.
    Greeting { deadline: Tick },
    /// The hello is complete.
    Open(Box<Open>),
    /// The client makes no further attempt.
    Closed,
}

#[derive(Debug)]
struct Open {
    session: Arc<Session>,
    agreement: Agreement,
    /// The engine's wall clock when it sent WELCOME, which arrived at `session.since`.
    engine_wall: Timestamp,
}

impl Connection {
    pub(crate) fn new(options: &ClientOptions) -> Self {
        Self {
            phase: Phase::Offline {
                dial_at: Tick::ZERO,
            },
            frames: FrameBuffer::new(FrameLimits::HELLO),
            liveness: Liveness::with_defaults(Tick::ZERO),
            backoff: Backoff::new(options.backoff_base, options.backoff_max),
            random: fastrand::Rng::with_seed(options.seed),
            last_failure: None,
            closing: None,
            goodbye: None,
            hello_due: false,
            keepalive_due: false,
            last_session: None,
            channel: Channel::default(),
            has_joined: false,
            receipt: Receipt::default(),
            counters: ConnectionCounters::default(),
            last_input: None,
            gather: None,
            send_gathered: false,
        }
    }

    /// Records the security of the next transport.
    pub(crate) fn set_channel(&mut self, channel: &Channel) {
        self.channel = channel.clone();
    }

    /// Returns the security of the transport, or of the last one while offline.
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(crate) fn connected(&mut self, now: Tick) {
        if let Phase::Closed = self.phase {
            // The client was closed while the driver dialled.
            self.closing = Some(Disconnect::ClosedLocally);
            return;
        }
        self.phase = Phase::Greeting {
            deadline: now.saturating_add(HELLO_DEADLINE),
        };
        self.frames.reset(FrameLimits::HELLO);
        self.receipt = Receipt::default();
        (self.closing, self.goodbye) = (None, None);
        (self.hello_due, self.keepalive_due) = (true, false);
    }

    pub(crate) fn hello(&self, options: &ClientOptions) -> Hello {
        let mut hello = Hello {
            versions: options.negotiation.versions,
            features: options.negotiation.features,
            client_name: options.client_name.clone(),
            program: options.program.clone(),
            user: options.user.clone(),
            pid: options.pid,
            frame_max: options.negotiation.frame_max,
            message_max: options.negotiation.message_max,
            window_records: options.window_records,
            window_bytes: options.window_bytes,
            resume: self.last_session,
            throughput: options.throughput_mode.map(ThroughputMode::within_bounds),
            ..Hello::default()
        };
        if let Some(credentials) = &options.credentials {
            credentials.prove(&self.channel, self.has_joined, &mut hello);
        }
        hello
    }

    /// Returns the engine's epoch; 0 while the connection is down.
    pub(crate) fn epoch(&self) -> u64 {
        self.session().map_or(0, |session| session.epoch)
    }

    /// Returns true if the connection is up and both ends support this feature.
    pub(crate) fn has(&self, feature: Features) -> bool {
        let session = self.session();
        session.is_some_and(|session| session.features.contains(feature))
    }

    pub(crate) fn state(&self) -> ConnectionState {
        if let Some(cause) = self.closed() {
            return ConnectionState::Closed {
                cause: Arc::clone(cause),
            };
        }
        match self.session() {
            Some(session) if self.is_open() => ConnectionState::Connected(Arc::clone(session)),
            _ => ConnectionState::Connecting {
                attempt: self.backoff.attempts(),
                dial_at: self.dial_at().unwrap_or(Tick::ZERO),
                last_failure: self.last_failure.clone(),
            },
        }
    }

    /// Returns the reason as an error if the client no longer tries to connect.
    pub(crate) fn check_usable(&self) -> Result<(), Arc<Disconnect>> {
        self.closed().map_or(Ok(()), |cause| Err(Arc::clone(cause)))
    }

    pub(crate) fn connected_event(&self) -> Option<Event> {
        let session = self.session()?;
        Some(Event::Connected {
            session: session.session,
            epoch: session.epoch,
            engine_id: session.engine_id,
        })
    }

    /// Counts the end of an item that the engine has reported.
    pub(crate) fn count_end(&mut self, handle: u32) {
        if self.has(Features::ENDS) {
            self.receipt.count_records(0, digest::of_end(handle));
        }
    }

    /// Handles the engine's WELCOME. The flag in the result is true if the engine and its epoch are
    /// those of the last session. Positions of different epochs are not comparable.
    pub(crate) fn welcome(
        &mut self,
        now: Tick,
        frame: &Frame<'_>,
        options: &ClientOptions,
    ) -> Result<(bool, Welcome), Disconnect> {
        if !matches!(self.phase, Phase::Greeting { .. }) {
            return Err(malformed("the engine sent a second WELCOME".to_owned()));
        }
        let welcome = Welcome::decode(frame)?;
        let agreed = options
            .negotiation
            .confirm(&welcome)
            .map_err(Disconnect::VersionMismatch)?;
        let keepalive = welcome.keepalive.clamp(KEEPALIVE_MIN, KEEPALIVE_MAX);
        let deadline = welcome.deadline.clamp(keepalive * 2, KEEPALIVE_MAX * 2);
        self.liveness = Liveness::new(now, keepalive, deadline).answering();
        self.counters.connections += 1;
        self.has_joined = true;
        let Welcome {
            session,
            epoch,
            engine_id,
            ..
        } = welcome;
        let same_epoch = self
            .last_session
            .is_some_and(|last| (last.epoch, last.engine_id) == (epoch, engine_id));
        self.last_session = Some(Resume {
            session,
            epoch,
            engine_id,
        });
        let session = Session {
            session,
            epoch,
            engine_id,
            engine_name: welcome.engine_name.clone(),
            engine_version: welcome.engine_version.clone(),
            account: welcome.account.clone(),
            role: welcome.role.clone(),
            version: agreed.version,
            features: agreed.features,
            items_max: welcome.items_max,
            writes_max: welcome.write_credit_count,
            write_bytes_max: welcome.write_credit_bytes,
            keepalive,
            deadline,
            since: now,
            is_exposed: self.channel.is_exposed(),
        };
        self.phase = Phase::Open(Box::new(Open {
            session: Arc::new(session),
            agreement: agreed,
            engine_wall: welcome.wall,
        }));
        // Either both ends gather data, or neither does (LX-11).
        let is_supported = options.throughput_mode.is_some() && self.has(Features::THROUGHPUT);
        let granted = welcome.throughput.filter(|_| is_supported);
        self.gather = granted.map(|terms| Box::new(Gather::new(terms)));
        Ok((same_epoch, welcome))
    }

    /// Decodes REFUSED or GOODBYE, and returns the cause of the disconnection.
    pub(crate) fn dismissed(
        &self,
        frame: &Frame<'_>,
        options: &ClientOptions,
    ) -> Result<Disconnect, DecodeError> {
        if frame.kind() == Some(FrameKind::Refused) {
            let refused = Refused::decode(frame)?;
            return Ok(Disconnect::from_refused(
                &refused,
                options.negotiation.versions,
            ));
        }
        Ok(Goodbye::decode(frame)?.into())
    }

    /// Requests that the transport is closed, and prepares a GOODBYE if the engine can read one.
    pub(crate) fn fail(&mut self, cause: Disconnect) {
        if self.closing.is_none() {
            self.goodbye = cause.goodbye();
            self.closing = Some(cause);
        }
    }

    /// Closes the connection at the program's request.
    pub(crate) fn close(&mut self) {
        match self.phase {
            Phase::Greeting { .. } | Phase::Open(_) => {
                let sentence = "the client's program has closed the connection".to_owned();
                let code = FaultCode::ShuttingDown;
                self.closing = Some(Disconnect::ClosedLocally);
                self.goodbye.get_or_insert(Goodbye {
                    code,
                    retry_after: None,
                    sentence,
                });
            }
            Phase::Offline { .. } | Phase::Closed => self.give_up(Disconnect::ClosedLocally),
        }
    }

    /// Handles the loss of the transport, or a failed attempt to dial. Returns the cause, the
    /// session that ended, and whether another attempt follows.
    pub(crate) fn disconnected(
        &mut self,
        now: Tick,
        cause: Disconnect,
    ) -> (Arc<Disconnect>, Option<Arc<Session>>, bool) {
        let cause = self.closing.take().unwrap_or(cause);
        let session = self.session().cloned();
        // The backoff resets only after a session that lasted as long as the preceding wait could
        // have been, or as long as the session's deadline if that is shorter. Otherwise the client
        // would dial in a tight loop if an engine accepts connections and drops them at once.
        if let Some(session) = &session
            && now.since(session.since) >= session.deadline.min(self.backoff.ceiling())
        {
            self.backoff.reset();
        }
        self.frames.reset(FrameLimits::HELLO);
        self.receipt = Receipt::default();
        (self.goodbye, self.gather) = (None, None);
        (self.hello_due, self.keepalive_due) = (false, false);
        let retries = cause.may_retry();
        if retries {
            let wait = self.backoff.next(self.random.u64(..), cause.retry_after());
            self.phase = Phase::Offline {
                dial_at: now.saturating_add(wait),
            };
            self.last_failure = Some(Arc::new(cause.clone()));
        } else {
            self.give_up(cause.clone());
        }
        (Arc::new(cause), session, retries)
    }

    /// Handles the end of a connection that was established after the client was closed.
    pub(crate) fn stay_closed(&mut self) {
        self.closing = None;
    }

    fn give_up(&mut self, cause: Disconnect) {
        if !matches!(self.phase, Phase::Closed) {
            self.phase = Phase::Closed;
            self.last_failure = Some(Arc::new(cause));
        }
    }

    /// Dials at once, even if the client has given up.
    pub(crate) fn dial_now(&mut self, now: Tick) {
        if let Phase::Closed | Phase::Offline { .. } = self.phase {
            self.phase = Phase::Offline { dial_at: now };
        }
    }

    pub(crate) fn dial_at(&self) -> Option<Tick> {
        match self.phase {
            Phase::Offline { dial_at } => Some(dial_at),
            _ => None,
        }
    }

    pub(crate) fn closing(&self) -> Option<&Disconnect> {
        self.closing.as_ref()
    }

    pub(crate) fn take_goodbye(&mut self) -> Option<Goodbye> {
        self.goodbye.take()
    }

    /// Returns true if the hello is done and the connection is not closing.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_)) && self.closing.is_none()
    }

    /// Returns the reason if the client no longer tries to connect.
    pub(crate) fn closed(&self) -> Option<&Arc<Disconnect>> {
        let failure = self.last_failure.as_ref();
        failure.filter(|_| matches!(self.phase, Phase::Closed))
    }

    /// Returns the reason why there is no connection. `None` before the first connection and the
    /// first failed attempt.
    pub(crate) fn down_because(&self) -> Option<&Disconnect> {
        match &self.phase {
            Phase::Open(_) => self.closing.as_ref(),
            _ => self.last_failure.as_deref(),
        }
    }

    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        match &self.phase {
            Phase::Open(open) => Some(&open.session),
            _ => None,
        }
    }

    pub(crate) fn hello_deadline(&self) -> Option<Tick> {
        match self.phase {
            Phase::Greeting { deadline } if self.closing.is_none() => Some(deadline),
            _ => None,
        }
    }

    /// Returns the terms negotiated with the engine; `None` before the hello is complete.
    pub(crate) fn agreement(&self) -> Option<&Agreement> {
        match &self.phase {
            Phase::Open(open) => Some(&open.agreement),
            _ => None,
        }
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.random.u64(..)
    }

    /// Returns the arrival time and epoch for records received now.
    pub(crate) fn arrival(&self, now: Tick) -> Result<Arrival, Disconnect> {
        let Phase::Open(open) = &self.phase else {
            return Err(malformed(
                "the engine sent a reading before WELCOME".to_owned(),
            ));
        };
        Ok(Arrival {
            now,
            epoch: open.session.epoch,
            engine_wall: open.engine_wall,
            since_welcome: now.since(open.session.since),
        })
    }
}

/// Counts the update records received on a connection, and acknowledges them to the engine.
#[derive(Debug, Default)]
pub(crate) struct Receipt {
    records: u64,
    digest: u64,
    /// Number of records that the last acknowledgement contained.
    acked: u64,
    unacked_bytes: usize,
    /// Remote subscriptions that have credit to grant.
    grants: VecDeque<u32>,
}

impl Receipt {
    /// Counts update records, including unneeded ones, and adds their digests to the sum.
    pub(crate) fn count_records(&mut self, records: u64, digest: u64) {
        self.records += records;
        self.digest = self.digest.wrapping_add(digest);
    }

    /// Returns true if the number of records and the running digest equal those of the engine.
    pub(crate) fn agrees(&self, records: u64, digest: u64) -> bool {
        (self.records, self.digest) == (records, digest)
    }

    /// Continues from the engine's totals, whatever has arrived. As a result, a difference is
    /// reported only once, and lost records do not occupy the window forever.
    pub(crate) fn adopt_totals(&mut self, records: u64, digest: u64) {
        (self.records, self.digest) = (records, digest);
        self.acked = self.acked.min(records);
    }

    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.unacked_bytes += bytes;
    }

    /// Schedules a grant for a remote subscription that has credit to return.
    pub(crate) fn schedule_grant(&mut self, remote: u32) {
        if !self.grants.contains(&remote) {
            self.grants.push_back(remote);
        }
    }

    /// Takes the next remote subscription that has credit to grant.
    pub(crate) fn next_grant(&mut self) -> Option<u32> {
        self.grants.pop_front()
    }

    /// Returns the number of records received, and counts them as acknowledged.
    pub(crate) fn acknowledge(&mut self) -> u64 {
        self.acked = self.records;
        self.unacked_bytes = 0;
        self.records
    }

    /// Returns two flags. The first is true if there is something to acknowledge. The second is
    /// true if the acknowledgement must not wait for other output: at a quarter of the window, or
    /// if there is credit to grant.
    pub(crate) fn due(&self, options: &ClientOptions) -> (bool, bool) {
        let unacked = self.records - self.acked;
        let grants = !self.grants.is_empty();
        let records_due = unacked >= u64::from(options.window_records / 4).max(1);
        let bytes_due = self.unacked_bytes >= (options.window_bytes / 4).max(1) as usize;
        (unacked > 0 || grants, grants || records_due || bytes_due)
    }
}
