//! Control of folders: while a client controls a folder, the engine refuses writes by other clients
//! to the variables in it (decision 0068).
//!
//! ```text
//! operator < supervisor      take: at once, from lower levels only
//! folder   boiler            request: waits until the holder releases or gives
//!          boiler/pump       two holders never have overlapping folders
//! ```
//!
//! As with leases, only clients' writes are restricted. Sources, real-time threads and forcing take
//! precedence. Control ends on time, even if the engine was not polled.
//!
//! # Layout
//! - `book`: tokens and waiting requests; `mark`: the part of a controlled variable.
//! - this file: the requests, the search for variables to mark, the audit trail and the notifications.
//!
//! A variable in a controlled folder has a mark, which looks the holder up at each write. So a change
//! of the holder changes the table only. A new token first searches its folder for variables without
//! a mark, and ends the leases of others on them. Its holder learns that it has control when the search
//! is complete: no write of another client is applied after that, and no lease of another client refuses
//! one of the holder. [`Engine::poll`](crate::Engine::poll) removes marks that are no
//! longer needed.
//!
//! Lock order: the index of names, a variable, its aliases, the book, then the locks of leases and of
//! the audit trail.

mod book;
mod mark;

use std::collections::{BTreeMap, BTreeSet};

use trunkline_access::{Action, Host, SubjectRules};
use trunkline_types::control::paths_above;
use trunkline_types::name::is_reserved;
use trunkline_types::{
    AuditAction, AuditOutcome, ControlEntry, ControlTerms, Folder, Moment, Tick,
};

pub use self::book::ControlRefusal;
use self::book::{Book, Change, EndCause, Token, check_rights};
use crate::caller::Caller;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::features::audit::{Audit, AuditLog, AuditRoom, OrderNote, SecurityEvent, SecurityNote};
use crate::features::leases::{LeaseTable, Leases};
use crate::outcome::Controlled;
use crate::subscriptions::Consumer;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, Weak};
use crate::variable::Variable;
use crate::write::View;

pub type Control<'e> = View<'e, ControlTable>;

#[derive(Debug)]
pub struct ControlTable {
    shared: Mutex<Shared>,
    /// Increases with every change of a token; 0 before the first one.
    generation: AtomicU64,
    audit: Arc<AuditLog>,
    leases: Arc<LeaseTable>,
}

#[derive(Debug, Default)]
struct Shared {
    book: Book,
    /// The sessions that follow what they control and wait for.
    followers: BTreeMap<u32, Follower>,
    /// The slot at which the search for unneeded marks continues; `None` if there are none.
    sweep: Option<u32>,
}

#[derive(Debug)]
struct Follower {
    caller: Caller,
    outbox: Weak<Outbox>,
    /// Increases when what concerns the session changes.
    revision: u64,
}

/// Progress of a list of tokens and requests.
#[derive(Debug)]
pub struct ControlList {
    entries: Vec<ControlEntry>,
    /// The numbers of the entries of each folder that the caller may see only if it may read one of
    /// its variables.
    doubtful: BTreeMap<Folder, Vec<u64>>,
    visible: BTreeSet<u64>,
    /// The next slot to examine.
    cursor: u32,
}

/// The control of a variable's folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlState {
    pub holder: Arc<Controlled>,
    /// True if the caller may write.
    pub is_own: bool,
    /// Number of requests for folders that contain the variable.
    pub waiting: usize,
}

impl ControlTable {
    pub(crate) fn new(audit: &Arc<AuditLog>, leases: &Arc<LeaseTable>) -> Self {
        Self {
            shared: Mutex::default(),
            generation: AtomicU64::new(0),
            audit: Arc::clone(audit),
            leases: Arc::clone(leases),
        }
    }

    /// Marks a new variable if its folder is controlled. The caller holds the lock of the index of
    /// names, so that a search that begins later finds the variable.
    pub(crate) fn mark_new(self: &Arc<Self>, variable: &Variable) {
        // Acquire: pairs with the release in `finish`. A token that is not seen here is searched for
        // after this variable has been inserted.
        if self.generation.load(Ordering::Acquire) == 0 {
            return;
        }
        let is_covered = self.shared.lock().book.covering(variable.name()).is_some();
        if is_covered {
            mark::attach(self, variable);
        }
    }
}

impl Control<'_> {
    /// Checks that the caller can control this folder, before it takes or requests control: it contains a
    /// variable that the caller may read, and is not part of the engine itself. So a list of controlled
    /// folders has none that only looks like another one. What happens to the variables later does not
    /// matter.
    ///
    /// Examines up to `limit` variables. Returns `None` if the check must be continued; `cursor` is 0 at
    /// its beginning.
    pub fn check_folder(
        &self,
        caller: &Caller,
        folder: &Folder,
        terms: &ControlTerms,
        cursor: &mut u32,
        limit: usize,
    ) -> Option<Result<(), ControlRefusal>> {
        if check_rights(caller, folder, terms).is_err() {
            // Without rights, a caller learns nothing else. The request is refused and recorded.
            return Some(Ok(()));
        }
        if is_reserved(folder.path()) {
            let folder = folder.clone();
            return Some(Err(ControlRefusal::Reserved { folder }));
        }
        let end = self.core.variables.end();
        let limit = u32::try_from(limit.max(1)).unwrap_or(u32::MAX);
        let stop = end.min((*cursor).max(1).saturating_add(limit));
        let is_in_folder = |variable: &Variable| {
            let name = variable.name();
            folder.covers(name)
                && name != folder.path()
                && !is_reserved(name)
                && !name.contains('#')
                && variable.is_visible_to(caller)
                && !variable.is_gone()
        };
        let mut slots = (*cursor).max(1)..stop;
        let variables = &self.core.variables;
        if slots.any(|slot| variables.at(slot).is_some_and(|one| is_in_folder(&one))) {
            return Some(Ok(()));
        }
        *cursor = stop;
        if stop < end {
            return None;
        }
        let mut above = paths_above(folder.path()).filter_map(|path| variables.find(path));
        let variable = above.find(|one| one.is_visible_to(caller) && !one.is_gone());
        Some(Err(match variable {
            Some(variable) => ControlRefusal::IsVariable {
                variable: variable.name().into(),
            },
            None => ControlRefusal::NoVariables {
                folder: folder.clone(),
            },
        }))
    }

    /// Takes control of a folder at once. Holders of lower levels lose theirs. Returns the number of
    /// the token.
    ///
    /// The caller must complete the [check of the folder](Self::check_folder) before, and the
    /// [search](Self::search) before it relies on the control.
    ///
    /// # Errors
    /// [`ControlRefusal`]: the caller has no right to it, a client of the same or a higher level
    /// controls the folder or an overlapping one, or a bound is reached.
    pub fn take(
        &self,
        caller: &Caller,
        folder: &Folder,
        terms: ControlTerms,
        moment: Moment,
        wakes: &mut Wakes,
    ) -> Result<u64, ControlRefusal> {
        self.change(caller, folder, "control take", moment, wakes, |book| {
            book.take(caller, folder, terms, moment)
        })
    }

    /// Takes control of a folder if no other client has it; otherwise waits until the holders have
    /// released it. Returns the number of the request, which becomes that of the token.
    ///
    /// The caller must complete the [check of the folder](Self::check_folder) before.
    ///
    /// # Errors
    /// [`ControlRefusal`]: the caller has no right to it, or a bound is reached.
    pub fn request(
        &self,
        caller: &Caller,
        folder: &Folder,
        terms: ControlTerms,
        moment: Moment,
        wakes: &mut Wakes,
    ) -> Result<u64, ControlRefusal> {
        self.change(caller, folder, "control request", moment, wakes, |book| {
            book.request(caller, folder, terms, moment)
        })
    }

    /// Releases control of a folder, or withdraws the caller's request for it. The first client that
    /// waits gets control.
    ///
    /// # Errors
    /// [`ControlRefusal::NotControlled`]: the caller has neither.
    pub fn release(
        &self,
        caller: &Caller,
        folder: &Folder,
        moment: Moment,
        wakes: &mut Wakes,
    ) -> Result<(), ControlRefusal> {
        self.change(caller, folder, "control release", moment, wakes, |book| {
            book.release(caller, folder, moment)
        })
    }

    /// Hands control of a folder over to the client that made the request with this number. Returns
    /// the number of the token.
    ///
    /// # Errors
    /// [`ControlRefusal`]: the caller does not control the folder, there is no such request, or the
    /// request needs folders that further clients control. Nothing has changed then.
    pub fn give(
        &self,
        caller: &Caller,
        folder: &Folder,
        number: u64,
        moment: Moment,
        wakes: &mut Wakes,
    ) -> Result<u64, ControlRefusal> {
        self.change(caller, folder, "control give", moment, wakes, |book| {
            book.give(caller, folder, number, moment)
        })
    }

    /// Ends what the session controls and waits for.
    pub fn end_session(&self, session: u32, moment: Moment, wakes: &mut Wakes) {
        let mut shared = self.table.shared.lock();
        shared.followers.remove(&session);
        shared.book.end_session(session, moment);
        self.finish(&mut shared, moment, wakes);
    }

    /// Ends control that accounts have no right to any more, and withdraws requests for it. `rules`
    /// returns the current rules of an account for a host; `None` if it was removed or disabled.
    pub fn end_unpermitted(
        &self,
        rules: impl Fn(&str, Host) -> Option<SubjectRules>,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let mut shared = self.table.shared.lock();
        shared.book.end_unpermitted(rules, moment);
        self.finish(&mut shared, moment, wakes);
    }

    /// Searches the folders that the session has got control of for variables without a mark, and for
    /// leases of others, for up to `limit` variables. Returns true if there is more to search.
    pub fn search(&self, session: u32, limit: usize, moment: Moment, wakes: &mut Wakes) -> bool {
        let next = || self.table.shared.lock().book.next_search(session);
        let Some((token, cursor)) = next() else {
            return false;
        };
        let leases: Leases<'_> = self.of(&self.table.leases);
        let may_write = |caller: &Caller| token.admits(caller);
        // Takes the lock of the index of names: see `mark_new`.
        let end = self.core.variables.end();
        let cursor = cursor.max(1);
        let stop = end.min(cursor.saturating_add(u32::try_from(limit.max(1)).unwrap_or(u32::MAX)));
        for slot in cursor..stop {
            if let Some(variable) = self.core.variables.at(slot)
                && token.folder().covers(variable.name())
                && !variable.name().contains('#')
            {
                mark::attach(self.table, &variable);
                // With its mark, the variable cannot be leased by others any more.
                leases.end_others(&variable, &may_write, moment, wakes);
            }
        }
        let mut shared = self.table.shared.lock();
        let cursor = (stop < end).then_some(stop);
        if let Some(token) = shared.book.searched(token.number, cursor) {
            shared.notify(&token.caller, token.folder(), wakes);
        }
        drop(shared);
        next().is_some()
    }

    /// Returns the token or request with this number, as the caller sees it.
    pub fn entry(&self, number: u64, caller: &Caller, now: Tick) -> Option<ControlEntry> {
        self.table.shared.lock().book.entry(number, caller, now)
    }

    /// Begins a list of the tokens and requests. With `own`, lists only those of the caller, and the
    /// requests for what it controls.
    pub fn list(&self, caller: &Caller, own: bool, now: Tick) -> ControlList {
        let shared = self.table.shared.lock();
        let mut entries = shared.book.entries(caller, now);
        drop(shared);
        if own {
            let held: Vec<Folder> = entries
                .iter()
                .filter(|entry| entry.is_own)
                .map(|entry| entry.folder.clone())
                .collect();
            let concerns = |folder: &Folder| held.iter().any(|one| one.overlaps(folder));
            entries.retain(|entry| entry.is_own || (entry.is_waiting && concerns(&entry.folder)));
        }
        let mut list = ControlList {
            entries,
            doubtful: BTreeMap::new(),
            visible: BTreeSet::new(),
            cursor: 1,
        };
        for entry in &list.entries {
            if entry.is_own || caller.rights.permit_folder(Action::Read, &entry.folder) {
                list.visible.insert(entry.number);
            } else {
                let numbers = list.doubtful.entry(entry.folder.clone()).or_default();
                numbers.push(entry.number);
            }
        }
        list
    }

    /// Examines up to `limit` variables, to find out which folders contain one that the caller may
    /// read (B-82). Returns the list when it is complete.
    pub fn continue_list(
        &self,
        caller: &Caller,
        list: &mut ControlList,
        limit: usize,
    ) -> Option<Vec<ControlEntry>> {
        let end = self.core.variables.end();
        let limit = u32::try_from(limit.max(1)).unwrap_or(u32::MAX);
        let stop = end.min(list.cursor.saturating_add(limit));
        for slot in list.cursor..stop {
            if list.doubtful.is_empty() {
                break;
            }
            let Some(variable) = self.core.variables.at(slot) else {
                continue;
            };
            for path in paths_above(variable.name()) {
                if list.doubtful.contains_key(path) && variable.is_visible_to(caller) {
                    let numbers = list.doubtful.remove(path);
                    list.visible.extend(numbers.into_iter().flatten());
                }
            }
        }
        list.cursor = stop;
        if stop < end && !list.doubtful.is_empty() {
            return None;
        }
        let entries = std::mem::take(&mut list.entries).into_iter();
        let visible = |entry: &ControlEntry| list.visible.contains(&entry.number);
        Some(entries.filter(visible).collect())
    }

    /// Returns who controls the folder of a variable, for a caller that may read the variable.
    pub fn state_of(
        &self,
        variable: &Variable,
        caller: &Caller,
        now: Tick,
    ) -> Option<ControlState> {
        if self.table.generation.load(Ordering::Acquire) == 0 {
            return None;
        }
        let shared = self.table.shared.lock();
        let token = shared.book.covering(variable.name())?;
        token.is_valid(now).then(|| ControlState {
            holder: Arc::clone(&token.shown),
            is_own: token.admits(caller),
            waiting: shared.book.waiting_for(variable.name()),
        })
    }

    /// Follows what the session controls and waits for: wakes the consumer at each change. Returns
    /// the number of changes so far.
    pub fn follow(&self, caller: &Caller, consumer: &Consumer) -> u64 {
        let mut shared = self.table.shared.lock();
        let follower = Follower {
            caller: caller.clone(),
            outbox: Arc::downgrade(&consumer.outbox),
            revision: 1,
        };
        let known = shared.followers.entry(caller.session);
        known.or_insert(follower).revision
    }

    /// Carries out what is due: ends tokens whose time has passed, and removes unneeded marks from up
    /// to `limit` variables. Returns the time of the next call.
    pub(crate) fn poll(&self, moment: Moment, limit: usize, wakes: &mut Wakes) -> Option<Tick> {
        if self.table.generation.load(Ordering::Acquire) == 0 {
            return None;
        }
        let next_end = self.expire(moment, wakes);
        // Searches whose sessions have ended.
        let is_searching = self.search(0, limit, moment, wakes);
        match self.sweep(limit) || is_searching {
            true => Some(moment.now),
            false => next_end,
        }
    }

    fn expire(&self, moment: Moment, wakes: &mut Wakes) -> Option<Tick> {
        let mut shared = self.table.shared.lock();
        let next = shared.book.expire(moment);
        self.finish(&mut shared, moment, wakes);
        next
    }

    /// Removes the marks of variables in folders that nobody controls. Returns true if there is more
    /// to examine.
    fn sweep(&self, limit: usize) -> bool {
        let Some(from) = self.table.shared.lock().sweep else {
            return false;
        };
        let end = self.core.variables.end();
        let limit = u32::try_from(limit.max(1)).unwrap_or(u32::MAX);
        let stop = end.min(from.saturating_add(limit));
        for slot in from..stop {
            if let Some(variable) = self.core.variables.at(slot)
                && variable.is_extended()
            {
                mark::detach_unless(&variable, || {
                    let shared = self.table.shared.lock();
                    shared.book.covering(variable.name()).is_some()
                });
            }
        }
        let mut shared = self.table.shared.lock();
        // A token that ended in the meantime has begun the sweep again.
        if shared.sweep == Some(from) {
            shared.sweep = (stop < end).then_some(stop);
        }
        shared.sweep.is_some()
    }

    /// Carries out a change of the book, and records and reports it.
    fn change<T>(
        &self,
        caller: &Caller,
        folder: &Folder,
        request: &str,
        moment: Moment,
        wakes: &mut Wakes,
        change: impl FnOnce(&mut Book) -> Result<T, ControlRefusal>,
    ) -> Result<T, ControlRefusal> {
        let mut shared = self.table.shared.lock();
        let result = change(&mut shared.book);
        self.finish(&mut shared, moment, wakes);
        drop(shared);
        if let Err(refusal) = &result {
            self.record_refusal(caller, folder, request, refusal, moment, wakes);
        }
        result
    }

    /// Records a refusal because of missing rights or of another holder. The rule is one of few texts,
    /// because refusals with the same rule are counted together.
    fn record_refusal(
        &self,
        caller: &Caller,
        folder: &Folder,
        request: &str,
        refusal: &ControlRefusal,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let rule = match refusal {
            ControlRefusal::Denied { .. } => "no rule permits it".to_owned(),
            ControlRefusal::Controlled(control) => {
                let identity = control.by.split(' ').next().unwrap_or_default();
                format!("{identity} has control as {}", control.level)
            }
            // Mistakes and bounds, which are no attempt on the control of another client.
            ControlRefusal::Reserved { .. }
            | ControlRefusal::NoVariables { .. }
            | ControlRefusal::IsVariable { .. }
            | ControlRefusal::Contained { .. }
            | ControlRefusal::NotControlled { .. }
            | ControlRefusal::NoRequest { .. }
            | ControlRefusal::NoIdentity
            | ControlRefusal::QueueFull { .. }
            | ControlRefusal::TooManyWaiting { .. }
            | ControlRefusal::TooMany { .. } => return,
        };
        let peer = caller.principal.to_string();
        let event = SecurityEvent::RequestRefused {
            request,
            name: folder.as_str(),
            rule: &rule,
        };
        let note = SecurityNote { peer: &peer, event };
        self.audit().note_security(caller, note, moment, wakes);
    }

    /// Publishes, records and reports the changes of the book. Called before its lock is released, so
    /// that the audit trail has them in their order.
    fn finish(&self, shared: &mut Shared, moment: Moment, wakes: &mut Wakes) {
        let changes = shared.book.take_changes();
        if changes.is_empty() {
            return;
        }
        // Release: a write that sees the new number finds the new table under the lock. A write that
        // locks its variable after the search has passed it sees the new number.
        self.table.generation.fetch_add(1, Ordering::Release);
        let mut displaced: Vec<Arc<Token>> = Vec::new();
        for change in &changes {
            self.record(change, &mut displaced, moment, wakes);
            match change {
                Change::Granted(token) => shared.notify(&token.caller, token.folder(), wakes),
                Change::Released(token) | Change::Given(token, _) | Change::Ended(token, _) => {
                    shared.sweep = Some(1);
                    shared.notify(&token.caller, token.folder(), wakes);
                }
                Change::Requested(waiting) | Change::Withdrawn(waiting) => {
                    shared.notify(&waiting.caller, &waiting.folder, wakes);
                }
            }
        }
    }

    /// Records a change in the audit trail. A client must be able to take and release control even if the
    /// audit trail is full, so the entries claim no room.
    fn record(
        &self,
        change: &Change,
        displaced: &mut Vec<Arc<Token>>,
        moment: Moment,
        wakes: &mut Wakes,
    ) {
        let engine = Caller::engine();
        let (caller, action, folder, effect) = match change {
            Change::Granted(token) => {
                let mut effect = format!("{}, for the {}", token.shown.level, token.holder);
                for from in std::mem::take(displaced) {
                    let Controlled { by, level, .. } = &*from.shown;
                    let folder = from.folder();
                    effect.push_str(&format!("; took over {folder} from {by}, {level}"));
                }
                (
                    &token.caller,
                    AuditAction::ControlTake,
                    token.folder(),
                    effect,
                )
            }
            Change::Requested(waiting) => (
                &waiting.caller,
                AuditAction::ControlRequest,
                &waiting.folder,
                waiting.terms.level.to_string(),
            ),
            Change::Withdrawn(waiting) => (
                &waiting.caller,
                AuditAction::ControlRelease,
                &waiting.folder,
                "withdrew its request".to_owned(),
            ),
            Change::Released(token) => (
                &token.caller,
                AuditAction::ControlRelease,
                token.folder(),
                token.shown.level.to_string(),
            ),
            Change::Given(token, to) => (
                &token.caller,
                AuditAction::ControlGive,
                token.folder(),
                format!("to {to}"),
            ),
            Change::Ended(token, cause) => {
                let cause = match cause {
                    EndCause::Expired => "its time had passed",
                    EndCause::SessionEnded => "its session had ended",
                    EndCause::RightsChanged => "its holder has no right to it any more",
                    EndCause::TakenOver => {
                        displaced.push(Arc::clone(token));
                        "another client took over"
                    }
                };
                let effect = format!("{}: {cause}", token.shown.by);
                (&engine, AuditAction::ControlEnd, token.folder(), effect)
            }
        };
        let note = OrderNote {
            action,
            name: folder.as_str(),
            effect: &effect,
            outcome: AuditOutcome::Done,
        };
        let room = AuditRoom::default();
        self.audit().note_order(caller, moment, note, &room, wakes);
    }

    fn audit(&self) -> Audit<'_> {
        self.of(&self.table.audit)
    }
}

impl Shared {
    /// Wakes the sessions that a change of this folder by this caller concerns: the caller's, and
    /// those that control an overlapping folder or wait for one.
    fn notify(&mut self, caller: &Caller, folder: &Folder, wakes: &mut Wakes) {
        let Self {
            book, followers, ..
        } = self;
        for (session, follower) in followers.iter_mut() {
            let is_party = *session == caller.session
                || follower.caller.principal.is_proved_as(&caller.principal)
                || book.concerns(&follower.caller, folder);
            if is_party {
                follower.revision += 1;
                follower
                    .outbox
                    .upgrade()
                    .iter()
                    .for_each(|one| wakes.add(one));
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
#[allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails at an unexpected result, and has a second thread"
)]
mod tests {
    use std::thread::{self, JoinHandle};

    use trunkline_types::{
        DataType, LibraryDefinition, Timestamp, Value, VariableDefinition, WriteVerb,
    };

    use super::*;
    use crate::engine::{Engine, EngineOptions};
    use crate::outcome::{Attempt, Refusal, WriteOutcome};
    use crate::sync::AtomicUsize;
    use crate::variable::{Admission, Extension};
    use crate::write::Write;

    const MOMENT: Moment = Moment {
        now: Tick::from_nanos(1),
        wall: Timestamp::from_nanos(1),
    };

    fn take(engine: &Engine, session: u32) {
        let (caller, folder) = (Caller::local(session, 0), Folder::parse("rig").unwrap());
        let (control, terms) = (engine.control(), ControlTerms::default());
        let wakes = &mut Wakes::new();
        control
            .take(&caller, &folder, terms, MOMENT, wakes)
            .unwrap();
        while control.search(session, 10, MOMENT, wakes) {}
    }

    /// Called after the mark has admitted a write, while the write holds the lock of its variable.
    #[derive(Debug)]
    struct Probe {
        engine: Engine,
        /// Takes control for session 2.
        taker: Arc<Mutex<Option<JoinHandle<()>>>>,
        confirmed: Arc<AtomicUsize>,
    }

    impl Extension for Probe {
        fn order(&self) -> u8 {
            9
        }

        fn admit(&mut self, _: &Variable, at: &Admission<'_>, _: Moment) -> Result<(), Refusal> {
            let Admission::Client {
                verb: WriteVerb::Put,
                ..
            } = at
            else {
                return Ok(());
            };
            let mut taker = self.taker.lock();
            if taker.is_some() {
                return Ok(());
            }
            let (engine, confirmed) = (self.engine.clone(), Arc::clone(&self.confirmed));
            *taker = Some(thread::spawn(move || {
                take(&engine, 2);
                confirmed.store(1, Ordering::SeqCst);
            }));
            let caller = Caller::engine();
            let has_taken = || {
                !self
                    .engine
                    .control()
                    .list(&caller, false, MOMENT.now)
                    .entries
                    .is_empty()
            };
            while !has_taken() {
                thread::yield_now();
            }
            // If the search did not wait for this write, it would end soon.
            for _ in 0..20_000 {
                if self.confirmed.load(Ordering::SeqCst) == 1 {
                    break;
                }
                thread::yield_now();
            }
            assert_eq!(self.confirmed.load(Ordering::SeqCst), 0, "too early");
            Ok(())
        }
    }

    /// A write that was admitted before the holder changed is applied before the new holder learns
    /// that it has control.
    #[test]
    fn control_is_confirmed_after_the_writes_that_were_admitted_before() {
        let engine = Engine::new(EngineOptions::new("test", 1));
        let library = LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: vec![VariableDefinition::new("x", DataType::F64)],
        };
        let libraries = engine.libraries();
        let handles = libraries.deploy(&library, MOMENT.now, MOMENT.wall).unwrap();
        let x = engine.variable(handles[0]).unwrap();
        // The variable has its mark, but nobody has control.
        take(&engine, 1);
        let (control, mut wakes) = (engine.control(), Wakes::new());
        control.end_session(1, MOMENT, &mut wakes);
        let taker = Arc::default();
        let probe = Probe {
            engine: engine.clone(),
            taker: Arc::clone(&taker),
            confirmed: Arc::default(),
        };
        x.attach(&mut x.lock(), probe);
        let write = |session: u32, wakes: &mut Wakes| {
            let (caller, value) = (Caller::local(session, 0), Value::F64(1.0));
            let Moment { now, wall } = MOMENT;
            engine.try_write(&caller, now, wall, &x, &Write::value(&value), wakes)
        };
        let admitted = write(3, &mut wakes);
        assert_eq!(admitted, Attempt::Done(WriteOutcome::Applied(1)));
        let joined = taker.lock().take();
        joined.unwrap().join().unwrap();
        x.detach::<Probe>(&mut x.lock());
        let refused = write(3, &mut wakes);
        assert!(
            matches!(
                refused,
                Attempt::Done(WriteOutcome::Refused(Refusal::Controlled(_)))
            ),
            "{refused:?}"
        );
    }
}
