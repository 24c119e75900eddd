//! The tables of last values that a commit stores its update into.

use trunkline_ring::{TABLE_VALUE_BYTES, TableEntry, TableValue, TableWriter};
use trunkline_types::Access;
use trunkline_types::definition::{generation_of, slot_of};

use super::cell::CellRead;
use super::{State, Variable};

impl State {
    /// Stores the current value into its tables. The caller holds the lock.
    #[inline]
    pub(crate) fn mirror(&self, variable: &Variable) {
        if self.latest.has_tables() {
            self.mirror_now(variable);
        }
    }

    #[inline(never)]
    fn mirror_now(&self, variable: &Variable) {
        for table in self.latest.tables() {
            self.store_into(variable, table);
        }
    }

    pub(crate) fn store_into(&self, variable: &Variable, table: &TableWriter) {
        let handle = variable.handle();
        let (slot, generation) = (slot_of(handle) as usize, generation_of(handle));
        table.store(slot, generation, &self.table_entry(variable));
    }

    fn table_entry(&self, variable: &Variable) -> TableEntry {
        if variable.is_gone() {
            return TableEntry::Gone;
        }
        if variable.properties_locked(self).access == Access::WriteOnly {
            return TableEntry::Elsewhere;
        }
        // The lock is held, so no writer overtakes this read.
        let CellRead::Complete(update) = variable.read_cell() else {
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
