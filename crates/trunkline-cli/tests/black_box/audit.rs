//! The audit: recorded by the engine, kept across restarts, printed by `trunkline audit`.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use trunkline::{Client, OpenOptions, Write, WriteOutcome};
use trunkline_types::Value;

use crate::libraries::Stored;
use crate::rig::{Running, Served, columns, exit_code};

const BENCH: &str = "[library]\nname = \"bench\"\n\n[defaults]\naudit = true\n\n\
    [[variable]]\nname = \"volts\"\ntype = \"f64\"\nrange = [0, 30]\ninitial = 5.0\n\n\
    [[variable]]\nname = \"on\"\ntype = \"bool\"\naudit = false\n";

const TIMEOUT: Duration = Duration::from_secs(60);

fn folder() -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let bench = folder.path().join("bench.toml");
    std::fs::write(&bench, BENCH).unwrap();
    let store = folder.path().join("store.db");
    (folder, store, bench.to_str().unwrap().to_owned())
}

fn entries(engine: &Stored, arguments: &[&str]) -> Vec<Json> {
    let shown = engine.run(&[&["audit", "--json"], arguments].concat());
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let lines = shown.out.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn summaries(entries: &[Json]) -> Vec<String> {
    let text = |entry: &Json, key: &str| entry[key].as_str().unwrap_or("-").to_owned();
    let summary = |entry: &Json| {
        ["action", "name", "old", "new", "outcome"]
            .map(|key| text(entry, key))
            .map(|text| {
                if text.starts_with("epoch ") {
                    "epoch N".to_owned()
                } else {
                    text
                }
            })
            .join(" ")
    };
    entries.iter().map(summary).collect()
}

/// Behaviour: B-24.
#[test]
fn audit_survives_a_kill_of_the_engine() {
    let (_folder, store, bench) = folder();
    let engine = Stored::start(&store);
    assert_eq!(engine.run(&["deploy", &bench]).code, Some(0));
    assert_eq!(engine.run(&["put", "bench/volts", "12.5"]).code, Some(0));
    assert_eq!(engine.run(&["put", "bench/volts", "99"]).code, Some(6));
    assert_eq!(engine.run(&["put", "bench/on", "true"]).code, Some(0));
    assert_eq!(engine.run(&["force", "bench/volts", "3"]).code, Some(0));
    assert_eq!(engine.run(&["put", "bench/volts", "4"]).code, Some(6));
    assert_eq!(engine.run(&["unforce", "bench/volts"]).code, Some(0));
    assert_eq!(engine.run(&["deploy", &bench]).code, Some(6));
    let before = entries(&engine, &[]);
    assert_eq!(
        summaries(&before),
        [
            "engine start - - epoch N done",
            "deploy bench - 2 added done",
            "put bench/volts 5.0 12.5 applied",
            "put bench/volts 12.5 99.0 refused",
            "force bench/volts 12.5 3.0 applied",
            "put bench/volts 3.0 4.0 refused",
            "unforce bench/volts 3.0 12.5 applied",
            "deploy bench - - refused",
        ]
    );
    let [put, refused] = [&before[2], &before[3]];
    // Over a Unix socket the engine knows the process and its user.
    let is_local = |entry: &Json| entry["who"].as_str().unwrap().starts_with("local:");
    assert!(is_local(put), "{put}");
    let from = |entry: &Json| entry["from"].as_str().unwrap().to_owned();
    for entry in [put, refused] {
        let from = from(entry);
        assert!(from.starts_with("process "), "{from}");
        assert!(from.contains(", trunkline"), "{from}");
        assert!(from.contains(", pid "), "{from}");
    }
    assert_ne!(from(put), from(refused), "two programs");
    let rule = refused["message"].as_str().unwrap();
    assert!(rule.contains("outside the range 0 to 30"), "{rule}");
    let rule = before[5]["message"].as_str().unwrap();
    assert!(rule.contains("forced by local:"), "{rule}");

    let mut engine = engine.kill_and_restart();
    let after = entries(&engine, &[]);
    assert_eq!(after[..8], before[..], "earlier entries changed");
    // No stop entry precedes this start, because the engine was killed.
    assert_eq!(summaries(&after[8..]), ["engine start - - epoch N done"]);
    let numbers = after.iter().map(|entry| entry["number"].as_u64().unwrap());
    assert!(numbers.eq(1..=9));
    engine.engine.signal("TERM");
    let code = exit_code(&mut engine.engine.child, "the engine");
    assert_eq!(code, Some(0));

    let engine = Stored::start(&store);
    let last = entries(&engine, &["--last", "2"]);
    assert_eq!(
        summaries(&last),
        ["engine stop - - - done", "engine start - - epoch N done"]
    );
    assert_eq!(entries(&engine, &["bench/volts"]).len(), 5);
    assert_eq!(entries(&engine, &["bench"]).len(), 7);
    assert_eq!(entries(&engine, &["bench/**", "--last", "3"]).len(), 3);
    assert_eq!(entries(&engine, &["--who", "engine"]).len(), 4);
    assert_eq!(entries(&engine, &["--since", "1h"]).len(), 11);
    let stopped = last[0]["ts"].as_str().unwrap();
    assert_eq!(entries(&engine, &["--since", stopped]).len(), 2);
    assert_eq!(
        entries(&engine, &["--since", "2200-01-01"]),
        Vec::<Json>::new()
    );
    for since in ["yesterday", "1 hour ago", "-1h", "2020-01-01 08:00"] {
        assert_eq!(entries(&engine, &["--since", since]).len(), 11, "{since}");
    }
    assert_eq!(
        entries(&engine, &["--since", "tomorrow"]),
        Vec::<Json>::new()
    );
    let wrong = engine.run(&["audit", "--since", "yesteryear"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("2026-11-21T08:00"), "{wrong:?}");
}

/// Behaviour: B-24.
#[test]
fn audit_without_a_store_reports_that_it_is_temporary() {
    let served = Served::start(BENCH);
    assert_eq!(served.run(&["put", "bench/volts", "6"]).code, Some(0));
    let shown = served.run(&["audit", "bench/**"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let line = columns(shown.out.trim_end());
    assert_eq!(
        (line[1].starts_with("local:"), &line[3..]),
        (
            true,
            &["put", "bench/volts", "5.0", "6.0", "applied as update 2"][..]
        )
    );
    let none = served.run(&["audit", "rig/**"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""));
    assert!(none.err.contains("this engine has no store"), "{none:?}");
    let why = served.run(&["why", "bench/volts"]);
    assert!(
        why.out.contains("it is audited: this engine has no store"),
        "{why:?}"
    );
    let info = served.run(&["info", "bench/volts"]);
    assert!(info.out.contains("audited"), "{info:?}");
    let plain = served.run(&["info", "bench/on"]);
    assert!(!plain.out.contains("audited"), "{plain:?}");
}

/// Every write of a program that writes at full speed is in the audit.
///
/// Behaviour: B-24.
#[test]
fn every_one_of_50000_writes_at_full_speed_is_in_a_complete_audit() {
    const WRITES: u64 = 50_000;
    let (_folder, store, _) = folder();
    let config = BENCH.replace("audit = true", "audit = \"complete\"");
    let config = config.replace("range = [0, 30]\n", "");
    let engine = Stored::start(&store);
    let file = store.with_file_name("bench.toml");
    std::fs::write(&file, config).unwrap();
    assert_eq!(
        engine.run(&["deploy", file.to_str().unwrap()]).code,
        Some(0)
    );
    let client = Client::connect(engine.url()).unwrap();
    let opened = client
        .open(&["bench/volts"], OpenOptions::default(), TIMEOUT)
        .unwrap();
    let volts = opened[0].as_ref().unwrap().variable;
    for first in (0..WRITES).step_by(4_000) {
        let values = first..(first + 4_000).min(WRITES);
        let writes = values.map(|value| Write::new(volts, Value::F64(value as f64)));
        for outcome in client.write(writes, TIMEOUT).unwrap() {
            assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
        }
    }
    let shown = entries(&engine, &["bench/volts"]);
    let new = shown
        .iter()
        .map(|entry| entry["new"].as_str().unwrap().parse::<f64>().unwrap());
    assert!(
        new.eq((0..WRITES).map(|value| value as f64)),
        "{} entries",
        shown.len()
    );
    assert!(shown.iter().all(|entry| entry["outcome"] == "applied"));
    assert_eq!(
        entries(&engine, &["--who", "engine"]).len(),
        1,
        "its start, and no loss"
    );
}

/// Runs `audit verify --json` and returns its exit code and its line.
fn verified(engine: &Stored, arguments: &[&str]) -> (Option<i32>, Json) {
    let shown = engine.run(&[&["audit", "verify", "--json"], arguments].concat());
    let line = shown.out.lines().next().unwrap_or("null");
    (shown.code, serde_json::from_str(line).unwrap())
}

/// Opens the store of a stopped engine as a program that forges entries, which knows the triggers.
fn forge(store: &Path, sql: &str) {
    let file = rusqlite::Connection::open(store).unwrap();
    let triggers: Vec<(String, String)> = file
        .prepare(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'audit'",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for (name, _) in &triggers {
        file.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
    file.execute_batch(sql).unwrap();
    for (_, trigger) in &triggers {
        file.execute_batch(trigger).unwrap();
    }
}

/// Behaviour: B-24.
#[test]
fn verify_checks_an_engine_and_its_store_file_and_finds_a_forged_entry() {
    let (_folder, store, bench) = folder();
    let engine = Stored::start(&store);
    assert_eq!(engine.run(&["deploy", &bench]).code, Some(0));
    for value in ["12.5", "13.5", "99", "14.5"] {
        engine.run(&["put", "bench/volts", value]);
    }
    let written = entries(&engine, &[]);
    assert_eq!(written.len(), 6);
    let file = store.to_str().unwrap();
    // The engine keeps its store locked, and it can be checked nevertheless.
    for source in [&[][..], &[file]] {
        let (code, line) = verified(&engine, source);
        assert_eq!(code, Some(0), "{line}");
        assert_eq!(
            (
                &line["entries"],
                &line["first"],
                &line["last"],
                &line["fault_count"]
            ),
            (&json!(6), &json!(1), &json!(6), &json!(0))
        );
        assert_eq!(line["head"], written[5]["hash"]);
        assert_eq!(line["last_ts"], written[5]["ts"]);
    }
    let noted = |number: usize| written[number - 1]["hash"].as_str().unwrap().to_owned();
    for head in [noted(3), format!("3:{}", noted(3))] {
        let (code, line) = verified(&engine, &["--head", &head]);
        assert_eq!((code, &line["anchored"]), (Some(0), &json!(3)), "{line}");
    }
    let wrong = format!("4:{}", noted(3));
    let (code, line) = verified(&engine, &[file, "--head", &wrong]);
    assert_eq!(
        (code, &line["faults"][0]["fault"]),
        (Some(8), &json!("other-past"))
    );
    let text = engine.run(&["audit", "verify"]);
    assert!(text.out.contains("intact"), "{text:?}");
    assert!(text.out.contains(&noted(6)), "{text:?}");
    let published = engine.run(&["get", "-t", "_engine/audit/newest"]);
    assert_eq!(published.code, Some(0), "{published:?}");
    for wrong in ["12", "0:00", "x"] {
        assert_eq!(
            engine.run(&["audit", "verify", "--head", wrong]).code,
            Some(2)
        );
    }
    let misplaced = engine.run(&["audit", "--last", "3", "verify"]);
    assert_eq!(misplaced.code, Some(2), "{misplaced:?}");
    let missing = engine.run(&["audit", "verify", "nothing.db"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");

    let mut engine = engine;
    engine.engine.signal("TERM");
    assert_eq!(exit_code(&mut engine.engine.child, "the engine"), Some(0));
    forge(&store, "UPDATE audit SET new = '13.6' WHERE number = 4");
    let shown = engine.run(&["audit", "verify", file]);
    assert_eq!(shown.code, Some(8), "{shown:?}");
    assert!(shown.out.contains("entry 4: "), "{shown:?}");
    // An engine with this store reports the same entry.
    let engine = Stored::start(&store);
    let (code, line) = verified(&engine, &[]);
    assert_eq!(
        (code, &line["faults"][0]["number"]),
        (Some(8), &json!(4)),
        "{line}"
    );
    drop(engine);
    std::fs::write(&store, vec![b'x'; 8192]).unwrap();
    // An engine without a store has a chain in memory.
    let served = Served::start(BENCH);
    let shown = served.run(&["audit", "verify", file]);
    assert_eq!(shown.code, Some(8), "it is no store: {shown:?}");
    let shown = served.run(&["audit", "verify", "--json"]);
    let line: Json = serde_json::from_str(shown.out.trim()).unwrap();
    assert_eq!(
        (shown.code, &line["fault_count"]),
        (Some(0), &json!(0)),
        "{line}"
    );
}

/// Behaviour: B-24.
#[test]
fn export_writes_every_entry_and_continues_after_the_last_one() {
    let (folder, store, bench) = folder();
    let engine = Stored::start(&store);
    assert_eq!(engine.run(&["deploy", &bench]).code, Some(0));
    assert_eq!(engine.run(&["put", "bench/volts", "12.5"]).code, Some(0));
    let written = entries(&engine, &[]);
    let lines = |text: &str| -> Vec<Json> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let export = |arguments: &[&str]| {
        let shown = engine.run(&[&["audit", "export"], arguments].concat());
        assert_eq!(shown.code, Some(0), "{shown:?}");
        shown.out
    };
    assert_eq!(lines(&export(&[])), written);
    assert_eq!(lines(&export(&["--after", "2"])), written[2..]);
    assert_eq!(lines(&export(&["--since", "1h"])), written);
    assert_eq!(export(&["--after", "3"]), "");
    let beyond = engine.run(&["audit", "export", "--after", "100"]);
    assert_eq!(beyond.code, Some(8), "{beyond:?}");

    // A file and a cursor, in two steps.
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, cursor) = (path("audit.jsonl"), path("cursor"));
    let step = ["--to", &*file, "--cursor", &*cursor];
    assert_eq!(export(&step), "");
    assert_eq!(engine.run(&["put", "bench/volts", "13.5"]).code, Some(0));
    assert_eq!(export(&step), "");
    let written = entries(&engine, &[]);
    assert_eq!(lines(&std::fs::read_to_string(&file).unwrap()), written);
    let saved = std::fs::read_to_string(&cursor).unwrap();
    let hash = written[3]["hash"].as_str().unwrap();
    assert_eq!(saved, format!("4 {hash}\n"));
    // Another audit, in which entry 4 is another one.
    std::fs::write(&cursor, format!("4 {}\n", "0".repeat(64))).unwrap();
    let other = engine.run(&[&["audit", "export"][..], &step].concat());
    assert_eq!(other.code, Some(8), "{other:?}");
    assert!(other.err.contains("number 4"), "{other:?}");
    std::fs::write(&cursor, "nonsense").unwrap();
    let other = engine.run(&[&["audit", "export"][..], &step].concat());
    assert_eq!(other.code, Some(1), "{other:?}");

    let messages = export(&["--as", "syslog"]);
    let messages: Vec<&str> = messages.lines().collect();
    assert_eq!(messages.len(), written.len());
    for (message, entry) in messages.iter().zip(&written) {
        let ts = entry["ts"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("<110>1 {}Z ", &ts[..26])),
            "{message}"
        );
        let number = format!(
            " trunkline - {} [trunkline@32473 number=\"{}\" ts=\"{ts}\"",
            entry["action"].as_str().unwrap().replace(' ', "-"),
            entry["number"]
        );
        assert!(message.contains(&number), "{message}");
        let hash = format!(" hash=\"{}\"] ", entry["hash"].as_str().unwrap());
        assert!(message.contains(&hash), "{message}");
    }

    // Messages to a socket, each in a datagram.
    let socket = path("log");
    let receiver = UnixDatagram::bind(&socket).unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    let target = format!("unix:{socket}");
    let receive = || {
        let mut bytes = [0; 8192];
        let length = receiver.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    assert_eq!(export(&["--as", "syslog", "--to", &target]), "");
    for message in messages {
        assert_eq!(receive(), message);
    }
    let wrong = engine.run(&["audit", "export", "--to", &target]);
    assert_eq!(wrong.code, Some(2), "JSON Lines are no messages: {wrong:?}");
    let missing = engine.run(&[
        "audit",
        "export",
        "--as",
        "syslog",
        "--to",
        "unix:/no/such/log",
    ]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
}

/// Behaviour: B-24.
#[test]
fn export_follows_new_entries_until_it_is_interrupted() {
    let (folder, store, bench) = folder();
    let engine = Stored::start(&store);
    let socket = folder.path().join("log");
    let receiver = UnixDatagram::bind(&socket).unwrap();
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    let target = format!("unix:{}", socket.display());
    let mut follower = Running::start(&[
        "audit",
        "export",
        "--follow",
        "--as",
        "syslog",
        "--to",
        &target,
        "--url",
        engine.url(),
    ]);
    let receive = || {
        let mut bytes = [0; 8192];
        let length = receiver.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    assert!(receive().contains(" engine-start ["));
    assert_eq!(engine.run(&["deploy", &bench]).code, Some(0));
    assert!(receive().contains(" deploy ["));
    assert_eq!(engine.run(&["put", "bench/volts", "12.5"]).code, Some(0));
    let put = receive();
    assert!(put.contains(" number=\"3\" "), "{put}");
    assert!(
        put.ends_with("put bench/volts 5.0 -> 12.5: applied as update 2"),
        "{put}"
    );
    follower.signal("INT");
    assert_eq!(exit_code(&mut follower.child, "the export"), Some(0));
}
