//! Tests which peers a directory remembers, and which connections it ends when rights end.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trunkline_proto::message::stream::Incarnation;
use trunkline_proto::message::stream::directory::{EndKey, Lookup, Register, Ticket};
use trunkline_proto::{
    Channel, Disconnect, Endpoint, Fault, FaultCode, FrameBuffer, FrameKind, FrameLimits,
    VersionRange,
};
use trunkline_types::{StreamUrl, Tick, Timestamp};

use super::DirectorySession;
use super::gate::{Gate, SharedGate, admit};
use super::host::{Content, DirectoryHost, hide_in};
use super::session_notifier::{SessionNotifier, SimulatedBell};
use crate::handle::Environment;
use crate::sim::{Process, SimClock};

const URL: &str = "tl://localhost/open/in";
const ENDPOINT: Incarnation = Incarnation([1; 16]);
const PEER: Incarnation = Incarnation([2; 16]);

/// Permits everything until its rights end.
#[derive(Default)]
struct Guest(AtomicBool);

impl Gate for Guest {
    fn pass(&self, _: FrameKind, _: &StreamUrl) -> Result<(), Fault> {
        Ok(())
    }

    fn shows(&self, _: &StreamUrl) -> bool {
        true
    }

    fn may_end(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Rig {
    clock: Arc<SimClock>,
    host: Arc<DirectoryHost>,
    guest: Arc<Guest>,
    bell: SimulatedBell,
}

impl Rig {
    fn start() -> Self {
        let clock = Arc::new(SimClock::default());
        let environment = Environment::Simulated(Process::new(&clock, 7));
        Self {
            clock,
            host: Arc::new(DirectoryHost::simulated(environment)),
            guest: Arc::default(),
            bell: SimulatedBell::default(),
        }
    }

    fn notifier(&self) -> SessionNotifier {
        SessionNotifier::Simulated(self.bell.clone())
    }

    /// Registers the endpoint over a new connection, and returns the number of the connection.
    fn register(&self, incarnation: Incarnation) -> u64 {
        self.register_with(incarnation, None)
    }

    fn register_with(&self, incarnation: Incarnation, key: Option<EndKey>) -> u64 {
        let register = Register {
            url: URL.to_owned(),
            incarnation,
            key,
            ..Register::default()
        };
        let number = self.host.number();
        let register = admit(&*self.guest, register).unwrap();
        self.host
            .register_session(number, &register, self.notifier())
            .unwrap();
        number
    }

    /// Has a guest arrive at the endpoint.
    fn arrive(&self) -> Result<Ticket, Fault> {
        let lookup = admit(&*self.guest, lookup())?;
        let number = self.host.number();
        let found = self.host.look_up(number, &lookup, self.notifier(), None)?;
        let ticket = found.unwrap().ticket;
        let gate: SharedGate = self.guest.clone();
        let content = Content::Bytes(Vec::new());
        let (number, _) = self.host.redeem(&ticket, PEER.into(), content, &gate)?;
        let (socket, _) = UnixStream::pair().unwrap();
        self.host.hand_over(number, OwnedFd::from(socket));
        Ok(ticket)
    }

    /// A connection of a guest to the directory.
    fn session(&self) -> DirectorySession {
        let gate: SharedGate = self.guest.clone();
        DirectorySession::with_notifier(self.host.clone(), self.notifier(), gate, Tick::ZERO)
    }

    fn end_rights(&self) {
        self.guest.0.store(true, Ordering::Relaxed);
        self.host.end_revoked();
    }
}

fn lookup() -> Lookup {
    Lookup {
        versions: VersionRange::OURS,
        url: URL.to_owned(),
        incarnation: PEER,
        ..Lookup::default()
    }
}

/// The kinds of the frames that a session has to send.
fn sent(session: &mut DirectorySession) -> Vec<FrameKind> {
    let mut out = Vec::new();
    while session.poll_output(Tick::ZERO, Timestamp::default(), 1 << 20, &mut out) {}
    let mut frames = FrameBuffer::new(FrameLimits::default());
    let mut kinds = Vec::new();
    let mut rest = &out[..];
    while let Some(frame) = frames.next_frame(Tick::ZERO, &mut rest).unwrap() {
        kinds.extend(frame.kind());
    }
    kinds
}

/// Behaviour: B-80.
#[test]
fn endpoint_that_registers_again_still_gets_the_order_to_end_a_connection() {
    let sut = Rig::start();
    let first = sut.register(ENDPOINT);
    let ticket = sut.arrive().unwrap();
    assert!(sut.host.take_revoked(first).is_empty());
    sut.host.forget(first);
    sut.end_rights();
    // Another program uses the name meanwhile. Its connections are its own.
    let other = sut.register(Incarnation([3; 16]));
    assert!(sut.host.take_revoked(other).is_empty());
    sut.host.forget_guest(other, &ticket);
    sut.host.forget(other);
    let second = sut.register(ENDPOINT);
    assert_eq!(sut.host.take_revoked(second), [(ticket, false)]);
    assert!(sut.host.take_revoked(second).is_empty(), "one order");
    // The order may have been lost with the connection.
    sut.host.forget(second);
    let third = sut.register(ENDPOINT);
    assert_eq!(sut.host.take_revoked(third), [(ticket, false)]);
    sut.host.forget_guest(third, &ticket);
    sut.host.forget(third);
    let fourth = sut.register(ENDPOINT);
    assert!(sut.host.take_revoked(fourth).is_empty());
}

/// After a stall of the engine, the endpoint can be back before the engine has noticed that it was away.
///
/// Behaviour: B-80.
#[test]
fn endpoint_registers_again_before_its_old_connection_is_forgotten() {
    let sut = Rig::start();
    let first = sut.register(ENDPOINT);
    let ticket = sut.arrive().unwrap();
    let stalled = Tick::ZERO.saturating_add(Duration::from_secs(60));
    sut.clock.set(stalled);
    let second = sut.register(ENDPOINT);
    sut.host.forget(first);
    sut.bell.take();
    sut.end_rights();
    assert!(sut.bell.is_rung());
    assert_eq!(sut.host.take_revoked(second), [(ticket, false)]);
}

/// After a restart of the engine.
///
/// Behaviour: B-80, B-83.
#[test]
fn guests_of_an_earlier_directory_are_adopted_once_and_bounded() {
    let sut = Rig::start();
    let owner = sut.register(ENDPOINT);
    let adopt = |index: u16| {
        let mut ticket = Ticket::default();
        ticket[..2].copy_from_slice(&index.to_le_bytes());
        let gate: SharedGate = sut.guest.clone();
        sut.host.adopt_guest(owner, ticket, |_| Some(gate))
    };
    assert!((0..1024).all(adopt));
    assert!((0..1024).all(adopt), "they are known already");
    assert!(!adopt(1024));
    assert_eq!(Arc::strong_count(&sut.guest), 1 + 1024);
    assert!(sut.host.take_revoked(owner).is_empty());
    sut.end_rights();
    assert_eq!(sut.host.take_revoked(owner).len(), 1024);
}

/// Connections that have ended make room, and none is ended for another one.
///
/// Behaviour: B-80, B-83.
#[test]
fn guests_of_an_endpoint_are_bounded() {
    let sut = Rig::start();
    let owner = sut.register(ENDPOINT);
    let tickets: Vec<Ticket> = (0..1024).map(|_| sut.arrive().unwrap()).collect();
    assert_eq!(sut.arrive().unwrap_err().code, FaultCode::LimitReached);
    assert!(sut.host.take_revoked(owner).is_empty());
    sut.host.forget_guest(owner, &tickets[500]);
    sut.arrive().unwrap();
    assert_eq!(sut.arrive().unwrap_err().code, FaultCode::LimitReached);
    sut.end_rights();
    assert_eq!(sut.host.take_revoked(owner).len(), 1024);
}

/// Behaviour: B-83.
#[test]
fn endpoints_that_do_not_come_back_are_bounded() {
    let sut = Rig::start();
    for index in 0_u16..2000 {
        let mut incarnation = [0; 16];
        incarnation[..2].copy_from_slice(&index.to_le_bytes());
        let owner = sut.register(Incarnation(incarnation));
        sut.arrive().unwrap();
        sut.host.forget(owner);
    }
    assert_eq!(Arc::strong_count(&sut.guest), 1 + 1024);
}

/// Behaviour: B-83.
#[test]
fn connection_that_ends_before_it_is_handed_over_leaves_nothing() {
    let sut = Rig::start();
    sut.register(ENDPOINT);
    let key = Some([5; 32]);
    let mut frame = Vec::new();
    Lookup { key, ..lookup() }.encode(&mut frame);
    let encrypted = Channel {
        binding: Some([6; 32]),
        ..Channel::default()
    };
    // The endpoint has no key, so nothing can be handed over to it.
    let mut refused = sut.session();
    refused.handle_channel(&encrypted);
    refused.handle_input(Tick::ZERO, Timestamp::default(), &frame);
    assert_eq!(sent(&mut refused), [FrameKind::StreamRefused]);
    assert!(!sut.host.has_handovers());

    let sut = Rig::start();
    sut.register_with(ENDPOINT, key);
    let granted = || {
        let mut session = sut.session();
        session.handle_channel(&encrypted);
        session.handle_input(Tick::ZERO, Timestamp::default(), &frame);
        assert_eq!(sent(&mut session), [FrameKind::StreamPeer]);
        assert!(session.wants_handover().is_some() && sut.host.has_handovers());
        session
    };
    granted().handle_disconnected(Tick::ZERO, Disconnect::PeerClosed);
    assert!(!sut.host.has_handovers());
    granted().end(Fault::new(FaultCode::RightsChanged, "changed"), None);
    assert!(!sut.host.has_handovers());
    // The driver closes the session of a connection that is handed over, and then hands it over.
    let mut session = granted();
    let number = session.wants_handover().unwrap();
    session.handle_disconnected(Tick::ZERO, Disconnect::ClosedLocally);
    let (socket, _) = UnixStream::pair().unwrap();
    sut.host.hand_over(number, OwnedFd::from(socket));
    assert!(!sut.host.has_handovers());
    drop(session);
    assert_eq!(Arc::strong_count(&sut.guest), 2, "it has arrived");
}

/// Behaviour: B-80.
#[test]
fn peer_that_was_refused_gets_no_ticket_afterwards() {
    let sut = Rig::start();
    let mut frame = Vec::new();
    lookup().encode(&mut frame);
    let mut session = sut.session();
    session.handle_input(Tick::ZERO, Timestamp::default(), &frame);
    session.end(Fault::new(FaultCode::RightsChanged, "changed"), None);
    sut.register(ENDPOINT);
    assert_eq!(sent(&mut session), [FrameKind::StreamRefused]);
}

/// Behaviour: B-80.
#[test]
fn names_in_sentences_are_hidden() {
    struct Hides;

    impl Gate for Hides {
        fn pass(&self, _: FrameKind, _: &StreamUrl) -> Result<(), Fault> {
            Ok(())
        }

        fn shows(&self, url: &StreamUrl) -> bool {
            url.segments().next() != Some("secret")
        }
    }

    for (text, shown) in [
        ("", ""),
        ("3 readers", "3 readers"),
        ("tl://localhost/open/in", "tl://localhost/open/in"),
        ("tl://localhost/secret/in", "(hidden)"),
        (
            "tl://plant7/SECRET/in: gone; see tl://a/open/x and \"tl://a:7/secret/y\".",
            "(hidden): gone; see tl://a/open/x and \"(hidden)\".",
        ),
        ("tl://", "tl://"),
    ] {
        let mut found = text.to_owned();
        assert_eq!(hide_in(&mut found, &Hides), text != shown, "{text}");
        assert_eq!(found, shown);
    }
}
