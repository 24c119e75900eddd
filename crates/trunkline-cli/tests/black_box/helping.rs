//! `help`, `completion`, and the pages that are made from them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value as Json;

use crate::rig::run;
use crate::schema::documented;

#[test]
fn help_describes_every_command_option_and_key_for_programs() {
    let output = run(&["help", "--json"]);
    let help: Json = serde_json::from_str(&output.out).unwrap();
    assert_eq!((output.code, &help["v"]), (Some(0), &1.into()));
    let commands = help["commands"].as_array().unwrap();
    let names: Vec<&str> = commands
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    let verbs = [
        "get",
        "put",
        "set",
        "send",
        "request",
        "force",
        "unforce",
        "snapshot",
        "monitor",
        "info",
        "ls",
        "find",
        "why",
        "limits",
        "support",
        "deploy",
        "undeploy",
        "library",
        "alarm",
        "control",
        "audit",
        "history",
        "backup",
        "engine",
        "stream",
        "record",
        "play",
        "tdms",
        "io",
        "init",
        "pair",
        "join",
        "ctx",
        "user",
        "access",
        "serve",
        "demo",
        "completion",
        "help",
    ];
    assert_eq!(names, verbs);
    let below = commands
        .iter()
        .filter_map(|command| command["commands"].as_array());
    for command in commands.iter().chain(below.flatten()) {
        assert!(
            matches!(command["tag"].as_str(), Some("ro" | "rw")),
            "{command}"
        );
        assert!(!command["about"].as_str().unwrap().is_empty(), "{command}");
        assert!(
            command["exit_codes"]
                .as_array()
                .unwrap()
                .contains(&0.into()),
            "{command}"
        );
        for argument in command["args"].as_array().unwrap() {
            assert!(argument["help"].is_string(), "{argument}");
        }
    }
    let monitor = commands
        .iter()
        .find(|command| command["name"] == "monitor")
        .unwrap();
    assert_eq!(monitor["aliases"], serde_json::json!(["mon", "sub"]));
    assert!(
        monitor["exit_codes"]
            .as_array()
            .unwrap()
            .contains(&7.into())
    );
    let arguments = |list: &Json| -> Vec<(String, Json)> {
        let list = list.as_array().unwrap();
        list.iter()
            .map(|a| (a["long"].to_string(), a["default"].clone()))
            .collect()
    };
    let of_monitor = arguments(&monitor["args"]);
    assert!(of_monitor.contains(&("\"contract\"".to_owned(), "last:1000".into())));
    let of_all = arguments(&help["args"]);
    assert!(
        of_all.contains(&("\"clock\"".to_owned(), "source".into())),
        "{of_all:?}"
    );
    assert!(of_all.contains(&("\"timeout\"".to_owned(), "2s".into())));
    let sections = help["configuration"].as_array().unwrap();
    let engine = sections
        .iter()
        .find(|section| section["section"] == "[engine]")
        .unwrap();
    let mut keys = engine["keys"].as_array().unwrap().iter();
    let listen = keys.find(|key| key["name"] == "listen").unwrap();
    assert!(
        listen["default"]
            .as_str()
            .unwrap()
            .contains("127.0.0.1:5850")
    );
}

#[test]
fn help_explains_a_command_and_lists_all_commands() {
    let all = run(&["help"]);
    assert_eq!(all.code, Some(0));
    assert!(all.out.contains("monitor"), "{}", all.out);
    let one = run(&["help", "monitor"]);
    assert!(one.out.contains("--contract"), "{}", one.out);
    // The global options are after one line.
    assert!(one.out.contains("trunkline help options"), "{}", one.out);
    assert!(!one.out.contains("--scientific"), "{}", one.out);
    assert!(
        one.out.contains("Examples:\n  trunkline monitor"),
        "{}",
        one.out
    );
    let long = run(&["monitor", "--help"]);
    assert!(
        long.out.contains("Examples:\n  trunkline monitor"),
        "{}",
        long.out
    );
    let options = run(&["help", "options"]);
    assert!(options.out.contains("--scientific"), "{}", options.out);
    assert!(options.out.contains("--timeout"), "{}", options.out);
    let wrong = run(&["help", "monitr"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("did you mean monitor?"), "{}", wrong.err);
    assert_eq!(
        run(&["--version"]).out,
        format!("trunkline {}\n", env!("CARGO_PKG_VERSION"))
    );
    let nothing = run(&[]);
    assert_eq!(nothing.code, Some(2));
    assert!(nothing.err.contains("trunkline demo"), "{}", nothing.err);
}

#[test]
fn help_explains_one_verb_of_a_command_with_its_own_options() {
    let write = run(&["help", "stream", "write"]);
    assert_eq!(write.code, Some(0), "{write:?}");
    assert!(write.out.contains("--capacity"), "{}", write.out);
    assert!(!write.out.contains("--samples"), "{}", write.out);
    let bench = run(&["help", "stream", "bench"]).out;
    assert!(bench.contains("--samples"), "{bench}");
    let wrong = run(&["help", "stream", "wrote"]);
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong
            .err
            .contains("its subcommands are write, read, ls, info, bench"),
        "{wrong:?}"
    );
    assert_eq!(run(&["help", "get", "x"]).code, Some(2));
}

#[test]
fn a_command_that_was_mistyped_is_suggested() {
    for (typed, meant) in [
        ("gte", "get"),
        ("mointor", "monitor"),
        ("snapshto", "snapshot"),
    ] {
        let output = run(&[typed, "a/b"]);
        assert_eq!(output.code, Some(2));
        assert!(output.err.contains(&format!("'{meant}'")), "{}", output.err);
    }
}

#[test]
fn options_of_other_verbs_are_refused() {
    for (arguments, what) in [
        (
            &["io", "drivers", "sim"][..],
            "unexpected argument 'sim' found",
        ),
        (
            &["io", "drivers", "--publish"],
            "tip: --publish is for `io run`",
        ),
        (
            &["stream", "write", "a/b", "--threads"],
            "tip: --threads is for `stream bench`",
        ),
        (
            &["record", "ls", "--devices", "4"],
            "tip: --devices is for `record bench`",
        ),
        (
            &["record", "info", "f", "--contract", "latest"],
            "tip: --contract is for `record start`",
        ),
    ] {
        let output = run(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}");
        assert!(output.err.contains(what), "{arguments:?}: {}", output.err);
    }
}

#[test]
fn the_schema_of_the_output_is_printed() {
    let output = run(&["help", "schema"]);
    let schema: Json = serde_json::from_str(&output.out).unwrap();
    assert_eq!((output.code, schema), (Some(0), documented()));
}

#[test]
fn shells_get_scripts_for_both_names() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let output = run(&["completion", shell]);
        assert_eq!(output.code, Some(0), "{shell}");
        assert!(output.out.contains("monitor"), "{shell}");
    }
    assert!(run(&["completion", "bash"]).out.contains(" tl"));
    assert_eq!(run(&["completion", "csh"]).code, Some(2));
}

/// zsh and fish load a script by the name of the command, so packages need one for each name.
#[test]
fn a_script_for_one_name_completes_no_other() {
    for name in ["trunkline", "tl"] {
        let zsh = run(&["completion", "zsh", "--name", name]).out;
        assert!(zsh.starts_with(&format!("#compdef {name}\n")), "{zsh}");
        assert_eq!(zsh.matches("#compdef").count(), 1);
        let fish = run(&["completion", "fish", "--name", name]).out;
        let other = if name == "tl" { "trunkline" } else { "tl" };
        assert!(fish.contains(&format!("complete -c {name} ")));
        assert!(!fish.contains(&format!("complete -c {other} ")));
    }
    let refused = run(&["completion", "zsh", "--name", "sh"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
}

#[test]
fn every_command_has_a_manual_page_with_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    // The second run replaces the pages.
    for _ in 0..2 {
        assert_eq!(run(&["man", path]).code, Some(0));
    }
    let help: Json = serde_json::from_str(&run(&["help", "--json"]).out).unwrap();
    let mut missing_pages: BTreeSet<String> = pages(folder.path());
    let mut check = |name: &str, described: &Json| {
        let file = format!("{name}.1");
        assert!(missing_pages.remove(&file), "{file}");
        let page = std::fs::read_to_string(folder.path().join(&file)).unwrap();
        assert!(page.contains(&format!(".TH {name} 1 ")), "{page}");
        for argument in described["args"].as_array().unwrap() {
            let Some(long) = argument["long"].as_str() else {
                continue;
            };
            let option = format!("\\-\\-{}", long.replace('-', "\\-"));
            assert!(page.contains(&option), "{file}: {option}");
        }
    };
    check("trunkline", &help);
    for command in help["commands"].as_array().unwrap() {
        let name = format!("trunkline-{}", command["name"].as_str().unwrap());
        check(&name, command);
        for verb in command["commands"].as_array().into_iter().flatten() {
            check(&format!("{name}-{}", verb["name"].as_str().unwrap()), verb);
        }
    }
    assert!(missing_pages.remove("tl.1"));
    assert_eq!(missing_pages, BTreeSet::new(), "no command has these pages");
}

fn pages(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn manual_pages_need_an_existing_folder() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none");
    let output = run(&["man", none.to_str().unwrap()]);
    assert_eq!(output.code, Some(1));
    assert!(
        output.err.contains("there is no such folder"),
        "{}",
        output.err
    );
    // People find the pages with `man`; the command that writes them is for packages.
    assert!(!run(&["help"]).out.contains("manual pages"));
}

#[test]
fn the_short_name_is_the_same_command() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tl"));
    let output = crate::rig::finish(command.args(["help", "--json"]), "");
    assert_eq!(output.out, run(&["help", "--json"]).out);
}
