//! Converts values to and from JSON, for scripts and browsers.
//!
//! ```text
//! bool                       true, false
//! numbers                    numbers; 64-bit integers stay integers; NaN and infinities: see below
//! string                     string
//! bytes                      base64
//! timestamp                  RFC 3339 with nanoseconds, UTC
//! enum                       its label
//! array                      lists nested by shape, outermost dimension first; without elements:
//!                            [], or {"shape": [2, 0]} if [] does not determine the shape
//! struct                     object
//! waveform                   {"t0": time, "dt": seconds, "samples": list, "attributes": object}
//! ```
//!
//! JSON has neither NaN nor infinities. If a variable has such a value, the value is written as `null`,
//! and [`JsonValue::special`] contains its name. Inside arrays, structs and waveforms, these numbers are
//! written as the strings `"NaN"`, `"Infinity"` and `"-Infinity"`.
//!
//! JSON preserves the type of a waveform's attribute only for booleans, strings, `i64` and finite `f64`.
//! Every other attribute is written with its type: `{"type": "u8", "value": 5}`.

mod read;
#[cfg(test)]
mod tests;
mod write;

pub use crate::text::ConvertError;
pub use read::from_json;
pub use write::{JsonValue, to_json};

pub(crate) use write::{attribute, needs_shape, special_text};

/// The key under which the shape of an array without elements is written.
pub(crate) const SHAPE: &str = "shape";
