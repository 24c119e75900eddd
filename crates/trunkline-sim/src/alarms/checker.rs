//! Compares the engine's reports about alarms with a model of each alarm.
//!
//! ```text
//! values, actions, time --> models --expected--> unreported
//! keeper's steps: entries --------------------------^ compared, in order, each once
//!        stored --> journal, durable     compared at each start and with each page
//! ```

use std::collections::{BTreeMap, VecDeque};

use trunkline_types::alarm::{
    AlarmAction, AlarmEntry, AlarmJournalPage, AlarmKind, AlarmState, JournalEvent, SavedAlarm,
};
use trunkline_types::{Level, Moment, Reason};

use super::model::{ExpectedChange, Measured, Model, StoredState};
use super::plan::{LIBRARY, VariablePlan};

/// The full name of a variable, and the name of one of its alarms.
pub type Key = (String, String);

/// Counts of what was checked. `scenario.rs` describes each count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub values: u64,
    pub stale: u64,
    pub changes: u64,
    pub acts: u64,
    pub refused: u64,
    pub steps: u64,
    pub failed: u64,
    pub starts: u64,
    pub continued: u64,
    pub read: u64,
    pub followed: u64,
    pub overrun: u64,
    pub missed: u64,
    pub redeployed: u64,
    pub listed: u64,
    pub connections: u64,
}

/// Returns true if the engine considers the condition of an alarm met; the arguments are the
/// variable and the alarm.
pub type EngineCondition<'a> = &'a dyn Fn(&str, &str) -> Option<bool>;

/// Reads the variables that alarms refer to.
#[derive(Clone, Copy)]
pub struct ReferencedValues<'a> {
    pub conditions: &'a dyn Fn(&str) -> Option<bool>,
    pub operands: &'a dyn Fn(&str) -> Option<f64>,
}

impl std::fmt::Debug for ReferencedValues<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReferencedValues").finish_non_exhaustive()
    }
}

/// A variable with the models of its alarms.
#[derive(Debug)]
struct Variable {
    plan: VariablePlan,
    models: Vec<Model>,
    /// True until the variable has a value of this run. Until then, its alarms continue as in the
    /// earlier run.
    awaits_value: bool,
    /// The newest value of this run.
    newest: Option<Measured>,
}

/// Returns the engine's condition for a rate of change, for which the reference page can permit both
/// results. Returns `None` for other kinds of alarms.
fn uncertain_condition(
    engine_condition: EngineCondition<'_>,
    name: &str,
    model: &Model,
) -> Option<bool> {
    let is_rate = matches!(model.definition.kind, AlarmKind::RateOfChange { .. });
    is_rate
        .then(|| engine_condition(name, &model.definition.name))
        .flatten()
}

/// The states of all alarms at one time.
pub type Snapshot = BTreeMap<Key, StoredState>;

#[derive(Debug, Default)]
pub struct AlarmChecker {
    /// The first violation.
    pub violation: Option<String>,
    pub totals: Totals,
    variables: Vec<Variable>,
    /// Expected changes that no step of the keeper has contained, by alarm.
    unreported: BTreeMap<Key, VecDeque<ExpectedChange>>,
    /// The sequence of states of each alarm in this run of the engine.
    pub history: BTreeMap<Key, Vec<AlarmState>>,
    /// All entries of the journal, by number; `None` for an entry that the store created itself.
    journal: BTreeMap<u64, Option<AlarmEntry>>,
    /// Possible contents of the store: the number of the last entry, and the states. There are several
    /// possibilities after an interrupted step.
    durable: Vec<(u64, Snapshot)>,
    /// A failed step, which must be retried before any other step.
    failed: Option<FailedStep>,
}

/// A failed step, and the states that the store will have when a retry succeeds.
#[derive(Debug)]
struct FailedStep {
    states: Vec<SavedAlarm>,
    entries: Vec<AlarmEntry>,
    expected: Snapshot,
}

/// Returns true if one of these variables has this alarm.
fn is_listed(variables: &[VariablePlan], (variable, alarm): &Key) -> bool {
    variables.iter().any(|plan| {
        format!("{LIBRARY}/{}", plan.name) == *variable
            && plan.alarms.iter().any(|known| known.name == *alarm)
    })
}

impl AlarmChecker {
    /// Creates the checker of an engine with a new store.
    pub fn new() -> Self {
        Self {
            durable: vec![(0, Snapshot::new())],
            ..Self::default()
        }
    }

    pub fn fail(&mut self, violation: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(violation());
        }
    }

    /// Returns the number of the last entry that is known to be stored.
    pub fn end(&self) -> u64 {
        self.durable.first().map_or(0, |(end, _)| *end)
    }

    fn variable(&mut self, name: &str) -> Option<&mut Variable> {
        let mut variables = self.variables.iter_mut();
        variables.find(|one| one.plan.name == name)
    }

    /// Records that the engine has started with these variables. `stored` and `end` are the states and
    /// the number of the last entry in the store.
    pub fn started(
        &mut self,
        variables: &[VariablePlan],
        stored: &[SavedAlarm],
        end: u64,
        at: Moment,
    ) {
        self.totals.starts += 1;
        self.unreported.clear();
        self.history.clear();
        self.failed = None;
        // A start drops the stored states of alarms that are not in the library.
        let mut candidates = std::mem::take(&mut self.durable);
        for (_, states) in &mut candidates {
            states.retain(|key, _| is_listed(variables, key));
        }
        let is_found = |expected: &Snapshot| {
            let matches = |one: &SavedAlarm| {
                let key = (one.variable.clone(), one.alarm.clone());
                expected.get(&key).is_some_and(|kept| kept.matches(one))
            };
            expected.len() == stored.len() && stored.iter().all(matches)
        };
        let mut matching = candidates.iter();
        let found = matching.find(|(known, states)| *known == end && is_found(states));
        let Some((_, snapshot)) = found.cloned() else {
            let expected = candidates
                .iter()
                .map(|(end, states)| format!("entry {end} and {states:#?}"));
            let expected: Vec<_> = expected.collect();
            return self.fail(|| {
                format!(
                    "H-11: after the start the store has entry {end} and {stored:#?}, not {}",
                    expected.join("\nnor ")
                )
            });
        };
        self.journal.retain(|number, _| *number <= end);
        self.variables.clear();
        for plan in variables {
            let full = format!("{LIBRARY}/{}", plan.name);
            let mut awaits_value = false;
            let mut models = Vec::new();
            for definition in &plan.alarms {
                let key = (full.clone(), definition.name.clone());
                let kept = snapshot.get(&key);
                let continued = kept.and_then(|kept| Model::resume(definition, kept, at));
                if let (Some(kept), None) = (kept, &continued) {
                    let mut changes = Vec::new();
                    kept.remove(at, &mut changes);
                    self.unreported
                        .entry(key.clone())
                        .or_default()
                        .extend(changes);
                }
                awaits_value |= continued.is_some();
                self.totals.continued += u64::from(continued.is_some());
                let model = continued.unwrap_or_else(|| Model::new(definition));
                self.history.insert(key, vec![model.state()]);
                models.push(model);
            }
            self.variables.push(Variable {
                plan: plan.clone(),
                models,
                awaits_value,
                newest: None,
            });
        }
        self.durable = vec![(end, snapshot)];
    }

    fn expect_changes(&mut self, name: &str, changes: Vec<(String, ExpectedChange)>) {
        for (alarm, change) in changes {
            self.totals.changes += 1;
            self.totals.acts += u64::from(!change.who.is_empty());
            let key = (format!("{LIBRARY}/{name}"), alarm);
            let history = self.history.entry(key.clone()).or_default();
            if history.last() != Some(&change.to) {
                history.push(change.to);
            }
            self.unreported.entry(key).or_default().push_back(change);
        }
    }

    /// Calls `apply` for each model of a variable.
    fn for_each_model(
        &mut self,
        name: &str,
        mut apply: impl FnMut(&mut Model, Option<Measured>, bool, &mut Vec<ExpectedChange>),
    ) {
        let Some(variable) = self.variable(name) else {
            return;
        };
        let mut all = Vec::new();
        let (newest, awaits_value) = (variable.newest, variable.awaits_value);
        for model in &mut variable.models {
            let mut changes = Vec::new();
            apply(model, newest, awaits_value, &mut changes);
            let alarm = &model.definition.name;
            all.extend(changes.into_iter().map(|change| (alarm.clone(), change)));
        }
        self.expect_changes(name, all);
    }

    /// Records an update of the variable.
    pub fn updated(
        &mut self,
        name: &str,
        measured: Measured,
        at: Moment,
        engine_condition: EngineCondition<'_>,
    ) {
        self.totals.values += 1;
        let reason = measured.quality.reason();
        self.totals.stale += u64::from(reason == Reason::Stale);
        let Some(variable) = self.variable(name) else {
            return;
        };
        variable.newest = Some(measured);
        if variable.awaits_value {
            if matches!(reason, Reason::Initial | Reason::Retained) {
                return;
            }
            variable.awaits_value = measured.quality.level() == Level::Bad;
        }
        self.for_each_model(name, |model, _, _, changes| {
            let condition = uncertain_condition(engine_condition, name, model);
            model.measure(measured, at, condition, changes);
        });
    }

    /// Checks a value that was within the variable's deadband and did not become an update.
    pub fn not_updated(&mut self, name: &str, measured: Measured, at: Moment) {
        let Some(variable) = self.variable(name) else {
            return;
        };
        let mut models = variable.models.iter();
        let Some(changed) = models.find(|model| model.would_change(measured, at)) else {
            return;
        };
        let alarm = changed.definition.name.clone();
        self.fail(|| {
            format!("H-07: {measured:?} would change alarm {alarm} of {name}, but did not become an update")
        });
    }

    /// Called after the engine has polled its timers. `read` reads the variables that alarms refer to.
    /// It is `None` if the engine does not read these variables in this poll.
    pub fn time_passed(
        &mut self,
        at: Moment,
        read: Option<ReferencedValues<'_>>,
        engine_condition: EngineCondition<'_>,
    ) {
        for index in 0..self.variables.len() {
            let Some(name) = self.variables.get(index).map(|one| one.plan.name.clone()) else {
                continue;
            };
            if let Some(ReferencedValues {
                conditions,
                operands,
            }) = read
            {
                self.for_each_model(&name, |model, newest, _, changes| {
                    let number = newest.and_then(|newest| newest.number);
                    if let Some(is_suppressed) = conditions(&model.definition.suppressed_by) {
                        model.set_suppressed(is_suppressed, number, at, changes);
                    }
                });
                self.for_each_model(&name, |model, newest, awaits_value, changes| {
                    if let Some(operand) = model.definition.kind.variable().cloned() {
                        let newest = newest.filter(|_| !awaits_value);
                        model.set_operand(operands(&operand), newest, at, changes);
                    }
                });
            }
            self.for_each_model(&name, |model, newest, _, changes| {
                let number = newest.and_then(|newest| newest.number);
                let condition = uncertain_condition(engine_condition, &name, model);
                model.advance(at, condition, number, changes);
                model.forget_old(at.now);
            });
        }
    }

    /// Records an operator's action on an alarm, and the engine's answer.
    pub fn action_ended(
        &mut self,
        (name, alarm): (&str, &str),
        (action, who): (AlarmAction, &str),
        at: Moment,
        answer: Result<AlarmState, String>,
    ) {
        let mut expected = None;
        self.for_each_model(name, |model, _, _, changes| {
            if model.definition.name == alarm {
                expected = Some(model.act(action, who, at, changes));
            }
        });
        self.totals.refused += u64::from(answer.is_err());
        let is_right = match (&expected, &answer) {
            (Some(Ok(expected)), Ok(state)) => expected == state,
            (Some(Err(_)) | None, Err(_)) => true,
            (Some(Ok(_)) | None, Err(_) | Ok(_)) | (Some(Err(_)), Ok(_)) => false,
        };
        if !is_right {
            self.fail(|| {
                format!(
                    "H-08: {action:?} of alarm {alarm} of {name} ended with {answer:?}, not \
                     {expected:?}"
                )
            });
        }
    }

    /// Called when a library is saved. The store then drops the states of alarms that are not in the
    /// library. The retry of a failed step still stores the states of that step.
    pub fn saved(&mut self, variables: &[VariablePlan]) {
        for (_, snapshot) in &mut self.durable {
            snapshot.retain(|key, _| is_listed(variables, key));
        }
        if let Some(FailedStep {
            states, expected, ..
        }) = &mut self.failed
        {
            let is_of_step = |(variable, alarm): &Key| {
                let mut states = states.iter();
                states.any(|state| state.variable == *variable && state.alarm == *alarm)
            };
            expected.retain(|key, _| is_listed(variables, key) || is_of_step(key));
        }
    }

    /// Called after the library was replaced. Returns the alarms that have changed.
    pub fn redeployed(&mut self, variables: &[VariablePlan], at: Moment) -> Vec<Key> {
        self.totals.redeployed += 1;
        let mut changed = Vec::new();
        for plan in variables {
            let name = plan.name.as_str();
            let Some(variable) = self.variable(name) else {
                continue;
            };
            if variable.plan.alarms == plan.alarms {
                continue;
            }
            let mut all = Vec::new();
            let mut before = std::mem::take(&mut variable.models);
            before.retain(|model| {
                let stays = plan.alarms.contains(&model.definition);
                if !stays {
                    let mut changes = Vec::new();
                    model.remove(at, &mut changes);
                    let alarm = &model.definition.name;
                    all.extend(changes.into_iter().map(|change| (alarm.clone(), change)));
                    changed.push((format!("{LIBRARY}/{name}"), alarm.clone()));
                }
                stays
            });
            for definition in &plan.alarms {
                let known = before.iter().position(|one| one.definition == *definition);
                let model = match known {
                    Some(place) => before.swap_remove(place),
                    None => Model::new(definition),
                };
                variable.models.push(model);
            }
            variable.plan = plan.clone();
            let (newest, awaits_value) = (variable.newest, variable.awaits_value);
            self.expect_changes(name, all);
            for definition in &plan.alarms {
                let key = (format!("{LIBRARY}/{name}"), definition.name.clone());
                self.history
                    .entry(key)
                    .or_insert_with(|| vec![AlarmState::Normal]);
            }
            let is_of_earlier_run = newest.is_none_or(|newest| {
                matches!(newest.quality.reason(), Reason::Initial | Reason::Retained)
            });
            // The new alarms evaluate the newest value.
            if let Some(newest) = newest.filter(|_| !(awaits_value && is_of_earlier_run)) {
                self.for_each_model(name, |model, _, _, changes| {
                    model.measure(newest, at, None, changes)
                });
            }
        }
        changed
    }

    fn snapshot(&self) -> Snapshot {
        let mut states = Snapshot::new();
        for variable in &self.variables {
            for model in &variable.models {
                let key = (
                    format!("{LIBRARY}/{}", variable.plan.name),
                    model.definition.name.clone(),
                );
                states.insert(key, model.stored_state());
            }
        }
        states
    }

    /// Called when the keeper stores a step. Compares the entries with the expected changes, and returns
    /// the states that the store will have.
    pub fn step_began(&mut self, states: &[SavedAlarm], entries: &[AlarmEntry]) -> Snapshot {
        if let Some(failed) = self.failed.take() {
            // The keeper retries the failed step.
            if (&*failed.states, &*failed.entries) != (states, entries) {
                self.fail(|| {
                    format!("H-11: after {failed:?} another step follows: {states:?}, {entries:?}")
                });
            }
            return failed.expected;
        }
        for (number, entry) in (self.end() + 1..).zip(entries) {
            if entry.number != number {
                self.fail(|| format!("H-11: entry {number} is missing before {entry:?}"));
            }
            self.compare(entry);
            self.journal.insert(entry.number, Some(entry.clone()));
        }
        let unreported = self
            .unreported
            .iter()
            .find(|(_, changes)| !changes.is_empty());
        if let Some(unreported) = unreported.map(|unreported| format!("{unreported:?}")) {
            self.fail(|| format!("H-11: no entry reports {unreported}"));
        }
        self.snapshot()
    }

    fn compare(&mut self, entry: &AlarmEntry) {
        let key = (entry.variable.clone(), entry.alarm.clone());
        let expected = self.unreported.get_mut(&key).and_then(VecDeque::pop_front);
        let JournalEvent::Alarm(event) = entry.event else {
            return self.fail(|| format!("H-11: an entry of another kind: {entry:?}"));
        };
        let Some(expected) = expected else {
            return self.fail(|| format!("H-11: {entry:?} reports a change that did not happen"));
        };
        let short = entry
            .variable
            .strip_prefix(LIBRARY)
            .map_or("", |name| name.trim_start_matches('/'))
            .to_owned();
        let has_deadband = self
            .variable(&short)
            .is_some_and(|one| one.plan.deadband > 0.0);
        let record = &entry.record;
        let is_same = expected.event == event
            && (expected.from, expected.to) == (entry.from, record.state)
            && expected.is_active == record.is_active
            && expected.when == entry.when
            && expected.who == entry.who
            && (has_deadband || expected.value.is_none_or(|value| value == record.value));
        if !is_same {
            self.fail(|| format!("H-11: {entry:?} reports {expected:?}"));
        }
    }

    /// Records that the step is stored. `last` is the number of the last entry in the store.
    pub fn stored(&mut self, entries: &[AlarmEntry], states: Snapshot, last: u64) {
        self.totals.steps += 1;
        let own = entries.last().map_or(self.end(), |entry| entry.number);
        for number in own + 1..=last {
            self.journal.entry(number).or_insert(None);
        }
        self.durable = vec![(last, states)];
    }

    /// Records a step for which the store has reported a failure. The store may have stored it anyway.
    pub fn step_failed(
        &mut self,
        states: &[SavedAlarm],
        entries: &[AlarmEntry],
        expected: Snapshot,
    ) {
        self.totals.failed += 1;
        self.failed = Some(FailedStep {
            states: states.to_vec(),
            entries: entries.to_vec(),
            expected,
        });
    }

    /// Records an interrupted step, which may be stored or not. If it is stored, the last entry of the
    /// store is `last`.
    pub fn step_interrupted(&mut self, entries: &[AlarmEntry], states: Snapshot, last: u64) {
        let before = self.durable.clone();
        self.stored(entries, states, last);
        self.durable.extend(before);
    }

    /// Checks a page of the journal that begins at entry `from`. Returns the number of the next entry.
    pub fn read(&mut self, from: u64, page: &AlarmJournalPage) -> u64 {
        let mut next = from.max(page.removed + 1);
        for entry in &page.entries {
            self.totals.read += 1;
            if entry.number != next {
                self.fail(|| format!("H-11: entry {next} is missing before {entry:?}"));
            }
            next = entry.number + 1;
            match self.journal.get(&entry.number) {
                Some(Some(known)) if known == entry => {}
                Some(None) if matches!(entry.event, JournalEvent::Removed(_)) => {}
                other => {
                    let other = format!("{other:?}");
                    self.fail(|| format!("H-11: the journal has {entry:?}, not {other}"));
                }
            }
        }
        next
    }

    /// Compares the states that the engine reports with the models.
    pub fn compare_states(&mut self, states: &BTreeMap<Key, (AlarmState, bool, Option<i64>)>) {
        let mut expected = BTreeMap::new();
        for variable in &self.variables {
            for model in &variable.models {
                let key = (
                    format!("{LIBRARY}/{}", variable.plan.name),
                    model.definition.name.clone(),
                );
                let until = model.shelved_until().map(|until| until.as_nanos());
                expected.insert(key, (model.state(), model.is_active(), until));
            }
        }
        if *states != expected {
            self.fail(|| format!("SV-04: the alarms are {states:?}, not {expected:?}"));
        }
    }

    /// Compares a list that a client has received with the existing alarms. Each state must occur in the
    /// history of the alarm, at or after the index in `from`.
    pub fn compare_list(
        &mut self,
        states: &BTreeMap<Key, AlarmState>,
        from: &BTreeMap<Key, usize>,
    ) {
        self.totals.listed += states.len() as u64;
        let alarms = self.alarms().into_iter();
        let alarms = alarms.map(|(variable, alarm, ..)| (format!("{LIBRARY}/{variable}"), alarm));
        let expected: Vec<Key> = alarms.collect();
        let is_right = |key: &Key| {
            let (state, known) = (states.get(key), self.history.get(key));
            let from = from.get(key).copied().unwrap_or(0);
            let known = known.and_then(|known| known.get(from..));
            state.is_some_and(|state| known.is_some_and(|known| known.contains(state)))
        };
        if states.len() != expected.len() || !expected.iter().all(is_right) {
            let history = format!("{:?}", self.history);
            self.fail(|| {
                format!("SV-04: a client lists {states:?}, of {history} from {from:?} on")
            });
        }
    }

    /// Returns all alarms: the name of the variable, the name and area of the alarm, and the state.
    pub fn alarms(&self) -> Vec<(String, String, String, AlarmState)> {
        let alarms_of = |variable: &Variable| {
            let name = variable.plan.name.clone();
            let models = variable.models.iter();
            let alarms = models.map(|model| {
                let definition = &model.definition;
                (
                    definition.name.clone(),
                    definition.area.clone(),
                    model.state(),
                )
            });
            let alarms: Vec<_> = alarms.collect();
            alarms
                .into_iter()
                .map(move |(alarm, area, state)| (name.clone(), alarm, area, state))
        };
        self.variables.iter().flat_map(alarms_of).collect()
    }
}
