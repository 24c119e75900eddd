//! A configuration that changes while the engine runs: `engine reload` and SIGHUP.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::rig::{CUT_OFF, Output, Running, command, exit_code, finish};

/// An engine whose configuration the test changes.
struct Plant {
    folder: TempDir,
    engine: Running,
    url: String,
    /// Address of the HTTP server; empty without one.
    http: String,
}

fn rig() -> String {
    "
[library]
name = \"rig\"

[[variable]]
name = \"level\"
type = \"f64\"
units = \"%\"
initial = 1.0

[[variable]]
name = \"mode\"
type = \"string\"
initial = \"auto\"
"
    .to_owned()
}

impl Plant {
    fn start(config: &str, arguments: &[&str]) -> Self {
        Self::start_with(config, arguments, &[])
    }

    fn start_with(config: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plant.toml");
        fs::write(&file, config).unwrap();
        let store = folder.path().join("store.db");
        let fixed = ["serve", file.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        let store = ["--store", store.to_str().unwrap(), "--json"];
        let mut serve = command(&[&fixed[..], &store, arguments].concat());
        let engine = Running::spawn(serve.envs(variables.iter().copied()));
        let serving: Json = serde_json::from_str(&engine.line()).unwrap();
        let http = serving["http"].as_str().unwrap_or_default();
        Self {
            url: serving["listen"][0].as_str().unwrap().to_owned(),
            http: http.trim_start_matches("http://").to_owned(),
            folder,
            engine,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, config: &str) {
        fs::write(self.path("plant.toml"), config).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(command(arguments).env("TRUNKLINE_URL", &self.url), "")
    }

    /// The output of a command that must succeed.
    #[track_caller]
    fn out(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        output.out
    }

    #[track_caller]
    fn reload(&self) -> Json {
        serde_json::from_str(&self.out(&["engine", "reload", "--json"])).unwrap()
    }

    #[track_caller]
    fn get(&self, name: &str) -> Json {
        let line: Json = serde_json::from_str(&self.out(&["get", name, "--json"])).unwrap();
        line["value"].clone()
    }

    /// The entries of the audit about reloads.
    fn audited(&self) -> Vec<Json> {
        let lines = self.out(&["audit", "--json"]);
        let entries = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let is_reload = |entry: &Json| entry["action"] == "reload order";
        entries.filter(is_reload).collect()
    }
}

/// Status line and body of a page of an HTTP server.
fn page(address: &str, host: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(CUT_OFF)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

fn list(value: &Json) -> Vec<&str> {
    let list = value.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap()).collect()
}

/// The subscriber of an unchanged variable sees no event, even if the variable moved in the file; one
/// of a changed variable keeps its subscription.
///
/// Behaviour: SP-06.
#[test]
fn changed_library_is_applied_and_unchanged_variables_go_on() {
    let sut = Plant::start(&rig(), &[]);
    let follow = |name: &str| {
        let arguments = ["monitor", name, "--json", "--url", &sut.url];
        let monitor = Running::start(&arguments);
        monitor.line_with("\"value\"");
        monitor
    };
    let (level, mode) = (follow("rig/level"), follow("rig/mode"));
    sut.out(&["put", "rig/level", "42"]);
    level.line_with("42");
    // One more variable at the beginning, so that the others move; another unit for one of them.
    let more = "[[variable]]\nname = \"new\"\ntype = \"bool\"\n";
    let changed = rig().replace(
        "[[variable]]\nname = \"level\"",
        &format!("{more}\n[[variable]]\nname = \"level\""),
    );
    let changed = changed.replace(
        "initial = \"auto\"",
        "initial = \"auto\"\ndescription = \"now\"",
    );
    sut.write(&changed);
    let reloaded = sut.reload();
    assert_eq!(
        (
            &reloaded["added"],
            &reloaded["changed"],
            &reloaded["kept"],
            &reloaded["removed"]
        ),
        (&1.into(), &1.into(), &1.into(), &0.into()),
        "{reloaded}"
    );
    assert_eq!(sut.get("rig/level"), 42.0, "it keeps its value");
    sut.out(&["put", "rig/level", "43"]);
    sut.out(&["put", "rig/mode", "hand"]);
    // The next line of the unchanged variable is the next value.
    let next: Json = serde_json::from_str(&level.line()).unwrap();
    assert_eq!(next["value"], 43.0, "{next}");
    mode.line_with("hand");
    let info = sut.out(&["info", "rig/mode", "--json"]);
    assert!(info.contains("\"now\""), "{info}");
    let lines: Vec<String> = sut.out(&["ls", "rig"]).lines().map(str::to_owned).collect();
    assert!(lines.iter().any(|line| line.contains("new")), "{lines:?}");

    // Nothing is left to do.
    let reloaded = sut.reload();
    assert_eq!(
        (&reloaded["kept"], &reloaded["added"]),
        (&3.into(), &0.into())
    );
    let entries = sut.audited();
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!(entries[0]["new"], "1 added, 1 changed", "{entries:?}");
}

/// Behaviour: DP-03.
#[test]
fn library_that_left_the_files_is_removed_or_the_deployed_one_returns() {
    let sut = Plant::start("", &[]);
    let deployed = "[library]\nname = \"spare\"\n\n[[variable]]\nname = \"a\"\ntype = \"u8\"\n";
    fs::write(sut.path("spare.toml"), deployed).unwrap();
    let file = sut.path("spare.toml");
    sut.out(&["deploy", file.to_str().unwrap()]);
    sut.out(&["put", "spare/a", "7"]);
    let two = format!("{}\n", rig());
    sut.write(&two);
    assert_eq!(sut.reload()["added"], 2);
    sut.write(&rig().replace("\"rig\"", "\"spare\""));
    let reloaded = sut.reload();
    assert_eq!(
        (&reloaded["added"], &reloaded["removed"]),
        (&2.into(), &3.into()),
        "{reloaded}"
    );
    let gone = sut.run(&["get", "rig/level"]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert_eq!(sut.get("spare/level"), 1.0);
    // The store still has the deployed library.
    sut.write("");
    sut.reload();
    let returned = sut.run(&["get", "spare/a", "--json"]);
    assert!(returned.out.contains("\"type\":\"u8\""), "{returned:?}");
    let gone = sut.run(&["get", "spare/level"]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
}

#[test]
fn file_with_an_error_changes_nothing_and_says_where_it_is() {
    let config = format!(
        "[engine]\nhttp = \"127.0.0.1:0\"\naudit_entries = 1000\n{}",
        rig()
    );
    let sut = Plant::start(&config, &["--log-format", "text"]);
    let ready = page(&sut.http, "localhost", "/readyz");
    assert_eq!(ready.0, "HTTP/1.1 200 OK", "{ready:?}");
    let wrong = config
        .replace("1000", "2000")
        .replace("units = \"%\"", "unit = \"%\"")
        .replace("name = \"mode\"", "name = \"other\"");
    sut.write(&wrong);
    let output = sut.run(&["engine", "reload"]);
    assert_eq!(output.code, Some(8), "{output:?}");
    let expected = "plant.toml:11:1 unknown key \"unit\"; did you mean \"units\"?";
    assert!(
        output.err.contains("plant.toml:11:1 unknown key \"unit\""),
        "{output:?}"
    );
    assert!(output.err.contains("did you mean \"units\"?"), "{output:?}");
    let json = sut.run(&["engine", "reload", "--json"]);
    let problem: Json = serde_json::from_str(&json.err).unwrap();
    assert_eq!(problem["code"], "bad-configuration", "{json:?}");
    // The old library is there, and so is the alarm of the engine.
    sut.out(&["get", "rig/mode"]);
    let until = "value = true";
    sut.out(&["monitor", "_engine/configuration/failing", "--until", until]);
    assert!(
        sut.get("_engine/configuration/error")
            .as_str()
            .unwrap()
            .contains(expected)
    );
    let alarms = sut.out(&["alarm", "ls", "_engine/configuration/failing"]);
    assert!(alarms.contains("failing"), "{alarms}");
    sut.engine
        .error_with(" ERROR trunkline::configuration: the configuration was not reloaded");
    let (status, body) = page(&sut.http, "localhost", "/readyz");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable", "{body}");
    let readiness: Json = serde_json::from_str(&body).unwrap();
    let checks = readiness["checks"].as_array().unwrap();
    let check = checks
        .iter()
        .find(|check| check["name"] == "configuration")
        .unwrap();
    assert!(
        check["reason"].as_str().unwrap().contains(expected),
        "{check}"
    );
    let entries = sut.audited();
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert!(
        entries[0].to_string().contains("unknown key"),
        "{entries:?}"
    );

    sut.write(&config.replace("1000", "2000"));
    let reloaded = sut.reload();
    assert_eq!(list(&reloaded["applied"]), ["audit_entries"], "{reloaded}");
    sut.engine
        .error_with(" INFO trunkline::configuration: the configuration was reloaded");
    assert_eq!(page(&sut.http, "localhost", "/readyz").0, "HTTP/1.1 200 OK");
    let until = "value = false";
    sut.out(&["monitor", "_engine/configuration/failing", "--until", until]);
}

/// A start would refuse these files, even though the I/O servers themselves wait for a restart.
#[test]
fn wrong_io_server_or_item_refuses_the_reload() {
    let io = "[[io]]\nname = \"plc1\"\ndriver = \"sim\"\npublish = false\n";
    let config = format!("{}{io}", rig());
    let sut = Plant::start(&config, &[]);
    let source = "units = \"%\"\nsource = \"plc1:no/such/item\"";
    for (wrong, part) in [
        (
            config.replace("units = \"%\"", source),
            "has no item no/such/item",
        ),
        (config.replace("publish", "publich"), "publich"),
        (config.replace("\"sim\"", "\"none\""), "none"),
    ] {
        sut.write(&wrong.replace("initial = \"auto\"", "initial = \"hand\""));
        let refused = sut.run(&["engine", "reload"]);
        assert_eq!(refused.code, Some(8), "{part}: {refused:?}");
        assert!(refused.err.contains(part), "{part}: {refused:?}");
        assert!(refused.err.contains("plant.toml:"), "{part}: {refused:?}");
    }
    sut.write(&config);
    assert_eq!(sut.reload()["kept"], 2);
}

/// The files are valid, but the engine cannot deploy one of the libraries: then not even the others, and
/// no setting is applied.
#[test]
fn library_that_cannot_be_deployed_leaves_all_others_unchanged() {
    let sut = Plant::start(&rig(), &[]);
    let deployed =
        "[library]\nname = \"spare\"\n\n[[variable]]\nname = \"a\"\ntype = \"u8\"\nnumber = 20\n";
    fs::write(sut.path("spare.toml"), deployed).unwrap();
    let file = sut.path("spare.toml");
    sut.out(&["deploy", file.to_str().unwrap()]);
    let settings = "[engine]\naudit_entries = 1234\n[engine.limits]\nsessions_max = 77\n";
    let changed = settings.to_owned() + &rig().replace("units = \"%\"", "units = \"bar\"");
    sut.write(&changed.replace("name = \"mode\"\n", "name = \"mode\"\nnumber = 20\n"));
    let output = sut.run(&["engine", "reload"]);
    assert_eq!(output.code, Some(8), "{output:?}");
    assert!(output.err.contains("20"), "{output:?}");
    assert!(output.err.contains("spare/a"), "{output:?}");
    assert_eq!(sut.get("rig/level#units"), "%");
    sut.write(&changed);
    let reloaded = sut.reload();
    assert_eq!(reloaded["changed"], 1);
    assert_eq!(
        list(&reloaded["applied"]),
        ["audit_entries", "limits.sessions_max"]
    );
    assert_eq!(sut.get("rig/level#units"), "bar");
}

#[test]
fn settings_are_applied_or_need_a_restart_as_named() {
    let sut = Plant::start(&rig(), &[]);
    let file = format!(
        "[engine]\nname = \"other\"\naudit_entries = 1234\nkeep_alive = \"500ms\"\n\
         [engine.limits]\nsessions_max = 77\nhandshakes_max = 33\nconnections_per_address = 11\n\
         items_per_session_max = 5\nrequest_bytes_max = \"2 MiB\"\nqueue_bytes_max = \"3 MiB\"\n\
         writes_per_session_max = 9\nwrite_bytes_per_session_max = \"4 KiB\"\n\
         [[io]]\nname = \"host\"\ndriver = \"host\"\n{}",
        rig()
    );
    sut.write(&file);
    let shown = sut.out(&["engine", "reload"]);
    let restart = "needs a restart: name, limits.queue_bytes_max, [[io]] host";
    assert_eq!(shown.lines().last(), Some(restart), "{shown}");
    let applied = shown
        .lines()
        .find_map(|line| line.strip_prefix("applied: "));
    let mut applied: Vec<&str> = applied.unwrap().split(", ").collect();
    applied.sort_unstable();
    let expected = [
        "audit_entries",
        "keep_alive",
        "limits.connections_per_address",
        "limits.handshakes_max",
        "limits.items_per_session_max",
        "limits.request_bytes_max",
        "limits.sessions_max",
        "limits.write_bytes_per_session_max",
        "limits.writes_per_session_max",
    ];
    assert_eq!(applied, expected);
    // A new session has the new limits, and the measurements follow.
    let until = "value = 77";
    sut.out(&["monitor", "_engine/sessions_max", "--until", until]);
    let limits = sut.out(&["limits", "--json"]);
    let limit = |key: &str| {
        let lines = limits
            .lines()
            .map(|line| serde_json::from_str::<Json>(line).unwrap());
        let mut found = lines
            .filter(|line| line["key"] == key)
            .map(|line| line["max"].clone());
        found
            .next()
            .unwrap_or_else(|| panic!("{key} is not in {limits}"))
    };
    for (key, value) in [
        ("sessions_max", 77),
        ("handshakes_max", 33),
        ("connections_per_address", 11),
        ("items_per_session_max", 5),
        ("request_bytes_max", 2 << 20),
        ("writes_per_session_max", 9),
        ("write_bytes_per_session_max", 4 << 10),
    ] {
        assert_eq!(limit(key), value, "{key}");
    }
    assert_ne!(limit("queue_bytes_max"), 3 << 20);
    let names = [
        "rig/level",
        "rig/mode",
        "_engine/uptime",
        "_engine/epoch",
        "_engine/sessions",
    ];
    let more = [&["monitor", "--count", "1", "_engine/slots"], &names[..]].concat();
    let refused = sut.run(&more);
    assert!(
        refused.err.contains("items_per_session_max") || refused.err.contains("limit"),
        "{refused:?}"
    );
    assert_eq!(
        sut.get("_engine/configuration/restart"),
        restart.trim_start_matches("needs a restart: ")
    );
    // It is named until the restart.
    let again = sut.reload();
    assert_eq!(list(&again["applied"]), Vec::<&str>::new());
    assert_eq!(
        list(&again["restart"]),
        ["name", "limits.queue_bytes_max", "[[io]] host"]
    );
}

#[test]
fn http_server_follows_its_address_and_its_hosts() {
    let config = |lines: &str| format!("[engine]\n{lines}{}", rig());
    let sut = Plant::start(&config("http = \"127.0.0.1:0\"\n"), &[]);
    let status = |host: &str| page(&sut.http, host, "/healthz").0;
    assert_eq!(status("plant7.example"), "HTTP/1.1 421 Misdirected Request");
    let hosts = "http_hosts = [\"plant7.example\"]\n";
    sut.write(&config(&format!("http = \"127.0.0.1:0\"\n{hosts}")));
    let reloaded = sut.reload();
    assert_eq!(list(&reloaded["applied"]), ["http_hosts"], "{reloaded}");
    assert_eq!(status("plant7.example"), "HTTP/1.1 200 OK");
    // An address that cannot be used is an error of the whole reload.
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    sut.write(&config(&format!(
        "http = \"{address}\"\naudit_entries = 500\n"
    )));
    let refused = sut.run(&["engine", "reload"]);
    assert_eq!(refused.code, Some(8), "{refused:?}");
    assert!(
        refused.err.contains(&address.port().to_string()),
        "{refused:?}"
    );
    assert_eq!(status("plant7.example"), "HTTP/1.1 200 OK");
    drop(holder);
    let reloaded = sut.reload();
    let applied = ["audit_entries", "http", "http_hosts"];
    assert_eq!(list(&reloaded["applied"]), applied, "{reloaded}");
    assert_eq!(
        page(&address.to_string(), "localhost", "/healthz").0,
        "HTTP/1.1 200 OK"
    );
    assert!(
        TcpStream::connect(&sut.http).is_err(),
        "the old server has ended"
    );
}

/// systemd sends SIGHUP for `systemctl reload`. It learns when the reload begins and ends.
#[test]
fn hangup_reloads_and_the_service_manager_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(CUT_OFF)).unwrap();
    let message = || {
        let mut bytes = [0; 4096];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let variables = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    let mut sut = Plant::start_with(&rig(), &[], &variables);
    assert!(message().starts_with("READY=1\n"));
    sut.write(&rig().replace("\"level\"", "\"height\""));
    sut.engine.signal("HUP");
    let reloading = message();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    let ready = message();
    assert!(ready.starts_with("READY=1\nSTATUS=tl://"), "{ready}");
    sut.engine
        .error_with("the configuration was reloaded: 1 added, 1 removed");
    assert_eq!(sut.get("rig/height"), 1.0);

    sut.write("[engine]\nport = 1\n");
    sut.engine.signal("HUP");
    assert!(message().starts_with("RELOADING=1\n"));
    let ready = message();
    assert!(
        ready.contains("plant.toml:2:1 unknown key \"port\""),
        "{ready}"
    );
    sut.engine
        .error_with("the configuration was not reloaded and is unchanged");
    assert_eq!(sut.get("rig/height"), 1.0);
    let who: Vec<Json> = sut.audited();
    assert_eq!(who.len(), 2, "{who:?}");
    assert!(
        who[0]["who"].as_str().unwrap().starts_with("local:"),
        "{who:?}"
    );
    sut.engine.signal("TERM");
    assert_eq!(exit_code(&mut sut.engine.child, "the engine"), Some(0));
}

#[test]
fn level_of_the_log_follows_the_configuration_unless_an_option_sets_it() {
    let config = |level: &str| format!("[engine]\nlog_level = \"{level}\"\n{}", rig());
    let sut = Plant::start(&config("info"), &["--log-format", "text"]);
    sut.engine.error_with("INFO trunkline::engine: listening");
    sut.write(&config("error"));
    assert_eq!(list(&sut.reload()["applied"]), ["log_level"]);
    sut.write(&config("info"));
    sut.reload();
    // The first reload ended with the level `error`, so it was not logged; the second one was.
    let mut lines = vec![sut.engine.error_with("the configuration was reloaded")];
    lines.extend(sut.engine.errors());
    assert_eq!(lines.len(), 1, "{lines:?}");

    let fixed = Plant::start(&config("error"), &["--log-level", "info"]);
    fixed.engine.error_with("INFO trunkline::engine: listening");
}

#[test]
fn engine_without_files_does_not_reload_and_neither_does_another_user() {
    let demo = Running::spawn(&mut command(&["demo", "--listen", "127.0.0.1:0", "--json"]));
    let line: Json = serde_json::from_str(&demo.line()).unwrap();
    let url = line["listen"][0].as_str().unwrap();
    let output = finish(command(&["engine", "reload"]).env("TRUNKLINE_URL", url), "");
    assert_eq!(output.code, Some(6), "{output:?}");
    assert!(output.err.contains("no configuration files"), "{output:?}");

    let plant = crate::accounts::Plant::start();
    let engineer = plant.joined("eve", &["--role", "engineer"]);
    let refused = engineer.run(&["engine", "reload", "--url", &plant.url()]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(
        refused.err.contains("reload the configuration"),
        "{refused:?}"
    );
    plant.manage(&["engine", "reload"]);
}

/// A reload reads the accounts as well, and their errors refuse it.
#[test]
fn accounts_that_cannot_be_read_refuse_the_reload() {
    let plant = crate::accounts::Plant::start();
    let access = plant.path("security/access.toml");
    let good = fs::read_to_string(&access).unwrap();
    fs::write(&access, format!("{good}\n[[user]]\nname = 5\n")).unwrap();
    let config = fs::read_to_string(plant.path("plant.toml")).unwrap();
    let changed = config.replace("units = \"%\"", "units = \"bar\"");
    fs::write(plant.path("plant.toml"), changed).unwrap();
    let refused = plant.own(&["engine", "reload"]);
    assert_eq!(refused.code, Some(8), "{refused:?}");
    assert!(refused.err.contains("access.toml"), "{refused:?}");
    assert!(plant.manage(&["get", "rig/level#units"]).contains('%'));
    fs::write(&access, good).unwrap();
    plant.manage(&["engine", "reload"]);
    assert!(plant.manage(&["get", "rig/level#units"]).contains("bar"));
}
