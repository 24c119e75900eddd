//! `stream`: elements from one process to another.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::rig::{Drained, Output, RIG, Running, Served, command, finish, run};
use crate::schema;

/// The URL of an endpoint with its own port.
pub fn endpoint(name: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    format!("tl://localhost:{port}/{name}")
}

/// Starts a reader of this URL.
pub fn reader(url: &str, arguments: &[&str]) -> Running {
    Running::spawn(command(&["stream", "read", url]).args(arguments))
}

/// A writer to this URL.
pub fn writer(url: &str, arguments: &[&str]) -> Command {
    let mut command = command(&["stream", "write", "out", "--to", url]);
    command.args(arguments);
    command
}

/// Sends text through a stream. Returns the writer's output, the reader's code, and its output.
fn through(arguments: &[&str], input: &str) -> (Output, Option<i32>, Vec<String>) {
    let url = endpoint("through");
    let reader = reader(&url, arguments);
    let written = finish(&mut writer(&url, arguments), input);
    let (code, lines) = reader.end();
    (written, code, lines)
}

/// The only object on standard error with this event; every object there is as documented.
pub fn event(err: &str, event: &str) -> Json {
    let documented = schema::documented();
    let objects = err.lines().map(|line| {
        let object: Json = serde_json::from_str(line).unwrap();
        let name = if object.get("event").is_some() {
            "stream"
        } else {
            "error"
        };
        schema::check(&object, &documented["$defs"][name]).unwrap();
        object
    });
    let mut found = objects.filter(|object| object["event"] == event);
    found
        .next()
        .unwrap_or_else(|| panic!("no {event} in {err}"))
}

/// Behaviour: NS-01, NS-02.
#[test]
fn stream_is_read_in_the_order_written() {
    let input: String = (0..5000).map(|i| format!("{i}\n")).collect();
    let expected: Vec<String> = (0..5000).map(|i| i.to_string()).collect();
    let arguments = ["--type", "i32", "--capacity", "100"];
    let (written, code, lines) = through(&arguments, &input);
    assert_eq!((written.code, code), (Some(0), Some(0)), "{}", written.err);
    assert_eq!(lines, expected);
    let end = "; 0 elements not delivered\n";
    assert!(
        written
            .err
            .starts_with("tl://localhost/out connected to tl://localhost:")
    );
    assert!(
        written
            .err
            .contains("\n5000 elements written (20.0 kB) in "),
        "{}",
        written.err
    );
    assert!(written.err.ends_with(end), "{}", written.err);
}

/// Behaviour: NS-03.
#[test]
fn elements_of_any_type_are_transferred_as_json_lines_and_csv() {
    let ty = "struct(t: timestamp, mode: enum(OFF, AUTO), text: string, volts: array(f64, *))";
    let rows = [
        r#"{"t":"2026-11-20T21:39:04.123456789Z","mode":"AUTO","text":"a, \"b\"","volts":[1.5,2.5]}"#,
        r#"{"t":"2026-11-20T21:39:05.000000000Z","mode":"OFF","text":"","volts":[]}"#,
    ];
    let (written, code, lines) = through(&["--type", ty], &(rows.join("\n") + "\n"));
    assert_eq!((written.code, code), (Some(0), Some(0)), "{}", written.err);
    assert_eq!(lines, rows);
    let rows = [
        "t,mode,text,volts",
        r#"2026-11-20T21:39:04.123456789Z,AUTO,"a, ""b""","[1.5, 2.5]""#,
        "2026-11-20T21:39:05.000000000Z,OFF,,[]",
    ];
    let (written, code, lines) = through(&["--type", ty, "-o", "csv"], &rows.join("\n"));
    assert_eq!((written.code, code), (Some(0), Some(0)), "{}", written.err);
    assert_eq!(lines, rows);
    // Scalars need no header.
    let (written, _, lines) = through(&["--type", "string", "--as", "csv"], "x\n\"y,z\"\n");
    assert_eq!(written.code, Some(0), "{}", written.err);
    assert_eq!(lines, ["value", "x", "\"y,z\""]);
}

#[test]
fn raw_elements_are_the_input_bytes() {
    let url = endpoint("raw");
    // More than the pipe, both buffers and a page hold, and ends anywhere within them.
    let bytes: Vec<u8> = (0..2_000_000_u32)
        .flat_map(|i| (i * 7).to_le_bytes())
        .collect();
    let arguments = [
        "--type",
        "struct(a: u16, b: i16)",
        "--as",
        "raw",
        "--capacity",
        "999",
    ];
    let mut read = command(&["stream", "read", &url]);
    let read = read
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut read = read.spawn().unwrap();
    let (end, mut start) = std::io::pipe().unwrap();
    let written = Running::spawn_reading(&mut writer(&url, &arguments), end.into());
    // One element and a part of the next: when the one has come, the part waits for its rest.
    let (first, rest) = bytes.split_at(5);
    start.write_all(first).unwrap();
    let mut out = read.stdout.take().unwrap();
    let mut came = vec![0; 4];
    out.read_exact(&mut came).unwrap();
    let rest = rest.to_vec();
    let feeding = std::thread::spawn(move || start.write_all(&rest).unwrap());
    out.read_to_end(&mut came).unwrap();
    feeding.join().unwrap();
    let code = read.wait().unwrap().code();
    assert_eq!((written.end().0, code), (Some(0), Some(0)));
    assert!(came == bytes, "{} bytes came", came.len());
}

/// Behaviour: NS-45, NS-47.
#[test]
fn input_error_of_a_writer_keeps_earlier_elements_and_fails_both() {
    let reads = |url: &str, arguments: &[&str]| {
        let mut read = command(&[&["stream", "read", url][..], arguments].concat());
        Drained::start(&mut read, Stdio::null())
    };
    let long = format!("one\ntwo\n{}\nfour\n", "3".repeat(101));
    let cases: [(&[&str], &str, i32, &str, &str); 5] = [
        (
            &["--type", "u8"],
            "1\n2\n256\n4\n",
            2,
            "1\n2\n",
            "standard input:3: ",
        ),
        (&["--type", "u8"], "x\n", 2, "", "standard input:1: "),
        (
            &["--type", "u8", "--as", "csv"],
            "1\n2\nx\n",
            2,
            "value\n1\n2\n",
            "standard input:3: ",
        ),
        (
            &["--type", "string", "--as", "csv", "--buffer", "100"],
            &long,
            1,
            "value\none\ntwo\n",
            "does not fit into a buffer of 100 bytes",
        ),
        (
            &["--type", "u32", "--as", "raw"],
            "12345678901",
            2,
            "12345678",
            "3 of 4 bytes",
        ),
    ];
    for (arguments, input, code, out, why) in cases {
        let url = endpoint("truncated");
        let reader = reads(&url, arguments);
        let written = finish(&mut writer(&url, arguments), input);
        let read = reader.end();
        assert_eq!(written.code, Some(code), "{}", written.err);
        assert!(written.err.contains(why), "{}", written.err);
        assert!(
            written.err.contains("; 0 elements not delivered"),
            "{}",
            written.err
        );
        assert_eq!(
            (read.code, read.out.as_str()),
            (Some(7), out),
            "{}",
            read.err
        );
        let told = "the writer stopped before the end of the stream: ";
        assert!(
            read.err.contains(told) && read.err.contains(why),
            "{}",
            read.err
        );
    }
    // With JSON output.
    let url = endpoint("truncated");
    let arguments = ["--type", "u8", "--json"];
    let reader = reads(&url, &arguments);
    let written = finish(&mut writer(&url, &arguments), "1\nx\n");
    let read = reader.end();
    assert_eq!(
        (written.code, read.code),
        (Some(2), Some(7)),
        "{}",
        read.err
    );
    assert_eq!(event(&read.err, "read")["elements"], 1);
    let last: Json = serde_json::from_str(read.err.lines().last().unwrap()).unwrap();
    assert_eq!(last["code"], "aborted");
}

/// Behaviour: NS-16.
#[test]
fn mismatched_types_are_reported_at_once() {
    let url = endpoint("types");
    let reader = reader(&url, &["--type", "f64", "--json"]);
    let written = finish(&mut writer(&url, &["--type", "i32", "--json"]), "1\n");
    assert_eq!(written.code, Some(1), "{}", written.err);
    let error: Json = serde_json::from_str(&written.err).unwrap();
    assert_eq!(error["code"], "stream-type");
    drop(reader);
}

#[test]
fn a_count_ends_either_end() {
    let input = "1\n2\n3\n4\n5\n";
    let (written, code, lines) = through(&["--count", "3"], input);
    assert_eq!((written.code, code), (Some(0), Some(0)), "{}", written.err);
    assert_eq!(lines, ["1.0", "2.0", "3.0"]);
    let url = endpoint("count");
    let reader = reader(&url, &["--count", "2"]);
    let written = finish(&mut writer(&url, &["--json"]), input);
    let (code, lines) = reader.end();
    assert_eq!(
        (code, lines.as_slice()),
        (Some(0), &["1.0".to_owned(), "2.0".to_owned()][..])
    );
    // Elements in the reader's buffer by then are not undelivered; whether those are all is random.
    let left = event(&written.err, "written")["left"].as_u64().unwrap();
    assert!(left <= 3, "{left}");
    assert_eq!(
        written.code,
        Some(if left > 0 { 7 } else { 0 }),
        "{}",
        written.err
    );
}

/// Behaviour: NS-46, NS-53.
#[test]
fn writer_learns_that_its_reader_was_destroyed() {
    let url = endpoint("destroyed");
    let reader = reader(&url, &["--capacity", "10", "--count", "1"]);
    let (end, mut start) = std::io::pipe().unwrap();
    let mut write = writer(&url, &["--capacity", "100", "--json"]);
    let written = Running::spawn_reading(&mut write, end.into());
    // It has the other end of the pipe as well.
    drop(write);
    start.write_all(b"1\n").unwrap();
    assert_eq!(reader.end().0, Some(0));
    written.error_with("connected");
    // It is found out by writing; that it takes the input is not promised.
    let feeding = std::thread::spawn(move || {
        for i in 0..1_000_000 {
            if writeln!(start, "{i}").is_err() {
                return;
            }
        }
    });
    let told = written.error_with("\"event\":\"written\"");
    // A variable number until it knew: elements not read, or not even in the reader's buffer.
    let told = event(&told, "written");
    let elements = told["elements"].as_u64().unwrap();
    let left = told["left"].as_u64().unwrap();
    assert!(
        (elements.saturating_sub(11)..elements).contains(&left),
        "{told}"
    );
    let error: Json = serde_json::from_str(&written.error_with("code")).unwrap();
    assert_eq!(error["code"], "peer-destroyed");
    let code = if left > 0 { 7 } else { 1 };
    assert_eq!(written.end().0, Some(code));
    feeding.join().unwrap();
}

/// Behaviour: NS-60, NS-67.
#[test]
fn writer_without_its_reader_reports_undelivered_elements() {
    let url = endpoint("gone");
    let reader = reader(&url, &["--capacity", "10"]);
    let (end, mut start) = std::io::pipe().unwrap();
    let arguments = ["--capacity", "100", "--gone-after", "300ms", "--json"];
    let mut write = writer(&url, &arguments);
    let written = Running::spawn_reading(&mut write, end.into());
    drop(write);
    start.write_all(b"1\n").unwrap();
    assert_eq!(reader.line(), "1.0");
    reader.signal("KILL");
    assert_eq!(reader.end().0, None);
    // Without a reader, writing continues.
    let more: String = (0..30).map(|i| format!("{i}\n")).collect();
    start.write_all(more.as_bytes()).unwrap();
    drop(start);
    let told = event(&written.error_with("\"event\":\"written\""), "written");
    assert_eq!(told["elements"], 31, "{told}");
    // The arrival of the first one may not have been reported; and if both use one ring, it holds
    // the ten of the reader's share.
    let left = told["left"].as_u64().unwrap();
    assert!((20..=31).contains(&left), "{told}");
    let error: Json = serde_json::from_str(&written.error_with("code")).unwrap();
    assert_eq!(error["code"], "peer-gone");
    assert_eq!(written.end().0, Some(7));
}

#[test]
fn ctrl_c_ends_a_writer_when_everything_is_delivered() {
    let url = endpoint("interrupted");
    let reader = reader(&url, &[]);
    let (end, mut start) = std::io::pipe().unwrap();
    let written = Running::spawn_reading(&mut writer(&url, &["--json"]), end.into());
    start.write_all(b"1\n2\n").unwrap();
    assert_eq!(reader.line(), "1.0");
    assert_eq!(reader.line(), "2.0");
    written.signal("INT");
    let told = written.error_with("\"event\":\"written\"");
    assert_eq!(event(&told, "written")["left"], 0);
    assert_eq!(written.end().0, Some(130));
    assert_eq!(reader.end(), (Some(0), Vec::new()));
}

/// Undelivered elements are counted, even if the user interrupts the wait.
#[test]
fn second_ctrl_c_abandons_and_counts_undelivered_elements() {
    let url = endpoint("given up");
    // It reads nothing: its output goes into a pipe that is never read.
    let (_out, kept) = std::io::pipe().unwrap();
    let stuck = {
        let mut read = command(&["stream", "read", &url, "--capacity", "10"]);
        Drained::start_writing(&mut read, Stdio::null(), kept.into())
    };
    let (end, mut start) = std::io::pipe().unwrap();
    let mut write = writer(&url, &["--json", "--capacity", "1000000"]);
    // It finds no socket of the reader, so that the two do not share one ring, in which everything
    // would be with the reader at once.
    let elsewhere = tempfile::tempdir().unwrap();
    write.env("XDG_RUNTIME_DIR", elsewhere.path());
    let written = Running::spawn_reading(&mut write, end.into());
    // Far more than that pipe and the reader's buffer hold.
    let count = 100_000;
    (0..count).for_each(|number| writeln!(start, "{number}").unwrap());
    written.error_with("stream-connected");
    written.signal("INT");
    let told = written.error_with("stream-delivering");
    assert!(
        event(&told, "stream-delivering")["elements"]
            .as_u64()
            .unwrap()
            > 0,
        "{told}"
    );
    written.signal("INT");
    let told = written.error_with("\"event\":\"written\"");
    let left = event(&told, "written")["left"].as_u64().unwrap();
    assert!(left > 1000 && left <= count, "{told}");
    assert_eq!(written.end().0, Some(7));
    drop(stuck);
}

/// An outage shows at both ends without a terminal.
///
/// Behaviour: NS-66.
#[test]
fn an_outage_is_reported_by_the_writer_and_so_is_its_end() {
    let url = endpoint("outage");
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [of_reader, of_writer] = folders
        .each_ref()
        .map(|folder| folder.path().to_str().unwrap());
    let arguments = ["--journal", of_reader, "--json"];
    let first = reader(&url, &arguments);
    let (end, mut start) = std::io::pipe().unwrap();
    let mut write = writer(&url, &["--journal", of_writer, "--json"]);
    let written = Running::spawn_reading(&mut write, end.into());
    start.write_all(b"1\n").unwrap();
    assert_eq!(first.line(), "1.0");
    written.error_with("stream-connected");
    first.signal("KILL");
    assert_eq!(first.end().0, None);
    let told = event(
        &written.error_with("stream-disconnected"),
        "stream-disconnected",
    );
    assert!(
        told["peer"].as_str().unwrap().ends_with("/outage"),
        "{told}"
    );
    let second = reader(&url, &arguments);
    written.error_with("stream-connected");
    start.write_all(b"2\n").unwrap();
    second.line_with("2.0");
    drop(start);
    assert_eq!((written.end().0, second.end().0), (Some(0), Some(0)));
}

#[test]
fn ctrl_c_ends_a_reader_and_notifies_the_writer() {
    let url = endpoint("reader interrupted");
    let reader = reader(&url, &["--json"]);
    let (end, mut start) = std::io::pipe().unwrap();
    let written = Running::spawn_reading(&mut writer(&url, &["--json"]), end.into());
    start.write_all(b"1\n").unwrap();
    assert_eq!(reader.line(), "1.0");
    reader.signal("INT");
    let told = reader.error_with("\"event\":\"read\"");
    assert_eq!(event(&told, "read")["elements"], 1);
    assert_eq!(reader.end().0, Some(130));
    drop(start);
    // Whether it learns by the end of its input or by its flush, everything had arrived.
    let told = written.error_with("\"event\":\"written\"");
    assert_eq!(event(&told, "written")["left"], 0);
}

/// Behaviour: NS-14.
#[test]
fn without_the_other_end_the_time_runs_out() {
    let url = endpoint("nobody");
    let alone = run(&["stream", "read", &url, "-w", "100ms"]);
    assert_eq!(alone.code, Some(4), "{}", alone.err);
    assert!(alone.err.contains("no peer"), "{}", alone.err);
    // The dialling end learns of the last attempt as well.
    let alone = run(&[
        "stream", "write", "out", "--to", &url, "-w", "100ms", "--json",
    ]);
    assert_eq!(alone.code, Some(4), "{}", alone.err);
    let error: Json = serde_json::from_str(&alone.err).unwrap();
    assert_eq!(error["code"], "no-peer");
}

#[test]
fn invalid_options_are_refused_before_any_action() {
    for (arguments, what) in [
        (&["write"][..], "URL"),
        (
            &["read", "a", "--to", "b"],
            "tip: --to is for `stream write`",
        ),
        (
            &["write", "a", "--from", "b"],
            "tip: --from is for `stream read`",
        ),
        (&["read", "a", "--type", "strin"], "--type"),
        (
            &["read", "a", "--type", "string", "--as", "raw"],
            "no raw form",
        ),
        (
            &["read", "a", "--capacity", "5", "--chunk", "6"],
            "--chunk 6",
        ),
        (&["read", "tl://elsewhere/a"], "another machine"),
        (&["read", "a//b"], "empty"),
    ] {
        let output = run(&[&["stream"][..], arguments].concat());
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.err);
        assert!(output.err.contains(what), "{arguments:?}: {}", output.err);
    }
}

/// Only data passes through a stream.
///
/// Behaviour: NS-04.
#[test]
fn references_and_objects_are_not_elements() {
    let none = [
        "object",
        "class(a)",
        "ref(f64)",
        "struct(a: f64, b: object)",
        "array(object, 3)",
    ];
    for no_type in none {
        let output = run(&["stream", "read", "a", "--type", no_type]);
        assert_eq!(output.code, Some(2), "{no_type}: {}", output.err);
        assert!(output.err.contains("--type"), "{no_type}: {}", output.err);
    }
}

/// By default, a measurement has the buffers that give the highest rate, and a call has a tenth of
/// them.
///
/// Behaviour: NS-81, NS-82.
#[test]
fn bench_defaults_depend_on_the_element_size() {
    let sized = [
        "stream",
        "bench",
        "--bytes",
        "1MB",
        "--samples",
        "1",
        "--threads",
        "--json",
    ];
    let with = |more: &[&str]| {
        let output = run(&[&sized[..], more].concat());
        assert_eq!(output.code, Some(0), "{more:?}: {}", output.err);
        let line: Json = serde_json::from_str(&output.out).unwrap();
        (
            line["capacity"].as_u64().unwrap(),
            line["chunk"].as_u64().unwrap(),
        )
    };
    assert_eq!(with(&[]), (1_000_000, 100_000));
    assert_eq!(with(&["--type", "string"]), (100_000, 10_000));
    assert_eq!(with(&["--capacity", "5000"]), (5000, 500));
    assert_eq!(
        with(&["--capacity", "5000", "--chunk", "1250"]),
        (5000, 1250)
    );
}

/// Scalars, arrays of them and texts, structs, nested ones: each is measured in the same way, with
/// its cost per gigabyte, so that they can be compared.
///
/// Behaviour: NS-84.
#[test]
fn bench_measures_every_kind_of_type() {
    let sized = [
        "stream",
        "bench",
        "--bytes",
        "1MB",
        "--samples",
        "10",
        "--json",
    ];
    for (data_type, is_scalar) in [
        ("f64", true),
        ("array(f64, *)", false),
        ("string", false),
        ("struct(volts: f64, text: string)", false),
        (
            "struct(at: timestamp, inner: struct(values: array(f64, *)))",
            false,
        ),
    ] {
        let output = run(&[&sized[..], &["--type", data_type]].concat());
        assert_eq!(output.code, Some(0), "{data_type}: {}", output.err);
        let line: Json = serde_json::from_str(&output.out).unwrap();
        assert_eq!(
            (&line["lost"], &line["type"]),
            (&Json::from(0), &Json::from(data_type))
        );
        let bytes = line["bytes"].as_u64().unwrap();
        assert!((900_000..=1_000_000).contains(&bytes), "{line}");
        for figure in [
            "writer_cpu_per_gb",
            "reader_cpu_per_gb",
            "bytes_per_second",
            "elements_per_second",
            "p50_us",
        ] {
            assert!(line[figure].as_f64() > Some(0.0), "{figure}: {line}");
        }
        // Elements of one size have nothing but their bytes.
        let elements = line["elements"].as_u64().unwrap();
        assert_eq!(bytes == 8 * elements, is_scalar, "{line}");
    }
}

/// Behaviour: NS-05, NS-08.
#[test]
fn the_engine_of_the_machine_keeps_the_names() {
    let served = Served::start(RIG);
    let reader = served.spawn(&["stream", "read", "Subsystem A/stream 1", "--type", "string"]);
    let to = "Subsystem a/Stream 1";
    let arguments = ["stream", "write", "rig/out", "--to", to, "--type", "string"];
    let written = served.run_with_input(&arguments, "\"one\"\n\"two\"\n");
    assert_eq!(written.code, Some(0), "{}", written.err);
    assert_eq!(
        reader.end(),
        (Some(0), vec!["\"one\"".to_owned(), "\"two\"".to_owned()])
    );
}

#[test]
fn a_measurement_ends_with_what_was_lost() {
    let sized = ["stream", "bench", "--bytes", "2MB", "--samples", "10"];
    for more in [
        &[][..],
        &["--threads", "--type", "u8"],
        &["--over", "local"],
        &[
            "--type",
            "struct(text: string, volts: f64)",
            "--call",
            "100",
        ],
    ] {
        let output = run(&[&sized[..], more].concat());
        assert_eq!(output.code, Some(0), "{more:?}: {}", output.err);
        assert!(output.out.ends_with("\nlost 0\n"), "{}", output.out);
        assert!(output.out.contains("latency      p50 "), "{}", output.out);
        let output = run(&[&sized[..], more, &["--json"]].concat());
        let line: Json = serde_json::from_str(&output.out).unwrap();
        schema::check(&line, &schema::documented()["$defs"]["stream_bench"]).unwrap();
        assert_eq!(line["lost"], 0, "{line}");
        assert!(line["elements"].as_u64() > Some(50_000), "{line}");
        let is_local = more.contains(&"local");
        assert_eq!(line["transport"] == "TCP", !is_local, "{line}");
    }
}

/// Polls until an endpoint has the expected state: the listed one may be a second old.
fn told(served: &Served, arguments: &[&str], is_so: impl Fn(&Json) -> bool) -> Json {
    let documented = schema::documented();
    for _ in 0..2000 {
        let output = served.run(&[&["stream"][..], arguments, &["--json"]].concat());
        for line in output.out.lines() {
            let endpoint: Json = serde_json::from_str(line).unwrap();
            schema::check(&endpoint, &documented["$defs"]["stream_endpoint"]).unwrap();
            if is_so(&endpoint) {
                return endpoint;
            }
        }
    }
    let output = served.run(&[&["stream"][..], arguments].concat());
    panic!("no endpoint is so: {}{}", output.out, output.err);
}

/// Behaviour: NS-50, NS-51, NS-52, NS-54.
#[test]
fn endpoints_of_a_machine_report_their_status() {
    let served = Served::start(RIG);
    let empty = served.run(&["stream", "ls"]);
    assert_eq!(
        (empty.code, empty.out.as_str()),
        (Some(0), ""),
        "{}",
        empty.err
    );
    let arguments = ["--type", "i32", "--capacity", "7"];
    let read = ["stream", "read", "daq/raw", "--count", "4"];
    let reader = served.spawn(&[&read[..], &arguments].concat());
    let found = told(&served, &["ls"], |e| e["direction"] == "reads");
    assert_eq!(found["endpoint"], "tl://localhost/daq/raw");
    assert_eq!(
        (&found["connected"], &found["capacity"]),
        (&false.into(), &7.into())
    );
    assert_eq!(
        (&found["type"], &found["pid"]),
        (&"i32".into(), &reader.child.id().into())
    );
    let (end, mut start) = std::io::pipe().unwrap();
    let write = ["stream", "write", "rig/out", "--to", "daq/raw"];
    let mut write = served.command(&[&write[..], &arguments].concat());
    let writer = Running::spawn_reading(&mut write, end.into());
    drop(write);
    start.write_all(b"1\n2\n3\n").unwrap();
    let found = told(&served, &["info", "RIG/Out"], |e| e["total"] == 3);
    assert_eq!(
        (&found["direction"], &found["connected"]),
        (&"writes".into(), &true.into())
    );
    assert_eq!(found["peer"], "tl://localhost/daq/raw");
    let found = told(&served, &["info", "daq/raw"], |e| e["total"] == 3);
    assert_eq!(
        (&found["in_buffer"], &found["disconnections"]),
        (&0.into(), &0.into())
    );
    assert!(found["stalled"].is_number(), "{found}");
    let shown = served.run(&["stream", "info", "daq/raw"]);
    assert!(
        shown.out.contains("diagnosis\tbuffer empty: the writer"),
        "{}",
        shown.out
    );
    // Both are gone with their programs.
    start.write_all(b"4\n").unwrap();
    drop(start);
    assert_eq!((reader.end().0, writer.end().0), (Some(0), Some(0)));
    let gone = served.run(&["stream", "info", "daq/raw", "--json"]);
    assert_eq!(gone.code, Some(1), "{}", gone.out);
    let error: Json = serde_json::from_str(&gone.err).unwrap();
    assert_eq!(
        (&error["code"], &error["name"]),
        (&"unknown-endpoint".into(), &"daq/raw".into())
    );
}

#[test]
fn endpoint_with_its_own_port_is_queried_directly() {
    let served = Served::start(RIG);
    let url = endpoint("own port");
    let reader = reader(&url, &[]);
    let place = url.strip_suffix("/own port").unwrap();
    let found = told(&served, &["ls", place], |e| e["direction"] == "reads");
    assert_eq!(found["endpoint"], "tl://localhost/own port");
    assert_eq!(found["pid"], reader.child.id());
    told(&served, &["info", &url], |e| e["direction"] == "reads");
    drop(reader);
    let nobody = served.run(&["stream", "ls", place]);
    assert_eq!(nobody.code, Some(3), "{}", nobody.err);
    let usage = served.run(&["stream", "ls", &url]);
    assert_eq!(usage.code, Some(2), "{}", usage.err);
}

#[test]
fn elements_round_trip_as_arrow() {
    let ty = "struct(t: timestamp, mode: enum(OFF, AUTO), volts: array(f64, *))";
    let rows = [
        r#"{"t":"2026-11-20T21:39:04.123456789Z","mode":"AUTO","volts":[1.5,2.5]}"#,
        r#"{"t":"2026-11-20T21:39:05.000000000Z","mode":"OFF","volts":[]}"#,
    ];
    let url = endpoint("to arrow");
    let mut read = command(&["stream", "read", &url, "--type", ty, "--as", "arrow"]);
    let read = Drained::start(&mut read, Stdio::null());
    let input = rows.join("\n");
    let written = finish(&mut writer(&url, &["--type", ty]), &input);
    assert_eq!(written.code, Some(0), "{}", written.err);
    let (code, arrow, said) = read.end_raw();
    assert_eq!(code, Some(0), "{said}");
    let url = endpoint("from arrow");
    let reader = reader(&url, &["--type", ty]);
    let (end, mut start) = std::io::pipe().unwrap();
    let mut write = writer(&url, &["--type", ty, "--as", "arrow"]);
    let back = Running::spawn_reading(&mut write, end.into());
    start.write_all(&arrow).unwrap();
    drop(start);
    assert_eq!(back.end().0, Some(0));
    assert_eq!(reader.end(), (Some(0), rows.map(str::to_owned).to_vec()));
}

/// A port that other machines can reach must be allowed in each command that can open one, and is opened
/// then.
#[test]
fn port_of_an_endpoint_that_others_can_reach_needs_the_word_insecure() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("r.tdms");
    let recording = recording.to_str().unwrap();
    let url = || endpoint("open").replace("localhost", "0.0.0.0");
    let written = |url: &str| {
        let url = url.replace("0.0.0.0", "127.0.0.1");
        finish(&mut writer(&url, &["--type", "i32"]), "1\n2\n3\n")
    };

    let read = url();
    let reading = ["stream", "read", &read, "--type", "i32"];
    let recorded = url();
    let start = ["record", "start", recording, "--stream", &recorded];
    let recording_of = [&start[..], &["--type", "i32"]].concat();
    for (url, verb) in [(&read, &reading[..]), (&recorded, &recording_of)] {
        let refused = run(verb);
        assert_eq!(refused.code, Some(1), "{}", refused.err);
        let expected = "neither encrypted nor authenticated";
        assert!(refused.err.contains(expected), "{}", refused.err);
        assert!(refused.err.contains("use --insecure"), "{}", refused.err);
        let allowed = Running::spawn(command(verb).arg("--insecure"));
        let written = written(url);
        assert_eq!(written.code, Some(0), "{}", written.err);
        assert_eq!(allowed.end().0, Some(0));
    }

    let played = url();
    let playing = [
        "play",
        recording,
        "--stream",
        &played,
        "--type",
        "i32",
        "--full-speed",
    ];
    let refused = run(&playing);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("use --insecure"), "{}", refused.err);
    let allowed = Running::spawn(command(&playing).arg("--insecure"));
    let from = played.replace("0.0.0.0", "127.0.0.1");
    let read = run(&["stream", "read", "again", "--from", &from, "--type", "i32"]);
    assert_eq!(read.code, Some(0), "{}", read.err);
    assert_eq!(read.out, "1\n2\n3\n");
    assert_eq!(allowed.end().0, Some(0));
}
