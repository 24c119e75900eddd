//! The options of an endpoint.

use std::time::Duration;

use trunkline_types::DataType;

use super::pairing::{Pair, Secret};
use crate::limits::{KEEPALIVE_DEADLINE, KEEPALIVE_INTERVAL};
use crate::message::stream::Incarnation;

/// Determines which endpoint opens the connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// This endpoint dials, initially and after each disconnection.
    Active,
    Passive,
}

/// The size of the elements of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementForm {
    /// Each element has this number of bytes, at least 1.
    Fixed(u32),
    /// Each element is a `u32` length followed by its bytes.
    Variable,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkOptions {
    /// Determines whether this endpoint opens the connections.
    pub role: Role,
    /// URL of the endpoint, in canonical form.
    pub url: String,
    /// URL of the peer, in canonical form; empty to accept any peer that names this endpoint.
    pub peer_url: String,
    pub incarnation: Incarnation,
    pub data_type: DataType,
    pub form: ElementForm,
    /// Number of elements that the buffer can hold; at least 1.
    pub capacity: u64,
    /// Number of bytes that the buffer can hold; for elements of fixed size, the capacity
    /// multiplied by the size of an element.
    pub bytes_max: u64,
    /// True if the endpoint has a journal on disk, from which its next incarnation continues.
    pub has_journal: bool,
    /// The lineage of the peer that is recorded in the journal. The lineage is the part of the
    /// incarnation that is the same in all incarnations of an endpoint with a journal. A peer of
    /// another lineage belongs to a different stream.
    pub peer_lineage: Option<[u8; 8]>,
    /// The secret from which this endpoint derives its shares: random in each incarnation, or stored
    /// in the journal.
    pub secret: Secret,
    /// The pair recorded in the journal, by which the peer proves its identity.
    pub pair: Option<Pair>,
    /// True if the journal existed before this incarnation but contains no peer. The journal may have
    /// belonged to a stream that has ended, whose peer connects again to learn of the end.
    pub had_stream: bool,
    /// True if a new peer with the same name may replace a peer that no longer exists. Data that was
    /// lost with the old peer is not recovered. If false, the stream ends instead. An endpoint with a
    /// journal continues only with incarnations of the same peer, and dials no other peer.
    pub accepts_successor: bool,
    /// Writer: true if S_DATA frames carry a checksum.
    pub is_checked: bool,
    /// Writer: the delivery stage at which bytes may be overwritten in the buffer.
    /// [`Until::Durable`](crate::message::stream::Until::Durable) requires a reader with a journal;
    /// for any other reader, it has the same effect as
    /// [`Until::Available`](crate::message::stream::Until::Available).
    pub freed_at: crate::message::stream::Until,
    /// Writer: true if the writer does not wait for slow readers, but may drop elements and report
    /// them as lost. Reader: true if the reader can handle such reports; a reader with a journal
    /// cannot.
    pub drops: bool,
    /// Reader: time without arrivals and reads after which an unrequested acknowledgement is sent.
    pub ack_delay: Duration,
    /// Reader: longest delay of an unrequested acknowledgement.
    pub ack_delay_max: Duration,
    /// Interval of keep-alives.
    pub keepalive: Duration,
    /// Silence after which the peer is considered dead.
    pub deadline: Duration,
    /// Time without a connection after which the stream ends with an error; `None` to wait
    /// indefinitely.
    pub gone_after: Option<Duration>,
    /// Program and version, shown to users at the other end.
    pub program: String,
    /// A random seed for the jitter that spreads the dials of many endpoints over time.
    pub seed: u64,
}

impl LinkOptions {
    /// Returns true if this endpoint may also dial a peer other than the previous one.
    pub(super) fn dials_anybody(&self) -> bool {
        self.accepts_successor && !self.has_journal
    }

    /// Creates the options of a passive endpoint for elements of fixed size, with defaults for all
    /// other options.
    pub fn fixed(url: &str, data_type: DataType, element_bytes: u32, capacity: u64) -> Self {
        Self {
            role: Role::Passive,
            url: url.to_owned(),
            peer_url: String::new(),
            incarnation: Incarnation::default(),
            data_type,
            form: ElementForm::Fixed(element_bytes.max(1)),
            capacity: capacity.max(1),
            bytes_max: capacity
                .max(1)
                .saturating_mul(u64::from(element_bytes.max(1))),
            has_journal: false,
            peer_lineage: None,
            secret: Secret::default(),
            pair: None,
            had_stream: false,
            accepts_successor: false,
            is_checked: false,
            freed_at: crate::message::stream::Until::Available,
            drops: false,
            ack_delay: Duration::from_millis(1),
            ack_delay_max: Duration::from_millis(20),
            keepalive: KEEPALIVE_INTERVAL,
            deadline: KEEPALIVE_DEADLINE,
            gone_after: None,
            program: String::new(),
            seed: 0,
        }
    }

    /// Like [`fixed`](Self::fixed), but for elements of variable size; the buffer holds at most
    /// `bytes_max` bytes.
    pub fn variable(url: &str, data_type: DataType, capacity: u64, bytes_max: u64) -> Self {
        Self {
            form: ElementForm::Variable,
            bytes_max: bytes_max.max(1),
            ..Self::fixed(url, data_type, 1, capacity)
        }
    }
}
