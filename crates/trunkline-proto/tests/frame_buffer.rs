//! Bytes to frames: any split of the input, limits, parts, slow peers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::time::Duration;

use trunkline_proto::frame::{Frame, FrameHeader, FrameWriter, HEADER_BYTES, split_oversized};
use trunkline_proto::limits::{FRAME_DEADLINE, HELLO_FRAME_MAX};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::{Disconnect, FrameBuffer, FrameError, FrameKind, FrameLimits};
use trunkline_types::Tick;

const NOW: Tick = Tick::from_nanos(1_000_000_000);

fn frame(out: &mut Vec<u8>, kind: FrameKind, request: u32, payload: &[u8]) {
    let mut frame = FrameWriter::begin(out, kind, request);
    frame.payload().extend_from_slice(payload);
    frame.finish(false);
}

/// Request and payload of each frame that is found in `bytes`, fed in parts of these lengths.
fn feed(
    sut: &mut FrameBuffer,
    bytes: &[u8],
    pieces: impl IntoIterator<Item = usize>,
) -> Result<Vec<(u32, Vec<u8>)>, FrameError> {
    let mut frames = Vec::new();
    let mut rest = bytes;
    let mut pieces = pieces.into_iter();
    while !rest.is_empty() {
        let piece = pieces.next().unwrap_or(rest.len()).clamp(1, rest.len());
        let (mut input, after) = rest.split_at(piece);
        rest = after;
        while let Some(frame) = sut.next_frame(NOW, &mut input)? {
            frames.push((frame.request(), frame.payload().to_vec()));
        }
        assert!(input.is_empty(), "all input is taken");
    }
    Ok(frames)
}

fn three_frames() -> (Vec<u8>, Vec<(u32, Vec<u8>)>) {
    let payloads = [b"first".to_vec(), Vec::new(), (0..=255).collect()];
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for (request, payload) in (1..).zip(payloads) {
        frame(&mut bytes, FrameKind::Updates, request, &payload);
        expected.push((request, payload));
    }
    (bytes, expected)
}

#[test]
fn frames_are_complete_at_any_split_of_the_input() {
    let (bytes, expected) = three_frames();
    for at in 0..=bytes.len() {
        let mut sut = FrameBuffer::default();
        assert_eq!(
            feed(&mut sut, &bytes, [at]).unwrap(),
            expected,
            "split at {at}"
        );
        assert_eq!(sut.buffered_bytes(), 0);
    }
}

#[test]
fn frames_are_complete_when_bytes_trickle_in() {
    let (bytes, expected) = three_frames();
    for piece in 1..40 {
        let mut sut = FrameBuffer::default();
        assert_eq!(
            feed(&mut sut, &bytes, std::iter::repeat(piece)).unwrap(),
            expected
        );
    }
}

#[test]
fn whole_frames_are_not_copied() {
    let (bytes, _) = three_frames();
    let mut sut = FrameBuffer::default();
    let mut input = bytes.as_slice();
    let frame = sut.next_frame(NOW, &mut input).unwrap().unwrap();
    assert!(bytes.as_ptr_range().contains(&frame.payload().as_ptr()));
}

#[test]
fn a_frame_over_the_limit_is_refused_before_its_payload_is_taken() {
    let limits = FrameLimits {
        frame_max: 100,
        ..FrameLimits::default()
    };
    let header = FrameHeader {
        length: 101,
        kind: 20,
        ..FrameHeader::default()
    };
    let mut sut = FrameBuffer::new(limits);
    let error = feed(&mut sut, &header.to_bytes(), []).unwrap_err();
    assert_eq!(
        error,
        FrameError::TooLong {
            kind: 20,
            length: 101,
            max: 100
        }
    );
    let header = FrameHeader {
        length: u32::MAX,
        kind: 20,
        ..FrameHeader::default()
    };
    let mut sut = FrameBuffer::new(limits);
    assert!(feed(&mut sut, &header.to_bytes(), [7]).is_err());
    let mut exact = Vec::new();
    frame(&mut exact, FrameKind::Updates, 1, &[0; 100]);
    assert_eq!(
        feed(&mut FrameBuffer::new(limits), &exact, [])
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn only_short_handshake_frames_are_accepted_before_the_hello() {
    let mut hello = Vec::new();
    Hello::default().encode(&mut hello);
    let mut sut = FrameBuffer::new(FrameLimits::HELLO);
    assert_eq!(feed(&mut sut, &hello, [5]).unwrap().len(), 1);

    let mut open = Vec::new();
    frame(&mut open, FrameKind::Open, 1, b"");
    let error = feed(&mut FrameBuffer::new(FrameLimits::HELLO), &open, []).unwrap_err();
    assert!(matches!(error, FrameError::NotTrunkline { .. }));

    let length = HELLO_FRAME_MAX + 1;
    let header = FrameHeader {
        length,
        kind: FrameKind::Hello.number(),
        ..FrameHeader::default()
    };
    let error = feed(
        &mut FrameBuffer::new(FrameLimits::HELLO),
        &header.to_bytes(),
        [],
    )
    .unwrap_err();
    assert!(matches!(error, FrameError::TooLong { .. }));
}

#[test]
fn foreign_protocol_is_recognised() {
    let mut sut = FrameBuffer::new(FrameLimits::HELLO);
    let error = feed(&mut sut, b"GET / HTTP/1.1\r\nHost: rig7\r\n\r\n", []).unwrap_err();
    let sentence = Disconnect::from(error).to_string();
    assert!(
        sentence.contains("does not speak Trunkline's protocol"),
        "{sentence}"
    );
    assert!(sentence.contains(r#""GET / HTTP/1.1\r\n""#), "{sentence}");
    assert!(
        sentence.contains("check the host and the port"),
        "{sentence}"
    );
}

#[test]
fn limits_may_change_between_two_frames_of_one_input() {
    let mut bytes = Vec::new();
    Hello::default().encode(&mut bytes);
    frame(&mut bytes, FrameKind::Updates, 7, &[1; 10_000]);
    let mut sut = FrameBuffer::new(FrameLimits::HELLO);
    let mut input = bytes.as_slice();
    assert_eq!(
        sut.next_frame(NOW, &mut input).unwrap().unwrap().kind(),
        Some(FrameKind::Hello)
    );
    sut.set_limits(FrameLimits::default());
    assert_eq!(
        sut.next_frame(NOW, &mut input).unwrap().unwrap().payload(),
        [1; 10_000]
    );
    assert!(sut.next_frame(NOW, &mut input).unwrap().is_none());
}

#[test]
fn incomplete_frame_times_out() {
    let (bytes, _) = three_frames();
    let mut sut = FrameBuffer::default();
    assert_eq!(sut.frame_started_at(), None);
    let mut input = &bytes[..3];
    assert!(sut.next_frame(NOW, &mut input).unwrap().is_none());
    assert_eq!(sut.frame_started_at(), Some(NOW));
    let due = sut.poll_timeout().unwrap();
    assert_eq!(due, NOW.saturating_add(FRAME_DEADLINE));

    // One byte more, later, does not move the deadline.
    let later = NOW.saturating_add(Duration::from_secs(4));
    let mut input = &bytes[3..4];
    assert!(sut.next_frame(later, &mut input).unwrap().is_none());
    assert_eq!(sut.poll_timeout(), Some(due));
    assert_eq!(sut.handle_timeout(later), Ok(()));
    let error = sut.handle_timeout(due).unwrap_err();
    let sentence = Disconnect::from(error).to_string();
    assert!(
        sentence.contains("did not send a complete frame within 5.0 s"),
        "{sentence}"
    );
}

#[test]
fn deadline_ends_with_the_frame_and_restarts_with_the_next() {
    let (bytes, expected) = three_frames();
    let first = HEADER_BYTES + expected[0].1.len();
    let mut sut = FrameBuffer::default();
    feed(&mut sut, &bytes[..first], [2]).unwrap();
    assert_eq!(sut.frame_started_at(), None);
    assert_eq!(sut.poll_timeout(), None);
    let later = NOW.saturating_add(Duration::from_secs(60));
    let mut input = &bytes[first..first + 1];
    sut.next_frame(later, &mut input).unwrap();
    assert_eq!(sut.frame_started_at(), Some(later));
}

/// Behaviour: B-83.
#[test]
fn message_in_parts_has_a_deadline_per_frame() {
    let limits = FrameLimits {
        frame_max: 100,
        message_max: 4000,
        ..FrameLimits::default()
    };
    let part = |sut: &mut FrameBuffer, millis: u64, length: usize| {
        let mut bytes = Vec::new();
        frame(&mut bytes, FrameKind::Part, 2, &vec![7; length]);
        let now = NOW.saturating_add(Duration::from_millis(millis));
        assert!(
            sut.next_frame(now, &mut bytes.as_slice())
                .unwrap()
                .is_none()
        );
        sut.handle_timeout(now)
    };
    // Whole parts, each as late as may be, take as long as they take.
    let mut sut = FrameBuffer::new(limits);
    for n in 0..30 {
        assert_eq!(part(&mut sut, n * 4_900, 100), Ok(()));
    }
    let mut last = Vec::new();
    frame(&mut last, FrameKind::Updates, 2, b"the rest");
    let mut input = last.as_slice();
    let whole = sut.next_frame(NOW, &mut input).unwrap().unwrap();
    assert_eq!(whole.payload().len(), 3008);
    assert_eq!(sut.poll_timeout(), None);
    // Small ones, of nothing even, have that time together.
    for length in [0, 1, 9] {
        let mut sut = FrameBuffer::new(limits);
        for n in 0..10 {
            assert_eq!(part(&mut sut, n * 499, length), Ok(()), "{length}, {n}");
        }
        assert!(part(&mut sut, 5_000, length).is_err(), "{length}");
    }
}

#[test]
fn memory_follows_the_received_bytes_not_the_announced_length() {
    let header = FrameHeader {
        length: 1 << 20,
        kind: 20,
        ..FrameHeader::default()
    };
    let mut sut = FrameBuffer::default();
    feed(&mut sut, &header.to_bytes(), []).unwrap();
    assert_eq!(sut.buffered_bytes(), HEADER_BYTES);
    feed(&mut sut, &[0; 1000], [1, 10, 100]).unwrap();
    assert_eq!(sut.buffered_bytes(), HEADER_BYTES + 1000);
}

#[test]
fn a_message_longer_than_a_frame_arrives_in_parts() {
    let payload: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
    let limits = FrameLimits {
        frame_max: 300,
        message_max: 4000,
        ..FrameLimits::default()
    };
    let mut bytes = b"kept".to_vec();
    frame(&mut bytes, FrameKind::Open, 1, b"short");
    frame(&mut bytes, FrameKind::Updates, 2, &payload);
    frame(&mut bytes, FrameKind::Open, 3, b"after");
    split_oversized(&mut bytes, 4, 300);
    let expected = vec![
        (1, b"short".to_vec()),
        (2, payload.clone()),
        (3, b"after".to_vec()),
    ];
    assert_eq!(&bytes[..4], b"kept");
    for at in (1..bytes.len()).step_by(7) {
        let mut sut = FrameBuffer::new(limits);
        assert_eq!(
            feed(&mut sut, &bytes[4..], [at]).unwrap(),
            expected,
            "split at {at}"
        );
        assert_eq!(sut.buffered_bytes(), 0);
    }
    let mut tight = FrameBuffer::new(FrameLimits {
        message_max: 3999,
        ..limits
    });
    let error = feed(&mut tight, &bytes[4..], []).unwrap_err();
    assert_eq!(error, FrameError::MessageTooLong { max: 3999 });
}

#[test]
fn splitting_leaves_frames_alone_that_fit() {
    let (mut bytes, _) = three_frames();
    let before = bytes.clone();
    split_oversized(&mut bytes, 0, 256);
    assert_eq!(bytes, before);
    split_oversized(&mut bytes, 0, 255);
    assert_ne!(bytes, before);
}

#[test]
fn a_split_frame_keeps_its_extension() {
    let mut bytes = Vec::new();
    let mut writer = FrameWriter::begin(&mut bytes, FrameKind::Updates, 9);
    writer.payload().extend_from_slice(&[5; 50]);
    writer.finish_with_extension(true, b"\x01\x02xy");
    split_oversized(&mut bytes, 0, 52);
    let mut sut = FrameBuffer::default();
    let mut input = bytes.as_slice();
    let frame: Frame<'_> = sut.next_frame(NOW, &mut input).unwrap().unwrap();
    assert_eq!(frame.payload(), [5; 50]);
    assert_eq!(frame.extension(), b"\x01\x02xy");
    assert!(frame.has_more());
}

#[test]
fn a_buffer_is_as_new_after_reset() {
    let (bytes, expected) = three_frames();
    let mut sut = FrameBuffer::default();
    feed(&mut sut, &bytes[..9], []).unwrap();
    sut.reset(FrameLimits::default());
    assert_eq!(sut.frame_started_at(), None);
    assert_eq!(feed(&mut sut, &bytes, []).unwrap(), expected);
}
