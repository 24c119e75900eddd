//! When scans are due, and what happens to late ones.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::time::Duration;

use trunkline_io::ScanSchedule;
use trunkline_types::Tick;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Tick {
    Tick::from_nanos(ms * MS)
}

fn schedule() -> ScanSchedule {
    ScanSchedule::new(Duration::from_millis(100), at(1_000))
}

#[test]
fn scans_are_due_on_a_fixed_grid() {
    let mut sut = schedule();
    assert!(!sut.is_due(at(999)));
    assert!(sut.is_due(at(1_000)));
    for n in 0..10 {
        assert_eq!(sut.next_due(), at(1_000 + n * 100));
        assert_eq!(sut.started(at(1_000 + n * 100)), 0);
    }
    assert_eq!((sut.scans(), sut.overruns()), (10, 0));
}

#[test]
fn a_late_scan_does_not_shift_those_after_it() {
    let mut sut = schedule();
    sut.started(at(1_030));
    assert_eq!(sut.next_due(), at(1_100));
    sut.started(at(1_199));
    assert_eq!(sut.next_due(), at(1_200));
    assert_eq!(sut.overruns(), 0);
}

#[test]
fn late_scan_replaces_missed_ones_and_counts_them() {
    let mut sut = schedule();
    // Due at 1000, 1100, 1200 and 1300.
    assert_eq!(sut.started(at(1_350)), 3);
    assert_eq!(sut.next_due(), at(1_400));
    assert_eq!(sut.started(at(1_400)), 0);
    assert_eq!((sut.scans(), sut.overruns()), (2, 3));
}

#[test]
fn a_scan_exactly_one_period_late_has_missed_one() {
    let mut sut = schedule();
    assert_eq!(sut.started(at(1_100)), 1);
    assert_eq!(sut.next_due(), at(1_200));
}

#[test]
fn a_scan_before_its_time_changes_nothing() {
    let mut sut = schedule();
    assert_eq!(sut.started(at(500)), 0);
    assert_eq!(sut.next_due(), at(1_000));
    assert_eq!(sut.scans(), 0);
}

#[test]
fn jitter_is_how_late_scans_started() {
    let mut sut = schedule();
    for (n, late) in [0, 2, 10, 0].into_iter().enumerate() {
        sut.started(at(1_000 + n as u64 * 100 + late));
    }
    let jitter = sut.jitter();
    assert_eq!(jitter.last, Duration::ZERO);
    assert_eq!(jitter.max, Duration::from_millis(10));
    assert_eq!(jitter.mean, Duration::from_millis(3));
    assert_eq!(schedule().jitter().mean, Duration::ZERO);
}

#[test]
fn a_period_of_zero_and_the_end_of_time_are_survived() {
    let mut sut = ScanSchedule::new(Duration::ZERO, Tick::ZERO);
    assert_eq!(sut.period(), ScanSchedule::PERIOD_MIN);
    sut.started(Tick::MAX);
    assert_eq!(sut.next_due(), Tick::MAX);
    let mut sut = ScanSchedule::new(Duration::MAX, Tick::ZERO);
    sut.started(at(1));
    assert_eq!(sut.next_due(), Tick::MAX);
}
