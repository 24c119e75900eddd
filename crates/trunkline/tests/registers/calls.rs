//! Callbacks: for each change, with losses, with or without equal values.

use std::sync::mpsc::{Receiver, channel};

use trunkline::types::{Contract, Reading, Value};
use trunkline::{Client, EngineOptions, Event};

use crate::{TIMEOUT, calls, catch_all, clients, engine, only_changes, open, set};

/// Behaviour: LM-16, LM-23.
#[test]
fn every_client_is_called_for_each_change_of_any_register_of_a_type() {
    let engine = engine(EngineOptions::default().write_credit);
    let writer = engine.client().unwrap();
    let whole = ["log/count", "log/other"];
    for name in whole {
        set(&writer, open(&writer, name), Value::I32(0));
    }
    let listeners = clients(&engine).map(|client| {
        let (calls, told) = calls(&client, &whole, Contract::ALL, catch_all());
        for _ in whole {
            told.recv_timeout(TIMEOUT).expect("the value there is");
        }
        (client, calls, told)
    });
    for (number, value) in [(":/20", 1), (":/23", 2), (":/20", 3)] {
        set(&writer, open(&writer, number), Value::I32(value));
    }
    for (_, calls, told) in &listeners {
        let heard = [(); 3].map(|()| {
            let (item, reading) = told.recv_timeout(TIMEOUT).expect("a call");
            (item, reading.sample.value)
        });
        let expected = [(0, 1), (1, 2), (0, 3)].map(|(item, value)| (item, Value::I32(value)));
        assert_eq!(heard, expected);
        assert_eq!(calls.panics(), 0);
    }
}

/// Nine updates arrive while the function handles one.
fn after_a_busy_call(client: &Client, contract: Contract) -> Vec<Reading> {
    let (busy, is_busy) = channel();
    let (go_on, may_go_on) = channel();
    let (sender, told) = channel();
    let count = open(client, "log/count");
    set(client, count, Value::I32(0));
    let mut is_first = true;
    let call = move |event| {
        let Event::Reading { reading, .. } = event else {
            return;
        };
        if std::mem::take(&mut is_first) {
            busy.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
        // The test may have received enough.
        let _enough = sender.send(reading);
    };
    let names = ["log/count"];
    let calls = client
        .on_change(&names, contract, catch_all(), call)
        .unwrap();
    is_busy.recv_timeout(TIMEOUT).expect("the first call");
    (1..10).for_each(|value| set(client, count, Value::I32(value)));
    // Readings that arrived before the answer have been delivered.
    client.flush(TIMEOUT).unwrap();
    go_on.send(()).unwrap();
    let mut readings = Vec::new();
    while readings
        .last()
        .is_none_or(|last: &Reading| last.sample.value != Value::I32(9))
    {
        readings.push(told.recv_timeout(TIMEOUT).expect("a call"));
    }
    drop(calls);
    readings
}

/// Behaviour: LM-17.
#[test]
fn slow_callback_gets_the_number_of_missed_values() {
    let engine = engine(EngineOptions::default().write_credit);
    for client in clients(&engine) {
        let readings = after_a_busy_call(&client, Contract::Latest);
        let missed: u64 = readings.iter().map(|reading| reading.lost.coalesced).sum();
        assert_eq!(readings.len() as u64 + missed, 10, "{readings:?}");
        let readings = after_a_busy_call(&client, Contract::Last(2));
        let lost = readings
            .iter()
            .map(|reading| reading.lost.count().expect("nothing was started again"));
        assert_eq!(
            readings.len() as u64 + lost.sum::<u64>(),
            10,
            "{readings:?}"
        );
        let readings = after_a_busy_call(&client, Contract::ALL);
        assert_eq!(readings.len(), 10);
    }
}

/// Behaviour: LM-18.
#[test]
fn equal_value_calls_back_only_with_catch_all() {
    let engine = engine(EngineOptions::default().write_credit);
    for client in clients(&engine) {
        let count = open(&client, ":/20");
        set(&client, count, Value::I32(0));
        let (_all, caught) = calls(&client, &[":/20"], Contract::ALL, catch_all());
        let (_changes, changed) = calls(&client, &[":/20"], Contract::ALL, only_changes());
        for told in [&caught, &changed] {
            told.recv_timeout(TIMEOUT).expect("the value there is");
        }
        for value in [5, 5, 5, 6] {
            set(&client, count, Value::I32(value));
        }
        let values = |told: &Receiver<(u32, Reading)>| {
            let mut values = Vec::new();
            while values.last() != Some(&Value::I32(6)) {
                values.push(told.recv_timeout(TIMEOUT).expect("a call").1.sample.value);
            }
            values
        };
        assert_eq!(values(&caught), [5, 5, 5, 6].map(Value::I32));
        assert_eq!(values(&changed), [5, 6].map(Value::I32));
    }
}

#[test]
fn a_function_that_panics_is_called_again_and_may_end_its_own_calls() {
    let engine = engine(EngineOptions::default().write_credit);
    let client = engine.client().unwrap();
    let count = open(&client, ":/20");
    let (sender, told) = channel();
    let call = move |event| {
        if let Event::Reading { reading, .. } = event {
            let value = reading.sample.value;
            assert_ne!(value, Value::I32(1), "a defect, as the test asks for");
            // The test may have received enough.
            let _enough = sender.send(value);
        }
    };
    set(&client, count, Value::I32(0));
    let calls = client
        .on_change(&[":/20"], Contract::ALL, catch_all(), call)
        .unwrap();
    (1..3).for_each(|value| set(&client, count, Value::I32(value)));
    let heard = [(); 2].map(|()| told.recv_timeout(TIMEOUT).expect("a call"));
    assert_eq!(heard, [0, 2].map(Value::I32));
    assert_eq!(calls.panics(), 1);
    drop(calls);
    assert!(told.recv().is_err(), "the function is gone with its calls");
    // The function drops its own callbacks.
    let (hand_over, handed) = channel::<trunkline::Callbacks>();
    let (sender, told) = channel();
    let call = move |_| {
        drop(handed.recv());
        sender.send(()).unwrap();
    };
    let calls = client
        .on_change(&[":/20"], Contract::Latest, catch_all(), call)
        .unwrap();
    hand_over.send(calls).unwrap();
    told.recv_timeout(TIMEOUT).expect("it went on to its end");
    assert!(told.recv().is_err(), "and was not called again");
}
