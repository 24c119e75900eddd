//! Random types and values, including unusual ones.

use std::sync::Arc;

use fastrand::Rng;
use trunkline_types::{
    Array, ArrayType, DataType, ElementType, Elements, EnumType, Quality, Sample, StructType,
    Timestamp, Value, Waveform,
};

const ELEMENTS: [ElementType; 13] = [
    ElementType::Bool,
    ElementType::I8,
    ElementType::I16,
    ElementType::I32,
    ElementType::I64,
    ElementType::U8,
    ElementType::U16,
    ElementType::U32,
    ElementType::U64,
    ElementType::F32,
    ElementType::F64,
    ElementType::String,
    ElementType::Timestamp,
];

/// Names of fields, including characters that are special in names of channels.
const NAMES: [&str; 8] = ["x", "count", "x.count", "a.b", "a", "it's", "\\", "/ ( :"];

fn element(random: &mut Rng) -> ElementType {
    ELEMENTS[random.usize(..ELEMENTS.len())]
}

/// Returns any type, including nested structs.
pub fn data_type(random: &mut Rng, depth: u32) -> DataType {
    match random.u32(..if depth == 0 { 5 } else { 7 }) {
        0 => element(random).data_type(),
        1 => DataType::Bytes,
        2 => {
            let labels = (0..random.u32(1..5)).map(|number| format!("label {number}, \"odd\""));
            let labels = labels.map(Arc::from).collect();
            DataType::Enum(Arc::new(EnumType { labels }))
        }
        3 => {
            let lengths = (0..random.usize(1..4)).map(|_| random.bool().then(|| random.u32(..4)));
            let shape = lengths.collect::<Vec<_>>();
            let element = element(random);
            DataType::Array(Arc::new(ArrayType { element, shape }))
        }
        4 => DataType::Waveform(element(random)),
        _ => {
            let mut names = NAMES;
            random.shuffle(&mut names);
            let names = &names[..random.usize(1..4)];
            let fields = names.iter();
            let fields = fields.map(|name| (Arc::from(*name), data_type(random, depth - 1)));
            let fields = fields.collect();
            DataType::Struct(Arc::new(StructType { fields }))
        }
    }
}

fn text(random: &mut Rng) -> Arc<str> {
    let characters = (0..random.usize(..6)).map(|_| match random.u32(..4) {
        0 => '\0',
        1 => random.char(..),
        _ => random.alphanumeric(),
    });
    characters.collect::<String>().into()
}

/// Returns a number with any bits, including every NaN.
fn number(random: &mut Rng) -> f64 {
    match random.u32(..4) {
        0 => f64::from_bits(0x7ff0_0000_0000_0001 | random.u64(..) >> 13),
        1 => -0.0,
        2 => random.f64(),
        _ => f64::from_bits(random.u64(..)),
    }
}

fn time(random: &mut Rng) -> Timestamp {
    Timestamp::from_nanos(match random.u32(..5) {
        0 => i64::MIN,
        1 => i64::MAX,
        _ => random.i64(..),
    })
}

fn elements(random: &mut Rng, element: ElementType, count: usize) -> Elements {
    macro_rules! of {
        ($variant:ident, $item:expr) => {
            Elements::$variant((0..count).map(|_| $item).collect())
        };
    }
    match element {
        ElementType::Bool => of!(Bool, random.bool()),
        ElementType::I8 => of!(I8, random.i8(..)),
        ElementType::I16 => of!(I16, random.i16(..)),
        ElementType::I32 => of!(I32, random.i32(..)),
        ElementType::I64 => of!(I64, random.i64(..)),
        ElementType::U8 => of!(U8, random.u8(..)),
        ElementType::U16 => of!(U16, random.u16(..)),
        ElementType::U32 => of!(U32, random.u32(..)),
        ElementType::U64 => of!(U64, random.u64(..)),
        ElementType::F32 => of!(F32, f32::from_bits(random.u32(..))),
        ElementType::F64 => of!(F64, number(random)),
        ElementType::String => of!(String, text(random)),
        ElementType::Timestamp => of!(Timestamp, time(random)),
    }
}

/// Returns any value of a type.
pub fn value(random: &mut Rng, data_type: &DataType) -> Value {
    match data_type {
        DataType::Bytes => Value::Bytes((0..random.usize(..5)).map(|_| random.u8(..)).collect()),
        DataType::Enum(of) => Value::Enum(random.u32(..of.labels.len() as u32)),
        DataType::Array(of) => {
            let lengths = of.shape.iter();
            let shape: Vec<u32> = lengths
                .map(|length| length.unwrap_or_else(|| random.u32(..4)))
                .collect();
            let count = shape.iter().product::<u32>() as usize;
            let elements = elements(random, of.element, count);
            Value::Array(Arc::new(Array::new(shape, elements).unwrap()))
        }
        DataType::Struct(of) => {
            let fields = of.fields.iter();
            Value::Struct(fields.map(|(_, field)| value(random, field)).collect())
        }
        DataType::Waveform(element) => {
            let attributes = (0..random.usize(..3)).map(|_| {
                let of = ELEMENTS[random.usize(..ELEMENTS.len())].data_type();
                (text(random), value(random, &of))
            });
            let attributes = attributes.collect();
            let count = random.usize(..5);
            Value::Waveform(Arc::new(Waveform {
                t0: time(random),
                dt: number(random),
                samples: elements(random, *element, count),
                attributes,
            }))
        }
        scalar => {
            let element = ElementType::of(scalar).unwrap();
            elements(random, element, 1).value_at(0).unwrap()
        }
    }
}

/// Returns an update with any value of a type.
pub fn sample(random: &mut Rng, data_type: &DataType, time: Timestamp) -> Sample {
    Sample {
        value: value(random, data_type),
        source_timestamp: time,
        engine_timestamp: time,
        quality: Quality::from_bits(Quality::GOOD.to_bits()),
    }
}
