//! Shares a directory between the connections to it and the endpoints of this process.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trunkline_proto::message::stream::Incarnation;
use trunkline_proto::message::stream::directory::{
    Arrived, ArrivedFrom, EndKey, Identity, Lookup, Register, Ticket, TicketGrant, Visitor,
};
use trunkline_proto::message::stream::listing::{EndpointStatus, EndpointsPage, EndpointsQuery};
use trunkline_proto::stream::{Answer, Directory, DirectoryLimits, Holder};
use trunkline_proto::{Fault, FaultCode, FrameKind};
use trunkline_types::{StreamUrl, Tick};

use super::gate::{Admitted, Gate, SharedGate};
use super::{Arrival, Arrivals, SessionNotifier, transport_of};
use crate::handle::Environment;
use crate::properties::{Properties, Reporter};

/// Maximum number of transports being handed over to endpoints at the same time.
const HANDOVERS_MAX: usize = 1024;

/// Maximum number of peers of one endpoint whose rights are watched. Further ones are refused, so that
/// none escapes the end of its rights.
const GUESTS_MAX: usize = 1024;

/// Maximum number of endpoints that are not registered any more and whose peers are remembered.
const DEPARTED_MAX: usize = 1024;

/// Placeholder for a ticket that could not be generated.
const NO_TICKET: Ticket = [0; 16];

/// A directory, shared by the connections to it.
pub struct DirectoryHost {
    environment: Environment,
    /// Generates a ticket. Tests replace it with a function that fails.
    pub(super) random: fn(&Environment) -> io::Result<Ticket>,
    state: Mutex<State>,
}

impl Default for DirectoryHost {
    fn default() -> Self {
        Self::new(DirectoryLimits::default())
    }
}

#[derive(Default)]
struct State {
    directory: Directory,
    owners: BTreeMap<u64, Owner>,
    /// Peers that have arrived and whose rights can end, the first one first. A connection between
    /// endpoints outlives the registration of its endpoint, which registers again.
    guests: BTreeMap<EndpointId, Vec<Guest>>,
    /// The endpoints with guests that are not registered, in the order in which they went.
    departed: VecDeque<EndpointId>,
    /// Lookups of endpoints that are not registered yet, each with the answer once it is known.
    waiting_lookups: BTreeMap<u64, (SessionNotifier, Option<Result<TicketGrant, Fault>>)>,
    /// Transports being handed over to endpoints, by number.
    handovers: BTreeMap<u64, Handover>,
    /// The last number assigned to a connection, an endpoint or a handover.
    last_number: u64,
}

struct Handover {
    owner: u64,
    ticket: Ticket,
    content: Content,
    gate: SharedGate,
    from: ArrivedFrom,
}

/// What an endpoint learns about a peer that arrives.
pub(super) enum Content {
    /// The bytes that were read from the peer, which begin with S_HELLO.
    Bytes(Vec<u8>),
    /// The key that the peer must prove to have.
    Key(EndKey),
}

struct Owner {
    id: EndpointId,
    program: String,
    pid: u32,
    /// The endpoint's key; `None` if it cannot encrypt.
    key: Option<EndKey>,
    route: Route,
    status: StatusSource,
}

/// Identifies an endpoint across its registrations.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EndpointId {
    /// URL of the endpoint, without the host.
    url: StreamUrl,
    incarnation: Incarnation,
}

/// A peer that has arrived at an endpoint, until the endpoint reports the end of its connection.
struct Guest {
    ticket: Ticket,
    gate: SharedGate,
    /// The account may not use the stream any more.
    is_lost: bool,
    /// The registration over which the endpoint was ordered to end the connection, and whether the order
    /// said that the right is lost.
    ordered: Option<(u64, bool)>,
}

impl Guest {
    /// Returns true if the endpoint must be ordered, over this registration, to end the connection.
    fn needs_order(&self, registration: u64) -> bool {
        self.ordered != Some((registration, self.is_lost)) && self.gate.has_ended()
    }

    /// Checks whether the account may still use the stream, now that its rights have changed.
    fn check(&mut self, url: &StreamUrl) {
        self.is_lost = self.is_lost || (self.gate.has_ended() && self.gate.is_lost(url));
    }
}

enum StatusSource {
    NotReported,
    Reported(Box<EndpointStatus>),
    /// The status is read on request.
    OnRequest(Reporter),
}

const ENDPOINTS_PER_PAGE: usize = 64;

enum Route {
    /// The endpoint belongs to this process.
    Here(Arc<dyn Arrivals>),
    /// The endpoint is reached over the connection on which it registered.
    Session(SessionNotifier),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointInfo {
    /// URL of the endpoint, without the host.
    pub url: StreamUrl,
    /// Program and release, as reported by the endpoint.
    pub program: String,
    /// Process id; 0 if unknown.
    pub pid: u32,
}

impl DirectoryHost {
    pub fn new(limits: DirectoryLimits) -> Self {
        let state = State {
            directory: Directory::new(limits),
            ..State::default()
        };
        Self {
            environment: Environment::Real,
            random: Environment::random,
            state: Mutex::new(state),
        }
    }

    pub fn endpoints(&self) -> Vec<EndpointInfo> {
        let state = self.lock();
        let names = state.directory.owned_names();
        names
            .filter_map(|(url, owner)| {
                let Owner { program, pid, .. } = state.owners.get(&owner)?;
                Some(EndpointInfo {
                    url: url.clone(),
                    program: program.clone(),
                    pid: *pid,
                })
            })
            .collect()
    }

    /// Returns a new number for a connection, or for an endpoint of this process.
    pub(crate) fn number(&self) -> u64 {
        self.lock().next()
    }

    /// Registers a name for an endpoint of this process, until [`forget`](Self::forget).
    pub(crate) fn register_here(
        &self,
        url: &StreamUrl,
        incarnation: Incarnation,
        program: &str,
        arrivals: Arc<dyn Arrivals>,
    ) -> Result<u64, Fault> {
        let number = self.number();
        let owner = Owner {
            id: EndpointId {
                url: url.within_host(),
                incarnation,
            },
            program: program.to_owned(),
            pid: std::process::id(),
            key: None,
            route: Route::Here(arrivals),
            status: StatusSource::OnRequest(Reporter::new(self.environment.now())),
        };
        self.register(number, owner)?;
        Ok(number)
    }

    /// Registers a name for a connected endpoint of another process.
    pub(super) fn register_session(
        &self,
        number: u64,
        register: &Admitted<Register>,
        notifier: SessionNotifier,
    ) -> Result<(), Fault> {
        let owner = Owner {
            id: EndpointId {
                url: register.url().clone(),
                incarnation: register.incarnation,
            },
            program: register.program.clone(),
            pid: register.pid,
            key: register.key,
            route: Route::Session(notifier),
            status: StatusSource::NotReported,
        };
        self.register(number, owner)
    }

    fn register(&self, number: u64, owner: Owner) -> Result<(), Fault> {
        let mut state = self.lock();
        let now = self.environment.now();
        let is_here = matches!(owner.route, Route::Here(_));
        let EndpointId { url, incarnation } = &owner.id;
        let mut fault = None;
        let answers = state
            .directory
            .register(now, number, url, *incarnation, || self.ticket(&mut fault))?;
        state.revoke_placeholder(now, fault.as_ref());
        if is_here {
            state.directory.keep(number);
        }
        state.departed.retain(|departed| *departed != owner.id);
        state.owners.insert(number, owner);
        let mut to_notify = Vec::new();
        for (lookup, grant) in answers {
            if let Some((notifier, answer)) = state.waiting_lookups.get_mut(&lookup) {
                *answer = Some(fault.clone().map_or(Ok(grant), Err));
                to_notify.push(notifier.clone());
            }
        }
        drop(state);
        to_notify.iter().for_each(SessionNotifier::notify);
        Ok(())
    }

    /// Looks up an endpoint. Returns `None` if it does not exist yet: `notifier` is notified when
    /// [`answer`](Self::answer) has the answer.
    pub(super) fn look_up(
        &self,
        number: u64,
        lookup: &Admitted<Lookup>,
        notifier: SessionNotifier,
        identity: Identity,
    ) -> Result<Option<TicketGrant>, Fault> {
        let holder = Holder {
            incarnation: lookup.incarnation,
            identity,
        };
        let mut state = self.lock();
        let now = self.environment.now();
        let mut fault = None;
        let answer = state
            .directory
            .lookup(now, number, lookup.url(), holder, || {
                self.ticket(&mut fault)
            })?;
        state.revoke_placeholder(now, fault.as_ref());
        if let Some(fault) = fault {
            return Err(fault);
        }
        match answer {
            Answer::Found(grant) => Ok(Some(grant)),
            Answer::Waits => {
                state.waiting_lookups.insert(number, (notifier, None));
                Ok(None)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_waited_for(&self) -> bool {
        !self.lock().waiting_lookups.is_empty()
    }

    /// Takes the answer to a lookup that had to wait.
    pub(super) fn answer(&self, number: u64) -> Option<Result<TicketGrant, Fault>> {
        let mut state = self.lock();
        let answer = state.waiting_lookups.get_mut(&number)?.1.take()?;
        state.waiting_lookups.remove(&number);
        Some(answer)
    }

    /// Redeems a ticket. Returns the number to pass to [`hand_over`](Self::hand_over), and the key of
    /// the endpoint that the ticket gives access to, if it has one. `gate` must permit it now: the
    /// rights of the look-up may have ended since, or be those of another account.
    pub(super) fn redeem(
        &self,
        ticket: &Ticket,
        by: Holder,
        content: Content,
        gate: &SharedGate,
    ) -> Result<(u64, Option<EndKey>), Fault> {
        let identity = by.identity.clone();
        let (owner, id, key) = {
            let mut state = self.lock();
            let number = state.directory.redeem(self.environment.now(), ticket, by)?;
            let bad_ticket = FaultCode::BadTicket;
            let owner = state
                .owners
                .get(&number)
                .ok_or_else(|| Fault::new(bad_ticket, bad_ticket.meaning()))?;
            (number, owner.id.clone(), owner.key)
        };
        gate.pass(FrameKind::StreamHello, &id.url)?;
        let from = ArrivedFrom::of(&identity, gate.login());
        let mut state = self.lock();
        let guests = state.guests.get(&id).map_or(0, Vec::len);
        if gate.may_end() && guests >= GUESTS_MAX {
            let sentence = format!(
                "the accounts of this engine have {GUESTS_MAX} connections to the endpoint {}, which \
                 is the maximum; close one and try again",
                id.url
            );
            drop(state);
            let fault = Fault::new(FaultCode::LimitReached, sentence);
            gate.note(FrameKind::StreamHello, Some(&id.url), Some(&fault));
            return Err(fault);
        }
        let number = state.next();
        let handover = Handover {
            owner,
            ticket: *ticket,
            content,
            gate: Arc::clone(gate),
            from,
        };
        // The oldest entry belongs to a transport that was abandoned.
        if state.handovers.len() >= HANDOVERS_MAX {
            state.handovers.pop_first();
        }
        state.handovers.insert(number, handover);
        Ok((number, key))
    }

    /// Forgets a transport that will not be handed over. `number` is from [`redeem`](Self::redeem).
    pub(super) fn abandon(&self, number: u64) {
        self.lock().handovers.remove(&number);
    }

    #[cfg(test)]
    pub(super) fn has_handovers(&self) -> bool {
        !self.lock().handovers.is_empty()
    }

    /// Stores the status that the owner of a name has reported.
    pub(super) fn store_status(&self, number: u64, status: EndpointStatus) {
        if let Some(owner) = self.lock().owners.get_mut(&number) {
            owner.status = StatusSource::Reported(Box::new(status));
        }
    }

    /// Returns a page of the endpoints that `gate` shows.
    pub(super) fn list(&self, query: &EndpointsQuery, gate: &dyn Gate) -> EndpointsPage {
        let mut state = self.lock();
        let State {
            directory, owners, ..
        } = &mut *state;
        directory.handle_timeout(self.environment.now());
        let only = StreamUrl::parse(&query.only).ok();
        let only = only.map(|url| url.within_host());
        let after = StreamUrl::parse(&query.after).ok();
        // An invalid URL in `only` matches no endpoint. An invalid URL in `after` starts the listing
        // at the first endpoint.
        let is_single = !query.only.is_empty();
        let single = only.as_ref().and_then(|only| directory.owned_name(only));
        let all = (!is_single).then(|| directory.owned_names_after(after.as_ref()));
        let names = single.into_iter().chain(all.into_iter().flatten());
        let mut names = names.filter(|(url, _)| gate.shows(url));
        let (mut page, mut incomplete) = (EndpointsPage::default(), Vec::new());
        for (url, number) in names.by_ref().take(ENDPOINTS_PER_PAGE) {
            let Some(owner) = owners.get(&number) else {
                continue;
            };
            let mut status = match &owner.status {
                StatusSource::Reported(status) => (**status).clone(),
                StatusSource::NotReported | StatusSource::OnRequest(_) => EndpointStatus::default(),
            };
            // These fields come from the registration, not from the reported status.
            status.url = url.to_string();
            status.program.clone_from(&owner.program);
            status.pid = owner.pid;
            if let Route::Here(arrivals) = &owner.route {
                incomplete.push((page.endpoints.len(), number, arrivals.clone()));
            }
            page.endpoints.push(status);
        }
        page.has_more = names.next().is_some();
        drop(names);
        drop(state);
        // An endpoint's lock must not be taken while the directory's lock is held.
        for (at, number, arrivals) in incomplete {
            if let Some(found) = arrivals.properties() {
                self.complete_status(number, &found, &mut page.endpoints[at]);
            }
        }
        for status in &mut page.endpoints {
            hide_names(status, gate);
        }
        page
    }

    /// Completes the status of an endpoint of this process.
    fn complete_status(&self, number: u64, found: &Properties, status: &mut EndpointStatus) {
        let mut state = self.lock();
        let source = state.owners.get_mut(&number).map(|owner| &mut owner.status);
        if let Some(StatusSource::OnRequest(reporter)) = source {
            let EndpointStatus {
                url, program, pid, ..
            } = std::mem::take(status);
            *status = EndpointStatus {
                url,
                program,
                pid,
                ..reporter.report(self.environment.now(), found)
            };
        }
    }

    /// Renews a name after a keep-alive of its owner.
    pub(super) fn renew(&self, number: u64) -> bool {
        self.lock().directory.renew(self.environment.now(), number)
    }

    /// Hands a transport over to its endpoint. `number` is the value that the transport's session
    /// returned from `wants_handover`.
    /// [`SessionFactory::hand_over`](trunkline_net::SessionFactory::hand_over) calls this.
    pub fn hand_over(&self, number: u64, socket: OwnedFd) {
        let mut state = self.lock();
        let Some(Handover {
            owner,
            ticket,
            content,
            gate,
            from,
        }) = state.handovers.remove(&number)
        else {
            return;
        };
        let State { owners, guests, .. } = &mut *state;
        // If the owner is gone, the socket is closed, and the peer connects again.
        let Some(owner) = owners.get(&owner) else {
            return;
        };
        if gate.may_end() {
            guests.entry(owner.id.clone()).or_default().push(Guest {
                ticket,
                gate: Arc::clone(&gate),
                is_lost: false,
                ordered: None,
            });
        }
        let url = owner.id.url.clone();
        let note = || gate.note(FrameKind::StreamHello, Some(&url), None);
        match &owner.route {
            Route::Here(arrivals) => {
                let arrivals = arrivals.clone();
                drop(state);
                note();
                // An unusable socket is closed, and the peer connects again.
                if let (Content::Bytes(bytes), Ok(transport)) = (content, transport_of(socket)) {
                    arrivals.arrive(transport, Arrival::new(ticket, &from), &bytes);
                }
            }
            Route::Session(notifier) => {
                let mut frame = Vec::new();
                match &content {
                    Content::Bytes(bytes) => {
                        Arrived { ticket, bytes }.encode_from(&from, &mut frame);
                    }
                    Content::Key(key) => {
                        Visitor { ticket, key: *key }.encode_from(&from, &mut frame);
                    }
                }
                // Under the lock, so that no order to end the connection overtakes it.
                notifier.pass(frame, socket);
                drop(state);
                note();
            }
        }
    }

    /// Ends the connections between endpoints that were permitted by rights that have ended.
    pub fn end_revoked(&self) {
        let mut here = Vec::new();
        let mut to_notify = Vec::new();
        let mut state = self.lock();
        let State {
            directory,
            owners,
            guests,
            ..
        } = &mut *state;
        for (id, guests) in guests {
            guests.iter_mut().for_each(|guest| guest.check(&id.url));
            // An endpoint that is not registered now gets the orders when it registers again.
            let Some((number, owner)) = registration(directory, owners, id) else {
                continue;
            };
            match &owner.route {
                Route::Here(arrivals) => guests.retain(|guest| {
                    let has_ended = guest.gate.has_ended();
                    if has_ended {
                        here.push((arrivals.clone(), guest.ticket, guest.is_lost));
                    }
                    !has_ended
                }),
                Route::Session(notifier) => {
                    if guests.iter().any(|guest| guest.needs_order(number)) {
                        to_notify.push(notifier.clone());
                    }
                }
            }
        }
        drop(state);
        for (arrivals, ticket, is_lost) in here {
            arrivals.revoke(&ticket, is_lost);
        }
        to_notify.iter().for_each(SessionNotifier::notify);
    }

    /// Takes the tickets of the peers whose connections the owner of a name must end, each with whether
    /// the account may not use the stream any more.
    pub(super) fn take_revoked(&self, number: u64) -> Vec<(Ticket, bool)> {
        let mut state = self.lock();
        let State { owners, guests, .. } = &mut *state;
        let owner = owners.get(&number);
        let guests = owner.and_then(|owner| guests.get_mut(&owner.id));
        let guests = guests.into_iter().flatten();
        let revoked = guests.filter(|guest| guest.needs_order(number));
        revoked
            .map(|guest| {
                guest.ordered = Some((number, guest.is_lost));
                (guest.ticket, guest.is_lost)
            })
            .collect()
    }

    /// Remembers a peer that arrived before this directory existed, as the owner of the name has reported.
    /// `gate_of` returns its gate. Returns false if it is one too many.
    pub(super) fn adopt_guest(
        &self,
        number: u64,
        ticket: Ticket,
        gate_of: impl FnOnce(&StreamUrl) -> Option<SharedGate>,
    ) -> bool {
        let id = {
            let state = self.lock();
            let Some(Owner { id, .. }) = state.owners.get(&number) else {
                return true;
            };
            let mut guests = state.guests.get(id).into_iter().flatten();
            // The endpoint has only lost its connection to this directory.
            if guests.any(|guest| guest.ticket == ticket) {
                return true;
            }
            id.clone()
        };
        let Some(gate) = gate_of(&id.url) else {
            return true;
        };
        let mut guest = Guest {
            ticket,
            gate,
            is_lost: false,
            ordered: None,
        };
        guest.check(&id.url);
        let mut state = self.lock();
        let guests = state.guests.entry(id).or_default();
        let has_room = guests.len() < GUESTS_MAX;
        if has_room {
            guests.push(guest);
        }
        has_room
    }

    /// Forgets a peer whose connection has ended, as the owner of the name has reported.
    pub(super) fn forget_guest(&self, number: u64, ticket: &Ticket) {
        let mut state = self.lock();
        let State { owners, guests, .. } = &mut *state;
        let Some(Owner { id, .. }) = owners.get(&number) else {
            return;
        };
        if let Some(of_endpoint) = guests.get_mut(id) {
            of_endpoint.retain(|guest| guest.ticket != *ticket);
            if of_endpoint.is_empty() {
                guests.remove(id);
            }
        }
    }

    #[cfg(feature = "sim")]
    pub(crate) fn hand_over_simulated(&self, number: u64, transport: u64) {
        let mut state = self.lock();
        let handover = state.handovers.remove(&number);
        let owner = handover
            .as_ref()
            .and_then(|handover| state.owners.get(&handover.owner));
        if let (Some(handover), Some(Route::Here(arrivals))) = (&handover, owner.map(|o| &o.route))
        {
            let arrivals = arrivals.clone();
            drop(state);
            if let Content::Bytes(bytes) = &handover.content {
                arrivals.arrive_simulated(transport, bytes);
            }
        }
    }

    #[cfg(feature = "sim")]
    pub(crate) fn simulated(environment: Environment) -> Self {
        Self {
            environment,
            ..Self::new(DirectoryLimits::default())
        }
    }

    /// Removes a connection, or an endpoint of this process.
    pub(crate) fn forget(&self, number: u64) {
        let mut state = self.lock();
        state.directory.forget(number);
        state.waiting_lookups.remove(&number);
        if let Some(owner) = state.owners.remove(&number) {
            state.keep_guests(owner.id);
        }
    }

    /// Generates a ticket. If that fails, sets `fault` and returns [`NO_TICKET`], which the caller
    /// must [revoke](State::revoke_placeholder).
    fn ticket(&self, fault: &mut Option<Fault>) -> Ticket {
        (self.random)(&self.environment).unwrap_or_else(|cause| {
            let sentence = format!(
                "the directory's machine cannot provide random numbers for tickets ({cause}); \
                 allow the directory's program to make the system call getrandom"
            );
            *fault = Some(Fault::new(FaultCode::Internal, sentence));
            NO_TICKET
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is shown in place of a name that the program may not see.
const HIDDEN: &str = "(hidden)";

/// Hides the names of peers that the gate does not show. Names decide, and not whether there is an
/// endpoint with this name, so that nobody learns from the list which endpoints exist.
fn hide_names(status: &mut EndpointStatus, gate: &dyn Gate) {
    if hide_in(&mut status.peer, gate) {
        (status.peer_program, status.peer_account) = Default::default();
    }
    for member in &mut status.members {
        if hide_in(&mut member.url, gate) {
            member.account = String::new();
        }
    }
    // Sentences about a connection name both ends.
    hide_in(&mut status.last_disconnect, gate);
    hide_in(&mut status.fault, gate);
}

/// Hides the names in a text. Returns true if there were any.
pub(super) fn hide_in(text: &mut String, gate: &dyn Gate) -> bool {
    let (mut from, mut has_hidden) = (0, false);
    while let Some(start) = text[from..].find("tl://").map(|at| from + at) {
        let rest = &text[start..];
        let word = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
        let url = word.trim_end_matches([',', ';', ':', '.', ')', '"']);
        from = start + url.len();
        if StreamUrl::parse(url).is_ok_and(|url| !gate.shows(&url.within_host())) {
            text.replace_range(start..from, HIDDEN);
            from = start + HIDDEN.len();
            has_hidden = true;
        }
    }
    has_hidden
}

/// Returns the registration of an endpoint; `None` while it is not registered.
fn registration<'a>(
    directory: &Directory,
    owners: &'a BTreeMap<u64, Owner>,
    id: &EndpointId,
) -> Option<(u64, &'a Owner)> {
    let (_, number) = directory.owned_name(&id.url)?;
    let owner = owners.get(&number).filter(|owner| owner.id == *id)?;
    Some((number, owner))
}

impl State {
    /// Remembers the guests of an endpoint whose registration has ended: it may register again, and may
    /// have done so already.
    fn keep_guests(&mut self, id: EndpointId) {
        let is_registered = registration(&self.directory, &self.owners, &id).is_some();
        if is_registered || !self.guests.contains_key(&id) {
            return;
        }
        self.departed.push_back(id);
        if self.departed.len() > DEPARTED_MAX
            && let Some(oldest) = self.departed.pop_front()
        {
            self.guests.remove(&oldest);
        }
    }

    /// If there was a `fault`, revokes the placeholder ticket before anyone can present it.
    fn revoke_placeholder(&mut self, now: Tick, fault: Option<&Fault>) {
        if fault.is_some() {
            // A ticket can be redeemed only once.
            let _ = self
                .directory
                .redeem(now, &NO_TICKET, Incarnation::default());
        }
    }

    fn next(&mut self) -> u64 {
        self.last_number = self.last_number.wrapping_add(1);
        self.last_number
    }
}

impl std::fmt::Debug for DirectoryHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectoryHost")
            .field("endpoints", &self.endpoints())
            .finish()
    }
}
