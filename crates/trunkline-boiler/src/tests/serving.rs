//! Tests the boiler house as an I/O server.

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_types::{DataType, Elements, Level, Quality, Reason, Tick, Value};

use super::super::{BoilerServer, CATCH_UP_MAX, Options};
use super::{AUTO, OFF, Rig};
use trunkline_io::{HealthState, IoError, IoServer, ItemId, Scan, SendRefusal, Setting, Settings};

/// Formats the result of a scan, so that numbers that differ in one bit give different texts.
fn bits(scan: &Scan) -> Vec<String> {
    scan.iter()
        .map(|published| format!("{published:?}"))
        .collect()
}

#[test]
fn there_are_214_variables_in_three_libraries() {
    let libraries = BoilerServer::new(Options::default()).libraries("plant");
    let sizes: Vec<(&str, usize)> = libraries
        .iter()
        .map(|library| (library.name.as_str(), library.variables.len()))
        .collect();
    assert_eq!(sizes, [("boiler", 90), ("rack1", 85), ("valves", 39)]);
}

#[test]
fn every_kind_of_type_exists() {
    let libraries = BoilerServer::new(Options::default()).libraries("plant");
    let types: Vec<DataType> = libraries
        .iter()
        .flat_map(|library| &library.variables)
        .map(|variable| variable.properties.data_type.clone())
        .collect();
    let plain = [
        DataType::Bool,
        DataType::I8,
        DataType::I16,
        DataType::I32,
        DataType::I64,
        DataType::U8,
        DataType::U16,
        DataType::U32,
        DataType::U64,
        DataType::F32,
        DataType::F64,
        DataType::String,
        DataType::Bytes,
        DataType::Timestamp,
    ];
    for ty in plain {
        assert!(types.contains(&ty), "no variable of type {ty}");
    }
    let has = |predicate: fn(&DataType) -> bool| types.iter().any(predicate);
    assert!(has(|ty| matches!(ty, DataType::Enum(_))));
    assert!(has(
        |ty| matches!(ty, DataType::Array(array) if array.shape.len() == 1)
    ));
    assert!(has(
        |ty| matches!(ty, DataType::Array(array) if array.shape.len() == 2)
    ));
    assert!(has(|ty| matches!(ty, DataType::Struct(_))));
    assert!(has(|ty| matches!(ty, DataType::Waveform(_))));
}

#[test]
fn the_same_seed_and_calls_repeat_bit_for_bit() {
    let run = |seed: u64| {
        let mut rig = Rig::new(seed);
        let mut all = Vec::new();
        for second in 0..60 {
            if second == 20 {
                rig.set("boiler/feed", Value::F64(75.0));
            }
            if second == 40 {
                rig.set("boiler/pump/mode", AUTO);
            }
            for _ in 0..10 {
                rig.run(0.1);
                all.extend(bits(&rig.scan));
            }
        }
        all
    };
    let first = run(42);
    assert_eq!(first, run(42));
    assert_ne!(first, run(43));
}

#[test]
fn the_plant_does_not_depend_on_how_often_it_is_scanned() {
    let states = [100u64, 250, 1_000, 5_000].map(|period_ms| {
        let mut server = BoilerServer::new(Options::default());
        let mut scan = Scan::new();
        server.open(Tick::ZERO, super::START).unwrap();
        for n in 1..=(60_000 / period_ms) {
            let now = Tick::from_nanos(n * period_ms * 1_000_000);
            server.scan(now, super::START, &mut scan).unwrap();
        }
        (
            server.plant.steps,
            server.plant.books.clone(),
            server.plant.level.to_bits(),
        )
    });
    assert!(states.iter().all(|state| *state == states[0]));
}

#[test]
fn late_scan_catches_up_five_seconds_and_reports_the_rest() {
    let mut rig = Rig::new(1);
    rig.run(1.0);
    let steps = rig.number("boiler/sim/steps");
    rig.nanos += 20_000_000_000;
    rig.scan();
    assert_eq!(
        rig.number("boiler/sim/steps"),
        steps + CATCH_UP_MAX.as_secs_f64() * 10.0
    );
    assert_eq!(rig.number("boiler/sim/skipped"), 15.0);
    let health = rig.server.health();
    assert_eq!(health.state, HealthState::Degraded);
    assert!(health.last_error.unwrap().contains("15.0 s"));
    rig.run(0.1);
    assert_eq!(rig.server.health().state, HealthState::Good);
    assert_eq!(rig.number("boiler/sim/steps"), steps + 51.0);
}

#[test]
fn stopped_or_backward_clock_changes_nothing() {
    let mut rig = Rig::new(1);
    rig.run(10.0);
    let steps = rig.number("boiler/sim/steps");
    rig.scan();
    rig.nanos -= 5_000_000_000;
    rig.scan();
    assert_eq!(rig.number("boiler/sim/steps"), steps);
    rig.nanos += 5_000_000_000;
    rig.run(1.0);
    assert_eq!(rig.number("boiler/sim/steps"), steps + 10.0);
}

#[test]
fn every_value_is_marked_as_simulated() {
    let mut rig = Rig::new(1);
    rig.scan();
    assert!(!rig.scan.is_empty());
    assert!(
        rig.scan
            .iter()
            .all(|published| published.quality.is_simulated())
    );
}

#[test]
fn unchanged_values_are_not_published_again() {
    let mut rig = Rig::new(1);
    rig.scan();
    assert_eq!(rig.scan.len(), 214);
    rig.run(0.1);
    let names: Vec<&str> = rig
        .scan
        .iter()
        .map(|published| rig.server.variables[published.item.index()].path.as_str())
        .collect();
    assert!(names.contains(&"level") && names.contains(&"ch001"));
    assert!(!names.contains(&"setpoint") && !names.contains(&"pump/mode"));
    assert!(
        !names.contains(&"vibration/waveform"),
        "the waveform has a longer period"
    );
    rig.run(0.4);
    let waveform = rig.item("boiler/vibration/waveform");
    assert!(rig.scan.iter().any(|published| published.item == waveform));
}

#[test]
fn setpoint_is_read_back_and_its_effects_are_published() {
    let mut rig = Rig::new(1);
    rig.scan();
    assert_eq!(
        rig.put("boiler/feed", Value::F64(57.0)),
        Ok(Value::F64(57.0))
    );
    rig.run(0.1);
    let published: BTreeMap<ItemId, Option<Value>> = rig
        .scan
        .iter()
        .map(|published| (published.item, published.value.clone()))
        .collect();
    // The sender got this value in the answer. The scan publishes the other effects.
    assert!(!published.contains_key(&rig.item("boiler/feed")));
    assert_eq!(
        published[&rig.item("boiler/pump/mode")],
        Some(Value::Enum(1))
    );
    assert_eq!(
        published[&rig.item("valves/FV101/command")],
        Some(Value::F64(57.0))
    );
    let note = Value::String("watch FV101".into());
    assert_eq!(rig.put("boiler/note", note.clone()), Ok(note.clone()));
    assert_eq!(rig.read("boiler/note").0, note);
    assert_eq!(
        rig.put("boiler/burner/reset", Value::Bool(true)),
        Ok(Value::Bool(false))
    );
    assert_eq!(rig.server.health().sends, 3);
}

#[test]
fn invalid_write_is_refused_with_a_sentence_and_no_change() {
    let mut rig = Rig::new(1);
    let refused = |rig: &mut Rig, name: &str, value: Value| {
        let before = rig.server.plant.controls.clone();
        let refusal = rig.put(name, value).unwrap_err();
        assert_eq!(rig.server.plant.controls, before, "{name}");
        assert!(refusal.to_string().contains(name), "{refusal}");
        refusal
    };
    let refusal = refused(&mut rig, "boiler/setpoint", Value::F64(95.0));
    assert_eq!(
        refusal.to_string(),
        "95 is outside the range of boiler/setpoint, 30 to 85 %; write a value within it"
    );
    let refusal = refused(&mut rig, "boiler/setpoint", Value::F64(f64::NAN));
    assert!(matches!(refusal, SendRefusal::OutOfRange { .. }));
    let refusal = refused(&mut rig, "boiler/setpoint", Value::Bool(true));
    assert!(matches!(refusal, SendRefusal::WrongType { .. }));
    let refusal = refused(&mut rig, "boiler/level", Value::F64(50.0));
    assert!(matches!(refusal, SendRefusal::ReadOnly { .. }));
    let refusal = refused(&mut rig, "boiler/burner/firing", Value::F64(50.0));
    assert!(
        refusal
            .to_string()
            .contains("set boiler/burner/mode to MANUAL first")
    );
    let refusal = refused(&mut rig, "boiler/pump/mode", Value::Enum(3));
    assert!(matches!(refusal, SendRefusal::OutOfRange { .. }));
    let refusal = refused(&mut rig, "boiler/burner/mode", Value::F64(1.0));
    assert!(
        refusal.to_string().contains("enum(OFF, MANUAL, AUTO)"),
        "{refusal}"
    );
    let refusal = refused(
        &mut rig,
        "boiler/note",
        Value::String("n".repeat(201).into()),
    );
    assert!(matches!(refusal, SendRefusal::OutOfRange { .. }));
    let refusal = refused(&mut rig, "valves/XV110/command", Value::F64(1.0));
    assert!(matches!(refusal, SendRefusal::WrongType { .. }));
    let refusal = refused(&mut rig, "valves/FV101/command", Value::F64(1.0));
    assert!(matches!(refusal, SendRefusal::ReadOnly { .. }));

    rig.set("boiler/pump/mode", OFF);
    let refusal = refused(&mut rig, "boiler/feed", Value::F64(50.0));
    assert!(
        refusal
            .to_string()
            .contains("set boiler/pump/mode to MANUAL first"),
        "{refusal}"
    );
    let refusal = rig
        .server
        .send(ItemId(9999), &Value::Bool(true), rig.now(), rig.wall());
    assert_eq!(
        refusal,
        Err(SendRefusal::UnknownItem {
            item: 9999,
            count: 214
        })
    );
    assert_eq!(rig.server.health().refused, 12);
    assert_eq!(rig.server.health().sends, 1);
}

#[test]
fn rack_delivers_raw_signals_that_scale_to_the_plant_values() {
    let mut rig = Rig::new(1);
    rig.run(5.0);
    let libraries = rig.server.libraries("plant");
    let rack = &libraries[1];
    let engineering = |rig: &mut Rig, channel: usize| {
        let definition = &rack.variables[channel - 1];
        let (raw, quality) = rig.read(&format!("rack1/{}", definition.path));
        let properties = &definition.properties;
        let scaling = properties.scaling.as_ref().unwrap();
        scaling.check(&properties.data_type).unwrap();
        let value = scaling.to_engineering(&raw, &properties.data_type).unwrap();
        assert!(quality.is_good(), "{}", definition.path);
        (properties.description.clone(), value.as_f64().unwrap())
    };
    let expected = [
        (1, "Drum level 1", rig.server.plant.level, 0.5),
        (4, "Drum pressure 1", rig.server.plant.pressure(), 0.1),
        (7, "Steam flow 1", rig.server.plant.flows.steam, 0.05),
        (9, "Feed water flow 1", rig.server.plant.flows.feed, 0.08),
        (
            17,
            "Steam temperature 1",
            rig.server.plant.drum.state.temperature,
            2.0,
        ),
        (
            72,
            "Valve position 1",
            rig.server.plant.valves[0].travel,
            0.5,
        ),
    ];
    for (channel, description, truth, tolerance) in expected {
        let (found, value) = engineering(&mut rig, channel);
        assert!(found.starts_with(description), "ch{channel:03} is {found}");
        assert!(
            (value - truth).abs() < tolerance,
            "{found}: {value} is not {truth}"
        );
    }
}

#[test]
fn an_open_input_is_bad_and_a_signal_beyond_its_ends_is_uncertain() {
    let mut rig = Rig::new(1);
    let (_, quality) = rig.read("rack1/ch085");
    assert_eq!(
        (quality.level(), quality.reason()),
        (Level::Bad, Reason::Inactive)
    );
    rig.set("boiler/pump/mode", OFF);
    rig.set("boiler/steam/demand", Value::F64(100.0));
    rig.run(120.0);
    assert!(rig.server.plant.level < -5.0);
    let (raw, quality) = rig.read("rack1/ch001");
    assert_eq!(raw, Value::F64(3.8));
    assert_eq!(quality.reason(), Reason::LimitsExceeded);
    let (value, quality) = rig.read("boiler/level");
    assert_eq!(value, Value::F64(0.0));
    assert_eq!(
        quality,
        Quality::uncertain(Reason::LimitsExceeded).with_simulated(true)
    );
}

#[test]
fn waveform_continues_where_the_last_one_ended() {
    let mut rig = Rig::new(1);
    rig.run(5.0);
    let waveform = |rig: &mut Rig| match rig.read("boiler/vibration/waveform").0 {
        Value::Waveform(waveform) => waveform,
        other => panic!("{other:?}"),
    };
    let (first, second) = (waveform(&mut rig), waveform(&mut rig));
    let (Elements::F64(first_samples), Elements::F64(second_samples)) =
        (&first.samples, &second.samples)
    else {
        panic!("not f64");
    };
    assert_eq!(first_samples.len(), 1024);
    assert_eq!(first.dt, 1.0 / 2048.0);
    assert_eq!(rig.wall().nanos_since(first.t0), 500_000_000);
    let step = |samples: &[f64]| {
        samples
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).abs())
            .fold(0.0, f64::max)
    };
    let seam = (second_samples[0] - first_samples[1023]).abs();
    assert!(
        seam <= step(first_samples) * 1.2,
        "a step of {seam} between waveforms"
    );
    let rms = rig.number("boiler/vibration/effective");
    assert!((0.5..2.0).contains(&rms), "{rms}");
}

#[test]
fn telegram_matches_its_description() {
    let mut rig = Rig::new(1);
    let Value::Bytes(bytes) = rig.read("boiler/telegram").0 else {
        panic!("not bytes")
    };
    assert_eq!(bytes.len(), 14);
    assert_eq!(&bytes[..2], b"TL");
    let level = i16::from_le_bytes([bytes[8], bytes[9]]);
    assert!((f64::from(level) / 100.0 - rig.server.plant.level).abs() < 0.02);
    let checksum = bytes[..12].iter().fold(0u16, |checksum, byte| {
        checksum.wrapping_add(u16::from(*byte))
    });
    assert_eq!(u16::from_le_bytes([bytes[12], bytes[13]]), checksum);
}

#[test]
fn time_of_the_last_start_does_not_change() {
    let mut rig = Rig::new(1);
    let first = rig.read("boiler/burner/last_start").0;
    assert_eq!(
        first,
        Value::Timestamp(super::START.saturating_add_nanos(-1_800_000_000_000))
    );
    rig.run(30.0);
    assert_eq!(rig.read("boiler/burner/last_start").0, first);
}

#[test]
fn unopened_server_is_reported() {
    let mut server = BoilerServer::new(Options::default());
    let mut scan = Scan::new();
    assert_eq!(
        server.scan(Tick::ZERO, super::START, &mut scan),
        Err(IoError::NotOpen)
    );
    assert_eq!(
        server.request(ItemId(0), Tick::ZERO, super::START, &mut scan),
        Err(IoError::NotOpen)
    );
    assert!(scan.is_empty());
    assert_eq!(server.health().errors, 2);
}

#[test]
fn opening_again_publishes_everything_again() {
    let mut rig = Rig::new(1);
    rig.run(10.0);
    let (now, wall) = (rig.now(), rig.wall());
    rig.server.open(now, wall).unwrap();
    rig.scan();
    assert_eq!(rig.scan.len(), 214);
    assert_eq!(rig.server.period(), Duration::from_millis(100));
}

#[test]
fn prefix_allows_a_second_boiler_house() {
    let mut settings = Settings::new();
    settings.insert("prefix", Setting::String("north ".into()));
    settings.insert("seed", Setting::Integer(7));
    let options = Options::from_settings(&settings).unwrap();
    assert_eq!(
        options,
        Options {
            seed: 7,
            prefix: "north ".into()
        }
    );
    let server = BoilerServer::new(options);
    let libraries = server.libraries("north");
    assert_eq!(libraries[0].name, "north boiler");
    assert_eq!(
        libraries[0].variables[0].properties.source,
        "north:boiler/level"
    );
    assert!(server.item("boiler/level").is_some());
    for bad in ["a/b", "x#", "*"] {
        settings.insert("prefix", Setting::String(bad.into()));
        let error = Options::from_settings(&settings).unwrap_err().to_string();
        assert!(error.contains("prefix"), "{error}");
    }
    settings.insert("prefix", Setting::String(String::new()));
    settings.insert("seed", Setting::Integer(-1));
    assert!(
        Options::from_settings(&settings)
            .unwrap_err()
            .to_string()
            .contains("0 or more")
    );
}
