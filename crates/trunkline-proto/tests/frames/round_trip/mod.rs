//! Arbitrary content of frames with hand-written codecs round-trips. Declared frames have this test
//! in the crate.

mod requests;
mod streams;
mod values;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;
use trunkline_proto::frame::Frame;
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::record::UpdateRecord;
use trunkline_proto::message::updates::UpdatesBuilder;
use trunkline_proto::message::write::WriteBuilder;
use trunkline_proto::{FaultCode, FaultRef};
use trunkline_types::{Access, DataType, EnumType, Quality, Timestamp};

/// The one frame in `bytes`.
fn frame(bytes: &[u8]) -> Frame<'_> {
    let mut rest = bytes;
    let frame = Frame::take_from(&mut rest).unwrap().expect("a whole frame");
    assert!(rest.is_empty());
    frame
}

fn all<T, E: std::fmt::Debug>(items: impl Iterator<Item = Result<T, E>>) -> Vec<T> {
    items.map(Result::unwrap).collect()
}

/// Numbers near each other and far apart, as handles and sequences are.
fn handle() -> impl Strategy<Value = u32> {
    prop_oneof![0..50_u32, any::<u32>(), Just(u32::MAX)]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, any::<u64>(), Just(u64::MAX)]
}

fn time() -> impl Strategy<Value = Timestamp> {
    let nanos = prop_oneof![
        any::<i64>(),
        1_790_000_000_000_000_000..1_790_000_000_000_100_000_i64,
        Just(i64::MAX),
        Just(i64::MIN)
    ];
    nanos.prop_map(Timestamp::from_nanos)
}

fn quality() -> impl Strategy<Value = Quality> {
    prop_oneof![
        Just(Quality::GOOD),
        any::<u32>().prop_map(Quality::from_bits)
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..20), vec(any::<u8>(), 120..140)]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/]{0,12}", any::<String>()]
}

fn code() -> impl Strategy<Value = FaultCode> {
    (1..=u16::MAX).prop_map(FaultCode::from_number)
}

fn fault() -> impl Strategy<Value = (FaultCode, String)> {
    (code(), "[ -~]{0,40}")
}

fn data_type() -> impl Strategy<Value = DataType> {
    let labels = vec!["OFF".into(), "AUTO".into()];
    prop::sample::select(vec![
        DataType::F64,
        DataType::Bool,
        DataType::String,
        DataType::Enum(Arc::new(EnumType { labels })),
    ])
}

fn access() -> impl Strategy<Value = Access> {
    prop::sample::select(&[Access::ReadWrite, Access::ReadOnly, Access::WriteOnly])
}

/// An update record and its owned value.
fn record() -> impl Strategy<Value = (UpdateRecord<'static>, Option<Vec<u8>>)> {
    let fields = (
        handle(),
        number(),
        time(),
        time(),
        quality(),
        any::<(bool, bool)>(),
    );
    (fields, option::of(bytes())).prop_map(|(fields, value)| {
        let (handle, sequence, engine_timestamp, source, quality, (own, same)) = fields;
        let source_timestamp = if same { engine_timestamp } else { source };
        let record = UpdateRecord {
            handle,
            sequence,
            engine_timestamp,
            source_timestamp,
            quality,
            own,
            value: None,
        };
        (record, value)
    })
}

fn joined<'a>((record, value): &'a (UpdateRecord<'static>, Option<Vec<u8>>)) -> UpdateRecord<'a> {
    UpdateRecord {
        value: value.as_deref(),
        ..*record
    }
}

fn fault_ref((code, sentence): &(FaultCode, String)) -> FaultRef<'_> {
    FaultRef {
        code: *code,
        sentence,
    }
}

#[test]
fn builders_without_items_take_their_frame_back() {
    let mut out = b"kept".to_vec();
    UpdatesBuilder::begin(&mut out, 1).finish();
    WriteBuilder::begin(&mut out, 1).finish();
    assert_eq!(out, b"kept");
}

#[test]
fn usual_update_costs_five_bytes_plus_its_value() {
    // Flags, sequence, engine time (two bytes for a microsecond step), value length.
    let record = |handle, ns| UpdateRecord {
        handle,
        sequence: 10 + u64::from(handle),
        engine_timestamp: Timestamp::from_nanos(ns),
        source_timestamp: Timestamp::from_nanos(ns),
        quality: Quality::GOOD,
        own: false,
        value: Some(&[0; 8]),
    };
    let mut out = Vec::new();
    let mut builder = UpdatesBuilder::begin(&mut out, 1);
    builder.push(&record(1, 1_000_000));
    let before = builder.len_bytes();
    builder.push(&record(2, 1_001_000));
    assert_eq!(builder.len_bytes() - before, 5 + 8);
    builder.finish();
}

#[test]
fn sentences_and_hello_texts_are_cut_at_a_character() {
    let long = "é".repeat(2000);
    let mut out = Vec::new();
    let fault = FaultRef {
        code: FaultCode::Internal,
        sentence: &long,
    };
    FaultMessage { fault }.encode(1, &mut out);
    let message = FaultMessage::decode(&frame(&out)).unwrap();
    assert_eq!(message.fault.sentence, "é".repeat(512));
    out.clear();
    let hello = Hello {
        client_name: long.clone(),
        program: long.clone(),
        user: long,
        ..Hello::default()
    };
    hello.encode(&mut out);
    assert!(
        out.len() < 4096,
        "a hello fits into the limit before the hello"
    );
    assert_eq!(
        Hello::decode(&frame(&out)).unwrap().client_name,
        "é".repeat(128)
    );
}
