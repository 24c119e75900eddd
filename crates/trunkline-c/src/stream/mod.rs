//! Lossless streams: writers and readers, with one peer or several.
//!
//! - `end`: an end that several threads have a handle of, and the memory that it lends.
//! - `options`: the options of an end. `state`: its properties, and the peers of an end with several.
//! - `writer`, `reader`: the two kinds of ends.

mod end;
pub mod options;
pub mod reader;
pub mod state;
pub mod writer;

pub(crate) use end::End;
pub(crate) use reader::AnyReader;
pub(crate) use writer::AnyWriter;
