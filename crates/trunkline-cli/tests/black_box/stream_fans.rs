//! `stream --readers`, `stream --writers`: one writer and many readers, many writers and one
//! reader.

use std::io::{PipeWriter, Write};
use std::process::Stdio;

use serde_json::Value as Json;

use crate::rig::{Drained, Output, Running, command, finish, run};
use crate::streams::{endpoint, event, reader};

/// A writer with its own name, which readers wait for, with its input.
pub fn spreading(url: &str, arguments: &[&str]) -> (Running, PipeWriter) {
    let (end, input) = std::io::pipe().unwrap();
    let mut write = command(&["stream", "write", url]);
    let running = Running::spawn_reading(write.args(arguments), end.into());
    (running, input)
}

/// A reader of this name that dials.
pub fn dialling(name: &str, from: &str, arguments: &[&str]) -> Running {
    let read = ["stream", "read", name, "--from", from];
    Running::start(&[&read[..], arguments].concat())
}

/// A writer of this name to this end, to the end of its input.
fn write(name: &str, to: &str, arguments: &[&str], input: &str) -> Option<i32> {
    let write = ["stream", "write", name, "--to", to];
    let written = finish(&mut command(&[&write[..], arguments].concat()), input);
    written.code
}

fn numbers(range: std::ops::Range<u64>) -> String {
    range.map(|number| format!("{number}\n")).collect()
}

/// An object on standard error, as documented.
pub fn told(end: &Running, name: &str) -> Json {
    let line = end.error_with(&format!("\"event\":\"{name}\""));
    event(&line, name)
}

/// Behaviour: B-62.
#[test]
fn each_of_several_readers_prints_everything() {
    let url = endpoint("spread");
    let arguments = ["--type", "u64", "--json", "--capacity", "100"];
    let names = ["a", "b", "c"];
    let readers = names.map(|name| dialling(name, &url, &arguments));
    let (writer, mut input) = spreading(&url, &[&arguments[..], &["--readers", "3"]].concat());
    let mut came = [(); 3].map(|()| {
        let came = told(&writer, "stream-connected");
        assert_eq!(came["type"], "u64");
        came["peer"].as_str().unwrap().to_owned()
    });
    came.sort();
    assert_eq!(came, names.map(|name| format!("tl://localhost/{name}")));
    input.write_all(numbers(0..5000).as_bytes()).unwrap();
    drop(input);
    let expected: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
    for reader in readers {
        let (code, lines) = reader.end();
        assert_eq!(code, Some(0));
        assert!(lines == expected, "{} lines", lines.len());
    }
    for _ in names {
        let reader = told(&writer, "stream-reader");
        assert_eq!((&reader["left"], &reader["lost"]), (&0.into(), &0.into()));
        assert!(reader.get("code").is_none(), "{reader}");
    }
    let told = told(&writer, "written");
    assert_eq!(
        (
            &told["elements"],
            &told["left"],
            &told["lost"],
            &told["readers"]
        ),
        (&5000.into(), &0.into(), &0.into(), &3.into())
    );
    assert_eq!(writer.end().0, Some(0));
}

/// Behaviour: B-62.
#[test]
fn with_a_quota_no_reader_blocks_and_losses_are_reported() {
    let url = endpoint("quota");
    let of_reader = ["--type", "u64", "--json", "--capacity", "10"];
    // It prints into a pipe that is never read.
    let (out, kept) = std::io::pipe().unwrap();
    let stuck = {
        // The child has the pipe as well.
        let mut read = command(&["stream", "read", "stuck", "--from", &url]);
        Drained::start_writing(read.args(of_reader), Stdio::null(), kept.into())
    };
    let live = dialling("live", &url, &["--type", "u64", "--capacity", "100000"]);
    let of_writer = [
        "--type",
        "u64",
        "--json",
        "--capacity",
        "100000",
        "--readers",
        "2",
        "--quota",
        "100",
    ];
    let (writer, mut input) = spreading(&url, &of_writer);
    // Far more than the pipe and the buffers of the one that is stuck hold.
    let count = 300_000;
    for number in 0..count {
        writeln!(input, "{number}").unwrap();
        // The other one is never too far behind.
        if number % 1000 == 999 {
            for read in number - 999..=number {
                assert_eq!(live.line(), read.to_string());
            }
        }
    }
    drop(input);
    // Now it reads on, and finds the newest.
    let lines = std::io::BufRead::lines(std::io::BufReader::new(out));
    let printed: Vec<u64> = lines.map(|line| line.unwrap().parse().unwrap()).collect();
    let Output {
        code, err: said, ..
    } = stuck.end();
    assert_eq!(code, Some(7), "elements are missing");
    let lost = event(&said, "read")["lost"].as_u64().unwrap();
    assert_eq!(printed.len() as u64 + lost, count, "{said}");
    assert!(
        lost > 1000 && printed.last() == Some(&(count - 1)),
        "{said}"
    );
    assert!(printed.is_sorted());
    // Each loss is in one report, of which there are not more than the seconds that this took.
    let objects = said
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    let reports: Vec<Json> = objects.filter(|o| o["event"] == "stream-lost").collect();
    let reported: u64 = reports
        .iter()
        .map(|o| o["elements"].as_u64().unwrap())
        .sum();
    assert_eq!(reported, lost, "{said}");
    let seconds = event(&said, "read")["seconds"].as_f64().unwrap();
    assert!(
        reports.len() as f64 <= seconds + 3.0,
        "{}: {said}",
        reports.len()
    );
    assert_eq!(live.end(), (Some(0), Vec::new()));
    let mut losses = [(); 2].map(|()| {
        let reader = told(&writer, "stream-reader");
        let peer = reader["peer"].as_str().unwrap().to_owned();
        (peer, reader["lost"].as_u64().unwrap())
    });
    losses.sort();
    let [of_live, of_stuck] = &losses;
    assert_eq!(of_live, &("tl://localhost/live".to_owned(), 0));
    assert_eq!(of_stuck, &("tl://localhost/stuck".to_owned(), lost));
    let told = told(&writer, "written");
    assert_eq!((&told["left"], &told["lost"]), (&0.into(), &lost.into()));
    // It was requested.
    assert_eq!(writer.end().0, Some(0));
}

/// Behaviour: B-62.
#[test]
fn raw_elements_reach_each_reader_unchanged() {
    let url = endpoint("raw");
    let bytes: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let arguments = ["--type", "u32", "--as", "raw", "--capacity", "999"];
    let readers = ["a", "b"].map(|name| {
        let mut read = command(&["stream", "read", name, "--from", &url]);
        Drained::start(read.args(arguments), Stdio::null())
    });
    let (writer, mut input) = spreading(&url, &[&arguments[..], &["--readers", "2"]].concat());
    // Not whole elements.
    for piece in bytes.chunks(10_001) {
        input.write_all(piece).unwrap();
    }
    drop(input);
    assert_eq!(writer.end().0, Some(0));
    for reader in readers {
        let (code, out, said) = reader.end_raw();
        assert_eq!(code, Some(0), "{said}");
        assert!(out == bytes, "{} bytes", out.len());
    }
}

/// Behaviour: B-62.
#[test]
fn elements_without_a_reader_are_reported_as_undelivered() {
    let url = endpoint("nobody");
    let arguments = ["--type", "u64", "--json", "--readers", "0"];
    let write = ["stream", "write", &url];
    let mut alone = command(&[&write[..], &arguments].concat());
    let alone = finish(&mut alone, &numbers(0..5));
    assert_eq!(alone.code, Some(7), "{}", alone.err);
    let told = event(&alone.err, "written");
    assert_eq!((&told["left"], &told["readers"]), (&5.into(), &0.into()));
}

/// The lines of one writer in a line format, without its header.
pub fn of<'a>(lines: &'a [String], begin: &str) -> Vec<&'a str> {
    let lines = lines.iter().filter_map(|line| line.strip_prefix(begin));
    lines.collect()
}

/// Behaviour: B-62.
#[test]
fn each_element_of_several_writers_names_its_writer() {
    let inputs = [("a", numbers(0..3000)), ("b", numbers(3000..3010))];
    for form in ["jsonl", "csv"] {
        let url = endpoint("gather");
        let arguments = ["--type", "u64", "--as", form, "--capacity", "100"];
        let reader = reader(&url, &[&arguments[..], &["--writers", "2"]].concat());
        let writes = inputs.clone().map(|(name, input)| {
            let url = url.clone();
            std::thread::spawn(move || write(name, &url, &["--type", "u64"], &input))
        });
        for write in writes {
            assert_eq!(write.join().unwrap(), Some(0));
        }
        // It ends with the second of them.
        let (code, lines) = reader.end();
        assert_eq!(code, Some(0));
        let csv = form == "csv";
        assert_eq!(lines.len(), 3010 + usize::from(csv));
        assert_eq!(csv, lines[0] == "writer,value", "{}", lines[0]);
        for (name, input) in &inputs {
            let (begin, end) = match csv {
                true => (format!("tl://localhost/{name},"), ""),
                false => (
                    format!("{{\"writer\":\"tl://localhost/{name}\",\"value\":"),
                    "}",
                ),
            };
            let came: String = of(&lines, &begin)
                .iter()
                .map(|value| value.strip_suffix(end).unwrap().to_owned() + "\n")
                .collect();
            assert!(&came == input, "{form} {name}: {}", came.len());
        }
    }
}

/// Behaviour: B-62.
#[test]
fn arrow_has_a_column_of_the_writers() {
    let url = endpoint("to arrow");
    let of_elements = "struct(n: u64, text: string)";
    let mut read = command(&["stream", "read", &url, "--type", of_elements]);
    let read = read.args(["--as", "arrow", "--writers", "1", "--json"]);
    let read = Drained::start(read, Stdio::null());
    let input = "{\"n\":1,\"text\":\"x\"}\n{\"n\":2,\"text\":\"y\"}\n";
    assert_eq!(write("a", &url, &["--type", of_elements], input), Some(0));
    let (code, arrow, said) = read.end_raw();
    assert_eq!(code, Some(0), "{said}");
    // A stream of elements that have that column reads it.
    let url = endpoint("from arrow");
    let with_writer = "struct(writer: string, n: u64, text: string)";
    let reader = reader(&url, &["--type", with_writer]);
    let to = ["stream", "write", "back", "--to", &url];
    let mut back = command(&[&to[..], &["--type", with_writer, "--as", "arrow"]].concat());
    let (end, mut start) = std::io::pipe().unwrap();
    let back = Running::spawn_reading(&mut back, end.into());
    start.write_all(&arrow).unwrap();
    drop(start);
    assert_eq!(back.end().0, Some(0));
    let expected = [("1", "x"), ("2", "y")].map(|(n, text)| {
        format!("{{\"writer\":\"tl://localhost/a\",\"n\":{n},\"text\":\"{text}\"}}")
    });
    assert_eq!(reader.end(), (Some(0), expected.to_vec()));
}

/// Behaviour: B-62.
#[test]
fn end_of_each_writer_is_reported_and_unlimited_reader_continues() {
    let url = endpoint("forever");
    let arguments = ["--type", "u64", "--json", "--writers", "0"];
    let reader = reader(&url, &arguments);
    for number in 0..3_u64 {
        let name = format!("w{number}");
        let own = number.to_string();
        assert_eq!(write(&name, &url, &["--type", "u64"], &own), Some(0));
        let came = told(&reader, "stream-connected");
        assert_eq!(came["peer"], format!("tl://localhost/{name}"));
        assert!(came.get("same_name").is_none(), "{came}");
        let ended = told(&reader, "stream-writer");
        assert_eq!(ended["peer"], format!("tl://localhost/{name}"));
        assert_eq!(ended["elements"], 1);
        assert!(ended.get("code").is_none(), "{ended}");
    }
    reader.signal("INT");
    let told = told(&reader, "read");
    assert_eq!((&told["elements"], &told["ended"]), (&3.into(), &3.into()));
    assert_eq!(reader.end().0, Some(130));
}

/// Behaviour: B-62.
#[test]
fn duplicate_writer_names_are_reported() {
    let url = endpoint("twins");
    let reader = reader(&url, &["--type", "u64", "--json", "--writers", "2"]);
    let write = || {
        let (end, input) = std::io::pipe().unwrap();
        let mut write = command(&["stream", "write", "twin", "--to", &url, "--type", "u64"]);
        (Running::spawn_reading(&mut write, end.into()), input)
    };
    let (first, of_first) = write();
    let (second, of_second) = write();
    assert!(told(&reader, "stream-connected").get("same_name").is_none());
    assert_eq!(told(&reader, "stream-connected")["same_name"], true);
    drop((of_first, of_second));
    assert_eq!((first.end().0, second.end().0), (Some(0), Some(0)));
    assert_eq!(reader.end().0, Some(0));
}

#[test]
fn options_invalid_for_several_peers_are_refused_first() {
    let with_writer = "struct(writer: string, n: i32)";
    for (arguments, what) in [
        (
            &["read", "a", "--readers", "2"][..],
            "tip: --readers is for `stream write`",
        ),
        (
            &["write", "a", "--writers", "2"],
            "tip: --writers is for `stream read`",
        ),
        (
            &["write", "a", "--readers", "2", "--to", "b"],
            "'--readers <N>' cannot be used with '--to <PEER>'",
        ),
        (
            &["read", "a", "--writers", "2", "--from", "b"],
            "'--writers <N>' cannot be used with '--from <PEER>'",
        ),
        (
            &["write", "a", "--readers", "2", "--journal", "x"],
            "'--readers <N>' cannot be used with '--journal <FOLDER>'",
        ),
        (&["write", "a", "--quota", "5"], "--readers"),
        (&["write", "a", "--readers", "10001"], "--readers"),
        (
            &["read", "a", "--writers", "1", "--as", "raw"],
            "the raw form cannot name the writer",
        ),
        (
            &[
                "read",
                "a",
                "--writers",
                "1",
                "-o",
                "csv",
                "--type",
                with_writer,
            ],
            "has a field of that name",
        ),
        (
            &[
                "read",
                "a",
                "--writers",
                "1",
                "--as",
                "arrow",
                "--type",
                with_writer,
            ],
            "has a field of that name",
        ),
    ] {
        let output = run(&[&["stream"][..], arguments].concat());
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.err);
        assert!(output.err.contains(what), "{arguments:?}: {}", output.err);
    }
}
