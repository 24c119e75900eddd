//! Unix sockets: named, or chosen with a port of this machine.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::json_lines::checked;
use crate::rig::{RIG, Running, command, finish, run};

struct Plant {
    folder: TempDir,
}

impl Plant {
    fn new(head: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plant = Self { folder };
        std::fs::write(plant.path("plant.toml"), format!("{head}{RIG}")).unwrap();
        plant
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn listen_at(&self, name: &str) -> String {
        format!("unix:{}", self.path(name).display())
    }

    fn arguments(&self, listen: &str) -> Vec<String> {
        let config = self.path("plant.toml").display().to_string();
        let listen = ["--listen", listen, "--store", "none", "--json"];
        let mut arguments = vec!["serve".to_owned(), config];
        arguments.extend(listen.map(str::to_owned));
        arguments
    }

    /// An engine whose automatic sockets are in the folder, and its startup report.
    fn serve(&self, listen: &str) -> (Running, Json) {
        let arguments = self.arguments(listen);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let engine = Running::spawn(command(&arguments).env("XDG_RUNTIME_DIR", self.folder.path()));
        let told = serde_json::from_str(&engine.line()).unwrap();
        (engine, told)
    }

    /// The connection of a program of the same user, in the same environment.
    fn connection_to(&self, url: &str) -> String {
        let output = finish(
            command(&["why", "--json", "--url", url]).env("XDG_RUNTIME_DIR", self.folder.path()),
            "",
        );
        let lines = output
            .out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let steps: Vec<Json> = lines.collect();
        let step = steps.iter().find(|step| step["step"] == "connection");
        step.expect("a connection")["message"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn an_engine_at_a_socket_is_used_like_any_other() {
    let plant = Plant::new("[engine]\nname = \"plant\"\n");
    let (engine, told) = plant.serve(&plant.listen_at("a.sock"));
    let url = told["listen"][0].as_str().unwrap().to_owned();
    assert_eq!(url, format!("tl+unix://{}", plant.path("a.sock").display()));
    let output = run(&["get", "-t", &format!("{url}/rig/level")]);
    assert_eq!((output.code, output.out.as_str()), (Some(0), "72.4\n"));
    assert_eq!(
        run(&["put", &format!("{url}/rig/setpoint"), "55"]).code,
        Some(0)
    );
    assert_eq!(
        run(&["get", "-t", "rig/setpoint", "--url", &url]).out,
        "55.0\n"
    );
    assert_eq!(
        plant.connection_to(&url),
        "connected to plant over Unix socket"
    );
    engine.signal("TERM");
    assert_eq!(engine.end().0, Some(0));
    assert!(!plant.path("a.sock").exists());
    let output = run(&["get", "rig/level", "--url", &url]);
    assert_eq!(output.code, Some(3), "{}", output.err);
    assert!(
        output.err.contains("the socket does not exist"),
        "{}",
        output.err
    );
}

#[test]
fn a_port_of_this_machine_is_reached_by_its_socket() {
    let plant = Plant::new("[engine]\nname = \"plant\"\n");
    let (engine, told) = plant.serve("127.0.0.1:0");
    let url = told["listen"][0].as_str().unwrap().to_owned();
    let port = url.rsplit(':').next().unwrap();
    let socket = plant.path(&format!("trunkline/{port}.sock"));
    assert_eq!(told["local_sockets"][0], socket.to_str().unwrap());
    let connected = "connected to plant over";
    let shared = format!("{connected} shared memory");
    assert_eq!(plant.connection_to(&url), shared);
    let by_name = format!("tl://localhost:{port}");
    assert_eq!(plant.connection_to(&by_name), shared);
    let by_socket = format!("tl+unix://{}", socket.display());
    assert_eq!(
        plant.connection_to(&by_socket),
        format!("{connected} Unix socket")
    );
    let by_memory = format!("tl+shm://{}", socket.display());
    assert_eq!(plant.connection_to(&by_memory), shared);
    let output = run(&["get", "-t", &format!("{by_memory}/rig/level")]);
    assert_eq!((output.code, output.out.as_str()), (Some(0), "72.4\n"));
    let by_tcp = format!("tl+tcp://127.0.0.1:{port}");
    assert_eq!(plant.connection_to(&by_tcp), format!("{connected} TCP"));
    engine.signal("TERM");
    assert_eq!(engine.end().0, Some(0));
    assert!(is_empty(&plant.path("trunkline")));
}

#[test]
fn shared_memory_can_be_disabled_and_requiring_it_then_fails() {
    let plant = Plant::new("[engine]\nname = \"plant\"\nshared_memory = false\n");
    let (_engine, told) = plant.serve("127.0.0.1:0");
    let url = told["listen"][0].as_str().unwrap();
    assert_eq!(
        plant.connection_to(url),
        "connected to plant over Unix socket (no shared memory: the engine does not accept it)"
    );
    let socket = told["local_sockets"][0].as_str().unwrap();
    let output = run(&["get", &format!("tl+shm://{socket}/rig/level")]);
    assert_eq!(output.code, Some(3), "{}", output.err);
    assert!(
        output.err.contains("the engine does not accept it"),
        "{}",
        output.err
    );
}

#[test]
fn program_without_shared_memory_uses_the_socket_and_says_why() {
    let plant = Plant::new("[engine]\nname = \"plant\"\n");
    let (_engine, told) = plant.serve("127.0.0.1:0");
    let url = told["listen"][0].as_str().unwrap();
    // Output goes to a pipe, which has no size limit.
    let program = command(&[]).get_program().to_owned();
    let mut limited = std::process::Command::new("sh");
    limited
        .args(["-c", "ulimit -f 1; exec \"$0\" why --json --url \"$1\""])
        .arg(program)
        .arg(url)
        .env("XDG_RUNTIME_DIR", plant.folder.path());
    let output = finish(&mut limited, "");
    assert!(
        output.out.contains("over Unix socket (no shared memory: ")
            && output.out.contains("ulimit -f"),
        "{} {}",
        output.out,
        output.err
    );
}

#[test]
fn automatic_local_sockets_can_be_disabled() {
    let plant = Plant::new("[engine]\nname = \"plant\"\nlocal_socket = false\n");
    let (_engine, told) = plant.serve("127.0.0.1:0");
    assert_eq!(told.get("local_sockets"), None);
    let url = told["listen"][0].as_str().unwrap();
    assert_eq!(plant.connection_to(url), "connected to plant over TCP");
    assert!(!plant.path("trunkline").exists());
}

#[test]
fn a_folder_that_others_may_write_in_has_no_sockets() {
    use std::os::unix::fs::PermissionsExt;
    let plant = Plant::new("[engine]\nname = \"plant\"\n");
    let folder = plant.path("trunkline");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let (_engine, told) = plant.serve("127.0.0.1:0");
    assert_eq!(told.get("local_sockets"), None);
    assert!(is_empty(&folder));
}

#[test]
fn socket_of_a_killed_engine_is_replaced_and_of_a_running_one_is_not() {
    let plant = Plant::new("");
    let listen = plant.listen_at("a.sock");
    let (engine, _) = plant.serve(&listen);
    let arguments = plant.arguments(&listen);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let second = run(&arguments);
    assert_eq!(second.code, Some(1), "{}", second.err);
    let told: Json = serde_json::from_str(second.err.trim()).unwrap();
    assert_eq!(told["code"], "socket-taken");
    engine.signal("KILL");
    engine.end();
    assert!(plant.path("a.sock").exists());
    let (_engine, told) = plant.serve(&listen);
    let url = format!("{}/rig/level", told["listen"][0].as_str().unwrap());
    assert_eq!(run(&["get", "-t", &url]).out, "72.4\n");
}

#[test]
fn invalid_socket_is_refused_with_the_reason() {
    let long = format!("unix:/{}.sock", "a".repeat(120));
    for (listen, code, expected) in [
        ("unix:plant.sock", 2, "is not an absolute path"),
        ("unix:/tmp/plant", 2, "does not end in .sock"),
        (long.as_str(), 2, "the limit is 107"),
        ("unix:/no/such/folder/a.sock", 1, "does not exist"),
    ] {
        let plant = Plant::new("");
        let arguments = plant.arguments(listen);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(&arguments);
        assert_eq!(output.code, Some(code), "{listen}: {}", output.err);
        assert!(output.err.contains(expected), "{listen}: {}", output.err);
    }
    let output = run(&["get", "rig/level", "--url", "tl+unix://plant"]);
    assert!(
        output.err.contains("is not an absolute path"),
        "{}",
        output.err
    );
}

#[test]
fn info_shows_the_readers_of_a_variable_and_their_transport() {
    let plant = Plant::new("");
    let (_engine, told) = plant.serve("127.0.0.1:0");
    let url = told["listen"][0].as_str().unwrap().to_owned();
    let by_port = url.replace("tl://", "tl+tcp://");
    let follow = |url: &str| {
        let mut monitor = command(&["monitor", "rig/level", "--url", url]);
        let monitor = Running::spawn(monitor.env("XDG_RUNTIME_DIR", plant.path("")));
        monitor.line_with("72.4");
        monitor
    };
    let monitors = [follow(&by_port), follow(&url)];
    let output = run(&["info", "--json", "rig/level", "--url", &by_port]);
    let info = &checked(&output.out, Some("info"))[0];
    let readers = info["readers"].as_array().unwrap();
    let over = |reader: &Json| reader["transport"].as_str().unwrap().to_owned();
    let transports: Vec<String> = readers.iter().map(over).collect();
    assert_eq!(transports, ["TCP", "shared memory"]);
    for (reader, process) in readers.iter().zip(&monitors) {
        assert_eq!(reader["repaired"], 0);
        assert_ne!(reader["session"], 0);
        let from = reader["from"].as_str().unwrap();
        let pid = format!("process {} of", process.child.id());
        let is_named = from.starts_with("127.0.0.1:") || from.starts_with(&pid);
        assert!(is_named, "{from}");
    }
    let output = run(&["info", "-o", "table", "rig/level", "--url", &by_port]);
    let line = output.out.lines().find(|line| line.contains("read by"));
    assert!(
        line.unwrap().ends_with(" over shared memory"),
        "{}",
        output.out
    );
}
