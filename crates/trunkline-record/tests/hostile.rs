//! Tests files with nonsensical numbers. Playback does not panic, and no row is due too early.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod play_everything;
mod sample_file;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use play_everything::play_everything;
use sample_file::write;
use trunkline_record::{
    BackendChoice, CacheMode, GapMode, Pace, Pacer, PlaybackError, RecordedVariables, Recording,
    Selection, open_to_read,
};
use trunkline_tdms::{
    Arrangement, Data, ObjectPath, TdmsTime, TdmsType, Waveform, Writer, WriterOptions,
};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn set_increment(writer: &mut Writer, increment: f64) {
    set_waveform(writer, "a", increment, 0.0);
}

fn set_waveform(writer: &mut Writer, channel: &str, increment: f64, offset: f64) {
    let waveform = Waveform {
        increment,
        offset,
        ..Waveform::default()
    };
    for (name, value) in waveform.to_properties() {
        let path = ObjectPath::channel("g", channel);
        writer.set(&path, name, value).unwrap();
    }
}

/// Writes and opens a recording of 50 rows.
fn recording(folder: &Path, set: impl FnOnce(&mut Writer)) -> Recording {
    let path = folder.join("x.tdms");
    write(&path, 50, Arrangement::Interleaved, set);
    play_everything(&path);
    Recording::open(&path, &Selection::default()).unwrap()
}

/// Behaviour: B-72.
#[test]
fn row_that_is_never_due_stays_undue() {
    let folder = tempfile::tempdir().unwrap();
    let assert_never = |recording: &Recording, speed, before: u64| {
        let pace = Pace::Scaled(speed);
        let mut sut = Pacer::new(recording, pace, GapMode::AsTime).unwrap();
        sut.take(Duration::ZERO, 1).unwrap();
        let taken = sut.take(100 * YEAR, 50).unwrap();
        assert_eq!(1 + taken, before, "at {speed}");
        assert!(sut.next_due().unwrap().unwrap() > 100 * YEAR, "at {speed}");
    };
    let after_a_gap = recording(folder.path(), |writer| {
        set_increment(writer, 0.001);
        let group = ObjectPath::group("g");
        writer.set(&group, "gap_1_row", 15_u64).unwrap();
        writer.set(&group, "gap_1_lost", u64::MAX).unwrap();
    });
    assert_never(&after_a_gap, 1.0, 15);
    for increment in [1e200, 1e300] {
        let slow = recording(folder.path(), |writer| set_increment(writer, increment));
        assert_never(&slow, 1.0, 1);
    }
    let even = recording(folder.path(), |writer| set_increment(writer, 0.001));
    for speed in [1e-15, 1e-300] {
        assert_never(&even, speed, 1);
    }
}

/// Behaviour: B-72.
#[test]
fn updates_with_extreme_times_keep_order_and_invalid_are_omitted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let mut writer = Writer::new(WriterOptions::default());
    let offsets = [
        ("late", 1e300),
        ("early", -1e300),
        ("nowhere", f64::NAN),
        ("never", f64::INFINITY),
    ];
    let channels = offsets.map(|(name, offset)| {
        let channel = writer.channel("g", name, TdmsType::I16).unwrap();
        let waveform = Waveform {
            start: Some(TdmsTime {
                seconds: i64::MAX,
                fraction: u64::MAX,
            }),
            increment: 1.0,
            offset,
            ..Waveform::default()
        };
        for (property, value) in waveform.to_properties() {
            let path = ObjectPath::channel("g", name);
            writer.set(&path, property, value).unwrap();
        }
        channel
    });
    let data = channels.map(|channel| (channel, Data::from(&[1_i16, 2])));
    let mut bytes = Vec::new();
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    std::fs::write(&path, bytes).unwrap();
    play_everything(&path);
    let mut sut = RecordedVariables::open(&path).unwrap();
    let skipped = ["nowhere", "never"].map(|name| ObjectPath::channel("g", name));
    assert_eq!(sut.skipped(), skipped);
    let played = std::iter::from_fn(|| sut.next_update().unwrap());
    let played: Vec<_> = played.map(|one| (one.variable, one.after)).collect();
    let furthest = Duration::from_nanos(u64::MAX);
    let none = Duration::ZERO;
    assert_eq!(played, [(1, none), (1, none), (0, furthest), (0, furthest)]);
}

fn vectors() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/tdms");
    let files = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "tdms"));
    paths.sort();
    paths
}

/// A file with any altered byte is played as far as it is consistent.
///
/// Behaviour: B-72.
#[test]
fn files_with_a_byte_altered_play_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let mut files: Vec<_> = vectors()
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    write(&path, 5, Arrangement::Interleaved, |writer| {
        set_waveform(writer, "a", 0.001, 0.5);
        let group = ObjectPath::group("g");
        writer.set(&group, "gap_1_row", 3_u64).unwrap();
        writer.set(&group, "gap_1_lost", 7_u64).unwrap();
    });
    files.push(std::fs::read(&path).unwrap());
    for file in files {
        // All bytes of short files are altered, but only some bytes of long files.
        let step = (file.len() / 300).max(1);
        for at in (0..file.len()).step_by(step) {
            for bits in [0xFF, 0x80] {
                let mut file = file.clone();
                file[at] ^= bits;
                std::fs::write(&path, &file).unwrap();
                play_everything(&path);
            }
        }
    }
}

/// Opening a pipe waits for its other end, and a pipe has no length.
#[test]
fn only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.tdms");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // Both ends are open, so that neither waits for the other.
    let mut ends = std::fs::OpenOptions::new();
    let _ends = ends.read(true).write(true).open(&pipe).unwrap();
    for path in [pipe.as_path(), folder.path()] {
        let rows = Recording::open(path, &Selection::default()).unwrap_err();
        let updates = RecordedVariables::open(path).unwrap_err();
        for refused in [rows, updates] {
            assert!(matches!(refused, PlaybackError::File { .. }), "{refused}");
            assert!(refused.to_string().contains("not a regular file"));
        }
        let wanted = BackendChoice::PlainWrites;
        let refused = open_to_read(path, wanted, CacheMode::Cached, 1).unwrap_err();
        assert!(refused.to_string().contains("not a regular file"));
    }
}
