//! Untrusted text in every output: nothing in it moves the cursor, ends a line, or hides or
//! reorders other text.

use serde_json::Value as Json;
use trunkline::{Client, ConnectOptions};
use trunkline_tdms::{Arrangement, ObjectPath, TdmsType, Text, Writer, WriterOptions};
use trunkline_types::Value;
use trunkline_types::text::{escape, is_unprintable};

use crate::rig::{CUT_OFF, Output, Served, run};

const CORPUS: &str = include_str!("../../../../vectors/unprintable.txt");

/// The first and the last character of every class that must be escaped.
fn characters() -> Vec<char> {
    let mut characters = Vec::new();
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !words[0].ends_with("printable") {
            let code = |word: &str| u32::from_str_radix(word, 16).unwrap();
            characters.extend([words[1], words[2]].map(|word| char::from_u32(code(word)).unwrap()));
        }
    }
    characters
}

/// All of them in one text, together with a line break and colour sequences.
fn hostile() -> String {
    let mut text = "x\n*** y\u{1b}[31mz\u{1b}]0;w\u{7}\t".to_owned();
    for character in characters() {
        text.extend(['a', character]);
    }
    text
}

/// The part of that text that a configuration file may contain in a description.
fn describing() -> String {
    let is_allowed = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    hostile().chars().filter(is_allowed).collect()
}

/// An engine with hostile text in every property that accepts text.
fn served() -> Served {
    let description = Json::from(describing()).to_string();
    // Units of the maximum length, with a tab.
    let units: String = describing().replace(' ', "\t").chars().take(14).collect();
    let units = Json::from(units).to_string();
    let label = Json::from("on\u{2028}\u{202e}\u{e0041}").to_string();
    let label = Json::from(format!("enum({}, off)", label)).to_string();
    let plain = |text: String| text.replace('\u{7f}', "\\u007f");
    Served::start(&plain(format!(
        "[engine]\nname = {units}\n[library]\nname = \"lib\"\ndescription = {description}\n\n\
         [[variable]]\nname = \"text\"\ntype = \"string\"\naudit = true\n\
         description = {description}\nunits = {units}\n\n\
         [[variable]]\nname = \"switch\"\ntype = {label}\ninitial = 0\n\n\
         [[variable]]\nname = \"pair\"\ntype = \"array(string, 2)\"\n"
    )))
}

/// Standard output and standard error hold nothing that must be escaped; each line of JSON output is one JSON value.
#[track_caller]
fn assert_harmless(arguments: &[&str], output: &Output) {
    // Only plain output has tabs, between its columns.
    let has_tabs = !FORMS
        .iter()
        .any(|form| *form != "plain" && arguments.contains(form));
    for (text, what) in [(&output.out, "output"), (&output.err, "errors")] {
        let is_raw = |c| is_unprintable(c) && c != '\n' && (c != '\t' || !has_tabs);
        let raw = text.find(is_raw);
        if let Some(at) = raw {
            let character = text[at..].chars().next().unwrap();
            panic!("{arguments:?}: {what} with {character:?}: {text:?}");
        }
        let injected = text.lines().any(|line| line.starts_with("*** y"));
        assert!(
            !injected,
            "{arguments:?}: {what} with an injected line: {text}"
        );
    }
    if arguments.contains(&"jsonl") {
        for line in output.out.lines() {
            serde_json::from_str::<Json>(line)
                .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {line}"));
        }
    }
}

const FORMS: [&str; 5] = ["table", "plain", "csv", "json", "jsonl"];

#[test]
fn no_verb_prints_untrusted_text_unescaped() {
    let served = served();
    let text = hostile();
    let mut options = ConnectOptions::new(&served.url).unwrap();
    options.program.clone_from(&text);
    options.user.clone_from(&text);
    let client = Client::connect_with(&options).unwrap();
    let opened = client.open(&["lib/text"], trunkline::OpenOptions::default(), CUT_OFF);
    let variable = opened.unwrap()[0].as_ref().unwrap().variable;
    let write = trunkline::Write::new(variable, Value::String(text.as_str().into()));
    client.write(vec![write], CUT_OFF).unwrap();
    let pair = Json::from(vec![text.clone(), text.clone()]).to_string();
    assert_eq!(served.run(&["put", "lib/pair", &pair]).code, Some(0));
    let file = served.folder.path().join("kept.jsonl");
    let file = file.to_str().unwrap();
    let saved = served.run(&["snapshot", "save", file, "lib/*"]);
    assert_eq!(saved.code, Some(0), "{saved:?}");
    let other = Json::from(format!("{text}!")).to_string();
    assert_eq!(served.run(&["put", "lib/text", &other]).code, Some(0));
    let forced = served.run(&["force", "lib/text", &other]);
    assert_harmless(&["force"], &forced);

    let unknown = format!(
        "lib/none{}",
        characters().into_iter().skip(2).collect::<String>()
    );
    let verbs: &[&[&str]] = &[
        &["get", "lib/*"],
        &["get", "lib/text#description", "lib/text#units"],
        &["get", &unknown],
        &["get", "-a", "lib/*"],
        &["put", "lib/text", &other],
        &["put", "lib/switch", &other],
        &["monitor", "-1", "lib/*"],
        &["info", "lib/text", "lib/switch", "lib/pair"],
        &["ls"],
        &["ls", "lib"],
        &["find", "lib/*"],
        &["why", "lib/text"],
        &["why", &unknown],
        &["audit"],
        &["force", "--list"],
        &["limits"],
        &["library", "stop", &unknown],
        &["snapshot", "diff", file],
        &["snapshot", "restore", file],
        &["snapshot", "save", "-", "lib/*"],
        &["stream", "ls"],
        &["io", "drivers"],
        &["deploy", &unknown[2..]],
    ];
    for verb in verbs {
        for form in FORMS {
            let arguments = [verb, &["-o", form][..]].concat();
            let output = served.run(&arguments);
            assert_harmless(&arguments, &output);
        }
    }
    // The text is printed, escaped.
    for verb in [&["info", "lib/text"][..], &["audit"], &["get", "lib/*"]] {
        let out = served.run(verb).out;
        assert!(out.contains("\\u2028") && out.contains("\\udb40"), "{out}");
    }
    for format in ["{name} {value} {units} {type}", "{value}\\n"] {
        let output = served.run(&["get", "lib/*", "--format", format]);
        assert_harmless(&["--format", format], &output);
    }
    let kept = std::fs::read_to_string(file).unwrap();
    assert!(!kept.contains(|c| is_unprintable(c) && c != '\n'), "{kept}");

    // Escaping is the only change: a JSON parser gets the original text.
    let json = served.run(&["get", "lib/text", "-o", "jsonl"]).out;
    let json: Json = serde_json::from_str(&json).unwrap();
    assert_eq!(json["value"], format!("{text}!"));
    let plain = served.run(&["get", "-t", "lib/text"]).out;
    let read: String = serde_json::from_str(plain.trim_end()).unwrap();
    assert_eq!(read, format!("{text}!"));
}

#[test]
fn no_verb_prints_text_of_tdms_files_unescaped() {
    let text = hostile();
    let mut writer = Writer::new(WriterOptions::default());
    let channel = writer
        .channel(text.as_str(), text.as_str(), TdmsType::String)
        .unwrap();
    let path = ObjectPath::channel(text.as_str(), text.as_str());
    writer.set(&path, text.as_str(), text.as_str()).unwrap();
    writer.set(&path, "unit_string", text.as_str()).unwrap();
    writer
        .set(&ObjectPath::File, text.as_str(), text.as_str())
        .unwrap();
    let values = [text.as_str(), "=1+1"].map(Text::from);
    let mut bytes = Vec::new();
    writer
        .write(
            &[(channel, (&values[..]).into())],
            Arrangement::Contiguous,
            &mut bytes,
        )
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hostile\u{2028}.tdms");
    std::fs::write(&file, &bytes).unwrap();
    let file = file.to_str().unwrap();
    let verbs: &[&[&str]] = &[
        &["tdms", "info", file],
        &["tdms", "cat", file],
        &["tdms", "verify", file],
        &["tdms", "cat", file, &text.replace('\0', "")],
    ];
    for verb in verbs {
        for form in FORMS {
            let arguments = [verb, &["-o", form][..]].concat();
            assert_harmless(&arguments, &run(&arguments));
        }
    }
    let csv = folder.path().join("out.csv");
    let converted = run(&["tdms", "convert", file, csv.to_str().unwrap()]);
    assert_eq!(converted.code, Some(0), "{converted:?}");
    let csv = std::fs::read_to_string(csv).unwrap();
    assert!(!csv.contains(|c| is_unprintable(c) && c != '\n'), "{csv:?}");
    assert!(csv.contains("\"\"\"=1+1\"\"\""), "{csv}");
    let cell = Json::from(text).to_string();
    let cell = escape(&cell).replace('"', "\"\"");
    assert!(csv.contains(&cell), "{csv}");
}
