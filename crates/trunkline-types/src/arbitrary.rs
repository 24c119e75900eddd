//! Generates random types and values for the round-trip tests of the wire, JSON and text forms.

use std::sync::Arc;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use crate::{
    Array, ArrayType, DataType, ElementType, Elements, EnumType, StructType, Timestamp, Value,
    Waveform,
};

pub fn typed_value() -> impl Strategy<Value = (DataType, Value)> {
    data_type().prop_flat_map(|ty| (Just(ty.clone()), value_of(&ty)))
}

/// Generates a scalar type and a value of that type.
pub fn typed_scalar() -> impl Strategy<Value = (DataType, Value)> {
    scalar_type().prop_flat_map(|ty| (Just(ty.clone()), value_of(&ty)))
}

/// Generates any type, with structs nested up to three levels deep.
pub fn data_type() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        scalar_type(),
        array_type(),
        element().prop_map(DataType::Waveform)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        (btree_set(name(), 4), vec(inner, 1..=4)).prop_map(|(names, types)| {
            let names = names.into_iter().map(Arc::from);
            DataType::Struct(Arc::new(StructType {
                fields: names.zip(types).collect(),
            }))
        })
    })
}

fn scalar_type() -> impl Strategy<Value = DataType> {
    let labels = btree_set(label(), 1..6).prop_shuffle_set();
    prop_oneof![
        8 => element().prop_map(ElementType::data_type),
        1 => Just(DataType::Bytes),
        3 => labels.prop_map(|labels| DataType::Enum(Arc::new(EnumType { labels }))),
    ]
}

fn array_type() -> impl Strategy<Value = DataType> {
    let shape = vec(prop::option::of(0..4_u32), 1..4);
    (element(), shape)
        .prop_map(|(element, shape)| DataType::Array(Arc::new(ArrayType { element, shape })))
}

fn element() -> impl Strategy<Value = ElementType> {
    prop::sample::select(&[
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
    ])
}

fn label() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Z_]{1,8}",
        "[ -~]{0,6}",
        any::<String>(),
        "[0-9]",
        "[\"\\\\,():]{0,4}"
    ]
}

fn name() -> impl Strategy<Value = String> {
    label().prop_filter("field names are not empty", |name| !name.is_empty())
}

trait Shuffled {
    fn prop_shuffle_set(self) -> BoxedStrategy<Vec<Arc<str>>>;
}

impl<S: Strategy<Value = std::collections::BTreeSet<String>> + 'static> Shuffled for S {
    fn prop_shuffle_set(self) -> BoxedStrategy<Vec<Arc<str>>> {
        let list = self.prop_map(|set| set.into_iter().map(Arc::from).collect::<Vec<Arc<str>>>());
        list.prop_shuffle().boxed()
    }
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    let ends = prop::sample::select(&[i64::MIN, i64::MAX, 0, -1, 1]);
    prop_oneof![any::<i64>(), ends].prop_map(Timestamp::from_nanos)
}

pub fn value_of(ty: &DataType) -> BoxedStrategy<Value> {
    match ty {
        DataType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        DataType::I8 => any::<i8>().prop_map(Value::I8).boxed(),
        DataType::I16 => any::<i16>().prop_map(Value::I16).boxed(),
        DataType::I32 => any::<i32>().prop_map(Value::I32).boxed(),
        DataType::I64 => any::<i64>().prop_map(Value::I64).boxed(),
        DataType::U8 => any::<u8>().prop_map(Value::U8).boxed(),
        DataType::U16 => any::<u16>().prop_map(Value::U16).boxed(),
        DataType::U32 => any::<u32>().prop_map(Value::U32).boxed(),
        DataType::U64 => any::<u64>().prop_map(Value::U64).boxed(),
        DataType::F32 => prop::num::f32::ANY.prop_map(Value::F32).boxed(),
        DataType::F64 => prop::num::f64::ANY.prop_map(Value::F64).boxed(),
        DataType::String => {
            let text = prop_oneof![any::<String>(), "\"[a-z]{0,4}\"", "[ -~]{0,10}"];
            text.prop_map(|text| Value::String(text.into())).boxed()
        }
        DataType::Bytes => vec(any::<u8>(), 0..20)
            .prop_map(|bytes| Value::Bytes(bytes.into()))
            .boxed(),
        DataType::Timestamp => timestamp().prop_map(Value::Timestamp).boxed(),
        DataType::Enum(ty) => (0..ty.labels.len() as u32).prop_map(Value::Enum).boxed(),
        DataType::Array(ty) => {
            let element = ty.element;
            let shape: Vec<BoxedStrategy<u32>> = ty
                .shape
                .iter()
                .map(|length| match length {
                    Some(length) => Just(*length).boxed(),
                    None => (0..4_u32).boxed(),
                })
                .collect();
            shape
                .prop_flat_map(move |shape| {
                    let count = shape.iter().product::<u32>() as usize;
                    (Just(shape), elements(element, count..=count))
                })
                .prop_map(|(shape, elements)| {
                    Value::Array(Arc::new(
                        Array::new(shape, elements).expect("the count is the product of the shape"),
                    ))
                })
                .boxed()
        }
        DataType::Struct(ty) => {
            let fields: Vec<_> = ty.fields.iter().map(|(_, ty)| value_of(ty)).collect();
            fields
                .prop_map(|fields| Value::Struct(fields.into()))
                .boxed()
        }
        DataType::Waveform(element) => {
            let attribute = prop_oneof![
                any::<bool>().prop_map(Value::Bool),
                any::<i64>().prop_map(Value::I64),
                any::<u8>().prop_map(Value::U8),
                prop::num::f64::ANY.prop_map(Value::F64),
                prop::num::f32::ANY.prop_map(Value::F32),
                any::<String>().prop_map(|text| Value::String(text.into())),
                vec(any::<u8>(), 0..4).prop_map(|bytes| Value::Bytes(bytes.into())),
                timestamp().prop_map(Value::Timestamp),
            ];
            let attributes = btree_map(label().prop_map(Arc::from), attribute, 0..4);
            (
                timestamp(),
                prop::num::f64::ANY,
                elements(*element, 0..=20),
                attributes,
            )
                .prop_map(|(t0, dt, samples, attributes)| {
                    Value::Waveform(Arc::new(Waveform {
                        t0,
                        dt,
                        samples,
                        attributes,
                    }))
                })
                .boxed()
        }
    }
}

fn elements(
    element: ElementType,
    count: std::ops::RangeInclusive<usize>,
) -> BoxedStrategy<Elements> {
    macro_rules! of {
        ($variant:ident, $item:expr) => {
            vec($item, count).prop_map(Elements::$variant).boxed()
        };
    }
    match element {
        ElementType::Bool => of!(Bool, any::<bool>()),
        ElementType::I8 => of!(I8, any::<i8>()),
        ElementType::I16 => of!(I16, any::<i16>()),
        ElementType::I32 => of!(I32, any::<i32>()),
        ElementType::I64 => of!(I64, any::<i64>()),
        ElementType::U8 => of!(U8, any::<u8>()),
        ElementType::U16 => of!(U16, any::<u16>()),
        ElementType::U32 => of!(U32, any::<u32>()),
        ElementType::U64 => of!(U64, any::<u64>()),
        ElementType::F32 => of!(F32, prop::num::f32::ANY),
        ElementType::F64 => of!(F64, prop::num::f64::ANY),
        ElementType::String => of!(String, any::<String>().prop_map(Arc::from)),
        ElementType::Timestamp => of!(Timestamp, timestamp()),
    }
}

/// Replaces every NaN with the same NaN, because JSON and text have only one NaN.
pub fn normal(value: &Value, ty: &DataType) -> Value {
    let number = |v: f64| if v.is_nan() { f64::NAN } else { v };
    let small = |v: f32| if v.is_nan() { f32::NAN } else { v };
    let all = |elements: &Elements| match elements {
        Elements::F32(v) => Elements::F32(v.iter().map(|v| small(*v)).collect()),
        Elements::F64(v) => Elements::F64(v.iter().map(|v| number(*v)).collect()),
        other => other.clone(),
    };
    match (value, ty) {
        (Value::F32(v), _) => Value::F32(small(*v)),
        (Value::F64(v), _) => Value::F64(number(*v)),
        (Value::Array(array), _) => {
            let elements = all(array.elements());
            Value::Array(Arc::new(
                Array::new(array.shape().to_vec(), elements).expect("the shape is unchanged"),
            ))
        }
        (Value::Struct(fields), DataType::Struct(ty)) => fields
            .iter()
            .zip(&ty.fields)
            .map(|(field, (_, ty))| normal(field, ty))
            .collect::<Vec<_>>()
            .into_value(),
        (Value::Waveform(wave), _) => {
            let attributes = wave.attributes.iter();
            let attributes = attributes.map(|(name, v)| (name.clone(), normal(v, &DataType::Bool)));
            Value::Waveform(Arc::new(Waveform {
                t0: wave.t0,
                dt: number(wave.dt),
                samples: all(&wave.samples),
                attributes: attributes.collect(),
            }))
        }
        (other, _) => other.clone(),
    }
}

trait IntoValue {
    fn into_value(self) -> Value;
}

impl IntoValue for Vec<Value> {
    fn into_value(self) -> Value {
        Value::Struct(self.into())
    }
}

/// Returns the wire form of a value, for comparison: it distinguishes -0.0 from 0.0, and NaNs with
/// the same bits compare equal.
pub fn bits(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    crate::wire::encode_value(value, &mut out);
    out
}
