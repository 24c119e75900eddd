//! Forcing and aliases as clients see them.

use std::sync::Arc;

use trunkline::types::{
    Contract, DataType, LibraryDefinition, Properties, Value, VariableDefinition,
};
use trunkline::{Write, WriteOutcome};

use super::place::{Place, TIMEOUT, block_on, reading};

fn deploy(place: &Place, name: &str, variables: Vec<VariableDefinition>) {
    let library = LibraryDefinition {
        name: name.to_owned(),
        description: String::new(),
        variables,
    };
    place
        .client
        .deploy(library, false, TIMEOUT)
        .expect("the library is valid");
}

/// The list has more than one page.
///
/// Behaviour: H-27.
pub fn the_forced_list_comes_in_pages_and_is_switched(place: &Place) {
    const MANY: usize = 2_500;
    let definitions = (0..MANY).map(|n| VariableDefinition::new(format!("v{n}"), DataType::I64));
    deploy(place, "many", definitions.collect());
    let client = &place.client;
    assert_eq!(client.set_forcing(false, TIMEOUT).map(|l| l.total), Ok(0));
    let names: Vec<String> = (0..MANY).map(|n| format!("many/v{n}")).collect();
    let opened = client
        .open(&names, Default::default(), TIMEOUT)
        .expect("there is an answer");
    let writes = opened.into_iter().zip(0..).map(|(opened, n)| {
        let variable = opened.expect("it is deployed").variable;
        Write::force(variable, Value::I64(n))
    });
    for write in client.write(writes, TIMEOUT).expect("there is an answer") {
        assert!(matches!(write, WriteOutcome::Unchanged(_)), "{write:?}");
    }
    let last = place.variable("many/v2499");
    assert!(!place.read(last).sample.quality.is_forced());

    let list = client.set_forcing(true, TIMEOUT).expect("it may");
    assert_eq!((list.is_on, list.total as usize), (true, MANY));
    assert!(place.read(last).sample.quality.is_forced());
    let list = block_on(async {
        let client = place.client.clone().into_async();
        client.forced(TIMEOUT).await
    })
    .expect("it may");
    assert_eq!(list.entries.len(), MANY);
    for (entry, n) in list.entries.iter().zip(0..) {
        assert_eq!(entry.name, format!("many/v{n}"));
        assert_eq!((&entry.value, &entry.behind), (&Value::I64(n), &None));
        assert!(!entry.by.is_empty());
    }
    let cleared = client.clear_forcing(TIMEOUT).expect("it may");
    assert_eq!(cleared.total as usize, MANY);
    let list = client.forced(TIMEOUT).expect("it may");
    assert!(list.entries.is_empty() && list.is_on);
}

/// Behaviour: H-20.
pub fn an_alias_is_a_variable_like_any_other(place: &Place) {
    deploy(
        place,
        "real",
        vec![VariableDefinition::new("x", DataType::F64)],
    );
    let properties = Properties {
        alias: "real/x".to_owned(),
        ..Properties::new(DataType::F64)
    };
    let (path, properties) = ("x".to_owned(), Arc::new(properties));
    deploy(
        place,
        "named",
        vec![VariableDefinition { path, properties }],
    );
    let subscription = place.subscribe("named/x", Contract::ALL);
    reading(&subscription);
    let (real, named) = (place.variable("real/x"), place.variable("named/x"));
    for (variable, value) in [(real, 1.0), (named, 2.0), (real, 3.0)] {
        let outcome = place.write(Write::new(variable, Value::F64(value)));
        assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
        assert_eq!(reading(&subscription).sample.value, Value::F64(value));
        assert_eq!(place.read(real).sample.value, Value::F64(value));
    }
    place
        .client
        .undeploy("real", true, TIMEOUT)
        .expect("the library is deployed");
    assert!(reading(&subscription).sample.quality.is_bad());
}
