//! Engines that violate the protocol: the client closes the connection with a cause, and never
//! panics.

use proptest::prelude::*;

use trunkline_client::{ConnectionState, OpenOptions};
use trunkline_proto::frame::{FrameHeader, HEADER_BYTES};
use trunkline_proto::message::find::{NamesBuilder, NamesHead};
use trunkline_proto::message::handles::HandlesBuilder;
use trunkline_proto::message::hello::Welcome;
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::message::open::{OpenOptions as WireOptions, OpenedBuilder};
use trunkline_proto::message::outcome::WriteAnswer;
use trunkline_proto::message::read::ReadingsBuilder;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::results::ResultsBuilder;
use trunkline_proto::message::updates::UpdatesBuilder;
use trunkline_proto::message::write::{WriteAnswersBuilder, WriteAnswersHead};
use trunkline_proto::{Disconnect, Endpoint, FrameKind};
use trunkline_types::{Access, ArrayType, Contract, DataType, ElementType, Quality, Value};

use super::rig::{Rig, Said, WALL, write};

/// Returns the sentence with which an open connection has ended. The client dials again.
pub fn sentence(rig: &Rig) -> String {
    match rig.client.state() {
        ConnectionState::Connecting {
            last_failure: Some(cause),
            ..
        } => match &*cause {
            Disconnect::Malformed { sentence } => sentence.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Returns the number of the client's last request, which is unanswered.
fn last_request(rig: &mut Rig) -> u32 {
    match rig.said().pop() {
        Some(Said::Open { request, .. } | Said::Handles { request, .. }) => request,
        Some(Said::Find { request, .. }) => request,
        other => panic!("{other:?}"),
    }
}

fn raw(out: &mut Vec<u8>, kind: u8, request: u32, count: u32, payload: &[u8]) {
    let length = payload.len() as u32;
    let header = FrameHeader {
        length,
        kind,
        flags: 0,
        request,
        count,
    };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(payload);
}

#[test]
fn unrequested_answers_end_the_connection() {
    let mut rig = Rig::connected(&["a/b"]);
    rig.tell(|out| ResultsBuilder::closed(out, 99, 0).finish(false));
    assert!(sentence(&rig).contains("request 99"), "{}", sentence(&rig));
    rig.connect();
    rig.tell(|out| {
        let mut answer = WriteAnswersBuilder::begin(out, 0, &WriteAnswersHead { first_write: 5 });
        answer.push(&WriteAnswer::Superseded);
        answer.finish(false);
    });
    assert!(sentence(&rig).contains("write 5"));
}

#[test]
fn an_answer_of_another_kind_ends_the_connection() {
    let mut rig = Rig::connected(&["a/b"]);
    rig.engine.hold(FrameKind::Open);
    rig.client.open(&["a/b"], OpenOptions::default()).unwrap();
    for kind in ["READINGS", "CLOSED", "NAMES"] {
        rig.exchange();
        let request = last_request(&mut rig);
        rig.tell(|out| match kind {
            "READINGS" => {
                let mut answer = ReadingsBuilder::begin(out, request, 0);
                answer.push(&UpdateRecord::nothing_yet(1));
                answer.finish(false);
            }
            "CLOSED" => ResultsBuilder::closed(out, request, 0).finish(false),
            _ => NamesBuilder::begin(out, request, &NamesHead::default()).finish(false),
        });
        assert!(sentence(&rig).contains(kind), "{}", sentence(&rig));
        rig.connect();
    }
}

#[test]
fn items_out_of_order_beyond_the_request_or_missing_end_the_connection() {
    let cases: [(u32, u32, bool, &str); 4] = [
        (1, 1, false, "item 1"),
        (0, 3, false, "item 2"),
        (u32::MAX, 1, false, "item 4294967295"),
        (0, 1, false, "1 of 2"),
    ];
    for (first, count, more, part) in cases {
        let mut rig = Rig::connected(&["a/b", "a/c"]);
        rig.engine.hold(FrameKind::Open);
        let open = rig
            .client
            .open(&["a/b", "a/c"], OpenOptions::default())
            .unwrap();
        rig.exchange();
        let request = last_request(&mut rig);
        rig.tell(|out| {
            let mut answer = OpenedBuilder::begin(out, request, WireOptions::default(), first);
            for handle in 0..count {
                answer.push(handle, &DataType::F64, Access::ReadWrite, None, None);
            }
            answer.finish(more);
        });
        assert!(sentence(&rig).contains(part), "{}", sentence(&rig));
        rig.engine.held.clear();
        rig.connect();
        assert!(rig.client.is_answered(open), "it was asked again");
    }
}

#[test]
fn frames_of_the_wrong_direction_or_phase_end_the_connection() {
    let mut rig = Rig::connected(&["a/b"]);
    rig.tell(|out| HandlesBuilder::read(out, 1).finish(false));
    assert!(sentence(&rig).contains("READ"), "{}", sentence(&rig));
    rig.connect();
    rig.tell(|out| Welcome::default().encode(out));
    assert!(sentence(&rig).contains("second WELCOME"));
    let mut rig = Rig::new();
    rig.engine.hold(FrameKind::Hello);
    rig.connect();
    let mut bytes = Vec::new();
    Keepalive::default().encode(&mut bytes);
    rig.client.handle_input(rig.now, WALL, &bytes);
    assert!(matches!(
        rig.client.wants_close(),
        Some(Disconnect::NotTrunkline { .. })
    ));
}

#[test]
fn foreign_program_on_the_port_is_distinguished() {
    let mut rig = Rig::new();
    rig.engine.hold(FrameKind::Hello);
    rig.connect();
    rig.tell(|out| out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let state = rig.client.state();
    assert!(matches!(state, ConnectionState::Closed { .. }));
    assert!(state.to_string().contains("HTTP/1.1"), "{state}");
    assert_eq!(rig.client.poll_dial(), None);
}

#[test]
fn a_value_that_is_not_of_its_type_ends_the_connection() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "latest");
    let wire = rig.wire(id);
    for value in [&[1u8, 2, 3][..], &[0; 9], &[]] {
        rig.tell(|out| {
            let mut updates = UpdatesBuilder::begin(out, wire);
            updates.push(&UpdateRecord {
                sequence: 50,
                quality: Quality::GOOD,
                value: Some(value),
                ..UpdateRecord::nothing_yet(100)
            });
            updates.finish();
        });
        assert!(sentence(&rig).contains("value"), "{}", sentence(&rig));
        rig.connect();
        rig.client.next_event(rig.now, id);
    }
}

#[test]
fn updates_for_unknown_items_are_skipped_and_confirmed() {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    let id = rig.subscribe(&["a/b"], "latest");
    let wire = rig.wire(id);
    let stray = rig.engine.handle_of("a/c");
    rig.engine.send_current(wire, stray);
    rig.engine.send_current(4711, 100);
    rig.set("a/b", 1.0);
    assert_eq!(rig.values(id), [1.0]);
    assert_eq!(rig.client.counters().skipped, 2);
    // The client's own keep-alive, because the engine sends none here.
    rig.pass(std::time::Duration::from_millis(1250));
    assert_eq!(rig.engine.records_confirmed, rig.engine.records_sent);
}

#[test]
fn frames_of_unknown_kinds_are_skipped() {
    let mut rig = Rig::connected(&["a/b"]);
    rig.tell(|out| raw(out, 200, 7, 9, b"from the future"));
    assert!(rig.client.state().is_connected());
    assert_eq!(rig.client.counters().unknown_frames, 1);
}

#[test]
fn a_frame_longer_than_agreed_ends_the_connection_before_it_is_buffered() {
    let mut rig = Rig::connected(&["a/b"]);
    let header = FrameHeader {
        length: u32::MAX,
        kind: 20,
        ..FrameHeader::default()
    };
    rig.tell(|out| out.extend_from_slice(&header.to_bytes()));
    assert!(sentence(&rig).contains("4294967295"), "{}", sentence(&rig));
}

#[test]
fn huge_default_value_is_not_allocated_before_a_write() {
    let mut rig = Rig::connected(&[]);
    let ty = ArrayType {
        element: ElementType::F64,
        shape: vec![Some(1_000_000)],
    };
    let names: Vec<String> = (0..1000).map(|n| format!("a/v{n}")).collect();
    for name in &names {
        rig.engine
            .add_unwritten(name, DataType::Array(std::sync::Arc::new(ty.clone())));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let id = rig.subscribe(&names, "latest");
    for reading in rig.readings(id) {
        let Value::Array(array) = &reading.sample.value else {
            panic!("{reading:?}")
        };
        assert_eq!(array.shape(), [0]);
    }
}

/// An answer of the wrong kind ends the connection. The request is not lost, because the client
/// sends it again.
#[test]
fn request_with_a_mismatched_answer_is_repeated() {
    let provided = FrameKind::Provided as u8;
    let appeared = FrameKind::Appeared as u8;
    // Watch 1, revision 1, with a complete list.
    let listed = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    for (kind, payload) in [(provided, &[][..]), (appeared, &listed[..])] {
        let mut rig = Rig::connected(&["a/b"]);
        let variable = rig.open_one("a/b");
        rig.engine.hold(FrameKind::Read);
        let asked = rig.client.read(&[variable]).unwrap();
        rig.exchange();
        let request = last_request(&mut rig);
        rig.tell(|out| raw(out, kind, request, 0, payload));
        assert!(!rig.client.state().is_connected(), "kind {kind}");
        rig.engine.held.clear();
        rig.connect();
        rig.exchange();
        assert!(rig.client.is_answered(asked), "kind {kind}");
    }
}

#[test]
fn a_search_that_never_ends_is_ended() {
    let mut rig = Rig::connected(&[]);
    rig.engine.hold(FrameKind::Find);
    rig.client.find("**", None).unwrap();
    rig.exchange();
    let request = last_request(&mut rig);
    let next_cursor = Some(5);
    rig.tell(|out| NamesBuilder::begin(out, request, &NamesHead { next_cursor }).finish(false));
    let request = last_request(&mut rig);
    let next_cursor = Some(5);
    rig.tell(|out| NamesBuilder::begin(out, request, &NamesHead { next_cursor }).finish(false));
    assert!(
        sentence(&rig).contains("which the client already has"),
        "{}",
        sentence(&rig)
    );
}

/// A client with many open operations, and the next frames of an honest engine.
fn busy() -> (Rig, Vec<u8>) {
    let mut rig = Rig::connected(&["a/b", "a/c"]);
    for contract in ["latest", "last:3", "all:4"] {
        rig.subscribe(&["a/b", "a/c"], contract);
    }
    let variable = rig.open_one("a/b");
    let kinds = [
        FrameKind::Open,
        FrameKind::Read,
        FrameKind::Write,
        FrameKind::Info,
    ];
    kinds.iter().for_each(|kind| rig.engine.hold(*kind));
    rig.said();
    rig.client
        .open(
            &["a/b", "a/c"],
            OpenOptions {
                include_readings: true,
                ..OpenOptions::default()
            },
        )
        .unwrap();
    rig.client
        .subscribe(&["a/c", "a/d"], Contract::ALL, Default::default())
        .unwrap();
    rig.client.read(&[variable]).unwrap();
    rig.client.info(&[variable]).unwrap();
    rig.client
        .write([write(variable, 1.0), write(variable, 2.0)])
        .unwrap();
    rig.exchange();
    for said in rig.said() {
        rig.engine.answer(&said);
    }
    rig.engine.set("a/b", 5.0);
    rig.engine.undeploy("a/c");
    let bytes = std::mem::take(&mut rig.engine.out);
    (rig, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The client never panics and always continues if bytes are changed, removed or invented.
    #[test]
    fn no_bytes_make_the_client_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        noise in prop::collection::vec(any::<u8>(), 0..64),
        chunk in 1usize..5000,
    ) {
        let (mut rig, mut bytes) = busy();
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        let mut kept = cut.index(bytes.len() * 2).min(bytes.len());
        if kept < HEADER_BYTES { kept = bytes.len(); }
        bytes.truncate(kept);
        bytes.extend_from_slice(&noise);
        for part in bytes.chunks(chunk) {
            rig.client.handle_input(rig.now, WALL, part);
            let mut out = Vec::new();
            while rig.client.poll_output(rig.now, WALL, 1 << 16, &mut out) {}
        }
        rig.cut();
        rig.engine.held.clear();
        let closed = rig.client.poll_dial().is_none();
        prop_assert!(!closed, "damaged frames are no reason to give up");
        rig.connect();
        prop_assert!(rig.client.state().is_connected());
        prop_assert_eq!(rig.client.pending(), 0);
    }

    /// Every kind of frame with any payload.
    #[test]
    fn no_frame_makes_the_client_panic(
        kind in 0u8..50,
        flags in 0u8..4,
        request in 0u32..12,
        count in prop_oneof![0u32..5, any::<u32>()],
        payload in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let (mut rig, _) = busy();
        let mut bytes = Vec::new();
        raw(&mut bytes, kind, request, count, &payload);
        bytes[5] = flags;
        rig.client.handle_input(rig.now, WALL, &bytes);
        rig.cut();
        rig.engine.held.clear();
        if rig.client.poll_dial().is_some() {
            rig.connect();
            prop_assert!(rig.client.state().is_connected());
        }
    }
}
