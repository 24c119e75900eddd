//! Tests the times at which rows are due, and the treatment of missing rows.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod sample_file;

use std::time::Duration;

use sample_file::write;
use trunkline_record::{GapMode, Pace, PacedDrain, Pacer, Recording, Selection};
use trunkline_ring::{PagesWanted, RegionMemory};
use trunkline_tdms::{
    Arrangement, Data, ObjectPath, TdmsTime, TdmsType, Waveform, Writer, WriterOptions,
};
use trunkline_types::Timestamp;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns the number of rows for each tick of 10 ms, if all due rows can be taken.
fn ticks(pacer: &mut Pacer, count: u32) -> Vec<u64> {
    (0..count)
        .map(|tick| pacer.take(tick * 10 * MILLISECOND, u64::MAX).unwrap())
        .collect()
}

fn set_rate(writer: &mut Writer) {
    let waveform = Waveform {
        increment: 0.001,
        ..Waveform::default()
    };
    for (name, value) in waveform.to_properties() {
        writer
            .set(&ObjectPath::channel("g", "a"), name, value)
            .unwrap();
    }
}

fn set_gap(writer: &mut Writer) {
    set_rate(writer);
    let group = ObjectPath::group("g");
    writer.set(&group, "gap_1_row", 15_u64).unwrap();
    writer.set(&group, "gap_1_lost", 20_u64).unwrap();
}

/// Behaviour: B-72, ZC-25.
#[test]
fn rows_are_due_at_the_recorded_speed_or_a_multiple() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    write(&path, 50, Arrangement::Interleaved, set_rate);
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    assert_eq!(recording.increment(), Some(0.001));
    let pacer = |pace| Pacer::new(&recording, pace, GapMode::AsTime).unwrap();
    assert_eq!(ticks(&mut pacer(Pace::Original), 6), [1, 10, 10, 10, 10, 9]);
    assert_eq!(ticks(&mut pacer(Pace::Scaled(0.5)), 6), [1, 5, 5, 5, 5, 5]);
    assert_eq!(ticks(&mut pacer(Pace::Scaled(2.0)), 4), [1, 20, 20, 9]);
    let mut full = pacer(Pace::Full);
    assert_eq!(ticks(&mut full, 2), [50, 0]);
    assert!(full.is_over());
    // If fewer rows are taken than are due, the remaining rows are still due.
    let mut sut = pacer(Pace::Original);
    sut.take(Duration::ZERO, 1).unwrap();
    assert_eq!(sut.take(10 * MILLISECOND, 4).unwrap(), 4);
    assert_eq!(sut.take(10 * MILLISECOND, 40).unwrap(), 6);
    let due = sut.next_due().unwrap().unwrap();
    assert!(due > 10 * MILLISECOND && due < 11 * MILLISECOND + MILLISECOND / 2);
    assert_eq!(sut.take(due, 40).unwrap(), 1);
}

/// Behaviour: B-72.
#[test]
fn gaps_are_played_as_time_or_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    write(&path, 50, Arrangement::Interleaved, set_gap);
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    assert_eq!(
        (recording.gaps()[0].row, recording.gaps()[0].lost),
        (15, 20)
    );
    let pacer = |gaps| Pacer::new(&recording, Pace::Original, gaps).unwrap();
    assert_eq!(
        ticks(&mut pacer(GapMode::AsTime), 8),
        [1, 10, 4, 0, 6, 10, 10, 9]
    );
    assert_eq!(
        ticks(&mut pacer(GapMode::Skipped), 6),
        [1, 10, 10, 10, 10, 9]
    );
}

/// Behaviour: B-72.
#[test]
fn time_channel_determines_when_each_row_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let mut writer = Writer::new(WriterOptions::default());
    let (a, t) = (
        writer.channel("g", "a", TdmsType::I64).unwrap(),
        writer.channel("g", "t", TdmsType::Time).unwrap(),
    );
    let group = ObjectPath::group("g");
    writer.set(&group, "gap_1_row", 4_u64).unwrap();
    writer.set(&group, "gap_1_lost", 7_u64).unwrap();
    // The times are in milliseconds. The clock is set back once, and there is a gap before 60.
    let at = [0, 1, 10, 12, 60, 55, 61, 200];
    let times = at.map(|ms| {
        TdmsTime::from(Timestamp::from_nanos(
            1_700_000_000_000_000_000 + ms * 1_000_000,
        ))
    });
    let mut bytes = Vec::new();
    let data = [
        (a, Data::from(&[0_i64, 1, 2, 3, 4, 5, 6, 7])),
        (t, Data::from(&times)),
    ];
    writer
        .write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    std::fs::write(&path, bytes).unwrap();
    let selection = Selection {
        times: Some("t".into()),
        ..Selection::default()
    };
    let recording = Recording::open(&path, &selection).unwrap();
    assert_eq!(recording.channels().len(), 1);
    let pacer = |gaps| Pacer::new(&recording, Pace::Original, gaps).unwrap();
    // The row after the clock was set back is due at once, and later rows follow at their own
    // intervals.
    let mut sut = pacer(GapMode::AsTime);
    assert_eq!(ticks(&mut sut, 8), [1, 2, 1, 0, 0, 0, 2, 1]);
    assert!(sut.next_due().unwrap().unwrap() >= 205 * MILLISECOND);
    assert_eq!(sut.take(206 * MILLISECOND, 9).unwrap(), 1);
    let mut sut = pacer(GapMode::Skipped);
    assert_eq!(ticks(&mut sut, 3), [1, 2, 4]);
    assert_eq!(sut.take(158 * MILLISECOND, 9).unwrap(), 1);
}

/// Behaviour: B-72, ZC-25.
#[test]
fn missing_row_delays_all_later_rows_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    write(&path, 50, Arrangement::Interleaved, set_rate);
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    let pacer = Pacer::new(&recording, Pace::Original, GapMode::AsTime).unwrap();
    let made = RegionMemory::for_playback(10, 4096, PagesWanted::Ordinary, 4);
    let (_memory, mut writer, drain) = made.unwrap();
    let mut put = |rows: u64| {
        let region = writer.acquire(rows).unwrap();
        region.finish();
    };
    let mut sut = PacedDrain::new(drain, pacer);
    let mut room = [0; 1000];
    let mut take = |sut: &mut PacedDrain, at: u32| sut.take(at * MILLISECOND, &mut room).unwrap();
    // Time begins with the first row.
    assert_eq!((take(&mut sut, 0), take(&mut sut, 5)), (0, 0));
    put(16);
    assert_eq!(take(&mut sut, 100), 1);
    assert_eq!(take(&mut sut, 110), 10);
    assert_eq!((sut.underruns(), sut.taken()), (0, 11));
    assert_eq!(take(&mut sut, 120), 5);
    assert_eq!(take(&mut sut, 130), 0);
    assert_eq!(sut.underruns(), 1);
    put(34);
    // The row that was due at 116 ms is due now.
    assert_eq!(take(&mut sut, 140), 1);
    assert_eq!(sut.lateness().as_millis(), 23);
    assert_eq!(take(&mut sut, 150), 10);
    assert_eq!(take(&mut sut, 200), 23);
    assert!(sut.is_over());
    assert_eq!(sut.underruns(), 1);
}

/// Behaviour: B-72.
#[test]
fn player_without_room_is_late_and_does_not_catch_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    write(&path, 4000, Arrangement::Interleaved, set_rate);
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    let pacer = Pacer::new(&recording, Pace::Original, GapMode::AsTime).unwrap();
    let made = RegionMemory::for_playback(10, 4096, PagesWanted::Ordinary, 4);
    let (_memory, mut writer, drain) = made.unwrap();
    writer.acquire(4000).unwrap().finish();
    let mut sut = PacedDrain::new(drain, pacer);
    let mut room = [0; 40_000];
    let mut take = |sut: &mut PacedDrain, at: u32, rows: usize| {
        let room = &mut room[..rows * 10];
        sut.take(at * MILLISECOND, room).unwrap()
    };
    assert_eq!(take(&mut sut, 0, 4000), 1);
    assert_eq!(take(&mut sut, 10, 4000), 10);
    // Nothing is late if the rows are taken in two parts at the same time.
    assert_eq!((take(&mut sut, 20, 4), take(&mut sut, 20, 4000)), (4, 6));
    assert_eq!(sut.lateness(), Duration::ZERO);
    // The caller has no buffer space for 2 s, starting with the call at 30 ms.
    for at in (30..2030).step_by(20) {
        assert_eq!(take(&mut sut, at, 0), 0);
    }
    // Rows that were due without buffer space are due now, and later rows follow at the recorded
    // rate.
    assert_eq!(take(&mut sut, 2030, 4000), 10);
    assert_eq!(sut.lateness(), Duration::from_secs(2));
    assert_eq!(take(&mut sut, 2040, 4000), 10);
    // The buffer has space for only some of the rows.
    assert_eq!(take(&mut sut, 2050, 3), 3);
    assert_eq!(take(&mut sut, 2150, 4000), 7);
    assert_eq!(sut.lateness(), Duration::from_millis(2100));
    assert_eq!(take(&mut sut, 2160, 4000), 10);
    assert_eq!((sut.underruns(), sut.taken()), (0, 61));
}
