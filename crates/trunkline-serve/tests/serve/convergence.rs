//! Tests that the client's values match the engine's after any faults in transit.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;
use trunkline_client::{Event, SubscribeOptions, SubscriptionId};
use trunkline_proto::message::convergence::{Check, CompareBuilder, CompareHead, CompareItem};
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::updates::{Updates, UpdatesBuilder};
use trunkline_proto::{Frame, FrameKind};
use trunkline_types::{Contract, DataType, Value};

use super::rig::{Pair, World, define, f64_variable, value};

/// Maximum time from a fault until its repair: the next keep-alive finds the fault after a second, and a
/// round trip repairs it.
const PROMISED: Duration = Duration::from_secs(2);
/// Time after which the sweep has checked all 64 parts of the items.
const ROUND: Duration = Duration::from_secs(65);

/// A fault in an UPDATES frame.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    /// The whole frame is lost.
    Drop,
    /// Bits of the values are inverted.
    Value,
    /// The sequence number of the last record is changed.
    Sequence,
    /// The frame arrives twice.
    Twice,
}

/// Injects a fault into the next UPDATES frame.
fn once(pair: &mut Pair, fault: Fault) {
    let mut left = 1;
    pair.between = Some(Box::new(move |frame, bytes| {
        if frame.kind() != Some(FrameKind::Updates) || left == 0 {
            return None;
        }
        left -= 1;
        Some(altered(frame, bytes, fault))
    }));
}

fn altered(frame: &Frame<'_>, bytes: &[u8], fault: Fault) -> Vec<u8> {
    match fault {
        Fault::Drop => Vec::new(),
        Fault::Twice => [bytes, bytes].concat(),
        Fault::Value | Fault::Sequence => {
            let records = Updates::decode(frame).unwrap();
            let mut out = Vec::new();
            let mut builder = UpdatesBuilder::begin(&mut out, records.subscription());
            for record in records {
                let record = record.unwrap();
                let turned = record
                    .value
                    .map(|value| value.iter().map(|byte| byte ^ 0x10).collect::<Vec<u8>>());
                let altered = match fault {
                    Fault::Value => UpdateRecord {
                        value: turned.as_deref(),
                        ..record
                    },
                    _ => UpdateRecord {
                        sequence: record.sequence + 1000,
                        ..record
                    },
                };
                builder.push(&altered);
            }
            builder.finish();
            out
        }
    }
}

/// Returns the sequence number and the value of an item, as the client's program sees them.
fn seen(pair: &Pair, id: SubscriptionId, item: u32) -> Option<(u64, f64)> {
    let reading = pair.client.value(pair.world.time().0, id, item)?;
    Some((reading.position.sequence, value(&reading)))
}

/// Returns the number of repairs, as the engine counts them and as the client counts them.
fn repaired(pair: &Pair) -> (u64, u64) {
    let (at_engine, _) = pair.world.engine().health().repaired_and_marked();
    (at_engine, pair.client.counters().repaired)
}

/// Behaviour: B-10, B-11.
#[test]
fn update_lost_in_transit_is_repaired_within_two_seconds() {
    for contract in ["latest", "last:10", "first:10", "all", "sampled:100ms"] {
        let mut sut = Pair::of(&["x", "y"]);
        let id = sut.subscribe(&["rig/x", "rig/y"], contract);
        sut.events(id);
        once(&mut sut, Fault::Drop);
        sut.world.set("rig/x", 3.0);
        sut.pass(Duration::from_millis(200));
        assert_eq!(seen(&sut, id, 0), Some((1, 0.0)), "{contract}: it was lost");
        sut.pass(PROMISED);
        assert_eq!(seen(&sut, id, 0), Some((2, 3.0)), "{contract}");
        assert_eq!(repaired(&sut), (1, 1), "{contract}");
        assert_eq!(sut.client.counters().diverged, 1);
        let ledger = sut.client.ledger(id).unwrap();
        assert!(ledger.is_balanced() && ledger.repaired == 1, "{ledger:?}");
        assert_eq!(sut.values(id), [3.0], "{contract}: it is news");
        let variable = sut.variable("rig/x");
        assert_eq!(sut.engine_ledger(id, variable).repaired, 1);
        sut.pass(2 * ROUND);
        assert_eq!(repaired(&sut), (1, 1), "{contract}: exactly once");
        assert_eq!(sut.client.counters().diverged, 1);
    }
}

/// The variable was deployed again, and the record that says that it has no value is lost.
///
/// Behaviour: B-01, B-10.
#[test]
fn lost_record_of_a_variable_without_a_value_is_repaired() {
    for contract in ["latest", "last:10", "first:10", "all", "sampled:100ms"] {
        let mut sut = Pair::of(&["x"]);
        let id = sut.subscribe(&["rig/x"], contract);
        sut.world.set("rig/x", 3.0);
        sut.exchange();
        sut.events(id);
        sut.world.undeploy("rig");
        sut.exchange();
        sut.world.deploy("rig", vec![f64_variable("x")]);
        once(&mut sut, Fault::Drop);
        sut.pass(ROUND);
        assert_eq!(repaired(&sut), (1, 1), "{contract}");
        let last = sut.readings(id).pop().unwrap();
        assert!(
            last.position.sequence == 0 && !last.own,
            "{contract}: {last:?}"
        );
        sut.world.set("rig/x", 5.0);
        sut.pass(Duration::from_millis(200));
        let next = sut.readings(id).pop().unwrap();
        assert_eq!(next.position.sequence, 3, "{contract}");
        assert!(next.lost.nothing_lost(), "{contract}: {next:?}");
        assert_eq!(next.lost.coalesced, 0, "{contract}");
    }
}

/// A client lists long values in COMPARE, one per frame and each twice, faster than it reads answers.
///
/// Behaviour: B-10.
#[test]
fn repeated_items_are_sent_once() {
    const VALUES: usize = 40;
    const BYTES: usize = 100_000;
    let bytes = |index| define(&format!("b{index}"), DataType::Bytes, |_| {});
    let world = World::with_library("rig", (0..VALUES).map(bytes).collect());
    let names: Vec<String> = (0..VALUES).map(|index| format!("rig/b{index}")).collect();
    for name in &names {
        world.write(name, &Value::Bytes(vec![7; BYTES].into()));
    }
    let mut sut = Pair::on(&world);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let id = sut.subscribe(&names, "latest");
    sut.settle();
    assert_eq!(sut.readings(id).len(), VALUES);
    sut.pass(Duration::from_secs(2));
    let mut frames = Vec::new();
    let head = CompareHead {
        records_received: VALUES as u64,
    };
    for name in names.iter().chain(&names) {
        let handle = sut.world.handle(name);
        let mut frame = CompareBuilder::begin(&mut frames, 0, &head);
        frame.push(&CompareItem {
            subscription: 1,
            handle,
            sequence: 0,
            digest: 0,
        });
        frame.finish(false);
    }
    sut.forge(&frames);
    sut.capacity = BYTES;
    sut.turn_of_session();
    let (sent, _) = sut.world.engine().health().repaired_and_marked();
    assert!((1..=2).contains(&sent), "{sent} without room for them");
    sut.exchange();
    let (sent, _) = sut.world.engine().health().repaired_and_marked();
    assert_eq!(sent, VALUES as u64);
}

/// Drops the next frame of this kind.
fn lose(pair: &mut Pair, kind: FrameKind) {
    let mut left = 1;
    pair.between = Some(Box::new(move |frame, _| {
        if frame.kind() != Some(kind) || left == 0 {
            return None;
        }
        left -= 1;
        Some(Vec::new())
    }));
}

/// The engine reports the removal of a variable only once. If the report is lost, the running digests differ.
///
/// Behaviour: B-10, B-11.
#[test]
fn lost_gone_frame_is_detected_within_two_seconds() {
    for contract in ["latest", "last:10", "all", "sampled:100ms"] {
        let mut sut = Pair::of(&["x"]);
        sut.world.deploy("other", vec![f64_variable("y")]);
        let id = sut.subscribe(&["rig/x", "other/y"], contract);
        sut.exchange();
        sut.events(id);
        lose(&mut sut, FrameKind::Gone);
        sut.world.undeploy("rig");
        sut.pass(Duration::from_millis(200));
        assert!(sut.events(id).is_empty(), "{contract}: it was lost");
        sut.pass(PROMISED);
        let events = sut.events(id);
        let is_told = |event: &Event| matches!(event, Event::ItemError { item: 0, .. });
        assert!(events.iter().any(is_told), "{contract}: {events:?}");
        assert_eq!(sut.client.counters().diverged, 1, "{contract}");
        sut.world.set("other/y", 7.0);
        sut.pass(PROMISED);
        assert_eq!(sut.values(id), [7.0], "{contract}: the other one goes on");
        assert_eq!(repaired(&sut), (0, 0), "{contract}");
    }
}

/// Behaviour: B-03, B-10, B-11.
#[test]
fn lost_ended_frame_is_detected_and_the_subscription_continues() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "all:4");
    sut.exchange();
    sut.events(id);
    lose(&mut sut, FrameKind::Ended);
    for number in 1..=20 {
        sut.world.set("rig/x", f64::from(number));
    }
    sut.pass(Duration::from_millis(200));
    let before = sut.readings(id);
    assert!(before.len() <= 5, "the rest overran its bound: {before:?}");
    sut.pass(PROMISED);
    sut.world.set("rig/x", 21.0);
    sut.pass(PROMISED);
    let readings = sut.readings(id);
    let lost: u64 = readings.iter().filter_map(|one| one.lost.count()).sum();
    assert_eq!(value(readings.last().unwrap()), 21.0);
    assert_eq!(
        before.len() + readings.len() + lost as usize,
        21,
        "{readings:?}"
    );
    assert_eq!(sut.client.counters().diverged, 1);
}

/// Behaviour: B-10.
#[test]
fn a_value_that_was_altered_is_found_by_the_sweep() {
    for contract in ["latest", "last:10", "all"] {
        let mut sut = Pair::of(&["x", "y"]);
        let id = sut.subscribe(&["rig/x", "rig/y"], contract);
        sut.events(id);
        once(&mut sut, Fault::Value);
        sut.world.set("rig/x", 3.0);
        sut.exchange();
        assert_ne!(seen(&sut, id, 0), Some((2, 3.0)));
        sut.pass(ROUND);
        assert_eq!(seen(&sut, id, 0), Some((2, 3.0)), "{contract}");
        assert_eq!(repaired(&sut), (1, 1), "{contract}");
        assert_eq!(sut.client.counters().diverged, 0, "the numbers agree");
        assert_eq!(sut.values(id).last(), Some(&3.0));
        assert!(sut.client.ledger(id).unwrap().is_balanced());
    }
}

/// Behaviour: B-10, B-11.
#[test]
fn after_a_reconnect_everything_is_compared_at_once() {
    let names: Vec<String> = (0..3000).map(|n| format!("v{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sut = Pair::of(&names);
    let full: Vec<String> = names.iter().map(|name| format!("rig/{name}")).collect();
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    let id = sut.subscribe(&full, "latest");
    sut.events(id);
    let mut altered_values = 0;
    sut.between = Some(Box::new(move |frame, bytes| {
        let is_updates = frame.kind() == Some(FrameKind::Updates);
        altered_values += 1;
        (is_updates && altered_values < 100).then(|| altered(frame, bytes, Fault::Value))
    }));
    for n in [7, 1500, 2999] {
        sut.world.set(full[n], 5.0);
    }
    sut.exchange();
    sut.between = None;
    assert_ne!(seen(&sut, id, 7), Some((2, 5.0)));
    sut.cut();
    sut.connect();
    for n in [7, 1500, 2999] {
        assert_eq!(
            seen(&sut, id, n),
            Some((2, 5.0)),
            "before any time has passed"
        );
    }
    assert_eq!(repaired(&sut), (3, 3));
}

/// Behaviour: B-10.
#[test]
fn an_item_whose_number_was_altered_takes_updates_again() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "latest");
    sut.events(id);
    once(&mut sut, Fault::Sequence);
    sut.world.set("rig/x", 3.0);
    sut.exchange();
    assert_eq!(seen(&sut, id, 0), Some((1002, 3.0)));
    sut.pass(PROMISED);
    assert_eq!(seen(&sut, id, 0), Some((2, 3.0)));
    sut.world.set("rig/x", 4.0);
    sut.exchange();
    assert_eq!(seen(&sut, id, 0), Some((3, 4.0)));
    assert_eq!(repaired(&sut), (1, 1));
}

/// The client lists all items of a chunk with a difference. Items with updates in flight are not repaired.
///
/// Behaviour: B-10.
#[test]
fn updates_in_flight_are_not_repaired() {
    for piece in 1..100 {
        let mut sut = Pair::of(&["x", "y", "z"]);
        let id = sut.subscribe(&["rig/x", "rig/y", "rig/z"], "latest");
        sut.events(id);
        sut.settle();
        sut.piece = piece;
        let world = sut.world.clone();
        let (mut dropped, mut written) = (false, 0.0);
        sut.between = Some(Box::new(move |frame, _| match frame.kind() {
            Some(FrameKind::Updates) if !dropped => {
                dropped = true;
                Some(Vec::new())
            }
            Some(FrameKind::Check) => {
                written += 1.0;
                world.set("rig/x", written);
                None
            }
            _ => None,
        }));
        sut.world.set("rig/y", 3.0);
        sut.pass(PROMISED);
        assert_eq!(seen(&sut, id, 1), Some((2, 3.0)), "{piece}");
        assert_eq!(repaired(&sut), (1, 1), "in pieces of {piece}");
    }
}

/// Behaviour: B-10.
#[test]
fn duplicated_updates_are_detected_and_delivered_once() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "all");
    sut.events(id);
    once(&mut sut, Fault::Twice);
    sut.world.set("rig/x", 3.0);
    sut.pass(PROMISED);
    assert_eq!(sut.values(id), [3.0]);
    let counters = sut.client.counters();
    assert_eq!((counters.repeated, counters.diverged), (1, 1));
    assert_eq!(repaired(&sut), (0, 0));
}

/// Behaviour: B-10.
#[test]
fn difference_fixed_by_the_next_update_is_counted_but_not_repaired() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "latest");
    sut.events(id);
    once(&mut sut, Fault::Drop);
    sut.world.set("rig/x", 3.0);
    sut.exchange();
    sut.world.set("rig/x", 4.0);
    sut.pass(ROUND);
    assert_eq!(seen(&sut, id, 0), Some((3, 4.0)));
    assert_eq!(sut.client.counters().diverged, 1);
    assert_eq!(repaired(&sut), (0, 0));
}

/// The check goes through the items in slices, and writes meanwhile are not delayed.
///
/// Behaviour: B-10, B-11.
#[test]
fn updates_are_sent_between_the_slices_of_a_check() {
    let names: Vec<String> = (0..5000).map(|n| format!("v{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sut = Pair::of(&names);
    sut.capacity = 1 << 20;
    let full: Vec<String> = names.iter().map(|name| format!("rig/{name}")).collect();
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    let id = sut.subscribe(&full, "latest");
    sut.events(id);
    // A difference in the running digest requests a check of everything.
    once(&mut sut, Fault::Drop);
    sut.world.set("rig/v1", 3.0);
    sut.exchange();
    let kinds: Rc<RefCell<Vec<FrameKind>>> = Rc::default();
    let (noted, world) = (Rc::clone(&kinds), sut.world.clone());
    let items = Rc::new(Cell::new(0));
    let most = Rc::clone(&items);
    sut.between = Some(Box::new(move |frame, _| {
        let kind = frame.kind().unwrap();
        noted.borrow_mut().push(kind);
        if kind == FrameKind::Check {
            let chunks = Check::decode(frame).unwrap();
            let count = chunks.map(|chunk| chunk.unwrap().handles.len()).sum();
            most.set(usize::max(most.get(), count));
            world.set("rig/v4999", count as f64);
        }
        None
    }));
    sut.pass(PROMISED);
    let kinds = kinds.borrow();
    let runs = kinds.windows(2);
    let together = runs.filter(|pair| *pair == [FrameKind::Check, FrameKind::Check]);
    assert!(items.get() <= 1000, "{} items in a slice", items.get());
    assert!(
        kinds
            .iter()
            .filter(|kind| **kind == FrameKind::Check)
            .count()
            >= 5
    );
    assert!(together.count() <= 1, "{kinds:?}");
    assert_eq!(seen(&sut, id, 1), Some((2, 3.0)));
    assert_eq!(repaired(&sut), (1, 1));
}

/// Behaviour: B-10.
#[test]
fn an_idle_session_costs_little_more_than_its_keep_alives() {
    let names: Vec<String> = (0..6400).map(|n| format!("v{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sut = Pair::of(&names);
    let full: Vec<String> = names.iter().map(|name| format!("rig/{name}")).collect();
    let full: Vec<&str> = full.iter().map(String::as_str).collect();
    let id = sut.subscribe(&full, "latest");
    sut.events(id);
    sut.settle();
    sut.traffic = Default::default();
    sut.pass(Duration::from_secs(64));
    let traffic = &sut.traffic.to_client;
    assert_eq!(traffic.count(FrameKind::Check), 64);
    assert_eq!(traffic.count(FrameKind::Repaired), 0);
    assert_eq!(sut.traffic.to_engine.count(FrameKind::Compare), 0);
    // A keep-alive, and two chunks of 64 items each.
    assert!(traffic.bytes <= 64 * 128, "{} bytes", traffic.bytes);
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Clone, Debug)]
enum Step {
    Write(usize, f64),
    Pass(u64),
    Subscribe(Vec<usize>, &'static str, bool),
    Unsubscribe(usize),
    Take(usize),
    Cut,
    /// The client's process is stalled for a short time.
    Stop,
    Redeploy,
    Restart,
}

const CONTRACTS: &[&str] = &[
    "latest",
    "latest",
    "last:3",
    "first:3",
    "all:4",
    "sampled:30ms",
];

fn step() -> impl Strategy<Value = Step> {
    let items = prop::collection::vec(0..NAMES.len(), 1..5);
    prop_oneof![
        12 => (0..NAMES.len(), -3i8..3).prop_map(|(n, v)| Step::Write(n, f64::from(v))),
        6 => (0u64..1500).prop_map(Step::Pass),
        4 => (items, prop::sample::select(CONTRACTS), any::<bool>())
            .prop_map(|(items, contract, changes)| Step::Subscribe(items, contract, changes)),
        2 => any::<usize>().prop_map(Step::Unsubscribe),
        3 => any::<usize>().prop_map(Step::Take),
        1 => Just(Step::Cut),
        1 => Just(Step::Stop),
        1 => Just(Step::Redeploy),
        1 => Just(Step::Restart),
    ]
}

/// Returns the number of bytes that the client reads at a time.
fn piece() -> impl Strategy<Value = usize> {
    prop_oneof![Just(usize::MAX), 1..200usize]
}

/// A pair, its subscriptions with their items, and the events at both.
struct History {
    sut: Pair,
    subscriptions: Vec<(SubscriptionId, Vec<usize>)>,
}

impl History {
    fn new() -> Self {
        let world = World::new();
        deploy(&world);
        Self {
            sut: Pair::on(&world),
            subscriptions: Vec::new(),
        }
    }

    fn carry_out(&mut self, step: &Step) {
        let Self { sut, subscriptions } = self;
        match step {
            Step::Write(n, value) => sut.world.set(&full(*n), *value),
            Step::Pass(ms) => sut.pass(Duration::from_millis(*ms)),
            Step::Subscribe(items, contract, only_changes) => {
                let names: Vec<String> = items.iter().map(|n| full(*n)).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let options = SubscribeOptions {
                    only_changes: *only_changes,
                    ..SubscribeOptions::default()
                };
                let contract: Contract = contract.parse().unwrap();
                let id = sut.client.subscribe(&names, contract, options).unwrap();
                subscriptions.push((id, items.clone()));
            }
            Step::Unsubscribe(_) | Step::Take(_) if subscriptions.is_empty() => {}
            Step::Unsubscribe(n) => {
                let (id, _) = subscriptions.swap_remove(n % subscriptions.len());
                sut.client.unsubscribe(id);
            }
            Step::Take(n) => {
                let (id, _) = subscriptions[n % subscriptions.len()];
                sut.events(id);
            }
            Step::Cut => {
                sut.cut();
                sut.connect();
            }
            Step::Stop => {
                sut.is_stopped = true;
                sut.pass(Duration::from_millis(900));
                sut.is_stopped = false;
            }
            Step::Redeploy => {
                sut.world.undeploy("rig");
                deploy(&sut.world);
            }
            Step::Restart => {
                sut.world.restart();
                deploy(&sut.world);
                sut.cut();
                sut.connect();
            }
        }
    }

    /// Reads everything, and compares the values that programs see with those of the variables.
    fn differences(&mut self) -> Vec<String> {
        let Self { sut, subscriptions } = self;
        let mut differences = Vec::new();
        for (id, items) in subscriptions.iter() {
            sut.events(*id);
            for (item, n) in items.iter().enumerate() {
                let engine = sut.world.engine();
                let variable = engine
                    .resolve(&trunkline_engine::Caller::engine(), &full(*n))
                    .unwrap();
                let sample = variable.sample();
                let held = sample.value.as_f64().unwrap_or_default();
                let is_live = sut.client.item(*id, item as u32).unwrap().live;
                let seen = seen(sut, *id, item as u32);
                let same = seen.is_some_and(|(_, value)| value == held);
                if !is_live || !same {
                    differences.push(format!("{}: {seen:?}, not {held}; {is_live}", full(*n)));
                }
            }
        }
        differences
    }
}

fn deploy(world: &World) {
    world.deploy("rig", NAMES.iter().map(|name| f64_variable(name)).collect());
    for name in &NAMES[..4] {
        world.set(&format!("rig/{name}"), 0.0);
    }
}

fn full(n: usize) -> String {
    format!("rig/{}", NAMES[n])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Behaviour: B-10, B-11.
    #[test]
    fn nothing_is_repaired_without_faults(
        steps in prop::collection::vec(step(), 1..60),
        piece in piece(),
    ) {
        let mut sut = History::new();
        sut.sut.piece = piece;
        for step in &steps {
            sut.carry_out(step);
            let found = sut.sut.world.engine().health().repaired_and_marked();
            prop_assert_eq!(found, (0, 0), "after {:?}", step);
        }
        sut.sut.pass(ROUND);
        let counters = sut.sut.client.counters();
        prop_assert_eq!((counters.repaired, counters.diverged), (0, 0));
        prop_assert_eq!(sut.sut.world.engine().health().repaired_and_marked(), (0, 0));
        prop_assert!(counters.unknown_frames == 0);
    }

    /// Records are lost and altered in transit, and then the line works again. Differences that the next
    /// update fixes are not counted. Both ends count the same number of repairs.
    ///
    /// Behaviour: B-10, B-11.
    #[test]
    fn client_and_engine_agree_after_faults_in_transit(
        seed in any::<u64>(),
        contracts in prop::collection::vec(prop::sample::select(
            &["latest", "last:3", "first:50", "sampled:30ms", "all:50"][..]), 1..4),
        writes in prop::collection::vec((0..NAMES.len(), -9i32..9, 0u64..400), 1..40),
        value_faults in any::<bool>(),
        piece in piece(),
    ) {
        let mut sut = History::new();
        sut.sut.piece = piece;
        let items: Vec<usize> = (0..NAMES.len()).collect();
        for contract in &contracts {
            sut.carry_out(&Step::Subscribe(items.clone(), contract, false));
        }
        sut.sut.exchange();
        let mut random = seed;
        sut.sut.between = Some(Box::new(move |frame, bytes| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let fault = match (random >> 33) % 8 {
                0 => Fault::Drop,
                1 if value_faults => Fault::Value,
                _ => return None,
            };
            (frame.kind() == Some(FrameKind::Updates)).then(|| altered(frame, bytes, fault))
        }));
        for (n, value, ms) in &writes {
            sut.carry_out(&Step::Write(*n, f64::from(*value)));
            sut.carry_out(&Step::Pass(*ms));
            for at in 0..sut.subscriptions.len() {
                sut.carry_out(&Step::Take(at));
            }
        }
        sut.sut.between = None;
        sut.sut.pass(if value_faults { ROUND } else { PROMISED });
        prop_assert_eq!(sut.differences(), Vec::<String>::new());
        let (at_engine, at_client) = repaired(&sut.sut);
        prop_assert_eq!(at_engine, at_client);
        sut.sut.pass(ROUND);
        prop_assert_eq!(repaired(&sut.sut), (at_engine, at_client));
        for (id, _) in &sut.subscriptions {
            prop_assert!(sut.sut.client.ledger(*id).unwrap().is_balanced());
        }
    }
}
