//! Feeds shared by several subscriptions, when members join and leave.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;

use rig::{ConsumerEvent, Got, Recorder, Rig};
use trunkline_engine::{Consumer, Variable, Wakes};
use trunkline_types::{Contract, DataType, VariableDefinition};

const ID: u32 = 1;

fn sharing(rig: &Rig, variables: &[&Arc<Variable>]) -> Consumer {
    let mut consumer = rig.consumer().queue_bytes_max(1 << 20).sharing_feeds();
    for variable in variables {
        rig.subscribe(&mut consumer, ID, Contract::ALL, variable);
    }
    consumer
}

/// Takes all updates, in encoded runs if possible. Returns the updates and the number of runs.
fn take(consumer: &mut Consumer) -> (Vec<Got>, usize) {
    let mut sink = Recorder::default();
    sink.takes_runs = true;
    consumer.drain(&mut sink, &mut Wakes::new());
    let updates = sink.events.into_iter().filter_map(|event| match event {
        ConsumerEvent::Update(got) => Some(got),
        _ => None,
    });
    (updates.collect(), sink.runs)
}

fn of(got: &[Got], variable: &Variable) -> Vec<u64> {
    let own = got.iter().filter(|one| one.handle == variable.handle());
    own.map(|one| one.sequence).collect()
}

/// An encoded run is discarded together with its entries.
///
/// Behaviour: B-05, B-01.
#[test]
fn encoded_run_does_not_outlive_its_entries() {
    let rig = Rig::with(vec![
        VariableDefinition::new("x", DataType::F64),
        VariableDefinition::new("y", DataType::F64),
    ]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let write = |rounds: u32| {
        for round in 0..rounds {
            rig.write(&x, f64::from(round));
            rig.write(&y, f64::from(round));
        }
    };
    let (mut slow, mut fast) = (sharing(&rig, &[&x, &y]), sharing(&rig, &[&x, &y]));
    // Two first readings and one update.
    slow.grant(ID, 3);
    take(&mut fast);
    take(&mut slow);
    write(10);
    assert_eq!(
        take(&mut slow).0.len(),
        1,
        "the slow consumer has no more credit"
    );
    // The slow consumer has not taken the second ten updates out of the feed. The fast one leaves
    // them encoded.
    write(10);
    let (got, runs) = take(&mut fast);
    assert!(
        got.len() == 40 && runs > 1,
        "the two consumers share a feed: {runs} runs"
    );
    drop(fast);
    slow.unsubscribe(ID, Some(&[y.handle()]), &mut Wakes::new());
    // With its next drain, the consumer offers its feed for sharing.
    slow.grant(ID, 1);
    assert_eq!(of(&take(&mut slow).0, &x), [2]);
    // A third consumer joins the feed, and new updates reuse the positions of removed ones.
    let mut third = sharing(&rig, &[&x]);
    take(&mut third);
    write(10);
    let (got, runs) = take(&mut third);
    assert_eq!(of(&got, &x), (21..=30).collect::<Vec<u64>>());
    assert!(
        runs > 0,
        "the third consumer shares the feed of the slow one"
    );
    slow.grant(ID, 1000);
    let (mut got, mut more) = (Vec::new(), take(&mut slow).0);
    while !more.is_empty() {
        got.append(&mut more);
        more = take(&mut slow).0;
    }
    assert_eq!(of(&got, &x), (3..=30).collect::<Vec<u64>>());
    assert_eq!(of(&got, &y), [0; 0], "y is no longer subscribed");
    let ledger = slow
        .ledger(ID, x.handle())
        .expect("the subscription exists");
    assert!(ledger.is_balanced() && ledger.received == 30, "{ledger:?}");
}
