//! Write permission: leases and single writers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use rig::{EPOCH, Rig, applied, define, done, library_of};
use trunkline_access::Action;
use trunkline_engine::{
    Caller, Granted, GroupAttempt, GroupMember, LEASE_MAX, LeaseRequest, Refusal, Variable,
    WRITERS_WAITING_MAX, Wakes, Write, WriteOutcome, WriteVerb,
};
use trunkline_types::{Access, AuditMode, AuditOutcome, DataType, Position, Properties, Value};

const TEN: Duration = Duration::from_secs(10);

fn caller(session: u32) -> Caller {
    Caller {
        origin: Arc::from(format!("program {session}")),
        ..Caller::local(session, 1000)
    }
}

fn write_as(rig: &Rig, session: u32, variable: &Variable, value: f64) -> WriteOutcome {
    let value = Value::F64(value);
    done(rig.attempt_as(&caller(session), variable, &Write::value(&value)))
}

fn lease(rig: &Rig, session: u32, x: &Variable, request: LeaseRequest) -> Result<Granted, Refusal> {
    rig.lease(&caller(session), x.handle(), request)
}

fn acquire(rig: &Rig, session: u32, x: &Variable) -> Result<Granted, Refusal> {
    lease(rig, session, x, LeaseRequest::acquire(TEN))
}

fn poll(rig: &Rig) {
    rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
}

fn single() -> (Rig, Arc<Variable>) {
    Rig::of(Properties {
        single_writer: true,
        ..Properties::new(DataType::F64)
    })
}

fn refused_by(outcome: WriteOutcome) -> String {
    match outcome {
        WriteOutcome::Refused(refusal) => refusal.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

/// Behaviour: B-22.
#[test]
fn only_the_lease_holder_writes_and_is_named_to_others() {
    let (rig, x) = Rig::plain();
    write_as(&rig, 2, &x, 0.5);
    let granted = acquire(&rig, 1, &x).unwrap();
    assert_eq!((granted.duration, granted.sequence), (TEN, 1));
    rig.advance(Duration::from_secs(4));
    let sentence = refused_by(write_as(&rig, 2, &x, 1.0));
    assert!(
        sentence.contains("program 1") && sentence.contains("6s"),
        "{sentence}"
    );
    assert_eq!(write_as(&rig, 1, &x, 1.0), applied(2));
    let held = rig.engine.leases().holder_of(&x, rig.now()).unwrap();
    assert_eq!(held.left, Some(Duration::from_secs(6)));
    assert!(held.who.contains("program 1"));
    assert!(matches!(acquire(&rig, 2, &x), Err(Refusal::Leased { .. })));
    assert!(matches!(
        lease(&rig, 2, &x, LeaseRequest::release()),
        Err(Refusal::Leased { .. })
    ));
    assert!(lease(&rig, 1, &x, LeaseRequest::release()).is_ok());
    assert_eq!(write_as(&rig, 2, &x, 2.0), applied(3));
    assert_eq!(rig.engine.leases().holder_of(&x, rig.now()), None);
    assert!(x.ledger().is_balanced());
    assert_eq!(x.ledger().refused, 1);
}

/// Behaviour: B-22.
#[test]
fn lease_expires_on_time_without_polling() {
    for polls in [false, true] {
        let (rig, x) = Rig::plain();
        acquire(&rig, 1, &x).unwrap();
        rig.advance(TEN - Duration::from_nanos(1));
        if polls {
            poll(&rig);
        }
        assert!(refused_by(write_as(&rig, 2, &x, 1.0)).contains("leased"));
        rig.advance(Duration::from_nanos(1));
        if polls {
            poll(&rig);
        }
        assert_eq!(write_as(&rig, 2, &x, 1.0), applied(1));
        assert_eq!(
            lease(&rig, 1, &x, LeaseRequest::renew(TEN)),
            Err(Refusal::NotLeased)
        );
        assert!(acquire(&rig, 2, &x).is_ok());
    }
}

/// Behaviour: B-22.
#[test]
fn the_engine_asks_to_be_polled_when_the_next_lease_ends() {
    let (rig, x) = Rig::plain();
    let due = |rig: &Rig| rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
    assert_eq!(due(&rig), None);
    acquire(&rig, 1, &x).unwrap();
    let end = rig.now().saturating_add(TEN);
    assert_eq!(due(&rig), Some(end));
    for _ in 0..1_000 {
        // Renewing a lease leaves no second expiry time.
        rig.advance(Duration::from_millis(1));
        lease(&rig, 1, &x, LeaseRequest::renew(TEN)).unwrap();
    }
    assert_eq!(due(&rig), Some(end.saturating_add(Duration::from_secs(1))));
    rig.end_leases(1);
    assert_eq!(due(&rig), None);
}

/// Behaviour: B-22.
#[test]
fn a_lease_ends_with_its_session_and_its_length_is_bounded() {
    let (rig, x) = Rig::plain();
    let forever = LeaseRequest::acquire(Duration::MAX);
    assert_eq!(lease(&rig, 1, &x, forever).unwrap().duration, LEASE_MAX);
    rig.end_leases(2);
    assert!(refused_by(write_as(&rig, 2, &x, 1.0)).contains("leased"));
    rig.end_leases(1);
    assert_eq!(write_as(&rig, 2, &x, 1.0), applied(1));
}

/// A lease with an expected position is refused if another value was written before, so no value is
/// overwritten unseen. Behaviour: B-22.
#[test]
fn lease_is_granted_only_at_the_expected_position() {
    let (rig, x) = Rig::plain();
    write_as(&rig, 2, &x, 1.0);
    let order = |epoch, sequence| {
        let expected = Some(Position { epoch, sequence });
        let request = LeaseRequest {
            expected,
            ..LeaseRequest::acquire(TEN)
        };
        rig.lease(&caller(1), x.handle(), request)
    };
    let position = |epoch, sequence| Position { epoch, sequence };
    let conflict = |expected| {
        Err(Refusal::Conflict {
            actual: position(EPOCH, 1),
            expected,
        })
    };
    assert_eq!(order(EPOCH, 0), conflict(position(EPOCH, 0)));
    assert_eq!(order(EPOCH + 1, 1), conflict(position(EPOCH + 1, 1)));
    assert_eq!(order(EPOCH, 1).unwrap().sequence, 1);
}

/// Values from the source and forcing are not client writes. Behaviour: B-22, H-27.
#[test]
fn source_values_and_forcing_override_a_lease() {
    let (rig, x) = Rig::plain();
    acquire(&rig, 1, &x).unwrap();
    assert_eq!(rig.publish(&x, 1.0), applied(1));
    let value = Value::F64(9.0);
    let mut force = Write::value(&value);
    force.verb = WriteVerb::Force;
    assert_eq!(done(rig.attempt_as(&caller(2), &x, &force)), applied(2));
    let unforce = Write::order(WriteVerb::Unforce);
    assert_eq!(done(rig.attempt_as(&caller(2), &x, &unforce)), applied(3));
}

/// Behaviour: B-22.
#[test]
fn unwritable_variables_cannot_be_leased() {
    let read_only = Properties {
        access: Access::ReadOnly,
        ..Properties::new(DataType::F64)
    };
    let (rig, x) = Rig::of(read_only);
    assert_eq!(acquire(&rig, 1, &x), Err(Refusal::ReadOnly));
    let looker = Caller {
        rights: trunkline_engine::Rights::READ,
        ..caller(1)
    };
    let request = LeaseRequest::acquire(TEN);
    let denied = rig.lease(&looker, x.handle(), request);
    assert_eq!(
        denied,
        Err(Refusal::Denied {
            action: Action::Write
        })
    );
    let unknown = rig.lease(&caller(1), 999, request);
    assert_eq!(unknown, Err(Refusal::UnknownHandle { handle: 999 }));
}

/// Behaviour: B-24.
#[test]
fn leases_of_an_audited_variable_are_in_the_audit_trail() {
    let (rig, x) = Rig::of(Properties {
        audit: AuditMode::BestEffort,
        ..Properties::new(DataType::F64)
    });
    acquire(&rig, 1, &x).unwrap();
    rig.advance(Duration::from_secs(1));
    lease(&rig, 1, &x, LeaseRequest::renew(TEN)).unwrap();
    acquire(&rig, 1, &x).unwrap();
    lease(&rig, 1, &x, LeaseRequest::release()).unwrap();
    for polls in [false, true] {
        acquire(&rig, 1, &x).unwrap();
        rig.advance(TEN);
        if polls {
            poll(&rig);
        }
    }
    acquire(&rig, 2, &x).unwrap();
    rig.end_leases(2);
    let entries = rig.engine.audit().take(1, 100).into_iter();
    let shown = entries.map(|entry| {
        assert_eq!(
            (&*entry.name, entry.outcome),
            (x.name(), AuditOutcome::Done)
        );
        format!("{} {}: {}", entry.who, entry.action, entry.new)
    });
    let expired = "engine lease end: local:1000 (program 1): its time had passed";
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "local:1000 lease take: for 10s",
            "local:1000 lease end: released",
            "local:1000 lease take: for 10s",
            expired,
            "local:1000 lease take: for 10s",
            expired,
            "local:1000 lease take: for 10s",
            "engine lease end: local:1000 (program 2): its session had ended",
        ]
    );
    // Like its writes, the leases of another variable are not recorded.
    let (rig, x) = Rig::plain();
    acquire(&rig, 1, &x).unwrap();
    assert!(rig.engine.audit().take(1, 100).is_empty());
}

/// Behaviour: B-22, B-23.
#[test]
fn a_leased_member_refuses_the_group_of_another() {
    let rig = Rig::with(vec![
        define("a", Properties::new(DataType::F64)),
        define("b", Properties::new(DataType::F64)),
    ]);
    let (a, b) = (rig.variable("rig/a"), rig.variable("rig/b"));
    acquire(&rig, 1, &b).unwrap();
    let value = Value::F64(1.0);
    let group = |session| {
        let members = [&a, &b].map(|variable| GroupMember {
            handle: variable.handle(),
            write: Write::value(&value),
        });
        let (now, wall, mut wakes) = (rig.now(), rig.wall(), Wakes::new());
        match rig
            .engine
            .groups()
            .try_write(&caller(session), now, wall, &members, &mut wakes)
        {
            GroupAttempt::Done(ended) => ended,
            other => panic!("{other:?}"),
        }
    };
    let ended = group(2);
    assert_eq!((ended.commit, ended.refused_member), (None, Some(1)));
    assert_eq!((a.sequence(), b.sequence()), (0, 0));
    assert_eq!(group(1).commit, Some(1));
}

/// Behaviour: H-19.
#[test]
fn the_first_writer_wins_and_the_next_in_the_queue_takes_over() {
    let (rig, x) = single();
    assert_eq!(write_as(&rig, 1, &x, 1.0), applied(1));
    let sentence = refused_by(write_as(&rig, 2, &x, 2.0));
    assert!(sentence.contains("program 1"), "{sentence}");
    refused_by(write_as(&rig, 3, &x, 3.0));
    refused_by(write_as(&rig, 2, &x, 2.0));
    let held = rig.engine.leases().holder_of(&x, rig.now()).unwrap();
    assert_eq!((held.left, held.waiting), (None, 2));
    rig.end_leases(1);
    assert!(refused_by(write_as(&rig, 3, &x, 3.0)).contains("program 2"));
    assert_eq!(write_as(&rig, 2, &x, 2.0), applied(2));
    rig.end_leases(3);
    rig.end_leases(2);
    assert_eq!(rig.engine.leases().holder_of(&x, rig.now()), None);
    assert_eq!(write_as(&rig, 4, &x, 4.0), applied(3));
    assert_eq!(x.ledger().refused, 4);
    assert!(x.ledger().is_balanced());
}

/// A session that only reads, or whose write was refused, does not become the single writer.
/// Behaviour: H-19.
#[test]
fn refused_write_does_not_make_a_single_writer() {
    let properties = Properties {
        single_writer: true,
        range: Some((0.0, 10.0)),
        ..Properties::new(DataType::F64)
    };
    let (rig, x) = Rig::of(properties);
    assert!(refused_by(write_as(&rig, 1, &x, 99.0)).contains("range"));
    assert_eq!(rig.publish(&x, 5.0), applied(1));
    assert_eq!(write_as(&rig, 2, &x, 2.0), applied(2));
    assert!(refused_by(write_as(&rig, 1, &x, 1.0)).contains("program 2"));
    assert_eq!(
        rig.publish(&x, 6.0),
        applied(3),
        "the source is not a client"
    );
    assert!(matches!(
        acquire(&rig, 1, &x),
        Err(Refusal::SingleWriter { .. })
    ));
    assert!(acquire(&rig, 2, &x).is_ok());
}

/// Behaviour: H-19.
#[test]
fn the_queue_of_writers_is_bounded() {
    let (rig, x) = single();
    write_as(&rig, 1, &x, 1.0);
    let last = WRITERS_WAITING_MAX as u32 + 10;
    for session in 2..=last {
        refused_by(write_as(&rig, session, &x, 2.0));
    }
    let held = rig.engine.leases().holder_of(&x, rig.now()).unwrap();
    assert_eq!(held.waiting, WRITERS_WAITING_MAX);
    rig.end_leases(1);
    assert!(refused_by(write_as(&rig, last, &x, 1.0)).contains("program 2"));
}

/// Behaviour: H-19.
#[test]
fn single_writer_property_can_be_set_and_cleared() {
    let rig = Rig::new();
    let properties = |single_writer| Properties {
        single_writer,
        ..Properties::new(DataType::F64)
    };
    let deploy = |single_writer| {
        let library = library_of("rig", vec![define("x", properties(single_writer))]);
        let (now, wall, mut wakes) = (rig.now(), rig.wall(), Wakes::new());
        rig.engine
            .libraries()
            .deploy_retained(&library, true, &|_, _| None, now, wall, &mut wakes)
            .expect("well formed");
    };
    rig.deploy("rig", vec![define("x", properties(false))]);
    let x = rig.variable("rig/x");
    assert_eq!(write_as(&rig, 1, &x, 1.0), applied(1));
    deploy(true);
    assert_eq!(write_as(&rig, 2, &x, 2.0), applied(2));
    assert!(refused_by(write_as(&rig, 1, &x, 1.0)).contains("program 2"));
    deploy(false);
    assert_eq!(write_as(&rig, 1, &x, 1.0), applied(3));
    deploy(true);
    assert_eq!(
        write_as(&rig, 1, &x, 1.0),
        applied(4),
        "no earlier holder remains"
    );
}
