//! The folder of a history: read, listed, checked and brought into order, beside an engine and
//! without one.

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;

use crate::history::{PLANT, Recorded, numbers, words};
use crate::json_lines::checked;
use crate::rig::Output;

impl Recorded {
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Runs `history` with the folder of the history after its first words.
    fn folder_command(&self, words: &[&str]) -> Output {
        let folder = self.path("plant.history");
        let (first, rest) = words.split_first().unwrap();
        self.run(&[&["history", *first, &folder], rest].concat())
    }

    pub fn done_with_folder(&self, words: &[&str]) -> Output {
        let output = self.folder_command(words);
        assert_eq!(output.code, Some(0), "{words:?}: {output:?}");
        output
    }

    /// The answer of the folder, and of the engine if it runs.
    fn of_folder(&self, words: &[&str]) -> Output {
        let folder = self.path("plant.history");
        let output = self.run(&[&["history"], words, &["--folder", &folder]].concat());
        assert_eq!(output.code, Some(0), "{words:?}: {output:?}");
        output
    }

    pub fn files(&self, below: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().join("plant.history").join(below)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path),
                }
            }
        }
        found
    }
}

const QUERIES: [&[&str]; 5] = [
    &["rig/**", "--json"],
    &["rig/level", "-o", "csv"],
    &["rig/*", "--last", "--json"],
    &["rig/level", "rig/count", "--every", "1h", "--json"],
    &["rig/level", "--since", "10m", "--count", "2", "--json"],
];

/// An engine with a few values, killed and served again.
pub fn plant() -> Recorded {
    let mut plant = Recorded::start(PLANT);
    plant.put("rig/level", [2, 8, 5]);
    plant.put("rig/count", [7]);
    plant.done(&["put", "rig/text", "some text"]);
    // A query records what has happened.
    plant.done(&["history", "rig/level"]);
    plant.kill();
    plant.serve_again();
    plant.put("rig/level", [6, 9]);
    plant.done(&["history", "rig/level"]);
    plant
}

/// Behaviour: H-16.
#[test]
fn folder_gives_the_answers_of_the_engine_beside_it_and_without_it() {
    let mut plant = plant();
    let of_engine = QUERIES.map(|query| plant.done(&[&["history"], query].concat()));
    let of_folder = QUERIES.map(|query| plant.of_folder(query));
    for (engine, folder) in of_engine.iter().zip(&of_folder) {
        assert_eq!(folder.out, engine.out);
        assert_eq!(folder.err, engine.err);
    }
    plant.kill();
    for (query, engine) in QUERIES.iter().zip(&of_engine) {
        let alone = plant.of_folder(query);
        assert_eq!(alone.out, engine.out, "{query:?}");
        // Only that the engine is gone is new.
        let is_new = |line: &&str| !engine.err.contains(line);
        let new: Vec<&str> = alone.err.lines().filter(is_new).collect();
        assert!(
            new.iter().all(|line| line.contains("interrupted")),
            "{new:?}"
        );
    }
}

#[test]
fn folder_is_listed_with_its_totals() {
    let mut plant = plant();
    let listed = checked(
        &plant.done_with_folder(&["ls", "--json"]).out,
        Some("history_series"),
    );
    assert_eq!(
        words(&listed, "name"),
        ["rig/count", "rig/level", "rig/text"]
    );
    assert_eq!(words(&listed, "type"), ["i64", "f64", "string"]);
    assert_eq!(words(&listed, "units"), ["", "%", ""]);
    // Each with the event of its deployment.
    let rows: Vec<&Json> = listed.iter().map(|one| &one["rows"]).collect();
    assert_eq!(rows, [2, 6, 2]);
    let table = plant.done_with_folder(&["ls", "-o", "table"]).out;
    assert!(
        table.starts_with("NAME        TYPE     UNITS   ROWS   FIRST"),
        "{table}"
    );
    let csv = plant.done_with_folder(&["ls", "-o", "csv"]).out;
    assert!(
        csv.starts_with("name,type,units,rows,first,last\nrig/count,i64,,2,"),
        "{csv}"
    );

    let info = |plant: &Recorded| {
        let shown = plant.done_with_folder(&["info", "--json"]).out;
        checked(&shown, Some("history_folder")).remove(0)
    };
    let running = info(&plant);
    assert_eq!(running["in_use"], true);
    assert_eq!(running["variables"], 3);
    // The start of the second run has moved the rows of the first one to a file.
    assert_eq!(
        (&running["files"], &running["logs"]),
        (&1.into(), &1.into())
    );
    assert!(running["bytes"].as_u64() > running["file_bytes"].as_u64());
    plant.kill();
    let alone = info(&plant);
    assert_eq!(alone["in_use"], false);
    // That the engine was interrupted is known now.
    let rows = |info: &Json| info["rows"].as_u64().unwrap();
    assert_eq!(rows(&alone), rows(&running) + 1);
    let sheet = plant.done_with_folder(&["info"]).out;
    assert!(sheet.contains("in use\tno\n"), "{sheet}");
}

#[test]
fn check_finds_no_damage_in_a_sound_folder_and_names_a_flipped_bit() {
    let mut plant = plant();
    let sound = plant.done_with_folder(&["verify", "--json"]);
    assert_eq!(sound.out, "");
    let verified = checked(&sound.err, Some("history_done")).remove(0);
    assert_eq!(verified["event"], "history-verified");
    assert_eq!(
        (&verified["findings"], &verified["files"]),
        (&0.into(), &1.into())
    );
    plant.kill();
    let people = plant.done_with_folder(&["verify"]);
    assert!(people.err.contains("checked; no damage"), "{}", people.err);

    let part = plant.files("samples").remove(0);
    let mut bytes = fs::read(&part).unwrap();
    // Within the rows, which are at the beginning.
    bytes[100] ^= 1;
    fs::write(&part, bytes).unwrap();
    let damaged = plant.folder_command(&["verify", "--json"]);
    assert_eq!(damaged.code, Some(8), "{damaged:?}");
    let found = checked(&damaged.out, Some("history_finding"));
    let name = part.file_name().unwrap().to_str().unwrap();
    assert!(
        !found.is_empty()
            && words(&found, "file")
                .iter()
                .all(|file| file.ends_with(name))
    );
    assert_eq!(found[0]["byte"], 0);
    assert!(found[0]["first"].is_string() && found[0]["do"].is_string());
    // The rest is read, and the damage is told.
    let folder = plant.path("plant.history");
    let read = plant.run(&["history", "rig/level", "--folder", &folder, "--json"]);
    assert_eq!(read.code, Some(7), "{read:?}");
    assert!(
        read.err.contains(name) && read.err.contains("history-fault"),
        "{}",
        read.err
    );
    assert!(
        numbers(&checked(&read.out, None)).ends_with(&[6, 9]),
        "{}",
        read.out
    );
}

#[test]
fn compacted_and_rebuilt_folders_have_the_same_readings() {
    let mut plant = plant();
    for verb in ["compact", "rebuild"] {
        let refused = plant.folder_command(&[verb]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(
            refused.err.contains("an engine is recording into"),
            "{}",
            refused.err
        );
        assert!(refused.err.contains("stop the engine"), "{}", refused.err);
    }
    plant.kill();
    let before = QUERIES.map(|query| plant.of_folder(query));
    let assert_same = |plant: &Recorded, what: &str| {
        for (query, before) in QUERIES.iter().zip(&before) {
            let after = plant.of_folder(query);
            assert_eq!(
                (&after.out, &after.err),
                (&before.out, &before.err),
                "{what}: {query:?}"
            );
        }
    };
    let compacted = plant.done_with_folder(&["compact", "--json"]);
    let done = checked(&compacted.err, Some("history_done")).remove(0);
    assert_eq!(
        (&done["files"], &done["removed"]),
        (&1.into(), &0.into()),
        "{done}"
    );
    assert_eq!(plant.files("samples").len(), 1);
    assert_same(&plant, "compacted");

    fs::remove_file(plant.path("plant.history/catalogue.sqlite")).unwrap();
    let missing = plant.folder_command(&["verify"]);
    assert_eq!(missing.code, Some(8));
    assert!(missing.out.contains("history rebuild"), "{}", missing.out);
    let read = plant.run(&[
        "history",
        "rig/level",
        "--folder",
        &plant.path("plant.history"),
    ]);
    assert_eq!(read.code, Some(8), "{read:?}");
    assert!(
        read.err.contains("trunkline history rebuild"),
        "{}",
        read.err
    );
    let config = plant.path("plant.toml");
    let refused = plant.run(&["serve", &config, "--listen", "127.0.0.1:0"]);
    assert!(refused.code.is_some_and(|code| code > 0), "{refused:?}");
    assert!(
        refused.err.contains("trunkline history rebuild"),
        "{}",
        refused.err
    );
    let rebuilt = plant.done_with_folder(&["rebuild", "--json"]);
    let done = checked(&rebuilt.err, Some("history_done")).remove(0);
    assert_eq!(
        (&done["variables"], &done["left_out"]),
        (&3.into(), &0.into()),
        "{done}"
    );
    assert_eq!(done["former_error"], "catalogue.sqlite is missing");
    assert!(done.get("possible_duplicates_in").is_none(), "{done}");
    assert_same(&plant, "rebuilt");
    // What is not a catalogue is kept.
    fs::write(plant.path("plant.history/catalogue.sqlite"), "no catalogue").unwrap();
    let rebuilt = plant.done_with_folder(&["rebuild", "--json"]);
    let done = checked(&rebuilt.err, Some("history_done")).remove(0);
    let former = done["former"].as_str().unwrap();
    let former = plant.path(&format!("plant.history/{former}"));
    assert_eq!(fs::read_to_string(former).unwrap(), "no catalogue");
    assert!(done["former_error"].is_string(), "{done}");
    assert_same(&plant, "rebuilt again");
    // A spool that cannot be read may have rows.
    fs::write(plant.path("plant.history/spool"), plant.path("none")).unwrap();
    fs::remove_file(plant.path("plant.history/catalogue.sqlite")).unwrap();
    let rebuilt = plant.done_with_folder(&["rebuild", "--json"]);
    let done = checked(&rebuilt.err, Some("history_done")).remove(0);
    assert_eq!(done["possible_duplicates_in"], plant.path("none"));
    assert!(done["spool_error"].is_string(), "{done}");
    fs::remove_file(plant.path("plant.history/catalogue.sqlite")).unwrap();
    let people = plant.done_with_folder(&["rebuild"]).err;
    let fault = "could not be read (catalogue.sqlite is missing)";
    assert!(people.contains(fault), "{people}");
    let spool = format!("rows in the spool {} a second time", plant.path("none"));
    assert!(people.contains(&spool), "{people}");
    fs::remove_file(plant.path("plant.history/spool")).unwrap();
    plant.serve_again();
    let level = numbers(&plant.history("rig/level").0);
    assert_eq!(level, [2, 8, 5, 6, 9]);
}

#[test]
fn keep_of_a_configuration_removes_rows_only_when_it_is_named() {
    let mut plant = plant();
    plant.kill();
    plant.done_with_folder(&["compact"]);
    let config = plant.path("plant.toml");
    let rules = "variables = \"**\"\nkeep = \"1h\"\n";
    fs::write(&config, PLANT.replace("variables = \"**\"\n", rules)).unwrap();
    let done = plant.done_with_folder(&["compact", "--config", &config, "--json"]);
    let done = checked(&done.err, Some("history_done")).remove(0);
    assert_eq!(done["removed"], 0, "nothing is as old as that");
    let wrong = plant.folder_command(&["compact", "--config", &plant.path("none.toml")]);
    assert_eq!(wrong.code, Some(8), "{wrong:?}");
    fs::write(&config, "[engine]\nname = \"x\"\n").unwrap();
    let wrong = plant.folder_command(&["compact", "--config", &config]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(
        wrong.err.contains("no [[history]] section"),
        "{}",
        wrong.err
    );
}

#[test]
fn wrong_folders_and_options_are_refused() {
    let plant = plant();
    let empty = plant.folder.path().display().to_string();
    for verb in ["ls", "info", "verify", "compact", "rebuild"] {
        for folder in [empty.as_str(), "/none"] {
            let refused = plant.run(&["history", verb, folder]);
            assert_eq!(refused.code, Some(1), "{verb} {folder}: {refused:?}");
            assert!(
                refused.err.contains("there is no history in"),
                "{}",
                refused.err
            );
        }
    }
    let before = plant.run(&["history", "--since", "1m", "ls", &empty]);
    assert_eq!(before.code, Some(2), "{before:?}");
    assert!(
        before.err.contains("write the options of `ls` after `ls`"),
        "{}",
        before.err
    );
    // Global options may be anywhere.
    let folder = plant.path("plant.history");
    let listed = plant.done(&["history", "--json", "ls", &folder]);
    assert_eq!(checked(&listed.out, Some("history_series")).len(), 3);
}
