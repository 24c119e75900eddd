//! Types of the program, which are checked once, when a variable is opened.

use std::sync::Arc;

use trunkline_client::{EnumIndex, FromValue, IntoValue, OpenOptions, Typed, WriteOutcome};
use trunkline_types::{
    Array, ArrayType, DataType, ElementType, Elements, EnumType, Tick, Timestamp, Value,
};

use super::rig::Rig;

fn round_trip<T: FromValue + IntoValue + Clone + PartialEq + std::fmt::Debug>(
    value: T,
    data_type: &DataType,
) {
    assert!(T::reads(data_type), "{data_type}");
    let written = value.clone().into_value();
    assert!(written.has_type(data_type), "{data_type}");
    assert_eq!(T::from_value(&written), Some(value));
    assert!(!T::reads(&DataType::Struct(Arc::new(
        trunkline_types::StructType { fields: vec![] }
    ))));
}

#[test]
fn every_type_is_read_as_what_it_was_written_as() {
    let vector = |element| {
        DataType::Array(Arc::new(ArrayType {
            element,
            shape: vec![None],
        }))
    };
    round_trip(true, &DataType::Bool);
    round_trip(-8i8, &DataType::I8);
    round_trip(-16i16, &DataType::I16);
    round_trip(-32i32, &DataType::I32);
    round_trip(-64i64, &DataType::I64);
    round_trip(8u8, &DataType::U8);
    round_trip(16u16, &DataType::U16);
    round_trip(32u32, &DataType::U32);
    round_trip(64u64, &DataType::U64);
    round_trip(1.5f32, &DataType::F32);
    round_trip(2.5f64, &DataType::F64);
    round_trip("text".to_owned(), &DataType::String);
    round_trip(Arc::<str>::from("text"), &DataType::String);
    round_trip(Arc::<[u8]>::from([1, 2]), &DataType::Bytes);
    round_trip(Timestamp::from_nanos(9), &DataType::Timestamp);
    let labels = vec!["OFF".into(), "AUTO".into()];
    round_trip(EnumIndex(1), &DataType::Enum(Arc::new(EnumType { labels })));
    round_trip(vec![1.0f64, 2.0], &vector(ElementType::F64));
    round_trip(vec![1u8, 2], &vector(ElementType::U8));
    round_trip(vec![true], &vector(ElementType::Bool));
    let plane = ArrayType {
        element: ElementType::F64,
        shape: vec![None, None],
    };
    assert!(
        !Vec::<f64>::reads(&DataType::Array(Arc::new(plane))),
        "a plane is no vector"
    );
    let array = Arc::new(Array::vector(Elements::F64(vec![1.0])));
    round_trip(array, &vector(ElementType::F64));
    assert!(Value::reads(&DataType::F64) && Value::reads(&DataType::Bool));
}

#[test]
fn a_type_mismatch_is_an_error_when_the_variable_is_opened_and_only_then() {
    let mut rig = Rig::connected(&["a/b"]);
    let opened = rig.open(&["a/b"]).remove(0);
    let error = Typed::<i32>::new(&opened).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the variable is f64, but this program expects i32; use f64 in the program"
    );
    let level = Typed::<f64>::new(&opened).unwrap();
    let batch = rig.client.write([level.write(4.5)]).unwrap();
    rig.exchange();
    assert!(matches!(
        rig.client.take_outcomes(batch).unwrap()[0],
        WriteOutcome::Applied(_)
    ));
    let id = rig.subscribe(&["a/b"], "latest");
    rig.set("a/b", 4.5);
    let reading = rig.readings(id).remove(0);
    assert_eq!(level.value(&reading), Ok(4.5));
}

#[test]
fn typed_handle_reports_a_variable_replaced_by_another_type() {
    let mut rig = Rig::connected(&["a/b"]);
    let opened = rig.open(&["a/b"]).remove(0);
    let level = Typed::<f64>::new(&opened).unwrap();
    rig.cut();
    rig.engine.variable(100).data_type = DataType::I32;
    rig.engine.variable(100).value = Some(Value::I32(5));
    rig.connect();
    let read = rig.client.read(&[level.variable()]).unwrap();
    let reading = rig.answer_readings(read).remove(0).unwrap();
    assert_eq!(level.value(&reading).unwrap_err().actual, "i32");
    let batch = rig.client.write([level.write(1.0)]).unwrap();
    rig.exchange();
    assert!(matches!(
        rig.client.take_outcomes(batch).unwrap()[0],
        WriteOutcome::Refused(_)
    ));
}

#[test]
fn the_item_of_a_subscription_can_be_typed_and_written() {
    let mut rig = Rig::connected(&["a/b"]);
    let id = rig.subscribe(&["a/b"], "latest");
    let item = rig.client.item(id, 0).unwrap();
    let level = Typed::<f64>::of(item.variable, &item.data_type.unwrap()).unwrap();
    rig.client
        .write_untracked([level.write(1.0)], Tick::MAX)
        .unwrap();
    rig.exchange();
    assert_eq!(rig.client.write_counts().applied, 1);
    assert_eq!(&*item.name, "a/b");
    let described = OpenOptions {
        describe: true,
        ..OpenOptions::default()
    };
    let max_age = Some(std::time::Duration::from_secs(1));
    rig.engine.variable(100).properties.max_age = max_age;
    let open = rig.client.open(&["a/b"], described).unwrap();
    rig.answer(open).unwrap();
    rig.pass(std::time::Duration::from_secs(2));
    assert!(
        rig.client.value(rig.now, id, 0).unwrap().stale.is_some(),
        "its properties say so"
    );
}
