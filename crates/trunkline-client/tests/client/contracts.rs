//! The readings that each contract keeps while the program does not take them, and its loss
//! reports.

use std::time::Duration;

use trunkline_client::{Event, SubscribeError, SubscribeOptions, contract_of_buffer};
use trunkline_proto::message::ended::{EndReason, EndedBuilder, EndedHead, EndedItem};
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::{Features, FrameKind};
use trunkline_types::{Contract, DataType, Lost, Position, Value};

use super::rig::{Rig, Said, lost, value};

fn all(elements: u32, bytes: u32) -> Contract {
    Contract::All { elements, bytes }
}

/// Ends a subscription at the engine by an overrun after this update, with this number of lost
/// updates.
fn overrun(rig: &mut Rig, subscription: u32, handle: u32, last_sequence: u64, lost: u64) {
    let reason = EndReason::Overrun;
    rig.engine.subscriptions.remove(&subscription);
    rig.tell(|out| {
        let head = EndedHead {
            reason,
            epoch: 10,
            sentence: "too slow",
        };
        let mut frame = EndedBuilder::begin(out, subscription, &head);
        frame.push(&EndedItem {
            handle,
            last_sequence,
            lost,
        });
        frame.finish(false);
    });
}

/// Behaviour: B-03.
#[test]
fn latest_keeps_the_newest_value_and_counts_what_it_replaced() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "latest");
    assert_eq!(rig.values(id), [0.0]);
    for n in 1..=5 {
        rig.set("a/b", f64::from(n));
    }
    let readings = rig.readings(id);
    assert_eq!((readings.len(), value(&readings[0])), (1, 5.0));
    assert_eq!(
        readings[0].lost,
        Lost {
            coalesced: 4,
            ..Lost::NONE
        }
    );
    assert!(
        readings[0].lost.nothing_lost(),
        "to coalesce is what the contract says"
    );
    let ledger = rig.client.ledger(id).unwrap();
    assert_eq!((ledger.received, ledger.taken, ledger.coalesced), (6, 2, 4));
}

/// Behaviour: B-03.
#[test]
fn coalesced_counts_of_engine_and_client_add_up() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "latest");
    rig.readings(id);
    rig.engine.variable(100).sequence += 3;
    rig.set("a/b", 1.0);
    rig.set("a/b", 2.0);
    assert_eq!(rig.readings(id)[0].lost.coalesced, 3 + 1);
}

/// Behaviour: B-03.
#[test]
fn last_drops_the_oldest_and_reports_the_count() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "last:3");
    for n in 1..=6 {
        rig.set("a/b", f64::from(n));
    }
    let readings = rig.readings(id);
    assert_eq!(
        readings.iter().map(value).collect::<Vec<_>>(),
        [4.0, 5.0, 6.0]
    );
    let queue = |lost: &Lost| lost.queue;
    assert_eq!(
        readings.iter().map(|r| queue(&r.lost)).collect::<Vec<_>>(),
        [4, 0, 0]
    );
}

#[test]
fn every_item_of_last_has_its_own_buffer() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let id = rig.subscribe(&["a/b", "a/c"], "last:2");
    rig.set("a/c", 0.5);
    for n in 1..=100 {
        rig.set("a/b", f64::from(n));
    }
    assert_eq!(
        rig.values(id),
        [0.0, 0.5, 99.0, 100.0],
        "the slow one loses nothing to the fast one"
    );
}

/// Behaviour: B-03.
#[test]
fn first_keeps_the_oldest_and_counts_later_updates() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "first:3");
    for n in 1..=6 {
        rig.set("a/b", f64::from(n));
    }
    assert_eq!(rig.values(id), [0.0, 1.0, 2.0]);
    rig.set("a/b", 7.0);
    let readings = rig.readings(id);
    assert_eq!((value(&readings[0]), readings[0].lost.queue), (7.0, 4));
}

/// The bound includes the memory of the reading, so a value of one byte counts for more.
#[test]
fn a_buffer_is_bounded_in_bytes_as_well() {
    let mut rig = Rig::connected(&["a/b"]);
    let options = SubscribeOptions {
        // Space for three readings of 8 bytes. By values alone it would be thirty readings.
        buffer_bytes_max: 3 * 128 + 100,
        ..SubscribeOptions::default()
    };
    let last = rig.subscribe_with(&["a/b"], Contract::Last(100), options);
    let first = rig.subscribe_with(&["a/b"], Contract::First(100), options);
    for n in 1..=6 {
        rig.set("a/b", f64::from(n));
    }
    assert_eq!(rig.values(last), [4.0, 5.0, 6.0]);
    assert_eq!(rig.values(first), [0.0, 1.0, 2.0]);
}

#[test]
fn sampled_keeps_the_newest_value_on_its_own_wire_subscription() {
    let mut rig = Rig::connected(&["a/b"]);
    let (one, two) = (
        rig.subscribe(&["a/b"], "sampled:1s"),
        rig.subscribe(&["a/b"], "sampled:1s"),
    );
    assert_ne!(rig.wire(one), rig.wire(two));
    rig.set("a/b", 1.0);
    rig.set("a/b", 2.0);
    assert_eq!(rig.values(one), [2.0]);
}

#[test]
fn all_keeps_everything_within_the_credit_and_grants_what_is_taken() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all:8");
    rig.said();
    for n in 1..=8 {
        rig.set("a/b", f64::from(n));
    }
    let granted = |rig: &Rig, id: u32| rig.engine.subscriptions[&id].granted;
    let wire = rig.wire(id);
    assert_eq!(
        granted(&rig, wire),
        8,
        "nothing is granted before it is taken"
    );
    assert_eq!(
        rig.values(id),
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    );
    assert_eq!(
        granted(&rig, wire),
        16,
        "the first reading came beside the credit"
    );
}

#[test]
fn credit_of_an_undeliverable_all_update_is_returned() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let id = rig.subscribe(&["a/b"], "all:4");
    let wire = rig.wire(id);
    let stray = rig.engine.handle_of("a/c");
    for _ in 0..4 {
        rig.engine.send_current(wire, stray);
    }
    rig.exchange();
    assert_eq!(rig.engine.subscriptions[&wire].granted, 8);
    assert_eq!(rig.client.counters().skipped, 4);
}

/// Behaviour: B-03.
#[test]
fn overrun_is_reported_in_band_and_delivery_continues() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all:2");
    let wire = rig.wire(id);
    rig.set("a/b", 1.0);
    rig.engine.variable(100).sequence = 9;
    overrun(&mut rig, wire, 100, 2, 7);
    rig.said();
    assert!(
        rig.engine.subscriptions.is_empty(),
        "not before the program has taken what waits"
    );

    let events = rig.events(id);
    let [
        _,
        _,
        Event::Reading { .. },
        Event::Ended {
            item: 0,
            reason,
            last,
            lost,
            sentence,
        },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    let expected = Position {
        epoch: 10,
        sequence: 2,
    };
    assert_eq!(
        (*reason, *last, *lost),
        (EndReason::Overrun, Some(expected), Some(7))
    );
    assert_eq!(&**sentence, "too slow");
    let resumed = rig.said().into_iter().find_map(|said| match said {
        Said::Subscribe { resume, items, .. } => Some((resume, items)),
        _ => None,
    });
    assert_eq!(resumed, Some((Some(10), vec![(100, 2)])));
    let readings = rig.readings(id);
    assert_eq!(
        (readings[0].position.sequence, readings[0].lost.overrun),
        (9, 6)
    );
    assert_eq!(
        readings[0].lost.disconnect, 0,
        "the engine's count of the gap is the same gap"
    );
}

/// With any bound in bytes, all items of a resumed subscription get their current values at once.
///
/// Behaviour: B-11.
#[test]
fn first_readings_of_resumed_items_do_not_count_in_the_bound() {
    let names = ["a/a", "a/b", "a/c", "a/d", "a/e"];
    let mut rig = Rig::connected(&names);
    let id = rig.subscribe_with(&names, all(100, 8), SubscribeOptions::default());
    assert_eq!(rig.values(id), [0.0; 5]);
    rig.engine.hold(FrameKind::Subscribe);
    rig.said();
    for n in 1..=3 {
        rig.set("a/a", f64::from(n));
    }
    let events = rig.events(id);
    let has_ended = |event: &Event| matches!(event, Event::Ended { .. });
    assert!(events.iter().any(has_ended), "two fit: {events:?}");
    let said = rig.said();
    let asked = said.iter().find(|said| said.kind() == FrameKind::Subscribe);
    let asked = asked.expect("it asks for the next life");
    for name in names {
        rig.set(name, 9.0);
    }
    rig.engine.answer(asked);
    rig.exchange();
    assert_eq!(rig.values(id), [9.0; 5]);
}

/// The engine has ended the subscription, too, before it learned that this end did: that end
/// belongs to the earlier subscription, and the one requested meanwhile begins with the newest
/// value.
///
/// Behaviour: B-03, B-11.
#[test]
fn end_of_an_earlier_subscription_does_not_end_the_next_one() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe_with(&["a/b"], all(100, 16), SubscribeOptions::default());
    let wire = rig.wire(id);
    for n in 1..=10 {
        rig.set("a/b", f64::from(n));
    }
    rig.engine.hold(FrameKind::Subscribe);
    rig.said();
    rig.events(id);
    let said = rig.said();
    let asked = said.iter().find(|said| said.kind() == FrameKind::Subscribe);
    let asked = asked.expect("it asks for the next life");
    overrun(&mut rig, wire, 100, 6, 1);
    assert_eq!(rig.events(id), []);
    rig.engine.answer(asked);
    rig.exchange();
    let readings = rig.readings(id);
    assert_eq!(readings.len(), 1, "nothing else will ever tell it");
    assert_eq!((value(&readings[0]), readings[0].lost.overrun), (10.0, 5));
    rig.set("a/b", 11.0);
    assert_eq!(rig.values(id), [11.0]);
}

/// As above, where the next subscription was requested because a digest differed. The loss in the
/// end is reported with the first update after it.
///
/// Behaviour: B-03, B-10.
#[test]
fn end_before_a_pending_answer_leaves_the_item_to_that_answer() {
    let mut rig = Rig::new();
    rig.engine.welcome.features = Features::CONVERGENCE | Features::ENDS;
    rig.engine.add("a/b", Value::F64(0.0));
    rig.connect();
    let id = rig.subscribe_with(&["a/b"], all(100, 1000), SubscribeOptions::default());
    let wire = rig.wire(id);
    rig.set("a/b", 1.0);
    assert_eq!(rig.values(id), [0.0, 1.0]);
    rig.engine.hold(FrameKind::Subscribe);
    rig.said();
    let differs = Keepalive {
        records_received: 7,
        digest: 7,
        ..Keepalive::default()
    };
    rig.engine.records_sent = differs.records_received;
    rig.tell(|out| differs.encode(out));
    let said = rig.said();
    let asked = said.iter().find(|said| said.kind() == FrameKind::Subscribe);
    let asked = asked.expect("it asks for everything once more").clone();
    // The updates 3 to 9 do not arrive.
    rig.engine.variable(100).sequence = 9;
    overrun(&mut rig, wire, 100, 2, 7);
    rig.engine.answer(&asked);
    rig.exchange();
    let readings = rig.readings(id);
    assert_eq!(readings.len(), 1, "the engine's answer is taken");
    assert_eq!(
        (readings[0].position.sequence, readings[0].lost.overrun),
        (9, 6)
    );
    rig.set("a/b", 11.0);
    assert_eq!(rig.values(id), [11.0]);

    // After the answer, an end is processed normally.
    overrun(&mut rig, wire, 100, 10, 1);
    let events = rig.events(id);
    assert!(
        matches!(events[..], [Event::Ended { lost: Some(1), .. }]),
        "{events:?}"
    );
}

/// Behaviour: B-03.
#[test]
fn missing_first_value_does_not_count_as_an_update() {
    let mut rig = Rig::connected(&[]);
    rig.engine.add_unwritten("a/b", DataType::F64);
    let (latest, last) = (
        rig.subscribe(&["a/b"], "latest"),
        rig.subscribe(&["a/b"], "last:2"),
    );
    for n in 1..=3 {
        rig.set("a/b", f64::from(n));
    }
    let readings = rig.readings(latest);
    assert_eq!((readings.len(), readings[0].lost.coalesced), (1, 2));
    let readings = rig.readings(last);
    assert_eq!((readings.len(), readings[0].lost.queue), (2, 1));
    assert!(rig.client.ledger(latest).unwrap().is_balanced());
}

#[test]
fn an_overrun_that_is_not_to_be_reopened_stays_ended() {
    let mut rig = Rig::connected(&["a/b"]);
    let options = SubscribeOptions {
        reopen: false,
        ..SubscribeOptions::default()
    };
    let id = rig.subscribe_with(&["a/b"], all(2, 1024), options);
    let wire = rig.wire(id);
    overrun(&mut rig, wire, 100, 1, 5);
    rig.events(id);
    assert!(!rig.client.item(id, 0).unwrap().live);
    rig.reconnect();
    rig.set("a/b", 1.0);
    assert_eq!(rig.readings(id), []);
    rig.client.resubscribe(id);
    rig.exchange();
    assert_eq!(rig.values(id), [1.0]);
}

/// Behaviour: B-03.
#[test]
fn client_at_its_bound_ends_all_itself_and_reports_it() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe_with(&["a/b"], all(100, 16), SubscribeOptions::default());
    let wire = rig.wire(id);
    for n in 1..=10 {
        rig.set("a/b", f64::from(n));
    }
    assert!(
        !rig.engine.subscriptions.contains_key(&wire),
        "it was ended at the engine as well"
    );
    let events = rig.events(id);
    let Some(Event::Ended {
        reason: EndReason::Overrun,
        lost: None,
        ..
    }) = events.last()
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        events.len(),
        1 + 1 + 4 + 1,
        "twice the bound of 16 bytes waited, beside the first reading"
    );
    let readings = rig.readings(id);
    assert_eq!((value(&readings[0]), readings[0].lost.overrun), (10.0, 5));
    assert!(rig.client.ledger(id).unwrap().is_balanced());
}

#[test]
fn first_readings_of_all_do_not_count_in_its_bound() {
    let names = ["a/a", "a/b", "a/c", "a/d", "a/e", "a/f"];
    let mut rig = Rig::connected(&names);
    let id = rig.subscribe_with(&names, all(1, 8), SubscribeOptions::default());
    assert_eq!(rig.values(id), [0.0; 6]);
    rig.set("a/f", 1.0);
    assert_eq!(rig.values(id), [1.0]);
}

/// Behaviour: B-03.
#[test]
fn engine_losses_are_reported_with_their_cause_on_the_next_reading() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "last:10");
    let wire = rig.wire(id);
    rig.readings(id);
    rig.engine.variable(100).sequence += 9;
    rig.tell(|out| {
        lost(out, wire, 100, |lost| {
            (lost.queue, lost.filtered, lost.disconnect) = (3, 2, 4);
        });
    });
    rig.set("a/b", 1.0);
    let reading = &rig.readings(id)[0];
    assert_eq!(
        reading.lost,
        Lost {
            queue: 3,
            disconnect: 4,
            ..Lost::NONE
        }
    );
    assert_eq!(reading.lost.count(), Some(7), "filtered is not lost");
}

/// Behaviour: API-08.
#[test]
fn a_buffer_size_of_one_is_an_error_and_none_means_the_newest_value() {
    assert_eq!(contract_of_buffer(0), Ok(Contract::Latest));
    assert_eq!(contract_of_buffer(2), Ok(Contract::Last(2)));
    assert!(
        contract_of_buffer(1)
            .unwrap_err()
            .to_string()
            .contains("at least 2")
    );
}

#[test]
fn a_contract_that_cannot_be_kept_is_refused_at_once() {
    let mut rig = Rig::connected(&["a/b"]);
    for contract in [
        Contract::Last(0),
        all(0, 1),
        Contract::Sampled(Duration::from_nanos(1)),
    ] {
        let error = rig
            .client
            .subscribe(&["a/b"], contract, SubscribeOptions::default());
        assert!(
            matches!(error, Err(SubscribeError::Contract { .. })),
            "{contract}"
        );
    }
}
