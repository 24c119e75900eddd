//! Exclusive write rights: leases (B-22) and variables with a single writer (H-19).
//!
//! ```text
//! lease          one session, for the time that it requested; others are refused with `leased`
//! single writer  the first session that writes, until it ends; refused sessions wait in a queue
//! ```
//!
//! Both restrict only clients' writes. The variable's source and forcing take precedence. A lease
//! expires on time, even if the engine was not polled. While a client controls the folder of a variable,
//! or that of the target of an alias, no other client can lease the variable
//! ([`Extension::admit_lease`]), and the control ends the leases of others ([`Leases::end_others`]).
//!
//! The audit trail has an entry for each lease that begins or ends, if it records the writes of the
//! variable. Like the entries of control, they claim no room.
//!
//! Lock order: variable, its aliases, then the list of write restrictions by session, then the locks of
//! the audit trail.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use trunkline_access::Action;
use trunkline_types::{AuditAction, AuditOutcome, Moment, Position, Properties, Tick};
pub use trunkline_types::{Granted, LeaseVerb};

use crate::caller::{Caller, Principal};
use crate::delivery::outbox::Wakes;
use crate::features::alias::{bound_to, followers};
use crate::features::audit::{Audit, AuditLog, AuditRoom, OrderNote};
use crate::outcome::Refusal;
use crate::rights::Rights;
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

/// Why a lease has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EndCause {
    Released,
    Expired,
    SessionEnded,
    Controlled,
}

#[derive(Debug)]
struct Lease {
    /// The session that took the lease, with its identity.
    holder: Caller,
    /// The holder as text.
    who: Arc<str>,
    until: Tick,
}

pub type Leases<'e> = View<'e, LeaseTable>;

/// The engine's index of write restrictions, by session and by time of expiry.
#[derive(Debug)]
pub struct LeaseTable {
    list: Mutex<List>,
    audit: Arc<AuditLog>,
}

#[derive(Debug, Default)]
struct List {
    /// For each session, the handles of the variables that it holds or waits for.
    sessions: BTreeMap<u32, BTreeSet<u32>>,
    /// The end of each lease, with the handle of its variable.
    ends: BTreeSet<(Tick, u32)>,
}

impl LeaseTable {
    pub(crate) fn new(audit: &Arc<AuditLog>) -> Self {
        Self {
            list: Mutex::default(),
            audit: Arc::clone(audit),
        }
    }
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
    /// still at that position. A lease ends when its duration has passed by the engine's clock, with
    /// its session, or when another client gets control of the variable's folder.
    pub fn request(
        &self,
        caller: &Caller,
        moment: Moment,
        handle: u32,
        request: LeaseRequest,
        wakes: &mut Wakes,
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
        if request.verb == LeaseVerb::Release || !variable.is_alias() {
            return self.decide(caller, moment, &variable, request, wakes);
        }
        self.check_targets(caller, moment, &variable)?;
        let granted = self.decide(caller, moment, &variable, request, wakes)?;
        // Another client may have got control of a target in between. From now on, it finds this lease.
        if let Err(refusal) = self.check_targets(caller, moment, &variable) {
            let mut state = variable.lock();
            let is_own = |lease: &Lease| lease.holder.session == caller.session;
            self.end_if(
                &variable,
                &mut state,
                is_own,
                EndCause::Controlled,
                moment,
                wakes,
            );
            return Err(refusal);
        }
        Ok(granted)
    }

    /// Checks that nobody else controls a variable that the alias shows.
    fn check_targets(
        &self,
        caller: &Caller,
        moment: Moment,
        alias: &Arc<Variable>,
    ) -> Result<(), Refusal> {
        let mut at = Arc::clone(alias);
        // Terminates, because no cyclic chain is ever deployed.
        while at.is_alias()
            && let Some(target) = bound_to(self.core, &at)
        {
            let admitted = target.admit_lease(&mut target.lock(), caller, moment);
            let shown = caller.rights.shown(target.name());
            admitted.map_err(|refusal| refusal.of_target(shown))?;
            at = target;
        }
        Ok(())
    }

    fn decide(
        &self,
        caller: &Caller,
        moment: Moment,
        variable: &Variable,
        request: LeaseRequest,
        wakes: &mut Wakes,
    ) -> Result<Granted, Refusal> {
        let (now, handle) = (moment.now, variable.handle());
        let mut state = variable.lock();
        let properties = variable.shared_properties(&state);
        Refusal::by_access(variable.name(), properties.access).map_or(Ok(()), Err)?;
        if variable.is_gone() {
            return Err(Refusal::Gone);
        }
        if request.verb != LeaseVerb::Release {
            variable.admit_lease(&mut state, caller, moment)?;
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
            check_expected(self.core.epoch(), variable, expected)?;
        }
        let sequence = variable.sequence();
        if request.verb == LeaseVerb::Release {
            self.end_if(
                variable,
                &mut state,
                |_| true,
                EndCause::Released,
                moment,
                wakes,
            );
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
        // A lease that is still there has expired, or is renewed.
        let replaced = self.take(&mut state, handle, |_| true);
        if let Some(expired) = replaced.filter(|_| !is_own) {
            self.record_end(variable, &expired, EndCause::Expired, moment, wakes);
        }
        self.ensure_restrictions(variable, &mut state);
        if let Some(restrictions) = state.extension_mut::<WriteRestrictions>() {
            restrictions.lease = Some(Lease {
                holder: Caller {
                    // They are not needed after the check, and would be outdated.
                    rights: Rights::NONE,
                    ..caller.clone()
                },
                who: Arc::from(caller.to_string()),
                until,
            });
        }
        let mut list = self.table.list.lock();
        list.ends.insert((until, handle));
        list.add(caller.session, handle);
        drop(list);
        if !is_own {
            let (action, effect) = (AuditAction::LeaseTake, format!("for {duration:?}"));
            self.record(variable, caller, action, &effect, moment, wakes);
        }
        Ok(Granted { duration, sequence })
    }

    /// Removes the lease and its end from the list, if there is a lease to which this applies.
    fn take(
        &self,
        state: &mut State,
        handle: u32,
        is_meant: impl FnOnce(&Lease) -> bool,
    ) -> Option<Lease> {
        let restrictions = state.extension_mut::<WriteRestrictions>()?;
        let lease = restrictions.lease.take_if(|lease| is_meant(lease))?;
        let mut list = self.table.list.lock();
        list.ends.remove(&(lease.until, handle));
        Some(lease)
    }

    /// Ends and records the lease if there is one to which this applies, and removes restrictions that
    /// no longer apply.
    fn end_if(
        &self,
        variable: &Variable,
        state: &mut State,
        is_meant: impl FnOnce(&Lease) -> bool,
        cause: EndCause,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        if let Some(lease) = self.take(state, variable.handle(), is_meant) {
            self.record_end(variable, &lease, cause, moment, wakes);
            let properties = variable.shared_properties(state);
            self.refresh(variable, state, &properties);
        }
    }

    /// Ends the leases of a variable and of its aliases, except those of sessions that may write the
    /// variable, because another client controls its folder.
    pub(crate) fn end_others(
        &self,
        variable: &Variable,
        may_write: &dyn Fn(&Caller) -> bool,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let mut state = variable.lock();
        let is_other = |lease: &Lease| !may_write(&lease.holder);
        self.end_if(
            variable,
            &mut state,
            is_other,
            EndCause::Controlled,
            moment,
            wakes,
        );
        // The lock of the target is held, so none of its aliases is bound or unbound meanwhile.
        for alias in followers(&state) {
            self.end_others(alias, may_write, moment, wakes);
        }
    }

    fn record_end(
        &self,
        variable: &Variable,
        lease: &Lease,
        cause: EndCause,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let engine = Caller::engine();
        let holder = &lease.who;
        let (caller, effect) = match cause {
            EndCause::Released => (&lease.holder, "released".to_owned()),
            EndCause::Expired => (&engine, format!("{holder}: its time had passed")),
            EndCause::SessionEnded => (&engine, format!("{holder}: its session had ended")),
            EndCause::Controlled => {
                let why = "another client controls the folder";
                (&engine, format!("{holder}: {why}"))
            }
        };
        self.record(
            variable,
            caller,
            AuditAction::LeaseEnd,
            &effect,
            moment,
            wakes,
        );
    }

    /// Adds an entry to the audit trail, if it records the writes of the variable.
    fn record(
        &self,
        variable: &Variable,
        caller: &Caller,
        action: AuditAction,
        effect: &str,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        if !variable.is_audited() {
            return;
        }
        let note = OrderNote {
            action,
            name: variable.name(),
            effect,
            outcome: AuditOutcome::Done,
        };
        let (audit, room): (Audit<'_>, _) = (self.of(&self.table.audit), AuditRoom::default());
        audit.note_order(caller, moment, note, &room, wakes);
    }

    /// Removes the write restrictions and queued writers of a variable that is being undeployed.
    pub(crate) fn forget(&self, variable: &Variable, state: &mut State) {
        let handle = variable.handle();
        let Some(restrictions) = state.extension::<WriteRestrictions>() else {
            return;
        };
        let lease = restrictions.lease.as_ref();
        let writers = restrictions.writer.iter().chain(&restrictions.queue);
        let sessions = writers.map(|one| one.session);
        let sessions: Vec<u32> = sessions
            .chain(lease.map(|lease| lease.holder.session))
            .collect();
        // The entry about the library shows that the lease has ended.
        self.take(state, handle, |_| true);
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
                who: Arc::clone(&lease.who),
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
    pub fn end_session(&self, session: u32, moment: Moment, wakes: &mut Wakes) {
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
            let is_own = |lease: &Lease| lease.holder.session == session;
            if let Some(lease) = self.take(&mut state, handle, is_own) {
                self.record_end(&variable, &lease, EndCause::SessionEnded, moment, wakes);
            }
            self.refresh(&variable, &mut state, &properties);
        }
    }

    /// Ends up to `limit` expired leases. Returns the time of the next call.
    pub(crate) fn expire(&self, moment: Moment, limit: usize, wakes: &mut Wakes) -> Option<Tick> {
        let now = moment.now;
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
            let lease = self.take(&mut state, variable.handle(), |lease| lease.until <= now);
            if let Some(lease) = lease {
                self.record_end(&variable, &lease, EndCause::Expired, moment, wakes);
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
        by: Arc::clone(&lease.who),
        left: lease.until.since(now),
    }
}
