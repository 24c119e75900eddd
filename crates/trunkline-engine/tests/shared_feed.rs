//! Feeds that several subscriptions have in common, when who shares them changes.

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

/// The updates taken, in encoded runs where they exist, and the number of runs.
fn take(consumer: &mut Consumer) -> (Vec<Got>, usize) {
    let mut sink = Recorder::default();
    sink.takes_runs = true;
    consumer.drain(&mut sink, &mut Wakes::new());
    let updates = sink.told.into_iter().filter_map(|told| match told {
        ConsumerEvent::Update(got) => Some(got),
        _ => None,
    });
    (updates.collect(), sink.runs)
}

fn of(got: &[Got], variable: &Variable) -> Vec<u64> {
    let own = got.iter().filter(|one| one.handle == variable.handle());
    own.map(|one| one.sequence).collect()
}

/// A run that was encoded for all consumers is discarded with its entries.
///
/// Behaviour: B-05, B-01.
#[test]
fn an_encoded_piece_does_not_outlive_the_entries_it_was_made_of() {
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
    assert_eq!(take(&mut slow).0.len(), 1, "it has no more credit");
    // The second ten the slow one has not even taken out; the fast one leaves them encoded.
    write(10);
    let (got, runs) = take(&mut fast);
    assert!(
        got.len() == 40 && runs > 1,
        "the two share a feed: {runs} runs"
    );
    drop(fast);
    slow.unsubscribe(ID, Some(&[y.handle()]), &mut Wakes::new());
    // With the next it takes it offers its feed to others.
    slow.grant(ID, 1);
    assert_eq!(of(&take(&mut slow).0, &x), [2]);
    // A third one joins the rest, and new updates reuse the positions of removed ones.
    let mut third = sharing(&rig, &[&x]);
    take(&mut third);
    write(10);
    let (got, runs) = take(&mut third);
    assert_eq!(of(&got, &x), (21..=30).collect::<Vec<u64>>());
    assert!(runs > 0, "the third shares the slow one's feed");
    slow.grant(ID, 1000);
    let (mut got, mut more) = (Vec::new(), take(&mut slow).0);
    while !more.is_empty() {
        got.append(&mut more);
        more = take(&mut slow).0;
    }
    assert_eq!(of(&got, &x), (3..=30).collect::<Vec<u64>>());
    assert_eq!(of(&got, &y), [0; 0], "it is not subscribed any more");
    let ledger = slow
        .ledger(ID, x.handle())
        .expect("the subscription exists");
    assert!(ledger.is_balanced() && ledger.received == 30, "{ledger:?}");
}
