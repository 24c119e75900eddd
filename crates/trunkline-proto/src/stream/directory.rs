//! The directory of a machine's endpoints: registers names, and issues tickets for connections.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use trunkline_types::{StreamUrl, Tick};

use crate::message::stream::Incarnation;
use crate::message::stream::directory::{Identity, Ticket, TicketGrant};
use crate::{Fault, FaultCode};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryLimits {
    /// Maximum number of names registered at a time.
    pub names_max: usize,
    /// Maximum number of lookups that wait for an endpoint.
    pub waiting_max: usize,
    /// Maximum number of tickets that are issued but not yet redeemed.
    pub tickets_max: usize,
    /// Time for which a ticket is valid.
    pub ticket_valid_for: Duration,
    /// Longest time for which the owner of a name may be silent.
    pub lease: Duration,
}

impl Default for DirectoryLimits {
    /// 16,384 names and as many tickets; tickets are valid for 10 s, leases last 3 s.
    fn default() -> Self {
        Self {
            names_max: 16_384,
            waiting_max: 16_384,
            tickets_max: 16_384,
            ticket_valid_for: Duration::from_secs(10),
            lease: Duration::from_secs(3),
        }
    }
}

/// The names of a machine's endpoints, without I/O. Owners of names and requesters are connections,
/// identified by numbers that the caller chooses.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    limits: DirectoryLimits,
    names: BTreeMap<StreamUrl, Entry>,
    owners: BTreeMap<u64, StreamUrl>,
    /// The waiting lookups, in the order of arrival.
    waiting: Vec<WaitingLookup>,
    tickets: BTreeMap<Ticket, IssuedTicket>,
    /// The earliest time at which a lease or a ticket may expire.
    next_expiry: Option<Tick>,
}

/// A registered endpoint.
#[derive(Clone, Debug)]
struct Entry {
    /// Connection that registered the name.
    owner: u64,
    incarnation: Incarnation,
    lease_until: Tick,
}

/// A lookup of an endpoint that does not exist yet.
#[derive(Clone, Debug)]
struct WaitingLookup {
    /// Connection that sent the lookup.
    requester: u64,
    url: StreamUrl,
    /// The endpoint that will present the ticket.
    holder: Holder,
}

/// The only endpoint that may present a ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    pub incarnation: Incarnation,
    /// Who has looked the other endpoint up.
    pub identity: Identity,
}

impl From<Incarnation> for Holder {
    /// An endpoint of an unknown identity.
    fn from(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            identity: None,
        }
    }
}

#[derive(Clone, Debug)]
struct IssuedTicket {
    /// Connection of the endpoint that the ticket gives access to.
    owner: u64,
    holder: Holder,
    expires_at: Tick,
}

/// The answer to a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Found(TicketGrant),
    /// The endpoint does not exist yet; [`Directory::register`] returns the ticket once it does.
    Waits,
}

impl Directory {
    /// Creates an empty directory.
    pub fn new(limits: DirectoryLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Registers a name for an endpoint. Returns the connections that were waiting for the endpoint,
    /// each with a ticket. Each call of `random` must return 128 unpredictable bits.
    ///
    /// # Errors
    /// [`FaultCode::EndpointTaken`], [`FaultCode::EndpointNested`], [`FaultCode::LimitReached`].
    pub fn register(
        &mut self,
        now: Tick,
        owner: u64,
        url: &StreamUrl,
        incarnation: Incarnation,
        mut random: impl FnMut() -> Ticket,
    ) -> Result<Vec<(u64, TicketGrant)>, Fault> {
        self.handle_timeout(now);
        if self.names.contains_key(url) {
            let sentence = format!("the endpoint {url} already exists; choose another name");
            return Err(Fault::new(FaultCode::EndpointTaken, sentence));
        }
        if let Some(other) = self.nested_with(url) {
            let sentence = format!(
                "the endpoint name {url} conflicts with {other}, because one name is a prefix of the \
                 other; choose another name"
            );
            return Err(Fault::new(FaultCode::EndpointNested, sentence));
        }
        if self.names.len() >= self.limits.names_max || self.owners.contains_key(&owner) {
            let sentence = format!(
                "this machine's directory already has the maximum of {} endpoints, or this \
                 connection has already registered one; close an endpoint and try again",
                self.limits.names_max
            );
            return Err(Fault::new(FaultCode::LimitReached, sentence));
        }
        let entry = Entry {
            owner,
            incarnation,
            lease_until: now.saturating_add(self.limits.lease),
        };
        self.schedule_expiry(entry.lease_until);
        self.names.insert(url.clone(), entry);
        self.owners.insert(owner, url.clone());
        let (answerable, remaining): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.url == *url);
        self.waiting = remaining;
        let mut answers = Vec::new();
        for waiting in answerable {
            let WaitingLookup {
                requester, holder, ..
            } = waiting.clone();
            match self.lookup(now, requester, url, holder, &mut random) {
                Ok(Answer::Found(grant)) => answers.push((requester, grant)),
                // Too many tickets are issued, so the lookup waits for the next registration of the
                // name.
                _ => self.waiting.push(waiting),
            }
        }
        Ok(answers)
    }

    /// Called when the owner of a name has sent a sign of life. Returns false if the lease has
    /// expired, so that the owner must register again.
    pub fn renew(&mut self, now: Tick, owner: u64) -> bool {
        self.handle_timeout(now);
        let lease = self.limits.lease;
        let entry = self
            .owners
            .get(&owner)
            .and_then(|url| self.names.get_mut(url));
        match entry {
            Some(entry) => {
                entry.lease_until = now.saturating_add(lease);
                true
            }
            None => false,
        }
    }

    /// Makes the lease of a name permanent, for an owner in the same process.
    pub fn keep(&mut self, owner: u64) {
        let url = self.owners.get(&owner);
        if let Some(entry) = url.and_then(|url| self.names.get_mut(url)) {
            entry.lease_until = Tick::MAX;
        }
    }

    /// Called when a connection is closed: frees the name that it registered, and removes its lookups
    /// and the tickets to its endpoint.
    pub fn forget(&mut self, connection: u64) {
        if let Some(url) = self.owners.remove(&connection) {
            self.names.remove(&url);
        }
        self.waiting
            .retain(|waiting| waiting.requester != connection);
        self.tickets.retain(|_, issued| issued.owner != connection);
    }

    /// Looks up an endpoint.
    ///
    /// # Errors
    /// [`FaultCode::LimitReached`] if too many lookups are waiting or too many tickets are issued.
    pub fn lookup(
        &mut self,
        now: Tick,
        requester: u64,
        url: &StreamUrl,
        holder: impl Into<Holder>,
        random: impl FnOnce() -> Ticket,
    ) -> Result<Answer, Fault> {
        let holder = holder.into();
        self.handle_timeout(now);
        let Some(entry) = self.names.get(url) else {
            if self.waiting.len() >= self.limits.waiting_max {
                let sentence = "too many endpoints on this machine are waiting for their peers; try \
                                again later";
                return Err(Fault::new(FaultCode::LimitReached, sentence));
            }
            self.waiting.push(WaitingLookup {
                requester,
                url: url.clone(),
                holder,
            });
            return Ok(Answer::Waits);
        };
        if self.tickets.len() >= self.limits.tickets_max {
            let sentence = "too many tickets are issued and unused; try again in 10 s";
            return Err(Fault::new(FaultCode::LimitReached, sentence));
        }
        let valid_for = self.limits.ticket_valid_for;
        let grant = TicketGrant {
            ticket: random(),
            valid_for,
        };
        let issued = IssuedTicket {
            owner: entry.owner,
            holder,
            expires_at: now.saturating_add(valid_for),
        };
        self.schedule_expiry(issued.expires_at);
        self.tickets.insert(grant.ticket, issued);
        Ok(Answer::Found(grant))
    }

    /// Redeems a ticket and returns the owner of the endpoint that the ticket gives access to. The
    /// ticket cannot be used again, even after an error.
    ///
    /// # Errors
    /// [`FaultCode::BadTicket`] if the ticket is unknown, already used, expired or issued to another
    /// endpoint or identity.
    pub fn redeem(
        &mut self,
        now: Tick,
        ticket: &Ticket,
        by: impl Into<Holder>,
    ) -> Result<u64, Fault> {
        self.handle_timeout(now);
        let by = by.into();
        match self.tickets.remove(ticket) {
            Some(issued) if issued.holder == by => Ok(issued.owner),
            _ => {
                let code = FaultCode::BadTicket;
                Err(Fault::new(code, code.meaning()))
            }
        }
    }

    pub fn names(&self) -> impl Iterator<Item = (&StreamUrl, Incarnation)> {
        self.names
            .iter()
            .map(|(url, entry)| (url, entry.incarnation))
    }

    /// Returns the registered endpoints, with their owners.
    pub fn owned_names(&self) -> impl Iterator<Item = (&StreamUrl, u64)> {
        self.names.iter().map(|(url, entry)| (url, entry.owner))
    }

    /// Returns the endpoints after `after` in the order of their URLs; all of them if `after` is
    /// `None`.
    pub fn owned_names_after(
        &self,
        after: Option<&StreamUrl>,
    ) -> impl Iterator<Item = (&StreamUrl, u64)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.names
            .range((from, Bound::Unbounded))
            .map(|(url, entry)| (url, entry.owner))
    }

    pub fn owned_name(&self, url: &StreamUrl) -> Option<(&StreamUrl, u64)> {
        let (url, entry) = self.names.get_key_value(url)?;
        Some((url, entry.owner))
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Tick> {
        self.next_expiry
    }

    /// Frees the names of silent owners and removes expired tickets.
    pub fn handle_timeout(&mut self, now: Tick) {
        if self.next_expiry.is_none_or(|due| now < due) {
            return;
        }
        self.names.retain(|_, entry| now < entry.lease_until);
        let names = &self.names;
        self.owners.retain(|_, url| names.contains_key(url));
        let owners = &self.owners;
        self.tickets
            .retain(|_, issued| now < issued.expires_at && owners.contains_key(&issued.owner));
        let leases = self.names.values().map(|entry| entry.lease_until);
        let tickets = self.tickets.values().map(|issued| issued.expires_at);
        self.next_expiry = leases.chain(tickets).min();
    }

    /// Ensures that `handle_timeout` is called at `at` or earlier.
    fn schedule_expiry(&mut self, at: Tick) {
        self.next_expiry = Some(self.next_expiry.map_or(at, |due| due.min(at)));
    }

    /// Returns a registered name that is a proper prefix of this name, or of which this name is a
    /// proper prefix.
    fn nested_with(&self, url: &StreamUrl) -> Option<&StreamUrl> {
        let above = url
            .ancestors()
            .find_map(|above| self.names.get_key_value(&above).map(|(name, _)| name));
        // Names that begin with `url` directly follow it in the order of URLs.
        let below = || {
            let (next, _) = self.names.range(url..).next()?;
            next.is_nested_with(url).then_some(next)
        };
        above.or_else(below)
    }
}
