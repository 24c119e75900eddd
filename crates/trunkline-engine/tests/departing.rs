//! A consumer with very many items ends in slices of the engine's polls.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at what it did not expect"
)]
#![cfg(not(shuttle))]

mod rig;

use rig::{Bell, Rig, drain};
use trunkline_engine::engine::SLICE;
use trunkline_engine::{Consumer, Wakes};
use trunkline_types::{Contract, DataType, VariableDefinition};

fn variables(count: usize) -> Vec<VariableDefinition> {
    let define = |index| VariableDefinition::new(format!("v{index}"), DataType::F64);
    (0..count).map(define).collect()
}

#[test]
fn a_consumer_with_very_many_items_ends_in_slices() {
    const VARIABLES: usize = 3000;
    let rig = Rig::with(variables(VARIABLES));
    let bell = Bell::default();
    let mut large = Consumer::new(rig.engine.clone(), Box::new(bell.clone()));
    let mut other = rig.consumer();
    let contracts = [Contract::Latest, Contract::Last(2), Contract::First(2)];
    for index in 0..VARIABLES {
        let variable = rig.variable(&format!("rig/v{index}"));
        for (number, contract) in contracts.into_iter().enumerate() {
            rig.subscribe(&mut large, number as u32, contract, &variable);
        }
        rig.subscribe(&mut other, 1, Contract::Latest, &variable);
        rig.write(&variable, 1.0);
    }
    drain(&mut large);
    drain(&mut other);
    bell.rings();
    let mut left = rig.engine.subscription_count();
    assert_eq!(left, 4 * VARIABLES as u64);
    drop(large);
    let mut polls = 0;
    loop {
        let now = rig.engine.subscription_count();
        assert!(left - now <= SLICE as u64, "{} items at once", left - now);
        left = now;
        if left == VARIABLES as u64 {
            break;
        }
        // Writers go on, and wake nobody for it.
        let variable = rig.variable(&format!("rig/v{}", polls % VARIABLES));
        rig.write(&variable, 2.0 + polls as f64);
        assert_eq!(drain(&mut other).len(), 1);
        let due = rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
        assert!(due.is_some() || rig.engine.subscription_count() == VARIABLES as u64);
        polls += 1;
        assert!(polls < 100, "it ends");
    }
    assert!(polls >= 8);
    assert_eq!(bell.rings(), 0, "nobody wakes what has ended");
    for index in 0..VARIABLES {
        let variable = rig.variable(&format!("rig/v{index}"));
        assert_eq!(variable.subscribers(), 1);
    }
}
