//! Checks that npTDMS, an independent implementation of the format, reads recordings of variables.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod nptdms;

use std::sync::Arc;

use serde_json::json;
use trunkline_record::{SegmentFile, VariableRecording};
use trunkline_types::text::parse_type;
use trunkline_types::{Array, Elements, Lost, Quality, Sample, Timestamp, Value, Waveform};

/// Other programs find each part of a value in a separate channel, with the number of elements per
/// update. The file has several segments, and arrays are empty in some of them.
///
/// Behaviour: B-72, ZC-26.
#[test]
fn nptdms_reads_every_part_of_every_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tdms");
    let mut sut = VariableRecording::new(SegmentFile::create(&path).unwrap(), 1 << 20);
    let mut add =
        |name: &str, data_type: &str| sut.add(name, &parse_type(data_type).unwrap()).unwrap();
    let axes = add("rig/axes", "array(f64, *)");
    let pose = add(
        "rig/pose",
        "struct(x: f64, name: string, tag: struct(id: u8, raw: bytes))",
    );
    let scope = add("rig/scope", "waveform(i16)");
    let words = add("rig/words", "array(string, 2)");
    let array = |elements| Value::Array(Arc::new(Array::vector(elements)));
    for turn in 0..4_i64 {
        let time = Timestamp::from_nanos(1_700_000_000_000_000_000 + turn * 1_000_000_000);
        let number = turn as f64;
        let tag = Value::Struct(Arc::from([
            Value::U8(turn as u8),
            Value::Bytes(vec![turn as u8; turn as usize].into()),
        ]));
        let wave = Waveform {
            t0: time,
            dt: 0.25,
            samples: Elements::I16((0..turn as i16).collect()),
            attributes: [(Arc::from("unit"), Value::String("V".into()))].into(),
        };
        let pair = [format!("a{turn}"), format!("b{turn}")].map(Arc::from);
        for (id, value) in [
            (
                axes,
                array(Elements::F64(vec![number + 0.5; (turn % 3) as usize])),
            ),
            (
                pose,
                Value::Struct(Arc::from([
                    Value::F64(-number),
                    Value::String(turn.to_string().into()),
                    tag,
                ])),
            ),
            (scope, Value::Waveform(Arc::new(wave))),
            (words, array(Elements::String(pair.to_vec()))),
        ] {
            let sample = Sample {
                value,
                source_timestamp: time,
                engine_timestamp: time,
                quality: Quality::GOOD,
            };
            sut.take(id, &sample, &Lost::NONE).unwrap();
        }
        sut.write_out().unwrap();
    }
    sut.finish().unwrap();
    let times: Vec<_> = (0..4)
        .map(|turn| format!("2023-11-14T22:13:{}.000000", 20 + turn))
        .collect();
    let good = [Quality::GOOD.to_bits(); 4];
    let expected = json!({
        "rig/axes": {
            "type": "array(f64, *)",
            "time": times,
            "value": [1.5, 2.5, 2.5],
            "value.count": [0, 1, 2, 0],
            "quality": good,
        },
        "rig/pose": {
            "type": "struct(x: f64, name: string, tag: struct(id: u8, raw: bytes))",
            "time": times,
            "value.x": [-0.0, -1.0, -2.0, -3.0],
            "value.name": ["0", "1", "2", "3"],
            "value.tag.id": [0, 1, 2, 3],
            "value.tag.raw": [1, 2, 2, 3, 3, 3],
            "value.tag.raw.count": [0, 1, 2, 3],
            "quality": good,
        },
        "rig/scope": {
            "type": "waveform(i16)",
            "time": times,
            "value": [0, 0, 1, 0, 1, 2],
            "value.count": [0, 1, 2, 3],
            "value.t0": times,
            "value.dt": [0.25, 0.25, 0.25, 0.25],
            "value.attributes": vec!["{\"unit\":\"V\"}"; 4],
            "quality": good,
        },
        "rig/words": {
            "type": "array(string, 2)",
            "time": times,
            "value": ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"],
            "value.count": [2, 2, 2, 2],
            "quality": good,
        },
    });
    assert_eq!(nptdms::read(&path), expected);
}
