//! An element of a real-time FIFO as words.
//!
//! ```text
//! scalar     [ value ] [ source timestamp ]
//! array      [ element 0 ] .. [ element length-1 ] [ source timestamp ]
//! waveform   [ t0, ns ] [ dt, f64 bits ] [ sample 0 ] .. [ sample length-1 ] [ source timestamp ]
//! ```
//! Integers are sign-extended, the timestamp is left out where the variable carries none.

use trunkline_types::{DataType, ElementType, Fifo, Properties, Timestamp, wire};

use crate::outcome::Refusal;
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
            Fifo::Single { length: 0 } | Fifo::Multi { length: 0, .. } => {
                return Err("an element of the FIFO is never empty; set `fifo.length`".to_owned());
            }
            Fifo::Single { length } | Fifo::Multi { length, .. } => length as usize,
        };
        let (shape, length, element) = match &properties.data_type {
            data_type if super::is_slot_type(data_type) => (Shape::Scalar, 1, None),
            DataType::Array(ty) => match ty.shape.as_slice() {
                [Some(0)] => {
                    return Err("an array of length 0 has nothing for a FIFO to hold".to_owned());
                }
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
            Some(element) => (
                element.fixed_size().unwrap_or(8),
                is_signed(&element.data_type()),
            ),
            None => (
                properties.data_type.fixed_size().unwrap_or(8),
                is_signed(&properties.data_type),
            ),
        };
        Ok(Some(Self {
            shape,
            length,
            size,
            signed,
            stamped: properties.timestamps,
        }))
    }

    /// Words of one element, timestamp included.
    pub(crate) fn words(&self) -> usize {
        let head = if self.shape == Shape::Waveform {
            WAVEFORM_WORDS
        } else {
            0
        };
        head + self.length + usize::from(self.stamped)
    }

    /// Whether a value in wire form has the declared number of elements. Attributes of a waveform
    /// do not travel through a FIFO and do not count.
    pub(crate) fn check_length(&self, bytes: &[u8]) -> Result<(), Refusal> {
        let expected = self.length as u64;
        match self.head(&mut wire::Reader::new(bytes)) {
            Some(head) if head.length == expected => Ok(()),
            head => Err(Refusal::Length {
                expected,
                given: head.map_or(0, |head| head.length),
            }),
        }
    }

    /// What stands before the elements of a value in wire form.
    fn head(&self, reader: &mut wire::Reader<'_>) -> Option<Head> {
        match self.shape {
            Shape::Scalar => Some(Head {
                waveform: None,
                length: 1,
            }),
            Shape::Array => Some(Head {
                waveform: None,
                length: reader.varint().ok()?,
            }),
            Shape::Waveform => {
                let (t0, dt) = (reader.u64().ok()?, reader.u64().ok()?);
                Some(Head {
                    waveform: Some([t0, dt]),
                    length: reader.varint().ok()?,
                })
            }
        }
    }

    /// Writes an update's value and timestamp into `words`. False when its length is not the
    /// declared.
    pub(crate) fn to_words(&self, update: &Update, words: &mut [u64]) -> bool {
        let mut reader = wire::Reader::new(update.value.as_slice());
        let Some(head) = self
            .head(&mut reader)
            .filter(|head| head.length == self.length as u64)
        else {
            return false;
        };
        let mut words = words.iter_mut();
        for (value, word) in head.waveform.into_iter().flatten().zip(words.by_ref()) {
            *word = value;
        }
        for word in words.by_ref().take(self.length) {
            let Ok(bytes) = reader.bytes(self.size) else {
                return false;
            };
            *word = self.extend(bytes);
        }
        if self.stamped
            && let Some(word) = words.next()
        {
            *word = update.source_timestamp.as_nanos() as u64;
        }
        true
    }

    /// The value in wire form and its timestamp, if it carries one.
    pub(crate) fn wire_form(&self, words: &[u64]) -> (Encoded, Option<Timestamp>) {
        let mut words = words.iter();
        let mut bytes = Vec::with_capacity(WIRE_HEAD_MAX + self.length * self.size);
        if self.shape == Shape::Waveform {
            for word in words.by_ref().take(WAVEFORM_WORDS) {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        if self.shape != Shape::Scalar {
            wire::put_varint(&mut bytes, self.length as u64);
        }
        for word in words.by_ref().take(self.length) {
            bytes.extend(word.to_le_bytes().into_iter().take(self.size));
        }
        if self.shape == Shape::Waveform {
            // No attributes.
            wire::put_varint(&mut bytes, 0);
        }
        let stamp = words.next().filter(|_| self.stamped);
        (
            Encoded::from_bytes(&bytes),
            stamp.map(|word| Timestamp::from_nanos(*word as i64)),
        )
    }

    /// Up to eight bytes of an element as a word, with its sign.
    fn extend(&self, bytes: &[u8]) -> u64 {
        let mut word = [0u8; 8];
        for (place, byte) in word.iter_mut().zip(bytes) {
            *place = *byte;
        }
        let value = u64::from_le_bytes(word);
        if !self.signed || self.size >= 8 {
            return value;
        }
        let shift = 64 - 8 * self.size as u32;
        (((value << shift) as i64) >> shift) as u64
    }
}

/// What stands before the elements of a value.
struct Head {
    /// Start time and interval, as words.
    waveform: Option<[u64; WAVEFORM_WORDS]>,
    length: u64,
}

/// Bytes of the longest head and end of a value in wire form.
const WIRE_HEAD_MAX: usize = 32;

fn is_signed(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::I8 | DataType::I16 | DataType::I32 | DataType::I64
    )
}
