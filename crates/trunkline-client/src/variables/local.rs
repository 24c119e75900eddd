//! Reads variables from memory that the engine shares with this process, without a request.

use std::sync::Arc;
use std::time::Duration;

use trunkline_proto::message::record::UpdateRecord;
use trunkline_types::{DataType, Quality, Reading, Reason, Tick, Timestamp};

use super::Variable;
use super::reading::Arrival;
use crate::state::Session;

/// The data of a variable that turns an update in shared memory into a reading. It is valid only
/// for the connection on which it was obtained.
#[derive(Clone, Debug)]
pub struct LocalVariable {
    handle: u32,
    data_type: DataType,
    max_age: Option<Duration>,
    session: Arc<Session>,
    engine_wall: Timestamp,
}

/// An update in the form stored in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct LocalUpdate<'a> {
    /// The sequence number; 0 if the variable has not been written yet.
    pub sequence: u64,
    /// The time at which the engine accepted the update.
    pub engine_timestamp: Timestamp,
    /// The time of measurement.
    pub source_timestamp: Timestamp,
    /// The quality of the value.
    pub quality: Quality,
    /// The number of the session that wrote the value.
    pub writer: u32,
    /// The encoded value.
    pub value: &'a [u8],
}

impl LocalVariable {
    pub(crate) fn new(
        variable: &Variable,
        session: &Arc<Session>,
        engine_wall: Timestamp,
    ) -> Option<Self> {
        Some(Self {
            handle: variable.handle?,
            data_type: variable.data_type.clone()?,
            max_age: variable.max_age,
            session: Arc::clone(session),
            engine_wall,
        })
    }

    #[inline]
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Returns true if both values have the same handle and come from the same connection.
    pub fn is_of_same_connection(&self, other: &Self) -> bool {
        self.handle == other.handle && Arc::ptr_eq(&self.session, &other.session)
    }

    /// Returns the reading that a read request would return for this update. Calls `now` only if
    /// the age of the value matters. Returns `None` if the value does not have the variable's type.
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
