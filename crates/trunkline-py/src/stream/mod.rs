//! Lossless streams.
//!
//! An endpoint belongs to one call at a time. A call of a thread waits in slices, without the
//! interpreter. A call of an event loop first tries without waiting; if that fails, an operation owns
//! the endpoint until it is ready.
//!
//! # Layout
//! - `writer`, `reader`: endpoints with one peer. `fan`: endpoints with several peers.
//! - `lease`: elements in the memory of an endpoint.
//! - `shared`: the endpoint, and whose turn it is. `operation`: what takes time.
//! - `arrays`: arrays of NumPy as elements. `options`: the options of endpoints, and properties.

mod arrays;
mod fan;
mod lease;
mod operation;
mod options;
mod reader;
mod shared;
mod writer;

pub(crate) use self::arrays::stream_dtype;
pub(crate) use self::fan::{FanInReader, FanOutWriter, create_fan_in, create_fan_out};
pub(crate) use self::lease::{ReadLease, WriteLease};
pub(crate) use self::reader::{StreamReader, create_reader};
pub(crate) use self::writer::{StreamWriter, create_writer};
