//! Tests peers that send too many requests to a directory. The memory for each peer is bounded, even if the
//! peer does not read the answers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::sync::Arc;

use trunkline_proto::message::stream::Incarnation;
use trunkline_proto::message::stream::directory::Lookup;
use trunkline_proto::message::stream::listing::EndpointsQuery;
use trunkline_proto::{Disconnect, Endpoint, FrameHeader, FrameKind, VersionRange};
use trunkline_stream::directory::DirectorySession;
use trunkline_stream::sim::{self, Bell, Process, SimClock};
use trunkline_types::{Tick, Timestamp};

/// Number of bytes in one read of a transport.
const READ: usize = 64 << 10;
const WALL: Timestamp = Timestamp::UNIX_EPOCH;

fn session() -> DirectorySession {
    let process = Process::new(&Arc::new(SimClock::default()), 1);
    sim::session(&sim::directory(&process), &Bell::default(), Tick::ZERO)
}

fn question() -> Vec<u8> {
    let mut bytes = Vec::new();
    let query = EndpointsQuery {
        versions: VersionRange::OURS,
        after: String::new(),
        only: String::new(),
    };
    query.encode(&mut bytes);
    bytes
}

fn header(kind: FrameKind, length: u32) -> [u8; 16] {
    let kind = kind.number();
    FrameHeader {
        length,
        kind,
        flags: 0,
        request: 0,
        count: 0,
    }
    .to_bytes()
}

/// The test acts as a transport that stores up to 64 KiB of the session's output. The peer reads nothing.
#[test]
fn directory_stops_reading_from_a_peer_that_does_not_read_answers() {
    let mut sut = session();
    let questions = question().repeat(READ / question().len());
    let (mut read_bytes, mut out) = (0, Vec::new());
    for _ in 0..1000 {
        if sut.wants_input() {
            sut.handle_input(Tick::ZERO, WALL, &questions);
            read_bytes += questions.len();
        }
        if out.len() < READ {
            sut.poll_output(Tick::ZERO, WALL, READ - out.len(), &mut out);
        }
        assert!(sut.unsent() <= 80 << 10, "{} bytes wait", sut.unsent());
        assert!(sut.buffered_bytes() <= READ, "{}", sut.buffered_bytes());
    }
    assert!(!sut.wants_input());
    assert!(read_bytes < 1 << 20, "{read_bytes} bytes were read");
    // Now the peer sends nothing, so the session ends at its deadline.
    for _ in 0..10 {
        let due = sut.poll_timeout().unwrap();
        sut.handle_timeout(due, WALL);
    }
    assert!(matches!(sut.wants_close(), Some(Disconnect::Dead { .. })));
}

#[test]
fn peer_that_reads_late_receives_every_answer() {
    let mut sut = session();
    let count = 20_000;
    let questions = question().repeat(count);
    let (mut sent, mut out) = (0, Vec::new());
    let mut answers = 0;
    while answers < count {
        if sut.wants_input() && sent < questions.len() {
            let end = (sent + READ).min(questions.len());
            sut.handle_input(Tick::ZERO, WALL, &questions[sent..end]);
            sent = end;
        }
        out.clear();
        sut.poll_output(Tick::ZERO, WALL, 1000, &mut out);
        // In an answer without endpoints, the byte of the frame kind occurs only once, in the header.
        answers += out
            .iter()
            .filter(|byte| **byte == FrameKind::StreamEndpoints.number())
            .count();
        assert!(!out.is_empty(), "{answers} of {count} answers");
    }
    assert_eq!(answers, count);
}

#[test]
fn first_frame_must_be_short() {
    let first = [
        (FrameKind::StreamList, 4097),
        (FrameKind::StreamLookup, 4097),
        (FrameKind::StreamRegister, 1 << 20),
        (FrameKind::StreamHello, (64 << 10) + 1),
        (FrameKind::Part, 1 << 20),
    ];
    for (kind, length) in first {
        let mut sut = session();
        sut.handle_input(Tick::ZERO, WALL, &header(kind, length));
        assert!(sut.wants_close().is_some(), "{kind} of {length} bytes");
        assert_eq!(sut.buffered_bytes(), 0);
    }
    // Later frames must be short too.
    let mut sut = session();
    sut.handle_input(Tick::ZERO, WALL, &question());
    sut.handle_input(Tick::ZERO, WALL, &header(FrameKind::Part, 1 << 20));
    assert!(sut.wants_close().is_some());
}

#[test]
fn frame_sent_byte_by_byte_times_out() {
    let frames = [question(), {
        let mut bytes = Vec::new();
        Lookup {
            versions: VersionRange::OURS,
            url: "/there".to_owned(),
            incarnation: Incarnation([1; 16]),
            program: String::new(),
            key: None,
        }
        .encode(&mut bytes);
        bytes
    }];
    for frame in frames {
        let mut sut = session();
        let mut now = Tick::ZERO;
        // Send a complete request first, so that the session does not end for lack of a request.
        sut.handle_input(now, WALL, &question());
        for byte in &frame[..frame.len() - 1] {
            if sut.wants_close().is_some() {
                break;
            }
            sut.handle_input(now, WALL, &[*byte]);
            now = now.saturating_add(std::time::Duration::from_millis(500));
            sut.handle_timeout(now, WALL);
        }
        assert!(matches!(sut.wants_close(), Some(Disconnect::Slow { .. })));
    }
}
