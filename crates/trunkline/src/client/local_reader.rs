//! The engine's last value of a variable, read where it lies.

use std::sync::Arc;
use std::time::Duration;

use trunkline_client::{LocalUpdate, LocalVariable, VariableRef};
use trunkline_net::{LocalTable, TableEntry};
use trunkline_types::definition::{generation_of, slot_of};
use trunkline_types::{Quality, Reading, Tick, Timestamp};

use super::{CallError, Client, VariableError};

/// Longest wait for the engine to show its values; who does not get them asks.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Reads the engine's last value of a variable from memory that the engine shares with this
/// process, in nanoseconds and without the engine taking part; where there is no such memory, asks
/// the engine. Made by [`Client::local_reader`].
///
/// Both ways give the last update that the engine has stored for it, with its number, timestamps
/// and quality. They differ in three things:
/// - The engine stores an update for itself first and in this memory next, a moment later, or later
///   where the thread that does so is kept from running between the two. Until then an answer may
///   have the update, and memory the one before. Never the other way round.
/// - [`Client::read`] is a call on the connection: writes that this client has handed over before
///   are taken first. A read from memory does not wait for writes that are still on their way
///   ([`Client::write_untracked`]): [`Client::flush`] first where that matters. A write whose
///   outcome is known is always in it.
/// - The end of the engine's process, or of the connection, is noticed when the system tells of it,
///   some microseconds later. From then on nothing is read from memory any more.
///
/// The engine must be on this machine and reached through shared memory (`tl+shm://`, or `tl://`
/// where that is chosen; see [`Client::transport`]). Values of more than 24 bytes are asked for.
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
    /// A reader of a variable that is open, and waits up to `timeout`, a second at most, for the
    /// engine to show its values. Where it does not, every read asks.
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
    /// The last value in memory; `None` where the engine has to be asked: it shows none, the value
    /// is too long or nobody's to read, the variable is gone, or the connection is down.
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

    /// The last value: in memory, or as the engine answers.
    ///
    /// # Errors
    /// [`VariableError`]: no answer within `timeout`, or the variable may not be read.
    pub fn read(&mut self, timeout: Duration) -> Result<Reading, VariableError> {
        if let Some(reading) = self.last() {
            return Ok(reading);
        }
        let answer = self.client.read(&[self.variable], timeout)?;
        // What has come meanwhile serves the next read; nobody waits for it.
        self.find_source(self.client.shared.clock.now());
        let reading = answer.into_iter().next();
        Ok(reading.ok_or(CallError::Answer)??)
    }

    /// Whether values are read from memory now.
    pub fn is_local(&self) -> bool {
        self.last().is_some()
    }

    fn find_source(&mut self, deadline: Tick) {
        let link = &self.client.shared.link;
        let known = || link.with(|core, _, _| core.local_variable(self.variable));
        self.source = known().and_then(|variable| {
            let table = link.last_values(slot_of(variable.handle()), deadline)?;
            // The engine may have been started anew during the wait, and counts its variables from
            // the start again: the table is of this handle only where the connection is the same.
            let is_of_same = known()?.is_of_same_connection(&variable);
            is_of_same.then_some(Source { table, variable })
        });
    }
}
