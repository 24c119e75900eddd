//! Alarms: evaluated with each update of their variable, and acted on by operators (SV-04, H-06..H-11).
//!
//! ```text
//! commit --> VariableAlarms (extension) --change--> event --wake--> the host: journal
//!                 |  due                               record ----> fields of the variable
//! Engine::poll <--+
//! ```
//!
//! A variable with alarms has an extension that evaluates them under the variable's lock, after
//! each commit. It remembers the range of numbers that change nothing, so that most updates
//! evaluate no alarm. A change within the deadband of the variable that would change an alarm is
//! committed all the same.
//!
//! Limits, setpoints and suppressing conditions that are other variables are read when those change:
//! their extension [`Operands`] queues the dependent variables, and [`Engine::poll`](crate::Engine::poll)
//! evaluates them.
//!
//! Lock order: variable, then the table's lists.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use trunkline_alarm::condition::Input;
use trunkline_alarm::{Alarm, Change, Event, Refused};
use trunkline_types::alarm::{
    AlarmAction, AlarmChange, AlarmDefinition, AlarmRecord, AlarmState, AlarmStatus,
};
use trunkline_types::audit::{AUDIT_TEXT_BYTES_MAX, cut};
use trunkline_types::{
    DataType, Fault, FaultCode, Level, Moment, Properties, Quality, Tick, Timestamp, Value,
};

use crate::caller::Caller;
use crate::delivery::outbox::{Outbox, Wake, Wakes};
use crate::outcome::Refusal;
use crate::sync::{Arc, Mutex};
use crate::update::Update;
use crate::variable::{Committed, Extension, State, Variable};
use crate::write::View;

/// Maximum number of events that wait for the host. Later events are counted as lost.
pub const ALARM_EVENTS_MAX: usize = 100_000;
/// Longest time for which an alarm can be shelved.
pub const SHELVE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

pub type Alarms<'e> = View<'e, AlarmTable>;

/// The engine's index of alarms, and the events that wait for the journal.
#[derive(Debug, Default)]
pub struct AlarmTable {
    lists: Mutex<Lists>,
    events: Mutex<Events>,
    journal: Mutex<Option<Arc<Outbox>>>,
}

#[derive(Debug, Default)]
struct Lists {
    /// Variables with alarms.
    known: BTreeSet<u32>,
    /// Times at which the alarms of a variable can change without an update. At most one for each
    /// variable, which `due` names.
    queue: BTreeSet<(Tick, u32)>,
    due: HashMap<u32, Tick>,
    /// Variables whose limits, setpoints or conditions may have changed.
    changed: BTreeSet<u32>,
    /// For the name of each variable that alarms refer to: the variables with those alarms.
    referred: BTreeMap<String, BTreeSet<u32>>,
}

#[derive(Debug, Default)]
struct Events {
    waiting: VecDeque<AlarmChange>,
    lost: u64,
    next: u64,
}

/// The reason why an action on an alarm was refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum AlarmRefusal {
    #[error("{0}")]
    Variable(Refusal),
    #[error("the variable has no alarm {name}; it has {known}")]
    Unknown { name: String, known: String },
    #[error("{0}")]
    State(#[from] Refused),
    #[error("an alarm can be shelved for 1 second to 30 days")]
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
    /// The quality of the newest evaluated update, and the numbers that change nothing at this
    /// quality, as an interval.
    quiet: Cell<Quiet>,
    /// The time that the table has for this variable.
    due: Cell<Option<Tick>>,
    alarms: RefCell<Vec<Entry>>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Quiet {
    quality: Quality,
    low: f64,
    high: f64,
}

impl Quiet {
    /// Every update is evaluated.
    const NOTHING: Self = Self {
        quality: Quality::GOOD,
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
    };

    #[inline]
    fn contains(self, number: f64, quality: Quality) -> bool {
        self.quality == quality && number >= self.low && number <= self.high
    }
}

#[derive(Debug)]
struct Entry {
    definition: Arc<AlarmDefinition>,
    alarm: Alarm,
    record: AlarmRecord,
    unshelve_at: Option<Tick>,
}

impl Entry {
    fn new(definition: &AlarmDefinition) -> Self {
        Self {
            definition: Arc::new(definition.clone()),
            alarm: Alarm::new(definition),
            record: AlarmRecord::default(),
            unshelve_at: None,
        }
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

    fn due(&self) -> Option<Tick> {
        let times = self.alarm.due().into_iter().chain(self.unshelve_at);
        times.min()
    }

    /// Notes a change in the record.
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

/// Returns a scalar as a number. NaN for other types, which are not decoded.
#[inline]
fn number_of(update: &Update, data_type: &DataType) -> f64 {
    if *data_type == DataType::F64
        && let Ok(bytes) = update.value.as_slice().try_into()
    {
        return f64::from_le_bytes(bytes);
    }
    scalar(update, data_type)
        .and_then(|value| value.as_f64())
        .unwrap_or(f64::NAN)
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

/// Returns the value if it is a scalar. Others may be large, and alarms do not look into them.
fn scalar(update: &Update, data_type: &DataType) -> Option<Value> {
    let is_scalar = data_type.fixed_size().is_some();
    is_scalar.then(|| update.value.decode(data_type))
}

impl Extension for VariableAlarms {
    fn order(&self) -> u8 {
        3
    }

    fn needs_commit(&self, variable: &Variable, update: &Update, moment: Moment) -> bool {
        let number = number_of(update, variable.data_type());
        if self.quiet.get().contains(number, update.quality) {
            return false;
        }
        let input = input_of(update, variable.data_type());
        let alarms = self.alarms.borrow();
        let mut alarms = alarms.iter().map(|entry| &entry.alarm);
        alarms.any(|alarm| alarm.would_change(input, moment.now))
    }

    fn committed(&self, commit: &Committed<'_>, wakes: &mut Wakes) {
        let update = commit.update;
        let number = number_of(update, commit.variable.data_type());
        if !self.quiet.get().contains(number, update.quality) {
            self.evaluate(commit.variable, update, commit.moment, wakes);
        }
    }
}

impl VariableAlarms {
    #[cold]
    fn evaluate(&self, variable: &Variable, update: &Update, moment: Moment, wakes: &mut Wakes) {
        let input = input_of(update, variable.data_type());
        let change = |entry: &mut Entry| entry.alarm.update(input, moment.now);
        self.change_all(variable, input, moment, wakes, change);
    }

    /// Lets `change` change each alarm, and enters the changes.
    fn change_all(
        &self,
        variable: &Variable,
        input: Input,
        moment: Moment,
        wakes: &mut Wakes,
        mut change: impl FnMut(&mut Entry) -> Option<Change>,
    ) -> bool {
        let mut has_changed = false;
        for entry in self.alarms.borrow_mut().iter_mut() {
            if let Some(change) = change(entry) {
                entry.note(change, input, moment.wall);
                self.table
                    .enter(variable, entry, change, None, moment, wakes);
                has_changed = true;
            }
        }
        self.settle(variable, input);
        has_changed
    }

    /// Computes what depends on the states of the alarms: the quiet range, and the next time.
    fn settle(&self, variable: &Variable, input: Input) {
        let alarms = self.alarms.borrow();
        let ranges = alarms.iter().map(|entry| entry.alarm.quiet_range());
        let all = Some((f64::NEG_INFINITY, f64::INFINITY));
        let quiet = ranges.fold(all, |all, range| {
            let ((low, high), (other_low, other_high)) = (all?, range?);
            Some((low.max(other_low), high.min(other_high)))
        });
        let is_usable = input.quality.level() != Level::Bad;
        self.quiet.set(match quiet.filter(|_| is_usable) {
            Some((low, high)) => Quiet {
                quality: input.quality,
                low,
                high,
            },
            None => Quiet::NOTHING,
        });
        let due = alarms.iter().filter_map(Entry::due).min();
        if self.due.replace(due) != due {
            self.table.set_due(variable.handle(), due);
        }
    }
}

impl AlarmTable {
    fn set_due(&self, handle: u32, due: Option<Tick>) {
        let mut lists = self.lists.lock();
        let before = match due {
            Some(due) => lists.due.insert(handle, due),
            None => lists.due.remove(&handle),
        };
        if before != due {
            if let Some(before) = before {
                lists.queue.remove(&(before, handle));
            }
            if let Some(due) = due {
                lists.queue.insert((due, handle));
            }
        }
    }

    /// Enters a change for the journal.
    fn enter(
        &self,
        variable: &Variable,
        entry: &Entry,
        change: Change,
        who: Option<&Caller>,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let Some(journal) = &*self.journal.lock() else {
            return;
        };
        let mut events = self.events.lock();
        events.next += 1;
        if events.waiting.len() >= ALARM_EVENTS_MAX {
            events.lost += 1;
            return;
        }
        let event = AlarmChange {
            number: events.next,
            when: moment.wall,
            variable: variable.name().to_owned(),
            alarm: entry.definition.name.clone(),
            event: change.event,
            from: change.from,
            to: change.to,
            who: who.map_or(String::new(), |caller| caller.principal.to_string()),
            comment: match who {
                Some(_) => entry.record.comment.clone(),
                None => String::new(),
            },
            record: entry.record.clone(),
        };
        events.waiting.push_back(event);
        drop(events);
        wakes.add(journal);
    }
}

/// The alarms of a variable, for its fields.
pub(crate) struct AlarmsRef<'s>(Option<Ref<'s, Vec<Entry>>>);

/// One alarm, for its fields.
#[derive(Clone, Copy)]
pub(crate) struct AlarmView<'a> {
    pub(crate) definition: &'a AlarmDefinition,
    /// The limit or the setpoint now.
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
            changed, referred, ..
        } = &mut *lists;
        changed.extend(referred.get(name).into_iter().flatten());
    }
}

/// The names of the variables that an alarm refers to.
fn operands(definition: &AlarmDefinition) -> impl Iterator<Item = &String> {
    let suppressing = Some(&definition.suppressed_by).filter(|name| !name.is_empty());
    definition.kind.variable().into_iter().chain(suppressing)
}

impl Alarms<'_> {
    /// Gives a variable the alarms of its properties. Alarms whose definition stays the same keep
    /// their state. The caller holds the variable's lock.
    pub(crate) fn configure(
        &self,
        variable: &Variable,
        state: &mut State,
        properties: &Properties,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let known = state.extension::<VariableAlarms>();
        if known.is_none() && properties.alarms.is_empty() {
            return;
        }
        let handle = variable.handle();
        let mut before = known.map_or(Vec::new(), |known| known.alarms.take());
        self.unlist(handle, &before);
        if properties.alarms.is_empty() {
            variable.detach::<VariableAlarms>(state);
            return;
        }
        let alarms = properties.alarms.iter().map(|definition| {
            let place = before
                .iter()
                .position(|entry| *entry.definition == *definition);
            place.map_or_else(|| Entry::new(definition), |place| before.swap_remove(place))
        });
        let alarms: Vec<Entry> = alarms.collect();
        {
            let mut lists = self.table.lists.lock();
            lists.known.insert(handle);
            for name in alarms.iter().flat_map(|entry| operands(&entry.definition)) {
                let referring = lists.referred.entry(name.clone()).or_default();
                referring.insert(handle);
                lists.changed.insert(handle);
            }
        }
        let extension = VariableAlarms {
            table: Arc::clone(self.table),
            quiet: Cell::new(Quiet::NOTHING),
            due: Cell::new(None),
            alarms: RefCell::new(alarms),
        };
        let update = variable.update_locked(state);
        if update.sequence > 0 {
            extension.evaluate(variable, &update, moment, wakes);
        }
        variable.attach(state, extension);
    }

    /// Watches the variables that alarms refer to, among those deployed.
    pub(crate) fn deployed(&self, handles: &[u32]) {
        if self.table.lists.lock().referred.is_empty() {
            return;
        }
        let names: Vec<String> = {
            let lists = self.table.lists.lock();
            lists.referred.keys().cloned().collect()
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
        let Lists { known, changed, .. } = &mut *lists;
        changed.extend(handles.iter().filter(|handle| known.contains(*handle)));
    }

    /// Ends the alarms of a variable that is being undeployed. The caller holds its lock.
    pub(crate) fn forget(&self, variable: &Variable, state: &mut State) {
        self.table.operand_changed(variable.name());
        if let Some(known) = state.extension::<VariableAlarms>() {
            let alarms = known.alarms.take();
            self.unlist(variable.handle(), &alarms);
            variable.detach::<VariableAlarms>(state);
        }
    }

    fn unlist(&self, handle: u32, alarms: &[Entry]) {
        self.table.set_due(handle, None);
        let mut lists = self.table.lists.lock();
        lists.known.remove(&handle);
        lists.changed.remove(&handle);
        for name in alarms.iter().flat_map(|entry| operands(&entry.definition)) {
            if let Some(referring) = lists.referred.get_mut(name) {
                referring.remove(&handle);
                if referring.is_empty() {
                    lists.referred.remove(name);
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
                return self.poll_due(moment, slice, wakes);
            };
            self.read_operands(handle, moment, wakes);
        }
        Some(moment.now)
    }

    fn poll_due(&self, moment: Moment, slice: usize, wakes: &mut Wakes) -> Option<Tick> {
        for _ in 0..slice {
            let handle = {
                let mut lists = self.table.lists.lock();
                let (due, handle) = *lists.queue.first()?;
                if due > moment.now {
                    return Some(due);
                }
                lists.queue.pop_first();
                lists.due.remove(&handle);
                handle
            };
            self.forget_due(handle);
            self.change(handle, moment, wakes, |entry| {
                if entry.unshelve_at.is_some_and(|at| at <= moment.now) {
                    entry.unshelve_at = None;
                    entry.record.shelved_until = None;
                    // It may have been unshelved meanwhile.
                    return entry.alarm.apply(Event::Unshelve).ok().flatten();
                }
                entry.alarm.poll(moment.now)
            });
        }
        Some(moment.now)
    }

    /// Notes that the table has no time for a variable any more.
    fn forget_due(&self, handle: u32) {
        if let Some(variable) = self.core.variable(handle)
            && let Some(alarms) = variable.lock().extension::<VariableAlarms>()
        {
            alarms.due.set(None);
        }
    }

    /// Changes the alarms of a variable without an update of it, and its fields with them.
    fn change(
        &self,
        handle: u32,
        moment: Moment,
        wakes: &mut Wakes,
        change: impl FnMut(&mut Entry) -> Option<Change>,
    ) {
        let Some(variable) = self.core.variable(handle) else {
            return;
        };
        let state = variable.lock();
        let Some(alarms) = state.extension::<VariableAlarms>() else {
            return;
        };
        let input = input_of(&variable.update_locked(&state), variable.data_type());
        if alarms.change_all(&variable, input, moment, wakes, change) {
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
            let names = alarms.iter().flat_map(|entry| operands(&entry.definition));
            names.cloned().collect()
        };
        // Read without the lock of the variable with the alarms.
        let values = names.into_iter().map(|name| {
            let sample = self.core.variables.find(&name).map(|one| one.sample());
            let value = sample.filter(|sample| sample.quality.level() != Level::Bad);
            (name, value.map(|sample| sample.value))
        });
        let values: HashMap<String, Option<Value>> = values.collect();
        let state = variable.lock();
        let update = variable.update_locked(&state);
        let is_written = update.sequence > 0;
        let input = input_of(&update, variable.data_type());
        drop(state);
        self.change(handle, moment, wakes, |entry| {
            let suppressing = values.get(&entry.definition.suppressed_by)?;
            entry.alarm.set_suppressed(suppressing.as_ref()?)
        });
        self.change(handle, moment, wakes, |entry| {
            let Entry {
                definition, alarm, ..
            } = entry;
            let operand = values.get(definition.kind.variable()?)?;
            let operand = operand.as_ref().and_then(Value::as_f64);
            match is_written {
                true => alarm.set_operand(operand, input, moment.now),
                false => None,
            }
        });
    }

    /// Returns the alarms of variables that the caller may read, with handles above `after`, at
    /// least one variable and then until `limit` alarms are found.
    pub fn list(&self, caller: &Caller, after: Option<u32>, limit: usize) -> Vec<AlarmStatus> {
        let mut found = Vec::new();
        let mut next = after.map_or(0, |after| after.saturating_add(1));
        while found.len() < limit {
            let handle = self.table.lists.lock().known.range(next..).next().copied();
            let Some(handle) = handle else { break };
            next = handle.saturating_add(1);
            let visible = self.core.visible(caller, handle);
            if let Some(variable) = visible.filter(|_| caller.rights.read) {
                found.extend(self.of_variable(&variable));
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
        let refuse = || AlarmRefusal::Variable(self.core.refuse_handle(handle));
        let variable = self.core.visible(caller, handle).ok_or_else(refuse)?;
        if !caller.rights.write {
            return Err(AlarmRefusal::Variable(Refusal::Denied));
        }
        let state = variable.lock();
        let unknown = |known: String| AlarmRefusal::Unknown {
            name: name.to_owned(),
            known,
        };
        let Some(alarms) = state.extension::<VariableAlarms>() else {
            return Err(unknown("none".to_owned()));
        };
        let input = input_of(&variable.update_locked(&state), variable.data_type());
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
            table.enter(&variable, entry, change, Some(caller), moment, wakes);
        }
        let now = entry.record.state;
        drop(entries);
        alarms.settle(&variable, input);
        variable.reconfigured(&state, moment, wakes);
        Ok(now)
    }

    /// Registers `wake`, which is called when there are events to take.
    pub fn keep_journal(&self, wake: Box<dyn Wake>) {
        *self.table.journal.lock() = Some(Arc::new(Outbox::new(wake, true, None)));
    }

    /// Takes the oldest events, at most `limit`, with the number of events lost after them.
    pub fn take_events(&self, limit: usize) -> (Vec<AlarmChange>, u64) {
        let mut events = self.table.events.lock();
        let count = limit.min(events.waiting.len());
        let taken: Vec<_> = events.waiting.drain(..count).collect();
        let lost = match events.waiting.is_empty() {
            true => std::mem::take(&mut events.lost),
            false => 0,
        };
        (taken, lost)
    }
}
