//! The word layout of an element of a real-time FIFO.
//!
//! ```text
//! scalar     [ value ] [ source timestamp ]
//! array      [ element 0 ] .. [ element length-1 ] [ source timestamp ]
//! waveform   [ t0, ns ] [ dt, f64 bits ] [ sample 0 ] .. [ sample length-1 ] [ source timestamp ]
//! ```
//! Integers are sign-extended. The timestamp is left out if the variable has none.

use trunkline_types::fifo::{FifoElement, FifoError, FifoShape, WAVEFORM_WORDS};
use trunkline_types::{DataType, Properties, Timestamp, wire};

use crate::update::{Encoded, INLINE_BYTES, Update};

use super::buffers::Buffers;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    shape: FifoShape,
    length: usize,
    size: usize,
    signed: bool,
    stamped: bool,
    /// Number of words in a FIFO element, including the timestamp.
    words: usize,
    /// The number of elements in wire form; empty for a scalar.
    count: Box<[u8]>,
}

impl Layout {
    /// Returns the layout for these properties, or `None` if no FIFO is configured.
    pub(crate) fn new(properties: &Properties) -> Result<Option<Self>, FifoError> {
        let Some(element) = FifoElement::of(properties)? else {
            return Ok(None);
        };
        let data_type = match element.element {
            Some(of_array) => of_array.data_type(),
            None => properties.data_type.clone(),
        };
        let mut count = Vec::new();
        wire::put_varint(&mut count, element.length as u64);
        Ok(Some(Self {
            shape: element.shape,
            length: element.length,
            size: data_type.fixed_size().unwrap_or(8),
            signed: is_signed(&data_type),
            stamped: element.stamped,
            words: element.words(),
            count: count.into(),
        }))
    }

    /// Returns the number of words in a FIFO element, including the timestamp.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Writes an update's value and timestamp into `words`. Returns false if its length differs
    /// from the declared one.
    pub(crate) fn to_words(&self, update: &Update, words: &mut [u64]) -> bool {
        let mut reader = wire::Reader::new(update.value.as_slice());
        let Some(head) = self
            .shape
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

    /// Returns the value in wire form, and its timestamp if there is one. A value that is too long
    /// to be stored in place is written into a buffer from `buffers`.
    pub(crate) fn wire_form(
        &self,
        words: &[u64],
        buffers: &mut Buffers,
    ) -> (Encoded, Option<Timestamp>) {
        let (value, rest) = words.split_at(self.words() - usize::from(self.stamped));
        let stamp = rest.first().map(|word| Timestamp::from_nanos(*word as i64));
        let encoded = match (self.shape, value) {
            (FifoShape::Scalar, [word, ..]) => {
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

    fn wire_bytes(&self) -> usize {
        let elements = self.length * self.size;
        match self.shape {
            FifoShape::Scalar => elements,
            FifoShape::Array => self.count.len() + elements,
            // There are no attributes, so their count is 0.
            FifoShape::Waveform => 8 * WAVEFORM_WORDS + self.count.len() + elements + 1,
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
        // A reused buffer still has its old content.
        rest.fill(0);
    }

    /// Sign-extends up to eight bytes of an element to a word.
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

/// Writes the lowest `N` bytes of each word, little-endian.
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
