//! Defines the endpoints that programs use, for elements of a Rust type and for values of a type that
//! is known only at run time.

mod fan_in;
mod fan_out;
mod fan_values;
mod forwarding;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod idle_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod in_place_tests;
mod reader;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod value_bytes_tests;
mod value_encoder;
mod value_reader;
mod value_writer;
mod writer;

pub use self::fan_in::FanInReader;
pub use self::fan_out::FanOutWriter;
pub use self::fan_values::{FanInValueReader, FanOutValueWriter};
pub use self::reader::Reader;
pub use self::value_reader::ValueReader;
pub use self::value_writer::ValueWriter;
pub use self::writer::Writer;
