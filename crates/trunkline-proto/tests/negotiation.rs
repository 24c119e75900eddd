//! Two ends of different releases, played out in frames: the versions are made up, the code is not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use trunkline_proto::frame::{FrameHeader, FrameWriter};
use trunkline_proto::limits::{FRAME_MAX_MAX, FRAME_MAX_MIN};
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::hello::{Hello, Welcome};
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::{
    Agreement, Disconnect, FaultCode, Features, FrameBuffer, FrameKind, FrameLimits, Negotiation,
    PROTOCOL_VERSION, VersionMismatch, VersionRange,
};
use trunkline_types::Tick;

/// The versions of a release whose newest version is `newest`.
fn release(newest: u8) -> Negotiation {
    Negotiation {
        versions: VersionRange::of_release(newest),
        ..Negotiation::OURS
    }
}

/// Passes the client's hello to the engine and the answer back, both as bytes.
fn meet(
    client: &Negotiation,
    engine: &Negotiation,
) -> (Option<Agreement>, Result<Agreement, Disconnect>) {
    let mut wire = Vec::new();
    let hello = Hello {
        versions: client.versions,
        features: client.features,
        frame_max: client.frame_max,
        message_max: client.message_max,
        ..Hello::default()
    };
    hello.encode(&mut wire);
    let hello = {
        let mut frames = FrameBuffer::new(FrameLimits::HELLO);
        let frame = frames
            .next_frame(Tick::ZERO, &mut wire.as_slice())
            .unwrap()
            .unwrap();
        Hello::decode(&frame).unwrap()
    };

    let mut wire = Vec::new();
    let agreed = match engine.accept(&hello) {
        Ok(agreement) => {
            let Agreement {
                version,
                features,
                frame_max,
                message_max,
            } = agreement;
            Welcome {
                version,
                features,
                frame_max,
                message_max,
                ..Welcome::default()
            }
            .encode(&mut wire);
            Some(agreement)
        }
        Err(mismatch) => {
            Refused::from(mismatch).encode(&mut wire);
            None
        }
    };

    let mut frames = FrameBuffer::new(FrameLimits::HELLO);
    let frame = frames
        .next_frame(Tick::ZERO, &mut wire.as_slice())
        .unwrap()
        .unwrap();
    let outcome = match frame.kind() {
        Some(FrameKind::Welcome) => {
            let welcome = Welcome::decode(&frame).unwrap();
            client
                .confirm(&welcome)
                .map_err(Disconnect::VersionMismatch)
        }
        _ => {
            let refused = Refused::decode(&frame).unwrap();
            Err(Disconnect::from_refused(&refused, client.versions))
        }
    };
    (agreed, outcome)
}

/// Behaviour: B-50.
#[test]
fn neighbouring_versions_work_together_at_the_older_ones_newest() {
    for n in 2..=u8::MAX {
        for (client, engine, version) in [(n, n, n), (n, n - 1, n - 1), (n - 1, n, n - 1)] {
            let (at_engine, at_client) = meet(&release(client), &release(engine));
            assert_eq!(at_engine, at_client.clone().ok(), "both agree on the same");
            assert_eq!(
                at_client.unwrap().version,
                version,
                "client {client}, engine {engine}"
            );
        }
    }
}

/// Behaviour: B-50.
#[test]
fn other_versions_are_refused_with_both_ranges_and_the_remedy() {
    let (at_engine, at_client) = meet(&release(2), &release(5));
    assert_eq!(at_engine, None);
    assert_eq!(
        at_client.unwrap_err().to_string(),
        "the engine speaks protocol versions 4 to 5 and the client versions 1 to 2; \
         update the client to a release that speaks version 4 or newer"
    );
    let (_, at_client) = meet(&release(9), &release(1));
    let error = at_client.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the engine speaks protocol version 1 and the client versions 8 to 9; \
         update the engine to a release that speaks version 8 or newer"
    );
    assert!(!error.may_retry(), "dialling again by itself does not help");
}

/// Behaviour: B-50.
#[test]
fn this_release_meets_its_neighbours_and_refuses_the_rest() {
    assert!(VersionRange::OURS.contains(PROTOCOL_VERSION));
    let ours = Negotiation::OURS;
    let next = PROTOCOL_VERSION + 1;
    assert_eq!(
        meet(&ours, &release(next)).1.unwrap().version,
        PROTOCOL_VERSION
    );
    assert_eq!(
        meet(&release(next), &ours).1.unwrap().version,
        PROTOCOL_VERSION
    );
    assert!(meet(&ours, &release(next + 1)).1.is_err());
    assert!(meet(&release(next + 1), &ours).1.is_err());
}

#[test]
fn empty_version_range_matches_no_version() {
    let confused = Negotiation {
        versions: VersionRange { min: 3, max: 1 },
        ..Negotiation::OURS
    };
    assert!(meet(&confused, &release(2)).1.is_err());
    let zero = Negotiation {
        versions: VersionRange { min: 0, max: 0 },
        ..Negotiation::OURS
    };
    assert!(meet(&zero, &Negotiation::OURS).1.is_err());
}

#[test]
fn a_welcome_with_a_version_that_was_not_offered_is_refused_by_the_client() {
    let welcome = Welcome {
        version: 7,
        ..Welcome::default()
    };
    let mismatch = Negotiation::OURS.confirm(&welcome).unwrap_err();
    let engine = VersionRange { min: 7, max: 7 };
    assert_eq!(
        mismatch,
        VersionMismatch {
            engine,
            client: VersionRange::OURS
        }
    );
}

#[test]
fn features_apply_only_if_both_ends_have_them() {
    let all = Negotiation {
        features: Features::from_bits(0b1011),
        ..Negotiation::OURS
    };
    let some = Negotiation {
        features: Features::from_bits(0b0110),
        ..Negotiation::OURS
    };
    let agreement = meet(&all, &some).1.unwrap();
    assert_eq!(agreement.features, Features::from_bits(0b0010));
    assert!(!agreement.features.contains(Features::PROVIDER));
}

#[test]
fn tighter_limits_are_agreed_within_bounds() {
    let tight = Negotiation {
        frame_max: 70_000,
        message_max: 90_000,
        ..Negotiation::OURS
    };
    let agreement = meet(&tight, &Negotiation::OURS).1.unwrap();
    assert_eq!(
        (agreement.frame_max, agreement.message_max),
        (70_000, 90_000)
    );
    assert_eq!(agreement.frame_limits().frame_max, 70_000);
    let absurd = Negotiation {
        frame_max: 0,
        message_max: 0,
        ..Negotiation::OURS
    };
    let agreement = meet(&absurd, &Negotiation::OURS).1.unwrap();
    assert_eq!(
        (agreement.frame_max, agreement.message_max),
        (FRAME_MAX_MIN, FRAME_MAX_MIN)
    );
    let greedy = Negotiation {
        frame_max: u32::MAX,
        message_max: u32::MAX,
        ..Negotiation::OURS
    };
    assert_eq!(meet(&greedy, &greedy).1.unwrap().frame_max, FRAME_MAX_MAX);
}

#[test]
fn refusal_for_another_reason_keeps_its_text() {
    let refused = Refused {
        code: FaultCode::Overloaded,
        versions: VersionRange::OURS,
        retry_after: Some(std::time::Duration::from_secs(2)),
        sentence: "1000 sessions are connected, which is the limit".into(),
    };
    let cause = Disconnect::from_refused(&refused, VersionRange::OURS);
    assert_eq!(
        cause.to_string(),
        "the engine refused the connection: 1000 sessions are connected, which is the limit"
    );
    assert_eq!(cause.retry_after(), refused.retry_after);
    assert!(cause.may_retry());
}

/// Behaviour: B-51.
#[test]
fn frames_of_unknown_kinds_are_skipped_and_nothing_else() {
    let mut wire = Vec::new();
    let keepalive = Keepalive {
        sent: 1,
        ..Keepalive::default()
    };
    for kind in (0..=u8::MAX).filter(|kind| FrameKind::from_number(*kind).is_none()) {
        let header = FrameHeader {
            length: 5,
            kind,
            flags: 1,
            request: 9,
            count: 3,
        };
        wire.extend_from_slice(&header.to_bytes());
        wire.extend_from_slice(b"later");
        keepalive.encode(&mut wire);
    }
    let mut frames = FrameBuffer::default();
    let mut input = wire.as_slice();
    let (mut known, mut unknown) = (0, 0);
    while let Some(frame) = frames.next_frame(Tick::ZERO, &mut input).unwrap() {
        match frame.kind() {
            Some(_) => {
                assert_eq!(Keepalive::decode(&frame).unwrap(), keepalive);
                known += 1;
            }
            None => unknown += 1,
        }
    }
    assert_eq!(known, unknown);
    assert!(known > 150, "{known} kinds are left for later");
}

/// Behaviour: B-51.
#[test]
fn unknown_fields_of_a_newer_hello_are_skipped() {
    let hello = Hello {
        client_name: "panel 3".into(),
        ..Hello::default()
    };
    let mut wire = Vec::new();
    hello.encode(&mut wire);
    let mut longer = Vec::new();
    let mut frame = FrameWriter::begin(&mut longer, FrameKind::Hello, 0);
    frame.payload().extend_from_slice(&wire[16..]);
    trunkline_proto::tlv::put_text(frame.payload(), 99, "from a newer version");
    trunkline_proto::tlv::put_number(frame.payload(), u64::MAX, 1);
    frame.finish(false);
    let mut frames = FrameBuffer::new(FrameLimits::HELLO);
    let frame = frames
        .next_frame(Tick::ZERO, &mut longer.as_slice())
        .unwrap()
        .unwrap();
    assert_eq!(Hello::decode(&frame).unwrap(), hello);
}
