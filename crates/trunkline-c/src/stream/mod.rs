//! Lossless streams: writers and readers, with one peer or several.
//!
//! - `end`: an end that several threads have a handle of, and the memory that it lends.
//! - `options`: the options of an end. `peers`: the peers of an end with several.
//! - `writer`, `reader`: the two kinds of ends.

mod end;
pub mod options;
pub mod peers;
pub mod reader;
pub mod writer;

use trunkline::stream::Properties;

pub(crate) use end::End;
pub(crate) use reader::AnyReader;
pub(crate) use writer::AnyWriter;

/// The state of one end of a stream.
#[allow(non_camel_case_types, reason = "C names")]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct tl_stream_properties {
    /// Capacity of the buffer, in elements.
    pub capacity: u64,
    /// Of a writer: elements that the reader has not confirmed. Of a reader: elements that can be read.
    pub in_buffer: u64,
    /// Elements written or read since the end was created.
    pub total: u64,
    /// Number of times that the connection was lost, or ended with its stream.
    pub disconnections: u64,
    /// Time since the connection was lost in nanoseconds; -1 while connected and before the first
    /// connection.
    pub away_ns: i64,
    /// 1 while the two ends are connected, otherwise 0.
    pub is_connected: i32,
    /// 1 if the stream has ended in order, otherwise 0.
    pub is_ended: i32,
}

fn properties_of(properties: &Properties) -> tl_stream_properties {
    let away = properties
        .away_for
        .map(|away| i64::try_from(away.as_nanos()).unwrap_or(i64::MAX));
    tl_stream_properties {
        capacity: properties.capacity,
        in_buffer: properties.in_buffer,
        total: properties.total,
        disconnections: properties.disconnections,
        away_ns: away.unwrap_or(-1),
        is_connected: i32::from(properties.is_connected),
        is_ended: i32::from(properties.is_ended),
    }
}
