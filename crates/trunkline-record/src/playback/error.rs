//! Defines the errors of playback.

use std::io;
use std::path::PathBuf;

use trunkline_ring::NoRegion;
use trunkline_tdms::{ObjectPath, OpenError, ReadError, TdmsType, Text};

use crate::read_queue::ReadQueueError;

/// Maximum number of groups that [`PlaybackError::AmbiguousGroup`] lists, because a file may have a
/// million groups.
pub const GROUPS_LISTED_MAX: usize = 10;

/// The reason why a recording, or the remaining part of a recording, cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    #[error("{} cannot be opened: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The file is not a TDMS file, or its content is contradictory.
    #[error("{}: {source}", path.display())]
    Open {
        path: PathBuf,
        source: Box<OpenError>,
    },
    /// Values of the file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: Box<ReadError>,
    },
    #[error(
        "{}: update {update} of {variable} cannot be played: {why}; later updates of this variable \
         are not played",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        variable: String,
        /// Number of the update, counted from 0.
        update: u64,
        why: String,
    },
    #[error(
        "{} does not have exactly one group with channels (found: {}); specify the group to play",
        path.display(), format_groups(groups, *unlisted)
    )]
    AmbiguousGroup {
        path: PathBuf,
        /// Names of the groups that have channels, at most the first [`GROUPS_LISTED_MAX`].
        groups: Vec<Text>,
        /// Number of groups that are not listed.
        unlisted: usize,
    },
    /// The channel does not exist, or the group has no channels.
    #[error("{} has no channel or group {channel}; `trunkline tdms info` lists the channels", path.display())]
    NoChannel {
        path: PathBuf,
        /// The missing channel, or the group without channels.
        channel: ObjectPath,
    },
    #[error(
        "{channel} has the type {data_type}, which has no fixed size and cannot be part of a row; \
         exclude the channel, or play the recording into variables"
    )]
    NoSize {
        channel: ObjectPath,
        data_type: TdmsType,
    },
    #[error(
        "the channels of {} differ from those of the first file of the series: {difference}",
        path.display()
    )]
    FileMismatch { path: PathBuf, difference: String },
    #[error(
        "{} has the name of a file of the series, but does not continue the earlier files: \
         {difference}; rename it, or play it separately",
        path.display()
    )]
    NotContinued { path: PathBuf, difference: String },
    #[error(
        "the recording has no times: {channel} has no property wf_increment, and no channel of times \
         was specified; specify one, or play at full speed"
    )]
    NoTimes { channel: ObjectPath },
    #[error("invalid speed {speed}; use a number greater than 0")]
    Speed { speed: f64 },
    #[error(
        "the ring's elements have {element_bytes} bytes, but a row has {row_bytes}; create the ring \
         with elements of {row_bytes} bytes"
    )]
    RowSizeMismatch {
        element_bytes: usize,
        row_bytes: usize,
    },
    /// The file cannot be read into the ring.
    #[error("{}: {source}", path.display())]
    Queue {
        path: PathBuf,
        source: Box<ReadQueueError>,
    },
    /// The ring is no longer usable.
    #[error(transparent)]
    Ring(#[from] NoRegion),
}

impl PlaybackError {
    pub(crate) fn read(path: impl Into<PathBuf>, source: ReadError) -> Self {
        let (path, source) = (path.into(), Box::new(source));
        Self::Read { path, source }
    }

    pub(crate) fn queue(path: PathBuf, source: ReadQueueError) -> Self {
        let source = Box::new(source);
        Self::Queue { path, source }
    }

    /// Returns the channel that caused this error, if the remaining channels can be played without
    /// it.
    pub fn channel(&self) -> Option<&ObjectPath> {
        match self {
            Self::NoSize { channel, .. } => Some(channel),
            Self::Read { source, .. } => match &**source {
                ReadError::Damaged { path, .. }
                | ReadError::WrongType { path, .. }
                | ReadError::SeveralScalers { path, .. }
                | ReadError::UnknownScaler { path, .. } => Some(path),
                _ => None,
            },
            _ => None,
        }
    }
}

fn format_groups(groups: &[Text], unlisted: usize) -> String {
    let names: Vec<_> = groups.iter().map(ToString::to_string).collect();
    match (names.join(", "), unlisted) {
        _ if groups.is_empty() => "none".to_owned(),
        (names, 0) => names,
        (names, unlisted) => format!("{names} and {unlisted} more"),
    }
}
