//! Runs the thread that records variables.

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

/// Maximum number of events handled before the thread checks what is due.
const EVENTS_MAX: usize = 4096;

/// Longest time that a stopped recorder waits for outstanding events.
const FINAL_WAIT: Duration = Duration::from_secs(2);

/// Maximum number of unrecorded variables that the status names. Others are only counted.
const REFUSED_MAX: usize = 100;

/// State of the recorder's thread.
pub(super) struct Running {
    pub(super) client: Client,
    pub(super) subscription: PatternSubscription,
    pub(super) descriptions: Descriptions,
    pub(super) recording: VariableSeries<SegmentFile, Open>,
    /// Path of the first file.
    pub(super) first: PathBuf,
    pub(super) clock: Clock,
    /// Start of the recording.
    pub(super) since: Tick,
    pub(super) items: HashMap<u32, Item>,
    /// Number of variables that have no first reading yet and were not refused.
    pub(super) awaiting_first_reading: usize,
    pub(super) unmatched: Unmatched,
    pub(super) options: VariableRecorderOptions,
    pub(super) status: Arc<Mutex<VariableRecorderStatus>>,
}

/// The kind of a write.
#[derive(Clone, Copy, Debug)]
enum WriteKind {
    /// Writes the updates in memory to the file.
    Out,
    /// Writes the updates and syncs the file.
    Sync,
    /// Writes the updates, syncs and ends the file.
    Finish,
}

#[derive(Debug)]
pub(super) struct Item {
    name: Arc<str>,
    data_type: DataType,
    state: ItemState,
    /// True once a reading has arrived, or cannot arrive any more.
    is_first_reading_settled: bool,
    /// True once the status reports that the variable is not recorded.
    is_refused: bool,
    /// True until the first reading arrives, which is the value that the variable already had.
    is_new: bool,
    /// Updates lost since the last reading. The next reading includes them in its own count.
    lost_since: Lost,
    /// Position of the newest update that has arrived; `None` before the first and after the last.
    position: Option<Position>,
}

#[derive(Clone, Copy, Debug)]
enum ItemState {
    /// No reading has arrived.
    New,
    Recorded(VariableId),
    /// The variable cannot be recorded.
    Unrecordable,
}

impl Item {
    fn id(&self) -> Option<VariableId> {
        match self.state {
            ItemState::Recorded(id) => Some(id),
            ItemState::New | ItemState::Unrecordable => None,
        }
    }
}

impl Running {
    pub(super) fn run(mut self, stopped: &Stopped) {
        let (mut write_at, mut sync_at) = (self.clock.now(), self.clock.now());
        let mut is_following = false;
        while !stopped.is_stopped() {
            if let Some(event) = self.subscription.next(Some(CHECK_INTERVAL)) {
                self.handle(event);
                self.handle_waiting(EVENTS_MAX);
            }
            self.report_unmatched();
            if !is_following && self.follows_all() {
                is_following = true;
                locked(&self.status).is_following = true;
            }
            let descriptions = self.descriptions.take();
            self.describe(descriptions);
            let now = self.clock.now();
            if self.descriptions.are_awaited(now) {
                // Writing waits, so that the first header contains the descriptions.
                continue;
            }
            if now >= sync_at {
                sync_at = now.saturating_add(self.options.sync_every);
                write_at = now.saturating_add(self.options.write_every);
                self.write(WriteKind::Sync);
            } else if now >= write_at {
                write_at = now.saturating_add(self.options.write_every);
                self.write(WriteKind::Out);
            }
        }
        self.end(self.clock.now().saturating_add(FINAL_WAIT));
    }

    fn end(&mut self, until: Tick) {
        while self.handle_waiting(EVENTS_MAX) && self.clock.now() < until {}
        // Even a very short recording contains every variable that existed when it began.
        while self.is_connected() && !self.follows_all() && self.clock.now() < until {
            if let Some(event) = self.subscription.next(Some(CHECK_INTERVAL)) {
                self.handle(event);
            }
        }
        self.catch_up(until);
        self.report_unmatched();
        let mut remaining = until.since(self.clock.now());
        while self.is_connected() && self.descriptions.are_missing() && !remaining.is_zero() {
            let descriptions = self.descriptions.take_within(remaining);
            self.describe(descriptions);
            remaining = until.since(self.clock.now());
        }
        for item in std::mem::take(&mut self.items).into_values() {
            self.note_last_losses(&item);
        }
        self.write(WriteKind::Finish);
        let unwritten = self.recording.discard_waiting();
        if unwritten > 0 {
            let mut status = locked(&self.status);
            status.progress = self.recording.progress();
            let why = status.error.take().unwrap_or_default();
            // The message promises another attempt, but the recorder makes no more attempts here.
            let why = why
                .split_once("; the waiting updates")
                .map_or(&*why, |(why, _)| why);
            status.error = Some(format!(
                "the recording ended before {unwritten} updates were written, and does not \
                 contain them: {why}"
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
    /// a `sampled` contract, because the engine sends its updates only at the next interval.
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
                self.handle_waiting(EVENTS_MAX);
            }
        }
    }

    /// Asks the engine for the newest position of every recorded variable. Returns the positions by
    /// item number.
    fn newest_positions(&self, until: Tick) -> Result<HashMap<u32, Position>, CallError> {
        let remaining = || until.since(self.clock.now());
        let recorded = self
            .items
            .iter()
            .filter(|(_, item)| item.position.is_some());
        let (items, names): (Vec<u32>, Vec<Arc<str>>) = recorded
            .map(|(number, item)| (*number, Arc::clone(&item.name)))
            .unzip();
        let opened = self
            .client
            .open(&names, OpenOptions::default(), remaining())?;
        let opened = items.into_iter().zip(opened);
        let (items, variables): (Vec<u32>, Vec<VariableRef>) = opened
            .filter_map(|(item, opened)| Some((item, opened.ok()?.variable)))
            .unzip();
        let readings = self.client.read(&variables, remaining());
        // The call fails only for a closed client, which has no open variables.
        let polled = self.client.clone().into_polled();
        let _closing = polled.close_variables(&variables);
        let readings = items.into_iter().zip(readings?);
        Ok(readings
            .filter_map(|(item, reading)| Some((item, reading.ok()?.position)))
            .collect())
    }

    /// Handles at most `most` queued events. Returns true if it handled that many.
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
                self.settle_first_reading(item);
                if let Some(item) = self.items.remove(&item) {
                    self.note_last_losses(&item);
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
        let new_item = Item {
            name,
            data_type,
            state: ItemState::New,
            is_first_reading_settled: false,
            is_refused: false,
            is_new: true,
            lost_since: Lost::NONE,
            position: None,
        };
        // A new announcement of an item number replaces the earlier item.
        self.settle_first_reading(item);
        if let Some(before) = self.items.insert(item, new_item) {
            self.note_last_losses(&before);
        }
        self.awaiting_first_reading += 1;
    }

    /// Records the updates that a variable lost after its last reading, because no later reading
    /// can report them.
    fn note_last_losses(&mut self, item: &Item) {
        if let Some(id) = item.id() {
            // The call cannot fail, because the variable belongs to this recording.
            let _ = self.recording.record_loss(id, item.lost_since.count());
        }
    }

    fn settle_first_reading(&mut self, item: u32) {
        let item = self.items.get_mut(&item);
        if item.is_some_and(|one| !std::mem::replace(&mut one.is_first_reading_settled, true)) {
            self.awaiting_first_reading -= 1;
        }
    }

    /// Returns the variable's id in the recording. The first reading adds the variable, so the
    /// recording contains no variable that cannot be read.
    fn recorded_id(&mut self, item: u32) -> Option<VariableId> {
        self.settle_first_reading(item);
        let one = self.items.get_mut(&item)?;
        if let ItemState::New = one.state {
            match self.recording.add(&one.name, &one.data_type) {
                Ok(id) => {
                    one.state = ItemState::Recorded(id);
                    let now = self.clock.now();
                    self.descriptions.enqueue(id, Arc::clone(&one.name), now);
                }
                Err(error) => {
                    one.state = ItemState::Unrecordable;
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
                let id = self.recorded_id(item);
                let (Some(id), Some(item)) = (id, self.items.get_mut(&item)) else {
                    return;
                };
                item.lost_since = Lost::NONE;
                item.position = Some(reading.position);
                let is_new = std::mem::take(&mut item.is_new);
                let now = self.clock.now().since(self.since);
                // A variable has no value before its first write and before its source delivers
                // one.
                if !reading.has_value() {
                    return;
                }
                let (sample, lost) = (&reading.sample, &reading.lost);
                let result = match is_new {
                    true => self.recording.take_initial(id, sample, lost, now),
                    false => self.recording.take(id, sample, lost, now),
                };
                if let Err(error) = result {
                    locked(&self.status).error = Some(error.to_string());
                }
            }
            Event::Ended { item, lost, .. } => {
                if lost.is_some_and(|lost| lost > 0) {
                    self.recorded_id(item);
                }
                if let Some(item) = self.items.get_mut(&item) {
                    item.position = None;
                    item.lost_since.overrun = lost.unwrap_or(item.lost_since.overrun);
                }
            }
            Event::ItemError { item, fault } => self.refuse_item(item, fault.to_string()),
            Event::Connected { .. } => {
                locked(&self.status).is_connected = true;
                // The engine may have new descriptions.
                let now = self.clock.now();
                self.descriptions.clear();
                for item in self.items.values() {
                    if let Some(id) = item.id() {
                        self.descriptions.enqueue(id, Arc::clone(&item.name), now);
                    }
                }
            }
            Event::Disconnected { .. } => locked(&self.status).is_connected = false,
        }
    }

    /// Returns true once the engine has listed all matching variables, and each of them has
    /// delivered its first reading or was refused.
    fn follows_all(&self) -> bool {
        self.unmatched.is_known() && self.awaiting_first_reading == 0
    }

    fn report_unmatched(&mut self) {
        if let Some(unmatched) = self.unmatched.take_changes() {
            locked(&self.status).unmatched = unmatched;
        }
    }

    fn is_connected(&self) -> bool {
        locked(&self.status).is_connected
    }

    fn describe(&mut self, descriptions: Vec<Described>) {
        for (id, description) in descriptions {
            let result = self
                .recording
                .describe(id, &description.units, &description.description);
            if let Err(error) = result {
                locked(&self.status).error = Some(error.to_string());
            }
        }
    }

    /// Reports the reason why a variable is not recorded, once per variable.
    fn refuse_item(&mut self, item: u32, why: String) {
        self.settle_first_reading(item);
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

    fn write(&mut self, kind: WriteKind) {
        let now = self.clock.now().since(self.since);
        let result = match kind {
            WriteKind::Out => self.recording.write_out(now),
            WriteKind::Sync => self.recording.sync(now),
            WriteKind::Finish => self.recording.finish(now),
        };
        // Discards the notices of completed files, which this recorder does not use.
        while self.recording.take_ended().is_some() {}
        let progress = self.recording.progress();
        let mut status = locked(&self.status);
        match result {
            Err(error) => status.error = Some(error.to_string()),
            // A failed sync remains an error, even if later writes to this file succeed.
            Ok(()) if progress.sync_failure.is_some() && self.options.rotation.is_none() => {}
            Ok(()) => status.error = None,
        }
        status.progress = progress;
        status.files = self.recording.number();
        status.moved_file = self.recording.moved_file().cloned();
        status.moved_sums_file = self.recording.moved_sums_file().cloned();
        status.free_space = self.recording.free_space();
    }
}
