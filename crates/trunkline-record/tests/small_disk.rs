//! Tests a real file system that becomes full, and the removal of files without data.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rig::{LONG, assert_prefix, layout, numbers, ring, rows};
use trunkline_record::{
    BackendChoice, CacheMode, FreeSpaceAlarm, FreeSpaceState, FullDisk, QueueOptions, Rotation,
    SegmentFile, TdmsRecording, TdmsSeries, series_path, tdms_queue,
};
use trunkline_tdms::SumsCheck;

/// The name of the test below, and the environment variables with the parameters of its child
/// process.
const IN_CHILD: &str = "full_file_system_pauses_and_resumes_a_recording";
const FOLDER: &str = "TRUNKLINE_TEST_SMALL_DISK";
const BYTES_MAX: &str = "TRUNKLINE_TEST_BYTES_MAX";

/// Behaviour: B-70.
#[test]
fn full_file_system_pauses_and_resumes_a_recording() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let bytes_max = std::env::var(BYTES_MAX).unwrap().parse().unwrap();
        return fill(Path::new(&folder), bytes_max);
    }
    // The recording has one file or several files.
    for bytes_max in [u64::MAX, 1 << 20] {
        run_on_small_disk(bytes_max);
    }
}

/// Runs the test again with its own file system in its own mount namespace, which ends with the
/// process.
#[allow(clippy::print_stderr, reason = "why it was left out")]
fn run_on_small_disk(bytes_max: u64) {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=8m tmpfs \"$1\" || exit 77; shift; exec \"$@\"";
    let ran = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", IN_CHILD, "--nocapture"])
        .env(FOLDER, folder.path())
        .env(BYTES_MAX, bytes_max.to_string())
        .output();
    match ran {
        Ok(ran) if ran.status.success() => {}
        Ok(ran) if String::from_utf8_lossy(&ran.stdout).contains("running 1 test") => {
            panic!("{}", String::from_utf8_lossy(&ran.stderr));
        }
        Ok(ran) => eprintln!(
            "left out: no file system of one's own here: {}",
            String::from_utf8_lossy(&ran.stderr)
        ),
        Err(error) => eprintln!("left out: no unshare here: {error}"),
    }
}

/// Fills the file system of this folder, frees space, and continues.
fn fill(folder: &Path, bytes_max: u64) {
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![1; 3 << 20]).unwrap();
    let mut ring = ring(1 << 12);
    let memory = ring.memory.clone();
    let options = QueueOptions {
        reserve_bytes: 256 << 10,
        has_sums: true,
        outstanding_max: NonZeroUsize::new(3).unwrap(),
        alarm: FreeSpaceAlarm {
            bytes: 256 << 10,
            time: Duration::from_secs(10),
        },
        full_disk: FullDisk::Discard,
        ..rig::options()
    };
    let path = |number| series_path(folder, "run", number).unwrap();
    let open = |number| {
        let (wanted, cache_mode) = (BackendChoice::BestAvailable, CacheMode::PreferDirect);
        let memories = vec![memory.clone()];
        tdms_queue(&path(number), wanted, cache_mode, options, memories).map(|(queue, _)| queue)
    };
    let rotation = Rotation {
        bytes_max,
        ..Rotation::default()
    };
    let mut sut = TdmsSeries::start(open, layout(), rotation, LONG).unwrap();
    let mut written = 0;
    let mut write = |sut: &mut TdmsSeries<_>, until: &dyn Fn(u64, bool) -> bool| {
        let mut is_low = false;
        let mut rounds = 0;
        loop {
            while ring.filler.room().unwrap() < 1024 {
                sut.poll().unwrap();
            }
            ring.filler.push(&rows(written..written + 1024)).unwrap();
            written += 1024;
            sut.write(ring.reader.acquire(1024).unwrap()).unwrap();
            rounds += 1;
            let stop = sut.disk_full_losses();
            is_low |= sut.current().progress().free_space.state >= FreeSpaceState::Low;
            if until(stop.rows_lost, stop.is_stopped) {
                return is_low;
            }
            assert!(rounds < 10_000, "{stop:?}");
        }
    };
    assert!(write(&mut sut, &|lost, _| lost >= 5 * 1024), "no alarm");
    std::fs::remove_file(&ballast).unwrap();
    write(&mut sut, &|_, is_stopped| !is_stopped);
    let lost = sut.disk_full_losses().rows_lost;
    let last = sut.close().unwrap();
    assert_eq!((last.rows_lost, last.closed.failure), (0, None));
    let mut found = Vec::new();
    for number in 1..=sut.number() {
        let data = File::open(path(number)).unwrap();
        let sums = File::open(trunkline_record::sums_path(&path(number))).unwrap();
        assert!(SumsCheck::of(&data, &sums).unwrap().is_good());
        found.extend(numbers(data));
    }
    assert!(
        !path(sut.number() + 1).exists(),
        "no file is left behind that is empty"
    );
    assert!(found.is_sorted_by(|one, other| one < other));
    assert_eq!(found.len() as u64 + lost, written as u64);
}

#[test]
fn empty_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tdms");
    for is_started in [false, true] {
        let ring = ring(1024);
        let options = QueueOptions {
            has_sums: true,
            ..rig::options()
        };
        let (wanted, cache_mode) = (BackendChoice::BestAvailable, CacheMode::Cached);
        let memories = vec![ring.memory.clone()];
        let (queue, _) = tdms_queue(&path, wanted, cache_mode, options, memories).unwrap();
        if is_started {
            drop(TdmsRecording::start(queue, &layout(), LONG).unwrap());
            assert_prefix(File::open(&path).unwrap(), 0, 0);
        } else {
            assert!(path.exists());
            drop(queue);
        }
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            2 * usize::from(is_started)
        );
    }
}

/// Behaviour: B-70.
#[test]
fn file_is_not_created_next_to_a_stale_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tdms");
    // A folder of this name cannot be removed like a file.
    std::fs::create_dir(path.with_extension("tdms_index")).unwrap();
    let (wanted, cache_mode) = (BackendChoice::BestAvailable, CacheMode::Cached);
    let made = tdms_queue(&path, wanted, cache_mode, rig::options(), Vec::new());
    assert!(made.is_err());
    assert!(!path.exists());
    assert!(SegmentFile::create(&path).is_err());
    assert!(!path.exists());
}
