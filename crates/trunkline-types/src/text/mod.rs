//! Converts types, values and times to and from the text that users read and type.
//!
//! [`parse_value`] restores the same value from any text that [`format_value`] has written without
//! precision, elision, hexadecimal digits and enum numbers.
//!
//! # Layout
//! - [`parse_type`]: the inverse of a [`DataType`](crate::DataType)'s `Display`.
//! - [`parse_value`], [`format_value`]: values of a known type.
//! - [`parse_size`]: sizes in bytes.
//! - [`parse_csv`]: rows of comma-separated values.
//! - [`escape`]: makes external text safe to display.
//! - [`format_rfc3339`], [`format_wide`], [`parse_rfc3339`]: timestamps, always UTC.

mod convert;
mod csv;
mod data_type;
mod escape;
mod format;
mod parse;
mod size;
mod timestamp;

#[cfg(test)]
mod tests;

pub use convert::{ConvertError, description, with_article};
pub use csv::{CsvCell, parse_csv};
pub use data_type::{ParseTypeError, parse_type};
pub use escape::{escape, escape_except, is_unprintable};
pub use format::{Digits, FormatOptions, format_value};
pub use parse::parse_value;
pub use size::parse_size;
pub use timestamp::{format_rfc3339, format_wide, parse_rfc3339};

pub(crate) use convert::clip;
