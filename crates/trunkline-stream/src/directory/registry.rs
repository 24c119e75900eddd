//! Registers an endpoint's name with this machine's directory, over a separate connection.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trunkline_net::passing::{Descriptors, connect_passing};
use trunkline_net::{Clock, Dialler, Link, LinkOptions, StartError};
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::control::{decode_keepalive, encode_keepalive};
use trunkline_proto::message::stream::directory::{
    Arrived, ArrivedFrom, Register, Revoked, RevokedFor, Visitor,
};
use trunkline_proto::{
    Backoff, Disconnect, EndSeed, Endpoint, FaultCode, FrameBuffer, FrameKind, FrameLimits,
    Liveness, LivenessAction, VersionRange,
};
use trunkline_types::{SocketPath, Tick, Timestamp};

use super::Arrivals;
use super::visits::Visits;
use crate::properties::Reporter;

/// A connection that keeps a name registered until the connection is dropped. It registers the name
/// again after a restart of the engine.
pub(crate) type Registry = Link<RegistryEnd>;

/// Descriptors that arrive over the current connection.
type CurrentDescriptors = Arc<Mutex<Descriptors>>;

#[derive(Clone, Debug)]
pub(crate) enum NameState {
    Requested,
    Registered,
    Refused(FaultCode, String),
    Unreachable(Disconnect),
}

/// The client end of the connection to the directory.
pub(crate) struct RegistryEnd {
    register: Register,
    arrivals: Arc<dyn Arrivals>,
    visits: Arc<Visits>,
    descriptors: CurrentDescriptors,
    name_state: NameState,
    frames: FrameBuffer,
    out: Vec<u8>,
    liveness: Option<Liveness>,
    closing: Option<Disconnect>,
    backoff: Backoff,
    dial_at: Tick,
    reporter: Reporter,
}

/// Requests a name from the engine at `socket`. `own_seed` is the seed of the key in `register`.
pub(crate) fn start(
    socket: SocketPath,
    register: Register,
    own_seed: EndSeed,
    arrivals: Arc<dyn Arrivals>,
) -> Result<Arc<Registry>, StartError> {
    let descriptors = CurrentDescriptors::default();
    let current = descriptors.clone();
    let dialler = Dialler::pipe(move || {
        let (transport, descriptors) = connect_passing(&socket)?;
        *current.lock().unwrap_or_else(PoisonError::into_inner) = descriptors;
        Ok(transport)
    });
    let end = RegistryEnd {
        register,
        visits: Arc::new(Visits::new(Arc::clone(&arrivals), own_seed)),
        arrivals,
        descriptors,
        name_state: NameState::Requested,
        frames: FrameBuffer::new(FrameLimits::default()),
        out: Vec::new(),
        liveness: None,
        closing: None,
        backoff: Backoff::default(),
        dial_at: Tick::ZERO,
        reporter: Reporter::new(Clock::new().now()),
    };
    // This connection does not need low latency.
    let options = LinkOptions {
        spin: Duration::ZERO,
        idle: Duration::ZERO,
        ..LinkOptions::default()
    };
    Link::start(dialler, end, options)
}

/// Takes the socket that came with the current frame.
fn take_socket(descriptors: &CurrentDescriptors) -> Option<OwnedFd> {
    let descriptors = descriptors.lock();
    descriptors.unwrap_or_else(PoisonError::into_inner).take()
}

impl RegistryEnd {
    pub(crate) fn name_state(&self) -> &NameState {
        &self.name_state
    }

    fn report(&mut self, now: Tick) {
        if let Some(properties) = self.arrivals.properties() {
            let status = self.reporter.report(now, &properties);
            status.encode(&mut self.out);
        }
        for ticket in self.visits.take_ended() {
            Revoked { ticket }.encode(&mut self.out);
        }
    }

    /// Reports the connections whose rights can end. The engine may have been restarted, and does not know them
    /// then.
    fn report_guests(&mut self) {
        for (ticket, from) in self.visits.guests() {
            Arrived { ticket, bytes: &[] }.encode_from(&from, &mut self.out);
        }
    }

    fn handle_frames(&mut self, now: Tick, bytes: &mut &[u8]) -> Result<(), Disconnect> {
        while let Some(frame) = self.frames.next_frame(now, bytes)? {
            match frame.kind() {
                Some(FrameKind::StreamRegistered) => {
                    self.name_state = NameState::Registered;
                    self.backoff.reset();
                    self.report(now);
                    self.report_guests();
                }
                Some(FrameKind::StreamRefused) => {
                    let refused = Refused::decode(&frame)?;
                    self.closing = Some(Disconnect::from_refused(&refused, VersionRange::OURS));
                    self.name_state = NameState::Refused(refused.code, refused.sentence);
                }
                Some(FrameKind::StreamArrived) => {
                    let arrived = Arrived::decode(&frame)?;
                    if let Some(socket) = take_socket(&self.descriptors) {
                        let arrival = (arrived.ticket, ArrivedFrom::decode(&frame)?);
                        self.visits.accept_plain(socket, arrival, arrived.bytes);
                    }
                }
                Some(FrameKind::StreamVisitor) => {
                    let visitor = Visitor::decode(&frame)?;
                    if let Some(socket) = take_socket(&self.descriptors) {
                        let arrival = (visitor.ticket, ArrivedFrom::decode(&frame)?);
                        self.visits.accept(socket, arrival, visitor.key);
                    }
                }
                Some(FrameKind::StreamRevoked) => {
                    let RevokedFor { is_lost } = RevokedFor::decode(&frame)?;
                    self.visits
                        .revoke(&Revoked::decode(&frame)?.ticket, is_lost);
                }
                Some(FrameKind::StreamKeepalive) => {
                    let keepalive = decode_keepalive(&frame)?;
                    if let Some(liveness) = &mut self.liveness {
                        liveness.handle_keepalive(now, &keepalive);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Endpoint for RegistryEnd {
    fn handle_connected(&mut self, now: Tick, _: Timestamp) {
        self.frames = FrameBuffer::new(FrameLimits::default());
        self.closing = None;
        self.liveness = Some(Liveness::with_defaults(now));
        self.out.clear();
        self.register.encode(&mut self.out);
    }

    fn handle_input(&mut self, now: Tick, _: Timestamp, bytes: &[u8]) {
        if let Some(liveness) = &mut self.liveness {
            liveness.handle_received(now);
        }
        let mut rest = bytes;
        if let Err(cause) = self.handle_frames(now, &mut rest) {
            self.closing = Some(cause);
        }
    }

    fn poll_output(&mut self, _: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        out.append(&mut self.out);
        false
    }

    fn poll_timeout(&self) -> Option<Tick> {
        self.liveness.as_ref().map(Liveness::poll_timeout)
    }

    fn handle_timeout(&mut self, now: Tick, _: Timestamp) {
        let Some(liveness) = &mut self.liveness else {
            return;
        };
        match liveness.poll(now) {
            LivenessAction::Idle => {}
            LivenessAction::SendKeepalive => {
                encode_keepalive(&liveness.keepalive(now, 0, 0), &mut self.out);
                if matches!(self.name_state, NameState::Registered) {
                    self.report(now);
                }
            }
            LivenessAction::Dead { silent_for } => {
                self.closing = Some(Disconnect::Dead { silent_for });
            }
        }
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        self.liveness = None;
        let retry_after = cause.retry_after();
        if !matches!(self.name_state, NameState::Refused(..)) {
            self.name_state = NameState::Unreachable(cause);
        }
        let jitter = fastrand::u64(..);
        let wait = self.backoff.next(jitter, retry_after);
        self.dial_at = now.saturating_add(wait);
    }

    fn wants_close(&self) -> Option<Disconnect> {
        self.closing.clone()
    }

    fn poll_dial(&self) -> Option<Tick> {
        // The endpoint dials again even after a refusal. A refusal during creation is returned to
        // the creator as an error; a name that was registered before is requested again.
        Some(self.dial_at)
    }
}
