//! Binds aliases to their targets and releases them. The list of libraries stays locked throughout,
//! so no binding changes concurrently.

use trunkline_types::alias::{misfit, target_of};
use trunkline_types::{LibraryDefinition, Name, Quality, Reason, Tick, Timestamp};

use super::graph::Entry;
use super::{Bonds, Following, Target, Unbound};
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::sync::Arc;
use crate::variable::{State, Variable};
use crate::write::requalify_locked;

impl Engine {
    /// Called when a library was deployed or replaced: binds its aliases, and the aliases that lead
    /// to it.
    pub(crate) fn enter_aliases(
        &self,
        library: &LibraryDefinition,
        handles: &[u32],
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let mut table = self.aliases().table.lock();
        table.retain(|name, _| name.library() != library.name);
        for (definition, handle) in library.variables.iter().zip(handles) {
            // Faults in them were reported before anything was changed.
            if let Ok(Some(target)) = target_of(&definition.properties)
                && let Ok(name) = Name::join(&library.name, &definition.path)
            {
                let handle = *handle;
                table.insert(name, Entry { handle, target });
            }
        }
        drop(table);
        self.bind_aliases(&library.name, now, wall, wakes);
    }

    /// Removes the aliases of an undeployed library from the table.
    pub(crate) fn remove_aliases(&self, library: &str) {
        let mut table = self.aliases().table.lock();
        table.retain(|name, _| name.library() != library);
    }

    /// Binds the aliases of a library and those that lead to it, if their targets exist and are
    /// suitable. The aliases then show the current values.
    pub(crate) fn bind_aliases(
        &self,
        library: &str,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let table = self.aliases().table.lock();
        let concerned = table.iter().filter_map(|(name, entry)| {
            let is_concerned = name.library() == library || entry.target.library() == library;
            let alias = self.variable(entry.handle).filter(|_| is_concerned)?;
            Some((alias, &entry.target))
        });
        let concerned: Vec<(Arc<Variable>, &Name)> = concerned.collect();
        // All aliases leave their old targets before any gets a new one, because old and new
        // bindings together could form a cycle.
        for (alias, target) in &concerned {
            self.leave_other(alias, target);
        }
        for (alias, target) in &concerned {
            self.bind_alias(alias, target, now, wall, wakes);
        }
    }

    /// Returns the target that an alias must follow, or the reason why it cannot.
    fn fitting(&self, alias: &Variable, target: &Name) -> Result<Arc<Variable>, Unbound> {
        let name = target.as_str();
        let Some(variable) = self.registry().find(name) else {
            return Err(Unbound::missing(name));
        };
        match misfit(&alias.properties(), name, &variable.properties()) {
            None => Ok(variable),
            Some(misfit) => Err(misfit.into()),
        }
    }

    /// Detaches the alias from its target, unless it is the one to follow.
    fn leave_other(&self, alias: &Arc<Variable>, target: &Name) {
        let Some(bound) = self.bound_to(alias) else {
            return;
        };
        let unbound = match self.fitting(alias, target) {
            Ok(wanted) if Arc::ptr_eq(&wanted, &bound) => return,
            // Only until the new target is bound.
            Ok(_) => Unbound::missing(target.as_str()),
            Err(unbound) => unbound,
        };
        self.leave_target(alias);
        alias.lock().bonds_mut().target = Some(Target::Unbound(unbound));
    }

    fn bind_alias(
        &self,
        alias: &Arc<Variable>,
        target: &Name,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let target = match self.fitting(alias, target) {
            Ok(target) => target,
            Err(unbound) => return unbind(alias, unbound, now, wall, wakes),
        };
        let mut target_state = target.lock();
        let bonds = target_state.bonds_mut();
        if !bonds
            .followers
            .iter()
            .any(|known| Arc::ptr_eq(known, alias))
        {
            bonds.followers.push(Arc::clone(alias));
        }
        let update = target.update_locked(&target_state);
        let mut state = alias.lock();
        state.bonds_mut().target = Some(Target::Bound {
            handle: target.handle(),
            seen: update.sequence,
        });
        if update.sequence > 0 {
            let following = Following {
                source: &target,
                update: &update,
                now,
                wall,
                watched: 0,
            };
            following.follow(alias, &mut state, true, wakes);
        } else if alias.sequence() > 0 {
            disqualify(alias, &mut state, Reason::NoValue, now, wall, wakes);
        }
    }

    pub(crate) fn bound_to(&self, alias: &Variable) -> Option<Arc<Variable>> {
        match alias.lock().target() {
            Some(Target::Bound { handle, .. }) => self.variable(*handle),
            _ => None,
        }
    }

    /// Returns the variable at the end of a chain of aliases: `variable` itself if it is not an
    /// alias.
    pub(crate) fn behind(&self, variable: &Arc<Variable>) -> Arc<Variable> {
        let mut at = Arc::clone(variable);
        // Terminates, because no chain with a cycle is deployed.
        while at.is_alias()
            && let Some(next) = self.bound_to(&at)
        {
            at = next;
        }
        at
    }

    /// Removes the alias from the followers of its target.
    fn leave_target(&self, alias: &Arc<Variable>) {
        if let Some(target) = self.bound_to(alias) {
            let mut state = target.lock();
            let followers = &mut state.bonds_mut().followers;
            followers.retain(|known| !Arc::ptr_eq(known, alias));
        }
    }

    /// Called when a variable is undeployed: detaches it from its target, and turns its aliases bad
    /// with the cause. The caller has removed it from the name index.
    pub(crate) fn let_go_of_aliases(
        &self,
        variable: &Arc<Variable>,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        if variable.is_alias() {
            self.leave_target(variable);
        }
        let mut state = variable.lock();
        if state.followers().is_empty() {
            return;
        }
        let followers = std::mem::take(&mut state.bonds_mut().followers);
        for alias in &followers {
            unbind(alias, Unbound::missing(variable.name()), now, wall, wakes);
        }
    }
}

/// Records that the alias has no target, and why.
fn unbind(alias: &Variable, unbound: Unbound, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
    let mut state = alias.lock();
    let reason = unbound.reason;
    state.bonds_mut().target = Some(Target::Unbound(unbound));
    disqualify(alias, &mut state, reason, now, wall, wakes);
}

fn disqualify(
    alias: &Variable,
    state: &mut State,
    reason: Reason,
    now: Tick,
    wall: Timestamp,
    wakes: &mut Wakes,
) {
    let quality = Quality::bad(reason);
    if !alias.is_blocked() {
        requalify_locked(alias, state, quality, now, wall, wakes);
    } else if let Some(forced) = state.forced_mut() {
        forced.requalify(quality, wall);
    }
}

impl State {
    fn bonds_mut(&mut self) -> &mut Bonds {
        let extra = self.extra.get_or_insert_default();
        extra.bonds.get_or_insert_default()
    }
}
