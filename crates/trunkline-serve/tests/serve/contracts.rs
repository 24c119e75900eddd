//! Tests the updates and the loss reports that a subscriber receives under each contract.

use std::time::Duration;

use trunkline_client::{Event, SubscribeOptions};
use trunkline_proto::FaultCode;
use trunkline_proto::message::contract::SubscribeFlags;
use trunkline_proto::message::ended::EndReason;
use trunkline_proto::message::handles::{UnsubscribeBuilder, UnsubscribeHead};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::keepalive::{AckBuilder, AckHead};
use trunkline_proto::message::open::{OpenBuilder, OpenTerms};
use trunkline_proto::message::subscribe::SubscribeTerms;
use trunkline_types::{Contract, DataType, Lost, Position};

use crate::rig::{Pair, Peer, World, define, f64_variable, sequences, value};

const MS: Duration = Duration::from_millis(1);

/// Behaviour: NV-01, NV-02.
#[test]
fn write_of_one_client_is_published_to_all() {
    let mut writer = Pair::of(&["x"]);
    let (mut near, mut far) = (Pair::on(&writer.world), Pair::on(&writer.world));
    let ids = [
        near.subscribe(&["rig/x"], "latest"),
        far.subscribe(&["rig/x"], "latest"),
    ];
    let x = writer.variable("rig/x");
    assert_eq!(
        (near.values(ids[0]), far.values(ids[1])),
        (vec![0.0], vec![0.0])
    );
    writer.write([(x, 7.0)]);
    near.exchange();
    far.exchange();
    assert_eq!(
        (near.values(ids[0]), far.values(ids[1])),
        (vec![7.0], vec![7.0])
    );
    // The writer is a client, like the readers.
    let who = writer.info(x).last_writer;
    let who = who.strip_suffix(" (you)").expect("it is the reader's own");
    assert!(who.starts_with("loopback (127.0.0.1:50000"), "{who}");
    let x = near.variable("rig/x");
    assert_eq!(near.info(x).last_writer, who);
}

/// Behaviour: B-05, NV-05.
#[test]
fn latest_returns_the_newest_value_and_its_coalesced_count() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "latest");
    assert_eq!(sut.values(id), [0.0]);
    (1..=5).for_each(|n| sut.world.set("rig/x", f64::from(n)));
    sut.exchange();
    let readings = sut.readings(id);
    assert_eq!(readings.iter().map(value).collect::<Vec<_>>(), [5.0]);
    let (lost, coalesced) = (readings[0].lost.count(), readings[0].lost.coalesced);
    assert_eq!((lost, coalesced), (Some(0), 4));
}

/// Behaviour: B-05.
#[test]
fn sampled_gives_the_newest_value_once_per_period_and_only_news() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "sampled:100ms");
    assert_eq!(sut.values(id), [0.0]);
    let mut values = Vec::new();
    for n in 1..=30 {
        sut.world.set("rig/x", f64::from(n));
        sut.pass(10 * MS);
        values.extend(sut.values(id));
    }
    assert!((3..=4).contains(&values.len()), "{values:?}");
    sut.pass(100 * MS);
    values.extend(sut.values(id));
    assert_eq!(values.last(), Some(&30.0));
    sut.pass(1000 * MS);
    assert_eq!(sut.values(id), [0.0; 0]);
}

/// Behaviour: NV-07, NV-08, NV-12, B-03.
#[test]
fn one_size_bounds_the_buffer_at_either_end() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "last:3");
    assert_eq!(sut.values(id), [0.0]);
    // The network accepts all data, but the program takes nothing: the client's buffer stores three updates.
    for n in 1..=10 {
        sut.world.set("rig/x", f64::from(n));
        sut.exchange();
    }
    let readings = sut.readings(id);
    assert_eq!(sequences(&readings), [9, 10, 11]);
    assert_eq!(
        readings[0].lost,
        Lost {
            queue: 7,
            ..Lost::NONE
        }
    );
    // The network accepts no data: the engine's buffer stores three updates.
    sut.capacity = 0;
    (11..=20).for_each(|n| sut.world.set("rig/x", f64::from(n)));
    sut.exchange();
    sut.capacity = 64 << 10;
    sut.exchange();
    let readings = sut.readings(id);
    assert_eq!(sequences(&readings), [19, 20, 21]);
    assert_eq!(
        readings[0].lost,
        Lost {
            queue: 7,
            ..Lost::NONE
        }
    );
    assert!(
        readings[1..]
            .iter()
            .all(|reading| reading.lost.nothing_lost())
    );
}

/// Behaviour: NV-13, NV-11.
#[test]
fn a_buffer_covers_a_burst_and_no_reader_pays_for_another() {
    let mut slow = Pair::of(&["x"]);
    let mut fast = Pair::on(&slow.world);
    let (a, b) = (
        slow.subscribe(&["rig/x"], "last:8"),
        fast.subscribe(&["rig/x"], "last:8"),
    );
    let (mut slow_has, mut fast_has) = (slow.values(a), fast.values(b));
    slow.is_stopped = true;
    slow.capacity = 0;
    for n in 1..=8 {
        slow.world.set("rig/x", f64::from(n));
        fast.exchange();
        fast_has.extend(fast.values(b));
    }
    (slow.is_stopped, slow.capacity) = (false, 64 << 10);
    slow.exchange();
    slow_has.extend(slow.values(a));
    assert_eq!(slow_has, fast_has);
    // It is always slower than the writer, and loses updates at any buffer size.
    let mut lost = 0;
    for n in 0..100 {
        (0..16).for_each(|k| slow.world.set("rig/x", f64::from(n * 16 + k)));
        slow.exchange();
        lost += slow
            .readings(a)
            .iter()
            .map(|r| r.lost.count().unwrap())
            .sum::<u64>();
    }
    assert_eq!(lost, 100 * 8);
}

/// Behaviour: B-05.
#[test]
fn first_n_keeps_the_first_and_counts_the_rest() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "first:2");
    assert_eq!(sut.values(id), [0.0]);
    sut.capacity = 0;
    (1..=9).for_each(|n| sut.world.set("rig/x", f64::from(n)));
    sut.exchange();
    sut.capacity = 64 << 10;
    sut.exchange();
    assert_eq!(sut.values(id), [1.0, 2.0]);
    sut.world.set("rig/x", 10.0);
    sut.exchange();
    let readings = sut.readings(id);
    assert_eq!((value(&readings[0]), readings[0].lost.queue), (10.0, 7));
}

/// Behaviour: NV-10.
#[test]
fn updates_wait_only_for_the_wire_and_acknowledgements() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "last:1000");
    let x = sut.variable("rig/x");
    for n in 0..200 {
        sut.world.set("rig/x", f64::from(n));
        sut.exchange();
        assert_eq!(sut.engine_ledger(id, x).waiting, 0);
    }
    // The network accepts no data. The request is answered before the updates are sent.
    sut.capacity = 0;
    (0..50).for_each(|n| sut.world.set("rig/x", f64::from(n)));
    sut.exchange();
    sut.capacity = 64 << 10;
    assert_eq!(sut.engine_ledger(id, x).waiting, 50);
    assert_eq!(sut.engine_ledger(id, x).waiting, 0);

    // This client permits ten records in transit, and confirms them.
    let mut peer = Peer::silent(&sut.world);
    peer.say(|out| {
        Hello {
            window_records: 10,
            ..Hello::default()
        }
        .encode(out)
    });
    let subscribe = Some(SubscribeTerms {
        subscription: 1,
        contract: Contract::Last(1000),
        flags: SubscribeFlags::NONE,
    });
    peer.say(|out| {
        let mut open = OpenBuilder::begin(
            out,
            1,
            &OpenTerms {
                subscribe,
                ..OpenTerms::default()
            },
        );
        open.push(&&b"rig/x"[..]);
        open.finish(false);
    });
    (0..50).for_each(|n| sut.world.set("rig/x", f64::from(n)));
    peer.take();
    assert_eq!(peer.records(), 10);
    peer.take();
    assert_eq!(peer.records(), 10);
    let ack = |records_received| AckHead { records_received };
    peer.say(|out| AckBuilder::begin(out, 0, &ack(4)).finish(false));
    assert_eq!(peer.records(), 14);
    peer.say(|out| AckBuilder::begin(out, 0, &ack(14)).finish(false));
    assert_eq!(peer.records(), 24);
}

/// Behaviour: NV-17.
#[test]
fn a_subscriber_begins_with_the_current_value() {
    let mut sut = Pair::of(&["x"]);
    (1..=5).for_each(|n| sut.world.set("rig/x", f64::from(n)));
    for contract in ["latest", "last:10", "first:10", "all", "sampled:1s"] {
        let id = sut.subscribe(&["rig/x"], contract);
        let readings = sut.readings(id);
        assert_eq!(sequences(&readings), [6], "{contract}");
        assert!(readings[0].lost.nothing_lost(), "{contract}");
    }
}

/// Behaviour: NV-19.
#[test]
fn timestamps_distinguish_updates_a_nanosecond_apart() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "all");
    for _ in 0..3 {
        sut.world.advance(Duration::from_nanos(1));
        sut.world.set("rig/x", 1.0);
    }
    sut.exchange();
    let readings = sut.readings(id);
    let stamps: Vec<i64> = readings
        .iter()
        .map(|r| r.sample.engine_timestamp.as_nanos())
        .collect();
    assert!(
        stamps.windows(2).all(|pair| pair[1] - pair[0] == 1),
        "{stamps:?}"
    );
}

/// Behaviour: NV-20, B-01, B-21.
#[test]
fn all_gives_every_update_in_order_with_its_number() {
    let mut sut = Pair::of(&["x"]);
    let (id, x) = (sut.subscribe(&["rig/x"], "all"), sut.variable("rig/x"));
    for (n, value) in [1.0, 2.0, 1.0, 1.0].into_iter().enumerate() {
        match n % 2 {
            0 => sut.world.set("rig/x", value),
            _ => drop(sut.write([(x, value)])),
        }
    }
    let readings = sut.readings(id);
    assert_eq!(sequences(&readings), [1, 2, 3, 4, 5]);
    assert_eq!(
        readings.iter().map(value).collect::<Vec<_>>(),
        [0.0, 1.0, 2.0, 1.0, 1.0]
    );
    let own: Vec<bool> = readings.iter().map(|reading| reading.own).collect();
    assert_eq!(own, [false, false, true, false, true]);
}

#[test]
fn all_with_a_bound_of_one_continues_as_it_is_read() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "all:1");
    sut.world.set("rig/x", 1.0);
    sut.exchange();
    assert_eq!(sut.values(id), [0.0, 1.0]);
    for n in 2..50 {
        sut.world.set("rig/x", f64::from(n));
        sut.exchange();
        assert_eq!(sut.values(id), [f64::from(n)]);
    }
}

/// Behaviour: B-05, NV-18.
#[test]
fn all_ends_at_its_bound_with_an_exact_count_and_resumes() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "all:4");
    assert_eq!(sut.values(id), [0.0]);
    // Four are in transit or at the client, four more at the engine; the ninth is too many.
    for n in 1..=12 {
        sut.world.set("rig/x", f64::from(n));
        sut.exchange();
    }
    let events = sut.events(id);
    let ended = events.iter().find_map(|event| match event {
        Event::Ended {
            reason,
            last,
            lost,
            sentence,
            ..
        } => Some((
            *reason,
            last.map(|last: Position| last.sequence),
            *lost,
            sentence.clone(),
        )),
        _ => None,
    });
    let (reason, last, lost, sentence) = ended.expect("it has ended");
    assert_eq!((reason, last, lost), (EndReason::Overrun, Some(9), Some(4)));
    assert!(
        sentence.contains("take them faster, or request a larger bound"),
        "{sentence}"
    );
    let readings: Vec<_> = events.into_iter().filter_map(crate::rig::reading).collect();
    assert_eq!(sequences(&readings), [2, 3, 4, 5, 6, 7, 8, 9, 13]);
    let last = readings.last().unwrap();
    assert_eq!(
        last.lost,
        Lost {
            overrun: 3,
            ..Lost::NONE
        }
    );
    // After that, no update is missing.
    sut.world.set("rig/x", 13.0);
    sut.exchange();
    assert_eq!(sequences(&sut.readings(id)), [14]);
}

#[test]
fn only_changes_filters_and_counts_repeated_values() {
    for contract in [Contract::Latest, Contract::Last(100), Contract::ALL] {
        let mut sut = Pair::of(&["x", "y"]);
        let options = SubscribeOptions {
            only_changes: true,
            ..SubscribeOptions::default()
        };
        let id = sut.subscribe_with(&["rig/x", "rig/y"], contract, options);
        let x = sut.variable("rig/x");
        sut.readings(id);
        for n in 0..20 {
            // Four writes of each value: one passes.
            sut.world.set("rig/x", f64::from(1 + n / 4));
            sut.world.set("rig/y", f64::from(1 + n / 4));
            sut.exchange();
        }
        let lost: Vec<Lost> = sut
            .readings(id)
            .iter()
            .map(|reading| reading.lost)
            .collect();
        assert!(lost.iter().all(Lost::nothing_lost), "{contract}: {lost:?}");
        let ledger = sut.engine_ledger(id, x);
        assert_eq!((ledger.written, ledger.filtered), (21, 15), "{contract}");
        let info = sut.info(x);
        assert!(info.subscriptions[0].terms.flags.only_changes, "{contract}");
    }
}

#[test]
fn filtered_updates_are_reported_once_per_run() {
    let names: Vec<String> = (0..200).map(|n| format!("x{n}")).collect();
    let world = World::with_library("rig", names.iter().map(|n| f64_variable(n)).collect());
    let mut sut = Pair::on(&world);
    let names: Vec<String> = names.iter().map(|name| format!("rig/{name}")).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    let options = SubscribeOptions {
        only_changes: true,
        ..SubscribeOptions::default()
    };
    let id = sut.subscribe_with(&refs, Contract::Latest, options);
    sut.readings(id);
    for value in [1.0, 1.0, 1.0, 2.0] {
        refs.iter().for_each(|name| world.set(name, value));
    }
    sut.traffic = Default::default();
    sut.exchange();
    let readings = sut.readings(id);
    assert_eq!(readings.len(), 200);
    // 1.0 was coalesced into 2.0, two more of it were filtered.
    assert!(readings.iter().all(|r| r.lost
        == Lost {
            coalesced: 1,
            ..Lost::NONE
        }));
    assert_eq!(
        sut.traffic
            .to_client
            .count(trunkline_proto::FrameKind::Lost),
        1
    );
    assert!(
        sut.traffic.to_client.bytes < 200 * 20,
        "{}",
        sut.traffic.to_client.bytes
    );
}

#[test]
fn excluding_own_updates_is_refused_with_the_reason() {
    let mut sut = Pair::of(&["x"]);
    let options = SubscribeOptions {
        own_suppressed: true,
        ..SubscribeOptions::default()
    };
    let id = sut.subscribe_with(&["rig/x"], Contract::Latest, options);
    let fault = sut.events(id).into_iter().find_map(|event| match event {
        Event::ItemError { fault, .. } => Some(fault),
        _ => None,
    });
    let fault = fault.expect("the item is refused");
    assert_eq!(fault.code, FaultCode::NotSupported);
    assert!(fault.sentence.contains("marked as own"), "{fault}");
}

#[test]
fn undeployed_variable_is_reported_after_its_last_update() {
    let mut sut = Pair::of(&["x", "y"]);
    let id = sut.subscribe(&["rig/x", "rig/y"], "all");
    sut.values(id);
    sut.world.set("rig/x", 1.0);
    sut.world.undeploy("rig");
    sut.exchange();
    let events = sut.events(id);
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| match event {
            Event::Reading { .. } => "reading",
            Event::Ended {
                reason: EndReason::Gone,
                ..
            } => "gone",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["reading", "gone", "gone"]);
    assert_eq!(
        sut.traffic
            .to_client
            .count(trunkline_proto::FrameKind::Gone),
        1
    );
    // It is deployed again under its name: another variable, so the updates in between cannot be
    // counted.
    sut.world
        .deploy("rig", vec![f64_variable("x"), f64_variable("y")]);
    sut.world.set("rig/x", 5.0);
    sut.pass(Duration::from_secs(70));
    let readings = sut.readings(id);
    let lost: Vec<bool> = readings
        .iter()
        .map(|reading| reading.lost.unknown)
        .collect();
    assert_eq!(lost, [true, true], "{readings:?}");
}

#[test]
fn writers_wait_for_a_slow_subscriber_if_the_owner_permits() {
    let stall = |properties: &mut trunkline_types::Properties| {
        properties.stall = Duration::from_millis(200);
    };
    let world = World::with_library("rig", vec![define("x", DataType::F64, stall)]);
    let mut sut = Pair::on(&world);
    let id = sut.subscribe(&["rig/x"], "all:2");
    let x = sut.variable("rig/x");
    // The client has two updates, and the engine has two. The fifth write waits.
    let batch = sut
        .client
        .write((1..=5).map(|n| write(x, f64::from(n))))
        .unwrap();
    sut.exchange();
    assert!(!sut.client.is_settled(batch));
    assert_eq!(world.sequence("rig/x"), 4);
    // The program takes some updates, so the write continues.
    let values = sut.values(id);
    assert_eq!(values.len(), 1 + 5);
    assert!(sut.client.is_settled(batch));
    // No client reads, so the write continues after the `stall` time of the variable.
    let batch = sut
        .client
        .write((6..=10).map(|n| write(x, f64::from(n))))
        .unwrap();
    sut.exchange();
    assert!(!sut.client.is_settled(batch));
    sut.pass(Duration::from_millis(199));
    assert!(!sut.client.is_settled(batch));
    sut.pass(Duration::from_millis(2));
    assert!(sut.client.is_settled(batch));
    let is_end = |event: &Event| {
        matches!(
            event,
            Event::Ended {
                reason: EndReason::Overrun,
                ..
            }
        )
    };
    assert!(sut.events(id).iter().any(is_end));
}

fn write(variable: trunkline_client::VariableRef, value: f64) -> trunkline_client::Write {
    trunkline_client::Write::new(variable, trunkline_types::Value::F64(value))
}

/// An item that ends before its first update gives no credit to other items of the subscription.
#[test]
fn the_credit_of_a_first_reading_ends_with_its_item() {
    let world = World::with_library("rig", vec![f64_variable("x"), f64_variable("y")]);
    let y = world.handle("rig/y");
    let mut sut = Peer::greeted(&world);
    let contract = Contract::All {
        elements: 2,
        bytes: 1 << 20,
    };
    let open = |out: &mut Vec<u8>, name: &str| {
        let subscribe = SubscribeTerms {
            subscription: 1,
            contract,
            flags: SubscribeFlags::NONE,
        };
        let terms = OpenTerms {
            subscribe: Some(subscribe),
            ..OpenTerms::default()
        };
        let mut open = OpenBuilder::begin(out, 1, &terms);
        open.push(&name.as_bytes());
        open.finish(false);
    };
    sut.say(|out| open(out, "rig/x"));
    sut.say(|out| {
        open(out, "rig/y");
        let head = UnsubscribeHead { subscription: 1 };
        let mut unsubscribe = UnsubscribeBuilder::begin(out, 2, &head);
        unsubscribe.push(&y);
        unsubscribe.finish(false);
    });
    sut.said.clear();
    for value in [1.0, 2.0, 3.0] {
        world.set("rig/x", value);
        sut.take();
    }
    assert_eq!(sut.records(), 2, "the third is beyond the credit");
}
