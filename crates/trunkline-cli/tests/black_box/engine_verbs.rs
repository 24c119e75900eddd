//! `engine`: ping, info and stop.

use std::net::TcpListener;

use serde_json::Value as Json;

use crate::rig::{RIG, Running, Served, command, exit_code, finish, run};

fn lines(text: &str) -> Vec<Json> {
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[test]
fn ping_measures_each_answer_and_summarizes_them() {
    let served = Served::rig();
    let output = served.run(&[
        "engine",
        "ping",
        "--count",
        "3",
        "--interval",
        "1ms",
        "--json",
    ]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let found = lines(&output.out);
    assert_eq!(found.len(), 4, "{output:?}");
    let mut times = Vec::new();
    for (index, line) in found[..3].iter().enumerate() {
        assert_eq!(
            (&line["event"], &line["number"]),
            (&"answer".into(), &(index + 1).into())
        );
        times.push(line["ms"].as_f64().unwrap());
    }
    times.sort_by(f64::total_cmp);
    let summary = &found[3];
    assert_eq!(
        (&summary["sent"], &summary["answered"]),
        (&3.into(), &3.into()),
        "{summary}"
    );
    let shown = ["min_ms", "median_ms", "max_ms"].map(|key| summary[key].as_f64().unwrap());
    assert_eq!(shown.as_slice(), times);
    assert!(times[0] > 0.0, "{times:?}");

    let output = served.run(&["engine", "ping", "--count", "1"]);
    assert!(output.out.starts_with("answer 1: "), "{output:?}");
    assert!(
        output.out.contains("\n1 of 1 answered · min "),
        "{output:?}"
    );
}

#[test]
fn ping_of_an_engine_that_does_not_run_says_so() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("tl://{free}");
    for verb in ["ping", "info", "reload", "stop"] {
        let output = run(&["engine", verb, "--url", &url]);
        assert_eq!(output.code, Some(3), "{output:?}");
        assert!(output.err.contains(&free.port().to_string()), "{output:?}");
        assert_eq!(output.out, "");
    }
}

#[test]
fn interrupted_ping_still_summarizes() {
    let served = Served::rig();
    let ping = served.spawn(&["engine", "ping", "--count", "100", "--interval", "1h"]);
    ping.line_with("answer 1: ");
    ping.signal("INT");
    let (code, rest) = ping.end();
    assert_eq!(code, Some(130));
    assert!(rest[0].starts_with("1 of 1 answered"), "{rest:?}");
}

#[test]
fn info_shows_name_version_and_libraries() {
    let served = Served::start(&format!("[engine]\nname = \"plant 7\"\n{RIG}"));
    let output = served.run(&["engine", "info", "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let info = &lines(&output.out)[0];
    assert_eq!(info["name"], "plant 7");
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(info["pid"], served.engine.child.id());
    assert_eq!(info["variables"], 12);
    assert_eq!(info["libraries"][0]["name"], "rig");
    assert_eq!(info["libraries"][0]["state"], "running");
    let output = served.run(&["engine", "info"]);
    assert!(output.out.contains("plant 7"), "{output:?}");
    assert!(output.out.contains("rig (12 variables)"), "{output:?}");
}

#[test]
fn engine_stops_by_order_and_the_audit_names_who_gave_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plant.toml");
    std::fs::write(&file, RIG).unwrap();
    let store = folder.path().join("store.db");
    let arguments = [
        "serve",
        file.to_str().unwrap(),
        "--store",
        store.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ];
    let serve = || {
        let engine = Running::start(&arguments);
        let line = engine.line_with("Listening on tl://");
        let url = line.split(' ').find(|word| word.starts_with("tl://"));
        (engine, url.unwrap().to_owned())
    };
    let (mut engine, url) = serve();
    let put = run(&["put", "rig/setpoint", "55", "--url", &url]);
    assert_eq!(put.code, Some(0), "{put:?}");
    let output = run(&["engine", "stop", "--url", &url]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.out.contains(" is stopping"), "{output:?}");
    assert_eq!(exit_code(&mut engine.child, "the engine"), Some(0));

    let (_engine, url) = serve();
    let output = run(&["audit", "--json", "--url", &url]);
    let entries = lines(&output.out);
    let actions = |action: &str| -> Vec<&Json> {
        let found = entries.iter().filter(|entry| entry["action"] == action);
        found.collect()
    };
    let orders = actions("stop order");
    assert_eq!(orders.len(), 1, "{output:?}");
    let who = orders[0]["who"].as_str().unwrap();
    assert!(who.contains("local:") || who.contains("loopback"), "{who}");
    assert_eq!(actions("engine stop").len(), 1, "{output:?}");
    assert_eq!(actions("engine start").len(), 2, "{output:?}");
}

#[test]
fn demo_stops_by_order() {
    let mut demo = command(&["demo", "--listen", "127.0.0.1:0", "--json"]);
    let mut demo = Running::spawn(&mut demo);
    let line: Json = serde_json::from_str(&demo.line()).unwrap();
    let url = line["listen"][0].as_str().unwrap();
    let output = finish(
        command(&["engine", "stop", "--json"]).env("TRUNKLINE_URL", url),
        "",
    );
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(exit_code(&mut demo.child, "the demo"), Some(0));
}
