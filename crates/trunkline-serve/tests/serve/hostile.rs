//! Tests peers that violate the protocol. The engine ends only the connection of such a peer, and sends a
//! sentence with the reason.

use std::time::Duration;

use trunkline_proto::frame::split_oversized;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::handles::{HandlesBuilder, UnsubscribeBuilder, UnsubscribeHead};
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::message::keepalive::{AckBuilder, AckHead, Grant, Keepalive};
use trunkline_proto::message::open::{OpenBuilder, OpenTerms, Opened};
use trunkline_proto::message::provider::{ProvideBuilder, ProvideHead};
use trunkline_proto::message::updates::UpdatesBuilder;
use trunkline_proto::message::watch::Watch;
use trunkline_proto::message::write::{WriteBuilder, WriteOptions};
use trunkline_proto::{
    Disconnect, Endpoint, FaultCode, Frame, FrameHeader, FrameKind, FrameWriter,
};
use trunkline_types::{Tick, Timestamp, Value};

use crate::rig::{Heard, Pair, Peer, World, f64_variable};

fn world() -> World {
    World::with_library("rig", vec![f64_variable("x")])
}

/// Returns the sentence of the GOODBYE that a session sends in response to these frames after the handshake.
fn last_words(encode: impl FnOnce(&mut Vec<u8>)) -> String {
    let world = world();
    let mut bystander = Pair::on(&world);
    let mut peer = Peer::greeted(&world);
    peer.say(encode);
    assert!(
        matches!(peer.cause(), Disconnect::Malformed { .. }),
        "{:?}",
        peer.cause()
    );
    let Heard::Goodbye(goodbye) = peer.last() else {
        panic!("{:?}", peer.last())
    };
    assert_eq!(goodbye.code, FaultCode::Malformed);
    let blames = "this program violated the protocol: ";
    assert!(goodbye.sentence.starts_with(blames), "{}", goodbye.sentence);
    // The session accepts no more frames, and other sessions are not affected.
    peer.say(|out| Keepalive::default().encode(out));
    let x = bystander.variable("rig/x");
    assert_eq!(bystander.write([(x, 1.0)]).len(), 1);
    goodbye.sentence[blames.len()..].to_owned()
}

#[test]
fn each_offence_is_named() {
    let offences: [(&str, fn(&mut Vec<u8>)); 9] = [
        ("a second HELLO", |out| Hello::default().encode(out)),
        ("WELCOME is a frame that engines send, not clients", |out| {
            Welcome::default().encode(out)
        }),
        ("UPDATES is a frame that engines send, not clients", |out| {
            let mut updates = UpdatesBuilder::begin(out, 1);
            updates.push(&trunkline_proto::message::record::UpdateRecord::nothing_yet(1));
            updates.finish();
        }),
        (
            "the client confirmed 5 records, but only 0 were sent",
            |out| {
                AckBuilder::begin(
                    out,
                    0,
                    &AckHead {
                        records_received: 5,
                    },
                )
                .finish(false)
            },
        ),
        (
            "the client confirmed 1 records, but only 0 were sent",
            |out| {
                Keepalive {
                    records_received: 1,
                    ..Keepalive::default()
                }
                .encode(out);
            },
        ),
        (
            "4097 writes are unanswered, but the credit is 4096",
            |out| {
                writes(out, 0, 4097, 8);
            },
        ),
        (
            "the client sent write 5, but the number must be at least 10: write numbers \
             must increase",
            |out| {
                writes(out, 0, 10, 8);
                writes(out, 5, 1, 8);
            },
        ),
        (
            "a frame of kind 16 announces 4294967295 bytes, but at most 1048576 are allowed",
            |out| {
                let kind = FrameKind::Read.number();
                let header = FrameHeader {
                    length: u32::MAX,
                    kind,
                    ..FrameHeader::default()
                };
                out.extend_from_slice(&header.to_bytes());
            },
        ),
        (
            "a READ of 3000000 bytes exceeds the limit of 2097152; split long lists into several frames",
            |out| {
                let start = out.len();
                let mut read = HandlesBuilder::read(out, 1);
                (0..3_000_000).for_each(|_| read.push(&0));
                read.finish(false);
                split_oversized(out, start, 1 << 20);
            },
        ),
    ];
    for (sentence, encode) in offences {
        assert_eq!(last_words(encode), sentence);
    }
}

fn writes(out: &mut Vec<u8>, first: u64, count: u32, bytes: usize) {
    let mut frame = WriteBuilder::begin(out, first);
    for _ in 0..count {
        frame.push(1, &WriteOptions::default(), &vec![0; bytes]);
    }
    frame.finish();
}

#[test]
fn invalid_payload_is_reported_with_its_position() {
    let truncated = last_words(|out| {
        let mut frame = FrameWriter::begin(out, FrameKind::Read, 1);
        frame.count_item();
        frame.finish(false);
    });
    assert!(truncated.starts_with("READ frame, "), "{truncated}");
    let longer = last_words(|out| {
        let mut frame = FrameWriter::begin(out, FrameKind::Keepalive, 0);
        frame.payload().extend_from_slice(&[0; 41]);
        frame.finish(false);
    });
    assert!(longer.starts_with("KEEPALIVE frame, "), "{longer}");
}

#[test]
fn requests_that_never_end_are_bounded() {
    let sentence = last_words(|out| {
        for request in 0..1025 {
            let mut read = HandlesBuilder::read(out, request);
            read.push(&1);
            read.finish(true);
        }
    });
    assert_eq!(sentence, "more than 1024 requests are unfinished");
}

#[test]
fn non_protocol_peer_gets_an_explanation() {
    for first in [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\0\0\0\0\u{7f}\0\0\0aaaaaaaaaaaaaaaa",
    ] {
        let world = world();
        let mut peer = Peer::silent(&world);
        peer.send(first.as_bytes());
        assert!(
            matches!(peer.cause(), Disconnect::NotTrunkline { .. }),
            "{:?}",
            peer.cause()
        );
        let sentence = peer.last_sentence();
        assert!(
            sentence.starts_with("this port is for Trunkline clients"),
            "{sentence}"
        );
        assert!(
            sentence.contains("check the host and the port"),
            "{sentence}"
        );
    }
    let world = world();
    let mut peer = Peer::silent(&world);
    let mut hello = Vec::new();
    Hello::default().encode(&mut hello);
    hello[trunkline_proto::frame::HEADER_BYTES] = b'X';
    peer.send(&hello);
    assert!(
        matches!(peer.cause(), Disconnect::Malformed { .. }),
        "{:?}",
        peer.cause()
    );
    assert!(
        peer.last_sentence().contains("HELLO frame"),
        "{}",
        peer.last_sentence()
    );
    // A frame that is permitted later is not permitted before the HELLO.
    let mut peer = Peer::silent(&world);
    peer.say(|out| Keepalive::default().encode(out));
    assert!(
        matches!(peer.cause(), Disconnect::NotTrunkline { .. }),
        "{:?}",
        peer.cause()
    );
    let mut peer = Peer::silent(&world);
    let refused = Refused {
        code: FaultCode::Denied,
        versions: trunkline_proto::VersionRange::OURS,
        retry_after: None,
        sentence: String::new(),
    };
    peer.say(|out| refused.encode(out));
    assert!(
        peer.last_sentence().ends_with("REFUSED before HELLO"),
        "{}",
        peer.last_sentence()
    );
}

#[test]
fn invalid_names_are_each_answered() {
    let world = world();
    let mut peer = Peer::greeted(&world);
    let long = vec![b'n'; 64 << 10];
    let names: [&[u8]; 7] = [
        b"rig/x",
        &long,
        b"rig/\xff\xfe",
        b"",
        b"rig",
        b"rig/\x07",
        b"rig/x",
    ];
    peer.say(|out| open_bytes(out, 1, &names));
    let codes = peer.frames(|frame| {
        let opened = Opened::decode(frame).unwrap();
        opened
            .map(|item| item.unwrap().err().map(|f| f.to_fault()))
            .collect::<Vec<_>>()
    });
    let faults: Vec<_> = codes.concat();
    assert!(faults[0].is_none() && faults[6].is_none(), "{faults:?}");
    for fault in &faults[1..6] {
        let fault = fault.as_ref().expect("a fault");
        assert_eq!(fault.code, FaultCode::BadName, "{fault}");
        assert!(
            fault.sentence.len() < 1024,
            "{} bytes",
            fault.sentence.len()
        );
    }
    let says = |index: usize, words: &str| {
        let sentence = &faults[index].as_ref().unwrap().sentence;
        assert!(sentence.contains(words), "{sentence}");
    };
    says(1, "1024");
    says(2, "UTF-8");
}

/// Appends an OPEN frame with names that may not be valid text.
fn open_bytes(out: &mut Vec<u8>, request: u32, names: &[&[u8]]) {
    let mut frame = FrameWriter::begin(out, FrameKind::Open, request);
    frame.payload().push(0);
    for name in names {
        trunkline_types::wire::put_varint(frame.payload(), name.len() as u64);
        frame.payload().extend_from_slice(name);
        frame.count_item();
    }
    frame.finish(false);
}

#[test]
fn unknown_handles_and_subscriptions_are_answered_harmlessly() {
    let world = world();
    let mut peer = Peer::greeted(&world);
    peer.say(|out| {
        let mut read = HandlesBuilder::read(out, 1);
        [0, 1, 77, u32::MAX]
            .iter()
            .for_each(|handle| read.push(handle));
        read.finish(false);
        let of = UnsubscribeHead { subscription: 99 };
        UnsubscribeBuilder::begin(out, 2, &of).finish(false);
        let mut unsubscribe = UnsubscribeBuilder::begin(out, 3, &of);
        unsubscribe.push(&u32::MAX);
        unsubscribe.finish(false);
        let mut close = HandlesBuilder::close(out, 4);
        close.push(&u32::MAX);
        close.finish(false);
        let mut ack = AckBuilder::begin(out, 0, &AckHead::default());
        ack.push(&Grant {
            subscription: 99,
            more: u64::MAX,
        });
        ack.finish(false);
        writes(out, 0, 3, 1);
    });
    assert!(peer.session.wants_close().is_none());
    let mut kinds = peer.kinds();
    kinds.sort_by_key(|kind| kind.number());
    use FrameKind::{Closed, Readings, WriteAnswers};
    let mut expected = [Readings, Closed, Closed, Closed, WriteAnswers];
    expected.sort_by_key(|kind| kind.number());
    assert_eq!(kinds, expected);
}

#[test]
fn provider_of_single_variables_or_without_a_name_is_refused() {
    let world = world();
    let mut peer = Peer::greeted(&world);
    let head = |provider| ProvideHead {
        lease: Duration::from_secs(1),
        provider,
    };
    peer.say(|out| ProvideBuilder::begin(out, 9, &head("")).finish(false));
    let mut frame = Vec::new();
    let mut single = ProvideBuilder::begin(&mut frame, 10, &head("mine"));
    single.push(&&b"rig/b"[..]);
    single.finish(false);
    peer.say(|out| out.extend_from_slice(&frame));
    let answers = peer.frames(|frame: &Frame<'_>| {
        let message = FaultMessage::decode(frame).unwrap();
        (frame.request(), message.fault.to_fault().code)
    });
    let refused = FaultCode::NotSupported;
    assert_eq!(answers, [(9, refused), (10, refused)]);
    assert!(peer.session.wants_close().is_none());
}

#[test]
fn values_beyond_the_credit_end_the_connection() {
    let stall = |p: &mut trunkline_types::Properties| p.stall = Duration::from_secs(60);
    let variables = vec![crate::rig::define(
        "b",
        trunkline_types::DataType::Bytes,
        stall,
    )];
    let world = World::with_library("rig", variables);
    let mut holder = Pair::on(&world);
    let _slow = holder.subscribe(&["rig/b"], "all:1");
    world.write("rig/b", &Value::Bytes([1].into()));
    let handle = world
        .engine()
        .resolve(&world.caller(), "rig/b")
        .unwrap()
        .handle();
    let mut peer = Peer::greeted(&world);
    let value = |bytes: usize| {
        let mut value = Vec::new();
        trunkline_types::wire::encode_value(&Value::Bytes(vec![0; bytes].into()), &mut value);
        value
    };
    // A single write may be longer than the credit, so it waits.
    let long = value(3 << 20);
    let mut bytes = Vec::new();
    let mut frame = WriteBuilder::begin(&mut bytes, 0);
    frame.push(handle, &WriteOptions::default(), &long);
    frame.finish();
    split_oversized(&mut bytes, 0, 1 << 20);
    peer.send(&bytes);
    assert!(peer.session.wants_close().is_none(), "{:?}", peer.cause());
    peer.say(|out| {
        let mut frame = WriteBuilder::begin(out, 1);
        frame.push(handle, &WriteOptions::default(), &value(10));
        frame.finish();
    });
    assert!(
        peer.last_sentence()
            .contains("bytes, but the credit is 1048576 bytes")
    );
}

#[test]
fn an_open_without_names_is_answered() {
    let world = world();
    let mut peer = Peer::greeted(&world);
    peer.say(|out| OpenBuilder::begin(out, 5, &OpenTerms::default()).finish(false));
    let frames = peer.frames(|frame| (frame.kind(), frame.request(), frame.count()));
    assert_eq!(frames, [(Some(FrameKind::Opened), 5, 0)]);
}

/// Returns bytes that a broken or hostile program might send: frames of every kind with random payloads, cut
/// at any byte.
#[cfg(not(shuttle))]
mod anything {
    use super::*;
    use proptest::prelude::*;

    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let payload = proptest::collection::vec(any::<u8>(), 0..200);
        let request = prop_oneof![0..4_u32, any::<u32>()];
        let count = prop_oneof![0..5_u32, any::<u32>()];
        (0..60_u8, 0..4_u8, request, count, payload).prop_map(
            |(kind, flags, request, count, payload)| {
                let length = payload.len() as u32;
                let header = FrameHeader {
                    length,
                    kind,
                    flags,
                    request,
                    count,
                };
                [&header.to_bytes()[..], &payload].concat()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn arbitrary_bytes_do_not_affect_other_sessions(
            frames in proptest::collection::vec(frame(), 1..20),
            cut in 1..500_usize,
        ) {
            let world = world();
            let mut peer = Peer::greeted(&world);
            let bytes = frames.concat();
            for piece in bytes.chunks(cut) {
                peer.send(piece);
            }
            world.set("rig/x", 1.0);
            let variable = world.engine().resolve(&world.caller(), "rig/x").unwrap().clone();
            prop_assert!(variable.ledger().is_balanced());
        }
    }
}

/// Requests behind a write that waits are not carried out, but each of them uses memory.
/// Behaviour: H-19.
#[test]
fn requests_that_name_nothing_are_bounded_while_they_wait() {
    type Empty = fn(&mut Vec<u8>);
    let requests: [Empty; 3] = [
        |out| HandlesBuilder::read(out, 1).finish(false),
        |out| HandlesBuilder::info(out, 1).finish(false),
        |out| OpenBuilder::begin(out, 1, &OpenTerms::default()).finish(false),
    ];
    for request in requests {
        let mut peer = Peer::greeted(&world());
        let mut bytes = Vec::new();
        request(&mut bytes);
        let (now, wall) = (Tick::ZERO, Timestamp::UNIX_EPOCH);
        let mut taken = 0;
        while peer.session.wants_input() {
            peer.session.handle_input(now, wall, &bytes);
            assert!(peer.session.wants_close().is_none());
            taken += 1;
            assert!(taken < 1 << 18, "their number has no bound");
        }
    }
}

/// A thread serves many sessions, so the work of one turn must not grow with the number of patterns.
/// Behaviour: B-32, H-19.
#[test]
fn thousand_patterns_examine_as_many_names_per_turn_as_one() {
    let names: Vec<String> = (0..500).map(|number| format!("v{number}")).collect();
    let variables = names.iter().map(|name| f64_variable(name)).collect();
    let world = World::with_library("rig", variables);
    let mut peer = Peer::greeted(&world);
    let mut asked = Vec::new();
    for watch in 1..=1000 {
        let pattern = "rig/*";
        Watch { watch, pattern }.encode(watch, &mut asked);
    }
    let (now, wall) = world.time();
    peer.session.handle_input(now, wall, &asked);
    let (mut told, mut rounds, mut more) = (0, 0, true);
    while more {
        let mut said = Vec::new();
        more = peer.session.poll_output(now, wall, 1 << 30, &mut said);
        let (mut rest, mut names) = (said.as_slice(), 0);
        while let Ok(Some(frame)) = Frame::take_from(&mut rest) {
            names += frame.count();
        }
        assert!(names <= 50_000, "{names} names at a time");
        told += names;
        rounds += 1;
        assert!(rounds < 1_000, "it comes to an end");
    }
    assert_eq!(told, 500_000, "every pattern has every name");
}
