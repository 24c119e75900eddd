//! Writes whose outcomes are collected later.

use trunkline_client::{Write, WriteBatchId, WriteOutcome};

use super::{CallError, Client};

impl Client {
    /// Queues writes and returns at once.
    ///
    /// # Errors
    /// [`CallError::Write`] if too many writes are already waiting, or too many outcomes are
    /// uncollected.
    pub(crate) fn begin_write(&self, writes: Vec<Write>) -> Result<WriteBatchId, CallError> {
        Ok(self.shared.link.with(|core, _, _| core.write(writes))?)
    }

    /// Returns the outcomes once all are known.
    pub(crate) fn take_outcomes(&self, batch: WriteBatchId) -> Option<Vec<WriteOutcome>> {
        self.shared
            .link
            .with(|core, _, _| core.take_outcomes(batch))
    }

    /// Ends these writes; those not yet sent are cancelled.
    pub(crate) fn end_writes(&self, batch: WriteBatchId) -> Vec<WriteOutcome> {
        self.shared.link.with(|core, _, _| core.end_writes(batch))
    }
}
