//! Tests requests with lists: one request, a result for each item, and answers in pages.

use std::time::Duration;

use trunkline_client::{Event, OpenOptions, SubscribeOptions, VariableRef, Write};
use trunkline_proto::{Endpoint, FaultCode, FrameKind};
use trunkline_serve::Session;
use trunkline_types::{Access, Contract, DataType, Scope, Value};

use crate::rig::{Pair, World, define, f64_variable, value, value as value_of};

/// Behaviour: B-30, API-02.
#[test]
fn lists_are_one_round_trip_and_a_fault_is_one_items_only() {
    let names: Vec<String> = (0..2500).map(|n| format!("x{n}")).collect();
    let world = World::with_library("rig", names.iter().map(|n| f64_variable(n)).collect());
    let mut sut = Pair::on(&world);
    let mut full: Vec<String> = names.iter().map(|name| format!("rig/{name}")).collect();
    full[7] = "rig/x07".to_owned();
    full[1700] = "rig//x".to_owned();
    let refs: Vec<&str> = full.iter().map(String::as_str).collect();
    let opened = sut.open(&refs);
    let faults: Vec<(usize, FaultCode)> = opened
        .iter()
        .enumerate()
        .filter_map(|(n, opened)| Some((n, opened.as_ref().err()?.code)))
        .collect();
    assert_eq!(
        faults,
        [(7, FaultCode::UnknownName), (1700, FaultCode::BadName)]
    );

    let variables: Vec<VariableRef> = opened
        .into_iter()
        .flatten()
        .map(|opened| opened.variable)
        .collect();
    let write = |(n, variable): (usize, &VariableRef)| {
        Write::new(
            *variable,
            if n == 3 {
                Value::Bool(true)
            } else {
                Value::F64(n as f64)
            },
        )
    };
    let outcomes = sut.write_values(variables.iter().enumerate().map(write));
    let failed: Vec<usize> = (0..outcomes.len())
        .filter(|n| !matches!(outcomes[*n], trunkline_client::WriteOutcome::Applied(_)))
        .collect();
    assert_eq!(failed, [3]);

    let read = sut.read(&variables);
    assert_eq!(read.len(), 2498);
    assert_eq!(value(read[2000].as_ref().unwrap()), 2000.0);

    let id = sut.subscribe(&refs, "latest");
    let events = sut.events(id);
    let faults: Vec<u32> = events
        .iter()
        .filter_map(|event| match event {
            Event::ItemError { item, .. } => Some(*item),
            _ => None,
        })
        .collect();
    assert_eq!(faults, [7, 1700]);
    let readings = events
        .iter()
        .filter(|event| matches!(event, Event::Reading { .. }));
    assert_eq!(readings.count(), 2498);

    let subscribers = |sut: &mut Pair| sut.info(variables[0]).subscribers;
    assert_eq!(subscribers(&mut sut), 1);
    sut.client.unsubscribe(id);
    sut.exchange();
    assert_eq!(subscribers(&mut sut), 0);
    let request = sut.client.close(&variables[1..]).unwrap();
    let closed = sut.answer(request).unwrap();
    assert!(closed.iter().all(Result::is_ok));
}

#[test]
fn the_same_name_twice_is_the_same_variable_twice() {
    let mut sut = Pair::of(&["x"]);
    let opened = sut.open(&["rig/x", "rig/x"]);
    let variables: Vec<VariableRef> = opened.into_iter().map(|o| o.unwrap().variable).collect();
    assert_eq!(variables[0], variables[1]);
    let id = sut.subscribe(&["rig/x", "rig/x"], "all");
    sut.world.set("rig/x", 1.0);
    sut.exchange();
    let items: Vec<u32> = sut
        .events(id)
        .into_iter()
        .filter_map(|event| match event {
            Event::Reading { item, .. } => Some(item),
            _ => None,
        })
        .collect();
    assert_eq!(items, [0, 1, 0, 1]);
}

#[test]
fn a_miss_names_the_nearest_variable() {
    let mut sut = Pair::of(&["Pressure"]);
    let fault = sut.open(&["rig/pressure"]).remove(0).unwrap_err();
    assert!(
        fault.sentence.contains("did you mean rig/Pressure?"),
        "{fault}"
    );
}

#[test]
fn variables_that_may_not_be_read_can_be_opened_and_written() {
    let world = World::with_library(
        "rig",
        vec![
            define("secret", DataType::F64, |p| p.access = Access::WriteOnly),
            define("inner", DataType::F64, |p| p.scope = Scope::Process),
        ],
    );
    world.set("rig/secret", 5.0);
    let mut sut = Pair::on(&world);
    let options = OpenOptions {
        include_readings: true,
        describe: true,
        ..OpenOptions::default()
    };
    let opened = sut.open_with(&["rig/secret"], options).remove(0).unwrap();
    assert_eq!(opened.access, Access::WriteOnly);
    assert!(
        opened
            .reading
            .is_none_or(|reading| reading.sample.value != Value::F64(5.0))
    );
    assert_eq!(sut.write([(opened.variable, 6.0)]).len(), 1);
    let fault = sut.read(&[opened.variable]).remove(0).unwrap_err();
    assert_eq!(fault.code, FaultCode::NotReadable);
    let id = sut.subscribe(&["rig/secret"], "latest");
    assert!(sut.events(id).iter().any(|event| {
        matches!(event, Event::ItemError { fault, .. } if fault.code == FaultCode::NotReadable)
    }));
    // A connection cannot see a variable with the scope `process`.
    let fault = sut.open(&["rig/inner"]).remove(0).unwrap_err();
    assert_eq!(fault.code, FaultCode::UnknownName);
}

/// Behaviour: B-30.
#[test]
fn a_hundred_thousand_variables_are_opened_and_subscribed_in_one_request() {
    const COUNT: usize = 100_000;
    let variables = (0..COUNT)
        .map(|n| f64_variable(&format!("rack{}/x{n}", n % 100)))
        .collect();
    let world = World::with_library("plant", variables);
    let mut sut = Pair::on(&world);
    let names: Vec<String> = (0..COUNT)
        .map(|n| format!("plant/rack{}/x{n}", n % 100))
        .collect();
    (0..COUNT)
        .step_by(2)
        .for_each(|n| world.set(&names[n], n as f64));
    sut.traffic = Default::default();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    let id = sut.subscribe(&refs, "latest");
    // There is one request with an answer in pages, and no further round trip.
    let asked = &sut.traffic.to_engine;
    assert_eq!(
        asked.count(FrameKind::Open),
        asked.kinds.len() - asked.count(FrameKind::Ack)
    );
    let readings = sut.readings(id);
    assert_eq!(readings.len(), COUNT);
    let written = readings
        .iter()
        .filter(|reading| reading.position.sequence == 1)
        .count();
    assert_eq!(written, COUNT / 2);
    // Each continues with its new values.
    (0..COUNT).for_each(|n| world.set(&names[n], -1.0));
    sut.exchange();
    assert_eq!(sut.values(id).len(), COUNT);
    assert!(
        sut.traffic.to_client.bytes < COUNT * 60,
        "{}",
        sut.traffic.to_client.bytes
    );
}

#[test]
fn large_answers_are_sent_in_pages_as_they_are_taken() {
    let names: Vec<String> = (0..200).map(|n| format!("b{n}")).collect();
    let variables = names
        .iter()
        .map(|n| define(n, DataType::Bytes, |_| {}))
        .collect();
    let world = World::with_library("rig", variables);
    let full: Vec<String> = names.iter().map(|name| format!("rig/{name}")).collect();
    for name in &full {
        world.write(name, &Value::Bytes(vec![7; 512 << 10].into()));
    }
    let mut sut = Pair::on(&world);
    let refs: Vec<&str> = full.iter().map(String::as_str).collect();
    let variables: Vec<VariableRef> = sut
        .open(&refs)
        .into_iter()
        .map(|opened| opened.unwrap().variable)
        .collect();
    // 20 MiB are requested at once; one page and one value are pending for the client.
    let request = sut.client.read(&variables).unwrap();
    sut.traffic = Default::default();
    let mut most = 0;
    loop {
        let moved = sut.turn_of_client() | sut.turn_of_session();
        most = most.max(sut.waiting_answers());
        if !moved {
            break;
        }
    }
    let readings = sut.client.take(request).unwrap().unwrap();
    assert!(readings.iter().all(Result::is_ok));
    assert!(sut.traffic.to_client.count(FrameKind::Readings) >= 40);
    assert!(most < 1 << 20, "{most} bytes waited");
    // Do the same with the answers to an OPEN.
    let options = OpenOptions {
        include_readings: true,
        ..OpenOptions::default()
    };
    let opened = sut.open_with(&refs, options);
    assert!(opened.iter().all(|o| o.as_ref().unwrap().reading.is_some()));
}

/// Behaviour: API-10.
#[test]
fn names_are_searched_by_pattern_and_returned_with_types() {
    let variables = (0..3000)
        .map(|n| f64_variable(&format!("rack{}/x{n}", n % 3)))
        .chain([define("text", DataType::String, |p| {
            p.access = Access::ReadOnly
        })])
        .collect();
    let world = World::with_library("plant", variables);
    world.deploy("other", vec![f64_variable("x1")]);
    let mut sut = Pair::on(&world);
    let mut find = |pattern: &str, limit| {
        let request = sut.client.find(pattern, limit).unwrap();
        sut.answer(request).unwrap()
    };
    // Every variable of the engine, every one of a library, and by part of the name.
    assert_eq!(find("**", None).len(), 3002);
    assert_eq!(find("plant/**", None).len(), 3001);
    assert_eq!(
        find("plant/rack1/*99*", None).len(),
        (0..3000).filter(is_99_of_rack_1).count()
    );
    assert_eq!(find("**", Some(17)).len(), 17);
    let text = find("plant/text", None).remove(0);
    assert_eq!(
        (text.data_type, text.access),
        (DataType::String, Access::ReadOnly)
    );
    let strings = find("**", None)
        .into_iter()
        .filter(|f| f.data_type == DataType::String);
    assert_eq!(strings.count(), 1);
    assert_eq!(find("nobody/**", None), []);
    let request = sut.client.find("a**b", None).unwrap();
    let fault = sut.answer(request).unwrap_err();
    assert_eq!(fault.code, FaultCode::BadPattern);
}

fn is_99_of_rack_1(n: &usize) -> bool {
    n % 3 == 1 && format!("x{n}").contains("99")
}

#[test]
fn the_engine_and_its_variables_can_be_asked_about() {
    let mut sut = Pair::of(&["x"]);
    let x = sut.variable("rig/x");
    let id = sut.subscribe(&["rig/x"], "last:5");
    let info = sut.info(x);
    assert_eq!(
        (info.name.as_str(), info.sequence, info.subscribers),
        ("rig/x", 1, 1)
    );
    assert_eq!(info.last_writer, "engine");
    assert_eq!(info.subscriptions[0].terms.contract, Contract::Last(5));
    assert_eq!(
        info.subscriptions[0].terms.subscription,
        sut.client.wire_number(id).unwrap()
    );

    let request = sut.client.engine_info().unwrap();
    let engine = sut.answer(request).unwrap();
    assert_eq!(
        (engine.name.as_str(), engine.variables, engine.epoch),
        ("sut", 1, 7)
    );
    assert_eq!(engine.libraries[0].name, "rig");

    let request = sut.client.why("rig/x").unwrap();
    let steps = sut.answer(request).unwrap();
    assert!(steps.len() > 3);
    let request = sut.client.why("rig/y").unwrap();
    let steps = sut.answer(request).unwrap();
    assert!(steps[0].sentence.contains("rig/y"), "{steps:?}");

    let request = sut.client.request_value(&[x]).unwrap();
    let requested = sut.answer(request).unwrap();
    assert_eq!(
        requested[0].as_ref().unwrap_err().code,
        FaultCode::ProviderGone
    );
}

#[test]
fn items_beyond_the_limit_of_a_session_are_refused_one_by_one() {
    let world = World::with_library(
        "rig",
        (0..10).map(|n| f64_variable(&format!("x{n}"))).collect(),
    );
    let options = trunkline_serve::ServeOptions {
        items_max: 6,
        ..Default::default()
    };
    let mut sut = Pair::offline(&world, options, crate::rig::client_options());
    sut.connect();
    let names: Vec<String> = (0..10).map(|n| format!("rig/x{n}")).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    let id = sut.subscribe_with(&refs, Contract::Latest, SubscribeOptions::default());
    let events = sut.events(id);
    let faults: Vec<FaultCode> = events
        .iter()
        .filter_map(|event| match event {
            Event::ItemError { fault, .. } => Some(fault.code),
            _ => None,
        })
        .collect();
    assert_eq!(faults, [FaultCode::LimitReached; 4]);
    assert_eq!(
        events
            .iter()
            .filter(|e| matches!(e, Event::Reading { .. }))
            .count(),
        6
    );
}

/// Behaviour: B-30, B-31.
#[test]
fn two_hundred_thousand_variables_get_a_complete_first_set() {
    const COUNT: usize = 200_000;
    let paths: Vec<String> = (0..COUNT).map(|n| format!("unit/value/{n:06}")).collect();
    let world = World::with_library("rig", paths.iter().map(|n| f64_variable(n)).collect());
    let full: Vec<String> = paths.iter().map(|path| format!("rig/{path}")).collect();
    let names: Vec<&str> = full.iter().map(String::as_str).collect();
    for name in names.iter().step_by(20_011) {
        world.set(name, 1.0);
    }
    let mut sut = Pair::on(&world);
    let opened = sut.open(&names);
    assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), COUNT);
    let id = sut.subscribe(&names, "latest");
    let mut seen = vec![false; COUNT];
    let mut written = 0;
    for event in sut.events(id) {
        if let Event::Reading { item, reading, .. } = event {
            assert!(!std::mem::replace(&mut seen[item as usize], true));
            written += usize::from(reading.sample.value == Value::F64(1.0));
        }
    }
    assert!(seen.iter().all(|seen| *seen));
    assert_eq!(written, COUNT.div_ceil(20_011));
    // From now on, only changes arrive.
    world.set(names[COUNT - 1], 2.0);
    sut.exchange();
    assert_eq!(sut.values(id), [2.0]);
}

/// A hundred clients lose their connections and reconnect at the same time, while all their variables change.
/// All of them then stay connected, and receive the newest values.
/// Behaviour: B-31, B-03.
#[test]
fn storm_of_a_hundred_reconnecting_clients_keeps_every_client_alive() {
    const CLIENTS: usize = 100;
    let paths: Vec<String> = (0..50).map(|n| format!("x{n}")).collect();
    let full: Vec<String> = paths.iter().map(|path| format!("rig/{path}")).collect();
    let names: Vec<&str> = full.iter().map(String::as_str).collect();
    let world = World::with_library("rig", paths.iter().map(|n| f64_variable(n)).collect());
    let mut value = 0.0;
    let mut write_all = || {
        value += 1.0;
        names.iter().for_each(|name| world.set(name, value));
        value
    };
    write_all();
    let mut clients: Vec<Pair> = (0..CLIENTS).map(|_| Pair::on(&world)).collect();
    let subscribe = |(n, client): (usize, &mut Pair)| {
        let contract = if n % 2 == 0 { "all" } else { "latest" };
        client.subscribe(&names, contract)
    };
    let subscriptions: Vec<_> = clients.iter_mut().enumerate().map(subscribe).collect();
    for _ in 0..2 {
        clients.iter_mut().for_each(Pair::cut);
        write_all();
        // Time and writers continue while they reconnect, each at its own dial.
        for _ in 0..60 {
            write_all();
            world.advance(Duration::from_millis(20));
            let now = world.time().0;
            for client in &mut clients {
                if client.client.poll_dial().is_some_and(|due| due <= now) {
                    client.dial();
                }
                client.pass(Duration::ZERO);
            }
        }
    }
    let newest = write_all();
    for (client, id) in clients.iter_mut().zip(subscriptions) {
        client.exchange();
        assert!(client.session.as_ref().is_some_and(Session::is_open));
        let mut last = vec![0.0; names.len()];
        for event in client.events(id) {
            match event {
                Event::Reading { item, reading, .. } => last[item as usize] = value_of(&reading),
                Event::Ended { .. } => panic!("{event:?}"),
                _ => {}
            }
        }
        assert_eq!(last, vec![newest; names.len()]);
    }
}
