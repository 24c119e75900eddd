//! Provides the shared fixture: a ring that is filled with numbers, and checks of recorded files.
#![allow(dead_code, reason = "each test file uses what it needs of it")]

use std::sync::Arc;
use std::time::Duration;

use trunkline_record::{Backend, QueueOptions, TdmsLayout, TdmsRecording, WriteQueue};
use trunkline_ring::{PagesWanted, RegionFiller, RegionMemory, RegionReader};
use trunkline_tdms::{ObjectPath, ReadAt, TdmsFile, TdmsType};

/// Long enough for any disk; a test that waits this long fails.
pub const LONG: Duration = Duration::from_secs(60);

/// Disk operations needed to open a file: two placeholders, the first segment and its sync.
pub const OPENING: u64 = 4;

/// Size in bytes of a row, which contains a number and its negative.
pub const ROW: usize = 16;

/// Both ends of a ring, and its memory.
pub struct Ring {
    pub memory: Arc<RegionMemory>,
    pub filler: RegionFiller,
    pub reader: RegionReader,
}

/// A recording to a simulated disk.
pub type Sut = TdmsRecording;

pub fn ring(rows: usize) -> Ring {
    let made = RegionMemory::for_recording(ROW, rows, PagesWanted::Ordinary, 16);
    let (memory, filler, reader) = made.unwrap();
    Ring {
        memory,
        filler,
        reader,
    }
}

/// Rows that contain their own number.
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

/// The defaults, except that nothing is copied and files are lengthened in small steps.
pub fn options() -> QueueOptions {
    QueueOptions {
        lengthen_bytes: 64 << 10,
        copying: None,
        ..QueueOptions::default()
    }
}

pub fn recording(
    backend: impl Backend + 'static,
    ring: &Ring,
    options: QueueOptions,
) -> TdmsRecording {
    recording_of(Box::new(backend), ring, options)
}

pub fn recording_of(
    backend: Box<dyn Backend>,
    ring: &Ring,
    options: QueueOptions,
) -> TdmsRecording {
    let queue = WriteQueue::new(backend, options, vec![ring.memory.clone()]);
    TdmsRecording::start(queue, &layout(), LONG).unwrap()
}

/// Returns the numbers in a file; panics if its two channels differ.
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

/// Asserts that the file holds a prefix of the rows, at least `rows_min` and at most `rows_max`.
/// Returns their number.
pub fn assert_prefix<R: ReadAt>(file: R, rows_min: u64, rows_max: u64) -> u64 {
    let numbers = numbers(file);
    let is_prefix = numbers.iter().copied().eq(0..numbers.len() as i64);
    assert!(is_prefix, "a value that was never recorded: {numbers:?}");
    let count = numbers.len() as u64;
    assert!(
        (rows_min..=rows_max).contains(&count),
        "{count} rows, {rows_min} to {rows_max}"
    );
    count
}

/// Returns true if a reader that follows the lead-ins, as npTDMS does, finds one at every position:
/// the file ends between two segments, or with an incomplete one.
pub fn has_no_gap(file: &[u8]) -> bool {
    let mut position = 0_u64;
    while let Some(lead_in) = file
        .get(position as usize..)
        .and_then(|rest| rest.first_chunk::<28>())
    {
        let number = |offset: usize| u64::from_le_bytes(*lead_in[offset..].first_chunk().unwrap());
        let (length, metadata) = (number(12), number(20));
        let (body, end) = (position + 28, file.len() as u64);
        let next = body.checked_add(length).filter(|next| *next <= end);
        match next {
            _ if !lead_in.starts_with(b"TDSm") => return false,
            Some(next) => position = next,
            // The file must end within the metadata; otherwise readers treat the bytes after it as
            // values.
            None => return body.checked_add(metadata).is_none_or(|data| data > end),
        }
    }
    true
}
