//! The values of an alias, and the effect of a write to it on its target.

use trunkline_engine::{AliasFault, Refusal, Wakes, Write, WriteOutcome, WriteVerb};
use trunkline_types::{
    Access, Contract, DataType, Position, Properties, Quality, Reason, Scaling, Timestamp, Value,
};
use trunkline_types::{WhyStage, WhyVerdict};

use crate::rig::{Rig, applied, define, done, updates};
use crate::{alias, alias_of, balanced, deploy, f64s, force, order, pair, undeploy, value};

/// Behaviour: H-20.
#[test]
fn alias_shows_and_writes_its_target_in_its_own_units_and_numbers() {
    let (rig, x, seen) = pair(Properties {
        scaling: Some(Scaling::Linear {
            raw: [0.0, 10.0],
            eng: [0.0, 100.0],
        }),
        ..f64s()
    });
    assert_eq!(seen.sequence(), 0, "the target has no value yet");
    rig.write(&x, 1.5);
    rig.write(&x, 2.0);
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::ALL, &seen);
    assert_eq!((value(&seen), seen.sequence()), (Value::F64(20.0), 2));

    // A write through the alias is in the alias's units. Its outcome has the alias's sequence.
    rig.write(&x, 2.5);
    assert_eq!(rig.write(&seen, 70.0), applied(4));
    assert_eq!((value(&x), x.sequence()), (Value::F64(7.0), 4));
    assert_eq!(value(&seen), Value::F64(70.0));
    let got: Vec<_> = updates(&mut consumer)
        .iter()
        .map(|got| (got.sequence, got.value.clone()))
        .collect();
    let expected = [(2, 20.0), (3, 25.0), (4, 70.0)].map(|(n, v)| (n, Value::F64(v)));
    assert_eq!(got, expected);
    balanced(&[&x, &seen]);
}

/// The alias takes quality, source timestamp and writer from its target, but has its own engine
/// timestamp.
#[test]
fn quality_and_time_of_the_target_travel_along() {
    let (rig, x, seen) = pair(f64s());
    let measured = Timestamp::from_nanos(rig.wall().as_nanos() - 5);
    let value = Value::F64(1.0);
    let mut write = Write::value(&value);
    write.source_timestamp = Some(measured);
    write.quality = Some(Quality::uncertain(Reason::Estimated).with_simulated(true));
    assert_eq!(done(rig.attempt(&x, &write)), applied(1));
    assert_eq!(seen.sample(), x.sample());
    rig.engine.providers().set_quality(
        x.handle(),
        Quality::bad(Reason::SensorFailure),
        rig.now(),
        rig.wall(),
        &mut Wakes::new(),
    );
    assert_eq!(seen.sample().quality.reason(), Reason::SensorFailure);
    rig.engine
        .libraries()
        .stop("plant", rig.now(), rig.wall(), &mut Wakes::new())
        .unwrap();
    assert_eq!(seen.sample().quality, Quality::bad(Reason::ProcessMissing));
    let refused = rig.write(&seen, 1.0);
    assert!(
        matches!(&refused, WriteOutcome::Refused(Refusal::Target { target, refusal })
            if &**target == "plant/x" && **refusal == Refusal::LibraryStopped),
        "{refused:?}"
    );
    balanced(&[&x, &seen]);
}

/// Behaviour: H-20.
#[test]
fn alias_has_its_own_access_range_and_deadband() {
    let (rig, x, seen) = pair(Properties {
        access: Access::ReadOnly,
        ..f64s()
    });
    assert_eq!(
        rig.write(&seen, 1.0),
        WriteOutcome::Refused(Refusal::ReadOnly)
    );
    assert_eq!(rig.write(&x, 1.0), applied(1));
    assert_eq!(value(&seen), Value::F64(1.0));

    let narrow = Properties {
        range: Some((0.0, 10.0)),
        coerce: true,
        deadband: trunkline_types::Deadband {
            user_percent: 0.0,
            source_percent: 10.0,
        },
        ..f64s()
    };
    let (rig, x, seen) = pair(narrow.clone());
    assert_eq!(rig.write(&seen, 99.0), applied(1));
    assert_eq!(value(&x), Value::F64(10.0), "coerced by the alias");
    assert!(x.sample().quality.is_coerced());
    rig.write(&x, 5.0);
    rig.write(&x, 5.5);
    assert_eq!((value(&seen), seen.sequence()), (Value::F64(5.0), 2));
    assert_eq!(
        rig.write(&seen, 5.2),
        WriteOutcome::Unchanged(2),
        "the target was written, but the alias's newest update is still number 2"
    );
    assert_eq!(value(&x), Value::F64(5.2));
    balanced(&[&x, &seen]);

    let (rig, x, seen) = pair(Properties {
        coerce: false,
        ..narrow
    });
    let (low, high) = (0.0, 10.0);
    assert_eq!(
        rig.write(&seen, 99.0),
        WriteOutcome::Refused(Refusal::OutOfRange { low, high })
    );
    assert_eq!(x.sequence(), 0);
    // The target's own range applies as well.
    rig.deploy(
        "tight",
        vec![define(
            "x",
            Properties {
                range: Some((0.0, 1.0)),
                ..f64s()
            },
        )],
    );
    rig.deploy("wide", vec![alias("x", "tight/x")]);
    let wide = rig.variable("wide/x");
    let sentence = match rig.write(&wide, 3.0) {
        WriteOutcome::Refused(refusal) => refusal.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        sentence,
        "the variable is an alias of tight/x, which refuses the write: the value is outside the \
         range 0 to 1; write a value within it"
    );
    assert_eq!(wide.ledger().refused, 1);
    assert_eq!(rig.variable("tight/x").ledger().refused, 1);
}

#[test]
fn numbers_become_the_aliass_type_or_are_out_of_its_range() {
    let (rig, x, seen) = pair(Properties::new(DataType::U8));
    rig.write(&x, 41.6);
    assert_eq!(value(&seen), Value::U8(42));
    assert_eq!(rig.write(&seen, Value::U8(7)), applied(2));
    assert_eq!(value(&x), Value::F64(7.0));
    rig.write(&x, 256.0);
    let bad = seen.sample();
    assert_eq!(
        (bad.value, bad.quality),
        (Value::U8(7), Quality::bad(Reason::OutOfRange))
    );
    balanced(&[&x, &seen]);
    let text = alias_of("plant/x", Properties::new(DataType::String));
    assert_eq!(
        deploy(&rig, "text", vec![define("x", text)]),
        Err(AliasFault::Mismatch {
            sentence:
                "plant/x is f64, which cannot be converted to string; give both the same type"
                    .to_owned()
        })
    );
}

/// Behaviour: H-27.
#[test]
fn forced_values_hold_through_chains_of_aliases() {
    let rig = Rig::new();
    rig.deploy("plant", vec![define("x", f64s())]);
    rig.deploy("a", vec![alias("x", "plant/x")]);
    rig.deploy("b", vec![alias("x", "a/x")]);
    let [x, a, b] = ["plant/x", "a/x", "b/x"].map(|name| rig.variable(name));
    rig.write(&x, 1.0);
    force(&rig, &x, 5.0);
    for seen in [&x, &a, &b] {
        assert_eq!(value(seen), Value::F64(5.0));
        assert!(seen.sample().quality.is_forced());
    }
    let refused = rig.write(&b, 2.0);
    assert!(
        matches!(&refused, WriteOutcome::Refused(Refusal::Target { target, refusal })
            if &**target == "plant/x" && matches!(**refusal, Refusal::Forced { .. })),
        "{refused:?}"
    );
    let steps = rig
        .engine
        .queries()
        .explain(&rig.caller, "b/x", rig.now(), rig.wall());
    let cause = steps.iter().find(|step| step.verdict == WhyVerdict::Fault);
    let cause = cause.expect("forcing is the cause");
    assert_eq!(cause.stage, WhyStage::Source);
    assert!(
        cause
            .sentence
            .starts_with("it is an alias of plant/x: it is forced by"),
        "{}",
        cause.sentence
    );
    order(&rig, &x, WriteVerb::Unforce);
    assert_eq!(value(&b), Value::F64(1.0));

    // Forces the alias in the middle: the target continues, and the alias of the forced alias is
    // forced.
    force(&rig, &a, 7.0);
    rig.write(&x, 3.0);
    assert_eq!(
        [&x, &a, &b].map(|v| value(v)),
        [3.0, 7.0, 7.0].map(Value::F64)
    );
    assert!(b.sample().quality.is_forced());
    rig.engine
        .forcing()
        .set(&rig.caller, false, rig.now(), rig.wall(), &mut Wakes::new())
        .expect("no host stores the audit");
    assert_eq!([&a, &b].map(|v| value(v)), [3.0, 3.0].map(Value::F64));
    balanced(&[&x, &a, &b]);
}

/// Compare-and-set uses the alias's own sequence.
#[test]
fn expected_position_is_the_aliass_own() {
    let (rig, x, seen) = pair(f64s());
    undeploy(&rig, "view");
    for n in 0..5 {
        rig.write(&x, f64::from(n));
    }
    rig.deploy("view", vec![alias("x", "plant/x")]);
    drop(seen);
    let seen = rig.variable("view/x");
    let position = |sequence| Position {
        sequence,
        epoch: crate::rig::EPOCH,
    };
    let at = |sequence| {
        let value = Value::F64(9.0);
        let mut write = Write::value(&value);
        write.expected = Some(position(sequence));
        done(rig.attempt(&seen, &write))
    };
    assert_eq!(
        at(5),
        WriteOutcome::Refused(Refusal::Conflict {
            actual: position(1),
            expected: position(5)
        })
    );
    assert_eq!(at(1), applied(2));
    assert_eq!(x.sequence(), 6);
}
