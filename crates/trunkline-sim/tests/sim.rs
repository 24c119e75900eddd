//! Tests the simulator, and runs a few seeds. `make test` also runs 50 simulated hours.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::time::Duration;

use trunkline_sim::plan::Plan;
use trunkline_sim::run::{self, run};
use trunkline_sim::trace::Trace;
use trunkline_sim::world::World;

type Outcome = run::Outcome<Plan>;

fn passed(plan: Plan) -> Outcome {
    let seed = plan.seed;
    let outcome = run(plan, false);
    assert_eq!(outcome.violation, None, "seed {seed}");
    outcome
}

/// The simplest plan: written values arrive, and the ledgers of engine and client agree.
///
/// Behaviour: B-01, B-02, B-20.
#[test]
fn one_client_sees_what_is_written() {
    let outcome = passed(Plan::minimal(1));
    assert!(outcome.totals.readings > 50 && outcome.totals.compared > 0);
}

#[test]
fn a_seed_replays_bit_for_bit() {
    for seed in [4, 7] {
        let (first, again) = (run(Plan::drawn(seed), false), run(Plan::drawn(seed), false));
        assert!(first.trace.events > 1000);
        assert_eq!(
            (first.trace.hash(), first.trace.events),
            (again.trace.hash(), again.trace.events),
            "seed {seed}"
        );
    }
    let (one, other) = (run(Plan::drawn(8), false), run(Plan::drawn(9), false));
    assert_ne!(one.trace.hash(), other.trace.hash());
}

/// Each seed draws its own faults. The invariants are listed in `docs/reference/simulation.md`.
///
/// Behaviour: B-01, B-02, B-03, B-05, B-12, B-13, B-20, B-21, B-22, B-23.
#[test]
fn invariants_hold_under_faults() {
    let outcomes: Vec<_> = (0..7).map(|seed| passed(Plan::drawn(seed))).collect();
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    // The checker had something to check.
    assert!(sum(|o| o.totals.readings) > 5_000);
    assert!(sum(|o| o.totals.conditional) > 50);
    assert!(sum(|o| o.totals.groups) > 20);
    assert!(sum(|o| o.totals.unknown) > 0);
    assert!(sum(|o| o.totals.ledgers) > 1000);
    assert!(sum(|o| o.totals.deployed) > 20);
    assert!(sum(|o| o.totals.hostile) > 5);
    assert!(sum(|o| o.faults.values().sum::<u64>()) > 50);
}

/// Every client's values match the engine's 2 s after the faults have ended.
///
/// Behaviour: B-11.
#[test]
fn views_converge_after_any_fault() {
    for seed in 0..3 {
        let outcome = passed(Plan::chaos(seed, 6));
        assert!(outcome.totals.compared > 0);
    }
}

/// Wall clocks are stepped by hours and years during the run. No data is delayed or reordered.
///
/// Behaviour: B-42, B-01.
#[test]
fn clock_steps_have_no_effect() {
    for seed in 0..3 {
        let mut plan = Plan::drawn(seed);
        let step = trunkline_sim::fault::Fault::ClockStep;
        plan.faults = vec![(step, Duration::from_millis(500))];
        let outcome = passed(plan.clone());
        assert!(outcome.faults.get(&step).is_some_and(|steps| *steps > 20));
        // No client was disconnected.
        assert_eq!(outcome.totals.connections, plan.programs.len() as u64);
    }
}

/// Eight clients with equal demands share a line with a third of the required rate, and receive equal
/// shares. A client with a small demand receives at least the same fraction of its demand as clients with
/// large demands.
///
/// Behaviour: B-07.
#[test]
fn a_saturated_line_is_shared() {
    let mut world = World::new(Plan::saturated(1, 60_000, &[60; 8]), Trace::default());
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.checker.violation, None);
    let shares = world.received();
    let mean = shares.iter().sum::<u64>() / shares.len() as u64;
    for share in &shares {
        assert!(
            share.abs_diff(mean) * 10 < mean,
            "not in proportion: {shares:?}"
        );
    }

    let mut free = World::new(Plan::saturated(1, 0, &[60; 8]), Trace::default());
    free.run_for(Duration::from_secs(20));
    assert!(
        free.received().iter().all(|share| *share > 2 * mean),
        "not saturated"
    );

    let plan = Plan::saturated(2, 60_000, &[2, 60, 60, 60, 60, 60]);
    let mut world = World::new(plan, Trace::default());
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.checker.violation, None);
    let shares = world.received();
    let per_variable = |client: usize, variables: u64| shares[client] / variables;
    assert!(
        (1..6).all(|client| shares[client] > 1000),
        "starved: {shares:?}"
    );
    assert!(
        (1..6).all(|client| per_variable(0, 2) > per_variable(client, 60)),
        "{shares:?}"
    );
    assert_eq!(world.connections, 6, "a client was treated as dead");
}
