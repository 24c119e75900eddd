//! Deploys and removes libraries while clients have handles of the variables.
//!
//! ```text
//! deploy t0 --> undeploy t0, deploy t1 --> ...     t1 reuses the slots of t0, in the next
//!    |              |                              generation
//!    v              v
//!  Appeared       Gone, one delay later: until then a program sends handles of t0
//! ```
//!
//! No name is used twice. The checker can therefore detect that a value written to a removed variable
//! appears in another variable, because the witness and every reading name the variable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use trunkline_client::request::{Close, Open};
use trunkline_client::{
    Event, FollowEvent, FollowId, OpenOptions, RequestId, SubscribeOptions, VariableRef, Write,
};
use trunkline_engine::Wakes;
use trunkline_types::{
    Contract, LibraryDefinition, Pattern, Position, Properties, Tick, VariableDefinition,
};

use crate::checker::{Checker, ItemState, TakenReading};
use crate::plan::{Plan, value_kind};
use crate::program::{Program, value_of};
use crate::rng::Rng;
use crate::world::{self, World};

/// Matches the names of all transient variables, and no other names.
const PATTERN: &str = "t*/**";
/// Maximum number of variables that a program keeps open, of which most may have been removed.
const OPEN_MAX: usize = 60;

/// The plan of the transient libraries.
#[derive(Clone, Debug)]
pub struct TransientPlan {
    /// Mean time between two deployments or removals.
    pub interval: Duration,
    /// Maximum number of variables of a library.
    pub variables_max: u64,
    /// Maximum number of transient libraries at a time.
    pub libraries_max: usize,
    /// Contract of the subscriptions to the transient variables.
    pub contract: Contract,
}

impl TransientPlan {
    /// Draws a plan.
    pub fn drawn(rng: &mut Rng, is_latest_only: bool) -> Self {
        let last = Contract::Last(rng.range(2, 20) as u32);
        Self {
            interval: Duration::from_secs_f64(rng.magnitude(0.1, 4.0)),
            variables_max: rng.magnitude(1.0, 20.0) as u64,
            libraries_max: rng.range(1, 3) as usize,
            contract: match is_latest_only || rng.chance(0.5) {
                true => Contract::Latest,
                false => last,
            },
        }
    }
}

/// A deployed transient library.
#[derive(Debug)]
pub struct Transient {
    pub library: String,
    /// Handles of the variables, by variable number.
    pub handles: BTreeMap<u32, u32>,
}

/// Returns the number of the variable with this full name.
pub fn variable_of(name: &str) -> Option<u32> {
    name.rsplit_once('v')?.1.parse().ok()
}

impl World {
    /// Schedules the next deployment or removal.
    pub(crate) fn plan_redeploy(&mut self) {
        if let Some(plan) = &self.plan.transient {
            let at = self.now.saturating_add(self.rng.wait(plan.interval));
            self.schedule(at, world::Event::Redeploy);
        }
    }

    /// Removes a library, deploys a library, or does both.
    pub(crate) fn redeploy(&mut self) {
        let Some(plan) = self.plan.transient.clone() else {
            return;
        };
        if !self.engine_runs() {
            return;
        }
        let count = self
            .engine
            .running
            .as_ref()
            .map_or(0, |r| r.transient.len());
        if count >= plan.libraries_max || (count > 0 && self.rng.chance(0.3)) {
            let index = self.rng.index(count);
            self.undeploy(index);
        }
        let count = self
            .engine
            .running
            .as_ref()
            .map_or(0, |r| r.transient.len());
        if count < plan.libraries_max && self.rng.chance(0.9) {
            let variables = self.rng.range(1, plan.variables_max);
            self.deploy(variables);
        }
        self.after_engine();
    }

    fn undeploy(&mut self, index: usize) {
        let (now, wall) = (self.now, self.wall(0));
        let Some(running) = &mut self.engine.running else {
            return;
        };
        let library = running.transient.remove(index).library;
        self.trace.log(now, || format!("{library} is undeployed"));
        let undeployed =
            running
                .engine
                .libraries()
                .undeploy(&library, now, wall, &mut Wakes::new());
        if let Err(error) = undeployed {
            self.checker
                .fail(|| format!("{library} cannot be undeployed: {error}"));
        }
    }

    fn deploy(&mut self, variables: u64) {
        let (now, wall) = (self.now, self.wall(0));
        let first = self.transient_variables;
        self.transient_variables += variables as u32;
        let numbers = first..self.transient_variables;
        let Some(running) = &mut self.engine.running else {
            return;
        };
        let library = format!("t{first}");
        self.trace.log(now, || {
            format!("{library} is deployed, {variables} variables")
        });
        let definition = |variable: u32| VariableDefinition {
            path: format!("v{variable}"),
            properties: Properties::new(value_kind(&self.plan, variable).data_type()).into(),
        };
        let definition = LibraryDefinition {
            name: library.clone(),
            description: String::new(),
            variables: numbers.clone().map(definition).collect(),
        };
        let handles = match running.engine.libraries().deploy(&definition, now, wall) {
            Ok(handles) => handles,
            Err(error) => {
                return self
                    .checker
                    .fail(|| format!("{library} is refused: {error}"));
            }
        };
        running.follow(&handles, self.plan.is_latest_only, &mut self.checker);
        let handles = numbers.clone().zip(handles).collect();
        running.transient.push(Transient { library, handles });
        self.checker.totals.deployed += 1;
        for variable in numbers {
            if self.rng.chance(0.7) {
                self.produce_one(variable);
            }
        }
    }

    /// Writes a transient variable from the engine's own process.
    pub(crate) fn produce_transient(&mut self) {
        let Some(running) = &self.engine.running else {
            return;
        };
        let all = running
            .transient
            .iter()
            .flat_map(|library| library.handles.keys());
        let all: Vec<u32> = all.copied().collect();
        if let Some(variable) = all.get(self.rng.index(all.len())).copied() {
            self.produce_one(variable);
        }
    }

    /// Checks that every program knows exactly the existing variables, with their current values
    /// (B-32, B-11). Changes younger than `settled` may still be in flight.
    pub(crate) fn check_transient(&mut self, when: &str, settled: Duration) {
        let Some(running) = &self.engine.running else {
            return;
        };
        if self.plan.transient.is_none() || self.checker.violation.is_some() {
            return;
        }
        let epoch = running.engine.epoch();
        let mut violation = None;
        for (program, host) in self.programs.iter().enumerate() {
            let Some(started) = &host.running else {
                continue;
            };
            let Some(followed) = &started.transient else {
                continue;
            };
            let known: BTreeSet<u32> = followed.items.values().map(|(v, _)| *v).collect();
            let deployed = running
                .transient
                .iter()
                .flat_map(|library| library.handles.keys());
            let deployed: BTreeSet<u32> = deployed.copied().collect();
            if known != deployed {
                violation = Some(format!(
                    "B-32: program {program} knows {known:?}, the engine has {deployed:?}, {when}"
                ));
                break;
            }
            for (item, (variable, state)) in &followed.items {
                let handle = running.handle_of(*variable);
                let Some(engine_variable) =
                    handle.and_then(|handle| running.engine.variable(handle))
                else {
                    violation = Some(format!(
                        "variable {variable} is deployed but missing {when}"
                    ));
                    break;
                };
                let sequence = engine_variable.update().sequence;
                let position = Position { epoch, sequence };
                let update = self.checker.update_at(*variable, position);
                if sequence == 0 || update.is_some_and(|update| self.now.since(update.at) < settled)
                {
                    continue;
                }
                if state.position != Some(position) {
                    let subscription = started.core.followed(followed.id);
                    let value = subscription
                        .and_then(|id| started.core.value(self.now, id, *item))
                        .map(|value| (value.position, value.stale));
                    violation = Some(format!(
                        "B-11: program {program} has taken {:?} of variable {variable}, the \
                         engine is at {position:?}, {when}; its copy is {value:?}",
                        state.position
                    ));
                }
            }
        }
        if let Some(violation) = violation {
            self.checker.fail(|| violation);
        }
    }
}

/// The state of a program's subscription to the transient variables.
#[derive(Debug)]
pub struct Followed {
    id: FollowId,
    contract: Contract,
    /// The number of each item's variable, and the state of its readings.
    items: BTreeMap<u32, (u32, ItemState)>,
    /// Variables that are open for reading and writing. They may have been removed.
    open: VecDeque<(u32, VariableRef)>,
    opening: VecDeque<(RequestId<Open>, u32)>,
    closing: VecDeque<RequestId<Close>>,
    /// Session of the readings that are being received.
    session: u64,
    /// The client's count of changes when it last took events.
    changes: u64,
}

impl Program {
    /// Subscribes to the pattern of all transient variables.
    pub fn follow_transient(&mut self, plan: &TransientPlan, checker: &mut Checker) {
        let patterns: Vec<Pattern> = Pattern::parse(PATTERN).into_iter().collect();
        let none: [&str; 0] = [];
        let options = SubscribeOptions::default();
        match self
            .core
            .follow(&none, &patterns, &[], plan.contract, options)
        {
            Ok(id) => {
                self.transient = Some(Followed {
                    id,
                    contract: plan.contract,
                    items: BTreeMap::new(),
                    open: VecDeque::new(),
                    opening: VecDeque::new(),
                    closing: VecDeque::new(),
                    session: 0,
                    changes: u64::MAX,
                });
            }
            Err(error) => checker.fail(|| format!("a pattern is refused: {error}")),
        }
    }

    /// Takes up to `max` events of the transient variables. Returns true if more events wait.
    pub fn take_transient(&mut self, now: Tick, max: usize, checker: &mut Checker) -> bool {
        let (core, writer) = (&mut self.core, self.writer);
        let Some(followed) = &mut self.transient else {
            return false;
        };
        let changes = core.changes();
        if changes == followed.changes {
            return false;
        }
        for _ in 0..max {
            let Some(event) = core.next_followed(now, followed.id) else {
                followed.changes = changes;
                followed.take_opened(core);
                return false;
            };
            match event {
                FollowEvent::Appeared { item, name, .. } => {
                    let Some(variable) = variable_of(&name) else {
                        checker.fail(|| format!("B-32: {name} matches no pattern"));
                        continue;
                    };
                    followed
                        .items
                        .insert(item, (variable, ItemState::default()));
                    let opening = core.open(&[&*name], OpenOptions::default());
                    followed
                        .opening
                        .extend(opening.ok().map(|request| (request, variable)));
                }
                FollowEvent::Gone { item, name } => {
                    let known = followed.items.remove(&item).map(|(variable, _)| variable);
                    if known != variable_of(&name) {
                        checker.fail(|| {
                            format!("B-32: {name} is gone as item {item}, which was {known:?}")
                        });
                    }
                }
                FollowEvent::PatternError { fault, .. } => {
                    checker.fail(|| format!("B-32: a pattern is refused: {}", fault.sentence));
                }
                FollowEvent::Event(event) => followed.take_event(now, event, writer, core, checker),
                _ => {}
            }
        }
        followed.take_opened(core);
        true
    }

    /// Writes to some of the open variables, which may have been removed.
    pub fn write_transient(&mut self, plan: &Plan, rng: &mut Rng, checker: &mut Checker) {
        let Some(followed) = &self.transient else {
            return;
        };
        let len = followed.open.len();
        let chosen: Vec<_> = (0..rng.range(1, 8))
            .filter_map(|_| followed.open.get(rng.index(len)).copied())
            .collect();
        let (mut writes, mut numbers) = (Vec::new(), Vec::new());
        for (variable, target) in chosen {
            let number = checker.begin_write(variable, self.writer, None);
            writes.push(Write::new(target, value_of(plan, variable, number, rng)));
            numbers.push(number);
        }
        if !writes.is_empty() {
            self.send(writes, numbers, checker);
        }
    }

    /// Reads all open variables.
    pub fn read_transient(&mut self) {
        let Some(followed) = self.transient.as_ref().filter(|one| !one.open.is_empty()) else {
            return;
        };
        let (variables, targets): (Vec<u32>, Vec<VariableRef>) =
            followed.open.iter().copied().unzip();
        self.read(&targets, variables);
    }
}

impl Followed {
    /// Collects variables that were opened. If there are too many, closes those that were opened first.
    fn take_opened(&mut self, core: &mut trunkline_client::ClientCore) {
        let open = &mut self.open;
        self.opening.retain(|(request, variable)| {
            let Some(answer) = core.take(*request) else {
                return true;
            };
            let opened = answer.unwrap_or_default();
            open.extend(
                opened
                    .into_iter()
                    .flatten()
                    .map(|o| (*variable, o.variable)),
            );
            false
        });
        while open.len() > OPEN_MAX {
            let oldest = open.pop_front();
            let closing = oldest.and_then(|(_, variable)| core.close(&[variable]).ok());
            self.closing.extend(closing);
        }
        self.closing.retain(|request| core.take(*request).is_none());
    }

    fn take_event(
        &mut self,
        now: Tick,
        event: Event,
        writer: crate::checker::Writer,
        core: &trunkline_client::ClientCore,
        checker: &mut Checker,
    ) {
        match event {
            Event::Connected { session, .. } => self.session = session,
            Event::Disconnected { .. } => {
                let all = self.items.values_mut();
                all.for_each(|(_, state)| state.interrupted = true);
            }
            Event::Reading { item, reading } => {
                let Some((variable, state)) = self.items.get_mut(&item) else {
                    return checker.fail(|| format!("B-32: a reading of the unknown item {item}"));
                };
                if core.session().is_none() && reading.stale.is_none() {
                    checker
                        .fail(|| format!("B-12: taken while disconnected, not stale: {reading:?}"));
                }
                let taken = TakenReading {
                    writer,
                    session: self.session,
                    variable: *variable,
                    contract: self.contract,
                    reading: &reading,
                    variables: &[],
                    now,
                };
                checker.check_reading(&taken, state);
            }
            Event::Ended { item, .. } | Event::ItemError { item, .. } => {
                if let Some((_, state)) = self.items.get_mut(&item) {
                    (state.interrupted, state.ended) = (true, true);
                }
            }
        }
    }
}
