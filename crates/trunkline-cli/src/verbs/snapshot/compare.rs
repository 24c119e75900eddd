//! Compares a file with an engine, or two files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value as Json;
use trunkline::{Opened, VariableRef};
use trunkline_types::json::{from_json, to_json};
use trunkline_types::{Access, DataType, Position, Value};

use super::file::{Saved, Variable, file_problem};
use crate::output::record::{JsonSchema, Record, Serialize};
use crate::output::values::ValueStyle;
use crate::terminal::Style;
use crate::{Exit, Problem};

/// A line of `snapshot diff`, and of `snapshot restore` without `--yes`.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(title = "Trunkline difference, version 1")]
pub(crate) struct Difference {
    /// Full name of the variable.
    pub(super) name: String,
    /// `changed`: the value differs; `type`: the type differs; `gone`: the variable no longer exists;
    /// `added`: the variable is not in the file; `unknown`: the variable cannot be read.
    #[schemars(extend("enum" = ["changed", "type", "gone", "added", "unknown"]))]
    difference: &'static str,
    /// The value in the file; null when there is none.
    pub(super) file: Json,
    /// The value now, or in the other file; null when there is none.
    pub(super) now: Json,
    /// Cells for people: the value in the file, and the value now. Empty if there is none.
    #[serde(skip)]
    pub(super) texts: [String; 2],
    #[serde(skip)]
    pub(super) kind: Kind,
}

impl Record for Difference {
    const COLUMNS: &'static [&'static str] = &["name", "difference", "file", "now"];

    fn cell(&self, column: &str) -> Option<String> {
        match (column, &self.kind) {
            ("file", _) => Some(self.texts[0].clone()),
            ("now", Kind::Unknown(problem)) if !problem.message.is_empty() => {
                Some(problem.message.clone())
            }
            ("now", _) => Some(self.texts[1].clone()),
            _ => None,
        }
    }

    fn style(&self) -> Style {
        match self.kind {
            Kind::Value(_) => Style::Plain,
            Kind::Unknown(_) => Style::Bad,
            _ => Style::Warning,
        }
    }
}

/// A value as text for people, which is empty if there is no value, and as JSON.
type Shown = (String, Json);

impl Difference {
    fn new(name: &str, kind: Kind, saved: Shown, now: Shown) -> Self {
        Self {
            name: name.to_owned(),
            difference: match kind {
                Kind::Value(_) => "changed",
                Kind::Type => "type",
                Kind::Gone => "gone",
                Kind::Added => "added",
                Kind::Unknown(_) => "unknown",
            },
            file: saved.1,
            now: now.1,
            texts: [saved.0, now.0],
            kind,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    Value(Option<RestoreWrite>),
    /// The type has changed, so the old value cannot be written.
    Type,
    Gone,
    /// The variable exists, but is not in the file.
    Added,
    Unknown(Problem),
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct RestoreWrite {
    pub(super) variable: VariableRef,
    pub(super) value: Value,
    /// Position of the variable at the time of the comparison.
    pub(super) position: Position,
    pub(super) is_read_only: bool,
}

/// Compares a saved variable with the engine. Returns `None` if they do not differ.
pub(super) fn with_engine(
    path: &Path,
    saved: &Variable,
    opened: Result<Opened, Problem>,
    style: ValueStyle,
) -> Result<Option<Difference>, Problem> {
    let none = Shown::default();
    let difference =
        |kind, saved_value, now| Some(Difference::new(&saved.name, kind, saved_value, now));
    let saved_shown = (plain(&saved.value), saved.value.clone());
    let opened = match opened {
        Ok(opened) => opened,
        Err(problem) if problem.code == "unknown-name" => {
            return Ok(difference(Kind::Gone, saved_shown, none));
        }
        Err(problem) => return Ok(difference(Kind::Unknown(problem), saved_shown, none)),
    };
    let data_type = &opened.data_type;
    let Some(reading) = &opened.reading else {
        let sentence = "the variable is write-only, so its value is unknown";
        let problem =
            Problem::new(Exit::NotPermitted, "not-readable", sentence).with_name(&saved.name);
        return Ok(difference(Kind::Unknown(problem), saved_shown, none));
    };
    let shown = |value: &Value| {
        let json = to_json(value, data_type).into_plain();
        (style.text(value, data_type, None), json)
    };
    let now = match reading.position.sequence {
        0 => none,
        _ => shown(&reading.sample.value),
    };
    if data_type.to_string() != saved.data_type {
        let with_type = |(text, json): Shown, ty: &str| (format!("{text} ({ty})"), json);
        let (before, after) = (
            with_type(saved_shown, &saved.data_type),
            data_type.to_string(),
        );
        return Ok(difference(Kind::Type, before, with_type(now, &after)));
    }
    if saved.value.is_null() {
        // The variable had no value when it was saved, so there is nothing to restore.
        let is_same = now.1.is_null();
        return Ok(difference(Kind::Value(None), saved_shown, now).filter(|_| !is_same));
    }
    let value = value_of(path, saved, data_type)?;
    let before = shown(&value);
    if before.1 == now.1 {
        return Ok(None);
    }
    let write = RestoreWrite {
        variable: opened.variable,
        value,
        position: reading.position,
        is_read_only: opened.access == Access::ReadOnly,
    };
    Ok(difference(Kind::Value(Some(write)), before, now))
}

fn value_of(path: &Path, saved: &Variable, data_type: &DataType) -> Result<Value, Problem> {
    from_json(&saved.value, data_type).map_err(|error| {
        let reason = format!("{}: {error}", saved.name);
        let hint = "correct the value, or save the snapshot again";
        file_problem(path, Some(saved.line), &reason, hint)
    })
}

pub(super) fn added(saved: &Saved, present: &[&str]) -> Vec<Difference> {
    let saved_names: BTreeSet<&str> = saved
        .variables
        .iter()
        .map(|variable| &*variable.name)
        .collect();
    let added = present.iter().filter(|name| !saved_names.contains(*name));
    let none = Shown::default;
    added
        .map(|name| Difference::new(name, Kind::Added, none(), none()))
        .collect()
}

pub(super) fn files(before: &Saved, after: &Saved) -> Vec<Difference> {
    let mut pairs: BTreeMap<&str, (Option<&Variable>, Option<&Variable>)> = BTreeMap::new();
    for variable in &before.variables {
        pairs.entry(&variable.name).or_default().0 = Some(variable);
    }
    for variable in &after.variables {
        pairs.entry(&variable.name).or_default().1 = Some(variable);
    }
    let shown = |variable: Option<&Variable>| {
        variable.map_or_else(Shown::default, |variable| {
            (plain(&variable.value), variable.value.clone())
        })
    };
    let difference = |(name, (before, after)): (&str, (Option<&Variable>, Option<&Variable>))| {
        let kind = match (before, after) {
            (Some(before), Some(after)) if before.data_type != after.data_type => Kind::Type,
            (Some(before), Some(after)) if before.value == after.value => return None,
            (Some(_), Some(_)) => Kind::Value(None),
            (Some(_), None) => Kind::Gone,
            _ => Kind::Added,
        };
        Some(Difference::new(name, kind, shown(before), shown(after)))
    };
    pairs.into_iter().filter_map(difference).collect()
}

/// Formats JSON for people: text without quotes.
fn plain(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}
