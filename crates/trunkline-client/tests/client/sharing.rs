//! Several subscriptions of one program to the same variables.

use trunkline_client::SubscribeOptions;
use trunkline_types::{Contract, Tick};

use super::rig::{Rig, Said, write};

#[test]
fn latest_subscriptions_share_what_is_sent() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let one = rig.subscribe(&["a/b"], "latest");
    rig.set("a/b", 1.0);
    rig.said();
    let two = rig.subscribe(&["a/c", "a/b"], "latest");
    assert_eq!(rig.wire(one), rig.wire(two));
    let opened: Vec<_> = rig.said().into_iter().filter_map(names).flatten().collect();
    assert_eq!(opened, ["a/c"], "what is there already is not asked for");
    assert_eq!(
        rig.readings(two).len(),
        2,
        "and is delivered from the local copy"
    );
    let sent = rig.engine.records_sent;
    rig.set("a/b", 2.0);
    assert_eq!(rig.engine.records_sent, sent + 1);
    assert_eq!((rig.values(one), rig.values(two)), (vec![2.0], vec![2.0]));

    let only_changes = SubscribeOptions {
        only_changes: true,
        ..SubscribeOptions::default()
    };
    let three = rig.subscribe_with(&["a/b"], Contract::Latest, only_changes);
    assert_ne!(
        rig.wire(three),
        rig.wire(one),
        "other filters, another subscription"
    );
}

fn names(said: Said) -> Option<Vec<String>> {
    match said {
        Said::Open { names, .. } => Some(names),
        _ => None,
    }
}

#[test]
fn the_last_one_to_leave_a_shared_item_ends_it() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let (one, two) = (
        rig.subscribe(&["a/b", "a/c"], "latest"),
        rig.subscribe(&["a/b"], "latest"),
    );
    let wire = rig.wire(one);
    rig.client.unsubscribe(one);
    rig.exchange();
    assert_eq!(rig.engine.subscriptions[&wire].handles, [100].into());
    rig.client.unsubscribe(two);
    rig.exchange();
    assert!(rig.engine.subscriptions.is_empty());
    assert_eq!(rig.client.variables_in_use(), 0);
}

#[test]
fn subscription_may_contain_a_name_twice() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b", "a/b"], "all:2");
    rig.set("a/b", 1.0);
    assert_eq!(rig.values(id), [0.0, 0.0, 1.0, 1.0]);
    let wire = rig.wire(id);
    assert_eq!(
        rig.engine.subscriptions[&wire].granted, 3,
        "one update was sent, one is granted"
    );
}

#[test]
fn own_updates_are_marked_by_the_answers_that_precede_them() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "all");
    let variable = rig.open_one("a/b");
    rig.set("a/b", 1.0);
    rig.client
        .write_untracked([write(variable, 2.0)], Tick::MAX)
        .unwrap();
    rig.exchange();
    let wire = rig.wire(id);
    rig.engine.send_current(wire, 100);
    rig.exchange();
    rig.set("a/b", 3.0);
    let own: Vec<bool> = rig.readings(id).iter().map(|reading| reading.own).collect();
    assert_eq!(own, [false, false, true, false]);
}
