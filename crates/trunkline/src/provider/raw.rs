//! Conversion of values between the device and the engine.

use trunkline_client::{ProviderReply, Publication};
use trunkline_io::Published;
use trunkline_types::{DataType, Quality, Reason, Scaling, Timestamp, Value};

/// Returns a publication without a value, which makes the variable's quality bad.
pub(super) fn bad(handle: u32, reason: Reason) -> Publication {
    Publication {
        handle,
        value: None,
        quality: Quality::bad(reason),
        source_timestamp: None,
    }
}

/// Returns a published reading as the engine gets it, for the variable `handle` of type `data_type`.
pub(super) fn publication(handle: u32, published: &Published, data_type: &DataType) -> Publication {
    let value = published.value.as_ref();
    match value.map(|value| converted(value, data_type)) {
        Some(None) => bad(handle, Reason::OutOfRange),
        value => Publication {
            handle,
            value: value.flatten(),
            quality: published.quality,
            source_timestamp: published.source_timestamp,
        },
    }
}

/// Returns the reply to an order after which the device has the value `value`.
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
            let sentence =
                format!("the device read back {value:?}, which is not of type {data_type}");
            ProviderReply::Refused(sentence)
        }
    }
}

/// Converts a raw number of the device to the variable's numeric type. Returns `None` if the number
/// is out of range.
fn converted(value: &Value, data_type: &DataType) -> Option<Value> {
    const UNSCALED: Scaling = Scaling::Linear {
        raw: [0.0, 1.0],
        eng: [0.0, 1.0],
    };
    match value.has_type(data_type) {
        true => Some(value.clone()),
        false => UNSCALED.to_engineering(value, data_type).ok(),
    }
}
