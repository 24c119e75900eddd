//! Libraries and values to store.

use std::sync::Arc;

use trunkline_engine::LibraryState;
use trunkline_engine::store::{RetainedValue, StoredLibrary};
use trunkline_types::{
    DataType, LibraryDefinition, Properties, Quality, Timestamp, Value, VariableDefinition, wire,
};

/// A library of `count` variables `v0`, `v1` and so on, f64, each tenth with a description.
pub fn library(name: &str, count: usize) -> StoredLibrary {
    let plain = Arc::new(Properties::new(DataType::F64));
    let variable = |number: usize| {
        let mut properties = Arc::clone(&plain);
        if number % 10 == 9 {
            Arc::make_mut(&mut properties).description = format!("number {number}");
        }
        VariableDefinition {
            path: format!("v{number}"),
            properties,
        }
    };
    StoredLibrary {
        definition: LibraryDefinition {
            name: name.to_owned(),
            description: format!("{count} variables"),
            variables: (0..count).map(variable).collect(),
        },
        state: LibraryState::Running,
    }
}

/// A value that is to be kept.
pub fn value(name: &str, value: Value) -> RetainedValue {
    let mut bytes = Vec::new();
    wire::encode_value(&value, &mut bytes);
    RetainedValue {
        name: name.to_owned(),
        data_type: match value {
            Value::Bool(_) => DataType::Bool,
            _ => DataType::F64,
        },
        value: bytes,
        source_timestamp: Timestamp::from_nanos(1_700_000_000_000_000_000),
        quality: Quality::GOOD,
    }
}
