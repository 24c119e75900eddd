//! `ctx`: contexts, and which engine a command reaches without a URL.

use std::fs;
use std::process::Command;

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::accounts::Plant;
use crate::rig::{Output, command, finish};
use crate::schema;

/// A person with a folder of contexts, and the certificate of an authority.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(Plant::prepare())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command
            .current_dir(self.0.path())
            .env("XDG_CONFIG_HOME", self.0.path().join("config"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        finish(&mut self.command(arguments), "")
    }

    #[track_caller]
    fn add(&self, name: &str, url: &str, more: &[&str]) -> Json {
        let arguments = [
            "ctx",
            "add",
            name,
            "--json",
            "--url",
            url,
            "--authority",
            "security/authority.crt",
        ];
        let added = self.run(&[&arguments, more].concat());
        assert_eq!(added.code, Some(0), "{added:?}");
        described(&added, "context_added")
    }

    /// The first step of `why`: the engine that a command would reach.
    fn engine(&self, arguments: &[&str], url: Option<&str>) -> String {
        let mut command = self.command(&[&["why", "--json", "-w", "1s"], arguments].concat());
        if let Some(url) = url {
            command.env("TRUNKLINE_URL", url);
        }
        let output = finish(&mut command, "");
        let line = output
            .out
            .lines()
            .next()
            .unwrap_or_else(|| panic!("{output:?}"));
        let step: Json = serde_json::from_str(line).unwrap();
        step["message"].as_str().unwrap().to_owned()
    }
}

/// The only line of a command's output, which the schema of this name describes.
#[track_caller]
fn described(output: &Output, schema: &str) -> Json {
    let line: Json = serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{output:?}"));
    schema::check(&line, &schema::documented()["$defs"][schema])
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    line
}

#[test]
fn url_comes_from_option_environment_or_selected_context() {
    let home = Home::new();
    let default = "connecting to localhost:5850, which is the default";
    assert_eq!(home.engine(&[], None), default);
    home.add("plant", "tl://127.0.0.1:1", &[]);
    home.add("other", "127.0.0.1:2", &["--no-key", "--account", "anna"]);
    let of_context = "connecting to 127.0.0.1:1, of the selected context plant";
    assert_eq!(
        home.engine(&[], None),
        of_context,
        "the first context is selected"
    );
    let given = "connecting to 127.0.0.1:3, given by TRUNKLINE_URL";
    assert_eq!(home.engine(&[], Some("tl://127.0.0.1:3")), given);
    let given = "connecting to 127.0.0.1:4, given by --url";
    assert_eq!(
        home.engine(&["--url", "127.0.0.1:4"], Some("tl://127.0.0.1:3")),
        given
    );
    let given = "connecting to 127.0.0.1:5, given by the URL";
    assert_eq!(home.engine(&["tl://127.0.0.1:5/rig/level"], None), given);

    assert_eq!(home.run(&["ctx", "select", "other"]).code, Some(0));
    assert_eq!(home.run(&["ctx", "select", "-"]).code, Some(0));
    assert_eq!(home.engine(&[], None), default);
    let unknown = home.run(&["ctx", "select", "plnat", "--json"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.err.contains("unknown-context"), "{unknown:?}");
    assert_eq!(home.run(&["ctx", "select", "plant"]).code, Some(0));

    // A command never goes to another engine because a file is missing.
    fs::remove_file(home.0.path().join("config/trunkline/contexts/plant.toml")).unwrap();
    let refused = home.run(&["get", "rig/level", "--json"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("the selected context plant"),
        "{refused:?}"
    );
    let listed = home.run(&["ctx", "ls"]);
    assert!(listed.err.contains("plant does not exist"), "{listed:?}");
}

#[test]
fn contexts_are_listed_shown_and_removed() {
    let home = Home::new();
    let empty = home.run(&["ctx"]);
    assert_eq!((empty.code, empty.out.as_str()), (Some(0), ""));
    assert!(empty.err.contains("trunkline join"), "{empty:?}");
    let added = home.add("plant", "tl://plant.example:5851", &["--account", "anna"]);
    assert_eq!(added["selected"], true);
    let key = added["key"].as_str().unwrap();
    assert!(key.starts_with("ed25519:"), "{added}");
    home.add("b", "tl://b", &["--no-key"]);
    let listed = home.run(&["ctx", "-o", "plain"]);
    assert_eq!(
        listed.out,
        "b\ttl://b\nplant\ttl://plant.example:5851\tanna\t\t*\n"
    );
    assert_eq!(home.run(&["ctx", "ls", "-o", "plain"]).out, listed.out);

    let info = described(
        &home.run(&["ctx", "info", "plant", "--json"]),
        "context_info",
    );
    assert_eq!(info["key"], key);
    assert_eq!(info["account"], "anna");
    assert!(
        info["authority"].as_str().unwrap().starts_with("sha256:"),
        "{info}"
    );
    assert!(
        info["valid_until"].as_str() > info["valid_from"].as_str(),
        "{info}"
    );
    let file = info["file"].as_str().unwrap();
    assert!(file.ends_with("trunkline/contexts/plant.toml"), "{info}");
    let private = info["key_file"].as_str().unwrap().to_owned();
    let text = home.run(&["ctx", "info", "plant", "-o", "table"]).out;
    assert!(text.contains(key) && text.contains("valid until"), "{text}");
    let without = described(&home.run(&["ctx", "info", "b", "--json"]), "context_info");
    assert!(without.get("key").is_none(), "{without}");

    let taken = home.run(&[
        "ctx",
        "add",
        "plant",
        "--json",
        "--url",
        "tl://c",
        "--authority",
        "security/authority.crt",
    ]);
    assert_eq!(taken.code, Some(1));
    assert!(taken.err.contains("context-exists"), "{taken:?}");

    // A key that is elsewhere belongs to the user.
    let own = home.0.path().join("own.key");
    fs::rename(&private, &own).unwrap();
    let broken = home.run(&["ctx", "info", "plant", "--json"]);
    assert_eq!(broken.code, Some(1), "{broken:?}");
    let removed = home.run(&["ctx", "rm", "plant"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(
        removed.err.contains("anna") && removed.err.contains("still exists"),
        "{removed:?}"
    );
    let again = home.add("plant", "tl://plant.example:5851", &["--key", "own.key"]);
    assert_eq!(again["key"], key);
    let info = described(
        &home.run(&["ctx", "info", "plant", "--json"]),
        "context_info",
    );
    assert_eq!(info["key_file"], own.to_str().unwrap());
    assert_eq!(home.run(&["ctx", "rm", "plant"]).code, Some(0));
    assert!(own.exists());
    assert_eq!(home.run(&["ctx", "rm", "plant"]).code, Some(1));
}

/// A file that somebody has damaged concerns only the commands that would use it.
#[test]
fn broken_context_concerns_only_its_own_engine() {
    let plant = Plant::start();
    let person = plant.joined("anna", &["--role", "viewer"]);
    let folder = plant.path("home-anna/trunkline/contexts");
    fs::write(
        folder.join("zoo.toml"),
        "url = \"tl://zoo.example:5850\"\nauthority = \n",
    )
    .unwrap();
    fs::write(folder.join("garbage.toml"), "\u{1}").unwrap();
    let get = person.run(&["get", "rig/level", "--url", &plant.url()]);
    assert_eq!(get.code, Some(0), "{get:?}");

    let listed = person.run(&["ctx", "ls", "-o", "plain"]);
    assert_eq!(listed.code, Some(1), "{listed:?}");
    assert!(listed.out.starts_with("plant\t"), "{listed:?}");
    assert_eq!(listed.out.lines().count(), 1, "{listed:?}");
    for name in ["zoo.toml", "garbage.toml"] {
        assert!(listed.err.contains(name), "{listed:?}");
    }

    // Not without encryption instead: the file names this engine, or does not tell which one.
    for (url, file) in [
        ("tl://zoo.example:5850", "zoo.toml"),
        ("tl://other.example", "garbage.toml"),
    ] {
        let refused = person.run(&["get", "rig/level", "--url", url, "-w", "1s"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains(file), "{refused:?}");
    }
    fs::remove_file(folder.join("garbage.toml")).unwrap();
    let other = person.run(&[
        "get",
        "rig/level",
        "--url",
        "tl://other.invalid",
        "-w",
        "1s",
    ]);
    assert_eq!(other.code, Some(3), "{other:?}");
}

#[test]
fn wrong_context_is_refused_and_leaves_nothing() {
    let home = Home::new();
    fs::write(home.0.path().join("text.pem"), "no certificate").unwrap();
    let add = |more: &[&str]| home.run(&[&["ctx", "add", "--json"], more].concat());
    let authority = ["--authority", "security/authority.crt"];
    let with = |more: &[&str]| add(&[more, &authority].concat());
    for (output, code, part) in [
        (with(&["plant"]), 2, "--url"),
        (add(&["plant", "--url", "tl://a"]), 2, "--authority"),
        (
            with(&["pl/ant", "--url", "tl://a"]),
            2,
            "not a name for a context",
        ),
        (
            with(&["plant", "--url", "tl+unix:///run/a.sock"]),
            2,
            "host and port",
        ),
        (
            add(&["plant", "--url", "tl://a", "--authority", "text.pem"]),
            1,
            "text.pem",
        ),
        (
            add(&["plant", "--url", "tl://a", "--authority", "none.pem"]),
            1,
            "no such file",
        ),
        (
            with(&["plant", "--url", "tl://a", "--key", "none.key"]),
            1,
            "none.key",
        ),
        (
            with(&[
                "plant",
                "--url",
                "tl://a",
                "--key",
                "plant.toml",
                "--no-key",
            ]),
            2,
            "cannot",
        ),
    ] {
        assert_eq!(output.code, Some(code), "{part}: {output:?}");
        assert!(output.err.contains(part), "{part}: {output:?}");
    }
    let contexts = home.0.path().join("config/trunkline/contexts");
    let left = fs::read_dir(contexts).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

/// Behaviour: B-81.
///
/// Neither end needs a token if an administrator adds the public key.
#[test]
fn administrator_adds_a_key_by_hand() {
    let plant = Plant::start();
    plant.manage(&["user", "add", "logger", "--role", "viewer"]);
    let logger = plant.person("logger");
    let authority = plant.path("security/authority.crt");
    let added = logger.run(&[
        "ctx",
        "add",
        "plant",
        "--json",
        "--url",
        &plant.url(),
        "--authority",
        authority.to_str().unwrap(),
    ]);
    let added = described(&added, "context_added");
    let get = ["get", "--json", "rig/level"];
    let refused = logger.run(&get);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("not-authenticated"), "{refused:?}");
    plant.manage(&[
        "user",
        "key",
        "add",
        "logger",
        added["key"].as_str().unwrap(),
    ]);
    logger.run_until(&get, 0);

    // Another engine at the same address is not accepted, because another authority has issued its
    // certificate.
    let other = Plant::prepare();
    let authority = other.path().join("security/authority.crt");
    let stranger = plant.person("stranger");
    let added = stranger.run(&[
        "ctx",
        "add",
        "plant",
        "--json",
        "--url",
        &plant.url(),
        "--authority",
        authority.to_str().unwrap(),
    ]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let refused = stranger.run(&get);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(!refused.err.contains("not-authenticated"), "{refused:?}");
}
