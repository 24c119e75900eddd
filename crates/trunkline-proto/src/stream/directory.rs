//! The directory of a machine's endpoints: their locations, and the tickets to connect to them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use trunkline_types::{StreamUrl, Tick};

use crate::message::stream::Incarnation;
use crate::message::stream::directory::{Ticket, TicketGrant};
use crate::{Fault, FaultCode};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryLimits {
    /// Maximum number of names registered at a time.
    pub names_max: usize,
    pub waiting_max: usize,
    /// Maximum number of tickets issued and not yet presented.
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
    waiting: Vec<Waiting>,
    tickets: BTreeMap<Ticket, IssuedTicket>,
    /// The earliest time at which a lease or a ticket may expire.
    due: Option<Tick>,
}

#[derive(Clone, Debug)]
struct Entry {
    owner: u64,
    incarnation: Incarnation,
    free_at: Tick,
}

#[derive(Clone, Debug)]
struct Waiting {
    asker: u64,
    url: StreamUrl,
    incarnation: Incarnation,
}

#[derive(Clone, Debug)]
struct IssuedTicket {
    owner: u64,
    to: Incarnation,
    until: Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Found(TicketGrant),
    /// The endpoint does not exist yet; [`Directory::register`] answers once it does.
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

    /// Registers a name for an endpoint. Returns the connections that were waiting for this
    /// endpoint, with their tickets. Each call of `random` must return 128 unpredictable bits.
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
                "the name of the endpoint {url} and that of {other} begin with each other; choose \
                 another name"
            );
            return Err(Fault::new(FaultCode::EndpointNested, sentence));
        }
        if self.names.len() >= self.limits.names_max || self.owners.contains_key(&owner) {
            let sentence = format!(
                "this machine's directory holds {} endpoints, or this connection one already",
                self.limits.names_max
            );
            return Err(Fault::new(FaultCode::LimitReached, sentence));
        }
        let entry = Entry {
            owner,
            incarnation,
            free_at: now.saturating_add(self.limits.lease),
        };
        self.note_due(entry.free_at);
        self.names.insert(url.clone(), entry);
        self.owners.insert(owner, url.clone());
        let (asked, still): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.url == *url);
        self.waiting = still;
        let mut answers = Vec::new();
        for waiting in asked {
            let Waiting {
                asker, incarnation, ..
            } = waiting;
            match self.lookup(now, asker, url, incarnation, &mut random) {
                Ok(Answer::Found(grant)) => answers.push((asker, grant)),
                // No ticket is available now, so the waiting lookup is answered at the next
                // registration of the name.
                _ => self.waiting.push(waiting),
            }
        }
        Ok(answers)
    }

    /// Called when the owner of a name has shown that it is alive. Returns false if it no longer
    /// owns the name and must register again.
    pub fn renew(&mut self, now: Tick, owner: u64) -> bool {
        self.handle_timeout(now);
        let lease = self.limits.lease;
        let entry = self
            .owners
            .get(&owner)
            .and_then(|url| self.names.get_mut(url));
        match entry {
            Some(entry) => {
                entry.free_at = now.saturating_add(lease);
                true
            }
            None => false,
        }
    }

    /// Makes the lease of a name permanent. Meant for an owner in the same program.
    pub fn keep(&mut self, owner: u64) {
        let url = self.owners.get(&owner);
        if let Some(entry) = url.and_then(|url| self.names.get_mut(url)) {
            entry.free_at = Tick::MAX;
        }
    }

    /// Called when a connection is gone: frees its name, and removes its lookups and the tickets to
    /// it.
    pub fn forget(&mut self, connection: u64) {
        if let Some(url) = self.owners.remove(&connection) {
            self.names.remove(&url);
        }
        self.waiting.retain(|waiting| waiting.asker != connection);
        self.tickets.retain(|_, given| given.owner != connection);
    }

    /// Looks up an endpoint.
    ///
    /// # Errors
    /// [`FaultCode::LimitReached`] if too many lookups are waiting or too many tickets are issued.
    pub fn lookup(
        &mut self,
        now: Tick,
        asker: u64,
        url: &StreamUrl,
        incarnation: Incarnation,
        random: impl FnOnce() -> Ticket,
    ) -> Result<Answer, Fault> {
        self.handle_timeout(now);
        let Some(entry) = self.names.get(url) else {
            if self.waiting.len() >= self.limits.waiting_max {
                let sentence = "too many endpoints wait for their peers here; try again later";
                return Err(Fault::new(FaultCode::LimitReached, sentence));
            }
            self.waiting.push(Waiting {
                asker,
                url: url.clone(),
                incarnation,
            });
            return Ok(Answer::Waits);
        };
        if self.tickets.len() >= self.limits.tickets_max {
            let sentence = "too many tickets were asked for and not used; try again in 10 s";
            return Err(Fault::new(FaultCode::LimitReached, sentence));
        }
        let valid_for = self.limits.ticket_valid_for;
        let grant = TicketGrant {
            ticket: random(),
            valid_for,
        };
        let given = IssuedTicket {
            owner: entry.owner,
            to: incarnation,
            until: now.saturating_add(valid_for),
        };
        self.note_due(given.until);
        self.tickets.insert(grant.ticket, given);
        Ok(Answer::Found(grant))
    }

    /// Redeems a ticket and returns the owner of the endpoint that it is for. The ticket cannot be
    /// used again, even after an error.
    ///
    /// # Errors
    /// [`FaultCode::BadTicket`] if the ticket is unknown, used, expired or issued to another
    /// endpoint.
    pub fn redeem(&mut self, now: Tick, ticket: &Ticket, by: Incarnation) -> Result<u64, Fault> {
        self.handle_timeout(now);
        match self.tickets.remove(ticket) {
            Some(given) if given.to == by => Ok(given.owner),
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
        self.due
    }

    /// Frees the names of silent owners and removes expired tickets.
    pub fn handle_timeout(&mut self, now: Tick) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.names.retain(|_, entry| now < entry.free_at);
        let names = &self.names;
        self.owners.retain(|_, url| names.contains_key(url));
        let owners = &self.owners;
        self.tickets
            .retain(|_, given| now < given.until && owners.contains_key(&given.owner));
        let leases = self.names.values().map(|entry| entry.free_at);
        let tickets = self.tickets.values().map(|given| given.until);
        self.due = leases.chain(tickets).min();
    }

    fn note_due(&mut self, at: Tick) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Returns a registered name that is a proper prefix of this name, or of which this name is a
    /// proper prefix.
    fn nested_with(&self, url: &StreamUrl) -> Option<&StreamUrl> {
        let above = url
            .ancestors()
            .find_map(|above| self.names.get_key_value(&above).map(|(name, _)| name));
        // In the order of URLs, the names that extend a name follow it directly.
        let below = || {
            let (next, _) = self.names.range(url..).next()?;
            next.is_nested_with(url).then_some(next)
        };
        above.or_else(below)
    }
}
