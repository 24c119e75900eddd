//! The client state machine: its parts, and its [`Endpoint`] interface to the driver.
//!
//! Output has this order: keep-alives first, then requests and writes in the order in which the
//! program made them, frame by frame. Acknowledgements accompany other output. Writes that wait for
//! credit do not delay requests.

mod subscriptions;
mod verbs;

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::frame::split_oversized;
use trunkline_proto::limits::{HELLO_DEADLINE, HELLO_FRAME_MAX, PAGE_BYTES};
use trunkline_proto::message::keepalive::{AckBuilder, AckHead, Grant, Keepalive};
use trunkline_proto::{
    Agreement, Channel, Disconnect, Endpoint, Fault, FaultCode, Frame, FrameKind, LivenessAction,
    ThroughputMode,
};
use trunkline_types::{Tick, Timestamp};

use crate::client_state::ClientState;
use crate::error::malformed;
use crate::event::Event;
use crate::options::ClientOptions;
use crate::parts::Parts;
use crate::request::pending::Requests;
use crate::state::{ConnectionCounters, ConnectionState, Session};
use crate::subscriptions::Subscriptions;
use crate::subscriptions::convergence::{compare_digest, handle_check, handle_repaired};
use crate::variables::VariableRef;
use crate::variables::local::LocalVariable;

/// Maximum output in bytes per call, even if the driver could take more.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// The client's end of one connection, which continues across reconnections. A driver such as
/// `trunkline_net::Link` calls it as an [`Endpoint`], and programs call the verbs.
///
/// Every verb returns at once. A request is sent when the driver next takes output. Its answer is
/// available as soon as the driver has passed in the input that contains it.
/// [`changes`](Self::changes) shows that something new has happened.
#[derive(Debug)]
pub struct ClientCore {
    parts: Parts,
    requests: Requests,
}

impl ClientCore {
    /// Returns a client that is due to dial at once.
    pub fn new(options: ClientOptions) -> Self {
        Self {
            parts: Parts::new(options),
            requests: Requests::default(),
        }
    }

    pub fn state(&self) -> ConnectionState {
        self.parts.base.connection.state()
    }

    /// Returns the security of the connection, or of the last one while it is down.
    pub fn channel(&self) -> &Channel {
        self.parts.base.connection.channel()
    }

    /// Returns the session with the engine, while the connection is up.
    pub fn session(&self) -> Option<&Session> {
        self.parts
            .base
            .connection
            .session()
            .map(|session| &**session)
    }

    /// Returns the last measured round trip of this connection.
    pub fn round_trip(&self) -> Option<Duration> {
        let connection = &self.parts.base.connection;
        connection
            .session()
            .and_then(|_| connection.liveness.round_trip())
    }

    pub fn counters(&self) -> ConnectionCounters {
        self.parts.base.connection.counters
    }

    /// Returns the throughput settings of both directions of this connection, or `None` if both
    /// ends send data at once.
    pub fn throughput_mode(&self) -> Option<ThroughputMode> {
        let gather = self.parts.base.connection.gather.as_ref();
        gather.map(|gather| gather.terms())
    }

    /// Returns a number that increases with every event that a program can wait for: an answer, an
    /// outcome, an event of a subscription, a change of the connection. If the number has not
    /// changed, nothing new has happened.
    pub fn changes(&self) -> u64 {
        self.parts.base.changes
    }

    /// Returns the number of unanswered requests and unfinished writes. To wait for any number of
    /// them, a program waits until this is 0.
    pub fn pending(&self) -> usize {
        self.requests.open() + self.parts.writes.open()
    }

    /// Returns the number of variables in use: opened, subscribed, or with queued writes.
    pub fn variables_in_use(&self) -> usize {
        self.parts.base.variables.len()
    }

    /// Returns the data for reading an open variable from shared memory; `None` if the variable is
    /// not open on this connection.
    pub fn local_variable(&self, variable: VariableRef) -> Option<LocalVariable> {
        let base = &self.parts.base;
        let session = base.connection.session()?;
        let arrival = base.connection.arrival(session.since).ok()?;
        LocalVariable::new(base.variables.get(variable)?, session, arrival.engine_wall)
    }

    /// Sends a GOODBYE and closes the connection permanently. Data that has not been sent by then
    /// is never sent. To complete everything first, wait until [`pending`](Self::pending) is 0.
    pub fn shut_down(&mut self) {
        let connection = &mut self.parts.base.connection;
        let was_closed = connection.closed().is_some();
        connection.close();
        if !was_closed && connection.closed().is_some() {
            let cause = Arc::new(Disconnect::ClosedLocally);
            self.report_disconnected(&cause, false);
            self.fail_waiting(&cause);
        }
        self.parts.base.changes += 1;
    }

    /// Dials at once: ends the wait for the next attempt, or starts again after the client has
    /// given up.
    pub fn reconnect(&mut self, now: Tick) {
        self.parts.base.connection.dial_now(now);
        self.parts.base.changes += 1;
    }

    /// Sends the gathered data with the next output, without a FLUSH frame.
    pub fn send_gathered(&mut self) {
        self.parts.base.connection.send_gathered = true;
    }

    fn report_disconnected(&mut self, cause: &Arc<Disconnect>, reconnecting: bool) {
        let cause = Arc::clone(cause);
        let event = Event::Disconnected {
            cause,
            reconnecting,
        };
        self.parts.subscriptions.connection_changed(&event);
    }

    /// Ends all requests and writes that wait for a connection, because there will be none.
    fn fail_waiting(&mut self, cause: &Arc<Disconnect>) {
        let code = match &**cause {
            Disconnect::VersionMismatch(_) => FaultCode::VersionMismatch,
            Disconnect::Refused { code, .. } | Disconnect::Goodbye { code, .. } => *code,
            Disconnect::NotTrunkline { .. } => FaultCode::Malformed,
            Disconnect::OtherUser { .. } => FaultCode::Denied,
            Disconnect::PeerClosed
            | Disconnect::Io { .. }
            | Disconnect::NameLookup { .. }
            | Disconnect::Dead { .. }
            | Disconnect::Tls { .. }
            | Disconnect::Malformed { .. }
            | Disconnect::Slow { .. }
            | Disconnect::OutOfMemory { .. }
            | Disconnect::ClosedLocally => FaultCode::ShuttingDown,
        };
        let fault = Fault::new(code, format!("not sent: {cause}"));
        self.requests.refuse_all(&mut self.parts, &fault);
        let Parts { base, writes, .. } = &mut self.parts;
        writes.refuse_unsent(&mut base.variables, &fault);
    }

    /// Ends the connection after the input that has been handled.
    fn fail(&mut self, cause: Disconnect) {
        self.parts.base.connection.fail(cause);
        self.parts.base.changes += 1;
    }

    /// Handles a frame. `epoch` is the epoch of the session; `None` before WELCOME.
    fn dispatch(
        &mut self,
        now: Tick,
        epoch: Option<u64>,
        frame: &Frame<'_>,
    ) -> Result<(), Disconnect> {
        let Self { parts, requests } = self;
        let Parts {
            base,
            writes,
            subscriptions,
            patterns,
            provider,
        } = parts;
        // A frame kind of a newer minor version is ignored (B-51).
        let Some(kind) = frame.kind() else {
            base.connection.counters.unknown_frames += 1;
            return Ok(());
        };
        let Some(epoch) = epoch else {
            return match kind {
                FrameKind::Welcome => self.handle_welcome(now, frame),
                FrameKind::Refused | FrameKind::Goodbye => {
                    Err(base.connection.dismissed(frame, &base.options)?)
                }
                _ => Err(malformed(format!("{kind} before WELCOME"))),
            };
        };
        match kind {
            FrameKind::Welcome => self.handle_welcome(now, frame),
            FrameKind::Goodbye => Err(base.connection.dismissed(frame, &base.options)?),
            FrameKind::Keepalive => {
                let keepalive = Keepalive::decode(frame)?;
                let answers = base.connection.liveness.handle_keepalive(now, &keepalive);
                base.connection.keepalive_due |= answers;
                let remote = &mut subscriptions.remote;
                compare_digest(remote, base, &keepalive);
                Ok(())
            }
            FrameKind::Updates => subscriptions.handle_updates(base, now, frame),
            FrameKind::Check => handle_check(subscriptions, &base.connection, frame),
            FrameKind::Repaired => handle_repaired(subscriptions, base, now, frame),
            FrameKind::Lost => subscriptions.handle_lost(frame),
            FrameKind::WriteAnswers => {
                let refused = |base: &mut _, handle, code| provider.refused(base, handle, code);
                let remote = &mut subscriptions.remote;
                writes.handle_answers(base, epoch, remote, frame, refused)?;
                if !requests.flushes.is_empty() {
                    requests.end_flushes(parts);
                }
                Ok(())
            }
            FrameKind::Ended => subscriptions.handle_ended(base, frame),
            FrameKind::Gone => subscriptions.handle_gone(base, frame),
            FrameKind::Appeared => {
                let is_complete = patterns.watches.handle_appeared(base, frame)?;
                match is_complete {
                    true => requests.listed(frame),
                    false => Ok(()),
                }
            }
            FrameKind::Vanished => patterns.watches.handle_vanished(base, frame),
            FrameKind::ProviderBind => provider.handle_bind(base, frame),
            FrameKind::ProviderWrite => provider.handle_write(base, frame),
            FrameKind::ProviderRequest => provider.handle_request(base, frame),
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
            | FrameKind::Controlled
            | FrameKind::AuditPage
            | FrameKind::AlarmPage
            | FrameKind::AlarmActed
            | FrameKind::AlarmEntries
            | FrameKind::HistoryRows
            | FrameKind::Forced
            | FrameKind::Paired
            | FrameKind::Requested => requests.handle_answer(parts, now, frame),
            FrameKind::Fault => requests.handle_fault(parts, frame),
            other => Err(malformed(format!(
                "an engine must not send {other} to a client"
            ))),
        }
    }

    fn handle_welcome(&mut self, now: Tick, frame: &Frame<'_>) -> Result<(), Disconnect> {
        let parts = &mut self.parts;
        let base = &mut parts.base;
        let (same_epoch, welcome) = base.connection.welcome(now, frame, &base.options)?;
        let credit = (welcome.write_credit_count, welcome.write_credit_bytes);
        parts.writes.connected(credit.0, credit.1);
        if let Some(event) = base.connection.connected_event() {
            parts.subscriptions.connection_changed(&event);
        }
        parts.subscriptions.restore(base, same_epoch);
        parts.patterns.watches.restore(base);
        parts.provider.restore(base);
        base.changes += 1;
        Ok(())
    }

    /// Appends the frames to send now. Returns true if more frames are ready.
    fn write_output(&mut self, now: Tick, budget: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let end = start.saturating_add(budget.min(OUTPUT_BYTES_MAX));
        let mut more = false;
        let ClientState {
            connection,
            options,
            ..
        } = &mut self.parts.base;
        if std::mem::take(&mut connection.hello_due) {
            // So that no copy of a password or a token is left behind when `out` grows.
            out.reserve(HELLO_FRAME_MAX as usize);
            connection.hello(options).encode(out);
        }
        if connection.is_open()
            && let Some(agreement) = connection.agreement().copied()
        {
            if std::mem::take(&mut connection.keepalive_due) {
                connection.send_gathered = true;
                let records = connection.receipt.acknowledge();
                connection.liveness.keepalive(now, records, 0).encode(out);
            }
            let page = PAGE_BYTES.min(agreement.frame_max as usize);
            loop {
                if out.len() >= end {
                    more = true;
                    break;
                }
                if !self.send_next(now, &agreement, page, out) && !self.send_background(page, out) {
                    break;
                }
            }
            self.send_ack(out.len() > start, out);
            split_oversized(out, start, agreement.frame_max);
        }
        if let Some(goodbye) = self.parts.base.connection.take_goodbye() {
            goodbye.encode(out);
        }
        more
    }

    /// Appends the next queued frame. Returns false if nothing may be sent.
    fn send_next(
        &mut self,
        now: Tick,
        agreement: &Agreement,
        page: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let front = self.requests.front(&mut self.parts.base.own_requests);
        // Some requests wait for all earlier writes, including writes that wait for credit.
        let has_earlier = |id| self.parts.writes.oldest().is_some_and(|order| order <= id);
        let request = front.filter(|id| !self.requests.waits_for_writes(*id) || !has_earlier(*id));
        let writes = match self.requests.are_handles_restored() {
            true => self.parts.writes.front(),
            false => None,
        };
        match (request, writes) {
            (None, None) => false,
            (request, Some(order)) if request.is_none_or(|request| order < request) => {
                // Sends only writes that precede the first queued request. This request may be a
                // flush, which waits only for earlier writes.
                let Parts { base, writes, .. } = &mut self.parts;
                let before = front.unwrap_or(u64::MAX);
                writes.send(base, now, before, agreement, page, out);
                true
            }
            (None, Some(_)) => false,
            (Some(id), _) => {
                self.requests.send(&mut self.parts, id, page, out);
                true
            }
        }
    }

    /// Appends the provider's output, or a check of suspect items. Returns false if there is
    /// nothing to send.
    fn send_background(&mut self, page: usize, out: &mut Vec<u8>) -> bool {
        let Parts {
            base,
            writes,
            subscriptions,
            provider,
            ..
        } = &mut self.parts;
        let Subscriptions {
            remote, suspects, ..
        } = subscriptions;
        (provider.is_waiting() && provider.send(writes, page, out))
            || (!suspects.is_empty() && suspects.send(remote, &mut base.connection, page, out))
    }

    /// Appends an acknowledgement if one is due, or if one can accompany other output.
    fn send_ack(&mut self, has_other_output: bool, out: &mut Vec<u8>) {
        let ClientState {
            connection,
            options,
            ..
        } = &mut self.parts.base;
        let (is_useful, due) = connection.receipt.due(options);
        let accompanies = is_useful && has_other_output;
        if !due && !accompanies {
            return;
        }
        // The engine may be waiting for this acknowledgement, so it is sent at once.
        connection.send_gathered |= due;
        let head = AckHead {
            records_received: connection.receipt.acknowledge(),
        };
        let mut ack = AckBuilder::begin(out, 0, &head);
        while let Some(subscription) = connection.receipt.next_grant() {
            let remote = self.parts.subscriptions.remote.get_mut(subscription);
            let more = remote.map_or(0, |remote| u64::from(remote.take_grant()));
            if more > 0 {
                ack.push(&Grant { subscription, more });
            }
        }
        ack.finish(false);
    }
}

impl Endpoint for ClientCore {
    fn handle_channel(&mut self, channel: &Channel) {
        self.parts.base.connection.set_channel(channel);
    }

    fn handle_connected(&mut self, now: Tick, _wall: Timestamp) {
        self.parts.base.connection.connected(now);
        self.parts.base.changes += 1;
    }

    fn handle_input(&mut self, now: Tick, _wall: Timestamp, bytes: &[u8]) {
        if self.parts.base.connection.closing().is_some() {
            return;
        }
        self.parts.base.connection.last_input = Some(now);
        self.parts.base.connection.liveness.handle_received(now);
        let mut input = bytes;
        loop {
            // The frame borrows the buffer, so the buffer is moved out of `self`. Handling the
            // frame may change the limits of the buffer.
            let mut frames = std::mem::take(&mut self.parts.base.connection.frames);
            let session = self.parts.base.connection.session();
            let epoch = session.map(|session| session.epoch);
            let result = match frames.next_frame(now, &mut input) {
                Ok(Some(frame)) => self.dispatch(now, epoch, &frame),
                Ok(None) => {
                    self.parts.base.connection.frames = frames;
                    break;
                }
                Err(error) => Err(error.into()),
            };
            if epoch.is_none()
                && let Some(agreement) = self.parts.base.connection.agreement()
            {
                frames.set_limits(agreement.frame_limits());
            }
            self.parts.base.connection.frames = frames;
            if let Err(cause) = result {
                return self.fail(cause);
            }
        }
        let parts = &mut self.parts;
        if parts.subscriptions.retry.is_wanted {
            parts.subscriptions.plan_retry(&mut parts.base, now);
        }
    }

    fn wants_input(&self) -> bool {
        // The client never makes the engine wait for the program. Data that the program does not
        // take is limited and counted.
        true
    }

    fn poll_output(
        &mut self,
        now: Tick,
        _wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(mut gather) = self.parts.base.connection.gather.take() else {
            self.parts.base.connection.send_gathered = false;
            return self.write_output(now, budget, out);
        };
        let produce = |room: usize, out: &mut Vec<u8>| self.write_output(now, room, out);
        let more = gather.poll_output(now, budget, out, produce);
        // If writes wait for credit, no further write can fill the buffer: they wait for the
        // answers to the writes in the buffer, which is therefore sent.
        let is_full = self.parts.writes.wait_for_credit();
        let connection = &mut self.parts.base.connection;
        let is_last = connection.closing().is_some();
        if std::mem::take(&mut connection.send_gathered) || is_full || is_last {
            gather.release(out);
        }
        connection.gather = Some(gather);
        more
    }

    fn poll_timeout(&self) -> Option<Tick> {
        if self.parts.base.connection.closing().is_some() {
            return None;
        }
        let due = [
            self.parts.base.connection.hello_deadline(),
            self.parts.writes.expire_at(),
        ];
        if !self.parts.base.connection.is_open() {
            return Tick::earliest(due);
        }
        let [hello, expire] = due;
        let gather = self.parts.base.connection.gather.as_ref();
        Tick::earliest([
            hello,
            expire,
            Some(self.parts.base.connection.liveness.poll_timeout()),
            self.parts.base.connection.frames.poll_timeout(),
            self.parts.subscriptions.retry.at,
            self.parts.provider.retry_at,
            gather.and_then(|gather| gather.poll_timeout()),
        ])
    }

    fn handle_timeout(&mut self, now: Tick, _wall: Timestamp) {
        let Parts { base, writes, .. } = &mut self.parts;
        writes.handle_timeout(base, now);
        if let Some(deadline) = self.parts.base.connection.hello_deadline() {
            if now >= deadline {
                let deadline = HELLO_DEADLINE;
                self.fail(Disconnect::Slow {
                    what: "hello",
                    deadline,
                });
            }
            return;
        }
        if !self.parts.base.connection.is_open() {
            return;
        }
        let connection = &mut self.parts.base.connection;
        let gather = connection.gather.as_mut();
        connection.send_gathered |= gather.is_some_and(|gather| gather.expire(now));
        if let Err(error) = self.parts.base.connection.frames.handle_timeout(now) {
            return self.fail(error.into());
        }
        match self.parts.base.connection.liveness.poll(now) {
            LivenessAction::Idle => {}
            LivenessAction::SendKeepalive => self.parts.base.connection.keepalive_due = true,
            LivenessAction::Dead { silent_for } => {
                return self.fail(Disconnect::Dead { silent_for });
            }
        }
        let parts = &mut self.parts;
        parts.subscriptions.retry_failed(&mut parts.base, now);
        parts.provider.handle_timeout(&mut parts.base, now);
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        if self.parts.base.connection.closed().is_some() {
            self.parts.base.connection.stay_closed();
            return;
        }
        let (cause, session, reconnecting) = self.parts.base.connection.disconnected(now, cause);
        let Self { parts, requests } = self;
        parts.writes.connection_lost(&cause);
        requests.end_flushes(parts);
        parts.provider.connection_lost();
        parts.base.variables.forget_handles();
        requests.connection_lost(parts);
        parts.subscriptions.connection_lost(&mut parts.base);
        parts.patterns.watches.connection_lost();
        if session.is_some() || !reconnecting {
            self.report_disconnected(&cause, reconnecting);
        }
        if !reconnecting {
            self.fail_waiting(&cause);
        }
        self.parts.base.changes += 1;
    }

    fn wants_close(&self) -> Option<Disconnect> {
        self.parts.base.connection.closing().cloned()
    }

    fn poll_dial(&self) -> Option<Tick> {
        self.parts.base.connection.dial_at()
    }
}
