//! An engine as a service: what it tells the service manager.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use tempfile::TempDir;

use crate::rig::{CUT_OFF, RIG, Running, command, exit_code};

/// A service manager that takes messages, and a configuration.
struct Manager {
    socket: UnixDatagram,
    folder: TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plant.toml"), RIG).unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(CUT_OFF)).unwrap();
        Self { socket, folder }
    }

    fn path(&self, name: &str) -> String {
        let path: &Path = self.folder.path();
        path.join(name).to_str().unwrap().to_owned()
    }

    fn serve(&self, store: &str, variables: &[(&str, &str)]) -> Running {
        let file = self.path("plant.toml");
        let arguments = ["serve", &file, "--listen", "127.0.0.1:0", "--store", store];
        let mut serve = command(&arguments);
        serve.env("NOTIFY_SOCKET", self.path("notify"));
        Running::spawn(serve.envs(variables.iter().copied()))
    }

    fn message(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// The next message that is not a sign of life.
    fn report(&self) -> String {
        loop {
            let message = self.message();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }
}

#[test]
fn service_reports_when_it_is_ready_and_when_it_stops() {
    let sut = Manager::new();
    let mut engine = sut.serve("none", &[]);
    let ready = sut.message();
    let line = engine.line_with("Listening on");
    let url = line
        .split(' ')
        .find(|word| word.starts_with("tl://"))
        .unwrap();
    assert_eq!(ready, format!("READY=1\nSTATUS={url}, 12 variables"));
    engine.signal("TERM");
    assert_eq!(sut.message(), "STOPPING=1\nSTATUS=Stopping");
    assert_eq!(exit_code(&mut engine.child, "the engine"), Some(0));
}

#[test]
fn service_gives_signs_of_life_if_the_manager_asks_for_them() {
    let sut = Manager::new();
    let _engine = sut.serve("none", &[("WATCHDOG_USEC", "200000")]);
    assert!(sut.report().starts_with("READY=1\n"));
    for _ in 0..3 {
        assert_eq!(sut.message(), "WATCHDOG=1");
    }
}

#[test]
fn status_of_the_service_is_its_failure_until_it_recovers() {
    let sut = Manager::new();
    let store = sut.path("store.db");
    let engine = sut.serve(&store, &[]);
    assert!(sut.message().starts_with("READY=1\n"));
    std::fs::rename(&store, sut.path("elsewhere.db")).unwrap();
    let status = sut.message();
    assert!(
        status.starts_with("STATUS=") && status.contains("was removed or replaced"),
        "{status}"
    );
    std::fs::rename(sut.path("elsewhere.db"), &store).unwrap();
    let status = sut.message();
    assert!(status.ends_with(", 12 variables"), "{status}");
    engine.error_with("the store works again");
}

#[test]
fn socket_that_cannot_be_used_is_an_error_before_the_engine_starts() {
    let sut = Manager::new();
    let mut engine = sut.serve("none", &[("NOTIFY_SOCKET", "vsock:2:1")]);
    engine.error_with("NOTIFY_SOCKET is vsock:2:1");
    assert_eq!(exit_code(&mut engine.child, "the engine"), Some(1));
}

/// Serves with these options and a store that is removed, then stops the engine. Returns the line of
/// the failure, and the next line with `last`.
fn log_of_a_failure(options: &[&str], variables: &[(&str, &str)], last: &str) -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, store) = (path("plant.toml"), path("store.db"));
    std::fs::write(&file, RIG).unwrap();
    let arguments = ["serve", &file, "--listen", "127.0.0.1:0", "--store", &store];
    let mut serve = command(&[&arguments[..], options].concat());
    let mut engine = Running::spawn(serve.envs(variables.iter().copied()));
    engine.line_with("Listening on");
    std::fs::remove_file(&store).unwrap();
    let failure = engine.error_with("was removed or replaced");
    engine.signal("TERM");
    assert_eq!(exit_code(&mut engine.child, "the engine"), Some(1));
    [failure, engine.error_with(last)]
}

#[test]
fn log_has_a_line_per_event_in_text_and_json() {
    let lines = log_of_a_failure(&["--log-format", "text"], &[], ": stopping");
    let (time, rest) = lines[0].split_once(' ').unwrap();
    assert!(time.ends_with('Z') && time.contains('T'), "{lines:?}");
    let expected = "ERROR trunkline::store: new retained values and deployments will not survive";
    assert!(rest.starts_with(expected), "{lines:?}");
    assert!(
        lines[1].ends_with(" INFO trunkline::engine: stopping"),
        "{lines:?}"
    );

    let lines = log_of_a_failure(&["--log-format", "json"], &[], "stopping");
    let event: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(event["level"], "error");
    assert_eq!(event["target"], "trunkline::store");
    assert!(
        event["message"]
            .as_str()
            .unwrap()
            .contains("was removed or replaced")
    );
    assert!(event["time"].as_str().unwrap().ends_with('Z'));
    assert_eq!(event["fields"], serde_json::json!({}));
}

#[test]
fn log_level_selects_events_and_can_come_from_the_environment() {
    let level = [("TRUNKLINE_LOG", "error")];
    let lines = log_of_a_failure(&["--log-format", "text"], &level, "were not saved");
    assert!(lines[0].contains(" ERROR trunkline::store: "), "{lines:?}");
    // The problem at the end is not an event, and `stopping` is below the level.
    assert!(lines[1].starts_with("error: "), "{lines:?}");
}

#[test]
fn log_has_the_start_with_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plant.toml");
    std::fs::write(&file, format!("[engine]\nname = \"plant 7\"\n{RIG}")).unwrap();
    let engine = Running::start(&[
        "serve",
        file.to_str().unwrap(),
        "--listen",
        "0.0.0.0:0",
        "--insecure",
        "--store",
        "none",
        "--log-format",
        "json",
    ]);
    let line = engine.line_with("Listening on");
    let url = line
        .split(' ')
        .find(|word| word.starts_with("tl://"))
        .unwrap();
    let starting: serde_json::Value = serde_json::from_str(&engine.error_with("starting")).unwrap();
    assert_eq!(starting["fields"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(starting["fields"]["pid"], engine.child.id());
    let event: serde_json::Value = serde_json::from_str(&engine.error_with("listening")).unwrap();
    let fields = serde_json::json!({ "engine": "plant 7", "urls": url, "variables": 12 });
    assert_eq!(event["fields"], fields);
    let warning: serde_json::Value =
        serde_json::from_str(&engine.error_with("insecure: anyone who can reach")).unwrap();
    assert_eq!(warning["level"], "warn");
}
