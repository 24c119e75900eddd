//! A writer that drops elements that a slow reader does not fetch: each element arrives once and in
//! order, or is reported as lost, once and at its position, regardless of the connections.

use proptest::prelude::*;
use trunkline_proto::message::stream::seal::seal;
use trunkline_proto::message::stream::{
    DataHead, EndState, Lost, ReaderState, StreamEnd, StreamHello, WriterState, encode_end,
};
use trunkline_proto::stream::{Incarnation, ReaderLink, StreamFault};
use trunkline_proto::{Disconnect, FaultCode, Features, Frame, VersionRange};
use trunkline_types::{DataType, Tick};

use crate::rig::{SIZE, WRITER, World, ms, options, varying};

/// A writer of 5 elements that drops, and a reader of 5 that dials it.
fn world(varies: bool) -> World {
    let (mut w, mut r) = options(5, 5, false);
    (w.drops, r.drops) = (true, true);
    if varies {
        w = varying(w, 5, 500);
        r = varying(r, 5, 500);
    }
    let mut world = World::with(w, r);
    world.run(ms(10));
    assert!(world.writer.link.is_connected());
    world
}

/// The length of the next element depends on its number, for variable-size elements.
fn write(world: &mut World, varies: bool) -> bool {
    match varies {
        true => {
            let len = (world.writer.ends.len() * 7) % 23;
            world.writer.write_varying(len)
        }
        false => world.write(1),
    }
}

fn read(world: &mut World, varies: bool) -> bool {
    match varies {
        true => world.reader.read_varying(),
        false => world.read(1),
    }
}

/// Ends the stream, and reads everything: every missing element was reported.
fn finish(world: &mut World, varies: bool, written: u64) {
    world.heal();
    world.writer.link.close();
    for _ in 0..200 {
        world.run(ms(200));
        while read(world, varies) {}
        if world.writer.link.is_closed() {
            break;
        }
    }
    assert!(world.writer.link.is_closed(), "the reader has the end");
    assert_eq!(world.writer.link.fault(), None);
    world.reader.skip_last_lost();
    let (read, lost) = (world.reader.read_elements, world.reader.lost);
    assert_eq!(read + lost, written, "{read} read and {lost} lost");
    assert_eq!(world.reader.link.lost(), lost);
    assert_eq!(world.writer.link.lost(), lost);
    assert_eq!(world.writer.left().elements, 0);
}

/// Behaviour: B-62.
#[test]
fn drops_are_reported_once_at_the_gap() {
    for varies in [false, true] {
        let mut sut = world(varies);
        // 5 fill the reader's buffer, and 5 more the writer's.
        for _ in 0..10 {
            assert!(write(&mut sut, varies));
            sut.run(ms(5));
        }
        assert_eq!(sut.fills(), (5, 5));
        assert!(!write(&mut sut, varies), "no room");
        sut.writer.drop_all_but(2);
        assert_eq!((sut.fills(), sut.writer.link.lost()), ((2, 5), 3));
        sut.run(ms(5));
        assert_eq!(sut.reader.link.next_loss(), Some((5, 3)), "known at once");
        for _ in 0..3 {
            assert!(write(&mut sut, varies));
        }
        // The same place: one loss.
        sut.writer.drop_all_but(4);
        sut.run(ms(5));
        assert_eq!(sut.reader.link.next_loss(), Some((5, 4)));
        finish(&mut sut, varies, 13);
        assert_eq!((sut.reader.read_elements, sut.reader.lost), (9, 4));
    }
}

/// Elements that were sent and not acknowledged may be dropped: they are lost only if they did not
/// arrive.
///
/// Behaviour: B-62.
#[test]
fn dropped_data_in_flight_is_lost_only_if_it_did_not_arrive() {
    for varies in [false, true] {
        for comes in [true, false] {
            let mut sut = world(varies);
            for _ in 0..4 {
                assert!(write(&mut sut, varies));
            }
            sut.pump();
            sut.writer.drop_all_but(1);
            assert_eq!((sut.writer.fill(), sut.writer.link.lost()), (1, 0));
            if !comes {
                sut.cut();
                sut.heal();
            }
            sut.run(ms(500));
            let lost = if comes { 0 } else { 3 };
            assert_eq!(sut.writer.link.lost(), lost);
            finish(&mut sut, varies, 4);
            assert_eq!(sut.reader.lost, lost);
        }
    }
}

/// The frame that reports a loss is cut at each of its bytes, and so are the frames before and
/// after it.
///
/// Behaviour: B-62.
#[test]
fn loss_is_reported_once_wherever_the_connection_is_cut() {
    for varies in [false, true] {
        for cut in 0..120 {
            let mut sut = world(varies);
            for _ in 0..10 {
                write(&mut sut, varies);
                sut.run(ms(5));
            }
            // There is credit for the kept elements, and the reader learns of neither loss.
            for _ in 0..4 {
                read(&mut sut, varies);
            }
            sut.pump_reader();
            sut.now = sut.now.saturating_add(ms(2));
            sut.pump_reader();
            sut.now = sut.now.saturating_add(ms(1));
            sut.deliver();
            sut.writer.drop_all_but(2);
            write(&mut sut, varies);
            cut_behind(&mut sut, cut);
            // Another one, while disconnected.
            if cut % 2 == 0 {
                write(&mut sut, varies);
                sut.writer.drop_all_but(1);
            }
            finish(&mut sut, varies, if cut % 2 == 0 { 12 } else { 11 });
        }
    }
}

/// Behaviour: B-62.
#[test]
fn an_end_that_was_announced_moves_with_what_is_lost() {
    for varies in [false, true] {
        let mut sut = world(varies);
        for _ in 0..10 {
            assert!(write(&mut sut, varies));
            sut.run(ms(5));
        }
        // Sent, and not acknowledged.
        assert!(read(&mut sut, varies) && read(&mut sut, varies));
        sut.run(ms(2));
        sut.cut();
        sut.writer.drop_all_but(2);
        sut.writer.link.close();
        // Nothing more is dropped.
        sut.writer.drop_all_but(0);
        assert_eq!(sut.writer.fill(), 2);
        finish(&mut sut, varies, 10);
    }
}

/// Behaviour: B-62.
#[test]
fn reader_without_loss_reports_is_refused() {
    let (mut w, r) = options(5, 5, false);
    w.drops = true;
    let mut sut = World::with(w, r);
    sut.run(ms(100));
    match sut.reader.link.fault() {
        Some(StreamFault::Refused { code, sentence }) => {
            assert_eq!(*code, FaultCode::StreamPeer);
            assert!(
                sentence.contains("cannot handle dropped elements"),
                "{sentence}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(sut.writer.link.peer().is_none());
}

/// The writer's next `bytes` bytes arrive and are acknowledged, then the connection ends.
fn cut_behind(world: &mut World, bytes: usize) {
    let piece = std::mem::replace(&mut world.net.piece, 1);
    world.pump();
    world.net.lose_all_behind(true, bytes);
    world.net.piece = piece;
    for _ in 0..3 {
        world.now = world.now.saturating_add(ms(1));
        world.deliver();
        world.pump_reader();
    }
    world.cut();
}

#[derive(Clone, Debug)]
enum Step {
    Write(u8),
    Read(u8),
    Keep(u8),
    Run(u8),
    Cut,
    Heal,
    /// Bytes in transit to the reader are lost after this many, and then the connection.
    CutAt(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..6_u8).prop_map(Step::Write),
        4 => (1..6_u8).prop_map(Step::Read),
        3 => (0..5_u8).prop_map(Step::Keep),
        4 => (0..20_u8).prop_map(Step::Run),
        1 => Just(Step::Cut),
        3 => Just(Step::Heal),
        2 => any::<u8>().prop_map(Step::CutAt),
    ]
}

proptest! {
    /// Behaviour: B-62.
    #[test]
    fn every_element_arrives_or_is_reported_lost(
        steps in prop::collection::vec(step(), 1..60), varies: bool, piece in 1..40_usize,
    ) {
        let mut sut = world(varies);
        sut.net.piece = piece;
        let mut written = 0;
        for step in steps {
            match step {
                Step::Write(count) => {
                    written += (0..count).filter(|_| write(&mut sut, varies)).count() as u64;
                }
                Step::Read(count) => {
                    for _ in 0..count {
                        read(&mut sut, varies);
                    }
                }
                Step::Keep(count) => sut.writer.drop_all_but(count.into()),
                Step::Run(tenths) => sut.run(ms(u64::from(tenths)) / 10),
                Step::Cut => sut.cut(),
                Step::Heal => sut.heal(),
                Step::CutAt(bytes) => cut_behind(&mut sut, bytes.into()),
            }
        }
        finish(&mut sut, varies, written);
    }
}

const NOW: Tick = Tick::from_nanos(1);

fn hello(url: &str, features: Features, state: EndState, attempt: u64) -> StreamHello {
    StreamHello {
        versions: VersionRange::OURS,
        end: StreamEnd {
            features,
            incarnation: Incarnation([9; 16]),
            url: url.to_owned(),
            peer_url: String::new(),
            data_type: DataType::F64,
            capacity: 5,
            bytes_max: 5 * SIZE,
            has_journal: false,
            program: String::new(),
            state,
        },
        peer: None,
        attempt,
        ticket: None,
        share: Some(trunkline_proto::stream::Secret([9; 32])),
        proof: None,
    }
}

/// A passive reader that has 1 element and a half, and lost 2 before them.
fn reader(features: Features) -> ReaderLink {
    let (_, mut r) = options(5, 5, true);
    r.drops = true;
    let mut sut = ReaderLink::reader(r, NOW);
    let state = EndState::Writer(WriterState::default());
    sut.handle_hello(NOW, 1, &hello(WRITER, features, state, 1))
        .unwrap();
    if features.contains(Features::DROPS) {
        let (position, lost) = (0, 2);
        give(&mut sut, |out| Lost { position, lost }.encode(out));
    }
    let head = DataHead {
        position: 0,
        len: 12,
        crc32c: None,
        is_short_of_room: false,
    };
    give(&mut sut, |out| head.encode(out));
    sut.handle_payload(NOW, 1, &[0; 12]);
    assert!(sut.is_connected());
    sut
}

fn give(sut: &mut ReaderLink, frame: impl FnOnce(&mut Vec<u8>)) {
    let mut out = Vec::new();
    frame(&mut out);
    assert_eq!(sut.handle_control(NOW, 1, &out), out.len());
}

#[track_caller]
fn assert_refused(mut sut: ReaderLink, frame: impl FnOnce(&mut Vec<u8>), words: &str) {
    let before = (sut.ready(), sut.lost(), sut.next_loss());
    give(&mut sut, frame);
    match sut.wants_close() {
        Some(Disconnect::Malformed { sentence }) => {
            assert!(sentence.contains(words), "{sentence}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((sut.ready(), sut.lost(), sut.next_loss()), before);
    assert_eq!(sut.fault(), None);
}

/// Behaviour: B-62.
#[test]
fn a_reader_does_not_believe_a_loss_that_cannot_be_true() {
    let lost = |position, lost| move |out: &mut Vec<u8>| Lost { position, lost }.encode(out);
    for (position, count, words) in [
        (16, 3, "lost at 16, but 8 bytes have arrived"),
        (12, 3, "lost at 12, but 8"),
        (0, 3, "lost at 0, but 8"),
        (8, 2, "2 lost elements, but it reported 2 before"),
        (8, 1, "1 lost elements, but it reported 2 before"),
        (8, u64::MAX, "a position of at most 2^62"),
    ] {
        assert_refused(reader(Features::DROPS), lost(position, count), words);
    }
    assert_refused(reader(Features::NONE), lost(8, 3), "drops none");
    let mut ends = reader(Features::DROPS);
    give(&mut ends, |out| encode_end(16, out));
    assert_refused(ends, lost(8, 3), "lost at 8");
    // The valid part is accepted, and the half element starts again.
    let mut sut = reader(Features::DROPS);
    give(&mut sut, lost(8, 9));
    assert!(sut.is_connected());
    assert_eq!((sut.arrived(), sut.lost()), (8, 9));
    assert_eq!(sut.take_loss(), Some((0, 2)));
    assert_eq!(sut.take_loss(), Some((1, 7)));
}

/// Behaviour: B-62.
#[test]
fn an_altered_loss_does_not_count() {
    let mut frame = Vec::new();
    let (position, lost) = (8, 3);
    Lost { position, lost }.encode(&mut frame);
    // But for two bytes that mean nothing.
    for bit in (0..frame.len() * 8).filter(|bit| !(48..64).contains(bit)) {
        let mut altered = frame.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let mut sut = reader(Features::DROPS);
        sut.handle_control(NOW, 1, &altered);
        assert_eq!(sut.lost(), 2, "bit {bit}");
        assert!(sut.wants_close().is_some(), "bit {bit}");
    }
    let mut short = frame.clone();
    short.truncate(24);
    short[..4].copy_from_slice(&8_u32.to_le_bytes());
    seal(&mut short, 0);
    let give_short = |out: &mut Vec<u8>| out.extend_from_slice(&short);
    assert_refused(reader(Features::DROPS), give_short, "S_LOST");
}

/// Behaviour: B-62.
#[test]
fn a_writer_does_not_believe_a_reader_that_knows_of_more_than_is_lost() {
    let mut sut = world(false);
    for _ in 0..10 {
        assert!(write(&mut sut, false));
        sut.run(ms(5));
    }
    sut.cut();
    sut.writer.drop_all_but(2);
    let life = sut.reader.link.options().incarnation;
    let at = |arrived: u64, lost: u64| {
        EndState::Reader(ReaderState {
            arrived,
            arrived_elements: 5,
            credit_bytes: 5 * SIZE,
            credit_elements: 5,
            lost,
            ..ReaderState::default()
        })
    };
    for (state, words) in [
        (at(5 * SIZE, 4), "but the writer has lost 3"),
        (at(5 * SIZE, u64::MAX >> 2), "but the writer has lost 3"),
        (at(6 * SIZE, 3), "acknowledges 48 bytes"),
        (at(4 * SIZE, 3), "reports 32 bytes, but it reported 40"),
    ] {
        // The real peer, with its secret.
        let mut peer = sut.reader.link.clone();
        let mut out = Vec::new();
        peer.handle_dialled(sut.now, 77, None);
        peer.poll_output(sut.now, &(), &mut out);
        let frame = Frame::take_from(&mut out.as_slice()).unwrap().unwrap();
        let mut said = StreamHello::decode(&frame).unwrap();
        assert_eq!(said.end.incarnation, life);
        said.end.state = state;
        let refused = sut.writer.link.handle_hello(sut.now, 77, &said);
        let sentence = refused.unwrap_err().sentence;
        assert!(sentence.contains(words), "{sentence}");
    }
    finish(&mut sut, false, 10);
    assert_eq!(sut.reader.lost, 3);
}
