//! Assigns each peer that connects to a multi-peer endpoint to a lane.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use trunkline_net::{Clock, Dialler, Link, LinkOptions as NetOptions, Transport};
use trunkline_proto::FaultCode;
use trunkline_proto::message::stream::directory::Ticket;
use trunkline_proto::message::stream::{StreamEnd, StreamHello};
use trunkline_proto::stream::{LinkOptions, lineage};

use super::admission::{Admission, RETRY_AFTER, Rejected, refused, reject};
use super::member::Member;
use crate::directory::{self, Arrival, Arrivals};
use crate::end::{Bell, EndpointRole, StreamEndpoint, read_hello};
use crate::properties::{MemberProperties, Properties};

/// The settings shared by all lanes of an endpoint.
pub(crate) struct LaneSettings {
    pub(crate) link: LinkOptions,
    pub(crate) net: NetOptions,
    /// Turns checksums on or off; `None` turns them on only between machines.
    pub(crate) is_checked: Option<bool>,
    pub(crate) lanes_max: usize,
}

pub(crate) trait Lanes: Sized + Send + Sync + 'static {
    type End: EndpointRole + 'static;
    /// The program's part of a lane.
    type ProgramPart: Send;
    /// If true, a lane is removed when its stream is over. Otherwise the program removes it.
    const REMOVE_WHEN_OVER: bool;
    /// The plural noun for the peers in messages: "readers" or "writers".
    const PEERS: &'static str;
    /// If true, a peer that is disconnected can hold back the program. Its place is free once it may not
    /// use the stream any more.
    const HOLDS_BACK: bool;

    /// Creates the state machine of a lane.
    fn link(&self, options: LinkOptions) -> trunkline_proto::stream::Link<LinkRole<Self>>;

    /// Creates the inner end of a lane, and the program's part.
    fn ends(&self) -> std::io::Result<(Self::End, Self::ProgramPart)>;

    /// Called after a peer was assigned to a new lane, with the program's part of the lane.
    fn on_opened(&self, lane: &Lane<Self::End>, program_part: Self::ProgramPart);

    fn on_left(&self, lane: &Lane<Self::End>) {
        let _ = lane;
    }

    fn properties(&self, hub: &Hub<Self>) -> Properties;
}

type LinkRole<O> = <<O as Lanes>::End as EndpointRole>::LinkRole;

/// A peer and its connection.
pub(crate) struct Lane<S: EndpointRole + 'static> {
    pub(crate) member: Arc<Member>,
    pub(crate) link: Arc<Link<StreamEndpoint<S>>>,
    /// Size of the peer's buffer, in bytes.
    pub(crate) bytes_max: u64,
    has_journal: bool,
    /// Set once the stream is over.
    over: Arc<OnceLock<()>>,
}

impl<S: EndpointRole> Clone for Lane<S> {
    fn clone(&self) -> Self {
        Self {
            member: self.member.clone(),
            link: self.link.clone(),
            over: self.over.clone(),
            ..*self
        }
    }
}

impl<S: EndpointRole> Lane<S> {
    pub(crate) fn is_over(&self) -> bool {
        self.over.get().is_some()
    }

    fn is_of(&self, peer: &StreamEnd) -> bool {
        let current = &self.member.incarnation;
        let is_next =
            self.has_journal && peer.has_journal && current[8..] == lineage(peer.incarnation);
        *current == peer.incarnation.0 || is_next
    }
}

pub(crate) struct Hub<O: Lanes> {
    pub(crate) lanes: O,
    pub(crate) settings: LaneSettings,
    pub(crate) bell: Arc<Bell>,
    state: Mutex<State<O::End>>,
    /// Held while a peer is admitted, so that no peer is admitted twice.
    opening: Mutex<()>,
}

struct State<S: EndpointRole + 'static> {
    lanes: Vec<Lane<S>>,
    /// Number of the last lane created; lanes are numbered from 1.
    last_number: u64,
    /// Number of connections lost in removed lanes.
    disconnections: u64,
    /// Number of elements received in removed lanes.
    elements: u64,
    /// Length of the longest element written, including its length prefix.
    longest: u64,
    is_closed: bool,
}

impl<O: Lanes> Hub<O> {
    pub(crate) fn new(lanes: O, settings: LaneSettings, bell: Arc<Bell>) -> Arc<Self> {
        let state = State {
            lanes: Vec::new(),
            last_number: 0,
            disconnections: 0,
            elements: 0,
            longest: 0,
            is_closed: false,
        };
        Arc::new(Self {
            lanes,
            settings,
            bell,
            state: Mutex::new(state),
            opening: Mutex::new(()),
        })
    }

    /// Removes the lanes whose peers have left, and returns the other lanes.
    pub(crate) fn current_lanes(&self) -> Vec<Lane<O::End>> {
        self.reap();
        self.lock().lanes.clone()
    }

    /// Returns the number of lanes. A lane whose stream is over counts only if the program has to
    /// remove it.
    pub(crate) fn len(&self) -> usize {
        let state = self.lock();
        let counts = |lane: &&Lane<_>| !O::REMOVE_WHEN_OVER || !lane.is_over();
        state.lanes.iter().filter(counts).count()
    }

    /// Returns the number of elements received in removed lanes.
    pub(crate) fn elements_of_removed_lanes(&self) -> u64 {
        self.lock().elements
    }

    pub(crate) fn properties(&self) -> Properties {
        self.lanes.properties(self)
    }

    /// Returns the combined properties of all lanes, except those that are computed differently for
    /// readers and writers.
    pub(super) fn properties_of_lanes(&self) -> Properties {
        let mut combined = Properties::new(&self.settings.link);
        combined.disconnections = self.lock().disconnections;
        let lanes = self.current_lanes();
        for lane in &lanes {
            let transport = lane.link.transport().map(|transport| transport.name);
            let of_lane = lane
                .link
                .with(|end, now, _| Properties::of_link(&end.link, now));
            combined.is_connected |= of_lane.is_connected;
            combined.disconnections += of_lane.disconnections;
            combined.away_for = combined.away_for.max(of_lane.away_for);
            combined.last_disconnect = of_lane.last_disconnect.or(combined.last_disconnect);
            combined.transport = transport.or(combined.transport);
            (combined.peer, combined.peer_program) = (of_lane.peer, of_lane.peer_program);
            combined.peer_account = of_lane.peer_account.clone();
            combined.members.push(MemberProperties {
                url: lane.member.url.clone(),
                account: of_lane.peer_account,
                away_for: of_lane.away_for,
            });
        }
        if lanes.len() != 1 {
            combined.peer = Some(format!("{} {}", lanes.len(), O::PEERS));
            (combined.peer_program, combined.peer_account) = (None, None);
        }
        combined
    }

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }

    pub(crate) fn remove(&self, number: u64) {
        self.remove_where(|lane| lane.member.number == number);
    }

    /// Removes a lane, and adds its elements to the total.
    pub(crate) fn forget(&self, number: u64, elements: u64) {
        self.remove(number);
        self.lock().elements += elements;
    }

    /// Removes the lanes whose peers have left. This closes connections, so the thread of a
    /// connection must not call it.
    fn reap(&self) {
        if O::REMOVE_WHEN_OVER {
            let removed = self.remove_where(Lane::is_over);
            removed.iter().for_each(|lane| self.lanes.on_left(lane));
        }
    }

    fn remove_where(&self, is_removed: impl Fn(&Lane<O::End>) -> bool) -> Vec<Lane<O::End>> {
        let mut state = self.lock();
        let all = std::mem::take(&mut state.lanes);
        let (removed, remaining): (Vec<_>, Vec<_>) = all.into_iter().partition(is_removed);
        state.lanes = remaining;
        drop(state);
        for lane in &removed {
            let disconnections = lane.link.with(|end, _, _| end.link.disconnections());
            self.lock().disconnections += disconnections;
        }
        removed
    }

    /// Returns the length of the longest element that all readers have room for. Also records
    /// `bytes` as the longest element written, if it fits.
    pub(crate) fn element_bytes_max(&self, bytes: u64) -> u64 {
        let mut state = self.lock();
        let active = state.lanes.iter().filter(|lane| !lane.is_over());
        let max = active.map(|lane| lane.bytes_max).min();
        let max = max.unwrap_or(u64::MAX).min(self.settings.link.bytes_max);
        if bytes <= max {
            state.longest = state.longest.max(bytes);
        }
        max
    }

    fn lock(&self) -> MutexGuard<'_, State<O::End>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(
        &self,
        hello: &StreamHello,
        transport: Transport,
        arrival: Arrival,
        bytes: &[u8],
    ) -> Result<(), Rejected> {
        self.reap();
        if let Err(refused) = self.admission(&self.lock()).check(hello) {
            return reject(transport, &refused);
        }
        let now = Clock::new().now();
        let mut trial = self.lanes.link(self.settings.link.clone());
        if let Err(refused) = trial.handle_hello(now, 1, hello) {
            return reject(transport, &refused);
        }
        let busy = |cause: &dyn std::fmt::Display| {
            let sentence = format!(
                "{} cannot accept another peer at present: {cause}; the connection is retried",
                self.settings.link.url
            );
            refused(FaultCode::LimitReached, sentence, Some(RETRY_AFTER))
        };
        let (inner, program_part) = match self.lanes.ends() {
            Ok(ends) => ends,
            Err(cause) => return reject(transport, &busy(&cause)),
        };
        let link = self.lanes.link(self.settings.link.clone());
        let end = StreamEndpoint::new(link, inner, None, None, None).without_sharing();
        let over = end.over();
        let no_dialler = Dialler::pipe(|| Err(std::io::ErrorKind::Unsupported.into()));
        let link = match Link::start(no_dialler, end, self.settings.net) {
            Ok(link) => link,
            Err(cause) => return reject(transport, &busy(&cause)),
        };
        let mut state = self.lock();
        state.last_number += 1;
        let member = Member {
            number: state.last_number,
            url: hello.end.url.clone(),
            program: hello.end.program.clone(),
            incarnation: hello.end.incarnation.0,
        };
        let lane = Lane {
            member: Arc::new(member),
            link,
            bytes_max: hello.end.bytes_max,
            has_journal: hello.end.has_journal,
            over,
        };
        state.lanes.push(lane.clone());
        drop(state);
        let number = lane.member.number;
        self.attach(&lane.link, transport, arrival, bytes)
            .inspect_err(|_| self.remove(number))?;
        self.lanes.on_opened(&lane, program_part);
        self.bell.ring();
        Ok(())
    }

    fn admission(&self, state: &State<O::End>) -> Admission<'_> {
        Admission {
            own: &self.settings.link,
            is_closed: state.is_closed,
            lanes: state.lanes.len(),
            lanes_max: self.settings.lanes_max,
            peers: O::PEERS,
            longest: state.longest,
        }
    }

    fn attach(
        &self,
        link: &Arc<Link<StreamEndpoint<O::End>>>,
        transport: Transport,
        arrival: Arrival,
        bytes: &[u8],
    ) -> Result<(), Rejected> {
        let attached = directory::attach(link, transport, arrival, bytes, self.settings.is_checked);
        attached.or_else(|rejected| match rejected.1.is_empty() {
            true => {
                let code = FaultCode::StreamOutdated;
                reject(rejected.0, &refused(code, code.meaning().to_owned(), None))
            }
            false => Err(rejected),
        })
    }
}

impl<O: Lanes> Arrivals for Hub<O> {
    fn arrive(&self, transport: Transport, arrival: Arrival, bytes: &[u8]) {
        let opening = self.opening.lock();
        let _opening = opening.unwrap_or_else(PoisonError::into_inner);
        let admitted = match read_hello(Clock::new().now(), &mut &*bytes) {
            Err(refused) => reject(transport, &refused),
            Ok(hello) => {
                let lanes = self.current_lanes();
                match lanes.iter().find(|lane| lane.is_of(&hello.end)) {
                    Some(lane) => self.attach(&lane.link, transport, arrival, bytes),
                    None => self.open(&hello, transport, arrival, bytes),
                }
            }
        };
        if let Err(rejected) = admitted {
            let (transport, answer) = *rejected;
            directory::refuse(transport, &answer);
        }
    }

    fn revoke(&self, ticket: &Ticket, is_lost: bool) {
        for lane in self.lock().lanes.clone() {
            lane.link.with(|end, _, _| match is_lost && O::HOLDS_BACK {
                true => end.exclude(ticket),
                false => end.revoke(ticket),
            });
        }
    }

    fn tickets(&self) -> BTreeSet<Ticket> {
        let lanes = self.lock().lanes.clone();
        let of_lane = |lane: Lane<O::End>| {
            lane.link.with(|end, _, _| match O::HOLDS_BACK {
                true => end.ticket_of_place(),
                false => end.ticket(),
            })
        };
        lanes.into_iter().filter_map(of_lane).collect()
    }

    fn properties(&self) -> Option<Properties> {
        Some(self.properties())
    }
}
