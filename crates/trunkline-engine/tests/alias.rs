//! Aliases: variables that show and write others, with access, scaling and numbers of their own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at what it did not expect"
)]
#![cfg(not(shuttle))]

mod rig;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rig::{Rig, applied, define, done, drain, library_of, updates};
use trunkline_engine::explain::{Subject, Verdict};
use trunkline_engine::{
    ALIAS_DEPTH_MAX, ALIASES_MAX, AliasFault, Answer, Attempt, DeployError, Provider, Refusal,
    Ticket, Variable, Verb, Wakes, Write, WriteOutcome,
};
use trunkline_types::{
    Access, Contract, DataType, Position, Properties, Quality, Reason, Scaling, Scope, Timestamp,
    Value, VariableDefinition,
};

fn f64s() -> Properties {
    Properties::new(DataType::F64)
}

fn alias_of(target: &str, properties: Properties) -> Properties {
    Properties {
        alias: target.to_owned(),
        ..properties
    }
}

fn alias(path: &str, target: &str) -> VariableDefinition {
    define(path, alias_of(target, f64s()))
}

/// `plant/x` and `view/x`, an alias of it with these properties.
fn pair(properties: Properties) -> (Rig, Arc<Variable>, Arc<Variable>) {
    let rig = Rig::new();
    rig.deploy("plant", vec![define("x", f64s())]);
    rig.deploy("view", vec![define("x", alias_of("plant/x", properties))]);
    let (x, seen) = (rig.variable("plant/x"), rig.variable("view/x"));
    (rig, x, seen)
}

fn deploy(rig: &Rig, library: &str, variables: Vec<VariableDefinition>) -> Result<(), AliasFault> {
    let library = library_of(library, variables);
    let deployed = rig.engine.deploy(&library, rig.now(), rig.wall());
    match deployed {
        Ok(_) => Ok(()),
        Err(DeployError::Alias { fault, .. }) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

fn undeploy(rig: &Rig, library: &str) {
    rig.engine
        .undeploy(library, rig.now(), rig.wall(), &mut Wakes::new())
        .expect("it is deployed");
}

fn order(rig: &Rig, variable: &Variable, verb: Verb) -> WriteOutcome {
    done(rig.attempt(variable, &Write::order(verb)))
}

fn force(rig: &Rig, variable: &Variable, value: f64) -> WriteOutcome {
    let value = Value::F64(value);
    let mut write = Write::value(&value);
    write.verb = Verb::Force;
    done(rig.attempt(variable, &write))
}

fn value(variable: &Variable) -> Value {
    variable.sample().value
}

fn balanced(variables: &[&Arc<Variable>]) {
    for variable in variables {
        let ledger = variable.ledger();
        assert!(ledger.is_balanced(), "{variable:?} {ledger:?}");
    }
}

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
    assert_eq!(seen.sequence(), 0, "there is nothing to show yet");
    rig.write(&x, 1.5);
    rig.write(&x, 2.0);
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::ALL, &seen);
    assert_eq!((value(&seen), seen.sequence()), (Value::F64(20.0), 2));

    // Through the alias, in its units; the outcome has the alias's number.
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

/// Quality, source timestamp and cause travel along; the engine's timestamp is the engine's.
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
    rig.engine.set_quality(
        x.handle(),
        Quality::bad(Reason::SensorFailure),
        rig.now(),
        rig.wall(),
        &mut Wakes::new(),
    );
    assert_eq!(seen.sample().quality.reason(), Reason::SensorFailure);
    rig.engine
        .stop_library("plant", rig.now(), rig.wall(), &mut Wakes::new())
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
fn alias_has_access_range_and_deadband_of_its_own() {
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
        WriteOutcome::Unchanged { sequence: 2 },
        "the target took it, the alias's newest is still number 2"
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
    // And the target's own.
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
        "tight/x, which the variable is an alias of, refuses: the value is outside the range 0 to \
         1; write a value within it"
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
        Err(AliasFault::Misfit {
            sentence: "plant/x is f64, which cannot become string; give both one type".to_owned()
        })
    );
}

#[test]
fn alias_waits_for_its_target_loses_it_and_finds_it_again() {
    let rig = Rig::new();
    rig.deploy("view", vec![alias("x", "plant/x")]);
    let seen = rig.variable("view/x");
    assert_eq!(seen.sample().quality, Quality::bad(Reason::VariableMissing));
    assert_eq!(
        rig.write(&seen, 1.0),
        WriteOutcome::Refused(Refusal::Unbound {
            sentence: "plant/x is not deployed; deploy its library".into()
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
    // It comes back as something else, then as what it was.
    rig.deploy("plant", vec![define("x", Properties::new(DataType::Bytes))]);
    assert_eq!(
        seen.sample().quality,
        Quality::bad(Reason::ConfigurationError)
    );
    let replaced = library_of("plant", vec![define("x", f64s())]);
    rig.engine
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
        "it stayed"
    );
    balanced(&[&seen]);
}

#[test]
fn alias_replaced_by_one_of_another_target_shows_that() {
    let rig = Rig::new();
    rig.deploy("plant", vec![define("x", f64s()), define("y", f64s())]);
    rig.write(&rig.variable("plant/x"), 1.0);
    rig.write(&rig.variable("plant/y"), 2.0);
    rig.deploy("view", vec![alias("v", "plant/x")]);
    let seen = rig.variable("view/v");
    let library = library_of("view", vec![alias("v", "plant/y")]);
    rig.engine
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
    assert_eq!(seen.sequence(), 2, "it hears of that one no more");
    // Undeployed, it is told of nothing, and its target goes on.
    undeploy(&rig, "view");
    assert_eq!(rig.write(&rig.variable("plant/y"), 3.0), applied(2));
    assert_eq!(seen.sequence(), 2);
}

/// A start of the alias's library shows what its target holds by then.
#[test]
fn stopped_alias_takes_up_what_its_target_says_when_it_is_started() {
    let (rig, x, seen) = pair(f64s());
    rig.write(&x, 1.0);
    let (now, wall) = (rig.now(), rig.wall());
    rig.engine
        .stop_library("view", now, wall, &mut Wakes::new())
        .unwrap();
    rig.write(&x, 2.0);
    assert_eq!(value(&seen), Value::F64(1.0));
    assert_eq!(
        rig.write(&seen, 5.0),
        WriteOutcome::Refused(Refusal::LibraryStopped)
    );
    rig.engine
        .start_library("view", now, wall, &mut Wakes::new())
        .unwrap();
    assert_eq!(value(&seen), Value::F64(2.0));
    assert!(seen.sample().quality.is_good());
    balanced(&[&x, &seen]);
}

#[test]
fn cycles_are_refused_with_their_path_also_across_libraries() {
    let rig = Rig::new();
    let cycle = |path: &str| {
        Err(AliasFault::Cycle {
            path: path.to_owned(),
        })
    };
    assert_eq!(
        deploy(&rig, "a", vec![alias("x", "a/x")]),
        cycle("a/x -> a/x")
    );
    assert_eq!(
        deploy(&rig, "a", vec![alias("x", "a/y"), alias("y", "a/x")]),
        cycle("a/x -> a/y -> a/x")
    );
    rig.deploy("a", vec![alias("x", "b/x")]);
    rig.deploy("b", vec![alias("x", "c/x"), alias("z", "a/x")]);
    assert_eq!(
        deploy(&rig, "c", vec![alias("x", "b/z")]),
        cycle("a/x -> b/x -> c/x -> b/z -> a/x")
    );
    // Replaced, c would close it as well.
    rig.deploy("c", vec![define("x", f64s())]);
    let closing = library_of("c", vec![alias("x", "a/x")]);
    let (now, wall) = (rig.now(), rig.wall());
    let refused =
        rig.engine
            .deploy_retained(&closing, true, &|_, _| None, now, wall, &mut Wakes::new());
    assert!(refused.unwrap_err().to_string().contains("leads back"));
    // Nothing was changed.
    rig.write(&rig.variable("c/x"), 4.0);
    assert_eq!(value(&rig.variable("b/z")), Value::F64(4.0));
}

#[test]
fn chains_and_crowds_are_bounded() {
    let rig = Rig::new();
    rig.deploy("plant", vec![define("v0", f64s())]);
    let chain = |length: usize| {
        let aliases = (1..=length).map(|n| {
            let target = match n {
                1 => "plant/v0".to_owned(),
                n => format!("chain/v{}", n - 1),
            };
            alias(&format!("v{n}"), &target)
        });
        aliases.collect::<Vec<_>>()
    };
    let refused = deploy(&rig, "chain", chain(ALIAS_DEPTH_MAX + 1));
    assert_eq!(
        refused,
        Err(AliasFault::TooDeep {
            steps: ALIAS_DEPTH_MAX + 1,
            root: "plant/v0".to_owned()
        })
    );
    assert_eq!(deploy(&rig, "chain", chain(ALIAS_DEPTH_MAX)), Ok(()));
    let last = rig.variable(&format!("chain/v{ALIAS_DEPTH_MAX}"));
    assert_eq!(rig.write(&last, 1.0), applied(1));
    assert_eq!(value(&rig.variable("plant/v0")), Value::F64(1.0));
    undeploy(&rig, "chain");

    let crowd = |count: usize| {
        let aliases = (0..count).map(|n| alias(&format!("v{n}"), "plant/v0"));
        aliases.collect::<Vec<_>>()
    };
    assert_eq!(
        deploy(&rig, "crowd", crowd(ALIASES_MAX + 1)),
        Err(AliasFault::TooMany {
            root: "plant/v0".to_owned(),
            count: ALIASES_MAX + 1
        })
    );
    assert_eq!(deploy(&rig, "crowd", crowd(ALIASES_MAX)), Ok(()));
    // They share the limit, also through one of them.
    assert!(matches!(
        deploy(&rig, "more", vec![alias("x", "crowd/v0")]),
        Err(AliasFault::TooMany { .. })
    ));
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let rig = Rig::new();
    let url = deploy(&rig, "a", vec![alias("x", "tl://other/plant/x")]);
    assert_eq!(
        url.unwrap_err().to_string(),
        "its alias tl://other/plant/x is a URL; an alias leads to a variable of this engine: \
         write `library/path`"
    );
    let target = "plant/x#Units".to_owned();
    assert_eq!(
        deploy(&rig, "a", vec![alias("x", &target)]),
        Err(AliasFault::Field { target })
    );
    assert!(matches!(
        deploy(&rig, "a", vec![alias("x", "plant//x")]),
        Err(AliasFault::InvalidName { .. })
    ));
    for (key, properties) in [
        (
            "source",
            Properties {
                source: "plc:1".to_owned(),
                ..f64s()
            },
        ),
        (
            "initial",
            Properties {
                initial: Some(Value::F64(1.0)),
                ..f64s()
            },
        ),
        (
            "retain",
            Properties {
                retain: true,
                ..f64s()
            },
        ),
    ] {
        assert_eq!(
            deploy(
                &rig,
                "a",
                vec![define("x", alias_of("plant/x", properties))]
            ),
            Err(AliasFault::Contradicted { key })
        );
    }
    // What must not be seen through the network is not shown there by an alias.
    let hidden = Properties {
        scope: Scope::Process,
        ..f64s()
    };
    rig.deploy("own", vec![define("x", hidden)]);
    let refused = deploy(&rig, "a", vec![alias("x", "own/x")]);
    assert!(
        matches!(refused, Err(AliasFault::Misfit { .. })),
        "{refused:?}"
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
        .explain(&rig.caller, "b/x", rig.now(), rig.wall());
    let cause = steps.iter().find(|step| step.verdict == Verdict::Fault);
    let cause = cause.expect("forcing is why");
    assert_eq!(cause.subject, Subject::Source);
    assert!(
        cause
            .sentence
            .starts_with("it is an alias of plant/x: it is forced by"),
        "{}",
        cause.sentence
    );
    order(&rig, &x, Verb::Unforce);
    assert_eq!(value(&b), Value::F64(1.0));

    // In the middle: what is behind goes on, what follows is held.
    force(&rig, &a, 7.0);
    rig.write(&x, 3.0);
    assert_eq!(
        [&x, &a, &b].map(|v| value(v)),
        [3.0, 7.0, 7.0].map(Value::F64)
    );
    assert!(b.sample().quality.is_forced());
    rig.engine
        .set_forcing(&rig.caller, false, rig.now(), rig.wall(), &mut Wakes::new());
    assert_eq!([&a, &b].map(|v| value(v)), [3.0, 3.0].map(Value::F64));
    balanced(&[&x, &a, &b]);
}

/// Compare-and-set is in the alias's own numbers.
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
    let at = |sequence| {
        let value = Value::F64(9.0);
        let mut write = Write::value(&value);
        let epoch = rig::EPOCH;
        write.expected = Some(Position { sequence, epoch });
        done(rig.attempt(&seen, &write))
    };
    assert_eq!(
        at(5),
        WriteOutcome::Refused(Refusal::Conflict {
            epoch: rig::EPOCH,
            actual: 1
        })
    );
    assert_eq!(at(1), applied(2));
    assert_eq!(x.sequence(), 6);
}

/// Keeps what it is asked.
#[derive(Default)]
struct Plc {
    orders: Mutex<Vec<(Ticket, Value)>>,
    requests: Mutex<Vec<u32>>,
}

impl Provider for Plc {
    fn name(&self) -> Arc<str> {
        Arc::from("plc")
    }

    fn send(&self, ticket: Ticket, _handle: u32, raw: Value) {
        self.orders.lock().unwrap().push((ticket, raw));
    }

    fn request(&self, _ticket: Option<Ticket>, handle: u32) {
        self.requests.lock().unwrap().push(handle);
    }

    fn trouble(&self) -> Option<String> {
        None
    }
}

/// A write through an alias goes to the target's provider, and is answered in the alias's numbers.
#[test]
fn provider_of_the_target_answers_in_the_aliass_numbers() {
    let (rig, x, seen) = pair(f64s());
    rig.publish(&x, 1.0);
    rig.publish(&x, 2.0);
    undeploy(&rig, "view");
    rig.deploy("view", vec![alias("x", "plant/x")]);
    drop(seen);
    let seen = rig.variable("view/x");
    let plc = Arc::new(Plc::default());
    rig.engine
        .attach_provider(Arc::clone(&plc) as Arc<dyn Provider>, &[x.handle()]);
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &seen);
    drain(&mut consumer);
    let put = |id, value: f64| {
        let value = Value::F64(value);
        let mut write = Write::value(&value);
        write.completion = Some(consumer.completion(id));
        assert_eq!(rig.attempt(&seen, &write), Attempt::Pending);
        plc.orders.lock().unwrap().remove(0)
    };
    let (ticket, raw) = put(1, 5.0);
    let (second, _) = put(2, 6.0);
    assert_eq!((raw, seen.sequence()), (Value::F64(5.0), 1));
    let answer = |ticket, answer| {
        let mut wakes = Wakes::new();
        let (now, wall) = (rig.now(), rig.wall());
        rig.engine
            .answer(ticket, x.handle(), answer, now, wall, &mut wakes);
    };
    answer(ticket, Answer::Applied(Value::F64(5.0)));
    answer(second, Answer::Refused("it is locked".to_owned()));
    assert_eq!(consumer.take_completion(), Some((1, applied(2))));
    let (id, outcome) = consumer.take_completion().unwrap();
    assert!(matches!(
        (id, outcome),
        (2, WriteOutcome::Refused(Refusal::Provider { .. }))
    ));
    assert_eq!((seen.ledger().refused, x.ledger().refused), (1, 1));
    assert!(rig.engine.request(seen.handle()));
    assert_eq!(*plc.requests.lock().unwrap(), [x.handle()]);
    balanced(&[&x, &seen]);
}

/// Behaviour: H-20.
#[test]
fn why_names_the_target_that_is_missing() {
    let rig = Rig::new();
    rig.deploy("view", vec![alias("x", "plant/x")]);
    let steps = rig
        .engine
        .explain(&rig.caller, "view/x", rig.now(), rig.wall());
    let cause = steps.iter().find(|step| step.verdict == Verdict::Fault);
    assert_eq!(
        cause.map(|step| step.sentence.as_str()),
        Some("it is an alias, and plant/x is not deployed; deploy its library")
    );
    rig.deploy("plant", vec![define("x", f64s())]);
    let seen = rig.variable("view/x");
    assert_eq!(rig.engine.source_state(&seen), "it is an alias of plant/x");
}

/// A slow subscriber of an alias never holds up a writer of its target.
#[test]
fn full_subscription_of_an_alias_ends_and_the_target_goes_on() {
    let (rig, x, seen) = pair(Properties {
        stall: Duration::from_secs(5),
        ..f64s()
    });
    let mut consumer = rig.consumer();
    let contract = Contract::All {
        elements: 2,
        bytes: 1 << 20,
    };
    rig.subscribe(&mut consumer, 1, contract, &seen);
    for n in 1..=4 {
        assert_eq!(rig.write(&x, n as f64), applied(n));
    }
    let told = drain(&mut consumer);
    assert!(
        matches!(told.last(), Some(rig::Told::Overrun { items, .. }) if items[0].lost == 2),
        "{told:?}"
    );
    balanced(&[&x, &seen]);
}

/// Who is subscribed to an alias uses its target's library, too.
#[test]
fn subscriptions_of_aliases_count_as_use_of_the_targets_library() {
    let (rig, _x, seen) = pair(f64s());
    let used = |library| rig.engine.library_subscriptions(library);
    assert_eq!(used("plant"), Ok(0));
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::Latest, &seen);
    assert_eq!((used("plant"), used("view")), (Ok(1), Ok(1)));
    rig.deploy("further", vec![alias("x", "view/x")]);
    rig.subscribe(
        &mut consumer,
        2,
        Contract::Latest,
        &rig.variable("further/x"),
    );
    assert_eq!((used("plant"), used("view")), (Ok(2), Ok(2)));
}
