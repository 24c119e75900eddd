//! The register forms: set, send, request; and values that are forced.

use crate::rig::{Served, columns};

const PLANT: &str = "[[io]]\nname = \"sim\"\ndriver = \"sim\"\nperiod = \"20ms\"\n";

fn value(served: &Served, name: &str) -> f64 {
    let read = served.run(&["get", "-o", "jsonl", name]);
    assert_eq!(read.code, Some(0), "{read:?}");
    let line: serde_json::Value = serde_json::from_str(&read.out).unwrap();
    line["value"].as_f64().unwrap()
}

/// The name of a variable of the plant that its device takes values for.
const SETPOINT: &str = "boiler/setpoint";

/// Behaviour: LM-04, LM-05, LM-06, LM-07.
#[test]
fn a_register_is_set_sent_and_asked_for() {
    let served = Served::start(PLANT);
    let before = value(&served, SETPOINT);
    let set = served.run(&["set", SETPOINT, &(before + 1.0).to_string()]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let sent = served.run(&["send", SETPOINT]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let asked = served.run(&["request", SETPOINT, "boiler/level"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert_eq!(asked.out.lines().count(), 2);
    assert_eq!(served.run(&["request", "boiler/nope"]).code, Some(1));
}

/// Behaviour: LM-11.
#[test]
fn a_register_without_a_device_has_nothing_to_send() {
    let served = Served::rig();
    let sent = served.run(&["send", "rig/setpoint"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.out.starts_with("rig/setpoint\t70.0\t70.0"), "{sent:?}");
    let empty = served.run(&["set", "rig/setpoint", "12"]);
    assert_eq!(empty.code, Some(0));
    assert_eq!(value(&served, "rig/setpoint"), 12.0);
}

/// Behaviour: LM-01, LM-02.
#[test]
fn a_register_is_named_by_its_number() {
    let config = "[library]\nname = \"log\"\n[[variable]]\nname = \"count\"\ntype = \"i32\"\n\
                  number = 20\n[[variable]]\nname = \"text\"\ntype = \"string\"\nnumber = 21\n";
    let served = Served::start(config);
    assert_eq!(served.run(&["set", ":/20", "7"]).code, Some(0));
    assert_eq!(value(&served, "log/count"), 7.0);
    let url = format!("{}/:/20", served.url);
    assert_eq!(served.run(&["get", "-t", &url]).out, "7\n");
    let info = served.run(&["info", "log/count"]);
    assert!(
        info.out.contains("number") && info.out.contains("20"),
        "{info:?}"
    );
    let missing = served.run(&["get", ":/22"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    let why = served.run(&["why", ":/20"]);
    assert!(why.out.contains(":/20 is variable"), "{why:?}");
    // The number is taken, and stays where it is.
    let taken = config.replace("log", "other");
    let refused = served.run(&["deploy", &served.file("other.toml", &taken)]);
    assert_ne!(refused.code, Some(0));
    let said = "other/count has the register number 20, which log/count already has";
    assert!(refused.err.contains(said), "{refused:?}");
    assert_eq!(served.run(&["ls", "other"]).code, Some(1));
}

/// Behaviour: H-27.
#[test]
fn forced_variable_is_marked_and_refuses_other_writes() {
    let served = Served::start(PLANT);
    let forced = served.run(&["force", "boiler/level", "11.5"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
    let shown = served.run(&["get", "-a", "boiler/level"]);
    assert!(
        shown.out.contains("11.5") && shown.out.contains("forced"),
        "{shown:?}"
    );
    assert_eq!(served.run(&["force", SETPOINT, "60"]).code, Some(0));
    let refused = served.run(&["put", SETPOINT, "70"]);
    assert_eq!(refused.code, Some(6));
    assert!(refused.err.contains("forced by local:"), "{refused:?}");
    let why = served.run(&["why", "boiler/level"]);
    assert!(why.out.contains("forced"), "{why:?}");
    let unforced = served.run(&["unforce", "boiler/level", SETPOINT]);
    assert_eq!(unforced.code, Some(0), "{unforced:?}");
    // It prints the value of the source, not the forced one.
    let level = unforced
        .out
        .lines()
        .find(|line| line.starts_with("boiler/level"));
    let cells = columns(level.unwrap());
    assert_eq!(cells[1], "11.5", "{unforced:?}");
    assert!(cells[2].parse::<f64>().unwrap() > 12.0, "{unforced:?}");
    assert!(
        value(&served, "boiler/level") > 12.0,
        "what its source says"
    );
    assert_eq!(served.run(&["put", SETPOINT, "70"]).code, Some(0));
    assert_eq!(served.run(&["unforce", SETPOINT]).code, Some(6));
}

/// Behaviour: H-27.
#[test]
fn forcing_has_no_conditions_and_no_groups() {
    let served = Served::rig();
    for (option, others) in [
        ("--expect=999999", &["rig/level", "11"][..]),
        ("--atomic", &["rig/level=11", "rig/setpoint=12"]),
        ("--expect=1", &["--list"]),
        ("--atomic", &["--list"]),
    ] {
        let refused = served.run(&[&["force", option], others].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let name = option.split('=').next().unwrap();
        assert!(refused.err.contains(name), "{refused:?}");
    }
    assert_eq!(value(&served, "rig/level"), 72.4, "nothing is forced");
}

/// Many values are entered while forcing is off, take effect at once, and are listed with the user
/// who entered them and the values of the sources.
///
/// Behaviour: H-27.
#[test]
fn forced_values_are_listed_switched_together_and_cleared() {
    let served = Served::rig();
    let schema = crate::schema::documented();
    let line = |arguments: &[&str], definition: &str| {
        let output = served.run(arguments);
        assert_eq!(output.code, Some(0), "{output:?}");
        let lines: Vec<serde_json::Value> = output
            .out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for line in &lines {
            crate::schema::check(line, &schema["$defs"][definition]).unwrap();
        }
        lines
    };
    let off = line(&["force", "--off", "--json"], "forcing");
    assert_eq!(
        (&off[0]["forcing"], &off[0]["variables"]),
        (&"off".into(), &0.into())
    );
    let entered = served.run(&["force", "rig/level=11", "rig/setpoint=12"]);
    assert_eq!(entered.code, Some(0), "{entered:?}");
    assert_eq!(value(&served, "rig/level"), 72.4, "it does not hold yet");
    let listed = line(&["force", "--list", "--json"], "forced");
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["holds"], false);
    let told = served.run(&["force", "--list"]);
    assert!(told.err.contains("forcing is off"), "{told:?}");

    let on = line(&["force", "--on", "--json"], "forcing");
    assert_eq!(on[0]["variables"], 2);
    assert_eq!(value(&served, "rig/level"), 11.0);
    assert_eq!(value(&served, "rig/setpoint"), 12.0);
    let listed = line(&["force", "--list", "--json"], "forced");
    let level = &listed[0];
    assert_eq!(level["name"], "rig/level");
    assert_eq!(
        (&level["forced"], &level["behind"]),
        (&11.0.into(), &72.4.into())
    );
    assert!(level["by"].as_str().unwrap().contains("local:"), "{level}");
    let info = line(&["info", "rig/level", "--json"], "info");
    assert_eq!(
        (&info[0]["forced"], &info[0]["behind"]),
        (&11.0.into(), &72.4.into())
    );
    let people = served.run(&["info", "rig/level"]);
    assert!(
        people.out.contains("value of its source: 72.4"),
        "{people:?}"
    );

    let cleared = line(&["unforce", "--all", "--json"], "forcing");
    assert_eq!(cleared[0]["variables"], 2);
    assert_eq!(value(&served, "rig/level"), 72.4);
    assert!(line(&["force", "--list", "--json"], "forced").is_empty());
    assert_eq!(
        served.run(&["force", "--list", "rig/level", "1"]).code,
        Some(2)
    );
}
