//! Stores the results of a series' ended files until the caller takes them.

use std::collections::VecDeque;

/// Maximum number of ended files whose results a series keeps until the caller takes them.
pub const ENDED_FILES_MAX: usize = 1024;

/// The results of ended files, at most [`ENDED_FILES_MAX`]. A new result replaces the oldest one
/// when the list is full. The memory therefore stays bounded even if the caller takes no results,
/// and the newest results remain, which show whether the disk works now.
#[derive(Debug)]
pub(crate) struct EndedFiles<T>(VecDeque<T>);

impl<T> Default for EndedFiles<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> EndedFiles<T> {
    /// Adds a result. Returns the result that it replaces, which the caller must count.
    #[must_use]
    pub(crate) fn push(&mut self, ended: T) -> Option<T> {
        let is_full = self.0.len() >= ENDED_FILES_MAX;
        let replaced = is_full.then(|| self.0.pop_front()).flatten();
        self.0.push_back(ended);
        replaced
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}
