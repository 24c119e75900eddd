//! A connection to a directory: an endpoint that has a name, or one that asks for another.

use std::sync::Arc;

use trunkline_net::Notifier;
use trunkline_proto::limits::HELLO_DEADLINE;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::StreamHello;
use trunkline_proto::message::stream::control::{
    decode_keepalive, encode_keepalive, encode_refused,
};
use trunkline_proto::message::stream::directory::{Lookup, Register, Registered, TicketGrant};
use trunkline_proto::message::stream::listing::{EndpointStatus, EndpointsQuery};
use trunkline_proto::message::stream::seal::is_frame_intact;
use trunkline_proto::stream::DirectoryLimits;
use trunkline_proto::{
    Disconnect, Endpoint, Fault, FaultCode, FrameBuffer, FrameKind, FrameLimits, Liveness,
    LivenessAction, PROTOCOL_VERSION, VersionRange,
};
use trunkline_types::{Tick, Timestamp};

use super::Bell;
use super::host::DirectoryHost;

/// A connection to a directory. Its first frame is one that [`is_first`](super::is_first) knows.
pub struct DirectorySession {
    host: Arc<DirectoryHost>,
    number: u64,
    notifier: Bell,
    frames: FrameBuffer,
    /// What was read and is not a whole frame yet, or what is to be handed over, as it came.
    read: Vec<u8>,
    out: Vec<u8>,
    liveness: Liveness,
    /// By then it has to have said what it wants.
    asks_by: Tick,
    role: Role,
    /// Whether endpoints get names over this connection.
    gives_names: bool,
    closing: Option<Disconnect>,
    /// The transport is an endpoint's from now on.
    handover: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It has not said what it wants.
    New,
    Owner,
    Asker,
    /// It wants to know what there is.
    Lister,
}

impl DirectorySession {
    /// A connection that is up since `now`.
    pub fn new(host: Arc<DirectoryHost>, notifier: Notifier, now: Tick) -> Self {
        Self::told_by(host, Bell::Net(notifier), now)
    }

    pub(crate) fn told_by(host: Arc<DirectoryHost>, notifier: Bell, now: Tick) -> Self {
        Self {
            number: host.number(),
            host,
            notifier,
            frames: FrameBuffer::new(FrameLimits::default()),
            read: Vec::new(),
            out: Vec::new(),
            liveness: Liveness::with_defaults(now),
            asks_by: now.saturating_add(HELLO_DEADLINE),
            role: Role::New,
            gives_names: true,
            closing: None,
            handover: None,
        }
    }

    /// Endpoints are only asked for over this connection: nobody gets a name, because whoever came
    /// could not be handed to it, or is not to have one.
    pub fn without_names(self) -> Self {
        Self {
            gives_names: false,
            ..self
        }
    }

    fn refuse(&mut self, fault: Fault) {
        let refused = Refused {
            code: fault.code,
            versions: VersionRange::OURS,
            retry_after: None,
            sentence: fault.sentence,
        };
        encode_refused(&refused, &mut self.out);
        self.closing = Some(Disconnect::Local);
    }

    fn grant(&mut self, grant: &TicketGrant) {
        grant.encode(&mut self.out);
    }

    fn handle_step(&mut self, step: Step) {
        match step {
            Step::Register(_) if !self.gives_names => {
                let sentence = "endpoints get no names here: ask the engine of their machine, over \
                                its Unix socket";
                self.refuse(Fault::new(FaultCode::Denied, sentence));
            }
            Step::Register(register) if self.role == Role::New => {
                self.role = Role::Owner;
                let registered = check_versions(register.versions).and_then(|()| {
                    let notifier = self.notifier.clone();
                    self.host.register_session(self.number, &register, notifier)
                });
                match registered {
                    Ok(()) => {
                        let registered = Registered {
                            lease: DirectoryLimits::default().lease,
                            url: register.url,
                        };
                        registered.encode(&mut self.out);
                    }
                    Err(fault) => self.refuse(fault),
                }
            }
            Step::Lookup(lookup) if self.role == Role::New => {
                self.role = Role::Asker;
                let asked = check_versions(lookup.versions).and_then(|()| {
                    let notifier = self.notifier.clone();
                    self.host.look_up(self.number, &lookup, notifier)
                });
                match asked {
                    Ok(Some(grant)) => self.grant(&grant),
                    Ok(None) => {}
                    Err(fault) => self.refuse(fault),
                }
            }
            Step::Hello(hello) if self.role != Role::Owner => {
                let ticket = hello.ticket.ok_or_else(|| {
                    let sentence = "an endpoint is asked for before it is greeted";
                    Fault::new(FaultCode::BadTicket, sentence)
                });
                let incarnation = hello.end.incarnation;
                let read = std::mem::take(&mut self.read);
                let redeemed =
                    ticket.and_then(|ticket| self.host.redeem(&ticket, incarnation, read));
                match redeemed {
                    Ok(number) => self.handover = Some(number),
                    Err(fault) => self.refuse(fault),
                }
            }
            Step::List(query) if matches!(self.role, Role::New | Role::Lister) => {
                self.role = Role::Lister;
                match check_versions(query.versions) {
                    Ok(()) => self.host.list(&query).encode(1, &mut self.out),
                    Err(fault) => self.refuse(fault),
                }
            }
            Step::Status(status) if self.role == Role::Owner => {
                self.host.tell(self.number, *status);
            }
            Step::Keepalive => {
                if self.role == Role::Owner && !self.host.renew(self.number) {
                    let sentence = "the name was given up while nothing was heard of its owner";
                    self.refuse(Fault::new(FaultCode::UnknownEndpoint, sentence));
                }
            }
            Step::Other => {}
            Step::Register(_)
            | Step::Lookup(_)
            | Step::Hello(_)
            | Step::List(_)
            | Step::Status(_) => {
                self.closing = Some(Disconnect::Malformed {
                    sentence: "a connection to the directory is for one endpoint".to_owned(),
                });
            }
        }
    }

    fn take_step(&mut self, now: Tick, bytes: &mut &[u8]) -> Result<Option<Step>, Disconnect> {
        let Some(frame) = self.frames.next_frame(now, bytes)? else {
            return Ok(None);
        };
        // An endpoint's word of itself goes no further than the machine.
        let is_status = frame.kind() == Some(FrameKind::StreamStatus);
        if !is_status && !is_frame_intact(&frame) {
            let sentence = "what an endpoint has said was altered on the way".to_owned();
            return Err(Disconnect::Malformed { sentence });
        }
        Ok(Some(match frame.kind() {
            Some(FrameKind::StreamRegister) => Step::Register(Register::decode(&frame)?),
            Some(FrameKind::StreamLookup) => Step::Lookup(Lookup::decode(&frame)?),
            Some(FrameKind::StreamHello) => Step::Hello(Box::new(StreamHello::decode(&frame)?)),
            Some(FrameKind::StreamList) => Step::List(EndpointsQuery::decode(&frame)?),
            Some(FrameKind::StreamStatus) => {
                Step::Status(Box::new(EndpointStatus::decode(&frame)?))
            }
            Some(FrameKind::StreamKeepalive) => {
                let keepalive = decode_keepalive(&frame)?;
                self.liveness.handle_keepalive(now, &keepalive);
                Step::Keepalive
            }
            _ => Step::Other,
        }))
    }
}

impl std::fmt::Debug for DirectorySession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectorySession")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// What a frame asks for.
enum Step {
    Register(Register),
    Lookup(Lookup),
    /// What was read from it on is as it came.
    Hello(Box<StreamHello>),
    List(EndpointsQuery),
    Status(Box<EndpointStatus>),
    Keepalive,
    Other,
}

fn check_versions(versions: VersionRange) -> Result<(), Fault> {
    let VersionRange { min, max } = versions;
    if (min..=max).contains(&PROTOCOL_VERSION) {
        return Ok(());
    }
    let sentence = format!(
        "the endpoint's program speaks versions {min} to {max} of the protocol, the directory \
         {PROTOCOL_VERSION}; update the older one"
    );
    Err(Fault::new(FaultCode::VersionMismatch, sentence))
}

impl Endpoint for DirectorySession {
    fn handle_connected(&mut self, _: Tick, _: Timestamp) {}

    fn handle_input(&mut self, now: Tick, _: Timestamp, bytes: &[u8]) {
        self.liveness.handle_received(now);
        self.read.extend_from_slice(bytes);
        let mut rest = bytes;
        while self.wants_input() {
            match self.take_step(now, &mut rest) {
                Ok(None) => break,
                Ok(Some(step)) => self.handle_step(step),
                Err(cause) => self.closing = Some(cause),
            }
            // Whole frames were taken, up to what is left.
            let taken = self.read.len().saturating_sub(rest.len());
            if self.handover.is_none() {
                self.read.drain(..taken);
            }
        }
    }

    fn wants_input(&self) -> bool {
        self.handover.is_none() && self.closing.is_none()
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        if let Some(grant) = self.host.answer(self.number) {
            self.grant(&grant);
        }
        out.append(&mut self.out);
        false
    }

    fn poll_timeout(&self) -> Option<Tick> {
        let asks_by = Some(self.asks_by).filter(|_| self.role == Role::New);
        let incomplete = self.frames.poll_timeout();
        [Some(self.liveness.poll_timeout()), asks_by, incomplete]
            .into_iter()
            .flatten()
            .min()
    }

    fn handle_timeout(&mut self, now: Tick, _: Timestamp) {
        if self.role == Role::New && now >= self.asks_by {
            self.closing.get_or_insert(Disconnect::Slow {
                what: "hello",
                deadline: HELLO_DEADLINE,
            });
        }
        if let Err(slow) = self.frames.handle_timeout(now) {
            self.closing.get_or_insert(slow.into());
        }
        match self.liveness.poll(now) {
            LivenessAction::Idle => {}
            LivenessAction::SendKeepalive => {
                encode_keepalive(&self.liveness.keepalive(now, 0, 0), &mut self.out);
            }
            LivenessAction::Dead { silent_for } => {
                self.closing = Some(Disconnect::Dead { silent_for });
            }
        }
    }

    fn handle_disconnected(&mut self, _: Tick, _: Disconnect) {
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
