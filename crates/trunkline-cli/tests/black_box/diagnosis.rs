//! `why`: the first cause, in a sentence, with what to do.

use serde_json::Value as Json;
use trunkline_net::Clock;

use crate::fake_engine::{FakeEngine, Manners};
use crate::json_lines::checked;
use crate::rig::{CUT_OFF, Output, RIG, Served, run};

fn last_lines(output: &Output, count: usize) -> Vec<&str> {
    let lines: Vec<&str> = output.out.lines().collect();
    lines[lines.len() - count..].to_vec()
}

#[test]
fn why_finds_no_problem_if_nothing_is_wrong() {
    let rig = Served::rig();
    rig.run(&["put", "rig/level", "50"]);
    let output = rig.run(&["why", "rig/level"]);
    assert_eq!(output.code, Some(0), "{}", output.out);
    assert_eq!(
        last_lines(&output, 1),
        ["Nothing prevents rig/level from updating."]
    );
    let connection = rig.run(&["why"]);
    assert_eq!(connection.code, Some(0), "{}", connection.out);
    assert_eq!(last_lines(&connection, 1), ["The connection works."]);
}

#[test]
fn steps_lead_from_the_address_to_the_consumer() {
    let rig = Served::rig();
    let output = rig.run(&["why", "--json", "rig/level"]);
    let steps: Vec<Json> = output
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = steps
        .iter()
        .map(|step| step["step"].as_str().unwrap())
        .collect();
    let expected = [
        "address",
        "host",
        "connection",
        "version",
        "engine",
        "clock",
        "name",
        "library",
    ];
    assert_eq!(names[..expected.len()], expected);
    assert!(
        names.contains(&"source") && names.contains(&"buffer"),
        "{names:?}"
    );
    assert!(
        steps
            .iter()
            .all(|step| step["name"] == "rig/level" && step["v"] == 1)
    );
}

#[test]
fn unwritten_variable_is_reported() {
    let rig = Served::rig();
    let output = rig.run(&["why", "rig/empty"]);
    assert_eq!(output.code, Some(8));
    let conclusion = last_lines(&output, 2).join(" ");
    assert!(
        conclusion.starts_with("rig/empty does not update: nothing has been written"),
        "{conclusion}"
    );
    assert!(conclusion.contains("Next: write it once"), "{conclusion}");
    let short = rig.run(&["why", "-t", "rig/empty"]);
    assert_eq!(
        short.out.lines().count(),
        2,
        "-t is the conclusion alone: {}",
        short.out
    );
}

#[test]
fn unknown_name_is_the_first_cause() {
    let rig = Served::rig();
    for name in ["rig/lvel", "level"] {
        let output = rig.run(&["why", name]);
        assert_eq!(output.code, Some(8), "{name}");
        assert!(
            output.out.contains(&format!("{name} does not update: ")),
            "{}",
            output.out
        );
    }
    assert!(rig.run(&["why", "rig/lvel"]).out.contains("rig/level"));
    assert_eq!(rig.run(&["why", "rig/*"]).code, Some(2));
}

#[test]
fn a_missing_engine_is_found_with_and_without_a_name() {
    let address = crate::unreachable::free_address();
    for arguments in [&["why"][..], &["why", "rig/level"]] {
        let output = run(&[arguments, &["--url", &address]].concat());
        assert_eq!(
            output.code,
            Some(8),
            "a check that found problems, not a failure to check"
        );
        let conclusion = last_lines(&output, 2).join(" ");
        let cause = "no program is listening there";
        assert!(conclusion.contains(cause), "{conclusion}");
        assert!(
            conclusion.contains("Next: start the engine, or check the port."),
            "{conclusion}"
        );
    }
}

#[test]
fn a_host_without_address_is_found() {
    let output = run(&["why", "--url", "no-such-host.invalid"]);
    assert_eq!(output.code, Some(8));
    assert!(
        output.out.contains("no-such-host.invalid has no address"),
        "{}",
        output.out
    );
}

#[test]
fn foreign_program_and_other_version_are_distinguished() {
    let other = FakeEngine::start(Manners::NotTrunkline);
    let output = run(&["why", "--url", &other.url]);
    assert_eq!(output.code, Some(8));
    assert!(output.out.contains("fault\tprotocol"), "{}", output.out);
    let newer = FakeEngine::start(Manners::Newer);
    let output = run(&["why", "--url", &newer.url]);
    assert_eq!(output.code, Some(8));
    assert!(output.out.contains("fault\tversion"), "{}", output.out);
}

/// Behaviour: B-12, H-29.
#[test]
fn outdated_value_is_marked_everywhere() {
    let served = Served::start(
        "[library]\nname = \"rig\"\n\n[[variable]]\nname = \"old\"\ntype = \"f64\"\n\
         max_age = \"50ms\"\n",
    );
    let monitor = served.spawn(&["monitor", "--json", "rig/old"]);
    assert_eq!(served.run(&["put", "rig/old", "1"]).code, Some(0));
    // The client detects the age by itself; from this line on the engine reports it, too.
    let line = monitor.line_with("\"reason\":\"stale\"");
    let reading: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&reading["stale"], &reading["value"]),
        (&true.into(), &1.0.into())
    );
    // By the engine's clock as the client knows it, which is late by the duration of the welcome:
    // on a busy machine the first readings may look younger than they are.
    let is_older = (0..1000).any(|_| {
        let get = served.run(&["get", "--json", "rig/old"]);
        let reading: serde_json::Value = serde_json::from_str(&get.out).unwrap();
        reading["age"].as_f64().unwrap() >= 0.05
    });
    assert!(reading["age"].is_number() && is_older, "{reading}");
    let get = served.run(&["get", "rig/old"]);
    assert!(
        get.out.contains("uncertain: stale") && get.out.contains("stale "),
        "{}",
        get.out
    );
    let why = served.run(&["why", "rig/old"]);
    assert_eq!(why.code, Some(8));
    assert!(why.out.contains("max_age"), "{}", why.out);
}

/// Behaviour: B-14, H-27.
#[test]
fn causes_are_reported_with_the_command_that_fixes_them() {
    let served = Served::start(
        "[library]\nname = \"rig\"\n\n[[variable]]\nname = \"level\"\ntype = \"f64\"\n\
         initial = 1.5\nprecision = 1\nrange = [0, 100]\n\n\
         [[variable]]\nname = \"secret\"\ntype = \"f64\"\naccess = \"write-only\"\n\n\
         [[variable]]\nname = \"view\"\ntype = \"f64\"\nalias = \"plant/level\"\n\n\
         [[variable]]\nname = \"sensor\"\ntype = \"f64\"\nsource = \"proc:x\"\n\n\
         [[io]]\nname = \"proc\"\ndriver = \"process\"\n",
    );
    assert_eq!(served.run(&["put", "rig/level", "500"]).code, Some(6));
    let causes = [
        (
            "rig/level",
            "outside the range 0 to 100",
            "Next: write a value within it",
        ),
        (
            "rig/LEVEL",
            "upper and lower case differ",
            "Next: try rig/level",
        ),
        (
            "plant/level",
            "library plant is not deployed",
            "trunkline deploy plant.toml",
        ),
        ("rig/secret", "write-only", "Next: change its `access`"),
        (
            "rig/view",
            "the target plant/level does not exist",
            "Next: deploy its target",
        ),
        (
            "rig/sensor",
            "I/O server proc is not running",
            "trunkline io run DRIVER --name proc",
        ),
    ];
    for (name, cause, next) in causes {
        let output = served.run(&["why", name]);
        assert_eq!(output.code, Some(8), "{name}: {}", output.out);
        let conclusion = last_lines(&output, 2).join(" ");
        assert!(
            conclusion.contains(cause) && conclusion.contains(next),
            "{name}: {conclusion}"
        );
    }
    // Times are shown as everywhere: in this machine's zone, or in UTC, in microseconds.
    assert_eq!(served.run(&["force", "rig/level", "72.44"]).code, Some(0));
    let output = served.run(&["why", "--utc", "rig/level"]);
    let conclusion = last_lines(&output, 2).join(" ");
    assert!(
        conclusion.contains("it is forced by local:"),
        "{conclusion}"
    );
    let since = conclusion.split("since ").nth(1).unwrap();
    let (date, time) = (&since[..10], since[11..].split('.').next().unwrap());
    assert!(date.starts_with("20") && time.len() == 8, "{conclusion}");
    assert!(
        !conclusion.contains('T') && !conclusion.contains('Z'),
        "{conclusion}"
    );
    // The list follows `precision` too.
    let list = served.run(&["force", "--list"]);
    assert!(
        list.out.contains("72.4") && !list.out.contains("72.44"),
        "{}",
        list.out
    );
    let json = served.run(&["force", "--list", "--json"]);
    assert!(
        json.out.contains("72.44"),
        "programs get all of it: {}",
        json.out
    );
}

/// Behaviour: B-14.
#[test]
fn monitor_reports_once_that_nothing_matches_and_waits() {
    let served = Served::rig();
    let people = served.spawn(&["monitor", "nope/**", "rig/level"]);
    people.error_with("*** no name matches nope/** yet");
    let json = served.spawn(&["monitor", "--json", "nope/**"]);
    let line: Json = serde_json::from_str(&json.error_with("no-match")).unwrap();
    assert_eq!(
        (&line["event"], &line["name"]),
        (&"no-match".into(), &"nope/**".into())
    );
    let file = served.file(
        "nope.toml",
        "[library]\nname = \"nope\"\n\n[[variable]]\nname = \"x\"\ntype = \"f64\"\ninitial = 1\n",
    );
    assert_eq!(served.run(&["deploy", &file]).code, Some(0));
    json.line_with("nope/x");
}

#[test]
fn limits_are_shown_with_their_usage() {
    let limits = "[engine.limits]\nsessions_max = 7\nqueue_bytes_max = \"2 MiB\"\n";
    let rig = Served::start(&format!("{limits}{RIG}"));
    let monitor = rig.spawn(&["monitor", "rig/level"]);
    monitor.line_with("72.4");
    let of_field = rig.spawn(&["monitor", "rig/level#type"]);
    of_field.line_with("f64");
    let told = |form: &[&str]| rig.run(&[&["limits"], form].concat());
    // The engine looks once per second.
    let named = |rows: &[Json], name: &str| {
        let row = rows.iter().find(|row| row["limit"] == name);
        row.unwrap().clone()
    };
    let in_use = |limit: Json| limit["used"].as_u64().is_some_and(|used| used > 0);
    let cut_off = Clock::new().now().saturating_add(CUT_OFF);
    let rows = loop {
        let output = told(&["--json"]);
        assert_eq!(output.code, Some(0), "{}", output.err);
        let rows = checked(&output.out, Some("limit"));
        if in_use(named(&rows, "sessions")) && in_use(named(&rows, "open fields")) {
            break rows;
        }
        assert!(Clock::new().now() < cut_off, "nothing is in use: {rows:?}");
    };
    let row = |name: &str| named(&rows, name);
    assert_eq!(row("sessions")["max"], 7);
    assert_eq!(row("sessions")["key"], "sessions_max");
    assert_eq!(row("queued")["max"], 2 << 20);
    assert_eq!(row("queued")["unit"], "B");
    assert_eq!(row("items of a session")["max"], 2_000_000);
    assert_eq!(row("writes of a session")["key"], "writes_per_session_max");
    assert!(row("writes of a session")["max"].as_u64() > Some(0));
    assert!(row("variables")["used"].as_u64() > Some(0));
    assert_eq!(row("variables")["key"], "variables_max");
    assert_eq!(row("subscriptions")["used"], 2);
    assert!(row("slots")["used"].as_u64() > row("variables")["used"].as_u64());
    assert_eq!(row("slots")["max"], (1 << 21) - 1);
    assert_eq!(row("open fields")["used"], 1);
    assert_eq!(row("open fields")["max"], 100_000);
    assert_eq!(row("name")["max"], 1024);
    let output = told(&["-o", "table"]);
    assert!(output.out.contains("sessions_max"), "{}", output.out);
}
