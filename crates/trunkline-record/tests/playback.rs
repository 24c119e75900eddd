//! Tests the playback of recordings: the positions of values, their times, and missing rows.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod rig;
mod sample_file;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rig::LONG;
use sample_file::write;
use trunkline_card::{DeviceOptions, SAMPLE_BYTES, SimDevice, SimOutput, check_samples};
use trunkline_record::{
    Backend, BackendChoice, CacheMode, Durability, GROUPS_LISTED_MAX, GapMode, MissingPart, Pace,
    Pacer, PlayOptions, PlaybackError, QueueOptions, Recording, Rotation, Selection, SimDisk,
    SimFault, TdmsLayout, TdmsPlayback, TdmsSeries, series_file, series_path, tdms_queue,
};
use trunkline_ring::{PagesWanted, RegionDrain, RegionMemory};
use trunkline_tdms::{Arrangement, Data, TdmsType, Text, Writer, WriterOptions};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Number of rows per region: 8 KiB with two samples per row.
const REGION: u64 = 512;

/// Records the samples of a device, in files of `per_file` regions.
fn record(folder: &Path, device: u16, regions: u64, per_file: u64, cache_mode: CacheMode) {
    let made = RegionMemory::for_recording(
        2 * SAMPLE_BYTES,
        4 * REGION as usize,
        PagesWanted::Ordinary,
        16,
    );
    let (memory, filler, mut reader) = made.unwrap();
    let mut device = SimDevice::new(filler, DeviceOptions::new(device, 0, REGION)).unwrap();
    let layout = TdmsLayout {
        timestamps: Vec::new(),
        group: "card".into(),
        channels: vec![("in0".into(), TdmsType::I64), ("in1".into(), TdmsType::I64)],
        waveform: None,
    };
    let folder = folder.to_owned();
    let open = move |number| {
        let path = series_path(&folder, "run", number)?;
        let wanted = BackendChoice::BestAvailable;
        let memories = vec![memory.clone()];
        let options = QueueOptions {
            copying: None,
            ..QueueOptions::default()
        };
        tdms_queue(&path, wanted, cache_mode, options, memories).map(|made| made.0)
    };
    let rotation = Rotation {
        bytes_max: per_file * REGION * 16,
        ..Rotation::default()
    };
    let mut series = TdmsSeries::start(open, layout, rotation, LONG).unwrap();
    // The last region is shorter.
    for rows in std::iter::repeat_n(REGION, regions as usize).chain([5]) {
        let region = loop {
            device.run_until(Duration::ZERO).unwrap();
            match reader.acquire(rows) {
                Ok(region) => break region,
                // The whole ring is being written.
                Err(_) => {
                    series.poll().unwrap();
                    let current = series.current();
                    current.flush(Durability::InFile, LONG).unwrap();
                }
            }
        };
        series.write(region).unwrap();
    }
    series.close().unwrap();
}

struct Playing {
    sut: TdmsPlayback,
    drain: RegionDrain,
}

fn playing(recording: Recording, options: PlayOptions) -> Playing {
    let made = RegionMemory::for_playback(
        recording.row_bytes(),
        4 * REGION as usize,
        PagesWanted::Ordinary,
        16,
    );
    let (memory, writer, drain) = made.unwrap();
    Playing {
        sut: TdmsPlayback::new(recording, memory, writer, options).unwrap(),
        drain,
    }
}

/// Plays everything, and returns all rows.
fn play_all(playing: &mut Playing) -> Vec<u8> {
    let mut all = Vec::new();
    while !playing.sut.progress().is_finished || playing.drain.available().unwrap() > 0 {
        playing.sut.fill().unwrap();
        playing.sut.wait_for_one(LONG).unwrap();
        let mut rows =
            vec![0; playing.drain.available().unwrap() as usize * playing.drain.element_bytes()];
        playing.drain.take(&mut rows).unwrap();
        all.extend(rows);
    }
    all
}

/// Behaviour: ZC-08, ZC-12, ZC-25, B-72.
#[test]
fn a_series_of_files_plays_as_one_and_nothing_is_copied() {
    for cache_mode in [CacheMode::PreferDirect, CacheMode::Cached] {
        let folder = tempfile::tempdir().unwrap();
        record(folder.path(), 3, 20, 6, cache_mode);
        let first = folder.path().join("run.tdms");
        assert!(folder.path().join("run_0003.tdms").exists());
        let recording = Recording::open(&first, &Selection::default()).unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(recording.paths().count(), files);
        assert_eq!(recording.rows(), 20 * REGION + 5);
        assert_eq!(recording.rows_in_place(), recording.rows());
        assert_eq!((recording.row_bytes(), recording.gaps()), (16, &[][..]));
        let options = PlayOptions {
            region_rows: REGION,
            cache_mode,
            ..PlayOptions::default()
        };
        let mut playing = playing(recording, options);
        let all = play_all(&mut playing);
        assert_eq!(all.len() as u64, (20 * REGION + 5) * 16);
        check_samples(3, 0, &all).unwrap();
        let progress = playing.sut.progress();
        let report = progress.backend.clone().unwrap();
        // The five rows at the end do not fill a block.
        let odd = [0, 5 * 16][usize::from(report.is_direct)];
        assert_eq!(progress.bytes_copied, odd, "{report:?}");
        assert_eq!(
            (progress.started, progress.total),
            (20 * REGION + 5, 20 * REGION + 5)
        );
    }
}

/// Missing parts of a series are reported, and become a gap in the playback.
///
/// Behaviour: ZC-25, B-72.
#[test]
fn missing_parts_of_a_series_are_reported_as_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 3, 20, 6, CacheMode::Cached);
    let path = |number| series_file(&folder.path().join("run.tdms"), number);
    let open = |number| Recording::open(&path(number), &Selection::default());
    std::fs::remove_file(path(2)).unwrap();
    let recording = open(1).unwrap();
    let absent = MissingPart::Files {
        first: path(2),
        last: path(2),
    };
    let rows = |number, rows| MissingPart::Rows {
        path: path(number),
        rows,
    };
    assert_eq!(recording.missing(), [absent.clone(), rows(3, 6 * REGION)]);
    let gaps = |recording: &Recording| -> Vec<_> {
        let gaps = recording.gaps().iter();
        gaps.map(|one| (one.row, one.lost)).collect()
    };
    assert_eq!(gaps(&recording), [(6 * REGION, 6 * REGION)]);
    let all = play_all(&mut playing(recording, PlayOptions::default()));
    let (before, behind) = all.split_at(6 * REGION as usize * 16);
    check_samples(3, 0, before).unwrap();
    assert_eq!(behind.len() as u64, (8 * REGION + 5) * 16);
    check_samples(3, 2 * 12 * REGION, behind).unwrap();
    // The end of the third file is also cut off, with the last two rows.
    let third = std::fs::read(path(3)).unwrap();
    std::fs::write(path(3), &third[..third.len() - 20]).unwrap();
    let recording = open(1).unwrap();
    let [first, second, end, last] = recording.missing() else {
        panic!("{:?}", recording.missing());
    };
    assert_eq!((first, second), (&absent, &rows(3, 6 * REGION)));
    assert!(matches!(end, MissingPart::End { path: cut, .. } if *cut == path(3)));
    assert_eq!(*last, rows(4, 2));
    assert_eq!(gaps(&recording)[1], (12 * REGION - 2, 2));
    // The third file is truncated within its first header, or empty.
    for length in [0, 20, 60] {
        std::fs::write(path(3), &third[..length]).unwrap();
        let recording = open(1).unwrap();
        assert_eq!(recording.missing().last(), Some(&rows(4, 12 * REGION)));
        assert_eq!(recording.rows(), 8 * REGION + 5, "{length}");
    }
    // Playback may begin with a file in the middle.
    assert_eq!(open(4).unwrap().missing(), []);
    // A file of another series.
    std::fs::copy(path(4), path(2)).unwrap();
    let refused = open(1).unwrap_err();
    assert!(
        matches!(&refused, PlaybackError::NotContinued { path: other, .. } if *other == path(2))
    );
}

/// A device plays the data that another device acquired, at its own rate. Underruns are reported if
/// reading is too slow.
///
/// Behaviour: ZC-08, ZC-25.
#[test]
fn a_device_plays_a_recording_and_underruns_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 1, 20, 100, CacheMode::Cached);
    let first = folder.path().join("run.tdms");
    let recording = Recording::open(&first, &Selection::default()).unwrap();
    let total = recording.rows();
    let mut playing = playing(recording, PlayOptions::default());
    playing.sut.fill().unwrap();
    playing.sut.wait_for_one(LONG).unwrap();
    let mut device = SimOutput::new(playing.drain, 1, 10_000);
    let mut now = Duration::ZERO;
    while device.played() < total {
        device.run_until(now).unwrap();
        // Nothing is read for a while.
        if !(300 * MILLISECOND..600 * MILLISECOND).contains(&now) {
            playing.sut.fill().unwrap();
            // Wait for all running reads; the call returns at once if none is running.
            for _ in 0..PlayOptions::default().outstanding_max.get() {
                playing.sut.wait_for_one(LONG).unwrap();
            }
        }
        now += 10 * MILLISECOND;
    }
    let progress = playing.sut.progress();
    // One underrun occurred without reads, and one at the end, where fewer rows remain than are
    // due.
    assert_eq!(progress.underruns, 2);
    assert!(progress.missed > 0);
    assert_eq!(
        (progress.underruns, progress.missed),
        (device.underruns(), device.missed())
    );
}

fn rows(count: i64) -> Vec<u8> {
    let row = |row: i64| {
        let mut bytes = row.to_le_bytes().to_vec();
        bytes.extend((-(row as i16)).to_le_bytes());
        bytes
    };
    (0..count).flat_map(row).collect()
}

/// Behaviour: ZC-25.
#[test]
fn other_layouts_are_played_value_by_value_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    write(&path, 3000, Arrangement::Contiguous, |_| ());
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    assert_eq!(recording.rows_in_place(), 0);
    let mut values = playing(recording, PlayOptions::default());
    assert_eq!(play_all(&mut values), rows(3000));
    let progress = values.sut.progress();
    assert_eq!((progress.bytes_copied, progress.backend), (30_000, None));

    // Interleaved rows are read in place. These are not aligned to blocks, so they are copied if
    // read with direct I/O.
    std::fs::remove_file(&path).unwrap();
    write(&path, 3000, Arrangement::Interleaved, |_| ());
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    assert_eq!(recording.rows_in_place(), 3000);
    let mut values = playing(recording.clone(), PlayOptions::default());
    assert_eq!(play_all(&mut values), rows(3000));
    let progress = values.sut.progress();
    let is_direct = progress.backend.clone().unwrap().is_direct;
    assert_eq!(progress.bytes_copied, [0, 30_000][usize::from(is_direct)]);
    let cached = PlayOptions {
        cache_mode: CacheMode::Cached,
        ..PlayOptions::default()
    };
    let mut values = playing(recording, cached);
    assert_eq!(play_all(&mut values), rows(3000));
    assert_eq!(values.sut.progress().bytes_copied, 0);

    // This recording plays only one of the channels.
    let selection = Selection {
        channels: vec!["b".into()],
        ..Selection::default()
    };
    let mut values = playing(
        Recording::open(&path, &selection).unwrap(),
        PlayOptions::default(),
    );
    let expected: Vec<u8> = (0..3000_i16).flat_map(|row| (-row).to_le_bytes()).collect();
    assert_eq!(play_all(&mut values), expected);
}

#[test]
fn unplayable_recordings_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let open = |selection: &Selection| Recording::open(&path, selection);
    let default = Selection::default();
    assert!(matches!(open(&default), Err(PlaybackError::File { .. })));
    std::fs::write(&path, "no TDMS file at all, and long enough").unwrap();
    assert!(matches!(open(&default), Err(PlaybackError::Open { .. })));
    write(&path, 10, Arrangement::Interleaved, |_| ());
    let selection = |group: &str, channel: &str| Selection {
        group: Some(group.into()),
        channels: vec![channel.into()],
        ..Selection::default()
    };
    assert!(matches!(
        open(&selection("g", "x")),
        Err(PlaybackError::NoChannel { .. })
    ));
    assert!(matches!(
        open(&selection("h", "a")),
        Err(PlaybackError::NoChannel { .. })
    ));
    let times = Selection {
        times: Some("b".into()),
        ..Selection::default()
    };
    assert!(matches!(
        open(&times),
        Err(PlaybackError::FileMismatch { .. })
    ));
    let recording = open(&default).unwrap();
    let pacer = |pace| Pacer::new(&recording, pace, GapMode::AsTime);
    assert!(matches!(
        pacer(Pace::Original),
        Err(PlaybackError::NoTimes { .. })
    ));
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = pacer(Pace::Scaled(speed));
        assert!(matches!(refused, Err(PlaybackError::Speed { .. })));
    }
    pacer(Pace::Full).unwrap();
    let (memory, ring, _) = RegionMemory::for_playback(16, 4096, PagesWanted::Ordinary, 4).unwrap();
    let refused = TdmsPlayback::new(recording, memory, ring, PlayOptions::default());
    assert!(matches!(
        refused,
        Err(PlaybackError::RowSizeMismatch { .. })
    ));
    // The next file of the series has other channels.
    let mut writer = Writer::new(WriterOptions::default());
    let a = writer.channel("g", "a", TdmsType::I64).unwrap();
    let b = writer.channel("g", "b", TdmsType::F32).unwrap();
    let mut bytes = Vec::new();
    let data = [(a, Data::from(&[1_i64])), (b, Data::from(&[1.0_f32]))];
    writer
        .write(&data, Arrangement::Interleaved, &mut bytes)
        .unwrap();
    std::fs::write(folder.path().join("x_0002.tdms"), bytes).unwrap();
    assert!(matches!(
        open(&default),
        Err(PlaybackError::FileMismatch { .. })
    ));
}

/// Behaviour: ZC-25.
#[test]
fn failed_read_ends_playback_after_the_preceding_rows() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 1, 8, 100, CacheMode::Cached);
    let first = folder.path().join("run.tdms");
    let recording = Recording::open(&first, &Selection::default()).unwrap();
    let made = RegionMemory::for_playback(16, 16 * REGION as usize, PagesWanted::Ordinary, 16);
    let (memory, writer, mut drain) = made.unwrap();
    let disk = SimDisk::new(7, 1);
    disk.fault(3, SimFault::Fails(5));
    disk.set_file(std::fs::read(&first).unwrap());
    let opens = move |path: &Path, _| {
        let length = std::fs::metadata(path)?.len();
        Ok((Box::new(disk.clone()) as Box<dyn Backend>, length))
    };
    let options = PlayOptions {
        region_rows: REGION,
        ..PlayOptions::default()
    };
    let memory: Arc<RegionMemory> = memory;
    let mut sut = TdmsPlayback::with_backends(recording, memory, writer, options, opens).unwrap();
    let failed = loop {
        match sut.fill() {
            Ok(_) => sut.wait_for_one(LONG).unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, PlaybackError::Queue { .. }), "{failed}");
    drop(sut);
    let mut got = vec![0; 16 * 16 * REGION as usize];
    let count = drain.take(&mut got).unwrap();
    assert_eq!(count, 3 * REGION);
    check_samples(1, 0, &got[..count as usize * 16]).unwrap();
}

/// Bytes that must be copied because of direct I/O are counted over all files.
///
/// Behaviour: ZC-13, ZC-25.
#[test]
fn unaligned_data_is_copied_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    write(&path, 3000, Arrangement::Interleaved, |_| ());
    std::fs::copy(&path, folder.path().join("x_0002.tdms")).unwrap();
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    assert_eq!(recording.rows(), 6000);
    let made = RegionMemory::for_playback(10, 8192, PagesWanted::Ordinary, 16);
    let (memory, writer, drain) = made.unwrap();
    let opens = |path: &Path, _| {
        let disk = SimDisk::new(3, 512);
        let bytes = std::fs::read(path)?;
        disk.set_file(bytes.clone());
        Ok((Box::new(disk) as Box<dyn Backend>, bytes.len() as u64))
    };
    let options = PlayOptions::default();
    let sut = TdmsPlayback::with_backends(recording, memory, writer, options, opens).unwrap();
    let mut playing = Playing { sut, drain };
    assert_eq!(play_all(&mut playing), [rows(3000), rows(3000)].concat());
    assert_eq!(playing.sut.progress().bytes_copied, 60_000);
}

/// Behaviour: B-72.
#[test]
fn file_of_many_groups_names_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tdms");
    let mut writer = Writer::new(WriterOptions::default());
    let groups: Vec<Text> = (0..100_000).map(|g| Text::from(g.to_string())).collect();
    for group in &groups {
        for name in ["a", "b"] {
            writer.channel(group.clone(), name, TdmsType::I8).unwrap();
        }
    }
    let mut bytes = Vec::new();
    writer
        .write(&[], Arrangement::Contiguous, &mut bytes)
        .unwrap();
    std::fs::write(&path, bytes).unwrap();
    let which = Recording::open(&path, &Selection::default()).unwrap_err();
    let end = "does not have exactly one group with channels \
               (found: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 99990 more); specify the group to play";
    assert!(which.to_string().ends_with(end), "{which}");
    let PlaybackError::AmbiguousGroup { groups: listed, .. } = which else {
        panic!("{which}");
    };
    assert_eq!(listed, groups[..GROUPS_LISTED_MAX]);
}
