//! One numbered update, with its value in wire form.

use std::sync::Arc;

use trunkline_types::{DataType, Quality, Timestamp, Value, wire};

/// Bytes of a value that are kept in place; longer values are counted buffers.
pub const INLINE_BYTES: usize = 24;

/// A value in wire form: what cells and queues hold and what is copied to the network.
#[derive(Clone, Debug)]
pub struct Encoded(Form);

#[derive(Clone, Debug)]
enum Form {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Shared(Arc<[u8]>),
}

impl Encoded {
    /// No value: nothing was written yet.
    pub const EMPTY: Encoded = Encoded(Form::Inline {
        len: 0,
        bytes: [0; INLINE_BYTES],
    });

    /// A copy of `bytes`, which are a value's wire form.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut inline = [0; INLINE_BYTES];
        match inline.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Self(Form::Inline {
                    len: bytes.len() as u8,
                    bytes: inline,
                })
            }
            None => Self(Form::Shared(Arc::from(bytes))),
        }
    }

    /// The wire form of `value`.
    pub fn from_value(value: &Value) -> Self {
        match value {
            Value::F64(v) => Self::from_bytes(&v.to_le_bytes()),
            Value::F32(v) => Self::from_bytes(&v.to_le_bytes()),
            Value::I64(v) => Self::from_bytes(&v.to_le_bytes()),
            Value::I32(v) => Self::from_bytes(&v.to_le_bytes()),
            Value::Bool(v) => Self::from_bytes(&[u8::from(*v)]),
            other => {
                let mut bytes = Vec::new();
                wire::encode_value(other, &mut bytes);
                Self::from_bytes(&bytes)
            }
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Form::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Form::Shared(bytes) => bytes,
        }
    }

    /// The counted buffer, when the value is too long to be kept in place.
    pub(crate) fn shared(&self) -> Option<&Arc<[u8]>> {
        match &self.0 {
            Form::Inline { .. } => None,
            Form::Shared(bytes) => Some(bytes),
        }
    }

    /// Bytes that it holds beside itself.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.shared().map_or(0, |bytes| bytes.len())
    }

    pub(crate) fn from_shared(bytes: Arc<[u8]>) -> Self {
        Self(Form::Shared(bytes))
    }

    /// The value; the type's default when the bytes are not one of `data_type`, which the write
    /// path excludes by checking every value before it commits it.
    pub fn decode(&self, data_type: &DataType) -> Value {
        let mut reader = wire::Reader::new(self.as_slice());
        wire::decode_value(data_type, &mut reader).unwrap_or_else(|_| Value::default_of(data_type))
    }
}

/// One update of a variable, as commit numbered it.
#[derive(Clone, Debug)]
pub struct Update {
    /// Its number within the epoch; 0 when nothing was written yet.
    pub sequence: u64,
    /// When the value was measured.
    pub source_timestamp: Timestamp,
    /// When the engine accepted it.
    pub engine_timestamp: Timestamp,
    /// How far it can be trusted.
    pub quality: Quality,
    /// The session that wrote it; 0 for the engine and its I/O servers.
    pub writer: u32,
    /// The value; empty when `sequence` is 0.
    pub value: Encoded,
}
