//! Tests readings: time and quality, the client's copy of values, and how variables are opened for it.

use trunkline_client::{Need, OpenOptions, Write, WriteOptions, WriteOutcome, contract_of_buffer};
use trunkline_proto::FaultCode;
use trunkline_types::{
    Access, Clock, ClockSync, Contract, DataType, Level, Quality, Reason, Timestamp, Value,
};

use crate::rig::{Pair, World, define, sequences, value};

fn stamped(variable: trunkline_client::VariableRef, nanos: i64, quality: Option<Quality>) -> Write {
    let source_timestamp = Some(Timestamp::from_nanos(nanos));
    let options = WriteOptions {
        source_timestamp,
        quality,
        ..WriteOptions::default()
    };
    Write {
        options,
        ..Write::new(variable, Value::F64(1.0))
    }
}

/// Behaviour: B-40.
#[test]
fn reading_has_source_time_clock_and_engine_time() {
    let mut sut = Pair::of(&["x"]);
    let (id, x) = (sut.subscribe(&["rig/x"], "all"), sut.variable("rig/x"));
    sut.readings(id);
    let (_, wall) = sut.world.time();
    let measured = wall.as_nanos() + 123_456_789;
    let quality = Quality::GOOD.with_clock(Clock::Source, ClockSync::Synchronised);
    sut.write_values([stamped(x, measured, Some(quality))]);
    sut.write([(x, 2.0)]);
    let readings = sut.readings(id);
    let sample = &readings[0].sample;
    assert_eq!(sample.source_timestamp.as_nanos(), measured);
    assert_eq!(sample.engine_timestamp, wall);
    assert_eq!(sample.quality.clock(), Clock::Source);
    assert_eq!(sample.quality.clock_sync(), ClockSync::Synchronised);
    // There is no source time: both times are the engine's.
    let sample = &readings[1].sample;
    assert_eq!(
        (sample.source_timestamp, sample.engine_timestamp),
        (wall, wall)
    );
    assert_eq!(sample.quality.clock(), Clock::Engine);
}

/// Behaviour: B-41.
#[test]
fn a_sample_of_an_unset_clock_is_marked_and_a_late_one_is_refused() {
    let mut sut = Pair::of(&["x"]);
    let x = sut.variable("rig/x");
    let (_, wall) = sut.world.time();
    sut.write_values([stamped(x, 17, None)]);
    let sample = sut.read(&[x]).remove(0).unwrap().sample;
    assert_eq!(sample.source_timestamp, wall);
    assert_eq!(sample.quality.reason(), Reason::ClockUnset);
    assert_eq!(sample.quality.clock_sync(), ClockSync::Unset);
    sut.write_values([stamped(x, wall.as_nanos(), None)]);
    let outcomes = sut.write_values([stamped(x, wall.as_nanos() - 1, None)]);
    assert!(matches!(&outcomes[0], WriteOutcome::Refused(f) if f.code == FaultCode::Late));
    assert_eq!(sut.world.sequence("rig/x"), 3);
}

/// Behaviour: VS-09, VS-10.
#[test]
fn client_reads_its_complete_copy_without_a_request() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "latest");
    sut.world.set("rig/x", 3.0);
    sut.exchange();
    sut.traffic = Default::default();
    let (now, wall) = sut.world.time();
    for _ in 0..100 {
        let copy = sut.client.value(now, id, 0).unwrap();
        assert_eq!(
            (value(&copy), copy.position.sequence, copy.stale),
            (3.0, 2, None)
        );
        assert_eq!(copy.sample.engine_timestamp, wall);
        assert_eq!(copy.sample.quality.level(), Level::Good);
        sut.exchange();
    }
    assert_eq!(sut.traffic.to_engine.kinds, [0_u8; 0]);
    // The engine must report this.
    sut.world.set("rig/x", 4.0);
    sut.exchange();
    assert_eq!(value(&sut.client.value(now, id, 0).unwrap()), 4.0);
    assert_eq!(sut.traffic.to_engine.kinds, [0_u8; 0]);
}

/// Behaviour: API-09.
#[test]
fn each_connection_gets_a_value_as_new_once_and_as_current_always() {
    let mut sut = Pair::of(&["x"]);
    let mut other = Pair::on(&sut.world);
    let (a, b) = (
        sut.subscribe(&["rig/x"], "latest"),
        other.subscribe(&["rig/x"], "latest"),
    );
    let (now, _) = sut.world.time();
    assert!(sut.client.read_new(now, a, 0).is_some());
    assert!(sut.client.read_new(now, a, 0).is_none());
    // A value that one connection has read is new for another.
    assert!(other.client.read_new(now, b, 0).is_some());
    assert!(other.client.read_new(now, b, 0).is_none());
    assert_eq!(value(&sut.client.read_current(now, a, 0).unwrap()), 0.0);
    sut.world.set("rig/x", 1.0);
    sut.exchange();
    assert_eq!(value(&sut.client.read_current(now, a, 0).unwrap()), 1.0);
    assert!(sut.client.read_new(now, a, 0).is_none());
}

/// Behaviour: API-08.
#[test]
fn opening_verifies_names_and_the_access_that_is_needed() {
    let world = World::with_library(
        "rig",
        vec![
            define("both", DataType::F64, |_| {}),
            define("input", DataType::F64, |p| p.access = Access::ReadOnly),
            define("output", DataType::F64, |p| p.access = Access::WriteOnly),
        ],
    );
    let mut sut = Pair::on(&world);
    let names = ["rig/both", "rig/input", "rig/output"];
    let mut codes = |reading, writing| -> Vec<Option<FaultCode>> {
        let options = OpenOptions {
            reading,
            writing,
            ..OpenOptions::default()
        };
        let opened = sut.open_with(&names, options);
        opened
            .into_iter()
            .map(|opened| opened.err().map(|fault| fault.code))
            .collect()
    };
    assert_eq!(codes(Need::Allowed, Need::Allowed), [None; 3]);
    assert_eq!(
        codes(Need::Required, Need::None),
        [None, None, Some(FaultCode::NotReadable)]
    );
    assert_eq!(
        codes(Need::None, Need::Required),
        [None, Some(FaultCode::NotWritable), None]
    );
    // Read in the background: make the request, and take the answer when it has arrived.
    let request = sut
        .client
        .open(&["rig/both", "rig/nobody"], OpenOptions::default())
        .unwrap();
    assert!(!sut.client.is_answered(request));
    sut.exchange();
    assert!(sut.client.is_answered(request));
    // A size of 0 gives the newest value, a size of 1 is an error, and a larger size gives a buffer.
    assert_eq!(contract_of_buffer(0), Ok(Contract::Latest));
    assert!(contract_of_buffer(1).is_err());
    assert_eq!(contract_of_buffer(5), Ok(Contract::Last(5)));
}

/// Behaviour: API-11.
#[test]
fn subscribing_opens_by_itself() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "latest");
    assert_eq!(sut.values(id), [0.0]);
    assert_eq!(
        sut.client.item(id, 0).unwrap().data_type,
        Some(DataType::F64)
    );
}

/// Behaviour: NV-21.
#[test]
fn several_variables_are_read_with_value_time_and_state() {
    let variables = ["good", "bad", "never"].map(|n| define(n, DataType::F64, |_| {}));
    let world = World::with_library("rig", variables.into());
    world.set("rig/good", 1.0);
    let mut failed = trunkline_engine::Write::value(&Value::F64(2.0));
    failed.quality = Some(Quality::bad(Reason::SensorFailure));
    world.try_write("rig/bad", &failed);
    let mut sut = Pair::on(&world);
    let variables = ["rig/good", "rig/bad", "rig/never"].map(|name| sut.variable(name));
    let readings: Vec<_> = sut
        .read(&variables)
        .into_iter()
        .map(|reading| reading.unwrap())
        .collect();
    assert_eq!(sequences(&readings), [1, 1, 0]);
    let states: Vec<(Level, Reason)> = readings
        .iter()
        .map(|reading| {
            (
                reading.sample.quality.level(),
                reading.sample.quality.reason(),
            )
        })
        .collect();
    let expected = [
        (Level::Good, Reason::None),
        (Level::Bad, Reason::SensorFailure),
        (Level::Bad, Reason::NoValue),
    ];
    assert_eq!(states, expected);
    assert_eq!(readings[0].sample.engine_timestamp, world.time().1);
}
