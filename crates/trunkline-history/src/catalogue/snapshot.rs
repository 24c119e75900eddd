//! Reads the catalogue of a folder without touching it, also while an engine records.
//!
//! The catalogue and its write-ahead log are copied to a temporary folder, and read there. The copy
//! has one state of the catalogue if the log was not begun anew meanwhile: whatever SQLite moved
//! from the log to the catalogue during the copy is still in the log, and replaces it.

use std::io::ErrorKind;
use std::path::Path;

use crate::catalogue::{Catalogue, PartRow, Series, SpoolLog};
use crate::error::Error;
use crate::paths::{CATALOGUE, CATALOGUE_LOG};

/// Name of the catalogue in the folder of a history.
/// Attempts to read one state of a folder that changes.
pub(crate) const ATTEMPTS: u32 = 20;
/// Length of the head of a write-ahead log, which changes when the log is begun anew.
const LOG_HEAD: usize = 32;

/// One state of the catalogue.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) series: Vec<Series>,
    pub(crate) parts: Vec<PartRow>,
    /// The logs of spools whose rows are in files.
    pub(crate) spool_logs: Vec<SpoolLog>,
}

impl Snapshot {
    /// # Errors
    /// [`Error::Io`] with `NotFound`: there is no catalogue. [`Error::Changing`].
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        Self::read_with(folder, |_| Ok(()))
    }

    /// The same, after the pages of the catalogue were checked.
    pub(crate) fn checked(folder: &Path) -> Result<Self, Error> {
        Self::read_with(folder, Catalogue::check)
    }

    /// Reads a catalogue that is open.
    pub(crate) fn of(catalogue: &mut Catalogue) -> Result<Self, Error> {
        Ok(Self {
            series: catalogue.series()?,
            parts: catalogue.parts()?,
            spool_logs: catalogue.spool_logs()?,
        })
    }

    fn read_with(
        folder: &Path,
        check: impl FnOnce(&mut Catalogue) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let place = tempfile::tempdir()?;
        copy(folder, place.path())?;
        let mut catalogue = Catalogue::open(&place.path().join(CATALOGUE), false)?;
        check(&mut catalogue)?;
        Self::of(&mut catalogue)
    }

    /// The newest segment of the log whose rows are in files; 0 if there is none.
    pub(crate) fn sealed(&self) -> u64 {
        let segments = self.parts.iter().map(|part| part.segment);
        segments.max().unwrap_or(0)
    }
}

fn copy(folder: &Path, to: &Path) -> Result<(), Error> {
    let log_path = folder.join(CATALOGUE_LOG);
    let read_log = || match std::fs::read(&log_path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        log => log,
    };
    let mut before = read_log()?;
    for _ in 0..ATTEMPTS {
        let catalogue = std::fs::read(folder.join(CATALOGUE))?;
        let log = read_log()?;
        if before.get(..LOG_HEAD) == log.get(..LOG_HEAD) {
            std::fs::write(to.join(CATALOGUE), catalogue)?;
            return Ok(std::fs::write(to.join(CATALOGUE_LOG), log)?);
        }
        before = log;
    }
    Err(Error::Changing)
}
