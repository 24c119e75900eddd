//! What of a recording is not there any more.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::tdms_file::series_file;

/// What a recording says it has and is not there to be played.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MissingPart {
    /// Files of the series, as their numbers tell. What is behind them is played.
    Files {
        /// The first of those that are missing one behind the other.
        first: PathBuf,
        /// The last of them.
        last: PathBuf,
    },
    /// Updates that files before this one have had.
    Updates {
        /// The file behind them.
        path: PathBuf,
        /// How many.
        updates: u64,
        /// Of so many variables.
        variables: u64,
    },
    /// Rows that files before this one have had.
    Rows {
        /// The file behind them.
        path: PathBuf,
        /// How many.
        rows: u64,
    },
    /// The end of a file, which is played up to there.
    End {
        /// The file.
        path: PathBuf,
        /// What is wrong there.
        why: String,
    },
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
                "before {}, updates are missing: {updates}, of {variables} variable{}",
                path.display(),
                if *variables == 1 { "" } else { "s" }
            ),
            Self::Rows { path, rows } => {
                write!(f, "before {}, rows are missing: {rows}", path.display())
            }
            Self::End { path, why } => write!(f, "{} was cut off: {why}", path.display()),
        }
    }
}

impl MissingPart {
    /// The files between two numbers of the series that begins with `first`; none where one follows
    /// the other.
    pub(crate) fn files_between(first: &Path, before: u32, number: u32) -> Option<Self> {
        (number > before.saturating_add(1)).then(|| Self::Files {
            first: series_file(first, before + 1),
            last: series_file(first, number - 1),
        })
    }
}
