//! Reads the catalogue of a folder without changing it, even while an engine records.
//!
//! The catalogue and its write-ahead log are copied to a temporary folder and read there, because SQLite
//! would create files in the history's folder.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::catalogue::{Catalogue, PartRow, Series, SpoolEnd, SpoolLog};
use crate::database::{CopyError, copy_database};
use crate::error::Error;
use crate::paths::CATALOGUE;
use crate::private;

/// Maximum number of attempts to read a consistent state while an engine changes the folder.
pub(crate) const ATTEMPTS: u32 = 20;

/// A consistent state of the catalogue.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) series: Vec<Series>,
    pub(crate) parts: Vec<PartRow>,
    /// Logs of spools whose rows are in files.
    pub(crate) spool_logs: Vec<SpoolLog>,
    /// Ends of logs of spools whose rows are not in files.
    pub(crate) spool_ends: Vec<SpoolEnd>,
}

impl Snapshot {
    /// Reads the catalogue of a folder.
    ///
    /// # Errors
    /// [`Error::Io`] with `NotFound` if there is no catalogue; [`Error::Changing`] if it changed during every
    /// attempt.
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        Self::read_with(folder, |_| Ok(()))
    }

    /// Does the same as [`read`](Self::read), but checks the integrity of the database first.
    pub(crate) fn checked(folder: &Path) -> Result<Self, Error> {
        Self::read_with(folder, Catalogue::check)
    }

    /// Reads an open catalogue.
    pub(crate) fn of(catalogue: &mut Catalogue) -> Result<Self, Error> {
        Ok(Self {
            series: catalogue.series()?,
            parts: catalogue.parts()?,
            spool_logs: catalogue.spool_logs()?,
            spool_ends: catalogue.spool_ends()?,
        })
    }

    fn read_with(
        folder: &Path,
        check: impl FnOnce(&mut Catalogue) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let temporary = tempfile::tempdir()?;
        copy(folder, temporary.path())?;
        let mut catalogue = Catalogue::open(&temporary.path().join(CATALOGUE), false)?;
        check(&mut catalogue)?;
        Self::of(&mut catalogue)
    }

    /// Returns the number of the newest log segment whose rows are in files; 0 if there is none.
    pub(crate) fn sealed(&self) -> u64 {
        let segments = self.parts.iter().map(|part| part.segment);
        segments.max().unwrap_or(0)
    }
}

fn copy(folder: &Path, to: &Path) -> Result<(), Error> {
    let (from, to) = (folder.join(CATALOGUE), to.join(CATALOGUE));
    let copied = copy_database(&from, &to, ATTEMPTS, &mut |from, to| {
        let mut source = match File::open(from) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            source => source?,
        };
        // Do not copy the permissions, which may forbid this user to write.
        io::copy(&mut source, &mut private::create_file(to)?)?;
        Ok(true)
    });
    copied.map_err(|error: CopyError<io::Error>| match error {
        CopyError::Io { error, .. } | CopyError::Copy(error) => error.into(),
        CopyError::Changing => Error::Changing,
    })
}
