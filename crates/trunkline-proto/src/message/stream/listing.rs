//! The status of a machine's endpoints, which they report to the directory and the directory lists.

use std::time::Duration;

use super::hello::Url;
use crate::VersionRange;
use crate::message::fields::{IfSet, Many, Maybe, fields};
use crate::message::form::{Flat, Inner, Varint, Whole, mapped};
use crate::message::hello::{Brief, MagicThen};
use crate::message::layout::FieldValue;
use crate::message::single::single_frame;

pub const ENDPOINTS_PAGE_MAX: usize = 256;

/// Longest reported text of an element type, in bytes; longer texts are truncated.
pub const TYPE_SHOWN_BYTES_MAX: usize = 1024;

fields! {
    /// Requests the endpoints that a directory knows, in the order of their URLs.
    #[derive(Eq, Default)]
    pub struct EndpointsQuery {
        first {
            /// The protocol versions of the requesting program.
            pub versions: VersionRange = MagicThen<Flat>,
        }
        /// The last URL of the previous page; empty for the first page.
        1: pub after: String = IfSet<Url>,
        /// URL of a single requested endpoint; empty for all.
        2: pub only: String = IfSet<Url>,
    }
}

single_frame! { StreamList, EndpointsQuery, unnumbered }

fields! {
    #[derive(Eq, Default)]
    pub struct EndpointStatus {
        /// URL of the endpoint in canonical form.
        1: pub url: String = IfSet<Url> as "endpoint",
        /// True for a writer, false for a reader, `None` if not reported yet.
        2: pub is_writer: Option<bool> = IfSet<Direction> as "direction",
        3: pub data_type: String = IfSet<Whole<TYPE_SHOWN_BYTES_MAX>> as "type",
        /// Number of elements that the endpoint's buffer can hold.
        4: pub capacity: u64 = IfSet<Varint>,
        /// Number of elements in the buffer.
        5: pub in_buffer: u64 = IfSet<Varint>,
        /// Number of elements written or read so far.
        6: pub total: u64 = IfSet<Varint>,
        /// True while the two ends are connected.
        7: pub is_connected: bool = IfSet<VarintFlag>,
        /// Number of times that a connection was lost.
        8: pub disconnections: u64 = IfSet<Varint>,
        /// Time since the last connection was lost; `None` while connected or before the first
        /// connection.
        9: pub away_for: Option<Duration> = Maybe<Elapsed> as "away_ms",
        /// The reason why the last connection ended or was not established.
        10: pub last_disconnect: String = IfSet<Brief>,
        11: pub peer: String = IfSet<Url>,
        12: pub peer_program: String = IfSet<Brief>,
        13: pub transport: String = IfSet<Brief>,
        /// The reason why the stream ended with an error.
        14: pub fault: String = IfSet<Brief>,
        15: pub program: String = IfSet<Brief>,
        /// Process id of the program; 0 if unknown.
        16: pub pid: u32 = IfSet<Varint>,
        /// Time for which a writer's buffer has been full, or a reader's buffer empty.
        17: pub stalled_for: Option<Duration> = Maybe<Elapsed> as "stalled_ms",
        /// Elements per second over the recent past.
        18: pub rate: u64 = IfSet<Varint>,
    }
}

single_frame! { StreamStatus, EndpointStatus, unnumbered }

fields! {
    #[derive(Eq, Default)]
    pub struct EndpointsPage {
        /// The endpoints in the order of their URLs, at most [`ENDPOINTS_PAGE_MAX`].
        1: pub endpoints: Vec<EndpointStatus> = Many<ENDPOINTS_PAGE_MAX, Inner>,
        /// True if there are more endpoints, which can be requested after the last URL of this
        /// page.
        2: pub has_more: bool = IfSet<VarintFlag>,
    }
}

single_frame! { StreamEndpoints, EndpointsPage }

/// 1 for a writer, 2 for a reader; other numbers are directions unknown to this version.
#[derive(Debug)]
pub enum Direction {}
/// A flag: 0 means false, and any other number true.
#[derive(Debug)]
pub enum VarintFlag {}
/// Whole milliseconds as a varint.
#[derive(Debug)]
pub enum Elapsed {}

mapped! {
    Direction: Option<bool> = Varint: u64, |writes| match writes {
        None => 0,
        Some(true) => 1,
        Some(false) => 2,
    }, |number| match number {
        1 => Some(true),
        2 => Some(false),
        _ => None,
    }, |writes| match writes {
        None => FieldValue::Nothing,
        Some(true) => FieldValue::Text("writes"),
        Some(false) => FieldValue::Text("reads"),
    };
    VarintFlag: bool = Varint: u64, |flag| u64::from(*flag), |number| number != 0, |flag| {
        FieldValue::Flag(*flag)
    };
    Elapsed: Duration = Varint: u64, millis, Duration::from_millis, |time| {
        FieldValue::Number(millis(time))
    };
}

fn millis(duration: &Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
