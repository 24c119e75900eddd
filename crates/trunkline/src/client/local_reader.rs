//! Reads the engine's last value of a variable directly from shared memory.

use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{LocalUpdate, LocalVariable, VariableRef};
use trunkline_net::{LocalTable, TableEntry};
use trunkline_types::definition::{generation_of, slot_of};
use trunkline_types::{Quality, Reading, Tick, Timestamp};

use super::{CallError, Client, VariableError};

/// Longest wait for the engine to share its values. Afterwards, the reader requests values from the
/// engine.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Reads the engine's last value of a variable from memory that the engine shares with this
/// process. A read takes nanoseconds and does not involve the engine. Without shared memory, the
/// reader requests the value from the engine. [`Client::local_reader`] creates a reader.
///
/// Both ways return the last update that the engine has stored for the variable, with its sequence
/// number, timestamps and quality. They differ in three points:
/// - The engine stores an update in its own memory first and in the shared memory a moment later,
///   or longer if its thread is descheduled in between. During this time an answer of the engine
///   may contain the update while the shared memory still has the previous one. The reverse never
///   happens.
/// - [`Client::read`] is a call on the connection, so the engine first accepts writes that this
///   client has queued before. A read from shared memory does not wait for such writes
///   ([`Client::write_untracked`]). Call [`Client::flush`] first if this matters. A write with a
///   known outcome is always included.
/// - The reader detects the end of the engine's process or of the connection some microseconds
///   late, when the system reports it. From then on, it reads nothing from shared memory.
///
/// The engine must be on this machine and connected through shared memory (`tl+shm://`, or `tl://`
/// if that selects shared memory; see [`Client::transport`]). Values longer than 24 bytes are
/// always requested from the engine.
#[derive(Clone, Debug)]
pub struct LocalReader {
    client: Client,
    variable: VariableRef,
    source: Option<Source>,
}

#[derive(Clone, Debug)]
struct Source {
    table: Arc<LocalTable>,
    variable: LocalVariable,
}

impl Client {
    /// Returns a reader of an open variable. Waits up to `timeout`, at most one second, for the
    /// engine to share its values. Without shared values, every read requests the value from the
    /// engine.
    ///
    /// # Errors
    /// [`VariableError`]: no answer, or the variable may not be read.
    pub fn local_reader(
        &self,
        variable: VariableRef,
        timeout: Duration,
    ) -> Result<LocalReader, VariableError> {
        let mut reader = LocalReader {
            client: self.clone(),
            variable,
            source: None,
        };
        reader.read(timeout)?;
        let deadline = self.shared.deadline(timeout.min(WAIT_MAX));
        reader.find_source(deadline);
        Ok(reader)
    }
}

impl LocalReader {
    /// Returns the last value from shared memory. Returns `None` if only the engine can give the
    /// value: it shares no values, the value is too long or not readable by every client, the
    /// variable no longer exists, or the connection is down.
    #[inline]
    pub fn last(&self) -> Option<Reading> {
        let Source { table, variable } = self.source.as_ref()?;
        let handle = variable.handle();
        let TableEntry::Value(found) = table.read(slot_of(handle), generation_of(handle))? else {
            return None;
        };
        let update = LocalUpdate {
            sequence: found.sequence,
            engine_timestamp: Timestamp::from_nanos(found.engine_timestamp),
            source_timestamp: Timestamp::from_nanos(found.source_timestamp),
            quality: Quality::from_bits(found.quality),
            writer: found.writer,
            value: &found.bytes()[..found.length],
        };
        variable.reading(&update, || self.client.shared.clock.now())
    }

    /// Returns the last value, from shared memory if possible, otherwise from the engine.
    ///
    /// # Errors
    /// [`VariableError`]: no answer within `timeout`, or the variable may not be read.
    pub fn read(&mut self, timeout: Duration) -> Result<Reading, VariableError> {
        if let Some(reading) = self.last() {
            return Ok(reading);
        }
        let answer = self.client.read(&[self.variable], timeout)?;
        // If the engine has shared its memory in the meantime, the next read uses it. This call
        // does not wait.
        self.find_source(self.client.shared.clock.now());
        let reading = answer.into_iter().next();
        Ok(reading.ok_or(CallError::Answer)??)
    }

    /// Returns true if values are currently read from shared memory.
    pub fn is_local(&self) -> bool {
        self.last().is_some()
    }

    fn find_source(&mut self, deadline: Tick) {
        let link = &self.client.shared.link;
        let local_variable = || link.with(|core, _, _| core.local_variable(self.variable));
        self.source = local_variable().and_then(|variable| {
            let table = link.last_values(slot_of(variable.handle()), deadline)?;
            // The engine may have restarted during the wait, and its new start numbers variables
            // from the beginning. The table therefore belongs to this handle only if the connection
            // has not changed.
            let is_same = local_variable()?.is_of_same_connection(&variable);
            is_same.then_some(Source { table, variable })
        });
    }
}
