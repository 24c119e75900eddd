//! Libraries as clients see them: deployed, changed, stopped, started and undeployed.

use trunkline::proto::{FaultCode, LibraryAfter, LibraryReport, WhyVerdict};
use trunkline::types::{
    Contract, DataType, LibraryDefinition, Properties, Quality, Reason, Value, VariableDefinition,
};
use trunkline::{CallError, Event, Write, WriteOutcome};

use super::place::{Place, TIMEOUT, block_on, reading};

fn library(name: &str, variables: Vec<VariableDefinition>) -> LibraryDefinition {
    LibraryDefinition {
        name: name.to_owned(),
        description: "made by a client".to_owned(),
        variables,
    }
}

fn f64s(paths: &[&str]) -> Vec<VariableDefinition> {
    let f64_of = |path: &&str| VariableDefinition::new(*path, DataType::F64);
    paths.iter().map(f64_of).collect()
}

fn code<T: std::fmt::Debug>(result: Result<T, CallError>) -> FaultCode {
    match result {
        Err(CallError::Fault(fault)) => fault.code,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

/// Behaviour: DP-01, DP-03, DP-05, DP-07, DP-14.
pub fn a_client_deploys_and_undeploys_a_library(place: &Place) {
    let client = &place.client;
    let bench = library("bench", f64s(&["volts", "amps"]));
    let report = client
        .deploy(bench.clone(), false, TIMEOUT)
        .expect("the library is valid");
    let expected = LibraryReport {
        after: LibraryAfter::Running,
        added: 2,
        ..LibraryReport::default()
    };
    assert_eq!(report, expected);
    let volts = place.variable("bench/volts");
    let outcome = place.write(Write::new(volts, Value::F64(12.5)));
    assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");

    // The second call is refused or changes nothing.
    assert_eq!(
        code(client.deploy(bench.clone(), false, TIMEOUT)),
        FaultCode::LibraryExists
    );
    let report = client.deploy(bench, true, TIMEOUT).expect("it is the same");
    assert_eq!((report.kept, report.added), (2, 0));
    assert_eq!(place.read(volts).sample.value, Value::F64(12.5));

    // An invalid library changes nothing.
    let mut properties = Properties::new(DataType::F64);
    properties.range = Some((1.0, 0.0));
    let wrong = VariableDefinition {
        path: "volts".to_owned(),
        properties: properties.into(),
    };
    let refused = client.deploy(library("bench", vec![wrong]), true, TIMEOUT);
    assert_eq!(code(refused), FaultCode::BadLibrary);
    assert_eq!(place.read(volts).sample.value, Value::F64(12.5));

    // The library is in use: only with force.
    let updates = place.subscribe("bench/volts", Contract::Latest);
    reading(&updates);
    assert_eq!(
        code(client.undeploy("bench", false, TIMEOUT)),
        FaultCode::InUse
    );
    let report = client
        .undeploy("bench", true, TIMEOUT)
        .expect("the library is deployed");
    assert_eq!(
        (report.after, report.removed),
        (LibraryAfter::Undeployed, 2)
    );
    loop {
        match updates.next(Some(TIMEOUT)) {
            Some(Event::Ended { .. }) => break,
            Some(_) => {}
            None => panic!("nobody said that the variable is gone"),
        }
    }
    assert_eq!(
        code(client.undeploy("bench", true, TIMEOUT)),
        FaultCode::UnknownLibrary
    );
}

/// Behaviour: SP-06.
pub fn a_library_is_changed_under_its_users(place: &Place) {
    let client = &place.client;
    let before = library("bench", f64s(&["kept", "dropped"]));
    client
        .deploy(before, false, TIMEOUT)
        .expect("the library is valid");
    let kept = place.variable("bench/kept");
    let updates = place.subscribe("bench/kept", Contract::Latest);
    reading(&updates);
    let mut after = library("bench", f64s(&["kept", "new"]));
    let mut properties = Properties::new(DataType::F64);
    properties.range = Some((0.0, 10.0));
    after.variables[0].properties = properties.into();
    let report = client
        .deploy(after, true, TIMEOUT)
        .expect("the library is valid");
    assert_eq!((report.added, report.changed, report.removed), (1, 1, 1));
    let outcome = place.write(Write::new(kept, Value::F64(11.0)));
    let WriteOutcome::Refused(fault) = outcome else {
        panic!("it is out of its new range, and {outcome:?}");
    };
    assert_eq!(fault.code, FaultCode::OutOfRange);
    place.write(Write::new(kept, Value::F64(9.0)));
    assert_eq!(reading(&updates).sample.value, Value::F64(9.0));
    client
        .undeploy("bench", true, TIMEOUT)
        .expect("the library is deployed");
}

/// Behaviour: DP-16.
pub fn a_library_is_stopped_and_started(place: &Place) {
    let client = &place.client;
    let bench = library("bench", f64s(&["volts"]));
    client
        .deploy(bench, false, TIMEOUT)
        .expect("the library is valid");
    let volts = place.variable("bench/volts");
    place.write(Write::new(volts, Value::F64(3.0)));
    let updates = place.subscribe("bench/volts", Contract::Latest);
    assert_eq!(reading(&updates).sample.value, Value::F64(3.0));

    let report = client
        .stop_library("bench", TIMEOUT)
        .expect("the library is deployed");
    assert_eq!((report.after, report.changed), (LibraryAfter::Stopped, 1));
    let stopped = reading(&updates);
    assert_eq!(stopped.sample.value, Value::F64(3.0));
    assert_eq!(stopped.sample.quality, Quality::bad(Reason::ProcessMissing));
    let outcome = place.write(Write::new(volts, Value::F64(4.0)));
    let WriteOutcome::Refused(fault) = outcome else {
        panic!("the library is stopped, and {outcome:?}");
    };
    assert_eq!(fault.code, FaultCode::LibraryStopped);
    let info = client.engine_info(TIMEOUT).expect("an answer");
    let state = info
        .libraries
        .iter()
        .find(|library| library.name == "bench");
    assert_eq!(state.map(|library| library.state.as_str()), Some("stopped"));
    let steps = client.why("bench/volts", TIMEOUT).expect("an answer");
    let mut faults = steps
        .iter()
        .filter(|step| step.verdict == WhyVerdict::Fault);
    let cause = faults.next().expect("there is a cause");
    assert!(cause.sentence.contains("stopped") && cause.next.contains("library start bench"));

    let again = client
        .stop_library("bench", TIMEOUT)
        .expect("the library is deployed");
    assert_eq!((again.changed, again.kept), (0, 1));
    client
        .start_library("bench", TIMEOUT)
        .expect("the library is deployed");
    assert_eq!(reading(&updates).sample.quality.reason(), Reason::Retained);
    place.write(Write::new(volts, Value::F64(4.0)));
    assert_eq!(reading(&updates).sample.value, Value::F64(4.0));
    client
        .undeploy("bench", true, TIMEOUT)
        .expect("the library is deployed");
}

pub fn a_large_library_comes_in_many_frames(place: &Place) {
    let count = 20_000;
    let shared = std::sync::Arc::new(Properties::new(DataType::F64));
    let variable = |number: usize| VariableDefinition {
        path: format!("group {}/value {number}", number % 100),
        properties: shared.clone(),
    };
    let large = library("large", (0..count).map(variable).collect());
    let client = place.client.clone().into_async();
    let report = block_on(client.deploy(large, false, TIMEOUT)).expect("the library is valid");
    assert_eq!(report.added, count as u64);
    place.variable("large/group 99/value 19999");
    let report = block_on(client.undeploy("large", false, TIMEOUT)).expect("nobody uses it");
    assert_eq!(report.removed, count as u64);
}
