//! The texts of a failed connection or request: a sentence that names the party at fault and the
//! remedy.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::time::Duration;

use trunkline_proto::message::closing::Goodbye;
use trunkline_proto::{Disconnect, Fault, FaultCode, FaultRef, FrameError, FrameKind};
use trunkline_types::Reason;

#[test]
fn every_fault_has_a_distinct_number_name_and_sentence() {
    let numbers: BTreeSet<u16> = FaultCode::ALL.iter().map(|code| code.number()).collect();
    let names: BTreeSet<&str> = FaultCode::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(
        (numbers.len(), names.len()),
        (FaultCode::ALL.len(), FaultCode::ALL.len())
    );
    assert!(!numbers.contains(&0), "0 means success");
    for code in FaultCode::ALL {
        assert_eq!(FaultCode::from_number(code.number()), *code);
        let sentence = code.meaning();
        assert!(
            sentence.ends_with('.') && sentence.len() > 30,
            "{code}: {sentence}"
        );
        assert_eq!(code.to_string(), code.name());
    }
}

#[test]
fn a_fault_of_a_newer_version_is_kept() {
    let code = FaultCode::from_number(4000);
    assert_eq!((code, code.number()), (FaultCode::Unknown(4000), 4000));
    assert_eq!(code.to_string(), "fault-4000");
    assert!(code.meaning().contains("update this program"));
}

#[test]
fn a_fault_without_a_sentence_gets_the_general_one() {
    let fault = FaultRef {
        code: FaultCode::Denied,
        sentence: "",
    }
    .to_fault();
    assert_eq!(fault, Fault::from(FaultCode::Denied));
    let fault = FaultRef {
        code: FaultCode::Denied,
        sentence: "not on Sundays",
    }
    .to_fault();
    assert_eq!(fault.to_string(), "not on Sundays");
    assert_eq!(fault.as_ref().sentence, "not on Sundays");
}

#[test]
fn every_kind_has_a_distinct_number_and_name() {
    let names: BTreeSet<&str> = FrameKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), FrameKind::ALL.len());
    for kind in FrameKind::ALL {
        assert_eq!(FrameKind::from_number(kind.number()), Some(*kind));
        assert!(kind.purpose().ends_with('.'), "{kind}");
    }
}

#[test]
fn disconnect_names_the_party_at_fault_and_the_remedy() {
    let refused = Disconnect::from(Error::new(
        ErrorKind::ConnectionRefused,
        "connection refused",
    ));
    let lookup = Disconnect::NameLookup {
        host: "rig7".into(),
        text: "not known".into(),
    };
    for (cause, words) in [
        (
            &refused,
            ["no program is listening there", "start the engine"],
        ),
        (&lookup, ["\"rig7\" has no address", "check the spelling"]),
        (
            &Disconnect::PeerClosed,
            ["the peer closed", "stopped or killed"],
        ),
        (
            &Disconnect::Dead {
                silent_for: Duration::from_millis(3050),
            },
            ["for 3.0 s", "has stalled"],
        ),
        (
            &Disconnect::Malformed {
                sentence: "ACK frame".into(),
            },
            ["ACK frame", "its program is at fault"],
        ),
        (
            &Disconnect::Slow {
                what: "hello",
                deadline: Duration::from_secs(5),
            },
            ["send a complete hello within 5.0 s", "has stalled"],
        ),
        (
            &Disconnect::OtherUser {
                address: ([127, 0, 0, 1], 5900).into(),
                uid: Some(1001),
                own: 1000,
                is_engine: false,
            },
            [
                "at 127.0.0.1:5900 runs as user 1001, and this program, which runs as user 1000",
                "run both programs as the same user",
            ],
        ),
        (
            &Disconnect::OtherUser {
                address: ([127, 0, 0, 1], 5900).into(),
                uid: None,
                own: 1000,
                is_engine: false,
            },
            ["as a user that the system does not report", "`insecure`"],
        ),
        (
            &Disconnect::OtherUser {
                address: ([127, 0, 0, 1], 5850).into(),
                uid: Some(1001),
                own: 1000,
                is_engine: true,
            },
            [
                "the engine that you expect, join it with `trunkline join`",
                "tl+tcp://127.0.0.1:5850",
            ],
        ),
    ] {
        let sentence = cause.to_string();
        for word in words {
            assert!(sentence.contains(word), "{sentence}");
        }
    }
}

#[test]
fn disconnect_determines_quality_and_redialling() {
    let io = |kind| Disconnect::Io {
        kind,
        text: String::new(),
    };
    let goodbye = |code| {
        Disconnect::from(Goodbye {
            code,
            retry_after: None,
            sentence: "".into(),
        })
    };
    for (cause, reason, may_retry) in [
        (
            io(ErrorKind::ConnectionRefused),
            Reason::ProcessMissing,
            true,
        ),
        (
            io(ErrorKind::HostUnreachable),
            Reason::HostUnreachable,
            true,
        ),
        (io(ErrorKind::ConnectionReset), Reason::ConnectionLost, true),
        (Disconnect::PeerClosed, Reason::ConnectionLost, true),
        (
            goodbye(FaultCode::ShuttingDown),
            Reason::ConnectionLost,
            true,
        ),
        (goodbye(FaultCode::Denied), Reason::AccessDenied, false),
        (Disconnect::ClosedLocally, Reason::NotConnected, false),
        (
            Disconnect::NameLookup {
                host: String::new(),
                text: String::new(),
            },
            Reason::NameLookupFailed,
            true,
        ),
        (
            Disconnect::OtherUser {
                address: ([127, 0, 0, 1], 5900).into(),
                uid: None,
                own: 1000,
                is_engine: false,
            },
            Reason::AccessDenied,
            true,
        ),
    ] {
        assert_eq!(cause.quality_reason(), reason, "{cause:?}");
        assert_eq!(cause.may_retry(), may_retry, "{cause:?}");
    }
}

#[test]
fn peer_gets_the_reason_for_the_disconnect() {
    let error = FrameError::TooLong {
        kind: 20,
        length: 9,
        max: 8,
    };
    let goodbye = Disconnect::from(error).goodbye().unwrap();
    assert_eq!(goodbye.code, FaultCode::Malformed);
    assert!(
        goodbye
            .sentence
            .contains("announces 9 bytes, but at most 8 are allowed")
    );
    let silent = Disconnect::Dead {
        silent_for: Duration::from_secs(3),
    };
    assert_eq!(silent.goodbye().unwrap().code, FaultCode::PeerSilent);
    assert_eq!(Disconnect::PeerClosed.goodbye(), None);
}
