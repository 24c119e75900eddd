//! Reads the properties of an endpoint (NS-50 to NS-54).

mod report;

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Disconnect;
use trunkline_proto::stream::{Link, LinkOptions, StreamFault};
use trunkline_ring::SharedFills;
use trunkline_types::{DataType, Tick};

use crate::end::syncing::Syncs;
use crate::end::{ReaderEnd, StreamEndpoint, WriterEnd};
use crate::handle::EndpointHandle;
use crate::journal::JournalError;

pub(crate) use self::report::Reporter;

/// An endpoint whose properties can be read from any thread.
pub(crate) trait HasProperties: Syncs + Sized + 'static {
    const IS_WRITER: bool;

    /// Returns the number of elements in this endpoint's buffer, and the number of elements that the
    /// endpoint has written or read.
    fn counts(end: &mut StreamEndpoint<Self>) -> (u64, u64);

    /// Like [`counts`](Self::counts), for a ring shared by both ends. `written` and `read` are the
    /// total numbers of elements written and read.
    fn shared_counts(fills: SharedFills, written: u64, read: u64) -> (u64, u64);

    fn journal_error(end: &StreamEndpoint<Self>) -> Option<JournalError>;
}

impl HasProperties for WriterEnd {
    const IS_WRITER: bool = true;

    fn counts(end: &mut StreamEndpoint<Self>) -> (u64, u64) {
        let written = match &end.inner.store {
            Some(store) => store.written_elements(),
            None => end.inner.ring.written_elements().unwrap_or(0),
        };
        (written.saturating_sub(end.link.freed_elements()), written)
    }

    fn shared_counts(fills: SharedFills, written: u64, read: u64) -> (u64, u64) {
        (fills.in_writer(written, read), written)
    }

    fn journal_error(end: &StreamEndpoint<Self>) -> Option<JournalError> {
        end.journal_error()
    }
}

impl HasProperties for ReaderEnd {
    const IS_WRITER: bool = false;

    fn counts(end: &mut StreamEndpoint<Self>) -> (u64, u64) {
        let read = end.inner.ring.read_elements().unwrap_or(0);
        let read = read.max(end.link.read_elements());
        (end.link.ready().1.saturating_sub(read), read)
    }

    fn shared_counts(fills: SharedFills, written: u64, read: u64) -> (u64, u64) {
        (fills.in_reader(written, read), read)
    }

    fn journal_error(end: &StreamEndpoint<Self>) -> Option<JournalError> {
        end.last_journal_error()
    }
}

/// The state of an endpoint at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Properties {
    /// URL of the endpoint in canonical form.
    pub url: String,
    pub is_writer: bool,
    pub data_type: DataType,
    /// Capacity of the buffer, in elements.
    pub capacity: u64,
    /// Number of elements in the buffer. For a writer: elements that the reader has not confirmed.
    /// For a reader: elements that can be read.
    pub in_buffer: u64,
    /// Number of elements written or read since the endpoint was created.
    pub total: u64,
    /// True while the two ends are connected.
    pub is_connected: bool,
    /// Number of times that the connection was lost, or ended with its stream (NS-53).
    pub disconnections: u64,
    /// True if the stream has ended normally and needs no connection any more. Always false with
    /// several peers.
    pub is_ended: bool,
    /// Time since the connection was lost; `None` while connected and before the first connection.
    pub away_for: Option<Duration>,
    /// The reason why the last connection ended or failed.
    pub last_disconnect: Option<Disconnect>,
    /// URL that the peer has reported; `None` before the first connection. With several peers, their
    /// number and kind, such as "3 readers".
    pub peer: Option<String>,
    /// The peer's program and release.
    pub peer_program: Option<String>,
    /// The account, or the local user, that opened the connection, such as `account:daq` or
    /// `local:1000`; `None` if it is unknown, or if this endpoint opened the connection.
    pub peer_account: Option<String>,
    /// The peers of an endpoint with several peers; empty for other endpoints.
    pub members: Vec<MemberProperties>,
    /// Short name of the transport, such as "shared memory".
    pub transport: Option<&'static str>,
    /// The reason why the stream is over, unless it ended normally.
    pub fault: Option<StreamFault>,
    /// The reason why the journal cannot be used at present, or was not emptied when the endpoint
    /// was closed.
    pub journal: Option<JournalError>,
}

/// One of several peers of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberProperties {
    /// URL, as reported by the peer.
    pub url: String,
    /// The account, or the local user, that opened the connection; `None` if it is unknown.
    pub account: Option<String>,
    /// Time since the connection was lost; `None` while connected.
    pub away_for: Option<Duration>,
}

/// Reads an endpoint's properties from any thread, even while the endpoint's own thread is waiting,
/// for example for a watchdog or a display. After the endpoint is gone, the monitor returns the last
/// properties of the endpoint.
#[derive(Clone)]
pub struct Monitor(Arc<dyn Fn() -> Properties + Send + Sync>);

impl Monitor {
    pub(crate) fn new(read: impl Fn() -> Properties + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(crate) fn of<S: HasProperties>(link: &EndpointHandle<S>) -> Self {
        let link = link.clone();
        Self::new(move || Properties::of(&link))
    }

    pub fn properties(&self) -> Properties {
        (self.0)()
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Monitor").field(&self.properties()).finish()
    }
}

impl Properties {
    /// Returns the free room in a writer's buffer, in elements (NS-51); 0 for a reader.
    pub fn available_for_writing(&self) -> u64 {
        match self.is_writer {
            true => self.capacity.saturating_sub(self.in_buffer),
            false => 0,
        }
    }

    /// Returns the number of elements that a reader's program can read (NS-50); 0 for a writer.
    pub fn available_for_reading(&self) -> u64 {
        match self.is_writer {
            true => 0,
            false => self.in_buffer,
        }
    }

    /// Returns the number of times that the connection was lost. Unlike
    /// [`disconnections`](Self::disconnections), this does not count the connection that ended with
    /// the stream.
    pub fn outages(&self) -> u64 {
        let is_last = self.is_ended && !self.is_connected;
        self.disconnections.saturating_sub(u64::from(is_last))
    }

    /// Returns true if the peer was destroyed (NS-54).
    pub fn is_peer_destroyed(&self) -> bool {
        matches!(self.fault, Some(StreamFault::PeerDestroyed { .. }))
    }

    pub(crate) fn of<S: HasProperties>(link: &EndpointHandle<S>) -> Self {
        let transport = link.transport().map(|transport| transport.name);
        link.with(|end, now, _| {
            let shared = end
                .inner
                .shared_mut()
                .as_mut()
                .map(|s| (s.fills, s.positions()));
            let transport = match &shared {
                Some(_) => transport.and(Some("shared memory")),
                None => transport,
            };
            let (in_buffer, total) = match shared {
                Some((fills, Ok(((_, written), (_, read))))) => {
                    S::shared_counts(fills, written, read)
                }
                _ => S::counts(end),
            };
            Self {
                is_writer: S::IS_WRITER,
                journal: S::journal_error(end),
                in_buffer,
                total: total.saturating_sub(end.start().elements),
                transport,
                ..Self::of_link(&end.link, now)
            }
        })
    }

    pub(crate) fn of_link<H>(link: &Link<H>, now: Tick) -> Self {
        Self {
            is_connected: link.is_connected(),
            disconnections: link.disconnections(),
            is_ended: link.is_over() && link.fault().is_none(),
            away_for: link.away_since().map(|since| now.since(since)),
            last_disconnect: link.last_disconnect().cloned(),
            peer: link.peer().map(|peer| peer.url.clone()),
            peer_program: link.peer().map(|peer| peer.program.clone()),
            peer_account: link.peer_identity().map(str::to_owned),
            fault: link.fault().cloned(),
            ..Self::new(link.options())
        }
    }

    /// Returns the properties of a reader that has no peer yet.
    pub(crate) fn new(options: &LinkOptions) -> Self {
        Self {
            url: options.url.clone(),
            is_writer: false,
            data_type: options.data_type.clone(),
            capacity: options.capacity,
            in_buffer: 0,
            total: 0,
            is_connected: false,
            disconnections: 0,
            is_ended: false,
            away_for: None,
            last_disconnect: None,
            peer: None,
            peer_program: None,
            peer_account: None,
            members: Vec::new(),
            transport: None,
            fault: None,
            journal: None,
        }
    }
}
