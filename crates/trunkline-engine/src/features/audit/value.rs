//! Values in the audit trail: stored in wire form while queued, converted to text later.

use trunkline_types::audit::{AUDIT_VALUE_BYTES_MAX, cut};
use trunkline_types::text::{FormatOptions, format_value};
use trunkline_types::{DataType, Value, wire};

use crate::update::{Encoded, Update};
use crate::write::WriteValue;

/// Maximum length of a value stored in a note, in bytes. For a longer value, only the length is
/// recorded.
const VALUE_BYTES_MAX: usize = 4096;
/// Maximum number of array elements or bytes in the text.
const ELEMENTS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub(crate) enum AuditedValue {
    Nothing,
    Value(Encoded),
    /// A value that is too long to be stored, with its length in bytes.
    Long(usize),
    Text(Box<str>),
}

impl AuditedValue {
    pub(crate) fn of(value: &Encoded) -> Self {
        match value.shared_bytes() {
            bytes if bytes > VALUE_BYTES_MAX => AuditedValue::Long(bytes),
            _ => AuditedValue::Value(value.clone()),
        }
    }

    pub(crate) fn of_update(update: &Update) -> Self {
        match update.sequence {
            0 => AuditedValue::Nothing,
            _ => Self::of(&update.value),
        }
    }

    /// Returns the value to be written, even if the variable cannot hold it.
    pub(super) fn of_written(value: &WriteValue<'_>, data_type: &DataType) -> Self {
        match value {
            WriteValue::Value(value) if !value.has_type(data_type) => {
                AuditedValue::Text(Box::from("(a value of another type)"))
            }
            WriteValue::Value(value) => match wire::encoded_len(value) {
                bytes if bytes > VALUE_BYTES_MAX => AuditedValue::Long(bytes),
                _ => AuditedValue::Value(Encoded::from_value(value)),
            },
            WriteValue::Wire(bytes) => Self::of_wire(bytes, data_type),
            WriteValue::Encoded(value) => Self::of_wire(value.as_slice(), data_type),
        }
    }

    fn of_wire(bytes: &[u8], data_type: &DataType) -> Self {
        if bytes.len() > VALUE_BYTES_MAX {
            return AuditedValue::Long(bytes.len());
        }
        match wire::check_value(data_type, bytes) {
            Ok(()) => match Encoded::try_from_bytes(bytes) {
                Ok(value) => AuditedValue::Value(value),
                Err(_) => AuditedValue::Long(bytes.len()),
            },
            Err(_) => {
                let text = format!("({} bytes that are not a valid value)", bytes.len());
                AuditedValue::Text(text.into())
            }
        }
    }

    pub(super) fn text(&self, data_type: &DataType) -> String {
        let text = match self {
            AuditedValue::Nothing => String::new(),
            AuditedValue::Long(bytes) => format!("({bytes} bytes)"),
            AuditedValue::Text(text) => text.to_string(),
            AuditedValue::Value(value) => value_text(&value.decode(data_type), data_type),
        };
        cut(&text, AUDIT_VALUE_BYTES_MAX)
    }
}

fn value_text(value: &Value, data_type: &DataType) -> String {
    let options = FormatOptions {
        elide: Some(ELEMENTS_MAX),
        ..FormatOptions::default()
    };
    format_value(value, data_type, &options)
}
