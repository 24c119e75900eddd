//! Tests which peers a directory remembers, and which connections it ends when rights end.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trunkline_proto::message::stream::Incarnation;
use trunkline_proto::message::stream::directory::{Lookup, Register, Ticket};
use trunkline_proto::{Fault, FaultCode, FrameKind, VersionRange};
use trunkline_types::{StreamUrl, Tick};

use super::gate::{Gate, SharedGate, admit};
use super::host::{Content, DirectoryHost};
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
    host: DirectoryHost,
    guest: Arc<Guest>,
    bell: SimulatedBell,
}

impl Rig {
    fn start() -> Self {
        let clock = Arc::new(SimClock::default());
        let environment = Environment::Simulated(Process::new(&clock, 7));
        Self {
            clock,
            host: DirectoryHost::simulated(environment),
            guest: Arc::default(),
            bell: SimulatedBell::default(),
        }
    }

    fn notifier(&self) -> SessionNotifier {
        SessionNotifier::Simulated(self.bell.clone())
    }

    /// Registers the endpoint over a new connection, and returns the number of the connection.
    fn register(&self, incarnation: Incarnation) -> u64 {
        let register = Register {
            url: URL.to_owned(),
            incarnation,
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
        let lookup = Lookup {
            versions: VersionRange::OURS,
            url: URL.to_owned(),
            incarnation: PEER,
            ..Lookup::default()
        };
        let lookup = admit(&*self.guest, lookup)?;
        let number = self.host.number();
        let found = self.host.look_up(number, &lookup, self.notifier())?;
        let ticket = found.unwrap().ticket;
        let gate: SharedGate = self.guest.clone();
        let content = Content::Bytes(Vec::new());
        let (number, _) = self.host.redeem(&ticket, PEER, content, &gate)?;
        let (socket, _) = UnixStream::pair().unwrap();
        self.host.hand_over(number, OwnedFd::from(socket));
        Ok(ticket)
    }

    fn end_rights(&self) {
        self.guest.0.store(true, Ordering::Relaxed);
        self.host.end_revoked();
    }
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
    assert_eq!(sut.host.take_revoked(second), [ticket]);
    assert!(sut.host.take_revoked(second).is_empty(), "one order");
    // The order may have been lost with the connection.
    sut.host.forget(second);
    let third = sut.register(ENDPOINT);
    assert_eq!(sut.host.take_revoked(third), [ticket]);
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
    assert_eq!(sut.host.take_revoked(second), [ticket]);
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
