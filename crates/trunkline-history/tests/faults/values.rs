//! Tests that timestamps and values of every kind are read as they were written: from memory, from files, and
//! after a restart.

use std::sync::Arc;

use tempfile::TempDir;
use trunkline_engine::Write;
use trunkline_types::data_type::{ArrayType, EnumType, StructType};
use trunkline_types::{
    Array, Clock, ClockSync, DataType, ElementType, Elements, Quality, Timestamp, Value, Waveform,
};

use crate::rig::{Line, Plant, SECOND, START, all, assert_same, bad, folder, wire_of};

/// Calls `write`, and expects its rows from memory, from a closed segment, from the log after a
/// restart, and from files before and after a restart.
fn read_everywhere(
    variables: &[(&str, DataType)],
    write: impl FnOnce(&mut Plant) -> Vec<Line>,
) -> (TempDir, Plant) {
    let folder = folder();
    let mut plant = Plant::start(folder.path(), 1, START, variables);
    let written = write(&mut plant);
    let check = |plant: &Plant, what| assert_same(&plant.everything().lines, &written, what);
    plant.record_everything();
    check(&plant, "from memory");
    plant.close_segment();
    check(&plant, "from a closed segment");
    let time = plant.time + SECOND;
    drop(plant);
    let plant = Plant::start(folder.path(), 2, time, variables);
    check(&plant, "from the log after a restart");
    plant.seal();
    check(&plant, "from files");
    drop(plant);
    let plant = Plant::start(folder.path(), 3, time + SECOND, variables);
    check(&plant, "from files after a restart");
    (folder, plant)
}

/// Writes these values, given in wire form, to the variable `x`.
fn read_all_of(data_type: &DataType, values: &[Vec<u8>]) {
    read_everywhere(&[("x", data_type.clone())], |plant| {
        let lines = values.iter().map(|value| {
            plant.time += SECOND;
            plant.put("x", &Write::wire(value))
        });
        lines.collect()
    });
}

/// H-16, SV-09.
#[test]
fn integers_are_read_bit_for_bit() {
    macro_rules! extremes {
        ($($data_type:ident: $ty:ty;)+) => {
            $(
                let values = [<$ty>::MIN, <$ty>::MIN + 1, 0, 1, <$ty>::MAX / 2, <$ty>::MAX];
                let values = [values.as_slice(), &[0_i8 as $ty, (-1_i8) as $ty, <$ty>::MAX - 1]].concat();
                let values: Vec<Vec<u8>> =
                    values.iter().map(|value| value.to_le_bytes().to_vec()).collect();
                read_all_of(&DataType::$data_type, &values);
            )+
        };
    }
    extremes! {
        I8: i8; I16: i16; I32: i32; I64: i64; U8: u8; U16: u16; U32: u32; U64: u64;
    }
    read_all_of(&DataType::Bool, &[vec![0], vec![1], vec![0]]);
    // Adjacent integers that are equal as f64.
    let near = |first: i64| (first..first + 4).map(|n| n.to_le_bytes().to_vec());
    let near: Vec<_> = near((1 << 53) - 1).chain(near(i64::MAX - 4)).collect();
    read_all_of(&DataType::I64, &near);
    read_all_of(&DataType::U64, &near);
}

const F64: [u64; 16] = [
    0x0000_0000_0000_0000,
    0x8000_0000_0000_0000,
    // Subnormals.
    0x0000_0000_0000_0001,
    0x800f_ffff_ffff_ffff,
    // The smallest and the largest normal numbers.
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    // Infinities.
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    // Quiet and signaling NaNs with payloads.
    0x7ff8_0000_0000_0000,
    0xfff8_0000_0000_0000,
    0x7ff8_dead_beef_0001,
    0x7ff0_0000_0000_0001,
    0xfff4_0000_1234_5678,
    0x3ff0_0000_0000_0001,
    0xc000_0000_0000_0000,
];

const F32: [u32; 12] = [
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x807f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc0_1234,
    0x3f80_0001,
];

/// H-16.
#[test]
fn floating_point_numbers_are_read_bit_for_bit() {
    let wide: Vec<_> = F64.iter().map(|bits| bits.to_le_bytes().to_vec()).collect();
    read_all_of(&DataType::F64, &wide);
    let narrow: Vec<_> = F32.iter().map(|bits| bits.to_le_bytes().to_vec()).collect();
    read_all_of(&DataType::F32, &narrow);
}

/// H-16.
#[test]
fn signaling_nans_of_32_bits_are_read_bit_for_bit() {
    let values = [0x7f80_0001_u32, 0xffa0_0000, 0x7fbf_ffff];
    let values: Vec<_> = values
        .iter()
        .map(|bits| bits.to_le_bytes().to_vec())
        .collect();
    read_all_of(&DataType::F32, &values);
}

/// H-16.
#[test]
fn texts_and_bytes_of_every_kind_are_read() {
    let long = "ä\0€😀".repeat(60_000 / 10);
    let texts = [
        "",
        "a",
        "\0",
        "\0\0a\0",
        "😀👩‍👩‍👧‍👦",
        "\n\"',;\\\u{feff}",
        &long,
        "",
        "é",
    ];
    let texts: Vec<_> = texts
        .iter()
        .map(|text| wire_of(&Value::String((*text).into())))
        .collect();
    read_all_of(&DataType::String, &texts);
    let whole: Vec<u8> = (0..=255).collect();
    let bytes = [
        Vec::new(),
        vec![0],
        whole.clone(),
        whole.repeat(240),
        b"TLHF".repeat(100),
        b"TLHIST02PAR1".to_vec(),
        Vec::new(),
    ];
    let bytes: Vec<_> = bytes
        .into_iter()
        .map(|bytes| wire_of(&Value::Bytes(bytes.into())))
        .collect();
    read_all_of(&DataType::Bytes, &bytes);
}

/// H-16.
#[test]
fn enums_structs_and_timestamps_are_read() {
    let labels = ["OFF", "", "Ä \"1\"", "😀"].map(Into::into).to_vec();
    let mode = DataType::Enum(Arc::new(EnumType { labels }));
    let numbers: Vec<_> = [0_u32, 3, 1, 2, 3, 0]
        .iter()
        .map(|number| wire_of(&Value::Enum(*number)))
        .collect();
    read_all_of(&mode, &numbers);

    let times = [0, -1, 1, i64::MIN, i64::MAX, START, -START];
    let times: Vec<_> = times
        .iter()
        .map(|time| wire_of(&Value::Timestamp(Timestamp::from_nanos(*time))))
        .collect();
    read_all_of(&DataType::Timestamp, &times);

    let inner = DataType::Struct(Arc::new(StructType {
        fields: vec![("mode".into(), mode), ("ok".into(), DataType::Bool)],
    }));
    let vector = DataType::Array(Arc::new(ArrayType {
        element: ElementType::F64,
        shape: vec![None],
    }));
    let fields = [
        ("number", DataType::F64),
        ("text", DataType::String),
        ("bytes", DataType::Bytes),
        ("time", DataType::Timestamp),
        ("vector", vector),
        ("inner", inner),
    ];
    let fields = fields.map(|(name, data_type)| (name.into(), data_type));
    let all = DataType::Struct(Arc::new(StructType {
        fields: fields.to_vec(),
    }));
    let value = |number: f64, text: &str, elements: usize| {
        let inner = Value::Struct([Value::Enum(2), Value::Bool(true)].into());
        let vector = Array::vector(Elements::F64(vec![number; elements]));
        wire_of(&Value::Struct(
            [
                Value::F64(number),
                Value::String(text.into()),
                Value::Bytes([0, 255].into()),
                Value::Timestamp(Timestamp::from_nanos(i64::MIN)),
                Value::Array(Arc::new(vector)),
                inner,
            ]
            .into(),
        ))
    };
    let nan = f64::from_bits(0x7ff8_dead_beef_0001);
    let values = [
        value(-0.0, "\0😀", 0),
        value(nan, "", 3),
        value(f64::NEG_INFINITY, &"x".repeat(60_000), 1),
    ];
    read_all_of(&all, &values);
}

/// H-16: an array or waveform is recorded with its value unless it is longer than the limit.
#[test]
fn arrays_and_waveforms_have_values_up_to_the_limit() {
    let vector = DataType::Array(Arc::new(ArrayType {
        element: ElementType::I16,
        shape: vec![None],
    }));
    let variables = [
        ("vector", vector),
        ("wave", DataType::Waveform(ElementType::F64)),
        ("x", DataType::F64),
    ];
    read_everywhere(&variables, |plant| {
        let mut lines = Vec::new();
        for n in 0..5 {
            let vector = Array::vector(Elements::I16(vec![n; n as usize]));
            lines.push(plant.write("vector", &Value::Array(Arc::new(vector))));
            // 8,192 numbers have 64 KiB; the other fields of the waveform need a few bytes.
            let length = [0, 1, 100, 8_150, 8_192];
            let wave = Waveform {
                samples: Elements::F64(vec![1.0; length[n as usize]]),
                ..Waveform::empty(ElementType::F64)
            };
            lines.push(plant.write("wave", &Value::Waveform(Arc::new(wave))));
            lines.push(plant.write("x", &Value::F64(f64::from(n))));
        }
        assert!(lines.iter().filter(|line| line.value.is_empty()).count() == 1);
        lines
    });
}

/// The source timestamps are out of order, repeated, or far from the present.
///
/// B-41: a late sample is recorded, and a sample of an unset clock is not dated 1970.
#[test]
fn rows_are_sorted_by_source_timestamp() {
    let day = 86_400 * SECOND;
    let year_2200 = 7_258_118_400 * SECOND;
    let times = [
        START,
        START,
        START - 10 * day,
        START - 10 * day,
        START + 1,
        // Times in 1970 and earlier.
        0,
        1,
        SECOND,
        -1,
        i64::MIN,
        i64::MIN + 1,
        Timestamp::PLAUSIBLE_MIN.as_nanos(),
        Timestamp::PLAUSIBLE_MIN.as_nanos() - 1,
        year_2200,
        year_2200 - 1,
        i64::MAX - 1,
        START - SECOND,
        START,
        START - START.rem_euclid(day),
        START - START.rem_euclid(day) - 1,
    ];
    let variables = [("x", DataType::F64), ("text", DataType::String)];
    let (_folder, plant) = read_everywhere(&variables, |plant| {
        let mut lines = Vec::new();
        for (n, time) in times.iter().enumerate() {
            lines.push(plant.write_at("x", &Value::F64(n as f64), *time));
            let text = Value::String(format!("{n}").into());
            lines.push(plant.write_at("text", &text, *time));
            plant.time += SECOND / 3;
            if n % 7 == 6 {
                plant.record();
            }
        }
        lines
    });
    let lines = plant.everything().lines;
    assert_eq!(lines.len(), 2 * times.len());
    let earliest = Timestamp::PLAUSIBLE_MIN.as_nanos();
    assert!(lines.iter().all(|line| line.key.time >= earliest));
    let unset = |line: &&Line| Quality::from_bits(line.quality).clock_sync() == ClockSync::Unset;
    assert_eq!(lines.iter().filter(unset).count(), 2 * 7, "they are marked");
}

/// A query without an end returns all rows, even at the last possible nanosecond.
#[test]
fn row_of_the_last_nanosecond_is_read() {
    read_everywhere(&[("x", DataType::F64)], |plant| {
        vec![
            plant.write_at("x", &Value::F64(1.0), START),
            plant.write_at("x", &Value::F64(2.0), i64::MAX),
            plant.write_at("x", &Value::F64(3.0), i64::MAX),
        ]
    });
}

/// B-41: the source's clock is unset, even though its timestamp is plausible, or the engine's clock is unset.
#[test]
fn samples_of_unset_clocks_have_the_engine_timestamp() {
    let unset = Quality::GOOD.with_clock(Clock::Source, ClockSync::Unset);
    read_everywhere(&[("x", DataType::F64)], |plant| {
        let mut lines = Vec::new();
        for n in 0..4 {
            let value = Value::F64(f64::from(n));
            let write = Write {
                source_timestamp: Some(Timestamp::from_nanos(START - 5 * SECOND)),
                quality: Some(unset),
                ..Write::value(&value)
            };
            let line = plant.put("x", &write);
            assert_eq!(line.key.time, plant.time);
            lines.push(line);
            plant.time += SECOND;
        }
        lines
    });
}

/// H-16: every bit of a quality is stored, including unknown bits.
#[test]
fn qualities_are_read_bit_for_bit() {
    read_everywhere(&[("x", DataType::F64), ("n", DataType::I32)], |plant| {
        let mut lines = Vec::new();
        let bits = (0..32).map(|bit| 1_u32 << bit);
        // Initial and retained values are not recorded.
        let is_other = |quality: &Quality| !matches!(quality.reason().code(), 1 | 2);
        let qualities = bits.chain([u32::MAX]).map(Quality::from_bits);
        let qualities = qualities.filter(is_other).chain([bad()]);
        for (n, quality) in qualities.enumerate() {
            for (name, value) in [("x", Value::F64(n as f64)), ("n", Value::I32(n as i32))] {
                let write = Write {
                    source_timestamp: Some(Timestamp::from_nanos(plant.time - 5)),
                    quality: Some(quality),
                    ..Write::value(&value)
                };
                lines.push(plant.put(name, &write));
            }
            plant.time += SECOND;
        }
        lines
    });
}

/// H-16: a query of a variable whose type has changed returns the rows of all types.
#[test]
fn rows_of_all_types_of_a_variable_are_read() {
    let folder = folder();
    let types = [
        (DataType::F64, Value::F64(1.5)),
        (DataType::String, Value::String("two".into())),
        (DataType::I64, Value::I64(3)),
        (DataType::F64, Value::F64(4.5)),
    ];
    let mut written = Vec::new();
    let mut time = START;
    for (epoch, (data_type, value)) in types.into_iter().enumerate() {
        let epoch = epoch as u64 + 1;
        let mut plant = Plant::start(folder.path(), epoch, time, &[("x", data_type)]);
        written.push(plant.write("x", &value));
        plant.record();
        if epoch % 2 == 1 {
            plant.seal();
        }
        time = plant.time + SECOND;
    }
    let plant = Plant::start(folder.path(), 9, time, &[]);
    let mut found = plant.read(&all()).unwrap().lines;
    found.sort();
    assert_same(&found, &written, "all types");
}
