//! W2: the published Table 1. Puts and gets of real numbers. Synchronous: each is answered before
//! the next begins. Asynchronous: all are issued before the first answer is awaited.

pub mod cell;
pub mod raw;
pub mod trunkline;

use crate::Outcome;
use crate::cells::{RAW, TRUNKLINE, TRUNKLINE_SHM, TRUNKLINE_SHM_SLEEPING, TRUNKLINE_SPINNING};

/// Name of the scenario in results.
pub const SCENARIO: &str = "call_cost";
/// Clients of the published table.
pub const SYSTEMS: [&str; 5] = [
    RAW,
    TRUNKLINE,
    TRUNKLINE_SPINNING,
    TRUNKLINE_SHM,
    TRUNKLINE_SHM_SLEEPING,
];
/// Variables that the calls use in turn.
pub const VARIABLES: usize = 1000;
/// Calls of the published table.
pub const CALLS: usize = 1000;
/// Calls of the longer version.
pub const MANY_CALLS: usize = 1_000_000;
/// Items of one batch if there are more calls than one batch may have.
pub const BATCH: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Put,
    Get,
}

/// One of the four rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub verb: Verb,
    /// Returns true if each call is answered before the next begins.
    pub synchronous: bool,
}

/// All rows, in the order of the table.
pub const OPERATIONS: [Operation; 4] = [
    Operation {
        verb: Verb::Put,
        synchronous: true,
    },
    Operation {
        verb: Verb::Put,
        synchronous: false,
    },
    Operation {
        verb: Verb::Get,
        synchronous: true,
    },
    Operation {
        verb: Verb::Get,
        synchronous: false,
    },
];

impl Operation {
    /// Returns the name in settings and results.
    pub fn name(self) -> &'static str {
        match (self.verb, self.synchronous) {
            (Verb::Put, true) => "sync-put",
            (Verb::Put, false) => "async-put",
            (Verb::Get, true) => "sync-get",
            (Verb::Get, false) => "async-get",
        }
    }

    pub fn named(name: &str) -> Outcome<Self> {
        let found = OPERATIONS
            .into_iter()
            .find(|operation| operation.name() == name);
        found.ok_or_else(|| format!("`{name}` is no operation of this scenario").into())
    }
}

/// The variables of the far end as this scenario uses them.
pub trait Variables {
    /// Writes one value and waits for the answer.
    fn put(&mut self, variable: usize, value: f64) -> Outcome<()>;

    fn get(&mut self, variable: usize) -> Outcome<f64>;

    /// Writes `count` values, `first`, `first + 1` and so on, to the variables in turn. Waits once.
    fn put_all(&mut self, first: u64, count: usize) -> Outcome<()>;

    /// Reads `count` values of the variables in turn into `values`. Waits once.
    fn get_all(&mut self, count: usize, values: &mut Vec<f64>) -> Outcome<()>;
}
