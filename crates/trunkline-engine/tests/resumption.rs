//! Subscriptions that are recreated after a connection was lost.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use rig::{EPOCH, Rig, all, at, balanced, drain, sequences, stalling, updates};
use trunkline_engine::{Wakes, WriteOutcome};
use trunkline_types::{Contract, DataType, Position, VariableDefinition};

/// Behaviour: B-02.
#[test]
fn resumed_subscription_accounts_for_updates_written_meanwhile() {
    let contracts = [
        Contract::Latest,
        Contract::Last(4),
        Contract::First(4),
        all(4),
    ];
    for contract in contracts {
        let (rig, x) = Rig::plain();
        for _ in 0..10 {
            rig.write(&x, 1.0);
        }
        // Some updates were missed.
        let mut consumer = rig.consumer();
        rig.resume(&mut consumer, 1, contract, &x, at(4));
        let ledger = balanced(&consumer, 1, &x);
        assert_eq!(
            (ledger.written, ledger.dropped_disconnect, ledger.waiting),
            (6, 5, 1)
        );
        let got = updates(&mut consumer);
        assert_eq!(
            (sequences(&got), got[0].lost.disconnect),
            (vec![10], 5),
            "{contract}"
        );
        assert_eq!(got[0].lost.count(), Some(5));
        // The loss is reported once.
        rig.write(&x, 1.0);
        assert_eq!(updates(&mut consumer)[0].lost.disconnect, 0, "{contract}");
        balanced(&consumer, 1, &x);

        // No update was missed, or only the current one.
        let mut consumer = rig.consumer();
        rig.resume(&mut consumer, 1, contract, &x, at(11));
        assert_eq!(drain(&mut consumer), [], "{contract}");
        rig.write(&x, 2.0);
        assert_eq!(sequences(&updates(&mut consumer)), [12], "{contract}");
        assert_eq!(balanced(&consumer, 1, &x).received, 1);
        let mut consumer = rig.consumer();
        rig.resume(&mut consumer, 1, contract, &x, at(11));
        let got = updates(&mut consumer);
        assert_eq!(
            (sequences(&got), got[0].lost.count()),
            (vec![12], Some(0)),
            "{contract}"
        );
        balanced(&consumer, 1, &x);

        // Another engine start, or an impossible position: the number is unknown.
        for position in [
            Position {
                epoch: EPOCH + 1,
                sequence: 3,
            },
            at(1000),
        ] {
            let mut consumer = rig.consumer();
            rig.resume(&mut consumer, 1, contract, &x, position);
            let got = updates(&mut consumer);
            assert_eq!(
                (sequences(&got), got[0].lost.count()),
                (vec![12], None),
                "{contract}"
            );
            balanced(&consumer, 1, &x);
        }
    }
}

#[test]
fn resumed_subscription_of_a_variable_without_value_waits_for_the_first() {
    let (rig, x) = Rig::plain();
    let mut consumer = rig.consumer();
    rig.resume(&mut consumer, 1, Contract::Latest, &x, at(0));
    assert_eq!(drain(&mut consumer), []);
    rig.write(&x, 1.0);
    assert_eq!(sequences(&updates(&mut consumer)), [1]);
    assert_eq!(balanced(&consumer, 1, &x).received, 1);
}

/// Behaviour: B-02.
#[test]
fn deliveries_count_as_received_when_the_peer_confirms_them() {
    let rig = Rig::with(vec![
        VariableDefinition::new("x", DataType::F64),
        VariableDefinition::new("y", DataType::F64),
    ]);
    let (x, y) = (rig.variable("rig/x"), rig.variable("rig/y"));
    let mut consumer = rig.consumer().confirmed_by_peer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &x);
    rig.subscribe(&mut consumer, 2, all(10), &y);
    for _ in 0..3 {
        rig.write(&x, 1.0);
        rig.write(&y, 1.0);
    }
    let got = updates(&mut consumer);
    assert_eq!((got.len(), consumer.in_flight()), (5, 5));
    let ledger = balanced(&consumer, 1, &x);
    assert_eq!(
        (ledger.sent_unconfirmed, ledger.received, ledger.coalesced),
        (1, 0, 2)
    );
    assert_eq!(
        balanced(&consumer, 2, &y).sent_unconfirmed,
        3,
        "a first reading without a value is not an update"
    );
    assert!(consumer.confirm(3));
    assert_eq!(consumer.in_flight(), 2);
    let received = balanced(&consumer, 1, &x).received + balanced(&consumer, 2, &y).received;
    assert_eq!(received, 2);
    // A confirmation of updates of a removed item is not credited to another one.
    consumer.unsubscribe(2, None, &mut Wakes::new());
    rig.subscribe(&mut consumer, 2, all(10), &y);
    assert!(consumer.confirm(2));
    assert_eq!(consumer.in_flight(), 0);
    let ledger = balanced(&consumer, 2, &y);
    assert_eq!(
        (ledger.received, ledger.sent_unconfirmed, ledger.waiting),
        (0, 0, 1)
    );
    assert!(consumer.confirm(0));
    assert!(
        !consumer.confirm(1),
        "a confirmation of more deliveries than were sent is refused"
    );
    assert!(!rig.consumer().confirm(1));
}

#[test]
fn filtered_updates_never_wait_for_room() {
    // A filtered update needs no room.
    let (rig, x) = Rig::of(stalling());
    let mut consumer = rig.consumer();
    rig.subscribe_changes(&mut consumer, 1, all(1), &x);
    rig.write(&x, 1.0);
    for _ in 0..5 {
        assert!(matches!(rig.write(&x, 1.0), WriteOutcome::Applied(_)));
    }
    rig.blocks_until(&x, 2.0);
    let got = updates(&mut consumer);
    assert_eq!(sequences(&got), [0, 1]);
    rig.write(&x, 2.0);
    let got = updates(&mut consumer);
    assert_eq!((sequences(&got), got[0].filtered), (vec![7], 5));
    balanced(&consumer, 1, &x);
}
