//! When the ends send, and when they detect a silent peer.

use std::time::Duration;

use trunkline_proto::stream::{REDIAL_MAX, StreamFault, Until};
use trunkline_types::Tick;

use crate::rig::{End, SIZE, World, ms, options, varying};

/// The time at which the writer learned of the data sent at `position`, within `limit`.
fn acknowledged_after(sut: &mut World, position: u64, limit: Duration) -> Option<Duration> {
    let from = sut.now;
    while sut.now.since(from) <= limit {
        if sut.writer.link.position(Until::Available) >= position {
            return Some(sut.now.since(from));
        }
        sut.run(Duration::from_micros(50));
    }
    None
}

#[test]
fn a_quarter_of_the_smaller_buffer_is_acknowledged_at_once() {
    let mut sut = World::connected(100, 40, true);
    assert!(sut.write(10));
    let after = acknowledged_after(&mut sut, 10 * SIZE, ms(5)).unwrap();
    assert!(after < Duration::from_micros(400), "{after:?}");
}

#[test]
fn less_is_acknowledged_within_a_millisecond() {
    let mut sut = World::connected(100, 40, true);
    assert!(sut.write(1));
    let after = acknowledged_after(&mut sut, SIZE, ms(5)).unwrap();
    assert!(
        after >= ms(1) && after < Duration::from_micros(1400),
        "{after:?}"
    );
    // And once for everything that arrives in between.
    assert!(sut.write(1));
    sut.run(Duration::from_micros(500));
    assert!(sut.write(1));
    let before = sut.writer.link.position(Until::Available);
    sut.run(Duration::from_micros(850));
    assert_eq!(sut.writer.link.position(Until::Available), before);
    sut.run(Duration::from_micros(500));
    assert_eq!(
        sut.writer.link.position(Until::Available),
        before + 2 * SIZE
    );
}

/// Each acknowledgement wakes the writer's program.
#[test]
fn elements_that_keep_coming_are_acknowledged_every_twenty_milliseconds() {
    let mut sut = World::connected(1000, 1000, true);
    let mut told = Vec::new();
    for _ in 0..100 {
        assert!(sut.write(1));
        sut.run(Duration::from_micros(500));
        let acknowledged = sut.writer.link.position(Until::Available);
        if told.last().is_none_or(|(_, last)| *last != acknowledged) {
            told.push((sut.now, acknowledged));
        }
    }
    let gaps: Vec<_> = told
        .windows(2)
        .map(|two| two[1].0.since(two[0].0))
        .collect();
    assert_eq!(gaps.len(), 2, "{gaps:?}");
    for gap in gaps {
        assert!(gap >= ms(19) && gap <= ms(22), "{gap:?}");
    }
}

#[test]
fn flush_request_is_acknowledged_at_once() {
    let mut sut = World::connected(100, 40, true);
    assert!(sut.write(1));
    sut.writer.link.flush(Until::Available);
    let after = acknowledged_after(&mut sut, SIZE, ms(5)).unwrap();
    assert!(after < Duration::from_micros(400), "{after:?}");
}

#[test]
fn a_writer_that_is_short_of_room_is_answered_at_once() {
    let mut sut = World::connected(10, 400, true);
    assert!(sut.write(1));
    assert!(!sut.write(10), "9 are free");
    let after = acknowledged_after(&mut sut, SIZE, ms(5)).unwrap();
    assert!(after < Duration::from_micros(400), "{after:?}");
    // Also when everything was sent before it was short.
    assert!(sut.write(1));
    sut.pump();
    assert!(!sut.write(10));
    let after = acknowledged_after(&mut sut, 2 * SIZE, ms(5)).unwrap();
    assert!(after < Duration::from_micros(400), "{after:?}");
}

#[test]
fn credit_is_given_in_steps_and_not_for_each_element() {
    let mut sut = World::connected(2000, 400, true);
    assert!(sut.write(2000));
    sut.run(ms(10));
    let frames = sut.net.frames_to(true);
    let (mut count, mut read) = (0, 0);
    while read < 1000 {
        assert!(sut.read(1));
        read += 1;
        // 5 us an element: a thousand in 5 ms.
        sut.run(Duration::from_micros(5));
        count = sut.net.frames_to(true) - frames;
    }
    assert!((9..40).contains(&count), "{count} frames for 1000 elements");
}

#[test]
fn a_reader_that_waits_for_the_rest_of_an_element_gives_credit_at_once() {
    let (w, r) = options(1, 1, true);
    let mut sut = World::with(varying(w, 8, 1000), varying(r, 8, 100));
    sut.run(ms(10));
    // 10 bytes, and 90 of 94: less than a quarter is to be had for the last 4.
    assert!(sut.writer.write_varying(6) && sut.writer.write_varying(90));
    sut.run(ms(10));
    assert_eq!((sut.reader.link.arrived(), sut.reader.fill()), (100, 1));
    assert!(sut.reader.read_varying());
    sut.run(Duration::from_micros(300));
    assert_eq!(sut.reader.fill(), 1);
}

/// Behaviour: NS-52, NS-53, NS-69.
#[test]
fn a_dead_peer_is_noticed_by_both_ends_within_three_and_a_half_seconds() {
    for writer_dials in [true, false] {
        for held in 0..10 {
            let mut sut = World::connected(10, 10, writer_dials);
            sut.run(ms(held * 173));
            sut.net.freeze();
            sut.net.can_dial = false;
            sut.run(ms(1900));
            assert!(sut.writer.link.is_connected() && sut.reader.link.is_connected());
            sut.run(ms(1600));
            assert!(!sut.writer.link.is_connected() && !sut.reader.link.is_connected());
            assert_eq!(sut.writer.link.disconnections(), 1);
            assert_eq!(sut.reader.link.disconnections(), 1);
            assert!(sut.writer.link.away_since().is_some());
            // Neither is an error, forever.
            sut.run(ms(3_600_000));
            assert_eq!(
                (sut.writer.link.fault(), sut.reader.link.fault()),
                (None, None)
            );
            sut.heal();
            sut.run(ms(2000));
            assert!(sut.writer.link.is_connected() && sut.reader.link.is_connected());
        }
    }
}

#[test]
fn a_quiet_connection_stays_up() {
    let mut sut = World::connected(10, 10, true);
    sut.run(ms(600_000));
    assert_eq!(sut.writer.link.disconnections(), 0);
    assert!(sut.writer.link.is_connected() && sut.reader.link.is_connected());
}

#[test]
fn absence_beyond_the_limit_ends_the_stream_with_an_error() {
    let (mut w, r) = options(10, 10, true);
    w.gone_after = Some(Duration::from_secs(60));
    let mut sut = World::with(w, r);
    sut.run(ms(10));
    assert!(sut.write(3));
    sut.cut();
    sut.run(ms(59_000));
    assert_eq!(sut.writer.link.fault(), None);
    sut.run(ms(2000));
    let fault = sut.writer.link.fault();
    let bytes = 3 * SIZE;
    let away_for = Duration::from_secs(60);
    assert_eq!(fault, Some(&StreamFault::PeerGone { away_for, bytes }));
    assert_eq!(sut.writer.link.poll_dial(), None);
}

#[test]
fn unanswered_hello_times_out_after_five_seconds() {
    let mut sut = World::new(10, 10, true);
    sut.pump();
    sut.net.freeze();
    sut.net.can_dial = false;
    sut.run(ms(4900));
    assert!(sut.writer.connection().is_some());
    sut.run(ms(200));
    assert_eq!(sut.writer.connection(), None);
    assert!(sut.writer.poll_dial().is_some_and(|at| at > Tick::ZERO));
}

/// Behaviour: NS-67, NS-70.
#[test]
fn an_outage_of_ten_seconds_at_100_kb_a_second_is_held_by_a_megabyte() {
    let capacity = 1_000_000 / SIZE;
    for writer_dials in [true, false] {
        let mut sut = World::connected(capacity, capacity, writer_dials);
        // 100 kB/s in parts of 10 ms, for 20 s; cut from 5 s to 15 s. The first dial after that may
        // be up to 0.4 s later, and a write may wait no longer than that.
        let mut waited = 0;
        for step in 0..2000 {
            match step {
                500 => sut.cut_and_refuse(),
                1500 => sut.heal(),
                _ => {}
            }
            while !sut.write(125) {
                waited += 1;
                assert!(
                    step >= 1499 && waited < REDIAL_MAX.as_millis(),
                    "{waited} ms at step {step}"
                );
                sut.run(ms(1));
            }
            let fill = sut.reader.fill();
            assert!(sut.read(fill));
            sut.run(ms(10));
            assert_eq!(
                (sut.writer.link.fault(), sut.reader.link.fault()),
                (None, None)
            );
        }
        sut.run(ms(5000));
        let fill = sut.reader.fill();
        assert!(sut.read(fill));
        assert_eq!(sut.reader.next, 2000 * 125);
        assert_eq!(sut.writer.link.disconnections(), 1);
    }
}

/// A buffer with room for the outage and for the longest delay before a dial is enough, regardless
/// of the random part of that delay.
///
/// Behaviour: NS-67, NS-70.
#[test]
fn buffer_for_outage_and_longest_redial_never_blocks_a_write() {
    const PIECE: u64 = 125;
    let (outage, step) = (ms(10_000), ms(10));
    let pieces = (outage + REDIAL_MAX).as_millis() / step.as_millis();
    // One that is written at the moment of the cut, and one that is in transit then.
    let capacity = (pieces as u64 + 2) * PIECE;
    let mut longest = Duration::ZERO;
    for (seed, writer_dials) in (0..10).flat_map(|seed| [(seed, true), (seed, false)]) {
        let (mut w, mut r) = options(capacity, capacity, writer_dials);
        (w.seed, r.seed) = (seed, seed);
        let mut sut = World::with(w, r);
        sut.run(ms(100));
        sut.cut_and_refuse();
        for _ in 0..outage.as_millis() / step.as_millis() {
            assert!(sut.write(PIECE));
            sut.run(step);
        }
        sut.heal();
        let healed = sut.now;
        while !sut.writer.link.is_connected() {
            assert!(
                sut.write(PIECE),
                "seed {seed}, writer dials: {writer_dials}"
            );
            sut.run(step);
        }
        longest = longest.max(sut.now.since(healed));
        assert!(sut.write(PIECE));
    }
    assert!(
        longest > REDIAL_MAX / 2,
        "{longest:?}: it did not come to the longest"
    );
}

#[test]
fn flush_request_is_repeated_after_a_cut() {
    for writer_dials in [true, false] {
        let mut sut = World::connected(100, 40, writer_dials);
        assert!(sut.write(3));
        sut.run(ms(10));
        let read = sut.writer.link.flush(Until::Read);
        sut.run(ms(10));
        sut.cut();
        sut.heal();
        sut.run(ms(5000));
        assert!(sut.read(3));
        sut.run(Duration::from_micros(300));
        assert!(sut.writer.link.is_reached(Until::Read, read));
    }
}
