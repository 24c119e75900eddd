//! Simulates client programs that follow alarms over a connection.
//!
//! A client requests the list of all alarms, subscribes to the states, which are fields of the variables,
//! and reads the journal up to the number of the newest entry, which a variable provides.

use std::collections::BTreeMap;

use trunkline_client::request::{AlarmJournal, Alarms};
use trunkline_client::{AlarmQuery, Event, RequestId, SubscribeOptions, SubscriptionId};
use trunkline_types::alarm::AlarmJournalQuery;
use trunkline_types::{Contract, Lost, Position, Reading, Tick, Value};

use super::checker::{AlarmChecker, Key};
use super::followers::Item;
use super::host::JOURNAL;
use super::plan::{Follow, LIBRARY, pick};
use crate::remote::Remote;
use crate::rng::Rng;

/// A program on another machine.
#[derive(Debug)]
pub struct Client {
    pub remote: Remote,
    contract: Contract,
    /// The subscription to the states, and its items.
    states: Option<(SubscriptionId, Vec<Followed>)>,
    /// The subscription to the number of the newest journal entry.
    journal: Option<SubscriptionId>,
    /// The request for a page of the journal, and the value of `newest` at the time of the request.
    page: Option<(RequestId<AlarmJournal>, u64)>,
    /// The request for the list of alarms, and the checker's state at the time of the request.
    list: Option<(RequestId<Alarms>, ListRequest)>,
    /// The session in which the list was last requested.
    listed_in: u64,
    /// Number of the next entry of the journal to read.
    pub next: u64,
    /// Number of the newest entry, as far as the client knows.
    newest: u64,
}

/// An alarm whose states the program follows.
#[derive(Debug)]
struct Followed {
    item: Item,
    /// Epoch of the engine to which `item` refers.
    epoch: u64,
    /// Position of the last state.
    last: Option<Position>,
    /// True if the connection or the subscription has ended since the last state.
    is_interrupted: bool,
}

/// The checker's state when the list was requested.
#[derive(Debug)]
struct ListRequest {
    epoch: u64,
    redeployed: u64,
    /// Index of each alarm's current state in its history.
    from: BTreeMap<Key, usize>,
}

impl Client {
    pub fn new(number: u32, follow: Follow, rng: &mut Rng) -> Self {
        Self {
            remote: Remote::new(number, rng),
            contract: follow.contract(),
            states: None,
            journal: None,
            page: None,
            list: None,
            listed_in: 0,
            next: 1,
            newest: 0,
        }
    }

    /// Ends the subscription to the states, because the alarms were replaced.
    pub fn replaced(&mut self) {
        if let Some((states, _)) = self.states.take() {
            self.remote.core.unsubscribe(states);
        }
    }

    /// Called when the engine has started, possibly with other alarms.
    pub fn started(&mut self, checker: &AlarmChecker) {
        let keys = keys(checker);
        let followed = self.states.iter().flat_map(|(_, items)| items);
        if !followed.map(|followed| &followed.item.key).eq(&keys) {
            self.replaced();
        }
    }

    /// Runs a turn of the program: creates missing subscriptions, takes all events and answers that have
    /// arrived, and makes new requests. `epoch` is the engine's epoch, or 0 while the engine is down.
    pub fn act(&mut self, now: Tick, epoch: u64, checker: &mut AlarmChecker, rng: &mut Rng) {
        self.subscribe(epoch, checker);
        self.take_states(now, epoch, checker);
        self.take_journal(now, checker, rng);
        self.take_list(epoch, checker);
        self.remote.wake();
    }

    fn subscribe(&mut self, epoch: u64, checker: &mut AlarmChecker) {
        let options = SubscribeOptions::default();
        let core = &mut self.remote.core;
        if self.journal.is_none() {
            match core.subscribe(&[JOURNAL], Contract::Latest, options) {
                Ok(journal) => self.journal = Some(journal),
                Err(error) => checker.fail(|| format!("{JOURNAL} cannot be followed: {error}")),
            }
        }
        if self.states.is_some() {
            return;
        }
        let keys = keys(checker);
        let fields = keys.iter();
        let fields = fields.map(|(variable, alarm)| format!("{variable}#alarm.{alarm}.state"));
        match core.subscribe(&fields.collect::<Vec<_>>(), self.contract, options) {
            Ok(states) => {
                let items = keys.into_iter().map(|key| Followed {
                    item: Item::new(key, checker),
                    epoch,
                    last: None,
                    is_interrupted: false,
                });
                self.states = Some((states, items.collect()));
            }
            Err(error) => checker.fail(|| format!("states cannot be followed: {error}")),
        }
    }

    fn take_states(&mut self, now: Tick, epoch: u64, checker: &mut AlarmChecker) {
        let Some((states, items)) = &mut self.states else {
            return;
        };
        while let Some(event) = self.remote.core.next_event(now, *states) {
            match event {
                Event::Reading { item, reading } => match items.get_mut(item as usize) {
                    Some(followed) => followed.take(&reading, epoch, checker),
                    None => checker.fail(|| format!("a reading of the unknown item {item}")),
                },
                Event::Ended { item, .. } | Event::ItemError { item, .. } => {
                    if let Some(followed) = items.get_mut(item as usize) {
                        followed.is_interrupted = true;
                    }
                }
                Event::Disconnected { .. } => {
                    let all = items.iter_mut();
                    all.for_each(|followed| followed.is_interrupted = true);
                }
                Event::Connected { .. } => {}
            }
        }
    }

    /// Takes a page of the journal. Requests the next page until the newest entry was read.
    fn take_journal(&mut self, now: Tick, checker: &mut AlarmChecker, rng: &mut Rng) {
        let core = &mut self.remote.core;
        while let Some(event) = self
            .journal
            .and_then(|journal| core.next_event(now, journal))
        {
            if let Event::Reading { reading, .. } = event
                && let Value::U64(newest) = reading.sample.value
            {
                self.newest = self.newest.max(newest);
            }
        }
        let page = self
            .page
            .and_then(|(page, newest)| Some((core.take(page)?, newest)));
        if let Some((answer, newest)) = page {
            self.page = None;
            if let Ok(page) = answer {
                let before = self.next;
                self.next = checker.read(before, &page);
                if page.next.is_none() && self.next <= newest {
                    checker.fail(|| {
                        format!(
                            "H-11: entry {newest} was announced, but the journal ends before it"
                        )
                    });
                }
            }
        }
        if self.page.is_none() && self.next <= self.newest {
            let query = AlarmJournalQuery {
                from: Some(self.next),
                limit: pick(rng, &[0, 1, 3, 50]),
                ..AlarmJournalQuery::default()
            };
            let page = core.alarm_journal(query).ok();
            self.page = page.map(|page| (page, self.newest));
        }
    }

    /// Requests the list of all alarms once per session, and checks the answer.
    fn take_list(&mut self, epoch: u64, checker: &mut AlarmChecker) {
        let core = &mut self.remote.core;
        if let Some((list, before)) = self.list.take() {
            match core.take(list) {
                Some(Ok(statuses)) => {
                    let states = statuses.into_iter().map(|status| {
                        let key = (status.variable, status.definition.name.clone());
                        (key, status.record.state)
                    });
                    let current = (epoch, checker.totals.redeployed);
                    // The epoch is 0 while the engine is down. The list is then not checked.
                    if epoch > 0 && (before.epoch, before.redeployed) == current {
                        checker.compare_list(&states.collect(), &before.from);
                    }
                }
                Some(Err(_)) => self.listed_in = 0,
                None => self.list = Some((list, before)),
            }
        }
        let session = core.session().map(|session| session.session);
        if let Some(session) = session.filter(|session| *session != self.listed_in)
            && self.list.is_none()
        {
            let from = checker.history.iter();
            let from = from.map(|(key, states)| (key.clone(), states.len() - 1));
            let before = ListRequest {
                epoch,
                redeployed: checker.totals.redeployed,
                from: from.collect(),
            };
            let list = core.alarms(AlarmQuery::default()).ok();
            self.list = list.map(|list| (list, before));
            self.listed_in = session;
        }
    }

    /// Called when no data is in flight. Checks that the client has the newest state of each alarm and every
    /// entry of the journal.
    pub fn check_settled(&self, end: u64, checker: &mut AlarmChecker) {
        if self.remote.core.session().is_none() {
            checker.fail(|| "B-11: a client is not connected".to_owned());
        }
        for followed in self.states.iter().flat_map(|(_, items)| items) {
            followed.item.check_settled(checker);
        }
        if self.next <= end {
            let next = self.next;
            checker.fail(|| format!("H-11: a client lacks the entries from {next} to {end}"));
        }
    }
}

impl Followed {
    fn take(&mut self, reading: &Reading, epoch: u64, checker: &mut AlarmChecker) {
        let Reading { position, lost, .. } = *reading;
        let Value::String(text) = &reading.sample.value else {
            return checker.fail(|| format!("SV-04: a state is not text: {reading:?}"));
        };
        let before = self.last.replace(position);
        let is_interrupted = std::mem::take(&mut self.is_interrupted);
        if position.epoch != epoch {
            // The checker does not know the states of earlier epochs.
            return;
        }
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            self.item.restart();
        }
        let Some(before) = before.filter(|before| before.epoch == epoch) else {
            if before.is_some() && !lost.unknown {
                let key = &self.item.key;
                checker.fail(|| format!("B-03: after a restart the loss is not unknown: {key:?}"));
            }
            return self.item.receive(text, None, checker);
        };
        if lost.unknown && !is_interrupted {
            let key = &self.item.key;
            checker.fail(|| format!("B-03: without an interruption, a loss is unknown: {key:?}"));
        }
        // The engine closes a field without subscribers. If it is opened again, the sequence restarts at 1.
        let is_new_field = lost.unknown || (is_interrupted && position.sequence <= before.sequence);
        let missed = count(&lost);
        if !is_new_field && before.sequence + 1 + missed != position.sequence {
            let key = &self.item.key;
            checker.fail(|| format!("B-03: {key:?}: {before:?} is followed by {reading:?}"));
        }
        let known = (!is_interrupted && !lost.unknown).then_some(missed);
        self.item.receive(text, known, checker);
    }
}

/// Returns the keys of all alarms.
fn keys(checker: &AlarmChecker) -> Vec<Key> {
    let alarms = checker.alarms().into_iter();
    let keys = alarms.map(|(variable, alarm, ..)| (format!("{LIBRARY}/{variable}"), alarm));
    keys.collect()
}

fn count(lost: &Lost) -> u64 {
    lost.coalesced + lost.queue + lost.overrun + lost.disconnect
}
