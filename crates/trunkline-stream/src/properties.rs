//! What an endpoint says of itself (NS-50 to NS-54).

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

/// An end of which somebody else than its program asks.
pub(crate) trait Asked: Syncs + Sized + 'static {
    fn properties(link: &Held<Self>) -> Properties;
}

/// What they are told from.
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

/// An endpoint at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Properties {
    /// Its URL in canonical form.
    pub url: String,
    /// Whether it writes; otherwise it reads.
    pub is_writer: bool,
    /// The type of its elements.
    pub data_type: DataType,
    /// Elements that its buffer holds.
    pub capacity: u64,
    /// Elements in its buffer: of a writer those that the reader is not known to have, of a reader
    /// those that can be read.
    pub in_buffer: u64,
    /// Elements written, or read, in all.
    pub total: u64,
    /// The two ends are connected.
    pub is_connected: bool,
    /// How often they were and then were not (NS-53).
    pub disconnections: u64,
    /// For how long they have not been connected, though they were.
    pub away_for: Option<Duration>,
    /// Why the last connection ended, or did not come to be.
    pub last_disconnect: Option<Disconnect>,
    /// The other end's URL, as it calls itself; `None` before the first connection. Where there are
    /// several, how many.
    pub peer: Option<String>,
    /// The other end's program and release.
    pub peer_program: Option<String>,
    /// What the connection is made of, in a word or two.
    pub transport: Option<&'static str>,
    /// Why the stream is over, when it did not come to its end.
    pub fault: Option<StreamFault>,
    /// Why its journal cannot be used at present, or was not emptied when the end was closed.
    pub journal: Option<JournalError>,
}

/// Asks an endpoint what it says of itself, from any thread, while its own waits: for a watchdog,
/// or for a display. Of an endpoint that is gone it tells the last there was.
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

    /// The endpoint at this moment.
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
    /// Room in a writer's buffer, in elements (NS-51). 0 of a reader.
    pub fn available_for_writing(&self) -> u64 {
        match self.is_writer {
            true => self.capacity.saturating_sub(self.in_buffer),
            false => 0,
        }
    }

    /// Elements that a reader's program can read (NS-50). 0 of a writer.
    pub fn available_for_reading(&self) -> u64 {
        match self.is_writer {
            true => 0,
            false => self.in_buffer,
        }
    }

    /// The other end was destroyed (NS-54).
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

    /// Of an endpoint with several peers: what is the same whichever way it goes.
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
