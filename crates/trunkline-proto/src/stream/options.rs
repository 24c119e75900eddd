//! What an endpoint is made with.

use std::time::Duration;

use trunkline_types::DataType;

use super::pairing::{Pair, Secret};
use crate::limits::{KEEPALIVE_DEADLINE, KEEPALIVE_INTERVAL};
use crate::message::stream::Incarnation;

/// Who opens the connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// This endpoint dials, at first and again after each cut.
    Active,
    /// It is dialled.
    Passive,
}

/// How the elements of a stream lie one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementForm {
    /// Each has this many bytes, at least 1.
    Fixed(u32),
    /// Each is a `u32` with its length, and that many bytes.
    Variable,
}

/// What an endpoint is made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkOptions {
    /// Who opens the connections.
    pub role: Role,
    /// Its URL, in canonical form.
    pub url: String,
    /// The URL of the peer, in canonical form; empty when any that names this one will do.
    pub peer_url: String,
    /// This life of it.
    pub incarnation: Incarnation,
    /// The type of its elements.
    pub data_type: DataType,
    /// How they lie in the stream.
    pub form: ElementForm,
    /// Elements that its buffer holds; at least 1.
    pub capacity: u64,
    /// Bytes that its buffer holds; of elements of one size the capacity times that.
    pub bytes_max: u64,
    /// It is kept on disk: another life of it goes on where this one ends.
    pub has_journal: bool,
    /// What its journal knows of its peer: the part of the incarnation that stays the same through
    /// the lives of an endpoint with a journal. One of another lineage has other bytes.
    pub peer_lineage: Option<[u8; 8]>,
    /// What makes its shares: random in each life, or kept in its journal.
    pub secret: Secret,
    /// What its journal has of its peer, with which that proves who it is.
    pub pair: Option<Pair>,
    /// Its journal was there before this life and knows of no peer: it may have had a stream that
    /// has ended, and whose peer comes once more to be told so.
    pub had_stream: bool,
    /// Whether another peer of the same name may take the place of one that is gone, without what
    /// was lost with that one. Otherwise the stream ends then. An end with a journal goes on with
    /// the lives of one peer, and takes no other that it would dial.
    pub takes_successor: bool,
    /// The writer: S_DATA carries a checksum.
    pub is_checked: bool,
    /// The writer: what has to become of bytes before their place in its buffer is free again.
    /// [`Until::Durable`](crate::message::stream::Until::Durable) where the reader has a journal
    /// is [`Until::Available`](crate::message::stream::Until::Available) where it has none.
    pub freed_at: crate::message::stream::Until,
    /// The writer: it waits for no slow reader, and may drop elements that it says are lost. The
    /// reader: it can be told of such, which one with a journal cannot.
    pub drops: bool,
    /// The reader: an acknowledgement that nobody asked for is sent when nothing has arrived or was
    /// read for so long.
    pub ack_delay: Duration,
    /// The reader: how long it waits for that at most.
    pub ack_delay_max: Duration,
    /// Interval of signs of life.
    pub keepalive: Duration,
    /// Silence after which the peer counts as dead.
    pub deadline: Duration,
    /// Time without a connection after which the stream ends with an error; `None`: never.
    pub gone_after: Option<Duration>,
    /// Program and release; shown to people at the other end.
    pub program: String,
    /// Any random number: spreads the dials.
    pub seed: u64,
}

impl LinkOptions {
    /// Whether who dials may find another peer than the one before.
    pub(super) fn dials_anybody(&self) -> bool {
        self.takes_successor && !self.has_journal
    }

    /// A passive endpoint of elements of one size, with the defaults of everything else.
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
            takes_successor: false,
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

    /// The same of elements of varying length, which together have at most `bytes_max` bytes.
    pub fn variable(url: &str, data_type: DataType, capacity: u64, bytes_max: u64) -> Self {
        Self {
            form: ElementForm::Variable,
            bytes_max: bytes_max.max(1),
            ..Self::fixed(url, data_type, 1, capacity)
        }
    }
}
