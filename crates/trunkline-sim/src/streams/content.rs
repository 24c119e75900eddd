//! Generates the elements of a simulated stream. Each element of at least 8 bytes contains the number of its
//! stream and its index.

use trunkline_types::DataType;
use trunkline_types::text::parse_type;

use crate::rng::{Rng, mix};

/// Size in bytes of the length prefix of an element that varies in size.
const LENGTH: usize = 4;
/// Number of bits of the index in the name of an element.
const INDEX_BITS: u32 = 40;

/// The kind of a stream's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Elements of this size, in bytes.
    Fixed(usize),
    /// Elements of different sizes, with the minimum and the maximum size in bytes.
    Variable(usize, usize),
}

impl Kind {
    /// Draws a kind. If `has_names` is true, every element is long enough for its name.
    pub fn drawn(rng: &mut Rng, has_names: bool) -> Self {
        let size_min = if has_names { 8 } else { 0 };
        match rng.below(3) {
            0 => Self::Variable(size_min, size_min + rng.magnitude(1.0, 400.0) as usize),
            1 => Self::Fixed([1, 2, 4, 8][rng.index(4)].max(size_min)),
            _ => Self::Fixed((rng.range(1, 64) as usize).max(size_min)),
        }
    }

    /// Returns the size of the longest element in a buffer, in bytes.
    pub fn longest(self) -> usize {
        match self {
            Self::Fixed(size) => size,
            Self::Variable(_, size_max) => size_max + LENGTH,
        }
    }

    /// Returns a type whose values have this size.
    pub fn data_type(self) -> DataType {
        let Self::Fixed(size) = self else {
            return DataType::String;
        };
        match size {
            1 => DataType::U8,
            2 => DataType::U16,
            4 => DataType::U32,
            8 => DataType::U64,
            _ => {
                let wide = (0..size / 8).map(|i| format!("w{i}: u64"));
                let narrow = (0..size % 8).map(|i| format!("n{i}: u8"));
                let fields: Vec<_> = wide.chain(narrow).collect();
                let text = format!("struct({})", fields.join(", "));
                parse_type(&text).unwrap_or(DataType::U8)
            }
        }
    }

    /// Appends element `index` of `stream` in its buffer layout.
    pub fn put(self, stream: u64, index: u64, out: &mut Vec<u8>) {
        let name = stream << INDEX_BITS | index;
        let mut state = mix(name ^ 0x656c_656d_656e_7431);
        let size = match self {
            Self::Fixed(size) => size,
            Self::Variable(size_min, size_max) => {
                let size = size_min + (state % (size_max - size_min + 1) as u64) as usize;
                out.extend_from_slice(&(size as u32).to_le_bytes());
                size
            }
        };
        let end = out.len() + size;
        if size >= 8 {
            out.extend_from_slice(&name.to_le_bytes());
        }
        while out.len() < end {
            state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let count = (end - out.len()).min(8);
            out.extend_from_slice(&state.to_le_bytes()[..count]);
        }
    }

    /// Splits bytes into elements. `bytes` must contain only whole elements.
    pub fn each(self, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let size = match self {
                Self::Fixed(size) => size,
                Self::Variable(..) => {
                    let (length, _) = rest.split_first_chunk::<LENGTH>()?;
                    LENGTH + u32::from_le_bytes(*length) as usize
                }
            };
            let (element, after) = rest.split_at_checked(size.max(1))?;
            rest = after;
            Some(element)
        })
    }

    /// Returns the name of an element: the number of its stream, and its index. Returns `None` for an element
    /// that is too short.
    pub fn name(self, element: &[u8]) -> Option<(u64, u64)> {
        let content = match self {
            Self::Fixed(_) => element,
            Self::Variable(..) => element.get(LENGTH..)?,
        };
        let name = u64::from_le_bytes(*content.first_chunk::<8>()?);
        Some((name >> INDEX_BITS, name & ((1 << INDEX_BITS) - 1)))
    }
}
