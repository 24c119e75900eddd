//! Bytes from a hostile or broken peer: every decoder ends with items or an error for any input.
//! Each golden frame is cut, altered and lengthened at every byte.

use proptest::prelude::*;
use trunkline_proto::frame::{EXT, Frame, FrameHeader, HEADER_BYTES};
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::stream::seal::is_intact;
use trunkline_proto::{DecodeError, FrameKind};

use crate::reencode::reencode;
use crate::{fields, samples};

/// Decodes to the last item. What decodes must mean the same when it is written again.
fn decode(header: FrameHeader, payload: &[u8]) -> Option<Result<(), DecodeError>> {
    let frame = Frame::new(header, payload).ok()?;
    let mut once = Vec::new();
    let result = reencode(&frame, &mut once)?;
    if result.is_ok() {
        let mut rest = once.as_slice();
        if let Ok(Some(frame)) = Frame::take_from(&mut rest) {
            assert!(rest.is_empty());
            let mut twice = Vec::new();
            reencode(&frame, &mut twice).unwrap().unwrap();
            assert_eq!(once, twice);
        }
        fields::fields(&frame).unwrap();
    }
    Some(result)
}

/// The golden frames of kinds that this version knows, as header and payload.
fn golden() -> impl Iterator<Item = (String, FrameHeader, Vec<u8>)> {
    samples::all().into_iter().filter_map(|sample| {
        let header = FrameHeader::from_bytes(sample.bytes.first_chunk()?);
        let known = FrameKind::from_number(header.kind)? != FrameKind::Part;
        known.then(|| (sample.name, header, sample.bytes[HEADER_BYTES..].to_vec()))
    })
}

/// Kinds whose payload continues with fields or exceptions to its end, where shorter may be legal.
fn is_open_ended(kind: u8) -> bool {
    use FrameKind::{
        AlarmJournal, Alarms, Audit, Closed, Control, EngineAnswer, Hello, Pair, Paired, Report,
        Requested, StreamArrived, StreamData, StreamEndpoints, StreamHello, StreamList,
        StreamLogin, StreamLookup, StreamRegister, StreamStatus, StreamWelcome, Subscribed,
        Welcome,
    };
    [
        Hello,
        Welcome,
        EngineAnswer,
        Subscribed,
        Closed,
        Requested,
        Report,
        Audit,
        AlarmJournal,
        Alarms,
        Control,
        Pair,
        Paired,
        StreamLogin,
        StreamLookup,
        StreamRegister,
        StreamArrived,
        StreamList,
        StreamEndpoints,
        StreamStatus,
        StreamHello,
        StreamWelcome,
        StreamData,
    ]
    .iter()
    .any(|open| open.number() == kind)
}

#[test]
fn a_frame_cut_at_any_byte_is_an_error() {
    for (name, header, payload) in golden() {
        for end in 0..payload.len() {
            let length = end as u32;
            let result = decode(FrameHeader { length, ..header }, &payload[..end]);
            let must_fail = header.flags & EXT == 0 && !is_open_ended(header.kind);
            assert!(
                !must_fail || matches!(result, Some(Err(_))),
                "{name} cut at {end}"
            );
        }
    }
}

#[test]
fn a_frame_altered_at_any_byte_decodes_or_fails_but_never_panics() {
    for (_, header, payload) in golden() {
        let mut altered = payload.clone();
        for at in 0..payload.len() {
            for byte in [
                0,
                1,
                2,
                0x7f,
                0x80,
                0xff,
                payload[at] ^ 1,
                payload[at] ^ 0x80,
            ] {
                altered[at] = byte;
                decode(header, &altered);
            }
            altered[at] = payload[at];
        }
    }
}

#[test]
fn impossible_item_count_is_an_error_at_once() {
    for (name, header, payload) in golden().filter(|(_, header, _)| header.count > 0) {
        // In those between two endpoints of a stream it is a checksum.
        if is_open_ended(header.kind) || is_intact(&header) {
            continue;
        }
        for count in [header.count + 1, 1 << 20, u32::MAX] {
            let result = decode(FrameHeader { count, ..header }, &payload);
            assert!(matches!(result, Some(Err(_))), "{name} with {count} items");
        }
        let result = decode(
            FrameHeader {
                count: header.count - 1,
                ..header
            },
            &payload,
        );
        assert!(matches!(result, Some(Err(_))), "{name} with an item less");
    }
}

#[test]
fn bytes_after_the_last_item_are_an_error() {
    for (name, header, payload) in golden().filter(|(_, header, _)| header.flags & EXT == 0) {
        if is_open_ended(header.kind) {
            continue;
        }
        let longer: Vec<u8> = payload.iter().copied().chain([0]).collect();
        let result = decode(header, &longer);
        assert!(matches!(result, Some(Err(_))), "{name} with a byte more");
    }
}

#[test]
fn missing_extension_block_is_an_error() {
    let header = FrameHeader {
        kind: FrameKind::Ack.number(),
        flags: EXT,
        ..FrameHeader::default()
    };
    for payload in [
        &[][..],
        &[0, 0, 0],
        &[1, 0, 0, 0],
        &[9, 9, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert!(Frame::new(header, payload).is_err(), "{payload:?}");
    }
    assert!(Frame::new(header, &[0, 0, 0, 0]).is_ok());
}

#[test]
fn error_names_the_frame_and_the_position() {
    let header = FrameHeader {
        kind: FrameKind::Hello.number(),
        ..FrameHeader::default()
    };
    let frame = Frame::new(header, b"TRNK").unwrap();
    let error = Hello::decode(&frame).unwrap_err().to_string();
    assert_eq!(
        error,
        "HELLO frame, at byte 4: 1 more bytes are needed, but only 0 remain"
    );
    let frame = Frame::new(header, b"HTTP/1.1").unwrap();
    let error = Hello::decode(&frame).unwrap_err().to_string();
    assert!(error.contains("expected the letters TRNK"), "{error}");
}

#[test]
fn a_decoder_given_another_kind_refuses() {
    let header = FrameHeader {
        kind: FrameKind::Ack.number(),
        ..FrameHeader::default()
    };
    let frame = Frame::new(header, b"TRNK\x01\x01").unwrap();
    assert!(Hello::decode(&frame).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn random_payloads_of_every_kind_never_panic(
        kind in prop::sample::select(FrameKind::ALL),
        flags in 0..4_u8,
        count in prop_oneof![0..20_u32, any::<u32>()],
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let length = payload.len() as u32;
        let header = FrameHeader { length, kind: kind.number(), flags, request: 1, count };
        decode(header, &payload);
    }

    /// Random bytes are rarely close to legal; small numbers often are.
    #[test]
    fn payloads_of_small_numbers_never_panic(
        kind in prop::sample::select(FrameKind::ALL),
        count in 0..8_u32,
        payload in prop::collection::vec(prop_oneof![0..6_u8, any::<u8>()], 0..120),
    ) {
        let length = payload.len() as u32;
        let header = FrameHeader { length, kind: kind.number(), flags: 0, request: 1, count };
        decode(header, &payload);
    }

    #[test]
    fn golden_frames_with_several_bytes_altered_never_panic(
        index in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let all: Vec<_> = golden().collect();
        let (_, header, mut payload) = index.get(&all).clone();
        for (at, byte) in changes {
            if !payload.is_empty() {
                let at = at.index(payload.len());
                payload[at] = byte;
            }
        }
        decode(header, &payload);
    }
}
