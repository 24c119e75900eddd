//! Defines the errors of converting text or JSON to a value of a type.

use crate::{DataType, EnumType};

/// The given text or JSON is not a value of the type. The message describes a valid value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConvertError {
    /// The value is not of the kind that the type requires.
    #[error("{text} is not {ty}")]
    WrongType {
        /// The text as given, shortened.
        text: String,
        /// The type with its article, shortened. A description of the notation follows if the name of
        /// the type does not make the notation clear.
        ty: String,
    },
    #[error("{text} is outside the range of {ty}, {low} to {high}")]
    OutOfRange {
        /// The text as given, shortened.
        text: String,
        ty: String,
        /// Lowest value of the type.
        low: String,
        /// Highest value of the type.
        high: String,
    },
    #[error("{text} cannot be represented exactly as {ty}")]
    Inexact {
        /// The text as given, shortened.
        text: String,
        /// The type with its article.
        ty: String,
    },
    /// The text is neither a label nor the number of a label.
    #[error("{text} is not one of {labels}")]
    NotALabel {
        /// The text as given, shortened.
        text: String,
        /// The labels; for a long list, only the first ones.
        labels: String,
    },
    /// The length of a dimension differs from the length fixed by its type.
    #[error("dimension {dimension} has length {found}, but the type requires {fixed}")]
    FixedLength {
        /// The dimension, from 1, outermost first.
        dimension: usize,
        found: usize,
        /// The length fixed by the type.
        fixed: u32,
    },
    #[error(
        "the lists of dimension {dimension} have different lengths, {previous} and {found}; make them equal"
    )]
    UnequalLengths {
        /// The dimension, from 1, outermost first.
        dimension: usize,
        /// Length of the list that differs from the previous lists.
        found: usize,
        /// Length of the previous lists.
        previous: usize,
    },
    #[error("the field {field:?} is missing")]
    MissingField { field: String },
    #[error("there is no field {field:?}; the fields are {fields}")]
    UnknownField {
        /// The field name as given, shortened.
        field: String,
        /// The names of the existing fields.
        fields: String,
    },
    #[error("{text} is not a time: write a time such as 2026-11-20T21:39:04.123456789Z")]
    NotATime {
        /// The text as given, shortened.
        text: String,
    },
    /// The text is `now`, which would require a clock.
    #[error(
        "`now` cannot be used here, because the clocks of two machines differ: write a time such as 2026-11-20T21:39:04Z"
    )]
    Now,
    /// The time does not fit into 64 bits as nanoseconds.
    #[error(
        "{text} is outside the supported range of times, 1677-09-21T00:12:43.145224192Z to 2262-04-11T23:47:16.854775807Z"
    )]
    TimeRange {
        /// The text as given, shortened.
        text: String,
    },
    /// The text is not a valid notation of bytes.
    #[error(
        "{text} is not a value of type bytes: write 0x followed by pairs of hexadecimal digits, or \
         base64: followed by base64 characters"
    )]
    NotBytes {
        /// The text as given, shortened.
        text: String,
    },
    /// The text of an array, struct or waveform is not valid JSON.
    #[error("{ty} must be written as JSON: {message}")]
    NotJson {
        /// The type with its article, shortened.
        ty: String,
        /// The message of the JSON parser.
        message: String,
    },
    /// The value is larger than [`VALUE_BYTES_MAX`](crate::wire::VALUE_BYTES_MAX).
    #[error("the value has {bytes} bytes; {max} is the limit")]
    TooLarge {
        /// Size of the value on the wire, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        max: usize,
    },
    #[error("{place}: {source}")]
    Within {
        /// The place: the index of an element, counted from 0, or the name of a field.
        place: String,
        /// The error at that place.
        source: Box<ConvertError>,
    },
}

impl ConvertError {
    pub(crate) fn wrong_type(text: &str, ty: &DataType) -> Self {
        Self::wrong_type_described(quoted(text), ty)
    }

    /// Creates the error for a value that `given` describes, such as `a list of 3`.
    pub(crate) fn wrong_type_described(given: String, ty: &DataType) -> Self {
        ConvertError::WrongType {
            text: given,
            ty: description(ty) + notation(ty),
        }
    }

    pub(crate) fn out_of_range<T: std::fmt::Debug>(
        text: &str,
        ty: &DataType,
        low: T,
        high: T,
    ) -> Self {
        ConvertError::OutOfRange {
            text: quoted(text),
            ty: ty.to_string(),
            low: format!("{low:?}"),
            high: format!("{high:?}"),
        }
    }

    pub(crate) fn inexact(text: &str, ty: &DataType) -> Self {
        ConvertError::Inexact {
            text: quoted(text),
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
            text: quoted(text),
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

/// Returns the type with its article for use in a sentence: `an f64`, `an i8`, `a u8`.
pub fn with_article(ty: &DataType) -> String {
    let name = ty.to_string();
    let is_float = name.starts_with("f32") || name.starts_with("f64");
    let article = if is_float || name.starts_with(['a', 'e', 'i']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {}", clip(&name))
}

/// Returns a description of the type's values for use in a sentence: `a number (type f64)`, `an
/// integer (type u8)`, otherwise the type with its article.
pub fn description(ty: &DataType) -> String {
    match ty {
        _ if ty.is_float() => format!("a number (type {ty})"),
        _ if ty.is_numeric() => format!("an integer (type {ty})"),
        _ => with_article(ty),
    }
}

/// Returns a description of the notation of the type's values, as the end of a sentence; empty if
/// the name of the type makes it clear.
fn notation(ty: &DataType) -> &'static str {
    match ty {
        DataType::Bool => ": write true or false",
        DataType::Struct(_) => ": write a JSON object with all its fields",
        DataType::Waveform(_) => ": write a JSON object with t0, dt and samples",
        _ => "",
    }
}

/// Returns a given text for use in a sentence: in quotes if it could be mistaken for words of the
/// sentence, or if its beginning or end would not be visible.
pub(crate) fn quoted(text: &str) -> String {
    match text.is_empty() || text.trim() != text || text.starts_with(char::is_alphabetic) {
        true => format!("{:?}", clip(text)),
        false => clip(text),
    }
}

/// Shortens a given text to at most 60 characters.
pub(crate) fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(60).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

const LABELS_SHOWN: usize = 12;
