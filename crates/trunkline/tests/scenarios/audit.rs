//! The audit as clients see it.

use std::sync::Arc;

use trunkline::proto::FaultCode;
use trunkline::types::{
    AuditAction, AuditEntry, AuditMode, AuditQuery, DataType, LibraryDefinition, Pattern,
    Properties, Value, VariableDefinition,
};
use trunkline::{CallError, Write};

use super::place::{Place, TIMEOUT, block_on};

fn told(entries: &[AuditEntry]) -> Vec<String> {
    let told = |entry: &AuditEntry| {
        let (action, name, outcome) = (entry.action, &entry.name, entry.outcome.name());
        let (old, new) = (&entry.old, &entry.new);
        format!("{action} {name} {old} -> {new}: {outcome}")
    };
    entries.iter().map(told).collect()
}

/// Behaviour: B-24.
pub fn who_did_what_is_told(place: &Place) {
    let client = &place.client;
    let mut properties = Properties::new(DataType::F64);
    properties.audit = AuditMode::Complete;
    properties.range = Some((0.0, 100.0));
    let library = LibraryDefinition {
        name: "bench".to_owned(),
        description: String::new(),
        variables: vec![VariableDefinition {
            path: "volts".to_owned(),
            properties: properties.into(),
        }],
    };
    let library = Arc::new(library);
    client
        .deploy(Arc::clone(&library), false, TIMEOUT)
        .expect("the library is valid");
    client
        .deploy(library, false, TIMEOUT)
        .expect_err("it is deployed already");
    let volts = place.variable("bench/volts");
    place.write(Write::new(volts, Value::F64(12.5)));
    place.write(Write::new(volts, Value::F64(101.0)));
    client
        .undeploy("bench", false, TIMEOUT)
        .expect("nobody uses it");
    let of_bench = AuditQuery {
        pattern: Some(Pattern::parse("bench/**").expect("the pattern is valid")),
        ..AuditQuery::default()
    };
    let page = client
        .audit(of_bench, TIMEOUT)
        .expect("the audit is readable");
    assert_eq!(
        told(&page.entries),
        [
            "deploy bench  -> 1 added: done",
            "deploy bench  -> : refused",
            "put bench/volts  -> 12.5: applied",
            "put bench/volts 12.5 -> 101.0: refused",
            "undeploy bench  -> 1 removed: done",
        ]
    );
    assert!(page.state.contains("until it stops"), "{}", page.state);
    let newest = AuditQuery {
        newest_first: true,
        limit: 1,
        ..AuditQuery::default()
    };
    let tasks = client.clone().into_async();
    let page = block_on(tasks.audit(newest, TIMEOUT)).expect("the audit is readable");
    let [undeployed] = &*page.entries else {
        panic!("{:?}", page.entries);
    };
    assert_eq!(undeployed.action, AuditAction::Undeploy);
    assert!(page.next.is_some_and(|next| next + 1 == undeployed.number));
    let from_the_start = place.engine.audit(&AuditQuery::default()).expect("memory");
    assert_eq!(from_the_start.entries[0].action, AuditAction::EngineStart);
    assert_eq!(from_the_start.entries[0].number, 1);
    match client.undeploy("bench", false, TIMEOUT) {
        Err(CallError::Fault(fault)) => assert_eq!(fault.code, FaultCode::UnknownLibrary),
        other => panic!("{other:?}"),
    }
}
