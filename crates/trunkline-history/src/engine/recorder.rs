//! Takes updates from the engine, and commits them to the log.
//!
//! The recorder is an ordinary subscriber. It subscribes with the contract `all` to variables whose every
//! update is recorded, and with `sampled` to the others. Gaps in the sequence numbers show which updates
//! are missing, and the recorder records each gap as an event.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use trunkline_engine::{
    Caller, Consumer, Delivery, Engine, Sink, Subscribe, Update, Variable, Wakes,
};
use trunkline_types::contract::BUFFER_ELEMENTS_MAX;
use trunkline_types::definition::slot_of;
use trunkline_types::history::{
    HistoryEvent, HistoryEventRow, HistoryRule, HistorySettings, Row, RowKey, Rows,
};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{ClockSync, Contract, DataType, Moment, Reason, Scope, Tick, Timestamp};

use crate::catalogue::{ADDED, ENGINE_SERIES, RETIRED, STOPPED, Series, SpoolEnd};
use crate::error::Error;
use crate::files::schema::{Storage, number_of};
use crate::log::{Log, LogEnd};
use crate::rules::settings_of;

/// Id of the subscription for variables whose every update is recorded. The subscriptions for sampled
/// variables have the next ids.
const EVERY_UPDATE: u32 = 1;
/// Limits of the updates that wait in the engine for the recorder. If they are exceeded, the engine ends
/// the subscription.
const QUEUE_LIMITS: Contract = Contract::All {
    elements: BUFFER_ELEMENTS_MAX,
    bytes: 256 << 20,
};
/// Number of pending rows at which the recorder commits before it takes further updates.
const COMMIT_ROWS: usize = 256 << 10;
/// Bytes of pending values at which the recorder commits before it takes further updates.
const COMMIT_BYTES: usize = 64 << 20;
/// Entry of `by_slot` for a slot without a recorded variable.
const NOT_RECORDED: u32 = u32::MAX;

/// A variable that is recorded. The fields that every update uses come first, so that they share cache
/// lines.
#[derive(Debug)]
#[repr(C, align(64))]
struct RecordedVariable {
    handle: u32,
    storage: Storage,
    /// True if the settings have a deadband or a resolution.
    is_filtered: bool,
    /// Sequence number of the newest update taken, even if it was not recorded.
    seen: u64,
    /// The latest row time in nanoseconds; a row counts with its engine timestamp if that is earlier.
    last_time: i64,
    /// Rows that are not committed yet.
    pending: Rows,
    /// Id of the series.
    series: u32,
    definition: Series,
    settings: HistorySettings,
    /// Numbers within this distance of the last recorded number are not recorded.
    deadband: f64,
    /// The last recorded number and the bits of its quality.
    last: Option<(f64, u32)>,
}

pub(crate) struct Recorder {
    engine: Engine,
    consumer: Consumer,
    rules: Vec<HistoryRule>,
    followed: Vec<RecordedVariable>,
    /// Free indices in `followed`.
    free: Vec<u32>,
    /// Indices in `followed` that become free when their pending rows are committed.
    retired: Vec<u32>,
    /// Number of indices at the start of `retired` for which no late sample can arrive any more.
    reusable: usize,
    /// Index in `followed` of the variable in each slot.
    by_slot: Vec<u32>,
    /// Ids of the series whose variables were undeployed.
    ended: HashSet<u32>,
    /// Variables whose slot another variable now uses, kept until their last updates are taken: from
    /// handle to index in `followed`.
    displaced: HashMap<u32, u32>,
    /// Ids of the subscriptions for sampled variables, by period.
    periods: BTreeMap<Duration, u32>,
    /// Indices in `followed` of variables with pending rows.
    dirty: Vec<u32>,
    /// Number of pending rows and events.
    pending_count: usize,
    /// Bytes of the pending values.
    pending_bytes: usize,
    /// Events that concern all variables and are not committed yet.
    engine_events: Rows,
    /// The latest engine timestamp of any update taken, in nanoseconds.
    newest: i64,
    /// True if the engine has ended the `all` subscription.
    must_resubscribe: bool,
    log: Log,
    is_closed: bool,
    /// Number of rows and events committed.
    pub(crate) recorded: u64,
    /// Number of updates that were lost.
    pub(crate) lost: u64,
}

impl Recorder {
    pub(crate) fn new(
        engine: Engine,
        consumer: Consumer,
        rules: Vec<HistoryRule>,
        log: Log,
        engine_events: Rows,
    ) -> Self {
        let pending_count = engine_events.events().len();
        Self {
            engine,
            consumer,
            rules,
            followed: Vec::new(),
            free: Vec::new(),
            retired: Vec::new(),
            reusable: 0,
            by_slot: Vec::new(),
            ended: HashSet::new(),
            displaced: HashMap::new(),
            periods: BTreeMap::new(),
            dirty: Vec::new(),
            pending_count,
            pending_bytes: 0,
            engine_events,
            newest: i64::MIN,
            must_resubscribe: false,
            log,
            is_closed: false,
            recorded: 0,
            lost: 0,
        }
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.bytes()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.is_closed
            || (self.pending_count == 0 && !self.must_resubscribe && self.consumer.rearm_if_idle())
    }

    /// Starts recording these variables, or applies their new ranges. `series` lists all series. New series
    /// are added to it after `enter` has entered them in the catalogue.
    pub(crate) fn follow(
        &mut self,
        handles: &[u32],
        wall: Timestamp,
        enter: EnterSeries<'_>,
        series: &mut Vec<Series>,
    ) -> Result<(), Error> {
        // First, take the earlier updates, including those of variables that are being replaced.
        while self.is_below_commit_limits() && self.take(wall) {}
        let variables = handles
            .iter()
            .filter_map(|handle| self.engine.variable(*handle));
        let variables: Vec<Arc<Variable>> = variables.collect();
        let to_record = variables.iter().filter_map(|variable| {
            let settings = settings_of(&self.rules, variable.name())?;
            // Other processes may read the history, so variables with a private scope are not recorded.
            let is_shared = variable.properties().scope == Scope::Network;
            is_shared.then(|| (Arc::clone(variable), settings))
        });
        let to_record: Vec<(Arc<Variable>, HistorySettings)> = to_record.collect();
        let ids = series_ids(&to_record, enter, series)?;
        for ((variable, settings), (id, is_new)) in to_record.into_iter().zip(ids) {
            let needs_added_event = is_new || self.ended.remove(&id);
            self.add(&variable, settings, id, needs_added_event, wall);
        }
        Ok(())
    }

    /// Subscribes to a variable. `needs_added_event` is true if the series is new, or had ended.
    fn add(
        &mut self,
        variable: &Arc<Variable>,
        settings: HistorySettings,
        id: u32,
        needs_added_event: bool,
        wall: Timestamp,
    ) {
        let handle = variable.handle();
        let slot = slot_of(handle) as usize;
        let index = self.by_slot.get(slot).copied().unwrap_or(NOT_RECORDED);
        let properties = variable.properties();
        let width = properties.range.map_or(100.0, |(low, high)| high - low);
        let deadband = settings.deadband_percent / 100.0 * width;
        if let Some(known) = self.followed.get_mut(index as usize) {
            if known.handle == handle && known.series == id {
                // The range may have changed.
                known.set_deadband(deadband);
                return;
            }
            if known.handle != handle {
                self.displaced.insert(known.handle, index);
            }
        }
        let (subscription, contract) = match settings.every {
            None => (EVERY_UPDATE, QUEUE_LIMITS),
            Some(period) => {
                let next = EVERY_UPDATE + 1 + self.periods.len() as u32;
                let subscription = *self.periods.entry(period).or_insert(next);
                (subscription, Contract::Sampled(period))
            }
        };
        let request = Subscribe::new(subscription, contract);
        if self
            .consumer
            .subscribe(&Caller::engine(), variable, request)
            .is_err()
        {
            // A write-only or undeployed variable cannot be recorded.
            return;
        }
        self.consumer.keep_late(variable);
        let storage = Storage::of(variable.data_type());
        let fixed = variable.data_type().fixed_size();
        let mut followed = RecordedVariable {
            handle,
            storage,
            is_filtered: false,
            seen: variable.base_sequence(),
            last_time: wall.as_nanos(),
            pending: Rows::new(fixed),
            series: id,
            definition: Series {
                id,
                name: variable.name().to_owned(),
                data_type: variable.data_type().clone(),
                units: properties.units.clone(),
            },
            settings,
            deadband,
            last: None,
        };
        followed.set_deadband(deadband);
        if needs_added_event {
            followed.pending.push_event(HistoryEventRow {
                key: RowKey {
                    time: wall.as_nanos(),
                    epoch: self.engine.epoch(),
                    sequence: ADDED,
                },
                event: HistoryEvent::Added,
            });
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.followed.len() as u32,
        };
        match self.followed.get_mut(index as usize) {
            Some(place) => *place = followed,
            None => self.followed.push(followed),
        }
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, NOT_RECORDED);
        }
        if let Some(place) = self.by_slot.get_mut(slot) {
            *place = index;
        }
        if needs_added_event {
            self.dirty.push(index);
            self.pending_count += 1;
        }
    }

    /// Takes the waiting updates and commits them. Calls `committed` with the committed rows of each
    /// series. Returns the time at which the caller must call again.
    ///
    /// # Errors
    /// The log cannot be written. Rows that were taken stay pending until the next call.
    pub(crate) fn record(
        &mut self,
        moment: Moment,
        committed: &mut dyn FnMut(u32, &Rows),
    ) -> Result<Option<Tick>, Error> {
        if self.is_closed {
            return Ok(None);
        }
        let mut next = Some(moment.now);
        if self.is_below_commit_limits() {
            next = self.consumer.poll(moment.now);
            if self.take(moment.wall) {
                next = Some(moment.now);
            }
        }
        self.commit(moment.wall, false, committed)?;
        Ok(next)
    }

    /// Returns true if further updates may be taken before the next commit.
    fn is_below_commit_limits(&self) -> bool {
        self.pending_count < COMMIT_ROWS && self.pending_bytes < COMMIT_BYTES
    }

    /// Takes updates from the engine. Returns true if more updates are waiting.
    fn take(&mut self, wall: Timestamp) -> bool {
        if std::mem::take(&mut self.must_resubscribe) {
            self.resubscribe();
        }
        let mut wakes = Wakes::new();
        let mut sink = UpdateSink {
            followed: &mut self.followed,
            by_slot: &mut self.by_slot,
            retired: &mut self.retired,
            ended: &mut self.ended,
            displaced: &mut self.displaced,
            dirty: &mut self.dirty,
            updates_left: COMMIT_ROWS.saturating_sub(self.pending_count),
            bytes_left: COMMIT_BYTES.saturating_sub(self.pending_bytes),
            epoch: self.engine.epoch(),
            wall: wall.as_nanos(),
            lost: 0,
            taken: 0,
            must_resubscribe: false,
            ended_items: Vec::new(),
            newest: i64::MIN,
        };
        let mut more = self.consumer.drain(&mut sink, &mut wakes);
        // Take late samples last: an undeployed variable whose updates are drained gets no further ones.
        while sink.wants() {
            match self.consumer.take_late() {
                Some((handle, update)) => sink.take_late(handle, &update),
                None => break,
            }
        }
        if self.consumer.has_late() {
            more = true;
        } else {
            // No late sample of these variables can arrive any more.
            self.reusable = sink.retired.len();
        }
        // A variable that no longer exists is not subscribed again.
        for item in std::mem::take(&mut sink.ended_items) {
            if self.engine.variable(item.handle).is_none() {
                sink.end(item.handle, item.last_sequence + item.lost);
            }
        }
        self.newest = self.newest.max(sink.newest);
        let bytes_left = sink.bytes_left;
        let (taken, lost, must_resubscribe) = (sink.taken, sink.lost, sink.must_resubscribe);
        self.pending_bytes = COMMIT_BYTES.saturating_sub(bytes_left);
        self.pending_count += taken;
        self.lost += lost;
        self.must_resubscribe |= must_resubscribe;
        more || must_resubscribe
    }

    /// Renews the subscription that the engine ended because the recorder fell behind. The sequence numbers
    /// of the first readings then show how many updates are missing.
    fn resubscribe(&mut self) {
        let caller = Caller::engine();
        for one in &self.followed {
            let Some(variable) = self.engine.variable(one.handle) else {
                continue;
            };
            if one.settings.every.is_none() {
                let request = Subscribe::new(EVERY_UPDATE, QUEUE_LIMITS);
                let _subscribed = self.consumer.subscribe(&caller, &variable, request);
            }
        }
    }

    fn commit(
        &mut self,
        wall: Timestamp,
        is_stop: bool,
        committed: &mut dyn FnMut(u32, &Rows),
    ) -> Result<(), Error> {
        if self.pending_count == 0 && !is_stop {
            return Ok(());
        }
        // An update that arrived after `wall` was read has a later timestamp.
        let wall = Timestamp::from_nanos(wall.as_nanos().max(self.newest));
        let mut commit = self.log.begin();
        if !self.engine_events.is_empty() {
            commit.add(ENGINE_SERIES, &self.engine_events, wall, || None);
        }
        for index in &self.dirty {
            if let Some(one) = self.followed.get(*index as usize) {
                commit.add(one.series, &one.pending, wall, || Some(&one.definition));
            }
        }
        if is_stop {
            commit.stop(wall);
        }
        commit.finish()?;
        if !self.engine_events.is_empty() {
            committed(ENGINE_SERIES, &self.engine_events);
            self.engine_events = Rows::new(None);
        }
        for index in self.dirty.drain(..) {
            if let Some(one) = self.followed.get_mut(index as usize) {
                committed(one.series, &one.pending);
                one.pending.clear();
            }
        }
        let reusable = std::mem::take(&mut self.reusable).min(self.retired.len());
        self.free.extend(self.retired.drain(..reusable));
        self.recorded += self.pending_count as u64;
        self.pending_count = 0;
        self.pending_bytes = 0;
        Ok(())
    }

    /// Replaces the log with the log of the next segment in the history's folder. The new log begins with the
    /// time and, if it continues a log of the spool, with the end of that log, `after`.
    pub(crate) fn begin_segment(
        &mut self,
        mut log: Log,
        after: Option<&SpoolEnd>,
        wall: Timestamp,
    ) -> Result<(), Error> {
        let mut commit = log.begin();
        commit.note(wall);
        if let Some(end) = after {
            commit.note_spool_end(end, wall);
        }
        commit.finish()?;
        self.log = log;
        Ok(())
    }

    pub(crate) fn replace_log(&mut self, log: Log) {
        self.log = log;
    }

    /// Truncates the log to its acknowledged part, and returns the end of that part.
    pub(crate) fn end_log(&mut self) -> LogEnd {
        self.log.cut();
        self.log.end()
    }

    /// Commits the events that [`new`](Self::new) was given.
    pub(crate) fn commit_start(
        &mut self,
        wall: Timestamp,
        committed: &mut dyn FnMut(u32, &Rows),
    ) -> Result<(), Error> {
        self.commit(wall, false, committed)
    }

    /// Records all waiting updates, the losses, and the stop of the engine.
    pub(crate) fn close(
        &mut self,
        wall: Timestamp,
        committed: &mut dyn FnMut(u32, &Rows),
    ) -> Result<(), Error> {
        if self.is_closed {
            return Ok(());
        }
        self.consumer.close_late();
        self.commit(wall, false, committed)?;
        while self.take(wall) {
            self.commit(wall, false, committed)?;
        }
        for index in 0..self.followed.len() {
            let Some(one) = self.followed.get_mut(index) else {
                continue;
            };
            let Some(variable) = self.engine.variable(one.handle) else {
                continue;
            };
            let newest = variable.sequence();
            if one.settings.every.is_none() && newest > one.seen {
                let is_dirty = !one.pending.is_empty();
                let lost = one.add_loss(newest + 1, self.engine.epoch());
                one.seen = newest;
                self.lost += lost;
                self.pending_count += 1;
                if !is_dirty {
                    self.dirty.push(index as u32);
                }
            }
        }
        self.engine_events.push_event(HistoryEventRow {
            key: RowKey {
                time: wall.as_nanos(),
                epoch: self.engine.epoch(),
                sequence: STOPPED,
            },
            event: HistoryEvent::Stopped,
        });
        self.pending_count += 1;
        let stopped = self.commit(wall, true, committed);
        self.is_closed = stopped.is_ok();
        if stopped.is_err() {
            // The stop was not committed, so the event must not be recorded later.
            let mut marks = self.engine_events.take_events();
            marks.retain(|mark| mark.event != HistoryEvent::Stopped);
            for mark in marks {
                self.engine_events.push_event(mark);
            }
            self.pending_count -= 1;
        }
        stopped
    }
}

/// A callback that enters new series in the catalogue.
pub(crate) type EnterSeries<'a> = &'a mut dyn FnMut(&[Series]) -> Result<(), Error>;

/// Returns the id of each variable's series, and true if the series is new. New series are added to the
/// catalogue and to `series`.
fn series_ids(
    variables: &[(Arc<Variable>, HistorySettings)],
    enter: EnterSeries<'_>,
    series: &mut Vec<Series>,
) -> Result<Vec<(u32, bool)>, Error> {
    let mut ids_by_name: HashMap<&str, Vec<(&DataType, u32)>> = HashMap::new();
    for one in series.iter() {
        ids_by_name
            .entry(&one.name)
            .or_default()
            .push((&one.data_type, one.id));
    }
    let mut next = series
        .iter()
        .map(|one| one.id)
        .max()
        .unwrap_or(ENGINE_SERIES)
        + 1;
    let mut new = Vec::new();
    let ids = variables.iter().map(|(variable, _)| {
        let same_name = ids_by_name.get(variable.name()).into_iter().flatten();
        let mut same_type = same_name.filter(|(data_type, _)| *data_type == variable.data_type());
        if let Some((_, id)) = same_type.next() {
            return (*id, false);
        }
        let id = next;
        next += 1;
        new.push(Series {
            id,
            name: variable.name().to_owned(),
            data_type: variable.data_type().clone(),
            units: variable.properties().units.clone(),
        });
        (id, true)
    });
    let ids = ids.collect();
    if !new.is_empty() {
        enter(&new)?;
        series.extend(new);
    }
    Ok(ids)
}

impl RecordedVariable {
    fn set_deadband(&mut self, deadband: f64) {
        self.deadband = deadband;
        self.is_filtered = deadband > 0.0 || self.settings.resolution > 0.0;
    }

    /// Adds an event for the missing updates between the newest one taken and sequence number `next`.
    /// Returns their number.
    fn add_loss(&mut self, next: u64, epoch: u64) -> u64 {
        let lost = next.saturating_sub(self.seen + 1);
        if lost > 0 {
            self.pending.push_event(HistoryEventRow {
                key: RowKey {
                    time: self.last_time,
                    epoch,
                    sequence: self.seen + 1,
                },
                event: HistoryEvent::Lost(Some(lost)),
            });
        }
        lost
    }

    /// Rounds a number to the configured resolution.
    fn rounded(&self, number: f64) -> f64 {
        match self.settings.resolution {
            resolution if resolution > 0.0 => (number / resolution).round() * resolution,
            _ => number,
        }
    }

    /// Returns true if the number is within the deadband of the last recorded number. Otherwise, stores it
    /// as the last recorded number.
    fn is_within_deadband(&mut self, number: f64, quality: u32) -> bool {
        let is_near = self.last.is_some_and(|(last, last_quality)| {
            let distance = (number - last).abs();
            last_quality == quality
                && (distance <= self.deadband || (number.is_nan() && last.is_nan()))
        });
        if !is_near {
            self.last = Some((number, quality));
        }
        is_near
    }
}

/// The [`Sink`] that receives updates from the engine.
struct UpdateSink<'a> {
    followed: &'a mut [RecordedVariable],
    by_slot: &'a mut [u32],
    retired: &'a mut Vec<u32>,
    ended: &'a mut HashSet<u32>,
    displaced: &'a mut HashMap<u32, u32>,
    dirty: &'a mut Vec<u32>,
    /// Number of updates that may still be taken.
    updates_left: usize,
    /// Bytes of values that may still be taken.
    bytes_left: usize,
    epoch: u64,
    /// The current time, in nanoseconds.
    wall: i64,
    /// Number of updates that were lost.
    lost: u64,
    /// Number of rows and events taken.
    taken: usize,
    must_resubscribe: bool,
    ended_items: Vec<EndedItem>,
    /// The latest engine timestamp of any update taken, in nanoseconds.
    newest: i64,
}

impl UpdateSink<'_> {
    #[inline]
    fn take(&mut self, handle: u32, update: &Update) {
        let index = self.by_slot.get(slot_of(handle) as usize).copied();
        let index = index.unwrap_or(NOT_RECORDED);
        let has_handle = |index: u32| {
            let one = self.followed.get(index as usize);
            one.is_some_and(|one| one.handle == handle)
        };
        let index = match has_handle(index) {
            true => index,
            false => match self.displaced.get(&handle) {
                Some(index) => *index,
                None => return,
            },
        };
        let Some(one) = self.followed.get_mut(index as usize) else {
            return;
        };
        if update.sequence <= one.seen {
            return;
        }
        let quality = update.quality;
        let is_not_new =
            quality.has_reason(Reason::Initial) || quality.has_reason(Reason::Retained);
        let was_empty = one.pending.is_empty();
        let mut added = 0;
        if update.sequence != one.seen + 1 && one.settings.every.is_none() {
            let lost = one.add_loss(update.sequence, self.epoch);
            self.lost += lost;
            added += usize::from(lost > 0);
        }
        one.seen = update.sequence;
        self.newest = self.newest.max(update.engine_timestamp.as_nanos());
        // An initial or retained value is not an update of this run.
        if !is_not_new {
            added += usize::from(one.record(update, self.epoch, self.wall));
        }
        if was_empty && added > 0 {
            self.dirty.push(index);
        }
        self.taken += added;
        // Filtered updates count too, because processing them also takes time.
        self.updates_left = self.updates_left.saturating_sub(1);
        self.bytes_left = self
            .bytes_left
            .saturating_sub(update.value.as_slice().len());
    }

    /// Takes a late sample, which never became the value of its variable (B-41).
    #[cold]
    fn take_late(&mut self, handle: u32, update: &Update) {
        let in_slot = self.by_slot.get(slot_of(handle) as usize).copied();
        let displaced = self.displaced.get(&handle).copied();
        // The index of an undeployed variable is not reused while late samples may arrive.
        let retired = self.retired.iter().rev().copied();
        let mut possible = in_slot.into_iter().chain(displaced).chain(retired);
        let has_handle = |index: &u32| {
            let one = self.followed.get(*index as usize);
            one.is_some_and(|one| one.handle == handle)
        };
        let index = possible.find(has_handle);
        let Some((index, one)) =
            index.and_then(|index| Some((index, self.followed.get_mut(index as usize)?)))
        else {
            self.lost += 1;
            return;
        };
        if one.pending.is_empty() {
            self.dirty.push(index);
        }
        one.record(update, self.epoch, self.wall);
        self.newest = self.newest.max(update.engine_timestamp.as_nanos());
        self.taken += 1;
        self.updates_left = self.updates_left.saturating_sub(1);
        self.bytes_left = self
            .bytes_left
            .saturating_sub(update.value.as_slice().len());
    }
}

impl RecordedVariable {
    /// Adds an update to the pending rows. Returns false if the deadband filters it out.
    #[inline]
    fn record(&mut self, update: &Update, epoch: u64, wall: i64) -> bool {
        let (source, engine) = (update.source_timestamp, update.engine_timestamp);
        let engine = if engine.is_plausible() {
            engine.as_nanos()
        } else {
            wall
        };
        let is_set = update.quality.clock_sync() != ClockSync::Unset && source.is_plausible();
        let (time, delay) = match is_set {
            true => (source.as_nanos(), engine - source.as_nanos()),
            false => (engine, 0),
        };
        // The source's clock may be ahead, so limit the time to the engine's.
        self.last_time = self.last_time.max(time.min(engine));
        let mut row = Row {
            key: RowKey {
                time,
                epoch,
                sequence: update.sequence,
            },
            delay,
            quality: update.quality,
            value: update.value.as_slice(),
        };
        let (f64_bytes, f32_bytes);
        match self.storage {
            Storage::Number | Storage::Integer if self.is_filtered => {
                let data_type = &self.definition.data_type;
                let mut word_bytes = [0; 8];
                if let Some(place) = word_bytes.get_mut(..row.value.len()) {
                    place.copy_from_slice(row.value);
                }
                let number = number_of(u64::from_le_bytes(word_bytes), data_type);
                let number = self.rounded(number);
                // The deadband does not apply to a late sample, because its predecessor is unknown here.
                if !row.key.is_late() && self.is_within_deadband(number, update.quality.to_bits()) {
                    return false;
                }
                // The rounded number replaces the value only for floating-point types.
                match self.definition.data_type {
                    DataType::F64 => {
                        f64_bytes = number.to_le_bytes();
                        row.value = &f64_bytes;
                    }
                    DataType::F32 => {
                        f32_bytes = (number as f32).to_le_bytes();
                        row.value = &f32_bytes;
                    }
                    _ => {}
                }
            }
            // An array that is too large is recorded as an empty value, which no array encodes to.
            Storage::Array if row.value.len() > self.settings.array_bytes_max => row.value = &[],
            Storage::Number
            | Storage::Integer
            | Storage::Enum
            | Storage::Text
            | Storage::Bytes
            | Storage::Struct
            | Storage::Array => {}
        }
        self.pending.push(&row);
        true
    }
}

impl Sink for UpdateSink<'_> {
    fn wants(&self) -> bool {
        self.updates_left > 0 && self.bytes_left > 0
    }

    fn deliver(&mut self, delivery: &Delivery<'_>) {
        if delivery.update.sequence > 0 {
            self.take(delivery.variable.handle(), delivery.update);
        }
    }

    fn deliver_all(&mut self, _: u32, updates: &mut dyn Iterator<Item = (u32, &Update)>) {
        while self.wants() {
            let Some((handle, update)) = updates.next() else {
                return;
            };
            self.take(handle, update);
        }
    }

    fn overrun(&mut self, _subscription: u32, items: &[EndedItem]) {
        self.must_resubscribe = true;
        self.ended_items.extend_from_slice(items);
    }

    fn gone(&mut self, _subscription: u32, handle: u32) {
        self.end(handle, 0);
    }
}

impl UpdateSink<'_> {
    /// Records that a variable was undeployed. `last` is the sequence number of its last update, or 0 if no
    /// update can be missing.
    fn end(&mut self, handle: u32, last: u64) {
        let slot = slot_of(handle) as usize;
        let in_slot = self.by_slot.get(slot).copied().unwrap_or(NOT_RECORDED);
        let has_handle = |one: &&mut RecordedVariable| one.handle == handle;
        let index = match self.followed.get_mut(in_slot as usize).filter(has_handle) {
            Some(_) => {
                if let Some(place) = self.by_slot.get_mut(slot) {
                    *place = NOT_RECORDED;
                }
                in_slot
            }
            None => match self.displaced.remove(&handle) {
                Some(index) => index,
                None => return,
            },
        };
        let Some(one) = self.followed.get_mut(index as usize) else {
            return;
        };
        if one.pending.is_empty() {
            self.dirty.push(index);
        }
        if last > one.seen && one.settings.every.is_none() {
            self.lost += one.add_loss(last + 1, self.epoch);
            self.taken += 1;
        }
        one.pending.push_event(HistoryEventRow {
            key: RowKey {
                time: self.wall.max(one.last_time),
                epoch: self.epoch,
                sequence: RETIRED,
            },
            event: HistoryEvent::Retired,
        });
        self.ended.insert(one.series);
        self.taken += 1;
        self.retired.push(index);
    }
}
