//! The history as people and programs see it: what was recorded, over kills of the engine, beside
//! live updates, and while there is no room for it.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value as Json;
use tempfile::TempDir;
use trunkline::{Client, OpenOptions, Write, WriteOutcome};
use trunkline_types::{Timestamp, Value};

use crate::json_lines::checked;
use crate::rig::{Output, Running, Served, columns, command, exit_code, finish, run};

/// Only cuts off a test that hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// `rig/debug` is not recorded.
pub const PLANT: &str = r#"
[engine]
store = "plant.db"

[library]
name = "rig"

[[variable]]
name = "level"
type = "f64"
units = "%"

[[variable]]
name = "count"
type = "i64"

[[variable]]
name = "text"
type = "string"

[[variable]]
name = "debug"
type = "f64"

[[history]]
variables = "rig/debug"
record = false

[[history]]
variables = "**"
"#;

/// An engine that records, in its own folder. It can be killed, and served again at its place.
pub struct Recorded {
    pub engine: Running,
    pub url: String,
    pub folder: TempDir,
}

impl Recorded {
    pub fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plant.toml"), config).unwrap();
        let (engine, url) = serve(&mut serve_command(&folder, "127.0.0.1:0"));
        Self {
            engine,
            url,
            folder,
        }
    }

    pub fn kill(&mut self) {
        self.engine.child.kill().unwrap();
        exit_code(&mut self.engine.child, "the engine");
    }

    pub fn serve_again(&mut self) {
        let address = self.url.strip_prefix("tl://").unwrap().to_owned();
        (self.engine, self.url) = serve(&mut serve_command(&self.folder, &address));
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("TRUNKLINE_URL", &self.url);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        finish(&mut self.command(arguments), "")
    }

    /// Runs a command that must succeed.
    pub fn done(&self, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.err);
        output
    }

    pub fn put(&self, name: &str, values: impl IntoIterator<Item = u64>) {
        for value in values {
            self.done(&["put", name, &value.to_string()]);
        }
    }

    /// Readings and events of the last hour.
    pub fn history(&self, name: &str) -> (Vec<Json>, Vec<Json>) {
        let shown = self.done(&["history", name, "--json"]);
        let events = checked(&shown.err, Some("history_event"));
        // There may be many, which takes long to check.
        let lines: Vec<&str> = shown.out.lines().collect();
        checked(&lines[..lines.len().min(10)].join("\n"), None);
        let readings = lines.into_iter().map(serde_json::from_str);
        (readings.collect::<Result<_, _>>().unwrap(), events)
    }

    /// Waits until a reading of a variable meets a condition.
    pub fn wait(&self, name: &str, condition: &str) {
        self.done(&["monitor", name, "--until", condition]);
    }
}

fn serve_command(folder: &TempDir, listen: &str) -> Command {
    let config = folder.path().join("plant.toml");
    command(&["serve", config.to_str().unwrap(), "--listen", listen])
}

/// Serves, and returns the URL as well.
fn serve(command: &mut Command) -> (Running, String) {
    let running = Running::spawn(command);
    let line = running.line_with("Listening on tl://");
    let url = line.split(' ').find(|word| word.starts_with("tl://"));
    (running, url.unwrap().to_owned())
}

/// Whole numbers that readings have.
pub fn numbers(readings: &[Json]) -> Vec<u64> {
    let number = |reading: &Json| {
        let value = &reading["value"];
        value
            .as_u64()
            .or_else(|| value.as_f64().map(|value| value as u64))
            .unwrap_or_else(|| panic!("no number: {reading}"))
    };
    readings.iter().map(number).collect()
}

pub fn words<'a>(events: &'a [Json], key: &str) -> Vec<&'a str> {
    let word = |event: &'a Json| event[key].as_str().unwrap();
    events.iter().map(word).collect()
}

/// Behaviour: SV-09, H-16.
#[test]
fn history_shows_written_values_with_times_and_qualities() {
    let plant = Recorded::start(PLANT);
    let put = |value: &str| {
        let put = plant.done(&["put", "rig/level", value, "--json"]);
        checked(&put.out, Some("write")).remove(0)
    };
    let written = [put("2.5"), put("7.25"), put("5")];
    plant.put("rig/count", [4]);

    let (readings, events) = plant.history("rig/level");
    assert_eq!(readings.len(), 3, "{readings:?}");
    for (reading, written) in readings.iter().zip(&written) {
        for key in ["name", "value", "ts", "type", "units", "q", "epoch", "seq"] {
            assert_eq!(reading[key], written[key], "{key}: {reading}");
        }
        assert_eq!(reading["lost"], 0, "{reading}");
    }
    assert_eq!(words(&events, "event"), ["started", "added"]);
    assert_eq!(words(&events, "name"), ["rig/level"; 2]);

    let plain = plant.done(&["history", "rig/level"]);
    let lines: Vec<Vec<&str>> = plain.out.lines().map(columns).collect();
    let shown = |row: usize| [lines[row][0], lines[row][2], lines[row][3]];
    assert_eq!(lines.len(), 3, "{}", plain.out);
    assert_eq!(shown(0), ["rig/level", "2.5", "%"]);
    assert_eq!(shown(1), ["rig/level", "7.25", "%"]);
    assert_eq!(shown(2), ["rig/level", "5.0", "%"]);
    let added = "rig/level: the variable was added (";
    assert!(plain.err.contains(added), "{}", plain.err);
    let csv = plant.done(&["history", "rig/level", "-o", "csv"]);
    let csv: Vec<&str> = csv.out.lines().collect();
    assert_eq!(csv[0], "name,ts,value,type,units,q,reason,epoch,seq,lost");
    let start = written[1]["ts"].as_str().unwrap();
    let second = format!("rig/level,{start},7.25,f64,%,good,,");
    assert!(csv[2].starts_with(&second), "{}", csv[2]);
    assert_eq!(csv.len(), 4);

    let all = plant.history("rig/*").0;
    let names = words(&all, "name");
    assert_eq!(
        names,
        ["rig/count", "rig/level", "rig/level", "rig/level"],
        "by variable, then by time"
    );
    let later = ["history", "rig/level", "--since", start, "--json"];
    assert_eq!(numbers(&checked(&plant.done(&later).out, None)), [7, 5]);
    let until = [&later[..2], &["--until", start, "--json"]].concat();
    assert_eq!(numbers(&checked(&plant.done(&until).out, None)), [2]);
    let two = plant.done(&["history", "rig/*", "--count", "2", "--json"]);
    assert_eq!(numbers(&checked(&two.out, None)), [4, 2]);
    let last = plant.done(&["history", "rig/*", "--last", "--json"]);
    assert_eq!(numbers(&checked(&last.out, None)), [4, 5]);
    let last = ["history", "rig/level", "--last", "--until", start, "--json"];
    assert_eq!(numbers(&checked(&plant.done(&last).out, None)), [2]);
}

/// Behaviour: H-16.
#[test]
fn history_summarizes_and_draws_intervals() {
    let plant = Recorded::start(PLANT);
    plant.put("rig/level", [2, 8, 5]);
    let intervals = |arguments: &[&str]| {
        let shown = plant.done(&[&["history", "rig/level", "--json"], arguments].concat());
        checked(&shown.out, Some("history_interval"))
    };
    // All of it is in one of these intervals, unless the day ends meanwhile.
    for arguments in [["--every", "36500d"], ["--points", "2"]] {
        let shown = intervals(&arguments);
        let sum = |key: &str| -> u64 { shown.iter().map(|one| one[key].as_u64().unwrap()).sum() };
        assert_eq!(sum("count"), 3, "{shown:?}");
        let with = |key: &'static str| shown.iter().filter_map(move |one| one[key].as_f64());
        assert_eq!(with("min").fold(f64::INFINITY, f64::min), 2.0);
        assert_eq!(with("max").fold(0.0, f64::max), 8.0);
        assert_eq!(
            (with("first").next(), with("last").next_back()),
            (Some(2.0), Some(5.0))
        );
    }
    let one = &intervals(&["--every", "36500d"])[0];
    assert_eq!(
        (&one["mean"], &one["width"]),
        (&5.0.into(), &3_153_600_000.0.into())
    );
    let plain = plant.done(&["history", "rig/level", "--every", "36500d"]);
    let line = columns(plain.out.trim_end());
    assert_eq!(
        line[1..],
        ["rig/level", "3", "2.0", "8.0", "2.0", "5.0", "5.0"]
    );

    let drawn = plant.done(&["history", "rig/level", "--plot"]);
    let lines: Vec<&str> = drawn.out.lines().collect();
    assert_eq!(lines.len(), 14, "title, 12 lines and times: {}", drawn.out);
    assert_eq!(lines[0], "rig/level (%)");
    assert!(lines[1].trim_start().starts_with("8.00000"), "{}", lines[1]);
    assert!(
        lines[12].trim_start().starts_with("2.00000"),
        "{}",
        lines[12]
    );
    let is_dot = |one: char| ('\u{2801}'..='\u{28ff}').contains(&one);
    for line in &lines[1..=12] {
        assert!(
            line.contains(is_dot),
            "the values span all lines: {}",
            drawn.out
        );
    }
}

#[test]
fn history_without_readings_says_so_and_wrong_options_are_refused() {
    let plant = Recorded::start(PLANT);
    plant.put("rig/debug", [1]);
    for name in ["rig/debug", "rig/level", "nope/**"] {
        for form in [
            &[][..],
            &["--last"],
            &["--points", "10"],
            &["--plot"],
            &["--every", "1s"],
            &["--coverage"],
            &["--interpolated", "--every", "1s"],
            &["--stepped", "--at", "1s ago"],
        ] {
            let none = plant.done(&[&["history", name], form].concat());
            assert_eq!(none.out, "", "{name} {form:?}");
            assert!(none.err.contains("nothing was recorded"), "{none:?}");
        }
    }
    for (arguments, part) in [
        (
            &["--since", "1m", "--until", "2m"][..],
            "is not before --until",
        ),
        (
            &["--since", "10m", "--until", "10m"],
            "give an earlier --since",
        ),
        (&["--since", "yesteryear"], "2026-11-21T08:00"),
        (&["--last", "--since", "1m"], "--since"),
        (&["--last", "--every", "1s"], "--every"),
        (&["--last", "--points", "9"], "--points"),
        (&["--last", "--plot"], "--plot"),
        (&["--every", "1s", "--points", "9"], "--points"),
        (&["--plot", "--every", "1s"], "--every"),
        (&["--plot", "--points", "9"], "--points"),
        (&["--every", "0s"], "--every"),
        (&["--points", "1"], "from 2 to 100000"),
        (&["--plot", "--count", "3"], "--count"),
        (
            &["--plot", "--json"],
            "--plot works only with table and plain output",
        ),
        (&["--plot", "-o", "csv"], "use --points"),
        (&["--interpolated"], "add --every or --at"),
        (&["--stepped"], "add --every or --at"),
        (&["--at", "14:30"], "--last --until"),
        (
            &["--interpolated", "--at", "1m", "--every", "1s"],
            "--every",
        ),
        (&["--interpolated", "--points", "9"], "--points"),
        (
            &["--interpolated", "--stepped", "--every", "1s"],
            "--stepped",
        ),
        (&["--coverage", "--every", "1s"], "--every"),
        (&["--coverage", "--agg", "mean"], "--agg"),
        (
            &["--agg", "mean"],
            "--agg works only with --every or --points",
        ),
        (&["--every", "1s", "--agg", "median"], "time_mean"),
        (&["--count", "0"], "1 or more"),
    ] {
        let output = plant.run(&[&["history", "rig/level"], arguments].concat());
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert!(output.err.contains(part), "{arguments:?}: {}", output.err);
    }
    assert_eq!(plant.run(&["history"]).code, Some(2));
    let monitor =
        |arguments: &[&str]| plant.run(&[&["monitor", "--since", "1m"], arguments].concat());
    let pattern = monitor(&["rig/*"]);
    assert_eq!(pattern.code, Some(2), "{pattern:?}");
    assert!(
        pattern.err.contains("does not accept the pattern rig/*"),
        "{pattern:?}"
    );
    assert_eq!(monitor(&["rig/level", "--contract", "all"]).code, Some(2));
}

/// Behaviour: H-16.
#[test]
fn history_shows_values_between_readings_and_how_much_is_covered() {
    let mut plant = Recorded::start(PLANT);
    let put = |plant: &Recorded, name: &str, value: &str| {
        let put = plant.done(&["put", name, value, "--json"]);
        let put = checked(&put.out, Some("write")).remove(0);
        put["ts"].as_str().unwrap().to_owned()
    };
    let first = put(&plant, "rig/level", "2");
    put(&plant, "rig/text", "on");
    let second = put(&plant, "rig/level", "6");
    let nanos = |text: &str| {
        trunkline_types::text::parse_rfc3339(text)
            .unwrap()
            .as_nanos()
    };
    let (from, to) = (nanos(&first), nanos(&second));
    let middle = Timestamp::from_nanos(from + (to - from) / 2).to_string();
    let value_at = |plant: &Recorded, name: &str, mode: &str, at: &str| {
        let shown = plant.done(&["history", name, mode, "--at", at, "--json"]);
        let readings = checked(&shown.out, None);
        assert_eq!(readings.len(), 1, "{shown:?}");
        assert_eq!(readings[0]["ts"], at);
        readings[0].clone()
    };
    let between = value_at(&plant, "rig/level", "--interpolated", &middle);
    let value = between["value"].as_f64().unwrap();
    assert!((value - 4.0).abs() < 1e-6, "{between}");
    assert_eq!(between["q"], "good");
    let held = value_at(&plant, "rig/level", "--stepped", &middle);
    assert_eq!(held["value"], 2.0);
    let exact = value_at(&plant, "rig/level", "--interpolated", &second);
    assert_eq!(exact["value"], 6.0);
    // Nothing is known of the time after the last reading, and before the first one.
    let now = value_at(&plant, "rig/level", "--stepped", &second);
    assert_eq!(now["value"], 6.0);
    let text = value_at(&plant, "rig/text", "--interpolated", &second);
    assert_eq!(text["value"], "on");

    let coverage = |plant: &Recorded, arguments: &[&str]| {
        let shown =
            plant.done(&[&["history", "rig/*", "--coverage", "--json"], arguments].concat());
        checked(&shown.out, Some("history_coverage"))
    };
    let covered = coverage(&plant, &["--since", &first, "--until", &second]);
    assert_eq!(words(&covered, "name"), ["rig/level", "rig/text"]);
    assert_eq!(covered[0]["coverage"], 1.0, "{covered:?}");
    assert_eq!(
        (&covered[0]["count"], &covered[0]["bad"]),
        (&1.into(), &0.into())
    );
    let share = covered[1]["coverage"].as_f64().unwrap();
    assert!(share > 0.0 && share < 1.0, "{covered:?}");
    let table = plant.done(&["history", "rig/level", "--coverage", "--since", &first]);
    let line = columns(table.out.trim_end());
    assert_eq!(line[..4], ["rig/level", "2", "0", "0"]);
    assert!(line[4].ends_with(" s"), "{}", table.out);
    assert_eq!(line[5..], ["100.000 %"]);

    let agg = "time_mean,coverage,count";
    let intervals = ["history", "rig/level", "--every", "36500d", "--agg", agg];
    let shown = plant.done(
        &[
            &intervals[..],
            &["--since", &first, "--until", &second, "--json"],
        ]
        .concat(),
    );
    let interval = checked(&shown.out, Some("history_interval")).remove(0);
    assert_eq!(
        (&interval["time_mean"], &interval["coverage"]),
        (&2.0.into(), &1.0.into())
    );
    assert_eq!(
        (&interval["count"], &interval["mean"]),
        (&1.into(), &Json::Null)
    );
    let csv = plant.done(&[&intervals[..], &["-o", "csv"]].concat());
    assert!(
        csv.out.starts_with("time,name,time_mean,coverage,count\n"),
        "{}",
        csv.out
    );

    // After a kill there is no value until the next reading.
    plant.done(&["history", "rig/level"]);
    plant.kill();
    plant.serve_again();
    let third = put(&plant, "rig/level", "8");
    let gap = Timestamp::from_nanos(nanos(&third) - 1).to_string();
    for mode in ["--interpolated", "--stepped"] {
        let missing = value_at(&plant, "rig/level", mode, &gap);
        assert_eq!(missing["q"], "bad", "{mode}: {missing}");
        assert_eq!(missing["reason"], "no-value", "{mode}: {missing}");
    }
    let covered = coverage(&plant, &["--since", &second, "--until", &third]);
    let share = covered[0]["coverage"].as_f64().unwrap();
    assert!(share < 1.0, "{covered:?}");
}

#[test]
fn history_of_a_name_that_no_variable_has_says_so() {
    let plant = Recorded::start(PLANT);
    plant.put("rig/level", [1]);
    let unknown = plant.run(&["history", "rig/lvel"]);
    let get = plant.run(&["get", "rig/lvel"]);
    assert_eq!((unknown.code, get.code), (Some(1), Some(1)));
    assert_eq!(unknown.err, get.err, "as get does");
    assert!(
        unknown.err.contains("did you mean rig/level?"),
        "{}",
        unknown.err
    );
    let one = plant.run(&["history", "rig/lvel", "rig/level", "--json"]);
    assert_eq!(one.code, Some(1));
    assert_eq!(numbers(&checked(&one.out, None)), [1]);
    // Known, but of another time, or not recorded.
    for arguments in [
        &[
            "rig/level",
            "--until",
            "2026-01-01",
            "--since",
            "2025-12-31",
        ][..],
        &["rig/debug"],
    ] {
        let known = plant.done(&[&["history"], arguments].concat());
        assert!(known.err.contains("nothing was recorded"), "{known:?}");
    }
    // Undeployed variables are known to the history.
    let library = plant.folder.path().join("lib.toml");
    let text = "[library]\nname = \"lib\"\n[[variable]]\nname = \"old\"\ntype = \"i64\"\n";
    std::fs::write(&library, text).unwrap();
    plant.done(&["deploy", library.to_str().unwrap()]);
    plant.put("lib/old", [7]);
    plant.done(&["history", "lib/old"]);
    plant.done(&["undeploy", "--force", "lib"]);
    let old = [
        "history",
        "lib/old",
        "--until",
        "2026-01-01",
        "--since",
        "2025-12-31",
    ];
    let old = plant.done(&old);
    assert!(old.err.contains("nothing was recorded"), "{old:?}");
}

#[test]
fn engine_that_records_nothing_refuses_queries_of_history() {
    let served = Served::rig();
    for arguments in [
        &["history", "rig/level"][..],
        &["history", "rig/level", "--plot"],
        &["monitor", "rig/level", "--since", "1m", "--count", "1"],
    ] {
        let output = served.run(arguments);
        assert_eq!(output.code, Some(1), "{arguments:?}: {output:?}");
        assert!(output.err.contains("this engine records no history"));
        assert!(
            output.err.contains("[[history]]"),
            "{arguments:?}: {}",
            output.err
        );
    }
    let why = served.run(&["why", "rig/level"]);
    assert!(!why.out.contains("recorded"), "{}", why.out);
}

#[test]
fn why_tells_whether_and_how_a_variable_is_recorded() {
    let some = "variables = \"rig/count\"\ndeadband = 2\nresolution = 0.5\nkeep = \"48h\"\n\n\
                [[history]]\nvariables = \"rig/text\"\nevery = \"1s\"\n\n[[history]]\n";
    let all = "[[history]]\nvariables = \"**\"";
    let config = PLANT.replace(
        all,
        &format!("[[history]]\n{some}variables = \"rig/level\""),
    );
    let config = config.replace("record = false", "record = false # and no others");
    let plant = Recorded::start(&config);
    plant.put("rig/debug", [1]);
    for (name, line) in [
        ("rig/level", "ok\tconsumer\tits updates are recorded\n"),
        (
            "rig/count",
            "ok\tconsumer\tits updates are recorded, if the value has changed by more than 2 % of \
             the range, rounded to 0.5, and kept for 48 h\n",
        ),
        (
            "rig/text",
            "ok\tconsumer\tthe newest of its updates is recorded every 1s\n",
        ),
        (
            "rig/debug",
            "note\tconsumer\tit is not recorded: no [[history]] section selects it, or one \
             excludes it\t",
        ),
    ] {
        let why = plant.run(&["why", name]);
        assert!(why.out.contains(line), "{name}: {}", why.out);
    }
    let fine = plant.run(&["why", "rig/debug"]);
    assert_eq!(fine.code, Some(0), "it is no fault: {}", fine.out);
}

/// Rows that are certainly recorded before a kill.
const COMMITTED: u64 = 500;

/// Writes 1 and counts on, kills the engine meanwhile, and serves again; several times. Returns the
/// engine and the numbers that must be in the history after each kill.
fn killed_while_written(kills: usize) -> (Recorded, Vec<Vec<u64>>) {
    let mut plant = Recorded::start(PLANT);
    let mut runs: Vec<Vec<u64>> = Vec::new();
    let mut next = 1;
    for _ in 0..kills {
        let url = plant.url.clone();
        let (report, acknowledged) = channel();
        let writer = std::thread::spawn(move || {
            let client = Client::connect(&url).unwrap();
            let opened = client.open(&["rig/count"], OpenOptions::default(), TIMEOUT);
            let count = opened.unwrap().remove(0).unwrap().variable;
            // Until the engine is killed.
            for value in next.. {
                let write = Write::new(count, Value::I64(value as i64));
                match client.write([write], TIMEOUT) {
                    Ok(outcomes) if matches!(outcomes[..], [WriteOutcome::Applied(_)]) => {
                        report.send(value).unwrap();
                    }
                    _ => return,
                }
            }
        });
        // Some of them are events.
        let committed = format!("value >= {}", COMMITTED + 10);
        plant.wait("_engine/history/recorded", &committed);
        plant.kill();
        writer.join().unwrap();
        let acknowledged: Vec<u64> = acknowledged.iter().collect();
        plant.serve_again();
        let found = numbers(&plant.history("rig/count").0);
        let new = found.len() - runs.iter().map(Vec::len).sum::<usize>();
        assert!(new as u64 >= COMMITTED, "{new} were recorded");
        // The answer to one write did not come.
        assert!(new <= acknowledged.len() + 1, "{new} were recorded");
        runs.push((next..next + new as u64).collect());
        assert_eq!(found, runs.concat(), "each once and in order");
        next = acknowledged.last().unwrap() + 2;
    }
    (plant, runs)
}

/// Behaviour: SV-09, B-64, H-15.
#[test]
fn values_committed_before_a_kill_are_in_the_history_once() {
    let (mut plant, runs) = killed_while_written(2);
    let killed = ["interrupted", "started"];
    let (_, events) = plant.history("rig/count");
    let all = [&["started", "added"][..], &killed, &killed].concat();
    assert_eq!(words(&events, "event"), all);
    let plain = plant.done(&["history", "rig/count", "--since", "1h"]);
    let told = "rig/count: the engine was interrupted; updates between this time and its next \
                start are missing (";
    assert_eq!(plain.err.matches(told).count(), runs.len(), "{}", plain.err);

    // After an orderly stop nothing is missing.
    plant.put("rig/level", [1]);
    plant.engine.signal("TERM");
    assert_eq!(exit_code(&mut plant.engine.child, "the engine"), Some(0));
    plant.serve_again();
    plant.put("rig/level", [2]);
    let (readings, events) = plant.history("rig/level");
    assert_eq!(words(&events[all.len()..], "event"), ["stopped", "started"]);
    assert_eq!(numbers(&readings), [1, 2]);
    assert_eq!(readings[1]["lost"], 0);
}

/// Behaviour: B-64.
#[test]
fn first_value_after_a_kill_and_no_other_follows_an_interruption() {
    let (plant, runs) = killed_while_written(2);
    plant.put("rig/count", [0]);
    let (readings, events) = plant.history("rig/count");
    let unknown = readings.iter().enumerate();
    let unknown: Vec<usize> = unknown
        .filter(|(_, reading)| reading["lost"].is_null())
        .map(|(row, _)| row)
        .collect();
    assert_eq!(unknown, [runs[0].len(), runs[0].len() + runs[1].len()]);
    for (event, row) in [(2, unknown[0]), (4, unknown[1])] {
        let interrupted = events[event]["ts"].as_str().unwrap();
        let last = readings[row - 1]["ts"].as_str().unwrap();
        assert!(last <= interrupted, "{last} is after {interrupted}");
    }
}

/// Readings of `monitor` until the one with this number.
fn followed(monitor: &Running, number: u64) -> Vec<Json> {
    let mut readings = Vec::new();
    loop {
        let line = checked(&monitor.line(), None).remove(0);
        // A variable that has no value yet has a reading as well.
        if line["value"].is_null() {
            continue;
        }
        readings.push(line);
        if numbers(&readings).last() == Some(&number) {
            return readings;
        }
    }
}

/// Behaviour: B-63.
#[test]
fn monitor_since_shows_history_then_updates_each_once_over_kills() {
    let mut plant = Recorded::start(PLANT);
    plant.put("rig/count", 1..=5);
    let since = ["monitor", "rig/count", "--since", "1m", "--json"];
    let monitor = Running::spawn(&mut plant.command(&since));
    let mut readings = followed(&monitor, 5);
    plant.put("rig/count", 6..=8);
    readings.extend(followed(&monitor, 8));
    for round in [10, 20] {
        // Durable before the kill.
        plant.put("rig/count", round..=round + 2);
        readings.extend(followed(&monitor, round + 2));
        plant.history("rig/count");
        // All of it has happened before it continues.
        monitor.signal("STOP");
        plant.kill();
        plant.serve_again();
        plant.put("rig/count", round + 3..=round + 6);
        monitor.signal("CONT");
        readings.extend(followed(&monitor, round + 6));
    }
    let expected: Vec<u64> = (1..=8).chain(10..=16).chain(20..=26).collect();
    assert_eq!(numbers(&readings), expected);
    let (recorded, _) = plant.history("rig/count");
    let places = |readings: &[Json]| -> Vec<(u64, u64)> {
        let place = |one: &Json| (one["epoch"].as_u64().unwrap(), one["seq"].as_u64().unwrap());
        readings.iter().map(place).collect()
    };
    assert_eq!(places(&readings), places(&recorded));

    let late = plant.run(&[&since[..], &["--count", "21"]].concat());
    // Across a kill it is unknown how many updates were missed.
    assert_eq!(late.code, Some(7), "{}", late.err);
    assert_eq!(numbers(&checked(&late.out, None)), expected[..21]);
}

/// Behaviour: B-63.
#[test]
fn monitor_after_continues_the_file_of_an_earlier_run() {
    let mut plant = Recorded::start(PLANT);
    let path = plant.folder.path().join("readings.jsonl");
    let file = path.to_str().unwrap();
    // Returns the numbers that a run of the command adds to the file.
    let run = |plant: &Recorded, arguments: &[&str]| {
        let monitor = ["monitor", "rig/count", "rig/level", "--json"];
        let run = plant.run(&[&monitor[..], arguments].concat());
        let mut text = std::fs::read_to_string(&path).unwrap_or_default();
        text.push_str(&run.out);
        std::fs::write(&path, text).unwrap();
        (run.code, numbers(&checked(&run.out, None)))
    };
    plant.put("rig/count", 1..=5);
    let first = run(&plant, &["--since", "1m", "--count", "4"]);
    assert_eq!(first, (Some(0), vec![1, 2, 3, 4]));
    plant.put("rig/count", 6..=7);
    let after = ["--after", file];
    let second = run(&plant, &[&after[..], &["--count", "2"]].concat());
    assert_eq!(second, (Some(0), vec![5, 6]));
    // The command was killed while it wrote a line. The next one begins a new line.
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"v\":1,\"name\":\"rig/count\",\"ts\":\"2026-");
    std::fs::write(&path, &text).unwrap();
    let output = std::fs::File::options().append(true).open(&path).unwrap();
    let monitor = [
        "monitor",
        "rig/count",
        "--after",
        file,
        "--count",
        "1",
        "--json",
    ];
    let status = plant.command(&monitor).stdout(output).status().unwrap();
    assert!(status.success());
    let continued = std::fs::read_to_string(&path).unwrap();
    let added = continued
        .strip_prefix(&text)
        .and_then(|added| added.strip_prefix('\n'));
    assert_eq!(numbers(&checked(added.unwrap(), None)), [7]);
    for round in [10, 20] {
        plant.put("rig/count", round..=round + 2);
        // Durable before the kill.
        plant.history("rig/count");
        plant.kill();
        plant.serve_again();
    }
    plant.put("rig/count", [23]);
    // The file has no reading of this variable.
    plant.put("rig/level", [40]);
    let third = run(
        &plant,
        &[&after[..], &["--since", "1m", "--count", "8"]].concat(),
    );
    // Across a kill, the number of missed updates is unknown.
    assert_eq!(third.0, Some(7));
    let mut received = third.1;
    received.sort_unstable();
    assert_eq!(received, [10, 11, 12, 20, 21, 22, 23, 40]);
    plant.put("rig/count", [30]);
    let last = run(&plant, &[&after[..], &["--count", "1"]].concat());
    assert_eq!(last, (Some(0), vec![30]));

    let refused = plant.run(&["monitor", "rig/*", "--after", file]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.err.contains("--after needs the names"),
        "{}",
        refused.err
    );
    let refused = plant.run(&["monitor", "rig/count", "--after", "nowhere.jsonl"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.err.contains("there is no such file"),
        "{}",
        refused.err
    );
}

/// Behaviour: B-63.
#[test]
fn monitor_since_misses_nothing_if_the_engine_has_no_store() {
    let config = PLANT.replace("store = \"plant.db\"", "history = \"plant.history\"");
    let mut plant = Recorded::start(&config);
    let epoch = |plant: &Recorded| {
        let (readings, _) = plant.history("rig/count");
        readings.last().unwrap()["epoch"].as_u64().unwrap()
    };
    let since = ["monitor", "rig/count", "--since", "1h", "--json"];
    let monitor = Running::spawn(&mut plant.command(&since));
    // Until a start has a lower number than the one before.
    let (mut before, mut first) = (u64::MAX, 1);
    loop {
        plant.put("rig/count", first..first + 5);
        monitor.signal("CONT");
        let readings = followed(&monitor, first + 4);
        let expected: Vec<u64> = (first..first + 5).collect();
        assert_eq!(numbers(&readings), expected);
        let now = epoch(&plant);
        if now < before && before != u64::MAX {
            return;
        }
        (before, first) = (now, first + 5);
        monitor.signal("STOP");
        plant.kill();
        plant.serve_again();
    }
}

/// Behaviour: B-63.
#[test]
fn monitor_since_continues_when_the_variable_is_deployed_again() {
    let plant =
        Recorded::start("[engine]\nstore = \"plant.db\"\n[[history]]\nvariables = \"**\"\n");
    let library = plant.folder.path().join("lib.toml");
    let text = "[library]\nname = \"lib\"\n[[variable]]\nname = \"x\"\ntype = \"i64\"\n";
    std::fs::write(&library, text).unwrap();
    let deploy = ["deploy", library.to_str().unwrap()];
    plant.done(&deploy);
    plant.put("lib/x", 1..=4);
    let monitor = ["monitor", "lib/x", "--since", "1m", "--json"];
    let monitor = Running::spawn(&mut plant.command(&monitor));
    followed(&monitor, 4);
    plant.done(&["undeploy", "--force", "lib"]);
    plant.done(&deploy);
    plant.put("lib/x", 5..=10);
    assert_eq!(numbers(&followed(&monitor, 10)), [5, 6, 7, 8, 9, 10]);
}

/// The longest file that the engine may write.
fn limit(engine: &Running, bytes: Option<u64>) {
    let process = Pid::from_child(&engine.child);
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Some(process), Resource::Fsize, limit).unwrap();
}

/// An engine with the numbers 1 to 3 of `rig/count` in its log, which cannot become longer. A disk
/// without room is one on which files cannot become longer.
fn without_room() -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let config = PLANT.replace("store = \"plant.db\"", "history = \"plant.history\"");
    std::fs::write(folder.path().join("plant.toml"), config).unwrap();
    let mut served = serve_command(&folder, "127.0.0.1:0");
    served.args(["--store", "none"]);
    // Writing beyond the limit is an error of the engine instead of its end.
    let mut ignoring = Command::new("sh");
    ignoring
        .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
        .arg(served.get_program())
        .args(served.get_args());
    for (key, value) in served.get_envs() {
        match value {
            Some(value) => ignoring.env(key, value),
            None => ignoring.env_remove(key),
        };
    }
    let (engine, url) = serve(&mut ignoring);
    let plant = Recorded {
        engine,
        url,
        folder,
    };
    // Longer than other files, so that only the log reaches the limit.
    let long = "x".repeat(1_000_000);
    let put = finish(&mut plant.command(&["put", "rig/text", "-"]), &long);
    assert_eq!(put.code, Some(0), "{}", put.err);
    plant.put("rig/count", 1..=3);
    assert_eq!(numbers(&plant.history("rig/count").0), [1, 2, 3]);
    let log = plant.folder.path().join("plant.history/log-0000000001.tlh");
    limit(&plant.engine, Some(std::fs::metadata(log).unwrap().len()));
    plant
}

/// Behaviour: H-14.
#[test]
fn alarm_is_raised_while_the_history_has_no_room_and_nothing_is_lost() {
    let mut plant = without_room();
    plant.put("rig/count", 4..=40);
    plant.wait("_engine/history/failing", "value = true");
    let listed = |state: &str| {
        let listed = plant.done(&["alarm", "ls", "_engine/**", "--json"]);
        let alarms = checked(&listed.out, Some("alarm"));
        let failing = alarms
            .iter()
            .find(|one| one["name"] == "_engine/history/failing");
        assert_eq!(failing.unwrap()["state"], state, "{}", listed.out);
    };
    listed("unacknowledged");
    let state = plant.done(&["get", "-t", "_engine/history/state"]);
    assert_eq!(state.out, "failing\n");
    let error = plant.done(&["get", "-t", "_engine/history/error"]);
    assert!(error.out.contains("plant.history"), "{}", error.out);
    let why = plant.run(&["why", "rig/count"]);
    let told = "fault\tconsumer\tit is not recorded now: ";
    assert!(why.out.contains(told), "{}", why.out);
    // It works as before.
    assert_eq!(plant.done(&["get", "-t", "rig/count"]).out, "40\n");
    let shown = plant.run(&["history", "rig/count", "--json"]);
    assert_eq!(shown.code, Some(7), "{shown:?}");
    assert_eq!(numbers(&checked(&shown.out, None)), [1, 2, 3]);
    for name in ["rig/count", "rig/debug"] {
        let shown = plant.run(&["history", name]);
        assert_eq!(shown.code, Some(7), "{name}: {shown:?}");
        let told = "updates cannot be recorded now, and wait in memory as long as there is room: ";
        assert!(shown.err.contains(told), "{name}: {}", shown.err);
    }

    limit(&plant.engine, None);
    plant.wait("_engine/history/failing", "value = false");
    listed("returned-unacknowledged");
    assert_eq!(
        plant.done(&["get", "-t", "_engine/history/lost"]).out,
        "0\n"
    );
    let (readings, _) = plant.history("rig/count");
    assert!(numbers(&readings).into_iter().eq(1..=40), "{readings:?}");
    assert!(readings.iter().all(|reading| reading["lost"] == 0));
    plant.kill();
    plant.serve_again();
    assert_eq!(plant.history("rig/count").0, readings);
}

/// The engine serves its variables, says why nothing is recorded, and records once it may.
///
/// Behaviour: H-14.
#[test]
fn engine_without_permission_for_its_history_records_once_permitted() {
    let folder = tempfile::tempdir().unwrap();
    let config = PLANT.replace("store = \"plant.db\"", "history = \"locked/plant.history\"");
    std::fs::write(folder.path().join("plant.toml"), config).unwrap();
    let locked = folder.path().join("locked");
    std::fs::create_dir(&locked).unwrap();
    let permit = |path: &std::path::Path, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, permissions).unwrap();
    };
    permit(folder.path(), 0o755);
    permit(&locked, 0o755);
    let as_other = ["--reuid=65534", "--clear-groups"];
    let program = env!("CARGO_BIN_EXE_trunkline");
    let may_run = Command::new("setpriv")
        .args(as_other)
        .args([program, "--version"])
        .output();
    if !may_run.is_ok_and(|ran| ran.status.success()) {
        println!("skipped, because this test may not run the program as another user");
        return;
    }
    let mut served = serve_command(&folder, "127.0.0.1:0");
    served.args(["--store", "none"]);
    let mut other = Command::new("setpriv");
    other
        .args(as_other)
        .arg(served.get_program())
        .args(served.get_args());
    for (key, value) in served.get_envs() {
        match value {
            Some(value) => other.env(key, value),
            None => other.env_remove(key),
        };
    }
    let (engine, url) = serve(&mut other);
    // A program of this user refuses the engine of an ordinary user at a plain port.
    let url = url.replace("tl://", "tl+tcp://");
    let plant = Recorded {
        engine,
        url,
        folder,
    };
    plant.wait("_engine/history/failing", "value = true");
    plant.put("rig/count", [1, 2]);
    let error = plant.done(&["get", "-t", "_engine/history/error"]).out;
    let told = "plant.history cannot be written: the engine's user has no permission";
    assert!(error.contains(told), "{error}");
    let why = plant.run(&["why", "rig/count"]);
    assert!(why.out.contains("nothing is recorded now"), "{}", why.out);
    permit(&locked, 0o777);
    plant.wait("_engine/history/failing", "value = false");
    plant.put("rig/count", [3]);
    // Recording begins with the value at that time, and what was before is counted.
    let (readings, events) = plant.history("rig/count");
    assert_eq!(numbers(&readings), [2, 3]);
    let lost = events.iter().find(|event| event["event"] == "lost");
    assert_eq!(lost.unwrap()["count"], 1, "{events:?}");
}

#[test]
fn second_engine_of_a_history_is_refused() {
    let plant = Recorded::start(PLANT);
    let folder = plant.folder.path();
    let config = PLANT.replace("plant.db", "other.db");
    let config = config.replace("[engine]", "[engine]\nhistory = \"plant.history\"");
    let other = folder.join("other.toml");
    std::fs::write(&other, config).unwrap();
    let second = run(&["serve", other.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    let history = folder.join("plant.history");
    let told = format!(
        "the history {} is in use by another engine",
        history.display()
    );
    assert!(second.err.contains(&told), "{}", second.err);
    assert!(
        second.err.contains("key `history` of [engine]"),
        "{}",
        second.err
    );
    plant.put("rig/count", [1]);
    assert_eq!(numbers(&plant.history("rig/count").0), [1]);
}
