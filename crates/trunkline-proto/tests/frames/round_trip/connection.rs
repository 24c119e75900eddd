//! A connection's life.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::time::Duration;
use trunkline_proto::message::closing::{Goodbye, Refused};
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::hello::{Hello, Resume, Welcome};
use trunkline_proto::message::keepalive::{Ack, AckBuilder, Grant, Keepalive};
use trunkline_proto::{Features, VersionRange};
use trunkline_types::Timestamp;

use super::{all, fault, fault_ref, frame, throughput};

proptest! {
    #[test]
    fn hello(versions: (u8, u8), features: u64, texts in any::<[String; 3]>(), numbers: [u32; 5],
        resume: Option<(u64, u64, [u8; 16])>, throughput in option::of(throughput())) {
        let [client_name, program, user] = texts.map(|text| text.chars().take(60).collect());
        let [pid, frame_max, message_max, window_records, window_bytes] = numbers;
        let hello = Hello {
            versions: VersionRange { min: versions.0, max: versions.1 },
            features: Features::from_bits(features),
            client_name, program, user, pid, frame_max, message_max, window_records, window_bytes,
            resume: resume.map(|(session, epoch, engine_id)| Resume { session, epoch, engine_id }),
            throughput,
        };
        let mut out = Vec::new();
        hello.encode(&mut out);
        prop_assert_eq!(Hello::decode(&frame(&out)).unwrap(), hello);
    }

    #[test]
    fn welcome(version: u8, features: u64, ids: (u64, [u8; 16], u64, bool), numbers: [u32; 7],
        wall: i64, names in ("[ -~]{0,256}", "[ -~]{0,256}"),
        throughput in option::of(throughput())) {
        let [frame_max, message_max, items_max, a, b, c, d] = numbers;
        let (epoch, engine_id, session, resumed) = ids;
        let welcome = Welcome {
            version, features: Features::from_bits(features), epoch, engine_id, session, resumed,
            frame_max, message_max, items_max, write_credit_count: a, write_credit_bytes: b,
            keepalive: Duration::from_millis(c.into()), deadline: Duration::from_millis(d.into()),
            wall: Timestamp::from_nanos(wall), engine_name: names.0, engine_version: names.1,
            throughput,
        };
        let mut out = Vec::new();
        welcome.encode(&mut out);
        prop_assert_eq!(Welcome::decode(&frame(&out)).unwrap(), welcome);
    }

    #[test]
    fn closings_and_faults(
        versions: (u8, u8), retry in option::of(1..=u32::MAX), at in fault(), request: u32
    ) {
        let retry_after = retry.map(|ms| Duration::from_millis(ms.into()));
        let (code, sentence) = at.clone();
        let versions = VersionRange { min: versions.0, max: versions.1 };
        let refused = Refused { code, versions, retry_after, sentence: sentence.clone() };
        let mut out = Vec::new();
        refused.encode(&mut out);
        prop_assert_eq!(Refused::decode(&frame(&out)).unwrap(), refused);
        out.clear();
        let goodbye = Goodbye { code, retry_after, sentence };
        goodbye.encode(&mut out);
        prop_assert_eq!(Goodbye::decode(&frame(&out)).unwrap(), goodbye);
        out.clear();
        let message = FaultMessage { request, fault: fault_ref(&at) };
        message.encode(&mut out);
        prop_assert_eq!(FaultMessage::decode(&frame(&out)).unwrap(), message);
    }

    #[test]
    fn signs_of_life(numbers: [u64; 5], grants in vec(any::<(u32, u64)>(), 0..5)) {
        let [sent, echo, echo_held_ns, records_received, digest] = numbers;
        let keepalive = Keepalive { sent, echo, echo_held_ns, records_received, digest };
        let mut out = Vec::new();
        keepalive.encode(&mut out);
        prop_assert_eq!(Keepalive::decode(&frame(&out)).unwrap(), keepalive);
        out.clear();
        let mut builder = AckBuilder::begin(&mut out, records_received);
        let grants: Vec<Grant> =
            grants.into_iter().map(|(subscription, more)| Grant { subscription, more }).collect();
        grants.iter().for_each(|grant| builder.push(*grant));
        builder.finish();
        let ack = Ack::decode(&frame(&out)).unwrap();
        prop_assert_eq!(ack.records_received(), records_received);
        prop_assert_eq!(all(ack), grants);
    }
}
