//! A single-process variable becomes a hosted one by a change of its definition only.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;

use rig::{Rig, applied, balanced, define, numbers, sequences, updates};
use trunkline_engine::realtime::RtRead;
use trunkline_engine::{Caller, Wakes, Write, WriteOutcome};
use trunkline_types::{Contract, DataType, Fifo, Properties, Scope, Value};

/// The program under test. It knows only the variable's name.
fn program(rig: &Rig) {
    let x = rig.variable("rig/x");
    // Two parts of the process: a writer and a reader.
    let writer = Caller::local(1, 1000);
    let value = Value::F64(72.5);
    let attempt = rig.attempt_as(&writer, &x, &Write::value(&value));
    assert_eq!(rig::done(attempt), applied(1));
    assert_eq!(x.sample().value, value);
    assert_eq!(x.sample().source_timestamp, rig.wall());

    let mut consumer = rig.consumer();
    for (id, contract) in [
        (1, Contract::Latest),
        (2, Contract::Last(3)),
        (3, Contract::ALL),
    ] {
        rig.subscribe(&mut consumer, id, contract, &x);
    }
    updates(&mut consumer);
    for n in 1..=5 {
        assert!(matches!(
            rig.write(&x, f64::from(n)),
            WriteOutcome::Applied(_)
        ));
    }
    let got = updates(&mut consumer);
    let of = |id| {
        got.iter()
            .filter(move |got| got.subscription == id)
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&of(1)), [5.0]);
    assert_eq!(numbers(&of(2)), [3.0, 4.0, 5.0]);
    assert_eq!(sequences(&of(3)), [2, 3, 4, 5, 6]);
    for id in 1..=3 {
        balanced(&consumer, id, &x);
    }

    let mut rt_reader = rig
        .engine
        .realtime()
        .reader(&writer, "rig/x")
        .expect("the variable has a FIFO");
    let mut rt_writer = rig
        .engine
        .realtime()
        .writer(&writer, "rig/x")
        .expect("the write is accepted");
    while rt_reader.read::<f64>().status == RtRead::Fresh {}
    for n in 10..13 {
        rt_writer.write(f64::from(n), rig.wall());
    }
    rig.engine
        .realtime()
        .pump(rig.now(), rig.wall(), &mut Wakes::new());
    for n in 10..13 {
        let reading = rt_reader.read::<f64>();
        assert_eq!(
            (reading.value, reading.status),
            (f64::from(n), RtRead::Fresh)
        );
    }
    assert_eq!(x.sample().value, Value::F64(12.0));
    assert!(x.ledger().is_balanced());
}

/// Behaviour: SP-01, SP-04, SP-05.
#[test]
fn same_program_runs_on_a_single_process_and_on_a_hosted_variable() {
    for scope in [Scope::Process, Scope::Network] {
        let mut properties = Properties::new(DataType::F64);
        properties.scope = scope;
        properties.fifo = Fifo::Multi {
            capacity: 16,
            length: 1,
        };
        program(&Rig::with(vec![define("x", properties)]));
    }
}

/// Behaviour: SP-01, SP-02.
#[test]
fn single_process_variable_moves_data_between_two_places_of_one_process() {
    let mut properties = Properties::new(DataType::F64);
    properties.scope = Scope::Process;
    let (rig, here) = Rig::of(properties);
    let there = rig.variable("rig/x");
    assert!(Arc::ptr_eq(&here, &there));
    rig.write(&here, 1.5);
    let sample = there.sample();
    assert_eq!(
        (sample.value, sample.engine_timestamp),
        (Value::F64(1.5), rig.wall())
    );
}
