//! Audits security events: logins, ends of sessions, refused requests, and changes to access
//! rights.
//!
//! Events that a peer can repeat at will are limited, so that they cannot displace other entries
//! from the bounded audit. The first event of a peer gets an entry. While further ones follow, one
//! entry per minute states their number. A budget limits the entries of each kind of event; beyond
//! it, the events of all other peers are counted together.
//!
//! ```text
//! event --> known peer?  yes --> count ------------------.
//!              | no                                       |--> one entry per minute
//!              v                                          |
//!           budget?  yes --> entry, remember the peer     |
//!              | no                                       |
//!              '--------> count for all other peers ------'
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use trunkline_types::audit::{AUDIT_TEXT_BYTES_MAX, cut};
use trunkline_types::time::duration_nanos;
use trunkline_types::{AuditAction, AuditOutcome, Moment, Tick, Timestamp};

use super::{Audit, AuditRoom, Note, Subject};
use crate::caller::{Caller, Principal};
use crate::delivery::outbox::Wakes;
use crate::sync::Arc;

/// Time between two entries that state the number of repeated events.
pub const AUDIT_REPEAT_PERIOD: Duration = Duration::from_secs(60);
/// Maximum length of a text that identifies repeated events, in bytes.
const KEY_BYTES_MAX: usize = 256;

/// A security event, as passed to [`Audit::note_security`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecurityNote<'a> {
    /// The peer, without what differs between its connections, such as a port: `10.0.0.7` or
    /// `local:1000`. Repeated events are counted by peer.
    pub peer: &'a str,
    pub event: SecurityEvent<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecurityEvent<'a> {
    /// The caller, whose principal is now this account, proved its identity by `method`.
    LoginAccepted { account: &'a str, method: &'a str },
    /// The peer stated this account, and the rule refused it.
    LoginRefused {
        account: &'a str,
        method: &'a str,
        rule: &'a str,
    },
    /// The session of the caller ended.
    SessionEnded { cause: &'a str },
    /// The engine ended the session of the caller, because its account or rights were withdrawn.
    SessionRevoked { cause: &'a str },
    /// The rights of the caller do not permit this request on the named variable, or on the engine
    /// if the name is empty.
    RequestRefused {
        request: &'a str,
        name: &'a str,
        rule: &'a str,
    },
    /// The caller became the provider of the I/O server with this name, as in rules.
    Provides { server: &'a str },
    /// An endpoint of the caller registered this name, or was refused with this rule.
    StreamRegistered {
        name: &'a str,
        refused: Option<&'a str>,
    },
    /// A connection of the caller was passed to the endpoint with this name, or was refused with this rule.
    /// The name is empty if it is not known.
    StreamConnected {
        name: &'a str,
        refused: Option<&'a str>,
    },
    /// The caller changed accounts, roles or rules, or was refused with this rule.
    AccessChanged {
        change: &'a str,
        refused: Option<&'a str>,
    },
    /// The caller changed the configuration of the engine, or was refused with this rule.
    ConfigurationChanged {
        change: &'a str,
        refused: Option<&'a str>,
    },
}

/// Events that a peer can repeat at will.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Repeatable {
    LoginAccepted,
    LoginRefused,
    SessionEnded,
    RequestRefused,
    Provides,
    StreamRegistered,
    StreamConnected,
    StreamRefused,
}

/// Limits the entries of one kind of event.
struct Limits {
    /// Maximum number of peers that are told apart.
    peers: usize,
    /// Maximum number of entries at once.
    burst: u64,
    /// Number of entries per minute that are possible for any length of time.
    per_period: u64,
}

/// Peers without an account cause these events, or peers that choose a new name for each, so they get few
/// entries.
const HOSTILE: Limits = Limits {
    peers: 64,
    burst: 60,
    per_period: 1,
};
/// Only accounts cause these events.
const FRIENDLY: Limits = Limits {
    peers: 512,
    burst: 1_000,
    per_period: 20,
};

impl Repeatable {
    fn limits(self) -> &'static Limits {
        match self {
            Repeatable::LoginRefused
            | Repeatable::RequestRefused
            | Repeatable::StreamRegistered
            | Repeatable::StreamConnected
            | Repeatable::StreamRefused => &HOSTILE,
            Repeatable::LoginAccepted | Repeatable::SessionEnded | Repeatable::Provides => {
                &FRIENDLY
            }
        }
    }
}

/// The counted events of all kinds.
#[derive(Debug, Default)]
pub(super) struct Repeats(BTreeMap<Repeatable, Kind>);

/// The counted events of one kind.
#[derive(Debug)]
struct Kind {
    /// Number of entries that are possible now.
    budget: u64,
    /// Time up to which the budget has been replenished.
    replenished: Tick,
    peers: BTreeMap<Key, Counted>,
    /// Events of peers that are not in `peers`.
    others: Option<Counted>,
}

/// What became of an event.
enum Added {
    /// It gets its own entry now.
    Entry(Event),
    /// It was counted. The time of the next call of `note_repeats` is the same as before.
    Counted,
    /// It was counted as the first one of other peers, so the host must learn when the count is due.
    FirstOfOthers,
}

/// What identifies repeated events: the peer, for refused requests the kind of the request, and for streams
/// the name.
type Key = (Box<str>, Box<str>);

#[derive(Debug)]
struct Counted {
    /// Time of the next entry.
    due: Tick,
    /// Number of events since the last entry, and the time of the first of them.
    count: u64,
    since: Timestamp,
    /// The last event.
    last: Option<Event>,
}

/// The content of an entry.
#[derive(Clone, Debug)]
struct Event {
    who: Principal,
    from: Arc<str>,
    action: AuditAction,
    name: Box<str>,
    effect: Box<str>,
    outcome: AuditOutcome,
}

impl Audit<'_> {
    /// Records a security event. Never waits: if the audit trail is full, the entry is counted as
    /// lost.
    ///
    /// Repeated logins, ends of sessions, refused requests and connections of streams are counted, and
    /// get one entry per [`AUDIT_REPEAT_PERIOD`]; see [`note_repeats`](Self::note_repeats).
    pub fn note_security(
        &self,
        caller: &Caller,
        note: SecurityNote<'_>,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let event = Event::of(caller, note.event);
        let Some((kind, detail)) = repeatable(note.event) else {
            self.push_event(event, moment, wakes);
            return;
        };
        let short = |text: &str| cut(text, KEY_BYTES_MAX).into_boxed_str();
        let key = (short(note.peer), short(detail));
        let mut repeats = self.table.repeats.lock();
        let counts = repeats
            .0
            .entry(kind)
            .or_insert_with(|| Kind::new(kind, moment.now));
        let added = counts.add(kind.limits(), key, event, moment);
        drop(repeats);
        match added {
            // The note also wakes the host, which learns when the count of this peer is due.
            Added::Entry(event) => self.push_event(event, moment, wakes),
            Added::Counted => {}
            Added::FirstOfOthers => {
                if let Some(outbox) = &*self.table.host_outbox.lock() {
                    wakes.add(outbox);
                }
            }
        }
    }

    /// Records the numbers of repeated security events that are due. Returns the time of the next
    /// call; `None` if nothing is counted.
    pub fn note_repeats(&self, moment: Moment, wakes: &mut Wakes) -> Option<Tick> {
        self.note_counted(moment, false, wakes)
    }

    /// Records the numbers of all repeated security events, because the engine stops.
    pub fn note_all_repeats(&self, moment: Moment, wakes: &mut Wakes) {
        self.note_counted(moment, true, wakes);
    }

    fn note_counted(&self, moment: Moment, all: bool, wakes: &mut Wakes) -> Option<Tick> {
        let mut due = Vec::new();
        let mut repeats = self.table.repeats.lock();
        for (kind, counts) in &mut repeats.0 {
            counts.take_due(kind.limits(), moment, all, &mut due);
        }
        repeats
            .0
            .retain(|kind, counts| !counts.is_idle(kind.limits()));
        let next = repeats.0.values().filter_map(Kind::next_due).min();
        drop(repeats);
        for event in due {
            self.push_event(event, moment, wakes);
        }
        next
    }

    fn push_event(&self, event: Event, moment: Moment, wakes: &mut Wakes) {
        let note = Note {
            moment,
            who: event.who,
            from: event.from,
            action: event.action,
            subject: Subject::Order {
                name: event.name,
                effect: event.effect,
            },
            outcome: event.outcome,
        };
        self.table.push(note, &AuditRoom::default(), wakes);
    }
}

/// Returns the kind of an event that a peer can repeat at will, and the detail by which it is counted
/// besides the peer. The account is no detail of a refused login, because the peer chooses it.
fn repeatable(event: SecurityEvent<'_>) -> Option<(Repeatable, &str)> {
    match event {
        SecurityEvent::LoginAccepted { account, .. } => Some((Repeatable::LoginAccepted, account)),
        SecurityEvent::LoginRefused { .. } => Some((Repeatable::LoginRefused, "")),
        SecurityEvent::SessionEnded { .. } => Some((Repeatable::SessionEnded, "")),
        SecurityEvent::RequestRefused { request, .. } => {
            Some((Repeatable::RequestRefused, request))
        }
        SecurityEvent::Provides { server } => Some((Repeatable::Provides, server)),
        // The peer chooses the names that are refused, so they do not tell the events apart.
        SecurityEvent::StreamRegistered {
            refused: Some(_), ..
        } => Some((Repeatable::StreamRefused, "register")),
        SecurityEvent::StreamConnected {
            refused: Some(_), ..
        } => Some((Repeatable::StreamRefused, "connect")),
        SecurityEvent::StreamRegistered { name, .. } => Some((Repeatable::StreamRegistered, name)),
        SecurityEvent::StreamConnected { name, .. } => Some((Repeatable::StreamConnected, name)),
        SecurityEvent::SessionRevoked { .. }
        | SecurityEvent::AccessChanged { .. }
        | SecurityEvent::ConfigurationChanged { .. } => None,
    }
}

impl Event {
    fn of(caller: &Caller, event: SecurityEvent<'_>) -> Self {
        let login = |account: &str, method: &str| format!("account {account} by {method}");
        let refused = |rule: &str| AuditOutcome::Refused(cut(rule, AUDIT_TEXT_BYTES_MAX));
        let change = |refusal: Option<&str>| refusal.map_or(AuditOutcome::Done, refused);
        let (action, name, effect, outcome) = match event {
            SecurityEvent::LoginAccepted { account, method } => {
                let effect = login(account, method);
                (AuditAction::Login, "", effect, AuditOutcome::Done)
            }
            SecurityEvent::LoginRefused {
                account,
                method,
                rule,
            } => {
                let effect = login(account, method);
                (AuditAction::Login, "", effect, refused(rule))
            }
            SecurityEvent::SessionEnded { cause } => (
                AuditAction::Logout,
                "",
                cause.to_owned(),
                AuditOutcome::Done,
            ),
            SecurityEvent::SessionRevoked { cause } => (
                AuditAction::Revoke,
                "",
                cause.to_owned(),
                AuditOutcome::Done,
            ),
            SecurityEvent::RequestRefused {
                request,
                name,
                rule,
            } => (
                AuditAction::Request,
                name,
                request.to_owned(),
                refused(rule),
            ),
            SecurityEvent::Provides { server } => (
                AuditAction::Provide,
                server,
                String::new(),
                AuditOutcome::Done,
            ),
            SecurityEvent::StreamRegistered { name, refused } => (
                AuditAction::StreamRegister,
                name,
                String::new(),
                change(refused),
            ),
            SecurityEvent::StreamConnected { name, refused } => (
                AuditAction::StreamConnect,
                name,
                String::new(),
                change(refused),
            ),
            SecurityEvent::AccessChanged {
                change: text,
                refused,
            } => (
                AuditAction::AccessChange,
                "",
                text.to_owned(),
                change(refused),
            ),
            SecurityEvent::ConfigurationChanged {
                change: text,
                refused,
            } => (AuditAction::Configure, "", text.to_owned(), change(refused)),
        };
        Self {
            who: caller.principal.clone(),
            from: Arc::clone(&caller.origin),
            action,
            name: cut(name, AUDIT_TEXT_BYTES_MAX).into(),
            effect: cut(&effect, AUDIT_TEXT_BYTES_MAX).into(),
            outcome,
        }
    }

    /// Returns the entry that states the number of repetitions, of which this is the last.
    fn repeated(mut self, count: u64, since: Timestamp, whose: &str) -> Self {
        let mut effect = format!("{count} more{whose} since {since}");
        if !self.effect.is_empty() {
            effect.push_str("; the last: ");
            effect.push_str(&self.effect);
        }
        self.effect = cut(&effect, AUDIT_TEXT_BYTES_MAX).into();
        self
    }
}

impl Kind {
    fn new(kind: Repeatable, now: Tick) -> Self {
        Self {
            budget: kind.limits().burst,
            replenished: now,
            peers: BTreeMap::new(),
            others: None,
        }
    }

    fn add(&mut self, limits: &Limits, key: Key, event: Event, moment: Moment) -> Added {
        self.replenish(limits, moment.now);
        if let Some(counted) = self.peers.get_mut(&key) {
            counted.add(event, moment.wall);
            return Added::Counted;
        }
        if self.peers.len() < limits.peers && self.budget > 0 {
            self.budget -= 1;
            self.peers.insert(key, Counted::new(moment));
            return Added::Entry(event);
        }
        let is_first = self.others.is_none();
        let others = self.others.get_or_insert_with(|| Counted::new(moment));
        others.add(event, moment.wall);
        match is_first {
            true => Added::FirstOfOthers,
            false => Added::Counted,
        }
    }

    fn replenish(&mut self, limits: &Limits, now: Tick) {
        let period = duration_nanos(AUDIT_REPEAT_PERIOD).max(1);
        let elapsed = duration_nanos(now.since(self.replenished));
        let periods = elapsed / period;
        if periods > 0 {
            let added = periods.saturating_mul(limits.per_period);
            self.budget = self.budget.saturating_add(added).min(limits.burst);
            let whole = Duration::from_nanos(periods.saturating_mul(period));
            self.replenished = self.replenished.saturating_add(whole);
        }
    }

    /// Moves the entries that are due to `due`, or all of them if the engine stops. Forgets peers
    /// without events in the last period.
    fn take_due(&mut self, limits: &Limits, moment: Moment, all: bool, due: &mut Vec<Event>) {
        self.replenish(limits, moment.now);
        let budget = &mut self.budget;
        self.peers.retain(|_, counted| {
            if moment.now < counted.due && !all {
                return true;
            }
            if counted.count == 0 {
                return false;
            }
            // Without a budget, the events are counted for another period.
            counted.due = moment.now.saturating_add(AUDIT_REPEAT_PERIOD);
            if *budget > 0 || all {
                *budget = budget.saturating_sub(1);
                due.extend(counted.take(""));
            }
            true
        });
        if let Some(others) = self
            .others
            .take_if(|others| all || moment.now >= others.due)
        {
            // One entry per period, which needs no budget.
            let mut others = others;
            due.extend(others.take(" of other peers"));
        }
    }

    fn next_due(&self) -> Option<Tick> {
        let counted = self.peers.values().chain(&self.others);
        counted.map(|counted| counted.due).min()
    }

    /// Returns true if nothing is counted and the budget is complete.
    fn is_idle(&self, limits: &Limits) -> bool {
        self.peers.is_empty() && self.others.is_none() && self.budget >= limits.burst
    }
}

impl Counted {
    fn new(moment: Moment) -> Self {
        Self {
            due: moment.now.saturating_add(AUDIT_REPEAT_PERIOD),
            count: 0,
            since: moment.wall,
            last: None,
        }
    }

    fn add(&mut self, event: Event, wall: Timestamp) {
        if self.count == 0 {
            self.since = wall;
        }
        self.count += 1;
        self.last = Some(event);
    }

    /// Takes the entry that states the number of events; `None` if there were none.
    fn take(&mut self, whose: &str) -> Option<Event> {
        let count = std::mem::take(&mut self.count);
        let last = self.last.take()?;
        Some(last.repeated(count, self.since, whose))
    }
}
