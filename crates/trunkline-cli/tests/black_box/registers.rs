//! The register forms: set, send, request; and values that are forced.

use crate::rig::Served;

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

/// Behaviour: H-27.
#[test]
fn a_forced_variable_says_so_and_refuses_what_others_write() {
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
    assert!(
        value(&served, "boiler/level") > 12.0,
        "what its source says"
    );
    assert_eq!(served.run(&["put", SETPOINT, "70"]).code, Some(0));
    assert_eq!(served.run(&["unforce", SETPOINT]).code, Some(6));
}
