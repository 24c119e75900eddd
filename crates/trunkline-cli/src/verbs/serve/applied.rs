//! Whether the engine uses the configuration of its files.

use std::sync::{Arc, Mutex, PoisonError};

/// The outcome of the last attempt to apply the configuration files.
#[derive(Clone, Debug, Default)]
pub(super) struct AppliedConfiguration(Arc<Mutex<Option<String>>>);

impl AppliedConfiguration {
    /// Returns why the files were not applied, as a sentence; `None` if they were.
    pub(super) fn fault(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
