//! Large lists: 100,000 names in one call.

use trunkline_client::{Event, OpenOptions, WriteOutcome};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_types::Value;

use super::rig::{Rig, Said, write};

const COUNT: usize = 100_000;

fn names() -> Vec<String> {
    (0..COUNT)
        .map(|n| format!("plant/area {}/variable {n}", n % 100))
        .collect()
}

fn rig(names: &[String]) -> Rig {
    let mut rig = Rig::new();
    // As `add`, without searching for the variable again.
    for name in names {
        rig.engine
            .add_unwritten(name, trunkline_types::DataType::F64);
        if let Some(variable) = rig.engine.variables.last_mut() {
            variable.sequence = 1;
            variable.value = Some(Value::F64(1.0));
        }
    }
    rig.engine.index();
    rig.connect();
    rig
}

/// Behaviour: API-02, B-30.
#[test]
fn a_hundred_thousand_variables_are_opened_read_and_written_by_lists() {
    let names = names();
    let mut rig = rig(&names);
    rig.said();
    let open = rig.client.open(&names, OpenOptions::default()).unwrap();
    rig.exchange();
    let frames = rig.said();
    let more = |said: &Said| matches!(said, Said::Open { more: true, .. });
    assert_eq!(
        frames.iter().filter(|said| !more(said)).count(),
        1,
        "the last frame of the run"
    );
    assert!(
        frames.len() < COUNT * 40 / PAGE_BYTES + 10,
        "{} frames",
        frames.len()
    );
    let opened = rig.answer(open).unwrap();
    let variables: Vec<_> = opened
        .into_iter()
        .map(|opened| opened.unwrap().variable)
        .collect();

    let read = rig.client.read(&variables).unwrap();
    let readings = rig.answer(read).unwrap();
    assert!(readings.iter().all(Result::is_ok) && readings.len() == COUNT);
    let batch = rig
        .client
        .write(variables.iter().map(|v| write(*v, 2.0)))
        .unwrap();
    rig.exchange();
    let outcomes = rig.client.take_outcomes(batch).unwrap();
    let applied = |outcome: &WriteOutcome| matches!(outcome, WriteOutcome::Applied(_));
    assert!(outcomes.iter().all(applied) && outcomes.len() == COUNT);
    let close = rig.client.close(&variables).unwrap();
    assert!(matches!(rig.answer(close), Ok(results) if results.len() == COUNT));
    assert_eq!(rig.client.variables_in_use(), 0);
}

#[test]
fn a_hundred_thousand_variables_are_opened_and_subscribed_in_one_request() {
    let names = names();
    let mut rig = rig(&names);
    let id = rig
        .client
        .subscribe(&names, "latest".parse().unwrap(), Default::default())
        .unwrap();
    rig.exchange();
    assert_eq!(rig.client.waiting(id), COUNT + 1);
    let mut items = 0u32;
    while let Some(event) = rig.client.next_event(rig.now, id) {
        match event {
            Event::Reading { item, .. } => {
                assert_eq!(item, items);
                items += 1;
            }
            Event::Connected { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(items as usize, COUNT);
    assert!(rig.client.ledger(id).unwrap().is_balanced());
    rig.reconnect();
    assert_eq!(
        rig.readings(id),
        [],
        "resumed, and nothing was written meanwhile"
    );
    assert!((0..COUNT as u32).all(|item| rig.client.item(id, item).unwrap().live));
    rig.client.unsubscribe(id);
    rig.exchange();
    assert_eq!(
        (
            rig.engine.subscriptions.len(),
            rig.client.variables_in_use()
        ),
        (0, 0)
    );
}
