//! Sources of recorded updates.

use trunkline_record::{PlaybackError, PlayedUpdate, PlayedVariable, RecordedVariables};

/// A source of recorded updates of variables in the order of their times: a recording, or another
/// source such as a history.
pub trait UpdateSource {
    /// Returns the variables. Updates refer to a variable by its index in this list, which does not
    /// change.
    fn variables(&self) -> &[PlayedVariable];

    /// Excludes all variables except `variable`, an index in [`variables`](Self::variables).
    fn select_only(&mut self, variable: usize);

    /// Returns the next update, or `None` at the end.
    ///
    /// # Errors
    /// [`PlaybackError::Damaged`]: the rest of one variable cannot be played; the next call
    /// continues with the other variables. After any other error, playing ends.
    fn next_update(&mut self) -> Result<Option<PlayedUpdate>, PlaybackError>;
}

impl UpdateSource for RecordedVariables {
    fn variables(&self) -> &[PlayedVariable] {
        self.variables()
    }

    fn select_only(&mut self, variable: usize) {
        self.select_only(variable);
    }

    fn next_update(&mut self) -> Result<Option<PlayedUpdate>, PlaybackError> {
        self.next_update()
    }
}
