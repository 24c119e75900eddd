//! Compares a file with an engine, or two files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value as Json;
use trunkline::{Opened, VariableRef};
use trunkline_types::json::{from_json, to_json};
use trunkline_types::{Access, DataType, Position, Value};

use super::file::{Saved, Variable, wrong};
use crate::exit::Exit;
use crate::output::values::ValueStyle;
use crate::problem::Problem;

/// A difference of one variable.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Difference {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// As text for people, empty if there is no value, and as JSON.
    pub(super) saved: (String, Json),
    pub(super) now: (String, Json),
}

/// The kind of difference.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Kind {
    /// Another value, with the write that restores it, if that is possible.
    Value(Option<Back>),
    /// Another type: the old value cannot be written.
    Type,
    /// The variable no longer exists.
    Gone,
    /// The variable exists, and is not in the file.
    Added,
    /// Not known, for this reason.
    Unknown(Problem),
}

/// The write that restores a value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Back {
    pub(super) variable: VariableRef,
    pub(super) value: Value,
    /// Position of the variable when it was compared.
    pub(super) position: Position,
    /// True if only its source writes it.
    pub(super) is_read_only: bool,
}

impl Kind {
    /// Returns the kind in one word.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Kind::Value(_) => "changed",
            Kind::Type => "type",
            Kind::Gone => "gone",
            Kind::Added => "added",
            Kind::Unknown(_) => "unknown",
        }
    }
}

/// Compares a variable of a file with the engine: `None` if they do not differ.
pub(super) fn with_engine(
    path: &Path,
    saved: &Variable,
    opened: Result<Opened, Problem>,
    style: ValueStyle,
) -> Result<Option<Difference>, Problem> {
    let none = (String::new(), Json::Null);
    let difference = |kind, saved_as, now| {
        Some(Difference {
            name: saved.name.clone(),
            kind,
            saved: saved_as,
            now,
        })
    };
    let as_written = (plain(&saved.value), saved.value.clone());
    let opened = match opened {
        Ok(opened) => opened,
        Err(problem) if problem.code == "unknown-name" => {
            return Ok(difference(Kind::Gone, as_written, none));
        }
        Err(problem) => return Ok(difference(Kind::Unknown(problem), as_written, none)),
    };
    let data_type = &opened.data_type;
    let Some(reading) = &opened.reading else {
        let sentence = "the variable is write-only, so its value is unknown";
        let problem = Problem::new(Exit::NotPermitted, "not-readable", sentence);
        return Ok(difference(
            Kind::Unknown(problem.of(&saved.name)),
            as_written,
            none,
        ));
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
        let typed = |(text, json): (String, Json), ty: &str| (format!("{text} ({ty})"), json);
        let (before, after) = (typed(as_written, &saved.data_type), data_type.to_string());
        return Ok(difference(Kind::Type, before, typed(now, &after)));
    }
    if saved.value.is_null() {
        // Nothing had been written to it: there is nothing to restore.
        let is_same = now.1.is_null();
        return Ok(difference(Kind::Value(None), as_written, now).filter(|_| !is_same));
    }
    let value = value_of(path, saved, data_type)?;
    let before = shown(&value);
    if before.1 == now.1 {
        return Ok(None);
    }
    let back = Back {
        variable: opened.variable,
        value,
        position: reading.position,
        is_read_only: opened.access == Access::ReadOnly,
    };
    Ok(difference(Kind::Value(Some(back)), before, now))
}

fn value_of(path: &Path, saved: &Variable, data_type: &DataType) -> Result<Value, Problem> {
    from_json(&saved.value, data_type).map_err(|error| {
        let what = format!("{}: {error}", saved.name);
        wrong(
            path,
            Some(saved.line),
            &what,
            "correct the value, or save it again",
        )
    })
}

/// Returns the names that an engine has and a file does not.
pub(super) fn added(saved: &Saved, there: &[&str]) -> Vec<Difference> {
    let known: BTreeSet<&str> = saved
        .variables
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let added = there.iter().filter(|name| !known.contains(*name));
    let added = added.map(|name| Difference {
        name: (*name).to_owned(),
        kind: Kind::Added,
        saved: (String::new(), Json::Null),
        now: (String::new(), Json::Null),
    });
    added.collect()
}

/// Returns the differences between two files.
pub(super) fn files(before: &Saved, after: &Saved) -> Vec<Difference> {
    let mut pairs: BTreeMap<&str, (Option<&Variable>, Option<&Variable>)> = BTreeMap::new();
    for variable in &before.variables {
        pairs.entry(&variable.name).or_default().0 = Some(variable);
    }
    for variable in &after.variables {
        pairs.entry(&variable.name).or_default().1 = Some(variable);
    }
    let shown = |variable: Option<&Variable>| {
        variable.map_or((String::new(), Json::Null), |one| {
            (plain(&one.value), one.value.clone())
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
        Some(Difference {
            name: name.to_owned(),
            kind,
            saved: shown(before),
            now: shown(after),
        })
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
