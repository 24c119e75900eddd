//! Between the endpoints of a stream.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::time::Duration;
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::keepalive::Keepalive;
use trunkline_proto::message::stream::control::{
    decode_goodbye, decode_keepalive, decode_refused, encode_goodbye, encode_keepalive,
    encode_refused,
};
use trunkline_proto::message::stream::directory::{
    Arrived, Lookup, Register, Registered, TicketGrant,
};
use trunkline_proto::message::stream::listing::{EndpointStatus, EndpointsPage, EndpointsQuery};
use trunkline_proto::message::stream::{
    Abort, Ack, Ask, Data, DataHead, EndState, Incarnation, Lost, POSITION_MAX, ReaderState,
    StreamEnd, StreamHello, StreamWelcome, Until, WriterState, decode_end, encode_end,
};
use trunkline_proto::stream::Secret;
use trunkline_proto::{Features, PROTOCOL_VERSION, VersionRange};

use super::{data_type, fault, frame, number};

fn position() -> impl Strategy<Value = u64> {
    prop_oneof![0..5000_u64, 0..=POSITION_MAX, Just(POSITION_MAX)]
}

fn state() -> impl Strategy<Value = EndState> {
    prop_oneof![
        [position(), position(), position()].prop_map(|[kept, kept_elements, written]| {
            EndState::Writer(WriterState {
                kept,
                kept_elements,
                written,
            })
        }),
        (
            [
                position(),
                position(),
                position(),
                position(),
                position(),
                position()
            ],
            number()
        )
            .prop_map(
                |(
                    [arrived, arrived_elements, read, durable, credit_bytes, lost],
                    credit_elements,
                )| {
                    EndState::Reader(ReaderState {
                        arrived,
                        arrived_elements,
                        read,
                        durable,
                        credit_bytes,
                        credit_elements,
                        lost,
                    })
                }
            ),
    ]
}

prop_compose! {
    fn end()(
        features: u64, incarnation: [u8; 16], urls in ("[ -~]{0,200}", "[a-z/:]{0,40}"),
        data_type in data_type(), capacity in number(), bytes_max in position(),
        has_journal: bool, program in "[ -~]{0,60}", state in state(),
    ) -> StreamEnd {
        StreamEnd {
            features: Features::from_bits(features), incarnation: Incarnation(incarnation),
            url: urls.0, peer_url: urls.1, data_type, capacity, bytes_max, has_journal, program,
            state,
        }
    }
}

proptest! {
    #[test]
    fn hello(versions: (u8, u8), end in end(), peer in option::of(any::<[u8; 16]>()),
        attempt in number(), ticket in option::of(any::<[u8; 16]>()),
        secrets: [Option<[u8; 32]>; 2]) {
        let [share, proof] = secrets.map(|secret| secret.map(Secret));
        let hello = StreamHello {
            versions: VersionRange { min: versions.0, max: versions.1 },
            end, peer: peer.map(Incarnation), attempt, ticket, share, proof,
        };
        let mut out = Vec::new();
        hello.encode(&mut out);
        prop_assert_eq!(&StreamHello::decode(&frame(&out)).unwrap(), &hello);
        out.clear();
        let welcome = StreamWelcome {
            version: PROTOCOL_VERSION, end: hello.end, share: proof, proof: share,
        };
        welcome.encode(&mut out);
        prop_assert_eq!(StreamWelcome::decode(&frame(&out)).unwrap(), welcome);
    }

    #[test]
    fn listing(versions: (u8, u8), texts: [String; 9], numbers: [u64; 5], flags: [bool; 3],
        times: [Option<u32>; 2], direction: Option<bool>, pid: u32) {
        let texts = texts.map(|text| text.chars().take(60).collect::<String>());
        let [url, data_type, last_disconnect, peer, peer_program, transport, fault, program, only] =
            texts;
        let [capacity, in_buffer, total, rate, disconnections] = numbers;
        let [away_for, stalled_for] = times.map(|ms| ms.map(|ms| Duration::from_millis(ms.into())));
        let mut out = Vec::new();
        let versions = VersionRange { min: versions.0, max: versions.1 };
        let query = EndpointsQuery { versions, after: url.clone(), only };
        query.encode(&mut out);
        prop_assert_eq!(EndpointsQuery::decode(&frame(&out)).unwrap(), query);
        out.clear();
        let status = EndpointStatus {
            url, is_writer: direction, data_type, capacity, in_buffer, total, rate,
            is_connected: flags[0], disconnections, away_for, stalled_for, last_disconnect, peer,
            peer_program, transport, fault, program, pid,
        };
        status.encode(&mut out);
        prop_assert_eq!(&EndpointStatus::decode(&frame(&out)).unwrap(), &status);
        out.clear();
        let mut endpoints = vec![status];
        if flags[2] {
            endpoints.push(EndpointStatus::default());
        }
        let page = EndpointsPage { endpoints, has_more: flags[1] };
        page.encode(7, &mut out);
        prop_assert_eq!(EndpointsPage::decode(&frame(&out)).unwrap(), page);
    }

    #[test]
    fn directory(versions: (u8, u8), url in "[ -~]{0,200}", life: [u8; 16], ticket: [u8; 16],
        program in "[ -~]{0,60}", pid: u32, ms: u32, bytes in vec(any::<u8>(), 0..80)) {
        let versions = VersionRange { min: versions.0, max: versions.1 };
        let incarnation = Incarnation(life);
        let mut out = Vec::new();
        let lookup = Lookup { versions, url: url.clone(), incarnation, program: program.clone() };
        lookup.encode(&mut out);
        prop_assert_eq!(Lookup::decode(&frame(&out)).unwrap(), lookup);
        out.clear();
        let register = Register { versions, url: url.clone(), incarnation, program, pid };
        register.encode(&mut out);
        prop_assert_eq!(Register::decode(&frame(&out)).unwrap(), register);
        out.clear();
        let valid_for = Duration::from_millis(u64::from(ms));
        let grant = TicketGrant { ticket, valid_for };
        grant.encode(&mut out);
        prop_assert_eq!(TicketGrant::decode(&frame(&out)).unwrap(), grant);
        out.clear();
        let registered = Registered { lease: valid_for, url };
        registered.encode(&mut out);
        prop_assert_eq!(Registered::decode(&frame(&out)).unwrap(), registered);
        out.clear();
        let arrived = Arrived { ticket, bytes: &bytes };
        arrived.encode(&mut out);
        prop_assert_eq!(Arrived::decode(&frame(&out)).unwrap(), arrived);
    }

    #[test]
    fn data(position in 0..POSITION_MAX - 100, crc32c: Option<u32>, is_short_of_room: bool,
        bytes in vec(any::<u8>(), 0..80)) {
        let len = bytes.len() as u32;
        let head = DataHead { position, len, crc32c, is_short_of_room };
        let data = Data { head, bytes: &bytes };
        let mut out = Vec::new();
        data.encode(&mut out);
        prop_assert_eq!(Data::decode(&frame(&out)).unwrap(), data);
    }

    #[test]
    fn control(positions in [position(), position(), position(), position()],
        credit_elements in number(), has_end: bool, until in 0..3_usize, fault in fault(),
        retry in option::of(1..u32::MAX), times: [u64; 3]) {
        let [arrived, read, durable, credit_bytes] = positions;
        let ack = Ack { arrived, read, durable, credit_bytes, credit_elements, has_end };
        let mut out = Vec::new();
        ack.encode(&mut out);
        prop_assert_eq!(Ack::decode(&frame(&out)).unwrap(), ack);
        let ask = Ask { until: Until::ASKED[until], position: read };
        out.clear();
        ask.encode(&mut out);
        prop_assert_eq!(Ask::decode(&frame(&out)).unwrap(), ask);
        out.clear();
        let lost = Lost { position: arrived, lost: durable };
        lost.encode(&mut out);
        prop_assert_eq!(Lost::decode(&frame(&out)).unwrap(), lost);
        out.clear();
        encode_end(read, &mut out);
        prop_assert_eq!(decode_end(&frame(&out)).unwrap(), read);
        let (code, sentence) = fault;
        let abort = Abort { position: read, transferred: arrived, code, sentence };
        out.clear();
        abort.encode(&mut out);
        prop_assert_eq!(&Abort::decode(&frame(&out)).unwrap(), &abort);
        let retry_after = retry.map(|ms| Duration::from_millis(u64::from(ms)));
        let sentence = abort.sentence;
        let refused = Refused {
            code, versions: VersionRange::OURS, retry_after, sentence: sentence.clone(),
        };
        out.clear();
        encode_refused(&refused, &mut out);
        prop_assert_eq!(decode_refused(&frame(&out)).unwrap(), refused);
        let goodbye = Goodbye { code, retry_after, sentence };
        out.clear();
        encode_goodbye(&goodbye, &mut out);
        prop_assert_eq!(decode_goodbye(&frame(&out)).unwrap(), goodbye);
        let [sent, echo, echo_held_ns] = times;
        let keepalive = Keepalive { sent, echo, echo_held_ns, ..Keepalive::default() };
        out.clear();
        encode_keepalive(&keepalive, &mut out);
        prop_assert_eq!(decode_keepalive(&frame(&out)).unwrap(), keepalive);
    }
}
