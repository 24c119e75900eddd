//! Detects files that are removed, replaced or renamed while they are written.

use std::io;

use rustix::io::Errno;

use super::WriteQueue;
use super::sums::SumsFile;
use crate::backend::Backend;
use crate::error::FailedStep;
use crate::place::Displaced;

impl<B: Backend> WriteQueue<B> {
    /// Returns the file's location if its name no longer refers to it. The name is checked about
    /// once a second, and when the file is synced and closed.
    ///
    /// A file that was removed or replaced has [failed](FailedStep::Removed): none of its data is
    /// left. A file that was renamed is still written.
    pub fn displaced(&self) -> Option<&Displaced> {
        self.displaced.as_ref()
    }

    /// Returns the same for the checksum file. The data is still written if that file is lost.
    pub fn sums_displaced(&self) -> Option<&Displaced> {
        self.sums_displaced.as_ref()
    }

    /// Returns true if the file was removed or replaced.
    pub(crate) fn is_removed(&self) -> bool {
        self.displaced.as_ref().is_some_and(Displaced::is_removed)
    }

    /// Checks that the names still refer to the files.
    pub(super) fn look_at_place(&mut self) {
        if self.is_removed() {
            // A removed file does not get a name again.
            return;
        }
        self.displaced = self.backend.displaced();
        self.sums_displaced = self.sums.as_ref().and_then(SumsFile::displaced);
        if self.is_removed() {
            self.durable = 0;
            let error = io::Error::from_raw_os_error(Errno::NOENT.raw_os_error());
            self.fail(self.next, FailedStep::Removed, &error);
            if let Some(failure) = &mut self.failure {
                // Overrides an earlier failure, because nothing is left of the file.
                failure.step = FailedStep::Removed;
                failure.os_error = Errno::NOENT.raw_os_error();
                failure.written = 0;
            }
        }
    }
}
