//! The properties of variables in recordings, in addition to their values.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use trunkline::record::{Rotation, VariableRecorder, VariableRecorderOptions, series_file};
use trunkline::tdms::{ObjectPath, TdmsFile};
use trunkline::types::text::parse_type;
use trunkline::types::{DataType, LibraryDefinition, Pattern, Properties, VariableDefinition};
use trunkline::{Client, Engine, EngineOptions};

use crate::rig::wait_for;

/// The unit and the description of a variable in a file.
fn described(path: &Path, name: &str) -> [Option<String>; 3] {
    let file = TdmsFile::open(std::fs::File::open(path).unwrap()).unwrap();
    let text = |object: &ObjectPath, property: &str| {
        let value = file.properties(object)?.get(property.as_bytes())?;
        Some(value.as_text().unwrap().to_string())
    };
    let group = ObjectPath::group(name);
    let values = ObjectPath::channel(name, "value");
    [
        text(&values, "unit_string"),
        text(&group, "unit_string"),
        text(&group, "description"),
    ]
}

/// Behaviour: B-72.
#[test]
fn units_and_descriptions_are_in_every_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let define = |path: &str, data_type: &str, units: &str, description: &str| {
        let mut properties = Properties::new(parse_type(data_type).unwrap());
        properties.units = units.to_owned();
        properties.description = description.to_owned();
        VariableDefinition {
            path: path.to_owned(),
            properties: Arc::new(properties),
        }
    };
    let library = LibraryDefinition {
        name: "rig".to_owned(),
        description: String::new(),
        variables: vec![
            define("level", "f64", "%", "Level of the tank"),
            define("shape", "array(f64, 3)", "µm", ""),
            define("at", "struct(x: f64, y: f64)", "mm", "Where it is"),
            define("plain", "bool", "", ""),
        ],
    };
    engine.deploy(&library).unwrap();
    let of_recorder = VariableRecorderOptions {
        write_every: Duration::from_millis(5),
        rotation: Some(Rotation {
            bytes_max: 2_000,
            ..Rotation::default()
        }),
        ..VariableRecorderOptions::default()
    };
    let client = engine.client().unwrap();
    let patterns = [Pattern::parse("rig/**").unwrap()];
    let recorder = VariableRecorder::start(&client, &patterns, &[], &path, of_recorder).unwrap();
    let level = engine.variable::<f64>("rig/level").unwrap();
    level.write(-1.0).unwrap();
    wait_for(&recorder, 1);
    for turn in 0..50 {
        for number in 0..10 {
            level.write(f64::from(10 * turn + number)).unwrap();
        }
        wait_for(&recorder, 1 + 10 * (turn as u64 + 1));
    }
    let status = recorder.stop();
    assert_eq!(status.error, None);
    assert!(status.files > 3, "{}", status.files);
    let some = |text: &str| Some(text.to_owned());
    for number in 1..=status.files {
        let path = series_file(&path, number);
        let of = |name| described(&path, name);
        let level = [some("%"), None, some("Level of the tank")];
        assert_eq!(of("rig/level"), level, "{number}");
        assert_eq!(of("rig/shape"), [some("µm"), None, None], "{number}");
        assert_eq!(of("rig/at"), [None, some("mm"), some("Where it is")]);
        assert_eq!(of("rig/plain"), [None, None, None]);
    }
}

/// After a restart of the engine with another configuration, the recorder requests the descriptions
/// again.
///
/// Behaviour: B-72.
#[test]
fn unit_changed_across_a_restart_is_the_newest_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let start = |address: &str, units: &str| {
        let address: SocketAddr = address.parse().unwrap();
        let options = EngineOptions {
            listen: vec![address.into()],
            ..EngineOptions::default()
        };
        let engine = Engine::start(options).unwrap();
        let mut properties = Properties::new(DataType::F64);
        properties.units = units.to_owned();
        let library = LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: vec![VariableDefinition {
                path: "level".to_owned(),
                properties: Arc::new(properties),
            }],
        };
        engine.deploy(&library).unwrap();
        engine
    };
    let write = |engine: &Engine, value| {
        let level = engine.variable::<f64>("rig/level").unwrap();
        level.write(value).unwrap();
    };
    let first = start("127.0.0.1:0", "%");
    let address = first.local_addrs()[0].to_string();
    let client = Client::connect(&format!("tl://{address}")).unwrap();
    let of_recorder = VariableRecorderOptions {
        write_every: Duration::from_millis(5),
        ..VariableRecorderOptions::default()
    };
    let patterns = [Pattern::parse("rig/**").unwrap()];
    let recorder = VariableRecorder::start(&client, &patterns, &[], &path, of_recorder).unwrap();
    write(&first, 1.0);
    wait_for(&recorder, 1);
    assert_eq!(described(&path, "rig/level")[0].as_deref(), Some("%"));
    first.shutdown(Duration::from_secs(1));
    let second = start(&address, "m");
    write(&second, 2.0);
    wait_for(&recorder, 2);
    assert_eq!(recorder.stop().error, None);
    assert_eq!(described(&path, "rig/level")[0].as_deref(), Some("m"));
}

/// A variable that is reconfigured while it is recorded has its new properties from then on.
///
/// Behaviour: B-72.
#[test]
fn a_unit_that_changes_is_the_newest_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let deploy = |units: &str| {
        let mut properties = Properties::new(DataType::F64);
        properties.units = units.to_owned();
        let library = LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: vec![VariableDefinition {
                path: "level".to_owned(),
                properties: Arc::new(properties),
            }],
        };
        engine.deploy(&library).unwrap();
    };
    deploy("%");
    let of_recorder = VariableRecorderOptions {
        write_every: Duration::from_millis(5),
        ..VariableRecorderOptions::default()
    };
    let client = engine.client().unwrap();
    let patterns = [Pattern::parse("rig/**").unwrap()];
    let recorder = VariableRecorder::start(&client, &patterns, &[], &path, of_recorder).unwrap();
    let write = |value| {
        let level = engine.variable::<f64>("rig/level").unwrap();
        level.write(value).unwrap();
    };
    write(1.0);
    wait_for(&recorder, 1);
    engine.undeploy("rig").unwrap();
    deploy("m");
    write(2.0);
    wait_for(&recorder, 2);
    assert_eq!(recorder.stop().error, None);
    assert_eq!(described(&path, "rig/level")[0].as_deref(), Some("m"));
}
