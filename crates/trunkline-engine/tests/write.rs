//! The checks and outcomes of a write: rights, type, scaling, range, deadband and timestamps. Every
//! write ends exactly once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use rig::{Rig, applied, done};
use trunkline_access::Action;
use trunkline_engine::{Caller, LateKept, Origin, Refusal, Rights, Write, WriteOutcome, WriteVerb};
use trunkline_types::{
    Access, Array, ArrayType, Clock, ClockSync, DataType, ElementType, Elements, EnumType, Level,
    Properties, Quality, Reason, Scaling, StructType, Timestamp, Value, Waveform, wire,
};

fn with(data_type: DataType, change: impl FnOnce(&mut Properties)) -> Properties {
    let mut properties = Properties::new(data_type);
    change(&mut properties);
    properties
}

fn refusal(outcome: WriteOutcome) -> Refusal {
    match outcome {
        WriteOutcome::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// Behaviour: B-01, B-20.
#[test]
fn writes_are_numbered_without_gaps_and_return_their_sequence() {
    let (rig, x) = Rig::plain();
    for sequence in 1..=100 {
        assert_eq!(rig.write(&x, sequence as f64), applied(sequence));
        assert_eq!((x.sequence(), x.update().sequence), (sequence, sequence));
    }
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!((ledger.offered, ledger.written), (100, 100));
}

/// Behaviour: SP-02, VS-10.
#[test]
fn reading_carries_value_timestamps_quality_and_writer() {
    let (rig, x) = Rig::plain();
    rig.advance(Duration::from_nanos(1));
    rig.write(&x, 72.5);
    let (sample, update) = (x.sample(), x.update());
    assert_eq!(sample.value, Value::F64(72.5));
    // The engine stamps samples without a source timestamp, with nanosecond precision.
    assert_eq!(sample.engine_timestamp, rig.wall());
    assert_eq!(sample.source_timestamp, rig.wall());
    assert_eq!(sample.quality, Quality::GOOD);
    assert_eq!(sample.quality.clock(), Clock::Engine);
    assert_eq!(update.writer, rig.caller.session);
}

/// Behaviour: B-40.
#[test]
fn source_timestamp_is_kept_to_the_nanosecond_and_quality_names_its_clock() {
    let (rig, x) = Rig::plain();
    let measured = rig.wall().saturating_add_nanos(-1_234_567_891);
    let value = Value::F64(1.0);
    let mut write = Write::value(&value);
    write.source_timestamp = Some(measured);
    assert_eq!(done(rig.attempt(&x, &write)), applied(1));
    let sample = x.sample();
    assert_eq!(
        (sample.source_timestamp, sample.engine_timestamp),
        (measured, rig.wall())
    );
    assert_eq!(sample.quality.clock(), Clock::Source);
    assert_eq!(sample.quality.clock_sync(), ClockSync::Unknown);

    // The clock state that the source reports is kept.
    write.quality = Some(Quality::GOOD.with_clock(Clock::Source, ClockSync::Synchronised));
    assert_eq!(done(rig.attempt(&x, &write)), applied(2));
    assert_eq!(x.sample().quality.clock_sync(), ClockSync::Synchronised);

    // Without a source timestamp the clock is the engine's.
    write.source_timestamp = None;
    assert_eq!(done(rig.attempt(&x, &write)), applied(3));
    assert_eq!(x.sample().quality.clock(), Clock::Engine);
    assert_eq!(x.sample().source_timestamp, rig.wall());
}

/// Behaviour: B-41.
#[test]
fn sample_from_an_unset_clock_is_marked_and_not_stored_as_1970() {
    let (rig, x) = Rig::plain();
    let value = Value::F64(1.0);
    for unset in [0, 315_532_800_000_000_000, -2_082_844_800_000_000_000] {
        let mut write = Write::value(&value);
        write.source_timestamp = Some(Timestamp::from_nanos(unset));
        assert!(matches!(
            done(rig.attempt(&x, &write)),
            WriteOutcome::Applied(_)
        ));
        let sample = x.sample();
        assert_eq!(sample.source_timestamp, rig.wall());
        assert_eq!(sample.quality.level(), Level::Uncertain);
        assert_eq!(sample.quality.reason(), Reason::ClockUnset);
        let clock = (sample.quality.clock(), sample.quality.clock_sync());
        assert_eq!(clock, (Clock::Source, ClockSync::Unset));
        rig.advance(Duration::from_secs(1));
    }
}

/// Behaviour: B-41.
#[test]
fn late_sample_does_not_overwrite_a_newer_live_value() {
    let (rig, x) = Rig::plain();
    let at = |seconds: i64, value: f64| {
        let value = Value::F64(value);
        let mut write = Write::value(&value);
        write.source_timestamp = Some(rig.wall().saturating_add_nanos(seconds * 1_000_000_000));
        done(rig.attempt(&x, &write))
    };
    assert_eq!(at(-10, 1.0), applied(1));
    let live = x.sample().source_timestamp;
    assert_eq!(
        at(-11, 2.0),
        WriteOutcome::Refused(Refusal::Late {
            live,
            kept: LateKept::Nowhere
        })
    );
    assert_eq!(x.sample().value, Value::F64(1.0));
    // A sample with the same timestamp is not older.
    assert_eq!(at(-10, 3.0), applied(2));
    // A sample without a timestamp is stamped on arrival, so samples measured earlier do not
    // replace it.
    assert_eq!(rig.write(&x, 4.0), applied(3));
    assert!(matches!(refusal(at(-1, 5.0)), Refusal::Late { .. }));
    assert!(x.ledger().is_balanced());
    assert_eq!(x.ledger().refused, 2);
}

#[test]
fn older_sample_replaces_a_live_value_that_was_not_measured() {
    let old = |rig: &Rig, x: &trunkline_engine::Variable| {
        let value = Value::F64(9.0);
        let mut write = Write::value(&value);
        write.source_timestamp = Some(rig.wall().saturating_add_nanos(-1));
        done(rig.attempt(x, &write))
    };
    let qualities = [
        Quality::bad(Reason::SensorFailure),
        Quality::uncertain(Reason::Retained),
        Quality::uncertain(Reason::Initial),
    ];
    for quality in qualities {
        let (rig, x) = Rig::plain();
        let value = Value::F64(1.0);
        let mut write = Write::value(&value);
        write.quality = Some(quality);
        assert_eq!(done(rig.attempt(&x, &write)), applied(1));
        assert_eq!(old(&rig, &x), applied(2), "{quality}");
    }
    // One sample from a clock that is a century ahead does not block all other sources.
    let (rig, x) = Rig::plain();
    let value = Value::F64(1.0);
    let mut write = Write::value(&value);
    write.source_timestamp = Some(rig.wall().saturating_add_nanos(i64::MAX / 4));
    assert_eq!(done(rig.attempt(&x, &write)), applied(1));
    assert_eq!(old(&rig, &x), applied(2));
}

/// Behaviour: SP-03.
#[test]
fn timestamps_can_be_switched_off() {
    let (rig, x) = Rig::of(with(DataType::F64, |p| p.timestamps = false));
    assert_eq!(rig.write(&x, 1.0), applied(1));
    let sample = x.sample();
    let none = Timestamp::UNIX_EPOCH;
    assert_eq!(
        (sample.source_timestamp, sample.engine_timestamp),
        (none, none)
    );
    assert_eq!(
        (sample.quality.level(), sample.quality.clock()),
        (Level::Good, Clock::Unknown)
    );
    // Without timestamps no sample is late.
    let value = Value::F64(2.0);
    let mut write = Write::value(&value);
    write.source_timestamp = Some(Timestamp::from_nanos(1));
    assert_eq!(done(rig.attempt(&x, &write)), applied(2));
    assert!(x.sample().quality.is_good());
}

#[test]
fn access_type_is_checked_first() {
    let (rig, x) = Rig::of(with(DataType::F64, |p| p.access = Access::ReadOnly));
    assert_eq!(refusal(rig.write(&x, 1.0)), Refusal::ReadOnly);
    assert_eq!(rig.publish(&x, 2.0), applied(1));
    assert_eq!(x.check_readable(&rig.caller), Ok(()));
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!((ledger.refused, ledger.written), (1, 1));

    let (rig, y) = Rig::of(with(DataType::F64, |p| p.access = Access::WriteOnly));
    assert_eq!(rig.write(&y, 1.0), applied(1));
    assert_eq!(
        y.check_readable(&rig.caller),
        Err(trunkline_engine::AccessError::NotReadable)
    );
    let mut consumer = rig.consumer();
    let contract = trunkline_types::Contract::Latest;
    let subscribed = consumer.subscribe(
        &rig.caller,
        &y,
        trunkline_engine::Subscribe::new(1, contract),
    );
    assert_eq!(subscribed, Err(trunkline_engine::AccessError::NotReadable));
    assert!(!consumer.has_subscription(1));
}

#[test]
fn caller_without_rights_is_refused_without_details() {
    let (rig, x) = Rig::of(with(DataType::F64, |p| p.access = Access::ReadOnly));
    let mut nobody = Caller::local(5, 1000);
    nobody.rights = Rights::NONE;
    let value = Value::Bool(true);
    let attempt = rig.attempt_as(&nobody, &x, &Write::value(&value));
    assert_eq!(
        refusal(done(attempt)),
        Refusal::Denied {
            action: Action::Write
        }
    );
    assert_eq!(
        x.check_readable(&nobody),
        Err(trunkline_engine::AccessError::Denied {
            action: Action::Read
        })
    );
    let mut reader = Caller::local(5, 1000);
    reader.rights = Rights::READ;
    assert_eq!(x.check_readable(&reader), Ok(()));
    assert_eq!(
        refusal(done(rig.attempt_as(&reader, &x, &Write::value(&value)))),
        Refusal::Denied {
            action: Action::Write
        }
    );
}

#[test]
fn value_of_the_wrong_type_is_refused_in_both_forms() {
    let (rig, x) = Rig::plain();
    let expected = || Refusal::WrongType {
        expected: "f64".to_owned(),
    };
    assert_eq!(refusal(rig.write(&x, Value::I32(1))), expected());
    assert_eq!(refusal(rig.write(&x, "1.0")), expected());
    for bytes in [&[][..], &[0; 7], &[0; 9], &[0; 4096]] {
        let outcome = done(rig.attempt(&x, &Write::wire(bytes)));
        assert!(
            matches!(refusal(outcome), Refusal::InvalidValue(_)),
            "{} bytes",
            bytes.len()
        );
    }
    let outcome = done(rig.attempt(&x, &Write::wire(&2.5f64.to_le_bytes())));
    assert_eq!((outcome, x.sample().value), (applied(1), Value::F64(2.5)));
    assert!(x.ledger().is_balanced());
    assert_eq!(x.ledger().refused, 6);

    let labels = DataType::Enum(Arc::new(EnumType {
        labels: vec!["OFF".into(), "ON".into()],
    }));
    let (rig, mode) = Rig::of(Properties::new(labels));
    assert_eq!(rig.write(&mode, Value::Enum(1)), applied(1));
    assert!(matches!(
        refusal(rig.write(&mode, Value::Enum(2))),
        Refusal::WrongType { .. }
    ));
    let outcome = done(rig.attempt(&mode, &Write::wire(&2u32.to_le_bytes())));
    assert!(matches!(refusal(outcome), Refusal::InvalidValue(_)));

    let (rig, text) = Rig::of(Properties::new(DataType::String));
    let outcome = done(rig.attempt(&text, &Write::wire(&[2, 0xff, 0xfe])));
    assert!(matches!(refusal(outcome), Refusal::InvalidValue(_)));
    // A length beyond the end of the input allocates nothing.
    let outcome = done(rig.attempt(&text, &Write::wire(&[0xff, 0xff, 0xff, 0xff, 0x0f, b'a'])));
    assert!(matches!(refusal(outcome), Refusal::InvalidValue(_)));
}

#[test]
fn value_over_the_limit_is_refused() {
    let (rig, x) = Rig::of(Properties::new(DataType::Bytes));
    let fits = Value::Bytes(vec![1; wire::VALUE_BYTES_MAX - 8].into());
    assert_eq!(rig.write(&x, fits), applied(1));
    let too_large = Value::Bytes(vec![1; wire::VALUE_BYTES_MAX].into());
    assert!(matches!(
        refusal(rig.write(&x, too_large)),
        Refusal::TooLarge { .. }
    ));
    let bytes = vec![0; wire::VALUE_BYTES_MAX + 1];
    let outcome = done(rig.attempt(&x, &Write::wire(&bytes)));
    assert!(matches!(refusal(outcome), Refusal::TooLarge { .. }));
}

/// Behaviour: SP-07.
#[test]
fn every_type_is_written_and_read_back_in_both_forms() {
    let labels = Arc::new(EnumType {
        labels: vec!["OFF".into(), "ON".into()],
    });
    let fields = vec![
        ("x".into(), DataType::F64),
        ("name".into(), DataType::String),
    ];
    let matrix =
        Array::new(vec![2, 3], Elements::I16(vec![1, 2, 3, -4, 5, 6])).expect("six elements");
    let texts = Array::vector(Elements::String(vec!["a".into(), "b".repeat(40).into()]));
    let waveform = Waveform {
        t0: rig::START,
        dt: 1e-3,
        samples: Elements::F32(vec![1.0, -2.0]),
        attributes: [("unit".into(), Value::String("V".into()))].into(),
    };
    let array_of = |element, shape| DataType::Array(Arc::new(ArrayType { element, shape }));
    let values = [
        (DataType::Bool, Value::Bool(true)),
        (DataType::I8, Value::I8(-8)),
        (DataType::I16, Value::I16(-16)),
        (DataType::I32, Value::I32(-32)),
        (DataType::I64, Value::I64(i64::MIN)),
        (DataType::U8, Value::U8(8)),
        (DataType::U16, Value::U16(16)),
        (DataType::U32, Value::U32(32)),
        (DataType::U64, Value::U64(u64::MAX)),
        (DataType::F32, Value::F32(0.1)),
        (DataType::F64, Value::F64(f64::MIN_POSITIVE)),
        (DataType::String, Value::String("ÄÖ\u{1F600}".into())),
        (DataType::Bytes, Value::Bytes(vec![0, 255, 7].into())),
        (DataType::Timestamp, Value::Timestamp(rig::START)),
        (DataType::Enum(labels), Value::Enum(1)),
        (
            array_of(ElementType::I16, vec![Some(2), None]),
            Value::Array(Arc::new(matrix)),
        ),
        (
            array_of(ElementType::String, vec![None]),
            Value::Array(Arc::new(texts)),
        ),
        (
            DataType::Struct(Arc::new(StructType { fields })),
            Value::Struct(vec![Value::F64(1.5), Value::String("p".into())].into()),
        ),
        (
            DataType::Waveform(ElementType::F32),
            Value::Waveform(Arc::new(waveform)),
        ),
    ];
    for (data_type, value) in values {
        let (rig, x) = Rig::of(Properties::new(data_type.clone()));
        assert_eq!(rig.write(&x, value.clone()), applied(1), "{data_type}");
        assert_eq!(x.sample().value, value, "{data_type}");
        let mut bytes = Vec::new();
        wire::encode_value(&value, &mut bytes);
        assert_eq!(x.update().value.as_slice(), bytes, "{data_type}");
        assert_eq!(
            done(rig.attempt(&x, &Write::wire(&bytes))),
            applied(2),
            "{data_type}"
        );
        assert_eq!(x.sample().value, value, "{data_type}");
    }
}

#[test]
fn strings_around_the_inline_length_are_read_back() {
    let (rig, x) = Rig::of(Properties::new(DataType::String));
    // The wire form adds one byte: 23 is the longest inline length, 24 the shortest that is stored
    // separately.
    let lengths = [0, 24, 23, 1, 25, 24, 0, 1000, 22, 24, 127, 128, 23, 0];
    for (index, length) in lengths.into_iter().enumerate() {
        let text = "x".repeat(length);
        assert_eq!(rig.write(&x, &*text), applied(index as u64 + 1));
        assert_eq!(x.sample().value, Value::String(text.into()));
    }
}

/// Behaviour: H-01, H-02, H-03.
#[test]
fn raw_values_of_the_source_are_scaled_and_client_values_are_not() {
    let linear = Scaling::Linear {
        raw: [4.0, 20.0],
        eng: [0.0, 200.0],
    };
    let (rig, x) = Rig::of(with(DataType::F64, |p| p.scaling = Some(linear)));
    for (raw, eng) in [(4.0, 0.0), (12.0, 100.0), (20.0, 200.0), (2.0, -25.0)] {
        rig.publish_raw(&x, raw);
        assert_eq!(x.sample().value, Value::F64(eng));
    }
    // A converter delivers counts.
    rig.publish_raw(&x, Value::U16(8));
    assert_eq!(x.sample().value, Value::F64(50.0));
    rig.write(&x, 4.0);
    assert_eq!(x.sample().value, Value::F64(4.0));
    rig.publish(&x, 5.0);
    assert_eq!(x.sample().value, Value::F64(5.0));

    let root = Scaling::SquareRoot {
        raw: [100.0, 500.0],
        eng: [10.0, 50.0],
    };
    let (rig, flow) = Rig::of(with(DataType::F64, |p| p.scaling = Some(root)));
    for (raw, eng) in [(100.0, 10.0), (200.0, 30.0), (500.0, 50.0)] {
        rig.publish_raw(&flow, raw);
        assert_eq!(flow.sample().value, Value::F64(eng));
    }

    let (rig, switch) = Rig::of(with(DataType::Bool, |p| p.scaling = Some(Scaling::Invert)));
    rig.publish_raw(&switch, Value::Bool(false));
    assert_eq!(switch.sample().value, Value::Bool(true));

    let bits = Scaling::BitField {
        invert: 0b1010,
        select: 0b0110,
    };
    let (rig, field) = Rig::of(with(DataType::U32, |p| p.scaling = Some(bits)));
    rig.publish_raw(&field, Value::U32(0b1100));
    assert_eq!(field.sample().value, Value::U32((0b1100 ^ 0b1010) & 0b0110));
}

#[test]
fn raw_value_that_cannot_be_scaled_makes_the_variable_bad() {
    let root = Scaling::SquareRoot {
        raw: [4.0, 20.0],
        eng: [0.0, 100.0],
    };
    let (rig, flow) = Rig::of(with(DataType::F64, |p| p.scaling = Some(root)));
    rig.publish_raw(&flow, 20.0);
    assert!(matches!(
        refusal(rig.publish_raw(&flow, 3.5)),
        Refusal::Scaling(_)
    ));
    let sample = flow.sample();
    assert_eq!(sample.quality, Quality::bad(Reason::OutOfRange));
    assert_eq!(sample.value, Value::F64(100.0));
    // Reported once, however often the source repeats the value.
    rig.publish_raw(&flow, 3.5);
    assert_eq!(flow.sequence(), 2);
    rig.publish_raw(&flow, 4.0);
    assert!(flow.sample().quality.is_good());
    let ledger = flow.ledger();
    assert!(ledger.is_balanced());
    assert_eq!((ledger.written, ledger.refused), (3, 2));
}

/// Behaviour: H-04.
#[test]
fn value_outside_the_range_is_refused_or_coerced() {
    let range = Some((0.0, 100.0));
    let (rig, x) = Rig::of(with(DataType::F64, |p| p.range = range));
    for outside in [-0.1, 100.1, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let refused = Refusal::OutOfRange {
            low: 0.0,
            high: 100.0,
        };
        assert_eq!(refusal(rig.write(&x, outside)), refused, "{outside}");
    }
    assert_eq!(rig.write(&x, 0.0), applied(1));
    assert_eq!(rig.write(&x, 100.0), applied(2));
    // Values from the source are never refused: they are shown with uncertain quality.
    assert_eq!(rig.publish(&x, 120.0), applied(3));
    let sample = x.sample();
    assert_eq!(sample.value, Value::F64(120.0));
    assert_eq!(sample.quality, Quality::uncertain(Reason::LimitsExceeded));

    let coercing = |data_type| {
        Rig::of(with(data_type, |p| {
            p.range = Some((0.5, 10.5));
            p.coerce = true;
        }))
    };
    let (rig, y) = coercing(DataType::F64);
    for (given, kept) in [(-3.0, 0.5), (11.0, 10.5), (f64::INFINITY, 10.5), (7.0, 7.0)] {
        assert!(matches!(rig.write(&y, given), WriteOutcome::Applied(_)));
        let sample = y.sample();
        assert_eq!(sample.value, Value::F64(kept));
        assert_eq!(sample.quality.is_coerced(), given != kept);
        assert_eq!(sample.quality.level(), Level::Good);
    }
    assert!(matches!(
        refusal(rig.write(&y, f64::NAN)),
        Refusal::OutOfRange { .. }
    ));
    rig.publish(&y, -1.0);
    assert!(y.sample().quality.is_coerced());
    assert_eq!(y.sample().quality.reason(), Reason::LimitsExceeded);

    // Integers are coerced to the nearest integer inside the range.
    let (rig, z) = coercing(DataType::U8);
    for (given, kept) in [(0, 1), (200, 10), (5, 5)] {
        rig.write(&z, Value::U8(given));
        assert_eq!(z.sample().value, Value::U8(kept));
    }
}

/// Behaviour: H-05, B-20.
#[test]
fn change_within_the_deadband_is_unchanged_and_names_the_update_it_equals() {
    let (rig, x) = Rig::of(with(DataType::F64, |p| {
        p.range = Some((0.0, 200.0));
        p.deadband.user_percent = 1.0;
        p.deadband.source_percent = 5.0;
    }));
    let unchanged = |sequence| WriteOutcome::Unchanged(sequence);
    assert_eq!(rig.write(&x, 50.0), applied(1));
    assert_eq!(rig.write(&x, 51.9), unchanged(1));
    assert_eq!(rig.write(&x, 48.1), unchanged(1));
    assert_eq!(rig.write(&x, 52.0), applied(2));
    // The deadband is relative to the current value, so a slow drift is still detected.
    assert_eq!(rig.write(&x, 53.9), unchanged(2));
    assert_eq!(rig.publish(&x, 61.9), unchanged(2));
    assert_eq!(rig.publish(&x, 62.0), applied(3));
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!(
        (ledger.offered, ledger.written, ledger.unchanged),
        (7, 3, 4)
    );
    assert_eq!(x.sample().value, Value::F64(62.0));

    // Without a range it is 100 wide; integers have no deadband.
    let (rig, y) = Rig::of(with(DataType::F32, |p| p.deadband.user_percent = 2.0));
    assert_eq!(rig.write(&y, Value::F32(1.0)), applied(1));
    assert_eq!(rig.write(&y, Value::F32(2.5)), unchanged(1));
    assert_eq!(rig.write(&y, Value::F32(3.0)), applied(2));
    let (rig, z) = Rig::of(with(DataType::I32, |p| p.deadband.user_percent = 50.0));
    assert_eq!(rig.write(&z, Value::I32(1)), applied(1));
    assert_eq!(rig.write(&z, Value::I32(2)), applied(2));
}

/// Behaviour: H-05.
#[test]
fn deadband_never_suppresses_quality_changes_or_steps_to_nan() {
    let (rig, x) = Rig::of(with(DataType::F64, |p| p.deadband.user_percent = 10.0));
    let with_quality = |value: f64, quality| {
        let value = Value::F64(value);
        let mut write = Write::value(&value);
        write.quality = Some(quality);
        done(rig.attempt(&x, &write))
    };
    assert_eq!(rig.write(&x, 1.0), applied(1));
    assert_eq!(
        with_quality(1.0, Quality::uncertain(Reason::Estimated)),
        applied(2)
    );
    assert_eq!(
        with_quality(1.0, Quality::uncertain(Reason::Estimated)),
        WriteOutcome::Unchanged(2)
    );
    assert_eq!(with_quality(1.0, Quality::GOOD), applied(3));
    for (sequence, step) in [f64::NAN, 1.0, f64::INFINITY, f64::NEG_INFINITY]
        .iter()
        .enumerate()
    {
        let sequence = sequence as u64 + 4;
        assert_eq!(rig.write(&x, *step), applied(sequence));
        let again = WriteOutcome::Unchanged(sequence);
        assert_eq!(rig.write(&x, *step), again, "{step}");
    }
}

#[test]
fn value_in_wire_form_is_processed_like_a_value() {
    let (rig, x) = Rig::of(with(DataType::F64, |p| {
        p.range = Some((0.0, 10.0));
        p.coerce = true;
        p.deadband.user_percent = 10.0;
        p.scaling = Some(Scaling::Linear {
            raw: [0.0, 1.0],
            eng: [0.0, 10.0],
        });
    }));
    let wire = |value: f64, origin| {
        let bytes = value.to_le_bytes();
        let mut write = Write::wire(&bytes);
        write.origin = origin;
        done(rig.attempt(&x, &write))
    };
    assert_eq!(wire(20.0, Origin::Client), applied(1));
    assert_eq!(x.sample().value, Value::F64(10.0));
    assert_eq!(wire(0.5, Origin::SourceRaw), applied(2));
    assert_eq!(x.sample().value, Value::F64(5.0));
    assert_eq!(wire(5.5, Origin::Client), WriteOutcome::Unchanged(2));
    let mut write = Write::wire(&[1, 2, 3]);
    write.origin = Origin::SourceRaw;
    assert!(matches!(
        refusal(done(rig.attempt(&x, &write))),
        Refusal::InvalidValue(_)
    ));
    let mut write = Write::wire(&[0; 16]);
    write.origin = Origin::SourceRaw;
    assert!(matches!(
        refusal(done(rig.attempt(&x, &write))),
        Refusal::InvalidValue(_)
    ));
}

/// A quality that the source reports while the variable is forced does not give it a value.
#[test]
fn variable_without_a_value_has_none_after_it_is_unforced() {
    let (rig, x) = Rig::plain();
    let set = |reason| {
        let mut wakes = trunkline_engine::Wakes::new();
        let quality = Quality::bad(reason);
        rig.engine
            .providers()
            .set_quality(x.handle(), quality, rig.now(), rig.wall(), &mut wakes);
    };
    let value = Value::F64(5.0);
    let put = |verb| {
        let mut write = Write::value(&value);
        write.verb = verb;
        done(rig.attempt(&x, &write));
    };
    set(Reason::NotConnected);
    put(WriteVerb::Force);
    assert!(x.sample().quality.has_value());
    set(Reason::ProviderGone);
    put(WriteVerb::Unforce);
    let expected = Quality::bad(Reason::ProviderGone).without_value();
    assert_eq!(x.sample().quality, expected);
}

#[test]
fn quality_of_a_variable_changes_without_a_value() {
    let (rig, x) = Rig::plain();
    let mut wakes = trunkline_engine::Wakes::new();
    let mut set = |quality| {
        rig.engine
            .providers()
            .set_quality(x.handle(), quality, rig.now(), rig.wall(), &mut wakes);
    };
    let bad = Quality::bad(Reason::NotConnected);
    set(bad);
    // Not written yet: the default of the type, marked as no value.
    assert_eq!(
        (x.sequence(), x.sample().value, x.sample().quality),
        (1, Value::F64(0.0), bad.without_value())
    );
    assert!(!x.sample().quality.has_value());
    set(bad);
    assert_eq!(x.sequence(), 1);
    rig.write(&x, 3.0);
    set(bad);
    assert_eq!(
        (x.sequence(), x.sample().value, x.sample().quality),
        (3, Value::F64(3.0), bad)
    );
    assert!(x.ledger().is_balanced());

    // A string that is not stored inline is kept too.
    let (rig, text) = Rig::of(Properties::new(DataType::String));
    let long = "x".repeat(100);
    rig.write(&text, &*long);
    rig.engine
        .providers()
        .set_quality(text.handle(), bad, rig.now(), rig.wall(), &mut wakes);
    assert_eq!(
        (text.sample().value, text.sample().quality),
        (Value::String(long.into()), bad)
    );
}

#[test]
fn upstream_losses_are_counted_in_the_ledger() {
    let (rig, x) = Rig::plain();
    rig.write(&x, 1.0);
    x.count_upstream_lost(5);
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!(
        (ledger.offered, ledger.written, ledger.upstream_lost),
        (6, 1, 5)
    );
}

#[test]
fn every_refusal_has_a_message() {
    let provider = Arc::from("plc");
    let refusals = [
        Refusal::ReadOnly,
        Refusal::Denied {
            action: Action::Write,
        },
        Refusal::WrongType {
            expected: "f64".into(),
        },
        Refusal::OutOfRange {
            low: 0.0,
            high: 1.0,
        },
        Refusal::TooLarge { bytes: 2, max: 1 },
        Refusal::Length {
            expected: 4,
            given: 3,
        },
        Refusal::Late {
            live: rig::START,
            kept: LateKept::Nowhere,
        },
        Refusal::Gone,
        Refusal::ProviderBusy {
            provider: Arc::clone(&provider),
            pending: 3,
        },
        Refusal::ProviderGone { provider },
    ];
    for refusal in refusals {
        let sentence = refusal.to_string();
        assert!(sentence.len() > 30, "{refusal:?}: {sentence}");
        assert!(!sentence.contains("{"), "{sentence}");
    }
    assert!(
        Refusal::Late {
            live: rig::START,
            kept: LateKept::Nowhere
        }
        .to_string()
        .contains("2026-01-01")
    );
}
