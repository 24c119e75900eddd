//! Checks that data is written directly from the device's memory, without copies.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    unsafe_code,
    reason = "tests may panic; observing writes needs a custom backend"
)]

mod rig;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rig::{LONG, ROW, layout, ring, rows};
use trunkline_record::{
    Backend, BackendChoice, BackendKind, CacheMode, Completed, FallbackReason, FullDisk,
    QueueOptions, Read, SimDisk, Span, TdmsLayout, TdmsRecording, Token, Wait, Write, WriteQueue,
    open_file,
};
use trunkline_ring::{PagesWanted, RegionMemory};
use trunkline_tdms::{ObjectPath, TdmsFile, TdmsType, Values};

const BLOCK: usize = 512;
const BLOCK_ROWS: i64 = (BLOCK / ROW) as i64;

/// The observed writes.
#[derive(Default, Debug)]
struct ObservedWrites {
    writes: Vec<(usize, usize)>,
    running: usize,
    /// Number of operations still in flight after each completion.
    running_after: Vec<usize>,
    /// Number of reservations.
    reservations: usize,
}

/// A disk that records the source address of each write.
#[derive(Debug)]
struct ObservingDisk(SimDisk, Arc<Mutex<ObservedWrites>>);

impl Backend for ObservingDisk {
    fn kind(&self) -> BackendKind {
        self.0.kind()
    }

    fn block_bytes(&self) -> usize {
        self.0.block_bytes()
    }

    fn now(&self) -> Duration {
        self.0.now()
    }

    unsafe fn register(&mut self, memory: &[Span]) -> Option<FallbackReason> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.0.register(memory) }
    }

    unsafe fn submit(&mut self, write: Write) -> io::Result<()> {
        let mut observed = self.1.lock().unwrap();
        let memory = write.memory;
        observed
            .writes
            .push((memory.start.as_ptr().addr(), memory.bytes));
        observed.running += 1;
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.0.submit(write) }
    }

    unsafe fn submit_read(&mut self, read: Read) -> io::Result<()> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.0.submit_read(read) }
    }

    fn submit_sync(&mut self, token: Token) -> io::Result<()> {
        self.1.lock().unwrap().running += 1;
        self.0.submit_sync(token)
    }

    fn completed(&mut self, wait: Wait) -> io::Result<Option<Completed>> {
        let completed = self.0.completed(wait)?;
        if completed.is_some() {
            let mut observed = self.1.lock().unwrap();
            observed.running -= 1;
            let running = observed.running;
            observed.running_after.push(running);
        }
        Ok(completed)
    }

    fn reserve(&mut self, position: u64, bytes: u64) -> io::Result<()> {
        self.1.lock().unwrap().reservations += 1;
        self.0.reserve(position, bytes)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.truncate(length)
    }
}

/// Behaviour: ZC-02, ZC-04, ZC-11.
#[test]
fn every_value_is_written_directly_from_device_memory() {
    let observed = Arc::new(Mutex::new(ObservedWrites::default()));
    let mut ring = ring(4096);
    let memory = ring.memory.span();
    let (start, end) = (
        memory.0.as_ptr().addr(),
        memory.0.as_ptr().addr() + memory.1,
    );
    let disk = SimDisk::new(1, BLOCK);
    let backend = ObservingDisk(disk.clone(), Arc::clone(&observed));
    let mut sut = rig::recording(backend, &ring, rig::options());
    let row_count = 40 * BLOCK_ROWS;
    for row in (0..row_count).step_by(2 * BLOCK_ROWS as usize) {
        ring.filler.push(&rows(row..row + 2 * BLOCK_ROWS)).unwrap();
        sut.write(ring.reader.acquire(2 * BLOCK_ROWS as u64).unwrap())
            .unwrap();
    }
    sut.close(LONG).unwrap();
    rig::assert_prefix(disk.file(), row_count as u64, row_count as u64);
    let observed = observed.lock().unwrap();
    let (from_ring, others): (Vec<_>, Vec<_>) = observed
        .writes
        .iter()
        .partition(|(address, _)| (start..end).contains(address));
    let bytes: usize = from_ring.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(
        bytes,
        row_count as usize * ROW,
        "each byte once, from the ring"
    );
    // The other writes are headers of at most two blocks.
    assert!(
        others.iter().all(|(_, bytes)| *bytes <= 2 * BLOCK),
        "{others:?}"
    );
    assert_eq!(sut.progress().bytes_copied, 0);
}

/// Behaviour: ZC-15.
#[test]
fn disk_is_never_idle_while_there_is_data() {
    for seed in 0..20 {
        let observed = Arc::new(Mutex::new(ObservedWrites::default()));
        let mut ring = ring(4096);
        let backend = ObservingDisk(SimDisk::new(seed, BLOCK), Arc::clone(&observed));
        let mut sut = rig::recording(backend, &ring, rig::options());
        let mut write = |sut: &mut TdmsRecording| {
            let row = ring.filler.written() as i64;
            ring.filler.push(&rows(row..row + BLOCK_ROWS)).unwrap();
            // Only this call processes completions.
            sut.write(ring.reader.acquire(BLOCK_ROWS as u64).unwrap())
                .unwrap();
        };
        for _ in 0..4 {
            write(&mut sut);
        }
        observed.lock().unwrap().running_after.clear();
        for _ in 0..200 {
            write(&mut sut);
            // When a call returns, at least one write is in flight.
            assert!(observed.lock().unwrap().running > 0);
        }
        // Each region is a write, and several are in flight at a time.
        let running = &observed.lock().unwrap().running_after;
        assert!(running.len() > 190);
        assert!(
            running.iter().any(|count| *count >= 3),
            "one after the other"
        );
    }
}

#[test]
fn full_disk_is_not_retried_before_it_reports_free_space() {
    let observed = Arc::new(Mutex::new(ObservedWrites::default()));
    let mut ring = ring(4096);
    let disk = SimDisk::new(1, BLOCK);
    let options = QueueOptions {
        reserve_bytes: 64 << 10,
        full_disk: FullDisk::Discard,
        ..rig::options()
    };
    disk.set_capacity(64 << 10);
    let backend = ObservingDisk(disk.clone(), Arc::clone(&observed));
    let mut sut = rig::recording(backend, &ring, options);
    let mut write = |sut: &mut TdmsRecording| {
        let row = ring.filler.written() as i64;
        ring.filler.push(&rows(row..row + BLOCK_ROWS)).unwrap();
        sut.write(ring.reader.acquire(BLOCK_ROWS as u64).unwrap())
            .unwrap();
    };
    for _ in 0..500 {
        write(&mut sut);
    }
    assert!(sut.disk_full_losses().is_stopped);
    let tries = observed.lock().unwrap().reservations;
    for _ in 0..500 {
        write(&mut sut);
    }
    assert_eq!(observed.lock().unwrap().reservations, tries);
    disk.set_capacity(1 << 30);
    write(&mut sut);
    assert!(!sut.disk_full_losses().is_stopped);
    assert_eq!(observed.lock().unwrap().reservations, tries + 1);
    sut.close(LONG).unwrap();
}

/// Behaviour: ZC-26.
#[test]
fn rows_hold_every_fixed_size_type_in_one_or_several_channels() {
    let columns: [(&str, TdmsType, Vec<u8>); 12] = [
        ("i8", TdmsType::I8, vec![0xff]),
        ("u8", TdmsType::U8, vec![200]),
        ("i16", TdmsType::I16, (-300_i16).to_le_bytes().into()),
        ("u16", TdmsType::U16, 60_000_u16.to_le_bytes().into()),
        ("i32", TdmsType::I32, (-70_000_i32).to_le_bytes().into()),
        ("u32", TdmsType::U32, 4_000_000_000_u32.to_le_bytes().into()),
        ("i64", TdmsType::I64, i64::MIN.to_le_bytes().into()),
        ("u64", TdmsType::U64, u64::MAX.to_le_bytes().into()),
        ("f32", TdmsType::F32, 1.5_f32.to_le_bytes().into()),
        ("f64", TdmsType::F64, (-2.25_f64).to_le_bytes().into()),
        ("bool", TdmsType::Bool, vec![1]),
        (
            "time",
            TdmsType::Time,
            [1_u64 << 63, 3_850_070_400].map(u64::to_le_bytes).concat(),
        ),
    ];
    let expected = |name: &str| match name {
        "i8" => Values::I8(vec![-1; 7]),
        "u8" => Values::U8(vec![200; 7]),
        "i16" => Values::I16(vec![-300; 7]),
        "u16" => Values::U16(vec![60_000; 7]),
        "i32" => Values::I32(vec![-70_000; 7]),
        "u32" => Values::U32(vec![4_000_000_000; 7]),
        "i64" => Values::I64(vec![i64::MIN; 7]),
        "u64" => Values::U64(vec![u64::MAX; 7]),
        "f32" => Values::F32(vec![1.5; 7]),
        "f64" => Values::F64(vec![-2.25; 7]),
        "bool" => Values::Bool(vec![true; 7]),
        name => panic!("{name}"),
    };
    // The channels have each type alone, and then all types in one row.
    let alone = (0..columns.len()).map(|index| index..index + 1);
    for range in alone.chain(std::iter::once(0..columns.len())) {
        let channels = &columns[range];
        let row: Vec<u8> = channels
            .iter()
            .flat_map(|(.., bytes)| bytes.clone())
            .collect();
        // A number of rows that fills whole blocks.
        let made = RegionMemory::for_recording(row.len(), 4096, PagesWanted::Ordinary, 4);
        let (memory, mut filler, mut reader) = made.unwrap();
        let disk = SimDisk::new(1, BLOCK);
        let queue = WriteQueue::new(Box::new(disk.clone()), rig::options(), vec![memory]);
        let layout = TdmsLayout {
            channels: channels
                .iter()
                .map(|(name, ty, _)| ((*name).into(), *ty))
                .collect(),
            ..layout()
        };
        let mut sut = TdmsRecording::start(queue, &layout, LONG).unwrap();
        filler.push(&row.repeat(7)).unwrap();
        sut.write(reader.acquire(7).unwrap()).unwrap();
        sut.close(LONG).unwrap();
        let file = disk.file();
        let file = TdmsFile::open(&file).unwrap();
        assert!(file.report().is_sound());
        for (name, data_type, _) in channels {
            let channel = file.channel(&ObjectPath::channel("rig", *name)).unwrap();
            assert_eq!((channel.data_type(), channel.len()), (*data_type, 7));
            let values = channel.read(0, 7).unwrap();
            match &values {
                Values::Time(times) => {
                    let time = times[6].to_timestamp().unwrap().to_string();
                    assert!(time.starts_with("2026-01-01T00:00:00.5"), "{time}");
                }
                values => assert_eq!(*values, expected(name)),
            }
        }
    }
}

/// Backends use the monotonic clock, because a wall clock may step.
#[test]
fn the_clock_of_every_backend_is_the_monotonic_one() {
    let monotonic = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let folder = tempfile::tempdir().unwrap();
    for (index, wanted) in [BackendChoice::BestAvailable, BackendChoice::PlainWrites]
        .into_iter()
        .enumerate()
    {
        let path = folder.path().join(index.to_string());
        let opened = open_file(&path, wanted, CacheMode::Cached, 1).unwrap();
        let before = monotonic();
        let now = opened.backend.now();
        assert!((before..=monotonic()).contains(&now), "{now:?}");
    }
}
