//! Defines the layout of the elements of real-time FIFOs, and checks FIFOs (SP-08, SP-09, SP-22).
//!
//! The engine applies these rules when it creates FIFOs. A configuration is checked against the
//! same rules when it is read.

use crate::wire::Reader;
use crate::{DataType, ElementType, Fifo, Properties};

/// Maximum number of words in one element; larger values belong in streams or recordings.
pub const ELEMENT_WORDS_MAX: usize = 1 << 20;
/// Maximum number of words in one FIFO: 512 MiB, all allocated when the FIFO is created.
pub const FIFO_WORDS_MAX: usize = 1 << 26;

/// Number of words before the samples of a waveform: start time and interval.
pub const WAVEFORM_WORDS: usize = 2;

/// The layout of one FIFO element: a fixed number of values, each in one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FifoElement {
    /// Layout of a value in the element.
    pub shape: FifoShape,
    /// Number of array elements or samples in a value, at least 1.
    pub length: usize,
    /// Type of the elements of an array or waveform; `None` for a scalar.
    pub element: Option<ElementType>,
    /// True if a source timestamp follows the values.
    pub stamped: bool,
}

/// The layout of a value in a FIFO element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FifoShape {
    Scalar,
    /// The elements of a one-dimensional array.
    Array,
    /// Start time, interval and samples of a waveform.
    Waveform,
}

/// The part of an encoded value that precedes its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FifoHeader {
    /// Start time and interval of a waveform, as words.
    pub waveform: Option<[u64; WAVEFORM_WORDS]>,
    /// Number of elements that follow.
    pub length: u64,
}

/// The reason why a FIFO cannot be created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FifoError {
    #[error("a FIFO element needs at least one value; set `fifo.length` to 1 or more")]
    NoLength,
    #[error("a multi-element FIFO needs at least one element; set `fifo.capacity` to 1 or more")]
    NoCapacity,
    #[error("a FIFO cannot hold arrays of length 0; give the array a length of 1 or more")]
    EmptyArray,
    #[error(
        "a real-time FIFO can hold only one-dimensional arrays; flatten the array or switch `fifo` \
         off"
    )]
    Dimensions,
    /// The elements are strings, which have no fixed length.
    #[error("a real-time FIFO cannot hold text, whose length is not fixed; switch `fifo` off")]
    Text,
    /// The type is neither a scalar of fixed size nor an array or waveform.
    #[error(
        "a real-time FIFO cannot hold {data_type}; it can hold scalars, and arrays and \
         waveforms of fixed length"
    )]
    Type {
        /// The type as text.
        data_type: String,
    },
    /// An element would have more than [`ELEMENT_WORDS_MAX`] words.
    #[error(
        "an element of the FIFO may have at most {ELEMENT_WORDS_MAX} words, not {words}; use a \
         stream or a recording for larger blocks"
    )]
    ElementTooLong {
        /// Number of words in one element.
        words: usize,
    },
    /// The FIFO would have more than [`FIFO_WORDS_MAX`] words.
    #[error(
        "{capacity} elements of {words} words are more than the {FIFO_WORDS_MAX} words that a FIFO \
         may have; reduce `fifo.capacity`"
    )]
    TooLong {
        /// Number of elements in the FIFO.
        capacity: usize,
        /// Number of words in one element.
        words: usize,
    },
}

impl FifoElement {
    /// Returns the layout for the FIFO that the properties request; `None` if they request none.
    ///
    /// # Errors
    /// The type cannot be in a FIFO, or the length is 0.
    pub fn of(properties: &Properties) -> Result<Option<Self>, FifoError> {
        let length = match properties.fifo {
            Fifo::Off => return Ok(None),
            Fifo::Single { length } | Fifo::Multi { length, .. } => length as usize,
        };
        if length == 0 {
            return Err(FifoError::NoLength);
        }
        let (shape, length, element) = match &properties.data_type {
            scalar if scalar.fixed_size().is_some() => (FifoShape::Scalar, 1, None),
            DataType::Array(ty) => match ty.shape.as_slice() {
                [Some(0)] => return Err(FifoError::EmptyArray),
                [Some(fixed)] => (FifoShape::Array, *fixed as usize, Some(ty.element)),
                [None] => (FifoShape::Array, length, Some(ty.element)),
                _ => return Err(FifoError::Dimensions),
            },
            DataType::Waveform(element) => (FifoShape::Waveform, length, Some(*element)),
            other => {
                let data_type = other.to_string();
                return Err(FifoError::Type { data_type });
            }
        };
        if element == Some(ElementType::String) {
            return Err(FifoError::Text);
        }
        Ok(Some(Self {
            shape,
            length,
            element,
            stamped: properties.timestamps,
        }))
    }

    /// Returns the number of words in one element, including the timestamp.
    pub fn words(&self) -> usize {
        let head = match self.shape {
            FifoShape::Waveform => WAVEFORM_WORDS,
            FifoShape::Scalar | FifoShape::Array => 0,
        };
        head + self.length + usize::from(self.stamped)
    }

    /// Checks that a value in wire form has the declared number of elements. The attributes of a
    /// waveform are not counted, because a FIFO does not transfer them.
    ///
    /// # Errors
    /// The number of elements that the value has; 0 if the bytes are truncated.
    pub fn check_length(&self, bytes: &[u8]) -> Result<(), u64> {
        match self.shape.head(&mut Reader::new(bytes)) {
            Some(head) if head.length == self.length as u64 => Ok(()),
            head => Err(head.map_or(0, |head| head.length)),
        }
    }
}

impl FifoShape {
    /// Reads the part of an encoded value that precedes its elements; returns `None` if it is
    /// truncated.
    #[inline]
    pub fn head(self, reader: &mut Reader<'_>) -> Option<FifoHeader> {
        match self {
            FifoShape::Scalar => Some(FifoHeader {
                waveform: None,
                length: 1,
            }),
            FifoShape::Array => Some(FifoHeader {
                waveform: None,
                length: reader.varint().ok()?,
            }),
            FifoShape::Waveform => {
                let (t0, dt) = (reader.u64().ok()?, reader.u64().ok()?);
                Some(FifoHeader {
                    waveform: Some([t0, dt]),
                    length: reader.varint().ok()?,
                })
            }
        }
    }
}

/// Checks that the FIFO requested by the properties can be created (SP-08, SP-09, SP-22).
pub fn check(properties: &Properties) -> Result<(), FifoError> {
    let Some(element) = FifoElement::of(properties)? else {
        return Ok(());
    };
    let capacity = match properties.fifo {
        Fifo::Multi { capacity: 0, .. } => return Err(FifoError::NoCapacity),
        Fifo::Multi { capacity, .. } => capacity as usize,
        Fifo::Single { .. } | Fifo::Off => 1,
    };
    let words = element.words();
    if words > ELEMENT_WORDS_MAX {
        return Err(FifoError::ElementTooLong { words });
    }
    if words.saturating_mul(capacity) > FIFO_WORDS_MAX {
        return Err(FifoError::TooLong { capacity, words });
    }
    Ok(())
}
