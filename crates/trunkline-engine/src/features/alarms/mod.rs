//! Evaluates alarms at each update of their variable, and carries out operators' actions on them
//! (SV-04, H-06..H-11).
//!
//! ```text
//! commit --> VariableAlarms (extension) --change--> log --wake--> AlarmReader: journal, sessions
//!                 |  deadline                          record ---> fields of the variable
//! Engine::poll <--+
//! ```
//!
//! A variable with alarms has an extension that evaluates them under the variable's lock, after
//! each commit. The variable knows the range of numbers that change no alarm, so most updates do
//! not reach the extension. A change within the variable's deadband is still committed if it would
//! change an alarm.
//!
//! A limit, setpoint or suppressing condition can be another variable, and is read when that
//! variable changes: its extension [`Operand`] queues the dependent variables, and
//! [`Engine::poll`](crate::Engine::poll) evaluates them.
//!
//! Lock order: variable, then the table's lists.

mod changes;
mod figures;

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use trunkline_access::Action;
use trunkline_alarm::condition::Input;
use trunkline_alarm::{ActionError, Alarm, Change, Event, Machine};
use trunkline_types::alarm::{
    AlarmAction, AlarmChange, AlarmDefinition, AlarmRecord, AlarmState, AlarmStatus, SavedAlarm,
};
use trunkline_types::audit::{AUDIT_TEXT_BYTES_MAX, cut};
use trunkline_types::wire::{Reader, decode_alarm};
use trunkline_types::{
    DataType, Fault, FaultCode, Level, Moment, Properties, Reason, Scope, Tick, Timestamp, Value,
    WhyStage, WhyStep,
};

pub use self::changes::{ALARM_CHANGES_MAX, AlarmNote, AlarmReader, AlarmSnapshot};
use self::changes::{ChangeLog, kept_alarm, wire_form};
use self::figures::Counts;
pub use self::figures::{AlarmCounts, PriorityBand};
use crate::caller::Caller;
use crate::delivery::outbox::{Wake, Wakes};
use crate::outcome::Refusal;
use crate::rights::Rights;
use crate::sync::{Arc, Mutex};
use crate::update::Update;
use crate::variable::{Committed, Extension, QuietRange, State, Variable};
use crate::write::View;

/// Maximum time for which an alarm can be shelved.
pub const SHELVE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Time after which the alarms of a variable that is still being deployed are checked again.
const DEPLOYING_PAUSE: Duration = Duration::from_millis(100);

pub type Alarms<'e> = View<'e, AlarmTable>;

/// The engine's index of alarms, and the log of their changes.
#[derive(Debug, Default)]
pub struct AlarmTable {
    lists: Mutex<Lists>,
    log: Arc<Mutex<ChangeLog>>,
    counts: Mutex<Counts>,
    /// Alarm states from an earlier run, by variable name. Removed when the variable is deployed.
    restorable: Mutex<HashMap<String, Vec<SavedAlarm>>>,
}

#[derive(Debug, Default)]
struct Lists {
    /// Handles of the variables that have alarms.
    with_alarms: BTreeSet<u32>,
    /// Times at which the alarms of a variable can change without an update, at most one for each
    /// variable.
    queue: BTreeSet<(Tick, u32)>,
    /// The time in `queue`, by handle of the variable.
    deadlines: HashMap<u32, Tick>,
    /// Variables with alarms whose limits, setpoints or suppressing conditions may have changed.
    changed: BTreeSet<u32>,
    /// Variables with alarms that refer to another variable, by the name of that other variable.
    dependents: BTreeMap<String, BTreeSet<u32>>,
}

/// The reason why an action on an alarm was refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum AlarmRefusal {
    #[error("{0}")]
    Variable(Refusal),
    #[error("the variable has no alarm {name}; it has {known}")]
    Unknown { name: String, known: String },
    #[error("{0}")]
    State(#[from] ActionError),
    #[error("the shelving time is out of range; shelve the alarm for 1 second to 30 days")]
    Time,
}

impl AlarmRefusal {
    pub fn code(&self) -> FaultCode {
        match self {
            Self::Variable(refusal) => refusal.code(),
            Self::Unknown { .. } => FaultCode::UnknownField,
            Self::State(_) => FaultCode::Conflict,
            Self::Time => FaultCode::OutOfRange,
        }
    }
}

impl From<&AlarmRefusal> for Fault {
    fn from(refusal: &AlarmRefusal) -> Self {
        Fault::new(refusal.code(), refusal.to_string())
    }
}

/// The alarms of one variable.
#[derive(Debug)]
struct VariableAlarms {
    table: Arc<AlarmTable>,
    /// The time in the table's queue for this variable.
    deadline: Cell<Option<Tick>>,
    /// True while the alarms keep the states from before a restart: an initial or retained value,
    /// which was not measured in this run, does not change them.
    waits_for_sample: Cell<bool>,
    alarms: RefCell<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    definition: Arc<AlarmDefinition>,
    alarm: Alarm,
    record: AlarmRecord,
    unshelve_at: Option<Tick>,
    /// Time at which the current on-delay or off-delay started; `None` if no delay is running.
    delayed_since: Option<Timestamp>,
}

impl Entry {
    fn new(definition: &AlarmDefinition) -> Self {
        Self {
            definition: Arc::new(definition.clone()),
            alarm: Alarm::new(definition),
            record: AlarmRecord::default(),
            unshelve_at: None,
            delayed_since: None,
        }
    }

    /// Restores an alarm of an earlier run. Returns `None` if the definition has changed since
    /// then, or if the state is invalid.
    fn restored(definition: &AlarmDefinition, kept: &SavedAlarm, moment: Moment) -> Option<Self> {
        if kept.definition != wire_form(definition) {
            return None;
        }
        let machine = Machine::from_parts(kept.process, kept.hidden)?;
        let passed = |since: Timestamp| {
            let nanos = moment.wall.as_nanos().saturating_sub(since.as_nanos());
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
        };
        let delay = match machine.is_active() {
            true => definition.off_delay,
            false => definition.on_delay,
        };
        let left = kept
            .delayed_since
            .map(|since| delay.saturating_sub(passed(since)));
        let mut alarm = Alarm::new(definition);
        alarm.restore(machine, left, moment.now);
        let unshelve_at = kept.record.shelved_until.map(|until| {
            let nanos = until.as_nanos().saturating_sub(moment.wall.as_nanos());
            let left = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
            moment.now.saturating_add(left.min(SHELVE_MAX))
        });
        Some(Self {
            definition: Arc::new(definition.clone()),
            alarm,
            record: kept.record.clone(),
            unshelve_at,
            delayed_since: kept.delayed_since,
        })
    }

    /// Creates an entry for an alarm of an earlier run whose definition has changed. Returns `None`
    /// if the saved definition cannot be decoded.
    fn ended(kept: &SavedAlarm) -> Option<Self> {
        let definition = decode_alarm(&mut Reader::new(&kept.definition)).ok()?;
        Some(Self {
            record: kept.record.clone(),
            ..Self::new(&definition)
        })
    }

    /// Updates `delayed_since` after a change. Returns true if a delay has begun or ended.
    fn note_delay(&mut self, was_active: bool, moment: Moment) -> bool {
        let is_delayed = self.alarm.remaining_delay(moment.now).is_some();
        // One sample can end the on-delay and begin the off-delay, or the reverse.
        let is_other_delay = is_delayed && was_active != self.alarm.machine().is_active();
        let has_changed = is_other_delay || is_delayed != self.delayed_since.is_some();
        if has_changed {
            self.delayed_since = is_delayed.then_some(moment.wall);
        }
        has_changed
    }

    fn status(&self, variable: &Variable) -> AlarmStatus {
        AlarmStatus {
            handle: variable.handle(),
            variable: variable.name().to_owned(),
            definition: Arc::clone(&self.definition),
            operand: self.alarm.condition().operand(),
            record: self.record.clone(),
        }
    }

    /// Describes the state for operators. Returns `None` if the alarm is enabled and normal.
    fn describe(&self, rights: &Rights) -> Option<String> {
        let AlarmDefinition {
            name,
            enabled,
            suppressed_by,
            ..
        } = &*self.definition;
        let state = self.record.state;
        Some(match (state, self.record.shelved_until) {
            _ if !enabled => format!("its alarm {name} is not enabled in its configuration"),
            (AlarmState::Normal, _) => return None,
            (AlarmState::SuppressedByDesign, _) => {
                let suppressing = rights.shown(suppressed_by);
                format!("its alarm {name} is suppressed by {suppressing}")
            }
            (AlarmState::Shelved, Some(until)) => {
                format!("its alarm {name} is shelved until {until}")
            }
            (state, _) => format!("its alarm {name} is {state}"),
        })
    }

    fn deadline(&self) -> Option<Tick> {
        let times = self
            .alarm
            .next_deadline()
            .into_iter()
            .chain(self.unshelve_at);
        times.min()
    }

    /// Updates the record after a change.
    fn note(&mut self, change: Change, input: Input, wall: Timestamp) {
        let record = &mut self.record;
        (record.state, record.is_active) = (change.to, change.is_active);
        match change.event {
            Event::Raise => {
                *record = AlarmRecord {
                    state: change.to,
                    is_active: change.is_active,
                    value: input.number,
                    operand: self.alarm.condition().operand(),
                    raised: Some(wall),
                    shelved_until: record.shelved_until,
                    // The comment of a hidden alarm says why it is hidden.
                    comment: match change.to.is_hidden() {
                        true => std::mem::take(&mut record.comment),
                        false => String::new(),
                    },
                    ..AlarmRecord::default()
                };
            }
            Event::Clear => record.cleared = Some(wall),
            Event::Acknowledge
            | Event::Reset
            | Event::Shelve
            | Event::Unshelve
            | Event::Suppress
            | Event::Unsuppress
            | Event::TakeOutOfService
            | Event::ReturnToService => {}
        }
    }
}

fn input_of(update: &Update, data_type: &DataType) -> Input {
    match scalar(update, data_type) {
        Some(value) => Input::new(&value, update.quality),
        None => Input {
            number: None,
            integer: None,
            quality: update.quality,
        },
    }
}

/// Returns the variable's newest update as an alarm input. The input has no number if the variable
/// has not been updated since the engine started.
fn newest_input(variable: &Variable, state: &State) -> Input {
    let update = variable.update_locked(state);
    let input = input_of(&update, variable.data_type());
    match update.sequence {
        0 => Input {
            number: None,
            integer: None,
            ..input
        },
        _ => input,
    }
}

/// Returns the value if it is a scalar. Other values may be large, and alarms do not evaluate them.
fn scalar(update: &Update, data_type: &DataType) -> Option<Value> {
    let is_scalar = data_type.fixed_size().is_some();
    is_scalar.then(|| update.value.decode(data_type))
}

impl Extension for VariableAlarms {
    fn order(&self) -> u8 {
        3
    }

    fn only_monitors(&self) -> bool {
        true
    }

    fn needs_commit(&self, variable: &Variable, update: &Update, moment: Moment) -> bool {
        let input = input_of(update, variable.data_type());
        let alarms = self.alarms.borrow();
        let mut alarms = alarms.iter().map(|entry| &entry.alarm);
        alarms.any(|alarm| alarm.would_change(input, moment.now))
    }

    fn committed(&self, commit: &Committed<'_>, wakes: &mut Wakes) {
        let (update, number) = (
            commit.update,
            commit.update.value.to_f64(commit.variable.data_type()),
        );
        // Another extension may have required this call, so the value can still be in the quiet
        // range.
        if !commit.state.is_quiet(number, update.quality) {
            self.evaluate(commit, wakes);
        }
    }
}

impl VariableAlarms {
    #[cold]
    fn evaluate(&self, commit: &Committed<'_>, wakes: &mut Wakes) {
        if self.waits_for_sample.get() {
            let quality = commit.update.quality;
            let is_of_earlier_run = matches!(quality.reason(), Reason::Initial | Reason::Retained);
            if is_of_earlier_run {
                return;
            }
            // A variable of a stopped library is bad at first, and then has its retained value
            // again.
            self.waits_for_sample.set(quality.level() == Level::Bad);
        }
        let input = input_of(commit.update, commit.variable.data_type());
        let change = |entry: &mut Entry, input| entry.alarm.update(input, commit.moment.now);
        let at = (commit.variable, commit.state);
        self.change_all(at, input, commit.moment, wakes, change);
    }

    /// Returns the current limits and setpoints of the alarms.
    fn operands(&self) -> Vec<Option<f64>> {
        let alarms = self.alarms.borrow();
        let operands = alarms.iter().map(|entry| entry.alarm.condition().operand());
        operands.collect()
    }

    /// Applies `change` to each alarm, and records the changes. Returns true if anything changed.
    fn change_all(
        &self,
        (variable, state): (&Variable, &State),
        input: Input,
        moment: Moment,
        wakes: &mut Wakes,
        mut change: impl FnMut(&mut Entry, Input) -> Option<Change>,
    ) -> bool {
        let (mut has_changed, mut is_unkept) = (false, false);
        for entry in self.alarms.borrow_mut().iter_mut() {
            let machine = entry.alarm.machine();
            let change = change(entry, input);
            let has_new_delay = entry.note_delay(machine.is_active(), moment);
            let has_hidden_change = entry.alarm.machine() != machine;
            match change {
                Some(change) => {
                    entry.note(change, input, moment.wall);
                    self.table
                        .log_change(variable, entry, change, None, moment, wakes);
                    has_changed = true;
                }
                None => {
                    is_unkept |= has_new_delay || has_hidden_change;
                    has_changed |= has_hidden_change;
                }
            }
        }
        if is_unkept {
            self.table.note_unkept(variable.handle(), wakes);
        }
        self.recompute(variable, state, input);
        has_changed
    }

    /// Recomputes the quiet range and the time in the queue, which depend on the alarms' states.
    fn recompute(&self, variable: &Variable, state: &State, input: Input) {
        let alarms = self.alarms.borrow();
        let ranges = alarms.iter().map(|entry| entry.alarm.quiet_range());
        let all = Some((f64::NEG_INFINITY, f64::INFINITY));
        let quiet = ranges.fold(all, |all, range| {
            let ((low, high), (other_low, other_high)) = (all?, range?);
            Some((low.max(other_low), high.min(other_high)))
        });
        let is_usable = input.quality.level() != Level::Bad;
        state.set_quiet(match quiet.filter(|_| is_usable) {
            Some((low, high)) => QuietRange {
                quality: input.quality,
                low,
                high,
            },
            None => QuietRange::EMPTY,
        });
        let deadline = alarms.iter().filter_map(Entry::deadline).min();
        if self.deadline.replace(deadline) != deadline {
            self.table.set_deadline(variable.handle(), deadline);
        }
    }
}

impl AlarmTable {
    fn set_deadline(&self, handle: u32, deadline: Option<Tick>) {
        let mut lists = self.lists.lock();
        let previous = match deadline {
            Some(deadline) => lists.deadlines.insert(handle, deadline),
            None => lists.deadlines.remove(&handle),
        };
        if previous != deadline {
            if let Some(previous) = previous {
                lists.queue.remove(&(previous, handle));
            }
            if let Some(deadline) = deadline {
                lists.queue.insert((deadline, handle));
            }
        }
    }

    /// Counts a change, and appends it to the log.
    fn log_change(
        &self,
        variable: &Variable,
        entry: &Entry,
        change: Change,
        who: Option<&Caller>,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let priority = entry.definition.priority;
        self.counts.lock().note(change, priority, moment.now);
        let comment = match who {
            Some(_) => entry.record.comment.clone(),
            None => String::new(),
        };
        let change = AlarmChange {
            when: moment.wall,
            event: change.event,
            from: change.from,
            who: who.map_or(String::new(), |caller| caller.principal.to_string()),
            comment,
            status: entry.status(variable),
        };
        self.append(variable, entry, change, wakes);
    }

    /// Logs the end of an alarm that was removed from its variable, and requests the deletion of
    /// its saved state.
    fn log_removed(&self, variable: &Variable, entry: &Entry, moment: Moment, wakes: &mut Wakes) {
        self.log_end(variable, entry, moment, wakes);
        // Done after the end is logged. Otherwise the state in that log entry would be saved again.
        let mut log = self.log.lock();
        log.note_gone(variable.name(), &entry.definition.name, wakes);
    }

    /// Logs the end of an alarm that no longer exists, unless it is normal.
    fn log_end(&self, variable: &Variable, entry: &Entry, moment: Moment, wakes: &mut Wakes) {
        let from = entry.record.state;
        if from == AlarmState::Normal {
            return;
        }
        let mut gone = Entry::new(&entry.definition);
        gone.record = AlarmRecord {
            state: AlarmState::Normal,
            is_active: false,
            cleared: Some(moment.wall),
            shelved_until: None,
            ..entry.record.clone()
        };
        let change = AlarmChange {
            when: moment.wall,
            event: Event::Clear,
            from,
            who: String::new(),
            comment: "the alarm was removed, or its definition was changed".to_owned(),
            status: gone.status(variable),
        };
        self.append(variable, &gone, change, wakes);
    }

    fn append(&self, variable: &Variable, entry: &Entry, change: AlarmChange, wakes: &mut Wakes) {
        // Other programs read the log, and single-process variables are hidden from them.
        if variable.deployed().scope != Scope::Process {
            let kept = (entry.alarm.machine(), entry.delayed_since);
            self.log.lock().append(change, kept, wakes);
        }
    }

    fn note_unkept(&self, handle: u32, wakes: &mut Wakes) {
        self.log.lock().note_unkept(handle, wakes);
    }
}

/// The alarms of one variable, as read by the variable's fields.
pub(crate) struct AlarmsRef<'s>(Option<Ref<'s, Vec<Entry>>>);

/// One alarm, as read by the alarm's fields.
#[derive(Clone, Copy)]
pub(crate) struct AlarmView<'a> {
    pub(crate) definition: &'a AlarmDefinition,
    /// The current limit or setpoint.
    pub(crate) operand: Option<f64>,
    pub(crate) record: &'a AlarmRecord,
}

impl<'s> AlarmsRef<'s> {
    /// The caller holds the variable's lock.
    pub(crate) fn of(state: &'s State) -> Self {
        let alarms = state.extension::<VariableAlarms>();
        Self(alarms.map(|alarms| alarms.alarms.borrow()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<AlarmView<'_>> {
        let mut entries = self.0.as_ref()?.iter();
        let entry = entries.find(|entry| entry.definition.name == name)?;
        Some(AlarmView {
            definition: &entry.definition,
            operand: entry.alarm.condition().operand(),
            record: &entry.record,
        })
    }
}

/// Explains the states of the variable's alarms; `None` if it has none.
pub(crate) fn alarm_states(caller: &Caller, variable: &Variable) -> Option<WhyStep> {
    let state = variable.lock();
    let alarms = state.extension::<VariableAlarms>()?.alarms.borrow();
    let described = alarms
        .iter()
        .filter_map(|entry| entry.describe(&caller.rights));
    let phrases: Vec<String> = described.collect();
    let stage = WhyStage::Filter;
    Some(match (phrases.is_empty(), alarms.len()) {
        (true, 1) => WhyStep::ok(stage, "its alarm is normal"),
        (true, count) => WhyStep::ok(stage, format!("its {count} alarms are normal")),
        (false, _) => WhyStep::note(stage, phrases.join("; ")),
    })
}

/// Attached to a variable that is the limit, the setpoint or the suppressing condition of alarms.
#[derive(Debug)]
struct Operand {
    table: Arc<AlarmTable>,
}

impl Extension for Operand {
    fn order(&self) -> u8 {
        4
    }

    fn committed(&self, commit: &Committed<'_>, _wakes: &mut Wakes) {
        self.table.operand_changed(commit.variable.name());
    }
}

impl AlarmTable {
    /// Queues the variables with alarms that refer to the variable with this name.
    fn operand_changed(&self, name: &str) {
        let mut lists = self.lists.lock();
        let Lists {
            changed,
            dependents,
            ..
        } = &mut *lists;
        changed.extend(dependents.get(name).into_iter().flatten());
    }
}

impl Alarms<'_> {
    /// Sets up a variable's alarms from its properties. Alarms whose definition has not changed
    /// keep their state. The caller holds the variable's lock.
    pub(crate) fn configure(
        &self,
        variable: &Variable,
        state: &mut State,
        properties: &Properties,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let existing = state.extension::<VariableAlarms>();
        if existing.is_none() && properties.alarms.is_empty() {
            return;
        }
        let handle = variable.handle();
        let is_new = existing.is_none();
        let was_waiting = existing.is_some_and(|existing| existing.waits_for_sample.get());
        let mut old_entries = existing.map_or(Vec::new(), |existing| existing.alarms.take());
        self.remove_from_lists(handle, &old_entries);
        let is_kept = |entry: &Entry| properties.alarms.contains(&entry.definition);
        for entry in old_entries.iter().filter(|entry| !is_kept(entry)) {
            self.table.log_removed(variable, entry, moment, wakes);
        }
        if properties.alarms.is_empty() {
            variable.detach::<VariableAlarms>(state);
            return;
        }
        let of_earlier_run = match is_new {
            true => self.table.restorable.lock().remove(variable.name()),
            false => None,
        };
        let mut restored = |definition: &AlarmDefinition| {
            let mut kept = of_earlier_run.iter().flatten();
            let kept = kept.find(|kept| kept.alarm == definition.name)?;
            let restored = Entry::restored(definition, kept, moment);
            if restored.is_none()
                && let Some(ended) = Entry::ended(kept)
            {
                self.table.log_removed(variable, &ended, moment, wakes);
            }
            restored
        };
        let mut is_restored = false;
        let alarms = properties.alarms.iter().map(|definition| {
            let place = old_entries
                .iter()
                .position(|entry| *entry.definition == *definition);
            if let Some(place) = place {
                return old_entries.swap_remove(place);
            }
            let restored = restored(definition);
            is_restored |= restored.is_some();
            restored.unwrap_or_else(|| Entry::new(definition))
        });
        let alarms: Vec<Entry> = alarms.collect();
        {
            let mut counts = self.table.counts.lock();
            for entry in &alarms {
                counts.add(&entry.record, entry.definition.priority);
            }
        }
        {
            let mut lists = self.table.lists.lock();
            lists.with_alarms.insert(handle);
            for name in alarms.iter().flat_map(|entry| entry.definition.names()) {
                let referring = lists.dependents.entry(name.to_owned()).or_default();
                referring.insert(handle);
                lists.changed.insert(handle);
            }
        }
        let extension = VariableAlarms {
            table: Arc::clone(self.table),
            deadline: Cell::new(None),
            waits_for_sample: Cell::new(is_restored || was_waiting),
            alarms: RefCell::new(alarms),
        };
        variable.attach(state, extension);
        let update = variable.update_locked(state);
        let Some(alarms) = state.extension::<VariableAlarms>() else {
            return;
        };
        self.table.note_unkept(handle, wakes);
        // `remove_from_lists` removed the deadlines. Queue them again, even if there is no update
        // to evaluate below.
        alarms.recompute(variable, state, input_of(&update, variable.data_type()));
        state.set_quiet(QuietRange::EMPTY);
        if update.sequence > 0 {
            let commit = Committed {
                variable,
                state,
                update: &update,
                moment,
                redirect: None,
            };
            alarms.evaluate(&commit, wakes);
        }
    }

    /// Attaches [`Operand`] to deployed variables that alarms refer to.
    pub(crate) fn deployed(&self, handles: &[u32]) {
        if self.table.lists.lock().dependents.is_empty() {
            return;
        }
        let names: Vec<String> = {
            let lists = self.table.lists.lock();
            lists.dependents.keys().cloned().collect()
        };
        for name in names {
            let Some(variable) = self.core.variables.find(&name) else {
                continue;
            };
            let mut state = variable.lock();
            if state.extension::<Operand>().is_none() {
                let table = Arc::clone(self.table);
                variable.attach(&mut state, Operand { table });
                drop(state);
                self.table.operand_changed(&name);
            }
        }
        let mut lists = self.table.lists.lock();
        let Lists {
            with_alarms,
            changed,
            ..
        } = &mut *lists;
        changed.extend(
            handles
                .iter()
                .filter(|handle| with_alarms.contains(*handle)),
        );
    }

    /// Removes the alarms of a variable that is being undeployed. The caller holds its lock.
    pub(crate) fn forget(
        &self,
        variable: &Variable,
        state: &mut State,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        self.table.operand_changed(variable.name());
        if let Some(existing) = state.extension::<VariableAlarms>() {
            let alarms = existing.alarms.take();
            self.remove_from_lists(variable.handle(), &alarms);
            for entry in &alarms {
                self.table.log_end(variable, entry, moment, wakes);
            }
            variable.detach::<VariableAlarms>(state);
        }
    }

    fn remove_from_lists(&self, handle: u32, alarms: &[Entry]) {
        self.table.set_deadline(handle, None);
        {
            let mut counts = self.table.counts.lock();
            for entry in alarms {
                counts.remove(&entry.record, entry.definition.priority);
            }
        }
        let mut lists = self.table.lists.lock();
        lists.with_alarms.remove(&handle);
        lists.changed.remove(&handle);
        for name in alarms.iter().flat_map(|entry| entry.definition.names()) {
            if let Some(referring) = lists.dependents.get_mut(name) {
                referring.remove(&handle);
                if referring.is_empty() {
                    lists.dependents.remove(name);
                }
            }
        }
    }

    /// Evaluates alarms whose delays have passed, or whose limits, setpoints or conditions have
    /// changed: at most `slice` variables. Returns the time of the next call.
    pub(crate) fn poll(&self, moment: Moment, slice: usize, wakes: &mut Wakes) -> Option<Tick> {
        for _ in 0..slice {
            let changed = self.table.lists.lock().changed.pop_first();
            let Some(handle) = changed else {
                return self.poll_deadlines(moment, slice, wakes);
            };
            self.read_operands(handle, moment, wakes);
        }
        Some(moment.now)
    }

    fn poll_deadlines(&self, moment: Moment, slice: usize, wakes: &mut Wakes) -> Option<Tick> {
        for _ in 0..slice {
            let handle = {
                let mut lists = self.table.lists.lock();
                let (deadline, handle) = *lists.queue.first()?;
                if deadline > moment.now {
                    return Some(deadline);
                }
                lists.queue.pop_first();
                lists.deadlines.remove(&handle);
                handle
            };
            if self.core.variable(handle).is_none() {
                // The variable is still being deployed.
                let later = moment.now.saturating_add(DEPLOYING_PAUSE);
                self.table.set_deadline(handle, Some(later));
                continue;
            }
            self.clear_deadline(handle);
            self.change(handle, moment, wakes, |entry, _| {
                if entry.unshelve_at.is_some_and(|at| at <= moment.now) {
                    entry.unshelve_at = None;
                    entry.record.shelved_until = None;
                    // An operator may have unshelved the alarm in the meantime.
                    return entry.alarm.apply(Event::Unshelve).ok().flatten();
                }
                entry.alarm.poll(moment.now)
            });
        }
        Some(moment.now)
    }

    /// Clears the deadline of a variable after the deadline was taken from the table's queue.
    fn clear_deadline(&self, handle: u32) {
        if let Some(variable) = self.core.variable(handle)
            && let Some(alarms) = variable.lock().extension::<VariableAlarms>()
        {
            alarms.deadline.set(None);
        }
    }

    /// Applies `change` to the alarms of a variable that has no new update, and refreshes its
    /// fields. `change` also gets the variable's newest sample, if there is one in this run.
    fn change(
        &self,
        handle: u32,
        moment: Moment,
        wakes: &mut Wakes,
        mut change: impl FnMut(&mut Entry, Option<Input>) -> Option<Change>,
    ) {
        let Some(variable) = self.core.variable(handle) else {
            return;
        };
        let state = variable.lock();
        let Some(alarms) = state.extension::<VariableAlarms>() else {
            return;
        };
        let input = newest_input(&variable, &state);
        let is_sampled = variable.sequence() > 0 && !alarms.waits_for_sample.get();
        let operands = alarms.operands();
        let change = |entry: &mut Entry, input| change(entry, is_sampled.then_some(input));
        let has_changed = alarms.change_all((&variable, &state), input, moment, wakes, change);
        if has_changed || alarms.operands() != operands {
            variable.reconfigured(&state, moment, wakes);
        }
    }

    /// Reads the variables that the alarms of a variable refer to.
    fn read_operands(&self, handle: u32, moment: Moment, wakes: &mut Wakes) {
        let Some(variable) = self.core.variable(handle) else {
            return;
        };
        let names: BTreeSet<String> = {
            let state = variable.lock();
            let Some(alarms) = state.extension::<VariableAlarms>() else {
                return;
            };
            let alarms = alarms.alarms.borrow();
            let names = alarms.iter().flat_map(|entry| entry.definition.names());
            names.map(str::to_owned).collect()
        };
        // The lock of the variable with the alarms is not held while other variables are read.
        let values = names.into_iter().map(|name| {
            let sample = self.core.variables.find(&name).map(|one| one.sample());
            let value = sample.filter(|sample| sample.quality.level() != Level::Bad);
            (name, value.map(|sample| sample.value))
        });
        let values: HashMap<String, Option<Value>> = values.collect();
        self.change(handle, moment, wakes, |entry, _| {
            let suppressing = values.get(&entry.definition.suppressed_by)?;
            entry.alarm.set_suppressed(suppressing.as_ref()?)
        });
        self.change(handle, moment, wakes, |entry, input| {
            let Entry {
                definition, alarm, ..
            } = entry;
            let operand = values.get(definition.kind.variable()?)?;
            let operand = operand.as_ref().and_then(Value::as_f64);
            // NaN is not a valid limit. An alarm must not clear because the source of its limit
            // failed.
            let operand = operand.filter(|number| !number.is_nan());
            alarm.set_operand(operand, input, moment.now)
        });
    }

    /// Returns the alarms of the variables that the caller may read, ordered by handle, beginning
    /// with the first handle above `after`. Stops after the variable that reaches `limit`.
    pub fn list(&self, caller: &Caller, after: Option<u32>, limit: usize) -> Vec<AlarmStatus> {
        let mut found = Vec::new();
        let mut next = after.map_or(0, |after| after.saturating_add(1));
        while found.len() < limit {
            let handle = self
                .table
                .lists
                .lock()
                .with_alarms
                .range(next..)
                .next()
                .copied();
            let Some(handle) = handle else { break };
            next = handle.saturating_add(1);
            if let Some(variable) = self.core.visible(caller, handle) {
                let shown = self
                    .of_variable(&variable)
                    .into_iter()
                    .map(|status| AlarmStatus {
                        definition: caller.rights.shown_alarm(&status.definition),
                        ..status
                    });
                found.extend(shown);
            }
        }
        found
    }

    /// Returns the alarms of a variable.
    pub fn of_variable(&self, variable: &Variable) -> Vec<AlarmStatus> {
        let state = variable.lock();
        let Some(alarms) = state.extension::<VariableAlarms>() else {
            return Vec::new();
        };
        let alarms = alarms.alarms.borrow();
        alarms.iter().map(|entry| entry.status(variable)).collect()
    }

    /// Carries out an operator's action on the alarm `name` of a variable.
    ///
    /// # Errors
    /// [`AlarmRefusal`] if the caller may not write the variable, if it has no such alarm, or if the
    /// action does not apply to the alarm's state.
    pub fn act(
        &self,
        caller: &Caller,
        handle: u32,
        (name, action, comment): (&str, AlarmAction, &str),
        moment: Moment,
        wakes: &mut Wakes,
    ) -> Result<AlarmState, AlarmRefusal> {
        if let AlarmAction::Shelve(time) = action
            && !(Duration::from_secs(1)..=SHELVE_MAX).contains(&time)
        {
            return Err(AlarmRefusal::Time);
        }
        let refuse = || AlarmRefusal::Variable(self.core.refuse_handle(caller, handle));
        let variable = self.core.visible(caller, handle).ok_or_else(refuse)?;
        if !variable.permits(caller, Action::Alarm) {
            return Err(AlarmRefusal::Variable(Refusal::Denied {
                action: Action::Alarm,
            }));
        }
        let state = variable.lock();
        let unknown = |known: String| AlarmRefusal::Unknown {
            name: name.to_owned(),
            known,
        };
        let Some(alarms) = state.extension::<VariableAlarms>() else {
            return Err(unknown("none".to_owned()));
        };
        let input = newest_input(&variable, &state);
        let mut entries = alarms.alarms.borrow_mut();
        let Some(place) = entries.iter().position(|one| one.definition.name == name) else {
            let names: Vec<&str> = entries.iter().map(|one| &*one.definition.name).collect();
            return Err(unknown(names.join(", ")));
        };
        let entry = &mut entries[place];
        let change = entry.alarm.apply(action.event())?;
        let record = &mut entry.record;
        cut(comment, AUDIT_TEXT_BYTES_MAX).clone_into(&mut record.comment);
        match action {
            AlarmAction::Acknowledge => {
                record.acknowledged = Some(moment.wall);
                record.acknowledged_by = caller.principal.to_string();
            }
            AlarmAction::Shelve(time) => {
                let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
                record.shelved_until = Some(moment.wall.saturating_add_nanos(nanos));
                entry.unshelve_at = Some(moment.now.saturating_add(time));
            }
            AlarmAction::Unshelve => {
                record.shelved_until = None;
                entry.unshelve_at = None;
            }
            AlarmAction::Reset | AlarmAction::TakeOutOfService | AlarmAction::ReturnToService => {}
        }
        if let Some(change) = change {
            entry.note(change, input, moment.wall);
            let table = self.table;
            table.log_change(&variable, entry, change, Some(caller), moment, wakes);
        }
        let now = entry.record.state;
        // Needed even if only the comment or the end of the shelving period has changed.
        self.table.note_unkept(handle, wakes);
        drop(entries);
        alarms.recompute(&variable, &state, input);
        variable.reconfigured(&state, moment, wakes);
        Ok(now)
    }

    pub fn figures(&self, now: Tick) -> AlarmCounts {
        self.table.counts.lock().figures(now)
    }

    /// Returns a reader of the changes from now on. `wake` is called when there are changes to
    /// take. With `keeps_states`, it is also called when [`unkept`](Self::unkept) has states to
    /// save.
    pub fn reader(&self, wake: Box<dyn Wake>, keeps_states: bool) -> AlarmReader {
        AlarmReader::new(&self.table.log, wake, keeps_states)
    }

    /// Takes the states that must be saved but are not in any note, and the removed alarms. A note
    /// taken afterwards can be older or newer than these snapshots: compare the versions.
    pub fn unkept(&self) -> Vec<AlarmSnapshot> {
        let (handles, mut found) = self.table.log.lock().take_unkept();
        found.extend(self.snapshots(handles));
        found
    }

    /// Returns the states of all alarms.
    pub fn all_snapshots(&self) -> Vec<AlarmSnapshot> {
        let handles = self.table.lists.lock().with_alarms.clone();
        self.snapshots(handles)
    }

    fn snapshots(&self, handles: BTreeSet<u32>) -> Vec<AlarmSnapshot> {
        let mut found = Vec::new();
        for handle in handles {
            let Some(variable) = self.core.variable(handle) else {
                continue;
            };
            let state = variable.lock();
            let Some(alarms) = state.extension::<VariableAlarms>() else {
                continue;
            };
            for entry in alarms.alarms.borrow().iter() {
                let version = self.table.log.lock().next_version();
                let machine = (entry.alarm.machine(), entry.delayed_since);
                let kept = kept_alarm(variable.name(), &entry.definition, machine, &entry.record);
                found.push(AlarmSnapshot { version, kept });
            }
        }
        found
    }

    /// Supplies the alarm states of an earlier run. Each is used when its variable is deployed with
    /// the same definition of the alarm. The next call drops unused states.
    pub fn restore(&self, kept: Vec<SavedAlarm>) {
        let mut restorable = self.table.restorable.lock();
        restorable.clear();
        for saved in kept {
            let of_variable = restorable.entry(saved.variable.clone()).or_default();
            of_variable.push(saved);
        }
    }
}
