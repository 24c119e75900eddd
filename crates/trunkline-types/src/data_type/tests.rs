use std::sync::Arc;

use super::{
    ARRAY_RANK_MAX, ArrayType, DataType, ElementType, EnumType, LABEL_BYTES_MAX, StructType,
    TypeError,
};

fn labels(labels: &[&str]) -> DataType {
    let labels = labels.iter().map(|label| Arc::from(*label)).collect();
    DataType::Enum(Arc::new(EnumType { labels }))
}

fn fields(fields: &[(&str, DataType)]) -> DataType {
    let fields = fields
        .iter()
        .map(|(name, ty)| (Arc::from(*name), ty.clone()))
        .collect();
    DataType::Struct(Arc::new(StructType { fields }))
}

fn array(shape: &[Option<u32>]) -> DataType {
    let (element, shape) = (ElementType::String, shape.to_vec());
    DataType::Array(Arc::new(ArrayType { element, shape }))
}

#[test]
fn types_that_no_variable_can_have_are_refused() {
    let long = "x".repeat(LABEL_BYTES_MAX + 1);
    let many: Vec<String> = (0..65_537).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let wide: Vec<(&str, DataType)> = many[..1025]
        .iter()
        .map(|name| (*name, DataType::U8))
        .collect();
    for (ty, error) in [
        (labels(&[]), TypeError::NoLabels),
        (labels(&many), TypeError::TooManyLabels { count: 65_537 }),
        (
            labels(&["A", "B", "A"]),
            TypeError::DuplicateLabel { label: "A".into() },
        ),
        (labels(&[&long]), TypeError::LabelTooLong { bytes: 1025 }),
        (array(&[]), TypeError::Rank { rank: 0 }),
        (
            array(&[None; ARRAY_RANK_MAX + 1]),
            TypeError::Rank { rank: 9 },
        ),
        (
            array(&[Some(1 << 20), Some(2)]),
            TypeError::TooLarge { bytes: 32 << 20 },
        ),
        (
            array(&[Some(u32::MAX); 8]),
            TypeError::TooLarge { bytes: u64::MAX },
        ),
        (fields(&[]), TypeError::NoFields),
        (fields(&wide), TypeError::TooManyFields { count: 1025 }),
        (
            fields(&[("a", DataType::U8), ("", DataType::U8)]),
            TypeError::UnnamedField { position: 2 },
        ),
        (
            fields(&[("a", DataType::U8), ("a", DataType::I8)]),
            TypeError::DuplicateField { name: "a".into() },
        ),
        (fields(&[("a", labels(&[]))]), TypeError::NoLabels),
    ] {
        assert_eq!(ty.check(), Err(error));
    }
    for ty in [
        labels(&many[..65_536]),
        labels(&["", " "]),
        fields(&wide[..1024]),
        array(&[Some(u32::MAX), None]),
        array(&[Some(0), Some(u32::MAX)]),
        DataType::Waveform(ElementType::String),
    ] {
        assert_eq!(ty.check(), Ok(()));
    }
}

#[test]
fn element_types_are_the_scalars_but_bytes_and_enums() {
    for element in [
        ElementType::Bool,
        ElementType::F64,
        ElementType::String,
        ElementType::Timestamp,
    ] {
        assert_eq!(ElementType::of(&element.data_type()), Some(element));
        assert_eq!(element.fixed_size(), element.data_type().fixed_size());
    }
    assert_eq!(ElementType::of(&DataType::Bytes), None);
    assert_eq!(ElementType::of(&labels(&["A"])), None);
}
