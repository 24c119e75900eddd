//! The wire form: every value is restored bit for bit, and hostile bytes are refused.

mod definition;
mod history;
mod hostile;
mod library;
mod round_trip;
mod varint;
