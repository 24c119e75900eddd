use proptest::prelude::*;

use super::{Clock, ClockSync, Level, Quality, Reason};

#[test]
fn qualities_print_level_reason_and_flags() {
    for (quality, text) in [
        (Quality::good(), "good"),
        (Quality::uncertain(Reason::Retained), "uncertain: retained"),
        (Quality::bad(Reason::SensorFailure), "bad: sensor-failure"),
        (Quality::bad(Reason::None), "bad"),
        (Quality::bad(Reason::Unlisted(123)), "bad: reason-123"),
        (Quality::GOOD.with_forced(true), "good (forced)"),
        (
            Quality::uncertain(Reason::Stale)
                .with_simulated(true)
                .with_coerced(true),
            "uncertain: stale (simulated, coerced)",
        ),
    ] {
        assert_eq!(quality.to_string(), text);
    }
}

#[test]
fn reasons_have_distinct_names_and_descriptions() {
    let mut names = std::collections::HashSet::new();
    let mut codes = std::collections::HashSet::new();
    for reason in Reason::ALL {
        assert!(names.insert(reason.name()), "{reason}");
        assert!(codes.insert(reason.code()), "{reason}");
        assert_eq!(Reason::from_code(reason.code()), *reason);
        assert_eq!(Reason::from_name(reason.name()), Some(*reason));
        assert!(
            reason
                .name()
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '-')
        );
        assert!(reason.sentence().ends_with('.'));
        assert!(reason.code() < 1 << 14);
    }
    assert_eq!(Reason::from_name("unlisted"), None);
    assert_eq!(Reason::from_code(9999), Reason::Unlisted(9999));
}

/// Behaviour: H-29.
#[test]
fn every_status_of_the_source_system_has_its_reason() {
    for (level, reason) in [
        (Level::Uncertain, "buffer-empty"),
        (Level::Uncertain, "write-buffer-nearly-full"),
        (Level::Uncertain, "write-buffer-overflowed"),
        (Level::Uncertain, "stale"),
        (Level::Bad, "sensor-failure"),
        (Level::Bad, "device-failure"),
        (Level::Bad, "no-value"),
        (Level::Bad, "inactive"),
        (Level::Uncertain, "limits-exceeded"),
        (Level::Bad, "not-connected"),
        (Level::Bad, "name-lookup-failed"),
        (Level::Bad, "host-unreachable"),
        (Level::Bad, "service-lookup-failed"),
        (Level::Bad, "process-missing"),
        (Level::Bad, "variable-missing"),
        (Level::Bad, "access-denied"),
        (Level::Bad, "version-mismatch"),
        (Level::Bad, "bad-url"),
        (Level::Bad, "buffer-too-small"),
    ] {
        let found = Reason::from_name(reason).unwrap_or_else(|| panic!("no reason {reason}"));
        assert_eq!(
            found.code() >= 64,
            level == Level::Bad,
            "{reason} has a code of the wrong range"
        );
        let quality = Quality::new(level, found);
        assert_eq!(quality.to_string(), format!("{level}: {reason}"));
        assert_eq!(Quality::from_bits(quality.to_bits()), quality);
    }
}

/// The part of B-40 that this crate covers: the quality names the clock and its synchronisation.
///
/// Behaviour: B-40.
#[test]
fn quality_names_the_clock_and_its_synchronisation() {
    assert_eq!(Quality::GOOD.clock(), Clock::Engine);
    assert_eq!(Quality::GOOD.clock_sync(), ClockSync::Unknown);
    for clock in [Clock::Unknown, Clock::Engine, Clock::Source] {
        for sync in [
            ClockSync::Unknown,
            ClockSync::Synchronised,
            ClockSync::Free,
            ClockSync::Unset,
        ] {
            let quality = Quality::bad(Reason::DeviceFailure)
                .with_forced(true)
                .with_clock(Clock::Source, ClockSync::Unset)
                .with_clock(clock, sync);
            assert_eq!((quality.clock(), quality.clock_sync()), (clock, sync));
            assert_eq!(quality.reason(), Reason::DeviceFailure);
            assert!(quality.is_bad() && quality.is_forced());
        }
    }
}

#[test]
fn bits_match_the_documented_layout() {
    assert_eq!(Quality::GOOD.to_bits(), 1 << 16);
    let bits = 2 | (64 << 2) | (2 << 16) | (3 << 18) | (1 << 20) | (1 << 21) | (1 << 22);
    let quality = Quality::bad(Reason::SensorFailure)
        .with_clock(Clock::Source, ClockSync::Unset)
        .with_forced(true)
        .with_simulated(true)
        .with_coerced(true);
    assert_eq!(quality.to_bits(), bits);
    assert_eq!(quality.with_forced(false).to_bits(), bits & !(1 << 20));
    assert_eq!(Quality::from_bits(3).level(), Level::Bad);
    assert_eq!(Quality::from_bits(0).clock(), Clock::Unknown);
}

#[test]
fn worst_of_two_qualities_has_its_reason_and_the_flags_of_both() {
    let forced = Quality::GOOD.with_forced(true);
    let stale = Quality::uncertain(Reason::Stale).with_clock(Clock::Source, ClockSync::Free);
    let bad = Quality::bad(Reason::NotConnected);
    assert_eq!(forced.worst(stale), stale.with_forced(true));
    assert_eq!(stale.worst(forced), stale.with_forced(true));
    assert_eq!(bad.worst(stale), bad);
    assert_eq!(stale.worst(bad), bad);
    let vague = Quality::bad(Reason::None);
    assert_eq!(vague.worst(bad), bad);
    assert_eq!(bad.worst(vague), bad);
}

proptest! {
    #[test]
    fn any_bits_are_a_quality_and_round_trip(bits in any::<u32>(), other in any::<u32>()) {
        let quality = Quality::from_bits(bits);
        prop_assert_eq!(quality.to_bits(), bits);
        let text = quality.to_string();
        prop_assert!(!text.is_empty());
        let debug = format!("{quality:?}");
        prop_assert!(debug.contains(&text));
        let code = quality.reason().code();
        prop_assert_eq!(u32::from(code), bits >> 2 & 0x3fff);
        let worst = quality.worst(Quality::from_bits(other));
        prop_assert!(worst.level() >= quality.level());
        prop_assert!(worst.level() >= Quality::from_bits(other).level());
    }
}

/// Every status of the source system's variables has a quality of the same name, at the same level,
/// with a sentence of the same meaning.
///
/// Behaviour: H-29.
#[test]
fn every_status_of_the_source_system_is_a_quality() {
    use Level::{Bad, Uncertain};
    let table = [
        (
            "buffer empty",
            Reason::BufferEmpty,
            Uncertain,
            "buffer-empty",
            "last value is repeated",
        ),
        (
            "write buffer full",
            Reason::WriteBufferNearlyFull,
            Uncertain,
            "write-buffer-nearly-full",
            "next write may overflow",
        ),
        (
            "write buffer overflowed",
            Reason::WriteBufferOverflowed,
            Uncertain,
            "write-buffer-overflowed",
            "oldest value was discarded",
        ),
        (
            "stale",
            Reason::Stale,
            Uncertain,
            "stale",
            "might not be the most current",
        ),
        (
            "limits exceeded",
            Reason::LimitsExceeded,
            Uncertain,
            "limits-exceeded",
            "limits",
        ),
        (
            "sensor failure",
            Reason::SensorFailure,
            Bad,
            "sensor-failure",
            "sensor",
        ),
        (
            "device failure",
            Reason::DeviceFailure,
            Bad,
            "device-failure",
            "device",
        ),
        ("no value", Reason::NoValue, Bad, "no-value", "no value yet"),
        ("inactive", Reason::Inactive, Bad, "inactive", "not scanned"),
        (
            "not connected yet",
            Reason::NotConnected,
            Bad,
            "not-connected",
            "not exist yet",
        ),
        (
            "DNS failed",
            Reason::NameLookupFailed,
            Bad,
            "name-lookup-failed",
            "resolved",
        ),
        (
            "host unreachable",
            Reason::HostUnreachable,
            Bad,
            "host-unreachable",
            "reached",
        ),
        (
            "service lookup failed",
            Reason::ServiceLookupFailed,
            Bad,
            "service-lookup-failed",
            "service was not found",
        ),
        (
            "process missing",
            Reason::ProcessMissing,
            Bad,
            "process-missing",
            "library",
        ),
        (
            "variable missing",
            Reason::VariableMissing,
            Bad,
            "variable-missing",
            "not exist",
        ),
        (
            "access denied",
            Reason::AccessDenied,
            Bad,
            "access-denied",
            "refuses access",
        ),
        (
            "subscribe failed (version)",
            Reason::VersionMismatch,
            Bad,
            "version-mismatch",
            "different versions",
        ),
        (
            "bad URL",
            Reason::BadUrl,
            Bad,
            "bad-url",
            "URL is not valid",
        ),
        (
            "buffer size must be > 1",
            Reason::BufferTooSmall,
            Bad,
            "buffer-too-small",
            "greater than 1",
        ),
    ];
    for (status, reason, level, name, part) in table {
        assert_eq!(reason.name(), name, "{status}");
        assert!(
            reason.sentence().contains(part),
            "{status}: {}",
            reason.sentence()
        );
        let quality = match level {
            Uncertain => Quality::uncertain(reason),
            _ => Quality::bad(reason),
        };
        assert_eq!(
            (quality.level(), quality.reason()),
            (level, reason),
            "{status}"
        );
        assert_eq!(Quality::from_bits(quality.to_bits()), quality, "{status}");
        assert!(quality.to_string().ends_with(name), "{status}: {quality}");
    }
}
