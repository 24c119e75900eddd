//! The tokens and the waiting requests of an engine. Knows no variables and takes no lock, so that
//! its rules can be tested alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use trunkline_access::{Action, Actions, Host, SubjectRules};
use trunkline_types::control::{
    CONTROL_FOLDERS_MAX, CONTROL_MAX, CONTROL_MIN, CONTROL_OF_IDENTITY_MAX, CONTROL_WAITING_MAX,
    CONTROL_WAITING_OF_IDENTITY_MAX, paths_above,
};
use trunkline_types::{
    ControlEntry, ControlHolder, ControlLevel, ControlTerms, Fault, FaultCode, Folder, Moment,
    Tick, Timestamp,
};

use crate::caller::{Caller, Principal};
use crate::outcome::Controlled;
use crate::rights::Rights;
use crate::sync::Arc;

/// The reason why a request about control is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ControlRefusal {
    #[error(
        "control of {folder} as {level} needs the right to {action} every variable in it, which you do \
         not have; ask the engine's administrator, or take control of a smaller folder"
    )]
    Denied {
        folder: Folder,
        level: ControlLevel,
        action: Action,
    },
    #[error(
        "{folder} is part of the engine itself, which nobody can control; take control of a folder whose \
         name does not begin with _"
    )]
    Reserved { folder: Folder },
    #[error(
        "no variable that you may read is in a folder \"{folder}\"; check its spelling with \
         `trunkline find`, or deploy its library first"
    )]
    NoVariables { folder: Folder },
    #[error(
        "{variable} is a variable and not a folder; take control of the folder that contains it, or take a \
         lease of the variable in a program"
    )]
    IsVariable { variable: Box<str> },
    #[error("{0}")]
    Controlled(Arc<Controlled>),
    #[error(
        "you control {held}, which contains {folder}; release {held} first if you want to control less"
    )]
    Contained { held: Folder, folder: Folder },
    #[error(
        "you neither control {folder} nor wait for it; `trunkline control ls` lists what is controlled"
    )]
    NotControlled { folder: Folder },
    #[error(
        "no request has the number {number}, or it is not for {folder}; `trunkline control ls` lists \
         the requests"
    )]
    NoRequest { number: u64, folder: Folder },
    #[error(
        "the engine does not know who you are, so only this session can have control; log in, or take \
         control for the session"
    )]
    NoIdentity,
    #[error("{max} requests already wait for {folder}; try again later")]
    QueueFull { folder: Folder, max: usize },
    #[error(
        "you already wait {max} times for {folder} or for a folder in it or around it, which is the limit \
         for one identity; withdraw a request with `trunkline control release`, or wait until one is granted"
    )]
    TooManyWaiting { folder: Folder, max: usize },
    #[error("{whose} at most {max} folders and requests at a time; release some of them")]
    TooMany { whose: &'static str, max: usize },
}

impl ControlRefusal {
    pub fn code(&self) -> FaultCode {
        match self {
            ControlRefusal::Denied { .. } | ControlRefusal::NoIdentity => FaultCode::Denied,
            ControlRefusal::Controlled(_) => FaultCode::Controlled,
            ControlRefusal::NotControlled { .. } => FaultCode::NotControlled,
            ControlRefusal::Reserved { .. } => FaultCode::BadName,
            ControlRefusal::NoVariables { .. }
            | ControlRefusal::IsVariable { .. }
            | ControlRefusal::Contained { .. }
            | ControlRefusal::NoRequest { .. } => FaultCode::BadRequest,
            ControlRefusal::QueueFull { .. }
            | ControlRefusal::TooManyWaiting { .. }
            | ControlRefusal::TooMany { .. } => FaultCode::LimitReached,
        }
    }
}

impl From<&ControlRefusal> for Fault {
    fn from(refusal: &ControlRefusal) -> Self {
        Fault::new(refusal.code(), refusal.to_string())
    }
}

/// The right to write the variables of a folder, while it is held.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) number: u64,
    pub(super) holder: ControlHolder,
    /// The session that took control, with its identity.
    pub(super) caller: Caller,
    pub(super) until: Option<Tick>,
    /// The folder, the level and the holder, as refusals show them.
    pub(super) shown: Arc<Controlled>,
}

/// A request for control.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    number: u64,
    pub(super) folder: Folder,
    pub(super) terms: ControlTerms,
    pub(super) caller: Caller,
    pub(super) since: Timestamp,
}

/// Why a token or a request has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EndCause {
    Expired,
    SessionEnded,
    TakenOver,
    RightsChanged,
}

/// A change, in the order in which it happened, for the audit trail and for the sessions concerned.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Granted(Arc<Token>),
    Requested(Waiting),
    Released(Arc<Token>),
    /// The token was handed over to this caller.
    Given(Arc<Token>, Caller),
    Withdrawn(Waiting),
    Ended(Arc<Token>, EndCause),
}

/// A token whose folder is still searched for variables without a mark. Its holder learns that it
/// has control when the search is complete.
#[derive(Clone, Copy, Debug)]
struct Search {
    session: u32,
    /// The next slot to examine; 0 if the search has not begun.
    cursor: u32,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    tokens: BTreeMap<Folder, Arc<Token>>,
    /// Waiting requests in the order of their arrival.
    waiting: Vec<Waiting>,
    ends: BTreeSet<(Tick, Folder)>,
    searches: BTreeMap<u64, Search>,
    changes: Vec<Change>,
}

impl Token {
    pub(super) fn folder(&self) -> &Folder {
        &self.shown.folder
    }

    /// Returns true if the caller may write, release and hand over as the holder.
    pub(super) fn admits(&self, caller: &Caller) -> bool {
        match self.holder {
            ControlHolder::Session => self.caller.session == caller.session,
            ControlHolder::Identity => {
                self.caller.session == caller.session
                    || self.caller.principal.is_proved_as(&caller.principal)
            }
        }
    }

    /// Returns true if the time of the token has not passed.
    pub(super) fn is_valid(&self, now: Tick) -> bool {
        self.until.is_none_or(|until| until > now)
    }

    fn outlives_session(&self) -> bool {
        self.holder == ControlHolder::Identity && self.until.is_some()
    }

    fn entry(&self, is_searched: bool, caller: &Caller, now: Tick) -> ControlEntry {
        let shown = &self.shown;
        ControlEntry {
            number: self.number,
            folder: shown.folder.clone(),
            is_waiting: !is_searched,
            level: shown.level,
            holder: self.holder,
            by: shown.by.to_string(),
            since: shown.since,
            left: self.until.map(|until| until.since(now)),
            is_own: self.admits(caller),
        }
    }
}

impl Waiting {
    fn is_of(&self, caller: &Caller) -> bool {
        self.caller.session == caller.session
    }

    fn entry(&self, caller: &Caller) -> ControlEntry {
        ControlEntry {
            number: self.number,
            folder: self.folder.clone(),
            is_waiting: true,
            level: self.terms.level,
            holder: self.terms.holder,
            by: self.caller.to_string(),
            since: self.since,
            left: None,
            is_own: self.is_of(caller),
        }
    }
}

impl Book {
    /// Returns the token of the folder that contains a variable with this name.
    pub(super) fn covering(&self, name: &str) -> Option<&Arc<Token>> {
        paths_above(name).find_map(|path| self.tokens.get(path))
    }

    /// Returns the tokens of folders that contain this one or are contained in it.
    fn overlapping<'b>(&'b self, folder: &Folder) -> Vec<&'b Arc<Token>> {
        // Folders in this one follow it in the map, among others such as `boiler-2` after `boiler`.
        let from = Bound::Excluded(folder.path());
        let later = self.tokens.range::<str, _>((from, Bound::Unbounded));
        let path = folder.path();
        let below = later.take_while(move |(other, _)| other.path().starts_with(path));
        let below = below.filter(|(other, _)| folder.contains(other));
        let above = paths_above(path).filter_map(|path| self.tokens.get(path));
        above.chain(below.map(|(_, token)| token)).collect()
    }

    /// Ends the tokens whose time has passed. Returns the time of the next end.
    pub(super) fn expire(&mut self, moment: Moment) -> Option<Tick> {
        let mut has_ended = false;
        let next = loop {
            match self.ends.first() {
                Some((until, folder)) if *until <= moment.now => {
                    let folder = folder.clone();
                    self.ends.pop_first();
                    if let Some(token) = self.tokens.get(&folder).cloned()
                        && !token.is_valid(moment.now)
                    {
                        self.remove(&token);
                        self.changes.push(Change::Ended(token, EndCause::Expired));
                        has_ended = true;
                    }
                }
                first => break first.map(|(until, _)| *until),
            }
        };
        if has_ended {
            self.grant_waiting(moment);
        }
        next
    }

    /// Takes control at once, from holders of lower levels if there are any.
    pub(super) fn take(
        &mut self,
        caller: &Caller,
        folder: &Folder,
        terms: ControlTerms,
        moment: Moment,
    ) -> Result<u64, ControlRefusal> {
        check_rights(caller, folder, &terms)?;
        self.expire(moment);
        self.check_not_contained(caller, folder)?;
        let others = |token: &&Arc<Token>| !token.admits(caller);
        let mut others = self.overlapping(folder).into_iter().filter(others);
        if let Some(stronger) = others.find(|token| token.shown.level >= terms.level) {
            return Err(ControlRefusal::Controlled(Arc::clone(&stronger.shown)));
        }
        self.check_room(caller, folder)?;
        let number = self.grant(caller, folder, terms, moment, None);
        self.grant_waiting(moment);
        Ok(number)
    }

    /// Takes control if no other client has it; otherwise waits for it.
    pub(super) fn request(
        &mut self,
        caller: &Caller,
        folder: &Folder,
        terms: ControlTerms,
        moment: Moment,
    ) -> Result<u64, ControlRefusal> {
        check_rights(caller, folder, &terms)?;
        self.expire(moment);
        self.check_not_contained(caller, folder)?;
        let is_busy = self
            .overlapping(folder)
            .iter()
            .any(|token| !token.admits(caller));
        let mut own = self.waiting.iter_mut();
        if let Some(waiting) = own.find(|one| one.is_of(caller) && one.folder == *folder) {
            waiting.terms = terms;
            return Ok(waiting.number);
        }
        let mut others = self.waiting.iter().filter(|one| !one.is_of(caller));
        let is_behind = others.any(|one| one.folder.overlaps(folder));
        if !is_busy && !is_behind {
            self.check_room(caller, folder)?;
            return Ok(self.grant(caller, folder, terms, moment, None));
        }
        self.check_queue(caller, folder)?;
        self.check_share(caller)?;
        if self.waiting.len() >= CONTROL_FOLDERS_MAX {
            return Err(too_many_in_engine());
        }
        let waiting = Waiting {
            number: self.next_number(caller.session),
            folder: folder.clone(),
            terms,
            caller: without_rights(caller),
            since: moment.wall,
        };
        let number = waiting.number;
        self.changes.push(Change::Requested(waiting.clone()));
        self.waiting.push(waiting);
        Ok(number)
    }

    /// Releases a token, or withdraws a request.
    pub(super) fn release(
        &mut self,
        caller: &Caller,
        folder: &Folder,
        moment: Moment,
    ) -> Result<(), ControlRefusal> {
        self.expire(moment);
        let token = self.tokens.get(folder).filter(|one| one.admits(caller));
        let mut waiting = self.waiting.iter();
        let own = waiting.position(|one| one.is_of(caller) && one.folder == *folder);
        if let Some(token) = token.cloned() {
            self.remove(&token);
            self.changes.push(Change::Released(token));
        } else if let Some(place) = own {
            let withdrawn = self.waiting.remove(place);
            self.changes.push(Change::Withdrawn(withdrawn));
        } else {
            let folder = folder.clone();
            return Err(ControlRefusal::NotControlled { folder });
        }
        // A withdrawn request may have been the one for which later ones waited.
        self.grant_waiting(moment);
        Ok(())
    }

    /// Hands a token over to a client that waits for the folder, or for an overlapping one. Changes
    /// nothing if that client would have to wait for further holders.
    pub(super) fn give(
        &mut self,
        caller: &Caller,
        folder: &Folder,
        number: u64,
        moment: Moment,
    ) -> Result<u64, ControlRefusal> {
        self.expire(moment);
        let token = self.tokens.get(folder).filter(|one| one.admits(caller));
        let Some(token) = token.cloned() else {
            let folder = folder.clone();
            return Err(ControlRefusal::NotControlled { folder });
        };
        let mut waiting = self.waiting.iter();
        let place = waiting.position(|one| one.number == number && one.folder.overlaps(folder));
        let waiting = place.and_then(|place| Some((place, self.waiting.get(place)?.clone())));
        let Some((place, waiting)) = waiting else {
            let folder = folder.clone();
            return Err(ControlRefusal::NoRequest { number, folder });
        };
        let mut others = self.overlapping(&waiting.folder).into_iter();
        let other = others.find(|one| one.folder() != folder && !one.admits(&waiting.caller));
        if let Some(other) = other {
            return Err(ControlRefusal::Controlled(Arc::clone(&other.shown)));
        }
        self.remove(&token);
        let to = waiting.caller.clone();
        self.changes.push(Change::Given(token, to));
        self.waiting.remove(place);
        self.grant_request(&waiting, moment);
        self.grant_waiting(moment);
        Ok(number)
    }

    /// Ends what a session controls and waits for, except control of its identity for a time.
    pub(super) fn end_session(&mut self, session: u32, moment: Moment) {
        let tokens = self.tokens.values();
        let of_session = tokens.filter(|token| token.caller.session == session);
        let ended: Vec<Arc<Token>> = of_session
            .filter(|token| !token.outlives_session())
            .cloned()
            .collect();
        for token in ended {
            self.remove(&token);
            self.changes
                .push(Change::Ended(token, EndCause::SessionEnded));
        }
        self.waiting.retain(|one| one.caller.session != session);
        // The folders of tokens that remain must be searched by another session.
        let searches = self.searches.values_mut();
        searches
            .filter(|search| search.session == session)
            .for_each(|search| search.session = 0);
        self.grant_waiting(moment);
    }

    /// Ends the tokens of accounts that have no right to them any more, and withdraws such requests.
    /// `rules` returns the current rules of an account for a host; `None` if there is no such account.
    pub(super) fn end_unpermitted(
        &mut self,
        rules: impl Fn(&str, Host) -> Option<SubjectRules>,
        moment: Moment,
    ) {
        let is_unpermitted = |caller: &Caller, folder: &Folder, level| match &caller.principal {
            Principal::Account(account) => rules(account, caller.host).is_none_or(|rules| {
                let needed = Actions::of(needed(level));
                !rules.folder_actions(folder).contains_all(needed)
            }),
            Principal::Engine
            | Principal::Local(_)
            | Principal::Loopback
            | Principal::Unauthenticated => false,
        };
        let tokens = self.tokens.values().filter(|token| {
            let Controlled { folder, level, .. } = &*token.shown;
            is_unpermitted(&token.caller, folder, *level)
        });
        for token in tokens.cloned().collect::<Vec<_>>() {
            self.remove(&token);
            self.changes
                .push(Change::Ended(token, EndCause::RightsChanged));
        }
        // The sessions of these requests may end only later, and must not be granted control before.
        let withdrawn = self.waiting.extract_if(.., |waiting| {
            is_unpermitted(&waiting.caller, &waiting.folder, waiting.terms.level)
        });
        self.changes.extend(withdrawn.map(Change::Withdrawn));
        self.grant_waiting(moment);
    }

    /// Returns the token whose folder is searched next for variables without a mark, and the slot at
    /// which to continue; 0 to begin. Searches of ended sessions are anybody's.
    pub(super) fn next_search(&self, session: u32) -> Option<(Arc<Token>, u32)> {
        let mut searches = self.searches.iter();
        let (number, search) =
            searches.find(|(_, one)| one.session == session || one.session == 0)?;
        let token = self.token(*number)?;
        Some((Arc::clone(token), search.cursor))
    }

    /// Records the progress of a search; `None` if it is complete. Returns the token in that case.
    pub(super) fn searched(&mut self, number: u64, cursor: Option<u32>) -> Option<Arc<Token>> {
        if let Some(cursor) = cursor {
            if let Some(search) = self.searches.get_mut(&number) {
                search.cursor = cursor;
            }
            return None;
        }
        self.searches.remove(&number)?;
        self.token(number).cloned()
    }

    /// Returns the token or the request with this number.
    pub(super) fn entry(&self, number: u64, caller: &Caller, now: Tick) -> Option<ControlEntry> {
        let mut waiting = self.waiting.iter();
        if let Some(waiting) = waiting.find(|one| one.number == number) {
            return Some(waiting.entry(caller));
        }
        let token = self.token(number).filter(|token| token.is_valid(now))?;
        Some(self.entry_of(token, caller, now))
    }

    /// Returns all tokens and requests, in the order of their numbers.
    pub(super) fn entries(&self, caller: &Caller, now: Tick) -> Vec<ControlEntry> {
        let tokens = self.tokens.values().filter(|token| token.is_valid(now));
        let tokens = tokens.map(|token| self.entry_of(token, caller, now));
        let waiting = self.waiting.iter().map(|one| one.entry(caller));
        let mut entries: Vec<ControlEntry> = tokens.chain(waiting).collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        entries
    }

    fn entry_of(&self, token: &Token, caller: &Caller, now: Tick) -> ControlEntry {
        let is_searched = !self.searches.contains_key(&token.number);
        token.entry(is_searched, caller, now)
    }

    fn token(&self, number: u64) -> Option<&Arc<Token>> {
        let mut tokens = self.tokens.values();
        tokens.find(|token| token.number == number)
    }

    /// Returns true if the caller controls the folder or an overlapping one, or waits for one.
    pub(super) fn concerns(&self, caller: &Caller, folder: &Folder) -> bool {
        let mut waiting = self.waiting.iter();
        self.overlapping(folder)
            .iter()
            .any(|token| token.admits(caller))
            || waiting.any(|one| one.is_of(caller) && one.folder.overlaps(folder))
    }

    /// Returns the number of requests for folders that contain a variable with this name.
    pub(super) fn waiting_for(&self, name: &str) -> usize {
        let waiting = self.waiting.iter();
        waiting.filter(|one| one.folder.covers(name)).count()
    }

    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the lowest unused number of the session. Numbers depend on nothing that other sessions
    /// do, because a caller must learn nothing about folders that it may not read (B-82).
    fn next_number(&self, session: u32) -> u64 {
        let first = u64::from(session) * NUMBERS_OF_SESSION;
        let is_free = |number: &u64| {
            let mut waiting = self.waiting.iter();
            self.token(*number).is_none() && waiting.all(|one| one.number != *number)
        };
        // A session has fewer entries than numbers.
        (first..first + NUMBERS_OF_SESSION)
            .find(is_free)
            .unwrap_or(first)
    }

    /// Refuses a folder within one that the caller controls. The folder itself may be taken again,
    /// on other terms.
    fn check_not_contained(&self, caller: &Caller, folder: &Folder) -> Result<(), ControlRefusal> {
        let own = self.overlapping(folder).into_iter();
        let mut own = own.filter(|one| one.admits(caller));
        let around = own.find(|one| one.folder() != folder && one.folder().contains(folder));
        match around {
            Some(held) => Err(ControlRefusal::Contained {
                held: held.folder().clone(),
                folder: folder.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Refuses a token beyond the bounds. Needs no room for a folder that the caller takes again.
    fn check_room(&self, caller: &Caller, folder: &Folder) -> Result<(), ControlRefusal> {
        let replaced = self.tokens.get(folder);
        if replaced.is_some_and(|token| token.admits(caller)) {
            return Ok(());
        }
        if replaced.is_none() && self.tokens.len() >= CONTROL_FOLDERS_MAX {
            return Err(too_many_in_engine());
        }
        self.check_share(caller)
    }

    /// Refuses a further request for the folder or an overlapping one beyond the bound of one identity,
    /// or of all. Those of one identity count up to its bound, because it may wait for many folders in
    /// this one.
    fn check_queue(&self, caller: &Caller, folder: &Folder) -> Result<(), ControlRefusal> {
        let mut counts: HashMap<(Option<&Principal>, u32), usize> = HashMap::new();
        for waiting in &self.waiting {
            if waiting.folder.overlaps(folder) {
                *counts.entry(identity(&waiting.caller)).or_default() += 1;
            }
        }
        let folder = || folder.clone();
        let max = CONTROL_WAITING_OF_IDENTITY_MAX;
        let own = counts.get(&identity(caller));
        if own.is_some_and(|own| *own >= max) {
            let folder = folder();
            return Err(ControlRefusal::TooManyWaiting { folder, max });
        }
        let all: usize = counts.values().map(|count| (*count).min(max)).sum();
        match all >= CONTROL_WAITING_MAX {
            true => Err(ControlRefusal::QueueFull {
                folder: folder(),
                max: CONTROL_WAITING_MAX,
            }),
            false => Ok(()),
        }
    }

    /// Refuses a further token or request of one identity beyond its bound.
    fn check_share(&self, caller: &Caller) -> Result<(), ControlRefusal> {
        let is_own = |other: &Caller| {
            other.session == caller.session || other.principal.is_proved_as(&caller.principal)
        };
        let tokens = self.tokens.values().map(|token| &token.caller);
        let waiting = self.waiting.iter().map(|one| &one.caller);
        let count = tokens.chain(waiting).filter(|one| is_own(one)).count();
        let max = CONTROL_OF_IDENTITY_MAX;
        match count >= max {
            true => Err(ControlRefusal::TooMany {
                whose: "one identity controls and waits for",
                max,
            }),
            false => Ok(()),
        }
    }

    /// Gives the folder to the caller. Ends every overlapping token: those of others have a lower
    /// level, and those of the caller are replaced. `number` is that of the granted request.
    fn grant(
        &mut self,
        caller: &Caller,
        folder: &Folder,
        terms: ControlTerms,
        moment: Moment,
        number: Option<u64>,
    ) -> u64 {
        let replaced: Vec<Arc<Token>> = self.overlapping(folder).into_iter().cloned().collect();
        for token in replaced {
            self.remove(&token);
            if !token.admits(caller) {
                self.changes.push(Change::Ended(token, EndCause::TakenOver));
            }
        }
        // The token satisfies the requests of its session for folders within it.
        let is_satisfied = |one: &Waiting| one.is_of(caller) && folder.contains(&one.folder);
        self.waiting.retain(|one| !is_satisfied(one));
        let number = number.unwrap_or_else(|| self.next_number(caller.session));
        let until = terms.duration.map(|duration| {
            let duration = duration.clamp(CONTROL_MIN, CONTROL_MAX);
            moment.now.saturating_add(duration)
        });
        let token = Arc::new(Token {
            number,
            holder: terms.holder,
            caller: without_rights(caller),
            until,
            shown: Arc::new(Controlled {
                folder: folder.clone(),
                by: Arc::from(caller.to_string()),
                level: terms.level,
                since: moment.wall,
            }),
        });
        if let Some(until) = until {
            self.ends.insert((until, folder.clone()));
        }
        let session = caller.session;
        let search = Search { session, cursor: 0 };
        self.searches.insert(number, search);
        self.changes.push(Change::Granted(Arc::clone(&token)));
        self.tokens.insert(folder.clone(), token);
        number
    }

    /// Grants the requests that nothing prevents any more, in the order of their arrival. A request
    /// never takes control from a holder, and never overtakes an earlier one for an overlapping
    /// folder.
    fn grant_waiting(&mut self, moment: Moment) {
        let mut ahead: Vec<Folder> = Vec::new();
        let mut place = 0;
        while let Some(waiting) = self.waiting.get(place) {
            let is_behind = ahead
                .iter()
                .any(|earlier| earlier.overlaps(&waiting.folder));
            let holders = self.overlapping(&waiting.folder);
            let is_busy = holders.iter().any(|token| !token.admits(&waiting.caller));
            if is_behind || is_busy || self.tokens.len() >= CONTROL_FOLDERS_MAX {
                ahead.push(waiting.folder.clone());
                place += 1;
                continue;
            }
            let waiting = self.waiting.remove(place);
            let left = self.waiting.len();
            let contained = self.check_not_contained(&waiting.caller, &waiting.folder);
            match contained {
                Ok(()) => self.grant_request(&waiting, moment),
                // Another session of its identity has got control of a folder around this one.
                Err(_) => self.changes.push(Change::Withdrawn(waiting)),
            }
            if self.waiting.len() != left {
                // The grant satisfied other requests of its session, perhaps earlier ones.
                (ahead, place) = (Vec::new(), 0);
            }
        }
    }

    /// Gives the folder to the client of a request that was removed.
    fn grant_request(&mut self, waiting: &Waiting, moment: Moment) {
        let Waiting {
            number,
            folder,
            terms,
            caller,
            ..
        } = waiting;
        self.grant(caller, folder, *terms, moment, Some(*number));
    }

    fn remove(&mut self, token: &Token) {
        self.tokens.remove(token.folder());
        self.searches.remove(&token.number);
        if let Some(until) = token.until {
            self.ends.remove(&(until, token.folder().clone()));
        }
    }
}

/// Each session has this many numbers for its tokens and requests.
const NUMBERS_OF_SESSION: u64 = 1_000;
const _: () = assert!(CONTROL_OF_IDENTITY_MAX < NUMBERS_OF_SESSION as usize);

/// Checks the rights before anything else, so that a caller without them learns nothing about
/// holders.
pub(super) fn check_rights(
    caller: &Caller,
    folder: &Folder,
    terms: &ControlTerms,
) -> Result<(), ControlRefusal> {
    let mut needed = needed(terms.level).iter();
    if let Some(action) = needed.find(|one| !caller.rights.permit_folder(**one, folder)) {
        return Err(ControlRefusal::Denied {
            folder: folder.clone(),
            level: terms.level,
            action: *action,
        });
    }
    match terms.holder == ControlHolder::Session || caller.principal.is_proved() {
        true => Ok(()),
        false => Err(ControlRefusal::NoIdentity),
    }
}

/// Returns what counts as one identity: the principal if it is known, otherwise the session.
fn identity(caller: &Caller) -> (Option<&Principal>, u32) {
    match caller.principal.is_proved() {
        true => (Some(&caller.principal), 0),
        false => (None, caller.session),
    }
}

/// Returns the actions that a level needs on every variable of the folder. A client that may force
/// a variable can override its writers anyway.
fn needed(level: ControlLevel) -> &'static [Action] {
    match level {
        ControlLevel::Operator => &[Action::Write],
        ControlLevel::Supervisor => &[Action::Write, Action::Force],
    }
}

/// The rights are not needed after the check, and would be outdated.
fn without_rights(caller: &Caller) -> Caller {
    Caller {
        rights: Rights::NONE,
        ..caller.clone()
    }
}

fn too_many_in_engine() -> ControlRefusal {
    ControlRefusal::TooMany {
        whose: "the engine's clients control and wait for",
        max: CONTROL_FOLDERS_MAX,
    }
}
