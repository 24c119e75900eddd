//! Device values in the form in which they are sent.

use trunkline_client::{ProviderReply, Publication};
use trunkline_types::{DataType, Quality, Reason, Scaling, Timestamp, Value};

/// Returns a publication without a value, which makes the variable bad.
pub(super) fn bad(handle: u32, reason: Reason) -> Publication {
    Publication {
        handle,
        value: None,
        quality: Quality::bad(reason),
        source_timestamp: None,
    }
}

/// Returns the reply to an order that left the device at `value`.
pub(super) fn applied(
    value: &Value,
    data_type: &DataType,
    quality: Quality,
    source_timestamp: Option<Timestamp>,
) -> ProviderReply {
    match converted(value, data_type) {
        Some(value) => ProviderReply::Applied {
            value,
            quality,
            source_timestamp,
        },
        None => {
            let sentence = format!("it read back {value:?}, which is not of type {data_type}");
            ProviderReply::Refused(sentence)
        }
    }
}

/// Converts a raw number of the device to the variable's numeric type for sending; `None` if it
/// does not fit.
pub(super) fn converted(value: &Value, data_type: &DataType) -> Option<Value> {
    const AS_IT_IS: Scaling = Scaling::Linear {
        raw: [0.0, 1.0],
        eng: [0.0, 1.0],
    };
    match value.has_type(data_type) {
        true => Some(value.clone()),
        false => AS_IT_IS.to_engineering(value, data_type).ok(),
    }
}
