//! Tests the samples of the simulated card, and its behaviour if the reader is too slow.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::io::ErrorKind;
use std::time::Duration;

use trunkline_card::{
    CardOptions, DeviceOptions, SAMPLE_BYTES, SimCard, SimDevice, SimOutput, check_samples,
    fill_samples, sample,
};
use trunkline_ring::{PagesWanted, RegionMemory, RegionReader};

/// Long enough for any machine; a test that needs it has failed.
const LONG: Duration = Duration::from_secs(60);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Takes the available samples and checks each; `row` is the next expected row.
fn check_all(reader: &mut RegionReader, device: u16, row: &mut u64) {
    while let Ok(region) = reader.acquire_available(u64::MAX) {
        *row += region.lost_before();
        let per_row = (reader.element_bytes() / SAMPLE_BYTES) as u64;
        check_samples(device, *row * per_row, region.bytes()).unwrap();
        *row += region.elements();
    }
}

#[test]
fn sample_identifies_itself() {
    assert_eq!(sample(0, 5), 5);
    assert_eq!(sample(3, 5), (3 << 48) | 5);
    let mut bytes = 5_i64.to_le_bytes();
    check_samples(0, 5, &bytes).unwrap();
    bytes[0] ^= 1;
    let wrong = check_samples(0, 5, &bytes).unwrap_err();
    assert_eq!((wrong.number, wrong.expected, wrong.found), (5, 5, 4));
}

/// Behaviour: ZC-18.
#[test]
fn device_acquires_at_its_rate_and_loses_rows_if_the_ring_is_full() {
    let parts = RegionMemory::for_recording(2 * SAMPLE_BYTES, 512, PagesWanted::Ordinary, 4);
    let (_memory, filler, mut reader) = parts.unwrap();
    let mut sut = SimDevice::new(filler, DeviceOptions::new(7, 1000, 64)).unwrap();
    let start = Duration::from_secs(100);
    assert_eq!(sut.run_until(start).unwrap(), 0);
    // 500 rows have arrived, which are 7 complete transfers and a part of the next one.
    assert_eq!(sut.run_until(start + 500 * MILLISECOND).unwrap(), 448);
    assert_eq!(sut.counts().overflows, 0);
    assert!(sut.next_due().unwrap() > start + 511 * MILLISECOND);
    assert!(sut.next_due().unwrap() <= start + 513 * MILLISECOND);
    // Without a reader, the ring has space for one more transfer. The next 7 transfers are lost.
    assert_eq!(sut.run_until(start + 1000 * MILLISECOND).unwrap(), 64);
    let counts = sut.counts();
    assert_eq!(
        (counts.acquired, counts.lost, counts.overflows),
        (960, 448, 1)
    );
    // The device never overwrites a region that is lent.
    let lent = reader.acquire(512).unwrap();
    sut.run_until(start + 1100 * MILLISECOND).unwrap();
    check_samples(7, 0, lent.bytes()).unwrap();
    let lost = sut.counts().lost;
    assert_eq!(lost, 448 + 128);
    drop(lent);
    sut.run_until(start + 1300 * MILLISECOND).unwrap();
    let mut row = 512;
    check_all(&mut reader, 7, &mut row);
    assert_eq!(row, 1280);
    assert_eq!(sut.counts().lost, lost);
}

/// A short last transfer is due as soon as its rows have arrived.
#[test]
fn short_last_transfer_is_due_with_its_rows_and_is_the_last_one() {
    let parts = RegionMemory::for_recording(SAMPLE_BYTES, 512, PagesWanted::Ordinary, 4);
    let (_memory, filler, _reader) = parts.unwrap();
    let options = DeviceOptions {
        rows_max: Some(74),
        ..DeviceOptions::new(7, 1000, 64)
    };
    let mut sut = SimDevice::new(filler, options).unwrap();
    let start = Duration::from_secs(100);
    assert_eq!(sut.run_until(start).unwrap(), 0);
    for (rows, after) in [(64, 64 * MILLISECOND), (10, 74 * MILLISECOND)] {
        let due = sut.next_due().unwrap();
        assert!((start + after..=start + after + MILLISECOND).contains(&due));
        assert_eq!(sut.run_until(due).unwrap(), rows);
    }
    assert!(sut.counts().is_over);
    assert_eq!(sut.next_due(), None);
}

#[test]
fn device_refuses_a_ring_without_whole_transfers_or_samples() {
    for (row_bytes, transfer) in [(SAMPLE_BYTES, 100), (SAMPLE_BYTES, 0), (4, 64)] {
        let parts = RegionMemory::for_recording(row_bytes, 4096, PagesWanted::Ordinary, 4);
        let (_memory, filler, _reader) = parts.unwrap();
        let refused = SimDevice::new(filler, DeviceOptions::new(0, 0, transfer)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    }
}

/// The devices run in threads at the maximum rate.
///
/// Behaviour: ZC-18, ZC-23.
#[test]
fn a_card_runs_its_devices_and_every_value_arrives() {
    let options = CardOptions {
        devices: 3,
        channels: 4,
        ring_rows: 1024,
        transfer_rows: 128,
        rate: 0,
        rows_max: Some(20_100),
        lent_max: 4,
        pages: PagesWanted::Ordinary,
    };
    let (sut, rings) = SimCard::start(&options).unwrap();
    for (device, mut ring) in (0..).zip(rings) {
        let mut row = 0;
        while let Some(region) = ring.next(256, LONG).unwrap() {
            assert_eq!(region.lost_before(), 0);
            check_samples(device, row * 4, region.bytes()).unwrap();
            row += region.elements();
        }
        assert_eq!(row, 20_100);
    }
    for counts in sut.stop() {
        assert!(counts.is_over);
        assert_eq!((counts.acquired, counts.lost), (20_100, 0));
    }
}

/// Behaviour: ZC-08.
#[test]
fn playing_device_counts_missing_samples() {
    let parts = RegionMemory::for_playback(SAMPLE_BYTES, 512, PagesWanted::Ordinary, 4);
    let (_memory, mut writer, drain) = parts.unwrap();
    let mut sut = SimOutput::new(drain, 2, 1000);
    let mut row = 0;
    let mut put = |rows: u64| {
        let mut region = writer.acquire(rows).unwrap();
        fill_samples(2, row, region.bytes_mut());
        row += region.elements();
        region.finish();
    };
    put(256);
    sut.run_until(Duration::ZERO).unwrap();
    sut.run_until(100 * MILLISECOND).unwrap();
    assert_eq!((sut.played(), sut.missed()), (100, 0));
    sut.run_until(300 * MILLISECOND).unwrap();
    assert_eq!((sut.played(), sut.missed(), sut.underruns()), (256, 44, 1));
    put(100);
    // The device continues with the next row, delayed by the missed rows.
    sut.run_until(350 * MILLISECOND).unwrap();
    assert_eq!((sut.played(), sut.missed(), sut.underruns()), (306, 44, 1));
    let mut region = writer.acquire(64).unwrap();
    region.bytes_mut().fill(1);
    region.finish();
    sut.run_until(400 * MILLISECOND).unwrap();
    assert!(sut.run_until(500 * MILLISECOND).is_err(), "a wrong value");
}
