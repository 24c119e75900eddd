//! The status of a machine's endpoints, which they report to the directory and the directory lists.

use std::time::Duration;

use super::hello::Url;
use crate::VersionRange;
use crate::limits::HELLO_FRAME_MAX;
use crate::message::fields::{IfSet, Many, Maybe, fields};
use crate::message::form::{Flat, Inner, Varint, Whole, mapped};
use crate::message::hello::{Brief, MagicThen};
use crate::message::layout::FieldValue;
use crate::message::single::single_frame;

pub const ENDPOINTS_PAGE_MAX: usize = 256;

/// Maximum number of peers of one endpoint in its status.
pub const MEMBERS_LISTED_MAX: usize = 64;

/// Maximum size of an encoded member without its texts: ids, sizes, and a time.
const MEMBER_BYTES: usize = 32;

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
        /// The account or the local user that opened the connection; empty if unknown.
        19: pub peer_account: String = IfSet<Brief>,
        /// Peers of an endpoint with several peers, the first of them.
        20: pub members: Vec<MemberStatus> = Many<MEMBERS_LISTED_MAX, Inner>,
        /// Number of further peers.
        21: pub more_members: u64 = IfSet<Varint>,
    }
}

fields! {
    /// One of several peers of an endpoint.
    #[derive(Eq, Default)]
    pub struct MemberStatus {
        1: pub url: String = IfSet<Url> as "endpoint",
        /// The account or the local user that opened the connection; empty if unknown.
        2: pub account: String = IfSet<Brief>,
        /// Time since the connection was lost; `None` while connected.
        3: pub away_for: Option<Duration> = Maybe<Elapsed> as "away_ms",
    }
}

impl MemberStatus {
    /// Returns an upper bound of the size of the encoded member.
    fn bytes_max(&self) -> usize {
        let texts = self.url.len().saturating_add(self.account.len());
        texts.saturating_add(MEMBER_BYTES)
    }
}

impl EndpointStatus {
    /// Adds these peers, as many as the directory accepts in one frame.
    #[must_use]
    pub fn with_members(self, members: Vec<MemberStatus>) -> Self {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        let mut room = (HELLO_FRAME_MAX as usize).saturating_sub(bytes.len());
        let count = members.len();
        let fits = |member: &MemberStatus| {
            let is_fitting = member.bytes_max() <= room;
            room = room.saturating_sub(member.bytes_max());
            is_fitting
        };
        let members: Vec<_> = members
            .into_iter()
            .take(MEMBERS_LISTED_MAX)
            .take_while(fits)
            .collect();
        Self {
            more_members: count.saturating_sub(members.len()) as u64,
            members,
            ..self
        }
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
