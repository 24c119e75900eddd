//! The examples of configuration files are files that an engine serves.

use std::path::Path;

use tempfile::TempDir;

use crate::rig::{Served, run, serve};

/// Copies the examples, since an engine writes beside its configuration.
fn examples() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config");
    for entry in std::fs::read_dir(examples).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    // The port is not free on every machine, and the folder is the reader's own.
    let all_keys = folder.path().join("all-keys.toml");
    let text = std::fs::read_to_string(&all_keys).unwrap();
    let text = text.replace("127.0.0.1:8420", "127.0.0.1:0");
    std::fs::write(&all_keys, text.replace("security = \"security\"\n", "")).unwrap();
    folder
}

#[test]
fn example_of_every_key_is_served() {
    let folder = examples();
    let (_engine, url) = serve(&folder.path().join("all-keys.toml"), "127.0.0.1:0");
    let has = |path: &str, part: &str| {
        let read = run(&["get", &format!("{url}/boiler/{path}")]);
        assert_eq!(read.code, Some(0), "{path}: {read:?}");
        assert!(read.out.contains(part), "{path}: {read:?}");
    };
    has("pump/mode", "AUTO");
    has("profile", "[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]");
    has("recipe", "Soft start");
    has("vibration", "initial");
    // The deliveries of the I/O server for a variable of the file, of a template and of a CSV row.
    for path in [
        "level",
        "zone4/temperature",
        "door/south",
        "valves/FV108/open",
    ] {
        let url = format!("{url}/boiler/{path}");
        let waited = run(&["monitor", "--until", "quality = good", &url]);
        assert_eq!(waited.code, Some(0), "{path}: {waited:?}");
    }
}

/// Behaviour: DP-02.
#[test]
fn all_examples_are_served_together() {
    let folder = examples();
    let (_engine, url) = serve(folder.path(), "127.0.0.1:0");
    let libraries = run(&["ls", &url]);
    for name in ["boiler", "minimal", "plant"] {
        assert!(libraries.out.contains(name), "{libraries:?}");
    }
}

#[test]
fn invalid_libraries_are_refused_with_their_line() {
    let served = Served::rig();
    let config = "[library]\nname = \"plant\"\n[[variable]]\nname = \"profile\"\n\
                  type = \"array(f32, 3, *)\"\nfifo = { kind = \"single\", length = 300 }\n";
    let refused = run(&[
        "serve",
        &served.file("late.toml", config),
        "--store",
        "none",
    ]);
    assert_eq!(refused.code, Some(8), "{refused:?}");
    let said = "late.toml:6:8 a real-time FIFO can hold only one-dimensional arrays; flatten";
    assert!(refused.err.contains(said), "{refused:?}");
}
