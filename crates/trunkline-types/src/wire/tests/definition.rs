use std::time::Duration;

use proptest::prelude::*;

use crate::alarm::{Acknowledge, AlarmDefinition, AlarmKind, BitsNeeded, LimitLevel, Operand};
use crate::arbitrary::typed_value;
use crate::definition::{Access, Deadband, Fifo, Properties, Scope};
use crate::wire::{
    DecodeError, Reader, decode_properties, encode_properties, put_bytes, put_varint,
};
use crate::{AuditMode, DataType, Scaling, Value};

fn encode(properties: &Properties) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_properties(properties, &mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Result<Properties, DecodeError> {
    let mut reader = Reader::new(bytes);
    let properties = decode_properties(&mut reader)?;
    reader.finish()?;
    Ok(properties)
}

/// Encodes the fields, preceded by their length.
fn with_fields(fields: &[(u64, &[u8])]) -> Vec<u8> {
    let mut inner = Vec::new();
    for (id, bytes) in fields {
        put_varint(&mut inner, *id);
        put_bytes(&mut inner, bytes);
    }
    let mut out = Vec::new();
    put_bytes(&mut out, &inner);
    out
}

/// Creates an alarm of each kind, with each property.
fn alarms() -> Vec<AlarmDefinition> {
    let kinds = [
        AlarmKind::Limit {
            level: LimitLevel::HiHi,
            limit: Operand::Constant(95.5),
            deadband: 2.0,
        },
        AlarmKind::Limit {
            level: LimitLevel::Lo,
            limit: Operand::Variable("boiler/level/low".to_owned()),
            deadband: 0.0,
        },
        AlarmKind::Deviation {
            setpoint: Operand::Variable("boiler/setpoint".to_owned()),
            limit: 5.0,
            deadband: 1.0,
        },
        AlarmKind::RateOfChange {
            change: 3.0,
            time: Duration::from_secs(10),
        },
        AlarmKind::Discrete {
            values: vec![-1, 0, i64::MAX],
        },
        AlarmKind::Bits {
            needed: BitsNeeded::All,
            invert: 1,
            select: u64::MAX,
        },
        AlarmKind::BadQuality,
        AlarmKind::Stale,
    ];
    let mut alarms = kinds.map(AlarmDefinition::new).to_vec();
    alarms[0] = AlarmDefinition {
        name: "top".to_owned(),
        kind: alarms[0].kind.clone(),
        enabled: false,
        on_delay: Duration::from_millis(1500),
        off_delay: Duration::from_secs(3),
        priority: 1000,
        area: "boiler".to_owned(),
        acknowledge: Acknowledge::Auto,
        latched: true,
        description: "Level of the drum is very high".to_owned(),
        help: "Close the feed valve".to_owned(),
        suppressed_by: "boiler/stopped".to_owned(),
    };
    // An empty name is not valid, but it must not be read as another name.
    alarms[1].name.clear();
    alarms
}

fn full() -> Properties {
    Properties {
        description: "Level of the drum".to_owned(),
        units: "m³/h".to_owned(),
        range: Some((-10.0, 250.5)),
        coerce: true,
        retain: true,
        number: Some(20),
        audit: AuditMode::Complete,
        precision: Some(2),
        access: Access::ReadOnly,
        scope: Scope::Process,
        scaling: Some(Scaling::SquareRoot {
            raw: [4.0, 20.0],
            eng: [0.0, 100.0],
        }),
        deadband: Deadband {
            user_percent: 1.0,
            source_percent: 0.5,
        },
        fifo: Fifo::Multi {
            capacity: 1000,
            length: 1,
        },
        timestamps: false,
        stall: Duration::from_millis(250),
        single_writer: true,
        max_age: Some(Duration::from_secs(5)),
        initial: Some(Value::F64(12.5)),
        source: "plc1:40001".to_owned(),
        alias: "plant/boiler1/level".to_owned(),
        origin: "boiler.toml:12".to_owned(),
        alarms: alarms(),
        ..Properties::new(DataType::F64)
    }
}

#[test]
fn properties_round_trip() {
    for scaling in [
        None,
        Some(Scaling::Linear {
            raw: [0.0, 4095.0],
            eng: [100.0, -100.0],
        }),
        Some(Scaling::Invert),
        Some(Scaling::BitField {
            invert: 0xff,
            select: u32::MAX,
        }),
    ] {
        for fifo in [Fifo::Off, Fifo::Single { length: 9 }] {
            for access in [Access::ReadWrite, Access::WriteOnly] {
                let properties = Properties {
                    scaling,
                    fifo,
                    access,
                    ..full()
                };
                assert_eq!(decode(&encode(&properties)), Ok(properties));
            }
        }
    }
    let max_age = Some(Duration::ZERO);
    let zero_age = Properties {
        max_age,
        ..Properties::new(DataType::Bool)
    };
    assert_eq!(decode(&encode(&zero_age)), Ok(zero_age));
}

#[test]
fn a_plain_variable_takes_four_bytes() {
    let properties = Properties::new(DataType::F64);
    assert_eq!(encode(&properties), [3, 1, 1, 11]);
    assert_eq!(decode(&[3, 1, 1, 11]), Ok(properties));
}

/// The part of B-51 that this crate covers: fields of a definition.
///
/// Behaviour: B-51.
#[test]
fn fields_of_a_newer_version_are_skipped() {
    let bytes = with_fields(&[
        (99, b"?"),
        (1, &[11]),
        (63, b""),
        (64, b"x"),
        (u64::MAX, b"newer"),
    ]);
    assert_eq!(decode(&bytes), Ok(Properties::new(DataType::F64)));
}

#[test]
fn initial_value_may_precede_the_type() {
    let bytes = with_fields(&[(15, &[7]), (1, &[6])]);
    assert_eq!(decode(&bytes).unwrap().initial, Some(Value::U8(7)));
}

#[test]
fn broken_definitions_are_refused() {
    for (what, fields) in [
        ("no data type", &[(2, &b"text"[..])][..]),
        ("a field twice", &[(1, &[11][..]), (3, b"m"), (3, b"s")]),
        ("a type with something behind it", &[(1, &[11, 11][..])]),
        (
            "an initial value of another type",
            &[(1, &[11][..]), (15, &[1])],
        ),
        (
            "an initial value that goes on",
            &[(1, &[1][..]), (15, &[1, 1])],
        ),
        ("units that are not UTF-8", &[(1, &[11][..]), (3, &[0xff])]),
        ("half a range", &[(1, &[11][..]), (4, &[0; 8])]),
        ("an unknown access type", &[(1, &[11][..]), (7, &[3])]),
        ("an unknown scope", &[(1, &[11][..]), (8, &[2])]),
        ("an unknown scaling", &[(1, &[11][..]), (9, &[5])]),
        ("an unknown FIFO", &[(1, &[11][..]), (11, &[3])]),
        ("a flag with content", &[(1, &[11][..]), (5, &[1])]),
    ] {
        assert!(decode(&with_fields(fields)).is_err(), "{what}");
    }
}

proptest! {
    #[test]
    fn definitions_of_any_type_round_trip((ty, value) in typed_value(), text in any::<String>()) {
        let properties = Properties {
            initial: Some(value),
            description: text.clone(),
            source: text,
            ..Properties::new(ty)
        };
        // Compared as bytes, because an initial value may be NaN.
        let bytes = encode(&properties);
        prop_assert_eq!(encode(&decode(&bytes).unwrap()), bytes);
    }

    #[test]
    fn damaged_definitions_never_panic(
        index in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = encode(&full());
        *index.get_mut(&mut bytes) = byte;
        let _ = decode(&bytes);
    }
}

#[test]
fn every_truncation_of_a_definition_is_an_error() {
    let bytes = encode(&full());
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err());
    }
}
