//! Describes the parts of a recording that are missing.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::tdms_file::series_file;

/// A part of a recording that cannot be played, because it is missing or damaged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MissingPart {
    /// Files of the series are missing from the sequence of numbers. Later files are played.
    Files {
        /// The first of one or more consecutive missing files.
        first: PathBuf,
        /// The last of these files.
        last: PathBuf,
    },
    /// Updates that earlier files contained are missing.
    Updates {
        /// The first file after the missing updates.
        path: PathBuf,
        updates: u64,
        /// Number of variables that have missing updates.
        variables: u64,
    },
    /// Rows that earlier files contained are missing.
    Rows {
        /// The first file after the missing rows.
        path: PathBuf,
        rows: u64,
    },
    /// The end of a file is missing or damaged. The file is played up to there.
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
                count_with_noun(*updates, "update"),
                count_with_noun(*variables, "variable"),
                if *updates == 1 { "is" } else { "are" },
                path.display()
            ),
            Self::Rows {
                path,
                rows: missing,
            } => {
                let (rows, path) = (count_with_noun(*missing, "row"), path.display());
                let are = if *missing == 1 { "is" } else { "are" };
                write!(f, "{rows} {are} missing before {path}")
            }
            Self::End { path, why } => write!(f, "{} was cut off: {why}", path.display()),
        }
    }
}

/// Returns a count followed by its noun, in the plural unless the count is 1.
pub(crate) fn count_with_noun(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl MissingPart {
    /// Returns the missing files between two file numbers of the series that begins with `first`;
    /// `None` if no file is missing between them.
    pub(crate) fn files_between(first: &Path, previous: u32, number: u32) -> Option<Self> {
        (number > previous.saturating_add(1)).then(|| Self::Files {
            first: series_file(first, previous + 1),
            last: series_file(first, number - 1),
        })
    }
}
