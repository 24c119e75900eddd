//! The local copy of a value: read without a request, new once, and stale when a newer value may
//! exist.

use std::time::Duration;

use trunkline_client::{Event, OpenOptions, SubscribeOptions};
use trunkline_proto::FrameKind;
use trunkline_types::{Contract, Lost, Position, Quality, Reason, Value};

use super::rig::{Rig, WALL, value};

/// Behaviour: VS-10.
#[test]
fn a_notification_carries_everything_about_the_value() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all");
    rig.set("a/b", 4.5);
    rig.said();
    let readings = rig.readings(id);
    let reading = readings.last().unwrap();
    assert_eq!(value(reading), 4.5);
    assert_eq!(
        reading.position,
        Position {
            epoch: 10,
            sequence: 2
        }
    );
    assert_eq!(reading.sample.quality, Quality::GOOD);
    assert_eq!(reading.sample.engine_timestamp, WALL);
    assert_eq!(
        (reading.stale, reading.own, reading.lost),
        (None, false, Lost::NONE)
    );
    let asked = rig.said().iter().any(|said| said.kind() == FrameKind::Read);
    assert!(!asked, "nobody had to ask");
}

/// Behaviour: VS-09.
#[test]
fn the_local_copy_is_read_without_asking_the_engine() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "latest");
    rig.set("a/b", 3.0);
    rig.said();
    for _ in 0..100 {
        assert_eq!(
            rig.client.value(rig.now, id, 0).map(|r| value(&r)),
            Some(3.0)
        );
    }
    rig.exchange();
    assert!(rig.said().is_empty(), "no polling");
    assert_eq!(rig.values(id), [3.0], "looking at the copy takes nothing");
}

/// Behaviour: API-09.
#[test]
fn each_reader_gets_a_value_as_new_once_and_as_current_always() {
    for contract in ["latest", "sampled:1s", "last:10", "first:10", "all"] {
        let mut rig = Rig::connected(&["a/b", "a/c"]);
        let one = rig.subscribe(&["a/c", "a/b"], contract);
        let two = rig.subscribe(&["a/b"], contract);
        rig.set("a/c", 9.0);
        let read = |reading: Option<_>| reading.as_ref().map(value);
        assert_eq!(read(rig.client.read_new(rig.now, one, 1)), Some(0.0));
        assert_eq!(
            read(rig.client.read_new(rig.now, one, 1)),
            None,
            "{contract}: not new"
        );
        assert_eq!(
            read(rig.client.read_current(rig.now, one, 1)),
            Some(0.0),
            "the last value"
        );
        assert_eq!(
            read(rig.client.read_new(rig.now, two, 0)),
            Some(0.0),
            "new to the other one"
        );
        rig.set("a/b", 1.0);
        assert_eq!(read(rig.client.read_current(rig.now, one, 1)), Some(1.0));
        assert_eq!(
            read(rig.client.read_new(rig.now, one, 1)),
            None,
            "a plain read is a read"
        );
        assert!(rig.client.ledger(one).unwrap().is_balanced());
    }
}

/// Behaviour: B-12.
#[test]
fn a_reading_is_stale_beyond_its_maximum_age() {
    let mut rig = Rig::connected(&["a/b"]);
    let max_age = Some(Duration::from_secs(2));
    let options = SubscribeOptions {
        max_age,
        ..SubscribeOptions::default()
    };
    rig.engine.variable(100).engine_timestamp = WALL.saturating_add_nanos(-1_500_000_000);
    let id = rig.subscribe_with(&["a/b"], Contract::Latest, options);
    assert_eq!(rig.readings(id)[0].stale, None, "1.5 s old when it came");
    rig.pass(Duration::from_millis(600));
    let age = rig.client.value(rig.now, id, 0).unwrap().stale;
    assert_eq!(age, Some(Duration::from_millis(2100)));
    rig.set("a/b", 1.0);
    assert_eq!(rig.readings(id)[0].stale, None);
}

/// Behaviour: B-12.
#[test]
fn values_marked_old_by_the_engine_are_stale_with_their_age() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "latest");
    rig.readings(id);
    let variable = rig.engine.variable(100);
    variable.engine_timestamp = WALL.saturating_add_nanos(-3_000_000_000);
    variable.quality = Quality::uncertain(Reason::Stale);
    rig.set("a/b", 1.0);
    let reading = &rig.readings(id)[0];
    assert_eq!(reading.stale, Some(Duration::from_secs(3)));
    let opened = rig.open_one("a/b");
    let request = rig.client.read(&[opened]).unwrap();
    let read = rig.answer(request).unwrap();
    assert_eq!(
        read[0].as_ref().unwrap().stale,
        Some(Duration::from_secs(3))
    );
    rig.engine.variable(100).quality = Quality::GOOD;
    rig.engine.variable(100).engine_timestamp = WALL;
    rig.set("a/b", 2.0);
    assert_eq!(rig.readings(id)[0].stale, None);
}

/// Behaviour: B-12.
#[test]
fn local_copy_is_stale_and_bad_while_disconnected() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "latest");
    rig.set("a/b", 3.0);
    rig.cut();
    let reading = rig.client.value(rig.now, id, 0).unwrap();
    assert_eq!(
        (value(&reading), reading.stale),
        (3.0, Some(Duration::ZERO))
    );
    assert_eq!(reading.sample.quality.reason(), Reason::ConnectionLost);
    rig.connect();
    let reading = rig.client.value(rig.now, id, 0).unwrap();
    assert_eq!(
        (reading.stale, reading.sample.quality),
        (None, Quality::GOOD)
    );
}

#[test]
fn unwritten_variable_reads_as_its_default_with_bad_quality() {
    let mut rig = Rig::connected(&[]);
    rig.engine
        .add_unwritten("a/b", trunkline_types::DataType::F64);
    let id = rig.subscribe(&["a/b"], "latest");
    let reading = &rig.readings(id)[0];
    assert_eq!((value(reading), reading.position.sequence), (0.0, 0));
    assert_eq!(reading.sample.quality, Quality::bad(Reason::NoValue));
}

#[test]
fn read_returns_the_engine_value_and_marks_it_if_too_old() {
    let mut rig = Rig::connected(&["a/b"]);
    let age = Duration::from_secs(3);
    rig.engine.variable(100).properties.max_age = Some(Duration::from_secs(1));
    rig.engine.variable(100).engine_timestamp = WALL.saturating_add_nanos(-3_000_000_000);
    let options = OpenOptions {
        describe: true,
        ..OpenOptions::default()
    };
    let open = rig.client.open(&["a/b"], options).unwrap();
    let opened = rig.answer(open).unwrap().remove(0).unwrap();
    let read = rig.client.read(&[opened.variable]).unwrap();
    assert_eq!(
        rig.answer_readings(read)[0].as_ref().unwrap().stale,
        Some(age)
    );
}

/// Updates reach their items for any order of handles: that of the items, the reverse, with gaps,
/// and any order within a frame.
#[test]
fn updates_find_their_items_for_any_handles() {
    let names = ["a/0", "a/1", "a/2", "a/3", "a/4", "a/5"];
    let mut rig = Rig::connected(&names);
    let orders = [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [5, 0, 3, 1, 4]];
    for order in orders {
        let chosen = order.map(|index: usize| names[index]);
        let id = rig.subscribe(&chosen, "all");
        rig.events(id);
        for sets in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 2, 5, 0, 4, 1]] {
            for index in sets {
                rig.set(names[index], index as f64);
            }
            let expected: Vec<(u32, Value)> = sets
                .iter()
                .filter_map(|set| Some((order.iter().position(|at| at == set)?, *set)))
                .map(|(item, set)| (item as u32, Value::F64(set as f64)))
                .collect();
            let read = |event| match event {
                Event::Reading { item, reading } => (item, reading.sample.value),
                other => panic!("a reading was expected, not {other:?}"),
            };
            let found: Vec<_> = rig.events(id).into_iter().map(read).collect();
            assert_eq!(found, expected, "{order:?} {sets:?}");
        }
    }
}
