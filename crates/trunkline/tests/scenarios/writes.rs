//! The outcomes of writes, and their effects.

use trunkline::proto::FaultCode;
use trunkline::types::{Clock, Contract, Quality, Timestamp, Value};
use trunkline::{Write, WriteOutcome};

use crate::place::{Place, TIMEOUT, reading};

/// Behaviour: B-20, H-04, H-05, VS-05.
pub fn every_write_ends_in_exactly_one_way(place: &Place) {
    let write = |name: &str, value: Value| place.write(Write::new(place.variable(name), value));
    let applied = |outcome: &WriteOutcome, sequence| match outcome {
        WriteOutcome::Applied(position) => position.sequence == sequence,
        _ => false,
    };
    assert!(applied(&write("all/limited", Value::F64(10.0)), 1));
    let outcome = write("all/limited", Value::F64(101.0));
    let WriteOutcome::Refused(fault) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(fault.code, FaultCode::OutOfRange);
    assert!(fault.sentence.contains("0 to 100"), "{fault}");
    assert_eq!(
        place.read(place.variable("all/limited")).position.sequence,
        1
    );

    assert!(applied(&write("all/coerced", Value::I16(300)), 1));
    let coerced = place.read(place.variable("all/coerced"));
    assert_eq!(coerced.sample.value, Value::I16(100));

    assert!(applied(&write("all/quiet", Value::F64(50.0)), 1));
    let outcome = write("all/quiet", Value::F64(59.0));
    assert!(matches!(outcome, WriteOutcome::Unchanged(position) if position.sequence == 1));
    assert!(applied(&write("all/quiet", Value::F64(60.0)), 2));

    let WriteOutcome::Refused(fault) = write("all/readable", Value::F64(0.0)) else {
        panic!("it is read-only")
    };
    assert_eq!(fault.code, FaultCode::NotWritable);
    let WriteOutcome::Refused(fault) = write("all/f64", Value::Bool(true)) else {
        panic!("it is no bool")
    };
    assert_eq!(fault.code, FaultCode::WrongType);

    let writable = place.variable("all/writable");
    assert!(applied(
        &place.write(Write::new(writable, Value::F64(1.0))),
        1
    ));
    let read = place.client.read(&[writable], TIMEOUT).expect("an answer");
    assert_eq!(
        read[0].as_ref().map_err(|fault| fault.code),
        Err(FaultCode::NotReadable)
    );
}

/// Behaviour: B-40, B-41, NV-19.
pub fn readings_say_when_and_by_which_clock(place: &Place) {
    let variable = place.variable("all/f64");
    let at = Timestamp::from_nanos(1_795_000_000_123_456_789);
    let mut write = Write::new(variable, Value::F64(1.0));
    write.options.source_timestamp = Some(at);
    write.options.quality =
        Some(Quality::GOOD.with_clock(Clock::Source, trunkline::types::ClockSync::Synchronised));
    place.write(write);
    let reading = place.read(variable);
    assert_eq!(reading.sample.source_timestamp, at, "to the nanosecond");
    assert_eq!(reading.sample.quality.clock(), Clock::Source);
    assert!(reading.sample.engine_timestamp.is_plausible());

    let unset = place.variable("all/f32");
    let mut write = Write::new(unset, Value::F32(1.0));
    write.options.source_timestamp = Some(Timestamp::UNIX_EPOCH);
    place.write(write);
    let sample = place.read(unset).sample;
    assert!(
        sample.source_timestamp.is_plausible(),
        "never stored as 1970"
    );
    assert!(!sample.quality.is_good());

    let mut late = Write::new(variable, Value::F64(0.0));
    late.options.source_timestamp = Some(at.saturating_add_nanos(-1));
    let WriteOutcome::Refused(fault) = place.write(late) else {
        panic!("it is late")
    };
    assert_eq!(fault.code, FaultCode::Late);
    assert_eq!(place.read(variable).sample.value, Value::F64(1.0));
}

/// Behaviour: NV-20.
pub fn own_updates_come_back_marked(place: &Place) {
    let updates = place.subscribe("all/i32", Contract::ALL);
    assert_eq!(
        reading(&updates).position.sequence,
        0,
        "nothing was written yet"
    );
    let variable = place.variable("all/i32");
    place.write(Write::new(variable, Value::I32(7)));
    let own = reading(&updates);
    assert!(own.own && own.position.sequence == 1);
    let other = place
        .engine
        .variable::<i32>("all/i32")
        .expect("the variable exists");
    other.write(8).expect("applied");
    let foreign = reading(&updates);
    assert!(!foreign.own && foreign.position.sequence == 2);
}

/// Behaviour: VS-06, VS-07.
pub fn a_thousand_puts_are_packed_and_answered(place: &Place) {
    let variable = place.variable("all/f64");
    let writes = (0..1000).map(|i| Write::new(variable, Value::F64(f64::from(i))));
    place.client.write_untracked(writes, TIMEOUT).expect("room");
    let counts = place.client.flush(TIMEOUT).expect("answers");
    assert_eq!((counts.issued, counts.applied), (1000, 1000));
    let reading = place.read(variable);
    assert_eq!(
        (reading.position.sequence, reading.sample.value),
        (1000, Value::F64(999.0))
    );
}
