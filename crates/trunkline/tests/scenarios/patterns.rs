//! Patterns that are watched while libraries are deployed, changed and undeployed.

use std::sync::Arc;

use trunkline::types::{Contract, DataType, LibraryDefinition, Pattern, Value, VariableDefinition};
use trunkline::{
    Event, FollowEvent, PatternSet, PatternSubscription, SubscribeOptions, Watch, WatchEvent, Write,
};

use super::place::{Place, TIMEOUT};

fn library(name: &str, variables: &[(&str, DataType)]) -> LibraryDefinition {
    let definition = |(path, ty): &(&str, DataType)| VariableDefinition::new(*path, ty.clone());
    LibraryDefinition {
        name: name.to_owned(),
        description: String::new(),
        variables: variables.iter().map(definition).collect(),
    }
}

fn deploy(place: &Place, library: LibraryDefinition) {
    let deployed = place.client.deploy(library, true, TIMEOUT);
    deployed.expect("it is well formed");
}

/// Returns the next event as a word and a name.
fn said(watch: &Watch) -> String {
    match watch.next(Some(TIMEOUT)).expect("something happens") {
        WatchEvent::Appeared {
            name, data_type, ..
        } => format!("{name} appeared: {data_type}"),
        WatchEvent::Gone { name } => format!("{name} is gone"),
        WatchEvent::Listed => "listed".to_owned(),
        WatchEvent::Failed(fault) => format!("failed: {}", fault.code.name()),
    }
}

/// Behaviour: B-32.
pub fn a_pattern_follows_names_that_come_and_go(place: &Place) {
    deploy(
        place,
        library("plant", &[("a", DataType::F64), ("x/b", DataType::Bool)]),
    );
    let watch = place.client.watch("plant/**").expect("it is open");
    let other = place.client.watch("nothing/*").expect("it is open");
    assert_eq!(said(&watch), "plant/a appeared: f64");
    assert_eq!(said(&watch), "plant/x/b appeared: bool");
    assert_eq!(said(&watch), "listed");
    assert_eq!(said(&other), "listed");

    // A variable replaced by another type is removed before it appears; an unchanged one is not
    // mentioned.
    let after = [
        ("a", DataType::I32),
        ("x/b", DataType::Bool),
        ("c", DataType::I64),
    ];
    deploy(place, library("plant", &after));
    assert_eq!(said(&watch), "plant/a is gone");
    assert_eq!(said(&watch), "plant/a appeared: i32");
    assert_eq!(said(&watch), "plant/c appeared: i64");

    let undeployed = place.client.undeploy("plant", true, TIMEOUT);
    undeployed.expect("it is there");
    for name in ["a", "x/b", "c"] {
        assert_eq!(said(&watch), format!("plant/{name} is gone"));
    }
    assert_eq!(watch.names(), []);
    assert_eq!((watch.try_next(), other.try_next()), (None, None));

    let wrong = place.client.watch("plant/a**").expect("the engine says it");
    assert_eq!(said(&wrong), "failed: bad-pattern");
    drop(watch);
    deploy(place, library("plant", &[("a", DataType::F64)]));
    assert_eq!(other.try_next(), None);
}

fn event(followed: &PatternSubscription) -> FollowEvent {
    loop {
        match followed.next(Some(TIMEOUT)).expect("something happens") {
            FollowEvent::Event(Event::Connected { .. }) => {}
            event => return event,
        }
    }
}

/// Returns the item and the value of the next event, which must be a reading.
fn reading(followed: &PatternSubscription) -> (u32, Value) {
    match event(followed) {
        FollowEvent::Event(Event::Reading { item, reading }) => (item, reading.sample.value),
        other => panic!("a reading was expected, not {other:?}"),
    }
}

fn appeared(followed: &PatternSubscription) -> (u32, Arc<str>) {
    match event(followed) {
        FollowEvent::Appeared { item, name, .. } => (item, name),
        other => panic!("an appearance was expected, not {other:?}"),
    }
}

/// Behaviour: B-32.
pub fn a_subscription_by_pattern_gets_the_updates_of_what_appears(place: &Place) {
    let patterns = [Pattern::parse("plant/**").expect("a pattern")];
    let excluded = [Pattern::parse("**/secret").expect("a pattern")];
    let set = PatternSet {
        patterns: &patterns,
        excluded: &excluded,
        ..PatternSet::default()
    };
    let all = "all:100".parse::<Contract>().expect("a contract");
    let followed = place
        .client
        .subscribe_patterns(&set, all, SubscribeOptions::default())
        .expect("the client is open");
    assert!(matches!(
        event(&followed),
        FollowEvent::Listed { pattern: 0 }
    ));

    let variables = [("a", DataType::F64), ("secret", DataType::F64)];
    deploy(place, library("plant", &variables));
    let (item, name) = appeared(&followed);
    assert_eq!(&*name, "plant/a");
    assert_eq!(reading(&followed), (item, Value::F64(0.0)));
    let variable = place.variable("plant/a");
    for n in 0..50 {
        place.write(Write::new(variable, Value::F64(f64::from(n))));
    }
    let undeployed = place.client.undeploy("plant", true, TIMEOUT);
    undeployed.expect("it is there");
    // Every update arrives before the event that the variable is gone.
    for n in 0..50 {
        assert_eq!(reading(&followed), (item, Value::F64(f64::from(n))));
    }
    let gone = FollowEvent::Gone { item, name };
    assert_eq!(event(&followed), gone);

    // The index of the item is used again.
    deploy(place, library("plant", &[("b", DataType::F64)]));
    let (again, name) = appeared(&followed);
    assert_eq!((again, &*name), (item, "plant/b"));
    assert_eq!(reading(&followed), (item, Value::F64(0.0)));
    let variable = place.variable("plant/b");
    place.write(Write::new(variable, Value::F64(7.0)));
    assert_eq!(reading(&followed), (item, Value::F64(7.0)));
}

/// Behaviour: B-32.
pub fn a_large_library_appears_as_a_whole(place: &Place) {
    const COUNT: usize = 20_000;
    let paths: Vec<String> = (0..COUNT).map(|n| format!("v{n}")).collect();
    let variables: Vec<(&str, DataType)> =
        paths.iter().map(|p| (p.as_str(), DataType::F64)).collect();
    let patterns = [Pattern::parse("big/*").expect("a pattern")];
    let set = PatternSet {
        patterns: &patterns,
        ..PatternSet::default()
    };
    let options = SubscribeOptions::default();
    let followed = place
        .client
        .subscribe_patterns(&set, Contract::Latest, options)
        .expect("the client is open");
    deploy(place, library("big", &variables));
    let (mut appeared, mut read) = (0, 0);
    while appeared < COUNT || read < COUNT {
        match event(&followed) {
            FollowEvent::Appeared { .. } => appeared += 1,
            FollowEvent::Event(Event::Reading { .. }) => read += 1,
            FollowEvent::Listed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    let undeployed = place.client.undeploy("big", true, TIMEOUT);
    undeployed.expect("it is there");
    for left in (0..COUNT).rev() {
        let event = event(&followed);
        assert!(
            matches!(event, FollowEvent::Gone { .. }),
            "{left} left: {event:?}"
        );
    }
    // 20,000 at once are more than the engine's log holds, so it lists again.
    let rest = followed.try_next();
    assert!(
        matches!(rest, None | Some(FollowEvent::Listed { .. })),
        "{rest:?}"
    );
}

/// Behaviour: VS-03, VS-10.
pub fn a_notification_is_requested_cancelled_and_carries_all_there_is_to_know(place: &Place) {
    let followed = [
        ("a", DataType::F64),
        // Another subscription, so that the library stays in use.
        ("b", DataType::F64),
    ];
    deploy(place, library("plant", &followed));
    let opened = place.open("plant/a");
    let subscribers = || {
        let told = place.client.info(&[opened.variable], TIMEOUT);
        let told = told.expect("an answer").remove(0);
        told.expect("it is there").subscribers
    };
    let subscription = place.subscribe("plant/a", Contract::Latest);
    super::place::reading(&subscription);
    assert_eq!(subscribers(), 1);
    place.write(Write::new(opened.variable, Value::F64(3.0)));
    // The waiting thread is woken with the value, its quality, its times, its number, and the
    // losses before it; type and units were sent on opening.
    let reading = super::place::reading(&subscription);
    assert_eq!(reading.sample.value, Value::F64(3.0));
    assert!(reading.sample.quality.is_good() && reading.lost.nothing_lost());
    assert_eq!((reading.position.sequence, reading.stale), (1, None));
    assert!(reading.sample.engine_timestamp >= reading.sample.source_timestamp);
    assert!(opened.properties.is_some() && opened.data_type == DataType::F64);
    drop(subscription);
    // The subscription is cancelled: the next request finds no subscriber.
    assert_eq!(subscribers(), 0);
}
