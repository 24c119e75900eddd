//! Accepts the endpoints of other machines, which arrive at an endpoint of this process.
//!
//! The engine passes the socket and the key that the arrived endpoint must prove. The handshake, and
//! the first frame after it, take place on a thread of their own, so that a slow visitor delays neither
//! the endpoint nor other visitors.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use trunkline_net::{Clock, accept_end, tcp};
use trunkline_proto::frame::HEADER_BYTES;
use trunkline_proto::message::stream::directory::{ArrivedFrom, EndKey, Ticket};
use trunkline_proto::{EndKeys, EndSeed, FrameHeader};

use super::{Arrival, Arrivals, transport_of};

/// Maximum number of visitors whose handshake is not complete. Further ones are turned away, and dial
/// again.
const WAITING_MAX: usize = 64;
/// Maximum time for the handshake and S_HELLO of a visitor.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
/// Number of revoked tickets that are remembered, because the order to revoke one may overtake its
/// visitor.
const REVOKED_MAX: usize = 1024;

/// The arrivals at one endpoint.
pub(super) struct Visits {
    arrivals: Arc<dyn Arrivals>,
    own_seed: EndSeed,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Tickets of the visitors whose handshake is not complete.
    waiting: BTreeSet<Ticket>,
    /// The last tickets that were revoked, the oldest first.
    revoked: VecDeque<Ticket>,
    /// Tickets of connections whose end is not reported to the engine yet, with what the engine has said about
    /// them.
    unreported: BTreeMap<Ticket, ArrivedFrom>,
}

impl Visits {
    pub(super) fn new(arrivals: Arc<dyn Arrivals>, own_seed: EndSeed) -> Self {
        Self {
            arrivals,
            own_seed,
            state: Mutex::default(),
        }
    }

    /// Accepts an endpoint that the engine has read `bytes` from, which begin with S_HELLO.
    pub(super) fn accept_plain(
        &self,
        socket: OwnedFd,
        (ticket, from): (Ticket, ArrivedFrom),
        bytes: &[u8],
    ) {
        let arrival = Arrival::new(ticket, &from);
        let is_revoked = {
            let mut state = self.lock();
            state.unreported.insert(ticket, from);
            state.revoked.contains(&ticket)
        };
        // An unusable socket is closed, and the peer dials again.
        if let Ok(transport) = transport_of(socket)
            && !is_revoked
        {
            self.arrivals.arrive(transport, arrival, bytes);
        }
    }

    /// Accepts an endpoint that must prove its key. One that does not, or that is too slow, is closed.
    pub(super) fn accept(
        self: &Arc<Self>,
        socket: OwnedFd,
        (ticket, from): (Ticket, ArrivedFrom),
        key: EndKey,
    ) {
        let arrival = Arrival::new(ticket, &from);
        {
            let mut state = self.lock();
            state.unreported.insert(ticket, from);
            if state.waiting.len() >= WAITING_MAX || state.revoked.contains(&ticket) {
                return;
            }
            state.waiting.insert(ticket);
        }
        let keys = EndKeys {
            own_seed: self.own_seed.clone(),
            peer: key,
        };
        let visits = Arc::clone(self);
        let thread = thread::Builder::new().name("trunkline-visit".to_owned());
        let started = thread.spawn(move || visits.receive(socket, arrival, &keys));
        if started.is_err() {
            self.lock().waiting.remove(&ticket);
        }
    }

    fn receive(&self, socket: OwnedFd, arrival: Arrival, keys: &EndKeys) {
        let deadline = Clock::new().now().saturating_add(HANDSHAKE_DEADLINE);
        let accepted = accept_end(socket, tcp::USER_TIMEOUT, keys, deadline, has_first_frame);
        // The lock is held until the endpoint has the connection, so that a ticket that is revoked
        // meanwhile ends it.
        let mut state = self.lock();
        let is_wanted = state.waiting.remove(&arrival.ticket);
        if let Ok((transport, bytes)) = accepted
            && is_wanted
        {
            self.arrivals.arrive(transport, arrival, &bytes);
        }
    }

    /// Ends the connection of the endpoint that arrived with this ticket, or will arrive with it.
    pub(super) fn revoke(&self, ticket: &Ticket, is_lost: bool) {
        let mut state = self.lock();
        state.waiting.remove(ticket);
        state.unreported.entry(*ticket).or_default();
        state.revoked.push_back(*ticket);
        if state.revoked.len() > REVOKED_MAX {
            state.revoked.pop_front();
        }
        drop(state);
        self.arrivals.revoke(ticket, is_lost);
    }

    /// Takes the tickets whose connections have ended, or will never begin.
    pub(super) fn take_ended(&self) -> Vec<Ticket> {
        let mut state = self.lock();
        if state.unreported.is_empty() {
            return Vec::new();
        }
        let connected = self.arrivals.tickets();
        let unreported = std::mem::take(&mut state.unreported);
        let (open, ended): (BTreeMap<_, _>, BTreeMap<_, _>) = unreported
            .into_iter()
            .partition(|(ticket, _)| state.waiting.contains(ticket) || connected.contains(ticket));
        state.unreported = open;
        ended.into_keys().collect()
    }

    /// Returns the connections whose end is not reported and whose rights can end.
    pub(super) fn guests(&self) -> Vec<(Ticket, ArrivedFrom)> {
        let state = self.lock();
        let can_end = |(_, from): &(&Ticket, &ArrivedFrom)| !from.login.is_empty();
        let guests = state.unreported.iter().filter(can_end);
        guests
            .map(|(ticket, from)| (*ticket, from.clone()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if the bytes contain a whole frame. The endpoint refuses one that is too long.
fn has_first_frame(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return false;
    };
    let length = FrameHeader::from_bytes(head).length;
    length > super::session::STREAM_HELLO_MAX || rest.len() >= length as usize
}
