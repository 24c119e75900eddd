//! Streams of elements that vary in size or have parts: recorded, and played again.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use trunkline::Engine;
use trunkline::record::{
    ElementSeries, FreeSpaceState, Pace, RecordElementsOptions, RecordedVariables, RecordingError,
    SegmentFile, Segments, StreamPlayed, StreamRecorded, VariableRecordError, VariableRecording,
    play_elements_into_stream, record_elements, stopper,
};
use trunkline::stream::{Options, Reader, ValueReader, ValueWriter, Writer};
use trunkline::types::text::parse_type;
use trunkline::types::{
    Array, DataType, Elements, Lost, Quality, Reason, Sample, Timestamp, Value, Waveform,
};

use crate::rig::{CUT_OFF, listening, options};

const MEMORY: usize = 1 << 16;

fn waveform(number: u32) -> Value {
    Value::Waveform(Arc::new(Waveform {
        t0: Timestamp::from_nanos(1_700_000_000_000_000_001 + i64::from(number)),
        dt: 0.25,
        samples: Elements::I16((0..number as i16 % 5).collect()),
        attributes: [(Arc::from("unit"), Value::String("V".into()))].into(),
    }))
}

/// Element with this number, which has another size than the previous element.
fn element(data_type: &DataType, number: u32) -> Value {
    let text = || Value::String("é".repeat(number as usize % 7).into());
    match data_type {
        DataType::String => text(),
        DataType::Bytes => Value::Bytes(vec![number as u8; number as usize % 3].into()),
        DataType::Array(of) => {
            let rows = number % 4;
            let count = rows * of.shape.get(1).map_or(1, |_| 2);
            let elements = Elements::F64((0..count).map(f64::from).collect());
            let shape = match of.shape.len() {
                1 => vec![count],
                _ => vec![rows, 2],
            };
            Value::Array(Arc::new(Array::new(shape, elements).unwrap()))
        }
        DataType::Waveform(_) => waveform(number),
        DataType::Struct(of) => {
            let fields = of.fields.iter();
            Value::Struct(fields.map(|(_, field)| element(field, number)).collect())
        }
        _ => Value::U32(number),
    }
}

/// Records the stream `in` until it ends.
fn record(of_reader: Options, data_type: &DataType, path: &Path) -> StreamRecorded {
    let mut stream = ValueReader::create("in", data_type, of_reader).unwrap();
    let open = |_| SegmentFile::create(path);
    let of = ("stream", data_type);
    let recording = ElementSeries::start(open, None, MEMORY, of, Duration::ZERO);
    let (_stopper, stopped) = stopper();
    let options = RecordElementsOptions::default();
    record_elements(
        &mut stream,
        &mut recording.unwrap(),
        options,
        &stopped,
        |_| (),
    )
    .unwrap()
}

/// Plays a recording into the stream `again`.
fn play(of_writer: Options, recorded: &mut RecordedVariables, pace: Pace) -> StreamPlayed {
    let data_type = recorded.variables()[0].data_type.clone();
    let mut stream = ValueWriter::create("player", &data_type, of_writer).unwrap();
    let (_stopper, stopped) = stopper();
    let done = play_elements_into_stream(recorded, 0, pace, &mut stream, &stopped, |_| ());
    assert_eq!(stream.close(CUT_OFF).elements, 0);
    done.unwrap()
}

fn comes_back(text: &str) {
    const COUNT: u32 = 3_000;
    let data_type = parse_type(text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream.tdms");
    let engine = listening();
    let recorder = thread::spawn({
        let (path, data_type) = (path.clone(), data_type.clone());
        let of_reader = options(&engine, None);
        move || record(of_reader, &data_type, &path)
    });
    let of_writer = options(&engine, Some("in"));
    let mut writer = ValueWriter::create("out", &data_type, of_writer).unwrap();
    let all: Vec<_> = (0..COUNT)
        .map(|number| element(&data_type, number))
        .collect();
    all.chunks(100)
        .for_each(|some| writer.write_many(some, CUT_OFF).unwrap());
    assert_eq!(writer.close(CUT_OFF).elements, 0);
    let recorded = recorder.join().unwrap();
    assert_eq!(
        (recorded.elements, recorded.has_ended),
        (u64::from(COUNT), true)
    );

    let reader = thread::spawn({
        let (of_reader, data_type) = (options(&engine, None), data_type.clone());
        move || {
            let mut reader = ValueReader::create("again", &data_type, of_reader).unwrap();
            let mut read = Vec::new();
            while let Ok(some) = reader.read_up_to(1000, CUT_OFF) {
                read.extend(some);
            }
            read
        }
    });
    let mut recorded = RecordedVariables::open_series(&path).unwrap();
    let of_writer = options(&engine, Some("again"));
    let done = play(of_writer, &mut recorded, Pace::Full);
    assert_eq!((done.rows, done.is_complete), (u64::from(COUNT), true));
    assert!(reader.join().unwrap() == all, "{text}");
}

/// Behaviour: B-72, ZC-26.
#[test]
fn text_is_recorded_and_played_into_another_stream() {
    comes_back("string");
}

/// Behaviour: B-72, ZC-26.
#[test]
fn bytes_are_recorded_and_played_into_another_stream() {
    comes_back("bytes");
}

/// Behaviour: B-72, ZC-26.
#[test]
fn arrays_are_recorded_and_played_into_another_stream() {
    comes_back("array(f64, *)");
    comes_back("array(f64, *, 2)");
}

/// Behaviour: B-72, ZC-26.
#[test]
fn waveforms_are_recorded_and_played_into_another_stream() {
    comes_back("waveform(i16)");
}

/// Behaviour: B-72, ZC-26.
#[test]
fn structs_are_recorded_and_played_into_another_stream() {
    comes_back("struct(number: u32, name: string, raw: struct(data: bytes, axes: array(f64, *)))");
    // This type has a fixed size, but is not a row of scalar values.
    comes_back("struct(number: u32, inner: struct(number: u32))");
}

/// A file on a disk that is full until the test frees space.
struct Disk<'a> {
    is_full: &'a Cell<bool>,
    file: SegmentFile,
}

impl Segments for Disk<'_> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.is_full.get() {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.file.append(bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Text that the tests of full disks write: more than the recording and the stream's buffers hold.
const ELEMENTS: u64 = 6_000;

fn text(number: u64) -> String {
    format!("{number} {}", "x".repeat(200))
}

/// Records a stream of text on a disk that is full at first. `on_full` is called repeatedly while
/// it is full, and returns true if the recorder is to be stopped.
fn on_full_disk(
    path: &Path,
    mut on_full: impl FnMut(&Cell<bool>, u64) -> bool,
) -> Result<StreamRecorded, RecordingError> {
    let engine = listening();
    let of_reader = Options {
        bytes_max: 1 << 16,
        ..options(&engine, None)
    };
    let of_writer = Options {
        bytes_max: 1 << 16,
        ..options(&engine, Some("in"))
    };
    let writer = thread::spawn(move || {
        let mut writer = Writer::<String>::create("out", of_writer).unwrap();
        // If the recorder is stopped, it ends before everything is written.
        let mut numbers = 0..ELEMENTS;
        while let Some(number) = numbers.next()
            && writer.write(&text(number), CUT_OFF).is_ok()
        {}
        writer.close(CUT_OFF);
    });
    let mut stream = ValueReader::create("in", &DataType::String, of_reader).unwrap();
    let is_full = Cell::new(true);
    let open = |_| {
        let file = SegmentFile::create(path)?;
        Ok(Disk {
            is_full: &is_full,
            file,
        })
    };
    let of = ("stream", &DataType::String);
    let mut recording = ElementSeries::start(open, None, MEMORY, of, Duration::ZERO).unwrap();
    let (stopper, stopped) = stopper();
    let mut stopper = Some(stopper);
    let options = RecordElementsOptions::default();
    let done = record_elements(
        &mut stream,
        &mut recording,
        options,
        &stopped,
        |recording| {
            if recording.free_space().state == FreeSpaceState::Full
                && on_full(&is_full, recording.progress().updates)
            {
                stopper = None;
            }
        },
    );
    if let Err(RecordingError::Unwritten { elements, .. }) = &done {
        let progress = recording.progress();
        assert_eq!(progress.in_file + elements, progress.updates);
        assert_eq!(progress.lost, *elements);
    }
    drop(stream);
    writer.join().unwrap();
    done
}

fn texts(path: &Path) -> Vec<Value> {
    let mut recorded = RecordedVariables::open(path).unwrap();
    let values = std::iter::from_fn(|| recorded.next_update().unwrap());
    values.map(|one| one.value).collect()
}

/// A full disk delays the stream. As soon as there is space, everything is recorded.
///
/// Behaviour: ZC-08.
#[test]
fn a_stream_of_text_waits_while_the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let (mut taken, mut turns) = (0, 0);
    let done = on_full_disk(&path, |is_full, updates| {
        // The recorder takes no more elements, because the stream waits.
        turns = if updates == taken { turns + 1 } else { 0 };
        taken = updates;
        is_full.set(turns < 3);
        false
    });
    let done = done.unwrap();
    assert_eq!((done.elements, done.has_ended), (ELEMENTS, true));
    assert!(turns == 3 && taken < ELEMENTS, "{taken} were taken");
    let expected = (0..ELEMENTS).map(|number| Value::String(text(number).into()));
    assert!(texts(&path).into_iter().eq(expected));
}

/// A recorder that is stopped while the disk is full reports the number of elements that are in no
/// file.
///
/// Behaviour: ZC-08.
#[test]
fn text_not_written_at_the_end_on_a_full_disk_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut taken = 0;
    let done = on_full_disk(&path, |_, updates| {
        taken = updates;
        true
    });
    let error = done.unwrap_err();
    let RecordingError::Unwritten { elements, .. } = error else {
        panic!("{error}");
    };
    assert!(elements >= taken && taken > 0, "{elements}, {taken} taken");
    assert!(!error.to_string().contains("tried again"), "{error}");
}

/// Each element is due at its recorded time after the first, or at the time given by a sample rate.
///
/// Behaviour: B-72.
#[test]
fn elements_are_played_at_the_rate_at_which_they_were_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = listening();
    let writer = thread::spawn({
        let of_writer = options(&engine, Some("in"));
        move || {
            let mut writer = Writer::<String>::create("out", of_writer).unwrap();
            let all: Vec<String> = (0..5).map(text).collect();
            writer.write_many(&all, CUT_OFF).unwrap();
            writer.close(CUT_OFF);
        }
    });
    let of = DataType::String;
    let mut stream = ValueReader::create("in", &of, options(&engine, None)).unwrap();
    let open = |_| SegmentFile::create(&path);
    let recording = ElementSeries::start(open, None, MEMORY, ("stream", &of), Duration::ZERO);
    let (_stopper, stopped) = stopper();
    let rated = RecordElementsOptions {
        sample_rate: Some(0.25),
        ..RecordElementsOptions::default()
    };
    record_elements(
        &mut stream,
        &mut recording.unwrap(),
        rated,
        &stopped,
        |_| (),
    )
    .unwrap();
    writer.join().unwrap();
    let mut recorded = RecordedVariables::open(&path).unwrap();
    let due = std::iter::from_fn(|| recorded.next_update().unwrap()).map(|one| one.after);
    assert!(due.eq((0..5).map(|number| Duration::from_secs(4 * number))));

    // The second element is due after playing was stopped.
    let (first, has_come) = channel();
    let reader = thread::spawn({
        let of_reader = options(&engine, None);
        move || {
            let mut reader = Reader::<String>::create("again", of_reader).unwrap();
            let one = reader.read(CUT_OFF).unwrap();
            first.send(()).unwrap();
            (one, reader.read(CUT_OFF).is_err())
        }
    });
    let mut stream = ValueWriter::create("player", &of, options(&engine, Some("again"))).unwrap();
    let (stopper, stopped) = stopper();
    let mut stopper = Some(stopper);
    let mut recorded = RecordedVariables::open(&path).unwrap();
    let pace = Pace::Scaled(1e-6);
    let done = play_elements_into_stream(&mut recorded, 0, pace, &mut stream, &stopped, |_| {
        if has_come.try_recv().is_ok() {
            stopper = None;
        }
    });
    let done = done.unwrap();
    assert_eq!((done.rows, done.is_complete), (1, false));
    stream.close(CUT_OFF);
    assert_eq!(reader.join().unwrap(), (text(0), true));
}

/// A file whose disk loses accepted data.
struct Unsafe(SegmentFile);

impl Segments for Unsafe {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(5))
    }
}

/// A recording that cannot be synced has failed, even if its file contains everything.
///
/// Behaviour: B-70.
#[test]
fn failed_sync_of_a_text_recording_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = listening();
    let writer = thread::spawn({
        let of_writer = options(&engine, Some("in"));
        move || {
            let mut writer = Writer::<String>::create("out", of_writer).unwrap();
            writer.write_many(&[text(0), text(1)], CUT_OFF).unwrap();
            writer.close(CUT_OFF);
        }
    });
    let of = DataType::String;
    let mut stream = ValueReader::create("in", &of, options(&engine, None)).unwrap();
    let open = |_| SegmentFile::create(&path).map(Unsafe);
    let recording = ElementSeries::start(open, None, MEMORY, ("stream", &of), Duration::ZERO);
    let (_stopper, stopped) = stopper();
    let options = RecordElementsOptions::default();
    let mut recording = recording.unwrap();
    let done = record_elements(&mut stream, &mut recording, options, &stopped, |_| ());
    let error = done.unwrap_err();
    assert!(matches!(error, RecordingError::Variables(_)), "{error}");
    assert!(error.to_string().contains("syncing failed"), "{error}");
    let progress = recording.progress();
    assert_eq!(
        (progress.in_file, progress.on_disk, progress.lost),
        (2, 0, 0)
    );
    assert_eq!(texts(&path).len(), 2);
    writer.join().unwrap();
}

/// Writes two elements, and ends the stream with an error when it receives a message.
fn breaks_off(engine: &Engine) -> (Sender<()>, JoinHandle<()>) {
    let (breaks, may_break) = channel();
    let of_writer = options(engine, Some("in"));
    let writer = thread::spawn(move || {
        let mut writer = Writer::<String>::create("out", of_writer).unwrap();
        writer.write_many(&[text(0), text(1)], CUT_OFF).unwrap();
        may_break.recv().unwrap();
        writer.abort_because("the camera is unplugged");
    });
    (breaks, writer)
}

/// A stream that fails ends the recording. If the disk fails as well, both errors are reported.
///
/// Behaviour: B-70.
#[test]
fn failed_sync_after_a_broken_stream_is_reported_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = listening();
    let (taken, writer) = breaks_off(&engine);
    let of = DataType::String;
    let mut stream = ValueReader::create("in", &of, options(&engine, None)).unwrap();
    let open = |_| SegmentFile::create(&path).map(Unsafe);
    let recording = ElementSeries::start(open, None, MEMORY, ("stream", &of), Duration::ZERO);
    let (_stopper, stopped) = stopper();
    let options = RecordElementsOptions::default();
    let mut recording = recording.unwrap();
    let done = record_elements(
        &mut stream,
        &mut recording,
        options,
        &stopped,
        |recording| {
            if recording.progress().updates == 2 {
                // The callback runs more than once, and for the last time after the writer has
                // ended.
                let _ = taken.send(());
            }
        },
    );
    let error = done.unwrap_err();
    let text = error.to_string();
    let (sync, broken) = (text.find("syncing failed"), text.find("unplugged"));
    assert!(sync.is_some() && sync < broken, "{text}");
    let RecordingError::Both { first, second } = error else {
        panic!("{error}");
    };
    let is_sync = |error: &VariableRecordError| matches!(error, VariableRecordError::Sync { .. });
    assert!(
        matches!(&*first, RecordingError::Variables(error) if is_sync(error)),
        "{first}"
    );
    assert!(matches!(*second, RecordingError::Stream(_)), "{second}");
    writer.join().unwrap();
}

/// The only file is removed while the stream breaks off: its content is lost.
///
/// Behaviour: B-70.
#[test]
fn file_removed_before_the_stream_breaks_is_reported_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = listening();
    let (removed, writer) = breaks_off(&engine);
    let of = DataType::String;
    let mut stream = ValueReader::create("in", &of, options(&engine, None)).unwrap();
    let open = |_| SegmentFile::create(&path);
    let recording = ElementSeries::start(open, None, MEMORY, ("stream", &of), Duration::ZERO);
    let (_stopper, stopped) = stopper();
    // The name of the file is checked only at the end.
    let options = RecordElementsOptions {
        write_every: Duration::MAX,
        sync_every: Duration::MAX,
        ..RecordElementsOptions::default()
    };
    let mut recording = recording.unwrap();
    let done = record_elements(
        &mut stream,
        &mut recording,
        options,
        &stopped,
        |recording| {
            if recording.progress().updates == 2 && std::fs::remove_file(&path).is_ok() {
                removed.send(()).unwrap();
            }
        },
    );
    let text = done.unwrap_err().to_string();
    let (lost, broken) = (text.find("is lost"), text.find("unplugged"));
    assert!(lost.is_some() && lost < broken, "{text}");
    writer.join().unwrap();
}

/// An invalid sample rate is refused before an element is taken.
#[test]
fn invalid_sample_rate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = listening();
    let writer = thread::spawn({
        let of_writer = options(&engine, Some("in"));
        move || {
            let mut writer = Writer::<String>::create("out", of_writer).unwrap();
            writer.write(&text(0), CUT_OFF).unwrap();
            writer.close(CUT_OFF);
        }
    });
    let of = DataType::String;
    let mut stream = ValueReader::create("in", &of, options(&engine, None)).unwrap();
    let open = |_| SegmentFile::create(&path);
    let recording = ElementSeries::start(open, None, MEMORY, ("stream", &of), Duration::ZERO);
    let mut recording = recording.unwrap();
    let (_stopper, stopped) = stopper();
    let mut record = |sample_rate| {
        let options = RecordElementsOptions {
            sample_rate,
            ..RecordElementsOptions::default()
        };
        record_elements(&mut stream, &mut recording, options, &stopped, |_| ())
    };
    for rate in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let refused = record(Some(rate)).unwrap_err();
        assert!(
            matches!(refused, RecordingError::SampleRate { .. }),
            "{rate}: {refused}"
        );
    }
    assert_eq!(record(Some(1.0)).unwrap().elements, 1);
    writer.join().unwrap();
}

/// Properties that a stream cannot carry are counted: qualities, and gaps in the recording.
///
/// Behaviour: B-72.
#[test]
fn bad_updates_and_gaps_are_counted_when_played_into_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut file = VariableRecording::new(SegmentFile::create(&path).unwrap(), MEMORY);
    let [other, id] = ["a", "b"].map(|name| file.add(name, &DataType::I32).unwrap());
    let qualities = [
        Quality::GOOD,
        Quality::bad(Reason::SensorFailure),
        Quality::uncertain(Reason::OutOfRange),
        Quality::GOOD,
    ];
    for (number, quality) in (0..).zip(qualities) {
        let time = Timestamp::from_nanos(number.into());
        let sample = Sample {
            value: Value::I32(number),
            source_timestamp: time,
            engine_timestamp: time,
            quality,
        };
        // Losses of another variable do not count for this one.
        file.record_loss(other, Some(100)).unwrap();
        file.take(other, &sample, &Lost::NONE).unwrap();
        match number {
            1 => file.record_loss(id, Some(3)).unwrap(),
            2 => file.record_loss(id, None).unwrap(),
            3 => file.record_loss(id, Some(4)).unwrap(),
            _ => {}
        }
        file.take(id, &sample, &Lost::NONE).unwrap();
    }
    file.finish().unwrap();
    let engine = listening();
    let reader = thread::spawn({
        let of_reader = options(&engine, None);
        move || {
            let mut reader = Reader::<i32>::create("again", of_reader).unwrap();
            reader.read_many(4, CUT_OFF).unwrap().to_vec()
        }
    });
    let of_writer = options(&engine, Some("again"));
    let mut stream = ValueWriter::create("player", &DataType::I32, of_writer).unwrap();
    let (_stopper, stopped) = stopper();
    let mut recorded = RecordedVariables::open_series(&path).unwrap();
    let pace = Pace::Full;
    let done = play_elements_into_stream(&mut recorded, 1, pace, &mut stream, &stopped, |_| ());
    stream.close(CUT_OFF);
    assert_eq!(reader.join().unwrap(), [0, 1, 2, 3]);
    let done = done.unwrap();
    assert_eq!((done.rows, done.not_good, done.is_complete), (4, 2, true));
    assert_eq!((done.gaps, done.lost, done.unknown_gaps), (3, 7, 1));
}

#[test]
fn a_stream_of_another_type_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let open = |_| SegmentFile::create(&path);
    let of = ("stream", &DataType::Bytes);
    let mut recording = ElementSeries::start(open, None, MEMORY, of, Duration::ZERO).unwrap();
    recording.finish(Duration::ZERO).unwrap();
    let engine = listening();
    let reader = thread::spawn({
        let of_reader = options(&engine, None);
        move || Reader::<String>::create("again", of_reader).map(|_| ())
    });
    let of_writer = options(&engine, Some("again"));
    let mut stream = ValueWriter::create("player", &DataType::String, of_writer).unwrap();
    let mut recorded = RecordedVariables::open(&path).unwrap();
    let (_stopper, stopped) = stopper();
    let refused =
        play_elements_into_stream(&mut recorded, 0, Pace::Full, &mut stream, &stopped, |_| ());
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, RecordingError::OtherElements { .. }),
        "{refused}"
    );
    let sentence = refused.to_string();
    assert!(
        sentence.contains("bytes") && sentence.contains("string"),
        "{sentence}"
    );
    reader.join().unwrap().unwrap();
}
