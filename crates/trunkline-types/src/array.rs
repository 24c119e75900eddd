//! Defines n-dimensional arrays of scalars, which are contiguous and row-major.

use std::sync::Arc;

use crate::data_type::scalars;
use crate::{ArrayType, ElementType, Timestamp, Value};

/// An array value: its shape and its elements in row-major order (the last dimension varies
/// fastest).
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    shape: Vec<u32>,
    elements: Elements,
}

/// The product of the lengths in the shape differs from the number of elements, or the shape is
/// empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("shape {shape:?} needs {needed} elements, but {present} were given")]
pub struct ShapeError {
    pub shape: Vec<u32>,
    /// The number of elements that the shape requires.
    pub needed: u64,
    /// The number of elements given.
    pub present: usize,
}

impl Array {
    /// Builds an array of this shape.
    ///
    /// # Errors
    /// [`ShapeError`] if the shape is empty or its product is not the number of elements.
    pub fn new(shape: Vec<u32>, elements: Elements) -> Result<Self, ShapeError> {
        let needed = shape
            .iter()
            .fold(1u64, |product, n| product.saturating_mul(u64::from(*n)));
        if needed != elements.len() as u64 || shape.is_empty() {
            return Err(ShapeError {
                shape,
                needed,
                present: elements.len(),
            });
        }
        Ok(Self { shape, elements })
    }

    /// Builds a one-dimensional array. Elements after the first `u32::MAX` are dropped.
    pub fn vector(mut elements: Elements) -> Self {
        elements.truncate(u32::MAX as usize);
        Self {
            shape: vec![elements.len() as u32],
            elements,
        }
    }

    /// Returns an array of zeros with the fixed lengths of `ty`; free dimensions are empty. Its
    /// size is bounded for types that pass [`DataType::check`](crate::DataType::check).
    pub fn default_of(ty: &ArrayType) -> Self {
        let shape: Vec<u32> = ty.shape.iter().map(|length| length.unwrap_or(0)).collect();
        let count = shape
            .iter()
            .fold(1usize, |n, length| n.saturating_mul(*length as usize));
        Self {
            shape,
            elements: Elements::zeros(ty.element, count),
        }
    }

    /// Returns the length of each dimension, outermost first; never empty.
    pub fn shape(&self) -> &[u32] {
        &self.shape
    }

    /// Returns the elements in row-major order.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Consumes the array and returns its elements.
    pub fn into_elements(self) -> Elements {
        self.elements
    }

    /// Returns true if the element type, rank and fixed lengths match `ty`.
    pub fn has_type(&self, ty: &ArrayType) -> bool {
        self.elements.element_type() == ty.element
            && self.shape.len() == ty.shape.len()
            && self
                .shape
                .iter()
                .zip(&ty.shape)
                .all(|(n, fixed)| fixed.is_none_or(|f| f == *n))
    }
}

/// Evaluates the same expression for the vector of any variant.
macro_rules! each {
    ($elements:expr, $v:ident => $body:expr) => {
        match $elements {
            Elements::Bool($v) => $body,
            Elements::I8($v) => $body,
            Elements::I16($v) => $body,
            Elements::I32($v) => $body,
            Elements::I64($v) => $body,
            Elements::U8($v) => $body,
            Elements::U16($v) => $body,
            Elements::U32($v) => $body,
            Elements::U64($v) => $body,
            Elements::F32($v) => $body,
            Elements::F64($v) => $body,
            Elements::String($v) => $body,
            Elements::Timestamp($v) => $body,
        }
    };
}

impl Elements {
    pub fn len(&self) -> usize {
        each!(self, v => v.len())
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all elements after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        each!(self, v => v.truncate(len));
    }
}

macro_rules! elements {
    ($($scalar:ident: $ty:ty = $default:expr;)+) => {
        /// The elements of an array or waveform in one contiguous buffer.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Elements {
            $($scalar(Vec<$ty>),)+
        }

        impl Elements {
            /// Returns `count` default elements: zeros, `false`, empty strings or the Unix epoch.
            pub fn zeros(element: ElementType, count: usize) -> Self {
                match element {
                    $(ElementType::$scalar => Elements::$scalar(vec![$default; count]),)+
                }
            }

            /// Returns the element at `index` as a separate value; `None` if the index is out of
            /// range.
            pub fn value_at(&self, index: usize) -> Option<Value> {
                match self {
                    $(Elements::$scalar(v) => v.get(index).cloned().map(Value::$scalar),)+
                }
            }

            pub fn element_type(&self) -> ElementType {
                match self {
                    $(Elements::$scalar(_) => ElementType::$scalar,)+
                }
            }
        }
    };
}
scalars!(elements);
