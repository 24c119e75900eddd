//! Steps of the wall clock: they stall, refuse and reorder nothing, and each one is detected.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::time::Duration;

use rig::{Rig, applied};
use trunkline_engine::{
    Attempt, CLOCK_SETTLING, Caller, ClockSteps, Origin, Variable, Wakes, Write,
};
use trunkline_types::{
    Clock, ClockSync, Contract, DataType, Properties, Quality, Reason, Tick, Timestamp, Value,
};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
const TEN_YEARS: i64 = 10 * 365 * 24 * HOUR;
const POLL: Duration = Duration::from_millis(250);

/// An engine whose wall clock differs from the true time by `off`.
struct Sut {
    rig: Rig,
    off: i64,
}

impl Sut {
    fn wall(&self) -> Timestamp {
        self.rig.wall().saturating_add_nanos(self.off)
    }

    /// Lets the engine's housekeeping run for this long.
    fn pass(&self, time: Duration) {
        let end = self.rig.now().saturating_add(time);
        while self.rig.now() < end {
            self.rig.advance(POLL);
            self.poll();
        }
    }

    fn poll(&self) -> Option<Tick> {
        let now = self.rig.now();
        self.rig.engine.poll(now, self.wall(), &mut Wakes::new())
    }

    fn write(&self, variable: &Variable, value: f64, stamp: Option<Timestamp>) -> Attempt {
        let value = Value::F64(value);
        let mut write = Write::value(&value);
        write.source_timestamp = stamp;
        if stamp.is_some() {
            write.origin = Origin::Source;
        }
        let (engine, caller) = (&self.rig.engine, Caller::engine());
        let (now, wall) = (self.rig.now(), self.wall());
        engine.try_write(&caller, now, wall, variable, &write, &mut Wakes::new())
    }
}

/// Behaviour: B-42, B-40.
#[test]
fn every_step_is_detected_and_later_timestamps_are_marked() {
    for by in [HOUR, -HOUR, TEN_YEARS, -TEN_YEARS, SECOND, -SECOND] {
        let (rig, x) = Rig::plain();
        let mut sut = Sut { rig, off: 0 };
        sut.pass(Duration::from_secs(5));
        assert_eq!(sut.write(&x, 1.0, None), Attempt::Done(applied(1)));
        assert_eq!(x.update().quality, Quality::GOOD);
        sut.off += by;
        sut.pass(POLL);
        let steps = ClockSteps {
            count: 1,
            last_nanos: by,
        };
        assert_eq!(sut.rig.engine.clock_steps(), steps, "{by}");
        assert_eq!(sut.write(&x, 2.0, None), Attempt::Done(applied(2)), "{by}");
        let marked = Quality::GOOD.with_clock(Clock::Engine, ClockSync::Free);
        assert_eq!(x.update().quality, marked, "{by}");
        assert_eq!(x.update().source_timestamp, sut.wall());
        sut.pass(CLOCK_SETTLING);
        assert_eq!(sut.write(&x, 3.0, None), Attempt::Done(applied(3)));
        assert_eq!(x.update().quality, Quality::GOOD, "{by}: it has settled");
        assert_eq!(sut.rig.engine.clock_steps().count, 1, "{by}");
    }
}

/// Behaviour: B-42.
#[test]
fn clock_stepping_back_every_second_refuses_and_reorders_nothing() {
    let (rig, x) = Rig::plain();
    let mut sut = Sut { rig, off: 0 };
    let mut consumer = sut.rig.consumer();
    let all: Contract = "all:10000".parse().unwrap();
    sut.rig.subscribe(&mut consumer, 1, all, &x);
    rig::updates(&mut consumer);
    sut.poll();
    for n in 1..=1000u64 {
        sut.off -= SECOND;
        sut.pass(Duration::from_secs(1));
        // Half of the writes come from a source that uses the same clock.
        let stamp = (n % 2 == 0).then(|| sut.wall());
        let outcome = sut.write(&x, n as f64, stamp);
        assert_eq!(outcome, Attempt::Done(applied(n)));
    }
    let updates = rig::updates(&mut consumer);
    assert_eq!(rig::sequences(&updates), (1..=1000).collect::<Vec<u64>>());
    assert_eq!(sut.rig.engine.clock_steps().count, 1000);
}

/// Behaviour: B-42.
#[test]
fn a_source_on_the_same_clock_is_not_late_after_it_was_set_back() {
    for by in [-SECOND, -HOUR, -TEN_YEARS] {
        let (rig, x) = Rig::plain();
        let mut sut = Sut { rig, off: 0 };
        sut.pass(Duration::from_secs(1));
        let first = sut.wall();
        assert_eq!(sut.write(&x, 1.0, Some(first)), Attempt::Done(applied(1)));
        sut.off += by;
        let back = sut.wall();
        assert_eq!(
            sut.write(&x, 2.0, Some(back)),
            Attempt::Done(applied(2)),
            "{by}"
        );
        // A sample that is late by the same clock is still refused.
        let late = sut.write(&x, 3.0, Some(back.saturating_add_nanos(-1)));
        assert!(
            !matches!(late, Attempt::Done(ref done) if *done == applied(3)),
            "{late:?}"
        );
    }
}

/// Behaviour: B-42.
#[test]
fn a_clock_that_is_slewed_or_read_late_is_not_set() {
    let (rig, _) = Rig::plain();
    let mut sut = Sut { rig, off: 0 };
    for n in 0..4000 {
        // Slews by 500 ppm, the maximum rate, and polls at irregular times.
        sut.off += i64::try_from(POLL.as_nanos()).unwrap() / 2000;
        sut.pass(POLL);
        if n % 100 == 0 {
            sut.rig.advance(Duration::from_secs(3));
        }
    }
    assert_eq!(sut.rig.engine.clock_steps(), ClockSteps::default());
}

/// Behaviour: B-12, B-42.
#[test]
fn values_age_by_monotonic_time() {
    for by in [HOUR, -HOUR, TEN_YEARS, -TEN_YEARS] {
        let (rig, x) = Rig::of(Properties {
            max_age: Some(Duration::from_secs(2)),
            ..Properties::new(DataType::F64)
        });
        let mut sut = Sut { rig, off: 0 };
        sut.poll();
        assert_eq!(sut.write(&x, 1.0, None), Attempt::Done(applied(1)));
        sut.poll();
        sut.off += by;
        sut.pass(Duration::from_millis(1750));
        assert_ne!(x.update().quality.reason(), Reason::Stale, "{by}");
        sut.pass(POLL);
        assert_eq!(x.update().quality.reason(), Reason::Stale, "{by}");
        assert_eq!(x.sequence(), 2);
    }
}
