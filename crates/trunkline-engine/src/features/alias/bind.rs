//! Binds aliases to their targets and unbinds them. The list of libraries stays locked throughout,
//! so no binding changes concurrently.

use trunkline_types::alias::{mismatch, target_of};
use trunkline_types::{LibraryDefinition, Moment, Name, Quality, Reason};

use super::graph::Entry;
use super::{AliasLinks, Aliases, Target, Unbound, follow, target};
use crate::delivery::outbox::Wakes;
use crate::sync::Arc;
use crate::variable::{Committed, State, Variable};
use crate::write::{EngineCore, requalify_admitted};

impl Aliases<'_> {
    /// Adds the aliases of a library that was deployed or replaced. Binds these aliases, and the
    /// aliases of the library's variables in other libraries.
    pub(crate) fn enter(
        &self,
        library: &LibraryDefinition,
        handles: &[u32],
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let mut table = self.table.table.lock();
        table.retain(|name, _| name.library() != library.name);
        for (definition, handle) in library.variables.iter().zip(handles) {
            // Invalid definitions were reported before anything was changed.
            if let Ok(Some(target)) = target_of(&definition.properties)
                && let Ok(name) = Name::join(&library.name, &definition.path)
            {
                let handle = *handle;
                table.insert(name, Entry { handle, target });
            }
        }
        drop(table);
        self.bind(&library.name, moment, wakes);
    }

    pub(crate) fn remove(&self, library: &str) {
        let mut table = self.table.table.lock();
        table.retain(|name, _| name.library() != library);
    }

    /// Binds the aliases of a library, and the aliases of its variables in other libraries, to
    /// targets that exist and are suitable. The aliases then show the current values of their
    /// targets.
    pub(crate) fn bind(&self, library: &str, moment: Moment, wakes: &mut Wakes) {
        let table = self.table.table.lock();
        let affected = table.iter().filter_map(|(name, entry)| {
            let is_affected = name.library() == library || entry.target.library() == library;
            let alias = self.core.variable(entry.handle).filter(|_| is_affected)?;
            Some((alias, &entry.target))
        });
        let affected: Vec<(Arc<Variable>, &Name)> = affected.collect();
        // All aliases leave their old targets before any gets a new one, because a mixture of old
        // and new bindings could form a cycle.
        for (alias, target) in &affected {
            self.unbind_from_other(alias, target);
        }
        for (alias, target) in &affected {
            self.bind_alias(alias, target, moment, wakes);
        }
    }

    /// Returns the target that an alias must follow, or the reason why it cannot follow it.
    fn suitable_target(&self, alias: &Variable, target: &Name) -> Result<Arc<Variable>, Unbound> {
        let name = target.as_str();
        let Some(variable) = self.core.variables.find(name) else {
            return Err(Unbound::missing(name));
        };
        match mismatch(&alias.properties(), name, &variable.properties()) {
            None => Ok(variable),
            Some(found) => Err(Unbound::mismatch(name, found)),
        }
    }

    /// Unbinds the alias, unless it is already bound to the target that it must follow.
    fn unbind_from_other(&self, alias: &Arc<Variable>, target: &Name) {
        let Some(bound) = bound_to(self.core, alias) else {
            return;
        };
        let unbound = match self.suitable_target(alias, target) {
            Ok(suitable) if Arc::ptr_eq(&suitable, &bound) => return,
            // This state lasts only until the new target is bound.
            Ok(_) => Unbound::missing(target.as_str()),
            Err(unbound) => unbound,
        };
        self.leave_target(alias);
        set_target(alias, &mut alias.lock(), Target::Unbound(unbound));
    }

    fn bind_alias(&self, alias: &Arc<Variable>, target: &Name, moment: Moment, wakes: &mut Wakes) {
        let target = match self.suitable_target(alias, target) {
            Ok(target) => target,
            Err(unbound) => return unbind(alias, unbound, moment, wakes),
        };
        let mut target_state = target.lock();
        target.change_extension(&mut target_state, |links: &mut AliasLinks| {
            let mut followers = links.followers.iter();
            if !followers.any(|follower| Arc::ptr_eq(follower, alias)) {
                links.followers.push(Arc::clone(alias));
            }
        });
        let update = target.update_locked(&target_state);
        let mut state = alias.lock();
        let bound = Target::Bound {
            handle: target.handle(),
            seen: update.sequence,
        };
        set_target(alias, &mut state, bound);
        if update.sequence > 0 {
            let committed = Committed {
                variable: &target,
                state: &target_state,
                update: &update,
                moment,
                redirect: None,
            };
            follow(&committed, alias, &mut state, true, wakes);
        } else if alias.sequence() > 0 {
            let quality = Quality::bad(Reason::NoValue);
            requalify_admitted(alias, &mut state, quality, moment, wakes);
        }
    }

    fn leave_target(&self, alias: &Arc<Variable>) {
        if let Some(target) = bound_to(self.core, alias) {
            let mut state = target.lock();
            remove_followers(&target, &mut state, |follower| Arc::ptr_eq(follower, alias));
        }
    }

    /// Called when a variable is undeployed. Unbinds it from its target, and marks its aliases as
    /// bad, with the cause. The caller has already removed it from the name index.
    pub(crate) fn detach(&self, variable: &Arc<Variable>, moment: Moment, wakes: &mut Wakes) {
        if variable.is_alias() {
            self.leave_target(variable);
        }
        let mut state = variable.lock();
        for alias in remove_followers(variable, &mut state, |_| true) {
            let unbound = Unbound::missing(variable.name());
            unbind(&alias, unbound, moment, wakes);
        }
    }
}

pub(crate) fn bound_to(core: &EngineCore, alias: &Variable) -> Option<Arc<Variable>> {
    match target(&alias.lock()) {
        Some(Target::Bound { handle, .. }) => core.variable(*handle),
        _ => None,
    }
}

/// Returns the variable at the end of a chain of aliases: `variable` itself if it is not an alias.
pub(crate) fn resolve_alias(core: &EngineCore, variable: &Arc<Variable>) -> Arc<Variable> {
    let mut at = Arc::clone(variable);
    // Terminates, because no cyclic chain is ever deployed.
    while at.is_alias()
        && let Some(next) = bound_to(core, &at)
    {
        at = next;
    }
    at
}

fn remove_followers(
    target: &Variable,
    state: &mut State,
    is_match: impl Fn(&Arc<Variable>) -> bool,
) -> Vec<Arc<Variable>> {
    let Some(links) = state.extension_mut::<AliasLinks>() else {
        return Vec::new();
    };
    let taken = links
        .followers
        .extract_if(.., |follower| is_match(follower))
        .collect();
    if links.followers.is_empty() && links.target.is_none() {
        target.detach::<AliasLinks>(state);
    }
    taken
}

fn set_target(alias: &Variable, state: &mut State, target: Target) {
    alias.change_extension(state, |links: &mut AliasLinks| links.target = Some(target));
}

fn unbind(alias: &Variable, unbound: Unbound, moment: Moment, wakes: &mut Wakes) {
    let mut state = alias.lock();
    let quality = Quality::bad(unbound.reason);
    set_target(alias, &mut state, Target::Unbound(unbound));
    requalify_admitted(alias, &mut state, quality, moment, wakes);
}
