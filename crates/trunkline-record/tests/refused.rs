//! Tests recordings and regions that are refused, and the length by which a file is extended ahead.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::num::NonZeroUsize;

use rig::{LONG, ROW, Ring, recording, ring, rows};
use trunkline_record::{QueueOptions, RecordError, SimDisk, TdmsLayout, TdmsRecording, WriteQueue};
use trunkline_ring::ReadRegion;
use trunkline_tdms::{ObjectPath, TdmsType};

const BLOCK: usize = 512;
const BLOCK_ROWS: i64 = (BLOCK / ROW) as i64;

fn options(outstanding: usize) -> QueueOptions {
    QueueOptions {
        outstanding_max: NonZeroUsize::new(outstanding).unwrap(),
        ..rig::options()
    }
}

/// Returns the next `blocks` blocks of rows in a region.
fn next(ring: &mut Ring, blocks: i64) -> ReadRegion {
    let from = ring.filler.written() as i64;
    let count = blocks * BLOCK_ROWS;
    ring.filler.push(&rows(from..from + count)).unwrap();
    ring.reader.acquire(count as u64).unwrap()
}

#[test]
fn unsupported_recordings_are_refused_with_the_reason() {
    let ring = ring(8192);
    let start = |channels: Vec<(&str, TdmsType)>| {
        let memories = vec![ring.memory.clone()];
        let queue = WriteQueue::new(Box::new(SimDisk::new(1, BLOCK)), options(2), memories);
        let layout = TdmsLayout {
            timestamps: Vec::new(),
            group: "rig".into(),
            channels: channels
                .iter()
                .map(|(name, ty)| ((*name).into(), *ty))
                .collect(),
            waveform: None,
        };
        TdmsRecording::start(queue, &layout, LONG)
    };
    let error = start(vec![]).unwrap_err();
    assert!(
        error.to_string().contains("specify at least one"),
        "{error}"
    );
    let error = start(vec![("s", TdmsType::String)]).unwrap_err();
    assert!(error.to_string().contains("no fixed size"), "{error}");
    let many: Vec<String> = (0..5000).map(|n| format!("channel {n}")).collect();
    let many = many
        .iter()
        .map(|name| (name.as_str(), TdmsType::I16))
        .collect();
    let error = start(many).unwrap_err();
    assert!(error.to_string().contains("header_bytes_max"), "{error}");

    let mut ring = self::ring(8192);
    let mut sut = recording(SimDisk::new(1, BLOCK), &ring, options(2));
    let mut other = start(vec![("one", TdmsType::I16)]).unwrap();
    let region = next(&mut ring, 1);
    let error = other.write(region).unwrap_err();
    assert!(
        error.to_string().contains("a row of these channels has 2"),
        "{error}"
    );
    // A header that becomes too long ends the file, which stays intact.
    let long = "x".repeat(100_000);
    sut.set(&ObjectPath::File, "remark", long).unwrap();
    assert!(sut.write(next(&mut ring, 1)).is_err());
    let error = sut.write(next(&mut ring, 1)).unwrap_err();
    assert!(matches!(error, RecordError::HeaderOverflow), "{error}");
    sut.close(LONG).unwrap();
}

/// Behaviour: ZC-14.
#[test]
fn file_is_lengthened_one_or_two_steps_ahead() {
    let step = 16_u64 << 10;
    for reserve_bytes in [0, 1 << 20, 8 << 10] {
        let disk = SimDisk::new(1, BLOCK);
        let mut ring = ring(8192);
        let options = QueueOptions {
            reserve_bytes,
            lengthen_bytes: step,
            ..options(2)
        };
        let mut sut = recording(disk.clone(), &ring, options);
        for _ in 0..100 {
            sut.write(next(&mut ring, 1)).unwrap();
            let ahead = disk.file().len() as u64 - sut.progress().accepted;
            assert!((step..=2 * step).contains(&ahead), "{ahead}");
        }
        let closed = sut.close(LONG).unwrap();
        assert_eq!(disk.file().len() as u64, closed.length);
    }
}
