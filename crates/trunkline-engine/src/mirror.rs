//! Last values in tables that programs of this machine read without asking.
//!
//! A table is a second place for a commit to store into. It exists only while somebody reads it,
//! and a variable has a table only as the first entries of its list of subscribers, so a write that
//! concerns no table looks at none. All that is stored is stored under the variable's lock.
//!
//! Variables get into a table, and out of it when nobody reads it any more, in slices of
//! [`Engine::poll`]. Until then a reader finds nothing and asks.
//!
//! A table holds what every connection with the right to read may read: values that are hidden from
//! connections never get into it, and who has no such right must not be given it.

use std::fmt;

use trunkline_ring::{TABLE_VALUE_BYTES, TableEntry, TableValue, TableWriter};
use trunkline_types::definition::{generation_of, slot_of};
use trunkline_types::{Access, Scope};

use crate::cell::CellRead;
use crate::engine::{Engine, SLICE};
use crate::outbox::Outbox;
use crate::registry::VARIABLES_MAX;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::variable::{State, Variable};

/// Fewest slots of a table.
const SLOTS_MIN: usize = 4096;

/// A table that the engine stores into. It ends when this is dropped.
pub struct Mirror {
    engine: Engine,
    outbox: Arc<Outbox>,
}

/// The tables of an engine.
#[derive(Default)]
pub(crate) struct Mirrors {
    /// How many there are, those that variables still are to leave included.
    count: AtomicUsize,
    tables: Mutex<Vec<Mirrored>>,
}

/// One table, and how many variables have come into it or left it.
struct Mirrored {
    outbox: Arc<Outbox>,
    /// The next slot.
    next: u32,
    /// Those below this one leave it.
    ended: Option<u32>,
}

impl Engine {
    /// Slots that a new table should have: there is room for as many variables again.
    pub fn table_slots(&self) -> usize {
        let wanted = (self.end() as usize).saturating_mul(2);
        wanted.clamp(SLOTS_MIN, VARIABLES_MAX)
    }

    /// One past the highest slot used so far: what a table has to have a slot for.
    pub fn slots_end(&self) -> usize {
        self.end() as usize
    }

    /// Stores the last values of all variables, by the slots of their handles, into `table`, those
    /// of later ones too as far as it has slots; a few at once, the rest with [`Engine::poll`].
    pub fn mirror_into(&self, table: TableWriter) -> Mirror {
        let outbox = Arc::new(Outbox::of_table(table));
        let mirrors = self.mirrors();
        let mut tables = mirrors.tables.lock();
        tables.push(Mirrored {
            outbox: Arc::clone(&outbox),
            next: 1,
            ended: None,
        });
        mirrors.count.store(tables.len(), Ordering::Relaxed);
        drop(tables);
        self.fill_tables(SLICE);
        Mirror {
            engine: self.clone(),
            outbox,
        }
    }

    /// A variable was deployed into a slot that tables may have passed already.
    pub(crate) fn enter_tables(&self, variable: &Variable) {
        let mirrors = self.mirrors();
        // Relaxed: a table that is made meanwhile comes to the slot later.
        if mirrors.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for table in mirrors.tables.lock().iter() {
            if table.ended.is_none() && slot_of(variable.handle()) < table.next {
                variable.enter(&table.outbox);
            }
        }
    }

    /// At most `slice` variables come into each table, or leave it. True when there are more.
    pub(crate) fn fill_tables(&self, slice: usize) -> bool {
        let mirrors = self.mirrors();
        // Relaxed: the lock brings along what is behind it.
        if mirrors.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut tables = mirrors.tables.lock();
        let end = self.end();
        for table in tables.iter_mut() {
            for _ in 0..slice {
                if table.next >= table.until(end) {
                    break;
                }
                if let Some(variable) = self.registry().at(table.next) {
                    match table.ended {
                        None => variable.enter(&table.outbox),
                        Some(_) => variable.leave(&table.outbox),
                    }
                }
                table.next += 1;
            }
        }
        tables.retain(|table| table.ended.is_none_or(|end| table.next < end));
        mirrors.count.store(tables.len(), Ordering::Relaxed);
        tables.iter().any(|table| table.next < table.until(end))
    }
}

impl Mirrored {
    /// Where its present round ends, when handles end at `end`.
    fn until(&self, end: u32) -> u32 {
        let slots = self.outbox.table.as_ref().map_or(0, TableWriter::end);
        self.ended
            .unwrap_or_else(|| end.min(u32::try_from(slots).unwrap_or(u32::MAX)))
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // First: nothing in it may be taken for a last value once variables leave it.
        if let Some(table) = &self.outbox.table {
            table.finish();
        }
        let mut tables = self.engine.mirrors().tables.lock();
        let own = |table: &&mut Mirrored| Arc::ptr_eq(&table.outbox, &self.outbox);
        if let Some(table) = tables.iter_mut().find(own) {
            table.ended = Some(table.next);
            table.next = 1;
        }
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror").finish_non_exhaustive()
    }
}

impl Variable {
    fn enter(&self, outbox: &Arc<Outbox>) {
        if self.deployed().scope == Scope::Process {
            return;
        }
        let mut state = self.lock();
        if !self.is_gone() {
            state.plains.add_table(Arc::clone(outbox));
        }
        if let Some(table) = &outbox.table {
            self.store_into(&state, table);
        }
    }

    fn leave(&self, outbox: &Arc<Outbox>) {
        self.lock().plains.remove_table(outbox);
    }

    /// Stores what it holds now into its tables. The caller holds the lock.
    #[inline]
    pub(crate) fn mirror(&self, state: &State) {
        if state.plains.has_tables() {
            self.mirror_now(state);
        }
    }

    #[inline(never)]
    fn mirror_now(&self, state: &State) {
        for table in state.plains.tables() {
            self.store_into(state, table);
        }
    }

    fn store_into(&self, state: &State, table: &TableWriter) {
        let handle = self.handle();
        let (slot, generation) = (slot_of(handle) as usize, generation_of(handle));
        table.store(slot, generation, &self.table_entry(state));
    }

    fn table_entry(&self, state: &State) -> TableEntry {
        if self.is_gone() {
            return TableEntry::Gone;
        }
        if self.properties_locked(state).access == Access::WriteOnly {
            return TableEntry::Elsewhere;
        }
        // With the lock held nobody overtakes this.
        let CellRead::Complete(update) = self.read_cell() else {
            return TableEntry::Elsewhere;
        };
        let length = update.value.as_slice().len();
        if length > TABLE_VALUE_BYTES {
            return TableEntry::Elsewhere;
        }
        TableEntry::Value(TableValue {
            sequence: update.sequence,
            source_timestamp: update.source_timestamp.as_nanos(),
            engine_timestamp: update.engine_timestamp.as_nanos(),
            quality: update.quality.to_bits(),
            writer: update.writer,
            value: update.value.words(),
            length,
        })
    }
}
