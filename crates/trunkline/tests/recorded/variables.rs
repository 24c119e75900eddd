//! Recording variables and playing them back.

use std::sync::Arc;
use std::time::Duration;

use trunkline::record::{
    MissingPart, Pace, PlayVariablesOptions, RecordedVariables, RecordingError, Rotation,
    SegmentFile, VariableRecorder, VariableRecorderOptions, VariableRecording, VariablesPlayed,
    play_into_variables, series_file, stopper,
};
use trunkline::tdms::{ObjectPath, TdmsFile};
use trunkline::types::text::parse_type;
use trunkline::types::{
    Array, Contract, DataType, Elements, LibraryDefinition, Lost, Pattern, Properties, Quality,
    Reason, Sample, Timestamp, Value, VariableDefinition,
};
use trunkline::{Engine, EngineOptions, Event, OpenOptions, SubscribeOptions, Write};

use crate::rig::{CUT_OFF, PATIENCE, wait_for};

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

/// Subscribes to a variable that was not written yet, and returns a function that waits for its
/// next value and quality. The first reading has arrived when this returns.
fn follow(engine: &Engine, name: &str) -> impl FnMut() -> (Value, Quality) + use<> {
    let client = engine.client().unwrap();
    let all = client
        .subscribe(&[name], Contract::ALL, SubscribeOptions::default())
        .unwrap();
    let next = move || {
        let _ = &client;
        loop {
            if let Event::Reading { reading, .. } = all.next(CUT_OFF).unwrap() {
                assert!(reading.lost.nothing_lost());
                return reading;
            }
        }
    };
    assert_eq!(next().position.sequence, 0);
    move || {
        let reading = next();
        (reading.sample.value, reading.sample.quality)
    }
}

/// Behaviour: B-72.
#[test]
fn every_update_is_recorded_and_played_into_other_variables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = Engine::start(EngineOptions::default()).unwrap();
    plant(&engine);
    let client = engine.client().unwrap();
    let write_every = Duration::from_millis(20);
    let recorder_options = VariableRecorderOptions {
        write_every,
        ..VariableRecorderOptions::default()
    };
    let patterns = [Pattern::parse("rig/**").unwrap()];
    let recorder =
        VariableRecorder::start(&client, &patterns, &[], &path, recorder_options).unwrap();
    let again = VariableRecorder::start(&client, &patterns, &[], &path, recorder_options);
    assert!(
        matches!(again, Err(RecordingError::File(_))),
        "an existing file is not overwritten"
    );
    let names = ["rig/level", "rig/text", "rig/shape"];
    let opened = client
        .open(&names, OpenOptions::default(), PATIENCE)
        .unwrap();
    let [level, text, shape] = [0, 1, 2].map(|at: usize| opened[at].as_ref().unwrap().variable);
    let shapes = |turn: i32| {
        let elements = (0..3).map(|axis| f64::from(turn * 3 + axis)).collect();
        Value::Array(Arc::new(Array::vector(Elements::F64(elements))))
    };
    // One update of each variable shows that the recorder follows all of them.
    let bad = Quality::bad(Reason::None);
    let mut first = [
        Write::new(level, Value::F64(-1.0)),
        Write::new(text, Value::String("first".into())),
        Write::new(shape, shapes(-1)),
    ];
    first[0].options.quality = Some(bad);
    client.write(first, PATIENCE).unwrap();
    wait_for(&recorder, 3);
    for turn in 0..500 {
        let mut writes = vec![Write::new(level, Value::F64(f64::from(turn)))];
        if turn % 10 == 0 {
            writes.push(Write::new(text, Value::String(turn.to_string().into())));
            writes.push(Write::new(shape, shapes(turn)));
        }
        client.write(writes, PATIENCE).unwrap();
    }
    wait_for(&recorder, 603);
    let status = recorder.stop();
    assert_eq!((status.error, status.progress.lost), (None, 0));
    assert_eq!(status.progress.updates, 603);
    assert_eq!(status.progress.on_disk, 603);
    assert_eq!(status.refused_count, 0, "{:?}", status.refused);

    let other = Engine::start(EngineOptions::default()).unwrap();
    plant(&other);
    let mut levels = follow(&other, "rig/level");
    let mut texts = follow(&other, "rig/text");
    let mut played_shapes = follow(&other, "rig/shape");
    let client = other.client().unwrap();
    let mut recorded = RecordedVariables::open(&path).unwrap();
    let player_options = PlayVariablesOptions {
        pace: Pace::Full,
        keep_timestamps: true,
        ..PlayVariablesOptions::default()
    };
    let (_stopper, stopped) = stopper();
    let same = |name: &str| Some(name.to_owned());
    let done = play_into_variables(
        &client,
        &mut recorded,
        same,
        player_options,
        &stopped,
        |_| (),
    );
    let done = done.unwrap();
    assert!(done.is_complete);
    assert_eq!(
        (done.updates, done.applied, done.failed, done.late),
        (603, 603, 0, 0)
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
    for turn in [-1].into_iter().chain((0..500).step_by(10)) {
        assert_eq!(played_shapes().0, shapes(turn));
    }

    // Only one of the variables, then a variable of another type.
    let mut recorded = RecordedVariables::open(&path).unwrap();
    let into_text = |name: &str| (name == "rig/text").then(|| name.to_owned());
    let done = play_into_variables(
        &client,
        &mut recorded,
        into_text,
        player_options,
        &stopped,
        |_| (),
    );
    let done = done.unwrap();
    assert_eq!((done.updates, done.omitted), (51, 552));
    let mut recorded = RecordedVariables::open(&path).unwrap();
    let swapped = |name: &str| (name == "rig/text").then(|| "rig/level".to_owned());
    let done = play_into_variables(
        &client,
        &mut recorded,
        swapped,
        player_options,
        &stopped,
        |_| (),
    );
    assert!(
        matches!(done, Err(RecordingError::NothingToPlay { .. })),
        "{done:?}"
    );
}

/// Behaviour: B-72.
#[test]
fn every_update_is_recorded_once_the_recorder_reports_that_it_follows() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::start(EngineOptions::default()).unwrap();
    // Many, so that the recorder needs a while to follow all of them.
    let names = (0..500).map(|number| format!("of_many/{number}"));
    let library = LibraryDefinition {
        name: "rig".to_owned(),
        description: String::new(),
        variables: names
            .map(|name| VariableDefinition::new(&name, DataType::F64))
            .collect(),
    };
    engine.deploy(&library).unwrap();
    let last = engine.variable::<f64>("rig/of_many/499").unwrap();
    let client = engine.client().unwrap();
    let patterns = [Pattern::parse("rig/**").unwrap()];
    let (_stopper, stopped) = stopper();
    for round in 0..50 {
        last.write(0.0).unwrap();
        let path = folder.path().join(format!("{round}.tdms"));
        let recorder_options = VariableRecorderOptions::default();
        let recorder =
            VariableRecorder::start(&client, &patterns, &[], &path, recorder_options).unwrap();
        let turns = (0..60_000).take_while(|_| !recorder.status().is_following);
        turns.for_each(|_| assert!(!stopped.wait_for(Duration::from_millis(1))));
        assert!(recorder.status().is_following);
        for value in [1.0, 2.0, 3.0] {
            last.write(value).unwrap();
        }
        let progress = recorder.stop().progress;
        // The initial value and the three writes.
        assert_eq!((progress.updates, progress.lost), (4, 0), "round {round}");
    }
}

/// Behaviour: B-70, B-72.
#[test]
fn series_is_played_with_each_update_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = Engine::start(EngineOptions::default()).unwrap();
    plant(&engine);
    let level = engine.variable::<f64>("rig/level").unwrap();
    let text = engine.variable::<String>("rig/text").unwrap();
    text.write("there before".to_owned()).unwrap();
    let recorder_options = VariableRecorderOptions {
        write_every: Duration::from_millis(5),
        rotation: Some(Rotation {
            bytes_max: 2_000,
            ..Rotation::default()
        }),
        ..VariableRecorderOptions::default()
    };
    let client = engine.client().unwrap();
    let patterns = [Pattern::parse("rig/**").unwrap()];
    let recorder =
        VariableRecorder::start(&client, &patterns, &[], &path, recorder_options).unwrap();
    wait_for(&recorder, 1);
    for turn in 0..50 {
        for number in 0..10 {
            level.write(f64::from(10 * turn + number)).unwrap();
        }
        // Puts the next updates into a new segment.
        wait_for(&recorder, 1 + 10 * (turn as u64 + 1));
    }
    let status = recorder.stop();
    assert_eq!((status.error, status.progress.lost), (None, 0));
    assert_eq!(status.progress.on_disk, 501);
    assert!(status.files > 3, "{}", status.files);

    let other = Engine::start(EngineOptions::default()).unwrap();
    plant(&other);
    let mut levels = follow(&other, "rig/level");
    let client = other.client().unwrap();
    let play = |pace| {
        let mut recorded = RecordedVariables::open_series(&path).unwrap();
        let options = PlayVariablesOptions {
            pace,
            ..PlayVariablesOptions::default()
        };
        let (_stopper, stopped) = stopper();
        let same = |name: &str| Some(name.to_owned());
        let done = play_into_variables(&client, &mut recorded, same, options, &stopped, |_| ());
        (done.unwrap(), recorded.missing().to_vec())
    };
    for pace in [Pace::Full, Pace::Scaled(1e6)] {
        let (done, missing) = play(pace);
        assert!(done.is_complete);
        assert_eq!((done.updates, done.failed), (501, 0), "{:?}", done.failures);
        assert_eq!(missing, []);
        for number in 0..500 {
            assert_eq!(levels().0, Value::F64(f64::from(number)));
        }
        let text = other.variable::<String>("rig/text").unwrap();
        assert_eq!(text.read().unwrap().value, "there before");
    }
    // A file that was removed in the meantime ends playback; the updates before it are played.
    let second = series_file(&path, 2);
    let mut recorded = RecordedVariables::open_series(&path).unwrap();
    let mut first = RecordedVariables::open(&path).unwrap();
    let own = std::iter::from_fn(|| first.next_update().unwrap()).count();
    std::fs::remove_file(&second).unwrap();
    let options = PlayVariablesOptions {
        pace: Pace::Full,
        ..PlayVariablesOptions::default()
    };
    let (_stopper, stopped) = stopper();
    let (same, mut played) = (|name: &str| Some(name.to_owned()), 0);
    let on_updates = |done: &VariablesPlayed| played = done.updates;
    let gone = play_into_variables(&client, &mut recorded, same, options, &stopped, on_updates);
    let gone = gone.unwrap_err();
    assert!(matches!(gone, RecordingError::Playback(_)), "{gone}");
    assert_eq!(played, own as u64);
    // With one file missing, exactly its updates are reported as missing.
    let (done, missing) = play(Pace::Full);
    let [
        MissingPart::Files { first, last },
        MissingPart::Updates { updates, .. },
    ] = &missing[..]
    else {
        panic!("{missing:?}");
    };
    assert_eq!((first, last), (&second, &second));
    assert_eq!(done.updates + updates, 501);
}

/// Behaviour: B-72.
#[test]
fn playback_at_original_speed_waits_and_can_be_stopped() {
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

/// Updates that a recorder lost because its queue was full are counted, and recorded as a gap.
///
/// Behaviour: B-72.
#[test]
fn slow_recorder_reports_its_losses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = Engine::start(EngineOptions::default()).unwrap();
    plant(&engine);
    let recorder_options = VariableRecorderOptions {
        contract: Contract::Last(2),
        write_every: Duration::from_millis(5),
        ..VariableRecorderOptions::default()
    };
    let client = engine.client().unwrap();
    let patterns = [Pattern::parse("rig/level").unwrap()];
    let recorder =
        VariableRecorder::start(&client, &patterns, &[], &path, recorder_options).unwrap();
    let level = engine.variable::<f64>("rig/level").unwrap();
    level.write(0.0).unwrap();
    wait_for(&recorder, 1);
    // Faster than any subscriber can follow.
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

/// Waits until a recorder reports that these patterns have matched nothing, and that it records
/// this many variables.
fn wait_for_unmatched(recorder: &VariableRecorder, unmatched: &[&str], variables: u64) {
    let (_stopper, stopped) = stopper();
    for _ in 0..6000 {
        let status = recorder.status();
        if status.unmatched == unmatched && status.progress.variables == variables {
            return;
        }
        assert!(!stopped.wait_for(Duration::from_millis(10)));
    }
    panic!("{:?}", recorder.status());
}

/// Behaviour: B-72.
#[test]
fn unmatched_patterns_are_reported_until_they_match() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = Engine::start(EngineOptions::default()).unwrap();
    plant(&engine);
    let client = engine.client().unwrap();
    let patterns = ["rig/level", "rig/levle", "spare/**", "*/text"];
    let patterns = patterns.map(|pattern| Pattern::parse(pattern).unwrap());
    let options = VariableRecorderOptions::default();
    let recorder = VariableRecorder::start(&client, &patterns, &[], &path, options).unwrap();
    wait_for_unmatched(&recorder, &["rig/levle", "spare/**"], 2);
    let spare = LibraryDefinition {
        name: "spare".to_owned(),
        description: String::new(),
        variables: vec![VariableDefinition::new("level", DataType::F64)],
    };
    engine.deploy(&spare).unwrap();
    wait_for_unmatched(&recorder, &["rig/levle"], 3);
    engine.undeploy("spare").unwrap();
    let status = recorder.stop();
    assert_eq!(status.unmatched, ["rig/levle"], "it had matched");
    assert_eq!(status.progress.variables, 3);
}
