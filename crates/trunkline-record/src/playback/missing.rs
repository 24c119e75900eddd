//! Parts of a recording that are missing.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::tdms_file::series_file;

/// A part of a recording that cannot be played, because it is missing or damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MissingPart {
    /// Files of the series, found by a gap in the numbers. The files after them are played.
    Files {
        /// The first of a run of missing files.
        first: PathBuf,
        /// The last file of the run.
        last: PathBuf,
    },
    /// Updates that were in earlier files.
    Updates {
        /// The file after the missing updates.
        path: PathBuf,
        updates: u64,
        /// Number of variables that have missing updates.
        variables: u64,
    },
    /// Rows that were in earlier files.
    Rows {
        /// The file after the missing rows.
        path: PathBuf,
        rows: u64,
    },
    /// The end of a file, which is played up to the damage.
    End { path: PathBuf, why: String },
}

impl fmt::Display for MissingPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files { first, last } if first == last => {
                write!(f, "{} is missing", first.display())
            }
            Self::Files { first, last } => {
                let (first, last) = (first.display(), last.display());
                write!(f, "{first} to {last} are missing")
            }
            Self::Updates {
                path,
                updates,
                variables,
            } => write!(
                f,
                "{} of {} {} missing before {}",
                counted(*updates, "update"),
                counted(*variables, "variable"),
                if *updates == 1 { "is" } else { "are" },
                path.display()
            ),
            Self::Rows {
                path,
                rows: missing,
            } => {
                let (rows, path) = (counted(*missing, "row"), path.display());
                let are = if *missing == 1 { "is" } else { "are" };
                write!(f, "{rows} {are} missing before {path}")
            }
            Self::End { path, why } => write!(f, "{} was cut off: {why}", path.display()),
        }
    }
}

/// Returns a number with its noun.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl MissingPart {
    /// Returns the files missing between two file numbers of the series that begins with `first`;
    /// `None` if the numbers are consecutive.
    pub(crate) fn files_between(first: &Path, previous: u32, number: u32) -> Option<Self> {
        (number > previous.saturating_add(1)).then(|| Self::Files {
            first: series_file(first, previous + 1),
            last: series_file(first, number - 1),
        })
    }
}
