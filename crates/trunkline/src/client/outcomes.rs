//! Writes whose outcomes are taken when they are known.

use trunkline_client::{Write, WriteBatchId, WriteOutcome};

use super::{CallError, Client};

impl Client {
    /// Hands writes over and returns at once.
    ///
    /// # Errors
    /// [`CallError::Write`] when too many writes wait already, or outcomes to be taken.
    pub(crate) fn begin_write(&self, writes: Vec<Write>) -> Result<WriteBatchId, CallError> {
        Ok(self.shared.link.with(|core, _, _| core.write(writes))?)
    }

    /// What became of them, once that is known of all.
    pub(crate) fn take_outcomes(&self, batch: WriteBatchId) -> Option<Vec<WriteOutcome>> {
        self.shared
            .link
            .with(|core, _, _| core.take_outcomes(batch))
    }

    /// Ends these writes; what was not sent of them is cancelled.
    pub(crate) fn end_writes(&self, batch: WriteBatchId) -> Vec<WriteOutcome> {
        self.shared.link.with(|core, _, _| core.end_writes(batch))
    }
}
