//! Between the endpoints of a stream.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use trunkline_proto::message::stream::{
    Data, DataHead, EndState, Incarnation, POSITION_MAX, ReaderState, StreamEnd, StreamHello,
    StreamWelcome, WriterState,
};
use trunkline_proto::stream::Secret;
use trunkline_proto::{Features, PROTOCOL_VERSION, VersionRange};

use super::{data_type, frame, number};

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
    fn data(position in 0..POSITION_MAX - 100, crc32c: Option<u32>, is_short_of_room: bool,
        bytes in vec(any::<u8>(), 0..80)) {
        let len = bytes.len() as u32;
        let head = DataHead { position, len, crc32c, is_short_of_room };
        let data = Data { head, bytes: &bytes };
        let mut out = Vec::new();
        data.encode(&mut out);
        prop_assert_eq!(Data::decode(&frame(&out)).unwrap(), data);
    }
}
