//! Why a text or a JSON value is not a value of a type.

use crate::{DataType, EnumType};

/// Whoever wrote the value is at fault; the sentence says what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// Not of the kind that the type needs.
    #[error("{text} is not {ty}")]
    WrongType {
        /// What was given, shortened.
        text: String,
        /// The type with its article, shortened.
        ty: String,
    },
    /// A number outside the type's range.
    #[error("{text} is outside {ty} ({low} to {high})")]
    OutOfRange {
        /// What was given.
        text: String,
        /// The type.
        ty: String,
        /// Lowest value of the type.
        low: String,
        /// Highest value of the type.
        high: String,
    },
    /// A number that the type would change.
    #[error("{text} cannot be kept exactly in {ty}")]
    Inexact {
        /// What was given.
        text: String,
        /// The type with its article.
        ty: String,
    },
    /// No label and no label's number.
    #[error("{text} is not one of {labels}")]
    NotALabel {
        /// What was given, shortened.
        text: String,
        /// The labels, or the first of many.
        labels: String,
    },
    /// A dimension with another length than its type has.
    #[error("dimension {dimension} has {found} elements, but the type fixes it to {fixed}")]
    FixedLength {
        /// The dimension, from 1, outermost first.
        dimension: usize,
        /// Its length.
        found: usize,
        /// The length in the type.
        fixed: u32,
    },
    /// Lists of different lengths beside each other.
    #[error(
        "dimension {dimension} has {found} elements here and {before} before: all must have the same length"
    )]
    Ragged {
        /// The dimension, from 1, outermost first.
        dimension: usize,
        /// The length that differs.
        found: usize,
        /// The length of the lists before.
        before: usize,
    },
    /// A field of a struct or waveform is missing.
    #[error("the field {field:?} is missing")]
    MissingField {
        /// Its name.
        field: String,
    },
    /// A field that the struct or waveform has not.
    #[error("there is no field {field:?}; the fields are {fields}")]
    UnknownField {
        /// The name given, shortened.
        field: String,
        /// Those there are.
        fields: String,
    },
    /// Not a date and time.
    #[error("{text} is not a time: write it like 2026-11-20T21:39:04.123456789Z")]
    NotATime {
        /// What was given, shortened.
        text: String,
    },
    /// `now`, which only a clock could answer.
    #[error(
        "now is not a time here, because every machine has another one: write it like 2026-11-20T21:39:04Z"
    )]
    Now,
    /// A time that 64 bits of nanoseconds do not reach.
    #[error(
        "{text} is outside the times from 1677-09-21T00:12:43.145224192Z to 2262-04-11T23:47:16.854775807Z"
    )]
    TimeRange {
        /// What was given.
        text: String,
    },
    /// Bytes written wrongly.
    #[error("{text} is not bytes: write 0x and pairs of hexadecimal digits, or base64: and base64")]
    NotBytes {
        /// What was given, shortened.
        text: String,
    },
    /// A list, struct or waveform that is not JSON.
    #[error("{ty} is written as JSON, but this is not: {message}")]
    NotJson {
        /// The type with its article, shortened.
        ty: String,
        /// What the JSON parser says.
        message: String,
    },
    /// Over [`VALUE_BYTES_MAX`](crate::wire::VALUE_BYTES_MAX).
    #[error("the value takes {bytes} bytes; {max} is the limit")]
    TooLarge {
        /// Its size on the wire.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// One of the above, inside a larger value.
    #[error("{place}: {source}")]
    Within {
        /// Where: an element's number from 0, a field's name.
        place: String,
        /// What is wrong there.
        source: Box<ConvertError>,
    },
}

impl ConvertError {
    pub(crate) fn wrong_type(text: &str, ty: &DataType) -> Self {
        ConvertError::WrongType {
            text: clip(text),
            ty: with_article(ty),
        }
    }

    pub(crate) fn out_of_range<T: std::fmt::Debug>(
        text: &str,
        ty: &DataType,
        low: T,
        high: T,
    ) -> Self {
        ConvertError::OutOfRange {
            text: clip(text),
            ty: ty.to_string(),
            low: format!("{low:?}"),
            high: format!("{high:?}"),
        }
    }

    pub(crate) fn inexact(text: &str, ty: &DataType) -> Self {
        ConvertError::Inexact {
            text: clip(text),
            ty: with_article(ty),
        }
    }

    pub(crate) fn not_a_label(text: &str, ty: &EnumType) -> Self {
        let mut labels = ty.labels.iter().take(LABELS_SHOWN).map(|label| clip(label));
        let first = labels.next().unwrap_or_default();
        let mut shown = labels.fold(first, |shown, label| shown + ", " + &label);
        if ty.labels.len() > LABELS_SHOWN {
            shown.push_str(&format!(", … ({} labels)", ty.labels.len()));
        }
        ConvertError::NotALabel {
            text: clip(text),
            labels: shown,
        }
    }

    pub(crate) fn within(self, place: impl Into<String>) -> Self {
        ConvertError::Within {
            place: place.into(),
            source: Box::new(self),
        }
    }
}

/// The type as it stands in a sentence: `an f64`, `an i8`, `a u8`, `an array(f64, 3)`.
pub(crate) fn with_article(ty: &DataType) -> String {
    let name = ty.to_string();
    let is_float = name.starts_with("f32") || name.starts_with("f64");
    let article = if is_float || name.starts_with(['a', 'e', 'i']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {}", clip(&name))
}

/// At most 60 characters of what somebody wrote.
pub(crate) fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(60).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

const LABELS_SHOWN: usize = 12;
