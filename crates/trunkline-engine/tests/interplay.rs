//! Combinations of groups, snapshots, leases, aliases, fields, forcing and the audit.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rig::{EPOCH, Rig, applied, define, done, library_of, numbers, updates};
use trunkline_engine::{
    Caller, GroupAttempt, GroupMember, GroupOutcome, LeaseRequest, Refusal, Variable, Wakes, Write,
    WriteOutcome, WriteVerb,
};
use trunkline_types::{
    AuditMode, Contract, DataType, Position, Properties, Quality, Reason, Scaling, Value,
    VariableDefinition,
};

fn f64s() -> Properties {
    Properties::new(DataType::F64)
}

fn audited() -> Properties {
    Properties {
        audit: AuditMode::Complete,
        ..f64s()
    }
}

fn alias_of(target: &str, properties: Properties) -> Properties {
    Properties {
        alias: target.to_owned(),
        ..properties
    }
}

/// Returns an engine with `plant/x` and `plant/y`, `view/x`, an alias of `plant/x`, and `far/x`, an
/// alias of `view/x`.
fn chain(target: Properties, alias: Properties) -> (Rig, [Arc<Variable>; 4]) {
    let rig = Rig::new();
    rig.deploy(
        "plant",
        vec![define("x", target.clone()), define("y", target)],
    );
    rig.deploy("view", vec![define("x", alias_of("plant/x", alias))]);
    rig.deploy("far", vec![define("x", alias_of("view/x", f64s()))]);
    let variables = ["plant/x", "plant/y", "view/x", "far/x"].map(|name| rig.variable(name));
    (rig, variables)
}

fn open(rig: &Rig, name: &str) -> Arc<Variable> {
    let opened = rig
        .engine
        .fields()
        .open(&rig.caller, name, rig.now(), rig.wall());
    Arc::clone(&opened.expect("it is deployed"))
}

fn group_as(rig: &Rig, caller: &Caller, members: &[(&Arc<Variable>, f64)]) -> GroupOutcome {
    let values: Vec<Value> = members.iter().map(|(_, n)| Value::F64(*n)).collect();
    let members: Vec<_> = members
        .iter()
        .zip(&values)
        .map(|((variable, _), value)| GroupMember {
            handle: variable.handle(),
            write: Write::value(value),
        })
        .collect();
    let (now, wall, mut wakes) = (rig.now(), rig.wall(), Wakes::new());
    match rig
        .engine
        .groups()
        .try_write(caller, now, wall, &members, &mut wakes)
    {
        GroupAttempt::Done(outcome) => outcome,
        other => panic!("the group has not ended: {other:?}"),
    }
}

fn group(rig: &Rig, members: &[(&Arc<Variable>, f64)]) -> GroupOutcome {
    group_as(rig, &rig.caller, members)
}

fn write_as(rig: &Rig, session: u32, variable: &Variable, value: f64) -> WriteOutcome {
    let (caller, value) = (Caller::local(session, 1000), Value::F64(value));
    done(rig.attempt_as(&caller, variable, &Write::value(&value)))
}

fn replace(rig: &Rig, library: &str, variables: Vec<VariableDefinition>) {
    let library = library_of(library, variables);
    let (now, wall, mut wakes) = (rig.now(), rig.wall(), Wakes::new());
    rig.engine
        .libraries()
        .deploy_retained(&library, true, &|_, _| None, now, wall, &mut wakes)
        .expect("the library is valid");
}

fn force(rig: &Rig, variable: &Variable, value: f64) {
    let value = Value::F64(value);
    let mut write = Write::value(&value);
    write.verb = WriteVerb::Force;
    assert!(matches!(
        done(rig.attempt(variable, &write)),
        WriteOutcome::Applied(_)
    ));
}

/// Returns the audit entries since the last call, as `action name old -> new: outcome`.
fn taken(rig: &Rig) -> Vec<String> {
    let entries = rig.engine.audit().take(1, usize::MAX);
    let described = |entry: &trunkline_types::AuditEntry| {
        let (action, name, outcome) = (entry.action, &entry.name, entry.outcome.name());
        format!("{action} {name} {} -> {}: {outcome}", entry.old, entry.new)
    };
    entries.iter().map(described).collect()
}

fn balanced(variables: &[Arc<Variable>]) {
    for variable in variables {
        let ledger = variable.ledger();
        assert!(ledger.is_balanced(), "{variable:?} {ledger:?}");
    }
}

/// Behaviour: B-23, H-20.
#[test]
fn group_with_an_alias_is_refused_with_a_remedy() {
    let (rig, variables) = chain(f64s(), audited());
    let [x, y, seen, _] = &variables;
    let ended = group(&rig, &[(y, 1.0), (seen, 1.0)]);
    assert_eq!((ended.commit, ended.refused_member), (None, Some(1)));
    let WriteOutcome::Refused(refusal @ Refusal::NotGroupable { .. }) = &ended.outcomes[1] else {
        panic!("{ended:?}");
    };
    assert!(refusal.to_string().contains("alias"));
    assert_eq!((x.sequence(), y.sequence(), seen.sequence()), (0, 0, 0));
    assert_eq!(taken(&rig), ["put view/x  -> 1.0: refused"]);
    balanced(&variables);
}

/// Behaviour: B-23, H-20, VS-08.
#[test]
fn group_reaches_the_aliases_of_its_members_their_fields_and_subscribers() {
    let scaled = Properties {
        scaling: Some(Scaling::Linear {
            raw: [0.0, 10.0],
            eng: [0.0, 100.0],
        }),
        ..f64s()
    };
    let (rig, variables) = chain(f64s(), scaled);
    let [x, y, seen, far] = &variables;
    let counted = open(&rig, "far/x#sequence");
    let own = open(&rig, "plant/x#sequence");
    let mut consumer = rig.consumer();
    for (id, variable) in (1..).zip([x, y, seen, far, &counted, &own]) {
        rig.subscribe(&mut consumer, id, Contract::ALL, variable);
    }
    updates(&mut consumer);
    for n in 1..=3 {
        let value = f64::from(n);
        let ended = group(&rig, &[(y, value), (x, value)]);
        assert_eq!(ended.outcomes, vec![applied(n as u64); 2]);
    }
    let got = updates(&mut consumer);
    let of = |id| -> Vec<_> {
        let own = got.iter().filter(|got| got.subscription == id);
        own.map(|got| got.value.clone()).collect()
    };
    let f64s = |values: [f64; 3]| values.map(Value::F64);
    assert_eq!(of(1), f64s([1.0, 2.0, 3.0]));
    assert_eq!(of(2), f64s([1.0, 2.0, 3.0]));
    assert_eq!(of(3), f64s([10.0, 20.0, 30.0]));
    assert_eq!(of(4), f64s([10.0, 20.0, 30.0]));
    assert_eq!(of(5), [1, 2, 3].map(Value::U64));
    assert_eq!(of(6), [1, 2, 3].map(Value::U64));
    for (id, variable) in (1..).zip([x, y, seen, far, &counted, &own]) {
        rig::balanced(&consumer, id, variable);
    }
    balanced(&variables);
}

/// One feed has the members of the group and an alias of one of them. It is too full for the alias,
/// which does not wait, but the reserved updates of the group still arrive. Behaviour: B-08, B-23.
#[test]
fn feed_ended_by_an_alias_within_a_group_stays_balanced() {
    let (rig, variables) = chain(f64s(), f64s());
    let [x, y, seen, _] = &variables;
    let mut consumer = rig.consumer();
    let contract = Contract::All {
        elements: 2,
        bytes: 1 << 20,
    };
    for variable in [x, y, seen] {
        consumer
            .subscribe(
                &rig.caller,
                variable,
                trunkline_engine::Subscribe::new(1, contract),
            )
            .expect("the variable can be subscribed");
    }
    updates(&mut consumer);
    assert!(group(&rig, &[(x, 1.0), (y, 1.0)]).commit.is_some());
    let events = rig::drain(&mut consumer);
    let (ends, rest): (Vec<_>, Vec<_>) = events
        .into_iter()
        .partition(|event| matches!(event, rig::ConsumerEvent::Overrun { .. }));
    assert_eq!(numbers(&rig::only_updates(rest)), [1.0, 1.0]);
    assert_eq!(ends.len(), 1);
    balanced(&variables);
}

/// Behaviour: B-12, B-23, VS-08.
#[test]
fn member_that_was_stale_is_fresh_again_by_a_group() {
    let (rig, x) = Rig::of(Properties {
        max_age: Some(Duration::from_secs(1)),
        ..f64s()
    });
    let stale = open(&rig, "rig/x#stale");
    let mut consumer = rig.consumer();
    rig.subscribe(&mut consumer, 1, Contract::ALL, &stale);
    rig.write(&x, 1.0);
    updates(&mut consumer);
    rig.advance(Duration::from_secs(2));
    let mut wakes = Wakes::new();
    rig.engine.poll(rig.now(), rig.wall(), &mut wakes);
    group(&rig, &[(&x, 2.0)]);
    let got = updates(&mut consumer).into_iter().map(|got| got.value);
    assert_eq!(got.collect::<Vec<_>>(), [true, false].map(Value::Bool));
}

/// Behaviour: B-23, H-27.
#[test]
fn forced_member_refuses_the_group_and_a_forced_alias_does_not() {
    let (rig, variables) = chain(f64s(), f64s());
    let [x, y, seen, far] = &variables;
    force(&rig, x, 5.0);
    let ended = group(&rig, &[(y, 1.0), (x, 1.0)]);
    assert_eq!((ended.commit, ended.refused_member), (None, Some(1)));
    assert!(matches!(
        &ended.outcomes[1],
        WriteOutcome::Refused(Refusal::Forced { .. })
    ));
    rig.attempt(x, &Write::order(WriteVerb::Unforce));
    force(&rig, seen, 7.0);
    assert!(group(&rig, &[(y, 1.0), (x, 1.0)]).commit.is_some());
    assert_eq!(far.sample().value, Value::F64(7.0));
    rig.attempt(seen, &Write::order(WriteVerb::Unforce));
    assert_eq!(far.sample().value, Value::F64(1.0));
    balanced(&variables);
}

/// A forced alias turns bad after it is unforced if its target has a value that the alias cannot
/// show.
/// Behaviour: H-27.
#[test]
fn unforced_alias_is_bad_if_its_target_cannot_be_converted() {
    let (rig, [x, _, seen, _]) = chain(f64s(), Properties::new(DataType::I16));
    rig.write(&x, 1.0);
    let value = Value::I16(5);
    let mut write = Write::value(&value);
    write.verb = WriteVerb::Force;
    assert_eq!(done(rig.attempt(&seen, &write)), applied(2));
    rig.write(&x, 99_999.0);
    rig.attempt(&seen, &Write::order(WriteVerb::Unforce));
    let sample = seen.sample();
    assert_eq!(sample.quality.reason(), Reason::OutOfRange, "{sample:?}");
}

/// Behaviour: B-23, B-24.
#[test]
fn audit_has_each_member_of_a_group_once() {
    let quiet = Properties {
        deadband: trunkline_types::Deadband {
            user_percent: 10.0,
            ..Default::default()
        },
        range: Some((0.0, 10.0)),
        ..audited()
    };
    let (rig, [x, y, ..]) = chain(quiet, f64s());
    group(&rig, &[(&y, 1.0), (&x, 1.0)]);
    // The entries are in the order of the locks, which is also the order of the updates.
    assert_eq!(
        taken(&rig),
        [
            "put plant/x  -> 1.0: applied",
            "put plant/y  -> 1.0: applied"
        ]
    );
    group(&rig, &[(&x, 1.5), (&y, 5.0)]);
    assert_eq!(
        taken(&rig),
        [
            "put plant/x 1.0 -> 1.5: unchanged",
            "put plant/y 1.0 -> 5.0: applied"
        ]
    );
    group(&rig, &[(&x, 2.0), (&y, 11.0)]);
    let entries = rig.engine.audit().take(1, usize::MAX);
    let described: Vec<_> = entries
        .iter()
        .map(|one| (&*one.name, one.outcome.name()))
        .collect();
    assert_eq!(described, [("plant/x", "refused"), ("plant/y", "refused")]);
    let rule = |at: usize| format!("{:?}", entries[at].outcome);
    assert!(rule(0).contains("plant/y"), "{}", rule(0));
    assert!(rule(1).contains("outside the range"), "{}", rule(1));
}

/// Each write has one audit entry, at the variable where it ended, whichever of the variables is
/// audited. Behaviour: B-24, H-20.
#[test]
fn write_through_an_alias_is_audited_once_where_it_ends() {
    let range = |properties| Properties {
        range: Some((0.0, 10.0)),
        ..properties
    };
    for (target, alias) in [
        (audited(), f64s()),
        (f64s(), audited()),
        (audited(), audited()),
    ] {
        let (rig, variables) = chain(range(target), alias);
        let [x, _, seen, far] = &variables;
        assert_eq!(rig.write(seen, 1.0), applied(1));
        assert_eq!(rig.write(far, 2.0), applied(2));
        rig.write(seen, 11.0);
        rig.write(far, 12.0);
        assert_eq!(
            taken(&rig),
            [
                "put plant/x  -> 1.0: applied",
                "put plant/x 1.0 -> 2.0: applied",
                "put plant/x 2.0 -> 11.0: refused",
                "put plant/x 2.0 -> 12.0: refused",
            ]
        );
        let refused = (
            x.ledger().refused,
            seen.ledger().refused,
            far.ledger().refused,
        );
        assert_eq!(refused, (2, 2, 1));
        balanced(&variables);
    }
}

/// Behaviour: B-22, B-24.
#[test]
fn refusals_by_the_alias_are_audited_at_the_alias() {
    let (rig, [x, _, seen, _]) = chain(f64s(), audited());
    rig.write(&x, 1.0);
    let value = Value::F64(2.0);
    let mut write = Write::value(&value);
    write.expected = Some(Position {
        epoch: EPOCH,
        sequence: 9,
    });
    rig.attempt(&seen, &write);
    assert_eq!(taken(&rig), ["put view/x 1.0 -> 2.0: refused"]);
}

/// Behaviour: B-22, H-20.
#[test]
fn lease_of_an_alias_does_not_lease_its_target() {
    let (rig, variables) = chain(f64s(), f64s());
    let [x, _, seen, far] = &variables;
    let holder = Caller::local(1, 1000);
    let request = LeaseRequest::acquire(Duration::from_secs(10));
    rig.lease(&holder, seen.handle(), request).unwrap();
    let refused = write_as(&rig, 2, seen, 1.0);
    assert!(matches!(
        refused,
        WriteOutcome::Refused(Refusal::Leased { .. })
    ));
    assert!(matches!(
        write_as(&rig, 2, far, 1.0),
        WriteOutcome::Refused(Refusal::Target { .. })
    ));
    // A caller that only requests a value is not refused.
    let looked = rig.attempt_as(
        &Caller::local(2, 0),
        seen,
        &Write::order(WriteVerb::Request),
    );
    assert!(matches!(done(looked), WriteOutcome::Unchanged(_)));
    assert_eq!(write_as(&rig, 1, seen, 2.0), applied(1));
    assert_eq!(write_as(&rig, 1, far, 2.5), applied(2));
    assert_eq!(write_as(&rig, 2, x, 3.0), applied(3));
    balanced(&variables);
}

/// Behaviour: H-19, H-20.
#[test]
fn single_writer_of_an_alias_is_its_first_successful_writer() {
    let (rig, [_, _, seen, _]) = chain(
        f64s(),
        Properties {
            single_writer: true,
            range: Some((0.0, 10.0)),
            ..f64s()
        },
    );
    rig.attempt_as(
        &Caller::local(3, 0),
        &seen,
        &Write::order(WriteVerb::Request),
    );
    write_as(&rig, 4, &seen, 99.0);
    assert_eq!(rig.engine.leases().holder_of(&seen, rig.now()), None);
    assert_eq!(write_as(&rig, 1, &seen, 1.0), applied(1));
    assert!(matches!(
        write_as(&rig, 2, &seen, 2.0),
        WriteOutcome::Refused(Refusal::SingleWriter { .. })
    ));
    rig.end_leases(1);
    assert_eq!(write_as(&rig, 2, &seen, 2.0), applied(2));
}

/// A replaced library keeps no lease, writer or alias that its new properties do not define.
/// Behaviour: B-22, H-19, H-20, SP-06.
#[test]
fn replaced_library_has_no_stale_lease_writer_or_alias() {
    let (rig, [x, y, seen, far]) = chain(
        Properties {
            single_writer: true,
            ..f64s()
        },
        f64s(),
    );
    write_as(&rig, 1, &x, 1.0);
    let request = LeaseRequest::acquire(Duration::from_secs(10));
    rig.lease(&Caller::local(1, 0), y.handle(), request)
        .unwrap();
    // Now x is visible to all callers, and y is an alias of x and therefore a new variable.
    replace(
        &rig,
        "plant",
        vec![
            define("x", f64s()),
            define("y", alias_of("plant/x", f64s())),
        ],
    );
    assert_eq!(rig.engine.leases().holder_of(&x, rig.now()), None);
    assert_eq!(write_as(&rig, 2, &x, 2.0), applied(2));
    let now_alias = rig.variable("plant/y");
    assert!(now_alias.is_alias() && y.is_gone());
    assert!(matches!(
        write_as(&rig, 2, &now_alias, 3.0),
        WriteOutcome::Applied(_)
    ));
    rig.advance(Duration::from_secs(11));
    rig.engine.poll(rig.now(), rig.wall(), &mut Wakes::new());
    rig.end_leases(1);
    assert_eq!(write_as(&rig, 3, &x, 4.0), applied(4));

    // Now x is a text, which its alias cannot show. The alias shows the next target that has a
    // suitable type.
    replace(
        &rig,
        "plant",
        vec![define("x", Properties::new(DataType::String))],
    );
    assert_eq!(far.sample().quality.reason(), Reason::ConfigurationError);
    replace(&rig, "plant", vec![define("x", f64s())]);
    rig.write(&rig.variable("plant/x"), 6.0);
    assert_eq!(far.sample().value, Value::F64(6.0));
    balanced(&[x, seen, far, now_alias]);
}

/// Two aliases swap their places in a chain. Neither the old nor the new chain is a cycle, but a
/// mixture of both would be. Behaviour: H-20, SP-06.
#[test]
fn swapped_aliases_bind_without_a_cycle() {
    let halved = || Properties {
        scaling: Some(Scaling::Linear {
            raw: [0.0, 10.0],
            eng: [0.0, 5.0],
        }),
        ..f64s()
    };
    for turned in [false, true] {
        let (a, b) = if turned { ("q", "p") } else { ("p", "q") };
        let full = |name: &str| format!("view/{name}");
        let rig = Rig::new();
        rig.deploy("plant", vec![define("x", f64s())]);
        let x = rig.variable("plant/x");
        let chained = |first: &str, second: &str, how: Properties| {
            vec![
                define(first, alias_of("plant/x", how.clone())),
                define(second, alias_of(&full(first), how)),
            ]
        };
        rig.deploy("view", chained(a, b, f64s()));
        rig.write(&x, 8.0);
        replace(&rig, "view", chained(b, a, halved()));
        let [first, second] = [b, a].map(|name| rig.variable(&full(name)));
        assert_eq!(first.sample().value, Value::F64(4.0));
        assert_eq!(second.sample().value, Value::F64(2.0));
        assert!(matches!(rig.write(&second, 1.0), WriteOutcome::Applied(_)));
        assert_eq!(x.sample().value, Value::F64(4.0));
        balanced(&[x, first, second]);
    }
}

/// The quality of a variable before its library was stopped is remembered, even if another library
/// is removed meanwhile. Behaviour: DP-16, SP-06.
#[test]
fn library_replaced_while_stopped_keeps_its_bad_values() {
    let rig = Rig::with(vec![define("a", f64s()), define("b", f64s())]);
    let (now, wall, mut wakes) = (rig.now(), rig.wall(), Wakes::new());
    let bad = Quality::bad(Reason::ProviderGone);
    for name in ["rig/a", "rig/b"] {
        let variable = rig.variable(name);
        rig.write(&variable, 1.0);
        rig.engine
            .providers()
            .set_quality(variable.handle(), bad, now, wall, &mut wakes);
    }
    rig.engine
        .libraries()
        .stop("rig", now, wall, &mut wakes)
        .unwrap();
    replace(&rig, "rig", vec![define("b", f64s())]);
    rig.engine
        .libraries()
        .start("rig", now, wall, &mut wakes)
        .unwrap();
    let quality = rig.variable("rig/b").sample().quality;
    assert_eq!(quality.reason(), Reason::ProviderGone);
}

/// Takes snapshots of a target, a chain of two aliases and fields of all three, during group
/// writes, single writes, forcing and deployments. No thread waits forever, and the aliases show
/// the target's update. Behaviour: B-23, H-20.
#[test]
fn snapshots_of_alias_chains_and_fields_are_consistent_under_concurrent_changes() {
    const WRITES: u32 = 3_000;
    let rig = Rig::new();
    // The aliases, and a field of one of them, have lower handles than their targets.
    rig.deploy("view", vec![define("x", alias_of("plant/x", f64s()))]);
    rig.deploy("far", vec![define("x", alias_of("view/x", f64s()))]);
    let early = open(&rig, "view/x#sequence");
    rig.deploy("plant", vec![define("x", f64s()), define("y", f64s())]);
    let names = ["plant/x", "view/x", "far/x", "plant/y"];
    let [x, seen, far, y] = names.map(|name| rig.variable(name));
    let late = open(&rig, "plant/x#sequence");
    let (engine, now, wall) = (rig.engine.clone(), rig.now(), rig.wall());
    group(&rig, &[(&x, 0.0), (&y, 0.0)]);
    let of = |variables: &[&Arc<Variable>]| -> Vec<u32> {
        variables.iter().map(|one| one.handle()).collect()
    };
    let handles = of(&[&y, &late, &far, &early, &seen, &x]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (1..3u32)
            .map(|session| {
                let (engine, x, y, far) = (&engine, &x, &y, &far);
                scope.spawn(move || {
                    let caller = Caller::local(session, 0);
                    for n in 0..WRITES {
                        let value = Value::F64(f64::from(n * 2 + session));
                        let member = |one: &Arc<Variable>| GroupMember {
                            handle: one.handle(),
                            write: Write::value(&value),
                        };
                        let mut wakes = Wakes::new();
                        match n % 3 {
                            // Single writes reach the target through both aliases.
                            0 => {
                                let write = Write::value(&value);
                                engine.try_write(&caller, now, wall, far, &write, &mut wakes);
                            }
                            _ => {
                                let members = [member(x), member(y)];
                                engine
                                    .groups()
                                    .try_write(&caller, now, wall, &members, &mut wakes);
                            }
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let library = library_of("near", vec![define("y", alias_of("far/x", f64s()))]);
            while !is_over.load(Ordering::Relaxed) {
                let mut wakes = Wakes::new();
                engine
                    .libraries()
                    .deploy(&library, now, wall)
                    .expect("well formed");
                engine
                    .libraries()
                    .undeploy("near", now, wall, &mut wakes)
                    .expect("the library is deployed");
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            let caller = Caller::local(9, 0);
            while !is_over.load(Ordering::Relaxed) {
                let snapshot = engine.groups().snapshot(&caller, &handles);
                let updates: Vec<_> = snapshot.updates.into_iter().map(Result::unwrap).collect();
                let number = |at: usize| match updates[at].value.decode(&DataType::U64) {
                    Value::U64(number) => number,
                    other => panic!("{other:?}"),
                };
                let value = |at: usize| updates[at].value.as_slice();
                assert_eq!((value(2), value(4)), (value(5), value(5)));
                assert_eq!(number(1), updates[5].sequence);
                assert_eq!(number(3), updates[4].sequence);
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    balanced(&[x, y, seen, far]);
}
