//! Reads the engine's last value of a variable directly from shared memory.

use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{LocalUpdate, LocalVariable, VariableRef};
use trunkline_net::{LocalTable, TableEntry};
use trunkline_types::definition::{generation_of, slot_of};
use trunkline_types::{Quality, Reading, Tick, Timestamp};

use super::{CallError, Client, VariableError};

/// Longest wait for the engine to share its values. After that, the reader asks the engine.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Reads the engine's last value of a variable from memory that the engine shares with this
/// process. A read takes nanoseconds and does not involve the engine. Without shared memory, it
/// asks the engine. Created by [`Client::local_reader`].
///
/// Both ways return the last update that the engine has stored for the variable, with its number,
/// timestamps and quality. They differ in three points:
/// - The engine stores an update for itself first, and in the shared memory a moment later, or
///   longer if its thread is descheduled in between. Until then an answer may contain the update
///   while the memory still has the previous one, never the reverse.
/// - [`Client::read`] is a call on the connection, so the engine first accepts writes that this
///   client has queued before. A read from memory does not wait for writes on their way
///   ([`Client::write_untracked`]); call [`Client::flush`] first where that matters. A write with a
///   known outcome is always included.
/// - The end of the engine's process or of the connection is noticed when the system reports it,
///   some microseconds later. After that, nothing is read from memory.
///
/// The engine must be on this machine and connected through shared memory (`tl+shm://`, or `tl://`
/// where that is chosen; see [`Client::transport`]). Values longer than 24 bytes are always
/// requested from the engine.
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
    /// engine to share its values. If it does not, every read asks the engine.
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
    /// Returns the last value from memory. Returns `None` if the engine must be asked: it shares no
    /// values, the value is too long or not readable by every client, the variable is gone, or the
    /// connection is down.
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

    /// Returns the last value, from memory if possible, otherwise from the engine.
    ///
    /// # Errors
    /// [`VariableError`]: no answer within `timeout`, or the variable may not be read.
    pub fn read(&mut self, timeout: Duration) -> Result<Reading, VariableError> {
        if let Some(reading) = self.last() {
            return Ok(reading);
        }
        let answer = self.client.read(&[self.variable], timeout)?;
        // If the engine has shared memory in the meantime, the next read uses it. Does not wait.
        self.find_source(self.client.shared.clock.now());
        let reading = answer.into_iter().next();
        Ok(reading.ok_or(CallError::Answer)??)
    }

    /// Returns true if values are currently read from memory.
    pub fn is_local(&self) -> bool {
        self.last().is_some()
    }

    fn find_source(&mut self, deadline: Tick) {
        let link = &self.client.shared.link;
        let known = || link.with(|core, _, _| core.local_variable(self.variable));
        self.source = known().and_then(|variable| {
            let table = link.last_values(slot_of(variable.handle()), deadline)?;
            // The engine may have restarted during the wait, and then numbers its variables from
            // the start: the table belongs to this handle only if the connection is still the same.
            let is_of_same = known()?.is_of_same_connection(&variable);
            is_of_same.then_some(Source { table, variable })
        });
    }
}
