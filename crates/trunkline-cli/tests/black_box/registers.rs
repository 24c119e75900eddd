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
    let said = "other/count has the register number 20, which log/count has";
    assert!(refused.err.contains(said), "{refused:?}");
    assert_eq!(served.run(&["ls", "other"]).code, Some(1));
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
    assert!(refused.err.contains("forced by loopback"), "{refused:?}");
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
