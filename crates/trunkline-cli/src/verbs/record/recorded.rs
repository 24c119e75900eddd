//! Events of a recording: its start and its result.

use std::fmt::{Display, Formatter, Result};

use crate::output::record::{JsonSchema, Notice, Serialize};
use crate::output::values::Amount;
use crate::terminal::escaped;

/// A line on standard error of `record start` and `record bench`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[schemars(title = "Start of a recording, version 1")]
pub(crate) enum RecordingEvent {
    /// The recording begins.
    Recording {
        /// The file. Left out by `record bench`.
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        #[serde(flatten)]
        path: Option<WritePath>,
    },
}

/// How a file is written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WritePath {
    /// Method of writing the file. Left out for variables, whose last line gives the method.
    pub(super) backend: String,
    /// Whether the data bypasses the system's cache.
    pub(super) is_direct: bool,
    /// Kind of the memory pages from which the data is written. Left out for variables.
    pub(super) memory: String,
    /// Reasons why the fastest method of writing is not used; empty if it is used.
    pub(super) why_not: Vec<String>,
}

impl Notice for RecordingEvent {}

impl Display for RecordingEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self::Recording { file, path } = self;
        if let Some(file) = file.as_deref().map(escaped) {
            write!(
                f,
                "recording to {file}; Ctrl-C or `trunkline record stop {file}` ends it"
            )?;
        }
        if let Some(path) = path {
            let (backend, memory) = (&path.backend, &path.memory);
            let cache = cache(path.is_direct);
            write!(f, "recording with {backend}, {cache}, from {memory}")?;
            for why_not in &path.why_not {
                write!(f, "\n  not the fastest method: {why_not}")?;
            }
        }
        Ok(())
    }
}

pub(super) fn cache(is_direct: bool) -> &'static str {
    match is_direct {
        true => "bypassing the system's cache",
        false => "through the system's cache",
    }
}

/// The last line of `record start`, on standard error. `record stop` prints one such line for each
/// recording.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "End of a recording, version 1")]
pub(crate) struct Recorded {
    /// `recorded`.
    #[schemars(extend("const" = "recorded"))]
    pub(super) event: &'static str,
    /// The file.
    pub(super) file: String,
    #[serde(flatten)]
    pub(super) amounts: Amounts,
    #[serde(flatten)]
    pub(super) written: Option<FileWritten>,
    /// For variables recorded to a series of files: number of files, whose total length is `bytes`.
    /// Left out otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(super) files: Option<u32>,
    /// System error of a failed sync, after which data that was not yet on the disk may not survive a
    /// loss of power. Left out if no sync failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sync_failure: Option<String>,
    /// For a stream: system error if the file could not be truncated to its length. Left out
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) untrimmed: Option<String>,
    /// Error that occurred while the file was written. Left out if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// One sentence each for the file and its checksums, if they were removed, replaced or renamed
    /// while they were written. Left out otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) displaced: Vec<String>,
    /// Number of unmatched names and patterns that `unmatched` does not list. Left out if there are
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(super) unmatched_further: Option<usize>,
    /// For variables: names and patterns that matched nothing, at most the first 100. Left out if
    /// there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unmatched: Vec<String>,
    /// The result as a sentence, excluding the displaced files and the unmatched names.
    #[serde(skip)]
    pub(super) text: String,
}

/// Amounts of recorded data.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Amounts {
    Elements {
        /// For a series of files: number of files, whose total length is `bytes`. Left out
        /// otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        files: Option<u32>,
        /// For a stream: number of recorded elements.
        elements: u64,
        /// Number of lost rows, if known.
        lost: u64,
    },
    Updates {
        /// For variables: number of variables in the file.
        variables: u64,
        /// For variables: number of recorded updates.
        updates: u64,
        /// For variables: number of updates that survive a loss of power.
        on_disk: u64,
        /// Number of lost updates, if known.
        lost: u64,
        /// For variables: number of gaps in which an unknown number of updates is missing.
        unknown_gaps: u64,
    },
}

/// The file that was written. Left out if nothing was recorded and there is no file.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileWritten {
    /// Length of the file. Left out if nothing was recorded and there is no file.
    pub(super) bytes: u64,
    /// Duration in seconds.
    pub(super) seconds: Amount,
    /// `on-disk`: all data survives a loss of power; `in-file`: all data is in the file, but may not
    /// survive a loss of power.
    #[schemars(extend("enum" = ["in-file", "on-disk"]))]
    pub(super) durability: &'static str,
    /// Method with which the file was written.
    pub(super) backend: String,
    /// Whether the data bypassed the system's cache.
    pub(super) is_direct: bool,
    /// Number of bytes that the recorder copied in memory before it wrote them to the file.
    pub(super) bytes_copied: u64,
}

impl Recorded {
    /// Returns the result of a recording that has left no file.
    pub(super) fn without_file(file: String, amounts: Amounts, text: String) -> Self {
        Self {
            event: "recorded",
            file,
            amounts,
            written: None,
            files: None,
            sync_failure: None,
            untrimmed: None,
            error: None,
            displaced: Vec::new(),
            unmatched_further: None,
            unmatched: Vec::new(),
            text,
        }
    }
}

impl Notice for Recorded {}

impl Display for Recorded {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.text)?;
        for displaced in &self.displaced {
            write!(f, "; {}", escaped(displaced))?;
        }
        if !self.unmatched.is_empty() {
            write!(f, "; no match for {}", self.unmatched.join(", "))?;
        }
        match self.unmatched_further {
            Some(further) => write!(f, ", and {further} more"),
            None => Ok(()),
        }
    }
}

pub(super) fn system_error(number: i32) -> String {
    std::io::Error::from_raw_os_error(number).to_string()
}
