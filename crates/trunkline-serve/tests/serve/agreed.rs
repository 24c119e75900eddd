//! What was not agreed on is not served, and what was kept is said.

use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::message::watch::Watch;
use trunkline_proto::{FaultCode, Features, FrameKind};

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
        // What every client has is served, on the same connection.
        let mut read = HandlesBuilder::read(out, 8);
        read.push(1);
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

/// WELCOME says whether the engine has kept what the session before left.
#[test]
fn a_client_that_comes_back_is_told_whether_its_subscriptions_were_kept() {
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
