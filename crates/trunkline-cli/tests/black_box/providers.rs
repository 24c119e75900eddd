//! I/O servers in separate processes, swapped under a client with minimal interruption.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::json_lines::checked;
use crate::rig::{Running, Served, exit_code};

/// Its variables come from a process, and it contains nothing about the hardware.
const PLANT: &str = r#"
[[io]]
name = "plant"
driver = "process"

[library]
name = "boiler"

[defaults]
type = "f64"
units = "%"
precision = 1

[[variable]]
name = "level"
source = "plant:boiler/level"

[[variable]]
name = "setpoint"
source = "plant:boiler/setpoint"

[[variable]]
name = "temperature"
units = "°C"
source = "plant:boiler/temp"
"#;

const NAMES: [&str; 3] = ["boiler/level", "boiler/setpoint", "boiler/temperature"];

/// Starts an I/O server, and waits until it delivers this many variables.
fn start(served: &Served, arguments: &[&str], variables: usize) -> Running {
    let running = served.spawn(&[&["io", "run"], arguments].concat());
    running.line_with(&format!("delivers {variables} variables"));
    running
}

/// Reads on until every variable was seen with this quality; the last line of each.
fn until_all(monitor: &Running, quality: &str) -> BTreeMap<String, Json> {
    let mut seen = BTreeMap::new();
    while seen.len() < NAMES.len() {
        let line: Json = serde_json::from_str(&monitor.line()).unwrap();
        if line["q"] == quality {
            let name = line["name"].as_str().unwrap().to_owned();
            seen.insert(name, line);
        }
    }
    seen
}

fn value(served: &Served, name: &str) -> f64 {
    let line: Json = serde_json::from_str(&served.run(&["get", "--json", name]).out).unwrap();
    line["value"].as_f64().unwrap()
}

/// One `monitor` runs throughout: neither it nor the engine is touched.
///
/// Behaviour: VS-25, LM-08, LM-33.
#[test]
fn hardware_is_swapped_without_interrupting_a_client() {
    let served = Served::start(PLANT);
    let monitor = served.spawn(&["monitor", "--json", NAMES[0], NAMES[1], NAMES[2]]);
    let before = until_all(&monitor, "bad");
    assert!(
        before
            .values()
            .all(|line| line["reason"] == "provider-gone"),
        "{before:?}"
    );

    let mut first = start(&served, &["sim", "--name", "plant", "seed=1"], 3);
    until_all(&monitor, "good");
    let put = served.run(&["put", "boiler/setpoint", "61"]);
    assert_eq!(put.code, Some(0), "{put:?}");
    // It is taken away without a word.
    first.child.kill().unwrap();
    exit_code(&mut first.child, "the first provider");
    let lost = until_all(&monitor, "bad");
    assert!(
        lost.values().all(|line| line["reason"] == "provider-gone"),
        "{lost:?}"
    );
    assert_eq!(
        lost["boiler/setpoint"]["value"], 61.0,
        "the last value is kept"
    );
    let refused = served.run(&["put", "boiler/setpoint", "62"]);
    assert_eq!(refused.code, Some(6), "{refused:?}");
    assert!(refused.err.contains("plant"), "{refused:?}");
    let why = served.run(&["why", "boiler/level"]);
    assert_eq!(why.code, Some(8));
    let advice =
        "start its program, or a built-in driver with: trunkline io run DRIVER --name plant";
    assert!(why.out.contains(advice), "{}", why.out);

    // Another process, another plant: its own setpoint, its own pace.
    let second = start(
        &served,
        &["sim", "--name", "plant", "seed=2", "--period", "30ms"],
        3,
    );
    let back = until_all(&monitor, "good");
    assert_eq!(back["boiler/setpoint"]["value"], 70.0);
    let put = served.run(&["put", "boiler/setpoint", "63"]);
    assert_eq!(put.code, Some(0), "{put:?}");
    assert_eq!(value(&served, "boiler/setpoint"), 63.0);
    second.signal("TERM");
    assert_eq!(second.end().0, Some(0));
    until_all(&monitor, "bad");
    assert_eq!(
        monitor.errors(),
        [""; 0],
        "one connection from the beginning to the end"
    );
    monitor.signal("INT");
    assert_eq!(monitor.end().0, Some(130));
}

/// Behaviour: LM-05, LM-06, LM-07, LM-25.
#[test]
fn registers_of_a_process_are_written_sent_and_requested() {
    let served = Served::start(PLANT);
    let _plant = start(&served, &["sim", "--name", "plant", "--period", "1h"], 3);
    let put = served.run(&["put", "boiler/setpoint", "61"]);
    assert_eq!(put.code, Some(0), "{put:?}");
    let set = served.run(&["set", "boiler/setpoint", "64"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let sent = served.run(&["send", "boiler/setpoint"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let asked = served.run(&["request", "boiler/setpoint", "boiler/level"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert_eq!(value(&served, "boiler/setpoint"), 64.0);
    let refused = served.run(&["put", "boiler/level", "3"]);
    assert_eq!(
        refused.code,
        Some(6),
        "an instrument takes no values: {refused:?}"
    );
}

#[test]
fn io_run_reports_its_state_and_wrong_items_as_json() {
    let config = PLANT.replace("plant:boiler/temp", "plant:boiler/tmep");
    let served = Served::start(&config);
    let arguments = ["io", "run", "sim", "--name", "plant", "--json"];
    let running = served.spawn(&arguments);
    let told = running.line_with("\"missing\":1");
    let told = &checked(&told, Some("event"))[0];
    assert_eq!(
        (&told["event"], &told["name"]),
        (&"providing".into(), &"plant".into())
    );
    assert_eq!(
        (&told["provided"], &told["variables"]),
        (&true.into(), &2.into())
    );
    assert_eq!(told["missing_item"], "boiler/tmep");
    let refused = served.run(&["put", "boiler/temperature", "3"]);
    assert!(refused.err.contains("no item boiler/tmep"), "{refused:?}");
    // The place is taken.
    let second = served.spawn(&arguments);
    let told = second.line_with("engine_error");
    let told = &checked(&told, Some("event"))[0];
    assert_eq!(told["provided"], false);
    // It is on standby, and takes over when the first one ends.
    running.signal("KILL");
    second.line_with("\"missing\":1");
    checked(
        &served.run(&["io", "drivers", "--json"]).out,
        Some("driver"),
    );
}

#[test]
fn io_server_may_start_first_and_outlives_the_engine() {
    let mut served = Served::start(PLANT);
    let plant = start(&served, &["sim", "--name", "plant"], 3);
    served.restart();
    plant.line_with("waits for the engine");
    plant.line_with("delivers 3 variables");
    let get = served.run(&["monitor", "-t", "boiler/level", "--until", "value > 1"]);
    assert_eq!(get.code, Some(0), "{get:?}");
}

#[test]
fn invalid_io_servers_are_refused_with_the_reason() {
    let served = Served::rig();
    for (arguments, code, said) in [
        (&["io", "run"][..], 2, "DRIVER"),
        (&["io", "run", "modbus"], 8, "modbus"),
        (&["io", "run", "sim", "speed"], 2, "KEY=VALUE"),
        (&["io", "run", "sim", "a=1", "a=2"], 2, "twice"),
        (&["io", "run", "sim", "nonsense=1"], 8, "nonsense"),
        (&["io", "run", "sim", "--name", "a/b"], 2, "--name"),
    ] {
        let output = served.run(arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
        assert!(output.err.contains(said), "{arguments:?}: {output:?}");
    }
    let wrong = Served::start(PLANT).file(
        "wrong.toml",
        &PLANT.replace("driver = \"process\"", "driver = \"process\"\nseed = 1"),
    );
    assert_eq!(crate::rig::run(&["serve", &wrong]).code, Some(8));
}
