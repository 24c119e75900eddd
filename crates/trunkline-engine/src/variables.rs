//! Maps names to handles, and handles to variables.
//!
//! ```text
//! handle   bits 31..21  generation: number of variables that used the slot before
//!          bits 20..0   slot
//! ```
//!
//! When a variable is removed, its slot is reused with the next generation, so a handle identifies
//! one variable for as long as the engine runs. A slot that has used all its generations is
//! retired.
//!
//! Slots are stored in a [`SlotTable`]. Requests with many handles look up variables without a lock
//! ([`HandleReader`]); other code takes a counted reference under the lock of the slot. Only
//! opening, deploying and browsing take the lock of the name index.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;

use hashbrown::HashTable;
use trunkline_ring::{Pinned, SlotReader, SlotTable};
pub use trunkline_types::definition::VARIABLES_MAX;
use trunkline_types::definition::{HANDLE_SLOT_BITS, slot_of};

use crate::caller::Caller;
use crate::delivery::outbox::{Outbox, Wakes};
use crate::sync::{Arc, HashSeed, Mutex, RwLock, RwLockWriteGuard, Weak, crossing};
use crate::variable::Variable;

pub(crate) const SLOT: u32 = (1 << HANDLE_SLOT_BITS) - 1;
const _: () = assert!(VARIABLES_MAX == SLOT as usize + 1);

/// The last generation of a slot. The highest one is not used, so that no handle equals `u32::MAX`,
/// which clients send to mean "no handle".
const GENERATION_LAST: u32 = (1 << (u32::BITS - HANDLE_SLOT_BITS)) - 2;

/// Returns the handle of the next variable in the same slot, or `None` if the slot must be retired.
const fn next_handle(handle: u32) -> Option<u32> {
    match handle >> HANDLE_SLOT_BITS < GENERATION_LAST {
        true => Some(handle + (1 << HANDLE_SLOT_BITS)),
        false => None,
    }
}

pub(crate) struct Registry {
    slots: SlotTable<Variable>,
    names: RwLock<Names>,
    numbers: RwLock<BTreeMap<u32, u32>>,
    hash: HashSeed,
    /// Consumers to wake when names appear or disappear.
    watchers: Mutex<Vec<Weak<Outbox>>>,
}

#[derive(Default)]
struct Names {
    index: HashTable<u32>,
    /// The lowest slot that was never used. Slot 0 is never used, so that 0 is not a valid handle.
    next: u32,
    /// The next handles of free slots. The slot that has been free longest comes first.
    free: VecDeque<u32>,
    retired: u32,
    reserved: usize,
    log: NamesLog,
    former: FormerSequences,
}

/// The last sequences of removed variables, by name. If a name is deployed again, its sequences
/// continue, so that epoch and sequence identify an update of a name.
#[derive(Default)]
struct FormerSequences {
    by_name: HashMap<Box<str>, u64>,
    /// The highest sequence that was forgotten.
    highest_forgotten: u64,
}

impl FormerSequences {
    fn add(&mut self, name: &str, sequence: u64) {
        if self.by_name.len() == VARIABLES_MAX {
            let highest = self.by_name.values().copied().max().unwrap_or(0);
            self.highest_forgotten = self.highest_forgotten.max(highest);
            self.by_name = HashMap::new();
        }
        self.by_name.insert(name.into(), sequence);
    }

    fn take(&mut self, name: &str) -> u64 {
        let own = match self.by_name.is_empty() {
            true => None,
            false => self.by_name.remove(name),
        };
        own.unwrap_or(self.highest_forgotten)
    }
}

/// The log of variables added and removed, oldest first, for watches that follow patterns.
#[derive(Default)]
struct NamesLog {
    entries: VecDeque<LogEntry>,
    first: u64,
    /// True while a watch follows patterns. Otherwise entries are only counted.
    is_recording: bool,
}

#[derive(Clone)]
pub(crate) struct LogEntry {
    pub(crate) variable: Arc<Variable>,
    pub(crate) is_gone: bool,
}

/// Minimum capacity of the log. Above it, the capacity is twice the number of variables. A watch
/// that falls further behind lists all names again, which is no more work.
const LOG_MIN: usize = 16_384;

impl NamesLog {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Stops storing entries, and returns the stored ones.
    fn stop(&mut self) -> VecDeque<LogEntry> {
        self.is_recording = false;
        self.first = self.end();
        std::mem::take(&mut self.entries)
    }

    fn push(&mut self, variable: &Arc<Variable>, is_gone: bool, live: usize) {
        if !self.is_recording {
            self.first += 1;
            return;
        }
        self.entries.push_back(LogEntry {
            variable: Arc::clone(variable),
            is_gone,
        });
        while self.entries.len() > LOG_MIN.max(live.saturating_mul(2)) {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotCounts {
    pub used: u64,
    pub retired: u64,
    /// Number of usable slots. Slot 0 is never used, and not counted.
    pub max: u64,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            slots: SlotTable::new(VARIABLES_MAX),
            names: RwLock::new(Names {
                next: 1,
                ..Names::default()
            }),
            numbers: RwLock::new(BTreeMap::new()),
            hash: HashSeed::default(),
            watchers: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<Arc<Variable>> {
        crossing();
        self.slots.get(slot as usize)
    }

    #[inline]
    pub(crate) fn get(&self, handle: u32) -> Option<Arc<Variable>> {
        self.at(slot_of(handle))
            .filter(|variable| is_named_by(variable, handle))
    }

    /// Returns a reader that looks up handles without a lock, for use by one thread at a time.
    pub(crate) fn handles(&self) -> HandleReader {
        HandleReader(Some(self.slots.reader()))
    }

    /// Drops removed variables that no handle can reach any more. The caller must hold no lock of a
    /// variable.
    pub(crate) fn reclaim(&self) {
        while self.slots.reclaim() {}
    }

    /// Returns true if the handle may have belonged to a removed variable.
    pub(crate) fn may_have_existed(&self, handle: u32) -> bool {
        let slot = slot_of(handle);
        slot > 0 && slot < self.end()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Variable>> {
        let hash = self.hash.hash_one(name);
        let names = self.names.read();
        let slot = *names.index.find(hash, |slot| self.is_named(*slot, name))?;
        self.at(slot)
    }

    pub(crate) fn numbered(&self, number: u32) -> Option<Arc<Variable>> {
        let handle = *self.numbers.read().get(&number)?;
        self.get(handle)
    }

    /// Frees the register numbers of the variables `before` and assigns those of the variables
    /// `now`. A variable may be in both lists.
    pub(crate) fn renumber(&self, before: &[u32], now: &[u32]) {
        let mut numbers = self.numbers.write();
        let is_unnumbered = |handle: &u32| {
            self.get(*handle)
                .is_none_or(|v| v.properties().number.is_none())
        };
        if numbers.is_empty() && now.iter().all(is_unnumbered) {
            return;
        }
        let before: HashSet<u32> = before.iter().copied().collect();
        numbers.retain(|_, handle| !before.contains(handle));
        for handle in now {
            if let Some(number) = self.get(*handle).and_then(|v| v.properties().number) {
                numbers.insert(number, *handle);
            }
        }
    }

    /// Returns one past the highest slot that was ever used.
    pub(crate) fn end(&self) -> u32 {
        self.names.read().next
    }

    /// Returns the number of log entries so far, and one past the highest slot, both from the same
    /// moment.
    pub(crate) fn mark(&self) -> (u64, u32) {
        let names = self.names.read();
        (names.log.end(), names.next)
    }

    /// From now on, wakes the consumer when names appear or disappear, and stores log entries.
    pub(crate) fn watch(&self, outbox: &Arc<Outbox>) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| known.strong_count() > 0);
        let own = Arc::downgrade(outbox);
        if !watchers.iter().any(|known| known.ptr_eq(&own)) {
            watchers.push(own);
        }
        self.names.write().log.is_recording = true;
    }

    /// Wakes the consumers that watch names, because some appeared or disappeared. Without such
    /// consumers, the log is discarded.
    pub(crate) fn announce_names(&self, wakes: &mut Wakes) {
        let mut watchers = self.watchers.lock();
        watchers.retain(|outbox| {
            let outbox = outbox.upgrade();
            if let Some(outbox) = &outbox {
                outbox.set_names_changed();
                wakes.add(outbox);
            }
            outbox.is_some()
        });
        if watchers.is_empty() {
            // Dropped after the lock is released.
            let _dropped = self.names.write().log.stop();
        }
    }

    /// Collects in `added` the handles of the variables added by entry `from` or later, as far back
    /// as the log reaches. Returns the number of the next entry.
    pub(crate) fn added_since(&self, from: u64, added: &mut HashSet<u32>) -> u64 {
        let names = self.names.read();
        let log = &names.log;
        let skipped = usize::try_from(from.saturating_sub(log.first)).unwrap_or(usize::MAX);
        let entries = log.entries.iter().skip(skipped);
        added.extend(
            entries
                .filter(|entry| !entry.is_gone)
                .map(|entry| entry.variable.handle()),
        );
        log.end()
    }

    /// Returns at most `count_max` entries of the log, beginning with number `from`, or `None` if
    /// some of them have been discarded.
    pub(crate) fn log_from(&self, from: u64, count_max: usize) -> Option<Vec<LogEntry>> {
        let names = self.names.read();
        let skipped = usize::try_from(from.checked_sub(names.log.first)?).ok()?;
        let entries = names.log.entries.iter().skip(skipped).take(count_max);
        Some(entries.cloned().collect())
    }

    pub(crate) fn room(&self) -> usize {
        self.names.read().room()
    }

    /// Reserves slots for variables that are about to be [inserted](Self::insert_reserved), so that
    /// no other insertion takes them in the meantime. On failure, returns the number of available
    /// slots.
    pub(crate) fn reserve_slots(&self, count: usize) -> Result<(), usize> {
        let mut names = self.names.write();
        let room = names.room();
        if count > room {
            return Err(room);
        }
        names.reserved += count;
        Ok(())
    }

    pub(crate) fn counts(&self) -> SlotCounts {
        let names = self.names.read();
        SlotCounts {
            used: names.live() as u64,
            retired: u64::from(names.retired),
            max: VARIABLES_MAX as u64 - 1,
        }
    }

    /// Reserves space in the index for `count` more names at once. Growing in steps would hash
    /// every name again at each step, in an order without memory locality.
    pub(crate) fn reserve(&self, count: usize) {
        let mut names = self.names.write();
        names.index.reserve(count, |slot| self.hash_of(*slot));
    }

    /// Adds a variable made for the next handle, in a slot that was [reserved](Self::reserve_slots). The
    /// caller has checked the name. `make` must not look up names, because the index is locked.
    pub(crate) fn insert_reserved(
        &self,
        make: impl FnOnce(u32) -> Variable,
    ) -> Option<Arc<Variable>> {
        let mut names = self.names.write();
        names.reserved = names.reserved.saturating_sub(1);
        self.insert_into(names, make)
    }

    /// Adds a variable in a slot that is not reserved. Returns `None` if no slot is free.
    pub(crate) fn insert(&self, make: impl FnOnce(u32) -> Variable) -> Option<Arc<Variable>> {
        let names = self.names.write();
        match names.room() {
            0 => None,
            _ => self.insert_into(names, make),
        }
    }

    fn insert_into(
        &self,
        mut names: RwLockWriteGuard<'_, Names>,
        make: impl FnOnce(u32) -> Variable,
    ) -> Option<Arc<Variable>> {
        let handle = match names.free.pop_front() {
            Some(handle) => handle,
            None if names.next as usize == VARIABLES_MAX => return None,
            None => {
                names.next += 1;
                names.next - 1
            }
        };
        let slot = slot_of(handle);
        let variable = Arc::new(make(handle));
        let hash = self.hash.hash_one(variable.name());
        if !self.slots.set(slot as usize, Arc::clone(&variable)) {
            return None;
        }
        (names.index).insert_unique(hash, slot, |slot| self.hash_of(*slot));
        let live = names.live();
        if !variable.name().contains('#') {
            names.log.push(&variable, false, live);
        }
        Some(variable)
    }

    /// Removes a name from the index. The handle belongs to the variable until it is
    /// [released](Self::release).
    pub(crate) fn remove(&self, variable: &Variable) {
        let slot = slot_of(variable.handle());
        let hash = self.hash.hash_one(variable.name());
        let mut names = self.names.write();
        if let Ok(entry) = names.index.find_entry(hash, |known| *known == slot) {
            entry.remove();
        }
    }

    /// Returns the last sequence of the removed variable with this name, and forgets it; 0 if there is
    /// none.
    pub(crate) fn take_former_sequence(&self, name: &str) -> u64 {
        self.names.write().former.take(name)
    }

    /// Frees the slot of a removed variable that is already marked as gone. Its memory is freed
    /// with the last reference to the variable.
    pub(crate) fn release(&self, variable: &Arc<Variable>) {
        let handle = variable.handle();
        let mut names = self.names.write();
        let slot = slot_of(handle) as usize;
        if !(self.slots).remove_if(slot, |known| Arc::ptr_eq(known, variable)) {
            return;
        }
        names.free(handle);
        let live = names.live();
        if !variable.name().contains('#') {
            names.log.push(variable, true, live);
            let last = variable.highest_sequence();
            if last > 0 {
                names.former.add(variable.name(), last);
            }
        }
    }

    /// Removes a variable's name and slot if there are at most `references` references to it. No
    /// other thread can take a reference in the meantime.
    pub(crate) fn take_unused(&self, variable: &Arc<Variable>, references: usize) -> bool {
        let handle = variable.handle();
        let hash = self.hash.hash_one(variable.name());
        let mut names = self.names.write();
        let is_unused = |known: &Arc<Variable>| {
            Arc::ptr_eq(known, variable) && Arc::strong_count(known) <= references
        };
        if !self.slots.remove_if(slot_of(handle) as usize, is_unused) {
            return false;
        }
        let is_match = |known: &u32| *known == slot_of(handle);
        if let Ok(entry) = names.index.find_entry(hash, is_match) {
            entry.remove();
        }
        names.free(handle);
        true
    }

    fn is_named(&self, slot: u32, name: &str) -> bool {
        let is_match = |variable: &Arc<Variable>| variable.name() == name;
        self.slots
            .with(slot as usize, |known| known.is_some_and(is_match))
    }

    fn hash_of(&self, slot: u32) -> u64 {
        let hash = |variable: &Arc<Variable>| self.hash.hash_one(variable.name());
        self.slots
            .with(slot as usize, |known| known.map_or(0, hash))
    }
}

/// Returns true if the handle belongs to this variable, not to an earlier one in its slot.
#[inline]
fn is_named_by(variable: &Variable, handle: u32) -> bool {
    variable.handle() == handle
}

/// Looks up many handles for one thread, without locks and without counting references. The default
/// value cannot look up any handle.
#[derive(Debug, Default)]
pub struct HandleReader(Option<SlotReader<Variable>>);

impl HandleReader {
    /// Begins to look up handles. Variables that are removed in the meantime stay in memory until
    /// the result is dropped. Drop the result soon, at the end of a request or of a slice of a
    /// request.
    ///
    /// No lock of the engine may be held when the result is dropped.
    #[inline]
    pub fn follow(&mut self) -> FollowedHandles<'_> {
        debug_assert!(self.0.is_some(), "the reader is already in use");
        crossing();
        FollowedHandles(self.0.as_mut().map(SlotReader::pin))
    }
}

/// Access to variables by their handles, through a [`HandleReader`].
#[derive(Debug)]
pub struct FollowedHandles<'h>(Option<Pinned<'h, Variable>>);

impl FollowedHandles<'_> {
    #[inline]
    pub fn variable(&self, handle: u32) -> Option<&Variable> {
        let variable = self.0.as_ref()?.get(slot_of(handle) as usize)?;
        is_named_by(variable, handle).then_some(variable)
    }

    #[inline]
    pub fn visible(&self, caller: &Caller, handle: u32) -> Option<&Variable> {
        self.variable(handle)
            .filter(|variable| variable.is_visible_to(caller))
    }
}

impl Names {
    fn free(&mut self, handle: u32) {
        match next_handle(handle) {
            Some(next) => self.free.push_back(next),
            None => self.retired += 1,
        }
    }

    fn room(&self) -> usize {
        let free = VARIABLES_MAX.saturating_sub(self.next as usize) + self.free.len();
        free.saturating_sub(self.reserved)
    }

    fn live(&self) -> usize {
        let ended = self.free.len() + self.retired as usize;
        (self.next as usize - 1).saturating_sub(ended)
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn handle_is_never_null_and_expires_with_its_slot() {
        let mut handle = SLOT;
        let mut count = 1_u64;
        while let Some(next) = next_handle(handle) {
            assert_eq!(slot_of(next), SLOT);
            assert!(next > handle && next != u32::MAX);
            handle = next;
            count += 1;
        }
        assert_eq!(count, 2047);
    }

    #[test]
    fn reserved_slots_are_not_given_to_others() {
        let sut = Registry::new();
        let all = VARIABLES_MAX - 1;
        assert_eq!(sut.room(), all);
        assert_eq!(sut.reserve_slots(all - 10), Ok(()));
        assert_eq!(sut.room(), 10);
        assert_eq!(sut.reserve_slots(11), Err(10));
        assert_eq!(sut.reserve_slots(10), Ok(()));
        assert_eq!((sut.room(), sut.reserve_slots(1)), (0, Err(0)));
        let inserted = sut.insert(|_| unreachable!("there is no slot for it"));
        assert!(inserted.is_none());
    }
}
