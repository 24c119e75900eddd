//! `get`: forms, several names, what is wrong with some of them.

use serde_json::Value as Json;

use crate::rig::{Served, columns};

#[test]
fn a_folder_is_not_mistaken_for_a_mistyped_name() {
    let rig = Served::rig();
    let output = rig.run(&["get", "rig/pump"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output
            .err
            .contains("it is a folder with 2 variables: `trunkline ls rig/pump` lists them"),
        "{output:?}"
    );
    let none = rig.run(&["stream", "ls"]);
    assert_eq!(
        (none.code, none.err.as_str()),
        (Some(0), "there are no stream endpoints\n"),
        "{none:?}"
    );
}

#[test]
fn tables_name_their_columns_and_plain_text_does_not() {
    let rig = Served::rig();
    assert_eq!(rig.run(&["force", "rig/level", "5"]).code, Some(0));
    for (verb, header) in [
        (&["limits"][..], "LIMIT  "),
        (&["force", "--list"], "NAME  "),
        (&["io", "drivers"], "DRIVER  "),
    ] {
        let table = rig.run(&[verb, &["-o", "table"][..]].concat()).out;
        assert!(table.starts_with(header), "{table}");
        let plain = rig.run(verb).out;
        assert!(!plain.contains(header.trim_end()), "{plain}");
        assert_eq!(table.lines().count(), plain.lines().count() + 1);
    }
}

/// Behaviour: B-30.
#[test]
fn one_missing_name_does_not_hide_the_others() {
    let rig = Served::rig();
    let output = rig.run(&[
        "get",
        "-o",
        "table",
        "rig/level",
        "rig/lvel",
        "rig/mode",
        "rig/x",
    ]);
    assert_eq!(output.code, Some(1));
    assert_eq!(
        output.out,
        "rig/level   72.4 %   uncertain: initial\nrig/mode    AUTO   uncertain: initial\n"
    );
    assert_eq!(
        output.err,
        "rig/lvel    *** not found (did you mean rig/level?)\nrig/x       *** not found\n"
    );
}

/// Behaviour: API-01, B-30.
#[test]
fn a_url_chosen_at_run_time_reaches_engine_and_variable() {
    let rig = Served::rig();
    let url = format!("{}/rig/level", rig.url);
    let nothing_set = crate::rig::run(&["get", "-t", &url, &format!("{}/rig/mode", rig.url)]);
    assert_eq!(
        (nothing_set.code, nothing_set.out.as_str()),
        (Some(0), "72.4\nAUTO\n")
    );
    assert_eq!(rig.run(&["get", "-t", "tl:///rig/level"]).out, "72.4\n");
}

#[test]
fn plain_columns_are_name_value_units_and_remarks() {
    let rig = Served::rig();
    rig.run(&["put", "rig/level", "50"]);
    let output = rig.run(&["get", "rig/level", "rig/empty", "rig/pump/on"]);
    let lines: Vec<Vec<&str>> = output.out.lines().map(columns).collect();
    assert_eq!(lines[0], ["rig/level", "50.0", "%"]);
    assert_eq!(lines[1], ["rig/empty", "-", "", "nothing written yet"]);
    assert_eq!(lines[2], ["rig/pump/on", "true", "", "uncertain: initial"]);
}

#[test]
fn the_table_is_aligned_and_has_no_colours_in_a_pipe() {
    let rig = Served::rig();
    rig.run(&[
        "put",
        "rig/level=5",
        "rig/mode=OFF",
        "rig/Storage Line Control=shut",
    ]);
    let names = ["rig/level", "rig/mode", "rig/Storage Line Control"];
    let output = rig.run(&[&["get", "-o", "table"], &names[..]].concat());
    assert_eq!(
        output.out,
        "rig/level                  5.0 %\n\
         rig/mode                   OFF\n\
         rig/Storage Line Control   shut\n"
    );
}

#[test]
fn the_wide_form_has_time_and_quality() {
    let rig = Served::rig();
    rig.run(&["put", "rig/level", "50"]);
    let output = rig.run(&["get", "-a", "--utc", "rig/level"]);
    let cells = columns(output.out.trim_end());
    assert_eq!(
        (cells[0], cells[2], cells[3], cells[4]),
        ("rig/level", "50.0", "%", "good")
    );
    assert_eq!(
        cells[1].len(),
        "2026-11-20 21:39:04.123456".len(),
        "{}",
        cells[1]
    );
}

#[test]
fn pattern_selects_all_matches_except_the_excluded() {
    let rig = Served::rig();
    let output = rig.run(&["get", "--format", "{name}", "rig/pump/*", "rig/pump/on"]);
    assert_eq!(output.out, "rig/pump/on\nrig/pump/starts\nrig/pump/on\n");
    let output = rig.run(&["get", "--format", "{name}", "rig/**", "--exclude", "rig/*"]);
    assert_eq!(output.out, "rig/pump/on\nrig/pump/starts\n");
    let output = rig.run(&["get", "nothing/**"]);
    assert_eq!((output.code, output.out.as_str()), (Some(1), ""));
    assert!(
        output.err.starts_with("nothing/**   *** no name matches"),
        "{}",
        output.err
    );
}

/// Behaviour: API-02.
#[test]
fn a_thousand_variables_are_read_and_written_as_one_list() {
    let rig = Served::start(
        "[library]\nname = \"rack\"\n[[variable]]\nname = \"ch{n:04}\"\n\
         each = { n = \"1..1000\" }\ntype = \"u32\"\n",
    );
    let rows: Vec<String> = (1..=1000)
        .map(|n| format!("rack/ch{n:04},{}", n * 3))
        .collect();
    let file = rig.file("values.csv", &format!("name,value\n{}\n", rows.join("\n")));
    let written = rig.run(&["put", "--csv", &file]);
    assert_eq!((written.code, written.out.lines().count()), (Some(0), 1000));
    let read = rig.run(&["get", "-t", "rack/**"]);
    let values: Vec<u32> = read.out.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(values, (1..=1000).map(|n| n * 3).collect::<Vec<u32>>());
}

#[test]
fn csv_has_a_header_and_can_be_written_back() {
    let rig = Served::rig();
    rig.run(&["put", "rig/level=41.5", "rig/Storage Line Control=a, \"b\""]);
    let saved = rig
        .run(&["get", "-o", "csv", "rig/level", "rig/Storage Line Control"])
        .out;
    assert!(
        saved.starts_with("name,ts,value,type,units,q,reason,epoch,seq,lost\n"),
        "{saved}"
    );
    assert!(saved.contains("\"a, \"\"b\"\"\""), "{saved}");
    rig.run(&["put", "rig/level=1", "rig/Storage Line Control=x"]);
    let output = rig.run_with_input(&["put", "--csv", "-"], &saved);
    assert_eq!(output.code, Some(0), "{}", output.err);
    let restored = rig.run(&["get", "-t", "rig/level", "rig/Storage Line Control"]);
    assert_eq!(restored.out, "41.5\na, \"b\"\n");
}

#[test]
fn numbers_are_shown_as_asked_for() {
    let rig = Served::rig();
    rig.run(&[
        "put",
        "rig/level=1.23456",
        "rig/sealed=0",
        "rig/curve=[1,2,3,4,5,6,7,8,9,10]",
    ]);
    let value = |arguments: &[&str]| rig.run(&[&["get", "-t"], arguments].concat()).out;
    assert_eq!(value(&["rig/level"]), "1.2\n");
    assert_eq!(value(&["rig/level", "--precision", "3"]), "1.235\n");
    assert_eq!(value(&["rig/level", "-f", "3"]), "1.235\n");
    assert_eq!(value(&["rig/level", "-e", "2"]), "1.23e0\n");
    assert_eq!(value(&["rig/level", "-g", "4"]), "1.235\n");
    assert_eq!(value(&["rig/sealed", "--hex"]), "0x7\n");
    assert_eq!(value(&["rig/mode", "-n"]), "1\n");
    assert_eq!(value(&["rig/curve", "-#", "2"]), "[1.0, 2.0, … 10 f64]\n");
    assert!(value(&["rig/curve"]).ends_with(" 9.0, 10.0]\n"));
    let table = rig.run(&["get", "-o", "table", "rig/curve"]).out;
    assert_eq!(
        table,
        "rig/curve   [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, … 10 f64]\n"
    );
}

#[test]
fn unreadable_variable_has_its_own_exit_code() {
    let rig = Served::rig();
    let output = rig.run(&["get", "rig/order"]);
    assert_eq!(output.code, Some(5));
    assert!(output.err.contains("is write-only"), "{}", output.err);
    let mixed = rig.run(&["get", "rig/order", "rig/x"]);
    assert_eq!(mixed.code, Some(1), "different failures are a mixture");
}

#[test]
fn invalid_names_fail_alone_with_the_violated_rule() {
    let rig = Served::rig();
    let monster = format!("rig/{}", "x".repeat(64 * 1024));
    let output = rig.run(&[
        "get",
        "-t",
        "level",
        "rig//x",
        &monster,
        "rig/a\u{7}b",
        "rig/level",
    ]);
    assert_eq!((output.code, output.out.as_str()), (Some(1), "72.4\n"));
    for part in [
        "write library/path",
        "empty segment",
        "65540 bytes; 1024",
        "U+0007",
    ] {
        let is_said = output.err.replace(" (", "; ").contains(part);
        assert!(is_said, "{part}: {}", output.err);
    }
    assert!(
        output.err.len() < 2000,
        "a monster name is not repeated in full"
    );
}

#[cfg(unix)]
#[test]
fn invalid_utf8_is_a_usage_error() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut command = crate::rig::command(&["get"]);
    command.arg(OsStr::from_bytes(b"rig/\xff"));
    let output = crate::rig::finish(&mut command, "");
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("invalid UTF-8"), "{}", output.err);
}

#[test]
fn usage_errors_have_their_exit_code_and_name_the_mistake() {
    for (arguments, part) in [
        (&["get"][..], "NAME"),
        (&["get", "a/b", "--json", "-o", "csv"], "only one of them"),
        (&["get", "a/b", "-t", "-a"], "cannot be combined"),
        (&["get", "a/b", "-t", "--json"], "leave them out"),
        (&["get", "a/b", "--format", "{nme}"], "{name}"),
        (&["get", "a/b", "-w", "soon"], "not a time"),
        (&["get", "a/b", "-#", "two"], "a whole number, 0 or more"),
        #[cfg(target_os = "linux")]
        (
            &["play", "a.tdms", "--speed", "0"],
            "a number greater than 0",
        ),
        (
            &["get", "a/b", "--url", "tl://x/y/z"],
            "names a variable, not only an engine",
        ),
        (&["get", "a/b", "--exclude", "a**"], "whole segment"),
        (&["get", "tl://h1/a/b", "tl://h2/a/b"], "several engines"),
        (&["fetch", "a/b"], "fetch"),
    ] {
        let output = crate::rig::run(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}");
        assert!(output.err.contains(part), "{arguments:?}: {}", output.err);
        assert_eq!(output.out, "", "{arguments:?}");
    }
}

#[test]
fn usage_error_is_printed_as_json_on_request() {
    let output = crate::rig::run(&["get", "--json"]);
    let error: Json = serde_json::from_str(&output.err).unwrap();
    assert_eq!(
        (output.code, &error["code"]),
        (Some(2), &Json::from("usage"))
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("required arguments"), "{message}");
}

/// Two undelivered variables: the provider of one never connected, the other is an alias without
/// target.
const UNDELIVERED: &str = "[library]\nname = \"plant\"\n\
    [[io]]\nname = \"plc\"\ndriver = \"process\"\n\
    [[variable]]\nname = \"bound\"\ntype = \"f64\"\nsource = \"plc:level\"\n\
    [[variable]]\nname = \"lost\"\ntype = \"f64\"\nalias = \"plant/none\"\n";

/// An undelivered variable has no value: it is not 0.
#[test]
fn undelivered_value_is_shown_as_a_dash_and_bad() {
    let served = Served::start(UNDELIVERED);
    for name in ["plant/bound", "plant/lost"] {
        let shown = served.run(&["get", "-a", name]);
        assert_eq!(shown.code, Some(1), "{shown:?}");
        assert!(
            shown.out.contains("\t-\t") && shown.out.contains("bad"),
            "{shown:?}"
        );
        let bare = served.run(&["get", "-t", name]);
        assert_eq!((bare.code, bare.out.as_str()), (Some(1), "-\n"), "{bare:?}");
        let json = served.run(&["get", "--json", name]);
        let line: Json = serde_json::from_str(&json.out).unwrap();
        assert_eq!(
            (&line["value"], &line["q"]),
            (&Json::Null, &"bad".into()),
            "{line}"
        );
    }
    // While forced, it has a value; unforced, it has none again.
    assert_eq!(served.run(&["force", "plant/bound", "5"]).code, Some(0));
    assert_eq!(served.run(&["get", "-t", "plant/bound"]).out, "5.0\n");
    let unforced = served.run(&["unforce", "plant/bound"]);
    assert_eq!(
        columns(unforced.out.trim_end())[1..3],
        ["5.0", "-"],
        "{unforced:?}"
    );
    assert_eq!(served.run(&["get", "plant/bound"]).code, Some(1));
}

#[test]
fn recording_of_an_undelivered_variable_has_no_value() {
    let served = Served::start(UNDELIVERED);
    let file = served.folder.path().join("run.tdms");
    let file = file.to_str().unwrap();
    let recorded = served.run(&["record", "start", file, "plant/*", "--for", "100ms"]);
    assert!(
        recorded.err.contains("0 updates of 2 variables"),
        "{recorded:?}"
    );
    let info = served.run(&["record", "info", file, "--json"]);
    let lines = info
        .out
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    let values: Vec<Json> = lines.map(|line| line["values"].clone()).collect();
    assert_eq!(values, [0, 0], "{info:?}");
}
