//! Streams: recorded, and played again.

use std::path::Path;
use std::thread;
use std::time::Duration;

use trunkline::Engine;
use trunkline::record::regions::{PagesWanted, RegionFiller, RegionMemory, RegionReader};
use trunkline::record::{
    BackendChoice, CacheMode, FreeSpaceState, GapMode, Pace, PacedDrain, Pacer, PlayOptions,
    PlaybackError, QueueOptions, Recording, RecordingError, Selection, SimDisk, TdmsPlayback,
    TdmsRecording, WriteQueue, play_into_stream, receive_into_ring, record_stream, stopper,
    stream_layout, tdms_queue,
};
use trunkline::stream::{Options, Reader, ValueReader, ValueWriter, Writer};
use trunkline::tdms::{
    Arrangement, Data, ObjectPath, TdmsFile, TdmsType, Waveform, Writer as TdmsWriter,
    WriterOptions,
};
use trunkline::types::DataType;
use trunkline::types::text::parse_type;

use crate::rig::{CUT_OFF, PATIENCE, listening, options};

/// Rows of a region.
const REGION: u64 = 512;

/// Records the stream `in` into `path` until it ends. Returns the number of elements.
fn record(of_reader: Options, data_type: &DataType, path: &Path) -> (u64, bool) {
    let mut stream = ValueReader::create("in", data_type, of_reader).unwrap();
    let bytes = trunkline::stream::element_bytes(data_type).unwrap();
    let rows = 4 * REGION as usize;
    let made = RegionMemory::for_recording(bytes, rows, PagesWanted::Ordinary, 16);
    let (memory, mut filler, mut reader) = made.unwrap();
    let (queue, _) = tdms_queue(
        path,
        BackendChoice::BestAvailable,
        CacheMode::PreferDirect,
        QueueOptions {
            copying: None,
            ..QueueOptions::default()
        },
        vec![memory],
    )
    .unwrap();
    let layout = stream_layout("stream", "value", data_type).unwrap();
    let mut recording = TdmsRecording::start(queue, &layout, PATIENCE).unwrap();
    let (_stopper, stopped) = stopper();
    let ends = (&mut filler, &mut reader);
    let done = record_stream(&mut stream, ends, &mut recording, REGION, &stopped, |_| ());
    let done = done.unwrap();
    assert_eq!(done.bytes, done.elements * bytes as u64, "one copy of each");
    recording.close(PATIENCE).unwrap();
    assert_eq!((recording.rows(), recording.lost()), (done.elements, 0));
    (done.elements, done.has_ended)
}

/// The elements of a stream are in the file, each once and in order, and are played into another
/// stream.
///
/// Behaviour: ZC-08, ZC-12, B-72.
#[test]
fn a_stream_is_recorded_and_played_into_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream.tdms");
    let engine = listening();
    let of_reader = options(&engine, None);
    let recorder = thread::spawn({
        let path = path.clone();
        move || record(of_reader, &DataType::I64, &path)
    });
    let mut writer = Writer::<i64>::create("out", options(&engine, Some("in"))).unwrap();
    // More rows than the ring has, and not a multiple of a region.
    let all: Vec<i64> = (0..20_333).collect();
    all.chunks(1000)
        .for_each(|some| writer.write_many(some, CUT_OFF).unwrap());
    assert_eq!(writer.close(CUT_OFF).elements, 0);
    assert_eq!(recorder.join().unwrap(), (20_333, true));
    let file = TdmsFile::open(std::fs::File::open(&path).unwrap()).unwrap();
    let channel = file
        .channel(&ObjectPath::channel("stream", "value"))
        .unwrap();
    let mut values = vec![0_i64; 20_334];
    assert_eq!(channel.read_into(0, &mut values).unwrap(), 20_333);
    assert!(values.starts_with(&all));

    let of_reader = options(&engine, None);
    let reader = thread::spawn(move || {
        let of_reader = Options {
            capacity: 30_000,
            ..of_reader
        };
        let mut reader = Reader::<i64>::create("again", of_reader).unwrap();
        reader.read_many(20_333, CUT_OFF).unwrap()
    });
    let of_writer = Options {
        capacity: 30_000,
        ..options(&engine, Some("again"))
    };
    let mut writer = ValueWriter::create("player", &DataType::I64, of_writer).unwrap();
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    let refused = Pacer::new(&recording, Pace::Original, GapMode::AsTime).unwrap_err();
    assert!(
        matches!(refused, PlaybackError::NoTimes { .. }),
        "{refused}"
    );
    let pacer = Pacer::new(&recording, Pace::Full, GapMode::AsTime).unwrap();
    let made = RegionMemory::for_playback(8, 4096, PagesWanted::Ordinary, 16);
    let (memory, ring, drain) = made.unwrap();
    let mut drain = PacedDrain::new(drain, pacer);
    let mut playback = TdmsPlayback::new(recording, memory, ring, PlayOptions::default()).unwrap();
    let (_stopper, stopped) = stopper();
    let done = play_into_stream(&mut playback, &mut drain, &mut writer, &stopped, |_| ());
    let done = done.unwrap();
    assert!(done.is_complete);
    assert_eq!((done.rows, done.underruns), (20_333, 0));
    assert_eq!(reader.join().unwrap(), all);
    assert_eq!(writer.close(CUT_OFF).elements, 0);
}

/// Elements that arrive slowly do not wait in memory for a whole region.
#[test]
fn elements_of_a_slow_stream_are_written_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow.tdms");
    let engine = listening();
    let (go_on, may_go_on) = std::sync::mpsc::channel();
    let sender = thread::spawn({
        let of_writer = options(&engine, Some("in"));
        move || {
            let mut writer = Writer::<i64>::create("out", of_writer).unwrap();
            let first: Vec<i64> = (0..1024).collect();
            writer.write_many(&first, CUT_OFF).unwrap();
            // The recorder must end even if these elements do not arrive.
            let _ = may_go_on.recv_timeout(PATIENCE);
            let rest: Vec<i64> = (1024..20_333).collect();
            rest.chunks(1000)
                .for_each(|some| writer.write_many(some, CUT_OFF).unwrap());
            writer.close(CUT_OFF);
        }
    });
    let mut stream = ValueReader::create("in", &DataType::I64, options(&engine, None)).unwrap();
    let made = RegionMemory::for_recording(8, 16 * REGION as usize, PagesWanted::Ordinary, 16);
    let (memory, mut filler, mut reader) = made.unwrap();
    let (queue, _) = tdms_queue(
        &path,
        BackendChoice::BestAvailable,
        CacheMode::PreferDirect,
        QueueOptions::default(),
        vec![memory],
    )
    .unwrap();
    let layout = stream_layout("stream", "value", &DataType::I64).unwrap();
    let mut recording = TdmsRecording::start(queue, &layout, PATIENCE).unwrap();
    let (_stopper, stopped) = stopper();
    let mut seen = false;
    let ends = (&mut filler, &mut reader);
    let done = record_stream(
        &mut stream,
        ends,
        &mut recording,
        // More elements than arrive at first.
        4 * REGION,
        &stopped,
        |recording| {
            if recording.rows_in_file() == 1024 {
                seen = true;
                let _ = go_on.send(());
            }
        },
    );
    assert_eq!(done.unwrap().elements, 20_333);
    recording.close(PATIENCE).unwrap();
    sender.join().unwrap();
    assert!(seen);
    let file = TdmsFile::open(std::fs::File::open(&path).unwrap()).unwrap();
    let channel = file
        .channel(&ObjectPath::channel("stream", "value"))
        .unwrap();
    let mut values = vec![0_i64; 20_334];
    assert_eq!(channel.read_into(0, &mut values).unwrap(), 20_333);
    assert!((0..20_333).eq(values[..20_333].iter().copied()));
}

/// A stopped recording does not end the stream: the elements taken are in the file, and the rest
/// goes to the next reader.
#[test]
fn stopped_stream_recording_has_the_elements_taken() {
    let engine = listening();
    let of_reader = options(&engine, None);
    let writer = thread::spawn({
        let of_writer = options(&engine, Some("in"));
        move || Writer::<i64>::create("out", of_writer).unwrap()
    });
    let mut stream = ValueReader::create("in", &DataType::I64, of_reader).unwrap();
    let mut writer = writer.join().unwrap();
    writer.write_many(&[1, 2, 3], CUT_OFF).unwrap();
    let made = RegionMemory::for_recording(8, 512, PagesWanted::Ordinary, 4);
    let (_memory, mut filler, mut reader) = made.unwrap();
    let mut taken = 0;
    while taken < 3 {
        taken += receive_into_ring(&mut stream, &mut filler, CUT_OFF).unwrap();
    }
    let region = reader.acquire(3).unwrap();
    let expected: Vec<u8> = [1_i64, 2, 3]
        .into_iter()
        .flat_map(i64::to_le_bytes)
        .collect();
    assert_eq!(region.bytes(), expected);
    let late = receive_into_ring(&mut stream, &mut filler, Some(Duration::ZERO)).unwrap_err();
    assert!(matches!(late, RecordingError::Stream(_)), "{late}");
    // A full ring leaves the rest in the stream.
    writer.write_many(&[0; 600], CUT_OFF).unwrap();
    let mut taken = 3;
    while taken < 512 {
        taken += receive_into_ring(&mut stream, &mut filler, CUT_OFF).unwrap();
    }
    assert_eq!(taken, 512);
    assert_eq!(
        receive_into_ring(&mut stream, &mut filler, CUT_OFF).unwrap(),
        0
    );
    drop(region);
    assert_eq!(
        receive_into_ring(&mut stream, &mut filler, CUT_OFF).unwrap(),
        3
    );
    let made = RegionMemory::for_recording(16, 512, PagesWanted::Ordinary, 4);
    let (_memory, mut filler, _reader) = made.unwrap();
    let other = receive_into_ring(&mut stream, &mut filler, CUT_OFF).unwrap_err();
    assert!(
        matches!(other, RecordingError::RowSizeMismatch { .. }),
        "{other}"
    );
}

#[test]
fn structs_become_channels_and_other_types_are_refused() {
    let layout = |text: &str| stream_layout("g", "v", &parse_type(text).unwrap());
    let made = layout("struct(t: timestamp, volts: f32, on: bool)").unwrap();
    let expected = vec![
        ("t".into(), TdmsType::I64),
        ("volts".into(), TdmsType::F32),
        ("on".into(), TdmsType::Bool),
    ];
    assert_eq!(made.channels, expected);
    assert_eq!(made.timestamps, ["t"]);
    assert_eq!(layout("timestamp").unwrap().timestamps, ["v"]);
    assert_eq!(
        layout("u16").unwrap().channels,
        vec![("v".into(), TdmsType::U16)]
    );
    for text in [
        "string",
        "struct(a: string)",
        "array(f64, *)",
        "struct(a: struct(b: f64))",
    ] {
        assert!(
            matches!(layout(text), Err(RecordingError::Type { .. })),
            "{text}"
        );
    }
}

/// Elements that the tests of full disks write.
const ELEMENTS: i64 = 20_000;

/// A stream of these elements, its reader, and a recording on a disk with little space.
struct OnFullDisk {
    _engine: Engine,
    stream: ValueReader,
    writer: thread::JoinHandle<()>,
    disk: SimDisk,
    ends: (RegionFiller, RegionReader),
    recording: TdmsRecording,
}

fn on_full_disk() -> OnFullDisk {
    let engine = listening();
    let of_reader = options(&engine, None);
    let of_writer = options(&engine, Some("in"));
    let writer = thread::spawn(move || {
        let mut writer = Writer::<i64>::create("out", of_writer).unwrap();
        let all: Vec<i64> = (0..ELEMENTS).collect();
        all.chunks(100)
            .for_each(|some| writer.write_many(some, CUT_OFF).unwrap());
        assert_eq!(writer.close(CUT_OFF).elements, 0);
    });
    let stream = ValueReader::create("in", &DataType::I64, of_reader).unwrap();
    let made = RegionMemory::for_recording(8, 4 * REGION as usize, PagesWanted::Ordinary, 16);
    let (memory, filler, reader) = made.unwrap();
    let disk = SimDisk::new(7, 512);
    disk.set_capacity(64 << 10);
    let options = QueueOptions {
        reserve_bytes: 16 << 10,
        lengthen_bytes: 0,
        header_bytes_max: 4096,
        ..QueueOptions::default()
    };
    let queue = WriteQueue::new(Box::new(disk.clone()), options, vec![memory]);
    let layout = stream_layout("stream", "value", &DataType::I64).unwrap();
    OnFullDisk {
        _engine: engine,
        stream,
        writer,
        disk,
        ends: (filler, reader),
        recording: TdmsRecording::start(queue, &layout, PATIENCE).unwrap(),
    }
}

/// A full disk delays the stream. As soon as there is space, everything is recorded.
///
/// Behaviour: ZC-08.
#[test]
fn a_stream_waits_while_the_disk_is_full() {
    let mut sut = on_full_disk();
    let (_stopper, stopped) = stopper();
    let (filler, reader) = &mut sut.ends;
    let (disk, mut seen) = (sut.disk.clone(), 0);
    let done = record_stream(
        &mut sut.stream,
        (filler, reader),
        &mut sut.recording,
        REGION,
        &stopped,
        |recording| {
            seen += u64::from(recording.progress().free_space.state == FreeSpaceState::Full);
            if seen == 2 {
                disk.set_capacity(1 << 40);
            }
        },
    );
    let done = done.unwrap();
    assert!(done.has_ended && seen >= 2, "{done:?}, full {seen} times");
    assert_eq!(done.elements, ELEMENTS as u64);
    sut.recording.close(PATIENCE).unwrap();
    let file = sut.disk.file();
    let file = TdmsFile::open(&file[..]).unwrap();
    let channel = file
        .channel(&ObjectPath::channel("stream", "value"))
        .unwrap();
    let mut values = vec![0_i64; ELEMENTS as usize];
    assert_eq!(channel.read_into(0, &mut values).unwrap(), values.len());
    assert!(values.into_iter().eq(0..ELEMENTS));
    sut.writer.join().unwrap();
}

/// A recorder that ends while the disk is full reports the number of elements that are in no file.
///
/// Behaviour: ZC-08.
#[test]
fn elements_not_written_at_the_end_on_a_full_disk_are_counted() {
    let mut sut = on_full_disk();
    let (stopper, stopped) = stopper();
    let mut stopper = Some(stopper);
    let (filler, reader) = &mut sut.ends;
    let done = record_stream(
        &mut sut.stream,
        (filler, reader),
        &mut sut.recording,
        REGION,
        &stopped,
        |recording| {
            if recording.progress().free_space.state == FreeSpaceState::Full {
                stopper = None;
            }
        },
    );
    let error = done.unwrap_err();
    let RecordingError::Unwritten { elements, .. } = error else {
        panic!("{error}");
    };
    assert!(error.to_string().contains("free space"), "{error}");
    sut.recording.close(PATIENCE).unwrap();
    assert_eq!(sut.recording.rows_in_file(), sut.recording.rows());
    // The remaining elements are still in the stream.
    let mut rest = 0;
    while let Ok(some) = sut.stream.acquire_bytes(1000, CUT_OFF) {
        rest += some.elements() as u64;
    }
    assert_eq!(sut.recording.rows() + elements + rest, ELEMENTS as u64);
    assert!(elements >= REGION && rest > 0);
    sut.writer.join().unwrap();
}

/// Playback into an unread stream is late, and reports it.
///
/// Behaviour: B-72.
#[test]
fn full_stream_delays_playback() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("even.tdms");
    let all: Vec<i64> = (0..600).collect();
    let mut file = TdmsWriter::new(WriterOptions::default());
    let channel = file.channel("g", "a", TdmsType::I64).unwrap();
    let waveform = Waveform {
        increment: 1e-4,
        ..Waveform::default()
    };
    for (name, value) in waveform.to_properties() {
        let path = ObjectPath::channel("g", "a");
        file.set(&path, name, value).unwrap();
    }
    let mut bytes = Vec::new();
    let data = [(channel, Data::from(&all[..]))];
    file.write(&data, Arrangement::Contiguous, &mut bytes)
        .unwrap();
    std::fs::write(&path, bytes).unwrap();

    let engine = listening();
    let of_reader = Options {
        capacity: 16,
        ..options(&engine, None)
    };
    let (is_late, wait_until_late) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        let mut reader = Reader::<i64>::create("again", of_reader).unwrap();
        wait_until_late.recv().unwrap();
        let pieces = (0..60).flat_map(|_| reader.read_many(10, CUT_OFF).unwrap());
        pieces.collect::<Vec<i64>>()
    });
    let of_writer = Options {
        capacity: 16,
        ..options(&engine, Some("again"))
    };
    let mut writer = ValueWriter::create("player", &DataType::I64, of_writer).unwrap();
    let recording = Recording::open(&path, &Selection::default()).unwrap();
    let pacer = Pacer::new(&recording, Pace::Original, GapMode::AsTime).unwrap();
    let made = RegionMemory::for_playback(8, 4096, PagesWanted::Ordinary, 16);
    let (memory, ring, drain) = made.unwrap();
    let mut drain = PacedDrain::new(drain, pacer);
    let mut playback = TdmsPlayback::new(recording, memory, ring, PlayOptions::default()).unwrap();
    let (_stopper, stopped) = stopper();
    let (mut attempts, mut late_by) = (0, None);
    let done = play_into_stream(&mut playback, &mut drain, &mut writer, &stopped, |done| {
        attempts += 1;
        if late_by.is_none() && (!done.lateness.is_zero() || attempts == 200) {
            late_by = Some(done.lateness);
            is_late.send(()).unwrap();
        }
    });
    let done = done.unwrap();
    assert!(done.is_complete);
    let late_by = late_by.unwrap();
    assert!(late_by > Duration::ZERO, "before anything was read");
    assert!(done.lateness >= late_by, "{done:?}");
    assert_eq!(reader.join().unwrap(), all);
    assert_eq!(writer.close(CUT_OFF).elements, 0);
}
