//! Every line that the commands print, in every form, byte for byte: the order of keys and columns,
//! the cells, the remarks, the exit codes. Each page in `lines/` is one run of a list of commands.
//!
//! After a deliberate change: `UPDATE_GOLDEN=1 cargo test -p trunkline-cli --test black_box lines`,
//! then read the difference.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::accounts::Plant;
use crate::rig::{Output, RIG, Running, Served, command, finish};
use crate::streams::endpoint;
use crate::tdms::waveforms;

/// Each output format: its options, and the replacement of `{}` in a command.
const FORMS: [(&[&str], &str); 6] = [
    (&["--json"], "lines"),
    (&["-o", "json"], "array"),
    (&["-o", "csv"], "csv"),
    (&["-o", "plain"], "plain"),
    (&["-o", "table"], "table"),
    (&["-t"], "terse"),
];

/// One page: the commands that it shows, and where they run.
struct Page<'a> {
    name: &'a str,
    folder: &'a Path,
    /// The address of the engine.
    address: &'a str,
    text: String,
}

impl<'a> Page<'a> {
    fn new(name: &'a str, folder: &'a Path, url: &'a str) -> Self {
        Self {
            name,
            folder,
            address: url.strip_prefix("tl://").unwrap(),
            text: String::new(),
        }
    }

    /// Runs the commands one after the other, then again in the next form.
    fn run(&mut self, commands: &[&str]) {
        for (form, name) in FORMS {
            for line in commands {
                let line = line.replace("{}", name);
                let words: Vec<&str> = line.split(' ').chain(form.iter().copied()).collect();
                let output = finish(&mut self.command(&words), "");
                self.show(&words, &output);
            }
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(words);
        command
            .current_dir(self.folder)
            .env("TRUNKLINE_URL", format!("tl://{}", self.address));
        if words.starts_with(&["ctx"]) {
            command.env("XDG_CONFIG_HOME", self.folder);
        }
        if words.starts_with(&["record", "ls"]) {
            // It lists the running recordings of the user, and other tests have some.
            command.env("XDG_RUNTIME_DIR", self.folder);
        }
        command
    }

    fn show(&mut self, words: &[&str], output: &Output) {
        let folder = self.folder.to_str().unwrap();
        let code = output.code.unwrap();
        let (out, err) = (constant(&output.out, folder), constant(&output.err, folder));
        let words = words.join(" ").replace(self.address, "HOST:PORT");
        let _ = write!(self.text, "$ trunkline {words}\n{out}");
        for line in err.lines() {
            let _ = writeln!(self.text, "! {line}");
        }
        let _ = writeln!(self.text, "= {code}\n");
    }

    /// Compares the page with the one that is kept.
    fn end(self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/black_box/lines")
            .join(format!("{}.txt", self.name));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, self.text).unwrap();
            return;
        }
        let kept = std::fs::read_to_string(path).unwrap();
        // Line by line, for a message that can be read.
        let mut command = "";
        for (line, kept) in self.text.lines().zip(kept.lines()) {
            if line.starts_with("$ ") {
                command = line;
            }
            assert_eq!(line, kept, "{}: {command}", self.name);
        }
        assert_eq!(self.text, kept, "{}", self.name);
    }
}

/// Replaces what differs from run to run: each number becomes `#`, each hash becomes `HASH`, units that depend on its size
/// go, gaps between columns become two spaces, tabs become arrows, and the folder and this machine
/// get fixed names.
fn constant(text: &str, folder: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim_end();
    let text = text
        .replace(folder, "FOLDER")
        .replace('\t', "→")
        .replace(&format!("connected to {host}"), "connected to HOST")
        // The number of flushes of a recorder depends on the machine.
        .replace(" segments", " segment");
    let text = without_hashes(&text);
    let mut shown = String::new();
    for line in text.split_inclusive('\n') {
        let start = line.len() - line.trim_start_matches(' ').len();
        shown.push_str(&line[..start]);
        constant_line(&line[start..], &mut shown);
    }
    shown
}

/// Replaces every hash, 64 hexadecimal digits between quotes.
fn without_hashes(text: &str) -> String {
    let is_hash = |part: &str| part.len() == 64 && part.chars().all(|c| c.is_ascii_hexdigit());
    let parts = text.split('"');
    let parts: Vec<&str> = parts
        .map(|part| if is_hash(part) { "HASH" } else { part })
        .collect();
    parts.join("\"")
}

fn constant_line(line: &str, shown: &mut String) {
    const UNITS: [&str; 9] = ["ns", "µs", "ms", "s", "m", "B/s", "kB/s", "MB/s", "GB/s"];
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if first == ' ' {
            let gap = rest.len() - rest.trim_start_matches(' ').len();
            shown.push_str(&"  "[..gap.min(2)]);
            rest = &rest[gap..];
        } else if first.is_ascii_digit() {
            shown.push('#');
            rest = after_number(rest);
            let unit = rest.strip_prefix(' ').unwrap_or(rest);
            let end = unit
                .find([' ', ',', ';', ':', ')', '"', '\n'])
                .unwrap_or(unit.len());
            if UNITS.contains(&&unit[..end]) {
                rest = &unit[end..];
            }
        } else {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
}

/// Returns what follows the number at the beginning: digits, a fraction, an exponent.
fn after_number(text: &str) -> &str {
    let digits = |text: &'_ str| text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut rest = &text[text.len() - digits(text)..];
    loop {
        let next = match rest.strip_prefix(['.', 'e']) {
            Some(next) => next.strip_prefix(['-', '+']).unwrap_or(next),
            None => return rest,
        };
        if !next.starts_with(|c: char| c.is_ascii_digit()) {
            return rest;
        }
        rest = &next[next.len() - digits(next)..];
    }
}

#[test]
fn lines_of_the_commands_for_variables_are_as_kept() {
    let served = Served::start(RIG);
    let mut page = Page::new("variables", served.folder.path(), &served.url);
    page.run(&[
        "get rig/level",
        "get -a rig/* rig/pump/*",
        "get rig/level#units rig/lvel rig/order",
        "put rig/setpoint 71",
        "put rig/level=500 rig/mode=OFF rig/clamped=99 rig/nope=1 rig/sealed=1",
        "put --no-wait rig/setpoint 70",
        "put --atomic rig/level=500 rig/mode=OFF",
        "set rig/level 72.4",
        "send rig/setpoint",
        "request rig/level",
        "force rig/level 50",
        "force --list",
        "force --off",
        "force --list",
        "force --on",
        "get -a rig/level",
        "unforce rig/level",
        "unforce rig/nope",
        "unforce --all",
        "force --list",
        "info rig/level",
        "info rig/pump/starts rig/curve rig/mode",
        "monitor rig/level rig/mode --count 2",
        "monitor -a rig/level --count 1",
        "monitor rig/lvel --count 1",
    ]);
    page.end();
}

#[test]
fn lines_of_the_browsing_commands_match_the_golden_file() {
    let served =
        Served::start(&RIG.replacen("name = \"level\"", "name = \"level\"\naudit = true", 1));
    served.run(&["put", "rig/level", "5"]);
    served.run(&["put", "rig/level", "500"]);
    served.run(&["library", "stop", "rig"]);
    served.run(&["library", "start", "rig"]);
    let mut page = Page::new("browsing", served.folder.path(), &served.url);
    page.run(&[
        "ls",
        "ls rig",
        "ls --tree",
        "ls rigg",
        "find level",
        "find rig/** --bad",
        "find nothing",
        "find rig/level#range.*",
        "why rig/level",
        "why rig/empty",
        "why rig/lvel",
        "why",
        "limits",
        "audit",
        "audit rig/level --last 1",
        "audit nothing",
    ]);
    page.end();
}

#[test]
fn lines_of_the_commands_for_libraries_and_snapshots_are_as_kept() {
    let served = Served::start(RIG);
    served.file("more.toml", "[[variable]]\nname = \"a\"\ntype = \"f64\"\n");
    served.file("wrong.toml", "[[variable]]\nname = \"a\"\ntype = \"f6\"\n");
    let mut page = Page::new("libraries", served.folder.path(), &served.url);
    page.run(&[
        "deploy more.toml",
        "deploy more.toml",
        "deploy --replace more.toml",
        "deploy wrong.toml",
        "library stop more nope",
        "ls",
        "library start more",
        "undeploy --yes more",
        "undeploy --yes more",
        "io drivers",
        "io run nothing",
        "snapshot save --force before.jsonl rig/level rig/mode rig/empty",
        "snapshot save before.jsonl rig/level",
        "snapshot diff before.jsonl",
        "put rig/level=1 rig/mode=HAND",
        "snapshot diff before.jsonl",
        "snapshot save --force after.jsonl rig/*",
        "snapshot diff before.jsonl --with after.jsonl",
        "snapshot restore before.jsonl",
        "snapshot restore before.jsonl --yes",
        "snapshot restore before.jsonl rig/level --yes --if-unchanged --atomic",
        "snapshot diff none.jsonl",
    ]);
    page.end();
}

#[test]
fn lines_of_accounts_rules_and_contexts_are_as_kept() {
    const KEY: &str = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    let folder = Plant::prepare();
    let mut page = Page::new("accounts", folder.path(), "tl://localhost:1");
    page.run(&[
        &format!("user add anna --role operator --group shift-a --uid 1000 --key {KEY}"),
        "user add logger",
        "user disable logger",
        "user ls",
        "user info anna",
        "user info ana",
        "user role anna boss",
        &format!("user key rm logger {KEY}"),
        "access grant read,subscribe rig/** --group guests",
        "access deny write rig/level --user anna",
        "access ls",
        "access check anna rig/level",
        "access check anna",
        "access check anna rig/level --action write",
        "access check logger",
        "access rm deny write rig/level --user anna",
        "access rm deny write rig/level --user anna",
        "access rm grant read,subscribe rig/** --group guests",
        "access roles",
        "user rm anna",
        "user rm logger",
        "user ls --security none",
        "ctx",
        "ctx add plant --url tl://plant.example --authority security/authority.crt --no-key",
        "ctx ls",
        "ctx select -",
        "ctx select plant",
        "ctx select none",
        "ctx rm plant",
        "ctx rm plant",
    ]);
    page.end();
}

#[test]
fn lines_of_tdms_are_as_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, _, places) = waveforms();
    std::fs::write(folder.path().join("whole.tdms"), &bytes).unwrap();
    std::fs::write(folder.path().join("cut.tdms"), &bytes[..places[2] + 50]).unwrap();
    let mut page = Page::new("tdms", folder.path(), "tl://localhost:1");
    page.run(&[
        "tdms info whole.tdms",
        "tdms info cut.tdms --channel daq/volts",
        "tdms cat whole.tdms --from 2 --to 5",
        "tdms head whole.tdms --count 1 --channel daq/count",
        "tdms head cut.tdms --raw --spreadsheet",
        "tdms convert whole.tdms {}.csv",
        "tdms convert whole.tdms {}.csv",
        "tdms convert cut.tdms {}.jsonl --force",
        "tdms convert whole.tdms - --as csv --count 2",
        "tdms verify whole.tdms",
        "tdms verify cut.tdms",
        "tdms repair whole.tdms",
        "tdms repair cut.tdms --dry-run",
        "tdms repair cut.tdms {}.tdms",
        "tdms defrag whole.tdms {}.tdms --force",
        "tdms info none.tdms",
        "tdms cat whole.tdms --channel none",
    ]);
    page.end();
}

#[cfg(target_os = "linux")]
#[test]
fn lines_of_recordings_are_as_kept() {
    let served = Served::start(RIG);
    let mut page = Page::new("recordings", served.folder.path(), &served.url);
    page.run(&[
        "record start {}.tdms rig/level rig/mode --for 10ms --sums",
        "record start {}.tdms rig/level --for 10ms",
        "record start {}-none.tdms rig/lvel --for 10ms",
        "record info {}.tdms",
        "record info none.tdms",
        "record ls none",
        "record stop {}.tdms",
        "play {}.tdms --full-speed",
        "play none.tdms",
        "tdms info {}.tdms",
        "tdms verify {}.tdms",
    ]);
    page.run(&["record ls ."]);
    page.end();
}

#[test]
fn lines_of_streams_are_as_kept() {
    let served = Served::start(RIG);
    let host = served.url.strip_prefix("tl://").unwrap();
    let folder = served.folder.path();
    let mut page = Page::new("streams", folder, &served.url);
    let list = format!("stream ls {host}");
    page.run(&[&list, "stream info nothing"]);
    let reader = Running::spawn(&mut page.command(&["stream", "read", "lab/in", "--type", "i32"]));
    let ends = |page: &Page<'_>| finish(&mut page.command(&["stream", "ls", host, "-t"]), "").out;
    while ends(&page).is_empty() {}
    page.run(&[&list, "stream info lab/in"]);
    drop(reader);
    page.run(&["stream bench --threads --bytes 1MB --samples 10"]);
    // One end prints, so a reader that refuses its form would leave the writer alone.
    for (form, input) in [("--json", "1\n2\n"), ("-ocsv", "value\n1\n2\n")] {
        let url = endpoint("in");
        let words = ["stream", "read", &url, "--type", "i32", form];
        let reader =
            crate::rig::Drained::start(&mut page.command(&words), std::process::Stdio::null());
        let writing = [
            "stream", "write", "out", "--to", &url, "--type", "i32", form,
        ];
        let output = finish(&mut page.command(&writing), input);
        page.show(&[&["stream write"], &writing[5..]].concat(), &output);
        page.show(&[&["stream read"], &words[3..]].concat(), &reader.end());
    }
    page.end();
}
