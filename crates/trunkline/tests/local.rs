//! Variables of an engine in this process, reached without a connection.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use trunkline::local::{Attempt, Group, NextError, Refusal, Variable, WriteError, WriteOutcome};
use trunkline::realtime::{RtRead, RtWrite};
use trunkline::types::{
    Access, Contract, DataType, Fifo, LibraryDefinition, Properties, Quality, Reading, Reason,
    Timestamp, Value, VariableDefinition,
};
use trunkline::{Engine, EngineOptions};

/// Longer than any step of these tests takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn engine(change: impl Fn(&str, &mut Properties)) -> Engine {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let define = |path: &str| {
        let mut properties = Properties::new(DataType::F64);
        change(path, &mut properties);
        VariableDefinition {
            path: path.to_owned(),
            properties: Arc::new(properties),
        }
    };
    let library = LibraryDefinition {
        name: "rig".to_owned(),
        description: String::new(),
        variables: ["a", "b", "c"].map(define).to_vec(),
    };
    engine.deploy(&library).unwrap();
    engine
}

fn open(engine: &Engine) -> Vec<Variable<f64>> {
    let names = ["rig/a", "rig/b", "rig/c"];
    names.map(|name| engine.variable(name).unwrap()).into()
}

fn values(readings: &[Reading]) -> Vec<Value> {
    readings.iter().map(|r| r.sample.value.clone()).collect()
}

#[test]
fn many_writes_have_a_result_each_and_one_timestamp() {
    let engine = engine(|path, properties| {
        if path == "b" {
            properties.access = Access::ReadOnly;
        }
    });
    let sut = open(&engine);
    let results = engine.write_many(sut.iter().zip([1.0, 2.0, 3.0]));
    assert!(matches!(
        &results[..],
        [Ok(_), Err(WriteError::Refused(_)), Ok(_)]
    ));
    let (a, c) = (sut[0].read().unwrap(), sut[2].read().unwrap());
    assert_eq!((a.value, c.value), (1.0, 3.0));
    assert_eq!(a.position, results[0].as_ref().unwrap().position);
    assert!(a.engine_timestamp > Timestamp::UNIX_EPOCH);
    assert_eq!(a.engine_timestamp, c.engine_timestamp);
}

#[test]
fn the_host_publishes_as_the_source_of_a_read_only_variable() {
    let engine = engine(|path, properties| {
        if path == "b" {
            properties.access = Access::ReadOnly;
        }
    });
    let sut = open(&engine);
    let measured = Timestamp::from_nanos(1_700_000_000_000_000_000);
    let quality = Quality::uncertain(Reason::Estimated);
    let published = sut[1].publish(2.0, quality, Some(measured)).unwrap();
    let reading = sut[1].read().unwrap();
    assert_eq!((reading.value, reading.position), (2.0, published.position));
    assert_eq!(reading.source_timestamp, measured);
    assert_eq!(reading.quality.reason(), Reason::Estimated);
    sut[0].lease(PATIENCE).unwrap();
    let other = engine.variable::<f64>("rig/a").unwrap();
    assert!(matches!(other.write(1.0), Err(WriteError::Refused(_))));
    assert!(other.publish(1.0, Quality::GOOD, None).unwrap().changed);
    let of_engine = engine.variable::<bool>("_engine/audit/full").unwrap();
    let field = engine.variable::<String>("rig/a#units").unwrap();
    assert!(matches!(
        of_engine.publish(true, Quality::GOOD, None),
        Err(WriteError::Refused(_))
    ));
    assert!(matches!(
        field.publish("V".to_owned(), Quality::GOOD, None),
        Err(WriteError::Refused(_))
    ));
}

#[test]
fn group_with_a_variable_of_another_engine_is_refused() {
    let (one, two) = (engine(|_, _| {}), engine(|_, _| {}));
    let (of_one, of_two) = (open(&one), open(&two));
    let foreign = Group::new().put(&of_one[0], 42.0);
    let mixed = Group::new().put(&of_two[0], 42.0).put(&of_one[1], 42.0);
    for (group, index) in [(foreign, 0), (mixed, 1)] {
        let refused = two.write_group(&group).unwrap_err();
        assert_eq!(refused.refused_index, Some(index));
        assert!(matches!(refused.refusal, Refusal::NotGroupable { .. }));
        let message = refused.to_string();
        assert!(message.contains("belongs to another engine"), "{message}");
    }
    for variable in of_one.iter().chain(&of_two) {
        assert_eq!(variable.read().unwrap().position.sequence, 0, "not written");
    }
}

#[test]
fn group_that_is_refused_as_a_whole_has_no_refused_index() {
    let engine = engine(|_, _| {});
    let sut = open(&engine);
    let group = (0..5000).fold(Group::new(), |group, _| group.put(&sut[0], 1.0));
    let refused = engine.write_group(&group).unwrap_err();
    assert!(matches!(refused.refusal, Refusal::GroupTooLarge { .. }));
    assert_eq!(refused.refused_index, None);
}

#[test]
fn many_writes_to_one_variable_arrive_in_their_order() {
    let engine = engine(|_, _| {});
    let sut = open(&engine);
    let mut all = sut[0].subscribe(Contract::ALL).unwrap();
    all.next(Some(PATIENCE)).unwrap();
    let results = engine.write_many((1..=100).map(|n| (&sut[0], f64::from(n))));
    assert!(results.iter().all(Result::is_ok));
    let readings: Vec<Reading> = (1..=100)
        .map(|_| all.next(Some(PATIENCE)).unwrap())
        .collect();
    let expected: Vec<Value> = (1..=100).map(|n| Value::F64(f64::from(n))).collect();
    assert_eq!(values(&readings), expected);
}

/// A subscriber that reads everything delays a writer and loses nothing, with any bound.
#[test]
fn writes_wait_for_a_full_subscription_up_to_the_stall_limit() {
    let engine = engine(|_, properties| properties.stall = PATIENCE);
    let sut = open(&engine);
    let bound = Contract::All {
        elements: 3,
        bytes: 1 << 20,
    };
    let mut all = sut[0].subscribe(bound).unwrap();
    all.next(Some(PATIENCE)).unwrap();
    let taker = thread::spawn(move || -> Result<Vec<Reading>, NextError> {
        (0..1000).map(|_| all.next(Some(PATIENCE))).collect()
    });
    let results = engine.write_many((1..=1000).map(|n| (&sut[0], f64::from(n))));
    assert!(results.iter().all(Result::is_ok));
    let readings = taker.join().unwrap().unwrap();
    let expected: Vec<Value> = (1..=1000).map(|n| Value::F64(f64::from(n))).collect();
    assert_eq!(values(&readings), expected);
    assert!(readings.iter().all(|r| r.lost.count() == Some(0)));
}

#[test]
fn variable_without_timestamps_never_gets_any() {
    let engine = engine(|_, properties| properties.timestamps = false);
    let sut = open(&engine);
    sut[0].write(1.0).unwrap();
    let results = engine.write_many([(&sut[1], 2.0)]);
    assert!(results[0].is_ok());
    for variable in &sut[..2] {
        let held = variable.read().unwrap();
        let epoch = Timestamp::UNIX_EPOCH;
        assert_eq!(
            (held.source_timestamp, held.engine_timestamp),
            (epoch, epoch)
        );
    }
}

/// A program can name all types and variants that it must distinguish through this crate alone.
#[test]
fn write_outcomes_and_read_states_are_exported() {
    let engine = engine(|path, properties| {
        if path == "a" {
            properties.fifo = Fifo::Multi {
                capacity: 1,
                length: 1,
            };
        }
    });
    let mut writer = engine.rt_writer("rig/a").unwrap();
    let mut reader = engine.rt_reader("rig/a").unwrap();
    assert_eq!(reader.read::<f64>().status, RtRead::Underflow);
    assert_eq!(writer.write(1.0, Timestamp::UNIX_EPOCH), RtWrite::Written);
    let b = engine.variable::<f64>("rig/b").unwrap();
    let attempt = b.try_write(2.0);
    assert!(
        matches!(attempt, Attempt::Done(WriteOutcome::Applied(_))),
        "{attempt:?}"
    );
}
