//! Hello, closing, keep-alive, and what a newer peer may send.

use std::time::Duration;

use trunkline_proto::frame::{EXT, FrameHeader, FrameWriter};
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::hello::{Hello, MAGIC, Resume, Welcome};
use trunkline_proto::message::keepalive::{AckBuilder, AckHead, Grant, Keepalive};
use trunkline_proto::message::login::{KeyProof, Password, TokenSecret};
use trunkline_proto::message::pair::{Pair, Paired};
use trunkline_proto::tlv::{put_number, put_text};
use trunkline_proto::{
    FaultCode, FaultRef, Features, FrameKind, ThroughputMode, VersionMismatch, VersionRange,
};
use trunkline_types::Timestamp;

use super::{Sample, add};

pub(super) fn add_all(samples: &mut Vec<Sample>) {
    hellos(samples);
    closings(samples);
    signs_of_life(samples);
    from_a_newer_version(samples);
}

fn hellos(samples: &mut Vec<Sample>) {
    let hello = Hello {
        client_name: "panel 3".into(),
        program: "trunkline 0.1.0".into(),
        user: "operator".into(),
        pid: 4711,
        ..Hello::default()
    };
    add(samples, "hello", "A client's first frame", |out| {
        hello.encode(out)
    });
    add(
        samples,
        "hello-resume",
        "A client that had a session before",
        |out| {
            Hello {
                resume: Some(Resume {
                    session: 17,
                    epoch: 42,
                    engine_id: *b"0123456789abcdef",
                }),
                ..hello.clone()
            }
            .encode(out);
        },
    );
    add(
        samples,
        "hello-throughput",
        "A client that wants the engine to gather what it sends",
        |out| {
            Hello {
                throughput: Some(ThroughputMode::DEFAULT),
                ..hello.clone()
            }
            .encode(out);
        },
    );
    let key = KeyProof {
        public_key: [0x11; 32],
        signature: [0x22; 64],
    };
    add(
        samples,
        "hello-key",
        "A client that logs in with a key",
        |out| {
            Hello {
                key: Some(key),
                ..hello.clone()
            }
            .encode(out);
        },
    );
    add(
        samples,
        "hello-token",
        "A client that registers its key with a joining token",
        |out| {
            Hello {
                key: Some(key),
                token: Some(TokenSecret(*b"0123456789")),
                ..hello.clone()
            }
            .encode(out);
        },
    );
    add(
        samples,
        "hello-password",
        "A client that logs in with a password, which is not shown here",
        |out| {
            Hello {
                account: "anna".into(),
                password: Password::new("correct horse battery".into()).unwrap_or_default(),
                ..hello.clone()
            }
            .encode(out);
        },
    );
    add(
        samples,
        "welcome-account",
        "The engine accepts a client with an account",
        |out| {
            Welcome {
                account: "anna".into(),
                role: "operator".into(),
                ..Welcome::default()
            }
            .encode(out);
        },
    );
    add(samples, "pair", "Asks for a joining token", |out| {
        Pair {
            account: "press1".into(),
            role: "operator".into(),
            groups: vec!["hall 2".into()],
        }
        .encode(7, out);
    });
    add(samples, "paired", "The joining token", |out| {
        Paired {
            token: "K7QF-2M9D-4RTB-X8WN-6HJC-V3PZ-9GKS-5YAE".into(),
            valid_for: Duration::from_secs(600),
        }
        .encode(7, out);
    });
    add(samples, "welcome-throughput", "The engine does so", |out| {
        Welcome {
            features: Features::THROUGHPUT,
            throughput: Some(ThroughputMode::DEFAULT),
            ..Welcome::default()
        }
        .encode(out);
    });
    let welcome = Welcome {
        features: Features::PROVIDER,
        epoch: 42,
        engine_id: *b"0123456789abcdef",
        session: 18,
        wall: Timestamp::from_nanos(1_790_000_000_123_456_789),
        engine_name: "boiler house".into(),
        engine_version: "0.1.0".into(),
        ..Welcome::default()
    };
    add(samples, "welcome", "The engine's consent", |out| {
        welcome.encode(out)
    });
    add(
        samples,
        "welcome-resumed",
        "The named session goes on",
        |out| {
            Welcome {
                session: 17,
                resumed: true,
                ..welcome
            }
            .encode(out);
        },
    );
}

fn closings(samples: &mut Vec<Sample>) {
    let mismatch = VersionMismatch {
        engine: VersionRange { min: 4, max: 5 },
        client: VersionRange { min: 1, max: 2 },
    };
    add(samples, "refused-version", "No version is common", |out| {
        Refused::from(mismatch).encode(out);
    });
    add(
        samples,
        "refused-overloaded",
        "No room now; come back in 1.5 s",
        |out| {
            let refused = Refused {
                code: FaultCode::Overloaded,
                versions: VersionRange::OURS,
                retry_after: Some(Duration::from_millis(1500)),
                sentence: "1000 sessions are connected, which is the limit".into(),
            };
            refused.encode(out);
        },
    );
    add(samples, "goodbye", "The engine is being stopped", |out| {
        let goodbye = Goodbye {
            code: FaultCode::ShuttingDown,
            retry_after: None,
            sentence: "the engine is being stopped by its operator".into(),
        };
        goodbye.encode(out);
    });
    add(samples, "fault", "A whole request is refused", |out| {
        let fault = FaultRef {
            code: FaultCode::BadPattern,
            sentence: "more than 16 wildcards",
        };
        FaultMessage { fault }.encode(9, out);
    });
}

fn signs_of_life(samples: &mut Vec<Sample>) {
    add(
        samples,
        "keepalive",
        "With echo, receipt and digest",
        |out| {
            let keepalive = Keepalive {
                sent: 5_000_000_000,
                echo: 4_990_000_000,
                echo_held_ns: 2_500_000,
                records_received: 123_456,
                digest: 0x0123_4567_89ab_cdef,
            };
            keepalive.encode(out);
        },
    );
    add(samples, "ack", "Receipt only", |out| {
        ack(out, 1000).finish(false)
    });
    add(
        samples,
        "ack-grants",
        "Receipt, and credit for two `all` subscriptions",
        |out| {
            let mut ack = ack(out, 1_000_000);
            ack.push(&Grant {
                subscription: 1,
                more: 500,
            });
            ack.push(&Grant {
                subscription: 200,
                more: 65_536,
            });
            ack.finish(false);
        },
    );
    add(samples, "part", "A part of the next message", |out| {
        let mut part = FrameWriter::begin(out, FrameKind::Part, 20);
        part.payload().extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        part.finish(false);
    });
}

fn from_a_newer_version(samples: &mut Vec<Sample>) {
    add(
        samples,
        "hello-unknown-fields",
        "Fields 60 and 200 are to be skipped",
        |out| {
            let mut frame = FrameWriter::begin(out, FrameKind::Hello, 0);
            let payload = frame.payload();
            payload.extend_from_slice(&MAGIC);
            payload.extend_from_slice(&[1, 2]);
            put_text(payload, 60, "from a newer version");
            put_text(payload, 2, "panel 3");
            put_number(payload, 200, 7);
            frame.finish(false);
        },
    );
    add(
        samples,
        "ack-extension",
        "With an extension block of one unknown field",
        |out| {
            let mut frame = FrameWriter::begin(out, FrameKind::Ack, 0);
            frame.payload().extend_from_slice(&77_u64.to_le_bytes());
            let mut fields = Vec::new();
            put_text(&mut fields, 1000, "unknown");
            frame.finish_with_extension(false, &fields);
        },
    );
    add(
        samples,
        "unknown-kind",
        "A kind of a newer version, to be skipped",
        |out| {
            let header = FrameHeader {
                length: 7,
                kind: 250,
                flags: EXT,
                request: 3,
                count: 1,
            };
            out.extend_from_slice(&header.to_bytes());
            out.extend_from_slice(&[9, 9, 9, 0, 0, 0, 0]);
        },
    );
}

fn ack(out: &mut Vec<u8>, records_received: u64) -> AckBuilder<'_> {
    AckBuilder::begin(out, 0, &AckHead { records_received })
}
