//! Errors of playback.

use std::io;
use std::path::PathBuf;

use trunkline_ring::NoRegion;
use trunkline_tdms::{ObjectPath, OpenError, ReadError, TdmsType, Text};

use crate::read_queue::ReadQueueError;

/// Maximum number of groups that [`PlaybackError::WhichGroup`] lists: a file may have a million.
pub const GROUPS_TOLD: usize = 10;

/// The reason why a recording cannot be played, or not any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaybackError {
    /// A file cannot be opened.
    #[error("{} cannot be opened: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a TDMS file, or its content is contradictory.
    #[error("{}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<OpenError>,
    },
    /// Values cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<ReadError>,
    },
    /// The stored data does not form a value of the variable.
    #[error(
        "{}: update {update} of {variable} cannot be played: {why}; this variable is not played any \
         further",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The variable's name.
        variable: String,
        /// The number of the update, counted from 0.
        update: u64,
        /// The cause.
        why: String,
    },
    /// The selection does not name a group, and the file has none or several.
    #[error(
        "{} has no single group of channels, but {}; name one",
        path.display(), listed(groups, *further)
    )]
    WhichGroup {
        /// The file.
        path: PathBuf,
        /// The groups that have channels, at most the first [`GROUPS_TOLD`].
        groups: Vec<Text>,
        /// Number of groups not listed.
        further: usize,
    },
    /// The channel does not exist, or the group has none.
    #[error("{} has no channel {channel}; name one that it has", path.display())]
    NoChannel {
        /// The file.
        path: PathBuf,
        /// The missing channel, or the group without channels.
        channel: ObjectPath,
    },
    /// Values without a fixed size cannot be stored in rows.
    #[error(
        "{channel} holds {data_type}, which has no fixed size, so it has no place in rows; leave it \
         out, or play the recording into variables"
    )]
    NoSize {
        /// The channel.
        channel: ObjectPath,
        /// The type of its values.
        data_type: TdmsType,
    },
    /// A file of the series has other channels than the first.
    #[error("{} has other channels than the first file of the series: {what}", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// A file is named like one of the series but belongs to another one.
    #[error(
        "{} is named like a file of the series, but does not continue the files before it: {what}; \
         give it another name, or play it by itself",
        path.display()
    )]
    OtherSeries {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        what: String,
    },
    /// The file does not contain the original rate.
    #[error(
        "the recording does not say when its rows were taken: {channel} has no property wf_increment, \
         and no channel of times was named; play it at full speed, or name one"
    )]
    NoRate {
        /// The channel that was examined.
        channel: ObjectPath,
    },
    /// The requested speed is not a positive finite number.
    #[error("{speed} is not a speed; give a number above 0")]
    Speed {
        /// The requested speed.
        speed: f64,
    },
    /// The ring's elements do not have the size of a row.
    #[error("the ring has elements of {element_bytes} bytes, and a row has {row_bytes}")]
    OtherRows {
        /// Bytes of an element.
        element_bytes: usize,
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// Reading failed.
    #[error("{}: {source}", path.display())]
    Queue {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<ReadQueueError>,
    },
    /// The ring cannot be played into any more.
    #[error(transparent)]
    Ring(#[from] NoRegion),
}

impl PlaybackError {
    /// Returns the channel that caused this error, if the others could be played without it.
    #[must_use]
    pub fn channel(&self) -> Option<&ObjectPath> {
        match self {
            Self::NoSize { channel, .. } => Some(channel),
            Self::Read { source, .. } => match &**source {
                ReadError::Damaged { path, .. }
                | ReadError::WrongType { path, .. }
                | ReadError::NoScaler { path, .. } => Some(path),
                _ => None,
            },
            _ => None,
        }
    }
}

fn listed(groups: &[Text], further: usize) -> String {
    let names: Vec<_> = groups.iter().map(ToString::to_string).collect();
    match (names.join(", "), further) {
        _ if groups.is_empty() => "none".to_owned(),
        (names, 0) => names,
        (names, further) => format!("{names} and {further} more"),
    }
}
