//! Aliases: a variable that shows and writes another one of the same engine (H-20).
//!
//! ```text
//! write to the target --> [ target ] --follow--> [ alias ] --follow--> [ alias of the alias ]
//!                            ^  under the target's lock, in its order       each its own number
//!                            |
//! write to the alias  --> check, range, unscale                             never under a lock
//! ```
//!
//! An alias is a variable of its own: handle, numbers, subscribers, ledger, access, scaling. Its
//! target's value is the raw value to its scaling. It changes only under its target's lock, but for
//! what its own library and its own forcing do to it.
//!
//! Lock order: the list of libraries, the table of aliases, a target, its aliases. A chain has no
//! cycle, because none is deployed; and nobody who holds an alias locks a variable that is none.

mod bind;
mod follow;
mod graph;
mod write;

pub(crate) use self::follow::Following;
pub(crate) use self::graph::Aliases;
pub(crate) use self::write::{Watch, commit_followed};
pub use trunkline_types::alias::{ALIAS_DEPTH_MAX, ALIASES_MAX, AliasFault};

use trunkline_types::Reason;
use trunkline_types::alias::Misfit;

use crate::sync::Arc;
use crate::variable::Variable;

/// What joins a variable to others; most have none.
#[derive(Debug, Default)]
pub(crate) struct Bonds {
    /// Of an alias: whom it follows.
    pub(crate) target: Option<Target>,
    /// Of a target: the aliases that are bound to it, in the order in which they were.
    pub(crate) followers: Vec<Arc<Variable>>,
}

/// Whom an alias follows.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The variable of this handle; the number of its newest update that came here.
    Bound { handle: u32, seen: u64 },
    /// Nobody, and why.
    Unbound(Unbound),
}

/// Why an alias follows nobody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unbound {
    pub(crate) reason: Reason,
    /// What is wrong and what to do, for people.
    pub(crate) sentence: Arc<str>,
}

impl Unbound {
    fn missing(target: &str) -> Self {
        Self {
            reason: Reason::VariableMissing,
            sentence: format!("{target} is not deployed; deploy its library").into(),
        }
    }
}

impl From<Misfit> for Unbound {
    fn from(misfit: Misfit) -> Self {
        Self {
            reason: misfit.reason,
            sentence: misfit.sentence.into(),
        }
    }
}
