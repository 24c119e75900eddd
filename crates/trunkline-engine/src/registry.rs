//! Names to handles, and handles to variables.
//!
//! Slots live in chunks that are allocated once and never move, so a handle is followed without a
//! lock. The name index is behind a lock that only opening, deploying and browsing take.

use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;

use hashbrown::HashTable;
pub use trunkline_types::definition::VARIABLES_MAX;

use crate::sync::{Arc, HashSeed, OnceLock, RwLock};
use crate::variable::Variable;

const CHUNK: usize = 4096;
const CHUNKS: usize = 512;
const _: () = assert!(CHUNK * CHUNKS == VARIABLES_MAX);

type Chunk = Box<[OnceLock<Arc<Variable>>]>;

pub(crate) struct Registry {
    chunks: Box<[OnceLock<Chunk>]>,
    names: RwLock<Names>,
    /// Slots by register number.
    numbers: RwLock<BTreeMap<u32, u32>>,
    hash: HashSeed,
}

#[derive(Default)]
pub(crate) struct Names {
    index: HashTable<u32>,
    /// The next free slot; slot 0 is never used, so that 0 is no handle.
    pub(crate) next: u32,
    /// The handles of undeployed variables, in the order in which they went; each has spent a slot,
    /// so there are at most [`VARIABLES_MAX`].
    gone: Vec<u32>,
}

/// How far the registry has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mark {
    /// One past the highest handle given out.
    pub(crate) end: u32,
    /// How many variables went.
    pub(crate) gone: usize,
}

impl Mark {
    /// How many names have come and gone.
    pub(crate) fn revision(self) -> u64 {
        u64::from(self.end).saturating_sub(1) + self.gone as u64
    }
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            names: RwLock::new(Names {
                index: HashTable::new(),
                next: 1,
                gone: Vec::new(),
            }),
            numbers: RwLock::new(BTreeMap::new()),
            hash: HashSeed::default(),
        }
    }

    pub(crate) fn get(&self, handle: u32) -> Option<&Arc<Variable>> {
        let handle = handle as usize;
        self.chunks
            .get(handle / CHUNK)?
            .get()?
            .get(handle % CHUNK)?
            .get()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Variable>> {
        let hash = self.hash.hash_one(name);
        let names = self.names.read();
        let slot = *names
            .index
            .find(hash, |slot| self.name_of(*slot) == Some(name))?;
        self.get(slot)
    }

    /// The variable that has this register number.
    pub(crate) fn numbered(&self, number: u32) -> Option<&Arc<Variable>> {
        let slot = *self.numbers.read().get(&number)?;
        self.get(slot)
    }

    /// The register numbers of the variables `before` are free, those of the variables `now` taken;
    /// some are among both.
    pub(crate) fn renumber(&self, before: &[u32], now: &[u32]) {
        let mut numbers = self.numbers.write();
        let is_plain = |slot: &u32| {
            self.get(*slot)
                .is_none_or(|v| v.properties().number.is_none())
        };
        if numbers.is_empty() && now.iter().all(is_plain) {
            return;
        }
        let before: HashSet<u32> = before.iter().copied().collect();
        numbers.retain(|_, slot| !before.contains(slot));
        for slot in now {
            if let Some(number) = self.get(*slot).and_then(|v| v.properties().number) {
                numbers.insert(number, *slot);
            }
        }
    }

    /// One past the highest handle given out so far.
    pub(crate) fn end(&self) -> u32 {
        self.names.read().next
    }

    /// How far it has come.
    pub(crate) fn mark(&self) -> Mark {
        let names = self.names.read();
        Mark {
            end: names.next,
            gone: names.gone.len(),
        }
    }

    /// A variable that was removed says of itself that it is gone.
    pub(crate) fn note_gone(&self, handle: u32) {
        self.names.write().gone.push(handle);
    }

    /// At most `most` handles of variables that went, from the `from`th on.
    pub(crate) fn gone_from(&self, from: usize, most: usize) -> Vec<u32> {
        let names = self.names.read();
        let gone = names.gone.get(from..).unwrap_or_default();
        gone.iter().take(most).copied().collect()
    }

    /// How many more variables fit.
    pub(crate) fn room(&self) -> usize {
        VARIABLES_MAX.saturating_sub(self.end() as usize)
    }

    /// Makes place in the index for so many more names at once: to grow it step by step is to hash
    /// every name again at each step, in an order in which none of them is near the one before.
    pub(crate) fn reserve(&self, count: usize) {
        let mut names = self.names.write();
        names.index.reserve(count, |slot| {
            self.name_of(*slot)
                .map_or(0, |name| self.hash.hash_one(name))
        });
    }

    /// Adds a variable made for the next slot. The caller has checked the name and the room; `make`
    /// does not look for names.
    pub(crate) fn insert(&self, make: impl FnOnce(u32) -> Variable) -> Option<Arc<Variable>> {
        let mut names = self.names.write();
        let slot = names.next;
        let chunk = self
            .chunks
            .get(slot as usize / CHUNK)?
            .get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        let variable = Arc::new(make(slot));
        let hash = self.hash.hash_one(variable.name());
        chunk
            .get(slot as usize % CHUNK)?
            .set(Arc::clone(&variable))
            .ok()?;
        names.next += 1;
        names.index.insert_unique(hash, slot, |slot| {
            self.name_of(*slot)
                .map_or(0, |name| self.hash.hash_one(name))
        });
        Some(variable)
    }

    /// Takes a name out of the index; the handle keeps answering that the variable is gone.
    pub(crate) fn remove(&self, name: &str) -> Option<Arc<Variable>> {
        let hash = self.hash.hash_one(name);
        let mut names = self.names.write();
        let entry = names
            .index
            .find_entry(hash, |slot| self.name_of(*slot) == Some(name))
            .ok()?;
        let (slot, _) = entry.remove();
        self.get(slot).cloned()
    }

    fn name_of(&self, slot: u32) -> Option<&str> {
        self.get(slot).map(|variable| variable.name())
    }
}
