//! Aliases find their targets, lose them and find them again.

use trunkline_engine::{Refusal, Wakes, WriteOutcome};
use trunkline_types::{DataType, Properties, Quality, Reason, Value};

use crate::rig::{Rig, applied, define, library_of};
use crate::{alias, balanced, f64s, pair, undeploy, value};

#[test]
fn alias_waits_for_its_target_loses_it_and_finds_it_again() {
    let rig = Rig::new();
    rig.deploy("view", vec![alias("x", "plant/x")]);
    let seen = rig.variable("view/x");
    let missing = Quality::bad(Reason::VariableMissing);
    assert_eq!(seen.sample().quality, missing.without_value());
    assert_eq!(
        rig.write(&seen, 1.0),
        WriteOutcome::Refused(Refusal::Unbound {
            target: "plant/x".into(),
            sentence: "the target plant/x does not exist; deploy the library that contains it"
                .into()
        })
    );
    rig.deploy("plant", vec![define("x", f64s())]);
    assert_eq!(seen.sample().quality.reason(), Reason::NoValue);
    assert_eq!(rig.write(&seen, 2.0), applied(3));
    undeploy(&rig, "plant");
    let lost = seen.sample();
    assert_eq!(
        (lost.value, lost.quality),
        (Value::F64(2.0), Quality::bad(Reason::VariableMissing))
    );
    // The target is redeployed with another type, and then with the original type.
    rig.deploy("plant", vec![define("x", Properties::new(DataType::Bytes))]);
    assert_eq!(
        seen.sample().quality,
        Quality::bad(Reason::ConfigurationError)
    );
    let replaced = library_of("plant", vec![define("x", f64s())]);
    rig.engine
        .libraries()
        .deploy_retained(
            &replaced,
            true,
            &|_, _| None,
            rig.now(),
            rig.wall(),
            &mut Wakes::new(),
        )
        .unwrap();
    rig.write(&rig.variable("plant/x"), 3.0);
    assert_eq!(value(&seen), Value::F64(3.0));
    assert!(seen.sample().quality.is_good());
    assert!(
        rig.variable("view/x").handle() == seen.handle(),
        "the alias stays bound"
    );
    balanced(&[&seen]);
}

#[test]
fn alias_with_a_replaced_target_shows_the_new_one() {
    let rig = Rig::new();
    rig.deploy("plant", vec![define("x", f64s()), define("y", f64s())]);
    rig.write(&rig.variable("plant/x"), 1.0);
    rig.write(&rig.variable("plant/y"), 2.0);
    rig.deploy("view", vec![alias("v", "plant/x")]);
    let seen = rig.variable("view/v");
    let library = library_of("view", vec![alias("v", "plant/y")]);
    rig.engine
        .libraries()
        .deploy_retained(
            &library,
            true,
            &|_, _| None,
            rig.now(),
            rig.wall(),
            &mut Wakes::new(),
        )
        .unwrap();
    assert_eq!((value(&seen), seen.sequence()), (Value::F64(2.0), 2));
    rig.write(&rig.variable("plant/x"), 9.0);
    assert_eq!(
        seen.sequence(),
        2,
        "the alias no longer follows the removed target"
    );
    // An undeployed alias gets no updates, and its target continues.
    undeploy(&rig, "view");
    assert_eq!(rig.write(&rig.variable("plant/y"), 3.0), applied(2));
    assert_eq!(seen.sequence(), 2);
}

/// When the alias's library starts, the alias shows the current value of its target.
#[test]
fn alias_takes_the_target_value_when_its_library_starts() {
    let (rig, x, seen) = pair(f64s());
    rig.write(&x, 1.0);
    let (now, wall) = (rig.now(), rig.wall());
    rig.engine
        .libraries()
        .stop("view", now, wall, &mut Wakes::new())
        .unwrap();
    rig.write(&x, 2.0);
    assert_eq!(value(&seen), Value::F64(1.0));
    assert_eq!(
        rig.write(&seen, 5.0),
        WriteOutcome::Refused(Refusal::LibraryStopped)
    );
    rig.engine
        .libraries()
        .start("view", now, wall, &mut Wakes::new())
        .unwrap();
    assert_eq!(value(&seen), Value::F64(2.0));
    assert!(seen.sample().quality.is_good());
    balanced(&[&x, &seen]);
}
