//! What the command line refuses, with the reason and what to write instead.

use crate::rig::{Output, RIG, Running, Served, command, finish, run};
use crate::streams::endpoint;

/// Asserts that a command ends with this code, and that its error contains these texts.
#[track_caller]
fn check(output: &Output, code: i32, texts: &[&str]) {
    assert_eq!(output.code, Some(code), "{output:?}");
    for text in texts {
        assert!(output.err.contains(text), "{text}: {output:?}");
    }
}

#[test]
fn number_or_time_out_of_range_is_refused_with_its_range() {
    let negative = "a time cannot be negative";
    for (arguments, text) in [
        (&["get", "x", "-w", "0"][..], "it must be longer than 0"),
        (&["get", "x", "-w", "-1s"], negative),
        (
            &["get", "x", "-e", "-3"],
            "it must be a whole number from 0 to 17",
        ),
        (&["get", "x", "-g", "0"], "a whole number from 1 to 17"),
        (&["get", "x", "-#", "-1"], "a whole number, 0 or more"),
        (&["monitor", "x", "--for", "-1s"], negative),
        (
            &["monitor", "x", "--for", "5x"],
            "use a number of seconds, or a number with a unit: ns, us, ms, s, m, h or d",
        ),
        (
            &["monitor", "x", "--count", "0"],
            "it must be a whole number, 1 or more",
        ),
        (&["audit", "--last", "-1"], "a whole number from 1 to"),
        (&["info", "x", "--trend", "-1"], "from 1 to 10000"),
        (
            &["put", "--expect", "abc", "x", "1"],
            "not a sequence number; use SEQ or EPOCH:SEQ",
        ),
        (
            &["put", "--expect", "-1", "x", "1"],
            "not a sequence number",
        ),
        (&["stream", "read", "x", "--gone-after", "-1s"], negative),
        (&["stream", "read", "x", "--capacity", "-1"], "from 1 to"),
        (&["stream", "read", "x", "--buffer", "-1"], "not a size"),
        (
            &["stream", "write", "x", "--readers", "-1"],
            "from 0 to 10000",
        ),
        (&["stream", "bench", "--bytes", "-1"], "not a size"),
        (
            &["tdms", "cat", "x", "--count", "-5"],
            "a whole number, 0 or more",
        ),
        (
            &["tdms", "convert", "x", "y.csv", "--count", "-5"],
            "a whole number, 0 or more",
        ),
        (
            &["io", "run", "host", "--period", "0"],
            "it must be from 100us to 24h",
        ),
        (&["io", "run", "host", "--period", "-1s"], negative),
    ] {
        check(&run(arguments), 2, &[text]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn option_of_a_recording_is_refused_where_it_has_no_meaning() {
    let above = "use a number greater than 0";
    let for_stream = "--type, --from and --sample-rate are for --stream";
    for (arguments, text) in [
        (&["r.tdms", "x/y", "--sample-rate", "-1"][..], above),
        (&["r.tdms", "x/y", "--for", "-1s"], "cannot be negative"),
        (&["r.tdms", "x/y", "--rotate-size", "-1"], "not a size"),
        (
            &["r.tdms", "x/y", "--rotate-time", "-1"],
            "cannot be negative",
        ),
        (&["r.tdms", "x/y", "--type", "i32"], for_stream),
        (&["r.tdms", "x/y", "--from", "a/b"], for_stream),
        (&["r.tdms", "x/y", "--sample-rate", "48000"], for_stream),
        (
            &["r.tdms", "--stream", "a/b", "--contract", "all"],
            "--contract is for variables",
        ),
    ] {
        let arguments = [&["record", "start"], arguments].concat();
        check(&run(&arguments), 2, &[text]);
    }
    check(&run(&["play", "r.tdms", "--speed", "-1"]), 2, &[above]);
    check(
        &run(&["play", "r.tdms", "--type", "i32"]),
        2,
        &["--stream <URL>"],
    );
    check(
        &run(&["record", "bench", "--devices", "-1"]),
        2,
        &["a whole number from 1 to 64"],
    );
}

#[test]
fn missing_file_or_folder_is_named_in_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (none, inside) = (path("none"), path("none/file"));
    let here = path("");
    let file = path("file.txt");
    std::fs::write(&file, [0xff]).unwrap();
    let no_file = "there is no such file";
    let no_folder = "there is no such folder";
    for (arguments, code, texts) in [
        (&["put", "--csv", &none][..], 2, &[no_file][..]),
        (&["put", "--csv", &here], 2, &["it is a folder"]),
        (&["put", "--csv", &file], 2, &["it is not UTF-8 text"]),
        (&["snapshot", "diff", &none], 2, &[no_file]),
        (&["snapshot", "diff", &here], 2, &["it is a folder"]),
        (
            &["snapshot", "diff", &file],
            2,
            &["the file is not UTF-8 text, so it is not a snapshot"],
        ),
        (&["tdms", "info", &none], 1, &[no_file]),
        (
            &["tdms", "info", &here],
            1,
            &["it is a folder", "specify a file"],
        ),
        (&["tdms", "convert", &none, "x.csv"], 1, &[no_file]),
        (&["init", &inside], 1, &["cannot be written", no_folder]),
        (&["init", &here], 1, &["is a folder", "specify a file"]),
        (
            &["serve", "--listen", "127.0.0.1:0", "--store", &inside],
            1,
            &[
                "cannot be opened",
                "its folder, or a file in it, does not exist",
                "create its folder",
            ],
        ),
        (
            &["serve", "--listen", "127.0.0.1:0", "--store", &here],
            1,
            &["is a folder", "specify a file"],
        ),
    ] {
        let output = run(arguments);
        check(&output, code, texts);
        assert!(!output.err.contains("os error"), "{output:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn missing_recording_or_folder_is_named_in_plain_words() {
    let served = Served::rig();
    let path = |name: &str| served.folder.path().join(name).to_str().unwrap().to_owned();
    let (none, inside, here) = (path("none.tdms"), path("none/run.tdms"), path(""));
    let recording = path("run.tdms");
    let arguments = ["record", "start", &recording, "rig/level", "--for", "1ms"];
    assert_eq!(served.run(&arguments).code, Some(0));
    let no_file = "there is no such file";
    let is_folder = ["is a folder", "specify a file"];
    for (arguments, texts) in [
        (&["record", "info", &none][..], &[no_file][..]),
        (&["record", "info", &here], &is_folder),
        (&["record", "ls", &none], &["there is no such folder"]),
        (&["record", "ls", &recording], &["it is not a folder"]),
        (&["play", &none], &[no_file]),
        (
            &["record", "start", &inside, "rig/level"],
            &["cannot be created: there is no such folder"],
        ),
        (&["record", "start", &here, "rig/level"], &is_folder),
        (&["record", "start", &here, "--stream", "a/b"], &is_folder),
        (
            &["tdms", "convert", &recording, &here, "--as", "csv"],
            &is_folder,
        ),
        (
            &[
                "tdms", "convert", &recording, &here, "--as", "csv", "--force",
            ],
            &is_folder,
        ),
        (
            &["tdms", "convert", &recording, &inside, "--as", "csv"],
            &["cannot be written: there is no such folder"],
        ),
        (
            &["play", &recording, "--as", "x=y"],
            &["no recorded name begins with x, as --as requires"],
        ),
        (
            &["play", &recording, "--exclude", "**"],
            &["--exclude leaves all of them out"],
        ),
        (
            &["tdms", "cat", &recording, "--channel", "nope/*"],
            &["no channel matches nope/*"],
        ),
    ] {
        let output = served.run(arguments);
        check(&output, 1, texts);
        assert!(!output.err.contains("os error"), "{output:?}");
    }
}

#[test]
fn refused_name_value_or_condition_tells_what_to_write() {
    let served = Served::rig();
    for (arguments, code, text) in [
        (
            &["get", "rig"][..],
            1,
            "rig is a library with 12 variables: 'rig/**' selects all of them",
        ),
        (&["get", "nope"], 1, "write library/path\n"),
        (
            &["put", "--atomic", "rig/level", "50", "rig/setpoint"],
            2,
            "no value given for rig/setpoint\n  write NAME VALUE NAME VALUE",
        ),
        (
            &["put", "rig/level", ""],
            6,
            "\"\" is not a number (type f64)",
        ),
        (
            &["find", "**", "--where", "units>abc"],
            1,
            "units is text: use =, != or ~",
        ),
        (
            &["find", "**", "--where", "range.high~1"],
            1,
            "range.high is a number: use =, !=, < or > with a number",
        ),
        (
            &["find", "**", "--where", "forced=abc"],
            1,
            "forced is true or false: use = or !=, with one of these values",
        ),
        (
            &["find", "**", "--stale"],
            1,
            "12 names match, but none of them meets --stale",
        ),
        (
            &["audit", "rig/level"],
            0,
            "writes to rig/level are not audited: set audit = \"complete\"",
        ),
        (
            &["get", "rig/level", "-o", "csv", "-a"],
            2,
            "-t, -a and --format work only with table and plain output\n  leave them out, or \
             leave out --json or -o",
        ),
    ] {
        let output = served.run(arguments);
        check(&output, code, &[text]);
    }
    // It is not known whether these names are audited.
    for pattern in ["rig/nope", "rig/**"] {
        let output = served.run(&["audit", pattern]);
        assert!(!output.err.contains("not audited"), "{output:?}");
    }
}

#[test]
fn absent_peer_or_engine_of_a_stream_is_named() {
    let served = Served::rig();
    let (own, away) = (endpoint("own"), endpoint("away"));
    let alone = served.run(&["stream", "read", &own, "-w", "100ms"]);
    let start = "start the other endpoint; `trunkline stream ls` lists those that exist";
    check(&alone, 4, &["no peer connected within 0.1 s", start]);
    let dialled = served.run(&["stream", "read", "a/b", "--from", "daq/raw", "-w", "100ms"]);
    check(
        &dialled,
        4,
        &["no connection to daq/raw within 0.1 s", start],
    );
    let refused = served.run(&["stream", "read", &own, "--from", &away, "-w", "100ms"]);
    let there = "start the program with that endpoint, or check the port";
    check(
        &refused,
        4,
        &["no connection to ", &away, " within 0.1 s", there],
    );
    assert!(!refused.err.contains("start the engine"), "{refused:?}");

    let nobody = run(&["stream", "read", "lab/s", "--url", "tl://127.0.0.1:1"]);
    let texts = [
        "no engine answers at ",
        "1.sock, so the name lab/s cannot be registered\n",
        "start an engine, or give the endpoint its own port, as in tl://localhost:5900/lab/s",
    ];
    check(&nobody, 3, &texts);
    let elsewhere = run(&["stream", "read", "tl://plant7/x"]);
    let texts = [
        "an endpoint cannot be created on another machine, plant7",
        "specify the endpoint on plant7 with --to or --from",
    ];
    check(&elsewhere, 2, &texts);
    let file = served.file("v1.csv", "");
    let journal = served.run(&["stream", "read", &own, "--journal", &file]);
    let texts = [
        "v1.csv is a file, but a journal needs a folder",
        "specify a folder instead",
    ];
    check(&journal, 1, &texts);
}

#[test]
fn line_that_is_not_json_is_named_with_its_column() {
    let url = endpoint("lines");
    let reader = Running::spawn(&mut command(&["stream", "read", &url]));
    let mut writer = command(&["stream", "write", &endpoint("writer"), "--to", &url]);
    let output = finish(&mut writer, "1\nx\n");
    check(&output, 2, &["standard input:2: column 1: invalid JSON"]);
    drop(reader);
}

#[test]
fn same_user_at_an_address_of_other_machines_tells_whom_it_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plant.toml");
    std::fs::write(&path, RIG).unwrap();
    let path = path.to_str().unwrap();
    let arguments = ["serve", path, "--listen", "0.0.0.0:0", "--insecure"];
    let arguments = [&arguments[..], &["--same-user", "--store", "none"]].concat();
    let sut = Running::start(&arguments);
    let told = sut.error_with("other machines can reach");
    assert!(
        told.contains("same_user refuses their connections and those of other users"),
        "{told}"
    );
}
