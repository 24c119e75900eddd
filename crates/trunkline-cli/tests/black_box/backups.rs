//! `backup`: a rehearsal of a loss, and what the commands say.

use std::sync::mpsc::{TryRecvError, channel};

use tempfile::TempDir;
use trunkline::{Client, OpenOptions, Write, WriteOutcome};
use trunkline_types::Value;

use crate::history::{Recorded, numbers, words};
use crate::json_lines::checked;
use crate::rig::{Output, exit_code, finish};

const PLANT: &str = r#"
[engine]
name = "plant-7"
store = "plant.db"

[library]
name = "rig"

[[variable]]
name = "level"
type = "f64"
retain = true
audit = "complete"
alarm.hi = 90

[[variable]]
name = "count"
type = "i64"
retain = true

[[history]]
variables = "**"
"#;

/// Runs `backup` with the configuration in the folder.
fn backup(verb: &str, backup: &TempDir, folder: &TempDir, more: &[&str]) -> Output {
    let config = folder.path().join("plant.toml");
    let place = backup.path().join("b");
    let mut arguments = vec!["backup", verb, place.to_str().unwrap()];
    if verb != "verify" {
        arguments.push(config.to_str().unwrap());
    }
    arguments.extend(more);
    finish(&mut crate::rig::command(&arguments), "")
}

fn done(output: Output) -> Output {
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    output
}

/// An engine is written all the time, and backed up while it runs. Its files are lost; elsewhere, the
/// backup has everything that was acknowledged before it began, once.
///
/// Behaviour: H-16.
#[test]
fn everything_acknowledged_before_a_backup_is_there_after_a_restore_elsewhere() {
    let mut plant = Recorded::start(PLANT);
    plant.done(&["put", "rig/level", "95"]);
    plant.done(&["alarm", "ack", "rig/level", "--comment", "on my way"]);
    let audit = plant.done(&["audit", "rig/level", "--json"]).out;
    assert!(!checked(&audit, Some("audit")).is_empty());
    // An orderly stop stores retained values.
    plant.engine.signal("TERM");
    exit_code(&mut plant.engine.child, "the engine");
    plant.serve_again();
    let client = Client::connect(&plant.url).unwrap();
    let timeout = std::time::Duration::from_secs(60);
    let opened = client.open(&["rig/count"], OpenOptions::default(), timeout);
    let count = opened.unwrap().remove(0).unwrap().variable;
    let (acknowledged, acks) = channel();
    let (stop, stopped) = channel::<()>();
    let writer = std::thread::spawn(move || {
        let mut value = 0_i64;
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            value += 1;
            let write = Write::new(count, Value::I64(value));
            match client.write([write], timeout) {
                Ok(outcomes) if matches!(outcomes[..], [WriteOutcome::Applied(_)]) => {
                    let _ = acknowledged.send(value);
                }
                _ => return,
            }
        }
    });
    while acks.recv().unwrap() < 300 {}
    let place = tempfile::tempdir().unwrap();
    // The second backup renews the first one.
    done(backup("create", &place, &plant.folder, &[]));
    // A query shows what is recorded by now.
    let before = plant.history("rig/count").0.len();
    let created = done(backup("create", &place, &plant.folder, &["--json"]));
    let created = checked(&created.out, Some("backup")).remove(0);
    assert_eq!(created["outcome"], "created");
    assert_eq!(created["engine"], "plant-7");
    assert!(created["seconds"].as_f64() > Some(0.0), "{created}");
    let after = acks.try_iter().last().unwrap();
    while acks.recv().unwrap() < after + 50 {}
    plant.kill();
    drop(stop);
    writer.join().unwrap();

    let verified = done(backup("verify", &place, &plant.folder, &[]));
    assert!(verified.err.contains("all are intact"), "{}", verified.err);
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(
        plant.folder.path().join("plant.toml"),
        elsewhere.path().join("plant.toml"),
    )
    .unwrap();
    let restored = done(backup("restore", &place, &elsewhere, &["--json"]));
    let restored = checked(&restored.out, Some("backup")).remove(0);
    assert_eq!(restored["outcome"], "restored");
    plant.folder = elsewhere;
    plant.serve_again();

    let (readings, events) = plant.history("rig/count");
    let found = numbers(&readings);
    let expected: Vec<u64> = (1..=found.len() as u64).collect();
    assert_eq!(found, expected, "each once, in order, none missing");
    assert!(found.len() >= before, "{} of {before}", found.len());
    assert_eq!(
        words(&events, "event"),
        [
            "started",
            "added",
            "stopped",
            "started",
            "interrupted",
            "started"
        ]
    );
    assert_eq!(plant.done(&["get", "-t", "rig/level"]).out, "95.0\n");
    let alarms = plant.done(&["alarm", "ls", "--json"]);
    let alarms = checked(&alarms.out, Some("alarm"));
    let states: Vec<_> = alarms
        .iter()
        .filter(|alarm| alarm["name"] == "rig/level")
        .map(|alarm| alarm["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["acknowledged"]);
    let journal = plant.done(&["alarm", "journal", "rig/level", "--json"]);
    let journal = checked(&journal.out, Some("alarm_entry"));
    assert_eq!(words(&journal, "event"), ["raise", "acknowledge"]);
    assert_eq!(plant.done(&["audit", "rig/level", "--json"]).out, audit);
}

#[test]
fn damaged_backup_is_named_and_not_restored() {
    let mut plant = Recorded::start(PLANT);
    plant.put("rig/count", 1..=3);
    // The query waits until they are recorded.
    assert_eq!(numbers(&plant.history("rig/count").0), [1, 2, 3]);
    let place = tempfile::tempdir().unwrap();
    done(backup("create", &place, &plant.folder, &[]));
    let in_use = backup("restore", &place, &plant.folder, &["--replace"]);
    assert_eq!(in_use.code, Some(1));
    // The lock of the store is taken before that of the history.
    assert!(
        in_use.err.contains("plant.db is in use by another engine"),
        "{}",
        in_use.err
    );
    plant.kill();
    let exists = backup("restore", &place, &plant.folder, &["--json"]);
    assert_eq!(exists.code, Some(1));
    assert_eq!(checked(&exists.err, Some("error"))[0]["code"], "exists");

    let store = place.path().join("b/1/store.db");
    let mut bytes = std::fs::read(&store).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&store, bytes).unwrap();
    let verified = backup("verify", &place, &plant.folder, &["--json"]);
    assert_eq!(verified.code, Some(8));
    let findings = checked(&verified.out, Some("backup_finding"));
    assert_eq!(words(&findings, "path"), ["store.db"]);
    let before = std::fs::read_dir(plant.folder.path()).unwrap().count();
    let refused = backup("restore", &place, &plant.folder, &["--replace"]);
    assert_eq!(refused.code, Some(8));
    assert!(refused.err.contains("store.db"), "{}", refused.err);
    assert!(
        refused.err.contains("nothing was changed"),
        "{}",
        refused.err
    );
    let after = std::fs::read_dir(plant.folder.path()).unwrap().count();
    assert_eq!(before, after);
    plant.serve_again();
    assert_eq!(numbers(&plant.history("rig/count").0), [1, 2, 3]);
}

/// A restore that was killed keeps the engine from starting with half of the files.
#[test]
fn engine_does_not_start_before_an_interrupted_restore_is_completed() {
    let mut plant = Recorded::start(PLANT);
    plant.put("rig/count", 1..=3);
    // The query waits until they are recorded.
    assert_eq!(numbers(&plant.history("rig/count").0), [1, 2, 3]);
    let place = tempfile::tempdir().unwrap();
    done(backup("create", &place, &plant.folder, &[]));
    plant.kill();
    // As after a kill between two moves.
    let file = |name: &str| plant.folder.path().join(name);
    let folder = std::fs::canonicalize(plant.folder.path()).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    let note = serde_json::json!({ "what": "", "moves": [
        { "from": at("plant.db"), "to": at("plant.db.old"), "is_aside": true },
        { "from": at("plant.db.restoring"), "to": at("plant.db"), "is_aside": false },
    ]});
    std::fs::write(file("plant.db.restore"), note.to_string()).unwrap();
    std::fs::copy(
        place.path().join("b/1/store.db"),
        file("plant.db.restoring"),
    )
    .unwrap();
    std::fs::rename(file("plant.db"), file("plant.db.old")).unwrap();
    let config = file("plant.toml");
    let refused = crate::rig::run(&["serve", config.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("a restore was interrupted"),
        "{}",
        refused.err
    );
    assert!(!file("plant.db").exists());
    let completed = done(backup("restore", &place, &plant.folder, &["--json"]));
    let completed = checked(&completed.out, Some("backup")).remove(0);
    assert_eq!(completed["outcome"], "completed");
    plant.serve_again();
    assert_eq!(numbers(&plant.history("rig/count").0), [1, 2, 3]);
}
