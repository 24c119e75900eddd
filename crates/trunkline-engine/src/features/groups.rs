//! Group writes and consistent snapshots: several variables at one instant (B-23).
//!
//! ```text
//! check each  ->  lock all, in ascending order of their handles  ->  decide each
//!                      |                                            |
//!                 one refusal refuses all                 room for all in every feed
//!                                                                   |
//!                          commit all, one time, one number; feeds get the group contiguously
//! ```
//!
//! All code that takes several locks takes them in the same order, so groups cannot deadlock.
//! Between the first lock and the last commit, no other write can change any of the variables. A
//! snapshot takes locks in the same way, so it contains a group completely or not at all.

use std::collections::BTreeMap;

use trunkline_types::{AuditMode, Moment, Tick, Timestamp};

use crate::caller::Caller;
use crate::delivery::group_room::{GROUP_MAX, GroupRooms};
use crate::delivery::outbox::Wakes;
use crate::features::alias::resolve_alias;
use crate::features::audit::{AuditLog, AuditRoom, Audited, NoAuditRoom, is_noted};
use crate::outcome::{AccessError, Refusal, WriteOutcome};
use crate::sync::{Arc, AtomicUsize, MutexGuard, Ordering};
use crate::update::Update;
use crate::variable::{PropertiesRef, State, Variable};
use crate::write::accept::Accepted;
use crate::write::{
    Call, Commit, Decision, Origin, View, Write, WriteVerb, admit, check_expected, commit_update,
    count_refused, decide,
};

#[derive(Clone, Debug)]
pub struct GroupMember<'a> {
    pub handle: u32,
    /// The write: a client's put or set. Its completion is ignored.
    pub write: Write<'a>,
}

pub type GroupOutcome = trunkline_types::GroupOutcome<WriteOutcome>;

#[derive(Clone, PartialEq, Debug)]
pub enum GroupAttempt {
    Done(GroupOutcome),
    /// An `all` subscription is full and one of the variables lets writers wait for it, or the
    /// audit trail has no room. No member has received a sequence or is counted. Retry when woken,
    /// but no later than at `until`.
    WouldBlock {
        /// Time to retry the group, woken or not. By then, the subscription may have ended with
        /// `overrun`.
        until: Tick,
        /// One of the variables of that subscription, or the first variable with a complete audit
        /// trail.
        handle: u32,
    },
}

/// The newest updates of several variables, read at one instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// True if all updates are from the same instant. With more than [`GROUP_MAX`] variables, each
    /// update is consistent only by itself.
    pub is_consistent: bool,
    /// Commit number of the last group before the snapshot.
    pub commit: u64,
    /// One result per handle, in the order of the handles.
    pub updates: Vec<Result<Update, AccessError>>,
}

pub type Groups<'e> = View<'e, GroupTable>;

#[derive(Debug)]
pub struct GroupTable {
    commits: AtomicUsize,
    audit: Arc<AuditLog>,
}

impl GroupTable {
    pub(crate) fn new(audit: &Arc<AuditLog>) -> Self {
        Self {
            commits: AtomicUsize::new(0),
            audit: Arc::clone(audit),
        }
    }
}

#[derive(Clone, Copy)]
struct Group<'a> {
    caller: &'a Caller,
    moment: Moment,
    members: &'a [GroupMember<'a>],
}

/// A member whose variable exists, with the decision on its write.
struct Candidate<'a> {
    call: Call<'a>,
    properties: PropertiesRef<'a>,
    accepted: Accepted,
    decision: Decision,
}

/// Refusals of members that violate a rule themselves, by index.
type Refused = BTreeMap<usize, Refusal>;

impl Groups<'_> {
    /// Writes several variables together, or returns at once with the reason. Either all members
    /// are written or none, with one timestamp and one commit number, contiguously in every `all`
    /// subscription. Never waits.
    ///
    /// If the group may wait for a feed, the longest `stall` among that feed's members in the group
    /// applies.
    pub fn try_write(
        &self,
        caller: &Caller,
        now: Tick,
        wall: Timestamp,
        members: &[GroupMember<'_>],
        wakes: &mut Wakes,
    ) -> GroupAttempt {
        let moment = Moment { now, wall };
        let group = Group {
            caller,
            moment,
            members,
        };
        let none = AuditRoom::default();
        if members.len() > GROUP_MAX {
            let refused = (0..members.len()).map(|at| {
                let (given, max) = (members.len(), GROUP_MAX);
                (at, Refusal::GroupTooLarge { given, max })
            });
            return self.refuse_group(group, refused.collect(), &none, wakes);
        }
        let variables = members
            .iter()
            .map(|member| self.core.visible(caller, member.handle));
        let variables: Vec<Option<Arc<Variable>>> = variables.collect();
        let is_fully_audited = |variable: &Option<Arc<Variable>>| {
            let variable = variable.as_deref();
            variable.is_some_and(|one| one.properties().audit == AuditMode::Complete)
        };
        let fully_audited =
            (0..members.len()).filter(|at| variables.get(*at).is_some_and(is_fully_audited));
        let fully_audited: Vec<usize> = fully_audited.collect();
        let room = match self.of(&self.table.audit).claim(fully_audited.len(), now) {
            Ok(room) => room,
            Err(NoAuditRoom::Wait(until)) => {
                let first = fully_audited.first().and_then(|at| members.get(*at));
                let handle = first.map_or(0, |member| member.handle);
                return GroupAttempt::WouldBlock { until, handle };
            }
            Err(NoAuditRoom::Unstored) => {
                let refused = fully_audited.into_iter().map(|at| (at, Refusal::AuditFull));
                return self.refuse_group(group, refused.collect(), &none, wakes);
            }
        };
        loop {
            let candidates = match self.candidates(group, &variables) {
                Ok(candidates) => candidates,
                Err(refused) => return self.refuse_group(group, refused, &room, wakes),
            };
            match self.put_group(group, candidates, &room, wakes) {
                Ok(Some(attempt)) => return attempt,
                // A member was edited between check and lock, so its check is no longer valid.
                Ok(None) => {}
                Err(refused) => return self.refuse_group(group, refused, &room, wakes),
            }
        }
    }

    fn candidates<'e>(
        &self,
        group: Group<'e>,
        variables: &'e [Option<Arc<Variable>>],
    ) -> Result<Vec<Candidate<'e>>, Refused> {
        let members = group.members;
        let (mut refused, mut found) = (Refused::new(), Vec::with_capacity(members.len()));
        let mut seen = BTreeMap::new();
        for (at, (member, variable)) in members.iter().zip(variables).enumerate() {
            match self.candidate(group, member, variable.as_deref()) {
                Ok(candidate) => found.push(candidate),
                Err(refusal) => {
                    refused.insert(at, refusal);
                }
            }
            if let Some(earlier) = seen.insert(member.handle, at) {
                refused.entry(earlier).or_insert(Refusal::TwiceInGroup);
                refused.entry(at).or_insert(Refusal::TwiceInGroup);
            }
        }
        match refused.is_empty() {
            true => Ok(found),
            false => Err(refused),
        }
    }

    fn candidate<'e>(
        &self,
        group: Group<'e>,
        member: &'e GroupMember<'_>,
        variable: Option<&'e Variable>,
    ) -> Result<Candidate<'e>, Refusal> {
        let write = &member.write;
        let variable =
            variable.ok_or_else(|| self.core.refuse_handle(group.caller, member.handle))?;
        let properties = variable.properties();
        let call = Call::of(group.caller, group.moment, variable, write);
        call.check(&properties)?;
        if write.origin != Origin::Client || !matches!(write.verb, WriteVerb::Put | WriteVerb::Set)
        {
            let why = "an atomic group contains only values to put or set; send other requests \
                       one by one";
            return Err(Refusal::NotGroupable { why });
        }
        if write.verb == WriteVerb::Put && variable.is_provided() {
            let why = "it is written through an I/O server and cannot be part of an atomic group; \
                       write it separately, or use `trunkline set` to change only the value in the \
                       engine";
            return Err(Refusal::NotGroupable { why });
        }
        if variable.is_alias() {
            let why =
                "it is an alias of another variable; write that variable in the group instead";
            return Err(Refusal::NotGroupable { why });
        }
        let mut accepted = Accepted::nothing();
        self.core.accept_write(&call, &properties, &mut accepted)?;
        Ok(Candidate {
            call,
            properties,
            accepted,
            decision: Decision::Commit { changed: true },
        })
    }

    /// Performs steps 2 to 4 of the write path. Returns `None` if the members must be checked
    /// again.
    fn put_group(
        &self,
        group: Group<'_>,
        mut candidates: Vec<Candidate<'_>>,
        room: &AuditRoom,
        wakes: &mut Wakes,
    ) -> Result<Option<GroupAttempt>, Refused> {
        let members = group.members;
        let mut locked = lock_all(&candidates);
        let is_current = |(at, state): &(usize, MutexGuard<'_, State>)| {
            let candidate = candidates.get(*at);
            candidate.is_some_and(|one| one.call.variable.is_current(state, &one.properties))
        };
        if !locked.iter().all(is_current) {
            return Ok(None);
        }
        let mut rooms = GroupRooms::default();
        let mut refused = Refused::new();
        for (at, state) in &mut locked {
            let Some(one) = candidates.get_mut(*at) else {
                continue;
            };
            match self.decide_member(one, state) {
                Ok(decision) => one.decision = decision,
                Err(refusal) => {
                    refused.insert(*at, refusal);
                }
            }
            if let (Decision::Commit { changed }, Some(subscribers)) =
                (&one.decision, state.subscribers())
            {
                let bytes = one.accepted.update.value.as_slice().len();
                let (stall, handle) = (one.properties.stall, one.call.variable.handle());
                subscribers.ask_for_room(*changed, bytes, stall, handle, &mut rooms);
            }
        }
        if !refused.is_empty() {
            return Err(refused);
        }
        if let Err((until, handle)) = rooms.reserve(group.moment.now, wakes) {
            return Ok(Some(GroupAttempt::WouldBlock { until, handle }));
        }
        // Numbered under the locks, so that groups with a common variable are numbered in commit
        // order.
        let commit = self.table.commits.fetch_add(1, Ordering::Relaxed) as u64 + 1;
        let mut outcomes = vec![WriteOutcome::Unchanged(0); members.len()];
        for (at, state) in &mut locked {
            if let (Some(one), Some(outcome)) = (candidates.get_mut(*at), outcomes.get_mut(*at)) {
                let Call {
                    caller,
                    variable,
                    write,
                    ..
                } = one.call;
                let audited = is_noted(variable, write.verb).then(|| {
                    Audited::new(
                        &self.table.audit,
                        caller,
                        variable,
                        write,
                        room.of(variable),
                    )
                });
                let before = audited.as_ref().map(|_| variable.update_locked(state));
                *outcome = commit_member(one, state, &mut rooms, wakes);
                if let (Some(audited), Some(before)) = (&audited, &before) {
                    let is_applied = matches!(outcome, WriteOutcome::Applied(_));
                    let new = is_applied.then_some(&one.accepted.update.value);
                    let call = Call {
                        observer: Some(audited),
                        ..one.call
                    };
                    call.inform_observer(self.core, before, new, outcome, wakes);
                }
                if variable.is_extended() {
                    variable.written(state, caller, &one.properties);
                }
            }
        }
        rooms.commit(wakes);
        Ok(Some(GroupAttempt::Done(GroupOutcome {
            commit: Some(commit),
            refused_member: None,
            outcomes,
        })))
    }

    fn decide_member(
        &self,
        one: &mut Candidate<'_>,
        state: &mut State,
    ) -> Result<Decision, Refusal> {
        let Candidate {
            call,
            properties,
            accepted,
            ..
        } = one;
        if call.variable.has_rules() {
            admit(call, state, properties, accepted)?;
        }
        let decision = decide(call, state, properties, accepted)?;
        if let Some(expected) = call.write.expected {
            check_expected(self.core.epoch(), call.variable, expected)?;
        }
        Ok(decision)
    }

    /// Counts the refusals, and refuses the other members with the name of the first refused
    /// member.
    fn refuse_group(
        &self,
        group: Group<'_>,
        mut refused: Refused,
        room: &AuditRoom,
        wakes: &mut Wakes,
    ) -> GroupAttempt {
        let Group {
            caller,
            moment,
            members,
        } = group;
        // If the audit trail is full, it cannot record this refusal.
        let has_room = !refused
            .values()
            .any(|refusal| matches!(refusal, Refusal::AuditFull));
        let refused_member = refused.first_key_value().map(|(at, _)| *at);
        let blamed = refused_member.and_then(|at| members.get(at));
        let name: Arc<str> = blamed.map_or_else(
            || Arc::from(""),
            |member| match self.core.visible(caller, member.handle) {
                Some(variable) => Arc::from(variable.name()),
                None => Arc::from(format!("handle {}", member.handle)),
            },
        );
        let outcome = |(at, member): (usize, &GroupMember<'_>)| {
            let own = refused.remove(&at);
            let refusal = own.unwrap_or_else(|| Refusal::Group {
                name: Arc::clone(&name),
            });
            let Some(variable) = self.core.visible(caller, member.handle) else {
                return WriteOutcome::Refused(refusal);
            };
            let outcome = count_refused(&variable, refusal);
            if has_room && is_noted(&variable, member.write.verb) {
                let room = room.of(&variable);
                let audited =
                    Audited::new(&self.table.audit, caller, &variable, &member.write, room);
                let call = Call {
                    observer: Some(&audited),
                    ..Call::of(caller, moment, &variable, &member.write)
                };
                call.inform_observer(self.core, &variable.update(), None, &outcome, wakes);
            }
            outcome
        };
        GroupAttempt::Done(GroupOutcome {
            commit: None,
            refused_member,
            outcomes: members.iter().enumerate().map(outcome).collect(),
        })
    }

    /// Reads several variables at one instant: no write and no group falls between two of them.
    /// More than [`GROUP_MAX`] variables are read one after the other, and the snapshot reports
    /// that.
    pub fn snapshot(&self, caller: &Caller, handles: &[u32]) -> Snapshot {
        let readable = |handle: &u32| {
            let variable = self
                .core
                .visible(caller, *handle)
                .ok_or_else(|| self.core.no_variable(caller, *handle))?;
            variable.check_readable(caller)?;
            Ok(variable)
        };
        let variables: Vec<_> = handles.iter().map(readable).collect();
        let is_consistent = handles.len() <= GROUP_MAX;
        let mut roots;
        let locked = loop {
            if !is_consistent {
                break BTreeMap::new();
            }
            roots = self.roots_of(&variables);
            let locks = roots.iter().map(|(handle, one)| (*handle, one.lock()));
            let locked: BTreeMap<u32, MutexGuard<'_, State>> = locks.collect();
            if self.roots_of(&variables).keys().eq(roots.keys()) {
                break locked;
            }
            // An alias was bound to another target in the meantime.
        };
        let commit = self.table.commits.load(Ordering::Relaxed) as u64;
        let read = |variable: Result<Arc<Variable>, AccessError>| {
            let variable = variable?;
            if variable.is_gone() {
                return Err(AccessError::Gone);
            }
            Ok(match locked.get(&variable.handle()) {
                Some(state) => variable.update_locked(state),
                None => variable.update(),
            })
        };
        let updates = variables.into_iter().map(read).collect();
        Snapshot {
            is_consistent,
            commit,
            updates,
        }
    }
}

impl Groups<'_> {
    /// Returns the variables whose locks protect changes of the given ones, in ascending order
    /// without duplicates.
    fn roots_of(
        &self,
        variables: &[Result<Arc<Variable>, AccessError>],
    ) -> BTreeMap<u32, Arc<Variable>> {
        let found = variables.iter().flatten();
        let found = found.filter_map(|one| self.lock_owner(one));
        found.map(|one| (one.handle(), one)).collect()
    }

    /// Returns the variable whose lock protects changes of this one. A field changes under the lock
    /// of its variable, an alias under the lock of its target. Locking an alias before its target
    /// would invert the lock order of writers, so an alias without a target is not locked at all.
    fn lock_owner(&self, variable: &Arc<Variable>) -> Option<Arc<Variable>> {
        let owner = match variable.name().split_once('#') {
            Some((owner, _)) => self.core.variables.find(owner)?,
            None => Arc::clone(variable),
        };
        Some(resolve_alias(self.core, &owner)).filter(|one| !one.is_alias())
    }
}

/// Performs step 2 of the write path: takes the locks in ascending order of the handles. Returns
/// each lock with the index of its member.
fn lock_all<'a>(candidates: &[Candidate<'a>]) -> Vec<(usize, MutexGuard<'a, State>)> {
    let mut order: Vec<(u32, usize)> = candidates
        .iter()
        .enumerate()
        .map(|(at, one)| (one.call.variable.handle(), at))
        .collect();
    order.sort_unstable();
    order
        .into_iter()
        .filter_map(|(_, at)| Some((at, candidates.get(at)?.call.variable.lock())))
        .collect()
}

/// Performs step 4 of the write path for one member. The caller holds the lock of the member's
/// variable.
fn commit_member(
    one: &mut Candidate<'_>,
    state: &mut State,
    rooms: &mut GroupRooms,
    wakes: &mut Wakes,
) -> WriteOutcome {
    let changed = match one.decision {
        Decision::Commit { changed } => changed,
        Decision::Unchanged { sequence } => {
            state.count_unchanged(sequence);
            return WriteOutcome::Unchanged(sequence);
        }
    };
    let Call {
        caller,
        variable,
        moment,
        ..
    } = one.call;
    let update = &mut one.accepted.update;
    update.writer = caller.session;
    if one.properties.timestamps {
        update.engine_timestamp = moment.wall;
    }
    let commit = Commit {
        changed,
        group: Some(rooms),
        ..Commit::at(moment)
    };
    WriteOutcome::Applied(commit_update(variable, state, update, commit, wakes))
}
