//! Simulates a client program whose subscription begins in the past. The production `RecordedEvents`
//! combines the subscription with queries of the history.

use std::collections::{BTreeMap, BTreeSet};

use trunkline_client::request::History;
use trunkline_client::{
    Bookmark, Event, RecordedEvents, RecordedStart, RequestId, SubscribeOptions, SubscriptionId,
};
use trunkline_proto::message::ended::EndReason;
use trunkline_types::history::is_late_sequence;
use trunkline_types::{Contract, Position, Reading, Tick, Timestamp, wire};

use super::checker::HistoryChecker;
use super::plan::FOLLOWED;
use crate::remote::Remote;
use crate::rng::Rng;
use crate::trace::Trace;

#[derive(Debug)]
pub struct Follower {
    pub remote: Remote,
    subscription: Option<SubscriptionId>,
    recorded: RecordedEvents,
    /// The request for a page of the history.
    page: Option<RequestId<History>>,
    /// The received updates, by epoch and sequence.
    received: BTreeSet<(u64, u64)>,
    /// The highest sequence of a reading that reports an unknown loss, by epoch. Readings arrive in the order
    /// of their times, so a later epoch may report the loss.
    losses: BTreeMap<u64, u64>,
    /// The last reading, if the program has no event after it.
    last: Option<Reading>,
}

impl Follower {
    /// Creates a program that follows a variable from the beginning of the history.
    pub fn new(rng: &mut Rng) -> Self {
        let mut remote = Remote::new(0, rng);
        let names = [FOLLOWED];
        let options = SubscribeOptions::default();
        let subscription = remote.core.subscribe(&names, Contract::ALL, options);
        Self {
            remote,
            subscription: subscription.ok(),
            recorded: RecordedEvents::new(&names, Timestamp::from_nanos(0)),
            page: None,
            received: BTreeSet::new(),
            losses: BTreeMap::new(),
            last: None,
        }
    }

    /// Runs a turn of the program: takes all available events, and requests a page of the history if one is
    /// needed. As in the product, the program waits for the page while it is connected.
    pub fn act(&mut self, now: Tick, checker: &mut HistoryChecker, trace: &mut Trace) {
        let Some(subscription) = self.subscription else {
            return checker.fail(|| format!("{FOLLOWED} cannot be subscribed"));
        };
        loop {
            while let Some(event) = self.recorded.next_event() {
                trace.detail(now, || format!("the subscriber has {}", brief(&event)));
                self.take(event, checker);
            }
            let core = &mut self.remote.core;
            if let Some(query) = self.recorded.query() {
                if let Some(answer) = self.page.and_then(|page| core.take(page)) {
                    self.page = None;
                    checker.totals.filled += 1;
                    match answer {
                        Ok(page) => self.recorded.take_page(page),
                        Err(fault) => {
                            checker.fail(|| format!("B-63: no page: {}", fault.sentence));
                            self.recorded.give_up();
                        }
                    }
                    continue;
                }
                if core.session().is_some() {
                    if self.page.is_none() {
                        trace.detail(now, || format!("the subscriber requests {query:?}"));
                        self.page = core.history(query.clone()).ok();
                        self.remote.wake();
                    }
                    return;
                }
                // Request the page again when the client is connected.
                if let Some(page) = self.page.take() {
                    core.forget(page);
                }
            }
            if !core.next_recorded(now, subscription, &mut self.recorded) {
                return;
            }
            // The client may now have credit to grant.
            self.remote.wake();
        }
    }

    /// Starts the program again if it has processed everything up to the last update of the current start.
    /// The new program continues after this update.
    pub fn start_again(&mut self, checker: &mut HistoryChecker) {
        let core = &mut self.remote.core;
        let epoch = core.session().map(|session| session.epoch);
        let last = self
            .last
            .as_ref()
            .filter(|_| self.recorded.query().is_none());
        let Some(bookmark) = last.and_then(Bookmark::of) else {
            return;
        };
        let Position {
            epoch: of,
            sequence,
        } = bookmark.position;
        let mut later = self.received.range((of, sequence + 1)..=(of, u64::MAX));
        if epoch != Some(of) || later.any(|place| !is_late_sequence(place.1)) {
            return;
        }
        if let Some(former) = self.subscription.take() {
            core.unsubscribe(former);
        }
        let options = SubscribeOptions::default();
        self.subscription = core.subscribe(&[FOLLOWED], Contract::ALL, options).ok();
        self.recorded = RecordedEvents::starting_at(&[(FOLLOWED, RecordedStart::After(bookmark))]);
        self.last = None;
        self.remote.wake();
        checker.totals.continued += 1;
    }

    fn take(&mut self, event: Event, checker: &mut HistoryChecker) {
        self.last = match &event {
            Event::Reading { reading, .. } => Some(reading.clone()),
            _ => None,
        };
        match event {
            Event::Reading { reading, .. } => self.take_reading(&reading, checker),
            Event::Ended {
                reason: EndReason::Gone,
                ..
            } if checker.is_followed_redeployed => {}
            Event::Ended { sentence, .. } => {
                checker.fail(|| format!("B-63: the subscription of {FOLLOWED} ends: {sentence}"));
            }
            Event::Connected { .. }
            | Event::Disconnected { .. }
            // Directly after a start of the engine, the variable may not be deployed.
            | Event::ItemError { .. } => {}
        }
    }

    fn take_reading(&mut self, reading: &Reading, checker: &mut HistoryChecker) {
        let position = reading.position;
        let has_no_value = position.sequence == 0;
        let base = checker.bases.get(&position.epoch).copied().unwrap_or(0);
        if reading.lost.unknown {
            let highest = self.losses.entry(position.epoch).or_default();
            // A reading without a value comes before the first update of a deployment.
            let sequence = match has_no_value {
                true => base + 1,
                false => position.sequence,
            };
            *highest = sequence.max(*highest);
        }
        if reading.lost.unknown && !checker.may_lack_updates() {
            checker.fail(|| format!("B-63: nothing is lost, and {reading:?} reports a loss"));
        }
        if reading.lost.coalesced > 0 {
            checker.fail(|| format!("B-63: every update is recorded, and {reading:?} lacks some"));
        }
        if has_no_value {
            let of_epoch = (position.epoch, base + 1)..=(position.epoch, u64::MAX);
            let mut later = self.received.range(of_epoch);
            if later.any(|place| !is_late_sequence(place.1)) {
                checker
                    .fail(|| format!("B-63: {reading:?} has no value, and later ones came before"));
            }
            return;
        }
        checker.totals.followed += 1;
        let place = (position.epoch, position.sequence);
        let mut value = Vec::new();
        wire::encode_value(&reading.sample.value, &mut value);
        let is_right = checker.accepted.get(&place).is_some_and(|line| {
            line.value == value
                && line.quality == reading.sample.quality.to_bits()
                && line.key.time == reading.sample.source_timestamp.as_nanos()
        });
        if !is_right {
            let accepted = format!("{:?}", checker.accepted.get(&place));
            checker.fail(|| format!("B-63: a subscriber receives {reading:?}, not {accepted}"));
        }
        if !self.received.insert(place) {
            checker.fail(|| format!("B-63: a subscriber receives {position:?} twice"));
        }
    }

    /// Called when no data is in flight and all updates are recorded. Checks that the program has received
    /// every update that is durable or has the current epoch. For each other epoch with missing updates, the
    /// program must have received the report of a loss.
    pub fn check_settled(&self, epoch: u64, checker: &mut HistoryChecker) {
        let is_missing =
            |place: &(u64, u64)| !is_late_sequence(place.1) && !self.received.contains(place);
        let missing = checker
            .accepted
            .iter()
            .filter(|(place, _)| is_missing(place));
        let mut unreported = missing.filter(|(place, line)| {
            let mut reports = self.losses.range(place.0..);
            let is_known = reports.any(|(epoch, sequence)| *epoch > place.0 || *sequence > place.1);
            place.0 == epoch || checker.is_durable(line) || !is_known
        });
        if let Some((_, line)) = unreported.next() {
            let (line, more) = (line.clone(), unreported.count());
            checker.fail(|| format!("B-63: a subscriber lacks {line:?} and {more} more updates"));
        }
    }
}

/// Formats an event for the trace.
fn brief(event: &Event) -> String {
    match event {
        Event::Reading { reading, .. } => {
            let Position { epoch, sequence } = reading.position;
            format!("{epoch}.{sequence} {:?}", reading.lost)
        }
        event => format!("{event:?}"),
    }
}
