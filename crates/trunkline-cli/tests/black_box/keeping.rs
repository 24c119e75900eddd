//! An engine's reports on its store and its access rules.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::rig::{Output, Running, command, finish};

const BENCH: &str = "[library]\nname = \"bench\"\n\n\
    [[variable]]\nname = \"volts\"\ntype = \"f64\"\ninitial = 5.0\nretain = true\n";

/// A configuration file and the command that serves it, without any variable of the environment.
fn serve(folder: &Path, arguments: &[&str]) -> Command {
    let bench = folder.join("bench.toml");
    std::fs::write(&bench, BENCH).unwrap();
    let mut serve = command(&["serve", bench.to_str().unwrap()]);
    serve.args(arguments).env_clear();
    serve
}

/// A port that was free a moment ago.
fn port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

#[test]
fn engine_without_a_home_reports_that_it_stores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Running::spawn(&mut serve(folder.path(), &["--listen", &port()]));
    let told = engine.error_with("no values or deployments survive a restart");
    assert!(
        told.contains("--store") && told.contains("STATE_DIRECTORY"),
        "{told}"
    );
    let socket = format!("unix:{}", folder.path().join("engine.sock").display());
    let engine = Running::spawn(&mut serve(folder.path(), &["--listen", &socket]));
    engine.error_with("although variables have `retain`");
}

#[test]
fn an_engine_uses_the_folder_of_its_service() {
    let folder = tempfile::tempdir().unwrap();
    let port = port();
    let mut serve = serve(folder.path(), &["--listen", &port]);
    let engine = Running::spawn(serve.env("STATE_DIRECTORY", folder.path()));
    let told = engine.line_with("Store: ");
    let file = folder.path().join(format!("engine-{port}.db"));
    assert!(told.ends_with(file.to_str().unwrap()), "{told}");
    assert!(file.exists());
}

/// Without accounts, other users of the machine have no identity. `--same-user` refuses them before
/// the login, also if they have an account.
#[test]
fn other_users_of_the_machine_are_refused() {
    for (same_user, code) in [
        (&["--same-user"][..], r#""code":"denied""#),
        (&[], r#""code":"not-authenticated""#),
    ] {
        check_other_user(same_user, code);
    }
}

#[allow(clippy::print_stdout, reason = "a test prints what it skips")]
fn check_other_user(same_user: &[&str], code: &str) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--store", "none"];
    let arguments = [&arguments[..], same_user].concat();
    let engine = Running::spawn(&mut serve(folder.path(), &arguments));
    let line = engine.line_with("Listening on tl://");
    let url = line
        .split(' ')
        .find(|word| word.starts_with("tl://"))
        .unwrap();
    let run = |command: &mut Command| -> Output {
        finish(
            command
                .env("TRUNKLINE_URL", url)
                .env("XDG_CONFIG_HOME", "/nonexistent"),
            "",
        )
    };
    assert_eq!(
        run(&mut command(&["get", "-t", "bench/volts"])).out,
        "5.0\n"
    );
    // As another user, if this one may switch to it.
    let program = env!("CARGO_BIN_EXE_trunkline");
    let mut other = Command::new("setpriv");
    other.args([
        "--reuid=65534",
        "--clear-groups",
        program,
        "--json",
        "get",
        "bench/volts",
    ]);
    let may_run = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", program, "--version"])
        .output();
    if !may_run.is_ok_and(|ran| ran.status.success()) {
        println!("skipped, because this test may not run the program as another user");
        return;
    }
    let refused = run(&mut other);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("user 65534"), "{refused:?}");
    // A client does not dial again after `denied`, because only a person can change the user.
    assert!(refused.err.contains(code), "{refused:?}");
}

#[test]
fn removed_store_is_reported_while_running_and_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--store",
        store.to_str().unwrap(),
    ];
    let mut engine = Running::spawn(&mut serve(folder.path(), &arguments));
    engine.line_with("Listening on");
    std::fs::remove_file(&store).unwrap();
    engine.error_with("was removed or replaced while this engine was using it");
    engine.signal("TERM");
    assert_eq!(engine.child.wait().unwrap().code(), Some(1));
}

#[test]
fn engine_waiting_for_its_store_reports_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--store",
        store.to_str().unwrap(),
    ];
    let mut first = Running::spawn(&mut serve(folder.path(), &arguments));
    first.line_with("Listening on");
    let second = Running::spawn(&mut serve(folder.path(), &arguments));
    second.error_with("in use by another engine; waiting up to 5 s");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    second.line_with("Listening on");
}
