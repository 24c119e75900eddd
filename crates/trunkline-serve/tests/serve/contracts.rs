//! What a subscriber gets under each contract.

use crate::rig::Pair;

#[test]
fn latest_gives_the_newest_value() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "latest");
    assert_eq!(sut.values(id), [0.0]);
    (1..=5).for_each(|n| sut.world.set("rig/x", f64::from(n)));
    sut.exchange();
    assert_eq!(sut.values(id), [5.0]);
}

#[test]
fn all_with_a_bound_of_one_goes_on_as_it_is_taken() {
    let mut sut = Pair::of(&["x"]);
    let id = sut.subscribe(&["rig/x"], "all:1");
    sut.world.set("rig/x", 1.0);
    sut.exchange();
    assert_eq!(sut.values(id), [0.0, 1.0]);
    sut.world.set("rig/x", 2.0);
    sut.exchange();
    assert_eq!(sut.values(id), [2.0]);
}
