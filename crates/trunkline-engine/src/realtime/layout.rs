//! An element of a real-time FIFO as words.
//!
//! ```text
//! scalar     [ value ] [ source timestamp ]
//! array      [ element 0 ] .. [ element length-1 ] [ source timestamp ]
//! waveform   [ t0, ns ] [ dt, f64 bits ] [ sample 0 ] .. [ sample length-1 ] [ source timestamp ]
//! ```
//! Integers are sign-extended, the timestamp is left out where the variable carries none.

use trunkline_types::{DataType, ElementType, Fifo, Properties, Timestamp, wire};

use crate::update::{Encoded, Update};

/// How the values of one variable lie in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    shape: Shape,
    /// Elements of the value.
    length: usize,
    /// Bytes of one element in wire form.
    size: usize,
    signed: bool,
    stamped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Scalar,
    Array,
    Waveform,
}

/// Words before the samples of a waveform.
const WAVEFORM_WORDS: usize = 2;

impl Layout {
    /// The layout for these properties; `None` when no FIFO is configured.
    ///
    /// # Errors
    /// A sentence when the type cannot be in a FIFO.
    pub(crate) fn new(properties: &Properties) -> Result<Option<Self>, String> {
        let length = match properties.fifo {
            Fifo::Off => return Ok(None),
            Fifo::Single { length } | Fifo::Multi { length, .. } => length.max(1) as usize,
        };
        let (shape, length, element) = match &properties.data_type {
            data_type if super::is_slot_type(data_type) => (Shape::Scalar, 1, None),
            DataType::Array(ty) => match ty.shape.as_slice() {
                [Some(fixed)] => (Shape::Array, *fixed as usize, Some(ty.element)),
                [None] => (Shape::Array, length, Some(ty.element)),
                _ => {
                    return Err("a real-time FIFO takes one-dimensional arrays only; \
                                flatten the array or switch `fifo` off"
                        .to_owned());
                }
            },
            DataType::Waveform(element) => (Shape::Waveform, length, Some(*element)),
            other => {
                return Err(format!(
                    "a real-time FIFO cannot hold {other}; it takes scalars, and arrays and \
                     waveforms of fixed length"
                ));
            }
        };
        let (size, signed) = match element {
            Some(ElementType::String) => {
                return Err("a real-time FIFO cannot hold text; its length is not fixed".to_owned());
            }
            Some(element) => (element.fixed_size().unwrap_or(8), is_signed(&element.data_type())),
            None => (
                properties.data_type.fixed_size().unwrap_or(8),
                is_signed(&properties.data_type),
            ),
        };
        Ok(Some(Self { shape, length, size, signed, stamped: properties.timestamps }))
    }

    /// Words of one element, timestamp included.
    pub(crate) fn words(&self) -> usize {
        let head = if self.shape == Shape::Waveform { WAVEFORM_WORDS } else { 0 };
        head + self.length + usize::from(self.stamped)
    }

    /// Writes an update's value and timestamp into `words`. False when its length is not the declared.
    pub(crate) fn to_words(&self, update: &Update, words: &mut [u64]) -> bool {
        let mut reader = wire::Reader::new(update.value.as_slice());
        let head = match self.shape {
            Shape::Scalar => 0,
            Shape::Array => match reader.varint() {
                Ok(length) if length == self.length as u64 => 0,
                _ => return false,
            },
            Shape::Waveform => {
                let (Ok(t0), Ok(dt), Ok(length)) = (reader.i64(), reader.u64(), reader.varint())
                else {
                    return false;
                };
                if length != self.length as u64 {
                    return false;
                }
                words[0] = t0 as u64;
                words[1] = dt;
                WAVEFORM_WORDS
            }
        };
        for word in &mut words[head..head + self.length] {
            let Ok(bytes) = reader.bytes(self.size) else { return false };
            *word = self.extend(bytes);
        }
        if self.stamped {
            words[head + self.length] = update.source_timestamp.as_nanos() as u64;
        }
        true
    }

    /// The value in wire form and its timestamp, if it carries one.
    pub(crate) fn from_words(&self, words: &[u64]) -> (Encoded, Option<Timestamp>) {
        let mut bytes = Vec::with_capacity(16 + self.length * self.size);
        let head = match self.shape {
            Shape::Scalar => 0,
            Shape::Array => {
                wire::put_varint(&mut bytes, self.length as u64);
                0
            }
            Shape::Waveform => {
                bytes.extend_from_slice(&words[0].to_le_bytes());
                bytes.extend_from_slice(&words[1].to_le_bytes());
                wire::put_varint(&mut bytes, self.length as u64);
                WAVEFORM_WORDS
            }
        };
        for word in &words[head..head + self.length] {
            bytes.extend_from_slice(&word.to_le_bytes()[..self.size]);
        }
        if self.shape == Shape::Waveform {
            wire::put_varint(&mut bytes, 0);
        }
        let stamp =
            self.stamped.then(|| Timestamp::from_nanos(words[head + self.length] as i64));
        (Encoded::from_bytes(&bytes), stamp)
    }

    fn extend(&self, bytes: &[u8]) -> u64 {
        let mut word = [0u8; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let value = u64::from_le_bytes(word);
        if !self.signed || self.size == 8 {
            return value;
        }
        let shift = 64 - 8 * self.size as u32;
        (((value << shift) as i64) >> shift) as u64
    }
}

fn is_signed(data_type: &DataType) -> bool {
    matches!(data_type, DataType::I8 | DataType::I16 | DataType::I32 | DataType::I64)
}
