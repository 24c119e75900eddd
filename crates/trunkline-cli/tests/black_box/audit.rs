//! The audit: recorded by the engine, kept across restarts, printed by `trunkline audit`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value as Json;
use trunkline::{Client, OpenOptions, Write, WriteOutcome};
use trunkline_types::Value;

use crate::libraries::Stored;
use crate::rig::{Served, columns, exit_code};

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
