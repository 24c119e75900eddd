//! `monitor`: what it prints, when it ends, and what it says about what did not come.

use std::io::Read;
use std::process::Stdio;

use serde_json::Value as Json;

use crate::rig::{Running, Served, columns};

#[test]
fn every_update_is_a_line_beginning_with_the_value_now() {
    let rig = Served::rig();
    let sut = rig.spawn(&[
        "monitor",
        "--time",
        "none",
        "rig/level",
        "rig/mode",
        "--count",
        "4",
    ]);
    assert_eq!(sut.line(), "rig/level\t72.4\t%\tuncertain: initial");
    assert_eq!(sut.line(), "rig/mode\tAUTO\t\tuncertain: initial");
    rig.run(&["put", "rig/level", "1"]);
    rig.run(&["put", "rig/mode", "OFF"]);
    assert_eq!(sut.line(), "rig/level\t1.0\t%");
    assert_eq!(sut.line(), "rig/mode\tOFF");
    assert_eq!(sut.end(), (Some(0), vec![]));
}

#[test]
fn lines_have_the_time_unless_disabled() {
    let rig = Served::rig();
    for name in ["monitor", "mon", "sub"] {
        let output = rig.run(&[name, "rig/level", "--count", "1"]);
        assert_eq!(columns(output.out.trim_end()).len(), 5, "{}", output.out);
    }
}

#[test]
fn a_missing_name_does_not_hide_the_others_and_shows_in_the_end() {
    let rig = Served::rig();
    let output = rig.run(&["monitor", "-t", "rig/lvel", "rig/level", "--count", "1"]);
    assert_eq!((output.code, output.out.as_str()), (Some(1), "72.4\n"));
    assert_eq!(
        output.err,
        "rig/lvel    *** not found (did you mean rig/level?)\n"
    );
    let nothing = rig.run(&["monitor", "rig/a", "rig/order"]);
    assert_eq!(
        (nothing.code, nothing.out.as_str()),
        (Some(1), ""),
        "there is nothing to wait for"
    );
}

#[test]
fn until_ends_with_the_reading_that_was_waited_for() {
    let rig = Served::rig();
    let sut = rig.spawn(&["monitor", "-t", "rig/level", "--until", "value > 80"]);
    assert_eq!(sut.line(), "72.4");
    rig.run(&["put", "rig/level", "80"]);
    assert_eq!(sut.line(), "80.0");
    rig.run(&["put", "rig/level", "80.1"]);
    assert_eq!(sut.end(), (Some(0), vec!["80.1".to_owned()]));
    let output = rig.run(&["monitor", "rig/mode", "--until", "value > AUTO"]);
    assert_eq!(output.code, Some(2));
    assert!(
        output.err.contains("cannot be used for rig/mode"),
        "{}",
        output.err
    );
}

#[test]
fn timeout_before_the_requested_count_is_a_failure() {
    let rig = Served::rig();
    let arguments = ["monitor", "-t", "rig/level", "--for", "1ms"];
    let alone = rig.run(&arguments);
    assert_eq!(alone.code, Some(0), "{}", alone.err);
    let counted = rig.run(&[&arguments[..], &["--count", "2"]].concat());
    assert_eq!(counted.code, Some(4));
    assert!(counted.err.contains("of 2 readings"), "{}", counted.err);
    let until = rig.run(&[&arguments[..], &["--until", "value > 99"]].concat());
    assert_eq!(until.code, Some(4));
}

#[test]
fn ctrl_c_prints_what_arrived_and_has_its_exit_code() {
    let rig = Served::rig();
    let sut = rig.spawn(&["monitor", "-o", "json", "rig/level"]);
    assert_eq!(sut.line(), "[");
    sut.signal("INT");
    let (code, rest) = sut.end();
    assert_eq!(code, Some(130));
    let text = format!("[{}", rest.join("\n"));
    let list: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(list[0]["name"], "rig/level");
}

#[test]
fn closed_pipe_ends_the_command_cleanly() {
    let rig = Served::rig();
    let mut child = rig
        .command(&["monitor", "-t", "rig/level"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 5];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    assert_eq!(&first, b"72.4\n");
    drop(child.stdout.take());
    // A process that another test is just starting may hold the pipe open for a moment.
    let code = loop {
        rig.run(&["put", "rig/level", "1"]);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
    };
    assert_eq!(code, Some(0));
    let mut errors = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert_eq!(errors, "");
}

/// The monitor is stopped while two hundred updates are written. Its buffer holds one of them at a
/// time, and the remaining lines report the dropped ones: the account is complete.
#[test]
fn losses_are_shown_in_the_next_line() {
    let rig = Served::rig();
    let sut = rig.spawn(&[
        "monitor",
        "--json",
        "rig/empty",
        "--contract",
        "last:1",
        "--until",
        "value = 200",
    ]);
    sut.line_with("rig/empty");
    sut.signal("STOP");
    let writes: Vec<String> = (1..=200)
        .map(|value| format!("rig/empty={value}"))
        .collect();
    let writes: Vec<&str> = writes.iter().map(String::as_str).collect();
    assert_eq!(rig.run(&[&["put"], &writes[..]].concat()).code, Some(0));
    sut.signal("CONT");
    let (code, lines) = sut.end();
    let mut lost = 0;
    for line in &lines {
        let reading: Json = serde_json::from_str(line).unwrap();
        lost += reading["lost"].as_u64().unwrap();
        assert_eq!(
            reading["lost_by"]["queue"].as_u64().unwrap_or(0),
            reading["lost"],
            "{line}"
        );
    }
    assert!(lost > 0, "{lines:?}");
    assert_eq!(lost + lines.len() as u64, 200, "{lines:?}");
    assert_eq!(code, Some(0), "last:1 declares nothing lossless");
}

#[test]
fn lossless_read_with_losses_has_its_exit_code() {
    let rig = Served::rig();
    let sut = rig.spawn(&[
        "monitor",
        "--json",
        "rig/level",
        "--contract",
        "all:1",
        "--until",
        "value = 99",
    ]);
    sut.line_with("72.4");
    sut.signal("STOP");
    for value in 1..=20 {
        rig.run(&["put", "rig/level", &value.to_string()]);
    }
    sut.signal("CONT");
    sut.error_with("\"event\":\"ended\"");
    rig.run(&["put", "rig/level", "99"]);
    let (code, _) = sut.end();
    assert_eq!(code, Some(7));
}

#[test]
fn coalescing_is_shown_and_does_not_count_as_loss() {
    let rig = Served::rig();
    let sut = rig.spawn(&[
        "monitor",
        "--json",
        "rig/level",
        "--contract",
        "latest",
        "--until",
        "value = 3",
    ]);
    sut.line_with("72.4");
    sut.signal("STOP");
    for value in ["1", "2", "3"] {
        rig.run(&["put", "rig/level", value]);
    }
    sut.signal("CONT");
    let (code, lines) = sut.end();
    assert_eq!(code, Some(0));
    let readings: Vec<Json> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let coalesced: u64 = readings
        .iter()
        .filter_map(|reading| reading["lost_by"]["coalesced"].as_u64())
        .sum();
    assert_eq!(coalesced + readings.len() as u64, 3, "{lines:?}");
    assert!(
        readings.iter().all(|reading| reading["lost"] == 0),
        "{lines:?}"
    );
}

#[test]
fn lost_connection_is_reported_and_re_established() {
    let mut rig = Served::rig();
    let plain = rig.spawn(&["monitor", "-t", "rig/level"]);
    let json = rig.spawn(&["monitor", "--json", "rig/level"]);
    plain.line();
    json.line();
    rig.restart();
    let lost = plain.error_with("*** connection lost: ");
    assert!(lost.ends_with("; reconnecting automatically"), "{lost}");
    plain.error_with("*** reconnected to 127.0.0.1:");
    assert_eq!(plain.line(), "72.4");
    let event: Json = serde_json::from_str(&json.error_with("disconnected")).unwrap();
    assert_eq!(
        (&event["v"], &event["reconnecting"]),
        (&1.into(), &true.into())
    );
    let event: Json = serde_json::from_str(&json.error_with("\"connected\"")).unwrap();
    assert_eq!(event["restarted"], true);
    let reading: Json = serde_json::from_str(&json.line()).unwrap();
    assert_eq!(
        reading["lost"],
        Json::Null,
        "across a restart the loss is unknown, not 0"
    );
}

#[test]
fn rates_are_printed_instead_of_readings() {
    let rig = Served::start("[[io]]\nname = \"sim\"\ndriver = \"sim\"\n");
    let sut = rig.spawn(&["monitor", "--rate", "boiler/level"]);
    let line = sut.line();
    let cells = columns(&line);
    assert_eq!(
        (cells.len(), cells[0], cells[2]),
        (4, "boiler/level", "0"),
        "{line}"
    );
    assert!(cells[1].parse::<f64>().unwrap() > 0.0, "{line}");
}

#[test]
fn unknown_contract_is_refused_with_the_valid_ones() {
    for contract in ["newest", "latest:1", "last:0", "sampled:1ns"] {
        let output = crate::rig::run(&["monitor", "a/b", "--contract", contract]);
        assert_eq!(output.code, Some(2), "{contract}");
        assert!(
            output.err.contains("latest, last:N, first:N, all"),
            "{}",
            output.err
        );
    }
}

#[test]
fn stopped_monitor_does_not_affect_others() {
    let rig = Served::start("[[io]]\nname = \"sim\"\ndriver = \"sim\"\n");
    let stopped = rig.spawn(&["monitor", "boiler/**", "--contract", "all:1"]);
    stopped.line();
    stopped.signal("STOP");
    let other: Running = rig.spawn(&["monitor", "--json", "boiler/level", "--count", "10"]);
    let (code, lines) = other.end();
    assert_eq!((code, lines.len()), (Some(0), 10));
    assert!(
        lines.iter().all(|line| line.contains("\"lost\":0}")),
        "{lines:?}"
    );
    stopped.signal("CONT");
}

const MORE: &str = "[library]\nname = \"more\"\n\n[[variable]]\nname = \"a\"\ntype = \"f64\"\n\
    units = \"V\"\nprecision = 1\ninitial = 1.0\n\n[[variable]]\nname = \"b\"\ntype = \"bool\"\n\
    initial = true\n";

/// Behaviour: B-32.
#[test]
fn pattern_is_followed_while_libraries_are_deployed_and_removed() {
    let rig = Served::rig();
    let more = rig.file("more.toml", MORE);
    let people = rig.spawn(&["monitor", "--time", "none", "more/**", "rig/level"]);
    let json = [
        "monitor",
        "--json",
        "more/**",
        "rig/mode",
        "--exclude",
        "more/b",
    ];
    let json = rig.spawn(&json);
    json.line_with("rig/mode");
    assert_eq!(people.line(), "rig/level\t72.4\t%\tuncertain: initial");
    assert_eq!(rig.run(&["deploy", &more]).code, Some(0));
    assert_eq!(people.line(), "more/a\t1.0\tV\tuncertain: initial");
    assert_eq!(people.line(), "more/b\ttrue\t\tuncertain: initial");
    people.error_with("*** more/b appeared (bool)");
    let appeared: Json = serde_json::from_str(&json.error_with("appeared")).unwrap();
    assert_eq!(
        (&appeared["name"], &appeared["type"]),
        (&"more/a".into(), &"f64".into())
    );
    assert_eq!(rig.run(&["put", "more/a", "2"]).code, Some(0));
    assert_eq!(people.line(), "more/a\t2.0\tV");
    assert_eq!(rig.run(&["undeploy", "--force", "more"]).code, Some(0));
    people.error_with("*** more/a is gone");
    let gone: Json = serde_json::from_str(&json.error_with("gone")).unwrap();
    assert_eq!(
        (&gone["event"], &gone["name"]),
        (&"gone".into(), &"more/a".into())
    );
    assert_eq!(rig.run(&["put", "rig/level", "3"]).code, Some(0));
    assert_eq!(people.line(), "rig/level\t3.0\t%");
}

/// Behaviour: B-32.
#[test]
fn changes_after_an_engine_restart_are_reported() {
    let mut rig = Served::start(&MORE.replace("name = \"b\"", "name = \"old\""));
    let monitor = rig.spawn(&["monitor", "--time", "none", "more/*"]);
    assert_eq!(monitor.line(), "more/a\t1.0\tV\tuncertain: initial");
    assert_eq!(monitor.line(), "more/old\ttrue\t\tuncertain: initial");
    rig.file("plant.toml", MORE);
    rig.restart();
    monitor.error_with("reconnected to");
    monitor.error_with("*** more/b appeared (bool)");
    monitor.error_with("*** more/old is gone");
    let next = [monitor.line(), monitor.line()];
    assert!(
        next.iter().any(|line| line.starts_with("more/b\ttrue")),
        "{next:?}"
    );
}
