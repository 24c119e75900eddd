//! `serve` and `demo`: what they say, how they start and stop, what keeps them from it.

use serde_json::Value as Json;

use crate::rig::{RIG, Running, Served, command, finish, run, serve};

#[test]
fn serve_prints_what_it_serves_and_where() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.toml"), RIG).unwrap();
    std::fs::write(
        folder.path().join("b.toml"),
        "[[io]]\nname = \"sim\"\ndriver = \"sim\"\n",
    )
    .unwrap();
    let sut = Running::start(&["serve", folder.path().to_str().unwrap(), "--listen", "0"]);
    let first = sut.line();
    assert!(
        first.starts_with("trunkline ") && first.ends_with(" variables"),
        "{first}"
    );
    assert!(sut.line_with("rig ").ends_with("12 variables   Test rig"));
    assert_eq!(sut.line_with("I/O server"), "  I/O server sim (sim)");
    assert!(sut.line().starts_with("Listening on tl://127.0.0.1:"));
    sut.signal("INT");
    assert_eq!(
        sut.end(),
        (Some(0), vec![]),
        "to be stopped is what servers are there for"
    );
}

#[test]
fn serve_prints_json_on_request() {
    let rig = Served::rig();
    let path = rig.folder.path().join("plant.toml");
    let sut = Running::start(&["serve", path.to_str().unwrap(), "--listen", "0", "--json"]);
    let told: Json = serde_json::from_str(&sut.line()).unwrap();
    assert_eq!(
        (&told["event"], &told["variables"]),
        (&"serving".into(), &12.into())
    );
    let url = told["listen"][0].as_str().unwrap();
    assert_eq!(
        run(&["get", "-t", &format!("{url}/rig/level")]).out,
        "72.4\n"
    );
}

#[test]
fn every_configuration_error_is_reported_with_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plant.toml");
    let text = "[library]\nname = \"a\"\n[[variable]]\nname = \"x\"\ntype = \"f64\"\nunit = \"%\"\n\
                [[variable]]\nname = \"x\"\ntype = \"f46\"\n";
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let output = run(&["serve", path]);
    assert_eq!((output.code, output.out.as_str()), (Some(8), ""));
    let first = format!("{path}:6:1 unknown key \"unit\"; did you mean \"units\"?");
    assert!(
        output.err.lines().any(|line| line == first),
        "{}",
        output.err
    );
    assert!(output.err.contains(&format!("{path}:9:")), "{}", output.err);
    let json = run(&["serve", "--json", path]);
    let error: Json = serde_json::from_str(json.err.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&error["code"], json.code),
        (&"unknown-key".into(), Some(8))
    );
    assert_eq!(error["hint"], "did you mean \"units\"?");
}

#[test]
fn refusal_of_an_io_server_is_reported_with_its_position() {
    for (section, part) in [
        ("[[io]]\nname = \"s\"\ndriver = \"sym\"\n", "plant.toml:1"),
        (
            "[[io]]\nname = \"s\"\ndriver = \"sim\"\nseeed = 1\n",
            "plant.toml:4:",
        ),
        (
            "[[io]]\nname = \"s\"\ndriver = \"sim\"\nseed = \"x\"\n",
            "plant.toml:4:",
        ),
        (
            "[[io]]\nname = \"s\"\ndriver = \"sim\"\n[library]\nname = \"a\"\n[[variable]]\n\
             name = \"x\"\ntype = \"f64\"\nsource = \"s:nothing\"\n",
            "no item nothing",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plant.toml");
        std::fs::write(&path, section).unwrap();
        let output = run(&["serve", path.to_str().unwrap(), "--listen", "0"]);
        assert_eq!(output.code, Some(8), "{section}: {}", output.err);
        assert!(output.err.contains(part), "{part}: {}", output.err);
    }
}

#[test]
fn missing_files_and_invalid_addresses_are_refused() {
    let missing = run(&["serve", "no-such-folder"]);
    assert_eq!(missing.code, Some(8));
    assert!(
        missing.err.contains("no-such-folder does not exist"),
        "{}",
        missing.err
    );
    assert_eq!(run(&["serve", "x.toml", "--listen", "here"]).code, Some(2));
}

#[test]
fn port_in_use_is_reported_without_affecting_its_engine() {
    let rig = Served::rig();
    let address = rig.url.strip_prefix("tl://").unwrap();
    let path = rig.folder.path().join("plant.toml");
    for arguments in [&["serve", path.to_str().unwrap()][..], &["demo"]] {
        let output = run(&[arguments, &["--listen", address]].concat());
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(1), ""),
            "{arguments:?}"
        );
        assert!(
            output.err.contains("is in use by another program"),
            "{}",
            output.err
        );
        assert!(output.err.contains("choose another port"), "{}", output.err);
    }
    assert_eq!(rig.run(&["get", "-t", "rig/level"]).out, "72.4\n");
}

#[test]
fn reachable_address_requires_insecure() {
    let rig = Served::rig();
    let path = rig.folder.path().join("plant.toml");
    let path = path.to_str().unwrap();
    for command in [&["serve", path][..], &["demo"]] {
        let output = run(&[command, &["--listen", "0.0.0.0:0"]].concat());
        assert_eq!(
            (output.code, output.out.as_str()),
            (Some(5), ""),
            "{command:?}"
        );
        assert!(output.err.contains("insecure = true"), "{}", output.err);
    }
    let sut = Running::start(&["serve", path, "--listen", "0.0.0.0:0", "--insecure"]);
    assert!(
        sut.error_with("*** insecure")
            .contains("may read and write every variable")
    );
}

/// The engine may be on another machine, unless the URL says loopback. `127.1` is a spelling of a loopback
/// address that only the resolver of the system understands.
///
/// Behaviour: B-80.
#[test]
fn unencrypted_connection_beyond_the_machine_has_a_warning() {
    let served = Served::rig();
    let port = served.url.rsplit_once(':').unwrap().1;
    for (host, has_warning) in [("127.0.0.1", false), ("localhost", false), ("127.1", true)] {
        let url = format!("tl://{host}:{port}");
        let output = run(&["get", "-t", "rig/level", "--url", &url]);
        assert_eq!(output.out, "72.4\n", "{url}: {}", output.err);
        let warning = format!("the connection to {host}:{port} is not encrypted");
        assert_eq!(output.err.contains(&warning), has_warning, "{}", output.err);
    }
}

#[test]
fn demo_values_change_and_its_examples_work() {
    let sut = Running::start(&["demo", "--listen", "127.0.0.1:0"]);
    assert!(
        sut.line()
            .contains("simulated boiler house and this machine")
    );
    let mut to_try = Vec::new();
    sut.line_with("Try this in another terminal");
    loop {
        let line = sut.line();
        match line.trim() {
            "" => break,
            command => to_try.push(command.to_owned()),
        }
    }
    let moves = sut.line_with("boiler/level is updating: ");
    let (before, after) = moves
        .rsplit_once("is updating: ")
        .unwrap()
        .1
        .split_once(" → ")
        .unwrap();
    assert_ne!(before, after.trim_end_matches(" %"));
    sut.line_with("Listening on tl://127.0.0.1:");
    let script = to_try.join("\n").replace("monitor", "monitor --count 2");
    let mut shell = std::process::Command::new("sh");
    let output = crate::rig::finish(
        shell
            .args(["-e", "-c", &script])
            .env("TRUNKLINE_TIMEOUT", "60s"),
        "",
    );
    assert_eq!(
        output.code,
        Some(0),
        "{script}\n{}{}",
        output.out,
        output.err
    );
    for part in [
        "host/cpu/total",
        "boiler/feed",
        "Nothing prevents boiler/level from updating.",
    ] {
        assert!(output.out.contains(part), "{part}\n{}", output.out);
    }
    sut.signal("TERM");
    assert_eq!(sut.end().0, Some(0));
}

/// The configuration that `init` writes is accepted unchanged, and its values are served.
#[test]
fn init_writes_a_valid_configuration_and_overwrites_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plant.toml");
    let file = path.to_str().unwrap();
    let made = run(&["init", file]);
    assert_eq!((made.code, made.out.as_str()), (Some(0), ""), "{made:?}");
    assert!(made.err.contains("trunkline serve"), "{made:?}");
    let text = std::fs::read_to_string(&path).unwrap();
    let (_engine, url) = serve(&path, "127.0.0.1:0");
    let served = |arguments: &[&str]| finish(command(arguments).env("TRUNKLINE_URL", &url), "");
    let get = |name: &str| served(&["get", "-t", name]).out;
    assert_eq!(get("tank/level"), "50.0\n", "12 mA of 4 to 20, scaled");
    assert_eq!(served(&["put", "tank/raw/level", "8"]).code, Some(0));
    assert_eq!(get("tank/level"), "25.0\n");
    assert_eq!(served(&["put", "tank/setpoint", "101"]).code, Some(6));
    assert_eq!(served(&["ls", "host"]).code, Some(0));

    std::fs::write(&path, "# mine\n").unwrap();
    let refused = run(&["init", file]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("use --force to replace it"),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\n");
    assert_eq!(run(&["init", file, "--force"]).code, Some(0));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn keys_of_a_configuration_are_listed_by_help_and_by_errors() {
    let all = run(&["help", "config"]).out;
    let limits = run(&["help", "config", "engine.limits"]).out;
    assert!(
        all.contains(&limits) && all.contains("[[variable]]\n"),
        "{all}"
    );
    assert!(
        limits.starts_with("[engine.limits]\n  sessions_max: "),
        "{limits}"
    );
    let none = run(&["help", "config", "nothing"]);
    assert_eq!(none.code, Some(2));
    assert!(none.err.contains("engine.limits"), "{none:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plant.toml");
    std::fs::write(&path, "[library]\nfrobnicate = 1\n").unwrap();
    let refused = run(&["serve", path.to_str().unwrap()]);
    assert!(
        refused
            .err
            .contains("unknown key \"frobnicate\"; the keys here are name, description"),
        "{refused:?}"
    );
}

/// A plain service has no HOME: the engine runs, and reports that it stores nothing.
#[test]
fn serve_without_a_home_reports_that_nothing_is_stored() {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port().to_string()
    };
    let mut serve = command(&["serve", "--listen", &port]);
    for variable in ["HOME", "XDG_STATE_HOME", "STATE_DIRECTORY"] {
        serve.env_remove(variable);
    }
    let engine = Running::spawn(&mut serve);
    let said = engine.error_with("no values or deployments survive a restart");
    assert!(said.contains("--store"), "{said}");
    engine.line_with("Listening on tl://");
}
