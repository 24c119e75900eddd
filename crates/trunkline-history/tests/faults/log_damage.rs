//! Tests that damage in a log affects at most the frame that contains it, and that an incomplete commit is
//! not read.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use trunkline_types::{DataType, Value};

use crate::rig::{Line, Plant, SECOND, START, assert_same, copy, files_of, flip, folder};

/// Number of bits flipped, one at a time; `HISTORY_FLIPS` overrides it.
const FLIPS: u64 = 2000;
/// Maximum number of payload bytes lost by damage: a frame, and one row that exceeds it.
const FRAME_MAX: usize = (256 << 10) + (64 << 10);

fn variables() -> [(&'static str, DataType); 4] {
    [
        ("x", DataType::F64),
        ("n", DataType::I64),
        ("text", DataType::String),
        ("raw", DataType::Bytes),
    ]
}

/// A folder whose rows are all in one log, in several commits.
struct Logged {
    folder: TempDir,
    log: PathBuf,
    /// The rows of each commit.
    commits: Vec<Vec<Line>>,
    time: i64,
}

impl Logged {
    fn new(commits: usize) -> Self {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &variables());
        plant.record();
        let mut written = Vec::new();
        for commit in 0..commits {
            let mut lines = Vec::new();
            for n in 0..=commit % 4 {
                let number = (commit * 10 + n) as f64;
                lines.push(plant.write("x", &Value::F64(number / 3.0)));
                lines.push(plant.write("n", &Value::I64(i64::MAX - number as i64)));
                let text = Value::String(format!("text {number}").into());
                lines.push(plant.write("text", &text));
            }
            if commit % 5 == 0 {
                let raw = Value::Bytes(b"TLHF".repeat(commit + 1).into());
                lines.push(plant.write("raw", &raw));
            }
            plant.record();
            written.push(lines);
        }
        let time = plant.time;
        drop(plant);
        let log = only_log(folder.path());
        Self {
            folder,
            log,
            commits: written,
            time,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.folder.path().join(&self.log)).unwrap()
    }

    fn all(&self) -> Vec<Line> {
        self.commits.concat()
    }

    /// Opens a copy of the folder after applying `damage` to its log.
    fn opened(&self, copy_to: &Path, damage: impl FnOnce(&Path)) -> Plant {
        copy(self.folder.path(), copy_to);
        damage(&copy_to.join(&self.log));
        Plant::start(copy_to, 2, self.time + SECOND, &variables())
    }
}

/// A log of an earlier or a later version is refused with that reason, and is not taken for a damaged one.
#[test]
fn log_of_another_version_is_refused() {
    let earlier = "; start the release that wrote it once more";
    for (version, part) in [(b"01", earlier), (b"03", "; start the newer version")] {
        let logged = Logged::new(3);
        let path = logged.folder.path().join(&logged.log);
        let mut bytes = fs::read(&path).unwrap();
        bytes[6..8].copy_from_slice(version);
        let crc = crc32c::crc32c(&bytes[..16]);
        bytes[16..20].copy_from_slice(&crc.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        let time = logged.time + SECOND;
        let opened = Plant::open(logged.folder.path(), 2, time, &variables());
        let error = opened.map(drop).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        let wall = trunkline_types::Timestamp::from_nanos(time);
        let rebuilt = trunkline_history::rebuild(logged.folder.path(), wall);
        let error = rebuilt.unwrap_err();
        assert!(
            !error.is_damage(),
            "a new catalogue changes nothing: {error}"
        );
        assert_eq!(fs::read(&path).unwrap(), bytes, "the log is left as it is");
    }
}

/// Returns the log with the rows.
fn only_log(folder: &Path) -> PathBuf {
    let logs = files_of(folder, "tlh");
    let size = |path: &PathBuf| fs::metadata(folder.join(path)).unwrap().len();
    logs.into_iter().max_by_key(size).unwrap()
}

/// Returns the ranges of the frames of a log, each with header and payload.
fn frames(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut frames = Vec::new();
    let mut at = 24;
    while let Some(head) = bytes.get(at..at + 16) {
        assert_eq!(head.get(..4), Some(&b"TLHF"[..]), "no frame at {at}");
        let length = head.get(4..8).unwrap().try_into().unwrap();
        let end = at + 16 + u32::from_le_bytes(length) as usize;
        frames.push(at..end);
        at = end;
    }
    assert_eq!(at, bytes.len());
    frames
}

fn flips() -> u64 {
    let set = std::env::var("HISTORY_FLIPS").ok();
    set.map_or(FLIPS, |set| set.parse().unwrap())
}

/// Expects all rows except those of at most one commit. Returns true if that commit is missing.
fn assert_one_missing(found: &[Line], commits: &[Vec<Line>], what: &str) -> bool {
    let present: BTreeSet<&Line> = found.iter().collect();
    let is_missing = |commit: &Vec<Line>| !commit.iter().all(|line| present.contains(line));
    let missing: Vec<usize> = (0..commits.len())
        .filter(|at| commits.get(*at).is_some_and(is_missing))
        .collect();
    assert!(
        missing.len() <= 1,
        "{what}: commits {missing:?} are missing"
    );
    let left = commits.iter().enumerate();
    let left = left.filter(|(at, _)| !missing.contains(at));
    let left: Vec<Line> = left.flat_map(|(_, lines)| lines.clone()).collect();
    assert_same(found, &left, what);
    !missing.is_empty()
}

/// In this test, each frame is a separate commit.
#[test]
fn flipped_bit_in_a_log_costs_at_most_the_rows_of_one_frame() {
    let logged = Logged::new(24);
    let bytes = logged.bytes();
    // The first frames have the events of the start and of the variables.
    assert_eq!(frames(&bytes).len(), logged.commits.len() + 2);
    let copied = folder();
    let place = copied.path().join("copy");
    let mut random = fastrand::Rng::with_seed(1);
    let mut costs = 0;
    for _ in 0..flips() {
        let bit = random.u64(0..bytes.len() as u64 * 8);
        let plant = logged.opened(&place, |log| flip(log, bit));
        let found = plant.everything().lines;
        let what = format!("bit {bit}");
        costs += u64::from(assert_one_missing(&found, &logged.commits, &what));
    }
    assert!(costs > 0, "no flip has hit a row");
}

/// The remaining rows are kept, and the engine records further rows.
#[test]
fn rows_around_damage_are_moved_to_files() {
    let logged = Logged::new(12);
    let copied = folder();
    let place = copied.path().join("copy");
    let mut random = fastrand::Rng::with_seed(2);
    let size = logged.bytes().len() as u64;
    for _ in 0..40 {
        let bit = random.u64(0..size * 8);
        let mut plant = logged.opened(&place, |log| flip(log, bit));
        let mut expected = plant.everything().lines;
        expected.push(plant.write("x", &Value::F64(-1.0)));
        plant.seal();
        let what = format!("bit {bit}");
        assert_same(&plant.everything().lines, &expected, &what);
        let time = plant.time;
        drop(plant);
        let plant = Plant::start(&place, 3, time, &variables());
        assert_same(&plant.everything().lines, &expected, &what);
    }
}

/// This is the state after a kill during a write.
#[test]
fn truncated_log_has_all_earlier_commits() {
    let logged = Logged::new(9);
    let bytes = logged.bytes();
    let last = frames(&bytes).pop().unwrap();
    let copied = folder();
    let place = copied.path().join("copy");
    let before = logged.commits.split_last().unwrap().1.concat();
    for length in last.start..last.end {
        let plant = logged.opened(&place, |log| fs::write(log, &bytes[..length]).unwrap());
        let what = format!("cut at {length} of {}", bytes.len());
        assert_same(&plant.everything().lines, &before, &what);
    }
    let plant = logged.opened(&place, |_| {});
    assert_same(&plant.everything().lines, &logged.all(), "not cut");
}

/// This state is possible after a power loss: the file has its length, but some sectors were not written.
#[test]
fn log_with_an_overwritten_last_frame_has_all_earlier_commits() {
    let logged = Logged::new(9);
    let bytes = logged.bytes();
    let last = frames(&bytes).pop().unwrap();
    let copied = folder();
    let place = copied.path().join("copy");
    let before = logged.commits.split_last().unwrap().1.concat();
    let mut random = fastrand::Rng::with_seed(3);
    for length in last.start..last.end {
        let mut torn = bytes.clone();
        let filling = if random.bool() { 0 } else { random.u8(..) };
        torn[length..].fill(filling);
        if torn == bytes {
            continue;
        }
        torn.resize(bytes.len() + random.usize(0..600), filling);
        let plant = logged.opened(&place, |log| fs::write(log, &torn).unwrap());
        let what = format!("{filling} from {length} on");
        assert_same(&plant.everything().lines, &before, &what);
    }
}

/// Logs that are shorter than the header are read, too.
#[test]
fn log_with_a_damaged_header_is_read() {
    let logged = Logged::new(3);
    let copied = folder();
    let place = copied.path().join("copy");
    for at in 0..24 {
        let plant = logged.opened(&place, |log| flip(log, at * 8 + at % 8));
        let what = format!("byte {at}");
        assert_same(&plant.everything().lines, &logged.all(), &what);
    }
    for length in 0..24 {
        let plant = logged.opened(&place, |log| {
            fs::write(log, &logged.bytes()[..length]).unwrap();
        });
        assert_same(&plant.everything().lines, &[], &format!("{length} bytes"));
    }
}

/// Writes a long commit, either of many variables or of one.
fn assert_frames_are_short(variables: usize, rows: usize) {
    let names: Vec<String> = (0..variables).map(|n| format!("v{n}")).collect();
    let types: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), DataType::F64))
        .collect();
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, &types);
    plant.record();
    let mut random = fastrand::Rng::with_seed(4);
    let mut written = Vec::new();
    for _ in 0..rows {
        let name = &names[random.usize(..variables)];
        written.push(plant.write(name, &Value::F64(random.f64())));
    }
    plant.record_everything();
    let time = plant.time;
    drop(plant);
    let log = folder.path().join(only_log(folder.path()));
    let frames = frames(&fs::read(&log).unwrap());
    let longest = frames.iter().map(ExactSizeIterator::len).max().unwrap();
    assert!(longest <= FRAME_MAX, "a frame has {longest} bytes");
    let middle = &frames[frames.len() / 2];
    flip(&log, ((middle.start + middle.end) / 2) as u64 * 8);
    let plant = Plant::start(folder.path(), 2, time, &types);
    let found = plant.everything().lines;
    let present: BTreeSet<&Line> = found.iter().collect();
    written.retain(|line| present.contains(line));
    assert_same(&found, &written, "only rows that were written");
    let lost = rows - written.len();
    // A number takes at least 8 bytes.
    assert!(lost > 0 && lost <= FRAME_MAX / 8, "{lost} rows are lost");
}

#[test]
fn frame_of_many_variables_is_short() {
    assert_frames_are_short(500, 100_000);
}

#[test]
fn frame_of_one_variable_is_short() {
    assert_frames_are_short(1, 100_000);
}

/// The value of a variable contains a valid frame. Even if bytes around the value are damaged, no row may be
/// read from within the value.
#[test]
fn value_that_looks_like_a_frame_is_not_read_as_one() {
    let logged = Logged::new(3);
    let bytes = logged.bytes();
    let last = frames(&bytes).pop().unwrap();
    let place = logged.folder.path();
    let mut plant = Plant::start(place, 2, logged.time + SECOND, &variables());
    let mut commits = logged.commits.clone();
    // Write it twice, in case a restart begins a new log.
    for _ in 0..2 {
        let inner = bytes.get(last.clone()).unwrap();
        let value = Value::Bytes(inner.into());
        commits.push(vec![plant.write("raw", &value)]);
        plant.record();
    }
    let time = plant.time;
    drop(plant);
    let newest = files_of(place, "tlh").pop().unwrap();
    let outer = frames(&fs::read(place.join(&newest)).unwrap())
        .pop()
        .unwrap();
    // Flip a bit in the first byte of the payload, which is part of the commit time.
    flip(&place.join(&newest), (outer.start as u64 + 16) * 8);
    let plant = Plant::start(place, 3, time, &variables());
    let found = plant.everything().lines;
    assert!(assert_one_missing(&found, &commits, "a frame in a value"));
}

/// B-64: rows lost by damage are recorded as an event or reported.
#[test]
fn lost_frame_is_reported() {
    let logged = Logged::new(9);
    let bytes = logged.bytes();
    let middle = frames(&bytes)[5].clone();
    let copied = folder();
    let place = copied.path().join("copy");
    let plant = logged.opened(&place, |log| flip(log, (middle.start as u64 + 30) * 8));
    plant.record();
    let answer = plant.everything();
    assert!(answer.lines.len() < logged.all().len());
    let is_loss = |event: &crate::rig::Event| event.event.name() == "lost";
    assert!(
        answer.events.iter().any(is_loss) || !answer.states.is_empty(),
        "neither an event nor the state of the history tells of the damage"
    );
}
