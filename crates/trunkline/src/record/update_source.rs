//! Where recorded updates come from.

use trunkline_record::{PlaybackError, PlayedUpdate, PlayedVariable, RecordedVariables};

/// Recorded updates of variables in the order of their times: those of a recording, or of another
/// source, such as a history.
pub trait UpdateSource {
    /// Returns the variables. Those of updates are indexes into this list, which does not change.
    fn variables(&self) -> &[PlayedVariable];

    /// Leaves out all variables but this one, given as an index into [`variables`](Self::variables).
    fn keep_only(&mut self, variable: usize);

    /// Returns the next update, or `None` at the end.
    ///
    /// # Errors
    /// [`PlaybackError::Damaged`]: a variable is not played any further; the next call continues with
    /// the others. All other errors end playing.
    fn next_update(&mut self) -> Result<Option<PlayedUpdate>, PlaybackError>;
}

impl UpdateSource for RecordedVariables {
    fn variables(&self) -> &[PlayedVariable] {
        self.variables()
    }

    fn keep_only(&mut self, variable: usize) {
        self.keep_only(variable);
    }

    fn next_update(&mut self) -> Result<Option<PlayedUpdate>, PlaybackError> {
        self.next_update()
    }
}
