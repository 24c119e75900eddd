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

/// Longest wait for events before the stop signal is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of events taken before the thread checks what is due.
const TAKEN_MAX: usize = 4096;

/// Longest time that a stopped recorder waits for remaining events.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Maximum number of unrecorded variables reported by name; others are only counted.
const REFUSED_MAX: usize = 100;

pub(super) struct Running {
    pub(super) client: Client,
    pub(super) subscription: PatternSubscription,
    pub(super) descriptions: Descriptions,
    pub(super) recording: VariableSeries<SegmentFile, Open>,
    pub(super) first: PathBuf,
    pub(super) clock: Clock,
    pub(super) since: Tick,
    pub(super) items: HashMap<u32, Item>,
    /// Number of variables from which nothing has arrived yet.
    pub(super) unheard: usize,
    pub(super) unmatched: Unmatched,
    pub(super) options: VariableRecorderOptions,
    pub(super) status: Arc<Mutex<VariableRecorderStatus>>,
}

/// The purpose of a write: save updates, sync the file, or finish it.
#[derive(Clone, Copy, Debug)]
enum Writing {
    Out,
    Sync,
    Finish,
}

#[derive(Debug)]
pub(super) struct Item {
    name: Arc<str>,
    data_type: DataType,
    place: Place,
    /// True once a reading has arrived, or is known not to arrive.
    is_heard: bool,
    /// True once the variable was reported as not recorded.
    is_refused: bool,
    /// True until the first reading arrives, which is the value that the variable already had.
    is_new: bool,
    /// Losses since the last reading; the next reading reports them too.
    lost_since: Lost,
    /// Position of the newest update that has arrived; `None` before the first and after the last.
    position: Option<Position>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Not yet: nothing has arrived.
    None,
    Recorded(VariableId),
    /// The variable cannot be recorded.
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
            if let Some(event) = self.subscription.next(Some(CHECK_INTERVAL)) {
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
                // Delays writing so that the first header contains the descriptions.
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
        // Even a very short recording contains every variable that existed when it began.
        while self.is_connected() && !self.follows_all() && self.clock.now() < until {
            if let Some(event) = self.subscription.next(Some(CHECK_INTERVAL)) {
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
        let given_up = self.recording.discard_waiting();
        if given_up > 0 {
            let mut status = locked(&self.status);
            status.progress = self.recording.progress();
            let why = status.error.take().unwrap_or_default();
            // There are no more retries at this point.
            let why = why.split_once("; what waits").map_or(&*why, |(why, _)| why);
            status.error = Some(format!(
                "{given_up} updates that waited when the recording ended are not in it: {why}"
            ));
        }
        let progress = self.recording.progress();
        if progress.variables == 0 || progress.bytes == 0 {
            // Removes the file, because it is empty.
            let _ = std::fs::remove_file(&self.first);
            if self.options.has_sums {
                let _ = std::fs::remove_file(sums_path(&self.first));
            }
        }
    }

    /// Waits for the updates that the engine had when the recording was stopped. Does not wait for
    /// those of a `sampled` contract, because the engine sends them only at the next interval.
    fn catch_up(&mut self, until: Tick) {
        if matches!(self.options.contract, Contract::Sampled(_)) || !self.is_connected() {
            return;
        }
        // If no answer arrives in time, the recording ends with the updates received so far.
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
            if let Some(event) = self.subscription.next(Some(CHECK_INTERVAL)) {
                self.handle(event);
                self.handle_waiting(TAKEN_MAX);
            }
        }
    }

    /// Asks the engine for the newest position of every recorded variable. Returns the positions by
    /// item.
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
        // Fails only for a closed client, which has no open variables.
        let polled = self.client.clone().into_polled();
        let _closing = polled.close_variables(&variables);
        let readings = items.into_iter().zip(readings?);
        Ok(readings
            .filter_map(|(item, reading)| Some((item, reading.ok()?.position)))
            .collect())
    }

    /// Handles at most `most` waiting events. Returns true if that number was reached.
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
        // An item announced again under the same number replaces the earlier one.
        self.hear_of(item);
        if let Some(before) = self.items.insert(item, item_of_it) {
            self.leave(&before);
        }
        self.unheard += 1;
    }

    /// Records the losses after the last reading of a variable now, because no later reading will
    /// report them.
    fn leave(&mut self, item: &Item) {
        if let Some(id) = item.id() {
            // The variable belongs to this recording.
            let _ = self.recording.note_lost(id, item.lost_since.count());
        }
    }

    fn hear_of(&mut self, item: u32) {
        let item = self.items.get_mut(&item);
        if item.is_some_and(|one| !std::mem::replace(&mut one.is_heard, true)) {
            self.unheard -= 1;
        }
    }

    /// Returns the variable's id in the recording. The variable is added with its first reading, so
    /// the recording does not contain unreadable variables.
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
                // The variable has no value yet, neither from a write nor from its source.
                if !reading.has_value() {
                    return;
                }
                let (sample, lost) = (&reading.sample, &reading.lost);
                let taken = match is_new {
                    true => self.recording.take_initial(id, sample, lost, now),
                    false => self.recording.take(id, sample, lost, now),
                };
                if let Err(error) = taken {
                    locked(&self.status).error = Some(error.to_string());
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
                // The engine may have a new configuration.
                let now = self.clock.now();
                self.descriptions.clear();
                for item in self.items.values() {
                    if let Some(id) = item.id() {
                        self.descriptions.want(id, Arc::clone(&item.name), now);
                    }
                }
            }
            Event::Disconnected { .. } => locked(&self.status).is_connected = false,
        }
    }

    /// Returns true once the engine has listed all matching variables, and each of them has
    /// delivered its first reading or was refused.
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

    fn describe(&mut self, described: Vec<Described>) {
        for (id, known) in described {
            let noted = self
                .recording
                .describe(id, &known.units, &known.description);
            if let Err(error) = noted {
                locked(&self.status).error = Some(error.to_string());
            }
        }
    }

    /// Reports once that a variable is not recorded, with the reason.
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
        // The notices of ended files are not used.
        while self.recording.take_ended().is_some() {}
        let progress = self.recording.progress();
        let mut status = locked(&self.status);
        match written {
            Err(error) => status.error = Some(error.to_string()),
            // A failed sync remains a failure, whatever is written to this file afterwards.
            Ok(()) if progress.sync_failure.is_some() && self.options.rotation.is_none() => {}
            Ok(()) => status.error = None,
        }
        status.progress = progress;
        status.files = self.recording.number();
        status.moved_file = self.recording.moved_file().cloned();
        status.moved_sums_file = self.recording.moved_sums_file().cloned();
        status.room = self.recording.room();
    }
}
