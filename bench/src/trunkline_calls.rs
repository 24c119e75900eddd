//! Calls that all Trunkline ends use.

use std::time::Duration;

use trunkline::proto::Fault;
use trunkline::{Opened, VariableRef};

use crate::Outcome;

/// Longer than any answer takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the opened variables.
pub fn opened(results: Vec<Result<Opened, Fault>>) -> Outcome<Vec<VariableRef>> {
    let variable = |result: Result<Opened, Fault>| match result {
        Ok(opened) => Ok(opened.variable),
        Err(fault) => Err(fault.to_string().into()),
    };
    results.into_iter().map(variable).collect()
}
