//! Tests alarms over sessions: pages, filters, permissions, and the results of actions.

use std::time::Duration;

use trunkline_client::{AlarmName, AlarmQuery};
use trunkline_engine::Rights;
use trunkline_proto::{Fault, FaultCode, FrameKind};
use trunkline_types::alarm::{
    AlarmAction, AlarmDefinition, AlarmKind, AlarmState, AlarmStatus, LimitLevel, Operand,
};
use trunkline_types::{DataType, Pattern, VariableDefinition};

use crate::rig::{Pair, World, define};

/// Returns an `f64` variable with a `hi` alarm at 10 and a `hi_hi` alarm at 20.
fn watched(path: &str, area: &str) -> VariableDefinition {
    let limit = |level, limit, priority| AlarmDefinition {
        area: area.to_owned(),
        priority,
        ..AlarmDefinition::new(AlarmKind::Limit {
            level,
            limit: Operand::Constant(limit),
            deadband: 0.0,
        })
    };
    define(path, DataType::F64, |properties| {
        properties.alarms = vec![
            limit(LimitLevel::Hi, 10.0, 300),
            limit(LimitLevel::HiHi, 20.0, 800),
        ];
    })
}

fn list(sut: &mut Pair, query: AlarmQuery) -> Vec<AlarmStatus> {
    let request = sut.client.alarms(query).unwrap();
    sut.answer(request).unwrap()
}

fn act(
    sut: &mut Pair,
    alarms: &[(&str, &str)],
    action: AlarmAction,
) -> Vec<Result<AlarmState, Fault>> {
    let names = alarms.iter().map(|(variable, alarm)| AlarmName {
        variable: (*variable).to_owned(),
        alarm: (*alarm).to_owned(),
    });
    let request = sut.client.act_on_alarms(names.collect(), action, "seen");
    sut.answer(request.unwrap()).unwrap()
}

/// Behaviour: SV-04.
#[test]
fn list_is_sent_in_pages() {
    let names: Vec<String> = (0..3_000).map(|n| format!("v{n}")).collect();
    let variables = names.iter().map(|name| watched(name, "a")).collect();
    let world = World::with_library("rig", variables);
    for name in &names {
        world.set(&format!("rig/{name}"), 15.0);
    }
    let mut sut = Pair::on(&world);
    let found = list(&mut sut, AlarmQuery::default());
    let pages = sut.traffic.to_client.count(FrameKind::AlarmPage);
    assert!(pages > 2, "{pages} pages");
    assert_eq!(found.len(), 6_000);
    for (alarms, name) in found.chunks(2).zip(&names) {
        let [hi, hi_hi] = alarms else {
            panic!("{alarms:?}");
        };
        assert_eq!(hi.variable, format!("rig/{name}"));
        assert_eq!(
            (&*hi.definition.name, &*hi_hi.definition.name),
            ("hi", "hi_hi")
        );
        assert_eq!(hi.record.state, AlarmState::Unacknowledged);
        assert_eq!(hi.record.value, Some(15.0));
        assert_eq!(hi_hi.record.state, AlarmState::Normal);
    }
}

/// Behaviour: SV-04.
#[test]
fn queries_select_by_name_area_priority_and_state() {
    let variables = (0..200).map(|n| match n % 2 {
        0 => watched(&format!("even/v{n}"), "left"),
        _ => watched(&format!("odd/v{n}"), "right"),
    });
    let world = World::with_library("rig", variables.collect());
    world.set("rig/even/v10", 25.0);
    world.set("rig/odd/v11", 15.0);
    let mut sut = Pair::on(&world);
    let every = AlarmQuery::default;
    let raised = || vec![AlarmState::Unacknowledged];
    let found = |sut: &mut Pair, query| {
        let alarms = list(sut, query).into_iter();
        let names = alarms.map(|one| format!("{}:{}", one.variable, one.definition.name));
        names.collect::<Vec<_>>()
    };
    let states = AlarmQuery {
        states: raised(),
        ..every()
    };
    let expected = ["rig/even/v10:hi", "rig/even/v10:hi_hi", "rig/odd/v11:hi"];
    assert_eq!(found(&mut sut, states), expected);
    let area = AlarmQuery {
        area: "right".to_owned(),
        states: raised(),
        ..every()
    };
    assert_eq!(found(&mut sut, area), ["rig/odd/v11:hi"]);
    let priority = AlarmQuery {
        priority_min: 500,
        states: raised(),
        ..every()
    };
    assert_eq!(found(&mut sut, priority), ["rig/even/v10:hi_hi"]);
    let pattern = AlarmQuery {
        pattern: Some(Pattern::parse("rig/odd/**").unwrap()),
        ..every()
    };
    assert_eq!(list(&mut sut, pattern).len(), 200);
}

/// Each alarm has its own result, and acknowledging twice is refused.
///
/// Behaviour: H-09, SV-04.
#[test]
fn each_alarm_of_an_action_has_its_result() {
    let world = World::with_library("rig", vec![watched("x", ""), watched("y", "")]);
    world.set("rig/x", 15.0);
    let mut sut = Pair::on(&world);
    let all = [
        ("rig/x", "hi"),
        ("rig/y", "hi"),
        ("rig/x", "lo"),
        ("rig/z", "hi"),
    ];
    let results = act(&mut sut, &all, AlarmAction::Acknowledge);
    let codes: Vec<_> = results
        .iter()
        .map(|one| one.as_ref().map_err(|fault| fault.code))
        .collect();
    let expected = [
        Ok(&AlarmState::Acknowledged),
        Err(FaultCode::Conflict),
        Err(FaultCode::UnknownField),
        Err(FaultCode::UnknownName),
    ];
    assert_eq!(codes, expected);
    let again = act(&mut sut, &all[..1], AlarmAction::Acknowledge);
    assert_eq!(again[0].as_ref().unwrap_err().code, FaultCode::Conflict);
    let [hi, _] = &list(&mut sut, AlarmQuery::default())[..2] else {
        panic!("two alarms");
    };
    assert_eq!(hi.record.comment, "seen");

    world.permit(Rights::READ);
    let mut reader = Pair::on(&world);
    let refused = act(&mut reader, &all[..1], AlarmAction::TakeOutOfService);
    assert_eq!(refused[0].as_ref().unwrap_err().code, FaultCode::Denied);
    assert_eq!(list(&mut reader, AlarmQuery::default()).len(), 4);
}

/// Actions that were carried out are in the audit, refused ones are not.
///
/// Behaviour: B-24, H-09.
#[test]
fn actions_on_alarms_are_audited() {
    let world = World::with_library("rig", vec![watched("x", ""), watched("y", "")]);
    world.set("rig/x", 15.0);
    let mut sut = Pair::on(&world);
    let alarms = [("rig/x", "hi"), ("rig/y", "hi")];
    for action in [
        AlarmAction::Acknowledge,
        AlarmAction::Shelve(Duration::from_secs(60)),
        AlarmAction::Unshelve,
        AlarmAction::TakeOutOfService,
        AlarmAction::ReturnToService,
    ] {
        act(&mut sut, &alarms[..1], action);
    }
    let refused = act(&mut sut, &alarms[1..], AlarmAction::Acknowledge);
    assert!(refused[0].is_err());
    let entries = world.engine().audit().take(1, usize::MAX);
    let told = entries.iter().map(|entry| {
        let (action, name, new) = (entry.action, &entry.name, &entry.new);
        format!("{action} {name} {new}: {}", entry.outcome)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "alarm ack rig/x hi: acknowledged; seen: done",
            "alarm shelve rig/x hi: shelved; seen: done",
            "alarm unshelve rig/x hi: unacknowledged; seen: done",
            "alarm disable rig/x hi: out-of-service; seen: done",
            "alarm enable rig/x hi: unacknowledged; seen: done",
        ]
    );
    assert!(entries.iter().all(|entry| entry.who == "loopback"));
}
