//! The file of a snapshot: JSON Lines, one variable per line in the order of the names, so that two
//! files can be compared line by line.
//!
//! ```text
//! {"snapshot":1,"taken":"2026-11-20T21:39:04Z","engine":"rig","instant":true,"variables":2}
//! {"name":"boiler/mode","type":"enum(OFF, AUTO)","value":"AUTO","q":"good","ts":"..."}
//! {"name":"boiler/setpoint","type":"f64","value":75.0,"units":"%","q":"good","ts":"..."}
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::{Map, Value as Json};
use trunkline_types::text::escape;

use crate::exit::Exit;
use crate::problem::{Problem, Stop};
use crate::replace::replace;
use crate::terminal::Terminal;

/// The version of the format.
const VERSION: u64 = 1;

/// The content of a file.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Saved {
    pub(super) head: Head,
    /// The variables in the order of their names.
    pub(super) variables: Vec<Variable>,
}

/// Facts about the whole snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Head {
    /// Time of the snapshot, by the engine's clock.
    pub(super) taken: String,
    /// Name of the engine.
    pub(super) engine: String,
    /// True if all values are of one instant.
    pub(super) is_instant: bool,
}

/// The line of one variable.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) data_type: String,
    /// `null`: the variable had not been written.
    pub(super) value: Json,
    pub(super) units: String,
    pub(super) quality: String,
    pub(super) timestamp: String,
    /// Number of the line in the file, from 1.
    pub(super) line: usize,
}

impl Variable {
    fn to_line(&self) -> String {
        let mut object = Map::new();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                object.insert(key.to_owned(), Json::from(value));
            }
        };
        put("name", &self.name);
        put("type", &self.data_type);
        object.insert("value".to_owned(), self.value.clone());
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                object.insert(key.to_owned(), Json::from(value));
            }
        };
        put("units", &self.units);
        put("q", &self.quality);
        put("ts", &self.timestamp);
        escape(&Json::Object(object).to_string()).into_owned()
    }
}

impl Saved {
    /// Writes the file, completely or not at all; `-` is standard output.
    pub(super) fn write(&self, path: &Path, terminal: &Terminal) -> Result<(), Stop> {
        let mut text = String::new();
        let mut head = Map::new();
        head.insert("snapshot".to_owned(), Json::from(VERSION));
        head.insert("taken".to_owned(), Json::from(self.head.taken.as_str()));
        head.insert("engine".to_owned(), Json::from(self.head.engine.as_str()));
        head.insert("instant".to_owned(), Json::from(self.head.is_instant));
        head.insert("variables".to_owned(), Json::from(self.variables.len()));
        text.push_str(&escape(&Json::Object(head).to_string()));
        text.push('\n');
        for variable in &self.variables {
            text.push_str(&variable.to_line());
            text.push('\n');
        }
        if is_standard(path) {
            return terminal.raw(text.as_bytes());
        }
        let written = replace(path, |file| file.write_all(text.as_bytes()));
        let failed = |error: io::Error| {
            wrong(
                path,
                None,
                &error.to_string(),
                "check that the folder exists",
            )
        };
        Ok(written.map_err(failed)?)
    }

    /// Reads a file; `-` is standard input.
    pub(super) fn read(path: &Path) -> Result<Self, Problem> {
        let mut text = String::new();
        let read = match is_standard(path) {
            true => io::stdin().read_to_string(&mut text),
            false => fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)),
        };
        read.map_err(|error| {
            wrong(
                path,
                None,
                &error.to_string(),
                "`trunkline snapshot save` creates such a file",
            )
        })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Problem> {
        let hint = "`trunkline snapshot save` creates such a file";
        let mut lines = text
            .lines()
            .zip(1..)
            .filter(|(line, _)| !line.trim().is_empty());
        let Some((head, line)) = lines.next() else {
            return Err(wrong(path, None, "the file is empty", hint));
        };
        let head = object(head).map_err(|what| wrong(path, Some(line), &what, hint))?;
        match head.get("snapshot").and_then(Json::as_u64) {
            Some(VERSION) => {}
            Some(_) => {
                let what = "the snapshot has a newer format than this program supports";
                return Err(wrong(path, Some(line), what, "update this program"));
            }
            None => {
                let what = "the first line does not belong to a snapshot";
                return Err(wrong(path, Some(line), what, hint));
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
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (text, line) in lines {
            let variable = variable(text, line).map_err(|what| {
                wrong(
                    path,
                    Some(line),
                    &what,
                    "correct the line, or save it again",
                )
            })?;
            if let Some(before) = seen.insert(variable.name.clone(), line) {
                let what = format!("{} is already in line {before}", variable.name);
                return Err(wrong(path, Some(line), &what, "remove one of the lines"));
            }
            saved.variables.push(variable);
        }
        let (promised, there) = (head.get("variables"), saved.variables.len());
        if let Some(promised) = promised.and_then(Json::as_u64)
            && promised > there as u64
        {
            let what = format!(
                "the file is cut off: {promised} variables were saved, the file has {there}"
            );
            let hint = "to use the remaining variables, correct the number in the first line";
            return Err(wrong(path, None, &what, hint));
        }
        saved.variables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(saved)
    }
}

fn variable(text: &str, line: usize) -> Result<Variable, String> {
    let object = object(text)?;
    let needed = |key: &str| match text_of(&object, key) {
        text if text.is_empty() => Err(format!("there is no \"{key}\"")),
        text => Ok(text),
    };
    Ok(Variable {
        name: needed("name")?,
        data_type: needed("type")?,
        value: object
            .get("value")
            .cloned()
            .ok_or("there is no \"value\"; write null if there is no value")?,
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
        Err(error) => Err(format!("column {}: it is not JSON", error.column())),
    }
}

fn text_of(object: &Map<String, Json>, key: &str) -> String {
    let text = object.get(key).and_then(Json::as_str);
    text.unwrap_or_default().to_owned()
}

/// Returns the problem of an invalid file, with its place.
pub(super) fn wrong(path: &Path, line: Option<usize>, what: &str, hint: &str) -> Problem {
    let place = line.map(|line| format!(":{line}")).unwrap_or_default();
    let mut problem = Problem::new(Exit::Usage, "bad-file", "");
    problem.message = format!("{}{place}: {what}", path.display());
    problem.hint = Some(hint.to_owned());
    problem
}

pub(super) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "{\"snapshot\":1,\"taken\":\"T\",\"engine\":\"rig\",\"instant\":true";

    fn message(text: &str) -> String {
        let problem = Saved::parse(Path::new("f"), text).unwrap_err();
        assert_eq!(problem.exit, Exit::Usage);
        problem.message
    }

    #[test]
    fn what_is_written_is_read_and_stands_in_the_order_of_the_names() {
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
        let there: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(there.len(), 1, "nothing else is left in the folder");
        assert!(
            Saved::default()
                .write(&folder.path().join("no/s.jsonl"), &terminal)
                .is_err()
        );
    }

    #[test]
    fn a_bad_file_is_refused_with_its_place() {
        let line = "{\"name\":\"a\",\"type\":\"f64\",\"value\":1}";
        assert_eq!(message(""), "f: the file is empty");
        assert!(message("name,value\n").starts_with("f:1: column 2"));
        assert!(message("{}\n").starts_with("f:1: the first line"));
        assert!(message("{\"snapshot\":2}\n").contains("newer form"));
        assert!(
            message(&format!("{HEAD}}}\n[1]\n")).starts_with("f:2: the line is not a JSON object")
        );
        assert!(message(&format!("{HEAD}}}\n{{\"name\":\"a\"}}\n")).contains("no \"type\""));
        let twice = message(&format!("{HEAD}}}\n{line}\n\n{line}\n"));
        assert_eq!(twice, "f:4: a is already in line 2");
        let cut = message(&format!("{HEAD},\"variables\":3}}\n{line}\n"));
        assert!(cut.starts_with("f: the file is cut off: 3"), "{cut}");
        let half = message(&format!("{HEAD}}}\n{}", &line[..20]));
        assert!(half.starts_with("f:2: column"), "{half}");
    }
}
