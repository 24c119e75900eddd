//! What an element of a real-time FIFO is, and which FIFOs can be made (SP-08, SP-09, SP-22).
//!
//! One rule for everybody: the engine makes FIFOs by it, and a configuration that breaks it is
//! refused where it is read.

use crate::wire::Reader;
use crate::{DataType, ElementType, Fifo, Properties};

/// The most words that one element may have: values beyond belong in streams or recordings.
pub const ELEMENT_WORDS_MAX: usize = 1 << 20;
/// The most words that one FIFO may have: 512 MiB, all taken when it is made.
pub const FIFO_WORDS_MAX: usize = 1 << 26;

/// Words before the samples of a waveform: its start time and its interval.
pub const WAVEFORM_WORDS: usize = 2;

/// What one element of a FIFO holds: so many numbers, each in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FifoElement {
    /// How a value lies in it.
    pub shape: FifoShape,
    /// Numbers of a value, at least 1.
    pub length: usize,
    /// The type of an array's or waveform's elements; `None` for a scalar.
    pub element: Option<ElementType>,
    /// Whether a source timestamp stands behind them.
    pub stamped: bool,
}

/// How a value lies in an element of a FIFO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FifoShape {
    /// One number.
    Scalar,
    /// Its elements.
    Array,
    /// Its start time, its interval, its samples.
    Waveform,
}

/// What stands before the elements of a value in wire form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FifoHead {
    /// Start time and interval of a waveform, as words.
    pub waveform: Option<[u64; WAVEFORM_WORDS]>,
    /// How many elements follow.
    pub length: u64,
}

/// Why a FIFO cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FifoError {
    /// The length is 0.
    #[error("an element of the FIFO is never empty; set `fifo.length`")]
    NoLength,
    /// The capacity is 0.
    #[error("a multi-element FIFO has at least one element; set `fifo.capacity`")]
    NoCapacity,
    /// An array of length 0.
    #[error("an array of length 0 has nothing for a FIFO to hold")]
    EmptyArray,
    /// An array of several dimensions.
    #[error(
        "a real-time FIFO takes one-dimensional arrays only; flatten the array or switch `fifo` off"
    )]
    Dimensions,
    /// Text has no fixed length.
    #[error("a real-time FIFO cannot hold text; its length is not fixed")]
    Text,
    /// No other type.
    #[error(
        "a real-time FIFO cannot hold {data_type}; it takes scalars, and arrays and waveforms of \
         fixed length"
    )]
    Type {
        /// The type.
        data_type: String,
    },
    /// More than [`ELEMENT_WORDS_MAX`].
    #[error(
        "an element of the FIFO may have {ELEMENT_WORDS_MAX} words, not {words}; use a stream or a \
         recording for larger blocks"
    )]
    ElementTooLong {
        /// Words of one.
        words: usize,
    },
    /// More than [`FIFO_WORDS_MAX`].
    #[error(
        "{capacity} elements of {words} words are more than the {FIFO_WORDS_MAX} words that a FIFO \
         may have; make it shorter"
    )]
    TooLong {
        /// Elements.
        capacity: usize,
        /// Words of one.
        words: usize,
    },
}

impl FifoElement {
    /// An element of the FIFO that the properties ask for; `None` when they ask for none.
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

    /// Words of one element, timestamp included.
    pub fn words(&self) -> usize {
        let head = match self.shape {
            FifoShape::Waveform => WAVEFORM_WORDS,
            FifoShape::Scalar | FifoShape::Array => 0,
        };
        head + self.length + usize::from(self.stamped)
    }

    /// Whether a value in wire form has the declared number of elements; attributes of a waveform
    /// do not travel through a FIFO and do not count. If not, the number that it has.
    ///
    /// # Errors
    /// That number, 0 for what is no value of the type.
    pub fn check_length(&self, bytes: &[u8]) -> Result<(), u64> {
        match self.shape.head(&mut Reader::new(bytes)) {
            Some(head) if head.length == self.length as u64 => Ok(()),
            head => Err(head.map_or(0, |head| head.length)),
        }
    }
}

impl FifoShape {
    /// What stands before the elements of a value in wire form; `None` when it is cut short.
    #[inline]
    pub fn head(self, reader: &mut Reader<'_>) -> Option<FifoHead> {
        match self {
            FifoShape::Scalar => Some(FifoHead {
                waveform: None,
                length: 1,
            }),
            FifoShape::Array => Some(FifoHead {
                waveform: None,
                length: reader.varint().ok()?,
            }),
            FifoShape::Waveform => {
                let (t0, dt) = (reader.u64().ok()?, reader.u64().ok()?);
                Some(FifoHead {
                    waveform: Some([t0, dt]),
                    length: reader.varint().ok()?,
                })
            }
        }
    }
}

/// Whether the FIFO that the properties ask for can be made (SP-08, SP-09, SP-22).
///
/// # Errors
/// What is wrong and what to do.
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
