//! Variables with a FIFO: shared or per endpoint, overflow and underflow, declared lengths, and the
//! counts in the ledger.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::time::Duration;

use rig::{Rig, balanced, define, numbers, updates};
use trunkline_access::Action;
use trunkline_engine::realtime::{Pumped, RtError, RtRead, RtWrite};
use trunkline_engine::{AccessError, Caller, Refusal, Rights, Wakes, Write, WriteOutcome};
use trunkline_types::{
    Access, Array, ArrayType, Clock, Contract, DataType, ElementType, Elements, EnumType, Fifo,
    Properties, Quality, Reason, Scope, Timestamp, Value, VariableDefinition, Waveform,
};

const SINGLE: Fifo = Fifo::Single { length: 1 };

fn multi(capacity: u32) -> Fifo {
    Fifo::Multi {
        capacity,
        length: 1,
    }
}

fn fifo(scope: Scope, fifo: Fifo) -> Properties {
    let mut properties = Properties::new(DataType::F64);
    properties.scope = scope;
    properties.fifo = fifo;
    properties
}

/// Runs the pump. Returns true if it moved any element.
fn pump(rig: &Rig) -> bool {
    look(rig) != Pumped::Nothing
}

fn look(rig: &Rig) -> Pumped {
    rig.engine
        .realtime()
        .pump(rig.now(), rig.wall(), &mut Wakes::new())
}

fn at(nanos: i64) -> Timestamp {
    rig::START.saturating_add_nanos(nanos)
}

/// Behaviour: SP-11, SP-19.
#[test]
fn single_process_fifo_gives_each_element_to_one_reader() {
    let (rig, _x) = Rig::of(fifo(Scope::Process, multi(8)));
    let mut writers: Vec<_> = (0..2)
        .map(|_| {
            rig.engine
                .realtime()
                .writer(&rig.caller, "rig/x")
                .expect("the write is accepted")
        })
        .collect();
    let mut readers: Vec<_> = (0..2)
        .map(|_| {
            rig.engine
                .realtime()
                .reader(&rig.caller, "rig/x")
                .expect("the variable has a FIFO")
        })
        .collect();
    for n in 0..6 {
        assert_eq!(
            writers[n % 2].write(n as f64, at(n as i64)),
            RtWrite::Written
        );
    }
    let mut taken = Vec::new();
    for n in 0..6 {
        let reading = readers[n % 2].read::<f64>();
        assert_eq!(
            (reading.status, reading.timestamp),
            (RtRead::Fresh, Some(at(n as i64)))
        );
        taken.push(reading.value);
    }
    assert_eq!(
        taken,
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        "the readers get each element once, in order"
    );
}

/// Behaviour: SP-14, SP-15, SP-10.
#[test]
fn single_element_fifo_returns_the_newest_repeatedly() {
    for scope in [Scope::Process, Scope::Network] {
        let (rig, x) = Rig::of(fifo(scope, SINGLE));
        let mut readers: Vec<_> = (0..3)
            .map(|_| {
                rig.engine
                    .realtime()
                    .reader(&rig.caller, "rig/x")
                    .expect("the variable has a FIFO")
            })
            .collect();
        let mut writer = rig
            .engine
            .realtime()
            .writer(&rig.caller, "rig/x")
            .expect("the write is accepted");
        for value in [1.0, 2.0, 3.0] {
            for _ in 0..10 {
                assert_eq!(writer.write(value, rig.wall()), RtWrite::Written);
            }
            if scope == Scope::Network {
                pump(&rig);
            }
            for reader in &mut readers {
                for _ in 0..5 {
                    let reading = reader.read::<f64>();
                    assert_eq!((reading.value, reading.status), (value, RtRead::Fresh));
                }
                assert_eq!(reader.overflows(), 0);
            }
        }
        pump(&rig);
        let ledger = x.ledger();
        assert!(ledger.is_balanced());
        assert_eq!(ledger.offered, 30, "every write is accounted for");
        assert_eq!(
            (ledger.written + ledger.superseded, ledger.fifo_overflow),
            (30, 0)
        );
    }
}

/// Behaviour: SP-16, SP-17, SP-18, NV-18, NV-21.
#[test]
fn multi_element_fifo_reports_overflow_and_underflow() {
    let (rig, x) = Rig::of(fifo(Scope::Process, multi(3)));
    let mut reader = rig
        .engine
        .realtime()
        .reader(&rig.caller, "rig/x")
        .expect("the variable has a FIFO");
    let mut other = rig
        .engine
        .realtime()
        .reader(&rig.caller, "rig/x")
        .expect("the variable has a FIFO");
    let mut writer = rig
        .engine
        .realtime()
        .writer(&rig.caller, "rig/x")
        .expect("the write is accepted");
    let reading = reader.read::<f64>();
    assert_eq!((reading.value, reading.status), (0.0, RtRead::Underflow));
    for n in 1..=3 {
        assert_eq!(writer.write(f64::from(n), rig.wall()), RtWrite::Written);
    }
    assert_eq!(
        writer.write(4.0, rig.wall()),
        RtWrite::Overflowed { discarded: 1 }
    );
    assert_eq!(reader.overflows(), 1);
    for value in [2.0, 3.0] {
        let reading = reader.read::<f64>();
        assert_eq!((reading.value, reading.status), (value, RtRead::Fresh));
        assert_eq!(reading.timestamp, Some(rig.wall()));
    }
    let reading = other.read::<f64>();
    assert_eq!((reading.value, reading.status), (4.0, RtRead::Fresh));
    // An empty FIFO returns the last value that the same reader has read.
    let (reading, others) = (reader.read::<f64>(), other.read::<f64>());
    assert_eq!((reading.value, reading.status), (3.0, RtRead::Underflow));
    assert_eq!((others.value, others.status), (4.0, RtRead::Underflow));
    assert!(x.ledger().is_balanced());
}

/// Behaviour: NV-03, NV-04, NV-15.
#[test]
fn hosted_variable_has_a_fifo_per_writer_and_per_reader() {
    let (rig, x) = Rig::of(fifo(Scope::Network, multi(4)));
    let mut a = rig
        .engine
        .realtime()
        .writer(&rig.caller, "rig/x")
        .expect("the write is accepted");
    let mut b = rig
        .engine
        .realtime()
        .writer(&rig.caller, "rig/x")
        .expect("the write is accepted");
    let mut fast = rig
        .engine
        .realtime()
        .reader(&rig.caller, "rig/x")
        .expect("the variable has a FIFO");
    let mut slow = rig
        .engine
        .realtime()
        .reader(&rig.caller, "rig/x")
        .expect("the variable has a FIFO");
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::ALL, &x);
    updates(&mut consumer);
    // A full FIFO of one writer does not affect the other writer.
    for n in 1..=4 {
        assert_eq!(a.write(f64::from(n), rig.wall()), RtWrite::Written);
    }
    assert_eq!(
        a.write(5.0, rig.wall()),
        RtWrite::Overflowed { discarded: 1 }
    );
    assert_eq!(b.write(10.0, rig.wall()), RtWrite::Written);
    assert_eq!(
        fast.read::<f64>().status,
        RtRead::Underflow,
        "the pump has not run yet"
    );
    assert!(pump(&rig));
    assert_eq!(numbers(&updates(&mut consumer)), [2.0, 3.0, 4.0, 5.0, 10.0]);
    // Every reader sees every element, except those that its own FIFO discarded.
    for value in [3.0, 4.0, 5.0, 10.0] {
        assert_eq!(fast.read::<f64>().value, value);
    }
    assert_eq!((fast.overflows(), slow.overflows()), (1, 1));
    for n in 11..=14 {
        b.write(f64::from(n), rig.wall());
    }
    assert!(pump(&rig));
    assert_eq!(fast.read::<f64>().value, 11.0);
    assert_eq!((slow.read::<f64>().value, slow.overflows()), (11.0, 5));
    assert!(!pump(&rig));
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!(
        (ledger.offered, ledger.written, ledger.fifo_overflow),
        (10, 9, 1)
    );
    balanced(&consumer, 1, &x);
}

/// Behaviour: NV-03.
#[test]
fn reader_of_a_hosted_variable_begins_with_the_current_value() {
    let (rig, x) = Rig::of(fifo(Scope::Network, multi(4)));
    rig.write(&x, 1.0);
    rig.write(&x, 2.0);
    let mut reader = rig
        .engine
        .realtime()
        .reader(&rig.caller, "rig/x")
        .expect("the variable has a FIFO");
    rig.write(&x, 3.0);
    let readings: Vec<_> = (0..3).map(|_| reader.read::<f64>()).collect();
    assert_eq!(
        readings.iter().map(|r| r.value).collect::<Vec<_>>(),
        [2.0, 3.0, 3.0]
    );
    assert_eq!(readings[2].status, RtRead::Underflow);
    assert_eq!(x.subscribers(), 1);
    drop(reader);
    assert_eq!(x.subscribers(), 0);
}

#[test]
fn variable_with_real_time_readers_can_be_undeployed() {
    let (rig, x) = Rig::of(fifo(Scope::Network, multi(4)));
    let mut reader = rig
        .engine
        .realtime()
        .reader(&rig.caller, "rig/x")
        .expect("the variable has a FIFO");
    let mut writer = rig
        .engine
        .realtime()
        .writer(&rig.caller, "rig/x")
        .expect("the write is accepted");
    writer.write(1.0, rig.wall());
    pump(&rig);
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    writer.write(2.0, rig.wall());
    pump(&rig);
    assert_eq!((reader.read::<f64>().value, x.sequence()), (1.0, 1));
    assert_eq!(reader.read::<f64>().status, RtRead::Underflow);
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!(ledger.refused, 1);
}

/// The test holds the only other reference to the variable.
#[test]
fn pump_keeps_nothing_of_an_undeployed_variable() {
    for (kind, drops_first) in [
        (SINGLE, true),
        (SINGLE, false),
        (multi(4), true),
        (multi(4), false),
    ] {
        let (rig, x) = Rig::of(fifo(Scope::Process, kind));
        let mut writer = rig
            .engine
            .realtime()
            .writer(&rig.caller, "rig/x")
            .expect("the write is accepted");
        writer.write(1.0, rig.wall());
        let writer = (!drops_first).then_some(writer);
        rig.engine
            .libraries()
            .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
            .expect("the library is deployed");
        pump(&rig);
        assert_eq!(x.ledger().refused, 1, "{kind:?}: the element was handled");
        assert_eq!(Arc::strong_count(&x), 1, "{kind:?}, {drops_first}");
        if let Some(mut late) = writer {
            late.write(2.0, rig.wall());
            drop(late);
            assert!(
                pump(&rig),
                "{kind:?}: a mark of the removed FIFO is ignored"
            );
        }
    }
}

#[test]
fn two_writers_of_one_fifo_publish_each_value_once() {
    let (rig, x) = Rig::of(fifo(Scope::Process, SINGLE));
    let mut a = rig
        .engine
        .realtime()
        .writer(&rig.caller, "rig/x")
        .expect("the write is accepted");
    let mut b = rig
        .engine
        .realtime()
        .writer(&rig.caller, "rig/x")
        .expect("the write is accepted");
    a.write(1.0, rig.wall());
    b.write(2.0, rig.wall());
    pump(&rig);
    pump(&rig);
    assert_eq!((x.sequence(), x.sample().value), (1, Value::F64(2.0)));
    drop(a);
    pump(&rig);
    b.write(3.0, rig.wall());
    pump(&rig);
    assert_eq!((x.sequence(), x.sample().value), (2, Value::F64(3.0)));
    assert_eq!(x.ledger().superseded, 1);
}

#[test]
fn values_of_a_dropped_writer_are_published_and_its_slot_reused() {
    let (rig, x) = Rig::of(fifo(Scope::Network, multi(8)));
    for round in 0..1000u64 {
        let mut writer = rig
            .engine
            .realtime()
            .writer(&rig.caller, "rig/x")
            .expect("the write is accepted");
        writer.write(round as f64, rig.wall());
        drop(writer);
        pump(&rig);
        assert_eq!(
            (x.sequence(), x.sample().value),
            (round + 1, Value::F64(round as f64))
        );
    }
    // Only the engine and this test refer to the variable.
    pump(&rig);
    assert_eq!(Arc::strong_count(&x), 2);
}

/// Behaviour: SP-22.
#[test]
fn arrays_and_waveforms_have_the_declared_length() {
    let array = |shape| {
        DataType::Array(Arc::new(ArrayType {
            element: ElementType::I16,
            shape: vec![shape],
        }))
    };
    let of = |data_type: DataType| {
        let mut properties = fifo(
            Scope::Network,
            Fifo::Multi {
                capacity: 4,
                length: 3,
            },
        );
        properties.data_type = data_type;
        Rig::of(properties)
    };
    let vector =
        |elements: Vec<i16>| Value::Array(Arc::new(Array::vector(Elements::I16(elements))));
    for shape in [None, Some(3)] {
        let (rig, x) = of(array(shape));
        assert_eq!(rig.engine.realtime().words(&rig.caller, "rig/x"), Ok(3));
        let mut reader = rig
            .engine
            .realtime()
            .reader(&rig.caller, "rig/x")
            .expect("the variable has a FIFO");
        let mut writer = rig
            .engine
            .realtime()
            .writer(&rig.caller, "rig/x")
            .expect("the write is accepted");
        writer.write([1i16, -2, 3], rig.wall());
        pump(&rig);
        assert_eq!(x.sample().value, vector(vec![1, -2, 3]));
        assert_eq!(reader.read::<[i16; 3]>().value, [1, -2, 3]);
        rig.write(&x, vector(vec![-7, 8, 9]));
        assert_eq!(reader.read::<[i16; 3]>().value, [-7, 8, 9]);
        if shape.is_none() {
            for wrong in [vec![], vec![1, 2], vec![1, 2, 3, 4]] {
                let given = wrong.len() as u64;
                let refused = WriteOutcome::Refused(Refusal::Length { expected: 3, given });
                assert_eq!(rig.write(&x, vector(wrong)), refused);
            }
        }
        assert_eq!(reader.read::<[i16; 3]>().status, RtRead::Underflow);
        assert!(x.ledger().is_balanced());
    }

    let (rig, w) = of(DataType::Waveform(ElementType::F64));
    assert_eq!(rig.engine.realtime().words(&rig.caller, "rig/x"), Ok(5));
    let mut reader = rig
        .engine
        .realtime()
        .reader(&rig.caller, "rig/x")
        .expect("the variable has a FIFO");
    let mut writer = rig
        .engine
        .realtime()
        .writer(&rig.caller, "rig/x")
        .expect("the write is accepted");
    let samples = [1.5f64, -2.5, 3.5];
    let mut words = vec![at(7).as_nanos() as u64, 0.25f64.to_bits()];
    words.extend(samples.map(f64::to_bits));
    writer.write_words(&words, rig.wall());
    pump(&rig);
    let waveform = Waveform {
        t0: at(7),
        dt: 0.25,
        samples: Elements::F64(samples.to_vec()),
        attributes: [].into(),
    };
    assert_eq!(
        w.sample().value,
        Value::Waveform(Arc::new(waveform.clone()))
    );
    let (read, status) = reader.read_words();
    assert_eq!((&read[..5], status), (&words[..], RtRead::Fresh));
    let mut longer = waveform;
    longer.samples = Elements::F64(vec![0.0; 4]);
    let outcome = rig.write(&w, Value::Waveform(Arc::new(longer)));
    assert_eq!(
        outcome,
        WriteOutcome::Refused(Refusal::Length {
            expected: 3,
            given: 4
        })
    );
}

#[test]
fn every_scalar_type_passes_through_a_fifo_unchanged() {
    macro_rules! goes_through {
        ($data_type:expr, $given:expr, $ty:ty, $value:expr) => {
            for fifo_of in [SINGLE, multi(4)] {
                let mut properties = fifo(Scope::Network, fifo_of);
                properties.data_type = $data_type;
                let (rig, x) = Rig::of(properties);
                let mut reader = rig
                    .engine
                    .realtime()
                    .reader(&rig.caller, "rig/x")
                    .expect("the variable has a FIFO");
                let mut writer = rig
                    .engine
                    .realtime()
                    .writer(&rig.caller, "rig/x")
                    .expect("the write is accepted");
                let given: $ty = $given;
                writer.write(given, rig.wall());
                pump(&rig);
                assert_eq!(x.sample().value, $value);
                assert_eq!(reader.read::<$ty>().value, given);
            }
        };
    }
    goes_through!(DataType::Bool, true, bool, Value::Bool(true));
    goes_through!(DataType::I8, -8, i8, Value::I8(-8));
    goes_through!(DataType::I16, i16::MIN, i16, Value::I16(i16::MIN));
    goes_through!(DataType::I32, -32, i32, Value::I32(-32));
    goes_through!(DataType::I64, i64::MIN, i64, Value::I64(i64::MIN));
    goes_through!(DataType::U8, 200, u8, Value::U8(200));
    goes_through!(DataType::U16, 60_000, u16, Value::U16(60_000));
    goes_through!(DataType::U32, u32::MAX, u32, Value::U32(u32::MAX));
    goes_through!(DataType::U64, u64::MAX, u64, Value::U64(u64::MAX));
    goes_through!(DataType::F32, -0.5, f32, Value::F32(-0.5));
    goes_through!(DataType::F64, 1e300, f64, Value::F64(1e300));
    let instant = rig::START;
    goes_through!(
        DataType::Timestamp,
        instant.as_nanos(),
        i64,
        Value::Timestamp(instant)
    );
    let labels = DataType::Enum(Arc::new(EnumType {
        labels: vec!["A".into(), "B".into()],
    }));
    goes_through!(labels.clone(), 1, u32, Value::Enum(1));
}

#[test]
fn words_that_are_not_a_value_are_refused_and_counted() {
    let mut properties = fifo(Scope::Network, multi(4));
    let labels = vec!["A".into(), "B".into()];
    properties.data_type = DataType::Enum(Arc::new(EnumType { labels }));
    let (rig, x) = Rig::of(properties);
    let mut writer = rig
        .engine
        .realtime()
        .writer(&rig.caller, "rig/x")
        .expect("the write is accepted");
    writer.write(7u32, rig.wall());
    writer.write(1u32, rig.wall());
    pump(&rig);
    assert_eq!(x.sample().value, Value::Enum(1));
    let ledger = x.ledger();
    assert!(ledger.is_balanced());
    assert_eq!((ledger.written, ledger.refused), (1, 1));
}

/// Behaviour: SP-03.
#[test]
fn timestamp_is_sent_with_the_value_if_enabled() {
    for stamped in [true, false] {
        for scope in [Scope::Process, Scope::Network] {
            let mut properties = fifo(scope, multi(4));
            properties.timestamps = stamped;
            let (rig, x) = Rig::of(properties);
            let mut reader = rig
                .engine
                .realtime()
                .reader(&rig.caller, "rig/x")
                .expect("the variable has a FIFO");
            let mut writer = rig
                .engine
                .realtime()
                .writer(&rig.caller, "rig/x")
                .expect("the write is accepted");
            assert_eq!(rig.engine.realtime().words(&rig.caller, "rig/x"), Ok(1));
            writer.write(1.0, at(5));
            pump(&rig);
            let reading = reader.read::<f64>();
            assert_eq!(
                (reading.value, reading.timestamp),
                (1.0, stamped.then(|| at(5)))
            );
            let sample = x.sample();
            let expected = if stamped {
                at(5)
            } else {
                Timestamp::UNIX_EPOCH
            };
            assert_eq!(sample.source_timestamp, expected);
            let clock = if stamped {
                Clock::Source
            } else {
                Clock::Unknown
            };
            assert_eq!(sample.quality.clock(), clock);
        }
    }
}

/// Behaviour: B-08.
#[test]
fn elements_wait_in_their_fifo_while_an_all_subscription_is_full() {
    let mut properties = fifo(Scope::Network, multi(16));
    properties.stall = Duration::from_secs(10);
    let (rig, x) = Rig::of(properties);
    let mut consumer = rig.consumer();
    let two = Contract::All {
        elements: 2,
        bytes: 1000,
    };
    rig.subscribe(&mut consumer, 1, two, &x);
    updates(&mut consumer);
    let mut writer = rig
        .engine
        .realtime()
        .writer(&rig.caller, "rig/x")
        .expect("the write is accepted");
    for n in 1..=7 {
        writer.write(f64::from(n), rig.wall());
    }
    drop(writer);
    let mut got = Vec::new();
    for _ in 0..4 {
        assert_eq!(look(&rig), Pumped::Moved, "the pump must not retry at once");
        assert!(x.ledger().is_balanced());
        got.extend(numbers(&updates(&mut consumer)));
    }
    assert_eq!(got, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(x.ledger().written, 7);
    assert!(!pump(&rig));
    balanced(&consumer, 1, &x);
}

#[test]
fn long_fifos_are_emptied_alternately() {
    let paths = ["a", "b"].map(|path| define(path, fifo(Scope::Network, multi(5000))));
    let rig = Rig::with(paths.to_vec());
    let mut writers = ["rig/a", "rig/b"].map(|name| {
        rig.engine
            .realtime()
            .writer(&rig.caller, name)
            .expect("the write is accepted")
    });
    for writer in &mut writers {
        for n in 0..5000 {
            writer.write(f64::from(n), rig.wall());
        }
    }
    let mut rounds = 0;
    loop {
        let pumped = look(&rig);
        if pumped == Pumped::Nothing {
            break;
        }
        let (a, b) = (
            rig.variable("rig/a").sequence(),
            rig.variable("rig/b").sequence(),
        );
        assert!(
            a.abs_diff(b) <= 1024,
            "the two FIFOs are emptied alternately"
        );
        let is_over = (a, b) == (5000, 5000);
        assert_eq!(pumped, if is_over { Pumped::Moved } else { Pumped::More });
        rounds += 1;
        assert!(rounds < 10);
    }
    assert_eq!(
        (
            rig.variable("rig/a").sequence(),
            rig.variable("rig/b").sequence()
        ),
        (5000, 5000)
    );
}

#[test]
fn endpoint_is_refused_without_permission() {
    let rig = Rig::with(vec![
        VariableDefinition::new("plain", DataType::F64),
        define("x", fifo(Scope::Process, SINGLE)),
        define("input", {
            let mut properties = fifo(Scope::Network, SINGLE);
            properties.access = Access::ReadOnly;
            properties
        }),
        define("output", {
            let mut properties = fifo(Scope::Network, SINGLE);
            properties.access = Access::WriteOnly;
            properties
        }),
    ]);
    let mut guest = Caller::local(2, 1000);
    guest.rights = Rights::NONE;
    let mut remote = Caller::local(3, 1000);
    remote.remote = true;
    let writer = |caller: &Caller, name| rig.engine.realtime().writer(caller, name).map(|_| ());
    let reader = |caller: &Caller, name| rig.engine.realtime().reader(caller, name).map(|_| ());
    // B-82: a variable that may not be read does not exist.
    let hidden = Err(RtError::Access(AccessError::UnknownName {
        name: "rig/x".to_owned(),
        suggestion: None,
    }));
    assert_eq!(writer(&guest, "rig/x"), hidden);
    assert_eq!(reader(&guest, "rig/x"), hidden);
    let mut viewer = Caller::local(4, 1000);
    viewer.rights = Rights::READ;
    assert_eq!(
        writer(&viewer, "rig/x"),
        Err(RtError::Refused(Refusal::Denied {
            action: Action::Write
        }))
    );
    assert_eq!(
        writer(&rig.caller, "rig/input"),
        Err(RtError::Refused(Refusal::ReadOnly))
    );
    assert_eq!(reader(&rig.caller, "rig/input"), Ok(()));
    assert_eq!(
        reader(&rig.caller, "rig/output"),
        Err(RtError::Access(AccessError::NotReadable))
    );
    assert_eq!(writer(&rig.caller, "rig/output"), Ok(()));
    let no_fifo = RtError::NoFifo {
        name: "rig/plain".to_owned(),
    };
    assert_eq!(writer(&rig.caller, "rig/plain"), Err(no_fifo.clone()));
    assert_eq!(reader(&rig.caller, "rig/plain"), Err(no_fifo.clone()));
    assert!(no_fifo.to_string().contains("set `fifo`"));
    let unknown = |result: Result<(), RtError>| match result {
        Err(RtError::Access(AccessError::UnknownName { suggestion, .. })) => suggestion,
        other => panic!("{other:?}"),
    };
    assert_eq!(unknown(writer(&remote, "rig/x")), None);
    assert_eq!(unknown(reader(&remote, "rig/x")), None);
    assert_eq!(
        unknown(reader(&rig.caller, "rig/X")).as_deref(),
        Some("rig/x")
    );
}

#[test]
fn ordinary_writes_reach_real_time_readers_and_quality_follows() {
    let (rig, x) = Rig::of(fifo(Scope::Network, SINGLE));
    let mut reader = rig
        .engine
        .realtime()
        .reader(&rig.caller, "rig/x")
        .expect("the variable has a FIFO");
    rig.write(&x, 4.0);
    assert_eq!(reader.read::<f64>().value, 4.0);
    let bad = Quality::bad(Reason::SensorFailure);
    rig.engine
        .providers()
        .set_quality(x.handle(), bad, rig.now(), rig.wall(), &mut Wakes::new());
    assert_eq!((reader.read::<f64>().value, x.sample().quality), (4.0, bad));
    let outcome = rig::done(rig.attempt(&x, &Write::wire(&9.0f64.to_le_bytes())));
    assert_eq!(
        (outcome, reader.read::<f64>().value),
        (rig::applied(3), 9.0)
    );
}

/// Behaviour: SP-19, SP-22.
#[test]
fn blocks_pass_through_unchanged() {
    for stamped in [true, false] {
        let mut properties = fifo(Scope::Process, multi(4));
        properties.timestamps = stamped;
        properties.data_type = DataType::Array(Arc::new(ArrayType {
            element: ElementType::F64,
            shape: vec![Some(100)],
        }));
        let (rig, x) = Rig::of(properties);
        let mut writer = rig
            .engine
            .realtime()
            .writer(&rig.caller, "rig/x")
            .expect("the write is accepted");
        let mut reader = rig
            .engine
            .realtime()
            .reader(&rig.caller, "rig/x")
            .expect("the variable has a FIFO");
        let block = |n: i64| -> Vec<f64> { (0..100).map(|at| (n * 1000 + at) as f64).collect() };
        for n in 1..=3 {
            assert_eq!(writer.write_slice(&block(n), at(n)), RtWrite::Written);
        }
        for n in 1..=3 {
            let reading = reader.read_slice::<f64>();
            assert_eq!(
                (reading.value, reading.status),
                (&block(n)[..], RtRead::Fresh)
            );
            assert_eq!(reading.timestamp, stamped.then(|| at(n)));
        }
        let reading = reader.read_slice::<f64>();
        assert_eq!(
            (reading.value, reading.status),
            (&block(3)[..], RtRead::Underflow)
        );
        // The variable's sample is the newest block, even though the reader has taken it out.
        pump(&rig);
        let Value::Array(array) = x.sample().value else {
            panic!("the value is not an array");
        };
        assert_eq!(array.elements(), &Elements::F64(block(3)));
        assert_eq!((x.sequence(), x.ledger().superseded), (1, 2));
    }
}
