//! Why a recording is not played.

use std::io;
use std::path::PathBuf;

use trunkline_ring::NoRegion;
use trunkline_tdms::{ObjectPath, OpenError, ReadError, TdmsType, Text};

use crate::read_queue::ReadQueueError;

/// Groups that [`PlaybackError::WhichGroup`] tells of: a file may have a million.
pub const GROUPS_TOLD: usize = 10;

/// Why a recording is not played, or not played any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaybackError {
    /// A file cannot be opened.
    #[error("{} cannot be opened: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is no TDMS file, or contradicts itself.
    #[error("{}: {source}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: Box<OpenError>,
    },
    /// Values cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: Box<ReadError>,
    },
    /// What is in the file makes no value of a variable.
    #[error(
        "{}: update {update} of {variable} cannot be played: {why}; nothing behind it is, of this \
         variable",
        path.display()
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which variable.
        variable: String,
        /// Which of its updates, counted from 0.
        update: u64,
        /// What is wrong.
        why: String,
    },
    /// It is not clear which group is meant.
    #[error(
        "{} has no single group of channels, but {}; name one",
        path.display(), listed(groups, *further)
    )]
    WhichGroup {
        /// Which file.
        path: PathBuf,
        /// The groups that have channels: the first [`GROUPS_TOLD`] of them.
        groups: Vec<Text>,
        /// How many there are besides.
        further: usize,
    },
    /// There is no such channel, or none at all.
    #[error("{} has no channel {channel}; name one that it has", path.display())]
    NoChannel {
        /// Which file.
        path: PathBuf,
        /// Which channel, or which group without channels.
        channel: ObjectPath,
    },
    /// Values without a size of their own have no place in rows.
    #[error(
        "{channel} holds {data_type}, which has no fixed size, so it has no place in rows; leave it \
         out, or play the recording into variables"
    )]
    NoSize {
        /// Which channel.
        channel: ObjectPath,
        /// What it holds.
        data_type: TdmsType,
    },
    /// A file of the series has other channels than the first.
    #[error("{} has other channels than the first file of the series: {what}", path.display())]
    OtherFile {
        /// Which file.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// A file has the name of one of the series, and is of another one.
    #[error(
        "{} is named as a file of the series, and does not go on from those before: {what}; give it \
         another name, or play it by itself",
        path.display()
    )]
    OtherSeries {
        /// Which file.
        path: PathBuf,
        /// What does not fit.
        what: String,
    },
    /// The original rate is not in the file.
    #[error(
        "the recording does not say when its rows were taken: {channel} has no property wf_increment, \
         and no channel of times was named; play it at full speed, or name one"
    )]
    NoRate {
        /// The channel that was looked at.
        channel: ObjectPath,
    },
    /// A speed that is none.
    #[error("{speed} is no speed to play at; give a number above 0")]
    Speed {
        /// What was asked for.
        speed: f64,
    },
    /// The ring is for rows of another size.
    #[error("the ring has elements of {element_bytes} bytes, and a row has {row_bytes}")]
    OtherRows {
        /// Bytes of an element.
        element_bytes: usize,
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// Reading has failed.
    #[error("{}: {source}", path.display())]
    Queue {
        /// Which file.
        path: PathBuf,
        /// What.
        source: Box<ReadQueueError>,
    },
    /// The ring cannot be played into any more.
    #[error(transparent)]
    Ring(#[from] NoRegion),
}

impl PlaybackError {
    /// The channel because of which nothing is played, where others could be without it.
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
