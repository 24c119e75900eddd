//! Aliases: variables that show and write others, with their own access, scaling and sequence
//! numbers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]
#![cfg(not(shuttle))]

mod binding;
mod limits;
mod others;
#[path = "../rig/mod.rs"]
mod rig;
mod values;

use std::sync::Arc;

use rig::{Rig, define, done, library_of};
use trunkline_engine::{AliasFault, DeployError, Variable, Wakes, Write, WriteOutcome, WriteVerb};
use trunkline_types::{DataType, Properties, Value, VariableDefinition};

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
    let deployed = rig
        .engine
        .libraries()
        .deploy(&library, rig.now(), rig.wall());
    match deployed {
        Ok(_) => Ok(()),
        Err(DeployError::Alias { fault, .. }) => Err(fault),
        Err(other) => panic!("{other}"),
    }
}

fn undeploy(rig: &Rig, library: &str) {
    rig.engine
        .libraries()
        .undeploy(library, rig.now(), rig.wall(), &mut Wakes::new())
        .expect("the library is deployed");
}

fn order(rig: &Rig, variable: &Variable, verb: WriteVerb) -> WriteOutcome {
    done(rig.attempt(variable, &Write::order(verb)))
}

fn force(rig: &Rig, variable: &Variable, value: f64) -> WriteOutcome {
    let value = Value::F64(value);
    let mut write = Write::value(&value);
    write.verb = WriteVerb::Force;
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
