//! The engine itself: its measurements, its address, and the engine that a name means.

use serde_json::Value as Json;

use crate::rig::{Served, columns, run};

fn value(served: &Served, name: &str) -> Json {
    let read = served.run(&["get", "-o", "jsonl", name]);
    assert_eq!(read.code, Some(0), "{read:?}");
    let line: Json = serde_json::from_str(&read.out).unwrap();
    line["value"].clone()
}

/// Its health is reported in variables of a separate library: listed only on request, written and
/// removed by no client.
#[test]
fn engine_reports_its_health_in_read_only_variables() {
    let served = Served::start(
        "[engine]\nhealth = \"1ms\"\n[library]\nname = \"rig\"\n\
         [[variable]]\nname = \"a\"\ntype = \"f64\"\n[[variable]]\nname = \"b\"\ntype = \"f64\"\n",
    );
    assert_eq!(value(&served, "_engine/variables"), 2);
    assert_eq!(value(&served, "_engine/store/state"), "none");
    assert_eq!(value(&served, "_engine/forcing/on"), true);
    assert!(value(&served, "_engine/epoch").as_u64() > Some(0));

    // Hidden, unless asked for.
    let all = served.run(&["find", "**"]);
    let names: Vec<&str> = all.out.lines().map(|line| columns(line)[0]).collect();
    assert_eq!(names, ["rig/a", "rig/b"]);
    assert!(!served.run(&["ls"]).out.contains("_engine"));
    let own = served.run(&["find", "_engine/**"]);
    assert!(own.out.contains("_engine/writes/refused"), "{own:?}");

    // They follow what happens.
    let followed = served.spawn(&["monitor", "-t", "_engine/updates", "_engine/writes/refused"]);
    assert_eq!(served.run(&["put", "rig/a", "1"]).code, Some(0));
    followed.line_with("1");
    let forced = served.spawn(&["monitor", "-t", "_engine/forcing/variables"]);
    assert_eq!(served.run(&["force", "rig/b", "1"]).code, Some(0));
    forced.line_with("1");

    assert_eq!(served.run(&["put", "_engine/uptime", "1"]).code, Some(6));
    for arguments in [
        &["undeploy", "_engine"][..],
        &["library", "stop", "_engine"],
    ] {
        let refused = served.run(arguments);
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(
            refused.err.contains("the engine's own libraries"),
            "{refused:?}"
        );
    }
    let file = served.file("_mine.toml", "[[variable]]\nname = \"x\"\ntype = \"f64\"\n");
    let refused = served.run(&["deploy", &file]);
    assert_eq!(refused.code, Some(8), "{refused:?}");
    let said = "_mine.toml:1:1 \"_mine\" cannot be a name";
    assert!(refused.err.contains(said), "{refused:?}");
}

/// An engine that hosts little needs little, on Linux as anywhere else. In a debug build, the program file
/// alone is larger than a whole engine of a release, so only half of the stated memory is compared, and with
/// the memory that is not the file.
///
/// Behaviour: DP-11, DP-12.
#[test]
fn an_idle_engine_runs_on_this_system_within_the_memory_it_states() {
    const STATED: u64 = 32 << 20;
    let served = Served::rig();
    let resident = value(&served, "_engine/process/memory");
    let resident = resident.as_u64().expect("Linux says it");
    let status = format!("/proc/{}/status", served.engine.child.id());
    let status = std::fs::read_to_string(status).expect("it is a process of this system");
    let kilobytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        number.expect("Linux says it")
    };
    let own = (kilobytes("RssAnon:") + kilobytes("RssShmem:")) << 10;
    match cfg!(debug_assertions) {
        true => assert!(own > 0 && own < STATED / 2, "{own} of {resident} bytes"),
        false => assert!(resident > own && resident < STATED, "{resident} bytes"),
    }
}

/// A whole URL means the same engine everywhere; a bare name means the engine that is selected
/// where the program runs. No engine is needed there.
///
/// Behaviour: DP-09, DP-10.
#[test]
fn names_are_absolute_or_relative_to_the_engine_that_is_selected() {
    let engine_of = |value: &str| {
        Served::start(&format!(
            "[library]\nname = \"rig\"\n[[variable]]\nname = \"who\"\ntype = \"string\"\n\
             initial = \"{value}\"\n"
        ))
    };
    let (first, second) = (engine_of("first"), engine_of("second"));
    let absolute = format!("{}/rig/who", first.url);
    for selected in [&first, &second] {
        assert_eq!(value(selected, &absolute), "first");
    }
    assert_eq!(value(&first, "rig/who"), "first");
    assert_eq!(value(&second, "rig/who"), "second");
    let unselected = run(&["get", "-o", "jsonl", &absolute]);
    assert_eq!(unselected.code, Some(0), "{unselected:?}");
}

/// The libraries in a program's files are deployed when it starts, used or not; nothing has to be
/// deployed beforehand.
///
/// Behaviour: DP-04.
#[test]
fn the_libraries_of_a_program_are_deployed_when_it_is_run() {
    let served = Served::rig();
    let listed = served.run(&["ls"]);
    assert!(listed.out.contains("rig"), "{listed:?}");
    assert_eq!(value(&served, "rig/setpoint"), 70.0);
    assert_eq!(value(&served, "_engine/variables"), 12);
}
