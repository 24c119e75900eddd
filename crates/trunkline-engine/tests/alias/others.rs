//! Aliases together with other features: providers, `why`, subscriptions, libraries in use.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_engine::{Answer, Attempt, Provider, Refusal, Ticket, Wakes, Write, WriteOutcome};
use trunkline_types::WhyVerdict;
use trunkline_types::{Contract, Properties, Value};

use crate::rig::{Rig, applied, define, drain};
use crate::{alias, balanced, f64s, pair, undeploy};

/// A provider that records the requests that it gets.
#[derive(Default)]
struct Plc {
    orders: Mutex<Vec<(Ticket, Value)>>,
    requests: Mutex<Vec<u32>>,
}

impl Provider for Plc {
    fn name(&self) -> Arc<str> {
        Arc::from("plc")
    }

    fn send(&self, ticket: Ticket, _handle: u32, raw: Value) {
        self.orders.lock().unwrap().push((ticket, raw));
    }

    fn request(&self, _ticket: Option<Ticket>, handle: u32) {
        self.requests.lock().unwrap().push(handle);
    }

    fn error(&self) -> Option<String> {
        None
    }
}

/// A write through an alias goes to the target's provider. Its outcome has the alias's sequence.
#[test]
fn provider_of_the_target_answers_with_the_sequence_of_the_alias() {
    let (rig, x, seen) = pair(f64s());
    rig.publish(&x, 1.0);
    rig.publish(&x, 2.0);
    undeploy(&rig, "view");
    rig.deploy("view", vec![alias("x", "plant/x")]);
    drop(seen);
    let seen = rig.variable("view/x");
    let plc = Arc::new(Plc::default());
    rig.engine
        .providers()
        .attach(Arc::clone(&plc) as Arc<dyn Provider>, &[x.handle()]);
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &seen);
    drain(&mut consumer);
    let put = |id, value: f64| {
        let value = Value::F64(value);
        let mut write = Write::value(&value);
        write.completion = Some(consumer.completion(id));
        assert_eq!(rig.attempt(&seen, &write), Attempt::Pending);
        plc.orders.lock().unwrap().remove(0)
    };
    let (ticket, raw) = put(1, 5.0);
    let (second, _) = put(2, 6.0);
    // After two updates of the former alias.
    assert_eq!((raw, seen.sequence()), (Value::F64(5.0), 3));
    let answer = |ticket, answer| {
        let mut wakes = Wakes::new();
        let (now, wall) = (rig.now(), rig.wall());
        rig.engine
            .providers()
            .answer(ticket, x.handle(), answer, now, wall, &mut wakes);
    };
    answer(ticket, Answer::Applied(Value::F64(5.0)));
    answer(second, Answer::Refused("it is locked".to_owned()));
    assert_eq!(consumer.take_completion(), Some((1, applied(4))));
    let (id, outcome) = consumer.take_completion().unwrap();
    assert!(matches!(
        (id, outcome),
        (2, WriteOutcome::Refused(Refusal::Provider { .. }))
    ));
    assert_eq!((seen.ledger().refused, x.ledger().refused), (1, 1));
    assert!(rig.engine.providers().request(seen.handle()));
    assert_eq!(*plc.requests.lock().unwrap(), [x.handle()]);
    balanced(&[&x, &seen]);
}

/// Behaviour: H-20.
#[test]
fn why_names_the_target_that_is_missing() {
    let rig = Rig::new();
    rig.deploy("view", vec![alias("x", "plant/x")]);
    let steps = rig
        .engine
        .queries()
        .explain(&rig.caller, "view/x", rig.now(), rig.wall());
    let cause = steps.iter().find(|step| step.verdict == WhyVerdict::Fault);
    assert_eq!(
        cause.map(|step| step.sentence.as_str()),
        Some(
            "it is an alias, and the target plant/x does not exist; deploy the library that contains it"
        )
    );
    rig.deploy("plant", vec![define("x", f64s())]);
    let seen = rig.variable("view/x");
    assert_eq!(
        rig.engine.queries().source_state(&rig.caller, &seen),
        "it is an alias of plant/x"
    );
}

/// A slow subscriber of an alias never delays a writer of its target.
#[test]
fn full_subscription_of_an_alias_ends_without_blocking_the_target() {
    let (rig, x, seen) = pair(Properties {
        stall: Duration::from_secs(5),
        ..f64s()
    });
    let mut consumer = rig.consumer();
    let contract = Contract::All {
        elements: 2,
        bytes: 1 << 20,
    };
    rig.subscribe(&mut consumer, 1, contract, &seen);
    for n in 1..=4 {
        assert_eq!(rig.write(&x, n as f64), applied(n));
    }
    let events = drain(&mut consumer);
    assert!(
        matches!(events.last(), Some(crate::rig::ConsumerEvent::Overrun { items, .. }) if items[0].lost == 2),
        "{events:?}"
    );
    balanced(&[&x, &seen]);
}

/// A subscriber of an alias also uses the library of its target.
#[test]
fn subscriptions_of_aliases_count_as_use_of_the_targets_library() {
    let (rig, _x, seen) = pair(f64s());
    let used = |library| rig.engine.libraries().subscriptions(library);
    assert_eq!(used("plant"), Ok(0));
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &seen);
    assert_eq!((used("plant"), used("view")), (Ok(1), Ok(1)));
    rig.deploy("further", vec![alias("x", "view/x")]);
    rig.subscribe(
        &mut consumer,
        2,
        Contract::Latest,
        &rig.variable("further/x"),
    );
    assert_eq!((used("plant"), used("view")), (Ok(2), Ok(2)));
}
