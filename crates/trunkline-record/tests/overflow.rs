//! Tests a device that is faster than the recorder, so that its ring overflows.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;

use std::time::Duration;

use rig::LONG;
use trunkline_card::{DeviceOptions, SAMPLE_BYTES, SimDevice, sample};
use trunkline_record::{QueueOptions, SimDisk, TdmsLayout, TdmsRecording, WriteQueue};
use trunkline_ring::{PagesWanted, RegionMemory};
use trunkline_tdms::{ObjectPath, TdmsFile, TdmsType};

/// Returns the numbers of rows recorded and lost in one simulated second at `rate` rows per second.
/// The recorder takes 256 rows in 10 ms.
fn record_a_second(rate: u64) -> (u64, u64) {
    let made = RegionMemory::for_recording(SAMPLE_BYTES, 2048, PagesWanted::Ordinary, 8);
    let (memory, filler, mut reader) = made.unwrap();
    let mut device = SimDevice::new(filler, DeviceOptions::new(1, rate, 64)).unwrap();
    let disk = SimDisk::new(rate, 1);
    let options = QueueOptions {
        copying: None,
        ..QueueOptions::default()
    };
    let queue = WriteQueue::new(Box::new(disk.clone()), options, vec![memory]);
    let layout = TdmsLayout {
        timestamps: Vec::new(),
        group: "card".into(),
        channels: vec![("in0".into(), TdmsType::I64)],
        waveform: None,
    };
    let mut recording = TdmsRecording::start(queue, &layout, LONG).unwrap();
    for tick in 0..=1000 {
        device.run_until(tick * Duration::from_millis(1)).unwrap();
        if tick % 10 == 0
            && let Ok(region) = reader.acquire(256)
        {
            recording.write(region).unwrap();
        }
    }
    recording.close(LONG).unwrap();
    let file = TdmsFile::open(disk.file()).unwrap();
    let channel = file.channel(&ObjectPath::channel("card", "in0")).unwrap();
    let mut values = vec![0; channel.len() as usize];
    channel.read_into(0, &mut values).unwrap();
    let properties = file.properties(&ObjectPath::group("card")).unwrap();
    let number = |name: String| properties.get(name.as_bytes())?.as_u64();
    let gaps = (1..).map_while(|gap| {
        Some((
            number(format!("gap_{gap}_row"))?,
            number(format!("gap_{gap}_lost"))?,
        ))
    });
    let gaps: Vec<(u64, u64)> = gaps.collect();
    let missing = |row| -> u64 {
        let before = gaps.iter().filter(|(at, _)| *at <= row);
        before.map(|(_, lost)| lost).sum()
    };
    for (row, value) in (0..).zip(values) {
        assert_eq!(value, sample(1, row + missing(row)), "row {row}");
    }
    (recording.rows(), device.counts().lost)
}

/// The rate is raised until the device overflows, as for the published table. The recording with
/// the overflow is also correct, including its gaps.
///
/// Behaviour: ZC-18, ZC-21.
#[test]
fn the_rate_is_raised_until_the_device_overflows() {
    let mut best = 0;
    for rate in (5_000..).step_by(5_000) {
        let (rows, lost) = record_a_second(rate);
        assert!(rows > 0);
        if lost > 0 {
            break;
        }
        best = rate;
    }
    assert_eq!(best, 25_000);
}
