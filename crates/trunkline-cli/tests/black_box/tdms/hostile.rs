//! Invalid files, and options that do not fit.

use super::{Files, tdms, waveforms};

const VERBS: [&str; 6] = ["info", "cat", "head", "verify", "repair", "convert"];

fn arguments<'a>(verb: &'a str, path: &'a str, out: &'a str) -> Vec<&'a str> {
    match verb {
        "convert" => vec![verb, path, out, "--force"],
        _ => vec![verb, path],
    }
}

#[test]
fn unreadable_file_is_reported_with_an_exit_code() {
    let files = Files::new();
    let out = files.path("out.csv");
    let folder = files.path("");
    for (path, said) in [
        (files.put("text.tdms", b"not at all"), "not a TDMS file"),
        (files.path("none.tdms"), "there is no such file"),
        (folder, "it is a folder"),
        ("/dev/zero".to_owned(), "not a regular file"),
    ] {
        for verb in VERBS {
            let output = tdms(&arguments(verb, &path, &out));
            let expected = match (verb, said) {
                ("verify", "not a TDMS file") => 8,
                _ => 1,
            };
            assert_eq!(output.code, Some(expected), "{verb} {path}: {output:?}");
            assert!(output.err.contains(said), "{verb} {path}: {output:?}");
            assert_eq!(output.out, "");
        }
    }
    assert_eq!(files.names(), ["text.tdms"]);
    let output = tdms(&["info", "--json", &files.path("text.tdms")]);
    let error: serde_json::Value = serde_json::from_str(&output.err).unwrap();
    assert_eq!(error["code"], "not-tdms");
}

#[test]
fn a_file_cut_or_altered_at_any_byte_ends_in_order() {
    let files = Files::new();
    let bytes = waveforms().0;
    let out = files.path("out.csv");
    let ends = |verb: &str, bytes: &[u8], what: String| {
        let path = files.put("run.tdms", bytes);
        let output = tdms(&arguments(verb, &path, &out));
        let is_in_order = matches!(output.code, Some(0 | 1 | 8));
        assert!(
            is_in_order && !output.err.contains("panic"),
            "{verb}, {what}: {output:?}"
        );
    };
    for (at, verb) in (0..bytes.len()).step_by(5).zip(VERBS.iter().cycle()) {
        ends(verb, &bytes[..at], format!("cut at {at}"));
        let mut altered = bytes.clone();
        altered[at] ^= 0xff;
        ends(verb, &altered, format!("altered at {at}"));
    }
}

#[test]
fn names_cannot_steer_a_terminal() {
    let files = Files::new();
    let path = files.put("a\u{1b}[31m\n.tdms", b"no");
    let output = tdms(&["info", &path]);
    assert!(!output.err.contains('\u{1b}'), "{output:?}");
    assert!(output.err.contains("a\\u001b[31m\\n.tdms"), "{output:?}");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let files = Files::new();
    let path = files.put("run.tdms", &waveforms().0);
    for arguments in [
        &["info", &path, "out"][..],
        &["verify", &path, "--channel", "x/y"],
        &["cat", &path, "--force"],
        &["cat", &path, "--as", "csv"],
        &["defrag", &path, "out", "--count", "1"],
        &["convert", &path, "out.csv", "--dry-run"],
        &["cat", &path, "--format", "{value}"],
        &["convert", &path],
        &["defrag", &path],
        &["frobnicate", &path],
        &["cat"],
    ] {
        let output = tdms(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
        assert!(!output.err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn errors_are_reported_with_a_remedy() {
    let files = Files::new();
    let (bytes, index, places) = waveforms();
    let path = files.put("run.tdms", &bytes);
    let index = files.put("alone.tdms_index", &index);
    let text = files.put("text.tdms", b"not at all");
    let (out, nowhere) = (files.path("out.tdms"), files.path("no/out.csv"));
    let cases: [(&[&str], i32, &str); 7] = [
        (&["info", "-"], 1, "specify a file"),
        (&["info", &text], 1, "it begins with `not `"),
        (
            &["info", &path, "--from", "3"],
            2,
            "tip: --from is for `tdms cat`, `tdms head`, `tdms convert`",
        ),
        (&["cat", &index], 0, "an index file, which has no values"),
        (&["convert", &path, &nowhere], 1, "there is no such folder"),
        (
            &["convert", &path, "-"],
            2,
            "cannot determine the format of standard output",
        ),
        (&["repair", &path, &out], 0, "out.tdms is not written"),
    ];
    for (arguments, code, said) in cases {
        let output = tdms(arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
        assert!(output.err.contains(said), "{arguments:?}: {output:?}");
        assert!(
            !output.err.contains(".trunkline-"),
            "{arguments:?}: {output:?}"
        );
    }
    let output = tdms(&["info", "--json", &index]);
    let note: serde_json::Value = serde_json::from_str(&output.err).unwrap();
    assert_eq!(note["code"], "index-alone");
    let output = tdms(&["convert", &path, "-", "--as", "csv"]);
    assert!(
        output.err.starts_with("standard output: 12 rows"),
        "{output:?}"
    );
    let empty = files.put("empty.tdms", b"");
    let output = tdms(&["cat", &empty]);
    assert_eq!(
        (output.code, output.out.as_str()),
        (Some(0), ""),
        "{output:?}"
    );
    // Only one segment, which was not closed: more of it can be kept in another file.
    let torn = files.put("torn.tdms", &bytes[..places[1] - 1]);
    let output = tdms(&["repair", &torn]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.err.contains("torn.tdms OUT` keeps"), "{output:?}");
}
