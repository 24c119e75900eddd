//! Many variables at one instant, and variables that only one client writes.

use std::time::Duration;

use trunkline::local::Group;
use trunkline::proto::FaultCode;
use trunkline::types::{
    Contract, ControlTerms, DataType, LibraryDefinition, Properties, Value, VariableDefinition,
};
use trunkline::{
    CallError, Client, LeaseTerms, OpenOptions, SubscribeOptions, VariableRef, Write, WriteOutcome,
};

use crate::place::{Place, TIMEOUT, block_on, open_with, reading};

const NAMES: [&str; 3] = ["all/f64", "all/i32", "all/limited"];

fn writes(place: &Place, limited: f64) -> [Write; 3] {
    let [f64, i32, range] = NAMES.map(|name| place.variable(name));
    [
        Write::new(f64, Value::F64(1.5)),
        Write::new(i32, Value::I32(7)),
        Write::new(range, Value::F64(limited)),
    ]
}

fn code(outcome: &WriteOutcome) -> FaultCode {
    match outcome {
        WriteOutcome::Refused(fault) => fault.code,
        other => panic!("not refused: {other:?}"),
    }
}

/// Behaviour: B-23.
pub fn a_group_is_written_whole_or_not_at_all(place: &Place) {
    let refused = place.client.write_group(writes(place, 101.0), TIMEOUT);
    let refused = refused.expect("an answer");
    assert_eq!((refused.commit, refused.refused_member), (None, Some(2)));
    let codes: Vec<_> = refused.outcomes.iter().map(code).collect();
    let others = FaultCode::GroupRefused;
    assert_eq!(codes, [others, others, FaultCode::OutOfRange]);
    let WriteOutcome::Refused(fault) = &refused.outcomes[0] else {
        panic!("{refused:?}")
    };
    assert!(fault.sentence.contains("all/limited"), "{fault}");

    let mut wrong = writes(place, 1.0);
    wrong[1].value = Value::Bool(true);
    let refused = place.client.write_group(wrong, TIMEOUT).expect("an answer");
    assert_eq!(code(&refused.outcomes[1]), FaultCode::WrongType);
    assert_eq!(refused.refused_member, Some(1));
    for name in NAMES {
        assert_eq!(place.read(place.variable(name)).position.sequence, 0);
    }

    let written = place.client.write_group(writes(place, 99.0), TIMEOUT);
    let written = written.expect("an answer");
    assert_eq!(written.commit, Some(1));
    let is_applied = |outcome: &WriteOutcome| matches!(outcome, WriteOutcome::Applied(_));
    assert!(written.outcomes.iter().all(is_applied), "{written:?}");
    let times = NAMES.map(|name| {
        let reading = place.read(place.variable(name));
        assert!(reading.own);
        reading.sample.engine_timestamp
    });
    assert!(times.iter().all(|time| *time == times[0]), "one time");
    let counts = place.client.write_counts();
    assert_eq!((counts.issued, counts.applied, counts.refused), (9, 3, 6));
}

/// Behaviour: B-21, B-23.
pub fn a_group_stands_in_order_and_in_one_piece(place: &Place) {
    let options = SubscribeOptions::default();
    let subscription = place.client.subscribe(&NAMES, Contract::ALL, options);
    let subscription = subscription.expect("a subscription");
    for _ in NAMES {
        assert_eq!(reading(&subscription).position.sequence, 0);
    }
    let variable = place.variable("all/f64");
    let before = (0..100).map(|n| Write::new(variable, Value::F64(f64::from(n))));
    place
        .client
        .write_untracked(before, Duration::from_secs(60))
        .expect("room");
    let group = place.client.write_group(writes(place, 50.0), TIMEOUT);
    let position = match &group.expect("an answer").outcomes[0] {
        WriteOutcome::Applied(position) => *position,
        other => panic!("{other:?}"),
    };
    assert_eq!(position.sequence, 101, "behind what was written before it");
    for _ in 0..100 {
        reading(&subscription);
    }
    let values: Vec<Value> = NAMES
        .iter()
        .map(|_| {
            let reading = reading(&subscription);
            assert!(reading.own, "its own group comes back marked");
            reading.sample.value
        })
        .collect();
    assert!(values.contains(&Value::I32(7)) && values.contains(&Value::F64(50.0)));
}

/// Behaviour: B-21.
pub fn a_value_that_returns_is_never_swallowed(place: &Place) {
    let updates = place.subscribe("all/i32", Contract::ALL);
    reading(&updates);
    let variable = place.variable("all/i32");
    let other = place.another();
    let theirs = open_with(&other, "all/i32");
    place.write(Write::new(variable, Value::I32(1)));
    other
        .write([Write::new(theirs, Value::I32(2))], TIMEOUT)
        .expect("an answer");
    place.write(Write::new(variable, Value::I32(1)));
    place.write(Write::new(variable, Value::I32(1)));
    let got: Vec<_> = (0..4)
        .map(|_| {
            let reading = reading(&updates);
            (reading.sample.value, reading.own)
        })
        .collect();
    let value = |value, own| (Value::I32(value), own);
    assert_eq!(
        got,
        [
            value(1, true),
            value(2, false),
            value(1, true),
            value(1, true)
        ]
    );
}

/// Behaviour: B-23.
pub fn a_program_with_the_engine_writes_groups(place: &Place) {
    let engine = &place.engine;
    let number = engine
        .variable::<f64>("all/f64")
        .expect("the variable exists");
    let limited = engine
        .variable::<f64>("all/limited")
        .expect("the variable exists");
    let whole = engine
        .variable::<i32>("all/i32")
        .expect("the variable exists");
    let group = Group::new()
        .put(&number, 2.0)
        .put(&whole, 3)
        .put(&limited, 4.0);
    let written = engine.write_group(&group).expect("written");
    assert_eq!((written.commit, written.positions.len()), (1, 3));
    let moved = Group::new()
        .put(&whole, 4)
        .put_if(&number, 3.0, written.positions[1]);
    engine.write_group(&moved).expect("it is still there");
    let refused = engine.write_group(&moved).expect_err("it has moved");
    assert_eq!(refused.refused_index, Some(1));
    assert!(
        refused.to_string().contains("number is 2, not 1"),
        "{refused}"
    );
    let snapshot = engine.snapshot(&NAMES);
    assert!(snapshot.is_consistent);
    assert_eq!(snapshot.commit, 2);
    let values: Vec<_> = snapshot
        .samples
        .iter()
        .map(|one| one.as_ref().expect("readable").0.value.clone())
        .collect();
    assert_eq!(values, [Value::F64(3.0), Value::I32(4), Value::F64(4.0)]);
    let held = number.lease(Duration::from_secs(60)).expect("free");
    assert_eq!(held.sequence, 2);
    let refused = place.write(Write::new(place.variable("all/f64"), Value::F64(0.0)));
    assert_eq!(code(&refused), FaultCode::Leased);
    drop(number);
    drop((group, moved));
    let outcome = place.write(Write::new(place.variable("all/f64"), Value::F64(0.0)));
    assert!(
        matches!(outcome, WriteOutcome::Applied(_)),
        "it ends with its handle: {outcome:?}"
    );
}

/// Behaviour: B-23.
pub fn a_snapshot_is_one_instant_or_says_that_it_is_not(place: &Place) {
    place
        .client
        .write_group(writes(place, 50.0), TIMEOUT)
        .expect("an answer");
    let variables = NAMES.map(|name| place.variable(name));
    let unreadable = place.variable("all/writable");
    let asked = [variables[0], unreadable, variables[1], variables[2]];
    let snapshot = place.client.snapshot(&asked, TIMEOUT).expect("an answer");
    assert!(snapshot.is_consistent);
    assert_eq!(snapshot.commit, 1);
    assert!(snapshot.instant.is_plausible());
    let fault = snapshot.readings[1].as_ref().expect_err("write-only");
    assert_eq!(fault.code, FaultCode::NotReadable);
    let reading = snapshot.readings[2].as_ref().expect("a reading");
    assert_eq!(reading.sample.value, Value::I32(7));

    let define = |n: usize| VariableDefinition::new(n.to_string(), DataType::F64);
    place
        .engine
        .deploy(&LibraryDefinition {
            name: "many".to_owned(),
            description: String::new(),
            variables: (0..5000).map(define).collect(),
        })
        .expect("well formed");
    let names: Vec<_> = (0..5000).map(|n| format!("many/{n}")).collect();
    let opened = place
        .client
        .open(&names, OpenOptions::default(), TIMEOUT)
        .expect("an answer");
    let many: Vec<VariableRef> = opened
        .into_iter()
        .map(|one| one.expect("it exists").variable)
        .collect();
    let whole = |count: usize| {
        let snapshot = place.client.snapshot(&many[..count], TIMEOUT);
        let snapshot = snapshot.expect("an answer");
        assert_eq!(snapshot.readings.iter().flatten().count(), count);
        snapshot.is_consistent
    };
    assert!(whole(4096));
    assert!(!whole(4097));
    let put = |variable: &VariableRef| Write::new(*variable, Value::F64(1.0));
    let group = place
        .client
        .write_group(many[..4096].iter().map(put), TIMEOUT);
    assert_eq!(group.expect("an answer").commit, Some(2));
    let error = place
        .client
        .write_group(many[..4097].iter().map(put), TIMEOUT);
    assert!(error.expect_err("too many").to_string().contains("4096"));
}

fn write_one(client: &Client, variable: VariableRef, value: f64) -> WriteOutcome {
    let outcomes = client.write([Write::new(variable, Value::F64(value))], TIMEOUT);
    outcomes.expect("an answer").remove(0)
}

/// Writes until the write is applied, because the engine detects the end of another client with a
/// delay.
fn write_until_applied(client: &Client, variable: VariableRef) {
    for _ in 0..1_000_000 {
        if let WriteOutcome::Applied(_) = write_one(client, variable, 5.0) {
            return;
        }
    }
    panic!("the engine never heard that the other client has gone");
}

/// Behaviour: B-22.
pub fn a_lease_keeps_others_out_until_it_is_given_back(place: &Place) {
    let other = place.another();
    let (mine, theirs) = (place.variable("all/f64"), open_with(&other, "all/f64"));
    let terms = LeaseTerms::acquire(Duration::from_secs(600));
    let granted = place.client.lease(&[mine], terms.clone(), TIMEOUT);
    let granted = granted.expect("an answer").remove(0).expect("it is free");
    assert_eq!(granted.position.sequence, 0);
    assert_eq!(granted.duration, Duration::from_secs(600));
    let refused = write_one(&other, theirs, 1.0);
    let WriteOutcome::Refused(fault) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(fault.code, FaultCode::Leased);
    let me = std::process::id().to_string();
    assert!(fault.sentence.contains(&me), "it names the holder: {fault}");
    assert!(matches!(
        write_one(&place.client, mine, 2.0),
        WriteOutcome::Applied(_)
    ));
    let info = other.info(&[theirs], TIMEOUT).expect("an answer").remove(0);
    let info = info.expect("it exists");
    assert!(info.held_by.contains(&me) && info.lease_left > Duration::from_secs(500));

    let order = |client: &Client, variable, terms: &LeaseTerms| {
        let leases = client.lease(&[variable], terms.clone(), TIMEOUT);
        leases
            .expect("an answer")
            .remove(0)
            .map_err(|fault| fault.code)
    };
    assert_eq!(order(&other, theirs, &terms), Err(FaultCode::Leased));
    assert!(order(&place.client, mine, &LeaseTerms::release()).is_ok());
    let renew = LeaseTerms::renew(Duration::from_secs(1));
    assert_eq!(
        order(&place.client, mine, &renew),
        Err(FaultCode::NotLeased)
    );
    let at = place.read(mine).position;
    let expected = terms.clone().expecting(vec![granted.position]);
    assert_eq!(order(&other, theirs, &expected), Err(FaultCode::Conflict));
    let expected = terms.clone().expecting(vec![at]);
    assert!(order(&other, theirs, &expected).is_ok());
    let leased = block_on(async {
        let client = place.engine.client().expect("a client").into_async();
        let opened = client
            .open(&["all/f64"], OpenOptions::default(), TIMEOUT)
            .await;
        let variable = opened
            .expect("an answer")
            .remove(0)
            .expect("it exists")
            .variable;
        let leases = client.lease(&[variable], terms.clone(), TIMEOUT).await;
        leases
            .expect("an answer")
            .remove(0)
            .map_err(|fault| fault.code)
    });
    assert_eq!(leased, Err(FaultCode::Leased));
    drop(other);
    write_until_applied(&place.client, mine);
}

/// Behaviour: H-19.
pub fn the_single_writer_is_followed_by_the_next(place: &Place) {
    let properties = Properties {
        single_writer: true,
        ..Properties::new(DataType::F64)
    };
    let variable = VariableDefinition {
        path: "x".to_owned(),
        properties: properties.into(),
    };
    place
        .engine
        .deploy(&LibraryDefinition {
            name: "alone".to_owned(),
            description: String::new(),
            variables: vec![variable],
        })
        .expect("well formed");
    let (first, second) = (place.another(), place.another());
    let (one, two) = (open_with(&first, "alone/x"), open_with(&second, "alone/x"));
    let mine = place.variable("alone/x");
    assert!(matches!(
        write_one(&first, one, 1.0),
        WriteOutcome::Applied(_)
    ));
    assert_eq!(code(&write_one(&second, two, 2.0)), FaultCode::SingleWriter);
    assert_eq!(
        code(&write_one(&place.client, mine, 3.0)),
        FaultCode::SingleWriter
    );
    let info = second.info(&[two], TIMEOUT).expect("an answer").remove(0);
    let info = info.expect("it exists");
    assert_eq!(info.writers_waiting, 2);
    assert!(
        info.held_by.contains(&std::process::id().to_string()),
        "{}",
        info.held_by
    );
    drop(first);
    write_until_applied(&second, two);
    assert_eq!(
        code(&write_one(&place.client, mine, 3.0)),
        FaultCode::SingleWriter
    );
    drop(second);
    write_until_applied(&place.client, mine);
}

/// Behaviour: B-22.
pub fn control_of_a_folder_goes_from_one_client_to_the_next(place: &Place) {
    let other = place.another();
    let theirs = open_with(&other, "all/f64");
    let terms = ControlTerms::default();
    let held = place.client.take_control("all", terms, TIMEOUT);
    assert!(held.expect("it is free").is_own);
    let WriteOutcome::Refused(fault) = write_one(&other, theirs, 1.0) else {
        panic!("another client wrote")
    };
    assert_eq!(fault.code, FaultCode::Controlled);
    let refused = other.take_control("all", terms, TIMEOUT).unwrap_err();
    assert!(
        matches!(&refused, CallError::Fault(fault) if fault.code == FaultCode::Controlled),
        "{refused:?}"
    );

    // The holder waits for a request in a task, and hands over.
    let list = place.client.controls("", true, TIMEOUT).expect("an answer");
    let follow = place.client.clone().into_polled();
    let follow = follow.follow_control(list.revision).expect("a call");
    assert!(follow.poll().is_none(), "nothing has changed");
    let waiting = other.request_control("all", terms, TIMEOUT);
    let waiting = waiting.expect("an answer");
    assert!(waiting.is_waiting);
    let changed = follow.wait(TIMEOUT).expect("in time").expect("an answer");
    assert!(changed > list.revision);
    let given = block_on(async {
        let client = place.client.clone().into_async();
        client.give_control("all", waiting.number, TIMEOUT).await
    });
    assert_eq!(given.expect("an answer").number, waiting.number);
    let mine = place.variable("all/f64");
    let WriteOutcome::Refused(fault) = write_one(&place.client, mine, 1.0) else {
        panic!("the former holder wrote")
    };
    assert_eq!(fault.code, FaultCode::Controlled);

    other.release_control("all", TIMEOUT).expect("an answer");
    assert!(matches!(
        write_one(&place.client, mine, 2.0),
        WriteOutcome::Applied(_)
    ));
}
