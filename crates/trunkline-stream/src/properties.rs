//! The properties of an endpoint (NS-50 to NS-54).

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::Disconnect;
use trunkline_proto::stream::{Link, StreamFault};
use trunkline_types::{DataType, Tick};

use crate::end::syncing::Syncs;
use crate::end::{Inner, ReaderEnd, WriterEnd};
use crate::fan::{GatherCore, Hub, Lanes, OutCore};
use crate::held::Held;
use crate::journal::JournalError;
use crate::reader::ReaderCore;
use crate::writer::WriterCore;

/// An end whose properties can be read by others than its program.
pub(crate) trait Asked: Syncs + Sized + 'static {
    fn properties(link: &Held<Self>) -> Properties;
}

/// The source of the properties.
struct Told<'a, S: Inner + 'static> {
    link: &'a Held<S>,
}

impl Asked for WriterEnd {
    fn properties(link: &Held<Self>) -> Properties {
        Properties::of_writing(Told { link })
    }
}

impl Asked for ReaderEnd {
    fn properties(link: &Held<Self>) -> Properties {
        Properties::of_reading(Told { link })
    }
}

/// The state of an endpoint at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Properties {
    /// URL of the endpoint in canonical form.
    pub url: String,
    /// True for a writer, false for a reader.
    pub is_writer: bool,
    /// Type of the elements.
    pub data_type: DataType,
    /// Capacity of the buffer, in elements.
    pub capacity: u64,
    /// Elements in the buffer. For a writer: those that the reader is not known to have. For a
    /// reader: those that can be read.
    pub in_buffer: u64,
    /// Elements written, or read, since creation.
    pub total: u64,
    /// True while the two ends are connected.
    pub is_connected: bool,
    /// Number of times that the connection was lost, or ended with its stream (NS-53).
    pub disconnections: u64,
    /// True if the stream is at its end and needs no connection any more. Always false with several
    /// peers.
    pub is_ended: bool,
    /// Time since the connection was lost; `None` while connected and before the first connection.
    pub away_for: Option<Duration>,
    /// The reason why the last connection ended or failed.
    pub last_disconnect: Option<Disconnect>,
    /// The peer's URL as it calls itself; `None` before the first connection. With several peers,
    /// their number in words.
    pub peer: Option<String>,
    /// The peer's program and release.
    pub peer_program: Option<String>,
    /// Short name of the transport, such as "shared memory".
    pub transport: Option<&'static str>,
    /// The reason why the stream is over, unless it ended normally.
    pub fault: Option<StreamFault>,
    /// The reason why the journal cannot be used at present, or was not emptied when the end was
    /// closed.
    pub journal: Option<JournalError>,
}

impl Properties {
    /// Number of times that the connection was lost: [`disconnections`](Self::disconnections) without
    /// the connection that ended with the stream.
    pub fn outages(&self) -> u64 {
        let is_last = self.is_ended && !self.is_connected;
        self.disconnections.saturating_sub(u64::from(is_last))
    }
}

/// Reads an endpoint's properties from any thread, even while the endpoint's own thread waits: for
/// a watchdog or a display. After the endpoint is gone it returns its last properties.
#[derive(Clone)]
pub struct Monitor(Arc<dyn Fn() -> Properties + Send + Sync>);

impl Monitor {
    fn of<S: Asked>(link: &Held<S>) -> Self {
        let link = link.clone();
        Self(Arc::new(move || S::properties(&link)))
    }

    fn of_hub<O: Lanes>(hub: &Arc<Hub<O>>) -> Self {
        let hub = Arc::clone(hub);
        Self(Arc::new(move || hub.lanes.properties(&hub)))
    }

    /// Returns the properties at this moment.
    pub fn properties(&self) -> Properties {
        (self.0)()
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Monitor").field(&self.properties()).finish()
    }
}

impl WriterCore {
    pub(crate) fn monitor(&self) -> Monitor {
        Monitor::of(&self.link)
    }

    pub(crate) fn properties(&self) -> Properties {
        WriterEnd::properties(&self.link)
    }
}

impl ReaderCore {
    pub(crate) fn monitor(&self) -> Monitor {
        Monitor::of(&self.link)
    }

    pub(crate) fn properties(&self) -> Properties {
        ReaderEnd::properties(&self.link)
    }
}

impl OutCore {
    pub(crate) fn monitor(&self) -> Monitor {
        Monitor::of_hub(&self.hub)
    }

    pub(crate) fn properties(&self) -> Properties {
        self.hub.lanes.properties(&self.hub)
    }
}

impl GatherCore {
    pub(crate) fn monitor(&self) -> Monitor {
        Monitor::of_hub(&self.hub)
    }

    pub(crate) fn properties(&self) -> Properties {
        self.hub.lanes.properties(&self.hub)
    }
}

impl Properties {
    /// Free room in a writer's buffer, in elements (NS-51); 0 for a reader.
    pub fn available_for_writing(&self) -> u64 {
        match self.is_writer {
            true => self.capacity.saturating_sub(self.in_buffer),
            false => 0,
        }
    }

    /// Elements available to a reader's program (NS-50); 0 for a writer.
    pub fn available_for_reading(&self) -> u64 {
        match self.is_writer {
            true => 0,
            false => self.in_buffer,
        }
    }

    /// Returns true if the other end was destroyed (NS-54).
    pub fn is_peer_destroyed(&self) -> bool {
        matches!(self.fault, Some(StreamFault::PeerDestroyed { .. }))
    }

    fn of_writing(core: Told<'_, WriterEnd>) -> Self {
        let transport = core.link.transport().map(|used| used.name);
        core.link.with(|end, now, _| {
            let transport = shared_or(end.inner.shared().is_some(), transport);
            let seen = end.inner.shared_mut().as_mut().map(|s| (s.fills, s.look()));
            let (in_buffer, total) = match seen {
                Some((fills, Ok(((_, written), (_, read))))) => {
                    (fills.in_writer(written, read), written)
                }
                _ => {
                    let written = match &end.inner.store {
                        Some(store) => store.written_elements(),
                        None => end.inner.ring.written_elements().unwrap_or(0),
                    };
                    (written.saturating_sub(end.link.freed_elements()), written)
                }
            };
            Self {
                is_writer: true,
                journal: end.journal_error(),
                in_buffer,
                total: total.saturating_sub(end.start().elements),
                transport,
                ..Self::of(&end.link, now)
            }
        })
    }

    fn of_reading(core: Told<'_, ReaderEnd>) -> Self {
        let transport = core.link.transport().map(|used| used.name);
        core.link.with(|end, now, _| {
            let transport = shared_or(end.inner.shared().is_some(), transport);
            let seen = end.inner.shared_mut().as_mut().map(|s| (s.fills, s.look()));
            let (in_buffer, total) = match seen {
                Some((fills, Ok(((_, written), (_, read))))) => {
                    (fills.in_reader(written, read), read)
                }
                _ => {
                    let read = end.inner.ring.read_elements().unwrap_or(0);
                    let read = read.max(end.link.read_elements());
                    (end.link.ready().1.saturating_sub(read), read)
                }
            };
            Self {
                journal: end.last_journal_error(),
                in_buffer,
                total: total.saturating_sub(end.start().elements),
                transport,
                ..Self::of(&end.link, now)
            }
        })
    }

    /// The properties of an endpoint with several peers that writers and readers share.
    pub(crate) fn of_lanes<O: Lanes>(hub: &Hub<O>) -> Self {
        let options = &hub.terms.link;
        let mut found = Self {
            url: options.url.clone(),
            is_writer: false,
            data_type: options.data_type.clone(),
            capacity: options.capacity,
            in_buffer: 0,
            total: 0,
            is_connected: false,
            disconnections: hub.disconnections_before(),
            is_ended: false,
            away_for: None,
            last_disconnect: None,
            peer: None,
            peer_program: None,
            transport: None,
            fault: None,
            journal: None,
        };
        let lanes = hub.present();
        for lane in &lanes {
            let transport = lane.link.transport().map(|used| used.name);
            let one = lane.link.with(|end, now, _| Self::of(&end.link, now));
            found.is_connected |= one.is_connected;
            found.disconnections += one.disconnections;
            found.away_for = found.away_for.max(one.away_for);
            found.last_disconnect = one.last_disconnect.or(found.last_disconnect);
            found.transport = transport.or(found.transport);
            (found.peer, found.peer_program) = (one.peer, one.peer_program);
        }
        if lanes.len() != 1 {
            found.peer = Some(format!("{} {}", lanes.len(), O::PEERS));
            found.peer_program = None;
        }
        found
    }

    fn of<H>(link: &Link<H>, now: Tick) -> Self {
        let options = link.options();
        Self {
            url: options.url.clone(),
            is_writer: false,
            data_type: options.data_type.clone(),
            capacity: options.capacity,
            in_buffer: 0,
            total: 0,
            is_connected: link.is_connected(),
            disconnections: link.disconnections(),
            is_ended: link.is_over() && link.fault().is_none(),
            away_for: link.away_since().map(|since| now.since(since)),
            last_disconnect: link.last_disconnect().cloned(),
            peer: link.peer().map(|peer| peer.url.clone()),
            peer_program: link.peer().map(|peer| peer.program.clone()),
            transport: None,
            fault: link.fault().cloned(),
            journal: None,
        }
    }
}

fn shared_or(is_shared: bool, transport: Option<&'static str>) -> Option<&'static str> {
    match is_shared {
        true => transport.and(Some("shared memory")),
        false => transport,
    }
}
