//! The client state machine: its parts, and its [`Endpoint`] interface to the driver.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::limits::HELLO_DEADLINE;
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::{
    Backoff, Disconnect, Endpoint, Fault, FaultCode, Frame, FrameKind, Gather, LivenessAction,
};
use trunkline_types::{Tick, Timestamp};

use crate::connection::Connection;
use crate::convergence::Suspects;
use crate::error::malformed;
use crate::event::Event;
use crate::follow::Follow;
use crate::options::ClientOptions;
use crate::pending::Requests;
use crate::provider::ProviderRole;
use crate::restore::retry_backoff;
use crate::state::{ConnectionCounters, ConnectionState, Session};
use crate::subscription::Subscription;
use crate::table::Slab;
use crate::variable::Variables;
use crate::watch::Watches;
use crate::wire::Wires;
use crate::write_queue::Writes;

/// The client's end of one connection, across any number of reconnects. A driver such as
/// `trunkline_net::Link` calls it as an [`Endpoint`]; programs call the verbs.
///
/// Every verb returns at once. The driver sends requests when it next takes output, and answers are
/// available once the driver has passed in the input that carries them. [`changes`](Self::changes)
/// tells when there is something to look at.
#[derive(Debug)]
pub struct ClientCore {
    pub(crate) options: ClientOptions,
    pub(crate) connection: Connection,
    pub(crate) variables: Variables,
    pub(crate) wires: Wires,
    pub(crate) subscriptions: Slab<Subscription>,
    pub(crate) requests: Requests,
    pub(crate) writes: Writes,
    /// Flushes that the engine has completed and that still wait for write answers.
    pub(crate) flushes: Vec<u64>,
    pub(crate) provider: ProviderRole,
    /// Data gathered for sending, in throughput mode.
    pub(crate) gather: Option<Box<Gather>>,
    /// Set when the gathered data must go out with the next output.
    pub(crate) send_gathered: bool,
    pub(crate) watches: Watches,
    pub(crate) follows: Slab<Follow>,
    /// Items whose digest differs from the engine's, until they are checked.
    pub(crate) suspects: Suspects,
    /// The last time bytes arrived.
    pub(crate) last_input: Option<Tick>,
    /// Number of items in all subscriptions.
    pub(crate) items: usize,
    /// The time to retry failed items; the wait grows with each retry.
    pub(crate) retry_at: Option<Tick>,
    pub(crate) retry_wanted: bool,
    pub(crate) retry_backoff: Backoff,
    /// Subscriptions resume after their last update once the variables are open again.
    pub(crate) resume_when_restored: bool,
    pub(crate) changes: u64,
}

impl ClientCore {
    /// Returns a client that wants to dial at once.
    pub fn new(options: ClientOptions) -> Self {
        Self {
            connection: Connection::new(&options),
            options,
            variables: Variables::default(),
            wires: Wires::default(),
            subscriptions: Slab::default(),
            requests: Requests::default(),
            writes: Writes::default(),
            flushes: Vec::new(),
            provider: ProviderRole::default(),
            gather: None,
            send_gathered: false,
            watches: Watches::default(),
            follows: Slab::default(),
            suspects: Suspects::default(),
            last_input: None,
            items: 0,
            retry_at: None,
            retry_wanted: false,
            retry_backoff: retry_backoff(),
            resume_when_restored: false,
            changes: 0,
        }
    }

    /// Returns the state of the connection, with its cause.
    pub fn state(&self) -> ConnectionState {
        if let Some(cause) = self.connection.closed() {
            return ConnectionState::Closed {
                cause: Arc::clone(cause),
            };
        }
        match self.connection.session() {
            Some(session) if self.connection.is_open() => {
                ConnectionState::Connected(Arc::clone(session))
            }
            _ => ConnectionState::Connecting {
                attempt: self.connection.attempts(),
                dial_at: self.connection.dial_at().unwrap_or(Tick::ZERO),
                last_failure: self.connection.last_failure().cloned(),
            },
        }
    }

    /// Returns the session with the engine, while the connection is up.
    pub fn session(&self) -> Option<&Session> {
        self.connection.session().map(|session| &**session)
    }

    /// Returns the last round trip measured on this connection.
    pub fn round_trip(&self) -> Option<Duration> {
        self.connection
            .session()
            .and_then(|_| self.connection.liveness.round_trip())
    }

    /// Returns the totals over all connections so far.
    pub fn counters(&self) -> ConnectionCounters {
        self.connection.counters
    }

    /// Returns a number that rises with everything a program can wait for: an answer, an outcome,
    /// an event, a change of the connection. While it is unchanged, there is nothing new to look
    /// at.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the number of unanswered requests and unfinished writes. After any number of either,
    /// a program waits once, until this is 0.
    pub fn pending(&self) -> usize {
        self.requests.open() + self.writes.open()
    }

    /// Returns the number of variables in use: opened, subscribed, or with queued writes.
    pub fn variables_in_use(&self) -> usize {
        self.variables.len()
    }

    /// Says goodbye and closes the connection for good. Anything not sent before is never sent. To
    /// have everything carried out, wait for [`pending`](Self::pending) to reach 0 first.
    pub fn shut_down(&mut self) {
        let was_closed = self.connection.closed().is_some();
        self.connection.close();
        if !was_closed && self.connection.closed().is_some() {
            let cause = Arc::new(Disconnect::Local);
            self.tell_disconnected(&cause, false);
            self.gave_up(&cause);
        }
        self.changes += 1;
    }

    /// Dials at once: ends the wait for the next attempt, or starts again after giving up.
    pub fn reconnect(&mut self, now: Tick) {
        self.connection.dial_now(now);
        self.changes += 1;
    }

    fn tell_disconnected(&mut self, cause: &Arc<Disconnect>, reconnecting: bool) {
        for subscription in self.subscriptions.values_mut() {
            let cause = Arc::clone(cause);
            subscription.connection_changed(Event::Disconnected {
                cause,
                reconnecting,
            });
        }
    }

    /// Ends everything that waits for a connection, because none will be made.
    fn gave_up(&mut self, cause: &Arc<Disconnect>) {
        let code = match &**cause {
            Disconnect::VersionMismatch(_) => FaultCode::VersionMismatch,
            Disconnect::Refused { code, .. } | Disconnect::Goodbye { code, .. } => *code,
            Disconnect::NotTrunkline { .. } => FaultCode::Malformed,
            _ => FaultCode::ShuttingDown,
        };
        let fault = Fault::new(code, format!("it was not sent: {cause}"));
        for id in self.requests.ids() {
            if let Some(request) = self.requests.take_out(id) {
                self.end_request(id, request, Some(fault.clone()));
            }
        }
        self.refuse_unsent(&fault);
    }

    fn dispatch(&mut self, now: Tick, frame: &Frame<'_>) -> Result<(), Disconnect> {
        // Frame kinds of a newer minor version are skipped (B-51).
        let Some(kind) = frame.kind() else {
            self.connection.counters.unknown_frames += 1;
            return Ok(());
        };
        let is_greeting = self.connection.session().is_none();
        match kind {
            FrameKind::Welcome => self.handle_welcome(now, frame),
            FrameKind::Refused if is_greeting => {
                Err(self.connection.dismissed(frame, &self.options)?)
            }
            FrameKind::Goodbye => Err(self.connection.dismissed(frame, &self.options)?),
            _ if is_greeting => Err(malformed(format!("{kind} before WELCOME"))),
            FrameKind::Keepalive => {
                let keepalive = Keepalive::decode(frame)?;
                let answers = self.connection.liveness.handle_keepalive(now, &keepalive);
                self.connection.keepalive_due |= answers;
                self.compare_digest(&keepalive);
                Ok(())
            }
            FrameKind::Updates => self.handle_updates(now, frame),
            FrameKind::Check => self.handle_check(frame),
            FrameKind::Repaired => self.handle_repaired(now, frame),
            FrameKind::Lost => self.handle_lost(frame),
            FrameKind::WriteAnswers => self.handle_write_answers(frame),
            FrameKind::Ended => self.handle_ended(frame),
            FrameKind::Gone => self.handle_gone(frame),
            FrameKind::Appeared => self.handle_appeared(frame),
            FrameKind::Vanished => self.handle_vanished(frame),
            FrameKind::ProviderBind => self.handle_provider_bind(frame),
            FrameKind::ProviderWrite => self.handle_provider_write(frame),
            FrameKind::ProviderRequest => self.handle_provider_request(frame),
            FrameKind::Opened
            | FrameKind::Subscribed
            | FrameKind::Closed
            | FrameKind::Readings
            | FrameKind::Names
            | FrameKind::InfoAnswer
            | FrameKind::WhyAnswer
            | FrameKind::EngineAnswer
            | FrameKind::Flushed
            | FrameKind::Provided
            | FrameKind::Report
            | FrameKind::GroupAnswer
            | FrameKind::SnapshotAnswer
            | FrameKind::Leased
            | FrameKind::AuditPage
            | FrameKind::Forced
            | FrameKind::Requested => self.handle_answer(now, frame),
            FrameKind::Fault => self.handle_fault(frame),
            other => Err(malformed(format!(
                "{other} is no frame that a client is sent"
            ))),
        }
    }

    fn handle_welcome(&mut self, now: Tick, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let (same_epoch, welcome) = self.connection.welcome(now, frame, &self.options)?;
        self.begin_to_gather(&welcome);
        self.writes
            .connected(welcome.write_credit_count, welcome.write_credit_bytes);
        for subscription in self.subscriptions.values_mut() {
            subscription.connection_changed(Event::Connected {
                session: welcome.session,
                epoch: welcome.epoch,
                engine_id: welcome.engine_id,
            });
        }
        self.restore(same_epoch);
        self.restore_watches();
        self.ask_to_provide();
        self.changes += 1;
        Ok(())
    }
}

impl Endpoint for ClientCore {
    fn handle_connected(&mut self, now: Tick, _wall: Timestamp) {
        self.connection.connected(now);
        self.changes += 1;
    }

    fn handle_input(&mut self, now: Tick, _wall: Timestamp, bytes: &[u8]) {
        if self.connection.closing().is_some() {
            return;
        }
        self.last_input = Some(now);
        self.connection.liveness.handle_received(now);
        let mut input = bytes;
        loop {
            // The frame borrows the buffer, so the buffer is moved out of `self`; its limits may
            // change meanwhile.
            let mut frames = std::mem::take(&mut self.connection.frames);
            let was_greeting = self.connection.session().is_none();
            let result = match frames.next_frame(now, &mut input) {
                Ok(Some(frame)) => self.dispatch(now, &frame),
                Ok(None) => {
                    self.connection.frames = frames;
                    break;
                }
                Err(error) => Err(error.into()),
            };
            if was_greeting && self.connection.session().is_some() {
                frames.set_limits(self.connection.frame_limits());
            }
            self.connection.frames = frames;
            if let Err(cause) = result {
                self.connection.fail(cause);
                self.changes += 1;
                return;
            }
        }
        self.plan_retry(now);
    }

    fn wants_input(&self) -> bool {
        // The client never waits for the program: whatever the program does not take is bounded and
        // counted.
        true
    }

    fn poll_output(
        &mut self,
        now: Tick,
        _wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        self.gather_output(now, budget, out)
    }

    fn poll_timeout(&self) -> Option<Tick> {
        if self.connection.closing().is_some() {
            return None;
        }
        let due = [self.connection.hello_deadline(), self.writes.expire_at()];
        if !self.connection.is_open() {
            return Tick::earliest(due);
        }
        let [hello, expire] = due;
        let gather = self.gather.as_ref();
        Tick::earliest([
            hello,
            expire,
            Some(self.connection.liveness.poll_timeout()),
            self.connection.frames.poll_timeout(),
            self.retry_at,
            self.provider_due(),
            gather.and_then(|gather| gather.poll_timeout()),
        ])
    }

    fn handle_timeout(&mut self, now: Tick, _wall: Timestamp) {
        self.expire_writes(now);
        if let Some(deadline) = self.connection.hello_deadline() {
            if now >= deadline {
                let deadline = HELLO_DEADLINE;
                self.connection.fail(Disconnect::Slow {
                    what: "hello",
                    deadline,
                });
                self.changes += 1;
            }
            return;
        }
        if !self.connection.is_open() {
            return;
        }
        self.send_gathered |= self
            .gather
            .as_mut()
            .is_some_and(|gather| gather.expire(now));
        if let Err(error) = self.connection.frames.handle_timeout(now) {
            self.connection.fail(error.into());
            self.changes += 1;
            return;
        }
        match self.connection.liveness.poll(now) {
            LivenessAction::Idle => {}
            LivenessAction::SendKeepalive => self.connection.keepalive_due = true,
            LivenessAction::Dead { silent_for } => {
                self.connection.fail(Disconnect::Dead { silent_for });
                self.changes += 1;
                return;
            }
        }
        self.retry_failed(now);
        self.provider_timeout(now);
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        if self.connection.closed().is_some() {
            self.connection.stay_closed();
            return;
        }
        let (cause, session, reconnecting) = self.connection.disconnected(now, cause);
        self.writes_disconnected(&cause);
        self.provider_disconnected();
        self.gather = None;
        self.forget_connection();
        self.forget_watches();
        if session.is_some() || !reconnecting {
            self.tell_disconnected(&cause, reconnecting);
        }
        if !reconnecting {
            self.gave_up(&cause);
        }
        self.changes += 1;
    }

    fn wants_close(&self) -> Option<Disconnect> {
        self.connection.closing().cloned()
    }

    fn poll_dial(&self) -> Option<Tick> {
        self.connection.dial_at()
    }
}
