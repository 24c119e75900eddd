//! Last values in tables that programs on this machine read without a request.
//!
//! A commit also stores the update into the variable's tables. A table exists only while a program
//! reads it. Tables are the first entries in a variable's list of subscribers, so a write of a
//! variable without tables examines none. Everything is stored under the variable's lock.
//!
//! Variables are added to a table, and removed when it is no longer read, in slices of
//! [`Engine::poll`](crate::Engine::poll). Until a variable is added, a reader finds nothing and sends a request.
//!
//! A table holds the values that any connection with the right to read may read. Values hidden from
//! connections are never stored in it, and it must not be given to programs without that right.

use std::fmt;

use trunkline_ring::TableWriter;
use trunkline_types::Scope;
use trunkline_types::definition::slot_of;

use crate::delivery::outbox::Outbox;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::variable::Variable;
use crate::variables::VARIABLES_MAX;
use crate::write::{SLICE, View};

const SLOTS_MIN: usize = 4096;

/// A table that the engine stores into. Dropping this ends it.
pub struct Mirror {
    tables: Arc<MirrorTable>,
    outbox: Arc<Outbox>,
}

pub type Tables<'e> = View<'e, MirrorTable>;

#[derive(Default)]
pub struct MirrorTable {
    /// Number of tables, including ended ones that variables still have to leave.
    count: AtomicUsize,
    tables: Mutex<Vec<Mirrored>>,
}

struct Mirrored {
    outbox: Arc<Outbox>,
    next: u32,
    /// Set once the table has ended: variables in slots below this one must leave it.
    ended: Option<u32>,
}

impl Tables<'_> {
    /// Number of slots for a new table, which leaves room for as many variables again.
    pub fn slots(&self) -> usize {
        let wanted = (self.core.variables.end() as usize).saturating_mul(2);
        wanted.clamp(SLOTS_MIN, VARIABLES_MAX)
    }

    /// One past the highest slot used so far: the minimum number of slots in a table.
    pub fn slots_end(&self) -> usize {
        self.core.variables.end() as usize
    }

    /// Stores the last values of all variables into `table`, by the slots of their handles. Later
    /// variables are included as far as the table has slots. Adds a slice of variables at once, the
    /// others with [`Engine::poll`](crate::Engine::poll).
    pub fn mirror_into(&self, table: TableWriter) -> Mirror {
        let outbox = Arc::new(Outbox::of_table(table));
        let mirrors = self.table;
        let mut tables = mirrors.tables.lock();
        tables.push(Mirrored {
            outbox: Arc::clone(&outbox),
            next: 1,
            ended: None,
        });
        mirrors.count.store(tables.len(), Ordering::Relaxed);
        drop(tables);
        self.fill(SLICE);
        Mirror {
            tables: Arc::clone(self.table),
            outbox,
        }
    }

    /// Adds a newly deployed variable to tables that have already processed its slot.
    pub(crate) fn enter(&self, variable: &Variable) {
        let mirrors = self.table;
        // Relaxed: a table created meanwhile processes the slot later.
        if mirrors.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for table in mirrors.tables.lock().iter() {
            if table.ended.is_none() && slot_of(variable.handle()) < table.next {
                enter(variable, &table.outbox);
            }
        }
    }

    /// Adds at most `slice` variables to each table, or removes them. Returns true if there are
    /// more.
    pub(crate) fn fill(&self, slice: usize) -> bool {
        let mirrors = self.table;
        // Relaxed: the lock makes the data behind it visible.
        if mirrors.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut tables = mirrors.tables.lock();
        let end = self.core.variables.end();
        for table in tables.iter_mut() {
            for _ in 0..slice {
                if table.next >= table.until(end) {
                    break;
                }
                if let Some(variable) = self.core.variables.at(table.next) {
                    match table.ended {
                        None => enter(&variable, &table.outbox),
                        Some(_) => leave(&variable, &table.outbox),
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
        let mut tables = self.tables.tables.lock();
        let own = |table: &&mut Mirrored| Arc::ptr_eq(&table.outbox, &self.outbox);
        if let Some(table) = tables.iter_mut().find(own) {
            table.ended = Some(table.next);
            table.next = 1;
        }
    }
}

impl fmt::Debug for MirrorTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirrorTable").finish_non_exhaustive()
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror").finish_non_exhaustive()
    }
}

fn enter(variable: &Variable, outbox: &Arc<Outbox>) {
    if variable.deployed().scope == Scope::Process {
        return;
    }
    let mut state = variable.lock();
    if !variable.is_gone() {
        state.latest.add_table(Arc::clone(outbox));
    }
    if let Some(table) = &outbox.table {
        state.store_into(variable, table);
    }
}

fn leave(variable: &Variable, outbox: &Arc<Outbox>) {
    variable.lock().latest.remove_table(outbox);
}
