//! Tests the login of a session: the decision about a HELLO that comes at once, later, too late or never,
//! and the end of an account during its session.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use trunkline_access::{Action, Actions};
use trunkline_engine::{AUDIT_NOTES_MAX, AuditRoom, Caller, Engine, EngineOptions, Rights};
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::hello::{Hello, Resume};
use trunkline_proto::message::open::{OpenBuilder, OpenOptions, OpenTerms};
use trunkline_proto::message::pair::{Pair as PairRequest, Paired};
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_proto::message::write::{WriteBuilder, WriteOptions};
use trunkline_proto::{Disconnect, Endpoint, Fault, FaultCode, FrameKind, FrameWriter};
use trunkline_serve::{
    Authenticator, LoginAnswer, LoginRefusal, LoginRequest, ServeOptions, Session, Standing,
};
use trunkline_types::{AuditMode, Contract, DataType, Moment};

use crate::rig::access::{granted, identity};
use crate::rig::{Bell, Heard, Peer, World, define, f64_variable};

const SECOND: Duration = Duration::from_secs(1);

/// Keeps the logins until the test decides on them.
#[derive(Default)]
struct Desk {
    waiting: Mutex<Vec<LoginAnswer>>,
}

impl Authenticator for Desk {
    fn authenticate(&self, _: LoginRequest<'_>, answer: LoginAnswer) {
        self.waiting.lock().unwrap().push(answer);
    }

    fn pair(&self, _: &Caller, _: &PairRequest, _: Moment) -> Result<Paired, Fault> {
        Err(Fault::new(FaultCode::NotSupported, "not in this test"))
    }
}

impl Desk {
    fn take(&self) -> LoginAnswer {
        self.waiting.lock().unwrap().remove(0)
    }

    /// Accepts the first waiting login, and returns the standing of its session.
    fn accept(&self, account: &str, rights: &Rights) -> Weak<Standing> {
        let answer = self.take();
        let identity = identity(account, rights, &answer);
        let standing = Arc::downgrade(&identity.standing);
        answer.send(Ok(identity));
        standing
    }
}

/// A session whose login is at a desk, and the bell that wakes it.
struct Guest {
    peer: Peer,
    desk: Arc<Desk>,
    bell: Bell,
}

impl Guest {
    fn silent(world: &World, desk: &Arc<Desk>) -> Self {
        world.permit(Rights::NONE);
        let options = ServeOptions {
            authenticator: Some(Arc::clone(desk) as Arc<dyn Authenticator>),
            ..ServeOptions::default()
        };
        let bell = Bell::default();
        let wake = Box::new(bell.clone());
        let mut session = Session::new(world.engine(), Arc::new(options), world.caller(), wake);
        let (now, wall) = world.time();
        session.handle_connected(now, wall);
        Self {
            peer: Peer {
                world: world.clone(),
                session,
                said: Vec::new(),
            },
            desk: Arc::clone(desk),
            bell,
        }
    }

    /// A client that has sent this HELLO, about which the desk has not decided.
    fn with_hello(world: &World, desk: &Arc<Desk>, hello: &Hello) -> Self {
        let mut guest = Self::silent(world, desk);
        guest.peer.say(|out| hello.encode(out));
        guest
    }

    fn waiting(world: &World) -> Self {
        Self::with_hello(world, &Arc::default(), &Hello::default())
    }

    /// A client whose login was accepted, and the standing of its session.
    fn admitted(world: &World, rights: &Rights) -> (Self, Arc<Standing>) {
        let mut guest = Self::waiting(world);
        let standing = guest.desk.accept("anna", rights).upgrade().unwrap();
        guest.peer.take();
        assert!(guest.peer.session.is_open());
        assert!(guest.bell.rang());
        guest.peer.said.clear();
        (guest, standing)
    }
}

fn world() -> World {
    let world = World::with_library("rig", vec![f64_variable("x")]);
    world.set("rig/x", 1.0);
    world
}

fn write(peer: &mut Peer, number: u64, handle: u32, value: f64) {
    peer.say(|out| {
        let mut write = WriteBuilder::begin(out, number);
        write.push(handle, &WriteOptions::default(), &value.to_le_bytes());
        write.finish();
    });
}

fn revoked() -> Goodbye {
    Goodbye {
        code: FaultCode::RightsChanged,
        retry_after: None,
        sentence: "the rights of this account were changed".to_owned(),
    }
}

fn value_of(world: &World, name: &str) -> f64 {
    let engine = world.engine();
    let variable = engine.resolve(&Caller::engine(), name).unwrap();
    let bytes = variable.update().value.as_slice().try_into().unwrap();
    f64::from_le_bytes(bytes)
}

/// Before the HELLO, a session accepts no other frame, whatever its kind.
///
/// Failure mode: F14, F17.
#[test]
fn every_frame_before_the_hello_ends_the_session() {
    for kind in FrameKind::ALL {
        if matches!(
            kind,
            FrameKind::Hello | FrameKind::Goodbye | FrameKind::Part
        ) {
            continue;
        }
        let desk = Arc::default();
        let mut sut = Guest::silent(&world(), &desk);
        sut.peer
            .say(|out| FrameWriter::begin(out, *kind, 1).finish(false));
        assert!(!sut.peer.session.is_open() && !sut.peer.session.is_in_handshake());
        assert!(matches!(
            sut.peer.cause(),
            Disconnect::NotTrunkline { .. } | Disconnect::Malformed { .. }
        ));
        // A peer that does not even begin like a client gets REFUSED.
        let is_farewell =
            |kind: &FrameKind| matches!(kind, FrameKind::Refused | FrameKind::Goodbye);
        let kinds = sut.peer.kinds();
        assert!(
            kinds.len() == 1 && kinds.iter().all(is_farewell),
            "{kind}: {kinds:?}"
        );
        assert_eq!(desk.waiting.lock().unwrap().len(), 0);
    }
}

/// While the login is checked, a session accepts no frame, not even a second HELLO with other proofs.
///
/// Failure mode: F14, F17.
#[test]
fn every_frame_before_the_welcome_ends_the_session() {
    for kind in FrameKind::ALL {
        if *kind == FrameKind::Part {
            continue;
        }
        let world = world();
        let mut sut = Guest::waiting(&world);
        sut.peer.say(|out| match kind {
            FrameKind::Hello => Hello::default().encode(out),
            _ => FrameWriter::begin(out, *kind, 1).finish(false),
        });
        let sentence = sut.peer.last_sentence();
        assert!(sentence.contains("before WELCOME"), "{kind}: {sentence}");
        // The late decision changes nothing.
        sut.desk.accept("anna", &Rights::ALL);
        sut.peer.take();
        assert!(!sut.peer.session.is_open(), "{kind}");
        assert!(!sut.peer.kinds().contains(&FrameKind::Welcome), "{kind}");
    }
}

/// Requests in the same bytes as the HELLO must not be carried out with rights that nobody has decided.
///
/// Failure mode: F17.
#[test]
fn request_that_arrives_with_the_hello_is_not_carried_out() {
    let world = world();
    let handle = world.handle("rig/x");
    let desk = Arc::default();
    let mut sut = Guest::silent(&world, &desk);
    sut.peer.say(|out| {
        Hello::default().encode(out);
        let mut write = WriteBuilder::begin(out, 1);
        write.push(handle, &WriteOptions::default(), &9.0_f64.to_le_bytes());
        write.finish();
    });
    desk.accept("anna", &Rights::ALL);
    sut.peer.take();
    assert!(sut.peer.last_sentence().contains("before WELCOME"));
    assert_eq!(value_of(&world, "rig/x"), 1.0);
}

/// A pending login holds the place of a handshake, and the session reads nothing more.
///
/// Failure mode: F14.
#[test]
fn pending_login_counts_as_a_handshake_and_stops_the_input() {
    let world = world();
    let mut sut = Guest::waiting(&world);
    assert!(sut.peer.session.is_in_handshake());
    assert!(!sut.peer.session.wants_input());
    assert!(!sut.peer.session.lets_writers_send());
    let deadline = world
        .time()
        .0
        .saturating_add(ServeOptions::default().hello_deadline);
    assert_eq!(sut.peer.session.poll_timeout(), Some(deadline));
    assert_eq!(sut.peer.said, b"", "nothing is said before the decision");

    assert!(!sut.bell.rang());
    sut.desk.accept("anna", &Rights::ALL);
    assert!(sut.bell.rang(), "the decision wakes the session");
    assert!(sut.peer.session.is_in_handshake(), "until it has a turn");
    sut.peer.take();
    assert!(!sut.peer.session.is_in_handshake());
    assert!(sut.peer.session.wants_input());
    let Heard::Welcome(welcome) = sut.peer.last() else {
        panic!("{:?}", sut.peer.last());
    };
    assert_eq!(welcome.account, "anna");
}

/// The session has the rights of its identity, and none before.
///
/// Failure mode: F17.
#[test]
fn session_has_the_rights_of_its_identity() {
    let world = World::with_library("rig", vec![f64_variable("x"), f64_variable("y")]);
    let rights = granted(&[(&[Action::Read, Action::Write], "rig/x")]);
    let (mut sut, _standing) = Guest::admitted(&world, &rights);
    let (x, y) = (world.handle("rig/x"), world.handle("rig/y"));
    write(&mut sut.peer, 1, x, 2.0);
    write(&mut sut.peer, 2, y, 2.0);
    assert_eq!(world.sequence("rig/x"), 1);
    assert_eq!(world.sequence("rig/y"), 0);
    let writers = world.engine();
    let variable = writers.resolve(&Caller::engine(), "rig/x").unwrap();
    let writer = writers.writers().last_writer(&variable, &Caller::engine());
    assert!(writer.starts_with("account:anna"), "{writer}");
}

/// Failure mode: F14.
#[test]
fn client_is_refused_at_the_deadline_and_a_late_decision_has_no_effect() {
    let world = world();
    let mut sut = Guest::waiting(&world);
    let deadline = sut.peer.session.poll_timeout().unwrap();
    world.advance_to(deadline);
    sut.peer.time_out();
    let Heard::Refused(refused) = sut.peer.last() else {
        panic!("{:?}", sut.peer.last());
    };
    assert_eq!(refused.code, FaultCode::Overloaded);
    assert_eq!(
        refused.retry_after,
        Some(ServeOptions::default().hello_deadline)
    );
    assert!(
        !sut.peer.session.is_in_handshake(),
        "the place is free again"
    );
    sut.peer.said.clear();

    let standing = sut.desk.accept("anna", &Rights::ALL);
    sut.peer.take();
    let handle = world.handle("rig/x");
    write(&mut sut.peer, 1, handle, 9.0);
    assert_eq!(sut.peer.said, b"", "the session is over");
    assert_eq!(value_of(&world, "rig/x"), 1.0);
    let (now, _) = world.time();
    sut.peer
        .session
        .handle_disconnected(now, Disconnect::PeerClosed);
    drop(sut);
    assert!(standing.upgrade().is_none(), "nothing keeps the identity");
}

/// A decision in time counts, even if the session has its turn only after the deadline.
#[test]
fn decision_in_time_counts_even_if_the_session_is_late() {
    let world = world();
    let mut sut = Guest::waiting(&world);
    let deadline = sut.peer.session.poll_timeout().unwrap();
    sut.desk.accept("anna", &Rights::ALL);
    world.advance_to(deadline.saturating_add(SECOND));
    sut.peer.time_out();
    assert!(matches!(sut.peer.last(), Heard::Welcome(_)));
    assert!(sut.peer.session.is_open());
}

/// Failure mode: F14.
#[test]
fn decision_about_a_closed_connection_is_dropped() {
    let world = world();
    let mut sut = Guest::waiting(&world);
    let (now, wall) = world.time();
    sut.peer
        .session
        .handle_disconnected(now, Disconnect::PeerClosed);
    assert!(!sut.peer.session.is_in_handshake());
    let standing = sut.desk.accept("anna", &Rights::ALL);
    let mut out = Vec::new();
    assert!(!sut.peer.session.poll_output(now, wall, 1 << 20, &mut out));
    assert_eq!(out, b"");
    assert!(!sut.peer.session.is_open());
    if let Some(standing) = standing.upgrade() {
        standing.end(revoked());
    }
    drop(sut);
    assert!(standing.upgrade().is_none());
}

#[test]
fn client_is_refused_if_the_login_is_dropped_without_a_decision() {
    let world = world();
    let mut sut = Guest::waiting(&world);
    drop(sut.desk.take());
    assert!(sut.bell.rang());
    sut.peer.take();
    let Heard::Refused(refused) = sut.peer.last() else {
        panic!("{:?}", sut.peer.last());
    };
    assert_eq!(refused.code, FaultCode::ShuttingDown);
    assert!(!sut.peer.session.is_open());
}

#[test]
fn refusal_reaches_the_client_with_its_time() {
    let world = world();
    let mut sut = Guest::waiting(&world);
    sut.desk.take().send(Err(LoginRefusal {
        fault: Fault::new(FaultCode::NotAuthenticated, "wrong"),
        retry_after: Some(7 * SECOND),
    }));
    sut.peer.take();
    let Heard::Refused(refused) = sut.peer.last() else {
        panic!("{:?}", sut.peer.last());
    };
    assert_eq!(refused.code, FaultCode::NotAuthenticated);
    assert_eq!(
        (refused.retry_after, &*refused.sentence),
        (Some(7 * SECOND), "wrong")
    );
    assert!(matches!(sut.peer.cause(), Disconnect::Refused { .. }));
    // No other attempt on the same connection.
    sut.peer.said.clear();
    sut.peer.say(|out| Hello::default().encode(out));
    assert_eq!(sut.peer.said, b"");
    assert_eq!(sut.desk.waiting.lock().unwrap().len(), 0);
}

/// If its account is changed, a session ends, and a write that waits is not carried out later.
///
/// Behaviour: B-24.
/// Failure mode: F17.
#[test]
fn session_ends_with_its_account_while_a_write_waits() {
    let audited = define("x", DataType::F64, |p| p.audit = AuditMode::Complete);
    let world = World::with_library("rig", vec![audited]);
    let engine = world.engine();
    engine.audit().keep(Box::new(Bell::default()));
    let room = full_audit(&engine, &world);
    let (mut sut, standing) = Guest::admitted(&world, &Rights::ALL);
    let handle = world.handle("rig/x");
    write(&mut sut.peer, 1, handle, 9.0);
    assert_eq!(sut.peer.said, b"", "the write waits for the audit");
    assert!(!sut.bell.rang());

    standing.end(revoked());
    standing.end(Goodbye {
        sentence: "a later reason".to_owned(),
        ..revoked()
    });
    assert!(sut.bell.rang(), "the session is woken");
    sut.peer.take();
    let Heard::Goodbye(goodbye) = sut.peer.last() else {
        panic!("{:?}", sut.peer.last());
    };
    assert_eq!(goodbye, revoked(), "the first reason counts");
    drop(room);
    sut.peer.take();
    assert_eq!(world.sequence("rig/x"), 0, "it is not carried out later");
}

fn full_audit(engine: &Engine, world: &World) -> AuditRoom {
    let (now, _) = world.time();
    engine.audit().claim(AUDIT_NOTES_MAX, now).unwrap()
}

/// The end of an account takes effect even for a client that does not read its answers.
///
/// Failure mode: F17.
#[test]
fn client_that_does_not_read_cannot_write_after_the_end_of_its_account() {
    let world = world();
    let (mut sut, standing) = Guest::admitted(&world, &Rights::ALL);
    let handle = world.handle("rig/x");
    let (now, wall) = world.time();
    let frame = |number: u64, value: f64| {
        let mut out = Vec::new();
        let mut write = WriteBuilder::begin(&mut out, number);
        write.push(handle, &WriteOptions::default(), &value.to_le_bytes());
        write.finish();
        out
    };
    sut.peer.session.handle_input(now, wall, &frame(1, 2.0));
    assert_eq!(value_of(&world, "rig/x"), 2.0);
    standing.end(revoked());
    sut.peer.session.handle_input(now, wall, &frame(2, 9.0));
    assert_eq!(
        value_of(&world, "rig/x"),
        2.0,
        "the answer to write 1 waits"
    );
    let mut out = Vec::new();
    sut.peer.session.poll_output(now, wall, 1, &mut out);
    sut.peer.session.handle_input(now, wall, &frame(3, 9.0));
    assert_eq!(value_of(&world, "rig/x"), 2.0);
    sut.peer.said = out;
    sut.peer.take();
    assert_eq!(
        sut.peer.kinds(),
        [FrameKind::WriteAnswers, FrameKind::Goodbye]
    );
}

/// The end of an account takes effect even while there are always more updates to send.
///
/// Failure mode: F17.
#[test]
fn session_with_more_updates_than_it_can_send_ends_with_its_account() {
    let names: Vec<String> = (0..500).map(|n| format!("v{n}")).collect();
    let variables = names.iter().map(|name| f64_variable(name)).collect();
    let world = World::with_library("rig", variables);
    let (mut sut, standing) = Guest::admitted(&world, &Rights::ALL);
    sut.peer.say(|out| {
        let terms = OpenTerms {
            options: OpenOptions::default(),
            subscribe: Some(SubscribeTerms {
                subscription: 1,
                contract: Contract::Latest,
                flags: SubscribeFlags::NONE,
            }),
        };
        let mut open = OpenBuilder::begin(out, 1, &terms);
        for name in &names {
            open.push(&format!("rig/{name}").as_bytes());
        }
        open.finish(false);
    });
    sut.peer.said.clear();
    let ((now, wall), mut said) = (world.time(), Vec::new());
    for round in 0..20 {
        for name in &names {
            world.set(&format!("rig/{name}"), f64::from(round));
        }
        if round == 10 {
            standing.end(revoked());
        }
        // A transport with little room.
        let more = sut.peer.session.poll_output(now, wall, 200, &mut said);
        if round < 10 {
            assert!(more, "there are always more updates");
        }
    }
    sut.peer.said = said;
    sut.peer.take();
    let Heard::Goodbye(goodbye) = sut.peer.last() else {
        panic!("{:?}", sut.peer.last());
    };
    assert_eq!(goodbye, revoked());
    assert!(sut.peer.records() < 500, "{} records", sut.peer.records());
}

/// An account can end between the decision and the turn of the session.
#[test]
fn account_that_ends_before_the_session_opens_ends_it_at_once() {
    let world = world();
    let mut sut = Guest::waiting(&world);
    let standing = sut.desk.accept("anna", &Rights::ALL).upgrade().unwrap();
    standing.end(revoked());
    sut.peer.take();
    assert_eq!(sut.peer.kinds(), [FrameKind::Welcome, FrameKind::Goodbye]);
    let handle = world.handle("rig/x");
    write(&mut sut.peer, 1, handle, 9.0);
    assert_eq!(value_of(&world, "rig/x"), 1.0);
}

/// A broken session can be resumed by its own account only.
///
/// Failure mode: F17.
#[test]
fn session_of_another_account_is_not_resumed() {
    for (account, is_resumed) in [("anna", true), ("ben", false)] {
        let world = World::of(Engine::new(EngineOptions::new("sut", 7)));
        world.deploy("rig", vec![f64_variable("x")]);
        world.set("rig/x", 1.0);
        let desk = Arc::<Desk>::default();
        let mut first = Guest::with_hello(&world, &desk, &Hello::default());
        desk.accept("anna", &Rights::ALL);
        first.peer.take();
        let Heard::Welcome(welcome) = first.peer.last() else {
            panic!("{:?}", first.peer.last());
        };
        first.peer.say(|out| {
            let terms = OpenTerms {
                options: OpenOptions::default(),
                subscribe: Some(SubscribeTerms {
                    subscription: 1,
                    contract: Contract::ALL,
                    flags: SubscribeFlags::NONE,
                }),
            };
            let mut open = OpenBuilder::begin(out, 1, &terms);
            open.push(&b"rig/x".as_slice());
            open.finish(false);
        });
        let (now, _) = world.time();
        first
            .peer
            .session
            .handle_disconnected(now, Disconnect::PeerClosed);

        let hello = Hello {
            resume: Some(Resume {
                epoch: welcome.epoch,
                engine_id: welcome.engine_id,
                session: welcome.session,
            }),
            ..Hello::default()
        };
        let mut second = Guest::with_hello(&world, &desk, &hello);
        desk.accept(account, &Rights::Uniform(Actions::ALL));
        second.peer.take();
        let Heard::Welcome(welcome) = second.peer.last() else {
            panic!("{:?}", second.peer.last());
        };
        assert_eq!(welcome.resumed, is_resumed, "{account}");
    }
}
