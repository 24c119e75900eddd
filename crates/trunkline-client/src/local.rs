//! Readings of values that the engine shows this process in memory, without a question.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::record::UpdateRecord;
use trunkline_types::{DataType, Quality, Reading, Reason, Tick, Timestamp};

use crate::client::ClientCore;
use crate::reading::Arrival;
use crate::state::Session;
use crate::variable::VariableRef;

/// What this end has to know of a variable to make a reading of what it finds in such memory. Good
/// for the connection on which it was asked for.
#[derive(Clone, Debug)]
pub struct LocalVariable {
    handle: u32,
    data_type: DataType,
    max_age: Option<Duration>,
    session: Arc<Session>,
    engine_wall: Timestamp,
}

/// An update as it lies in memory.
#[derive(Clone, Copy, Debug)]
pub struct LocalUpdate<'a> {
    /// Its number; 0 when nothing was written yet.
    pub sequence: u64,
    /// When the engine accepted it.
    pub engine_timestamp: Timestamp,
    /// When it was measured.
    pub source_timestamp: Timestamp,
    /// How far it can be trusted.
    pub quality: Quality,
    /// The session that wrote it.
    pub writer: u32,
    /// The value in wire form.
    pub value: &'a [u8],
}

impl ClientCore {
    /// What is known of a variable that is open on this connection; `None` while it is not.
    pub fn local_variable(&self, variable: VariableRef) -> Option<LocalVariable> {
        let entry = self.variables.get(variable)?;
        let session = self.connection.session()?;
        let arrival = self.connection.arrival(session.since).ok()?;
        Some(LocalVariable {
            handle: entry.handle?,
            data_type: entry.data_type.clone()?,
            max_age: entry.max_age,
            session: Arc::clone(session),
            engine_wall: arrival.engine_wall,
        })
    }
}

impl LocalVariable {
    /// Its handle on this connection.
    #[inline]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Whether both were asked for on the same connection, and mean the same handle of it.
    pub fn is_of_same_connection(&self, other: &Self) -> bool {
        self.handle == other.handle && Arc::ptr_eq(&self.session, &other.session)
    }

    /// The reading that an answer with this update would have been. `now` is asked for only where
    /// the age of the value matters. `None` when the value is not one of the variable's type.
    #[inline]
    pub fn reading(&self, update: &LocalUpdate<'_>, now: impl FnOnce() -> Tick) -> Option<Reading> {
        let has_age = self.max_age.is_some() || update.quality.has_reason(Reason::Stale);
        let since = self.session.since;
        let now = if has_age { now() } else { since };
        let arrival = Arrival {
            now,
            epoch: self.session.epoch,
            engine_wall: self.engine_wall,
            since_welcome: now.since(since),
        };
        let record = match update.sequence {
            0 => UpdateRecord::nothing_yet(self.handle),
            sequence => UpdateRecord {
                handle: self.handle,
                sequence,
                engine_timestamp: update.engine_timestamp,
                source_timestamp: update.source_timestamp,
                quality: update.quality,
                own: u64::from(update.writer) == self.session.session,
                value: Some(update.value),
            },
        };
        let entry = arrival.entry(&record, &self.data_type, self.max_age);
        Some(entry.ok()?.into_reading(arrival.epoch))
    }
}
