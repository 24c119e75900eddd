//! Fields: what configuration and state say about a variable, as cells of their own (VS-08).
//!
//! ```text
//! boiler/level           the variable
//! boiler/level#units     its field: a read-only variable, made when it is opened first
//! ```
//!
//! A field is written by what changes it: a library that is replaced, stopped or started, a force,
//! an update. It has sequences of its own, and subscribers hear of it under any contract. Variables
//! of which no field is open pay nothing for them. A field that nobody has a reference to any more,
//! neither a subscription nor a session that opened it, is closed, and its slot is used again.
//!
//! Lock order: a variable, then its fields. A group locks no field: what changes a field is its
//! variable's lock.

use trunkline_types::{
    Access, DataType, Level, Name, Pattern, Properties, Quality, Reason, Scope, Tick, Timestamp,
    Value,
};

use crate::caller::Caller;
use crate::engine::Engine;
use crate::outbox::Wakes;
use crate::outcome::AccessError;
use crate::sync::Arc;
use crate::update::{Encoded, Update};
use crate::variable::{State, Variable};
use crate::write::publish_locked;

/// Fields that can be open at a time; each uses a slot.
pub const FIELDS_MAX: u32 = 100_000;

/// References to a field that nobody uses: those of the registry and of its variable.
const REFERENCES_OF_NOBODY: usize = 2;

/// What a field is called, and where its value comes from.
#[derive(Debug)]
pub struct Field {
    /// Behind the `#`.
    pub name: &'static str,
    /// For people.
    pub about: &'static str,
    data_type: Type,
    value: fn(&Seen<'_>) -> Option<Value>,
}

#[derive(Clone, Copy, Debug)]
enum Type {
    Text,
    Number,
    Bool,
    Count,
    Time,
}

/// What fields are taken from, under the variable's lock.
struct Seen<'a> {
    name: &'a str,
    properties: &'a Properties,
    update: &'a Update,
    is_stopped: bool,
    forced_by: Option<&'a str>,
}

/// A field that is open.
#[derive(Clone, Debug)]
pub(crate) struct OpenField {
    field: &'static Field,
    pub(crate) variable: Arc<Variable>,
}

fn text(text: &str) -> Option<Value> {
    Some(Value::String(text.into()))
}

/// Every field that a variable has, sorted by name.
pub static FIELDS: &[Field] = &[
    Field {
        name: "access",
        about: "read-write, read-only or write-only",
        data_type: Type::Text,
        value: |seen| {
            text(match seen.properties.access {
                Access::ReadWrite => "read-write",
                Access::ReadOnly => "read-only",
                Access::WriteOnly => "write-only",
            })
        },
    },
    Field {
        name: "coerce",
        about: "whether values outside the range are pulled into it",
        data_type: Type::Bool,
        value: |seen| Some(Value::Bool(seen.properties.coerce)),
    },
    Field {
        name: "deadband.source",
        about: "deadband for values of the source, in percent of the range",
        data_type: Type::Number,
        value: |seen| Some(Value::F64(seen.properties.deadband.source_percent)),
    },
    Field {
        name: "deadband.user",
        about: "deadband for values that clients write, in percent of the range",
        data_type: Type::Number,
        value: |seen| Some(Value::F64(seen.properties.deadband.user_percent)),
    },
    Field {
        name: "description",
        about: "what the variable is, for people",
        data_type: Type::Text,
        value: |seen| text(&seen.properties.description),
    },
    Field {
        name: "forced",
        about: "whether a person holds the variable at a value",
        data_type: Type::Bool,
        value: |seen| Some(Value::Bool(seen.forced_by.is_some())),
    },
    Field {
        name: "forced.by",
        about: "who holds the variable at a value; empty when nobody does",
        data_type: Type::Text,
        value: |seen| text(seen.forced_by.unwrap_or_default()),
    },
    Field {
        name: "library",
        about: "the library that the variable belongs to",
        data_type: Type::Text,
        value: |seen| text(seen.name.split('/').next().unwrap_or_default()),
    },
    Field {
        name: "library.state",
        about: "running or stopped",
        data_type: Type::Text,
        value: |seen| {
            text(if seen.is_stopped {
                "stopped"
            } else {
                "running"
            })
        },
    },
    Field {
        name: "max_age",
        about: "age in seconds from which a reading is stale; no value: none",
        data_type: Type::Number,
        value: |seen| {
            let max_age = seen.properties.max_age?;
            Some(Value::F64(max_age.as_secs_f64()))
        },
    },
    Field {
        name: "name",
        about: "the full name of the variable",
        data_type: Type::Text,
        value: |seen| text(seen.name),
    },
    Field {
        name: "origin",
        about: "where the variable was configured",
        data_type: Type::Text,
        value: |seen| text(&seen.properties.origin),
    },
    Field {
        name: "precision",
        about: "digits after the point when shown; no value: as many as there are",
        data_type: Type::Count,
        value: |seen| Some(Value::U64(seen.properties.precision?.into())),
    },
    Field {
        name: "quality",
        about: "how far the value can be trusted, and why not",
        data_type: Type::Text,
        value: |seen| text(&seen.update.quality.to_string()),
    },
    Field {
        name: "quality.level",
        about: "good, uncertain or bad",
        data_type: Type::Text,
        value: |seen| {
            text(match seen.update.quality.level() {
                Level::Good => "good",
                Level::Uncertain => "uncertain",
                Level::Bad => "bad",
            })
        },
    },
    Field {
        name: "quality.reason",
        about: "why the value cannot be trusted, in a word; empty when it can",
        data_type: Type::Text,
        value: |seen| {
            let reason = seen.update.quality.reason();
            text(match reason {
                Reason::None => "",
                reason => reason.name(),
            })
        },
    },
    Field {
        name: "range.high",
        about: "highest engineering value; no value: any",
        data_type: Type::Number,
        value: |seen| Some(Value::F64(seen.properties.range?.1)),
    },
    Field {
        name: "range.low",
        about: "lowest engineering value; no value: any",
        data_type: Type::Number,
        value: |seen| Some(Value::F64(seen.properties.range?.0)),
    },
    Field {
        name: "retain",
        about: "whether the value survives a restart of the engine",
        data_type: Type::Bool,
        value: |seen| Some(Value::Bool(seen.properties.retain)),
    },
    Field {
        name: "sequence",
        about: "number of the newest update; 0 before the first",
        data_type: Type::Count,
        value: |seen| Some(Value::U64(seen.update.sequence)),
    },
    Field {
        name: "source",
        about: "where the value comes from, io-server:item; empty when clients write it",
        data_type: Type::Text,
        value: |seen| text(&seen.properties.source),
    },
    Field {
        name: "stale",
        about: "whether the value is older than max_age allows",
        data_type: Type::Bool,
        value: |seen| Some(Value::Bool(seen.update.quality.reason() == Reason::Stale)),
    },
    Field {
        name: "stall",
        about: "how long a writer waits for a full lossless subscription, in seconds",
        data_type: Type::Number,
        value: |seen| Some(Value::F64(seen.properties.stall.as_secs_f64())),
    },
    Field {
        name: "timestamp",
        about: "when the value was measured; no value before the first update",
        data_type: Type::Time,
        value: |seen| {
            let is_written = seen.update.sequence > 0 && seen.properties.timestamps;
            is_written.then_some(Value::Timestamp(seen.update.source_timestamp))
        },
    },
    Field {
        name: "type",
        about: "the type of the value",
        data_type: Type::Text,
        value: |seen| text(&seen.properties.data_type.to_string()),
    },
    Field {
        name: "units",
        about: "engineering unit; empty when there is none",
        data_type: Type::Text,
        value: |seen| text(&seen.properties.units),
    },
];

impl Field {
    /// The field of this name, such as `units`.
    pub fn named(name: &str) -> Option<&'static Field> {
        let place = FIELDS.binary_search_by(|field| field.name.cmp(name)).ok()?;
        FIELDS.get(place)
    }

    /// The fields that a pattern asks for behind its `#`; `None` when it asks for variables.
    pub fn asked_by(pattern: &Pattern) -> Option<(Pattern, Vec<&'static Field>)> {
        let (body, wanted) = pattern.as_str().split_once('#')?;
        let (body, wanted) = (Pattern::parse(body).ok()?, Pattern::parse(wanted).ok()?);
        let fields = FIELDS.iter().filter(|field| wanted.matches(field.name));
        Some((body, fields.collect()))
    }

    /// The type of its value.
    pub fn data_type(&self) -> DataType {
        match self.data_type {
            Type::Text => DataType::String,
            Type::Number => DataType::F64,
            Type::Bool => DataType::Bool,
            Type::Count => DataType::U64,
            Type::Time => DataType::Timestamp,
        }
    }

    /// What the variable's field says now, whether it is open or not; `None`: it has no value.
    pub fn value_of(&self, variable: &Variable) -> Option<Value> {
        let state = variable.lock();
        let update = variable.update_locked(&state);
        (self.value)(&seen(variable, &state, &update))
    }
}

impl Engine {
    /// [`Engine::resolve`], and fields: one that is not open yet is made.
    ///
    /// # Errors
    /// As there; [`AccessError::UnknownField`], and [`AccessError::Limit`] when too many are open.
    pub fn open_name(
        &self,
        caller: &Caller,
        name: &str,
        now: Tick,
        wall: Timestamp,
    ) -> Result<Arc<Variable>, AccessError> {
        match self.resolve(caller, name) {
            Err(AccessError::UnknownName { name, .. }) if name.contains('#') => {
                self.open_field(caller, &name, now, wall)
            }
            other => other,
        }
    }

    fn open_field(
        &self,
        caller: &Caller,
        name: &str,
        now: Tick,
        wall: Timestamp,
    ) -> Result<Arc<Variable>, AccessError> {
        let parsed = Name::parse(name).map_err(AccessError::InvalidName)?;
        let base = self.resolve(caller, parsed.without_field())?;
        let wanted = parsed.field().unwrap_or_default();
        let Some(field) = Field::named(wanted) else {
            return Err(AccessError::UnknownField {
                name: base.name().to_owned(),
                field: wanted.to_owned(),
            });
        };
        self.close_unused_fields();
        let mut state = base.lock();
        if base.is_gone() {
            return Err(AccessError::Gone);
        }
        if let Some(known) = self.registry().find(name) {
            return Ok(known);
        }
        let limit = || AccessError::Limit {
            what: "the number of fields that are open at a time",
            max: u64::from(FIELDS_MAX),
            hint: "subscribe the variables themselves; their readings carry quality and times",
        };
        if !self.count_field(FIELDS_MAX) {
            return Err(limit());
        }
        let scope = base.deployed().scope;
        let made = self.registry().insert(|handle| {
            let properties = Arc::new(properties(field, scope));
            Variable::new(handle, name.into(), properties)
        });
        let Some(variable) = made else {
            self.uncount_field();
            return Err(limit());
        };
        self.enter_tables(&variable);
        let open = OpenField {
            field,
            variable: Arc::clone(&variable),
        };
        let update = base.update_locked(&state);
        let seen = seen(&base, &state, &update);
        refresh(&open, &seen, now, wall, &mut Wakes::new());
        state.add_field(open);
        drop(state);
        self.field_list()
            .lock()
            .push_back(Arc::downgrade(&variable));
        Ok(variable)
    }

    /// Looks whether the fields opened longest ago are still used: two for each that is opened, so
    /// that what programs of this process leave behind does not add up.
    fn close_unused_fields(&self) {
        for _ in 0..2 {
            let Some(oldest) = self.field_list().lock().pop_front() else {
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
                self.field_list().lock().push_back(oldest);
            }
        }
    }

    /// Somebody has no use for a variable any more: where it is a field, and nobody else has, it is
    /// closed. Takes no lock where it is none.
    pub fn release_field(&self, variable: Arc<Variable>) {
        if let Some((owner, _)) = variable.name().split_once('#') {
            let _is_closed = self.close_field(owner, &variable);
        }
    }

    /// Closes a field if nobody has a reference to it beside the caller's one; false: somebody has.
    fn close_field(&self, owner: &str, variable: &Arc<Variable>) -> bool {
        let Some(base) = self.registry().find(owner) else {
            return variable.is_gone();
        };
        let mut state = base.lock();
        // Under the lock of its variable, which nobody opens it without.
        let is_unused = || {
            self.registry()
                .take_unused(variable, REFERENCES_OF_NOBODY + 1)
        };
        if !variable.is_gone() && is_unused() {
            let mut own = variable.lock();
            variable.set_gone(&own);
            own.plains.leave_tables();
            drop(own);
            state.remove_field(variable);
            self.uncount_field();
        }
        drop(state);
        self.registry().reclaim();
        variable.is_gone()
    }
}

impl Variable {
    /// Brings the fields that are open to what the variable says now. The caller holds its lock.
    #[cold]
    pub(crate) fn refresh_fields(
        &self,
        state: &State,
        now: Tick,
        wall: Timestamp,
        wakes: &mut Wakes,
    ) {
        let update = self.update_locked(state);
        let seen = seen(self, state, &update);
        for open in state.fields() {
            refresh(open, &seen, now, wall, wakes);
        }
    }
}

fn seen<'a>(variable: &'a Variable, state: &'a State, update: &'a Update) -> Seen<'a> {
    let forced = state.forced().filter(|_| variable.is_forced());
    Seen {
        name: variable.name(),
        properties: variable.properties_locked(state),
        update,
        is_stopped: variable.is_stopped(),
        forced_by: forced.map(|forced| &*forced.by),
    }
}

fn refresh(open: &OpenField, seen: &Seen<'_>, now: Tick, wall: Timestamp, wakes: &mut Wakes) {
    let variable = &open.variable;
    let (value, quality) = match (open.field.value)(seen) {
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
    let update = Update {
        sequence: 0,
        source_timestamp: wall,
        engine_timestamp: wall,
        quality,
        writer: 0,
        value,
    };
    publish_locked(variable, &mut state, update, now, wall, wakes);
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
        assert!(FIELDS.is_sorted_by(|a, b| a.name < b.name));
        for field in FIELDS {
            assert_eq!(
                Field::named(field.name).map(|found| found.name),
                Some(field.name)
            );
            assert!(!field.about.is_empty(), "{}", field.name);
        }
        assert!(Field::named("unit").is_none() && Field::named("").is_none());
    }

    #[test]
    fn a_pattern_asks_for_fields_behind_its_hash() {
        let asked = |text: &str| Field::asked_by(&Pattern::parse(text).unwrap());
        assert!(asked("plant/**").is_none());
        let (body, fields) = asked("plant/**#range.*").unwrap();
        let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
        assert_eq!(
            (body.as_str(), &*names),
            ("plant/**", &["range.high", "range.low"][..])
        );
        assert_eq!(asked("a#*").unwrap().1.len(), FIELDS.len());
        assert!(asked("a#nonsense").unwrap().1.is_empty());
    }
}
