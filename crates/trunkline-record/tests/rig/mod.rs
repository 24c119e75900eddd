//! What the tests share: a ring that a device fills with numbers, and files that are checked.
#![allow(dead_code, reason = "each test file uses what it needs of it")]

use std::sync::Arc;
use std::time::Duration;

use trunkline_record::{Backend, QueueOptions, TdmsLayout, TdmsRecording, WriteQueue};
use trunkline_ring::{PagesWanted, RegionFiller, RegionMemory, RegionReader};
use trunkline_tdms::{ObjectPath, ReadAt, TdmsFile, TdmsType};

/// Long enough for any disk; a test that needs it has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// Operations of the disk until a file is open: two placeholders, the first segment and its sync.
pub const OPENING: u64 = 4;

/// Bytes of a row: a number and its negative.
pub const ROW: usize = 16;

/// Both ends of a ring, and its memory.
pub struct Ring {
    pub memory: Arc<RegionMemory>,
    pub filler: RegionFiller,
    pub reader: RegionReader,
}

/// A recording to a disk of a test.
pub type Sut = TdmsRecording<trunkline_record::SimDisk>;

pub fn ring(rows: usize) -> Ring {
    let made = RegionMemory::to_record(ROW, rows, PagesWanted::Ordinary, 16);
    let (memory, filler, reader) = made.unwrap();
    Ring {
        memory,
        filler,
        reader,
    }
}

/// Rows that say which they are.
pub fn rows(range: std::ops::Range<i64>) -> Vec<u8> {
    range
        .flat_map(|row| [row, -row])
        .flat_map(i64::to_le_bytes)
        .collect()
}

pub fn layout() -> TdmsLayout {
    TdmsLayout {
        timestamps: Vec::new(),
        group: "rig".into(),
        channels: vec![
            ("number".into(), TdmsType::I64),
            ("negative".into(), TdmsType::I64),
        ],
        waveform: None,
    }
}

/// As unless set, but that nothing is copied, and that files are not made much longer than what a
/// test writes.
pub fn options() -> QueueOptions {
    QueueOptions {
        lengthen_bytes: 64 << 10,
        copying: None,
        ..QueueOptions::default()
    }
}

pub fn recording<B: Backend>(backend: B, ring: &Ring, options: QueueOptions) -> TdmsRecording<B> {
    let queue = WriteQueue::new(backend, options, vec![ring.memory.clone()]);
    TdmsRecording::start(queue, &layout(), LONG).unwrap()
}

/// The numbers in a file; its two channels agree as far as both go.
pub fn numbers<R: ReadAt>(file: R) -> Vec<i64> {
    let file = TdmsFile::open(file).unwrap();
    let channel = |name| -> Vec<i64> {
        let Some(channel) = file.channel(&ObjectPath::channel("rig", name)) else {
            return Vec::new();
        };
        let mut values = vec![0_i64; channel.len() as usize];
        channel.read_into(0, &mut values).unwrap();
        values
    };
    let (numbers, negatives) = (channel("number"), channel("negative"));
    assert!(numbers.iter().zip(&negatives).all(|(n, m)| *n == -*m));
    assert_eq!(numbers.len(), negatives.len());
    numbers
}

/// The file holds the first rows, whole, in order, and at least `least` of them.
pub fn assert_prefix<R: ReadAt>(file: R, least: u64, most: u64) -> u64 {
    let numbers = numbers(file);
    let is_prefix = numbers.iter().copied().eq(0..numbers.len() as i64);
    assert!(is_prefix, "a value that was never recorded: {numbers:?}");
    let count = numbers.len() as u64;
    assert!(
        (least..=most).contains(&count),
        "{count} rows, {least} to {most}"
    );
    count
}

/// Whether a reader that goes from lead-in to lead-in finds one wherever it looks, as npTDMS does:
/// the file ends between two segments, or with one that is not complete.
pub fn has_no_gap(file: &[u8]) -> bool {
    let mut at = 0_u64;
    while let Some(lead_in) = file
        .get(at as usize..)
        .and_then(|rest| rest.first_chunk::<28>())
    {
        let number = |from: usize| u64::from_le_bytes(*lead_in[from..].first_chunk().unwrap());
        let (length, metadata) = (number(12), number(20));
        let (begin, end) = (at + 28, file.len() as u64);
        let next = begin.checked_add(length).filter(|next| *next <= end);
        match next {
            _ if !lead_in.starts_with(b"TDSm") => return false,
            Some(next) => at = next,
            // It has to end within the metadata, or what is behind that is taken for values.
            None => return begin.checked_add(metadata).is_none_or(|data| data > end),
        }
    }
    true
}
