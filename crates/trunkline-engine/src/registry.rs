//! Names to handles, and handles to variables.
//!
//! ```text
//! handle   bits 31..21  generation: how many variables had the slot before
//!          bits 20..0   slot
//! ```
//!
//! The slot of a variable that is gone is used again with the next generation, so a handle names
//! one variable for as long as the engine runs. A slot whose generations are used up is retired.
//!
//! Slots live in chunks that are allocated once and never move. Each slot has a lock that is held
//! for as long as it takes to clone a reference. The name index is behind a lock that only opening,
//! deploying and browsing take.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::BuildHasher;

use hashbrown::HashTable;
pub use trunkline_types::definition::VARIABLES_MAX;
use trunkline_types::definition::{HANDLE_SLOT_BITS, slot_of};

use crate::sync::{Arc, HashSeed, Mutex, OnceLock, RwLock, RwLockWriteGuard};
use crate::variable::Variable;

const CHUNK: usize = 4096;
const CHUNKS: usize = 512;
const _: () = assert!(CHUNK * CHUNKS == VARIABLES_MAX);

type Slot = Mutex<Option<Arc<Variable>>>;
type Chunk = Box<[Slot]>;

/// The bits of a handle that are its slot.
pub(crate) const SLOT: u32 = (1 << HANDLE_SLOT_BITS) - 1;
const _: () = assert!(VARIABLES_MAX == SLOT as usize + 1);

/// The last generation of a slot. The one above is left out, so that no handle is `u32::MAX`, which
/// clients send where they have none.
const GENERATION_LAST: u32 = (1 << (u32::BITS - HANDLE_SLOT_BITS)) - 2;

/// The handle of the next variable in the same slot; `None` when the slot is to be retired.
const fn next_handle(handle: u32) -> Option<u32> {
    match handle >> HANDLE_SLOT_BITS < GENERATION_LAST {
        true => Some(handle + (1 << HANDLE_SLOT_BITS)),
        false => None,
    }
}

pub(crate) struct Registry {
    chunks: Box<[OnceLock<Chunk>]>,
    names: RwLock<Names>,
    /// Handles by register number.
    numbers: RwLock<BTreeMap<u32, u32>>,
    hash: HashSeed,
}

#[derive(Default)]
struct Names {
    /// Slots.
    index: HashTable<u32>,
    /// The lowest slot that was never used; slot 0 never is, so that 0 is no handle.
    next: u32,
    /// Handles for the slots that are free again, the one that is free for longest first.
    free: VecDeque<u32>,
    /// Slots whose generations are used up.
    retired: u32,
    /// Slots that are kept for the variables of a library that is being deployed.
    promised: usize,
    log: Log,
}

/// What came and went, the newest last: for those that follow patterns.
#[derive(Default)]
struct Log {
    entries: VecDeque<LogEntry>,
    /// Number of the oldest entry that is kept.
    first: u64,
    /// Whether anybody follows patterns.
    is_kept: bool,
}

/// A variable came, or went.
#[derive(Clone)]
pub(crate) struct LogEntry {
    pub(crate) variable: Arc<Variable>,
    pub(crate) is_gone: bool,
}

/// Entries of the log that are kept however few variables there are; beyond, as many as twice the
/// variables. A watch that is further behind lists the names again, which is no more work.
const LOG_MIN: usize = 16_384;

impl Log {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn push(&mut self, variable: &Arc<Variable>, is_gone: bool, live: usize) {
        if !self.is_kept {
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

/// Slots in use, and how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotCounts {
    /// Slots of variables and of open fields.
    pub used: u64,
    /// Slots whose generations are used up.
    pub retired: u64,
    /// All there are; slot 0 is never used.
    pub max: u64,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            names: RwLock::new(Names {
                next: 1,
                ..Names::default()
            }),
            numbers: RwLock::new(BTreeMap::new()),
            hash: HashSeed::default(),
        }
    }

    fn slot(&self, slot: u32) -> Option<&Slot> {
        let slot = slot as usize;
        self.chunks.get(slot / CHUNK)?.get()?.get(slot % CHUNK)
    }

    /// The variable that has this slot now.
    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<Arc<Variable>> {
        self.slot(slot)?.lock().clone()
    }

    /// The variable with this handle, unless it is gone.
    #[inline]
    pub(crate) fn get(&self, handle: u32) -> Option<Arc<Variable>> {
        let variable = self.slot(slot_of(handle))?.lock();
        #[cfg(feature = "planted")]
        if trunkline_types::planted::is(trunkline_types::planted::Bug::GenerationIgnored) {
            return variable.clone();
        }
        match &*variable {
            Some(variable) if variable.handle() == handle => Some(Arc::clone(variable)),
            _ => None,
        }
    }

    /// Whether the handle may have been given out, to a variable that is gone.
    pub(crate) fn was_given(&self, handle: u32) -> bool {
        let slot = slot_of(handle);
        slot > 0 && slot < self.end()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Variable>> {
        let hash = self.hash.hash_one(name);
        let names = self.names.read();
        let slot = *names.index.find(hash, |slot| self.is_named(*slot, name))?;
        self.at(slot)
    }

    /// The variable that has this register number.
    pub(crate) fn numbered(&self, number: u32) -> Option<Arc<Variable>> {
        let handle = *self.numbers.read().get(&number)?;
        self.get(handle)
    }

    /// The register numbers of the variables `before` are free, those of the variables `now` taken;
    /// some are among both.
    pub(crate) fn renumber(&self, before: &[u32], now: &[u32]) {
        let mut numbers = self.numbers.write();
        let is_plain = |handle: &u32| {
            self.get(*handle)
                .is_none_or(|v| v.properties().number.is_none())
        };
        if numbers.is_empty() && now.iter().all(is_plain) {
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

    /// One past the highest slot that was ever used.
    pub(crate) fn end(&self) -> u32 {
        self.names.read().next
    }

    /// How many variables came and went so far, and one past the highest slot: one moment.
    pub(crate) fn mark(&self) -> (u64, u32) {
        let names = self.names.read();
        (names.log.end(), names.next)
    }

    /// From now on what comes and goes is kept for those that follow patterns, or no longer.
    pub(crate) fn keep_log(&self, is_kept: bool) {
        let dropped = {
            let log = &mut self.names.write().log;
            log.is_kept = is_kept;
            match is_kept {
                true => VecDeque::new(),
                false => {
                    log.first = log.end();
                    std::mem::take(&mut log.entries)
                }
            }
        };
        drop(dropped);
    }

    /// At most `most` entries of the log from number `from` on; `None` when some of them are not
    /// kept any more.
    pub(crate) fn log_from(&self, from: u64, most: usize) -> Option<Vec<LogEntry>> {
        let names = self.names.read();
        let skipped = usize::try_from(from.checked_sub(names.log.first)?).ok()?;
        let entries = names.log.entries.iter().skip(skipped).take(most);
        Some(entries.cloned().collect())
    }

    /// How many more variables fit.
    pub(crate) fn room(&self) -> usize {
        self.names.read().room()
    }

    /// Keeps slots for variables that are about to be [inserted](Self::insert_promised), so that
    /// nobody else takes them meanwhile. Fails with the room that there is.
    pub(crate) fn promise(&self, count: usize) -> Result<(), usize> {
        let mut names = self.names.write();
        let room = names.room();
        if count > room {
            return Err(room);
        }
        names.promised += count;
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

    /// Makes place in the index for so many more names at once: to grow it step by step is to hash
    /// every name again at each step, in an order in which none of them is near the one before.
    pub(crate) fn reserve(&self, count: usize) {
        let mut names = self.names.write();
        names.index.reserve(count, |slot| self.hash_of(*slot));
    }

    /// Adds a variable made for the next handle and its number in the log, in a slot that was
    /// [promised](Self::promise). The caller has checked the name; `make` does not look for names.
    pub(crate) fn insert_promised(
        &self,
        make: impl FnOnce(u32, u64) -> Variable,
    ) -> Option<Arc<Variable>> {
        let mut names = self.names.write();
        names.promised = names.promised.saturating_sub(1);
        self.insert_into(names, make)
    }

    /// The same in a slot that was promised to nobody; `None`: there is none.
    pub(crate) fn insert(&self, make: impl FnOnce(u32, u64) -> Variable) -> Option<Arc<Variable>> {
        let names = self.names.write();
        match names.room() {
            0 => None,
            _ => self.insert_into(names, make),
        }
    }

    fn insert_into(
        &self,
        mut names: RwLockWriteGuard<'_, Names>,
        make: impl FnOnce(u32, u64) -> Variable,
    ) -> Option<Arc<Variable>> {
        let handle = match names.free.pop_front() {
            Some(handle) => handle,
            None => {
                let slot = names.next;
                let chunk = self.chunks.get(slot as usize / CHUNK)?;
                chunk.get_or_init(|| (0..CHUNK).map(|_| Mutex::default()).collect());
                names.next += 1;
                slot
            }
        };
        let slot = slot_of(handle);
        let variable = Arc::new(make(handle, names.log.end()));
        let hash = self.hash.hash_one(variable.name());
        *self.slot(slot)?.lock() = Some(Arc::clone(&variable));
        (names.index).insert_unique(hash, slot, |slot| self.hash_of(*slot));
        let live = names.live();
        if !variable.name().contains('#') {
            names.log.push(&variable, false, live);
        }
        Some(variable)
    }

    /// Takes a name out of the index. The handle stays the variable's until it is
    /// [released](Self::release).
    pub(crate) fn remove(&self, variable: &Variable) {
        let slot = slot_of(variable.handle());
        let hash = self.hash.hash_one(variable.name());
        let mut names = self.names.write();
        if let Ok(entry) = names.index.find_entry(hash, |known| *known == slot) {
            entry.remove();
        }
    }

    /// A variable that was removed says of itself that it is gone: its slot is free for another
    /// one, and its memory as soon as nobody has a reference to it.
    pub(crate) fn release(&self, variable: &Arc<Variable>) {
        let handle = variable.handle();
        let mut names = self.names.write();
        let taken = self.slot(slot_of(handle)).and_then(|slot| {
            let mut slot = slot.lock();
            slot.take_if(|known| Arc::ptr_eq(known, variable))
        });
        if taken.is_none() {
            return;
        }
        names.free(handle);
        let live = names.live();
        if !variable.name().contains('#') {
            names.log.push(variable, true, live);
        }
    }

    /// Takes a variable out, name and slot, if nobody has more than `references` to it. Nobody gets
    /// a further one meanwhile.
    pub(crate) fn take_unused(&self, variable: &Arc<Variable>, references: usize) -> bool {
        let handle = variable.handle();
        let hash = self.hash.hash_one(variable.name());
        let mut names = self.names.write();
        let Some(mut slot) = self.slot(slot_of(handle)).map(|slot| slot.lock()) else {
            return false;
        };
        if Arc::strong_count(variable) > references {
            return false;
        }
        let Some(taken) = slot.take_if(|known| Arc::ptr_eq(known, variable)) else {
            return false;
        };
        drop((slot, taken));
        let is_it = |known: &u32| *known == slot_of(handle);
        if let Ok(entry) = names.index.find_entry(hash, is_it) {
            entry.remove();
        }
        names.free(handle);
        true
    }

    fn is_named(&self, slot: u32, name: &str) -> bool {
        let Some(slot) = self.slot(slot) else {
            return false;
        };
        slot.lock().as_ref().is_some_and(|one| one.name() == name)
    }

    fn hash_of(&self, slot: u32) -> u64 {
        let slot = self.slot(slot).map(|slot| slot.lock());
        let variable = slot.as_ref().and_then(|slot| slot.as_ref());
        variable.map_or(0, |variable| self.hash.hash_one(variable.name()))
    }
}

impl Names {
    /// The slot of a variable that is gone.
    fn free(&mut self, handle: u32) {
        match next_handle(handle) {
            Some(next) => self.free.push_back(next),
            None => self.retired += 1,
        }
    }

    /// Slots that are free and promised to nobody.
    fn room(&self) -> usize {
        let free = VARIABLES_MAX.saturating_sub(self.next as usize) + self.free.len();
        free.saturating_sub(self.promised)
    }

    /// Variables and fields that have a slot.
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
    fn a_handle_is_never_that_of_no_variable_and_ends_with_its_slot() {
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
    fn slots_that_are_promised_are_for_nobody_else() {
        let sut = Registry::new();
        let all = VARIABLES_MAX - 1;
        assert_eq!(sut.room(), all);
        assert_eq!(sut.promise(all - 10), Ok(()));
        assert_eq!(sut.room(), 10);
        assert_eq!(sut.promise(11), Err(10));
        assert_eq!(sut.promise(10), Ok(()));
        assert_eq!((sut.room(), sut.promise(1)), (0, Err(0)));
        let inserted = sut.insert(|_, _| unreachable!("there is no slot for it"));
        assert!(inserted.is_none());
    }
}
