//! Deploying, replacing and undeploying whole libraries.

use std::collections::{HashMap, HashSet};
use std::fmt;

use trunkline_types::name::is_reserved;
use trunkline_types::{
    LibraryDefinition, Moment, Name, Properties, Quality, Reason, Tick, Timestamp,
    VariableDefinition,
};

use super::check::{self, initial_write};
use super::{DeployError, Libraries, Library, UnknownLibrary, index_of};
use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::features::alias::followers;
use crate::features::fields::open_fields;
use crate::features::forcing::Forced;
use crate::fifo::fifo_bytes;
use crate::outcome::orders::LibraryState;
use crate::outcome::{Attempt, WriteOutcome};
use crate::sync::Arc;
use crate::update::{Encoded, check_room as check_memory};
use crate::variable::Variable;
use crate::variables::VARIABLES_MAX;
use crate::write::{Origin, Write, WriteValue};

/// The changes made by a deployment, as numbers of variables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Deployed {
    pub handles: Vec<u32>,
    /// Variables that are new, or whose type, scope or FIFO has changed; they have new handles.
    pub added: usize,
    pub changed: usize,
    pub kept: usize,
    pub removed: usize,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Retained {
    pub value: Encoded,
    pub source_timestamp: Timestamp,
}

/// Looks up the retained value of a variable by its full name. A value whose type differs from that
/// of the variable is ignored.
pub type RetainedValues<'a> = dyn Fn(&Name, &Properties) -> Option<Retained> + 'a;

/// Libraries to deploy and to remove together, completely or not at all.
pub struct Deployment<'a> {
    pub deploy: &'a [&'a LibraryDefinition],
    /// Names of libraries to remove. Those that are not deployed are ignored.
    pub undeploy: &'a [String],
    /// Returns true for a variable that stays as it is, if it is deployed, although its properties may
    /// differ in the place of the definition.
    pub is_unchanged: &'a dyn Fn(&LibraryDefinition, &VariableDefinition) -> bool,
    /// The values with which new variables start.
    pub retained: &'a RetainedValues<'a>,
}

impl fmt::Debug for Deployment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deployed = self.deploy.iter().map(|library| &library.name);
        f.debug_struct("Deployment")
            .field("deploy", &deployed.collect::<Vec<_>>())
            .field("undeploy", &self.undeploy)
            .finish_non_exhaustive()
    }
}

/// The changes of one library, determined before anything is changed.
struct Plan {
    names: Vec<Name>,
    /// Deployed variables that stay deployed, by name.
    kept: HashMap<Name, Arc<Variable>>,
    /// Deployed variables that will be removed.
    gone: Vec<Arc<Variable>>,
    previous: Option<Library>,
}

impl Plan {
    fn added(&self) -> usize {
        self.names.len() - self.kept.len()
    }
}

impl Libraries<'_> {
    /// Deploys all variables of a library or none. Equal properties are stored only once.
    pub fn deploy(
        &self,
        library: &LibraryDefinition,
        now: Tick,
        wall: Timestamp,
    ) -> Result<Vec<u32>, DeployError> {
        let deployed =
            self.deploy_retained(library, false, &|_, _| None, now, wall, &mut Wakes::new())?;
        Ok(deployed.handles)
    }

    /// Deploys a library whose variables start with their `retained` values, or otherwise with
    /// their `initial` values (H-17). With `replace`, the library may already be deployed:
    /// unchanged variables keep their handles, values and subscribers (SP-06); the other variables
    /// are removed and added again.
    pub fn deploy_retained(
        &self,
        library: &LibraryDefinition,
        replace: bool,
        retained: &RetainedValues<'_>,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<Deployed, DeployError> {
        let _change = self.core.changes.lock();
        self.check_new(library, replace)?;
        let deployment = Deployment {
            deploy: &[library],
            undeploy: &[],
            is_unchanged: &|_, _| false,
            retained,
        };
        let deployed = self.deploy_locked(&deployment, Moment { now, wall }, wakes)?;
        Ok(deployed.into_iter().next().unwrap_or_default())
    }

    /// Deploys, replaces and removes several libraries: all of them or, after an error, none. The
    /// results are in the order of the deployed libraries.
    pub fn deploy_all(
        &self,
        deployment: &Deployment<'_>,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<Vec<Deployed>, DeployError> {
        let _change = self.core.changes.lock();
        self.deploy_locked(deployment, Moment { now, wall }, wakes)
    }

    /// Checks that [`deploy_all`](Self::deploy_all) would succeed.
    pub fn check_all(&self, deployment: &Deployment<'_>) -> Result<(), DeployError> {
        let _change = self.core.changes.lock();
        self.plan(deployment).map(|_| ())
    }

    /// Checks that [`deploy_retained`](Self::deploy_retained) would succeed.
    pub fn check(&self, library: &LibraryDefinition, replace: bool) -> Result<(), DeployError> {
        let _change = self.core.changes.lock();
        self.check_new(library, replace)?;
        let deployment = Deployment {
            deploy: &[library],
            undeploy: &[],
            is_unchanged: &|_, _| false,
            retained: &|_, _| None,
        };
        self.plan(&deployment).map(|_| ())
    }

    fn check_new(&self, library: &LibraryDefinition, replace: bool) -> Result<(), DeployError> {
        match replace || self.get(&library.name).is_none() {
            true => Ok(()),
            false => Err(DeployError::AlreadyDeployed {
                name: library.name.clone(),
            }),
        }
    }

    fn deploy_locked(
        &self,
        deployment: &Deployment<'_>,
        moment: Moment,
        wakes: &mut Wakes,
    ) -> Result<Vec<Deployed>, DeployError> {
        let plans = self.plan(deployment)?;
        let reserved = plans.iter().map(Plan::added).sum();
        if let Err(room) = self.core.variables.reserve_slots(reserved) {
            return Err(too_many(reserved, room));
        }
        for name in deployment.undeploy {
            // A library that is not deployed needs no removal.
            let _removed = self.undeploy_locked(name, moment, wakes);
        }
        let mut all = Vec::with_capacity(plans.len());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (plan, library) in plans.into_iter().zip(deployment.deploy) {
            let previous = plan.previous.clone().unwrap_or_default();
            before.extend(previous.handles);
            let state = previous.state;
            let deployed = self.carry_out(plan, library, state, deployment, moment, wakes);
            after.extend_from_slice(&deployed.handles);
            let entry = Library {
                name: library.name.clone(),
                description: library.description.clone(),
                state,
                handles: deployed.handles.clone(),
                before_stop: previous.before_stop,
            };
            let mut libraries = self.table.list.lock();
            let place = index_of(&libraries, &library.name).ok();
            match place.and_then(|place| libraries.get_mut(place)) {
                Some(existing) => *existing = entry,
                None => libraries.push(entry),
            }
            drop(libraries);
            all.push(deployed);
        }
        let features = self.table;
        self.of(&features.ages).watch(&after, moment.now);
        self.of(&features.alarms).deployed(&after);
        self.of(&features.providers).deployed(&after, moment, wakes);
        // Together, because a number may move from one library to another.
        self.core.variables.renumber(&before, &after);
        let aliases = self.of(&features.aliases);
        for (library, deployed) in deployment.deploy.iter().zip(&all) {
            aliases.enter(library, &deployed.handles, moment, wakes);
        }
        if all.iter().any(|one| one.added > 0 || one.removed > 0) {
            self.core.variables.announce_names(wakes);
        }
        Ok(all)
    }

    /// Checks a deployment, and determines the changes of each library.
    fn plan(&self, deployment: &Deployment<'_>) -> Result<Vec<Plan>, DeployError> {
        let room = self.core.variables.room();
        let check_room = |needed: usize| match needed > room {
            true => Err(too_many(needed, room)),
            false => Ok(()),
        };
        let previous: Vec<Option<Library>> = deployment
            .deploy
            .iter()
            .map(|library| self.get(&library.name))
            .collect();
        let handles_of =
            |previous: &Option<Library>| previous.as_ref().map_or(0, |one| one.handles.len());
        // In the best case, all existing variables remain. Libraries that are too large even then are
        // rejected without further checks.
        let needed = deployment.deploy.iter().zip(&previous);
        let needed = needed
            .map(|(library, before)| library.variables.len().saturating_sub(handles_of(before)));
        check_room(needed.sum())?;
        let removed = deployment.undeploy.iter();
        let removed = removed.filter_map(|name| self.get(name));
        let freed: HashSet<u32> = removed
            .chain(previous.iter().flatten().cloned())
            .flat_map(|library| library.handles)
            .collect();
        let mut checked = Vec::with_capacity(previous.len());
        let mut numbers = HashMap::new();
        for &library in deployment.deploy {
            let names = check::names(library)?;
            self.check_numbers(library, &names, &freed, &mut numbers)?;
            checked.push((library, names));
        }
        let aliases = self.of(&self.table.aliases);
        let fault = aliases.check(&checked, deployment.undeploy);
        fault.map_err(|(name, fault)| DeployError::Alias { name, fault })?;
        let mut plans = Vec::with_capacity(previous.len());
        let (mut added, mut fifos) = (0, 0);
        for ((library, names), previous) in checked.into_iter().zip(previous) {
            let mut kept = HashMap::new();
            for (name, definition) in names.iter().zip(&library.variables) {
                if let Some(variable) = self.core.variables.find(name.as_str())
                    && variable.has_layout_of(&definition.properties)
                {
                    kept.insert(name.clone(), Arc::clone(&variable));
                }
            }
            added += names.len() - kept.len();
            check_room(added)?;
            let kept_handles: HashSet<u32> =
                kept.values().map(|variable| variable.handle()).collect();
            let handles = previous.as_ref().map_or(&[][..], |one| &one.handles);
            let gone = handles
                .iter()
                .filter(|handle| !kept_handles.contains(handle));
            let gone = gone
                .filter_map(|handle| self.core.variable(*handle))
                .collect();
            let new = names.iter().zip(&library.variables);
            let new = new.filter(|(name, _)| !kept.contains_key(*name));
            let new = new.map(|(_, definition)| fifo_bytes(&definition.properties));
            fifos = new.fold(fifos, usize::saturating_add);
            if check_memory(fifos).is_err() {
                return Err(DeployError::FifoMemory {
                    library: library.name.clone(),
                    bytes: fifos,
                });
            }
            plans.push(Plan {
                names,
                kept,
                gone,
                previous,
            });
        }
        Ok(plans)
    }

    /// Checks that register numbers are unique in the engine, across all libraries. `freed` contains
    /// the handles of variables whose numbers become free, and `seen` the numbers of the libraries
    /// that are deployed together with this one.
    fn check_numbers(
        &self,
        library: &LibraryDefinition,
        names: &[Name],
        freed: &HashSet<u32>,
        seen: &mut HashMap<u32, String>,
    ) -> Result<(), DeployError> {
        for (name, definition) in names.iter().zip(&library.variables) {
            let Some(number) = definition.properties.number else {
                continue;
            };
            let here = seen.insert(number, name.as_str().to_owned());
            let elsewhere = self.core.variables.numbered(number);
            let elsewhere = elsewhere.filter(|variable| !freed.contains(&variable.handle()));
            let elsewhere = elsewhere.map(|variable| variable.name().to_owned());
            if let Some(holder) = here.or(elsewhere) {
                return Err(DeployError::NumberTaken {
                    name: name.as_str().to_owned(),
                    number,
                    holder,
                });
            }
        }
        Ok(())
    }

    fn carry_out(
        &self,
        plan: Plan,
        library: &LibraryDefinition,
        state: LibraryState,
        deployment: &Deployment<'_>,
        moment: Moment,
        wakes: &mut Wakes,
    ) -> Deployed {
        let Plan {
            names, kept, gone, ..
        } = plan;
        let retained = deployment.retained;
        let leases = self.of(&self.table.leases);
        for (place, variable) in gone.iter().enumerate() {
            self.remove_variable(variable, moment, wakes);
            self.reclaim_after(place);
            wake_after(place, wakes);
        }
        self.core.variables.reclaim();
        let mut deployed = Deployed {
            removed: gone.len(),
            ..Deployed::default()
        };
        let mut templates: Vec<Arc<Properties>> = Vec::new();
        self.core.variables.reserve(names.len() - kept.len());
        deployed.handles.reserve_exact(names.len());
        // Each name is moved into its variable, because copying all names of a large library would
        // need much memory.
        for (place, (name, definition)) in names.into_iter().zip(&library.variables).enumerate() {
            wake_after(place, wakes);
            let properties = intern(&mut templates, definition);
            if let Some(variable) = kept.get(&name) {
                let is_unchanged = (deployment.is_unchanged)(library, definition)
                    || **variable.properties() == *properties;
                if is_unchanged {
                    deployed.kept += 1;
                } else {
                    let mut state = variable.lock();
                    leases.refresh(variable, &mut state, &properties);
                    let alarms = self.of(&self.table.alarms);
                    alarms.configure(variable, &mut state, &properties, moment, wakes);
                    variable.edit(&mut state, properties, moment, wakes);
                    deployed.changed += 1;
                }
                deployed.handles.push(variable.handle());
                continue;
            }
            // A variable cannot be found before it has its first value, so no client can have
            // written it.
            let retained = retained(&name, &definition.properties);
            let base = self.core.variables.take_former_sequence(name.as_str());
            let inserted = self.core.variables.insert_reserved(|handle| {
                let variable = Variable::new(handle, name.into(), properties, base);
                if variable.deployed().single_writer {
                    leases.refresh(&variable, &mut variable.lock(), variable.deployed());
                }
                if !variable.deployed().alarms.is_empty() {
                    let (alarms, mut state) = (self.of(&self.table.alarms), variable.lock());
                    let properties = variable.deployed();
                    alarms.configure(&variable, &mut state, properties, moment, wakes);
                }
                if !variable.is_alias() && !self.write_retained(&variable, retained, moment) {
                    self.write_initial(&variable, moment);
                }
                if state == LibraryState::Stopped {
                    variable.set_stopped(&variable.lock(), true);
                }
                self.table.control.mark_new(&variable);
                variable
            });
            if let Some(inserted) = &inserted {
                self.of(&self.table.tables).enter(inserted);
            }
            // The insertion cannot fail, because the slots were reserved.
            deployed.added += 1;
            deployed
                .handles
                .extend(inserted.map(|variable| variable.handle()));
        }
        deployed
    }

    /// Removes a library. Its names become free, requests for its handles are answered with `Gone`,
    /// and aliases of its variables become bad, with the cause.
    pub fn undeploy(
        &self,
        name: &str,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<usize, UnknownLibrary> {
        let _change = self.core.changes.lock();
        self.undeploy_locked(name, Moment { now, wall }, wakes)
    }

    fn undeploy_locked(
        &self,
        name: &str,
        moment: Moment,
        wakes: &mut Wakes,
    ) -> Result<usize, UnknownLibrary> {
        let library = {
            let mut libraries = self.table.list.lock();
            let place = index_of(&libraries, name)?;
            libraries.remove(place)
        };
        for (place, handle) in library.handles.iter().enumerate() {
            if let Some(variable) = self.core.variable(*handle) {
                self.remove_variable(&variable, moment, wakes);
            }
            self.reclaim_after(place);
            wake_after(place, wakes);
        }
        self.core.variables.reclaim();
        self.core.variables.renumber(&library.handles, &[]);
        self.core.variables.announce_names(wakes);
        self.of(&self.table.aliases).remove(name);
        Ok(library.handles.len())
    }

    /// Returns the number of subscriptions to the variables of a library, and to their aliases in
    /// other libraries.
    pub fn subscriptions(&self, name: &str) -> Result<usize, UnknownLibrary> {
        let libraries = self.table.list.lock();
        let place = index_of(&libraries, name)?;
        let handles = libraries.get(place).map(|library| library.handles.iter());
        let variables = handles
            .into_iter()
            .flatten()
            .filter_map(|handle| self.core.variable(*handle));
        Ok(variables
            .map(|variable| lost_subscriptions(&variable, name))
            .sum())
    }

    /// Drops the removed variables in batches of [`WAKE_EVERY`], so that concurrent requests do not
    /// have to drop them when they end.
    fn reclaim_after(&self, place: usize) {
        if place % WAKE_EVERY == WAKE_EVERY - 1 {
            self.core.variables.reclaim();
        }
    }

    fn remove_variable(&self, variable: &Arc<Variable>, moment: Moment, wakes: &mut Wakes) {
        self.core.variables.remove(variable);
        let features = self.table;
        self.of(&features.aliases).detach(variable, moment, wakes);
        let mut state = variable.lock();
        variable.set_gone(&state);
        // The entry in the tables now belongs to the next variable in the slot.
        state.latest.leave_tables();
        self.of(&features.leases).forget(variable, &mut state);
        let alarms = self.of(&features.alarms);
        alarms.forget(variable, &mut state, moment, wakes);
        state.announce_gone(wakes);
        let fields = open_fields(&state).to_vec();
        let is_forced = state.extension::<Forced>().is_some();
        drop(state);
        for open in fields {
            self.remove_variable(&open.variable, moment, wakes);
            features.fields.uncount();
        }
        if is_forced {
            self.of(&features.forcing).forget(variable.handle());
        }
        if variable.properties().max_age.is_some() {
            self.of(&features.ages).forget(variable.handle());
        }
        features.pump.forget(variable);
        if !is_reserved(variable.name()) {
            self.core.counters.removed.add(&variable.ledger());
        }
        // Done last, so that a consumer woken by this finds that the variable is gone.
        self.core.variables.release(variable);
    }

    /// Writes the retained value as the first update, with the quality `uncertain: retained` and its
    /// old source timestamp. Returns false if there is no retained value, or if the variable's
    /// properties do not permit it.
    fn write_retained(
        &self,
        variable: &Variable,
        retained: Option<Retained>,
        moment: Moment,
    ) -> bool {
        let Some(retained) = retained else {
            return false;
        };
        let mut write = Write::of(WriteValue::Encoded(&retained.value));
        write.origin = Origin::Source;
        write.source_timestamp = Some(retained.source_timestamp);
        write.quality = Some(Quality::uncertain(Reason::Retained));
        self.write_first(variable, &write, moment)
    }

    /// Writes the initial value as the first update, with the quality `uncertain: initial` (H-17).
    fn write_initial(&self, variable: &Variable, moment: Moment) {
        let properties = variable.properties();
        if let Some(initial) = &properties.initial {
            // The value was checked with the library. If there is not enough memory for a large
            // value, the variable starts without a value and counts a refusal.
            let _written = self.write_first(variable, &initial_write(initial), moment);
        }
    }

    fn write_first(&self, variable: &Variable, write: &Write<'_>, moment: Moment) -> bool {
        let (caller, mut wakes) = (Caller::engine(), Wakes::new());
        let Moment { now, wall } = moment;
        let attempt = self
            .core
            .try_write(&caller, now, wall, variable, write, &mut wakes);
        matches!(attempt, Attempt::Done(WriteOutcome::Applied(_)))
    }
}

fn too_many(needed: usize, room: usize) -> DeployError {
    DeployError::TooMany {
        needed,
        room,
        max: VARIABLES_MAX,
    }
}

/// Wakes the consumers marked so far, after every [`WAKE_EVERY`] variables of an operation. This is
/// safe under the lock for changes, because no wake-up makes changes.
pub(super) fn wake_after(place: usize, wakes: &mut Wakes) {
    if place % WAKE_EVERY == WAKE_EVERY - 1 {
        wakes.flush();
    }
}

const WAKE_EVERY: usize = 64;

/// Returns the number of subscriptions that lose the variable when its library is undeployed. The
/// recursion is shallow, because chains of aliases are short.
fn lost_subscriptions(variable: &Variable, library: &str) -> usize {
    let followers = followers(&variable.lock()).to_vec();
    let is_own = |alias: &Variable| alias.name().split('/').next() == Some(library);
    let others = followers.iter().filter(|alias| !is_own(alias));
    variable.subscribers()
        + others
            .map(|alias| lost_subscriptions(alias, library))
            .sum::<usize>()
}

/// Shares equal properties. Compares only with the latest few, so that a library of 100,000 equal
/// variables stores them once and a library of different variables is still deployed quickly.
fn intern(
    templates: &mut Vec<Arc<Properties>>,
    definition: &VariableDefinition,
) -> Arc<Properties> {
    const LOOK_BACK: usize = 16;
    let properties = &definition.properties;
    let mut recent = templates.iter().rev().take(LOOK_BACK);
    if let Some(known) = recent.find(|known| Arc::ptr_eq(known, properties) || known == &properties)
    {
        return Arc::clone(known);
    }
    templates.push(Arc::clone(properties));
    Arc::clone(properties)
}
