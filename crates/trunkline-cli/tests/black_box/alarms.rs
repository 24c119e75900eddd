//! `alarm`: alarms as operators see them, acknowledge them and hide them.

use serde_json::Value as Json;

use crate::json_lines::checked;
use crate::libraries::Stored;
use crate::rig::Served;
use crate::shown::Shown;

const PLANT: &str = r#"
[library]
name = "plant"

[[variable]]
name = "level"
type = "f64"
units = "%"
range = [0, 100]
initial = 50.0
alarm.hi_hi = { limit = 90, priority = 900, latched = true, help = "Close the feed valve" }
alarm.hi = { limit = "plant/level_max", deadband = 2, area = "drum" }
alarm.lo = 20

[[variable]]
name = "level_max"
type = "f64"
initial = 80.0

[[variable]]
name = "pump"
type = "enum"
labels = ["off", "on", "fault"]
initial = "off"
alarm.trip = { kind = "discrete", values = ["fault"], priority = 700, area = "drum" }
"#;

/// Name, alarm and state of each alarm that `alarm ls` lists.
fn listed(rig: &Served, arguments: &[&str]) -> Vec<String> {
    let output = rig.run(&[&["alarm", "ls", "--json"][..], arguments].concat());
    assert_eq!(output.code, Some(0), "{}", output.err);
    let lines = output.out.lines().map(|line| {
        let alarm: Json = serde_json::from_str(line).unwrap();
        let text = |key: &str| alarm[key].as_str().unwrap().to_owned();
        [text("name"), text("alarm"), text("state")].join(" ")
    });
    lines.collect()
}

fn put(rig: &Served, name: &str, value: &str) {
    let output = rig.run(&["put", name, value]);
    assert_eq!(output.code, Some(0), "{}", output.err);
}

/// Behaviour: SV-03, SV-04, H-08, H-10.
#[test]
fn operator_sees_acknowledges_and_resets_alarms() {
    let rig = Served::start(PLANT);
    assert_eq!(listed(&rig, &[]), [""; 0]);
    let none = rig.run(&["alarm", "ls"]);
    assert!(
        none.err.contains("all alarms are normal; use --all"),
        "{}",
        none.err
    );
    put(&rig, "plant/level", "95");
    put(&rig, "plant/pump", "fault");
    // The limit is read by the engine after the variable that has it was deployed.
    let state = "plant/level#alarm.hi.state";
    let raised = rig.run(&["monitor", "-t", state, "--until", "value = unacknowledged"]);
    assert_eq!(raised.code, Some(0), "{}", raised.err);
    let all = [
        "plant/level hi_hi unacknowledged",
        "plant/pump trip unacknowledged",
        "plant/level hi unacknowledged",
    ];
    assert_eq!(listed(&rig, &[]), all, "the most urgent comes first");
    assert_eq!(listed(&rig, &["--area", "drum"]), all[1..]);
    assert_eq!(listed(&rig, &["--priority", "700"]), all[..2]);

    let acknowledged = rig.run(&["alarm", "ack", "--area", "drum", "--comment", "on my way"]);
    assert_eq!(acknowledged.code, Some(0), "{}", acknowledged.err);
    assert_eq!(acknowledged.out.lines().count(), 2, "{}", acknowledged.out);
    let comment = rig.run(&["get", "-t", "plant/pump#alarm.trip.comment"]);
    assert_eq!(comment.out, "on my way\n");
    let shown = ["--state", "acknowledged"];
    let shown = listed(&rig, &shown);
    assert_eq!(
        shown,
        [
            "plant/pump trip acknowledged",
            "plant/level hi acknowledged"
        ]
    );

    put(&rig, "plant/level", "50");
    put(&rig, "plant/pump", "on");
    assert_eq!(
        listed(&rig, &[]),
        ["plant/level hi_hi latched-unacknowledged"]
    );
    let early = rig.run(&["alarm", "reset", "plant/level#hi_hi"]);
    assert_eq!(early.code, Some(1), "{}", early.err);
    assert_eq!(rig.run(&["alarm", "ack", "plant/**"]).code, Some(0));
    assert_eq!(
        rig.run(&["alarm", "reset", "plant/level#hi_hi"]).code,
        Some(0)
    );
    assert_eq!(listed(&rig, &[]), [""; 0]);
}

#[test]
fn shelved_and_disabled_alarms_are_hidden_until_they_return() {
    let rig = Served::start(PLANT);
    put(&rig, "plant/pump", "fault");
    let shelve = [
        "alarm",
        "shelve",
        "plant/pump",
        "--for",
        "1s",
        "--comment",
        "swap",
    ];
    assert_eq!(rig.run(&shelve).out, "plant/pump\ttrip\tshelved\n");
    let state = "plant/pump#alarm.trip.state";
    let back = rig.run(&["monitor", "-t", state, "--until", "value = unacknowledged"]);
    assert_eq!(back.code, Some(0), "{}", back.err);
    assert_eq!(rig.run(&["alarm", "disable", "plant/pump"]).code, Some(0));
    assert_eq!(listed(&rig, &[]), ["plant/pump trip out-of-service"]);
    assert_eq!(rig.run(&["alarm", "enable", "plant/pump"]).code, Some(0));
    assert_eq!(listed(&rig, &[]), ["plant/pump trip unacknowledged"]);
}

#[test]
fn wrong_command_lines_name_what_is_wrong() {
    let rig = Served::start(PLANT);
    for (arguments, code, part) in [
        (
            &["alarm", "ack"][..],
            2,
            "no alarms selected\n  specify NAME, NAME#ALARM",
        ),
        (
            &["alarm", "ack", "plant/nope"],
            1,
            "no unacknowledged alarm matches",
        ),
        (&["alarm", "shelve", "plant/pump"], 2, "--for"),
        (
            &["alarm", "shelve", "plant/pump", "--for", "31d"],
            6,
            "30 days",
        ),
        (
            &["alarm", "ls", "--state", "loud"],
            2,
            "it must be one of normal,",
        ),
        (&["alarm", "ls", "--priority", "1001"], 2, "from 1 to 1000"),
        (
            &["get", "plant/level#alarm.high.state"],
            1,
            "alarm.hi.state",
        ),
    ] {
        let output = rig.run(arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {}", output.err);
        assert!(output.err.contains(part), "{arguments:?}: {}", output.err);
    }
}

#[test]
fn alarms_are_found_and_described_with_their_variable() {
    let rig = Served::start(PLANT);
    put(&rig, "plant/pump", "fault");
    let condition = "alarm.trip.state=unacknowledged";
    let found = rig.run(&["find", "plant/**", "--where", condition, "-t"]);
    assert_eq!(found.out, "plant/pump\n", "{}", found.err);
    let info = rig.run(&["info", "plant/level"]);
    let alarms = "alarms\thi_hi above 90, hi above plant/level_max, lo below 20";
    assert!(info.out.contains(alarms), "{}", info.out);
    assert!(
        info.out.contains("alarm.hi_hi.*, alarm.hi.*"),
        "{}",
        info.out
    );
}

/// What the journal of the engine says: the event, the alarm, its state, and who did it.
fn journal(engine: &Stored, arguments: &[&str]) -> Vec<String> {
    let shown = engine.run(&[&["alarm", "journal", "--json"], arguments].concat());
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let lines = checked(&shown.out, Some("alarm_entry")).into_iter();
    let line = |entry: Json| {
        let text = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
        let who = text("who");
        let who = who.split(':').next().unwrap();
        let name = format!("{}#{}", text("name"), text("alarm"));
        [&text("event"), &name, &text("state"), who]
            .map(|one| one.to_owned())
            .join(" ")
    };
    lines.map(line).collect()
}

/// After a kill the states continue, and the journal has each change once.
///
/// Behaviour: SV-04, SV-10, H-11.
#[test]
fn states_and_journal_survive_a_kill_of_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let plant = folder.path().join("plant.toml");
    std::fs::write(&plant, PLANT).unwrap();
    let engine = Stored::start(&folder.path().join("store.db"));
    assert_eq!(
        engine.run(&["deploy", plant.to_str().unwrap()]).code,
        Some(0)
    );
    for (name, value) in [
        ("plant/level", "95"),
        ("plant/level", "15"),
        ("plant/pump", "fault"),
    ] {
        assert_eq!(engine.run(&["put", name, value]).code, Some(0));
    }
    let comment = ["alarm", "ack", "plant/pump", "--comment", "seen"];
    assert_eq!(engine.run(&comment).code, Some(0));
    let shelve = ["alarm", "shelve", "plant/level#lo", "--for", "1h"];
    assert_eq!(engine.run(&shelve).code, Some(0));
    let before = journal(&engine, &["plant", "--priority", "500"]);
    let of = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    let without_hi: Vec<String> = before
        .into_iter()
        .filter(|line| !line.contains("#hi "))
        .collect();
    let expected = of(&[
        "raise plant/level#hi_hi unacknowledged -",
        "clear plant/level#hi_hi latched-unacknowledged -",
        "raise plant/level#lo unacknowledged -",
        "raise plant/pump#trip unacknowledged -",
        "acknowledge plant/pump#trip acknowledged local",
        "shelve plant/level#lo shelved local",
    ]);
    assert_eq!(without_hi, expected);

    let engine = engine.kill_and_restart();
    let listed = engine.run(&["alarm", "ls", "--json"]);
    let states = listed.out.lines().map(|line| {
        let alarm: Json = serde_json::from_str(line).unwrap();
        let text = |key: &str| alarm[key].as_str().unwrap_or("-").to_owned();
        [text("alarm"), text("state"), text("comment")].join(" ")
    });
    let states: Vec<String> = states.filter(|state| !state.starts_with("hi ")).collect();
    let expected_states = of(&[
        "trip acknowledged seen",
        "lo shelved -",
        "hi_hi latched-unacknowledged -",
    ]);
    assert_eq!(states, expected_states);
    let after = journal(&engine, &["plant/pump"]);
    assert_eq!(after, expected[3..5]);
    let last = journal(&engine, &["--last", "1", "--state", "shelved"]);
    assert_eq!(last, expected[5..]);
    assert!(journal(&engine, &["--until", "1h"]).is_empty());

    let report = engine.run(&["alarm", "report", "plant/level", "--json"]);
    let report = &checked(&report.out, Some("alarm_report"))[0];
    assert!(report["raised"].as_u64().unwrap() >= 2, "{report}");
    assert_eq!(report["hidden"], 1);
    let people = engine.run(&["alarm", "report"]);
    assert!(people.out.contains("peak in 10 min\t"), "{}", people.out);
}

/// Behaviour: SV-04.
#[test]
fn monitor_on_a_terminal_draws_a_table_of_the_present_alarms() {
    let rig = Served::start(PLANT);
    let shown = Shown::spawn_all(&mut rig.command(&["monitor", "--alarms", "plant/**"]), 60);
    shown.until("all alarms are normal");
    put(&rig, "plant/pump", "fault");
    let head = shown.until("NAME");
    let replaces = head.contains("\u{1b}[1A\u{1b}[J");
    assert!(replaces, "{head:?} replaces the line");
    let line = shown.until("trip");
    assert!(line.contains("unacknowledged"), "{line:?}");
    put(&rig, "plant/level", "95");
    let table = shown.until("hi_hi");
    assert!(
        !table.contains("feed valve"),
        "{table:?}: it has 60 columns"
    );
    assert!(
        shown.until("trip").contains("unacknowledged"),
        "lower priority"
    );
    for (name, value) in [("plant/level", "50"), ("plant/pump", "off")] {
        put(&rig, name, value);
    }
    for what in ["plant/level#hi_hi", "plant/level#hi", "plant/pump#trip"] {
        rig.run(&["alarm", "ack", what]);
        rig.run(&["alarm", "reset", what]);
    }
    shown.until("all alarms are normal");
    shown.signal("INT");
    assert_eq!(shown.end(), Some(130));
}

/// Behaviour: SV-04, SV-15.
#[test]
fn monitor_shows_the_present_alarms_and_then_every_change() {
    let mut rig = Served::start(PLANT);
    put(&rig, "plant/level", "95");
    // The limit is read by the engine after the variable that has it was deployed.
    let state = "plant/level#alarm.hi.state";
    let raised = rig.run(&["monitor", "-t", state, "--until", "value = unacknowledged"]);
    assert_eq!(raised.code, Some(0), "{}", raised.err);
    let every = rig.spawn(&["monitor", "--alarms", "--json"]);
    let drum = rig.spawn(&["monitor", "--alarms", "plant/p*", "--area", "drum"]);
    let urgent = [
        "monitor",
        "--alarms",
        "--priority",
        "800",
        "--count",
        "1",
        "--for",
        "1ms",
    ];
    let shown = |count: usize| {
        let lines = (0..count).map(|_| {
            let entry: Json = serde_json::from_str(&every.line()).unwrap();
            let text = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
            [text("event"), text("alarm"), text("state")].join(" ")
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines
    };
    let present = ["present hi unacknowledged", "present hi_hi unacknowledged"];
    assert_eq!(shown(2), present);
    assert_eq!(
        rig.run(&["alarm", "ack", "plant/level#hi_hi"]).code,
        Some(0)
    );
    assert_eq!(shown(1), ["acknowledge hi_hi acknowledged"]);
    put(&rig, "plant/pump", "fault");
    assert_eq!(shown(1), ["raise trip unacknowledged"]);
    assert!(drum.line().contains("plant/pump\ttrip\t"));
    drum.signal("INT");
    assert_eq!(drum.end().0, Some(130));
    let output = rig.run(&urgent);
    assert_eq!(output.code, Some(4), "{}", output.err);
    assert_eq!(output.out.lines().count(), 1, "{}", output.out);

    // This engine has no store, so it starts numbering its journal again.
    rig.restart();
    every.error_with("\"restarted\":true");
    put(&rig, "plant/pump", "fault");
    // It may have been raised before the present alarms were asked for.
    let trip = shown(1).remove(0);
    assert!(trip.ends_with(" trip unacknowledged"), "{trip}");
    put(&rig, "plant/level", "15");
    assert_eq!(shown(1), ["raise lo unacknowledged"]);
    every.signal("INT");
    assert_eq!(every.end().0, Some(130));
}
