//! LabMap's policy: the number of a variable waits, and the value is the newest when it is sent.

use trunkline_client::{VariableRef, Write, WriteOutcome};
use trunkline_proto::{Features, FrameKind};
use trunkline_types::{Tick, Value};

use super::rig::{Rig, Said, SaidWrite, write};

fn newest(variable: VariableRef, value: f64) -> Write {
    Write::newest(variable, Value::F64(value))
}

/// Variables `a/a` and `a/b` at an engine that takes `credit` unanswered writes, and answers none.
fn busy(credit: u32, features: Features) -> (Rig, [VariableRef; 2]) {
    let mut rig = Rig::new();
    for name in ["a/a", "a/b"] {
        rig.engine.add(name, Value::F64(0.0));
    }
    rig.engine.welcome.features = features;
    rig.engine.welcome.write_credit_count = credit;
    rig.connect();
    let variables = ["a/a", "a/b"].map(|name| rig.open_one(name));
    rig.engine.hold(FrameKind::Write);
    rig.said();
    (rig, variables)
}

fn said(rig: &mut Rig) -> Vec<SaidWrite> {
    let writes = |said| match said {
        Said::Write(writes) => writes,
        _ => Vec::new(),
    };
    rig.said().into_iter().flat_map(writes).collect()
}

fn values(writes: &[SaidWrite]) -> Vec<(u32, f64)> {
    let value = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
    writes
        .iter()
        .map(|write| (write.handle, value(&write.value)))
        .collect()
}

/// The first write is sent at once and the others wait, as on a slow connection.
fn fill(rig: &mut Rig, variable: VariableRef) -> SaidWrite {
    rig.client
        .write_untracked([write(variable, 0.5)], Tick::MAX)
        .unwrap();
    rig.exchange();
    said(rig).remove(0)
}

/// Answers the last frames. Returns the next ones.
fn go_on(rig: &mut Rig, before: &SaidWrite) -> Vec<SaidWrite> {
    rig.engine.held.clear();
    rig.engine.answer_writes(std::slice::from_ref(before));
    rig.exchange();
    said(rig)
}

/// Behaviour: LM-20, LM-21.
#[test]
fn waiting_register_is_sent_once_with_its_newest_value() {
    let (mut rig, [a, b]) = busy(1, Features::OURS);
    let first = fill(&mut rig, b);
    let batches = [1.0, 2.0, 3.0].map(|value| rig.client.write([newest(a, value)]).unwrap());
    rig.exchange();
    assert_eq!(said(&mut rig), [], "the credit is used up");
    for batch in &batches[..2] {
        let outcomes = rig.client.take_outcomes(*batch).expect("they have ended");
        assert_eq!(outcomes, [WriteOutcome::Superseded]);
    }
    assert_eq!(rig.client.take_outcomes(batches[2]), None);
    let counts = rig.client.write_counts();
    assert_eq!(
        (counts.issued, counts.superseded, counts.waiting),
        (4, 2, 1)
    );
    let sent = go_on(&mut rig, &first);
    assert_eq!(values(&sent), [(100, 3.0)]);
    assert_eq!(sent[0].options.superseded, 2, "the engine counts them, too");
    let outcomes = rig
        .client
        .take_outcomes(batches[2])
        .expect("it is answered");
    assert!(matches!(outcomes[0], WriteOutcome::Applied(_)));
    let counts = rig.client.write_counts();
    assert_eq!((counts.applied, counts.superseded), (2, 2));
    assert_eq!(counts.waiting + counts.in_flight, 0);
}

/// Behaviour: LM-20, LM-21.
#[test]
fn queued_value_is_the_newest_in_order() {
    let (mut rig, [a, b]) = busy(1, Features::OURS);
    let first = fill(&mut rig, b);
    let writes = [
        newest(a, 1.0),
        newest(b, 1.0),
        newest(a, 2.0),
        newest(b, 2.0),
    ];
    rig.client.write_untracked(writes, Tick::MAX).unwrap();
    let sent = go_on(&mut rig, &first);
    assert_eq!(
        values(&sent),
        [(100, 2.0), (101, 2.0)],
        "in the order of the first sets"
    );
}

/// Behaviour: LM-21.
#[test]
fn sent_writes_are_not_superseded() {
    let (mut rig, [a, _]) = busy(1, Features::OURS);
    rig.client
        .write_untracked([newest(a, 1.0)], Tick::MAX)
        .unwrap();
    rig.exchange();
    let first = said(&mut rig).remove(0);
    // The first write is in transit, so the same register is queued again.
    rig.client
        .write_untracked([newest(a, 2.0), newest(a, 3.0)], Tick::MAX)
        .unwrap();
    let counts = rig.client.write_counts();
    assert_eq!(
        (counts.in_flight, counts.waiting, counts.superseded),
        (1, 1, 1)
    );
    assert_eq!(values(&go_on(&mut rig, &first)), [(100, 3.0)]);
    // The queue is empty, so it starts again.
    rig.client
        .write_untracked([newest(a, 4.0)], Tick::MAX)
        .unwrap();
    rig.exchange();
    let sent = said(&mut rig);
    assert_eq!(
        (values(&sent), sent[0].options.superseded),
        (vec![(100, 4.0)], 0)
    );
}

#[test]
fn plain_queued_writes_are_not_superseded() {
    let (mut rig, [a, b]) = busy(1, Features::OURS);
    let first = fill(&mut rig, b);
    let writes = [newest(a, 1.0), write(a, 2.0), newest(a, 3.0), write(a, 4.0)];
    rig.client.write_untracked(writes, Tick::MAX).unwrap();
    let sent = go_on(&mut rig, &first);
    // The newest value has the position of the replaced write, before the writes made in the
    // meantime.
    assert_eq!(values(&sent), [(100, 3.0), (100, 2.0), (100, 4.0)]);
}

#[test]
fn without_a_connection_the_newest_value_waits_for_the_next_one() {
    let (mut rig, [a, _]) = busy(8, Features::OURS);
    rig.cut();
    (0..100).for_each(|n| {
        let write = newest(a, f64::from(n));
        rig.client.write_untracked([write], Tick::MAX).unwrap();
    });
    assert_eq!(rig.client.write_counts().waiting, 1);
    rig.engine.held.clear();
    rig.connect();
    let sent = said(&mut rig);
    assert_eq!(
        (values(&sent), sent[0].options.superseded),
        (vec![(100, 99.0)], 99)
    );
    assert_eq!(rig.client.write_counts().superseded, 99);
}

/// An engine without a count of superseded writes gets the value nevertheless.
#[test]
fn an_engine_of_an_earlier_release_gets_the_newest_value_too() {
    let (mut rig, [a, b]) = busy(1, Features::NONE);
    let first = fill(&mut rig, b);
    let writes = [newest(a, 1.0), newest(a, 2.0)];
    rig.client.write_untracked(writes, Tick::MAX).unwrap();
    let sent = go_on(&mut rig, &first);
    assert_eq!(
        (values(&sent), sent[0].options.superseded),
        (vec![(100, 2.0)], 0)
    );
    assert_eq!(rig.client.write_counts().refused, 0);
}
