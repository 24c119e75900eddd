//! The file format of snapshots: JSON Lines, one variable per line, sorted by name so that two
//! files can be compared line by line.
//!
//! ```text
//! {"snapshot":1,"taken":"2026-11-20T21:39:04Z","engine":"rig","instant":true,"variables":2}
//! {"name":"boiler/mode","type":"enum(OFF, AUTO)","value":"AUTO","q":"good","ts":"..."}
//! {"name":"boiler/setpoint","type":"f64","value":75.0,"units":"%","q":"good","ts":"..."}
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use trunkline_types::text::escape;

use crate::problem::{file_reason, folder_reason};
use crate::replace::replace;
use crate::terminal::{Terminal, is_stdio, read_text};
use crate::{CliError, Exit, Problem};

const VERSION: u64 = 1;
/// Hint for a file that is not a snapshot.
const SNAPSHOT_HINT: &str = "specify a file written by `trunkline snapshot save`";

#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Saved {
    pub(super) head: Head,
    pub(super) variables: Vec<Variable>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Head {
    /// Time of the snapshot, by the engine's clock.
    pub(super) taken: String,
    pub(super) engine: String,
    pub(super) is_instant: bool,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(super) struct Variable {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) data_type: String,
    /// `null` if the variable had not been written.
    pub(super) value: Json,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) units: String,
    #[serde(rename = "q", skip_serializing_if = "String::is_empty")]
    pub(super) quality: String,
    #[serde(rename = "ts", skip_serializing_if = "String::is_empty")]
    pub(super) timestamp: String,
    /// Line number in the file, starting at 1.
    #[serde(skip)]
    pub(super) line: usize,
}

impl Saved {
    /// Writes the file atomically; `-` is standard output.
    pub(super) fn write(&self, path: &Path, terminal: &Terminal) -> Result<(), CliError> {
        let head = json!({
            "snapshot": VERSION,
            "taken": self.head.taken,
            "engine": self.head.engine,
            "instant": self.head.is_instant,
            "variables": self.variables.len(),
        });
        let lines = self.variables.iter().map(|variable| json!(variable));
        let mut text = String::new();
        for line in std::iter::once(head).chain(lines) {
            text.push_str(&escape(&line.to_string()));
            text.push('\n');
        }
        if is_stdio(path) {
            return terminal.raw(text.as_bytes());
        }
        let written = replace(path, true, |file| file.write_all(text.as_bytes()));
        let hint = "specify a writable file";
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::IsADirectory => {
                file_problem(path, None, "it is a folder", "specify a file")
            }
            _ => file_problem(path, None, &folder_reason(&error), hint),
        };
        Ok(written.map_err(failed)?)
    }

    /// Reads a file; `-` is standard input.
    pub(super) fn read(path: &Path) -> Result<Self, Problem> {
        let text = read_text(path);
        let text = text.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                let reason = "the file is not UTF-8 text, so it is not a snapshot";
                file_problem(path, None, reason, SNAPSHOT_HINT)
            }
            io::ErrorKind::IsADirectory => {
                file_problem(path, None, "it is a folder", "specify a file")
            }
            _ => file_problem(path, None, &file_reason(&error), SNAPSHOT_HINT),
        })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Problem> {
        let lines = text.lines().zip(1..);
        let mut lines = lines.filter(|(line, _)| !line.trim().is_empty());
        let Some((head, line)) = lines.next() else {
            return Err(file_problem(path, None, "the file is empty", SNAPSHOT_HINT));
        };
        let head = object(head)
            .map_err(|reason| file_problem(path, Some(line), &reason, SNAPSHOT_HINT))?;
        match head.get("snapshot").and_then(Json::as_u64) {
            Some(VERSION) => {}
            Some(_) => {
                let reason = "the snapshot has a newer format, which this program does not support";
                return Err(file_problem(
                    path,
                    Some(line),
                    reason,
                    "update this program",
                ));
            }
            None => {
                let reason = "the first line is not the header of a snapshot";
                return Err(file_problem(path, Some(line), reason, SNAPSHOT_HINT));
            }
        }
        let mut saved = Self {
            head: Head {
                taken: text_of(&head, "taken"),
                engine: text_of(&head, "engine"),
                is_instant: head.get("instant").and_then(Json::as_bool).unwrap_or(false),
            },
            variables: Vec::new(),
        };
        let mut lines_by_name: BTreeMap<String, usize> = BTreeMap::new();
        for (text, line) in lines {
            let hint = "correct the line, or save the snapshot again";
            let variable = variable(text, line);
            let variable =
                variable.map_err(|reason| file_problem(path, Some(line), &reason, hint))?;
            if let Some(earlier_line) = lines_by_name.insert(variable.name.clone(), line) {
                let reason = format!("{} is already on line {earlier_line}", variable.name);
                return Err(file_problem(
                    path,
                    Some(line),
                    &reason,
                    "remove one of the lines",
                ));
            }
            saved.variables.push(variable);
        }
        let (declared, count) = (head.get("variables"), saved.variables.len());
        if let Some(declared) = declared.and_then(Json::as_u64)
            && declared > count as u64
        {
            let reason = format!(
                "the file is truncated: {declared} variables were saved, but only {count} remain"
            );
            let hint =
                "to use the remaining variables, set `variables` in the first line to their number";
            return Err(file_problem(path, None, &reason, hint));
        }
        saved.variables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(saved)
    }
}

fn variable(text: &str, line: usize) -> Result<Variable, String> {
    let object = object(text)?;
    let required_text = |key: &str| match text_of(&object, key) {
        text if text.is_empty() => Err(format!("\"{key}\" is missing, empty or not text")),
        text => Ok(text),
    };
    Ok(Variable {
        name: required_text("name")?,
        data_type: required_text("type")?,
        value: object
            .get("value")
            .cloned()
            .ok_or("\"value\" is missing; write null if the variable had no value")?,
        units: text_of(&object, "units"),
        quality: text_of(&object, "q"),
        timestamp: text_of(&object, "ts"),
        line,
    })
}

fn object(text: &str) -> Result<Map<String, Json>, String> {
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(_) => Err("the line is not a JSON object".to_owned()),
        Err(error) => Err(format!("column {}: invalid JSON", error.column())),
    }
}

fn text_of(object: &Map<String, Json>, key: &str) -> String {
    let text = object.get(key).and_then(Json::as_str);
    text.unwrap_or_default().to_owned()
}

pub(super) fn file_problem(path: &Path, line: Option<usize>, reason: &str, hint: &str) -> Problem {
    let location = line.map(|line| format!(":{line}")).unwrap_or_default();
    let message = format!("{}{location}: {reason}", path.display());
    let problem = Problem::from_message("bad-file", message).with_hint(hint);
    Problem {
        exit: Exit::Usage,
        ..problem
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const HEAD: &str = "{\"snapshot\":1,\"taken\":\"T\",\"engine\":\"rig\",\"instant\":true";

    fn message(text: &str) -> String {
        let problem = Saved::parse(Path::new("f"), text).unwrap_err();
        assert_eq!(problem.exit, Exit::Usage);
        problem.message
    }

    #[test]
    fn a_saved_snapshot_is_read_back_sorted_by_name() {
        let variable = |name: &str, line| Variable {
            name: name.to_owned(),
            data_type: "f64".to_owned(),
            value: Json::from(1.5),
            units: "%".to_owned(),
            quality: "good".to_owned(),
            timestamp: "T".to_owned(),
            line,
        };
        let saved = Saved {
            head: Head {
                taken: "T".to_owned(),
                engine: "rig".to_owned(),
                is_instant: true,
            },
            variables: vec![variable("a", 2), variable("b", 3)],
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let terminal = Terminal::new(false);
        saved.write(&path, &terminal).unwrap();
        assert_eq!(Saved::read(&path), Ok(saved));
        let entries: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(entries.len(), 1, "nothing else is left in the folder");
        assert!(
            Saved::default()
                .write(&folder.path().join("no/s.jsonl"), &terminal)
                .is_err()
        );
    }

    #[test]
    fn an_invalid_file_is_refused_with_the_line_of_the_error() {
        let line = "{\"name\":\"a\",\"type\":\"f64\",\"value\":1}";
        assert_eq!(message(""), "f: the file is empty");
        assert!(message("name,value\n").starts_with("f:1: column 2"));
        assert!(message("{}\n").starts_with("f:1: the first line"));
        assert!(message("{\"snapshot\":2}\n").contains("newer form"));
        assert!(
            message(&format!("{HEAD}}}\n[1]\n")).starts_with("f:2: the line is not a JSON object")
        );
        let untyped = message(&format!("{HEAD}}}\n{{\"name\":\"a\"}}\n"));
        assert!(untyped.contains("\"type\" is missing"), "{untyped}");
        let twice = message(&format!("{HEAD}}}\n{line}\n\n{line}\n"));
        assert_eq!(twice, "f:4: a is already on line 2");
        let cut = message(&format!("{HEAD},\"variables\":3}}\n{line}\n"));
        assert!(cut.starts_with("f: the file is truncated: 3"), "{cut}");
        let half = message(&format!("{HEAD}}}\n{}", &line[..20]));
        assert!(half.starts_with("f:2: column"), "{half}");
    }
}
