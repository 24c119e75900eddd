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
use crate::update::{Encoded, INLINE_BYTES, Update};

use super::buffers::Buffers;

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
    /// The number of elements in wire form; none stands before a scalar.
    count: Box<[u8]>,
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
        let mut count = Vec::new();
        wire::put_varint(&mut count, length as u64);
        Ok(Some(Self {
            shape,
            length,
            size,
            signed,
            stamped: properties.timestamps,
            count: count.into(),
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
        let Ok(bytes) = reader.bytes(self.length * self.size) else {
            return false;
        };
        let elements = words.by_ref().take(self.length);
        if self.size == size_of::<u64>() {
            let (chunks, _) = bytes.as_chunks();
            elements
                .zip(chunks)
                .for_each(|(word, chunk)| *word = u64::from_le_bytes(*chunk));
        } else {
            for (word, bytes) in elements.zip(bytes.chunks_exact(self.size)) {
                *word = self.extend(bytes);
            }
        }
        if self.stamped
            && let Some(word) = words.next()
        {
            *word = update.source_timestamp.as_nanos() as u64;
        }
        true
    }

    /// The value in wire form and its timestamp, if it carries one. A value that is not kept in
    /// place goes into a buffer of `buffers`.
    pub(crate) fn wire_form(
        &self,
        words: &[u64],
        buffers: &mut Buffers,
    ) -> (Encoded, Option<Timestamp>) {
        let (value, rest) = words.split_at(self.words() - usize::from(self.stamped));
        let stamp = rest.first().map(|word| Timestamp::from_nanos(*word as i64));
        let encoded = match (self.shape, value) {
            (Shape::Scalar, [word, ..]) => {
                let unused = u64::BITS - 8 * self.size as u32;
                Encoded::from_words(&[word << unused >> unused, 0, 0], self.size)
            }
            _ if self.wire_bytes() <= INLINE_BYTES => {
                let mut bytes = [0; INLINE_BYTES];
                self.put(value, &mut bytes);
                Encoded::from_bytes(&bytes[..self.wire_bytes()])
            }
            _ => buffers.fill(self.wire_bytes(), |bytes| self.put(value, bytes)),
        };
        (encoded, stamp)
    }

    /// Bytes of a value in wire form.
    fn wire_bytes(&self) -> usize {
        let elements = self.length * self.size;
        match self.shape {
            Shape::Scalar => elements,
            Shape::Array => self.count.len() + elements,
            // No attributes: their count is 0.
            Shape::Waveform => 8 * WAVEFORM_WORDS + self.count.len() + elements + 1,
        }
    }

    /// Writes an array or a waveform in wire form to the beginning of `bytes`.
    fn put(&self, words: &[u64], bytes: &mut [u8]) {
        let head = words.len() - self.length;
        let (head, elements) = words.split_at(head);
        let (head_bytes, rest) = bytes.split_at_mut(8 * head.len());
        put_elements::<8>(head, head_bytes);
        let (count, rest) = rest.split_at_mut(self.count.len());
        count.copy_from_slice(&self.count);
        let (element_bytes, rest) = rest.split_at_mut(self.length * self.size);
        match self.size {
            8 => put_elements::<8>(elements, element_bytes),
            4 => put_elements::<4>(elements, element_bytes),
            2 => put_elements::<2>(elements, element_bytes),
            _ => put_elements::<1>(elements, element_bytes),
        }
        // A buffer that is used again holds what it held.
        rest.fill(0);
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

/// The lowest `N` bytes of each word, little-endian.
fn put_elements<const N: usize>(words: &[u64], bytes: &mut [u8]) {
    let (places, _) = bytes.as_chunks_mut::<N>();
    for (place, word) in places.iter_mut().zip(words) {
        place.copy_from_slice(&word.to_le_bytes()[..N]);
    }
}

fn is_signed(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::I8 | DataType::I16 | DataType::I32 | DataType::I64
    )
}
