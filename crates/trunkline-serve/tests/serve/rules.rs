//! Tests rules for names where a request concerns several variables, or a definition names others.

use std::sync::Arc;
use std::time::Duration;

use trunkline_access::{Action, Actions, Effect, Role};
use trunkline_engine::{Administrator, Caller, Order, Reply, Report, Rights, Wakes, Write};
use trunkline_proto::message::alarm::{AlarmActBuilder, AlarmActHead, AlarmActItem};
use trunkline_proto::message::audit::Audit;
use trunkline_proto::message::engine::EngineInfo;
use trunkline_proto::message::fault::FaultMessage;
use trunkline_proto::message::forcing::{Forcing, ForcingVerb};
use trunkline_proto::message::group::GroupWriteBuilder;
use trunkline_proto::message::hello::Hello;
use trunkline_proto::message::library::{DeployBuilder, DeployHead, LibraryOrder, LibraryVerb};
use trunkline_proto::message::provider::{ProvideBuilder, ProvideHead};
use trunkline_proto::message::single::encode_empty;
use trunkline_proto::message::why::Why;
use trunkline_proto::message::write::{WriteBuilder, WriteOptions};
use trunkline_proto::{FaultCode, FrameKind};
use trunkline_serve::ServeOptions;
use trunkline_types::alarm::{AlarmAction, AlarmDefinition, AlarmKind, LimitLevel, Operand};
use trunkline_types::{
    Access, AuditAction, AuditOutcome, DataType, Moment, Value, VariableDefinition, WriteVerb,
};

use crate::matrix::audit_page;
use crate::rig::access::{granted, rights_of};
use crate::rig::spoken::spoken;
use crate::rig::{Peer, World, define, f64_variable};

fn greeted(world: &World, rights: Rights, options: ServeOptions) -> Peer {
    world.permit(rights);
    let mut peer = Peer::with(world, options);
    peer.say(|out| Hello::default().encode(out));
    peer.said.clear();
    peer
}

fn said(peer: &mut Peer) -> String {
    peer.take();
    let said = peer.frames(spoken).join("\n");
    peer.said.clear();
    said
}

/// A host that counts the orders it gets, and carries out none.
struct Counter(std::sync::Mutex<usize>);

impl Administrator for Counter {
    fn submit(&self, _: &Caller, order: Order, reply: Reply) {
        *self.0.lock().unwrap() += 1;
        let page = match order {
            Order::Audit(query) => Some(Box::new(trunkline_engine::LogPage::Audit(audit_page(
                &query,
            )))),
            _ => None,
        };
        reply.send(Ok(Report {
            page,
            ..Report::default()
        }));
    }
}

fn with_host() -> (ServeOptions, Arc<Counter>) {
    let host = Arc::new(Counter(std::sync::Mutex::default()));
    let options = ServeOptions {
        administrator: Some(Arc::clone(&host) as Arc<dyn Administrator>),
        ..ServeOptions::default()
    };
    (options, host)
}

const ALL_ON_OWN: &[(&[Action], &str)] = &[(Action::ALL, "own/**")];

/// One hidden member refuses the whole group, and the answer is the same as for a handle that was never
/// used.
///
/// Behaviour: B-82.
/// Failure mode: F17.
#[test]
fn group_with_a_hidden_member_is_refused_as_with_an_unused_handle() {
    let world = World::new();
    world.deploy("foreign", vec![f64_variable("x")]);
    world.deploy("own", vec![f64_variable("x")]);
    let mut sut = greeted(&world, granted(ALL_ON_OWN), ServeOptions::default());
    let own = world.handle("own/x");
    let mut answers = [world.handle("foreign/x"), 1 << 20].map(|other| {
        sut.say(|out| {
            let mut group = GroupWriteBuilder::begin(out, 1, false);
            for handle in [own, other] {
                group.push(handle, &WriteOptions::default(), &2.0_f64.to_le_bytes());
            }
            group.finish();
        });
        said(&mut sut)
    });
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].contains("Gone") && answers[0].contains("GroupRefused"));
    assert_eq!(
        (world.sequence("own/x"), world.sequence("foreign/x")),
        (0, 0)
    );
    answers[0].clear();
}

fn limit(operand: &str) -> AlarmDefinition {
    AlarmDefinition::new(AlarmKind::Limit {
        level: LimitLevel::Hi,
        limit: Operand::Variable(operand.to_owned()),
        deadband: 0.0,
    })
}

fn deploy(sut: &mut Peer, variable: &VariableDefinition) -> String {
    sut.say(|out| {
        let head = DeployHead {
            library: "own",
            description: "",
            replace: true,
        };
        let mut deploy = DeployBuilder::begin(out, 1, &head);
        deploy.push(variable);
        deploy.finish(false);
    });
    said(sut)
}

/// The engine reads what a definition names, so its author must have the right to. The refusal is the same
/// whether the variable exists or not.
///
/// Behaviour: B-82.
/// Failure mode: F17.
#[test]
fn library_may_refer_only_to_variables_of_its_author() {
    let rights: &[(&[Action], &str)] = &[
        (Action::ALL, "own/**"),
        (&[Action::Read, Action::Subscribe], "shown/**"),
    ];
    let alias = |target: &str, access| {
        define("x", DataType::F64, |p| {
            p.alias = target.to_owned();
            p.access = access;
        })
    };
    let with_alarm =
        |alarm: AlarmDefinition| define("x", DataType::F64, |p| p.alarms = vec![alarm.clone()]);
    let setpoint = AlarmDefinition::new(AlarmKind::Deviation {
        setpoint: Operand::Variable("foreign/x".to_owned()),
        limit: 1.0,
        deadband: 0.0,
    });
    let suppressed = AlarmDefinition {
        suppressed_by: "foreign/x".to_owned(),
        ..AlarmDefinition::new(AlarmKind::BadQuality)
    };
    let cases = [
        (alias("own/y", Access::ReadWrite), true),
        (alias("shown/x", Access::ReadOnly), true),
        (alias("shown/x", Access::ReadWrite), false),
        (alias("shown/x", Access::WriteOnly), false),
        (alias("foreign/x", Access::ReadOnly), false),
        (alias("foreign/x", Access::ReadWrite), false),
        (alias(":/20", Access::ReadOnly), false),
        (with_alarm(limit("own/y")), true),
        (with_alarm(limit("shown/x")), true),
        (with_alarm(limit("foreign/x")), false),
        (with_alarm(limit("foreign/x#number")), false),
        (with_alarm(setpoint), false),
        (with_alarm(suppressed), false),
    ];
    for (variable, is_permitted) in cases {
        let answers = [true, false].map(|is_deployed| {
            let world = World::new();
            if is_deployed {
                world.deploy(
                    "foreign",
                    vec![define("x", DataType::F64, |p| p.number = Some(20))],
                );
            }
            world.deploy("shown", vec![f64_variable("x")]);
            let (options, host) = with_host();
            let mut sut = greeted(&world, granted(rights), options);
            let answer = deploy(&mut sut, &variable);
            let orders = *host.0.lock().unwrap();
            assert_eq!(orders, usize::from(is_permitted), "{variable:?}: {answer}");
            assert_eq!(answer.contains("code: Denied"), !is_permitted, "{answer}");
            answer
        });
        assert_eq!(
            answers[0], answers[1],
            "it shows whether the variable exists"
        );
    }
}

/// A rule cannot be evaded by another spelling of a name.
///
/// Failure mode: F17.
#[test]
fn spelling_of_a_target_does_not_evade_a_rule() {
    let deny = (Effect::Deny, Actions::of(&[Action::Read]), "recipe%2Fa/**");
    for (target, is_permitted) in [
        ("recipe%2Fa/x", false),
        ("recipe%2fa/x", false),
        ("recipe%2Fb/x", true),
    ] {
        let world = World::with_library("own", vec![f64_variable("x")]);
        let (options, host) = with_host();
        let rights = rights_of(Some(Role::Engineer), &[deny]);
        let mut sut = greeted(&world, rights, options);
        let alias = define("x", DataType::F64, |p| p.alias = target.to_owned());
        let answer = deploy(&mut sut, &alias);
        let orders = *host.0.lock().unwrap();
        assert_eq!(orders, usize::from(is_permitted), "{target}: {answer}");
    }
}

/// An order of a caller that may configure nothing is in the audit, too.
///
/// Behaviour: B-24.
/// Failure mode: F17.
#[test]
fn refused_orders_of_viewers_are_in_the_audit() {
    let world = World::with_library("own", vec![f64_variable("x")]);
    let (options, host) = with_host();
    let mut sut = greeted(&world, rights_of(Some(Role::Viewer), &[]), options);
    deploy(&mut sut, &f64_variable("x"));
    sut.say(|out| {
        let order = LibraryOrder {
            verb: LibraryVerb::Stop,
            library: "own",
        };
        order.encode(2, out);
    });
    let entries = world.engine().audit().take(1, usize::MAX);
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| {
            (
                entry.action,
                &*entry.name,
                matches!(entry.outcome, AuditOutcome::Refused(_)),
            )
        })
        .collect();
    assert_eq!(
        entries,
        [
            (AuditAction::Deploy, "own", true),
            (AuditAction::Stop, "own", true)
        ]
    );
    assert_eq!(*host.0.lock().unwrap(), 0);
}

/// Only an account with the right on an I/O server provides its variables; an operator does not. The audit has
/// both, and the refused orders to switch forcing and to act on an alarm.
///
/// Behaviour: B-24.
#[test]
fn providers_and_refused_requests_are_in_the_audit() {
    let world = World::with_library("own", vec![f64_variable("x")]);
    let provide = |sut: &mut Peer| {
        sut.say(|out| {
            let head = ProvideHead {
                lease: Duration::from_secs(10),
                provider: "plc",
            };
            ProvideBuilder::begin(out, 1, &head).finish(false);
        });
        said(sut)
    };
    let operator = rights_of(Some(Role::Operator), &[]);
    let mut sut = greeted(&world, operator, ServeOptions::default());
    let answer = provide(&mut sut);
    assert!(
        answer.contains("the right to configure _io/plc"),
        "{answer}"
    );
    let mut engineer = greeted(
        &world,
        rights_of(Some(Role::Engineer), &[]),
        ServeOptions::default(),
    );
    assert!(provide(&mut engineer).contains("PROVIDED"));

    let viewer = rights_of(Some(Role::Viewer), &[]);
    let mut sut = greeted(&world, viewer, ServeOptions::default());
    let forcing = Forcing {
        verb: ForcingVerb::Off,
        cursor: 0,
        limit: 0,
    };
    sut.say(|out| forcing.encode(1, out));
    let head = AlarmActHead::new(AlarmAction::Acknowledge, "");
    sut.say(|out| {
        let mut act = AlarmActBuilder::begin(out, 2, &head);
        act.push(&AlarmActItem {
            variable: "own/x",
            alarm: "hi",
        });
        act.finish(false);
    });
    let answers = said(&mut sut);
    assert_eq!(answers.matches("Denied").count(), 2, "{answers}");
    // The first refusal of a client has its entry at once, and the next ones are counted.
    world.advance(Duration::from_secs(120));
    let (now, wall) = world.time();
    let (engine, mut wakes) = (world.engine(), Wakes::new());
    engine
        .audit()
        .note_repeats(Moment { now, wall }, &mut wakes);
    let entries = engine.audit().take(1, usize::MAX);
    let entries: Vec<String> = entries
        .iter()
        .map(|entry| format!("{} {} {:?}", entry.action.name(), entry.name, entry.new))
        .collect();
    for expected in [
        "request _io/plc \"PROVIDE\"",
        "provide _io/plc",
        "request  \"FORCING\"",
        "request own/x \"ALARM_ACT",
    ] {
        let is_there = entries.iter().any(|entry| entry.starts_with(expected));
        assert!(is_there, "{expected} in {entries:#?}");
    }
}

/// Who deploys a variable with a source needs the right on the item.
///
/// Behaviour: H-18.
#[test]
fn source_needs_the_right_on_its_item() {
    let on_own: (&[Action], &str) = (&[Action::Read, Action::Configure], "own/**");
    for (io, is_permitted) in [
        (None, false),
        (Some("_io/plc/pump/*"), false),
        (Some("_io/other/**"), false),
        (Some("_io/plc/motor"), true),
        (Some("_io/plc/**"), true),
        (Some("**"), true),
    ] {
        let io = io.map(|pattern| (on_own.0, pattern));
        let rules: Vec<_> = [on_own].into_iter().chain(io).collect();
        let world = World::new();
        let (options, host) = with_host();
        let mut sut = greeted(&world, granted(&rules), options);
        deploy(
            &mut sut,
            &define("x", DataType::F64, |p| p.source = "plc:motor".to_owned()),
        );
        let orders = *host.0.lock().unwrap();
        assert_eq!(
            orders,
            usize::from(is_permitted),
            "{rules:?}: {}",
            said(&mut sut)
        );
    }
}

/// Behaviour: B-24, B-82.
#[test]
fn audit_contains_only_entries_of_permitted_names() {
    let read = || Actions::of(&[Action::Read]);
    let audit = || Actions::of(&[Action::Audit]);
    let (deny, grant) = (Effect::Deny, Effect::Grant);
    let cases: [(Option<Role>, Vec<(Effect, Actions, &str)>, &[&str]); 6] = [
        (
            Some(Role::Engineer),
            vec![],
            &["own/x", "shown/x", "foreign/x", "own", "shown", "foreign"],
        ),
        (
            Some(Role::Engineer),
            vec![(deny, read(), "foreign/**")],
            &["own/x", "shown/x", "own", "shown"],
        ),
        (
            Some(Role::Engineer),
            vec![(deny, audit(), "foreign/x")],
            &["own/x", "shown/x", "own", "shown"],
        ),
        (
            Some(Role::Engineer),
            vec![(deny, audit(), "foreign/other")],
            &["own/x", "shown/x", "foreign/x", "own", "shown"],
        ),
        // The right to read the audit needs no right to read variables, but their entries do.
        (None, vec![(grant, audit(), "**")], &[]),
        (
            None,
            vec![(grant, audit(), "**"), (grant, read(), "own/**")],
            &["own/x", "own"],
        ),
    ];
    for (role, rules, expected) in cases {
        let world = World::new();
        let (options, host) = with_host();
        let mut sut = greeted(&world, rights_of(role, &rules), options);
        sut.say(|out| Audit::default().encode(1, out));
        let answer = said(&mut sut);
        assert_eq!(*host.0.lock().unwrap(), 1, "{answer}");
        for name in ["own/x", "shown/x", "foreign/x", "own", "shown", "foreign"] {
            let is_there = answer.contains(&format!("name: \"{name}\""));
            assert_eq!(
                is_there,
                expected.contains(&name),
                "{name} of {rules:?}: {answer}"
            );
        }
    }
}

/// ENGINE counts what the client may read, also in libraries that it may read in part, and across slices.
///
/// Behaviour: B-82.
#[test]
fn engine_counts_readable_variables_only() {
    let world = World::new();
    let many: Vec<String> = (0..2500).map(|n| format!("v{n}")).collect();
    let variables = |names: &[String]| names.iter().map(|name| f64_variable(name)).collect();
    world.deploy("foreign", variables(&many));
    world.deploy("part", variables(&many));
    world.deploy("own", variables(&many));
    world.deploy("empty", vec![]);
    let cases: [(Rights, &[(&str, u64)]); 4] = [
        (granted(ALL_ON_OWN), &[("own", 2500)]),
        (
            // v2, v20 to v29, v200 to v299, v2000 to v2499.
            granted(&[(&[Action::Read], "own/**"), (&[Action::Read], "part/v2*")]),
            &[("part", 611), ("own", 2500)],
        ),
        (rights_of(None, &[]), &[]),
        (
            rights_of(
                Some(Role::Operator),
                &[(Effect::Deny, Actions::of(&[Action::Write]), "foreign/**")],
            ),
            // All is readable, so it is the list of everybody.
            &[
                ("foreign", 2500),
                ("part", 2500),
                ("own", 2500),
                ("empty", 0),
            ],
        ),
    ];
    for (rights, expected) in cases {
        let mut sut = greeted(&world, rights, ServeOptions::default());
        sut.say(|out| encode_empty(FrameKind::Engine, 1, out));
        sut.take();
        let infos = sut.frames(|frame| EngineInfo::decode(frame).unwrap());
        let [info] = &*infos else {
            panic!("{infos:?}");
        };
        let libraries: Vec<(&str, u64)> = info
            .libraries
            .iter()
            .map(|library| (&*library.name, library.variables))
            .collect();
        assert_eq!(libraries, expected);
        let sum: u64 = expected.iter().map(|(_, count)| count).sum();
        assert_eq!(info.variables, sum);
    }
}

fn forcing(sut: &mut Peer, verb: ForcingVerb) -> Vec<FaultCode> {
    sut.say(|out| {
        let forcing = Forcing {
            verb,
            cursor: 0,
            limit: 0,
        };
        forcing.encode(1, out);
    });
    sut.take();
    let codes = sut.frames(|frame| {
        let fault = FaultMessage::decode(frame).ok()?;
        Some(fault.fault.code)
    });
    sut.said.clear();
    codes.into_iter().flatten().collect()
}

/// A rule that denies `force` on one variable must not be evaded by the switch for all variables.
///
/// Behaviour: H-27.
/// Failure mode: F17.
#[test]
fn forcing_is_switched_only_with_the_right_on_every_name() {
    let force = || Actions::of(&[Action::Force]);
    let cases: [(Vec<(Effect, Actions, &str)>, bool); 4] = [
        (vec![], true),
        (
            vec![(Effect::Deny, Actions::of(&[Action::Write]), "safety/**")],
            true,
        ),
        (vec![(Effect::Deny, force(), "safety/**")], false),
        (
            vec![(Effect::Deny, Actions::of(&[Action::Read]), "safety/x")],
            false,
        ),
    ];
    for (rules, is_permitted) in cases {
        let world = World::with_library("safety", vec![f64_variable("x")]);
        let value = Value::F64(5.0);
        let force = Write {
            verb: WriteVerb::Force,
            ..Write::value(&value)
        };
        world.try_write("safety/x", &force);
        let rights = rights_of(Some(Role::Engineer), &rules);
        let mut sut = greeted(&world, rights, ServeOptions::default());
        let engine = world.engine();
        for verb in [ForcingVerb::Off, ForcingVerb::On, ForcingVerb::Clear] {
            let codes = forcing(&mut sut, verb);
            let expected: &[FaultCode] = match is_permitted {
                true => &[],
                false => &[FaultCode::Denied],
            };
            assert_eq!(codes, expected, "{verb:?} with {rules:?}");
        }
        assert_eq!(engine.forcing().all().is_empty(), is_permitted);
        assert!(engine.forcing().is_on());
        assert_eq!(forcing(&mut sut, ForcingVerb::List), []);
    }
}

/// A client that takes the name of an I/O server must not free the variables that it may not write from
/// their source: other clients could then write them past the device.
///
/// Behaviour: LM-11.
/// Failure mode: F17.
#[test]
fn provider_without_the_right_leaves_a_variable_without_a_running_source() {
    let from_plc = || define("x", DataType::F64, |p| p.source = "plc:1".to_owned());
    for is_expected in [true, false] {
        let world = World::new();
        let engine = world.engine();
        let (now, wall) = world.time();
        if is_expected {
            let mut wakes = Wakes::new();
            engine
                .providers()
                .expect_source("plc", now, wall, &mut wakes);
        }
        world.deploy("foreign", vec![from_plc()]);
        world.deploy("own", vec![from_plc()]);
        let io: (&[Action], &str) = (&[Action::Read, Action::Configure], "_io/plc");
        let rights = granted(&[ALL_ON_OWN, &[io]].concat());
        let mut sut = greeted(&world, rights, ServeOptions::default());
        let provide = |out: &mut Vec<u8>| {
            let head = ProvideHead {
                lease: Duration::from_secs(10),
                provider: "plc",
            };
            ProvideBuilder::begin(out, 1, &head).finish(false);
        };
        sut.say(provide);
        let answer = said(&mut sut);
        assert!(
            answer.contains("PROVIDER_BIND") && !answer.contains("Denied"),
            "{answer}"
        );

        let mut other = greeted(&world, Rights::ALL, ServeOptions::default());
        let mut put = |handle: u32, number: u64| {
            other.say(|out| {
                let mut write = WriteBuilder::begin(out, number);
                write.push(handle, &WriteOptions::default(), &2.0_f64.to_le_bytes());
                write.finish();
            });
            said(&mut other)
        };
        let refused = put(world.handle("foreign/x"), 1);
        assert!(refused.contains("ProviderGone"), "{refused}");
        assert_eq!(world.sequence("foreign/x"), u64::from(is_expected));
        // A library that is deployed later is treated alike.
        world.deploy("later", vec![from_plc()]);
        assert!(put(world.handle("later/x"), 2).contains("ProviderGone"));
        assert_eq!(said(&mut sut), "", "the provider learns nothing");
        put(world.handle("own/x"), 3);
        assert!(said(&mut sut).contains("PROVIDER_WRITE"));

        // The variable goes to a provider that has the right.
        sut.session
            .shut_down(&trunkline_proto::message::closing::Goodbye {
                code: FaultCode::ShuttingDown,
                retry_after: None,
                sentence: String::new(),
            });
        let mut right = greeted(&world, Rights::ALL, ServeOptions::default());
        right.say(provide);
        let answer = said(&mut right);
        for name in ["foreign/x", "own/x", "later/x"] {
            let bound = format!("handle: {},", world.handle(name));
            assert!(answer.contains(&bound), "{name}: {answer}");
        }
        put(world.handle("foreign/x"), 4);
        assert!(said(&mut right).contains("PROVIDER_WRITE"));
    }
}

/// WHY names the rule that forbids a write, and no variable that the client may not read, although the last
/// write of another client was refused because of one.
///
/// Behaviour: B-82, B-14.
#[test]
fn why_names_the_rule_but_no_hidden_variable() {
    let world = World::new();
    let read_only = define("y", DataType::F64, |p| p.access = Access::ReadOnly);
    world.deploy("foreign", vec![read_only]);
    world.deploy("own", vec![f64_variable("x")]);
    let mut other = greeted(&world, Rights::ALL, ServeOptions::default());
    other.say(|out| {
        let mut group = GroupWriteBuilder::begin(out, 1, false);
        for name in ["own/x", "foreign/y"] {
            let value = 2.0_f64.to_le_bytes();
            group.push(world.handle(name), &WriteOptions::default(), &value);
        }
        group.finish();
    });
    let why = |peer: &mut Peer| {
        peer.said.clear();
        peer.say(|out| Why { name: "own/x" }.encode(2, out));
        said(peer)
    };
    assert!(why(&mut other).contains("foreign/y"));
    let rights = granted(&[(&[Action::Read], "own/**")]);
    let mut sut = greeted(&world, rights, ServeOptions::default());
    let answer = why(&mut sut);
    assert!(answer.contains("the whole group was refused"), "{answer}");
    assert!(!answer.contains("foreign"), "{answer}");
    let sentence = "you may read it, but not write it: neither the role nor a rule grants it";
    assert!(answer.contains(sentence), "{answer}");
    let deny = (Effect::Deny, Actions::of(&[Action::Write]), "own/**");
    let rights = rights_of(Some(Role::Operator), &[deny]);
    let mut sut = greeted(&world, rights, ServeOptions::default());
    let sentence =
        "you may read it, but not write it: access.toml:2: deny write on own/** to user anna";
    let answer = why(&mut sut);
    assert!(answer.contains(sentence), "{answer}");
}
