//! Serves one connection to a directory. The peer registers its endpoint's name, looks up another
//! endpoint, or lists all endpoints.

use std::sync::Arc;
use std::time::Duration;

use trunkline_net::Notifier;
use trunkline_proto::frame::HEADER_BYTES;
use trunkline_proto::limits::{FRAME_DEADLINE, HELLO_DEADLINE, HELLO_FRAME_MAX};
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::control::{
    decode_keepalive, encode_keepalive, encode_refused,
};
use trunkline_proto::message::stream::directory::{
    Arrived, ArrivedFrom, EndKey, Identity, Lookup, PeerGrant, Register, Registered, Revoked,
    RevokedFor, Ticket, TicketGrant,
};
use trunkline_proto::message::stream::listing::{EndpointStatus, EndpointsQuery};
use trunkline_proto::message::stream::seal::is_frame_intact;
use trunkline_proto::message::stream::{Incarnation, StreamHello};
use trunkline_proto::stream::{DirectoryLimits, Holder};
use trunkline_proto::{
    Channel, Disconnect, Endpoint, Fault, FaultCode, Frame, FrameError, FrameHeader, FrameKind,
    Liveness, LivenessAction, PROTOCOL_VERSION, VersionRange,
};
use trunkline_types::{StreamUrl, Tick, Timestamp};

use super::SessionNotifier;
use super::gate::{Gate, SharedGate, admit};
use super::host::{Content, DirectoryHost};

/// Longest payload of S_HELLO, which describes the type of the stream's elements. All other frames
/// to a directory are limited to [`HELLO_FRAME_MAX`] bytes.
pub(super) const STREAM_HELLO_MAX: u32 = 64 << 10;
/// Answers are generated only while fewer bytes than this wait to be sent.
const OUTPUT_MAX: usize = 64 << 10;
/// Maximum number of frames handled per call, so that one connection does not delay the thread's
/// other connections.
const FRAMES_PER_CALL_MAX: usize = 64;

/// A connection to a directory. [`is_first`](super::is_first) recognises its first frame.
///
/// The memory per peer is bounded: one incomplete frame and one read from the transport as input,
/// `OUTPUT_MAX` bytes and one answer as output. A peer that does not read its answers stops its
/// own input.
pub struct DirectorySession {
    host: Arc<DirectoryHost>,
    number: u64,
    notifier: SessionNotifier,
    gate: SharedGate,
    /// The connection is encrypted between the peer and the engine.
    is_encrypted: bool,
    /// The user of the peer, if the system reports it.
    local_user: Identity,
    /// The endpoint that the peer has looked another one up for.
    requester: Option<Requester>,
    /// Unhandled input as it arrived, starting at a frame boundary.
    input: Vec<u8>,
    /// Time at which the incomplete frame at the end of the input began to arrive.
    started_at: Option<Tick>,
    /// The input contains complete frames, which the next call handles.
    has_backlog: bool,
    output: Vec<u8>,
    /// Number of bytes of `output` already passed to the transport.
    sent: usize,
    liveness: Liveness,
    /// Deadline for the first request.
    request_deadline: Tick,
    role: Role,
    /// Endpoints can register names over this connection.
    can_register: bool,
    closing: Option<Disconnect>,
    /// Number to pass to [`DirectoryHost::hand_over`]; set once the peer has redeemed its ticket.
    handover: Option<u64>,
}

#[derive(Clone, Copy)]
struct Requester {
    incarnation: Incarnation,
    key: Option<EndKey>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// No request has arrived yet.
    New,
    /// The peer has registered a name.
    Owner,
    /// The peer has looked up an endpoint.
    LookupClient,
    /// The peer lists the endpoints.
    ListClient,
}

impl DirectorySession {
    /// Creates the session of a connection. `gate` decides what the peer may do.
    pub fn new(
        host: Arc<DirectoryHost>,
        notifier: Notifier,
        gate: Arc<dyn Gate>,
        now: Tick,
    ) -> Self {
        Self::with_notifier(host, SessionNotifier::Net(notifier), gate, now)
    }

    pub(crate) fn with_notifier(
        host: Arc<DirectoryHost>,
        notifier: SessionNotifier,
        gate: SharedGate,
        now: Tick,
    ) -> Self {
        Self {
            number: host.number(),
            host,
            notifier,
            gate,
            is_encrypted: false,
            local_user: None,
            requester: None,
            input: Vec::new(),
            started_at: None,
            has_backlog: false,
            output: Vec::new(),
            sent: 0,
            liveness: Liveness::with_defaults(now),
            request_deadline: now.saturating_add(HELLO_DEADLINE),
            role: Role::New,
            can_register: true,
            closing: None,
            handover: None,
        }
    }

    /// Restricts the connection to lookups: no names are registered over it, either because
    /// arriving peers could not be handed to the owner, or because the owner must not have a name.
    pub fn without_registration(self) -> Self {
        Self {
            can_register: false,
            ..self
        }
    }

    /// Ends the connection for a reason outside of this directory: the peer is not known, or has lost
    /// its rights. A connection that is being handed over is ended as well.
    pub fn end(&mut self, fault: Fault, retry_after: Option<Duration>) {
        if self.closing.is_none() {
            self.abandon_handover();
            self.refuse_until(fault, retry_after);
        }
    }

    /// Returns who the peer is.
    fn identity(&self) -> Identity {
        self.gate.identity().or_else(|| self.local_user.clone())
    }

    fn holder(&self, incarnation: Incarnation) -> Holder {
        Holder {
            incarnation,
            identity: self.identity(),
        }
    }

    /// Gives up a handover that has not taken place.
    fn abandon_handover(&mut self) {
        if let Some(number) = self.handover.take() {
            self.host.abandon(number);
        }
    }

    /// Notes that a request for the stream with this name, as the peer states it, was refused.
    fn note_refused(&self, kind: FrameKind, url: &str, fault: &Fault) {
        let url = StreamUrl::parse(url).ok().map(|url| url.within_host());
        self.gate.note(kind, url.as_ref(), Some(fault));
    }

    fn refuse(&mut self, fault: Fault) {
        self.refuse_until(fault, None);
    }

    fn refuse_until(&mut self, fault: Fault, retry_after: Option<Duration>) {
        let refused = Refused {
            code: fault.code,
            versions: VersionRange::OURS,
            retry_after,
            sentence: fault.sentence,
        };
        encode_refused(&refused, &mut self.output);
        self.closing = Some(Disconnect::ClosedLocally);
    }

    /// Answers a lookup. An encrypted connection is handed over at once, because the two endpoints
    /// need a new encryption between them.
    fn grant(&mut self, grant: &TicketGrant) {
        let Some(requester) = self.requester.filter(|_| self.is_encrypted) else {
            grant.encode(&mut self.output);
            return;
        };
        let Requester { incarnation, key } = requester;
        let key = key.ok_or_else(|| {
            let sentence = "S_LOOKUP over an encrypted connection must contain the endpoint's key; \
                            update the endpoint's program";
            Fault::new(FaultCode::VersionMismatch, sentence)
        });
        let ticket = grant.ticket;
        let redeemed = key.and_then(|key| {
            let content = Content::Key(key);
            self.host
                .redeem(&ticket, self.holder(incarnation), content, &self.gate)
        });
        match redeemed {
            Ok((number, Some(key))) => {
                PeerGrant { ticket, key }.encode(&mut self.output);
                self.handover = Some(number);
            }
            Ok((number, None)) => {
                self.host.abandon(number);
                let sentence = "the program of the requested endpoint does not encrypt streams \
                                between machines; update it";
                self.refuse(Fault::new(FaultCode::VersionMismatch, sentence));
            }
            Err(fault) => self.refuse(fault),
        }
    }

    /// Handles a request whose frame is at the start of `input`.
    fn handle_request(&mut self, request: Request, input: &[u8]) {
        match request {
            Request::Register(register) if !self.can_register => {
                let sentence = "names cannot be registered here; register with the engine of the \
                                endpoint's machine, over its Unix socket";
                let fault = Fault::new(FaultCode::Denied, sentence);
                self.note_refused(FrameKind::StreamRegister, &register.url, &fault);
                self.refuse(fault);
            }
            Request::Register(register) if self.role == Role::New => {
                self.role = Role::Owner;
                let url = register.url.clone();
                let registered = check_versions(register.versions).and_then(|()| {
                    let register = admit(&*self.gate, register)?;
                    let notifier = self.notifier.clone();
                    let registered = self.host.register_session(self.number, &register, notifier);
                    let refused = registered.as_ref().err();
                    self.gate
                        .note(FrameKind::StreamRegister, Some(register.url()), refused);
                    registered
                });
                match registered {
                    Ok(()) => {
                        let registered = Registered {
                            lease: DirectoryLimits::default().lease,
                            url,
                        };
                        registered.encode(&mut self.output);
                    }
                    Err(fault) => self.refuse(fault),
                }
            }
            Request::Lookup(lookup) if self.role == Role::New => {
                self.role = Role::LookupClient;
                self.requester = Some(Requester {
                    incarnation: lookup.incarnation,
                    key: lookup.key,
                });
                let found = check_versions(lookup.versions).and_then(|()| {
                    let lookup = admit(&*self.gate, lookup)?;
                    let notifier = self.notifier.clone();
                    let identity = self.identity();
                    self.host.look_up(self.number, &lookup, notifier, identity)
                });
                match found {
                    Ok(Some(grant)) => self.grant(&grant),
                    Ok(None) => {}
                    Err(fault) => self.refuse(fault),
                }
            }
            Request::Hello(hello) if self.role != Role::Owner && !self.is_encrypted => {
                let ticket = hello.ticket.ok_or_else(|| {
                    let sentence = "a peer must look up an endpoint before it sends S_HELLO";
                    Fault::new(FaultCode::BadTicket, sentence)
                });
                let incarnation = hello.end.incarnation;
                let redeemed = ticket.and_then(|ticket| {
                    let content = Content::Bytes(input.to_vec());
                    self.host
                        .redeem(&ticket, self.holder(incarnation), content, &self.gate)
                });
                match redeemed {
                    Ok((number, _)) => self.handover = Some(number),
                    Err(fault) => {
                        // Other refusals have been noted.
                        if fault.code == FaultCode::BadTicket {
                            let url = &hello.end.peer_url;
                            self.note_refused(FrameKind::StreamHello, url, &fault);
                        }
                        self.refuse(fault);
                    }
                }
            }
            Request::List(query) if matches!(self.role, Role::New | Role::ListClient) => {
                self.role = Role::ListClient;
                match check_versions(query.versions) {
                    Ok(()) => {
                        let page = self.host.list(&query, &*self.gate);
                        page.encode(1, &mut self.output);
                    }
                    Err(fault) => self.refuse(fault),
                }
            }
            Request::Status(status) if self.role == Role::Owner => {
                self.host.store_status(self.number, *status);
            }
            Request::Guest(ticket, from) if self.role == Role::Owner => {
                let gate_of = |url: &StreamUrl| self.gate.guest(url, &from.identity, &from.login);
                if !self.host.adopt_guest(self.number, ticket, gate_of) {
                    Revoked { ticket }.encode(&mut self.output);
                }
            }
            Request::Revoked(Revoked { ticket }) if self.role == Role::Owner => {
                self.host.forget_guest(self.number, &ticket);
            }
            Request::Keepalive => {
                if self.role == Role::Owner && !self.host.renew(self.number) {
                    let sentence =
                        "the directory released the name because its owner was silent for too long";
                    self.refuse(Fault::new(FaultCode::UnknownEndpoint, sentence));
                }
            }
            Request::Other => {}
            Request::Register(_)
            | Request::Lookup(_)
            | Request::Hello(_)
            | Request::List(_)
            | Request::Status(_)
            | Request::Guest(..)
            | Request::Revoked(_) => {
                self.closing = Some(Disconnect::Malformed {
                    sentence: "the peer sent a second request on a connection to the directory, \
                               which serves only one endpoint"
                        .to_owned(),
                });
            }
        }
    }

    /// Decodes the frame at the start of `input`. Returns the request and the length of the frame
    /// with its header, or `None` while the frame is incomplete.
    fn decode_next(
        &mut self,
        now: Tick,
        input: &[u8],
    ) -> Result<Option<(Request, usize)>, Disconnect> {
        let Some((head, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = FrameHeader::from_bytes(head);
        let FrameHeader { kind, length, .. } = header;
        let max = match FrameKind::from_number(kind) {
            Some(FrameKind::StreamHello) => STREAM_HELLO_MAX,
            _ => HELLO_FRAME_MAX,
        };
        if length > max {
            return Err(FrameError::TooLong { kind, length, max }.into());
        }
        let Some(payload) = rest.get(..length as usize) else {
            return Ok(None);
        };
        let frame = Frame::new(header, payload)?;
        let request = self.decode_request(now, &frame)?;
        Ok(Some((request, HEADER_BYTES.saturating_add(payload.len()))))
    }

    fn decode_request(&mut self, now: Tick, frame: &Frame<'_>) -> Result<Request, Disconnect> {
        // These frames do not leave the machine, so they have no seal to detect alterations.
        let is_local = matches!(
            frame.kind(),
            Some(FrameKind::StreamStatus | FrameKind::StreamArrived | FrameKind::StreamRevoked)
        );
        if !is_local && !is_frame_intact(frame) {
            let sentence = "a frame from an endpoint was altered in transit".to_owned();
            return Err(Disconnect::Malformed { sentence });
        }
        Ok(match frame.kind() {
            Some(FrameKind::StreamRegister) => Request::Register(Register::decode(frame)?),
            Some(FrameKind::StreamLookup) => Request::Lookup(Lookup::decode(frame)?),
            Some(FrameKind::StreamHello) => Request::Hello(Box::new(StreamHello::decode(frame)?)),
            Some(FrameKind::StreamList) => Request::List(EndpointsQuery::decode(frame)?),
            Some(FrameKind::StreamStatus) => {
                Request::Status(Box::new(EndpointStatus::decode(frame)?))
            }
            Some(FrameKind::StreamArrived) => {
                let Arrived { ticket, .. } = Arrived::decode(frame)?;
                Request::Guest(ticket, ArrivedFrom::decode(frame)?)
            }
            Some(FrameKind::StreamRevoked) => Request::Revoked(Revoked::decode(frame)?),
            Some(FrameKind::StreamKeepalive) => {
                let keepalive = decode_keepalive(frame)?;
                self.liveness.handle_keepalive(now, &keepalive);
                Request::Keepalive
            }
            _ => Request::Other,
        })
    }

    /// Handles the frames of the input until the limit per call is reached or the output is full.
    fn run(&mut self, now: Tick) {
        let mut input = std::mem::take(&mut self.input);
        let (mut at, mut frames) = (0, 0);
        let mut is_complete = true;
        while is_complete && frames < FRAMES_PER_CALL_MAX && self.has_room() && !self.is_over() {
            let rest = input.get(at..).unwrap_or_default();
            match self.decode_next(now, rest) {
                Ok(None) => is_complete = false,
                Ok(Some((request, length))) => {
                    self.handle_request(request, rest);
                    at = at.saturating_add(length);
                }
                Err(cause) => self.closing = Some(cause),
            }
            frames += 1;
        }
        if self.is_over() {
            self.has_backlog = false;
            return;
        }
        if at > 0 {
            input.drain(..at);
            self.started_at = None;
        }
        self.has_backlog = is_complete && !input.is_empty();
        if input.is_empty() || self.has_backlog {
            self.started_at = None;
        } else {
            self.started_at.get_or_insert(now);
        }
        self.input = input;
    }

    fn has_room(&self) -> bool {
        self.unsent() < OUTPUT_MAX
    }

    /// Bytes waiting to be sent.
    pub fn unsent(&self) -> usize {
        self.output.len().saturating_sub(self.sent)
    }

    /// Bytes of input not handled yet.
    pub fn buffered_bytes(&self) -> usize {
        self.input.len()
    }

    /// Returns true if this session ignores further input.
    fn is_over(&self) -> bool {
        self.handover.is_some() || self.closing.is_some()
    }

    fn frame_deadline(&self) -> Option<Tick> {
        let started_at = self.started_at?;
        Some(started_at.saturating_add(FRAME_DEADLINE))
    }
}

impl std::fmt::Debug for DirectorySession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectorySession")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

enum Request {
    Register(Register),
    Lookup(Lookup),
    /// The input from this frame on is handed over unchanged.
    Hello(Box<StreamHello>),
    List(EndpointsQuery),
    Status(Box<EndpointStatus>),
    /// The connection of a peer exists.
    Guest(Ticket, ArrivedFrom),
    /// The connection of a peer has ended.
    Revoked(Revoked),
    Keepalive,
    Other,
}

fn check_versions(versions: VersionRange) -> Result<(), Fault> {
    let VersionRange { min, max } = versions;
    if (min..=max).contains(&PROTOCOL_VERSION) {
        return Ok(());
    }
    let sentence = format!(
        "the endpoint's program supports versions {min} to {max} of the protocol, but the directory \
         supports version {PROTOCOL_VERSION}; update the older program"
    );
    Err(Fault::new(FaultCode::VersionMismatch, sentence))
}

impl Endpoint for DirectorySession {
    fn handle_channel(&mut self, channel: &Channel) {
        self.is_encrypted = channel.binding.is_some();
        self.local_user = channel.uid.map(|uid| format!("local:{uid}").into());
    }

    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, now: Tick, _: Timestamp, bytes: &[u8]) {
        if self.is_over() {
            return;
        }
        self.liveness.handle_received(now);
        self.input.extend_from_slice(bytes);
        self.run(now);
    }

    fn wants_input(&self) -> bool {
        !self.is_over() && !self.has_backlog && self.has_room()
    }

    fn poll_output(&mut self, now: Tick, _: Timestamp, budget: usize, out: &mut Vec<u8>) -> bool {
        let answer = self.host.answer(self.number);
        // A refused peer gets no answer after the refusal.
        match answer.filter(|_| self.closing.is_none()) {
            Some(Ok(grant)) => self.grant(&grant),
            Some(Err(fault)) => self.refuse(fault),
            None => {}
        }
        if self.role == Role::Owner {
            for (ticket, is_lost) in self.host.take_revoked(self.number) {
                Revoked { ticket }.encode_for(&RevokedFor { is_lost }, &mut self.output);
            }
        }
        let had_room = self.has_room();
        let unsent = self.output.get(self.sent..).unwrap_or_default();
        let chunk = unsent.get(..budget).unwrap_or(unsent);
        out.extend_from_slice(chunk);
        if !had_room && !chunk.is_empty() {
            // The peer is reading, so it is alive. Its input was not read while the output was full.
            self.liveness.handle_received(now);
        }
        self.sent = self.sent.saturating_add(chunk.len());
        if self.unsent() == 0 {
            self.output = Vec::new();
            self.sent = 0;
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        if self.has_backlog && self.has_room() {
            self.run(now);
        }
        self.unsent() > 0 || self.has_backlog
    }

    fn poll_timeout(&self) -> Option<Tick> {
        let request_deadline = Some(self.request_deadline).filter(|_| self.role == Role::New);
        let incomplete = self.frame_deadline();
        [
            Some(self.liveness.poll_timeout()),
            request_deadline,
            incomplete,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn handle_timeout(&mut self, now: Tick, _: Timestamp) {
        if self.role == Role::New && now >= self.request_deadline {
            self.closing.get_or_insert(Disconnect::Slow {
                what: "hello",
                deadline: HELLO_DEADLINE,
            });
        }
        if self.frame_deadline().is_some_and(|due| now >= due) {
            let deadline = FRAME_DEADLINE;
            let slow = FrameError::Slow { deadline };
            self.closing.get_or_insert(slow.into());
        }
        match self.liveness.poll(now) {
            LivenessAction::Idle => {}
            // The peer begins a new encryption, in which this would be a fault.
            LivenessAction::SendKeepalive if self.handover.is_some() => {}
            LivenessAction::SendKeepalive => {
                encode_keepalive(&self.liveness.keepalive(now, 0, 0), &mut self.output);
            }
            LivenessAction::Dead { silent_for } => {
                self.closing = Some(Disconnect::Dead { silent_for });
            }
        }
    }

    fn handle_disconnected(&mut self, _: Tick, cause: Disconnect) {
        // A transport that is handed over is closed locally just before.
        if cause != Disconnect::ClosedLocally {
            self.abandon_handover();
        }
        self.host.forget(self.number);
    }

    fn wants_close(&self) -> Option<Disconnect> {
        self.closing.clone()
    }

    fn is_in_handshake(&self) -> bool {
        self.role == Role::New
    }

    fn wants_handover(&self) -> Option<u64> {
        self.handover
    }
}
