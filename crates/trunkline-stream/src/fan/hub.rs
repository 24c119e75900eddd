//! Assigns arriving peers of an endpoint with several peers to lanes.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use trunkline_net::{Admitted, Clock, Dialler, Link, LinkOptions as NetOptions, Peer, Transport};
use trunkline_proto::FaultCode;
use trunkline_proto::message::stream::control::encode_refused;
use trunkline_proto::message::stream::{StreamEnd, StreamHello};
use trunkline_proto::stream::{LinkOptions, lineage};

use super::admission::{Admission, Away, RETRY_AFTER, away, read_hello, read_refused, refused};
use super::member::Member;
use crate::directory::Arrivals;
use crate::end::{Bell, End, Inner};
use crate::properties::Properties;
use crate::registry;

/// The settings shared by all lanes of an endpoint.
pub(crate) struct Terms {
    pub(crate) link: LinkOptions,
    pub(crate) net: NetOptions,
    /// Checksums on or off, if the program has chosen; `None`: only between machines.
    pub(crate) is_checked: Option<bool>,
    /// Largest number of peers at a time.
    pub(crate) lanes_max: usize,
}

/// Creates the lanes of an endpoint.
pub(crate) trait Lanes: Sized + Send + Sync + 'static {
    type Inner: Inner + 'static;
    /// The program's part of a lane.
    type Outer: Send;
    /// If true, a lane is removed when its stream is over; otherwise when the program says so.
    const GO_WHEN_OVER: bool;
    /// The kind of peer, in words for people.
    const PEERS: &'static str;

    /// Creates the state machine of a lane.
    fn link(&self, options: LinkOptions) -> trunkline_proto::stream::Link<Half<Self>>;

    /// Creates the inner end of a lane, and the program's part.
    ///
    /// # Errors
    /// The system provides no memory.
    fn ends(&self) -> std::io::Result<(Self::Inner, Self::Outer)>;

    /// Called when a lane has its peer, with the program's part of the lane.
    fn opened(&self, lane: &Lane<Self::Inner>, outer: Self::Outer);

    /// Called when the peer has left.
    fn left(&self, lane: &Lane<Self::Inner>) {
        let _ = lane;
    }

    /// Returns the properties of the endpoint.
    fn properties(&self, hub: &Hub<Self>) -> Properties;
}

type Half<O> = <<O as Lanes>::Inner as Inner>::Half;

/// A peer and its connection.
pub(crate) struct Lane<S: Inner + 'static> {
    pub(crate) member: Arc<Member>,
    pub(crate) link: Arc<Link<End<S>>>,
    /// Size of the peer's buffer, in bytes.
    pub(crate) bytes_max: u64,
    has_journal: bool,
    /// Set once the stream is over.
    over: Arc<OnceLock<()>>,
}

impl<S: Inner> Clone for Lane<S> {
    fn clone(&self) -> Self {
        Self {
            member: self.member.clone(),
            link: self.link.clone(),
            over: self.over.clone(),
            ..*self
        }
    }
}

impl<S: Inner> Lane<S> {
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

/// The lanes of an endpoint.
pub(crate) struct Hub<O: Lanes> {
    pub(crate) lanes: O,
    pub(crate) terms: Terms,
    pub(crate) bell: Arc<Bell>,
    state: Mutex<State<O::Inner>>,
    /// Held while a peer is admitted, so that no peer is admitted twice.
    opening: Mutex<()>,
}

struct State<S: Inner + 'static> {
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
    pub(crate) fn present(&self) -> Vec<Lane<O::Inner>> {
        self.reap();
        self.lock().lanes.clone()
    }

    /// The number of current lanes. Lanes that are over only count if the program removes them.
    pub(crate) fn len(&self) -> usize {
        let state = self.lock();
        let is_there = |lane: &&Lane<_>| !O::GO_WHEN_OVER || !lane.is_over();
        state.lanes.iter().filter(is_there).count()
    }

    /// Connections lost by peers that are gone.
    pub(crate) fn disconnections_before(&self) -> u64 {
        self.lock().disconnections
    }

    /// Elements received from peers that are gone.
    pub(crate) fn elements_before(&self) -> u64 {
        self.lock().elements
    }

    /// Stops admitting peers.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Removes a lane that has been emptied.
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
        if O::GO_WHEN_OVER {
            let gone = self.take_out(Lane::is_over);
            gone.iter().for_each(|lane| self.lanes.left(lane));
        }
    }

    fn take_out(&self, is_gone: impl Fn(&Lane<O::Inner>) -> bool) -> Vec<Lane<O::Inner>> {
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

    /// The longest element that all readers have room for. Also records `bytes` as the longest
    /// element written, if it fits.
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

    fn lock(&self) -> MutexGuard<'_, State<O::Inner>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a new peer.
    fn open(&self, hello: &StreamHello, transport: Transport, bytes: &[u8]) -> Result<(), Away> {
        self.reap();
        if let Err(refused) = self.admission(&self.lock()).check(hello) {
            return away(transport, refused);
        }
        let now = Clock::new().now();
        let mut trial = self.lanes.link(self.terms.link.clone());
        if let Err(refused) = trial.handle_hello(now, 1, hello) {
            return away(transport, refused);
        }
        let busy = |cause: &dyn std::fmt::Display| {
            let sentence = format!("{} cannot let anybody in now: {cause}", self.terms.link.url);
            refused(FaultCode::LimitReached, sentence, Some(RETRY_AFTER))
        };
        let (inner, outer) = match self.lanes.ends() {
            Ok(ends) => ends,
            Err(cause) => return away(transport, busy(&cause)),
        };
        let link = self.lanes.link(self.terms.link.clone());
        let end = End::new(link, inner, None, None, None).without_sharing();
        let over = end.over();
        let nobody = Dialler::pipe(|| Err(std::io::ErrorKind::Unsupported.into()));
        let link = match Link::start(nobody, end, self.terms.net) {
            Ok(link) => link,
            Err(cause) => return away(transport, busy(&cause)),
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
        self.lanes.opened(&lane, outer);
        self.bell.ring();
        Ok(())
    }

    fn admission(&self, state: &State<O::Inner>) -> Admission<'_> {
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
        link: &Arc<Link<End<O::Inner>>>,
        transport: Transport,
        bytes: &[u8],
    ) -> Result<(), Away> {
        let is_local = matches!(transport.peer, Peer::Unix { .. });
        let is_far = matches!(transport.peer, Peer::Tcp(peer) if !peer.ip().is_loopback());
        let mut answer = Vec::new();
        let admitted = link.attach(transport, |end, now, _| {
            match end.admit(now, bytes, is_local) {
                Ok(first) => {
                    end.link
                        .set_checked(self.terms.is_checked.unwrap_or(is_far));
                    Admitted::Yes(first)
                }
                Err(refused) => {
                    answer = refused;
                    Admitted::No
                }
            }
        });
        admitted.map_err(|transport| {
            let code = FaultCode::StreamOutdated;
            let told = read_refused(&answer);
            let refused = told.unwrap_or_else(|| refused(code, code.meaning().to_owned(), None));
            Box::new((transport, refused))
        })
    }
}

impl<O: Lanes> Arrivals for Hub<O> {
    fn arrive(&self, socket: OwnedFd, bytes: &[u8]) {
        // A socket that cannot be used is closed; the peer dials again.
        let Ok(transport) = registry::transport_of(socket) else {
            return;
        };
        let opening = self.opening.lock();
        let _opening = opening.unwrap_or_else(PoisonError::into_inner);
        let admitted = match read_hello(bytes) {
            None => {
                let sentence = "the first frame to an endpoint of a stream is S_HELLO".to_owned();
                away(transport, refused(FaultCode::Malformed, sentence, None))
            }
            Some(hello) => {
                let lanes = self.present();
                match lanes.iter().find(|lane| lane.is_of(&hello.end)) {
                    Some(lane) => self.attach(&lane.link, transport, bytes),
                    None => self.open(&hello, transport, bytes),
                }
            }
        };
        if let Err(away) = admitted {
            let (transport, refused) = *away;
            let mut answer = Vec::new();
            encode_refused(&refused, &mut answer);
            let _ = registry::refuse(transport, &answer);
        }
    }

    fn properties(&self) -> Option<Properties> {
        Some(self.lanes.properties(self))
    }
}
