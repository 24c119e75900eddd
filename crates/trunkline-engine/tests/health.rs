//! The totals over all variables, and over the engine's own variables.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use rig::{Rig, drain};
use trunkline_engine::health::{Totals, TotalsCounter};
use trunkline_engine::{Wakes, Write, WriteVerb};
use trunkline_types::{Contract, DataType, Pattern, VariableDefinition};

fn f64s(paths: &[&str]) -> Vec<VariableDefinition> {
    let f64_of = |path: &&str| VariableDefinition::new(*path, DataType::F64);
    paths.iter().map(f64_of).collect()
}

/// Returns the totals, and the number of calls needed.
fn count(rig: &Rig, budget: usize) -> (Totals, usize) {
    let mut census = TotalsCounter::default();
    for calls in 1..100 {
        if let Some(totals) = census.advance(&rig.engine, budget) {
            return (totals, calls);
        }
    }
    panic!("the totals are never complete");
}

#[test]
fn totals_are_equal_in_any_slices_and_survive_removed_variables() {
    let rig = Rig::with(f64s(&["a", "b", "c"]));
    rig.deploy("_own", f64s(&["x"]));
    let [a, b, own] = ["rig/a", "rig/b", "_own/x"].map(|name| rig.variable(name));
    let mut consumer = rig.consumer().queue_bytes_max(1 << 20);
    rig.subscribe(&mut consumer, 1, Contract::ALL, &a);
    rig.subscribe(&mut consumer, 2, Contract::First(8), &b);
    rig.subscribe(&mut consumer, 3, Contract::Latest, &own);
    for n in 0..3 {
        rig.write(&a, f64::from(n));
    }
    rig.write(&b, 1.0);
    rig.write(&own, 1.0);
    let _refused = rig.attempt(&b, &Write::order(WriteVerb::Unforce));
    let (totals, calls) = count(&rig, 1000);
    assert_eq!(calls, 1);
    assert_eq!((totals.offered, totals.written, totals.refused), (5, 4, 1));
    rig.subscribe(&mut consumer, 4, Contract::Latest, &a);
    let mut other = rig.consumer();
    rig.subscribe(&mut other, 1, Contract::ALL, &a);
    rig.subscribe(&mut other, 2, Contract::Latest, &b);
    assert_eq!(rig.engine.health().subscription_count(), 5);
    other.unsubscribe(2, None, &mut Wakes::new());
    assert_eq!(rig.engine.health().subscription_count(), 4);
    drop(other);
    consumer.unsubscribe(4, None, &mut Wakes::new());
    assert_eq!(rig.engine.health().subscription_count(), 2);
    assert!(totals.queued_bytes >= 4 * 64, "{totals:?}");
    let (slowly, calls) = count(&rig, 2);
    assert_eq!((slowly, calls > 1), (totals, true));

    drain(&mut consumer);
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .unwrap();
    drain(&mut consumer);
    let (after, _) = count(&rig, 1000);
    assert_eq!(
        (after.written, rig.engine.health().subscription_count()),
        (4, 0)
    );
    assert_eq!(after.queued_bytes, 0);
}

#[test]
fn losses_of_bounded_subscriptions_are_counted_for_the_engine() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Last(2), &x);
    rig.subscribe(&mut consumer, 2, Contract::First(2), &x);
    let all = Contract::All {
        elements: 2,
        bytes: 1 << 20,
    };
    rig.subscribe(&mut consumer, 3, all, &x);
    drain(&mut consumer);
    assert_eq!(rig.engine.health().lost_and_overruns(), (0, 0));
    for n in 0..5 {
        rig.write(&x, f64::from(n));
    }
    drain(&mut consumer);
    // Under `first`, a loss is reported with the next delivered update.
    rig.write(&x, 9.0);
    drain(&mut consumer);
    assert_eq!(rig.engine.health().lost_and_overruns(), (3 + 3 + 3, 1));
}

#[test]
fn engine_libraries_are_listed_only_on_request() {
    let rig = Rig::with(f64s(&["uptime"]));
    rig.deploy("_engine", f64s(&["uptime"]));
    let found = |pattern: &str| {
        let pattern = Pattern::parse(pattern).unwrap();
        let mut names = Vec::new();
        let mut budget = trunkline_types::StepBudget::new(100_000);
        rig.engine
            .find(&rig.caller, &pattern, 0, 100, &mut budget, |found| {
                names.push(found.name().to_owned());
            });
        names
    };
    assert_eq!(found("**"), ["rig/uptime"]);
    assert_eq!(found("*/uptime"), ["rig/uptime"]);
    assert_eq!(found("_*/**"), ["_engine/uptime"]);
    assert_eq!(found("_engine/uptime"), ["_engine/uptime"]);
    assert_eq!(rig.engine.libraries().variable_count(), 1);
    let suggested = |name: &str| rig.engine.suggest(&rig.caller, name);
    assert_eq!(suggested("engine/uptime"), None);
    assert_eq!(
        suggested("_engine/uptim").as_deref(),
        Some("_engine/uptime")
    );
}
