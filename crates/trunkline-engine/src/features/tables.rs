//! Last values in tables that programs on this machine read without a request.
//!
//! A commit also stores the update into the variable's tables. A table exists only while a program
//! reads it. Tables are the first entries in a variable's list of subscribers, so a write of a
//! variable without tables examines none. Everything is stored under the variable's lock.
//!
//! Variables are added to a table, and removed when it is no longer read, in slices of
//! [`Engine::poll`]. Until a variable is added, a reader finds nothing and sends a request.
//!
//! A table holds the values that any connection with the right to read may read. Values hidden from
//! connections are never stored in it, and it must not be given to programs without that right.

use std::fmt;

use trunkline_ring::{TABLE_VALUE_BYTES, TableEntry, TableValue, TableWriter};
use trunkline_types::definition::{generation_of, slot_of};
use trunkline_types::{Access, Scope};

use crate::delivery::outbox::Outbox;
use crate::engine::{Engine, SLICE};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::variable::cell::CellRead;
use crate::variable::{State, Variable};
use crate::variables::VARIABLES_MAX;

/// Minimum number of slots in a table.
const SLOTS_MIN: usize = 4096;

/// A table that the engine stores into. Dropping this ends it.
pub struct Mirror {
    engine: Engine,
    outbox: Arc<Outbox>,
}

/// The tables of an engine.
#[derive(Default)]
pub(crate) struct Mirrors {
    /// Number of tables, including ended ones that variables still have to leave.
    count: AtomicUsize,
    tables: Mutex<Vec<Mirrored>>,
}

/// A table, and the progress of adding or removing variables.
struct Mirrored {
    outbox: Arc<Outbox>,
    /// The next slot to process.
    next: u32,
    /// Set once the table has ended: variables in slots below this one must leave it.
    ended: Option<u32>,
}

impl Engine {
    /// Number of slots for a new table, which leaves room for as many variables again.
    pub fn table_slots(&self) -> usize {
        let wanted = (self.end() as usize).saturating_mul(2);
        wanted.clamp(SLOTS_MIN, VARIABLES_MAX)
    }

    /// One past the highest slot used so far: the minimum number of slots in a table.
    pub fn slots_end(&self) -> usize {
        self.end() as usize
    }

    /// Stores the last values of all variables into `table`, by the slots of their handles. Later
    /// variables are included as far as the table has slots. Adds a slice of variables at once, the
    /// others with [`Engine::poll`].
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

    /// Adds a newly deployed variable to tables that have already processed its slot.
    pub(crate) fn enter_tables(&self, variable: &Variable) {
        let mirrors = self.mirrors();
        // Relaxed: a table created meanwhile processes the slot later.
        if mirrors.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for table in mirrors.tables.lock().iter() {
            if table.ended.is_none() && slot_of(variable.handle()) < table.next {
                variable.enter(&table.outbox);
            }
        }
    }

    /// Adds at most `slice` variables to each table, or removes them. Returns true if there are
    /// more.
    pub(crate) fn fill_tables(&self, slice: usize) -> bool {
        let mirrors = self.mirrors();
        // Relaxed: the lock makes the data behind it visible.
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
    /// End of its current round over the slots, given that used slots end at `end`.
    fn until(&self, end: u32) -> u32 {
        let slots = self.outbox.table.as_ref().map_or(0, TableWriter::end);
        self.ended
            .unwrap_or_else(|| end.min(u32::try_from(slots).unwrap_or(u32::MAX)))
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // First, so that no value in it is taken for a last value once variables leave it.
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

    /// Stores the current value into its tables. The caller holds the lock.
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
        // The lock is held, so no writer overtakes this read.
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
