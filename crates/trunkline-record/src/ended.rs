//! The files of a series that have ended and whose results were not taken yet.

use std::collections::VecDeque;

/// Maximum number of ended files whose results a series keeps until they are taken.
pub const ENDED_FILES_MAX: usize = 1024;

/// The results of ended files, at most [`ENDED_FILES_MAX`]. When it is full, the oldest result is
/// omitted for the next one: a long series whose owner does not take results needs no more memory,
/// and the newest results, which show whether the disk works now, remain.
#[derive(Debug)]
pub(crate) struct EndedFiles<T>(VecDeque<T>);

impl<T> Default for EndedFiles<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> EndedFiles<T> {
    /// Adds a result. Returns the one omitted for it, which the caller must count.
    #[must_use]
    pub(crate) fn push(&mut self, ended: T) -> Option<T> {
        let is_full = self.0.len() >= ENDED_FILES_MAX;
        let omitted = is_full.then(|| self.0.pop_front()).flatten();
        self.0.push_back(ended);
        omitted
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}
