//! Tests the audit over a connection: clients' actions are recorded with their origin, and read in pages.

use std::sync::{Arc, Mutex};

use trunkline_access::{Action, Actions};
use trunkline_client::{Write, WriteOptions, WriteOutcome};
use trunkline_engine::{
    AUDIT_NOTES_MAX, AUDIT_WAIT_MAX, Administrator, AuditRoom, Caller, Engine, LogPage, Order,
    OrderNote, Reply, Report, Rights, Wakes,
};
use trunkline_proto::message::audit::Audit;
use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::forcing::ForcingVerb;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::library::{LibraryOrder, LibraryVerb};
use trunkline_proto::message::write::WriteVerb;
use trunkline_proto::{Fault, FaultCode, Features, FrameKind, Negotiation};
use trunkline_serve::{ServeOptions, Session};
use trunkline_types::audit::AUDIT_PAGE_MAX;
use trunkline_types::{
    AuditAction, AuditEntry, AuditMode, AuditOutcome, AuditPage, AuditQuery, DataType, Moment,
    Pattern, Value,
};

use crate::rig::{Bell, Pair, Peer, World, client_options, define};

/// A host that stores the audit in memory, and answers immediately or on command.
struct Host {
    engine: Engine,
    kept: Mutex<Vec<AuditEntry>>,
    waiting: Mutex<Vec<(AuditQuery, Reply)>>,
    is_slow: bool,
}

impl Host {
    fn of(world: &World, is_slow: bool) -> Arc<Self> {
        Arc::new(Self {
            engine: world.engine(),
            kept: Mutex::default(),
            waiting: Mutex::default(),
            is_slow,
        })
    }

    fn answer(&self) {
        for (query, reply) in self.waiting.lock().unwrap().drain(..) {
            let mut kept = self.kept.lock().unwrap();
            let first = kept.len() as u64 + 1;
            kept.extend(self.engine.audit().take(first, usize::MAX));
            let from = query.from.map_or(0, |from| from as usize - 1);
            let entries = kept.iter().skip(from).cloned().map(Ok::<_, ()>);
            let (entries, next) = query.take_page(entries).unwrap();
            reply.send(Ok(Report {
                page: Some(Box::new(LogPage::Audit(AuditPage {
                    entries,
                    next,
                    removed: 3,
                    state: "kept for this test".to_owned(),
                }))),
                ..Report::default()
            }));
        }
    }
}

impl Administrator for Host {
    fn submit(&self, _caller: &Caller, order: Order, reply: Reply) {
        match order {
            Order::Audit(query) => self.waiting.lock().unwrap().push((query, reply)),
            _ => reply.send(Err(Fault::new(FaultCode::StoreFailed, "not in this test"))),
        }
        if !self.is_slow {
            self.answer();
        }
    }
}

fn world() -> World {
    World::with_library(
        "rig",
        vec![
            define("a", DataType::F64, |p| {
                p.audit = AuditMode::Complete;
                p.range = Some((0.0, 10_000.0));
            }),
            define("text", DataType::String, |p| p.audit = AuditMode::Complete),
            define("plain", DataType::F64, |_| {}),
        ],
    )
}

fn options(host: &Arc<Host>) -> ServeOptions {
    ServeOptions {
        administrator: Some(Arc::clone(host) as Arc<dyn Administrator>),
        ..ServeOptions::default()
    }
}

fn connected(world: &World, host: &Arc<Host>) -> Pair {
    let mut client = client_options();
    client.program = "probe 1.0\u{1b}[2J".to_owned();
    client.user = "ann".to_owned();
    client.pid = 4711;
    let mut pair = Pair::offline(world, options(host), client);
    pair.connect();
    pair
}

fn page(pair: &mut Pair, query: AuditQuery) -> AuditPage {
    let request = pair.client.audit(query).unwrap();
    pair.answer(request).unwrap()
}

/// Behaviour: B-24.
#[test]
fn write_of_a_client_is_noted_with_its_address_program_user_and_process() {
    let world = world();
    let host = Host::of(&world, false);
    let mut sut = connected(&world, &host);
    let [a, plain] = ["rig/a", "rig/plain"].map(|name| sut.variable(name));
    sut.write_values([
        Write::new(a, Value::F64(1.5)),
        Write::new(plain, Value::F64(1.5)),
        Write::new(a, Value::F64(-1.0)),
    ]);
    let page = page(&mut sut, AuditQuery::default());
    assert_eq!((page.removed, page.next), (3, None));
    assert_eq!(page.state, "kept for this test");
    let [put, refused] = &*page.entries else {
        panic!("{:?}", page.entries);
    };
    assert_eq!((put.number, put.action), (1, AuditAction::Put));
    assert_eq!(put.who, "loopback");
    // Control characters are removed from the peer's description, so it cannot move a terminal's cursor.
    assert_eq!(
        put.from,
        "127.0.0.1:50000, \"probe 1.0[2J\", user ann, pid 4711"
    );
    assert_eq!((&*put.name, &*put.data_type), ("rig/a", "f64"));
    assert_eq!((&*put.old, &*put.new), ("", "1.5"));
    assert!(matches!(put.outcome, AuditOutcome::Applied(at) if at.sequence == 1));
    assert_eq!(put.when, world.time().1);
    assert_eq!(refused.number, 2);
    assert!(matches!(&refused.outcome, AuditOutcome::Refused(_)));
    let info = sut.info(a);
    assert_eq!(info.properties.audit, AuditMode::Complete);
    assert_eq!(info.audit, "no host stores the entries");
    assert_eq!(sut.info(plain).audit, "");
}

#[test]
fn pages_are_bounded_and_name_where_they_continue() {
    let world = world();
    let host = Host::of(&world, false);
    let mut sut = connected(&world, &host);
    let (a, text) = (sut.variable("rig/a"), sut.variable("rig/text"));
    let long = Value::String("x".repeat(250).into());
    let count = 2 * AUDIT_PAGE_MAX + 100;
    for number in 0..count {
        sut.write_values([match number % 2 {
            0 => Write::new(a, Value::F64(number as f64)),
            _ => Write::new(text, long.clone()),
        }]);
    }
    sut.traffic = Default::default();
    let all = page(&mut sut, AuditQuery::default());
    let numbers = all.entries.iter().map(|entry| entry.number);
    assert!(numbers.eq(1..=count as u64));
    assert_eq!(sut.traffic.to_engine.count(FrameKind::Audit), 3);
    assert!(
        sut.traffic.to_client.count(FrameKind::AuditPage) > 3,
        "a page that is long comes in several frames"
    );
    let some = AuditQuery {
        limit: AUDIT_PAGE_MAX as u32 + 7,
        from: Some(10),
        pattern: Some(Pattern::parse("rig/*").unwrap()),
        who: Some("loopback".to_owned()),
        ..AuditQuery::default()
    };
    let found = page(&mut sut, some);
    assert_eq!(found.entries.len(), AUDIT_PAGE_MAX + 7);
    assert_eq!(found.entries[0].number, 10);
    assert_eq!(found.next, Some(10 + AUDIT_PAGE_MAX as u64 + 7));
    let nobody = AuditQuery {
        who: Some("nobody".to_owned()),
        ..AuditQuery::default()
    };
    assert_eq!(page(&mut sut, nobody).entries, []);
}

/// The session continues while the store is slow.
#[test]
fn session_continues_during_an_audit_query() {
    let world = world();
    let host = Host::of(&world, true);
    let mut sut = connected(&world, &host);
    let a = sut.variable("rig/a");
    let request = sut.client.audit(AuditQuery::default()).unwrap();
    sut.exchange();
    assert!(!sut.client.is_answered(request));
    sut.write_values([Write::new(a, Value::F64(1.0))]);
    assert_eq!(sut.read(&[a]).len(), 1);
    host.answer();
    assert!(sut.answer(request).is_ok());

    // If the connection breaks before the answer, the client sends the query again on the next connection.
    let request = sut.client.audit(AuditQuery::default()).unwrap();
    sut.exchange();
    sut.cut();
    sut.connect();
    sut.exchange();
    host.answer();
    let page = sut.answer(request).unwrap();
    assert_eq!(page.entries.len(), 1);
}

/// A caller without the right `audit` receives no entries. Refused orders are audited too.
///
/// Behaviour: B-24.
#[test]
fn audit_requires_its_right_and_refused_orders_are_audited() {
    let world = world();
    let host = Host::of(&world, false);
    let caller = Caller {
        rights: Rights::Uniform(
            Actions::ALL.without(Actions::of(&[Action::Audit, Action::Configure])),
        ),
        ..world.caller()
    };
    let wake = Box::new(Bell::default());
    let session = Session::new(world.engine(), Arc::new(options(&host)), caller, wake);
    let mut peer = Peer {
        world: world.clone(),
        session,
        said: Vec::new(),
    };
    let (now, wall) = world.time();
    trunkline_proto::Endpoint::handle_connected(&mut peer.session, now, wall);
    peer.say(|out| Hello::default().encode(out));
    peer.said.clear();
    peer.say(|out| Audit::default().encode(1, out));
    peer.say(|out| {
        let order = LibraryOrder {
            verb: LibraryVerb::Stop,
            library: "rig",
        };
        order.encode(2, out);
    });
    let faults = peer.frames(|frame| FaultMessage::decode(frame).unwrap().fault.code);
    assert_eq!(faults, [FaultCode::Denied, FaultCode::Denied]);
    let entries = world.engine().audit().take(1, usize::MAX);
    let [request, stop] = &*entries else {
        panic!("{entries:?}");
    };
    assert_eq!(
        (request.action, &*request.new),
        (AuditAction::Request, "AUDIT")
    );
    assert!(matches!(request.outcome, AuditOutcome::Refused(_)));
    assert_eq!((stop.action, &*stop.name), (AuditAction::Stop, "rig"));
    let AuditOutcome::Refused(rule) = &stop.outcome else {
        panic!("{stop:?}");
    };
    assert!(rule.contains("no permission to configure"), "{rule}");
}

#[test]
fn bad_pattern_or_missing_audit_host_is_a_fault() {
    let world = world();
    let mut peer = Peer::greeted(&world);
    peer.say(|out| {
        Audit {
            pattern: "a/**b",
            ..Audit::default()
        }
        .encode(1, out);
    });
    peer.say(|out| Audit::default().encode(2, out));
    let faults = peer.frames(|frame| FaultMessage::decode(frame).unwrap().fault.code);
    assert_eq!(faults, [FaultCode::BadPattern, FaultCode::NotSupported]);
}

#[test]
fn engine_of_an_older_release_is_not_asked() {
    let world = world();
    let host = Host::of(&world, false);
    let mut serve = options(&host);
    serve.negotiation = Negotiation {
        features: Features::ADMINISTRATION,
        ..Negotiation::OURS
    };
    let mut sut = Pair::offline(&world, serve, client_options());
    sut.connect();
    let request = sut.client.audit(AuditQuery::default()).unwrap();
    let fault = sut.answer(request).unwrap_err();
    assert_eq!(fault.code, FaultCode::NotSupported);
    assert_eq!(sut.traffic.to_engine.count(FrameKind::Audit), 0);
}

/// If a complete audit has no room, actions that need an entry wait until the host has stored entries. Other
/// actions continue.
///
/// Behaviour: B-24.
#[test]
fn full_audit_parks_writes_forces_and_orders_until_its_host_takes_entries() {
    let world = world();
    let host = Host::of(&world, false);
    let mut sut = connected(&world, &host);
    let [a, plain] = ["rig/a", "rig/plain"].map(|name| sut.variable(name));
    let room = full_audit(&world);
    let force = Write {
        options: WriteOptions {
            verb: Ok(WriteVerb::Force),
            ..WriteOptions::default()
        },
        ..Write::new(plain, Value::F64(9.0))
    };
    let free = sut.client.write([Write::new(plain, Value::F64(1.0))]);
    let parked = sut.client.write([Write::new(a, Value::F64(2.0)), force]);
    let (free, parked) = (free.unwrap(), parked.unwrap());
    let stop = sut.client.order_library("rig", LibraryVerb::Stop).unwrap();
    let clear = sut.client.forcing(ForcingVerb::Clear).unwrap();
    sut.exchange();
    assert!(sut.client.is_settled(free), "it needs no entry");
    assert!(!sut.client.is_settled(parked));
    assert!(sut.client.take(stop).is_none() && sut.client.take(clear).is_none());
    assert_eq!(world.sequence("rig/a"), 0);

    drop(room);
    let mut entries = world.engine().audit().take(1, usize::MAX);
    assert_eq!(entries.len(), 1, "what was noted before");
    sut.exchange();
    let outcomes = sut.client.take_outcomes(parked).unwrap();
    assert!(
        outcomes
            .iter()
            .all(|one| matches!(one, WriteOutcome::Applied(_)))
    );
    assert!(
        matches!(sut.client.take(stop), Some(Err(_))),
        "by this host"
    );
    assert!(matches!(sut.client.take(clear), Some(Ok(_))));
    entries.extend(world.engine().audit().take(2, usize::MAX));
    let actions: Vec<AuditAction> = entries.iter().map(|entry| entry.action).collect();
    assert_eq!(
        actions,
        [
            AuditAction::EngineStart,
            AuditAction::Put,
            AuditAction::Force,
            AuditAction::ForcingClear,
        ]
    );
}

/// Behaviour: B-24.
#[test]
fn full_audit_that_is_not_stored_refuses_writes_and_orders() {
    let world = world();
    let host = Host::of(&world, false);
    let mut sut = connected(&world, &host);
    let a = sut.variable("rig/a");
    let room = full_audit(&world);
    let write = sut.client.write([Write::new(a, Value::F64(2.0))]).unwrap();
    let stop = sut.client.order_library("rig", LibraryVerb::Stop).unwrap();
    sut.exchange();
    assert!(!sut.client.is_settled(write));
    sut.pass(AUDIT_WAIT_MAX);
    let outcomes = sut.client.take_outcomes(write).unwrap();
    let [WriteOutcome::Refused(fault)] = &*outcomes else {
        panic!("it is refused");
    };
    assert_eq!(fault.code, FaultCode::StoreFailed);
    assert!(
        fault.sentence.contains("trunkline limits"),
        "{}",
        fault.sentence
    );
    let fault = sut.client.take(stop).unwrap().unwrap_err();
    assert_eq!(fault.code, FaultCode::StoreFailed);
    assert_eq!(world.sequence("rig/a"), 0);
    drop(room);
}

/// Behaviour: B-24.
#[test]
fn engine_that_stops_answers_what_waits_for_its_audit() {
    let world = world();
    let host = Host::of(&world, false);
    let mut sut = connected(&world, &host);
    let a = sut.variable("rig/a");
    let room = full_audit(&world);
    let write = sut.client.write([Write::new(a, Value::F64(2.0))]).unwrap();
    let stop = sut.client.order_library("rig", LibraryVerb::Stop).unwrap();
    sut.exchange();
    assert!(!sut.client.is_settled(write));
    let goodbye = Goodbye {
        code: FaultCode::ShuttingDown,
        retry_after: None,
        sentence: "the engine is being stopped".to_owned(),
    };
    sut.session.as_mut().unwrap().shut_down(&goodbye);
    sut.wake_session();
    sut.exchange();
    assert!(sut.client.is_settled(write));
    assert!(sut.client.take(stop).is_some());
    drop(room);
    world.engine().audit().take(1, usize::MAX);
    assert_eq!(world.sequence("rig/a"), 0, "it is not carried out later");
}

/// Fills the audit. Only the entries in the result have room.
fn full_audit(world: &World) -> AuditRoom {
    let engine = world.engine();
    let (now, wall) = world.time();
    engine.audit().keep(Box::new(Bell::default()));
    let room = engine.audit().claim(AUDIT_NOTES_MAX - 1, now).unwrap();
    let note = OrderNote {
        action: AuditAction::EngineStart,
        name: "",
        effect: "",
        outcome: AuditOutcome::Done,
    };
    let own = engine.audit().claim(1, now).unwrap();
    engine.audit().note_order(
        &Caller::engine(),
        Moment { now, wall },
        note,
        &own,
        &mut Wakes::new(),
    );
    room
}
