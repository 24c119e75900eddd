//! Aliases: variables that show and write another variable of the same engine (H-20).
//!
//! ```text
//! write to the target --> [ target ] --follow--> [ alias ] --follow--> [ alias of the alias ]
//!                            ^  under the target's lock, in its order    each its own sequence
//!                            |
//! write to the alias  --> check, range, unscale                             no lock is held
//! ```
//!
//! An alias is a separate variable: it has its own handle, sequence, subscribers, ledger, access
//! and scaling. The value of its target is the raw value for its scaling. It changes only under the
//! target's lock, except when its own library changes it or when it is forced.
//!
//! Lock order: the list of libraries, the table of aliases, a target, its aliases. No chain
//! contains a cycle, because none is deployed. No thread that holds the lock of an alias locks a
//! variable that is not an alias.

mod bind;
mod follow;
mod graph;
mod write;

pub(crate) use self::bind::{bound_to, resolve_alias};
pub(crate) use self::graph::AliasTable;
pub(crate) use self::write::AliasHook;
pub use trunkline_types::alias::{ALIAS_DEPTH_MAX, ALIASES_MAX, AliasFault};

use trunkline_types::Reason;
use trunkline_types::alias::Mismatch;

use self::follow::follow;
use crate::delivery::outbox::Wakes;
use crate::rights::Rights;
use crate::sync::Arc;
use crate::variable::{Committed, Extension, State, Variable};
use crate::write::View;

pub(crate) type Aliases<'e> = View<'e, AliasTable>;

/// The links of a variable to aliases and targets. Most variables have none.
#[derive(Debug, Default)]
pub(crate) struct AliasLinks {
    pub(crate) target: Option<Target>,
    pub(crate) followers: Vec<Arc<Variable>>,
}

impl Extension for AliasLinks {
    fn order(&self) -> u8 {
        6
    }

    fn committed(&self, commit: &Committed<'_>, wakes: &mut Wakes) {
        for alias in &self.followers {
            follow(commit, alias, &mut alias.lock(), false, wakes);
        }
    }
}

pub(crate) fn followers(state: &State) -> &[Arc<Variable>] {
    let links = state.extension::<AliasLinks>();
    links.map_or(&[], |links| &links.followers)
}

/// Returns the target of the alias with this state; `None` if the variable is not an alias.
pub(crate) fn target(state: &State) -> Option<&Target> {
    state.extension::<AliasLinks>()?.target.as_ref()
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Bound to the variable with this handle. `seen` is the sequence of its newest update
    /// propagated to the alias.
    Bound {
        handle: u32,
        seen: u64,
    },
    Unbound(Unbound),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unbound {
    pub(crate) reason: Reason,
    /// Full name of the variable that the alias should follow.
    pub(crate) target: Arc<str>,
    /// Names the fault of the target and its remedy.
    pub(crate) sentence: Arc<str>,
}

impl Unbound {
    fn missing(target: &str) -> Self {
        Self {
            reason: Reason::VariableMissing,
            target: target.into(),
            sentence: format!(
                "the target {target} does not exist; deploy the library that contains it"
            )
            .into(),
        }
    }

    fn mismatch(target: &str, mismatch: Mismatch) -> Self {
        Self {
            reason: mismatch.reason,
            target: target.into(),
            sentence: mismatch.sentence.into(),
        }
    }

    /// Returns the sentence for a caller with these rights.
    pub(crate) fn sentence_for(&self, rights: &Rights) -> Arc<str> {
        match rights.hides(&self.target) {
            false => Arc::clone(&self.sentence),
            true => Arc::from(HIDDEN_TARGET),
        }
    }
}

/// The fault of a target that the caller may not read.
pub(crate) const HIDDEN_TARGET: &str =
    "its target is missing or does not fit; ask the engine's administrator for the reason";
