//! Fields: the configuration and state of a variable as separate read-only variables (VS-08).
//!
//! ```text
//! boiler/level           the variable
//! boiler/level#units     its field: a read-only variable, created when first opened
//! ```
//!
//! A field is updated whenever its content changes: when a library is replaced, stopped or started,
//! by forcing, or by an update. It has its own sequence, and can be subscribed under any contract.
//! Variables without open fields pay no cost. A field is closed, and its slot reused, once no
//! subscription uses it and no session has it open.
//!
//! Lock order: a variable, then its fields. A group does not lock fields, because fields change
//! only under the lock of their variable.

use std::borrow::Cow;
use std::collections::VecDeque;

use trunkline_types::{
    Access, DataType, Level, Moment, Name, Pattern, Properties, Quality, Reason, Scope, Tick,
    Timestamp, Value,
};

use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::features::alarms::{AlarmView, AlarmsRef};
use crate::features::forcing::Forced;
use crate::features::tables::TableList;
use crate::outcome::AccessError;
use crate::subscriptions::Consumer;
use crate::sync::{Arc, AtomicU32, Mutex, Ordering, Weak};
use crate::update::{Encoded, Update};
use crate::variable::{Committed, Extension, State, Variable};
use crate::write::{Commit, EngineCore, Hook, View, commit_undelayed};

/// Maximum number of open fields. Each occupies a slot.
pub const FIELDS_MAX: u32 = 100_000;

/// Number of references to an unused field: one from the registry and one from its variable.
const REFERENCES_WHEN_UNUSED: usize = 2;

/// A field of every variable, or of each alarm of a variable.
#[derive(Debug)]
pub struct Field {
    /// The part of the name after the `#`, or after the name of the alarm.
    pub name: &'static str,
    pub about: &'static str,
    data_type: Type,
    value: fn(&FieldContext<'_>) -> Option<Value>,
}

#[derive(Clone, Copy, Debug)]
enum Type {
    Text,
    Number,
    Bool,
    Count,
    Time,
}

/// The data from which fields are computed, under the variable's lock.
struct FieldContext<'a> {
    name: &'a str,
    properties: &'a Properties,
    update: &'a Update,
    is_stopped: bool,
    forced_by: Option<&'a str>,
    /// The alarm, for a field of an alarm.
    alarm: Option<AlarmView<'a>>,
}

/// A field by its full name, such as `units` or `alarm.hi.state`.
#[derive(Clone, Debug)]
pub struct FieldRef {
    field: &'static Field,
    /// Name of the alarm; `None` for a field of the variable itself.
    alarm: Option<Arc<str>>,
}

/// The fields that a pattern selects after its `#`.
#[derive(Clone, Debug)]
pub struct FieldPattern {
    field_pattern: Pattern,
    /// The selected fields that every variable has.
    fields: Vec<FieldRef>,
}

#[derive(Clone, Debug)]
pub(crate) struct OpenField {
    field: FieldRef,
    pub(crate) variable: Arc<Variable>,
}

pub type Fields<'e> = View<'e, FieldTable>;

#[derive(Debug)]
pub struct FieldTable {
    count: AtomicU32,
    /// The fields, beginning with the one opened or examined longest ago.
    list: Mutex<VecDeque<Weak<Variable>>>,
    tables: Arc<TableList>,
}

impl FieldTable {
    pub(crate) fn new(tables: &Arc<TableList>) -> Self {
        Self {
            count: AtomicU32::new(0),
            list: Mutex::default(),
            tables: Arc::clone(tables),
        }
    }

    /// Counts one more field. Returns false if the maximum is reached.
    fn count_one(&self) -> bool {
        let more = |count: u32| (count < FIELDS_MAX).then(|| count + 1);
        // Relaxed: the counter orders no other data.
        let counted = (self.count).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok()
    }

    pub(crate) fn uncount(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hook for Arc<FieldTable> {
    fn released(&self, core: &EngineCore, variable: &Arc<Variable>) {
        View { core, table: self }.release(variable);
    }
}

#[derive(Debug, Default)]
struct OpenFields(Vec<OpenField>);

impl Extension for OpenFields {
    fn order(&self) -> u8 {
        5
    }

    fn committed(&self, commit: &Committed<'_>, wakes: &mut Wakes) {
        let Committed {
            variable, state, ..
        } = *commit;
        let alarms = AlarmsRef::of(state);
        for open in &self.0 {
            let alarm = open.field.alarm_of(&alarms);
            let context = context(variable, state, commit.update, alarm);
            refresh(open, &context, commit.moment, wakes);
        }
    }

    fn reconfigured(&self, at: &Committed<'_>, wakes: &mut Wakes) {
        self.committed(at, wakes);
    }
}

pub(crate) fn open_fields(state: &State) -> &[OpenField] {
    state
        .extension()
        .map_or(&[], |OpenFields(fields): &OpenFields| fields.as_slice())
}

fn text(text: &str) -> Option<Value> {
    Some(Value::String(text.into()))
}

pub static FIELDS: &[Field] = &[
    Field {
        name: "access",
        about: "read-write, read-only or write-only",
        data_type: Type::Text,
        value: |context| {
            text(match context.properties.access {
                Access::ReadWrite => "read-write",
                Access::ReadOnly => "read-only",
                Access::WriteOnly => "write-only",
            })
        },
    },
    Field {
        name: "coerce",
        about: "whether values outside the range are coerced into it",
        data_type: Type::Bool,
        value: |context| Some(Value::Bool(context.properties.coerce)),
    },
    Field {
        name: "deadband.source",
        about: "deadband for values of the source, in percent of the range",
        data_type: Type::Number,
        value: |context| Some(Value::F64(context.properties.deadband.source_percent)),
    },
    Field {
        name: "deadband.user",
        about: "deadband for values that clients write, in percent of the range",
        data_type: Type::Number,
        value: |context| Some(Value::F64(context.properties.deadband.user_percent)),
    },
    Field {
        name: "description",
        about: "description of the variable for people",
        data_type: Type::Text,
        value: |context| text(&context.properties.description),
    },
    Field {
        name: "forced",
        about: "whether the variable is forced",
        data_type: Type::Bool,
        value: |context| Some(Value::Bool(context.forced_by.is_some())),
    },
    Field {
        name: "forced.by",
        about: "who forced the variable; empty if it is not forced",
        data_type: Type::Text,
        value: |context| text(context.forced_by.unwrap_or_default()),
    },
    Field {
        name: "library",
        about: "the library that the variable belongs to",
        data_type: Type::Text,
        value: |context| text(context.name.split('/').next().unwrap_or_default()),
    },
    Field {
        name: "library.state",
        about: "running or stopped",
        data_type: Type::Text,
        value: |context| {
            text(if context.is_stopped {
                "stopped"
            } else {
                "running"
            })
        },
    },
    Field {
        name: "max_age",
        about: "age in seconds from which a reading is stale; no value: no limit",
        data_type: Type::Number,
        value: |context| {
            let max_age = context.properties.max_age?;
            Some(Value::F64(max_age.as_secs_f64()))
        },
    },
    Field {
        name: "name",
        about: "the full name of the variable",
        data_type: Type::Text,
        value: |context| text(context.name),
    },
    Field {
        name: "origin",
        about: "where the variable was configured",
        data_type: Type::Text,
        value: |context| text(&context.properties.origin),
    },
    Field {
        name: "precision",
        about: "number of decimal places shown; no value: all",
        data_type: Type::Count,
        value: |context| Some(Value::U64(context.properties.precision?.into())),
    },
    Field {
        name: "quality",
        about: "how far the value can be trusted, and the reason if it cannot",
        data_type: Type::Text,
        value: |context| text(&context.update.quality.to_string()),
    },
    Field {
        name: "quality.level",
        about: "good, uncertain or bad",
        data_type: Type::Text,
        value: |context| {
            text(match context.update.quality.level() {
                Level::Good => "good",
                Level::Uncertain => "uncertain",
                Level::Bad => "bad",
            })
        },
    },
    Field {
        name: "quality.reason",
        about: "reason why the value cannot be trusted, in one word; empty if it can",
        data_type: Type::Text,
        value: |context| {
            let reason = context.update.quality.reason();
            text(if reason == Reason::None {
                ""
            } else {
                reason.name()
            })
        },
    },
    Field {
        name: "range.high",
        about: "highest engineering value; no value: unlimited",
        data_type: Type::Number,
        value: |context| Some(Value::F64(context.properties.range?.1)),
    },
    Field {
        name: "range.low",
        about: "lowest engineering value; no value: unlimited",
        data_type: Type::Number,
        value: |context| Some(Value::F64(context.properties.range?.0)),
    },
    Field {
        name: "retain",
        about: "whether the value survives a restart of the engine",
        data_type: Type::Bool,
        value: |context| Some(Value::Bool(context.properties.retain)),
    },
    Field {
        name: "sequence",
        about: "number of the newest update; 0 before the first",
        data_type: Type::Count,
        value: |context| Some(Value::U64(context.update.sequence)),
    },
    Field {
        name: "source",
        about: "where the value comes from, io-server:item; empty when clients write it",
        data_type: Type::Text,
        value: |context| text(&context.properties.source),
    },
    Field {
        name: "stale",
        about: "whether the value is older than max_age allows",
        data_type: Type::Bool,
        value: |context| {
            Some(Value::Bool(
                context.update.quality.reason() == Reason::Stale,
            ))
        },
    },
    Field {
        name: "stall",
        about: "how long a writer waits for a full lossless subscription, in seconds",
        data_type: Type::Number,
        value: |context| Some(Value::F64(context.properties.stall.as_secs_f64())),
    },
    Field {
        name: "timestamp",
        about: "when the value was measured; no value before the first update",
        data_type: Type::Time,
        value: |context| {
            let is_written = context.update.sequence > 0 && context.properties.timestamps;
            is_written.then_some(Value::Timestamp(context.update.source_timestamp))
        },
    },
    Field {
        name: "type",
        about: "the type of the value",
        data_type: Type::Text,
        value: |context| text(&context.properties.data_type.to_string()),
    },
    Field {
        name: "units",
        about: "engineering unit; empty when there is none",
        data_type: Type::Text,
        value: |context| text(&context.properties.units),
    },
];

/// The fields of an alarm, after `alarm.NAME.`.
pub static ALARM_FIELDS: &[Field] = &[
    Field {
        name: "acknowledged",
        about: "when the alarm was acknowledged; no value: it was not",
        data_type: Type::Time,
        value: |context| context.alarm?.record.acknowledged.map(Value::Timestamp),
    },
    Field {
        name: "acknowledged.by",
        about: "who acknowledged the alarm; empty when nobody did",
        data_type: Type::Text,
        value: |context| text(&context.alarm?.record.acknowledged_by),
    },
    Field {
        name: "active",
        about: "whether the condition of the alarm is met",
        data_type: Type::Bool,
        value: |context| Some(Value::Bool(context.alarm?.record.is_active)),
    },
    Field {
        name: "area",
        about: "area of the alarm; empty when there is none",
        data_type: Type::Text,
        value: |context| text(&context.alarm?.definition.area),
    },
    Field {
        name: "cleared",
        about: "when the process returned to normal; no value: it has not",
        data_type: Type::Time,
        value: |context| context.alarm?.record.cleared.map(Value::Timestamp),
    },
    Field {
        name: "comment",
        about: "the operator's last comment on the alarm; may be empty",
        data_type: Type::Text,
        value: |context| text(&context.alarm?.record.comment),
    },
    Field {
        name: "description",
        about: "meaning of the alarm for people",
        data_type: Type::Text,
        value: |context| text(&context.alarm?.definition.description),
    },
    Field {
        name: "enabled",
        about: "whether the alarm is evaluated",
        data_type: Type::Bool,
        value: |context| Some(Value::Bool(context.alarm?.definition.enabled)),
    },
    Field {
        name: "help",
        about: "what the operator should do",
        data_type: Type::Text,
        value: |context| text(&context.alarm?.definition.help),
    },
    Field {
        name: "kind",
        about: "what raises the alarm, such as hi or bad_quality",
        data_type: Type::Text,
        value: |context| text(context.alarm?.definition.kind.name()),
    },
    Field {
        name: "limit",
        about: "limit or setpoint of the alarm; no value: it has none, or it is not known yet",
        data_type: Type::Number,
        value: |context| context.alarm?.operand.map(Value::F64),
    },
    Field {
        name: "priority",
        about: "1 to 1000; 1000 is the most urgent",
        data_type: Type::Count,
        value: |context| Some(Value::U64(context.alarm?.definition.priority.into())),
    },
    Field {
        name: "raised",
        about: "when the alarm was last raised; no value: never",
        data_type: Type::Time,
        value: |context| context.alarm?.record.raised.map(Value::Timestamp),
    },
    Field {
        name: "shelved.until",
        about: "when the alarm is unshelved automatically; no value: it is not shelved",
        data_type: Type::Time,
        value: |context| context.alarm?.record.shelved_until.map(Value::Timestamp),
    },
    Field {
        name: "state",
        about: "state of the alarm, such as unacknowledged",
        data_type: Type::Text,
        value: |context| text(context.alarm?.record.state.name()),
    },
    Field {
        name: "value",
        about: "the value when the alarm was last raised; no value: never, or it is not a number",
        data_type: Type::Number,
        value: |context| context.alarm?.record.value.map(Value::F64),
    },
];

/// Returns the field with this name in a table that is sorted by name.
fn find(table: &'static [Field], name: &str) -> Option<&'static Field> {
    let place = table.binary_search_by(|field| field.name.cmp(name)).ok()?;
    table.get(place)
}

impl Field {
    pub fn data_type(&self) -> DataType {
        match self.data_type {
            Type::Text => DataType::String,
            Type::Number => DataType::F64,
            Type::Bool => DataType::Bool,
            Type::Count => DataType::U64,
            Type::Time => DataType::Timestamp,
        }
    }
}

impl FieldRef {
    /// Returns the field with this name, such as `units` or `alarm.hi.state`. Does not check
    /// whether a variable has such an alarm.
    pub fn named(name: &str) -> Option<Self> {
        if let Some((alarm, part)) = name
            .strip_prefix("alarm.")
            .and_then(|rest| rest.split_once('.'))
        {
            return Some(Self {
                field: find(ALARM_FIELDS, part)?,
                alarm: Some(Arc::from(alarm)),
            });
        }
        find(FIELDS, name).map(Self::from)
    }

    /// Returns the part of the name after the `#`.
    pub fn name(&self) -> Cow<'static, str> {
        match &self.alarm {
            Some(alarm) => Cow::Owned(format!("alarm.{alarm}.{}", self.field.name)),
            None => Cow::Borrowed(self.field.name),
        }
    }

    pub fn data_type(&self) -> DataType {
        self.field.data_type()
    }

    /// Returns the current value of the variable's field, whether open or not; `None` if it has no
    /// value.
    pub fn value_of(&self, variable: &Variable) -> Option<Value> {
        let state = variable.lock();
        let update = variable.update_locked(&state);
        let alarms = AlarmsRef::of(&state);
        let alarm = self.alarm_of(&alarms);
        (self.field.value)(&context(variable, &state, &update, alarm))
    }

    fn alarm_of<'a>(&self, alarms: &'a AlarmsRef<'_>) -> Option<AlarmView<'a>> {
        alarms.get(self.alarm.as_deref()?)
    }
}

impl From<&'static Field> for FieldRef {
    fn from(field: &'static Field) -> Self {
        Self { field, alarm: None }
    }
}

impl FieldPattern {
    /// Returns the pattern before the `#`, and the fields selected after it; `None` if the pattern
    /// selects variables.
    pub fn split(pattern: &Pattern) -> Option<(Pattern, Self)> {
        let (body, field_pattern) = pattern.as_str().split_once('#')?;
        let (body, field_pattern) = (
            Pattern::parse(body).ok()?,
            Pattern::parse(field_pattern).ok()?,
        );
        let fields = FIELDS
            .iter()
            .filter(|field| field_pattern.matches(field.name));
        let fields = fields.map(FieldRef::from).collect();
        Some((
            body,
            Self {
                field_pattern,
                fields,
            },
        ))
    }

    /// Returns the number of fields that the pattern selects from a variable without alarms.
    pub fn common(&self) -> usize {
        self.fields.len()
    }

    /// Returns the fields that the pattern selects from a variable.
    pub fn fields_of(&self, variable: &Variable) -> Vec<FieldRef> {
        let mut fields = self.fields.clone();
        for alarm in &variable.properties().alarms {
            let name: Arc<str> = Arc::from(alarm.name.as_str());
            let of_alarm = ALARM_FIELDS.iter().map(|field| FieldRef {
                field,
                alarm: Some(Arc::clone(&name)),
            });
            fields.extend(of_alarm.filter(|field| self.field_pattern.matches(&field.name())));
        }
        fields
    }
}

/// Returns the names of the fields of a variable, for an error message.
fn names_of(variable: &Variable) -> String {
    let common = FIELDS.iter().map(|field| field.name.to_owned());
    let alarms = &variable.properties().alarms;
    let alarms = alarms
        .iter()
        .map(|alarm| format!("alarm.{}.state", alarm.name));
    common.chain(alarms).collect::<Vec<_>>().join(", ")
}

impl Fields<'_> {
    /// Like [`EngineCore::resolve`], but also accepts fields, and opens them if necessary.
    pub fn open(
        &self,
        caller: &Caller,
        name: &str,
        now: Tick,
        wall: Timestamp,
    ) -> Result<Arc<Variable>, AccessError> {
        match self.core.resolve(caller, name) {
            Err(AccessError::UnknownName { name, .. }) if name.contains('#') => {
                self.open_field(caller, &name, Moment { now, wall })
            }
            other => other,
        }
    }

    fn open_field(
        &self,
        caller: &Caller,
        name: &str,
        moment: Moment,
    ) -> Result<Arc<Variable>, AccessError> {
        let parsed = Name::parse(name).map_err(AccessError::InvalidName)?;
        let base = self.core.resolve(caller, parsed.without_field())?;
        let field_name = parsed.field().unwrap_or_default();
        let exists = |field: &FieldRef| match &field.alarm {
            Some(alarm) => {
                let alarms = &base.properties().alarms;
                alarms.iter().any(|definition| definition.name == **alarm)
            }
            None => true,
        };
        let Some(field) = FieldRef::named(field_name).filter(exists) else {
            return Err(AccessError::UnknownField {
                name: base.name().to_owned(),
                field: field_name.to_owned(),
                known: names_of(&base),
            });
        };
        self.close_unused_fields();
        let mut state = base.lock();
        if base.is_gone() {
            return Err(AccessError::Gone);
        }
        if let Some(open) = self.core.variables.find(name) {
            return Ok(open);
        }
        let limit = || AccessError::Limit {
            what: "the number of fields that are open at a time",
            max: u64::from(FIELDS_MAX),
            hint: "subscribe to the variables instead; their readings contain quality and \
                   timestamps",
        };
        if !self.table.count_one() {
            return Err(limit());
        }
        let scope = base.deployed().scope;
        let inserted = self.core.variables.insert(|handle| {
            let properties = Arc::new(properties(field.field, scope));
            Variable::new(handle, name.into(), properties, 0)
        });
        let Some(variable) = inserted else {
            self.table.uncount();
            return Err(limit());
        };
        self.of(&self.table.tables).enter(&variable);
        let open = OpenField {
            field,
            variable: Arc::clone(&variable),
        };
        let update = base.update_locked(&state);
        {
            let alarms = AlarmsRef::of(&state);
            let alarm = open.field.alarm_of(&alarms);
            let context = context(&base, &state, &update, alarm);
            refresh(&open, &context, moment, &mut Wakes::new());
        }
        base.change_extension(&mut state, |OpenFields(fields): &mut OpenFields| {
            fields.push(open)
        });
        drop(state);
        self.table.list.lock().push_back(Arc::downgrade(&variable));
        Ok(variable)
    }

    /// Checks whether the fields opened longest ago are still used. Each opening checks two, so
    /// that fields abandoned by programs of this process do not accumulate.
    fn close_unused_fields(&self) {
        for _ in 0..2 {
            let Some(oldest) = self.table.list.lock().pop_front() else {
                return;
            };
            let Some(variable) = oldest.upgrade() else {
                continue;
            };
            let owner = variable
                .name()
                .split_once('#')
                .map_or("", |(owner, _)| owner);
            if !self.close_field(owner, &variable) {
                self.table.list.lock().push_back(oldest);
            }
        }
    }

    /// Releases a variable that the caller no longer uses. A field without other users is closed.
    /// Takes no lock if the variable is not a field.
    pub fn release(&self, variable: &Arc<Variable>) {
        if let Some((owner, _)) = variable.name().split_once('#') {
            let _is_closed = self.close_field(owner, variable);
        }
    }

    pub fn count(&self) -> u64 {
        u64::from(self.table.count.load(Ordering::Relaxed))
    }

    /// Keeps `variable` open for the consumer if it is a field, until [`Consumer::drop_field`] or
    /// the end of the consumer. Returns any other variable unchanged.
    pub fn keep(
        &self,
        consumer: &mut Consumer,
        variable: Arc<Variable>,
    ) -> Result<Arc<Variable>, AccessError> {
        let fields = &mut consumer.fields;
        if !variable.name().contains('#') || fields.contains_key(&variable.handle()) {
            return Ok(variable);
        }
        let left = u64::from(FIELDS_MAX).saturating_sub(self.count());
        if fields.len() as u64 > left {
            self.release(&variable);
            return Err(AccessError::Limit {
                what: "the number of fields that one session may have open while few are left",
                max: fields.len() as u64,
                hint: "close fields, or subscribe to the variables; their readings contain quality \
                       and timestamps",
            });
        }
        fields.insert(variable.handle(), Arc::clone(&variable));
        Ok(variable)
    }

    /// Closes a field if only the caller has a reference to it. Otherwise returns false.
    fn close_field(&self, owner: &str, variable: &Arc<Variable>) -> bool {
        let Some(base) = self.core.variables.find(owner) else {
            return variable.is_gone();
        };
        let mut state = base.lock();
        // Checked under the variable's lock, which is needed to open the field.
        let is_unused = || {
            self.core
                .variables
                .take_unused(variable, REFERENCES_WHEN_UNUSED + 1)
        };
        if !variable.is_gone() && is_unused() {
            let mut own = variable.lock();
            variable.set_gone(&own);
            own.latest.leave_tables();
            drop(own);
            if let Some(OpenFields(fields)) = state.extension_mut() {
                fields.retain(|open| !Arc::ptr_eq(&open.variable, variable));
                if fields.is_empty() {
                    base.detach::<OpenFields>(&mut state);
                }
            }
            self.table.uncount();
        }
        drop(state);
        self.core.variables.reclaim();
        variable.is_gone()
    }
}

fn context<'a>(
    variable: &'a Variable,
    state: &'a State,
    update: &'a Update,
    alarm: Option<AlarmView<'a>>,
) -> FieldContext<'a> {
    let forced = state.extension::<Forced>();
    let forced = forced.filter(|_| variable.is_forced());
    FieldContext {
        name: variable.name(),
        properties: variable.properties_locked(state),
        update,
        is_stopped: variable.is_stopped(),
        forced_by: forced.map(|forced| &*forced.by),
        alarm,
    }
}

fn refresh(open: &OpenField, context: &FieldContext<'_>, moment: Moment, wakes: &mut Wakes) {
    let variable = &open.variable;
    let (value, quality) = match (open.field.field.value)(context) {
        Some(value) => (Encoded::from_value(&value), Quality::GOOD),
        None => (
            Encoded::from_value(&Value::default_of(variable.data_type())),
            Quality::bad(Reason::NoValue),
        ),
    };
    let mut state = variable.lock();
    let before = variable.update_locked(&state);
    let is_same = before.sequence > 0
        && before.quality == quality
        && before.value.as_slice() == value.as_slice();
    if is_same {
        return;
    }
    let mut update = Update::new(moment.wall, quality, 0, value);
    let commit = Commit::at(moment);
    commit_undelayed(variable, &mut state, &mut update, commit, wakes);
}

fn properties(field: &Field, scope: Scope) -> Properties {
    let mut properties = Properties::new(field.data_type());
    properties.access = Access::ReadOnly;
    properties.scope = scope;
    field.about.clone_into(&mut properties.description);
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_sorted_and_found_by_name() {
        let named = |name: &str| FieldRef::named(name).map(|found| found.name());
        for table in [FIELDS, ALARM_FIELDS] {
            assert!(table.is_sorted_by(|a, b| a.name < b.name));
            assert!(table.iter().all(|field| !field.about.is_empty()));
        }
        for field in FIELDS {
            assert_eq!(named(field.name).as_deref(), Some(field.name));
        }
        for field in ALARM_FIELDS {
            let name = format!("alarm.hi.{}", field.name);
            assert_eq!(named(&name).as_deref(), Some(&*name));
        }
        for unknown in [
            "unit",
            "",
            "alarm",
            "alarm.",
            "alarm.hi",
            "alarm.hi.",
            "alarm.hi.x",
        ] {
            assert_eq!(named(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn pattern_matches_fields_after_the_hash() {
        let split = |text: &str| FieldPattern::split(&Pattern::parse(text).unwrap());
        assert!(split("plant/**").is_none());
        let (body, pattern) = split("plant/**#range.*").unwrap();
        let names: Vec<_> = pattern.fields.iter().map(FieldRef::name).collect();
        assert_eq!(
            (body.as_str(), &*names),
            ("plant/**", &["range.high".into(), "range.low".into()][..])
        );
        assert_eq!(split("a#*").unwrap().1.common(), FIELDS.len());
        assert_eq!(split("a#nonsense").unwrap().1.common(), 0);
    }
}
