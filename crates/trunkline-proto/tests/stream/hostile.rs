//! A peer that violates the protocol: the connection ends with a sentence, the stream's data is
//! unchanged, and an honest peer continues from there.

use trunkline_proto::Disconnect;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::seal::seal;
use trunkline_proto::message::stream::{
    Abort, Ack, Ask, Data, DataHead, EndState, POSITION_MAX, ReaderState, StreamEnd, StreamHello,
    Until, WriterState, encode_end,
};
use trunkline_proto::stream::{Incarnation, ReaderLink, RingBytes, WriterLink};
use trunkline_proto::{FaultCode, Features, VersionRange};
use trunkline_types::{DataType, Tick};

use crate::rig::{READER, SIZE, WRITER, options};

const NOW: Tick = Tick::from_nanos(1);
/// The peer's life.
const PEER: Incarnation = Incarnation([9; 16]);

/// A ring in which everything is 0.
struct Zeroes;

impl RingBytes for Zeroes {
    fn bytes(&self, _: u64, len: u64) -> [&[u8]; 2] {
        [&[0; 4096][..len as usize], &[]]
    }
}

fn hello(url: &str, state: EndState, attempt: u64) -> StreamHello {
    StreamHello {
        versions: VersionRange::OURS,
        end: StreamEnd {
            features: Features::NONE,
            incarnation: PEER,
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

fn reader_at(arrived: u64, read: u64) -> ReaderState {
    ReaderState {
        arrived,
        arrived_elements: arrived / SIZE,
        read,
        durable: 0,
        credit_bytes: read + 5 * SIZE,
        credit_elements: read / SIZE + 5,
        lost: 0,
    }
}

/// A passive writer with 5 elements, of which 3 were sent to a reader, and 2 of these acknowledged.
fn writer() -> WriterLink {
    let (w, _) = options(5, 5, false);
    let mut sut = WriterLink::writer(w, NOW);
    let state = EndState::Reader(reader_at(0, 0));
    sut.handle_hello(NOW, 1, &hello(READER, state, 1)).unwrap();
    sut.handle_written(3 * SIZE, 3);
    output(&mut sut);
    let ack = Ack {
        arrived: 2 * SIZE,
        ..Ack::from_state(reader_at(0, 0))
    };
    give(&mut sut, |out| ack.encode(out));
    assert!(sut.is_connected());
    sut
}

/// A passive reader with 2 elements, which gave credit for 5.
fn reader(is_end_known: bool) -> ReaderLink {
    let (_, r) = options(5, 5, true);
    let mut sut = ReaderLink::reader(r, NOW);
    let state = EndState::Writer(WriterState::default());
    sut.handle_hello(NOW, 1, &hello(WRITER, state, 1)).unwrap();
    data(&mut sut, 0, 2 * SIZE as usize, None);
    if is_end_known {
        let mut out = Vec::new();
        encode_end(3 * SIZE, &mut out);
        sut.handle_control(NOW, 1, &out);
    }
    assert!(sut.is_connected());
    sut
}

trait FromState {
    fn from_state(state: ReaderState) -> Self;
}

impl FromState for Ack {
    fn from_state(at: ReaderState) -> Self {
        Self {
            arrived: at.arrived,
            read: at.read,
            durable: at.durable,
            credit_bytes: at.credit_bytes,
            credit_elements: at.credit_elements,
            has_end: false,
        }
    }
}

fn output(sut: &mut WriterLink) -> Vec<u8> {
    let mut out = Vec::new();
    while sut.poll_output(NOW, &Zeroes, &mut out).is_some() {}
    sut.handle_sent(1);
    out
}

fn give(sut: &mut WriterLink, frame: impl FnOnce(&mut Vec<u8>)) {
    let mut out = Vec::new();
    frame(&mut out);
    assert_eq!(sut.handle_control(NOW, 1, &out), out.len());
}

fn data(sut: &mut ReaderLink, position: u64, len: usize, crc32c: Option<u32>) {
    let head = DataHead {
        position,
        len: len as u32,
        crc32c,
        is_short_of_room: false,
    };
    let mut out = Vec::new();
    let bytes = &vec![0; len];
    Data { head, bytes }.encode(&mut out);
    let mut rest = out.as_slice();
    while !rest.is_empty() {
        let took = match sut.next_payload_range() {
            Some(place) => {
                let len = rest.len().min(place.len as usize);
                sut.handle_payload(NOW, 1, &rest[..len]);
                len
            }
            None => sut.handle_control(NOW, 1, rest),
        };
        rest = &rest[took..];
    }
}

fn sentence(cause: Option<&Disconnect>) -> String {
    match cause {
        Some(Disconnect::Malformed { sentence }) => sentence.clone(),
        other => panic!("not ended as a fault of the peer: {other:?}"),
    }
}

/// The writer has ended the connection in these words, kept its elements, and continues with an
/// honest reader.
fn assert_writer_refuses(mut sut: WriterLink, words: &str) {
    let said = sentence(sut.wants_close());
    assert!(said.contains(words), "{said}");
    assert!(!sut.is_connected());
    assert_eq!((sut.fault(), sut.freed()), (None, 2 * SIZE));
    sut.handle_disconnected(NOW, 1, Disconnect::PeerClosed);
    assert_eq!(sut.disconnections(), 1);
    let state = EndState::Reader(reader_at(2 * SIZE, 0));
    sut.handle_hello(NOW, 2, &hello(READER, state, 2)).unwrap();
    let mut out = Vec::new();
    let place = sut.poll_output(NOW, &Zeroes, &mut out).unwrap();
    assert_eq!((place.position, place.len), (2 * SIZE, SIZE), "sent again");
}

#[test]
fn writer_disconnects_a_reader_with_an_impossible_acknowledgement() {
    let honest = Ack {
        arrived: 2 * SIZE,
        ..Ack::from_state(reader_at(0, 0))
    };
    let full = 5 * SIZE;
    let never_sent = Ack {
        arrived: 4 * SIZE,
        ..honest
    };
    let back = Ack {
        arrived: SIZE,
        ..honest
    };
    let read_ahead = Ack {
        read: 3 * SIZE,
        credit_bytes: full + 3 * SIZE,
        ..honest
    };
    let durable_ahead = Ack {
        durable: 3 * SIZE,
        ..honest
    };
    let boundless = Ack {
        credit_bytes: POSITION_MAX,
        ..honest
    };
    let elements = Ack {
        credit_elements: u64::MAX,
        ..honest
    };
    let less = Ack {
        credit_bytes: full - SIZE,
        ..honest
    };
    let end = Ack {
        has_end: true,
        ..honest
    };
    for (ack, words) in [
        (never_sent, "acknowledges 32 bytes, but only 24 were sent"),
        (back, "goes back"),
        (read_ahead, "has read 24"),
        (durable_ahead, "stored 24"),
        (boundless, "beyond its buffer of 40 bytes"),
        (elements, "beyond its buffer of 5 elements"),
        (less, "goes back"),
        (end, "an end that the writer has not announced"),
    ] {
        let mut sut = writer();
        give(&mut sut, |out| ack.encode(out));
        assert_writer_refuses(sut, words);
    }
}

#[test]
fn writer_disconnects_a_peer_that_acts_as_a_writer() {
    let head = DataHead {
        position: 0,
        len: 8,
        crc32c: None,
        is_short_of_room: false,
    };
    let bytes = &[0; 8];
    let mut sut = writer();
    give(&mut sut, |out| Data { head, bytes }.encode(out));
    assert_writer_refuses(sut, "the reader sent S_DATA");
    let mut sut = writer();
    give(&mut sut, |out| encode_end(0, out));
    assert_writer_refuses(sut, "the reader sent a frame of kind 111");
    let mut sut = writer();
    give(&mut sut, |out| out.extend([0xff; 64]));
    assert_writer_refuses(sut, "a frame of kind 255 was altered");
    let mut sut = writer();
    give(&mut sut, |out| {
        out.extend([0xff; 16]);
        seal(out, 0);
    });
    // The checksums cover the existing bytes; the length announces bytes that never arrive.
    assert_writer_refuses(sut, "a frame of kind 255 has 4294967295 bytes");
}

/// One flipped bit of an acknowledgement frees nothing.
///
/// Behaviour: NS-60, NS-61.
#[test]
fn an_altered_acknowledgement_does_not_count() {
    let mut ack = Vec::new();
    Ack {
        arrived: 3 * SIZE,
        ..Ack::from_state(reader_at(0, 0))
    }
    .encode(&mut ack);
    for bit in (0..ack.len() * 8).filter(|bit| !(48..64).contains(bit)) {
        let mut altered = ack.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let mut sut = writer();
        give(&mut sut, |out| out.extend_from_slice(&altered));
        assert_writer_refuses(sut, "was altered in transit");
    }
}

#[test]
fn a_writer_does_not_believe_a_hello_that_cannot_be_true() {
    for (state, words) in [
        (reader_at(4 * SIZE, 0), "acknowledges 32 bytes, but only 24"),
        (
            reader_at(SIZE, 0),
            "reports 8 bytes, but it reported 16 before",
        ),
        (reader_at(3 * SIZE, 4 * SIZE), "has read 32"),
    ] {
        let mut sut = writer();
        let refused = sut.handle_hello(NOW, 2, &hello(READER, EndState::Reader(state), 2));
        let Refused { code, sentence, .. } = refused.unwrap_err();
        assert!(
            code == FaultCode::Malformed && sentence.contains(words),
            "{sentence}"
        );
        assert!(sut.is_connected(), "the connection that there was stays");
        assert_eq!(sut.connection(), Some(1));
        give(&mut sut, |out| {
            Ack {
                arrived: 3 * SIZE,
                ..Ack::from_state(reader_at(0, 0))
            }
            .encode(out);
        });
        assert_eq!(sut.freed(), 3 * SIZE);
    }
}

/// The reader has ended the connection in these words, kept its elements, and continues with an
/// honest writer.
fn assert_reader_refuses(mut sut: ReaderLink, words: &str) {
    let said = sentence(sut.wants_close());
    assert!(said.contains(words), "{said}");
    assert_eq!((sut.fault(), sut.ready()), (None, (2 * SIZE, 2)));
    sut.handle_disconnected(NOW, 1, Disconnect::PeerClosed);
    let written = 3 * SIZE;
    let state = WriterState {
        kept: SIZE,
        kept_elements: 1,
        written,
    };
    sut.handle_hello(NOW, 1, &hello(WRITER, EndState::Writer(state), 2))
        .unwrap();
    data(&mut sut, 2 * SIZE, SIZE as usize, None);
    assert_eq!(sut.ready(), (3 * SIZE, 3));
}

#[test]
fn reader_disconnects_a_writer_with_misplaced_bytes() {
    for (position, len, crc32c, words) in [
        (
            2 * SIZE,
            4 * SIZE,
            None,
            "bytes up to position 48, but its credit ends at 40",
        ),
        (
            3 * SIZE,
            SIZE,
            None,
            "bytes for position 24, but the next position is 16",
        ),
        (
            SIZE,
            SIZE,
            None,
            "bytes for position 8, but the next position is 16",
        ),
        (0, 2 * SIZE, None, "the next position is 16"),
        (POSITION_MAX, SIZE, None, "a position of at most 2^62"),
        (2 * SIZE, SIZE, Some(1), "were altered in transit"),
    ] {
        let mut sut = reader(false);
        data(&mut sut, position, len as usize, crc32c);
        assert_reader_refuses(sut, words);
    }
    let mut sut = reader(true);
    data(&mut sut, 2 * SIZE, 2 * SIZE as usize, None);
    assert_reader_refuses(sut, "but the stream ends at 24");
}

#[test]
fn reader_disconnects_a_writer_that_changes_its_end() {
    let ends: [(u64, &str); 3] = [
        (4 * SIZE, "the end of the stream at 32"),
        (2 * SIZE, "the end of the stream at 16"),
        (SIZE, "the end of the stream at 8"),
    ];
    for (end, words) in ends {
        let mut sut = reader(true);
        let mut out = Vec::new();
        encode_end(end, &mut out);
        sut.handle_control(NOW, 1, &out);
        assert_reader_refuses(sut, words);
    }
    let mut sut = reader(false);
    let mut out = Vec::new();
    let code = FaultCode::StreamDestroyed;
    let abort = Abort {
        position: SIZE,
        transferred: SIZE,
        code,
        sentence: String::new(),
    };
    abort.encode(&mut out);
    sut.handle_control(NOW, 1, &out);
    assert_reader_refuses(sut, "the end of the stream at 8, but 16 bytes have arrived");
}

#[test]
fn reader_disconnects_a_peer_that_acts_as_a_reader() {
    let mut sut = reader(false);
    let mut out = Vec::new();
    Ack::from_state(reader_at(0, 0)).encode(&mut out);
    sut.handle_control(NOW, 1, &out);
    assert_reader_refuses(sut, "the writer sent a frame of kind 109");
}

#[test]
fn a_reader_does_not_believe_a_hello_that_cannot_be_true() {
    for (kept, written, words) in [
        (0, SIZE, "has written 8 bytes, but 16 have arrived"),
        (
            3 * SIZE,
            2 * SIZE,
            "keeps bytes from position 24 on, but has written only 16",
        ),
    ] {
        let mut sut = reader(false);
        let state = WriterState {
            kept,
            kept_elements: kept / SIZE,
            written,
        };
        let refused = sut.handle_hello(NOW, 2, &hello(WRITER, EndState::Writer(state), 2));
        let Refused { code, sentence, .. } = refused.unwrap_err();
        assert!(
            code == FaultCode::Malformed && sentence.contains(words),
            "{sentence}"
        );
        assert_eq!((sut.connection(), sut.is_connected()), (Some(1), true));
    }
}

#[test]
fn bytes_of_a_replaced_connection_are_ignored() {
    let mut sut = writer();
    let state = EndState::Reader(reader_at(2 * SIZE, 0));
    let accepted = sut.handle_hello(NOW, 2, &hello(READER, state, 2)).unwrap();
    assert_eq!(accepted.replaced, Some(1));
    // It was sent on the old connection before; and one that would end the new one.
    for arrived in [3 * SIZE, 5 * SIZE] {
        give(&mut sut, |out| {
            Ack {
                arrived,
                ..Ack::default()
            }
            .encode(out)
        });
    }
    assert!(sut.is_connected() && sut.freed() == 2 * SIZE);
    sut.handle_disconnected(NOW, 1, Disconnect::PeerClosed);
    assert_eq!((sut.is_connected(), sut.disconnections()), (true, 1));
}

#[test]
fn delayed_hello_does_not_replace_a_later_one() {
    let mut sut = writer();
    let state = EndState::Reader(reader_at(2 * SIZE, 0));
    sut.handle_hello(NOW, 3, &hello(READER, state, 3)).unwrap();
    for attempt in [2, 3] {
        let refused = sut.handle_hello(NOW, 2, &hello(READER, state, attempt));
        assert_eq!(refused.unwrap_err().code, FaultCode::StreamOutdated);
    }
    assert_eq!(sut.connection(), Some(3));
}

#[test]
fn request_beyond_the_last_position_is_harmless() {
    let mut sut = reader(false);
    let mut out = Vec::new();
    for until in Until::REQUESTABLE {
        Ask {
            until,
            position: POSITION_MAX,
        }
        .encode(&mut out);
    }
    sut.handle_control(NOW, 1, &out);
    assert!(sut.is_connected());
}

#[test]
fn impossible_first_hello_leaves_no_state() {
    let (w, _) = options(5, 5, false);
    let mut sut = WriterLink::writer(w, NOW);
    let nonsense = EndState::Reader(reader_at(2 * SIZE, 3 * SIZE));
    assert!(
        sut.handle_hello(NOW, 1, &hello(READER, nonsense, 1))
            .is_err()
    );
    let state = EndState::Reader(reader_at(0, 0));
    sut.handle_hello(NOW, 2, &hello(READER, state, 1)).unwrap();
    assert_eq!((sut.freed(), sut.credit()), (0, 5 * SIZE));
    let (_, r) = options(5, 5, true);
    let mut sut = ReaderLink::reader(r, NOW);
    let (kept, written) = (3 * SIZE, 2 * SIZE);
    let nonsense = EndState::Writer(WriterState {
        kept,
        kept_elements: 3,
        written,
    });
    assert!(
        sut.handle_hello(NOW, 1, &hello(WRITER, nonsense, 1))
            .is_err()
    );
    let state = EndState::Writer(WriterState::default());
    sut.handle_hello(NOW, 2, &hello(WRITER, state, 1)).unwrap();
    assert_eq!(sut.ready(), (0, 0));
}

/// The end of a stream is the end of an element, whether it is announced before or after the bytes.
///
/// Behaviour: NS-66.
#[test]
fn end_within_an_element_is_a_mistake_of_the_writer() {
    for is_announced_first in [false, true] {
        for crc32c in [None, Some(crc32c::crc32c(&[0; 12]))] {
            let (_, r) = options(5, 5, true);
            let mut sut = ReaderLink::reader(r, NOW);
            let state = EndState::Writer(WriterState::default());
            sut.handle_hello(NOW, 1, &hello(WRITER, state, 1)).unwrap();
            let mut end = Vec::new();
            encode_end(12, &mut end);
            if is_announced_first {
                sut.handle_control(NOW, 1, &end);
                assert!(sut.is_connected());
            }
            data(&mut sut, 0, 12, crc32c);
            sut.handle_control(NOW, 1, &end);
            let sentence = sentence(sut.wants_close());
            assert!(sentence.contains("within an element"), "{sentence}");
            assert_eq!(sut.end(), None, "it is not the end");
            assert!(!sut.is_over());
        }
    }
}
