//! Ports, several engines, and throughput mode, with processes as users have them.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value as Json;
use trunkline::Client;

use crate::rig::{RIG, Running, Served, run};

/// Inodes of the sockets that a process has open.
fn sockets_of(pid: u32) -> BTreeSet<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    let inode = |link: String| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    links
        .filter_map(|link| inode(link.to_str()?.to_owned()))
        .collect()
}

/// Local addresses of a process's sockets in one of the system's tables: those that listen, or all.
fn addresses(pid: u32, table: &str, only_listening: bool) -> Vec<String> {
    let own = sockets_of(pid);
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/net/{table}")) else {
        return Vec::new();
    };
    let rows = text
        .lines()
        .skip(1)
        .map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| own.contains(row[9]) && (!only_listening || row[3] == "0A"))
        .map(|row| row[1].to_owned())
        .collect()
}

/// Behaviour: LX-14.
#[test]
fn engine_has_one_port_and_a_client_none() {
    let served = Served::rig();
    let engine = served.engine.child.id();
    let follower = served.spawn(&["monitor", "rig/level"]);
    follower.line_with("72.4");
    // Providers and administrators use the same port.
    let library = served.file("more.toml", "[library]\nname = \"more\"\n");
    assert_eq!(served.run(&["deploy", &library]).code, Some(0));
    let provider = served.spawn(&["io", "run", "sim", "--publish"]);
    provider.line();

    let port: u16 = served.url.rsplit(':').next().unwrap().parse().unwrap();
    let listening = addresses(engine, "tcp", true);
    assert_eq!(listening, [format!("0100007F:{port:04X}")]);
    for process in [follower.child.id(), provider.child.id()] {
        assert!(addresses(process, "tcp", true).is_empty());
        assert!(addresses(process, "tcp6", true).is_empty());
    }
    for process in [engine, follower.child.id()] {
        assert!(addresses(process, "udp", false).is_empty());
        assert!(addresses(process, "udp6", false).is_empty());
    }
    assert!(addresses(engine, "tcp6", true).is_empty());
}

/// Behaviour: DP-09.
#[test]
fn a_program_without_an_engine_uses_the_variables_of_several() {
    let config = |value: u32| RIG.replace("initial = 72.4", &format!("initial = {value}.0"));
    let engines = [Served::start(&config(10)), Served::start(&config(20))];
    // This process has no engine and never had one.
    let timeout = std::time::Duration::from_secs(60);
    let clients = engines
        .each_ref()
        .map(|engine| Client::connect(&engine.url).unwrap());
    let levels = clients
        .each_ref()
        .map(|client| client.variable::<f64>("rig/level", timeout).unwrap());
    assert_eq!(
        levels.each_ref().map(|level| level.get(timeout).unwrap()),
        [10.0, 20.0]
    );
    levels[0].put(11.0, timeout).unwrap();
    assert_eq!(
        levels.each_ref().map(|level| level.get(timeout).unwrap()),
        [11.0, 20.0]
    );

    let [first, second] = engines
        .each_ref()
        .map(|engine| format!("{}/rig/level", engine.url));
    assert_eq!(run(&["get", "-t", &first]).out, "11.0\n");
    assert_eq!(run(&["get", "-t", &second]).out, "20.0\n");
    let both = run(&["get", &first, &second]);
    assert_eq!(both.code, Some(2));
    assert!(both.err.contains("one command for each"), "{}", both.err);
}

/// Behaviour: LX-12.
#[test]
fn a_command_may_have_both_ends_gather() {
    let served = Served::rig();
    let get = served.run(&["get", "-t", "rig/level", "--batch"]);
    assert_eq!((get.code, get.out.as_str()), (Some(0), "72.4\n"));
    let put = served.run(&["put", "rig/setpoint", "44", "--batch=1kB,2ms"]);
    assert_eq!(put.code, Some(0), "{}", put.err);
    let follower = served.spawn(&["monitor", "-t", "rig/setpoint", "--batch=8KiB,5ms"]);
    assert_eq!(follower.line(), "44.0");
    assert_eq!(served.run(&["put", "rig/setpoint", "45"]).code, Some(0));
    assert_eq!(follower.line(), "45.0");
    let why = served.run(&["why", "--batch=1500,5ms"]);
    assert!(
        why.out.contains(", sending at 1500 bytes or after 5ms"),
        "{}",
        why.out
    );
    assert!(!served.run(&["why"]).out.contains("sending at"));
    for wrong in ["--batch=8MiB,1ms", "--batch=10ms", "--batch="] {
        let output = served.run(&["get", "rig/level", wrong]);
        assert_eq!(output.code, Some(2), "{wrong}");
        assert!(output.err.contains("8KiB,10ms"), "{}", output.err);
    }
}

/// Behaviour: LX-12.
#[test]
fn commands_do_the_same_over_every_transport() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("plant.toml"), RIG).unwrap();
    let listen = format!("unix:{}", path("a.sock"));
    let config = path("plant.toml");
    let arguments = [
        "serve",
        &config,
        "--listen",
        "127.0.0.1:0",
        "--listen",
        &listen,
    ];
    let engine = Running::start(&[&arguments[..], &["--store", "none", "--json"]].concat());
    let told: Json = serde_json::from_str(&engine.line()).unwrap();
    let by_tcp = told["listen"][0]
        .as_str()
        .unwrap()
        .replace("tl://", "tl+tcp://");
    let by_socket = told["listen"][1].as_str().unwrap().to_owned();
    let batch: &[&str] = &["--batch=8KiB,1ms"];
    let ways: [(&str, &[&str]); 4] = [
        (&by_tcp, &[]),
        (&by_socket, &[]),
        (&by_tcp, batch),
        (&by_socket, batch),
    ];
    let commands: &[&[&str]] = &[
        &["put", "rig/setpoint", "33"],
        &[
            "get",
            "rig/level",
            "rig/setpoint",
            "rig/mode",
            "rig/nothing",
        ],
        &["get", "-t", "rig/*"],
        &["get", "--json", "--time", "none", "rig/level", "rig/empty"],
        &["monitor", "-t", "--count", "1", "rig/level"],
        &["find", "-t", "rig/**"],
        &["ls", "rig"],
        &["put", "rig/sealed", "1"],
        &["put", "rig/setpoint", "101"],
        &["deploy", "no-such-file.toml"],
    ];
    // A put shows the previous value.
    run(&["put", "rig/setpoint", "33", "--url", &by_socket]);
    for command in commands {
        let outcomes = ways.map(|(url, options)| {
            let output = run(&[command, &["--url", url][..], options].concat());
            (output.code, output.out, output.err)
        });
        for outcome in &outcomes {
            assert_eq!(outcome, &outcomes[0], "{command:?}");
        }
    }
}
