//! Late samples: older than the live value, and delivered only to a history (B-41).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;

use rig::{Bell, Rig, applied, done, drain};
use trunkline_engine::{Consumer, LateKept, Refusal, Variable, Write, WriteOutcome};
use trunkline_types::history::LATE_SEQUENCES;
use trunkline_types::{Contract, DataType, Properties, Value};

const SECOND: i64 = 1_000_000_000;

/// Writes a value that was measured this many seconds ago.
fn write(rig: &Rig, variable: &Variable, ago: i64, value: &Value) -> WriteOutcome {
    let mut write = Write::value(value);
    write.source_timestamp = Some(rig.wall().saturating_add_nanos(-ago * SECOND));
    done(rig.attempt(variable, &write))
}

fn refused(rig: &Rig, kept: LateKept) -> WriteOutcome {
    let live = rig.wall();
    WriteOutcome::Refused(Refusal::Late { live, kept })
}

/// Returns a subscriber of a variable that also takes its late samples.
fn history(rig: &Rig, bell: &Bell, variable: &Arc<Variable>) -> Consumer {
    let mut consumer = Consumer::service(rig.engine.clone(), Box::new(bell.clone()));
    rig.subscribe(&mut consumer, 1, Contract::ALL, variable);
    consumer.keep_late(variable);
    drain(&mut consumer);
    consumer
}

#[test]
fn late_sample_wakes_the_history_and_changes_nothing_else() {
    let (rig, x) = Rig::plain();
    let bell = Bell::default();
    let mut sut = history(&rig, &bell, &x);
    assert_eq!(write(&rig, &x, 0, &Value::F64(1.0)), applied(1));
    assert_eq!(drain(&mut sut).len(), 1);
    bell.rings();
    assert!(sut.rearm_if_idle());

    for (ago, value) in [(5, 2.0), (9, 3.0)] {
        let outcome = write(&rig, &x, ago, &Value::F64(value));
        assert_eq!(outcome, refused(&rig, LateKept::History));
    }
    assert_eq!(bell.rings(), 1, "the consumer has not drained in between");
    assert!(!sut.rearm_if_idle());
    assert_eq!(drain(&mut sut).len(), 0, "a late sample is not an update");
    assert_eq!((x.sample().value, x.sequence()), (Value::F64(1.0), 1));
    for (number, ago, value) in [(1, 5, 2.0), (2, 9, 3.0)] {
        let (handle, update) = sut.take_late().unwrap();
        assert_eq!(handle, x.handle());
        assert_eq!(update.sequence, LATE_SEQUENCES + number);
        let measured = rig.wall().saturating_add_nanos(-ago * SECOND);
        assert_eq!(update.source_timestamp, measured);
        assert_eq!(update.engine_timestamp, rig.wall());
        assert_eq!(update.value.decode(&DataType::F64), Value::F64(value));
    }
    assert!(sut.take_late().is_none() && sut.rearm_if_idle());
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!(ledger.refused, 2);
}

#[test]
fn late_sample_is_refused_if_its_history_has_no_room_or_has_ended() {
    let (rig, x) = Rig::of(Properties::new(DataType::Bytes));
    let bell = Bell::default();
    let mut sut = history(&rig, &bell, &x);
    let (small, large) = (
        Value::Bytes([1].into()),
        Value::Bytes(vec![7; 1 << 20].into()),
    );
    assert_eq!(write(&rig, &x, 0, &small), applied(1));

    // 16 MiB of values.
    let kept = (0..20).filter(|_| write(&rig, &x, 1, &large) == refused(&rig, LateKept::History));
    assert_eq!(kept.count(), 15);
    assert_eq!(write(&rig, &x, 1, &large), refused(&rig, LateKept::NoRoom));
    while sut.take_late().is_some() {}

    // 65,536 samples.
    for _ in 0..65_536 {
        assert_eq!(write(&rig, &x, 1, &small), refused(&rig, LateKept::History));
    }
    assert_eq!(write(&rig, &x, 1, &small), refused(&rig, LateKept::NoRoom));
    assert!(sut.take_late().is_some());
    assert_eq!(write(&rig, &x, 1, &small), refused(&rig, LateKept::History));

    sut.close_late();
    assert_eq!(write(&rig, &x, 1, &small), refused(&rig, LateKept::Nowhere));
    let mut waiting = 0;
    while sut.take_late().is_some() {
        waiting += 1;
    }
    assert_eq!(waiting, 65_536, "stored samples can still be taken");
    drop(sut);
    assert_eq!(write(&rig, &x, 1, &small), refused(&rig, LateKept::Nowhere));
}
