//! Defines the Rust types that can be elements of a stream, and the layout of elements in a buffer.

use std::sync::Arc;

use bytemuck::Pod;
use trunkline_proto::stream::ElementForm;
use trunkline_types::wire::{DecodeError, decode_exact, encode_value};
use trunkline_types::{Array, ArrayType, DataType, ElementType, Elements, Timestamp, Value};

use crate::error::StreamError;

/// Size of the length prefix of an element that varies in size, in bytes.
pub(crate) const LENGTH_BYTES: usize = 4;

/// A type whose values are elements of a stream: numbers, Booleans, times, text, and
/// one-dimensional arrays of numbers. Elements of every other Trunkline type are [`Value`]s of a
/// [`ValueWriter`](crate::ValueWriter).
pub trait Element: Clone + Send + 'static + sealed::Sealed {
    /// The type that both ends agree on.
    fn data_type() -> DataType;

    /// Returns the elements in buffer layout; `scratch` is used for types whose layout in memory
    /// differs.
    #[doc(hidden)]
    fn to_bytes<'a>(elements: &'a [Self], scratch: &'a mut Vec<u8>) -> &'a [u8];

    /// Decodes the elements in `bytes` and appends them to `out`. `bytes` contains only complete
    /// elements.
    #[doc(hidden)]
    fn append(bytes: &[u8], out: &mut Vec<Self>) -> Result<(), DecodeError>;

    /// Checks that one call may read these elements: arrays must have equal lengths (NS-35).
    #[doc(hidden)]
    fn check_equal(elements: &[Self]) -> Result<(), StreamError> {
        let _ = elements;
        Ok(())
    }
}

/// A type that has the same layout in a stream's buffer as in memory, and can be used in place.
pub trait Plain: Element + Pod {}

mod sealed {
    /// Restricts elements to the types in this module. The methods transfer a single element of a
    /// [`Plain`](super::Plain) type with only one copy.
    pub trait Sealed: Sized {
        /// Returns the element's bytes; `None` if the layout in the buffer is different.
        fn plain_bytes(&self) -> Option<&[u8]> {
            None
        }

        /// Reads an element with `read`, which fills the bytes or returns false.
        fn read_plain(read: impl FnOnce(&mut [u8]) -> bool) -> Option<Self> {
            let _ = read;
            None
        }
    }
}

/// Returns the size of an element of this type, in bytes; `None` if elements vary in size.
pub fn element_bytes(data_type: &DataType) -> Option<usize> {
    match form(data_type) {
        ElementForm::Fixed(size) => Some(size as usize),
        ElementForm::Variable => None,
    }
}

pub(crate) fn form(data_type: &DataType) -> ElementForm {
    match fixed_bytes(data_type).and_then(|bytes| u32::try_from(bytes).ok()) {
        Some(bytes) if bytes > 0 => ElementForm::Fixed(bytes),
        _ => ElementForm::Variable,
    }
}

/// Returns the encoded size of a value in bytes, if all values of the type have the same size. A
/// struct has a fixed size if all its fields do.
fn fixed_bytes(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Struct(fields) => fields.fields.iter().try_fold(0_usize, |sum, (_, field)| {
            sum.checked_add(fixed_bytes(field)?)
        }),
        scalar => scalar.fixed_size(),
    }
}

/// Returns the size of an element in bytes, or an error if elements vary in size.
pub(crate) fn size(form: ElementForm, data_type: &DataType) -> Result<usize, StreamError> {
    match form {
        ElementForm::Fixed(size) => Ok(size as usize),
        ElementForm::Variable => Err(StreamError::VariableSize {
            data_type: data_type.clone(),
        }),
    }
}

/// Returns true if any bytes of the right length are a valid value of the type.
pub(crate) fn takes_any_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp => true,
        DataType::Struct(fields) => fields
            .fields
            .iter()
            .all(|(_, field)| takes_any_bytes(field)),
        other => other.is_numeric(),
    }
}

/// # Errors
/// The arrays among the values differ in shape (NS-35).
pub(crate) fn check_equal_values(values: &[Value]) -> Result<(), StreamError> {
    let mut arrays = values.iter().filter_map(|value| match value {
        Value::Array(array) => Some(array),
        _ => None,
    });
    let Some(first) = arrays.next() else {
        return Ok(());
    };
    match arrays.find(|array| array.shape() != first.shape()) {
        Some(other) => Err(StreamError::UnequalLengths {
            first: first.elements().len(),
            other: other.elements().len(),
        }),
        None => Ok(()),
    }
}

pub(crate) fn put_value(form: ElementForm, value: &Value, out: &mut Vec<u8>) {
    put(form, out, |out| encode_value(value, out));
}

fn put(form: ElementForm, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    if let ElementForm::Fixed(_) = form {
        return encode(out);
    }
    let at = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    encode(out);
    // Values are bounded far below `u32::MAX`.
    let len = u32::try_from(out.len() - at - LENGTH_BYTES).unwrap_or(u32::MAX);
    out[at..at + LENGTH_BYTES].copy_from_slice(&len.to_le_bytes());
}

/// Splits `bytes` into elements, without the length prefixes of elements that vary in size.
pub(crate) fn split_elements(form: ElementForm, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (element, remaining) = match form {
            ElementForm::Fixed(size) => rest.split_at_checked(size as usize)?,
            ElementForm::Variable => {
                let (len, remaining) = rest.split_first_chunk::<LENGTH_BYTES>()?;
                remaining.split_at_checked(u32::from_le_bytes(*len) as usize)?
            }
        };
        rest = remaining;
        Some(element)
    })
}

macro_rules! plain {
    ($($rust:ty => $data_type:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {
            #[inline]
            fn plain_bytes(&self) -> Option<&[u8]> {
                Some(bytemuck::bytes_of(self))
            }

            #[inline]
            fn read_plain(read: impl FnOnce(&mut [u8]) -> bool) -> Option<Self> {
                let mut element = Self::default();
                read(bytemuck::bytes_of_mut(&mut element)).then_some(element)
            }
        }

        impl Element for $rust {
            fn data_type() -> DataType {
                DataType::$data_type
            }

            fn to_bytes<'a>(elements: &'a [Self], _: &'a mut Vec<u8>) -> &'a [u8] {
                bytemuck::cast_slice(elements)
            }

            fn append(bytes: &[u8], out: &mut Vec<Self>) -> Result<(), DecodeError> {
                let start = out.len();
                out.resize(start + bytes.len() / size_of::<Self>(), <$rust>::default());
                bytemuck::cast_slice_mut(&mut out[start..]).copy_from_slice(bytes);
                Ok(())
            }
        }

        impl Plain for $rust {}
    )*};
}

plain! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64,
}

// Streams are little-endian, like every machine that Trunkline runs on.
const _: () = assert!(cfg!(target_endian = "little"));

/// Implements [`Element`] for types that are converted through [`Value`].
macro_rules! by_value {
    ($($rust:ty: $data_type:expr, $to:expr, $from:pat => $back:expr;)*) => {$(
        impl sealed::Sealed for $rust {}

        impl Element for $rust {
            fn data_type() -> DataType {
                $data_type
            }

            fn to_bytes<'a>(elements: &'a [Self], scratch: &'a mut Vec<u8>) -> &'a [u8] {
                let form = form(&Self::data_type());
                scratch.clear();
                let to: fn(&$rust) -> Value = $to;
                elements.iter().for_each(|element| put_value(form, &to(element), scratch));
                scratch
            }

            fn append(bytes: &[u8], out: &mut Vec<Self>) -> Result<(), DecodeError> {
                let data_type = Self::data_type();
                for element in split_elements(form(&data_type), bytes) {
                    if let $from = decode_exact(&data_type, element)? {
                        out.push($back);
                    }
                }
                Ok(())
            }
        }
    )*};
}

by_value! {
    bool: DataType::Bool, |v| Value::Bool(*v), Value::Bool(v) => v;
    Timestamp: DataType::Timestamp, |v| Value::Timestamp(*v), Value::Timestamp(v) => v;
    String: DataType::String,
        |v| Value::String(v.as_str().into()), Value::String(v) => v.to_string();
}

fn vector_of(element: ElementType) -> DataType {
    let shape = vec![None];
    DataType::Array(Arc::new(ArrayType { element, shape }))
}

/// Implements [`Element`] for arrays of numbers of any length.
macro_rules! vectors {
    ($($rust:ty => $element:ident),* $(,)?) => {$(
        impl sealed::Sealed for Vec<$rust> {}

        impl Element for Vec<$rust> {
            fn data_type() -> DataType {
                vector_of(ElementType::$element)
            }

            fn to_bytes<'a>(elements: &'a [Self], scratch: &'a mut Vec<u8>) -> &'a [u8] {
                scratch.clear();
                for element in elements {
                    let array = Array::vector(Elements::$element(element.clone()));
                    put_value(ElementForm::Variable, &Value::Array(array.into()), scratch);
                }
                scratch
            }

            fn append(bytes: &[u8], out: &mut Vec<Self>) -> Result<(), DecodeError> {
                let data_type = Self::data_type();
                for element in split_elements(ElementForm::Variable, bytes) {
                    if let Value::Array(array) = decode_exact(&data_type, element)?
                        && let Elements::$element(elements) = array.elements()
                    {
                        out.push(elements.to_vec());
                    }
                }
                Ok(())
            }

            fn check_equal(elements: &[Self]) -> Result<(), StreamError> {
                let Some(first) = elements.first().map(Vec::len) else {
                    return Ok(());
                };
                match elements.iter().map(Vec::len).find(|length| *length != first) {
                    Some(other) => Err(StreamError::UnequalLengths { first, other }),
                    None => Ok(()),
                }
            }
        }
    )*};
}

vectors! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64,
}
