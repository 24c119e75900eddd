//! Libraries are deployed and undeployed as a whole. Names resolve to handles, and handles are
//! never reused.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;

use rig::{ConsumerEvent, Rig, applied, define, drain, library_of, updates};
use trunkline_access::Action;
use trunkline_engine::{
    AccessError, Attempt, Caller, DeployError, Refusal, Subscribe, UnknownLibrary, VARIABLES_MAX,
    Variable, Wakes, Write, WriteOutcome,
};
use trunkline_types::{
    ArrayType, Contract, DataType, Deadband, ElementType, EnumType, Fifo, Lost, Pattern, Position,
    Properties, Quality, Reason, Scaling, Scope, StepBudget, StructType, Value, VariableDefinition,
};

fn f64s(paths: &[&str]) -> Vec<VariableDefinition> {
    paths
        .iter()
        .map(|path| VariableDefinition::new(*path, DataType::F64))
        .collect()
}

fn refused(rig: &Rig, library: &str, variables: Vec<VariableDefinition>) -> DeployError {
    let definition = library_of(library, variables);
    rig.engine
        .libraries()
        .deploy(&definition, rig.now(), rig.wall())
        .expect_err("the library is invalid")
}

fn found(rig: &Rig, caller: &Caller, pattern: &str) -> Vec<String> {
    let pattern = Pattern::parse(pattern).expect("the pattern is valid");
    let mut names = Vec::new();
    let mut budget = StepBudget::new(usize::MAX);
    let end = rig
        .engine
        .find(caller, &pattern, 0, usize::MAX, &mut budget, |variable| {
            names.push(variable.name().to_owned());
        });
    assert_eq!(end, None);
    names
}

/// Behaviour: DP-01, DP-03.
#[test]
fn deployed_library_is_hosted_as_a_whole_whether_used_or_not() {
    let rig = Rig::new();
    assert!(matches!(
        rig.engine.resolve(&rig.caller, "plant/a"),
        Err(AccessError::UnknownName { .. })
    ));
    let handles = rig.deploy("plant", f64s(&["a", "b", "pump/mode"]));
    assert_eq!(handles.len(), 3);
    assert_eq!(rig.engine.libraries().variable_count(), 3);
    for (name, handle) in ["plant/a", "plant/b", "plant/pump/mode"]
        .iter()
        .zip(&handles)
    {
        let variable = rig.variable(name);
        assert_eq!((variable.name(), variable.handle()), (*name, *handle));
    }
    let libraries = rig.engine.libraries().all();
    assert_eq!(
        (libraries[0].name.as_str(), &libraries[0].handles),
        ("plant", &handles)
    );
}

#[test]
fn variable_stays_until_its_library_is_undeployed() {
    let rig = Rig::new();
    rig.deploy("plant", f64s(&["a"]));
    let a = rig.variable("plant/a");
    drop(rig.consumer());
    assert_eq!(rig.write(&a, 1.0), applied(1));

    assert_eq!(
        rig.engine
            .libraries()
            .undeploy("plant", rig.now(), rig.wall(), &mut Wakes::new()),
        Ok(1)
    );
    assert!(a.is_gone());
    assert!(rig.engine.resolve(&rig.caller, "plant/a").is_err());
    assert_eq!(rig.write(&a, 2.0), WriteOutcome::Refused(Refusal::Gone));
    let error = rig
        .engine
        .libraries()
        .undeploy("plant", rig.now(), rig.wall(), &mut Wakes::new())
        .expect_err("the variable was undeployed");
    assert_eq!(
        error,
        UnknownLibrary {
            name: "plant".to_owned()
        }
    );
    assert!(a.ledger().is_balanced());
}

#[test]
fn malformed_library_leaves_no_state() {
    let rig = Rig::new();
    rig.deploy("taken", f64s(&["a"]));
    let with = |change: &dyn Fn(&mut Properties)| {
        let mut properties = Properties::new(DataType::F64);
        change(&mut properties);
        vec![
            VariableDefinition::new("good", DataType::F64),
            define("wrong", properties),
        ]
    };
    let cases: Vec<(&str, Vec<VariableDefinition>)> = vec![
        ("taken", f64s(&["b"])),
        ("plant", f64s(&["a", "a"])),
        ("plant", f64s(&["good", ""])),
        ("plant", f64s(&["good", "a#units"])),
        ("pl/ant", f64s(&["good"])),
        ("", Vec::new()),
        ("plant", with(&|p| p.range = Some((10.0, 0.0)))),
        ("plant", with(&|p| p.range = Some((0.0, f64::NAN)))),
        ("plant", with(&|p| p.range = Some((f64::NEG_INFINITY, 0.0)))),
        (
            "plant",
            with(&|p| {
                p.deadband = Deadband {
                    user_percent: -1.0,
                    source_percent: 0.0,
                }
            }),
        ),
        ("plant", with(&|p| p.deadband.source_percent = f64::NAN)),
        ("plant", with(&|p| p.initial = Some(Value::Bool(true)))),
        ("plant", with(&|p| p.scaling = Some(Scaling::Invert))),
        (
            "plant",
            with(&|p| {
                p.fifo = Fifo::Multi {
                    capacity: 0,
                    length: 1,
                }
            }),
        ),
        ("plant", with(&|p| p.fifo = Fifo::Single { length: 0 })),
        (
            "plant",
            with(&|p| {
                p.fifo = Fifo::Multi {
                    capacity: u32::MAX,
                    length: 1,
                }
            }),
        ),
        (
            "plant",
            with(&|p| p.data_type = DataType::Enum(Arc::new(EnumType { labels: Vec::new() }))),
        ),
    ];
    for (library, variables) in cases {
        let error = refused(&rig, library, variables.clone());
        let sentence = error.to_string();
        assert!(
            sentence.len() > 20,
            "{error:?} has no useful message: {sentence}"
        );
        assert_eq!(rig.engine.libraries().variable_count(), 1, "{sentence}");
        assert_eq!(found(&rig, &rig.caller, "**"), ["taken/a"], "{sentence}");
        assert_eq!(rig.engine.libraries().all().len(), 1, "{sentence}");
    }
    // The failed deployment does not block the name.
    rig.deploy("plant", f64s(&["good"]));
}

/// Behaviour: SP-08, SP-09.
#[test]
fn fifo_and_scaling_are_refused_for_types_they_do_not_fit() {
    let rig = Rig::new();
    let array =
        |shape: Vec<Option<u32>>, element| DataType::Array(Arc::new(ArrayType { element, shape }));
    let cluster = |field| {
        DataType::Struct(Arc::new(StructType {
            fields: vec![("x".into(), field)],
        }))
    };
    let no_fifo = [
        cluster(array(vec![None], ElementType::F64)),
        cluster(DataType::F64),
        DataType::String,
        array(vec![None, None], ElementType::F64),
        array(vec![None], ElementType::String),
        array(vec![Some(0)], ElementType::F64),
        DataType::Waveform(ElementType::String),
    ];
    for data_type in no_fifo {
        let mut properties = Properties::new(data_type.clone());
        properties.fifo = Fifo::Multi {
            capacity: 4,
            length: 4,
        };
        let error = refused(&rig, "plant", vec![define("x", properties)]);
        assert!(
            matches!(error, DeployError::Fifo { .. }),
            "{data_type}: {error}"
        );
    }
    let linear = Scaling::Linear {
        raw: [0.0, 1.0],
        eng: [0.0, 100.0],
    };
    for data_type in [
        cluster(DataType::F64),
        DataType::String,
        array(vec![None], ElementType::F64),
    ] {
        let mut properties = Properties::new(data_type.clone());
        properties.scaling = Some(linear);
        let error = refused(&rig, "plant", vec![define("x", properties)]);
        assert!(
            matches!(error, DeployError::Scaling { .. }),
            "{data_type}: {error}"
        );
    }
}

#[test]
fn texts_invalid_in_files_are_refused_from_programs_too() {
    let rig = Rig::new();
    let with = |change: fn(&mut Properties)| {
        let mut variable = VariableDefinition::new("a", DataType::F64);
        change(Arc::make_mut(&mut variable.properties));
        refused(&rig, "plant", vec![variable]).to_string()
    };
    assert_eq!(
        with(|p| p.description = "a\u{1b}[31mb".into()),
        "plant/a: the description contains a control character (U+001B); leave it out"
    );
    assert_eq!(
        with(|p| p.description = "x".repeat(4097)),
        "plant/a: the description is longer than 4096 bytes; shorten it"
    );
    assert!(with(|p| p.units = "x".repeat(65)).contains("units is longer than 64 bytes"));
    assert!(with(|p| p.source = "a:\u{85}".into()).contains("U+0085"));
    let mut library = library_of("plant", f64s(&["a"]));
    library.description = "\u{7f}".into();
    let error = rig
        .engine
        .libraries()
        .deploy(&library, rig.now(), rig.wall());
    assert_eq!(
        error.unwrap_err().to_string(),
        "plant: the description contains a control character (U+007F); leave it out"
    );
    library.description = "several\nlines\tand tabs".into();
    assert!(
        rig.engine
            .libraries()
            .deploy(&library, rig.now(), rig.wall())
            .is_ok()
    );
}

#[test]
fn more_variables_than_fit_are_refused_before_anything_is_made() {
    let rig = Rig::new();
    let one = VariableDefinition::new("x", DataType::Bool);
    let error = refused(&rig, "plant", vec![one; VARIABLES_MAX]);
    assert!(matches!(error, DeployError::TooMany { needed, .. } if needed == VARIABLES_MAX));
    assert_eq!(rig.engine.libraries().variable_count(), 0);
}

/// Behaviour: H-17, SV-13.
#[test]
fn initial_value_is_update_one_and_marked_as_initial() {
    let mut properties = Properties::new(DataType::F64);
    properties.initial = Some(Value::F64(42.0));
    let (rig, x) = Rig::of(properties);
    let sample = x.sample();
    assert_eq!((x.sequence(), sample.value), (1, Value::F64(42.0)));
    assert_eq!(sample.quality, Quality::uncertain(Reason::Initial));
    assert!(x.ledger().is_balanced());

    // A value of the source replaces the initial value, no matter when it was measured.
    let value = Value::F64(7.0);
    let mut write = Write::value(&value);
    write.origin = trunkline_engine::Origin::Source;
    write.source_timestamp = Some(rig.wall().saturating_add_nanos(-3_600_000_000_000));
    assert_eq!(rig.attempt(&x, &write), Attempt::Done(applied(2)));
    assert_eq!(x.sample().value, Value::F64(7.0));
}

#[test]
fn variable_without_initial_value_has_no_value() {
    let (_rig, x) = Rig::plain();
    assert_eq!(x.sequence(), 0);
    let sample = x.sample();
    assert_eq!(
        (sample.value, sample.quality),
        (Value::F64(0.0), Quality::bad(Reason::NoValue))
    );
}

/// Behaviour: B-01.
#[test]
fn redeployed_variable_has_a_new_handle_and_continues_its_sequences() {
    let rig = Rig::new();
    let first = rig.deploy("plant", f64s(&["a", "b"]));
    let old = rig.variable("plant/a");
    rig.write(&old, 1.0);
    rig.engine
        .libraries()
        .undeploy("plant", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    let second = rig.deploy("plant", f64s(&["a", "b"]));
    assert!(first.iter().all(|handle| !second.contains(handle)));
    let new = rig.variable("plant/a");
    assert_eq!(new.sequence(), 0);
    assert_eq!(rig.write(&new, 2.0), applied(2));
    assert_eq!(new.ledger().written, 1);
    assert_eq!(rig.write(&rig.variable("plant/b"), 2.0), applied(1));
    assert_eq!(old.sample().value, Value::F64(1.0));
    assert!(old.is_gone() && rig.engine.variable(first[0]).is_none());
    assert_eq!(
        rig.engine.no_variable(&Caller::engine(), first[0]),
        AccessError::Gone
    );
}

/// Writes a variable twice, and deploys it again.
fn redeployed() -> (Rig, Arc<Variable>) {
    let (rig, x) = Rig::plain();
    rig.write(&x, 1.0);
    rig.write(&x, 2.0);
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    rig.deploy("rig", f64s(&["x"]));
    let x = rig.variable("rig/x");
    (rig, x)
}

/// Behaviour: B-02, B-10.
#[test]
fn repaired_record_without_a_value_does_not_count_as_an_update() {
    let (rig, x) = redeployed();
    let mut consumer = rig.consumer().confirmed_by_peer();
    rig.subscribe(&mut consumer, 3, Contract::Latest, &x);
    updates(&mut consumer);
    consumer.repair(3, x.handle());
    let ledger = consumer.ledger(3, x.handle()).expect("it is subscribed");
    assert_eq!((ledger.sent_unconfirmed, ledger.repaired), (0, 1));
}

/// A subscriber that has the last update of the former variable learns that this one has no value.
///
/// Behaviour: B-01.
#[test]
fn resuming_after_the_last_update_of_the_former_variable_delivers_that_there_is_no_value() {
    for contract in [Contract::Latest, Contract::Last(10), Contract::ALL] {
        let (rig, x) = redeployed();
        let mut consumer = rig.consumer();
        let wanted = Subscribe {
            resume: Some(Position {
                epoch: rig.engine.epoch(),
                sequence: 2,
            }),
            ..Subscribe::new(3, contract)
        };
        let subscribed = consumer.subscribe(&rig.caller, &x, wanted);
        assert_eq!(subscribed, Ok(()), "{contract}");
        let first = updates(&mut consumer);
        let qualities: Vec<Quality> = first.iter().map(|got| got.quality).collect();
        assert_eq!(qualities, [Quality::bad(Reason::NoValue)], "{contract}");
        assert_eq!(first[0].lost, Lost::NONE, "{contract}");
        rig.write(&x, 3.0);
        let next = updates(&mut consumer);
        assert_eq!(rig::sequences(&next), [3], "{contract}");
        assert_eq!(next[0].lost, Lost::NONE, "{contract}");
    }
}

#[test]
fn gone_follows_the_last_update_under_every_contract() {
    let contracts = [
        Contract::Latest,
        Contract::Last(10),
        Contract::First(10),
        Contract::ALL,
        Contract::Sampled(std::time::Duration::from_secs(1)),
    ];
    for contract in contracts {
        let (rig, x) = Rig::plain();
        rig.write(&x, 1.0);
        let mut consumer = rig.consumer();
        rig.subscribe(&mut consumer, 3, contract, &x);
        rig.write(&x, 2.0);
        rig.write(&x, 3.0);
        rig.engine
            .libraries()
            .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
            .expect("the library is deployed");
        let mut events = drain(&mut consumer);
        let gone = ConsumerEvent::Gone {
            subscription: 3,
            handle: x.handle(),
        };
        assert_eq!(events.pop(), Some(gone), "{contract}");
        let last = rig::only_updates(events).pop().map(|got| got.sequence);
        assert_eq!(last, Some(3), "{contract}");
        assert_eq!(consumer.item_count(), 0, "{contract}");
        assert_eq!(
            drain(&mut consumer),
            [],
            "{contract}: the end is reported once"
        );
        assert!(consumer.is_idle());
        let again = consumer.subscribe(&rig.caller, &x, Subscribe::new(3, contract));
        assert_eq!(again, Err(AccessError::Gone), "{contract}");
        assert!(!consumer.has_subscription(3));
    }
}

#[test]
fn end_of_one_library_leaves_the_subscriptions_of_another() {
    let rig = Rig::with(f64s(&["x"]));
    rig.deploy("other", f64s(&["y"]));
    let (x, y) = (rig.variable("rig/x"), rig.variable("other/y"));
    let mut consumer = rig.consumer();
    for variable in [&x, &y] {
        rig.subscribe(&mut consumer, 1, Contract::ALL, variable);
    }
    rig.write(&y, 1.0);
    rig.write(&x, 1.0);
    rig.engine
        .libraries()
        .undeploy("rig", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    rig.write(&y, 2.0);
    let events = drain(&mut consumer);
    assert_eq!(
        events
            .iter()
            .filter(|event| matches!(event, ConsumerEvent::Gone { .. }))
            .count(),
        1
    );
    assert_eq!(consumer.item_count(), 1);
    rig.write(&y, 3.0);
    assert_eq!(rig::sequences(&updates(&mut consumer)), [3]);
}

#[test]
fn single_process_variables_are_hidden_from_connections() {
    let mut properties = Properties::new(DataType::F64);
    properties.scope = Scope::Process;
    let (rig, x) = Rig::of(properties);
    let mut remote = Caller::local(9, 1000);
    remote.remote = true;
    assert!(matches!(
        rig.engine.resolve(&remote, "rig/x"),
        Err(AccessError::UnknownName {
            suggestion: None,
            ..
        })
    ));
    assert_eq!(rig.engine.suggest(&remote, "rig/X"), None);
    assert_eq!(
        rig.engine.suggest(&rig.caller, "rig/X").as_deref(),
        Some("rig/x")
    );
    assert!(rig.engine.visible(&remote, x.handle()).is_none());
    assert_eq!(found(&rig, &remote, "**"), [""; 0]);
    assert_eq!(found(&rig, &rig.caller, "**"), ["rig/x"]);
    assert_eq!(
        x.check_readable(&remote),
        Err(AccessError::Denied {
            action: Action::Read
        })
    );
    let mut consumer = rig.consumer();
    let subscribed = consumer.subscribe(&remote, &x, Subscribe::new(1, Contract::Latest));
    assert_eq!(
        subscribed,
        Err(AccessError::Denied {
            action: Action::Read
        })
    );
    let value = Value::F64(1.0);
    let attempt = rig.attempt_as(&remote, &x, &Write::value(&value));
    assert_eq!(
        attempt,
        Attempt::Done(WriteOutcome::Refused(Refusal::Denied {
            action: Action::Write
        }))
    );
}

#[test]
fn names_are_found_with_any_escaping() {
    let rig = Rig::with(f64s(&["50%25", "a b", "Über"]));
    assert_eq!(rig.variable("rig/50%25").name(), "rig/50%25");
    assert_eq!(rig.variable("rig/a b").name(), "rig/a b");
    assert_eq!(rig.variable("rig/Über").name(), "rig/Über");
    for nonsense in [
        "",
        "rig",
        "rig/",
        "/x",
        "rig//x",
        "rig/*",
        "rig/a\u{0}",
        "rig/50%",
    ] {
        let error = rig
            .engine
            .resolve(&rig.caller, nonsense)
            .expect_err("the name is invalid");
        assert!(
            matches!(error, AccessError::InvalidName(_)),
            "{nonsense:?}: {error}"
        );
    }
    let long = format!("rig/{}", "x".repeat(65_536));
    assert!(matches!(
        rig.engine.resolve(&rig.caller, &long),
        Err(AccessError::InvalidName(_))
    ));
}

#[test]
fn find_is_paged_without_gaps() {
    let paths: Vec<String> = (0..1000).map(|n| format!("pump{n}/speed")).collect();
    let rig = Rig::with(f64s(&paths.iter().map(String::as_str).collect::<Vec<_>>()));
    rig.deploy("gone", f64s(&["pump/speed"]));
    rig.engine
        .libraries()
        .undeploy("gone", rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
    let pattern = Pattern::parse("*/pump*/speed").expect("the pattern is valid");
    for (limit, steps) in [
        (1, 500),
        (10, 90_000),
        (1000, 0),
        (1000, 9000),
        (7, usize::MAX),
    ] {
        let mut names = Vec::new();
        let mut cursor = Some(0);
        let mut pages = 0;
        while let Some(from) = cursor {
            let before = names.len();
            let mut budget = StepBudget::new(steps);
            cursor = rig.engine.find(
                &rig.caller,
                &pattern,
                from,
                limit,
                &mut budget,
                |variable| {
                    names.push(variable.name().to_owned());
                },
            );
            pages += 1;
            assert!(names.len() - before <= limit, "a page exceeds its limit");
            assert!(pages <= 1002, "a page makes no progress");
        }
        let expected: Vec<String> = paths.iter().map(|path| format!("rig/{path}")).collect();
        assert_eq!(names, expected, "limit {limit}, {steps} steps");
    }
    let mut budget = StepBudget::new(1000);
    let behind = rig.engine.find(
        &rig.caller,
        &pattern,
        u32::MAX,
        10,
        &mut budget,
        |_| panic!(),
    );
    assert_eq!(behind, None);
}

/// The number of names in one slice depends on the lengths of the names and on the pattern.
///
/// Behaviour: B-83.
#[test]
fn slice_of_a_search_is_bounded_by_its_cost() {
    const STEPS: usize = 50_000;
    let paths: Vec<String> = (0..40)
        .map(|n| "ab/".repeat(300) + &n.to_string())
        .collect();
    let mut paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    paths.push("ab/c");
    let rig = Rig::with(f64s(&paths));
    let pattern = Pattern::parse("**/ab/**/a*b*/**/*a*b*/**/*b/*c").expect("the pattern is valid");
    let name = format!("rig/{}", paths[0]);
    let mut budget = StepBudget::new(usize::MAX);
    pattern.matches_within(&mut budget, &name);
    let of_one = usize::MAX - budget.left();
    assert!(of_one > 5_000, "a slow pattern: {of_one} steps");
    let (mut cursor, mut slices) = (0, Vec::new());
    loop {
        let mut budget = StepBudget::new(STEPS);
        let next = rig
            .engine
            .find(&rig.caller, &pattern, cursor, 1000, &mut budget, |_| {});
        let Some(next) = next else { break };
        slices.push((next - cursor.max(1)) as usize);
        cursor = next;
    }
    let most = STEPS / of_one + 1;
    assert!(
        slices.iter().all(|names| *names <= most),
        "{slices:?} of {most}"
    );
    assert!(slices.len() >= 40 / most - 1, "{slices:?}");
    let found = found(&rig, &rig.caller, "**/ab/**/a*b*/**");
    assert_eq!(found.len(), 40, "all matching names are found");
}

#[test]
fn equal_properties_are_stored_once() {
    let rig = Rig::new();
    let separate: Vec<VariableDefinition> = (0..100)
        .map(|n| VariableDefinition::new(format!("v{n}"), DataType::F64))
        .collect();
    rig.deploy("plant", separate);
    let first = rig.variable("plant/v0");
    let last = rig.variable("plant/v99");
    assert!(Arc::ptr_eq(&first.properties(), &last.properties()));
}
