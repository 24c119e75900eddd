//! Takes updates from the engine, and commits them to the log.
//!
//! The recorder is an ordinary subscriber: under `all` for variables of which every update is
//! recorded, under `sampled` for the others. The sequence numbers reveal missing updates, so every
//! loss is recorded as an event.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use trunkline_engine::{
    Caller, Consumer, Delivery, Engine, Sink, Subscribe, Update, Variable, Wakes,
};
use trunkline_types::contract::BUFFER_ELEMENTS_MAX;
use trunkline_types::definition::slot_of;
use trunkline_types::history::{
    HistoryEvent, HistoryMark, HistoryRule, HistorySettings, Row, RowKey, Rows,
};
use trunkline_types::ledger::EndedItem;
use trunkline_types::{ClockSync, Contract, DataType, Moment, Reason, Scope, Tick, Timestamp};

use crate::catalogue::{ADDED, ENGINE_SERIES, RETIRED, STOPPED, Series, SpoolEnd};
use crate::error::Error;
use crate::files::schema::{Storage, number_of};
use crate::log::{Log, LogEnd};
use crate::rules::settings_of;

/// The subscription for variables of which every update is recorded. Those for the others follow it.
const EVERY_UPDATE: u32 = 1;
/// Updates, and bytes of values, that may wait in the engine for the recorder. Beyond this, the engine
/// ends the subscription.
const WAITING: Contract = Contract::All {
    elements: BUFFER_ELEMENTS_MAX,
    bytes: 256 << 20,
};
/// Number of rows after which no more updates are taken before a commit.
const COMMIT_ROWS: usize = 256 << 10;
/// Bytes of values after which no more updates are taken before a commit.
const COMMIT_BYTES: usize = 64 << 20;
/// Marks a slot without a recorded variable.
const NOT_FOLLOWED: u32 = u32::MAX;

/// A variable that is recorded. The fields that each update uses come first, in as few cache lines
/// as possible.
#[derive(Debug)]
#[repr(C, align(64))]
struct Followed {
    handle: u32,
    storage: Storage,
    /// True if the settings have a deadband or a resolution.
    is_filtered: bool,
    /// Sequence number of the newest update taken, recorded or not.
    seen: u64,
    last_time: i64,
    /// Rows that are not committed yet.
    pending: Rows,
    series: u32,
    definition: Series,
    settings: HistorySettings,
    /// Numbers within this distance of the last recorded number are not recorded.
    band: f64,
    last: Option<(f64, u32)>,
}

pub(crate) struct Recorder {
    engine: Engine,
    consumer: Consumer,
    rules: Vec<HistoryRule>,
    followed: Vec<Followed>,
    /// Free indices in `followed`.
    free: Vec<u32>,
    /// Indices that become free once their pending rows are committed.
    retired: Vec<u32>,
    /// Number of indices at the start of `retired` for which no late sample is waiting.
    reusable: usize,
    /// Index in `followed`, by slot.
    by_slot: Vec<u32>,
    /// Series of undeployed variables.
    ended: HashSet<u32>,
    /// Index in `followed`, by handle, of variables that another one has replaced in their slot, until
    /// their last updates are taken.
    displaced: HashMap<u32, u32>,
    /// Subscriptions for variables that are recorded at most once per period.
    periods: BTreeMap<Duration, u32>,
    /// Indices in `followed` of variables with pending rows.
    dirty: Vec<u32>,
    /// Number of pending rows and events, and bytes of their values.
    waiting: usize,
    waiting_bytes: usize,
    /// Events of the history itself that are not committed yet.
    of_engine: Rows,
    /// The latest engine timestamp taken.
    newest: i64,
    /// True if the `all` subscription has ended and must be made again.
    has_ended: bool,
    log: Log,
    is_closed: bool,
    pub(crate) recorded: u64,
    pub(crate) lost: u64,
}

impl Recorder {
    pub(crate) fn new(
        engine: Engine,
        consumer: Consumer,
        rules: Vec<HistoryRule>,
        log: Log,
        of_engine: Rows,
    ) -> Self {
        let waiting = of_engine.marks().len();
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
            waiting,
            waiting_bytes: 0,
            of_engine,
            newest: i64::MIN,
            has_ended: false,
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
        self.is_closed || (self.waiting == 0 && !self.has_ended && self.consumer.is_at_rest())
    }

    /// Starts or ends the recording of these variables. `series` lists all series; new ones are added
    /// after `enter` has entered them in the catalogue.
    pub(crate) fn follow(
        &mut self,
        handles: &[u32],
        wall: Timestamp,
        enter: EnterSeries<'_>,
        series: &mut Vec<Series>,
    ) -> Result<(), Error> {
        // Earlier updates are recorded first, including those of variables that are being replaced.
        while self.has_room() && self.take(wall) {}
        let variables = handles
            .iter()
            .filter_map(|handle| self.engine.variable(*handle));
        let variables: Vec<Arc<Variable>> = variables.collect();
        let wanted = variables.iter().filter_map(|variable| {
            let settings = settings_of(&self.rules, variable.name())?;
            // Other processes may read the history; other scopes are private to this process.
            let is_shared = variable.properties().scope == Scope::Network;
            is_shared.then(|| (Arc::clone(variable), settings))
        });
        let wanted: Vec<(Arc<Variable>, HistorySettings)> = wanted.collect();
        let ids = ids_of(&wanted, enter, series)?;
        for ((variable, settings), (id, is_new)) in wanted.into_iter().zip(ids) {
            let begins = is_new || self.ended.remove(&id);
            self.add(&variable, settings, id, begins, wall);
        }
        Ok(())
    }

    /// `begins` is true if the series has no rows yet, or ended before.
    fn add(
        &mut self,
        variable: &Arc<Variable>,
        settings: HistorySettings,
        id: u32,
        begins: bool,
        wall: Timestamp,
    ) {
        let handle = variable.handle();
        let slot = slot_of(handle) as usize;
        let index = self.by_slot.get(slot).copied().unwrap_or(NOT_FOLLOWED);
        let properties = variable.properties();
        let width = properties.range.map_or(100.0, |(low, high)| high - low);
        let band = settings.deadband_percent / 100.0 * width;
        if let Some(known) = self.followed.get_mut(index as usize) {
            if known.handle == handle && known.series == id {
                // The range may have changed.
                known.set_band(band);
                return;
            }
            if known.handle != handle {
                self.displaced.insert(known.handle, index);
            }
        }
        let (subscription, contract) = match settings.every {
            None => (EVERY_UPDATE, WAITING),
            Some(period) => {
                let next = EVERY_UPDATE + 1 + self.periods.len() as u32;
                let subscription = *self.periods.entry(period).or_insert(next);
                (subscription, Contract::Sampled(period))
            }
        };
        let wanted = Subscribe::new(subscription, contract);
        if self
            .consumer
            .subscribe(&Caller::engine(), variable, wanted)
            .is_err()
        {
            // A variable that is write-only, or gone already, cannot be recorded.
            return;
        }
        self.consumer.keep_late(variable);
        let storage = Storage::of(variable.data_type());
        let fixed = variable.data_type().fixed_size();
        let mut followed = Followed {
            handle,
            storage,
            is_filtered: false,
            seen: 0,
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
            band,
            last: None,
        };
        followed.set_band(band);
        if begins {
            followed.pending.push_mark(HistoryMark {
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
            self.by_slot.resize(slot + 1, NOT_FOLLOWED);
        }
        if let Some(place) = self.by_slot.get_mut(slot) {
            *place = index;
        }
        if begins {
            self.dirty.push(index);
            self.waiting += 1;
        }
    }

    /// Takes what happened and commits it. Calls `committed` with the rows of each series, and
    /// returns the time of the next call.
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
        if self.has_room() {
            next = self.consumer.poll(moment.now);
            if self.take(moment.wall) {
                next = Some(moment.now);
            }
        }
        self.commit(moment.wall, false, committed)?;
        Ok(next)
    }

    /// Returns true if more may be taken before the next commit.
    fn has_room(&self) -> bool {
        self.waiting < COMMIT_ROWS && self.waiting_bytes < COMMIT_BYTES
    }

    /// Takes updates from the engine. Returns true if there are more.
    fn take(&mut self, wall: Timestamp) -> bool {
        if std::mem::take(&mut self.has_ended) {
            self.subscribe_again();
        }
        let mut wakes = Wakes::new();
        let mut taking = Taking {
            followed: &mut self.followed,
            by_slot: &mut self.by_slot,
            retired: &mut self.retired,
            ended: &mut self.ended,
            displaced: &mut self.displaced,
            dirty: &mut self.dirty,
            room: COMMIT_ROWS.saturating_sub(self.waiting),
            bytes: COMMIT_BYTES.saturating_sub(self.waiting_bytes),
            epoch: self.engine.epoch(),
            wall: wall.as_nanos(),
            lost: 0,
            taken: 0,
            has_ended: false,
            ended_items: Vec::new(),
            newest: i64::MIN,
        };
        let mut more = self.consumer.drain(&mut taking, &mut wakes);
        // Once the updates of an undeployed variable are drained, it has no further late samples.
        while taking.wants() {
            match self.consumer.take_late() {
                Some((handle, update)) => taking.take_late(handle, &update),
                None => break,
            }
        }
        if self.consumer.has_late() {
            more = true;
        } else {
            // No late sample of these variables can arrive any more.
            self.reusable = taking.retired.len();
        }
        // A variable that no longer exists is not subscribed again.
        for item in std::mem::take(&mut taking.ended_items) {
            if self.engine.variable(item.handle).is_none() {
                taking.end(item.handle, item.last_sequence + item.lost);
            }
        }
        self.newest = self.newest.max(taking.newest);
        let left = taking.bytes;
        let (taken, lost, has_ended) = (taking.taken, taking.lost, taking.has_ended);
        self.waiting_bytes = COMMIT_BYTES.saturating_sub(left);
        self.waiting += taken;
        self.lost += lost;
        self.has_ended |= has_ended;
        more || has_ended
    }

    /// Subscribes again after the engine ended the subscription because this recorder fell behind. The
    /// sequence numbers of the first readings show how much is missing.
    fn subscribe_again(&mut self) {
        let caller = Caller::engine();
        for one in &self.followed {
            let Some(variable) = self.engine.variable(one.handle) else {
                continue;
            };
            if one.settings.every.is_none() {
                let wanted = Subscribe::new(EVERY_UPDATE, WAITING);
                let _followed = self.consumer.subscribe(&caller, &variable, wanted);
            }
        }
    }

    fn commit(
        &mut self,
        wall: Timestamp,
        is_stop: bool,
        committed: &mut dyn FnMut(u32, &Rows),
    ) -> Result<(), Error> {
        if self.waiting == 0 && !is_stop {
            return Ok(());
        }
        // Updates may have arrived since the clock was read.
        let wall = Timestamp::from_nanos(wall.as_nanos().max(self.newest));
        let mut commit = self.log.begin();
        if !self.of_engine.is_empty() {
            commit.add(ENGINE_SERIES, &self.of_engine, wall, || None);
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
        if !self.of_engine.is_empty() {
            committed(ENGINE_SERIES, &self.of_engine);
            self.of_engine = Rows::new(None);
        }
        for index in self.dirty.drain(..) {
            if let Some(one) = self.followed.get_mut(index as usize) {
                committed(one.series, &one.pending);
                one.pending.clear();
            }
        }
        let reusable = std::mem::take(&mut self.reusable).min(self.retired.len());
        self.free.extend(self.retired.drain(..reusable));
        self.recorded += self.waiting as u64;
        self.waiting = 0;
        self.waiting_bytes = 0;
        Ok(())
    }

    /// Replaces the log by that of the next segment in the folder, which begins with the time, and with the
    /// end of the log of the spool that it continues.
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

    /// Truncates what a failed commit left in the log, and returns the end of the log.
    pub(crate) fn end_log(&mut self) -> LogEnd {
        self.log.cut();
        self.log.end()
    }

    /// Commits the events of the engine's start.
    pub(crate) fn commit_start(
        &mut self,
        wall: Timestamp,
        committed: &mut dyn FnMut(u32, &Rows),
    ) -> Result<(), Error> {
        self.commit(wall, false, committed)
    }

    /// Records everything up to now, the losses, and the stop of the engine.
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
                let lost = one.note_loss(newest + 1, self.engine.epoch());
                one.seen = newest;
                self.lost += lost;
                self.waiting += 1;
                if !is_dirty {
                    self.dirty.push(index as u32);
                }
            }
        }
        self.of_engine.push_mark(HistoryMark {
            key: RowKey {
                time: wall.as_nanos(),
                epoch: self.engine.epoch(),
                sequence: STOPPED,
            },
            event: HistoryEvent::Stopped,
        });
        self.waiting += 1;
        let stopped = self.commit(wall, true, committed);
        self.is_closed = stopped.is_ok();
        if stopped.is_err() {
            // Without the log's stop flag, the event would be wrong.
            let mut marks = self.of_engine.take_marks();
            marks.retain(|mark| mark.event != HistoryEvent::Stopped);
            for mark in marks {
                self.of_engine.push_mark(mark);
            }
            self.waiting -= 1;
        }
        stopped
    }
}

/// Callback that enters new series in the catalogue.
pub(crate) type EnterSeries<'a> = &'a mut dyn FnMut(&[Series]) -> Result<(), Error>;

/// Returns the ids of the series of these variables, and whether each is new. New series are added to
/// the catalogue and to `series`.
fn ids_of(
    wanted: &[(Arc<Variable>, HistorySettings)],
    enter: EnterSeries<'_>,
    series: &mut Vec<Series>,
) -> Result<Vec<(u32, bool)>, Error> {
    let mut known: HashMap<&str, Vec<(&DataType, u32)>> = HashMap::new();
    for one in series.iter() {
        known
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
    let ids = wanted.iter().map(|(variable, _)| {
        let of_name = known.get(variable.name()).into_iter().flatten();
        let mut same_type = of_name.filter(|(data_type, _)| *data_type == variable.data_type());
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

impl Followed {
    fn set_band(&mut self, band: f64) {
        self.band = band;
        self.is_filtered = band > 0.0 || self.settings.resolution > 0.0;
    }

    /// Records that updates before this sequence number are missing. Returns their number.
    fn note_loss(&mut self, next: u64, epoch: u64) -> u64 {
        let lost = next.saturating_sub(self.seen + 1);
        if lost > 0 {
            self.pending.push_mark(HistoryMark {
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

    /// Returns the number rounded to the resolution.
    fn rounded(&self, number: f64) -> f64 {
        match self.settings.resolution {
            resolution if resolution > 0.0 => (number / resolution).round() * resolution,
            _ => number,
        }
    }

    /// Returns true if the number is within the deadband of the last one; otherwise stores it as the last.
    fn is_withheld(&mut self, number: f64, quality: u32) -> bool {
        let is_near = self.last.is_some_and(|(last, last_quality)| {
            let distance = (number - last).abs();
            last_quality == quality && (distance <= self.band || (number.is_nan() && last.is_nan()))
        });
        if !is_near {
            self.last = Some((number, quality));
        }
        is_near
    }
}

/// The [`Sink`] that receives updates from the engine.
struct Taking<'a> {
    followed: &'a mut [Followed],
    by_slot: &'a mut [u32],
    retired: &'a mut Vec<u32>,
    ended: &'a mut HashSet<u32>,
    displaced: &'a mut HashMap<u32, u32>,
    dirty: &'a mut Vec<u32>,
    /// Updates, and bytes of values, that may still be taken.
    room: usize,
    bytes: usize,
    epoch: u64,
    wall: i64,
    lost: u64,
    /// Number of rows and events taken.
    taken: usize,
    has_ended: bool,
    ended_items: Vec<EndedItem>,
    /// The latest engine timestamp.
    newest: i64,
}

impl Taking<'_> {
    #[inline]
    fn take(&mut self, handle: u32, update: &Update) {
        let index = self.by_slot.get(slot_of(handle) as usize).copied();
        let index = index.unwrap_or(NOT_FOLLOWED);
        let is_its = |index: u32| {
            let one = self.followed.get(index as usize);
            one.is_some_and(|one| one.handle == handle)
        };
        let index = match is_its(index) {
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
        let is_known = quality.has_reason(Reason::Initial) || quality.has_reason(Reason::Retained);
        let was_empty = one.pending.is_empty();
        let mut added = 0;
        if update.sequence != one.seen + 1 && one.settings.every.is_none() {
            let lost = one.note_loss(update.sequence, self.epoch);
            self.lost += lost;
            added += usize::from(lost > 0);
        }
        one.seen = update.sequence;
        self.newest = self.newest.max(update.engine_timestamp.as_nanos());
        // An initial or retained value is not a new update.
        if !is_known {
            added += usize::from(one.record(update, self.epoch, self.wall));
        }
        if was_empty && added > 0 {
            self.dirty.push(index);
        }
        self.taken += added;
        // Filtered updates count too: they also cost time.
        self.room = self.room.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(update.value.as_slice().len());
    }

    /// Takes a sample that never became the value of its variable (B-41).
    #[cold]
    fn take_late(&mut self, handle: u32, update: &Update) {
        let in_slot = self.by_slot.get(slot_of(handle) as usize).copied();
        let displaced = self.displaced.get(&handle).copied();
        // Indices of variables undeployed in the meantime are not reused yet.
        let retired = self.retired.iter().rev().copied();
        let mut possible = in_slot.into_iter().chain(displaced).chain(retired);
        let is_its = |index: &u32| {
            let one = self.followed.get(*index as usize);
            one.is_some_and(|one| one.handle == handle)
        };
        let index = possible.find(is_its);
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
        self.room = self.room.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(update.value.as_slice().len());
    }
}

impl Followed {
    /// Returns true if the update became a row.
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
        let (word, short);
        match self.storage {
            Storage::Number | Storage::Integer if self.is_filtered => {
                let data_type = &self.definition.data_type;
                let mut eight = [0; 8];
                if let Some(place) = eight.get_mut(..row.value.len()) {
                    place.copy_from_slice(row.value);
                }
                let number = number_of(u64::from_le_bytes(eight), data_type);
                let number = self.rounded(number);
                // A late sample is not compared: the sample before it is not known here.
                if !row.key.is_late() && self.is_withheld(number, update.quality.to_bits()) {
                    return false;
                }
                // Integers are stored unrounded: a resolution of 0.01 would not change them.
                match self.definition.data_type {
                    DataType::F64 => {
                        word = number.to_le_bytes();
                        row.value = &word;
                    }
                    DataType::F32 => {
                        short = (number as f32).to_le_bytes();
                        row.value = &short;
                    }
                    _ => {}
                }
            }
            // An array that is too large is recorded empty, which its wire form never is.
            Storage::Array if row.value.len() > self.settings.array_bytes_max => row.value = &[],
            Storage::Number
            | Storage::Integer
            | Storage::Enum
            | Storage::Text
            | Storage::Bytes
            | Storage::Struct
            | Storage::Array => {}
        }
        // A source's clock may be ahead.
        self.last_time = self.last_time.max(time.min(engine));
        self.pending.push(&row);
        true
    }
}

impl Sink for Taking<'_> {
    fn wants(&self) -> bool {
        self.room > 0 && self.bytes > 0
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
        self.has_ended = true;
        self.ended_items.extend_from_slice(items);
    }

    fn gone(&mut self, _subscription: u32, handle: u32) {
        self.end(handle, 0);
    }
}

impl Taking<'_> {
    /// Records that a variable was undeployed. `last` is the sequence number of its last update if
    /// updates may be missing; otherwise 0.
    fn end(&mut self, handle: u32, last: u64) {
        let slot = slot_of(handle) as usize;
        let in_slot = self.by_slot.get(slot).copied().unwrap_or(NOT_FOLLOWED);
        let is_its = |one: &&mut Followed| one.handle == handle;
        let index = match self.followed.get_mut(in_slot as usize).filter(is_its) {
            Some(_) => {
                if let Some(place) = self.by_slot.get_mut(slot) {
                    *place = NOT_FOLLOWED;
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
            self.lost += one.note_loss(last + 1, self.epoch);
            self.taken += 1;
        }
        one.pending.push_mark(HistoryMark {
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
