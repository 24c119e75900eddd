//! Who may write now: leases (B-22), and variables with a single writer (H-19).
//!
//! ```text
//! lease          one session, for a time that it asked for; others are refused with `leased`
//! single writer  the first session that writes, until it ends; those it kept out wait in a queue
//! ```
//!
//! Both concern what clients write. What a variable's source says, and forcing, go before. A lease
//! that is over is over at its time, whether or not anybody has polled since.
//!
//! Lock order: variable, then the list of what sessions hold.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use trunkline_types::{Position, Properties, Tick};

use crate::caller::{Caller, Principal};
use crate::engine::Engine;
use crate::outcome::Refusal;
use crate::sync::{Arc, Mutex};
use crate::variable::{State, Variable};
use crate::write::check_expected;

/// The longest lease. A holder that lives renews it.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The shortest lease.
pub const LEASE_MIN: Duration = Duration::from_millis(1);
/// Writers that wait for one variable with a single writer; those beyond it are refused and
/// forgotten.
pub const WRITERS_WAITING_MAX: usize = 64;

/// What is to be done with a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseVerb {
    /// Take it for this long; one's own is renewed.
    Acquire(Duration),
    /// Renew what one holds, from now on for this long.
    Renew(Duration),
    /// Give it back.
    Release,
}

/// A lease that was granted, renewed or given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// For how long from now: what was asked for, within the limits; zero: it was given back.
    pub duration: Duration,
    /// The number of the variable's newest update: from there the holder goes on.
    pub sequence: u64,
}

/// Who may write a variable, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldBy {
    /// The holder of its lease, or its single writer.
    pub who: Arc<str>,
    /// For how long it is leased; `None`: it is its single writer.
    pub left: Option<Duration>,
    /// Writers that wait to take over from the single writer.
    pub waiting: usize,
}

/// What a variable knows of who may write it.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    lease: Option<Lease>,
    /// The single writer, where there is to be one.
    writer: Option<Holder>,
    /// Those who take over from it, in the order in which they were refused.
    queue: VecDeque<Holder>,
}

#[derive(Clone, Debug)]
struct Holder {
    session: u32,
    who: Arc<str>,
}

#[derive(Debug)]
struct Lease {
    holder: Holder,
    until: Tick,
}

/// The engine's side: what ends with a session, and what with time.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    /// What each session holds, or waits for.
    sessions: BTreeMap<u32, BTreeSet<u32>>,
    ends: BTreeSet<(Tick, u32)>,
}

impl Holder {
    fn of(caller: &Caller) -> Self {
        Self {
            session: caller.session,
            who: Arc::from(caller.to_string()),
        }
    }
}

impl Hold {
    fn is_empty(&self) -> bool {
        self.lease.is_none() && self.writer.is_none() && self.queue.is_empty()
    }

    /// The lease, if it is not over.
    fn lease_at(&self, now: Tick) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| lease.until > now)
    }
}

impl Engine {
    /// Takes, renews or gives back the lease of a variable: while a session holds it, what others
    /// write is refused. With `expected` it is granted only if the variable is still at that
    /// position. It ends at its time by the engine's clock, and with the session.
    ///
    /// # Errors
    /// The refusal that a write would get; [`Refusal::Leased`], [`Refusal::NotLeased`],
    /// [`Refusal::Conflict`].
    pub fn lease(
        &self,
        caller: &Caller,
        now: Tick,
        handle: u32,
        verb: LeaseVerb,
        expected: Option<Position>,
    ) -> Result<Granted, Refusal> {
        let variable = self
            .visible(caller, handle)
            .ok_or_else(|| self.refuse_handle(handle))?;
        if !caller.rights.write {
            return Err(Refusal::Denied);
        }
        let mut state = variable.lock();
        let properties = variable.shared_properties(&state);
        Refusal::by_access(properties.access).map_or(Ok(()), Err)?;
        if variable.is_gone() {
            return Err(Refusal::Gone);
        }
        let held = state.hold().and_then(|hold| hold.lease_at(now));
        let is_own = match held {
            Some(lease) if lease.holder.session != caller.session => {
                return Err(leased(lease, now));
            }
            held => held.is_some(),
        };
        if !is_own && !matches!(verb, LeaseVerb::Acquire(_)) {
            return Err(Refusal::NotLeased);
        }
        if let Some(expected) = expected {
            check_expected(self.epoch(), &variable, expected)?;
        }
        let sequence = variable.sequence();
        let (LeaseVerb::Acquire(duration) | LeaseVerb::Renew(duration)) = verb else {
            self.end_lease(&mut state, handle);
            variable.refresh_guard(&mut state, &properties);
            return Ok(Granted {
                duration: Duration::ZERO,
                sequence,
            });
        };
        if let Some(other) = other_writer(&state, &properties, caller) {
            return Err(Refusal::SingleWriter {
                by: Arc::clone(&other.who),
            });
        }
        let duration = duration.clamp(LEASE_MIN, LEASE_MAX);
        let until = now.saturating_add(duration);
        self.end_lease(&mut state, handle);
        state.make_hold().lease = Some(Lease {
            holder: Holder::of(caller),
            until,
        });
        variable.refresh_guard(&mut state, &properties);
        let mut list = self.leases().list.lock();
        list.ends.insert((until, handle));
        list.note(caller.session, handle);
        Ok(Granted { duration, sequence })
    }

    /// Takes the lease away, whoever holds it, and its end from the list.
    fn end_lease(&self, state: &mut State, handle: u32) {
        if let Some(lease) = state.hold_mut().and_then(|hold| hold.lease.take()) {
            let mut list = self.leases().list.lock();
            list.ends.remove(&(lease.until, handle));
        }
    }

    /// The variable goes: nobody holds it, or waits for it, any more.
    pub(crate) fn forget_holds(&self, variable: &Variable, state: &mut State) {
        let handle = variable.handle();
        let Some(hold) = state.hold() else {
            return;
        };
        let holder = hold.lease.as_ref().map(|lease| &lease.holder);
        let holders = holder.into_iter().chain(&hold.writer).chain(&hold.queue);
        let sessions: Vec<u32> = holders.map(|one| one.session).collect();
        self.end_lease(state, handle);
        let mut list = self.leases().list.lock();
        for session in sessions {
            if let Some(handles) = list.sessions.get_mut(&session) {
                handles.remove(&handle);
            }
        }
        drop(list);
        state.drop_hold();
    }

    /// Who alone may write a variable now, if there is somebody.
    pub fn held_by(&self, variable: &Variable, now: Tick) -> Option<HeldBy> {
        if !variable.is_guarded() {
            return None;
        }
        let state = variable.lock();
        let hold = state.hold()?;
        let waiting = hold.queue.len();
        if let Some(lease) = hold.lease_at(now) {
            return Some(HeldBy {
                who: Arc::clone(&lease.holder.who),
                left: Some(lease.until.since(now)),
                waiting,
            });
        }
        Some(HeldBy {
            who: Arc::clone(&hold.writer.as_ref()?.who),
            left: None,
            waiting,
        })
    }

    /// Whether a client may write it now. The caller holds the variable's lock.
    #[cold]
    pub(crate) fn check_guard(
        &self,
        caller: &Caller,
        now: Tick,
        variable: &Variable,
        state: &mut State,
        properties: &Properties,
    ) -> Result<(), Refusal> {
        if caller.principal == Principal::Engine {
            return Ok(());
        }
        let Some(hold) = state.hold() else {
            return Ok(());
        };
        if let Some(lease) = hold.lease_at(now)
            && lease.holder.session != caller.session
        {
            return Err(leased(lease, now));
        }
        let Some(writer) = other_writer(state, properties, caller) else {
            return Ok(());
        };
        let by = Arc::clone(&writer.who);
        let queue = &mut state.make_hold().queue;
        let waits = queue.iter().any(|one| one.session == caller.session);
        if !waits && queue.len() < WRITERS_WAITING_MAX {
            queue.push_back(Holder::of(caller));
            let mut list = self.leases().list.lock();
            list.note(caller.session, variable.handle());
        }
        Err(Refusal::SingleWriter { by })
    }

    /// A client has written it: where there is to be a single writer, that is who it is. The caller
    /// holds the variable's lock.
    #[cold]
    pub(crate) fn take_guard(
        &self,
        caller: &Caller,
        variable: &Variable,
        state: &mut State,
        properties: &Properties,
    ) {
        if !properties.single_writer || caller.principal == Principal::Engine {
            return;
        }
        let hold = state.make_hold();
        if hold.writer.is_none() {
            hold.writer = Some(Holder::of(caller));
            let mut list = self.leases().list.lock();
            list.note(caller.session, variable.handle());
        }
    }

    /// A session is over: what it alone might write others may write now, the next in the queue
    /// first.
    pub fn end_session(&self, session: u32) {
        let held = self.leases().list.lock().sessions.remove(&session);
        for handle in held.into_iter().flatten() {
            let Some(variable) = self.variable(handle) else {
                continue;
            };
            let mut state = variable.lock();
            let properties = variable.shared_properties(&state);
            let of_session = |lease: &Lease| lease.holder.session == session;
            let lease = state.hold().and_then(|hold| hold.lease.as_ref());
            if lease.is_some_and(of_session) {
                self.end_lease(&mut state, handle);
            }
            let hold = state.make_hold();
            hold.queue.retain(|waiting| waiting.session != session);
            let had_it = hold.writer.take_if(|writer| writer.session == session);
            if had_it.is_some() {
                hold.writer = hold.queue.pop_front();
            }
            variable.refresh_guard(&mut state, &properties);
        }
    }

    /// Ends leases whose time is over, at most `limit`; returns how many were looked at, and when
    /// the next one ends.
    pub(crate) fn expire_leases(&self, now: Tick, limit: usize) -> (usize, Option<Tick>) {
        let mut looked = 0;
        while looked < limit {
            let due = {
                let mut list = self.leases().list.lock();
                match list.ends.first() {
                    Some((until, _)) if *until <= now => list.ends.pop_first(),
                    first => return (looked, first.map(|(until, _)| *until)),
                }
            };
            looked += 1;
            let Some(variable) = due.and_then(|(_, handle)| self.variable(handle)) else {
                continue;
            };
            let mut state = variable.lock();
            let properties = variable.shared_properties(&state);
            // It may have been given to somebody else since.
            state.make_hold().lease.take_if(|lease| lease.until <= now);
            variable.refresh_guard(&mut state, &properties);
        }
        (looked, Some(now))
    }
}

impl List {
    fn note(&mut self, session: u32, handle: u32) {
        self.sessions.entry(session).or_default().insert(handle);
    }
}

impl Variable {
    /// What changes who may write it has changed. The caller holds the lock.
    pub(crate) fn refresh_guard(&self, state: &mut State, properties: &Properties) {
        if !properties.single_writer
            && let Some(hold) = state.hold_mut()
        {
            hold.writer = None;
            hold.queue = VecDeque::new();
        }
        if state.hold().is_some_and(Hold::is_empty) {
            state.drop_hold();
        }
        let is_guarded = properties.single_writer || state.hold().is_some();
        self.set_guarded(state, is_guarded);
    }
}

/// The single writer, if that is somebody else.
fn other_writer<'s>(
    state: &'s State,
    properties: &Properties,
    caller: &Caller,
) -> Option<&'s Holder> {
    let writer = state.hold()?.writer.as_ref()?;
    (properties.single_writer && writer.session != caller.session).then_some(writer)
}

fn leased(lease: &Lease, now: Tick) -> Refusal {
    Refusal::Leased {
        by: Arc::clone(&lease.holder.who),
        left: lease.until.since(now),
    }
}
