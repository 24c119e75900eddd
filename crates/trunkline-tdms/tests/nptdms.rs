//! Compares this crate with npTDMS, an independent reader and writer of the format.
//!
//! Files are passed in a folder, each with a text that describes the content found by the other
//! reader.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod dump;
mod random_file;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trunkline_tdms::{ObjectPath, Scaling, TdmsFile};

use self::dump::dump_of;
use self::random_file::random_file_for_nptdms;

/// Returns the path of the Python interpreter with npTDMS, which `make test` installs.
fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("nptdms/bin/python");
    let advice = "run `make nptdms`, which installs npTDMS in the target folder";
    assert!(python.exists(), "no {}; {advice}", python.display());
    python
}

/// Returns the number of random files; `make soak` uses more files.
fn files() -> u64 {
    let asked = std::env::var("NPTDMS_FILES").ok();
    asked.map_or(200, |asked| {
        asked.parse().expect("NPTDMS_FILES is a number")
    })
}

fn folder(name: &str) -> PathBuf {
    // Two concurrent runs use different folders.
    let name = format!("{name}-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn judge(arguments: &[&str], folder: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nptdms_judge.py");
    let (command, rest) = arguments.split_first().unwrap();
    let run = Command::new(python())
        .arg(script)
        .arg(command)
        .arg(folder)
        .args(rest)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{arguments:?}: {said}");
}

/// Compares the judge's reading of each file in a folder with `ours`. Returns the number of files.
fn compare(folder: &Path, ours: impl Fn(&Path) -> String) -> u64 {
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "tdms") {
            continue;
        }
        let judged = fs::read_to_string(path.with_extension("dump")).unwrap();
        let ours = ours(&path);
        let same = judged.lines().zip(ours.lines()).take_while(|(a, b)| a == b);
        let at = same.count();
        let line = |text: &str| {
            let line = text.lines().nth(at).unwrap_or("nothing");
            line.chars().take(300).collect::<String>()
        };
        assert!(
            judged == ours,
            "{}, line {at}: npTDMS has\n{}\nand we have\n{}",
            path.display(),
            line(&judged),
            line(&ours)
        );
        count += 1;
    }
    count
}

fn read(path: &Path) -> String {
    let file = fs::File::open(path).unwrap();
    let file = TdmsFile::open(file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    dump_of(&file).unwrap().text()
}

#[test]
fn we_read_what_nptdms_writes() {
    let folder = folder("nptdms_writes");
    judge(&["write", &files().to_string(), "1"], &folder);
    assert_eq!(compare(&folder, read), files());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn nptdms_reads_what_we_write() {
    let folder = folder("nptdms_reads");
    // npTDMS does not accept a file without a segment.
    let written = |seed| Some(random_file_for_nptdms(seed)).filter(|file| !file.bytes.is_empty());
    let mut count = 0;
    for seed in 0..files() {
        if let Some(file) = written(seed) {
            fs::write(folder.join(format!("{seed}.tdms")), &file.bytes).unwrap();
            if seed % 2 == 0 {
                fs::write(folder.join(format!("{seed}.tdms_index")), &file.index).unwrap();
            }
            count += 1;
        }
    }
    judge(&["read"], &folder);
    let told = |path: &Path| {
        let seed = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        written(seed).unwrap().dump().text()
    };
    assert_eq!(compare(&folder, told), count);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn we_read_the_files_of_nptdms_own_tests() {
    let folder = folder("nptdms_own");
    judge(&["own"], &folder);
    let count = compare(&folder, read);
    assert!(count >= 35, "only {count} files");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn scaled_values_are_those_of_nptdms() {
    let folder = folder("nptdms_scale");
    judge(&["scale", &files().to_string(), "1"], &folder);
    for at in 0..files() {
        let path = folder.join(format!("{at}.tdms"));
        let judged = fs::read_to_string(path.with_extension("scaled")).unwrap();
        let judged = judged.split(' ').map(|value| value.parse::<f64>().unwrap());
        let file = TdmsFile::open(fs::File::open(&path).unwrap()).unwrap();
        let channel = file.channel(&ObjectPath::channel("g", "c")).unwrap();
        let scaling = channel.scaling();
        assert!(matches!(scaling, Scaling::Chain(_)), "{at}: {scaling:?}");
        let mut ours = [0.0; 9];
        let read = channel.read_scaled_into(&scaling, 0, &mut ours).unwrap();
        assert_eq!(read, 9);
        for (judged, ours) in judged.zip(ours) {
            let off = (judged - ours).abs();
            let most = 1e-9 * judged.abs().max(1.0);
            assert!(
                off <= most,
                "{at}: {judged} by npTDMS, {ours} by us: {scaling:?}"
            );
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
