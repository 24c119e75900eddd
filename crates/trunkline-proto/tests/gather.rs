//! The buffer of throughput mode; the test supplies the time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::time::Duration;

use proptest::prelude::*;
use trunkline_proto::gather::{THROUGHPUT_BYTES_MAX, THROUGHPUT_DELAY_MAX};
use trunkline_proto::{Gather, ThroughputMode};
use trunkline_types::Tick;

fn at(micros: u64) -> Tick {
    Tick::ZERO.saturating_add(Duration::from_micros(micros))
}

/// The number of bytes that a buffer sends when these bytes are offered at that time.
fn offer(sut: &mut Gather, micros: u64, bytes: usize) -> usize {
    let (mut out, mut left) = (Vec::new(), bytes);
    sut.poll_output(at(micros), usize::MAX, &mut out, |room, out| {
        let taken = left.min(room);
        out.resize(out.len() + taken, 0);
        left -= taken;
        left > 0
    });
    assert_eq!(left, 0, "everything is taken out of the endpoint");
    out.len()
}

/// Behaviour: LX-02.
#[test]
fn defaults_are_8_kib_and_10_ms() {
    let mut sut = Gather::new(ThroughputMode::default());
    assert_eq!(offer(&mut sut, 0, 8191), 0);
    assert_eq!(sut.poll_timeout(), Some(at(10_000)));
    assert_eq!(offer(&mut sut, 9_999, 0), 0);
    assert_eq!(offer(&mut sut, 10_000, 0), 8191);
    assert_eq!(sut.poll_timeout(), None);
    assert_eq!(offer(&mut sut, 10_001, 8192), 8192);
}

/// Behaviour: LX-03.
#[test]
fn a_full_buffer_is_sent_without_waiting() {
    let mut sut = Gather::new(ThroughputMode::default());
    assert_eq!(offer(&mut sut, 0, 8_000), 0);
    assert_eq!(offer(&mut sut, 1, 192), 8_192);
    assert_eq!(sut.poll_timeout(), None);
    // Of a larger amount, only the rest that does not fill a buffer waits.
    assert_eq!(offer(&mut sut, 2, 100_000), 98_304);
    assert_eq!(sut.poll_timeout(), Some(at(10_002)));
}

/// Behaviour: LX-04, LX-07.
#[test]
fn lone_byte_waits_for_the_delay_regardless_of_later_bytes() {
    let mut sut = Gather::new(ThroughputMode::default());
    assert_eq!(offer(&mut sut, 0, 1), 0);
    for micros in 1..10 {
        assert_eq!(offer(&mut sut, micros * 1_000, 1), 0);
        assert_eq!(sut.poll_timeout(), Some(at(10_000)));
    }
    assert_eq!(offer(&mut sut, 10_000, 0), 10);
}

#[test]
fn flush_sends_the_buffer_and_restarts_the_delay() {
    let mut sut = Gather::new(ThroughputMode::default());
    assert_eq!(offer(&mut sut, 0, 5), 0);
    let mut out = Vec::new();
    sut.release(&mut out);
    assert_eq!((out.len(), sut.poll_timeout()), (5, None));
    assert_eq!(offer(&mut sut, 7_000, 1), 0);
    assert_eq!(sut.poll_timeout(), Some(at(17_000)));
}

#[test]
fn out_of_bounds_numbers_are_clamped() {
    let sut = |bytes, delay| Gather::new(ThroughputMode { bytes, delay }).terms();
    let least = sut(0, Duration::ZERO);
    assert_eq!((least.bytes, least.delay), (1, Duration::from_micros(1)));
    let most = sut(u32::MAX, Duration::MAX);
    let expected = (THROUGHPUT_BYTES_MAX, THROUGHPUT_DELAY_MAX);
    assert_eq!((most.bytes, most.delay), expected);
}

#[test]
fn figures_are_written_as_bytes_and_a_time() {
    for (text, bytes, micros) in [
        ("8KiB,10ms", 8192, 10_000),
        ("8kB, 10ms", 8000, 10_000),
        ("1500,500us", 1500, 500),
        ("1B,1s", 1, 1_000_000),
        ("64KiB,1us", 65_536, 1),
    ] {
        let parsed: ThroughputMode = text.parse().expect(text);
        let expected = ThroughputMode {
            bytes,
            delay: Duration::from_micros(micros),
        };
        assert_eq!(parsed, expected, "{text}");
    }
    for text in [
        "",
        "8KiB",
        "8KiB,",
        ",10ms",
        "8MiB,10ms",
        "65KiB,10ms",
        "0,10ms",
        "8KiB,2s",
        "8KiB,0",
        "+8,10ms",
        "8KiB,10ms,1",
        "5000000KiB,1ms",
        "1,10ns",
    ] {
        assert!(text.parse::<ThroughputMode>().is_err(), "{text}");
    }
    assert_eq!(ThroughputMode::DEFAULT.to_string(), "8192,10ms");
}

#[test]
fn transport_with_little_room_gets_the_rest_later() {
    let terms = ThroughputMode {
        bytes: 10,
        ..ThroughputMode::DEFAULT
    };
    let mut sut = Gather::new(terms);
    let mut left = 100;
    let mut produce = |room: usize, out: &mut Vec<u8>| {
        let taken = room.min(left);
        out.resize(out.len() + taken, 0);
        left -= taken;
        left > 0
    };
    let mut out = Vec::new();
    assert!(sut.poll_output(at(0), 30, &mut out, &mut produce));
    assert_eq!(out.len(), 30);
    assert!(!sut.poll_output(at(0), usize::MAX, &mut out, &mut produce));
    assert_eq!(out.len(), 100);
}

proptest! {
    /// Behaviour: LX-02, LX-03, LX-04.
    #[test]
    fn nothing_is_lost_reordered_or_kept_longer_than_the_delay(
        bytes in 1u32..200, delay in 1u64..1_000,
        steps in proptest::collection::vec((0u64..400, 0usize..300), 1..60),
    ) {
        let terms = ThroughputMode { bytes, delay: Duration::from_micros(delay) };
        let mut sut = Gather::new(terms);
        let (mut now, mut next) = (0, 0u8);
        let mut expected = Vec::new();
        let mut sent = Vec::new();
        // When each byte that waits was made.
        let mut made = std::collections::VecDeque::new();
        for (step, count) in steps {
            now += step;
            let mut left = count;
            sut.poll_output(at(now), usize::MAX, &mut sent, |room, out| {
                for _ in 0..left.min(room) {
                    out.push(next);
                    expected.push(next);
                    made.push_back(now);
                    next = next.wrapping_add(1);
                }
                left -= left.min(room);
                left > 0
            });
            while made.len() > expected.len() - sent.len() {
                made.pop_front();
            }
            prop_assert!(made.len() < bytes as usize);
            prop_assert_eq!(sut.poll_timeout().is_some(), !made.is_empty());
            if let Some(first) = made.front() {
                prop_assert!(now < first + delay, "made at {}, it is {}", first, now);
            }
        }
        sut.release(&mut sent);
        prop_assert_eq!(sent, expected);
    }
}
