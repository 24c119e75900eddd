//! Reports the results of `tdms` on standard error, so that they do not mix with the data.

use std::fmt::{Display, Formatter, Result};
use std::path::Path;

use super::output_file::shown_out;
use crate::counted;
use crate::output::record::{JsonSchema, Notice, Serialize};
use crate::terminal::escaped;
use crate::verbs::stream::units::bytes_text;

/// The last line of a command, on standard error.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[schemars(title = "Result of `tdms`, version 1")]
#[expect(
    clippy::enum_variant_names,
    reason = "these are the names of the events"
)]
pub(crate) enum TdmsEvent {
    /// The result of `verify`.
    TdmsVerified {
        /// The file that was read.
        file: String,
        /// Number of segments that were read.
        segments: u64,
        /// Number of channels.
        channels: u64,
        /// Number of values in all channels.
        values: u64,
        /// Whether the index file belongs to this file. Left out if there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<bool>,
        /// Whether every byte matches the checksums next to the file. Left out if there are none.
        #[serde(skip_serializing_if = "Option::is_none")]
        sums: Option<bool>,
        /// Number of segments that match their checksums.
        #[serde(skip_serializing_if = "Option::is_none")]
        segments_summed: Option<u64>,
        /// Number of findings.
        findings: usize,
    },
    /// The result of `repair`.
    TdmsRepaired(Repaired),
    /// `repair` has saved the removed part of a file.
    TdmsKept {
        /// The file that was written.
        file: String,
        /// The file that was cut.
        #[serde(skip)]
        original: String,
    },
    /// `repair` has written the index file.
    TdmsIndexWritten {
        /// The file that was written.
        file: String,
    },
    /// The result of `convert` into rows.
    TdmsConverted {
        /// The file that was written.
        file: String,
        /// Number of rows.
        rows: u64,
        /// Number of channels.
        channels: usize,
        /// Number of bytes that were written.
        bytes: u64,
    },
    /// The result of `defrag`, and of `convert` into TDMS.
    TdmsRewritten {
        /// The file that was written.
        file: String,
        /// Number of segments in the file that was read.
        segments_before: u64,
        /// Number of values in all channels.
        values: u64,
        /// Number of bytes that were written.
        bytes: u64,
        /// Number of findings.
        findings: usize,
    },
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Repaired {
    /// The file that was read.
    pub(super) file: String,
    /// `would-be-written` in a dry run that would only write the index file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["would-be-written"]))]
    pub(super) index: Option<&'static str>,
    /// `cut`, or `nothing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["cut", "nothing"]))]
    pub(super) done: Option<&'static str>,
    /// The repaired file, if the command wrote it to another file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) out: Option<String>,
    #[serde(flatten)]
    pub(super) cut: Option<Cut>,
    /// Number of findings that remain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) findings: Option<usize>,
    #[serde(skip)]
    pub(super) text: String,
}

impl Repaired {
    pub(super) fn new(path: &Path, text: String) -> Self {
        Self {
            file: path.display().to_string(),
            text,
            ..Self::default()
        }
    }
}

/// The part that is cut off.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cut {
    /// Position of the damage in the file.
    pub(super) byte: u64,
    /// What is wrong at this position.
    pub(super) what: String,
    /// Length of the file after the cut, in bytes.
    pub(super) length: u64,
    /// Number of bytes that are cut off.
    pub(super) bytes_lost: u64,
    /// Number of readable values that are cut off.
    pub(super) values_lost: u64,
}

impl Notice for TdmsEvent {}

impl Display for TdmsEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::TdmsVerified {
                file,
                segments,
                channels,
                values,
                segments_summed,
                findings,
                ..
            } => {
                let findings = match findings {
                    0 => "no findings".to_owned(),
                    count => counted(*count as u64, "finding"),
                };
                let (segments, channels) =
                    (counted(*segments, "segment"), counted(*channels, "channel"));
                let (file, values) = (escaped(file), counted(*values, "value"));
                write!(f, "{file}: {findings} in {segments}, {channels}, {values}")?;
                match segments_summed {
                    Some(count) => {
                        let segments = counted(*count, "segment");
                        write!(f, "; checksums match in {segments}")
                    }
                    None => Ok(()),
                }
            }
            Self::TdmsRepaired(repaired) => f.write_str(&repaired.text),
            Self::TdmsKept { file, original } => {
                let (original, cut_file) = (escaped(original), escaped(file));
                write!(
                    f,
                    "the removed part is kept in {cut_file}; `cat {original} {cut_file}` restores the \
                     original file"
                )
            }
            Self::TdmsIndexWritten { file } => write!(f, "{}: rewritten", escaped(file)),
            Self::TdmsConverted {
                file,
                rows,
                channels,
                bytes,
            } => {
                let (rows, channels) =
                    (counted(*rows, "row"), counted(*channels as u64, "channel"));
                let (file, bytes) = (shown_out(Path::new(file)), bytes_text(*bytes as f64));
                write!(f, "{file}: {rows} of {channels}, {bytes}")
            }
            Self::TdmsRewritten {
                file,
                segments_before,
                values,
                bytes,
                ..
            } => {
                let (values, segments) = (
                    counted(*values, "value"),
                    counted(*segments_before, "segment"),
                );
                let (file, bytes) = (shown_out(Path::new(file)), bytes_text(*bytes as f64));
                write!(f, "{file}: {values}, {bytes}, from {segments}")
            }
        }
    }
}
