//! Tests connections to releases with fewer features: every request either works or is refused with a
//! sentence, and all other requests are not affected.

use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{
    AlarmName, AlarmQuery, ClientOptions, GroupOutcome, LeaseTerms, ProviderEvent, WatchEvent,
    Write, WriteMode, WriteOptions, WriteOutcome,
};
use trunkline_proto::message::forcing::ForcingVerb;
use trunkline_proto::message::library::LibraryVerb;
use trunkline_proto::message::pair::Pair as PairRequest;
use trunkline_proto::message::write::WriteVerb;
use trunkline_proto::{Fault, FaultCode, Features, FrameKind, Negotiation, ThroughputMode};
use trunkline_serve::ServeOptions;
use trunkline_types::alarm::AlarmAction;
use trunkline_types::history::HistoryQuery;
use trunkline_types::{AuditQuery, ControlTerms, Position, Value};

use super::rig::{Pair, World, client_options, f64_variable};

/// Returns the negotiation of an older release, without some features.
fn without(missing: Features) -> Negotiation {
    Negotiation {
        features: Features::from_bits(Features::OURS.to_bits() & !missing.to_bits()),
        ..Negotiation::OURS
    }
}

fn connected(engine: Negotiation, client: Negotiation) -> Pair {
    connected_with(engine, client, None)
}

fn connected_with(
    engine: Negotiation,
    client: Negotiation,
    throughput_mode: Option<ThroughputMode>,
) -> Pair {
    let world = World::with_library("rig", vec![f64_variable("x")]);
    world.set("rig/x", 1.0);
    let serve = ServeOptions {
        negotiation: engine,
        ..ServeOptions::default()
    };
    let client = ClientOptions {
        negotiation: client,
        throughput_mode,
        ..client_options()
    };
    let mut pair = Pair::offline(&world, serve, client);
    pair.connect();
    pair
}

/// Returns two pairs: one with an older engine, and one with an older client.
fn either_without(missing: Features) -> [Pair; 2] {
    [
        connected(without(missing), Negotiation::OURS),
        connected(Negotiation::OURS, without(missing)),
    ]
}

/// Checks the features that every release has.
fn assert_the_rest_works(sut: &mut Pair) {
    let x = sut.variable("rig/x");
    let id = sut.subscribe(&["rig/x"], "all");
    assert_eq!(sut.values(id).len(), 1);
    let outcomes = sut.write([(x, 4.0)]);
    assert!(
        matches!(outcomes[0], WriteOutcome::Applied(_)),
        "{outcomes:?}"
    );
    assert_eq!(sut.values(id), [4.0]);
    let readings = sut.read(&[x]);
    assert_eq!(readings[0].as_ref().unwrap().sample.value, Value::F64(4.0));
    assert_eq!(sut.info(x).name, "rig/x");
    let found = sut.client.find("rig/*", None).unwrap();
    assert!(matches!(sut.answer(found), Ok(found) if found.len() == 1));
    let why = sut.client.why("rig/x").unwrap();
    assert!(sut.answer(why).is_ok());
    let engine = sut.client.engine_info().unwrap();
    assert!(sut.answer(engine).is_ok());
    assert!(sut.client.state().is_connected());
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn library_orders_without_administration_are_refused() {
    for mut sut in either_without(Features::ADMINISTRATION) {
        let library = trunkline_types::LibraryDefinition {
            name: "more".into(),
            description: String::new(),
            variables: vec![f64_variable("y")],
        };
        let deploy = sut.client.deploy(Arc::new(library), false).unwrap();
        let order = sut.client.order_library("rig", LibraryVerb::Stop).unwrap();
        let refused = [
            sut.answer(deploy).unwrap_err(),
            sut.answer(order).unwrap_err(),
        ];
        for Fault { code, sentence } in refused {
            assert_eq!(code, FaultCode::NotSupported);
            assert!(
                sentence.starts_with("sut does not accept library commands"),
                "{sentence}"
            );
            assert!(sentence.contains("update it"), "{sentence}");
        }
        let kinds = [FrameKind::Deploy, FrameKind::Order];
        assert_eq!(kinds.map(|kind| sut.traffic.to_engine.count(kind)), [0, 0]);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn without_registers_orders_to_them_are_refused_and_values_are_put() {
    for mut sut in either_without(Features::REGISTERS) {
        let x = sut.variable("rig/x");
        let position = Position {
            epoch: 7,
            sequence: 1,
        };
        let verbs = [WriteVerb::Send, WriteVerb::Request, WriteVerb::Force];
        let orders = verbs.map(|verb| WriteOptions {
            verb: Ok(verb),
            ..WriteOptions::default()
        });
        let conditional = WriteOptions {
            expected: Some(position),
            ..WriteOptions::default()
        };
        for options in orders.into_iter().chain([conditional]) {
            let write = Write {
                options,
                ..Write::new(x, Value::F64(2.0))
            };
            let outcomes = sut.write_values([write]);
            let WriteOutcome::Refused(fault) = &outcomes[0] else {
                panic!("{outcomes:?}")
            };
            assert_eq!(fault.code, FaultCode::NotSupported);
            assert!(
                fault.sentence.contains("update the engine"),
                "{}",
                fault.sentence
            );
        }
        assert_eq!(
            sut.world.sequence("rig/x"),
            1,
            "nothing was mistaken for a value"
        );
        // The newest-value policy belongs to the client; only its count cannot be reported.
        let newest = |value| Write {
            mode: WriteMode::Newest,
            ..Write::new(x, Value::F64(value))
        };
        let outcomes = sut.write_values([newest(2.0), newest(3.0)]);
        assert_eq!(outcomes[0], WriteOutcome::Superseded);
        assert!(
            matches!(outcomes[1], WriteOutcome::Applied(_)),
            "{outcomes:?}"
        );
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn without_providers_the_role_is_refused_in_a_sentence() {
    for mut sut in either_without(Features::PROVIDER) {
        sut.client.provide("plc");
        sut.exchange();
        let Some(ProviderEvent::Refused(fault)) = sut.client.take_provider_event() else {
            panic!("not refused")
        };
        assert_eq!(fault.code, FaultCode::NotSupported);
        assert!(
            fault.sentence.contains("sut does not accept I/O servers"),
            "{}",
            fault.sentence
        );
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Provide), 0);
        assert_the_rest_works(&mut sut);
    }
}

fn assert_to_be_updated(fault: &Fault) {
    assert_eq!(fault.code, FaultCode::NotSupported);
    let sentence = &fault.sentence;
    assert!(sentence.starts_with("sut "), "{sentence}");
    assert!(sentence.contains("update it"), "{sentence}");
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn without_groups_groups_snapshots_and_leases_are_refused_in_a_sentence() {
    for mut sut in either_without(Features::GROUPS) {
        let x = sut.variable("rig/x");
        let write = Write::new(x, Value::F64(2.0));
        let group = sut.client.write_group(vec![write], false).unwrap();
        let GroupOutcome { outcomes, .. } = sut.answer(group).unwrap();
        let [WriteOutcome::Refused(fault)] = outcomes.as_slice() else {
            panic!("{outcomes:?}")
        };
        assert_to_be_updated(fault);
        let snapshot = sut.client.snapshot(&[x]).unwrap();
        let snapshot = sut.answer(snapshot).unwrap();
        assert_to_be_updated(snapshot.readings[0].as_ref().unwrap_err());
        let terms = LeaseTerms::acquire(Duration::from_secs(10));
        let lease = sut.client.lease(&[x], terms).unwrap();
        let leases = sut.answer(lease).unwrap();
        assert_to_be_updated(leases[0].as_ref().unwrap_err());
        let kinds = [FrameKind::GroupWrite, FrameKind::Snapshot, FrameKind::Lease];
        let sent = kinds.map(|kind| sut.traffic.to_engine.count(kind));
        assert_eq!(sent, [0; 3]);
        assert_eq!(sut.world.sequence("rig/x"), 1, "nothing was written");
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn without_patterns_a_watch_fails_in_a_sentence() {
    for mut sut in either_without(Features::PATTERNS) {
        let watch = sut.client.watch("rig/*").unwrap();
        sut.exchange();
        let Some(WatchEvent::Failed(fault)) = sut.client.next_watch_event(watch) else {
            panic!("not refused")
        };
        assert_to_be_updated(&fault);
        assert_eq!(sut.client.next_watch_event(watch), None);
        sut.client.unwatch(watch);
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Watch), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn field_search_is_refused_without_the_conditions_feature() {
    for mut sut in either_without(Features::CONDITIONS) {
        let conditions = ["units=degC".parse().unwrap()];
        let search = sut.client.search("rig/*", &conditions, None).unwrap();
        let fault = sut.answer(search).unwrap_err();
        assert_to_be_updated(&fault);
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Find), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn without_the_list_of_forced_variables_it_is_refused_in_a_sentence() {
    for mut sut in either_without(Features::FORCING) {
        for verb in [ForcingVerb::List, ForcingVerb::On] {
            let request = sut.client.forcing(verb).unwrap();
            let fault = sut.answer(request).unwrap_err();
            assert_to_be_updated(&fault);
        }
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Forcing), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn without_the_audit_its_entries_are_refused_in_a_sentence() {
    for mut sut in either_without(Features::AUDIT) {
        let request = sut.client.audit(AuditQuery::default()).unwrap();
        let fault = sut.answer(request).unwrap_err();
        assert_to_be_updated(&fault);
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Audit), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn without_alarms_their_requests_are_refused_in_a_sentence() {
    for mut sut in either_without(Features::ALARMS) {
        let listed = sut.client.alarms(AlarmQuery::default()).unwrap();
        assert_to_be_updated(&sut.answer(listed).unwrap_err());
        let alarm = AlarmName {
            variable: "rig/x".to_owned(),
            alarm: "hi".to_owned(),
        };
        let acted = sut
            .client
            .act_on_alarms(vec![alarm], AlarmAction::Acknowledge, "");
        let results = sut.answer(acted.unwrap()).unwrap();
        let [Err(fault)] = results.as_slice() else {
            panic!("{results:?}");
        };
        assert_to_be_updated(fault);
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Alarms), 0);
        assert_eq!(sut.traffic.to_engine.count(FrameKind::AlarmAct), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn without_the_history_a_query_of_it_is_refused_in_a_sentence() {
    for mut sut in either_without(Features::HISTORY) {
        let request = sut.client.history(HistoryQuery::default()).unwrap();
        assert_to_be_updated(&sut.answer(request).unwrap_err());
        assert_eq!(sut.traffic.to_engine.count(FrameKind::History), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, B-81, LX-11.
#[test]
fn without_accounts_a_joining_token_is_refused_in_a_sentence() {
    for mut sut in either_without(Features::ACCOUNTS) {
        let pair = PairRequest {
            account: "anna".to_owned(),
            role: String::new(),
            groups: Vec::new(),
        };
        let request = sut.client.pair(pair).unwrap();
        assert_to_be_updated(&sut.answer(request).unwrap_err());
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Pair), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-22, B-50, B-51, LX-11.
#[test]
fn without_control_of_folders_a_take_is_refused_in_a_sentence() {
    for mut sut in either_without(Features::CONTROL) {
        let request = sut.client.take_control("rig", ControlTerms::default());
        assert_to_be_updated(&sut.answer(request.unwrap()).unwrap_err());
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Control), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn engine_without_engine_orders_is_not_sent_the_order_to_stop() {
    for mut sut in either_without(Features::ENGINE_ORDERS) {
        let request = sut.client.stop_engine().unwrap();
        assert_to_be_updated(&sut.answer(request).unwrap_err());
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Order), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn engine_without_reload_is_not_sent_the_order_to_reload() {
    for mut sut in either_without(Features::RELOAD) {
        let request = sut.client.reload_engine().unwrap();
        assert_to_be_updated(&sut.answer(request).unwrap_err());
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Order), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51, LX-11.
#[test]
fn nothing_is_gathered_without_throughput_mode() {
    let [engine, client] = [
        (without(Features::THROUGHPUT), Negotiation::OURS),
        (Negotiation::OURS, without(Features::THROUGHPUT)),
    ];
    for (engine, client) in [engine, client] {
        let mut sut = connected_with(engine, client, Some(ThroughputMode::DEFAULT));
        assert_eq!(sut.client.throughput_mode(), None);
        let flush = sut.client.flush().unwrap();
        assert!(sut.answer(flush).is_ok());
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Flush), 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Behaviour: B-50, B-51.
#[test]
fn without_digests_nothing_is_compared() {
    for mut sut in either_without(Features::CONVERGENCE) {
        let id = sut.subscribe(&["rig/x"], "latest");
        sut.world.set("rig/x", 3.0);
        sut.pass(Duration::from_secs(5));
        sut.cut();
        sut.connect();
        sut.pass(Duration::from_secs(5));
        assert_eq!(sut.values(id).last(), Some(&3.0));
        assert_eq!(sut.traffic.to_client.count(FrameKind::Check), 0);
        assert_eq!(sut.traffic.to_engine.count(FrameKind::Compare), 0);
        assert_eq!(sut.client.counters().diverged, 0);
        assert_the_rest_works(&mut sut);
    }
}

/// Without it GONE and ENDED are in no digest, at neither end. Behaviour: B-51.
#[test]
fn a_peer_without_the_digest_of_ends_finds_no_difference() {
    for mut sut in either_without(Features::ENDS) {
        let id = sut.subscribe(&["rig/x"], "all:4");
        sut.exchange();
        for number in 1..=20 {
            sut.world.set("rig/x", f64::from(number));
        }
        sut.pass(Duration::from_secs(3));
        assert!(!sut.readings(id).is_empty());
        sut.world.undeploy("rig");
        sut.pass(Duration::from_secs(3));
        assert_eq!(sut.client.counters().diverged, 0);
    }
}

/// A new feature comes with a test here. Behaviour: B-51.
#[test]
fn every_feature_is_left_out_once() {
    let left_out = [
        Features::ADMINISTRATION,
        Features::REGISTERS,
        Features::PROVIDER,
        Features::GROUPS,
        Features::PATTERNS,
        Features::CONDITIONS,
        Features::THROUGHPUT,
        Features::FORCING,
        Features::CONVERGENCE,
        Features::AUDIT,
        Features::ALARMS,
        Features::HISTORY,
        Features::ACCOUNTS,
        Features::ENGINE_ORDERS,
        Features::RELOAD,
        Features::CONTROL,
        Features::ENDS,
    ];
    let all = left_out
        .into_iter()
        .fold(Features::NONE, |all, one| all | one);
    assert_eq!(all, Features::OURS);
}

/// Behaviour: B-50, LX-11, LX-12.
#[test]
fn a_peer_without_any_feature_has_everything_that_is_older() {
    for mut sut in either_without(Features::OURS) {
        assert_eq!(sut.client.session().unwrap().features, Features::NONE);
        assert_the_rest_works(&mut sut);
        let flush = sut.client.flush().unwrap();
        assert!(sut.answer(flush).is_ok());
    }
}

/// Behaviour: B-51.
#[test]
fn features_of_a_newer_release_are_not_agreed_on_and_do_not_hurt() {
    let newer = Negotiation {
        features: Features::from_bits(u64::MAX),
        ..Negotiation::OURS
    };
    for mut sut in [
        connected(newer, Negotiation::OURS),
        connected(Negotiation::OURS, newer),
    ] {
        assert_eq!(sut.client.session().unwrap().features, Features::OURS);
        assert_the_rest_works(&mut sut);
    }
}
