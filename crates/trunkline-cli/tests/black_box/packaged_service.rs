//! The service of the Debian package: its unit, and the configuration that it starts with.

use std::path::{Path, PathBuf};

use crate::rig::{Running, command, exit_code};

/// A file of the folder `packaging`.
fn packaged(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path: PathBuf = root.join("packaging").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The only value of a key of the unit.
fn setting<'a>(unit: &'a str, key: &str) -> &'a str {
    let mut values = unit
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let value = values.next().expect(key);
    assert_eq!(values.next(), None, "{key} is set twice");
    value
}

/// Behaviour: DP-08.
#[test]
fn service_starts_with_the_system_and_runs_an_engine() {
    let unit = packaged("systemd/trunkline.service");
    assert_eq!(setting(&unit, "WantedBy"), "multi-user.target");
    let folder = tempfile::tempdir().unwrap();
    let configuration = folder.path().join("etc");
    std::fs::create_dir(&configuration).unwrap();
    let file = configuration.join("trunkline.toml");
    std::fs::write(file, packaged("deb/trunkline.toml")).unwrap();
    let mut words: Vec<&str> = setting(&unit, "ExecStart").split(' ').collect();
    assert_eq!(words.remove(0), "/usr/bin/trunkline");
    for word in &mut words {
        if *word == "/etc/trunkline" {
            *word = configuration.to_str().unwrap();
        }
    }
    // The port of the configuration may be in use here.
    words.extend(["--listen", "127.0.0.1:0"]);
    let mut engine = Running::spawn(command(&words).env("STATE_DIRECTORY", folder.path()));
    engine.line_with("Listening on tl://127.0.0.1:");
    engine.signal("TERM");
    assert_eq!(exit_code(&mut engine.child, "the engine"), Some(0));
}

/// systemd does not restart the service after these exit codes.
#[test]
fn service_stays_stopped_while_its_configuration_is_wrong() {
    let unit = packaged("systemd/trunkline.service");
    let final_codes: Vec<&str> = setting(&unit, "RestartPreventExitStatus")
        .split(' ')
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for text in ["[engine]\nlisten = [\"0.0.0.0\"]\n", "[engine]\nport = 1\n"] {
        std::fs::write(folder.path().join("a.toml"), text).unwrap();
        let output = crate::rig::run(&["serve", path, "--store", "none"]);
        let code = output.code.unwrap().to_string();
        assert!(final_codes.contains(&code.as_str()), "{code}: {text}");
    }
}
