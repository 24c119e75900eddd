//! Large numbers of variables in one request.

use trunkline::types::{Contract, DataType, LibraryDefinition, VariableDefinition};
use trunkline::{Event, SubscribeOptions};

use crate::place::{Place, TIMEOUT};

const COUNT: usize = 100_000;

/// Behaviour: B-30, API-02, VS-06.
pub fn a_hundred_thousand_variables_are_subscribed_in_one_request(place: &Place) {
    let plain = VariableDefinition::new("", DataType::F64).properties;
    let variables = (0..COUNT).map(|i| VariableDefinition {
        path: format!("rack{:03}/channel{i:06}", i / 1000),
        properties: plain.clone(),
    });
    let library = LibraryDefinition {
        name: "bulk".into(),
        description: String::new(),
        variables: variables.collect(),
    };
    let deployed = place.engine.deploy(&library).expect("the library is valid");
    assert_eq!(deployed.added, COUNT);
    let mut names: Vec<String> = library
        .variables
        .iter()
        .map(|variable| format!("bulk/{}", variable.path))
        .collect();
    names.push("bulk/rack000/channel".into());
    let all = place
        .client
        .subscribe(&names, Contract::Latest, SubscribeOptions::default());
    let all = all.expect("a subscription");
    let (mut readings, mut errors) = (0, 0);
    while readings + errors < names.len() {
        match all.next(Some(TIMEOUT)) {
            Some(Event::Reading { .. }) => readings += 1,
            Some(Event::ItemError { .. }) => errors += 1,
            Some(_) => {}
            None => panic!("{readings} of {COUNT} first readings came"),
        }
    }
    assert_eq!((readings, errors), (COUNT, 1));
}
