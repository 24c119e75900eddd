use std::time::Duration;

use super::{Tick, Timestamp, duration_nanos};

#[test]
fn ticks_stop_at_the_ends_of_their_range() {
    let tick = Tick::from_nanos(1_000);
    assert_eq!(
        tick.saturating_add(Duration::from_micros(1)),
        Tick::from_nanos(2_000)
    );
    assert_eq!(tick.saturating_add(Duration::MAX), Tick::MAX);
    assert_eq!(tick.since(Tick::ZERO), Duration::from_micros(1));
    assert_eq!(Tick::ZERO.since(tick), Duration::ZERO);
    assert_eq!(duration_nanos(Duration::MAX), u64::MAX);
}

#[test]
fn earliest_time_ignores_times_that_never_occur() {
    let [soon, late] = [1_000, 2_000].map(|nanos| Some(Tick::from_nanos(nanos)));
    assert_eq!(Tick::earliest([late, None, soon, Some(Tick::MAX)]), soon);
    assert_eq!(Tick::earliest([None, Some(Tick::MAX)]), None);
    assert_eq!(Tick::earliest([]), None);
    assert_eq!(Tick::earliest([Some(Tick::ZERO)]), Some(Tick::ZERO));
}

#[test]
fn timestamps_stop_at_the_ends_of_their_range() {
    let (first, last) = (
        Timestamp::from_nanos(i64::MIN),
        Timestamp::from_nanos(i64::MAX),
    );
    assert_eq!(last.saturating_add_nanos(1), last);
    assert_eq!(first.saturating_add_nanos(-1), first);
    assert_eq!(last.nanos_since(first), i64::MAX);
    assert_eq!(first.nanos_since(last), i64::MIN);
}

/// The part of B-41 that the engine relies on: times from an unset clock are recognised.
#[test]
fn times_of_unset_clocks_are_not_plausible() {
    for text in [
        "1904-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "1980-01-06T00:00:00Z",
        "1999-12-31T23:59:59.999999999Z",
    ] {
        assert!(
            !crate::text::parse_rfc3339(text).unwrap().is_plausible(),
            "{text}"
        );
    }
    for text in ["2000-01-01T00:00:00Z", "2026-11-20T21:39:04Z"] {
        assert!(
            crate::text::parse_rfc3339(text).unwrap().is_plausible(),
            "{text}"
        );
    }
}
