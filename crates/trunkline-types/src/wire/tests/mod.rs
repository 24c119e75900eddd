//! The wire form: everything comes back bit for bit, and nothing hostile gets in.

mod definition;
mod hostile;
mod library;
mod round_trip;
mod varint;
