use std::sync::Arc;

use proptest::prelude::*;

use crate::arbitrary::data_type;
use crate::wire::{DecodeError, Reader, VariablesDecoder, VariablesEncoder, put_str, put_varint};
use crate::{DataType, Properties, VariableDefinition};

fn decode(bytes: &[u8]) -> Result<Vec<VariableDefinition>, DecodeError> {
    let (mut decoder, mut reader) = (VariablesDecoder::default(), Reader::new(bytes));
    let mut found = Vec::new();
    while !reader.is_empty() {
        found.push(decoder.take(&mut reader)?);
    }
    Ok(found)
}

fn encode(variables: &[VariableDefinition]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (VariablesEncoder::default(), Vec::new());
    for variable in variables {
        encoder.put(variable, &mut bytes);
    }
    bytes
}

#[test]
fn shared_properties_are_written_once_and_shared_again() {
    let shared = Arc::new(Properties::new(DataType::F64));
    let variable = |number: usize| VariableDefinition {
        path: format!("v{number}"),
        properties: Arc::clone(&shared),
    };
    let variables: Vec<_> = (0..1000).map(variable).collect();
    let bytes = encode(&variables);
    let names: usize = variables.iter().map(|v| v.path.len() + 2).sum();
    assert!(bytes.len() < names + 40, "{} bytes", bytes.len());
    let found = decode(&bytes).expect("it was just written");
    assert_eq!(found, variables);
    assert!(Arc::ptr_eq(&found[0].properties, &found[999].properties));
}

#[test]
fn reference_to_properties_never_written_is_refused() {
    for back in [1, 2, 17, u64::MAX] {
        let mut bytes = Vec::new();
        put_str(&mut bytes, "a");
        put_varint(&mut bytes, back);
        let error = decode(&bytes).expect_err("nothing was written before");
        let DecodeError::Unexpected { found, offset, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((found, offset), (back, 2));
    }
}

fn variables() -> impl Strategy<Value = Vec<VariableDefinition>> {
    let types = prop::collection::vec(data_type(), 1..40);
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 0..200);
    (types, picks).prop_map(|(types, picks)| {
        let templates = types.into_iter().map(|ty| Arc::new(Properties::new(ty)));
        let templates: Vec<_> = templates.collect();
        let variable = |(number, pick): (usize, &prop::sample::Index)| VariableDefinition {
            path: format!("group {}/v{number}", number % 7),
            properties: Arc::clone(pick.get(&templates)),
        };
        picks.iter().enumerate().map(variable).collect()
    })
}

proptest! {
    #[test]
    fn every_list_round_trips(variables in variables()) {
        let bytes = encode(&variables);
        prop_assert_eq!(decode(&bytes).expect("it was just written"), variables);
        for cut in 0..bytes.len().min(300) {
            let _ = decode(&bytes[..cut]);
        }
    }
}
