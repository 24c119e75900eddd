//! Tests that features which both ends have not agreed on are refused, and that WELCOME reports kept
//! subscriptions.

use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::find::{Comparison, Find, FindBuilder, FindCondition};
use trunkline_proto::message::group::GroupWriteBuilder;
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::message::outcome::WriteAnswer;
use trunkline_proto::message::watch::Watch;
use trunkline_proto::message::write::{WriteAnswers, WriteBuilder, WriteOptions, WriteVerb};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, FrameKind};
use trunkline_types::Position;

use crate::rig::{Pair, Peer, World, f64_variable};

fn features_without(one: Features) -> Features {
    Features::from_bits(Features::OURS.to_bits() & !one.to_bits())
}

#[test]
fn a_frame_of_a_feature_that_was_not_agreed_on_is_refused() {
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let mut peer = Peer::silent(&world);
    peer.say(|out| {
        let features = features_without(Features::PATTERNS);
        Hello {
            features,
            ..Hello::default()
        }
        .encode(out);
        Watch {
            watch: 1,
            pattern: "rig/*",
        }
        .encode(7, out);
        // Features that every client has are served on the same connection.
        let mut read = HandlesBuilder::read(out, 8);
        read.push(&1);
        read.finish(false);
    });
    let faults = peer.frames(|frame| {
        let fault = FaultMessage::decode(frame).ok()?;
        Some((frame.request(), fault.fault.to_fault().code))
    });
    let faults: Vec<_> = faults.into_iter().flatten().collect();
    assert_eq!(faults, [(7, FaultCode::NotSupported)]);
    assert!(
        peer.kinds().contains(&FrameKind::Readings),
        "{:?}",
        peer.kinds()
    );
}

/// Extensions of a frame must be agreed on too: the extension of a write needs REGISTERS, and a condition in
/// FIND needs CONDITIONS.
#[test]
fn parts_of_a_frame_that_were_not_agreed_on_are_refused() {
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let x = world.engine().libraries().all()[0].handles[0];
    let value = 1.0_f64.to_le_bytes();
    let forced = WriteOptions {
        verb: Ok(WriteVerb::Force),
        ..WriteOptions::default()
    };
    let expected = WriteOptions {
        expected: Some(Position {
            epoch: 1,
            sequence: 1,
        }),
        ..WriteOptions::default()
    };
    let mut peer = Peer::silent(&world);
    peer.say(|out| {
        let left_out = Features::REGISTERS | Features::CONDITIONS;
        Hello {
            features: features_without(left_out),
            ..Hello::default()
        }
        .encode(out);
        let mut writes = WriteBuilder::begin(out, 1);
        for options in [forced, WriteOptions::default(), expected] {
            writes.push(x, &options, &value);
        }
        writes.finish();
        let mut group = GroupWriteBuilder::begin(out, 5, false);
        group.push(x, &expected, &value);
        group.finish();
        let condition = FindCondition {
            field: "units",
            comparison: Comparison::Equal.number(),
            value: "%",
        };
        for (request, conditions) in [(6, &[condition][..]), (7, &[])] {
            let find = Find {
                cursor: 0,
                limit: 0,
                pattern: "rig/*",
            };
            let mut find = FindBuilder::begin(out, request, &find);
            conditions.iter().for_each(|condition| find.push(condition));
            find.finish(false);
        }
    });
    let answers = peer.frames(|frame| {
        let answers = WriteAnswers::decode(frame).ok()?;
        let code = |outcome: WriteAnswer<'_>| match outcome {
            WriteAnswer::Refused(fault) => Some(fault.code),
            _ => None,
        };
        Some(
            answers
                .map(|answer| code(answer.unwrap()))
                .collect::<Vec<_>>(),
        )
    });
    let answers: Vec<_> = answers.into_iter().flatten().flatten().collect();
    let refused = Some(FaultCode::NotSupported);
    assert_eq!(answers, [refused, None, refused]);
    let faults = peer.frames(|frame| {
        let fault = FaultMessage::decode(frame).ok()?;
        Some((frame.request(), fault.fault.to_fault().code))
    });
    let faults: Vec<_> = faults.into_iter().flatten().collect();
    assert_eq!(
        faults,
        [(5, FaultCode::NotSupported), (6, FaultCode::NotSupported)]
    );
    assert!(
        peer.kinds().contains(&FrameKind::Names),
        "{:?}",
        peer.kinds()
    );
    assert_eq!(world.sequence("rig/x"), 1, "the plain write alone");
}

/// A client that sends a frame which only engines may send, such as FAULT, violates the protocol.
#[test]
fn a_frame_of_the_other_side_ends_the_connection() {
    let world = World::with_library("rig", vec![f64_variable("x")]);
    let mut peer = Peer::greeted(&world);
    peer.say(|out| {
        let fault = Fault::from(FaultCode::BadRequest);
        let fault = fault.as_ref();
        FaultMessage { fault }.encode(1, out);
    });
    let Disconnect::Malformed { sentence } = peer.cause() else {
        panic!("{:?}", peer.cause());
    };
    assert!(sentence.contains("engines send"), "{sentence}");
}

/// WELCOME reports whether the engine has kept the subscriptions of the previous session.
#[test]
fn reconnecting_client_learns_if_its_subscriptions_were_kept() {
    for (contract, expected) in [("all", true), ("latest", false)] {
        let mut pair = Pair::of(&["x"]);
        pair.subscribe(&["rig/x"], contract);
        pair.cut();
        let (sender, told) = std::sync::mpsc::channel();
        pair.between = Some(Box::new(move |frame, _| {
            if let Ok(welcome) = Welcome::decode(frame) {
                let _ = sender.send(welcome.resumed);
            }
            None
        }));
        pair.connect();
        let resumed: Vec<_> = told.try_iter().collect();
        assert_eq!(resumed, [expected], "{contract}");
    }
}
