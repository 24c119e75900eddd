//! Assigns arriving peers of an endpoint with several peers to lanes.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use trunkline_net::{Clock, Dialler, Link, LinkOptions as NetOptions, Transport};
use trunkline_proto::FaultCode;
use trunkline_proto::message::stream::{StreamEnd, StreamHello};
use trunkline_proto::stream::{LinkOptions, lineage};

use super::admission::{Admission, RETRY_AFTER, Rejected, refused, reject};
use super::member::Member;
use crate::directory::{self, Arrivals};
use crate::end::{Bell, EndpointRole, StreamEndpoint, read_hello};
use crate::properties::Properties;

/// The settings shared by all lanes of an endpoint.
pub(crate) struct Terms {
    pub(crate) link: LinkOptions,
    pub(crate) net: NetOptions,
    /// Turns checksums on or off; `None`: on only between machines.
    pub(crate) is_checked: Option<bool>,
    pub(crate) lanes_max: usize,
}

pub(crate) trait Lanes: Sized + Send + Sync + 'static {
    type End: EndpointRole + 'static;
    /// The program's part of a lane.
    type ProgramPart: Send;
    /// If true, a lane is removed when its stream is over; otherwise when the program removes it.
    const REMOVE_WHEN_OVER: bool;
    /// The kind of peer, for messages.
    const PEERS: &'static str;

    /// Creates the state machine of a lane.
    fn link(&self, options: LinkOptions) -> trunkline_proto::stream::Link<Half<Self>>;

    /// Creates the inner end of a lane, and the program's part.
    fn ends(&self) -> std::io::Result<(Self::End, Self::ProgramPart)>;

    /// Called when a lane has its peer, with the program's part of the lane.
    fn on_opened(&self, lane: &Lane<Self::End>, program_part: Self::ProgramPart);

    fn on_left(&self, lane: &Lane<Self::End>) {
        let _ = lane;
    }

    fn properties(&self, hub: &Hub<Self>) -> Properties;
}

type Half<O> = <<O as Lanes>::End as EndpointRole>::Half;

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
        let known = &self.member.incarnation;
        let is_next =
            self.has_journal && peer.has_journal && known[8..] == lineage(peer.incarnation);
        *known == peer.incarnation.0 || is_next
    }
}

pub(crate) struct Hub<O: Lanes> {
    pub(crate) lanes: O,
    pub(crate) terms: Terms,
    pub(crate) bell: Arc<Bell>,
    state: Mutex<State<O::End>>,
    /// Held while a peer is admitted, so that no peer is admitted twice.
    opening: Mutex<()>,
}

struct State<S: EndpointRole + 'static> {
    lanes: Vec<Lane<S>>,
    last: u64,
    /// Connections lost by peers that are gone.
    disconnections: u64,
    /// Elements received from peers that are gone.
    elements: u64,
    /// Length of the longest element written, including its length prefix.
    longest: u64,
    is_closed: bool,
}

impl<O: Lanes> Hub<O> {
    pub(crate) fn new(lanes: O, terms: Terms, bell: Arc<Bell>) -> Arc<Self> {
        let state = State {
            lanes: Vec::new(),
            last: 0,
            disconnections: 0,
            elements: 0,
            longest: 0,
            is_closed: false,
        };
        Arc::new(Self {
            lanes,
            terms,
            bell,
            state: Mutex::new(state),
            opening: Mutex::new(()),
        })
    }

    /// The current lanes, after removing those whose peers have left.
    pub(crate) fn present(&self) -> Vec<Lane<O::End>> {
        self.reap();
        self.lock().lanes.clone()
    }

    /// The number of current lanes. Lanes that are over only count if the program removes them.
    pub(crate) fn len(&self) -> usize {
        let state = self.lock();
        let is_there = |lane: &&Lane<_>| !O::REMOVE_WHEN_OVER || !lane.is_over();
        state.lanes.iter().filter(is_there).count()
    }

    /// Elements received from peers that are gone.
    pub(crate) fn elements_before(&self) -> u64 {
        self.lock().elements
    }

    pub(crate) fn properties(&self) -> Properties {
        self.lanes.properties(self)
    }

    /// The combined properties of all lanes, without those that differ between writers and readers.
    pub(super) fn properties_of_lanes(&self) -> Properties {
        let mut found = Properties::new(&self.terms.link);
        found.disconnections = self.lock().disconnections;
        let lanes = self.present();
        for lane in &lanes {
            let transport = lane.link.transport().map(|used| used.name);
            let one = lane
                .link
                .with(|end, now, _| Properties::of_link(&end.link, now));
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

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }

    pub(crate) fn remove(&self, number: u64) {
        self.take_out(|lane| lane.member.number == number);
    }

    /// Removes a lane, and adds its elements to the total.
    pub(crate) fn forget(&self, number: u64, elements: u64) {
        self.remove(number);
        self.lock().elements += elements;
    }

    /// Ends the lanes whose peers have left. Closes connections, so a connection's own thread must
    /// not call it.
    fn reap(&self) {
        if O::REMOVE_WHEN_OVER {
            let gone = self.take_out(Lane::is_over);
            gone.iter().for_each(|lane| self.lanes.on_left(lane));
        }
    }

    fn take_out(&self, is_gone: impl Fn(&Lane<O::End>) -> bool) -> Vec<Lane<O::End>> {
        let mut state = self.lock();
        let all = std::mem::take(&mut state.lanes);
        let (gone, there): (Vec<_>, Vec<_>) = all.into_iter().partition(is_gone);
        state.lanes = there;
        drop(state);
        for lane in &gone {
            let lost = lane.link.with(|end, _, _| end.link.disconnections());
            self.lock().disconnections += lost;
        }
        gone
    }

    /// Returns the length of the longest element that all readers have room for. Also records
    /// `bytes` as the longest element written, if it fits.
    pub(crate) fn element_bytes_max(&self, bytes: u64) -> u64 {
        let mut state = self.lock();
        let there = state.lanes.iter().filter(|lane| !lane.is_over());
        let max = there.map(|lane| lane.bytes_max).min();
        let max = max.unwrap_or(u64::MAX).min(self.terms.link.bytes_max);
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
        bytes: &[u8],
    ) -> Result<(), Rejected> {
        self.reap();
        if let Err(refused) = self.admission(&self.lock()).check(hello) {
            return reject(transport, &refused);
        }
        let now = Clock::new().now();
        let mut trial = self.lanes.link(self.terms.link.clone());
        if let Err(refused) = trial.handle_hello(now, 1, hello) {
            return reject(transport, &refused);
        }
        let busy = |cause: &dyn std::fmt::Display| {
            let sentence = format!(
                "{} cannot accept another peer at present: {cause}",
                self.terms.link.url
            );
            refused(FaultCode::LimitReached, sentence, Some(RETRY_AFTER))
        };
        let (inner, program_part) = match self.lanes.ends() {
            Ok(ends) => ends,
            Err(cause) => return reject(transport, &busy(&cause)),
        };
        let link = self.lanes.link(self.terms.link.clone());
        let end = StreamEndpoint::new(link, inner, None, None, None).without_sharing();
        let over = end.over();
        let no_dialler = Dialler::pipe(|| Err(std::io::ErrorKind::Unsupported.into()));
        let link = match Link::start(no_dialler, end, self.terms.net) {
            Ok(link) => link,
            Err(cause) => return reject(transport, &busy(&cause)),
        };
        let mut state = self.lock();
        state.last += 1;
        let member = Member {
            number: state.last,
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
        self.attach(&lane.link, transport, bytes)
            .inspect_err(|_| self.remove(number))?;
        self.lanes.on_opened(&lane, program_part);
        self.bell.ring();
        Ok(())
    }

    fn admission(&self, state: &State<O::End>) -> Admission<'_> {
        Admission {
            own: &self.terms.link,
            is_closed: state.is_closed,
            lanes: state.lanes.len(),
            lanes_max: self.terms.lanes_max,
            peers: O::PEERS,
            longest: state.longest,
        }
    }

    fn attach(
        &self,
        link: &Arc<Link<StreamEndpoint<O::End>>>,
        transport: Transport,
        bytes: &[u8],
    ) -> Result<(), Rejected> {
        let attached = directory::attach(link, transport, bytes, self.terms.is_checked);
        attached.or_else(|(transport, answer)| match answer.is_empty() {
            true => {
                let code = FaultCode::StreamOutdated;
                reject(transport, &refused(code, code.meaning().to_owned(), None))
            }
            false => Err(Box::new((transport, answer))),
        })
    }
}

impl<O: Lanes> Arrivals for Hub<O> {
    fn arrive(&self, socket: OwnedFd, bytes: &[u8]) {
        // A socket that cannot be used is closed; the peer dials again.
        let Ok(transport) = directory::transport_of(socket) else {
            return;
        };
        let opening = self.opening.lock();
        let _opening = opening.unwrap_or_else(PoisonError::into_inner);
        let admitted = match read_hello(Clock::new().now(), &mut &*bytes) {
            Err(refused) => reject(transport, &refused),
            Ok(hello) => {
                let lanes = self.present();
                match lanes.iter().find(|lane| lane.is_of(&hello.end)) {
                    Some(lane) => self.attach(&lane.link, transport, bytes),
                    None => self.open(&hello, transport, bytes),
                }
            }
        };
        if let Err(rejected) = admitted {
            let (transport, answer) = *rejected;
            directory::refuse(transport, &answer);
        }
    }

    fn properties(&self) -> Option<Properties> {
        Some(self.properties())
    }
}
