//! A write whose call has ended is never carried out later, unless the call reported an unknown
//! outcome.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use trunkline::{CallError, Client, NotTried, Write, WriteOutcome};
use trunkline_types::{DataType, LibraryDefinition, Value, VariableDefinition};

use crate::engine::{Engine, Handles, config, names};
use crate::{CUT_OFF, alone};

/// Number of kills and stops of an engine; 2 unless set by a long run.
const KILLS: &str = "WRITE_KILLS";
/// Time limit of each call.
const PATIENCE: Duration = Duration::from_millis(20);
/// More than the engine lets a client send without an answer.
const MANY: usize = 6000;
const VARIABLES: usize = 7;

/// A program's knowledge of one write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// Reported as not written.
    NotWritten,
    /// Reported as unknown.
    Unknown,
    /// Reported as written: a signal to stop takes its time.
    Written,
}

fn known(outcome: &WriteOutcome) -> Known {
    match outcome {
        WriteOutcome::NotTried(NotTried::Cancelled(_)) => Known::NotWritten,
        WriteOutcome::Unknown(_) => Known::Unknown,
        WriteOutcome::Applied(_) | WriteOutcome::Unchanged(_) => Known::Written,
        other => panic!("without an engine: {other:?}"),
    }
}

/// The outcomes of a call's `count` writes.
fn said(called: Result<Vec<WriteOutcome>, CallError>, count: usize) -> Vec<Known> {
    match called {
        Ok(outcomes) => outcomes.iter().map(known).collect(),
        Err(CallError::NotConnected { .. } | CallError::TimedOut { .. }) => {
            vec![Known::NotWritten; count]
        }
        Err(other) => panic!("{other}"),
    }
}

/// Every kind of write, each to a separate variable, with values from 1 on.
fn write_all(client: &Client, handles: &Handles) -> Vec<Vec<Known>> {
    let to = |index: usize, value: f64| Write::new(handles.0[index], Value::F64(value));
    let mut all = Vec::new();
    all.push(said(client.write([to(0, 1.0)], PATIENCE), 1));
    let set = Write::set(handles.0[1], Value::F64(1.0));
    all.push(said(client.write([set], PATIENCE), 1));
    let ended = client.write_group([to(2, 1.0)], PATIENCE);
    all.push(said(ended.map(|ended| ended.outcomes), 1));
    let newest = Write::newest(handles.0[3], Value::F64(1.0));
    all.push(said(client.write([newest], PATIENCE), 1));
    client.write_untracked([to(4, 1.0)], PATIENCE).unwrap();
    // Its outcome is unknown: if it was sent in time it may be carried out.
    all.push(vec![Known::Unknown]);
    let many = (1..=MANY).map(|value| to(5, value as f64));
    all.push(said(client.write(many, PATIENCE), MANY));
    let tasks = client.clone().into_async();
    {
        let mut dropped = pin!(tasks.write([to(6, 1.0)], CUT_OFF));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(dropped.as_mut().poll(&mut context), Poll::Pending));
    }
    all.push(vec![Known::Unknown]);
    all
}

/// Behaviour: B-20.
#[test]
fn failed_write_is_not_carried_out_after_an_engine_restart() {
    let _alone = alone();
    let rounds = std::env::var(KILLS).map_or(2, |kills| kills.parse().unwrap());
    let (mut cancelled, mut unknown, mut applied) = (0, 0, 0);
    for round in 0..rounds {
        let is_killed = round % 2 == 0;
        let mut engine = Engine::start(&config(VARIABLES, "f64", ""));
        let client = engine.client();
        client.wait_connected(CUT_OFF).unwrap();
        let handles = Handles::open(&client, &names(VARIABLES));
        match is_killed {
            true => engine.kill(),
            false => engine.signal("STOP"),
        }
        let said = write_all(&client, &handles);
        let late = LibraryDefinition {
            name: "late".into(),
            description: String::new(),
            variables: vec![VariableDefinition::new("x", DataType::F64)],
        };
        let deployed = client.deploy(late, false, PATIENCE);
        let deploys = matches!(deployed, Ok(_) | Err(CallError::Fault(_)));
        match is_killed {
            true => engine.start_again(),
            false => engine.signal("CONT"),
        }
        client.wait_connected(CUT_OFF).unwrap();
        let counts = client.flush(CUT_OFF).unwrap();
        let ends = counts.applied + counts.unchanged + counts.unknown + counts.cancelled;
        assert_eq!(counts.issued, ends, "round {round}: {counts:?}");
        for (variable, reading) in handles.read(&client).iter().enumerate() {
            let Value::F64(value) = reading.sample.value else {
                panic!("{reading:?}")
            };
            if reading.position.sequence == 0 {
                continue;
            }
            applied += 1;
            assert!(
                !is_killed,
                "round {round}: v{variable} is {value} in a new life"
            );
            let of_value = said[variable].get(value as usize - 1);
            assert!(
                matches!(of_value, Some(Known::Unknown | Known::Written)),
                "round {round}: v{variable} is {value}, which the caller knows as {of_value:?}"
            );
        }
        let found = client.find("late/*", None, CUT_OFF).unwrap();
        assert!(
            found.is_empty() || (deploys && !is_killed),
            "round {round}: deployed although {deployed:?}"
        );
        let all = said.iter().flatten();
        cancelled += all.clone().filter(|one| **one == Known::NotWritten).count();
        unknown += all.filter(|one| **one == Known::Unknown).count();
    }
    assert!(cancelled > 0 && unknown > 0, "{cancelled} {unknown}");
    eprintln!("{rounds} rounds: {cancelled} cancelled, {unknown} unknown, {applied} later applied");
}
