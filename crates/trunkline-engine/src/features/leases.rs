//! Exclusive write rights: leases (B-22) and variables with a single writer (H-19).
//!
//! ```text
//! lease          one session, for the time that it requested; others are refused with `leased`
//! single writer  the first session that writes, until it ends; refused sessions wait in a queue
//! ```
//!
//! Both restrict only clients' writes. The variable's source and forcing take precedence. A lease
//! expires on time, even if the engine was not polled.
//!
//! Lock order: variable, then the list of write restrictions by session.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use trunkline_access::Action;
pub use trunkline_types::{Granted, LeaseVerb};
use trunkline_types::{Moment, Position, Properties, Tick};

use crate::caller::{Caller, Principal};
use crate::outcome::Refusal;
use crate::sync::{Arc, Mutex};
use crate::variable::{Admission, Extension, State, Variable};
use crate::write::{View, WriteVerb, check_expected};

pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
pub const LEASE_MIN: Duration = Duration::from_millis(1);
/// Maximum number of writers that wait for one variable with a single writer. Further writers are
/// refused without being queued.
pub const WRITERS_WAITING_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseRequest {
    pub verb: LeaseVerb,
    /// Duration of the lease, from now on. Ignored on release.
    pub duration: Duration,
    /// If set, the lease is granted only if the variable is still at this position.
    pub expected: Option<Position>,
}

impl LeaseRequest {
    pub fn acquire(duration: Duration) -> Self {
        Self {
            verb: LeaseVerb::Acquire,
            duration,
            expected: None,
        }
    }

    pub fn renew(duration: Duration) -> Self {
        Self {
            verb: LeaseVerb::Renew,
            ..Self::acquire(duration)
        }
    }

    pub fn release() -> Self {
        Self {
            verb: LeaseVerb::Release,
            ..Self::acquire(Duration::ZERO)
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseHolder {
    pub who: Arc<str>,
    /// Time until the lease ends; `None` for a single writer.
    pub left: Option<Duration>,
    /// Number of sessions that wait to become the single writer.
    pub waiting: usize,
}

/// The write restrictions of one variable, while it is leased or has a single writer.
#[derive(Debug)]
struct WriteRestrictions {
    leases: Arc<LeaseTable>,
    lease: Option<Lease>,
    writer: Option<Holder>,
    /// Sessions that will succeed the single writer, in the order of their refusals.
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

pub type Leases<'e> = View<'e, LeaseTable>;

/// The engine's index of write restrictions, by session and by time of expiry.
#[derive(Debug, Default)]
pub struct LeaseTable {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    /// For each session, the handles of the variables that it holds or waits for.
    sessions: BTreeMap<u32, BTreeSet<u32>>,
    /// The end of each lease, with the handle of its variable.
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

impl WriteRestrictions {
    fn lease_at(&self, now: Tick) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| lease.until > now)
    }

    fn other_writer(&self, properties: &Properties, caller: &Caller) -> Option<&Holder> {
        let writer = self.writer.as_ref()?;
        (properties.single_writer && writer.session != caller.session).then_some(writer)
    }
}

impl Extension for WriteRestrictions {
    fn order(&self) -> u8 {
        1
    }

    /// Checks that a client may write the variable now. If a single writer prevents it, queues the
    /// client.
    fn admit(
        &mut self,
        variable: &Variable,
        admission: &Admission<'_>,
        moment: Moment,
    ) -> Result<(), Refusal> {
        let Admission::Client {
            caller,
            verb,
            properties,
        } = admission
        else {
            return Ok(());
        };
        // A request only reads.
        if caller.principal == Principal::Engine || *verb == WriteVerb::Request {
            return Ok(());
        }
        if let Some(lease) = self.lease_at(moment.now)
            && lease.holder.session != caller.session
        {
            return Err(leased(lease, moment.now));
        }
        let Some(writer) = self.other_writer(properties, caller) else {
            return Ok(());
        };
        let by = Arc::clone(&writer.who);
        let waits = self.queue.iter().any(|one| one.session == caller.session);
        if !waits && self.queue.len() < WRITERS_WAITING_MAX {
            self.queue.push_back(Holder::of(caller));
            let mut list = self.leases.list.lock();
            list.add(caller.session, variable.handle());
        }
        Err(Refusal::SingleWriter { by })
    }

    /// Makes the client that wrote the variable its single writer, if the variable is configured to
    /// have one and has none yet.
    fn written(&mut self, variable: &Variable, caller: &Caller, properties: &Properties) {
        if properties.single_writer
            && caller.principal != Principal::Engine
            && self.writer.is_none()
        {
            self.writer = Some(Holder::of(caller));
            let mut list = self.leases.list.lock();
            list.add(caller.session, variable.handle());
        }
    }
}

impl Leases<'_> {
    /// Takes, renews or releases the lease of a variable. While a session holds the lease, writes
    /// by other sessions are refused. With `expected`, the lease is granted only if the variable is
    /// still at that position. A lease ends when its duration has passed by the engine's clock, or
    /// with its session.
    pub fn request(
        &self,
        caller: &Caller,
        now: Tick,
        handle: u32,
        request: LeaseRequest,
    ) -> Result<Granted, Refusal> {
        let variable = self
            .core
            .visible(caller, handle)
            .ok_or_else(|| self.core.refuse_handle(caller, handle))?;
        if !variable.permits(caller, Action::Write) {
            return Err(Refusal::Denied {
                action: Action::Write,
            });
        }
        let mut state = variable.lock();
        let properties = variable.shared_properties(&state);
        Refusal::by_access(variable.name(), properties.access).map_or(Ok(()), Err)?;
        if variable.is_gone() {
            return Err(Refusal::Gone);
        }
        let restrictions = state.extension::<WriteRestrictions>();
        let current = restrictions.and_then(|restrictions| restrictions.lease_at(now));
        let is_own = match current {
            Some(lease) if lease.holder.session != caller.session => {
                return Err(leased(lease, now));
            }
            current => current.is_some(),
        };
        if !is_own && request.verb != LeaseVerb::Acquire {
            return Err(Refusal::NotLeased);
        }
        if let Some(expected) = request.expected {
            check_expected(self.core.epoch(), &variable, expected)?;
        }
        let sequence = variable.sequence();
        if request.verb == LeaseVerb::Release {
            self.end(&mut state, handle);
            self.refresh(&variable, &mut state, &properties);
            return Ok(Granted {
                duration: Duration::ZERO,
                sequence,
            });
        }
        let restrictions = state.extension::<WriteRestrictions>();
        if let Some(other) =
            restrictions.and_then(|restrictions| restrictions.other_writer(&properties, caller))
        {
            return Err(Refusal::SingleWriter {
                by: Arc::clone(&other.who),
            });
        }
        let duration = request.duration.clamp(LEASE_MIN, LEASE_MAX);
        let until = now.saturating_add(duration);
        self.end(&mut state, handle);
        self.ensure_restrictions(&variable, &mut state);
        if let Some(restrictions) = state.extension_mut::<WriteRestrictions>() {
            restrictions.lease = Some(Lease {
                holder: Holder::of(caller),
                until,
            });
        }
        let mut list = self.table.list.lock();
        list.ends.insert((until, handle));
        list.add(caller.session, handle);
        Ok(Granted { duration, sequence })
    }

    /// Ends the lease, whichever session holds it, and removes it from the list.
    fn end(&self, state: &mut State, handle: u32) {
        let restrictions = state.extension_mut::<WriteRestrictions>();
        if let Some(lease) = restrictions.and_then(|restrictions| restrictions.lease.take()) {
            let mut list = self.table.list.lock();
            list.ends.remove(&(lease.until, handle));
        }
    }

    /// Removes the write restrictions and queued writers of a variable that is being undeployed.
    pub(crate) fn forget(&self, variable: &Variable, state: &mut State) {
        let handle = variable.handle();
        let Some(restrictions) = state.extension::<WriteRestrictions>() else {
            return;
        };
        let holder = restrictions.lease.as_ref().map(|lease| &lease.holder);
        let holders = holder
            .into_iter()
            .chain(&restrictions.writer)
            .chain(&restrictions.queue);
        let sessions: Vec<u32> = holders.map(|one| one.session).collect();
        self.end(state, handle);
        let mut list = self.table.list.lock();
        for session in sessions {
            if let Some(handles) = list.sessions.get_mut(&session) {
                handles.remove(&handle);
            }
        }
        drop(list);
        variable.detach::<WriteRestrictions>(state);
    }

    /// Returns the session with the exclusive right to write a variable now, if there is one.
    pub fn holder_of(&self, variable: &Variable, now: Tick) -> Option<LeaseHolder> {
        if !variable.is_extended() {
            return None;
        }
        let state = variable.lock();
        let restrictions = state.extension::<WriteRestrictions>()?;
        let waiting = restrictions.queue.len();
        if let Some(lease) = restrictions.lease_at(now) {
            return Some(LeaseHolder {
                who: Arc::clone(&lease.holder.who),
                left: Some(lease.until.since(now)),
                waiting,
            });
        }
        Some(LeaseHolder {
            who: Arc::clone(&restrictions.writer.as_ref()?.who),
            left: None,
            waiting,
        })
    }

    /// Releases all leases and write rights of an ended session. The next session in the queue
    /// becomes the single writer.
    pub fn end_session(&self, session: u32) {
        let handles = self.table.list.lock().sessions.remove(&session);
        for handle in handles.into_iter().flatten() {
            let Some(variable) = self.core.variable(handle) else {
                continue;
            };
            let mut state = variable.lock();
            let properties = variable.shared_properties(&state);
            let Some(restrictions) = state.extension_mut::<WriteRestrictions>() else {
                continue;
            };
            restrictions
                .queue
                .retain(|waiting| waiting.session != session);
            let was_writer = restrictions
                .writer
                .take_if(|writer| writer.session == session);
            if was_writer.is_some() {
                restrictions.writer = restrictions.queue.pop_front();
            }
            let lease = restrictions.lease.as_ref();
            if lease.is_some_and(|lease| lease.holder.session == session) {
                self.end(&mut state, handle);
            }
            self.refresh(&variable, &mut state, &properties);
        }
    }

    /// Ends up to `limit` expired leases. Returns the time of the next call.
    pub(crate) fn expire(&self, now: Tick, limit: usize) -> Option<Tick> {
        for _ in 0..limit {
            let due = {
                let mut list = self.table.list.lock();
                match list.ends.first() {
                    Some((until, _)) if *until <= now => list.ends.pop_first(),
                    first => return first.map(|(until, _)| *until),
                }
            };
            let Some(variable) = due.and_then(|(_, handle)| self.core.variable(handle)) else {
                continue;
            };
            let mut state = variable.lock();
            let properties = variable.shared_properties(&state);
            // Another session may have taken the lease in the meantime.
            if let Some(restrictions) = state.extension_mut::<WriteRestrictions>() {
                restrictions.lease.take_if(|lease| lease.until <= now);
            }
            self.refresh(&variable, &mut state, &properties);
        }
        Some(now)
    }

    fn ensure_restrictions(&self, variable: &Variable, state: &mut State) {
        if state.extension::<WriteRestrictions>().is_none() {
            let restrictions = WriteRestrictions {
                leases: Arc::clone(self.table),
                lease: None,
                writer: None,
                queue: VecDeque::new(),
            };
            variable.attach(state, restrictions);
        }
    }

    /// Adapts the restrictions to the variable's properties, and removes restrictions that no
    /// longer apply. The caller holds the lock.
    pub(crate) fn refresh(&self, variable: &Variable, state: &mut State, properties: &Properties) {
        if properties.single_writer {
            self.ensure_restrictions(variable, state);
        } else if let Some(restrictions) = state.extension_mut::<WriteRestrictions>() {
            restrictions.writer = None;
            restrictions.queue = VecDeque::new();
            if restrictions.lease.is_none() {
                variable.detach::<WriteRestrictions>(state);
            }
        }
    }
}

impl List {
    fn add(&mut self, session: u32, handle: u32) {
        self.sessions.entry(session).or_default().insert(handle);
    }
}

fn leased(lease: &Lease, now: Tick) -> Refusal {
    Refusal::Leased {
        by: Arc::clone(&lease.holder.who),
        left: lease.until.since(now),
    }
}
