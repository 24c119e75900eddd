//! `stream --journal`: streams that outlive their programs.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value as Json;

use crate::rig::{Running, command, run};
use crate::streams::{endpoint, event, reader, writer};

/// The number of earlier elements, which an end with a journal reports first.
fn before(end: &Running) -> u64 {
    let line = end.error_with("\"event\":\"stream-journal\"");
    event(&line, "stream-journal")["elements"].as_u64().unwrap()
}

/// A folder in one of the test's, as an argument.
fn journal(folder: &tempfile::TempDir, of: &str) -> String {
    folder.path().join(of).to_str().unwrap().to_owned()
}

/// Starts a writer with a journal and its input, which is closed when it is dropped.
fn writer_with(url: &str, arguments: &[&str]) -> (Running, std::io::PipeWriter) {
    let (end, input) = std::io::pipe().unwrap();
    let mut write = writer(url, arguments);
    let running = Running::spawn_reading(&mut write, end.into());
    (running, input)
}

/// Writes numbers until the other side goes, or all are written.
fn feed(
    mut input: std::io::PipeWriter,
    numbers: std::ops::Range<u64>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for number in numbers {
            if writeln!(input, "{number}").is_err() {
                return;
            }
        }
    })
}

/// Behaviour: B-60.
#[test]
fn killed_writer_with_a_journal_continues_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let url = endpoint("survives");
    let kept = [journal(&folder, "read"), journal(&folder, "write")];
    let arguments = ["--type", "u64", "--json", "--capacity", "100", "--journal"];
    let reader = reader(&url, &[&arguments[..], &[&kept[0]]].concat());
    let arguments = [&arguments[..], &[&kept[1]]].concat();
    let (mut at, mut printed, last) = (0, Vec::new(), 20_000);
    for life in 0..4 {
        let (writer, input) = writer_with(&url, &arguments);
        let from = before(&writer);
        assert!(from >= at, "life {life}: {from} {at}");
        at = from;
        let feeding = feed(input, from..last);
        if life == 3 {
            feeding.join().unwrap();
            let told = event(&writer.error_with("\"event\":\"written\""), "written");
            assert_eq!(
                (&told["elements"], &told["left"]),
                (&(last - from).into(), &0.into())
            );
            assert_eq!(writer.end().0, Some(0));
            break;
        }
        // Somewhere in the middle.
        printed.extend((0..1000).map(|_| reader.line()));
        writer.signal("KILL");
        assert_eq!(writer.end().0, None);
        feeding.join().unwrap();
    }
    let (code, rest) = reader.end();
    assert_eq!(code, Some(0));
    printed.extend(rest);
    let expected: Vec<String> = (0..last).map(|number| number.to_string()).collect();
    assert!(printed == expected, "{} of {last} lines", printed.len());
}

/// Behaviour: B-60.
#[test]
fn killed_reader_with_a_journal_reports_what_it_prints_again() {
    let folder = tempfile::tempdir().unwrap();
    let url = endpoint("reads on");
    let kept = [journal(&folder, "read"), journal(&folder, "write")];
    let arguments = ["--type", "u64", "--json", "--capacity", "100", "--journal"];
    let of_reader = [&arguments[..], &[&kept[0]]].concat();
    let (last, mut printed) = (20_000, Vec::<String>::new());
    let (writer, input) = writer_with(&url, &[&arguments[..], &[&kept[1]]].concat());
    let feeding = feed(input, 0..last);
    let mut killed = true;
    for life in 0..6 {
        // In turns it is killed, and leaves the stream in order: then nothing comes again.
        let count = ["--count".to_owned(), "2500".to_owned()];
        let more: Vec<&str> = match life % 2 {
            1 => count.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        let running = reader(&url, &[&of_reader[..], &more].concat());
        let from = usize::try_from(before(&running)).unwrap();
        assert!(
            from <= printed.len(),
            "life {life}: {from} of {}",
            printed.len()
        );
        assert!(
            killed || from == printed.len(),
            "life {life}: {from} of {}",
            printed.len()
        );
        printed.truncate(from);
        killed = life % 2 == 0;
        if killed {
            printed.extend((0..1500).map(|_| running.line()));
            running.signal("KILL");
        }
        let (code, lines) = running.end();
        assert_eq!(code, (!killed).then_some(0), "life {life}");
        printed.extend(lines);
    }
    let running = reader(&url, &of_reader);
    printed.truncate(usize::try_from(before(&running)).unwrap());
    printed.extend(running.end().1);
    feeding.join().unwrap();
    assert_eq!(writer.end().0, Some(0));
    let expected: Vec<String> = (0..last).map(|number| number.to_string()).collect();
    assert!(printed == expected, "{} of {last} lines", printed.len());
}

/// Behaviour: B-60.
#[test]
fn interrupted_writer_with_a_journal_leaves_the_rest_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let url = endpoint("left");
    let kept = [journal(&folder, "read"), journal(&folder, "write")];
    let arguments = ["--type", "u64", "--json", "--capacity", "10", "--journal"];
    let of_reader = [&arguments[..], &[&kept[0]]].concat();
    let of_writer = [&arguments[..], &[&kept[1]]].concat();
    let first = reader(&url, &[&of_reader[..], &["--count", "3"]].concat());
    // With its own port its position can be queried.
    let own = endpoint("out");
    let start = || {
        let (end, input) = std::io::pipe().unwrap();
        let mut write = command(&["stream", "write", &own, "--to", &url]);
        (
            Running::spawn_reading(write.args(&of_writer), end.into()),
            input,
        )
    };
    let (writer, mut input) = start();
    writeln!(input, "0\n1\n2").unwrap();
    assert_eq!(
        first.end(),
        (Some(0), ["0", "1", "2"].map(str::to_owned).to_vec())
    );
    // There is no reader; far more than a buffer waits in the journal.
    (3..1000).for_each(|number| writeln!(input, "{number}").unwrap());
    let is_taken = (0..2000).any(|_| {
        let output = run(&["stream", "info", &own, "--json"]);
        let told: Json = serde_json::from_str(&output.out).unwrap_or_default();
        told["total"] == 1000
    });
    assert!(is_taken);
    writer.signal("INT");
    let told = event(&writer.error_with("\"event\":\"written\""), "written");
    assert_eq!(told["elements"], 1000, "{told}");
    // Whether the reader had time to confirm the first ones is random.
    let kept = told["kept"].as_u64().unwrap();
    assert!((997..=1000).contains(&kept), "{told}");
    assert_eq!(writer.end().0, Some(130));
    // Without further input the next one delivers it, and ends the stream.
    let second = reader(&url, &of_reader);
    let (writer, input) = start();
    drop(input);
    assert_eq!(writer.end().0, Some(0));
    let (code, lines) = second.end();
    let expected: Vec<String> = (3..1000).map(|number| number.to_string()).collect();
    assert_eq!((code, lines), (Some(0), expected));
}

#[test]
fn a_journal_is_for_ends_alone() {
    for (arguments, what) in [
        (
            &["ls", "--journal", "x"][..],
            "tip: --journal is for `stream write`, `stream read`",
        ),
        (&["read", "a", "--journal-size", "1GB"], "--journal"),
    ] {
        let output = run(&[&["stream"][..], arguments].concat());
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.err);
        assert!(output.err.contains(what), "{arguments:?}: {}", output.err);
    }
}

/// The content of a journal is for its user alone, regardless of the umask.
#[test]
fn files_and_folders_of_a_journal_are_of_the_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let url = endpoint("modes");
    let kept = [journal(&folder, "read"), journal(&folder, "write")];
    let arguments = ["--type", "u64", "--journal"];
    let reader = reader(&url, &[&arguments[..], &[&kept[0]]].concat());
    let (writer, input) = writer_with(&url, &[&arguments[..], &[&kept[1]]].concat());
    feed(input, 0..100).join().unwrap();
    assert_eq!(writer.end().0, Some(0));
    assert_eq!(reader.end().0, Some(0));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in &kept {
        assert_eq!(mode(Path::new(folder)), 0o700, "{folder}");
        let mut files = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            files += 1;
        }
        assert!(files > 0, "{folder}");
    }
}
