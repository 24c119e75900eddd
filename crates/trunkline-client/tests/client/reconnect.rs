//! The state that survives a reconnection, and the reports about the state that does not.

use std::time::Duration;

use trunkline_client::{Event, RecordedEvents, SubscribeOptions, WriteOutcome};
use trunkline_proto::message::ended::EndReason;
use trunkline_proto::message::hello::Resume;
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::message::open::{OpenOptions as WireOptions, OpenedBuilder};
use trunkline_proto::{Fault, FaultCode, FrameKind};
use trunkline_types::history::{HistoryPage, HistorySeries, Row, RowKey, Rows, SeriesData};
use trunkline_types::{Contract, DataType, Lost, Quality, Tick, Timestamp, Value};

use super::rig::{Rig, Said, value, write};

/// Replaces the engine with another one that has the same names and new values.
fn restart(rig: &mut Rig) {
    rig.cut();
    rig.engine.welcome.epoch += 1;
    rig.engine.welcome.session = 1;
    for variable in &mut rig.engine.variables {
        variable.handle += 1000;
        variable.sequence = 1;
    }
    rig.connect();
}

/// Answers from before an engine's restart are never mixed with those after it, even if the engine
/// gives the variable the same number.
#[test]
fn knowledge_of_a_variable_is_per_connection() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let (b, c) = (rig.open_one("a/b"), rig.open_one("a/c"));
    let known = |rig: &Rig, variable| rig.client.local_variable(variable);
    let before = known(&rig, b).unwrap();
    assert!(before.is_of_same_connection(&known(&rig, b).unwrap()));
    assert!(!before.is_of_same_connection(&known(&rig, c).unwrap()));
    rig.cut();
    assert!(known(&rig, b).is_none());
    rig.engine.welcome.epoch += 1;
    rig.connect();
    let after = known(&rig, b).unwrap();
    assert_eq!(before.handle(), after.handle());
    assert!(!before.is_of_same_connection(&after));
}

#[test]
fn subscription_resumes_after_its_last_update() {
    for contract in ["latest", "last:10", "first:10", "all", "sampled:1s"] {
        let mut rig = Rig::connected(&["a/b"]);
        let id = rig.subscribe(&["a/b"], contract);
        rig.set("a/b", 1.0);
        rig.events(id);
        rig.cut();
        for n in 2..=6 {
            rig.engine.set("a/b", f64::from(n));
        }
        rig.connect();
        let resumed = rig.said().into_iter().find_map(|said| match said {
            Said::Subscribe { resume, items, .. } => Some((resume, items)),
            _ => None,
        });
        assert_eq!(resumed, Some((Some(10), vec![(100, 2)])), "{contract}");
        let events = rig.events(id);
        let [
            Event::Disconnected {
                reconnecting: true, ..
            },
            Event::Connected { epoch: 10, .. },
            Event::Reading { item: 0, reading },
        ] = &events[..]
        else {
            panic!("{contract}: {events:?}")
        };
        assert_eq!(value(reading), 6.0);
        assert_eq!(
            reading.lost,
            Lost {
                disconnect: 4,
                ..Lost::NONE
            },
            "{contract}"
        );
        assert!(rig.client.ledger(id).unwrap().is_balanced());
    }
}

#[test]
fn nothing_is_delivered_twice_without_new_writes() {
    for contract in ["latest", "last:10", "all"] {
        let mut rig = Rig::connected(&["a/b"]);
        let id = rig.subscribe(&["a/b"], contract);
        rig.events(id);
        rig.reconnect();
        assert_eq!(rig.readings(id), [], "{contract}");
        assert!(rig.client.item(id, 0).unwrap().live);
        rig.set("a/b", 1.0);
        assert_eq!(rig.readings(id)[0].lost, Lost::NONE);
    }
}

/// The variable was deployed again, so its sequences continue after those of the former one.
///
/// Behaviour: B-01.
#[test]
fn missed_updates_are_counted_from_the_sequence_before_the_first() {
    for contract in ["latest", "all"] {
        let mut rig = Rig::connected(&["a/b"]);
        let handle = rig.engine.add_unwritten("a/n", DataType::F64);
        rig.engine.variable(handle).sequence = 5;
        let id = rig.subscribe(&["a/n"], contract);
        let readings = rig.readings(id);
        assert_eq!(readings[0].position.sequence, 0, "{contract}");
        assert!(!readings[0].has_value());
        rig.set("a/n", 1.0);
        let readings = rig.readings(id);
        assert_eq!(readings[0].position.sequence, 6, "{contract}");
        assert_eq!(readings[0].lost, Lost::NONE, "{contract}");
    }
}

/// Behaviour: B-01, B-63.
#[test]
fn recorded_updates_up_to_the_sequence_before_the_first_precede_it() {
    let mut rig = Rig::connected(&["a/b"]);
    let handle = rig.engine.add_unwritten("a/n", DataType::F64);
    rig.engine.variable(handle).sequence = 2;
    let id = rig.subscribe(&["a/n"], "all");
    let mut sut = RecordedEvents::new(&["a/n"], Timestamp::UNIX_EPOCH);
    while rig.client.next_recorded(rig.now, id, &mut sut) {}
    let mut rows = Rows::new(Some(8));
    for sequence in 1..=3 {
        rows.push(&Row {
            key: RowKey {
                time: sequence as i64,
                epoch: rig.engine.welcome.epoch,
                sequence,
            },
            delay: 0,
            quality: Quality::GOOD,
            value: &1.0_f64.to_le_bytes(),
        });
    }
    sut.take_page(HistoryPage {
        series: vec![HistorySeries {
            variable: "a/n".to_owned(),
            data_type: DataType::F64,
            units: String::new(),
            data: SeriesData::Rows(rows),
        }],
        ..HistoryPage::default()
    });
    rig.set("a/n", 1.0);
    while rig.client.next_recorded(rig.now, id, &mut sut) {}
    assert!(sut.query().is_none());
    let events = std::iter::from_fn(|| sut.next_event());
    let readings = events.filter_map(|event| match event {
        Event::Reading { reading, .. } => Some((reading.position.sequence, reading.lost)),
        _ => None,
    });
    let expected = [1, 2, 0, 3].map(|sequence| (sequence, Lost::NONE));
    assert_eq!(readings.collect::<Vec<_>>(), expected);
}

#[test]
fn loss_across_an_engine_restart_is_unknown_and_never_zero() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all");
    rig.events(id);
    restart(&mut rig);
    let opens = rig
        .said()
        .iter()
        .filter(|said| said.kind() == FrameKind::Open)
        .count();
    assert_eq!(opens, 1, "opened and subscribed in one round trip");
    let readings = rig.readings(id);
    assert_eq!(
        readings[0].lost,
        Lost {
            unknown: true,
            ..Lost::NONE
        }
    );
    assert_eq!(readings[0].lost.count(), None);
    rig.set("a/b", 1.0);
    assert_eq!(rig.readings(id)[0].lost, Lost::NONE);
}

#[test]
fn other_engine_at_the_same_address_is_never_confused() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "latest");
    rig.events(id);
    rig.engine.welcome.engine_id = [7; 16];
    rig.reconnect();
    let resumed = rig
        .said()
        .iter()
        .any(|said| said.kind() == FrameKind::Subscribe);
    assert!(
        !resumed,
        "its epoch is equal by chance, its positions mean nothing here"
    );
    assert!(rig.client.item(id, 0).unwrap().live);
}

#[test]
fn the_value_before_the_reconnect_is_never_confused_with_the_one_after() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let id = rig.subscribe(&["a/b", "a/c"], "latest");
    rig.events(id);
    rig.set("a/b", 1.0);
    rig.set("a/c", 2.0);
    rig.cut();
    rig.engine.set("a/b", 3.0);
    rig.connect();
    let events = rig.events(id);
    let [
        Event::Reading { item: 1, .. },
        Event::Disconnected { .. },
        Event::Connected { .. },
        Event::Reading { item: 0, reading },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((value(reading), reading.lost.coalesced), (3.0, 1));
}

#[test]
fn reading_taken_while_disconnected_has_its_age() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all");
    rig.cut();
    rig.now = rig.now.saturating_add(Duration::from_secs(5));
    assert_eq!(rig.readings(id)[0].stale, Some(Duration::from_secs(5)));
}

#[test]
fn subscriptions_made_without_a_connection_begin_with_the_next_one() {
    let mut rig = Rig::new();
    rig.engine.add("a/b", Value::F64(4.0));
    let options = SubscribeOptions::default();
    let id = rig
        .client
        .subscribe(&["a/b"], Contract::ALL, options)
        .unwrap();
    let gone = rig
        .client
        .subscribe(&["a/b"], Contract::ALL, options)
        .unwrap();
    rig.client.unsubscribe(gone);
    rig.connect();
    let events = rig.events(id);
    assert!(
        matches!(
            &events[..],
            [Event::Connected { .. }, Event::Reading { .. }]
        ),
        "{events:?}"
    );
    assert_eq!(rig.engine.subscriptions.len(), 1);
}

#[test]
fn hello_names_the_previous_session() {
    let mut rig = Rig::connected(&[]);
    rig.reconnect();
    let Some(Said::Hello(hello)) = rig.said().into_iter().next() else {
        panic!("no hello")
    };
    assert_eq!(
        hello.resume,
        Some(Resume {
            session: 1,
            epoch: 10,
            engine_id: rig.engine.welcome.engine_id,
        })
    );
}

#[test]
fn open_variables_are_reopened_before_they_are_used() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let (b, c) = (rig.open_one("a/b"), rig.open_one("a/c"));
    rig.cut();
    let read = rig.client.read(&[b]).unwrap();
    let writes = rig.client.write([write(c, 1.0)]).unwrap();
    rig.engine.welcome.epoch += 1;
    rig.engine.variable(100).handle = 555;
    rig.connect();
    assert!(rig.answer_readings(read)[0].is_ok());
    assert!(matches!(
        rig.client.take_outcomes(writes).unwrap()[0],
        WriteOutcome::Applied(_)
    ));
    let kinds: Vec<_> = rig.said().iter().map(Said::kind).collect();
    assert_eq!(kinds[..2], [FrameKind::Hello, FrameKind::Open]);
}

#[test]
fn variable_replaced_meanwhile_starts_from_the_beginning() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all");
    rig.events(id);
    rig.cut();
    rig.engine.variable(100).handle = 200;
    rig.engine.variable(200).data_type = DataType::I32;
    rig.engine.variable(200).value = Some(Value::I32(5));
    rig.connect();
    let events = rig.events(id);
    let events: Vec<&Event> = events
        .iter()
        .filter(|event| !is_connection(event))
        .collect();
    let [
        Event::Ended {
            item: 0,
            reason: EndReason::Gone,
            last: Some(_),
            ..
        },
        Event::Reading { reading, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    let readings = [reading];
    assert_eq!(readings[0].sample.value, Value::I32(5));
    assert!(readings[0].lost.unknown);
    assert_eq!(
        rig.client.item(id, 0).unwrap().data_type,
        Some(DataType::I32)
    );
}

/// The connection breaks after the end of a variable was reported, and before the next one is
/// deployed.
#[test]
fn end_of_a_replaced_variable_is_reported_once() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let id = rig.subscribe(&["a/b"], "all");
    rig.engine.undeploy("a/b");
    rig.exchange();
    let before = rig.events(id);
    assert!(
        matches!(before.last(), Some(Event::Ended { .. })),
        "{before:?}"
    );
    rig.cut();
    rig.engine.add("a/b", Value::F64(8.0));
    rig.connect();
    let events = rig.events(id);
    let is_end = |event: &&Event| matches!(event, Event::Ended { .. });
    assert_eq!(events.iter().filter(is_end).count(), 0, "{events:?}");
    let Some(Event::Reading { reading, .. }) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(reading.sample.value, Value::F64(8.0));
}

fn is_connection(event: &Event) -> bool {
    matches!(event, Event::Connected { .. } | Event::Disconnected { .. })
}

#[test]
fn missing_variable_is_reported_and_searched_again() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let id = rig.subscribe(&["a/b", "a/c"], "latest");
    rig.events(id);
    rig.engine.undeploy("a/b");
    rig.exchange();
    let events = rig.events(id);
    let [
        Event::Ended {
            item: 0,
            reason: EndReason::Gone,
            ..
        },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    let mut tries = Vec::new();
    for second in 0..600 {
        rig.pass(Duration::from_secs(1));
        rig.tell(|out| Keepalive::default().encode(out));
        let said = rig.said();
        if said.iter().any(|said| said.kind() == FrameKind::Open) {
            tries.push(second);
        }
    }
    assert!(tries[0] <= 1, "soon at first: {tries:?}");
    assert!((12..40).contains(&tries.len()), "then seldom: {tries:?}");
    let events = rig.events(id);
    assert_eq!(events.len(), 1, "the same fault is told once: {events:?}");

    rig.engine.add("a/b", Value::F64(8.0));
    for _ in 0..120 {
        rig.pass(Duration::from_millis(500));
        rig.tell(|out| Keepalive::default().encode(out));
    }
    let readings = rig.readings(id);
    assert_eq!((value(&readings[0]), readings[0].lost.unknown), (8.0, true));
}

#[test]
fn a_name_that_does_not_exist_is_that_items_error_only() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/nope", "a/b"], "latest");
    let events = rig.events(id);
    let [
        _,
        Event::ItemError { item: 0, fault },
        Event::Reading { item: 1, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(fault.code, FaultCode::UnknownName);
    let late = rig.subscribe(&["a/nope"], "latest");
    assert!(
        matches!(rig.events(late)[1], Event::ItemError { .. }),
        "a second one is told as well"
    );
}

#[test]
fn unsubscribed_item_may_still_be_in_transit() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let kept = rig.subscribe(&["a/b"], "latest");
    rig.engine.hold(FrameKind::Open);
    let id = rig.subscribe(&["a/c"], "latest");
    let all = rig.subscribe(&["a/c"], "all");
    rig.client.unsubscribe(id);
    rig.client.unsubscribe(all);
    rig.exchange();
    rig.engine.held.clear();
    for said in rig.said() {
        if said.kind() == FrameKind::Open && said != first_open() {
            rig.engine.answer(&said);
        }
    }
    rig.exchange();
    let wire = rig.wire(kept);
    assert_eq!(rig.engine.subscriptions.len(), 1);
    assert_eq!(rig.engine.subscriptions[&wire].handles, [100].into());
    assert_eq!(rig.client.variables_in_use(), 1);
}

/// The frame that opened `a/b`, which was answered.
fn first_open() -> Said {
    use trunkline_proto::message::contract::SubscribeFlags;
    use trunkline_proto::message::open::{OpenOptions, OpenTerms};
    use trunkline_proto::message::subscribe::SubscribeTerms;
    let (contract, flags) = (Contract::Latest, SubscribeFlags::NONE);
    let subscribe = Some(SubscribeTerms {
        subscription: 1,
        contract,
        flags,
    });
    let terms = OpenTerms {
        options: OpenOptions::default(),
        subscribe,
    };
    Said::Open {
        request: 1,
        terms,
        names: vec!["a/b".to_owned()],
        more: false,
    }
}

#[test]
fn a_subscription_that_joins_while_others_are_restored_is_subscribed_once() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let one = rig.subscribe(&["a/b"], "latest");
    rig.cut();
    rig.engine.hold(FrameKind::Open);
    rig.connect();
    let two = rig.subscribe(&["a/c", "a/b"], "latest");
    rig.engine.held.clear();
    let held: Vec<Said> = rig
        .said()
        .into_iter()
        .filter(|s| s.kind() == FrameKind::Open)
        .collect();
    held.iter().for_each(|said| rig.engine.answer(said));
    rig.exchange();
    // The fake engine refuses a second subscription of an item.
    let wire = rig.wire(one);
    assert_eq!(rig.engine.subscriptions[&wire].handles, [100, 101].into());
    assert!(rig.client.item(two, 0).unwrap().live && rig.client.item(two, 1).unwrap().live);
}

#[test]
fn unread_updates_across_reconnects_stay_within_twice_the_bound() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all:10");
    for _ in 0..20 {
        for n in 1..=10 {
            let wire = rig.wire(id);
            if rig.engine.subscriptions.contains_key(&wire) {
                rig.set("a/b", f64::from(n));
            } else {
                rig.engine.variable(100).sequence += 1;
            }
        }
        rig.reconnect();
    }
    let waiting = rig.client.ledger(id).unwrap().waiting;
    assert_eq!(
        waiting, 11,
        "what waited before is taken before anything new is asked for"
    );
    let written = rig.engine.variable(100).sequence;
    let mut readings = rig.readings(id);
    readings.extend(rig.readings(id));
    let lost: u64 = readings.iter().map(|r| r.lost.count().unwrap()).sum();
    assert_eq!(
        readings.len() as u64 + lost,
        written,
        "nothing is unaccounted for"
    );
    assert!(rig.client.ledger(id).unwrap().is_balanced());
}

#[test]
fn reconnect_releases_unused_variables() {
    let mut rig = Rig::connected(&["a/b"]);
    for round in 0..5 {
        let id = rig.subscribe(&["a/b"], if round % 2 == 0 { "latest" } else { "all" });
        let variable = rig.open_one("a/b");
        rig.client
            .write_untracked([write(variable, 1.0)], Tick::MAX)
            .unwrap();
        rig.cut();
        rig.client.unsubscribe(id);
        let close = rig.client.close(&[variable]).unwrap();
        assert!(rig.client.is_answered(close));
        rig.client.take(close);
        rig.connect();
        assert!(rig.engine.subscriptions.is_empty());
    }
    rig.exchange();
    assert_eq!(
        (rig.client.variables_in_use(), rig.client.pending()),
        (0, 0)
    );
}

#[test]
fn credit_of_all_restarts_with_every_connection() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all:8");
    for n in 1..=3 {
        rig.set("a/b", f64::from(n));
    }
    for _ in 0..3 {
        rig.client.next_event(rig.now, id).unwrap();
    }
    rig.reconnect();
    assert_eq!(rig.values(id), [2.0, 3.0]);
    rig.set("a/b", 4.0);
    assert_eq!(rig.values(id), [4.0]);
    let wire = rig.wire(id);
    let granted = rig.engine.subscriptions[&wire].granted;
    assert_eq!(
        granted, 8,
        "what was sent under the old credit makes no room under the new"
    );
}

#[test]
fn own_writes_of_an_earlier_epoch_are_not_marked() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all");
    let variable = rig.open_one("a/b");
    rig.client
        .write_untracked([write(variable, 1.0)], Tick::MAX)
        .unwrap();
    rig.exchange();
    restart(&mut rig);
    rig.set("a/b", 2.0);
    let own: Vec<bool> = rig.readings(id).iter().map(|reading| reading.own).collect();
    assert_eq!(own, [false; 3]);
}

/// The retry may become due while the request in which an item failed is still being answered.
///
/// Behaviour: B-83.
#[test]
fn failed_item_is_retried_only_after_the_whole_answer() {
    let mut rig = Rig::connected(&[]);
    rig.engine.hold(FrameKind::Open);
    let id = rig.subscribe(&["a/v0", "a/v1"], "latest");
    let fault = Fault::from(FaultCode::LimitReached);
    let asked = |rig: &mut Rig| -> Vec<(u32, Vec<String>)> {
        let said = rig.said().into_iter();
        said.filter_map(|said| match said {
            Said::Open { request, names, .. } => Some((request, names)),
            _ => None,
        })
        .collect()
    };
    let pass = |rig: &mut Rig| {
        for _ in 0..10 {
            rig.pass(Duration::from_millis(500));
            rig.tell(|out| Keepalive::default().encode(out));
        }
    };
    let answer = |rig: &mut Rig, request, first, more| {
        rig.tell(|out| {
            let mut page = OpenedBuilder::begin(out, request, WireOptions::default(), first);
            page.push_fault(fault.as_ref());
            page.finish(more);
        });
    };
    let (request, _) = asked(&mut rig)[0].clone();
    answer(&mut rig, request, 0, true);
    pass(&mut rig);
    assert_eq!(asked(&mut rig), [], "before the answer is complete");
    answer(&mut rig, request, 1, false);
    let faults: Vec<(u32, FaultCode)> = rig
        .events(id)
        .iter()
        .filter_map(|event| match event {
            Event::ItemError { item, fault } => Some((*item, fault.code)),
            _ => None,
        })
        .collect();
    assert_eq!(
        faults,
        [(0, FaultCode::LimitReached), (1, FaultCode::LimitReached)]
    );
    pass(&mut rig);
    let again = asked(&mut rig);
    assert_eq!(again.len(), 1, "the second request is not answered yet");
    assert_eq!(again[0].1, ["a/v0", "a/v1"]);
}
