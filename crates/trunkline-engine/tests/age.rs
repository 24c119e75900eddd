//! The maximum age of values: when a value is marked as stale, with which quality, and when the
//! mark is cleared.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::time::Duration;

use rig::{Rig, applied, define, library_of, updates};
use trunkline_engine::{Variable, Wakes};
use trunkline_types::{
    Contract, DataType, Deadband, Properties, Quality, Reason, Tick, VariableDefinition,
};

const SECOND: Duration = Duration::from_secs(1);

fn aging(max_age: Duration) -> Properties {
    Properties {
        max_age: Some(max_age),
        ..Properties::new(DataType::F64)
    }
}

fn poll(rig: &Rig) -> Option<Tick> {
    rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new())
}

/// Advances time in steps, and polls whenever the engine requests it.
fn pass(rig: &Rig, time: Duration) {
    let end = rig.now().saturating_add(time);
    while let Some(due) = poll(rig).filter(|due| *due <= end) {
        rig.advance(due.since(rig.now()));
    }
    rig.advance(end.since(rig.now()));
    poll(rig);
}

fn quality(variable: &Variable) -> Quality {
    variable.update().quality
}

/// Behaviour: B-12.
#[test]
fn value_beyond_its_maximum_age_is_marked_and_notified() {
    let (rig, x) = Rig::of(aging(2 * SECOND));
    let mut consumer = rig.consumer();
    let all: Contract = "all:10".parse().unwrap();
    rig.subscribe(&mut consumer, 1, all, &x);
    pass(&rig, 5 * SECOND);
    assert_eq!(
        x.sequence(),
        0,
        "a variable that was never written has no age"
    );
    assert_eq!(rig.write(&x, 1.0), applied(1));
    let written = x.update();
    pass(&rig, SECOND * 19 / 10);
    assert_eq!(quality(&x), Quality::GOOD);
    pass(&rig, SECOND / 10);
    assert_eq!(quality(&x).reason(), Reason::Stale);
    let stale = x.update();
    let times =
        |update: &trunkline_engine::Update| (update.source_timestamp, update.engine_timestamp);
    assert_eq!(
        times(&stale),
        times(&written),
        "the mark keeps the timestamps of the sample"
    );
    let events = updates(&mut consumer);
    let qualities: Vec<Reason> = events
        .iter()
        .skip(1)
        .map(|got| got.quality.reason())
        .collect();
    assert_eq!(qualities, [Reason::None, Reason::Stale]);
    pass(&rig, 60 * SECOND);
    assert_eq!(x.sequence(), 2, "the value is marked only once");

    // Any write clears the mark, until the new value is too old.
    assert_eq!(rig.write(&x, 1.0), applied(3));
    pass(&rig, SECOND * 19 / 10);
    assert_eq!(quality(&x), Quality::GOOD);
    pass(&rig, SECOND / 10);
    assert_eq!(quality(&x).reason(), Reason::Stale);
}

/// Behaviour: B-12.
#[test]
fn values_written_or_confirmed_in_time_are_never_marked() {
    let (rig, x) = Rig::of(Properties {
        deadband: Deadband {
            user_percent: 10.0,
            source_percent: 10.0,
        },
        ..aging(SECOND)
    });
    rig.write(&x, 50.0);
    for n in 0..50 {
        pass(&rig, SECOND * 9 / 10);
        assert_eq!(quality(&x), Quality::GOOD, "{n}");
        // A write within the deadband causes no update, but shows that the source is alive.
        rig.write(&x, 50.0 + f64::from(n % 2));
    }
    assert_eq!(x.sequence(), 1);
    for n in 0..50 {
        pass(&rig, SECOND * 9 / 10);
        assert_eq!(quality(&x), Quality::GOOD, "{n}");
        rig.write(&x, f64::from(n) * 20.0);
    }
    pass(&rig, SECOND);
    assert_eq!(quality(&x).reason(), Reason::Stale);
    // The deadband does not prevent a write from clearing the mark.
    let before = x.sequence();
    rig.write(&x, 49.0 * 20.0);
    assert_eq!((x.sequence(), quality(&x)), (before + 1, Quality::GOOD));
}

/// Behaviour: B-12.
#[test]
fn bad_stopped_or_removed_variables_are_left_unchanged() {
    let (rig, x) = Rig::of(aging(SECOND));
    rig.write(&x, 1.0);
    let (now, wall) = (rig.now(), rig.wall());
    let mut wakes = Wakes::new();
    rig.engine
        .libraries()
        .stop("rig", now, wall, &mut wakes)
        .unwrap();
    pass(&rig, 5 * SECOND);
    assert_eq!(quality(&x).reason(), Reason::ProcessMissing);
    let (now, wall) = (rig.now(), rig.wall());
    rig.engine
        .libraries()
        .start("rig", now, wall, &mut wakes)
        .unwrap();
    pass(&rig, 3 * SECOND);
    assert_eq!(
        quality(&x).reason(),
        Reason::Retained,
        "a bad value is not marked as stale"
    );
    rig.write(&x, 2.0);
    pass(&rig, 3 * SECOND);
    assert_eq!(quality(&x).reason(), Reason::Stale);
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut wakes)
        .unwrap();
    pass(&rig, 3 * SECOND);
    assert_eq!(poll(&rig), None, "no further poll is due");
}

/// Behaviour: B-12.
#[test]
fn a_replaced_library_may_set_change_and_end_a_maximum_age() {
    let (rig, x) = Rig::of(Properties::new(DataType::F64));
    let replace = |properties: Properties| {
        let library = library_of("rig", vec![define("x", properties)]);
        let (now, wall) = (rig.now(), rig.wall());
        let none = &|_: &_, _: &_| None;
        let deploy = rig.engine.libraries().deploy_retained(
            &library,
            true,
            none,
            now,
            wall,
            &mut Wakes::new(),
        );
        deploy.expect("it is well formed");
    };
    rig.write(&x, 1.0);
    assert_eq!(
        poll(&rig),
        None,
        "a variable without a maximum age needs no poll"
    );
    replace(aging(10 * SECOND));
    pass(&rig, 9 * SECOND);
    assert_eq!(quality(&x), Quality::GOOD);
    rig.write(&x, 2.0);
    replace(aging(2 * SECOND));
    pass(&rig, 4 * SECOND);
    assert_eq!(quality(&x).reason(), Reason::Stale);
    rig.write(&x, 3.0);
    replace(Properties::new(DataType::F64));
    pass(&rig, 60 * SECOND);
    assert_eq!((quality(&x), poll(&rig)), (Quality::GOOD, None));
}

/// Behaviour: B-12.
#[test]
fn many_are_marked_in_slices() {
    let definition = |n: u32| VariableDefinition {
        path: format!("v{n}"),
        properties: aging(SECOND).into(),
    };
    let rig = Rig::with((0..2500).map(definition).collect());
    let variables: Vec<_> = (0..2500)
        .map(|n| rig.variable(&format!("rig/v{n}")))
        .collect();
    for variable in &variables {
        rig.write(variable, 1.0);
    }
    rig.advance(SECOND);
    let marked = || {
        let stale = |v: &&std::sync::Arc<Variable>| quality(v).reason() == Reason::Stale;
        variables.iter().filter(stale).count()
    };
    for expected in [1000, 2000, 2500] {
        let again = poll(&rig);
        assert_eq!(marked(), expected);
        assert_eq!(again == Some(rig.now()), expected < 2500);
    }
}
