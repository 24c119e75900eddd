//! Tables of last values, which programs on this machine read without a request.
//!
//! A commit also stores the update in the variable's tables. A table exists only while a program
//! reads it. Tables come first in a variable's list of `latest` subscribers, so checking the first
//! entry shows whether there are any. Everything is stored under the variable's lock.
//!
//! Variables are added to a table, and removed once it is no longer read, in slices of
//! [`Engine::poll`](crate::Engine::poll). Until a variable is added, readers find nothing and send
//! a request.
//!
//! A table contains values that every connection with the right to read may read. Values hidden
//! from connections are never stored in a table, and programs without that right must not get
//! access to it.

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

/// Keeps a table up to date until dropped.
pub struct MirrorGuard {
    list: Arc<TableList>,
    outbox: Arc<Outbox>,
}

pub type Tables<'e> = View<'e, TableList>;

#[derive(Default)]
pub struct TableList {
    /// Number of tables, including ended tables from which variables must still be removed.
    count: AtomicUsize,
    entries: Mutex<Vec<ListedTable>>,
}

struct ListedTable {
    outbox: Arc<Outbox>,
    /// Next slot to process.
    next_slot: u32,
    /// Set once the table has ended: end of the slots whose variables must still be removed.
    remove_until: Option<u32>,
}

impl Tables<'_> {
    /// Returns the number of slots for a new table: enough for twice the current variables.
    pub fn slots_for_new_table(&self) -> usize {
        let wanted = (self.core.variables.end() as usize).saturating_mul(2);
        wanted.clamp(SLOTS_MIN, VARIABLES_MAX)
    }

    /// Returns one past the highest slot used so far, which is the minimum number of slots in a
    /// table.
    pub fn slots_end(&self) -> usize {
        self.core.variables.end() as usize
    }

    /// Stores the last values of all variables in `table`, by the slots of their handles. Later
    /// variables are included if the table has slots for them. This call adds the first slice of
    /// variables; [`Engine::poll`](crate::Engine::poll) adds the rest.
    pub fn mirror_into(&self, table: TableWriter) -> MirrorGuard {
        let outbox = Arc::new(Outbox::of_table(table));
        let list = self.table;
        let mut entries = list.entries.lock();
        entries.push(ListedTable {
            outbox: Arc::clone(&outbox),
            next_slot: 1,
            remove_until: None,
        });
        list.count.store(entries.len(), Ordering::Relaxed);
        drop(entries);
        self.advance(SLICE);
        MirrorGuard {
            list: Arc::clone(list),
            outbox,
        }
    }

    /// Adds a newly deployed variable to tables that have already processed its slot.
    pub(crate) fn enter(&self, variable: &Variable) {
        let list = self.table;
        // Relaxed: a table created in the meantime processes the slot later.
        if list.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for entry in list.entries.lock().iter() {
            if entry.remove_until.is_none() && slot_of(variable.handle()) < entry.next_slot {
                enter(variable, &entry.outbox);
            }
        }
    }

    /// Adds at most `slice` variables to each current table, and removes as many from each ended
    /// one. Returns true if work remains.
    pub(crate) fn advance(&self, slice: usize) -> bool {
        let list = self.table;
        // Relaxed: the lock makes the data behind it visible.
        if list.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut entries = list.entries.lock();
        let end = self.core.variables.end();
        for entry in entries.iter_mut() {
            for _ in 0..slice {
                if entry.next_slot >= entry.slot_end(end) {
                    break;
                }
                if let Some(variable) = self.core.variables.at(entry.next_slot) {
                    match entry.remove_until {
                        None => enter(&variable, &entry.outbox),
                        Some(_) => leave(&variable, &entry.outbox),
                    }
                }
                entry.next_slot += 1;
            }
        }
        entries.retain(|entry| entry.remove_until.is_none_or(|end| entry.next_slot < end));
        list.count.store(entries.len(), Ordering::Relaxed);
        entries
            .iter()
            .any(|entry| entry.next_slot < entry.slot_end(end))
    }
}

impl ListedTable {
    /// Returns one past the last slot to process; `end` is one past the highest used slot.
    fn slot_end(&self, end: u32) -> u32 {
        let slots = self.outbox.table.as_ref().map_or(0, TableWriter::end);
        self.remove_until
            .unwrap_or_else(|| end.min(u32::try_from(slots).unwrap_or(u32::MAX)))
    }
}

impl Drop for MirrorGuard {
    fn drop(&mut self) {
        // Ended first, because variables removed from the table no longer update it.
        if let Some(table) = &self.outbox.table {
            table.finish();
        }
        let mut entries = self.list.entries.lock();
        let own = |entry: &&mut ListedTable| Arc::ptr_eq(&entry.outbox, &self.outbox);
        if let Some(entry) = entries.iter_mut().find(own) {
            entry.remove_until = Some(entry.next_slot);
            entry.next_slot = 1;
        }
    }
}

impl fmt::Debug for TableList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableList").finish_non_exhaustive()
    }
}

impl fmt::Debug for MirrorGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MirrorGuard").finish_non_exhaustive()
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
