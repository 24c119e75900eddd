//! Aliases: a variable that shows and writes another one of the same engine (H-20).
//!
//! ```text
//! write to the target --> [ target ] --follow--> [ alias ] --follow--> [ alias of the alias ]
//!                            ^  under the target's lock, in its order       each its own number
//!                            |
//! write to the alias  --> check, range, unscale                             never under a lock
//! ```
//!
//! An alias is a separate variable: it has its own handle, sequence, subscribers, ledger, access
//! and scaling. Its target's value is the raw value for its scaling. It changes only under its
//! target's lock, except for changes by its own library and by forcing it.
//!
//! Lock order: the list of libraries, the table of aliases, a target, its aliases. No chain has a
//! cycle, because none is deployed, and no thread that holds an alias's lock locks a variable that
//! is not an alias.

mod bind;
mod follow;
mod graph;
mod write;

pub(crate) use self::graph::Aliases;
pub use trunkline_types::alias::{ALIAS_DEPTH_MAX, ALIASES_MAX, AliasFault};

use trunkline_types::Reason;
use trunkline_types::alias::Misfit;

use self::follow::follow;
use crate::delivery::outbox::Wakes;
use crate::sync::Arc;
use crate::variable::{Committed, Extension, State, Variable};

/// The links of a variable to aliases and targets. Most variables have none.
#[derive(Debug, Default)]
pub(crate) struct Bonds {
    /// The target, if the variable is an alias.
    pub(crate) target: Option<Target>,
    /// The aliases bound to the variable, in the order of binding.
    pub(crate) followers: Vec<Arc<Variable>>,
}

impl Extension for Bonds {
    fn order(&self) -> u8 {
        4
    }

    fn committed(&self, commit: &Committed<'_>, wakes: &mut Wakes) {
        for alias in &self.followers {
            follow(commit, alias, &mut alias.lock(), false, wakes);
        }
    }
}

/// The aliases bound to the variable with this state.
pub(crate) fn followers(state: &State) -> &[Arc<Variable>] {
    let bonds = state.extension::<Bonds>();
    bonds.map_or(&[], |bonds| &bonds.followers)
}

/// The target of the alias with this state; `None` if it is none.
pub(crate) fn target(state: &State) -> Option<&Target> {
    state.extension::<Bonds>()?.target.as_ref()
}

/// The target of an alias.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The variable with this handle. `seen` is the sequence of its newest update propagated here.
    Bound { handle: u32, seen: u64 },
    /// No target, with the reason.
    Unbound(Unbound),
}

/// The reason why an alias has no target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unbound {
    pub(crate) reason: Reason,
    /// The fault and the remedy, for people.
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
