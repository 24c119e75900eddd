//! The fast path for plain numbers has the same results as the general path.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use rig::{Rig, define, library_of};
use trunkline_engine::{
    Caller, Consumer, Granted, LeaseRequest, Refusal, Variable, Wakes, Write, WriteOutcome,
    WriteVerb,
};
use trunkline_types::{
    Access, AuditMode, Contract, DataType, Deadband, Fifo, Properties, Quality, Reason, Scope,
    Value,
};

const X: &str = "rig/x";

fn short(rig: &Rig, x: &Variable, value: f64) -> Option<u64> {
    x.write_plain(
        &rig.caller,
        rig.wall(),
        &Value::F64(value),
        &mut Wakes::new(),
    )
}

/// Writes on the general path, and returns the sequence.
fn common(rig: &Rig, x: &Variable, value: f64) -> u64 {
    let value = Value::F64(value);
    let (now, wall, mut wakes) = (rig.now(), rig.wall(), Wakes::new());
    let write = Write::value(&value);
    let attempt = rig
        .engine
        .try_write(&rig.caller, now, wall, x, &write, &mut wakes);
    match rig::done(attempt) {
        WriteOutcome::Applied(sequence) => sequence,
        other => panic!("{other:?}"),
    }
}

fn lease(rig: &Rig, x: &Variable, request: LeaseRequest) -> Result<Granted, Refusal> {
    let owner = Caller::local(9, 1000);
    rig.lease(&owner, x.handle(), request)
}

/// Returns the observable state of a variable, including its ledger.
fn seen(rig: &Rig, x: &Variable) -> String {
    format!("{:?} {:?} {:?}", x.update(), x.ledger(), rig.wall())
}

#[test]
fn both_paths_leave_the_same_state() {
    for timestamps in [true, false] {
        let properties = Properties {
            timestamps,
            ..Properties::new(DataType::F64)
        };
        let (one, x) = Rig::of(properties.clone());
        let (other, y) = Rig::of(properties);
        for step in 0..10 {
            let value = f64::from(step);
            one.advance(Duration::from_millis(3));
            other.advance(Duration::from_millis(3));
            assert_eq!(short(&one, &x, value), Some(step as u64 + 1));
            let value = Value::F64(value);
            let mut wakes = Wakes::new();
            let (caller, now, wall) = (&other.caller, other.now(), other.wall());
            other
                .engine
                .try_write(caller, now, wall, &y, &Write::value(&value), &mut wakes);
            assert_eq!(seen(&one, &x), seen(&other, &y));
        }
    }
}

#[test]
fn the_short_read_is_the_newest_update() {
    let (rig, x) = Rig::plain();
    assert_eq!(x.read_plain(&rig.caller), None, "nothing was written yet");
    for step in 1..5 {
        rig.advance(Duration::from_millis(1));
        rig.write(&x, f64::from(step));
        let (plain, update) = (x.read_plain(&rig.caller).unwrap(), x.update());
        assert_eq!(plain.sequence, update.sequence);
        assert_eq!(plain.source_timestamp, update.source_timestamp);
        assert_eq!(plain.engine_timestamp, update.engine_timestamp);
        assert_eq!(plain.quality, update.quality);
        assert_eq!(&plain.word.to_le_bytes(), update.value.as_slice());
    }
    short(&rig, &x, 0.5);
    assert_eq!(x.read_plain(&rig.caller).unwrap().sequence, 5);
}

#[test]
fn numbers_of_every_plain_type_round_trip() {
    let cases = [
        (DataType::F64, Value::F64(-0.0)),
        (DataType::F32, Value::F32(f32::NAN)),
        (DataType::I64, Value::I64(i64::MIN)),
        (DataType::I32, Value::I32(-1)),
        (DataType::Bool, Value::Bool(true)),
    ];
    for (data_type, value) in cases {
        let (rig, x) = Rig::of(Properties::new(data_type));
        let sequence = x.write_plain(&rig.caller, rig.wall(), &value, &mut Wakes::new());
        assert_eq!(sequence, Some(1));
        let held = x.sample().value;
        // NaN is not equal to itself.
        assert_eq!(format!("{held:?}"), format!("{value:?}"));
    }
}

#[test]
fn variables_with_rules_or_roles_take_the_general_path() {
    let plain = Properties::new(DataType::F64);
    let others = [
        Properties {
            range: Some((0.0, 1.0)),
            ..plain.clone()
        },
        Properties {
            access: Access::ReadOnly,
            ..plain.clone()
        },
        Properties {
            access: Access::WriteOnly,
            ..plain.clone()
        },
        Properties {
            deadband: Deadband {
                user_percent: 1.0,
                ..Deadband::default()
            },
            ..plain.clone()
        },
        Properties {
            single_writer: true,
            ..plain.clone()
        },
        Properties {
            audit: AuditMode::Complete,
            ..plain.clone()
        },
        Properties {
            scope: Scope::Process,
            fifo: Fifo::Single { length: 1 },
            ..plain.clone()
        },
        Properties::new(DataType::String),
    ];
    for properties in others {
        let (rig, x) = Rig::of(properties);
        assert!(!x.is_plain(), "{:?}", x.properties());
        assert_eq!(short(&rig, &x, 0.5), None);
        assert_eq!(x.read_plain(&rig.caller), None);
    }
    let (rig, x) = Rig::plain();
    let value = Value::I32(1);
    let mut wakes = Wakes::new();
    let sequence = x.write_plain(&rig.caller, rig.wall(), &value, &mut wakes);
    assert_eq!(sequence, None, "type");
    for wrong in [&[0; 4][..], &[0; 9], &[]] {
        let sequence = x.write_plain_wire(&rig.caller, rig.wall(), wrong, &mut wakes);
        assert_eq!(sequence, None);
    }
    let mut reader = rig.caller.clone();
    reader.rights = trunkline_engine::Rights::READ;
    let sequence = x.write_plain(&reader, rig.wall(), &Value::F64(1.0), &mut wakes);
    assert_eq!(sequence, None);
    reader.rights = trunkline_engine::Rights::NONE;
    assert_eq!(x.read_plain(&reader), None);
    assert_eq!(x.ledger().offered, 0, "no write was counted");
}

#[test]
fn fast_path_refuses_remote_writes_to_process_variables() {
    for (scope, reached) in [(Scope::Network, Some(1)), (Scope::Process, None)] {
        let (rig, x) = Rig::of(Properties {
            scope,
            ..Properties::new(DataType::F64)
        });
        let remote = Caller {
            remote: true,
            ..rig.caller.clone()
        };
        let bytes = 1.5_f64.to_le_bytes();
        let mut wakes = Wakes::new();
        let sequence = x.write_plain_wire(&remote, rig.wall(), &bytes, &mut wakes);
        assert_eq!(sequence, reached);
        let read = x.read_plain(&remote).map(|update| update.word);
        assert_eq!(read, reached.map(|_| 1.5_f64.to_bits()));
    }
}

/// Behaviour: B-05.
#[test]
fn latest_subscribers_are_notified_by_the_fast_path() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 0, Contract::Latest, &x);
    rig::drain(&mut consumer);
    for value in [1.0, 2.0] {
        assert!(short(&rig, &x, value).is_some());
    }
    let updates = rig::updates(&mut consumer);
    assert_eq!(rig::sequences(&updates), [2]);
    assert_eq!(updates[0].lost.coalesced, 1);
}

/// Behaviour: B-05.
#[test]
fn all_subscribers_get_fast_path_writes_up_to_their_bound() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 0, "all:5".parse().unwrap(), &x);
    rig::drain(&mut consumer);
    let mut shortly = 0;
    for round in 0..3 {
        let mut written = Vec::new();
        for step in 0..5 {
            let value = f64::from(step);
            shortly += usize::from(
                short(&rig, &x, value)
                    .inspect(|s| written.push(*s))
                    .is_some(),
            );
            if written.len() <= step as usize {
                written.push(common(&rig, &x, value));
            }
        }
        assert_eq!(short(&rig, &x, 9.0), None, "round {round}: it is full");
        assert_eq!(rig::sequences(&rig::updates(&mut consumer)), written);
    }
    assert_eq!(
        shortly, 12,
        "the first write of each round checks the bound on the general path"
    );
    assert_eq!(x.ledger().offered, 15);
}

/// An observer that needs the general path disables the fast one only while it exists.
#[test]
fn fast_path_is_restored_when_the_last_observer_leaves() {
    let contracts = [
        Contract::Last(2),
        Contract::First(2),
        Contract::Sampled(Duration::from_secs(1)),
    ];
    for contract in contracts {
        let (rig, x) = Rig::plain();
        let (mut one, mut other) = (rig.consumer(), rig.consumer());
        rig.subscribe(&mut one, 1, contract, &x);
        rig.subscribe(&mut other, 1, contract, &x);
        assert_eq!(short(&rig, &x, 1.0), None, "{contract}");
        one.unsubscribe(1, None, &mut Wakes::new());
        assert_eq!(
            short(&rig, &x, 1.0),
            None,
            "{contract}: one subscriber remains"
        );
        drop(other);
        assert_eq!(short(&rig, &x, 1.0), Some(1), "{contract}");
    }
}

/// An observer added to a plain variable later disables the fast path, at once and for every
/// writer.
#[test]
fn every_observer_of_a_variable_is_notified() {
    let subscribe = |rig: &Rig, x: &Arc<Variable>| {
        let mut consumer: Consumer = rig.consumer();
        rig.subscribe(&mut consumer, 0, Contract::Last(2), x);
        Box::leak(Box::new(consumer));
    };
    let order = |rig: &Rig, x: &Arc<Variable>, verb| {
        let mut write = Write::value(&Value::F64(7.0));
        write.verb = verb;
        rig.attempt(x, &write);
    };
    type Comes<'a> = &'a dyn Fn(&Rig, &Arc<Variable>);
    let comes: [(&str, Comes<'_>); 5] = [
        ("a subscriber", &subscribe),
        ("a lease", &|rig, x| {
            lease(rig, x, LeaseRequest::acquire(Duration::from_secs(10))).unwrap();
        }),
        ("forcing", &|rig, x| order(rig, x, WriteVerb::Force)),
        ("an edit", &|rig, _| {
            let edited = Properties {
                range: Some((0.0, 1.0)),
                ..Properties::new(DataType::F64)
            };
            let library = library_of("rig", vec![define("x", edited)]);
            let (now, wall) = (rig.now(), rig.wall());
            rig.engine
                .libraries()
                .deploy_retained(&library, true, &|_, _| None, now, wall, &mut Wakes::new())
                .unwrap();
        }),
        ("the end", &|rig, _| {
            let (now, wall) = (rig.now(), rig.wall());
            rig.engine
                .libraries()
                .undeploy("rig", now, wall, &mut Wakes::new())
                .unwrap();
        }),
    ];
    for (what, comes) in comes {
        let (rig, x) = Rig::plain();
        assert_eq!(short(&rig, &x, 1.0), Some(1), "{what}");
        comes(&rig, &x);
        let sequence = x.sequence();
        assert_eq!(short(&rig, &x, 2.0), None, "{what}");
        assert_eq!(x.sequence(), sequence, "{what}");
    }
    let (rig, x) = Rig::plain();
    rig.write(&x, 1.0);
    let (now, wall) = (rig.now(), rig.wall());
    rig.engine
        .libraries()
        .undeploy("rig", now, wall, &mut Wakes::new())
        .unwrap();
    assert_eq!(x.read_plain(&rig.caller), None, "{X} is gone");
    assert_ne!(x.sample().quality, Quality::bad(Reason::NoValue));
}
