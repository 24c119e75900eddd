//! Tests updates of variables in a file that cannot be synced.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::io;

use trunkline_record::{Segments, VariableRecordError, VariableRecording};
use trunkline_types::{DataType, Lost, Quality, Sample, Timestamp, Value};

/// A file whose second sync fails and whose later syncs succeed, because the system reports an
/// error only once.
#[derive(Default)]
struct FailsOnce {
    syncs: u32,
}

impl Segments for FailsOnce {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        match self.syncs {
            2 => Err(io::Error::from_raw_os_error(5)),
            _ => Ok(()),
        }
    }
}

/// Behaviour: B-70, B-72.
#[test]
fn nothing_is_reported_durable_after_a_failed_sync() {
    let mut sut = VariableRecording::new(FailsOnce::default(), 1 << 20);
    let level = sut.add("rig/level", &DataType::I64).unwrap();
    let mut synced = Vec::new();
    for number in 0..4 {
        let time = Timestamp::from_nanos(number);
        let sample = Sample {
            value: Value::I64(number),
            source_timestamp: time,
            engine_timestamp: time,
            quality: Quality::GOOD,
        };
        sut.take(level, &sample, &Lost::NONE).unwrap();
        synced.push(sut.sync());
        let progress = sut.progress();
        assert_eq!((progress.in_file, progress.on_disk), (number as u64 + 1, 1));
        assert_eq!(progress.sync_failure, (number > 0).then_some(5));
    }
    assert!(synced.remove(0).is_ok());
    for synced in synced {
        let error = synced.unwrap_err();
        assert!(
            error.to_string().contains("continue in another file"),
            "{error}"
        );
        assert!(matches!(
            error,
            VariableRecordError::Sync {
                os_error: 5,
                on_disk: 1
            }
        ));
    }
}
