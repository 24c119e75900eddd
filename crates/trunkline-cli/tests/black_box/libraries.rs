//! Libraries are deployed and removed by command, and survive a restart of the engine after any
//! kind of end.

use std::path::{Path, PathBuf};

use crate::rig::{Output, Running, Served, command, exit_code, finish, run};

const BENCH: &str = "[library]\nname = \"bench\"\ndescription = \"Bench supply\"\n\n\
    [defaults]\nretain = true\n\n\
    [[variable]]\nname = \"volts\"\ntype = \"f64\"\nunits = \"V\"\ninitial = 5.0\n\n\
    [[variable]]\nname = \"on\"\ntype = \"bool\"\n";

/// An engine with a store and without a configuration file.
pub struct Stored {
    pub engine: Running,
    url: String,
    store: PathBuf,
}

impl Stored {
    pub fn start(store: &Path) -> Self {
        let path = store.to_str().unwrap();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--store", path];
        let engine = Running::start(&arguments);
        let line = engine.line_with("Listening on tl://");
        let url = line
            .split(' ')
            .find(|word| word.starts_with("tl://"))
            .unwrap();
        Self {
            url: url.to_owned(),
            engine,
            store: store.to_owned(),
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        finish(command(arguments).env("TRUNKLINE_URL", &self.url), "")
    }

    /// Ends the engine as the system does when nothing else helps, and starts it again.
    pub fn kill_and_restart(mut self) -> Self {
        self.engine.child.kill().unwrap();
        exit_code(&mut self.engine.child, "the engine");
        Self::start(&self.store)
    }
}

fn folder() -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let bench = folder.path().join("bench.toml");
    std::fs::write(&bench, BENCH).unwrap();
    let store = folder.path().join("store.db");
    (folder, store, bench.to_str().unwrap().to_owned())
}

/// Behaviour: DP-05, DP-06, DP-07.
#[test]
fn a_library_that_was_deployed_by_command_outlives_the_engine() {
    let (_folder, store, bench) = folder();
    let engine = Stored::start(&store);
    let deployed = engine.run(&["deploy", &bench]);
    assert_eq!(
        (deployed.code, deployed.out.as_str()),
        (Some(0), "bench\tdeployed\t2 new\n")
    );
    assert_eq!(engine.run(&["put", "bench/on", "true"]).code, Some(0));

    let engine = engine.kill_and_restart();
    assert_eq!(engine.run(&["get", "-t", "bench/volts"]).out, "5.0\n");
    assert_eq!(
        engine.run(&["undeploy", "--yes", "bench"]).out,
        "bench\tundeployed\t2 gone\n"
    );

    let engine = engine.kill_and_restart();
    let gone = engine.run(&["get", "bench/volts"]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.err.contains("not found"), "{gone:?}");
}

/// A value counts as kept a second after it was written, however the engine ends.
#[test]
fn newest_values_survive_an_orderly_stop() {
    let (_folder, store, bench) = folder();
    let mut engine = Stored::start(&store);
    assert_eq!(engine.run(&["deploy", &bench]).code, Some(0));
    assert_eq!(engine.run(&["put", "bench/volts", "12.5"]).code, Some(0));
    engine.engine.signal("TERM");
    let code = exit_code(&mut engine.engine.child, "the engine");
    assert_eq!(code, Some(0));
    let engine = Stored::start(&store);
    let read = engine.run(&["get", "-o", "jsonl", "bench/volts"]).out;
    assert!(read.contains("\"value\":12.5"), "{read}");
    assert!(read.contains("retained"), "{read}");
}

#[test]
fn failed_orders_report_the_reason() {
    let (_folder, store, bench) = folder();
    let engine = Stored::start(&store);
    assert_eq!(engine.run(&["deploy", &bench]).code, Some(0));
    let again = engine.run(&["deploy", &bench]);
    assert_eq!(again.code, Some(6));
    let told = "already deployed (use --replace, or undeploy it first)";
    assert!(again.err.contains(told), "{again:?}");
    let replaced = engine.run(&["deploy", "--replace", &bench]);
    assert_eq!(
        (replaced.code, replaced.out.as_str()),
        (Some(0), "bench\tdeployed\t2 unchanged\n")
    );
    let unknown = engine.run(&["undeploy", "--yes", "bnech", "bench"]);
    assert_eq!(unknown.code, Some(1), "the other one is undeployed");
    assert!(
        unknown.out.contains("bench\tundeployed\t2 gone"),
        "{unknown:?}"
    );

    let watched = Served::rig();
    let monitor = watched.spawn(&["monitor", "rig/level"]);
    monitor.line();
    let used = watched.run(&["undeploy", "--yes", "rig"]);
    assert_eq!(used.code, Some(6));
    assert!(used.err.contains("in use by 1 subscription ("), "{used:?}");
    assert_eq!(watched.run(&["undeploy", "--force", "rig"]).code, Some(0));
    monitor.error_with("rig/level");
}

#[test]
fn a_library_with_variables_is_undeployed_only_on_confirmation() {
    let served = Served::rig();
    let asked = served.run(&["undeploy", "rig"]);
    assert_eq!(asked.code, Some(6), "{asked:?}");
    assert!(
        asked.err.contains("the library has 12 variables")
            && asked.err.contains("use --yes to undeploy it"),
        "{asked:?}"
    );
    assert_eq!(served.run(&["get", "-t", "rig/level"]).out, "72.4\n");
    let unknown = served.run(&["undeploy", "gir"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert_eq!(served.run(&["undeploy", "--yes", "rig"]).code, Some(0));
}

/// Behaviour: DP-16.
#[test]
fn a_stopped_library_is_named_as_the_cause() {
    let served = Served::rig();
    let stopped = served.run(&["library", "stop", "rig"]);
    assert_eq!(
        (stopped.code, stopped.out.as_str()),
        (Some(0), "rig\tstopped\t12 changed\n")
    );
    let refused = served.run(&["put", "rig/level", "50"]);
    assert_eq!(refused.code, Some(6));
    let why = served.run(&["why", "rig/level"]);
    assert_eq!(why.code, Some(8));
    assert!(why.out.contains("trunkline library start rig"), "{why:?}");
    assert_eq!(served.run(&["library", "start", "rig"]).code, Some(0));
    assert_eq!(served.run(&["put", "rig/level", "50"]).code, Some(0));
}

#[test]
fn an_engine_whose_store_is_taken_or_damaged_does_not_start() {
    let (folder, store, _) = folder();
    let _first = Stored::start(&store);
    let serve = |store: &Path| {
        let path = store.to_str().unwrap();
        run(&["serve", "--listen", "127.0.0.1:0", "--store", path])
    };
    let taken = serve(&store);
    assert_eq!(taken.code, Some(1));
    assert!(taken.err.contains("in use by another engine"), "{taken:?}");
    let letter = folder.path().join("letter");
    std::fs::write(&letter, "Dear engine, ".repeat(100)).unwrap();
    let damaged = serve(&letter);
    assert_eq!(damaged.code, Some(1));
    assert!(damaged.err.contains("is damaged"), "{damaged:?}");
}

/// Without `--store` an engine on a fixed port keeps deployed libraries in the user's folder.
#[test]
fn the_store_of_an_engine_is_named_after_its_port() {
    let (folder, _, _) = folder();
    let state = folder.path().join("state");
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port().to_string()
    };
    let mut serve = command(&["serve", "--listen", &port]);
    let engine = Running::spawn(serve.env("XDG_STATE_HOME", &state));
    engine.line_with("Listening on tl://");
    assert!(state.join(format!("trunkline/engine-{port}.db")).is_file());
}
