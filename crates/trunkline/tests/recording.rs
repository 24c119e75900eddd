//! Streams and variables: recorded, and played again.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use trunkline::record::regions::{PagesWanted, RegionMemory};
use trunkline::record::{
    BackendWanted, Directness, Gaps, Pace, PacedDrain, Pacer, PlayOptions, PlayVariablesOptions,
    PlaybackError, QueueOptions, RecordedVariables, Recording, RecordingError, SegmentFile,
    Selection, TdmsPlayback, TdmsRecording, VariableRecorder, VariableRecorderOptions,
    VariableRecording, VariablesPlayed, play_into_stream, play_into_variables, receive_into_ring,
    record_stream, stopper, stream_layout, tdms_queue,
};
use trunkline::stream::{Options, Reader, ValueReader, ValueWriter, Writer};
use trunkline::tdms::{ObjectPath, TdmsFile, TdmsType};
use trunkline::types::text::parse_type;
use trunkline::types::{
    Contract, DataType, LibraryDefinition, Lost, Pattern, Properties, Quality, Reason, Sample,
    Timestamp, Value, VariableDefinition,
};
use trunkline::{Engine, EngineOptions, Event, OpenOptions, SubscribeOptions, Write};

const CUT_OFF: Option<Duration> = Some(Duration::from_secs(60));
const PATIENCE: Duration = Duration::from_secs(60);

fn options(engine: &Engine, peer: Option<&str>) -> Options {
    let socket = engine.local_sockets().remove(0);
    let socket = socket.as_path();
    let port = socket.file_stem().unwrap().to_str().unwrap();
    Options {
        peer: peer.map(str::to_owned),
        timeout: CUT_OFF,
        directory_port: port.parse().unwrap(),
        sockets: Some(socket.parent().unwrap().to_owned()),
        ..Options::default()
    }
}

fn listening() -> Engine {
    let options = EngineOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        ..EngineOptions::default()
    };
    Engine::start(options).unwrap()
}

/// Rows of a region.
const REGION: u64 = 512;

/// Records the stream `in` of a type until it ends, into `path`; how many elements.
fn record(of_reader: Options, data_type: &DataType, path: &Path) -> (u64, bool) {
    let mut stream = ValueReader::create("in", data_type, of_reader).unwrap();
    let bytes = trunkline::stream::element_bytes(data_type).unwrap();
    let rows = 4 * REGION as usize;
    let made = RegionMemory::to_record(bytes, rows, PagesWanted::Ordinary, 16);
    let (memory, mut filler, mut reader) = made.unwrap();
    let (queue, _) = tdms_queue(
        path,
        BackendWanted::BestThereIs,
        Directness::IfPossible,
        QueueOptions::default(),
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

/// What a stream brings is in the file, each element once and in order, and from there in another
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
    // More than the ring, and no whole region.
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
    let refused = Pacer::new(&recording, Pace::Original, Gaps::AsTime).unwrap_err();
    assert!(matches!(refused, PlaybackError::NoRate { .. }), "{refused}");
    let pacer = Pacer::new(&recording, Pace::Full, Gaps::AsTime).unwrap();
    let made = RegionMemory::to_play(8, 4096, PagesWanted::Ordinary, 16);
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

/// A stream that is stopped is not over: what the recorder has taken is in the file, and the rest
/// comes to whoever reads next.
#[test]
fn a_recording_of_a_stream_that_is_stopped_has_what_it_took() {
    let engine = listening();
    let of_reader = options(&engine, None);
    let writer = thread::spawn({
        let of_writer = options(&engine, Some("in"));
        move || Writer::<i64>::create("out", of_writer).unwrap()
    });
    let mut stream = ValueReader::create("in", &DataType::I64, of_reader).unwrap();
    let mut writer = writer.join().unwrap();
    writer.write_many(&[1, 2, 3], CUT_OFF).unwrap();
    let made = RegionMemory::to_record(8, 512, PagesWanted::Ordinary, 4);
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
    let made = RegionMemory::to_record(16, 512, PagesWanted::Ordinary, 4);
    let (_memory, mut filler, _reader) = made.unwrap();
    let other = receive_into_ring(&mut stream, &mut filler, CUT_OFF).unwrap_err();
    assert!(matches!(other, RecordingError::OtherRows { .. }), "{other}");
}

#[test]
fn structs_become_channels_and_what_is_no_row_is_refused() {
    let layout = |text: &str| stream_layout("g", "v", &parse_type(text).unwrap());
    let made = layout("struct(t: timestamp, volts: f32, on: bool)").unwrap();
    let expected = vec![
        ("t".into(), TdmsType::I64),
        ("volts".into(), TdmsType::F32),
        ("on".into(), TdmsType::Bool),
    ];
    assert_eq!(made.channels, expected);
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

fn plant(engine: &Engine) {
    let define = |path: &str, data_type| VariableDefinition {
        path: path.to_owned(),
        properties: Arc::new(Properties::new(data_type)),
    };
    let library = LibraryDefinition {
        name: "rig".to_owned(),
        description: String::new(),
        variables: vec![
            define("level", DataType::F64),
            define("text", DataType::String),
            define("shape", parse_type("array(f64, 3)").unwrap()),
        ],
    };
    engine.deploy(&library).unwrap();
}

/// Values and qualities of a variable, as a subscriber gets them.
fn follow(engine: &Engine, name: &str) -> impl FnMut() -> (Value, Quality) + use<> {
    let client = engine.client().unwrap();
    let all = client
        .subscribe(&[name], Contract::ALL, SubscribeOptions::default())
        .unwrap();
    move || {
        let _ = &client;
        loop {
            match all.next(CUT_OFF).unwrap() {
                Event::Reading { reading, .. } if reading.position.sequence > 0 => {
                    assert!(reading.lost.is_none());
                    return (reading.sample.value, reading.sample.quality);
                }
                _ => {}
            }
        }
    }
}

/// Waits until a recorder has so many updates in its file, or lost them.
fn wait_for(recorder: &VariableRecorder, updates: u64) {
    let (_stopper, stopped) = stopper();
    for _ in 0..6000 {
        let progress = recorder.status().progress;
        if progress.in_file + progress.lost >= updates {
            return;
        }
        assert!(!stopped.within(Duration::from_millis(10)));
    }
    panic!("{:?}", recorder.status());
}

/// Behaviour: B-72.
#[test]
fn every_update_of_variables_is_recorded_and_played_into_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = Engine::start(EngineOptions::default()).unwrap();
    plant(&engine);
    let client = engine.client().unwrap();
    let write_every = Duration::from_millis(20);
    let of_recorder = VariableRecorderOptions {
        write_every,
        ..VariableRecorderOptions::default()
    };
    let patterns = [Pattern::parse("rig/**").unwrap()];
    let recorder = VariableRecorder::start(&client, &patterns, &[], &path, of_recorder).unwrap();
    let again = VariableRecorder::start(&client, &patterns, &[], &path, of_recorder);
    assert!(
        matches!(again, Err(RecordingError::File(_))),
        "nothing is written over"
    );
    let names = ["rig/level", "rig/text"];
    let opened = client
        .open(&names, OpenOptions::default(), PATIENCE)
        .unwrap();
    let [level, text] = [0, 1].map(|at: usize| opened[at].as_ref().unwrap().variable);
    // The first update of each, so that the recorder is known to follow both.
    let bad = Quality::bad(Reason::None);
    let mut first = [
        Write::new(level, Value::F64(-1.0)),
        Write::new(text, Value::String("first".into())),
    ];
    first[0].options.quality = Some(bad);
    client.write(first, PATIENCE).unwrap();
    wait_for(&recorder, 2);
    for turn in 0..500 {
        let mut writes = vec![Write::new(level, Value::F64(f64::from(turn)))];
        if turn % 10 == 0 {
            writes.push(Write::new(text, Value::String(turn.to_string().into())));
        }
        client.write(writes, PATIENCE).unwrap();
    }
    wait_for(&recorder, 552);
    let status = recorder.stop();
    assert_eq!((status.trouble, status.progress.lost), (None, 0));
    assert_eq!(status.progress.updates, 552);
    assert_eq!(status.progress.on_disk, 552);
    assert_eq!(status.refused_count, 1, "{:?}", status.refused);
    assert_eq!(status.refused[0].0, "rig/shape");

    let other = Engine::start(EngineOptions::default()).unwrap();
    plant(&other);
    let mut levels = follow(&other, "rig/level");
    let mut texts = follow(&other, "rig/text");
    let client = other.client().unwrap();
    let mut recorded = RecordedVariables::open(&path).unwrap();
    let of_player = PlayVariablesOptions {
        pace: Pace::Full,
        keeps_times: true,
        ..PlayVariablesOptions::default()
    };
    let (_stopper, stopped) = stopper();
    let same = |name: &str| Some(name.to_owned());
    let done = play_into_variables(&client, &mut recorded, same, of_player, &stopped, |_| ());
    let done = done.unwrap();
    assert!(done.is_complete);
    assert_eq!(
        (done.updates, done.applied, done.failed, done.late),
        (552, 552, 0, 0)
    );
    let (value, quality) = levels();
    assert_eq!((value, quality.level()), (Value::F64(-1.0), bad.level()));
    for turn in 0..500 {
        assert_eq!(levels().0, Value::F64(f64::from(turn)));
    }
    assert_eq!(texts().0, Value::String("first".into()));
    for turn in 0..50 {
        assert_eq!(texts().0, Value::String((10 * turn).to_string().into()));
    }

    // Into another variable, and without one of them.
    let mut recorded = RecordedVariables::open(&path).unwrap();
    let into_text = |name: &str| (name == "rig/text").then(|| name.to_owned());
    let done = play_into_variables(
        &client,
        &mut recorded,
        into_text,
        of_player,
        &stopped,
        |_| (),
    );
    let done = done.unwrap();
    assert_eq!((done.updates, done.left_out), (51, 501));
    let mut recorded = RecordedVariables::open(&path).unwrap();
    let swapped = |name: &str| (name == "rig/text").then(|| "rig/level".to_owned());
    let done = play_into_variables(&client, &mut recorded, swapped, of_player, &stopped, |_| ());
    assert!(
        matches!(done, Err(RecordingError::NothingToPlay { .. })),
        "{done:?}"
    );
}

/// Behaviour: B-72.
#[test]
fn playing_at_the_original_speed_waits_for_what_is_not_due_and_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut recording = VariableRecording::new(SegmentFile::create(&path).unwrap(), 1 << 20);
    let level = recording.add("rig/level", &DataType::F64).unwrap();
    for (number, seconds) in [0, 0, 86_400].into_iter().enumerate() {
        let time = Timestamp::from_nanos(1_700_000_000_000_000_000 + seconds * 1_000_000_000);
        let sample = Sample {
            value: Value::F64(number as f64),
            source_timestamp: time,
            engine_timestamp: time,
            quality: Quality::GOOD,
        };
        recording.take(level, &sample, &Lost::NONE).unwrap();
    }
    recording.sync().unwrap();
    let engine = Engine::start(EngineOptions::default()).unwrap();
    plant(&engine);
    let client = engine.client().unwrap();
    let play = |pace, stop_at: u64| {
        let mut recorded = RecordedVariables::open(&path).unwrap();
        let options = PlayVariablesOptions {
            pace,
            ..PlayVariablesOptions::default()
        };
        let (stopper, stopped) = stopper();
        let mut stopper = Some(stopper);
        let same = |name: &str| Some(name.to_owned());
        let on_updates = |done: &VariablesPlayed| {
            if done.updates >= stop_at {
                stopper = None;
            }
        };
        play_into_variables(&client, &mut recorded, same, options, &stopped, on_updates).unwrap()
    };
    // The third is due tomorrow.
    let done = play(Pace::Original, 2);
    assert_eq!((done.updates, done.is_complete), (2, false));
    let done = play(Pace::Scaled(1e9), 10);
    assert_eq!((done.updates, done.is_complete), (3, true));
    assert_eq!(
        engine
            .variable::<f64>("rig/level")
            .unwrap()
            .read()
            .unwrap()
            .value,
        2.0
    );
}

/// What a recorder lost, because nothing more may wait for it, is a gap of the recording and
/// counted.
///
/// Behaviour: B-72.
#[test]
fn a_recorder_that_is_too_slow_says_what_it_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = Engine::start(EngineOptions::default()).unwrap();
    plant(&engine);
    let of_recorder = VariableRecorderOptions {
        contract: Contract::Last(2),
        write_every: Duration::from_millis(5),
        ..VariableRecorderOptions::default()
    };
    let client = engine.client().unwrap();
    let patterns = [Pattern::parse("rig/level").unwrap()];
    let recorder = VariableRecorder::start(&client, &patterns, &[], &path, of_recorder).unwrap();
    let level = engine.variable::<f64>("rig/level").unwrap();
    level.write(0.0).unwrap();
    wait_for(&recorder, 1);
    // Faster than anybody follows.
    for number in 1..=100_000 {
        level.write(f64::from(number)).unwrap();
    }
    wait_for(&recorder, 100_001);
    let progress = recorder.stop().progress;
    assert!(progress.lost > 0, "{progress:?}");
    assert_eq!(progress.updates + progress.lost, 100_001);
    let file = TdmsFile::open(std::fs::File::open(&path).unwrap()).unwrap();
    let properties = file.properties(&ObjectPath::group("rig/level")).unwrap();
    let gaps = (1..).map_while(|gap| {
        properties
            .get(format!("gap_{gap}_lost").as_bytes())?
            .as_u64()
    });
    assert_eq!(gaps.sum::<u64>(), progress.lost);
}
