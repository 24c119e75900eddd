//! Tests recordings to real files with every backend.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Lines, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::ptr::NonNull;
use std::sync::mpsc::sync_channel;

use rig::{LONG, assert_prefix, layout, recording_of, ring, rows};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use trunkline_record::{
    Backend, BackendChoice, BackendKind, CacheMode, Copying, Durability, FallbackReason, LocalFile,
    OpenedFile, QueueOptions, Read, Reservation, Span, TdmsRecording, Token, Uring, open_file,
    sums_path, tdms_queue,
};
use trunkline_tdms::{LEAD_IN_BYTES, Limits, ObjectPath, SumsState, TdmsFile, UncheckedSegments};

/// Number of rows per region: 64 KiB.
const REGION_ROWS: u64 = 4096;
const REGION_BYTES: u64 = REGION_ROWS * rig::ROW as u64;

fn opened(path: &Path, wanted: BackendChoice, cache_mode: CacheMode) -> OpenedFile {
    open_file(
        path,
        wanted,
        cache_mode,
        QueueOptions::default().writes_max(),
    )
    .unwrap()
}

/// Returns true if this machine permits io_uring.
fn has_uring() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probe");
    open_file(&path, BackendChoice::Uring, CacheMode::Cached, 1).is_ok()
}

/// Behaviour: ZC-09, ZC-13, ZC-14, ZC-27, ZC-29.
#[test]
fn every_backend_records_the_same_and_reports_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let best = match has_uring() {
        true => BackendKind::Uring,
        false => BackendKind::PlainWrites,
    };
    for (index, (wanted, cache_mode, expected)) in [
        (BackendChoice::BestAvailable, CacheMode::PreferDirect, best),
        (BackendChoice::BestAvailable, CacheMode::Cached, best),
        (
            BackendChoice::PlainWrites,
            CacheMode::PreferDirect,
            BackendKind::PlainWrites,
        ),
        (
            BackendChoice::PlainWrites,
            CacheMode::Cached,
            BackendKind::PlainWrites,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("{index}.tdms"));
        let OpenedFile { backend, report } = opened(&path, wanted, cache_mode);
        assert_eq!(report.backend, expected);
        let is_cached = cache_mode == CacheMode::Cached;
        let may_be_cached = is_cached
            || report
                .fallback_reasons
                .contains(&FallbackReason::NoDirectWrites);
        assert!(report.is_direct != may_be_cached, "{report:?}");
        assert_eq!(
            backend.block_bytes(),
            [1, 4096][usize::from(report.is_direct)]
        );
        let mut ring = ring(4 * REGION_ROWS as usize);
        // Half of the files are not extended ahead of their data.
        let lengthen_bytes = [8 * REGION_BYTES, 0][index % 2];
        let options = QueueOptions {
            reserve_bytes: 4 << 20,
            lengthen_bytes,
            ..rig::options()
        };
        let mut sut = recording_of(backend, &ring, options);
        assert_eq!(sut.queue().registration_failure(), None);
        record(&mut ring, &mut sut, 24);
        assert_eq!(sut.progress().bytes_copied, 0);
        sut.flush(Durability::InFile, LONG).unwrap();
        let progress = sut.progress();
        let now = std::fs::metadata(&path).unwrap();
        let ahead = now.len() - progress.written;
        let placeholder = [LEAD_IN_BYTES, 4096][usize::from(report.is_direct)];
        match lengthen_bytes {
            0 => assert_eq!(ahead, placeholder, "reserving makes no file longer"),
            _ => assert!(
                (lengthen_bytes..=3 * lengthen_bytes).contains(&ahead),
                "{ahead}"
            ),
        }
        if progress.reservation == Reservation::Ahead {
            assert!(now.blocks() * 512 >= 4 << 20, "room is set aside");
        }
        let closed = sut.close(LONG).unwrap();
        assert_eq!(
            (closed.durability, closed.failure),
            (Durability::OnDisk, None)
        );
        let now = std::fs::metadata(&path).unwrap();
        assert_eq!(now.len(), closed.length);
        assert!(
            now.blocks() * 512 <= closed.length + (256 << 10),
            "it is given back"
        );
        drop(sut);
        let all = 24 * REGION_ROWS;
        assert_prefix(File::open(&path).unwrap(), all, all);
        assert!(!path.with_extension("tdms_index").exists());
    }
}

/// If the system forbids io_uring, or the disk does not support direct writes, the test prints the
/// reasons and checks nothing else.
///
/// Behaviour: B-71.
#[test]
fn a_recording_on_linux_is_asynchronous_unbuffered_and_in_place() {
    // Next to the build output, because temporary files may be in memory, without direct I/O.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("run.tdms");
    let mut ring = ring(4 * REGION_ROWS as usize);
    let (queue, report) = tdms_queue(
        &path,
        BackendChoice::BestAvailable,
        CacheMode::PreferDirect,
        rig::options(),
        vec![ring.memory.clone()],
    )
    .unwrap();
    if !report.fallback_reasons.is_empty() {
        let why: Vec<String> = report
            .fallback_reasons
            .iter()
            .map(ToString::to_string)
            .collect();
        println!("skipped: {}", why.join("; "));
        return;
    }
    assert_eq!(
        (report.backend, report.is_direct),
        (BackendKind::Uring, true)
    );
    let mut sut = TdmsRecording::start(queue, &layout(), LONG).unwrap();
    record(&mut ring, &mut sut, 24);
    let closed = sut.close(LONG).unwrap();
    assert_eq!(
        (closed.durability, closed.failure),
        (Durability::OnDisk, None)
    );
    let progress = sut.progress();
    assert_eq!((progress.bytes_copied, progress.regions_copied), (0, 0));
    assert_eq!(progress.regions_in_place, 24);
    drop(sut);
    let all = 24 * REGION_ROWS;
    assert_prefix(File::open(&path).unwrap(), all, all);
}

/// Fills the ring whenever it has free space, and writes `regions` regions.
fn record(ring: &mut rig::Ring, sut: &mut TdmsRecording, regions: u64) {
    for _ in 0..regions {
        let from = ring.filler.written() as i64;
        let numbers = rows(from..from + REGION_ROWS as i64);
        while ring.filler.room().unwrap() < REGION_ROWS {
            sut.poll().unwrap();
        }
        ring.filler.push(&numbers).unwrap();
        sut.write(ring.reader.acquire(REGION_ROWS).unwrap())
            .unwrap();
    }
}

#[test]
fn existing_file_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("there.tdms");
    std::fs::write(&path, "mine").unwrap();
    let wanted = BackendChoice::BestAvailable;
    let error = open_file(&path, wanted, CacheMode::PreferDirect, 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

/// After the drop, the memory that the kernel reads into is freed. The drop must therefore wait for
/// the read, even if the kernel reports errors.
#[test]
fn dropping_io_uring_waits_even_if_it_cannot_be_entered() {
    if !has_uring() {
        return;
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (soon, begun) = std::sync::mpsc::channel();
    // A seccomp filter cannot be removed from its thread, so a separate thread is used.
    let dropped = std::thread::spawn(move || {
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let mut sut = Uring::new(LocalFile::new(file, false), 4).unwrap();
        let mut memory = [0_u8; 8];
        let read = Read {
            token: Token(1),
            position: 0,
            memory: Span {
                start: NonNull::from(&mut memory).cast(),
                bytes: memory.len(),
            },
        };
        // SAFETY: the memory outlives the backend, which is dropped before the memory is read.
        unsafe { sut.submit_read(read) }.unwrap();
        refuse(libc::SYS_io_uring_enter, Vec::new(), libc::EPERM);
        soon.send(()).unwrap();
        drop(sut);
        memory
    });
    begun.recv().unwrap();
    writer.write_all(b"whole ok").unwrap();
    assert_eq!(&dropped.join().unwrap(), b"whole ok");
}

/// Forbids io_uring for this thread, as a container does, or makes it appear missing.
fn forbid_uring(error: i32) {
    refuse(libc::SYS_io_uring_setup, Vec::new(), error);
}

/// Makes the system refuse this call of this thread from now on.
fn refuse(call: i64, rules: Vec<SeccompRule>, error: i32) {
    let rules = [(call, rules)].into_iter().collect();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(error as u32),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// Behaviour: ZC-29.
#[test]
fn forbidden_io_uring_is_reported_without_silent_fallback() {
    for (error, reason) in [
        (libc::EPERM, "io_uring is forbidden for this program"),
        (libc::ENOSYS, "this kernel has no io_uring"),
    ] {
        // A seccomp filter cannot be removed from its thread, so a separate thread is used.
        let checked = std::thread::spawn(move || {
            forbid_uring(error);
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.tdms");
            let required = open_file(&path, BackendChoice::Uring, CacheMode::Cached, 4);
            let text = required.unwrap_err().to_string();
            let is_off = text.contains("kernel.io_uring_disabled");
            assert!(text.contains(reason) || is_off, "{text}");
            assert!(!path.exists(), "nothing is left behind");
            let best = opened(&path, BackendChoice::BestAvailable, CacheMode::Cached);
            assert_eq!(best.report.backend, BackendKind::PlainWrites);
            assert_eq!(best.report.fallback_reasons.len(), 1);
            assert_eq!(best.report.fallback_reasons[0].to_string(), text);
            let mut ring = ring(4 * REGION_ROWS as usize);
            let mut sut = recording_of(best.backend, &ring, rig::options());
            record(&mut ring, &mut sut, 3);
            sut.close(LONG).unwrap();
            assert_prefix(File::open(&path).unwrap(), 3 * REGION_ROWS, 3 * REGION_ROWS);
        });
        checked.join().unwrap();
    }
}

#[test]
fn unregistered_memory_is_reported_and_recording_still_works() {
    if !has_uring() {
        return;
    }
    let checked = std::thread::spawn(|| {
        // Registering memory is operation 0 of this call.
        let buffers = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 0);
        let rule = SeccompRule::new(vec![buffers.unwrap()]).unwrap();
        refuse(libc::SYS_io_uring_register, vec![rule], libc::ENOMEM);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tdms");
        let opened = opened(&path, BackendChoice::Uring, CacheMode::PreferDirect);
        let mut ring = ring(4 * REGION_ROWS as usize);
        let mut sut = recording_of(opened.backend, &ring, rig::options());
        let reason = sut.queue().registration_failure().unwrap();
        assert_eq!(*reason, FallbackReason::LockedMemory);
        assert!(reason.to_string().contains("ulimit -l"), "{reason}");
        record(&mut ring, &mut sut, 10);
        sut.close(LONG).unwrap();
        assert_prefix(
            File::open(&path).unwrap(),
            10 * REGION_ROWS,
            10 * REGION_ROWS,
        );
    });
    checked.join().unwrap();
}

#[test]
fn dropping_a_queue_waits_for_running_writes() {
    let folder = tempfile::tempdir().unwrap();
    for (index, wanted) in [BackendChoice::BestAvailable, BackendChoice::PlainWrites]
        .into_iter()
        .enumerate()
    {
        let path = folder.path().join(format!("{index}.tdms"));
        let backend = opened(&path, wanted, CacheMode::PreferDirect).backend;
        let mut ring = ring(4 * REGION_ROWS as usize);
        let mut sut = recording_of(backend, &ring, rig::options());
        ring.filler.push(&rows(0..4 * REGION_ROWS as i64)).unwrap();
        for _ in 0..4 {
            sut.write(ring.reader.acquire(REGION_ROWS).unwrap())
                .unwrap();
        }
        drop(sut);
        assert_eq!(ring.reader.lent(), 0);
        assert_prefix(File::open(&path).unwrap(), 0, 4 * REGION_ROWS);
    }
}

/// The name of the test below, and the environment variable with the file for its child process.
const IN_CHILD: &str = "killed_recording_contains_all_durable_data";
const PATH: &str = "TRUNKLINE_TEST_RECORDING";
/// The environment variable with the number of kills; 12 if it is not set.
const KILLS: &str = "RECORD_KILLS";
const HAS_SUMS: &str = "TRUNKLINE_TEST_SUMS";

/// Behaviour: B-70.
#[test]
fn killed_recording_contains_all_durable_data() {
    if let Some(path) = std::env::var_os(PATH) {
        return record_indefinitely(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut nptdms = NpTdms::new();
    let kills = std::env::var(KILLS).map_or(12, |kills| kills.parse().unwrap());
    for round in 0..kills {
        // Every second round uses checksums, which must cover all durable data.
        let has_sums = round % 2 == 1;
        let path = folder.path().join(format!("{round}.tdms"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", IN_CHILD, "--nocapture"])
            .env(PATH, &path)
            .env(HAS_SUMS, has_sums.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let durable = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("durable ")?.parse::<u64>().ok())
            .nth(random.usize(1..20))
            .expect("the other process goes on forever");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(durable > 0);
        let found = assert_prefix(File::open(&path).unwrap(), durable, u64::MAX);
        assert_eq!(nptdms.rows(&path), found);
        if has_sums {
            let data = File::open(&path).unwrap();
            let sums = File::open(sums_path(&path)).unwrap();
            let opened =
                TdmsFile::open_verified(data, &sums, UncheckedSegments::Remove, Limits::default());
            let opened = opened.unwrap();
            assert_eq!(opened.check.state, SumsState::ThisFile);
            assert_eq!(opened.check.first_mismatch, None);
            let number = ObjectPath::channel("rig", "number");
            let vouched_for = opened.file.channel(&number).unwrap().len();
            assert!((durable..=found).contains(&vouched_for));
        }
        std::fs::remove_file(&path).unwrap();
    }
}

/// Behaviour: B-70.
#[test]
fn nptdms_opens_a_file_while_it_is_recorded() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut nptdms = NpTdms::new();
    for (index, (wanted, cache_mode, is_copied)) in [
        (BackendChoice::BestAvailable, CacheMode::PreferDirect, false),
        (BackendChoice::BestAvailable, CacheMode::PreferDirect, true),
        (BackendChoice::PlainWrites, CacheMode::Cached, false),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("{index}.tdms"));
        let options = QueueOptions {
            copying: is_copied.then(Copying::default),
            ..QueueOptions::default()
        };
        let mut ring = ring(4 * REGION_ROWS as usize);
        let memories = vec![ring.memory.clone()];
        let (queue, _) = tdms_queue(&path, wanted, cache_mode, options, memories).unwrap();
        let mut sut = TdmsRecording::start(queue, &layout(), LONG).unwrap();
        // Each round writes less data than the length by which the file is extended ahead.
        let (go_on, turns) = sync_channel(0);
        let read = std::thread::scope(|scope| {
            let recorder = scope.spawn(|| {
                for () in turns {
                    record(&mut ring, &mut sut, 100);
                }
                sut.flush(Durability::InFile, LONG).unwrap();
                sut.rows()
            });
            let read: Vec<u64> = (0..20)
                .map(|_| {
                    go_on.send(()).unwrap();
                    nptdms.rows(&path)
                })
                .collect();
            drop(go_on);
            let all = recorder.join().unwrap();
            // The recording is idle, but not closed.
            assert_eq!(nptdms.rows(&path), all);
            read
        });
        assert!(read.is_sorted(), "{read:?}");
        assert!(read.last() > Some(&0), "{read:?}");
        drop(sut);
    }
}

/// Runs npTDMS, an independent reader of the format, in a separate process.
struct NpTdms {
    process: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl NpTdms {
    /// Prints the number of rows of each file, and checks the values.
    const SCRIPT: &str = "
import sys
import numpy
from nptdms import TdmsFile
for path in sys.stdin:
    try:
        group = TdmsFile.read(path.strip())['rig']
        number, negative = group['number'][:], group['negative'][:]
        assert len(number) == len(negative)
        # Without values it does not know their type.
        assert not len(number) or (number == numpy.arange(len(number))).all() and (negative == -number).all()
        print(len(number), flush=True)
    except Exception as error:
        print(f'refused: {error!r}', flush=True)
";

    fn new() -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let python = target.join("nptdms/bin/python");
        let advice = "run `make nptdms`, which installs npTDMS in the target folder";
        assert!(python.exists(), "no {}; {advice}", python.display());
        let mut process = Command::new(python)
            .args(["-c", Self::SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, answers }
    }

    fn rows(&mut self, path: &Path) -> u64 {
        let questions = self.process.stdin.as_mut().unwrap();
        writeln!(questions, "{}", path.display()).unwrap();
        let answer = self.answers.next().unwrap().unwrap();
        answer.parse().unwrap_or_else(|_| panic!("{answer}"))
    }
}

impl Drop for NpTdms {
    fn drop(&mut self) {
        // If this fails, the process ends when its pipe is closed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Records, and prints the number of durable rows whenever it grows.
#[allow(clippy::print_stdout, reason = "what the test listens to")]
fn record_indefinitely(path: &Path) {
    let wanted = BackendChoice::BestAvailable;
    let options = QueueOptions {
        has_sums: std::env::var(HAS_SUMS).unwrap() == "true",
        ..rig::options()
    };
    let mut ring = ring(4 * REGION_ROWS as usize);
    let memories = vec![ring.memory.clone()];
    let queue = tdms_queue(path, wanted, CacheMode::PreferDirect, options, memories);
    let mut sut = TdmsRecording::start(queue.unwrap().0, &layout(), LONG).unwrap();
    let mut ends = vec![(sut.progress().written, 0)];
    let mut reported = 0;
    loop {
        record(&mut ring, &mut sut, 1);
        ends.push((sut.progress().accepted, sut.rows()));
        sut.begin_sync().unwrap();
        let durable = sut.progress().durable;
        let rows = ends.iter().find(|(end, _)| *end == durable).unwrap().1;
        if rows > reported {
            reported = rows;
            println!("durable {rows}");
        }
    }
}
