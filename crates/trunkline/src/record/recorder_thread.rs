//! The thread that records variables.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_client::{Event, FollowEvent, OpenOptions, VariableRef};
use trunkline_net::Clock;
use trunkline_record::{SegmentFile, VariableId, VariableSeries, sums_path};
use trunkline_types::{Contract, DataType, Lost, Position, Tick};

use super::Stopped;
use super::descriptions::{Described, Descriptions};
use super::recorder::{Open, VariableRecorderOptions, VariableRecorderStatus, locked};
use super::unmatched::Unmatched;
use crate::client::{CallError, Client, PatternSubscription};

/// How long events are waited for before it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Events that are taken before it is looked whether something is due.
const TAKEN_MAX: usize = 4096;

/// How long a recorder that is stopped takes what has come before, at most.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Variables that are not recorded and are told by name; further ones are counted.
const REFUSED_MAX: usize = 100;

/// What the thread has.
pub(super) struct Running {
    pub(super) client: Client,
    pub(super) subscription: PatternSubscription,
    pub(super) descriptions: Descriptions,
    pub(super) recording: VariableSeries<SegmentFile, Open>,
    pub(super) first: PathBuf,
    pub(super) clock: Clock,
    pub(super) since: Tick,
    pub(super) items: HashMap<u32, Item>,
    /// Of how many of them nothing has come yet.
    pub(super) unheard: usize,
    pub(super) unmatched: Unmatched,
    pub(super) options: VariableRecorderOptions,
    pub(super) status: Arc<Mutex<VariableRecorderStatus>>,
}

/// How much is done about what waits.
#[derive(Clone, Copy, Debug)]
enum Writing {
    Out,
    Sync,
    Finish,
}

/// A variable that is followed.
#[derive(Debug)]
pub(super) struct Item {
    name: Arc<str>,
    data_type: DataType,
    place: Place,
    /// Something has come, or will not.
    is_heard: bool,
    /// It was told that it is not recorded.
    is_refused: bool,
    /// Nothing has come yet: what comes first is the value that it has already.
    is_new: bool,
    /// Lost after its last reading, which the next one says again.
    lost_since: Lost,
    /// The update that came last; `None` where none has come, or none will come any more.
    position: Option<Position>,
}

/// Where a variable is in the recording.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In none yet: nothing has come of it.
    None,
    Recorded(VariableId),
    /// It cannot be recorded.
    Never,
}

impl Item {
    fn id(&self) -> Option<VariableId> {
        match self.place {
            Place::Recorded(id) => Some(id),
            Place::None | Place::Never => None,
        }
    }
}

impl Running {
    pub(super) fn run(mut self, stopped: &Stopped) {
        let (mut write_at, mut sync_at) = (self.clock.now(), self.clock.now());
        let mut is_following = false;
        while !stopped.now() {
            if let Some(event) = self.subscription.next(Some(LOOK_EVERY)) {
                self.handle(event);
                self.handle_waiting(TAKEN_MAX);
            }
            self.tell_unmatched();
            if !is_following && self.follows_all() {
                is_following = true;
                locked(&self.status).is_following = true;
            }
            let described = self.descriptions.take();
            self.describe(described);
            let now = self.clock.now();
            if self.descriptions.are_awaited(now) {
                // So that the first header has them.
                continue;
            }
            if now >= sync_at {
                sync_at = now.saturating_add(self.options.sync_every);
                write_at = now.saturating_add(self.options.write_every);
                self.write(Writing::Sync);
            } else if now >= write_at {
                write_at = now.saturating_add(self.options.write_every);
                self.write(Writing::Out);
            }
        }
        self.end(self.clock.now().saturating_add(LAST_LOOK));
    }

    fn end(&mut self, until: Tick) {
        while self.handle_waiting(TAKEN_MAX) && self.clock.now() < until {}
        // However short it was, it has what there was to be recorded.
        while self.is_connected() && !self.follows_all() && self.clock.now() < until {
            if let Some(event) = self.subscription.next(Some(LOOK_EVERY)) {
                self.handle(event);
            }
        }
        self.catch_up(until);
        self.tell_unmatched();
        let mut left = until.since(self.clock.now());
        while self.is_connected() && self.descriptions.are_missing() && !left.is_zero() {
            let described = self.descriptions.take_within(left);
            self.describe(described);
            left = until.since(self.clock.now());
        }
        for item in std::mem::take(&mut self.items).into_values() {
            self.leave(&item);
        }
        self.write(Writing::Finish);
        let given_up = self.recording.give_up_waiting();
        if given_up > 0 {
            let mut status = locked(&self.status);
            status.progress = self.recording.progress();
            let why = status.trouble.take().unwrap_or_default();
            // Nothing is tried again now.
            let why = why.split_once("; what waits").map_or(&*why, |(why, _)| why);
            status.trouble = Some(format!(
                "{given_up} updates that waited when the recording ended are not in it: {why}"
            ));
        }
        let progress = self.recording.progress();
        if progress.variables == 0 || progress.bytes == 0 {
            // Nothing is in it.
            let _ = std::fs::remove_file(&self.first);
            if self.options.has_sums {
                let _ = std::fs::remove_file(sums_path(&self.first));
            }
        }
    }

    /// Takes the updates that the engine had when the recording was stopped and that are on their
    /// way. Those of a contract that sends at intervals are not waited for.
    fn catch_up(&mut self, until: Tick) {
        if matches!(self.options.contract, Contract::Sampled(_)) || !self.is_connected() {
            return;
        }
        // Without an answer in time, what has come is what there is.
        let mut newest = self.newest_positions(until).unwrap_or_default();
        loop {
            newest.retain(|item, newest| {
                let item = self.items.get(item);
                let position = item.and_then(|item| item.position);
                position
                    .is_some_and(|one| one.epoch == newest.epoch && one.sequence < newest.sequence)
            });
            if newest.is_empty() || !self.is_connected() || self.clock.now() >= until {
                return;
            }
            if let Some(event) = self.subscription.next(Some(LOOK_EVERY)) {
                self.handle(event);
                self.handle_waiting(TAKEN_MAX);
            }
        }
    }

    /// The newest updates that the engine has of the variables that are recorded, by item.
    fn newest_positions(&self, until: Tick) -> Result<HashMap<u32, Position>, CallError> {
        let left = || until.since(self.clock.now());
        let recorded = self
            .items
            .iter()
            .filter(|(_, item)| item.position.is_some());
        let (items, names): (Vec<u32>, Vec<Arc<str>>) = recorded
            .map(|(number, item)| (*number, Arc::clone(&item.name)))
            .unzip();
        let opened = self.client.open(&names, OpenOptions::default(), left())?;
        let opened = items.into_iter().zip(opened);
        let (items, variables): (Vec<u32>, Vec<VariableRef>) = opened
            .filter_map(|(item, opened)| Some((item, opened.ok()?.variable)))
            .unzip();
        let readings = self.client.read(&variables, left());
        // It fails where the client is closed, and has none.
        let _ = self.client.ask_to_close(&variables);
        let readings = items.into_iter().zip(readings?);
        Ok(readings
            .filter_map(|(item, reading)| Some((item, reading.ok()?.position)))
            .collect())
    }

    /// Handles what waits, at most so many; whether there were as many.
    fn handle_waiting(&mut self, most: usize) -> bool {
        for _ in 0..most {
            match self.subscription.try_next() {
                Some(event) => self.handle(event),
                None => return false,
            }
        }
        true
    }

    fn handle(&mut self, event: FollowEvent) {
        match event {
            FollowEvent::Appeared {
                item,
                name,
                data_type,
                ..
            } => self.add(item, name, data_type),
            FollowEvent::Listed { pattern } => self.unmatched.listed(pattern),
            FollowEvent::Gone { item, .. } => {
                self.hear_of(item);
                if let Some(item) = self.items.remove(&item) {
                    self.leave(&item);
                }
            }
            FollowEvent::PatternError { pattern, fault } => {
                self.unmatched.listed(pattern);
                let text = self.unmatched.pattern(pattern);
                self.refuse(text, fault.to_string());
            }
            FollowEvent::Event(event) => self.handle_event(event),
            _ => {}
        }
    }

    fn add(&mut self, item: u32, name: Arc<str>, data_type: DataType) {
        self.unmatched.appeared(&name);
        let item_of_it = Item {
            name,
            data_type,
            place: Place::None,
            is_heard: false,
            is_refused: false,
            is_new: true,
            lost_since: Lost::NONE,
            position: None,
        };
        // One that comes again under its number takes the place of the one before.
        self.hear_of(item);
        if let Some(before) = self.items.insert(item, item_of_it) {
            self.leave(&before);
        }
        self.unheard += 1;
    }

    /// What was lost behind the last reading of a variable is said now: no other comes.
    fn leave(&mut self, item: &Item) {
        if let Some(id) = item.id() {
            // It is one of this recording.
            let _ = self.recording.note_lost(id, item.lost_since.count());
        }
    }

    fn hear_of(&mut self, item: u32) {
        let item = self.items.get_mut(&item);
        if item.is_some_and(|one| !std::mem::replace(&mut one.is_heard, true)) {
            self.unheard -= 1;
        }
    }

    /// The variable in the recording, which gets it with the first that comes of it: one that
    /// cannot be read is not in it.
    fn recorded(&mut self, item: u32) -> Option<VariableId> {
        self.hear_of(item);
        let one = self.items.get_mut(&item)?;
        if let Place::None = one.place {
            match self.recording.add(&one.name, &one.data_type) {
                Ok(id) => {
                    one.place = Place::Recorded(id);
                    let now = self.clock.now();
                    self.descriptions.want(id, Arc::clone(&one.name), now);
                }
                Err(error) => {
                    one.place = Place::Never;
                    self.refuse_item(item, error.to_string());
                    return None;
                }
            }
        }
        one.id()
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Reading { item, reading } => {
                let id = self.recorded(item);
                let (Some(id), Some(item)) = (id, self.items.get_mut(&item)) else {
                    return;
                };
                item.lost_since = Lost::NONE;
                item.position = Some(reading.position);
                let is_new = std::mem::take(&mut item.is_new);
                let now = self.clock.now().since(self.since);
                // Nothing was written to it yet, or delivered by its source.
                if !reading.has_value() {
                    return;
                }
                let (sample, lost) = (&reading.sample, &reading.lost);
                let taken = match is_new {
                    true => self.recording.take_initial(id, sample, lost, now),
                    false => self.recording.take(id, sample, lost, now),
                };
                if let Err(error) = taken {
                    locked(&self.status).trouble = Some(error.to_string());
                }
            }
            Event::Ended { item, lost, .. } => {
                if lost.is_some_and(|lost| lost > 0) {
                    self.recorded(item);
                }
                if let Some(item) = self.items.get_mut(&item) {
                    item.position = None;
                    item.lost_since.overrun = lost.unwrap_or(item.lost_since.overrun);
                }
            }
            Event::ItemError { item, fault } => self.refuse_item(item, fault.to_string()),
            Event::Connected { .. } => {
                locked(&self.status).is_connected = true;
                // The engine may have been configured anew.
                let now = self.clock.now();
                self.descriptions.clear();
                for item in self.items.values() {
                    if let Some(id) = item.id() {
                        self.descriptions.want(id, Arc::clone(&item.name), now);
                    }
                }
            }
            Event::Disconnected { .. } => locked(&self.status).is_connected = false,
            _ => {}
        }
    }

    /// True when the engine has named every variable that there is, and each of them has delivered
    /// its first reading or was refused.
    fn follows_all(&self) -> bool {
        self.unmatched.is_known() && self.unheard == 0
    }

    fn tell_unmatched(&mut self) {
        if let Some(unmatched) = self.unmatched.take_news() {
            locked(&self.status).unmatched = unmatched;
        }
    }

    fn is_connected(&self) -> bool {
        locked(&self.status).is_connected
    }

    /// Notes what is known of variables beside their values.
    fn describe(&mut self, described: Vec<Described>) {
        for (id, known) in described {
            let noted = self
                .recording
                .describe(id, &known.units, &known.description);
            if let Err(error) = noted {
                locked(&self.status).trouble = Some(error.to_string());
            }
        }
    }

    /// Tells once of a variable that it is not recorded, and why.
    fn refuse_item(&mut self, item: u32, why: String) {
        self.hear_of(item);
        let Some(one) = self.items.get_mut(&item) else {
            return;
        };
        if !std::mem::replace(&mut one.is_refused, true) {
            let name = Arc::clone(&one.name);
            self.refuse(&name, why);
        }
    }

    fn refuse(&self, name: &str, why: String) {
        let mut status = locked(&self.status);
        status.refused_count += 1;
        if status.refused.len() < REFUSED_MAX {
            status.refused.push((name.to_owned(), why));
        }
    }

    fn write(&mut self, writing: Writing) {
        let now = self.clock.now().since(self.since);
        let written = match writing {
            Writing::Out => self.recording.write_out(now),
            Writing::Sync => self.recording.sync(now),
            Writing::Finish => self.recording.finish(now),
        };
        // Nobody asks for each.
        while self.recording.take_ended().is_some() {}
        let progress = self.recording.progress();
        let mut status = locked(&self.status);
        match written {
            Err(error) => status.trouble = Some(error.to_string()),
            // That a sync has failed stays true whatever is written behind it in this file.
            Ok(()) if progress.sync_failure.is_some() && self.options.rotation.is_none() => {}
            Ok(()) => status.trouble = None,
        }
        status.progress = progress;
        status.files = self.recording.number();
        status.displaced = self.recording.displaced().cloned();
        status.sums_displaced = self.recording.sums_displaced().cloned();
        status.room = self.recording.room();
    }
}
