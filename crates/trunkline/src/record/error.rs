//! Errors of recording and playing.

use std::error::Error;
use std::io;

use trunkline_record::{PlaybackError, RecordError, VariableRecordError};
use trunkline_ring::NoRegion;
use trunkline_stream::StreamError;
use trunkline_types::DataType;

use crate::client::CallError;

/// The reason why recording or playing failed or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be created.
    #[error("the recording cannot start: {0}")]
    File(#[from] io::Error),
    /// The recording cannot be written.
    #[error(transparent)]
    Record(Box<RecordError>),
    /// The recording accepts no more data, and no file contains some elements that were taken from
    /// the stream.
    #[error("{elements} elements taken from the stream are not in the recording: {source}")]
    Unwritten {
        /// Number of elements that no file contains.
        elements: u64,
        /// The error of the file.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Updates of variables cannot be written.
    #[error(transparent)]
    Variables(Box<VariableRecordError>),
    /// The recording cannot be played.
    #[error(transparent)]
    Playback(Box<PlaybackError>),
    /// The stream has ended, or cannot be used.
    #[error(transparent)]
    Stream(Box<StreamError>),
    /// The engine does not answer.
    #[error(transparent)]
    Call(Box<CallError>),
    /// The ring is no longer usable.
    #[error(transparent)]
    Ring(#[from] NoRegion),
    /// Elements of this type cannot be recorded as rows.
    #[error(
        "elements of the type {data_type} have no fixed size, or have parts that are not scalar \
         values, and cannot be recorded as rows; record them with record_elements"
    )]
    Type {
        /// Type of the elements.
        data_type: DataType,
    },
    /// The rows of the recording have a different size than the elements of the stream.
    #[error(
        "an element of the type {data_type} has {}, but a row of the recording has {row_bytes} \
         bytes; use a stream whose elements have the size of a row",
        element_bytes.map_or_else(|| "no fixed size".to_owned(), |bytes| format!("{bytes} bytes"))
    )]
    RowSizeMismatch {
        /// Type of the stream.
        data_type: DataType,
        /// Size of an element in bytes; `None` if it varies.
        element_bytes: Option<usize>,
        /// Size of a row of the recording in bytes.
        row_bytes: usize,
    },
    /// The type of the recorded elements differs from the type of the stream.
    #[error(
        "the recording has elements of type {recorded}, but the stream has type {stream}; use a \
         stream of the recorded type"
    )]
    OtherElements {
        /// Type in the recording.
        recorded: DataType,
        /// Type of the stream.
        stream: DataType,
    },
    /// The sample rate is not a positive, finite number.
    #[error(
        "the sample rate {rate} is invalid; use a number of elements per second greater than 0"
    )]
    SampleRate {
        /// The rate requested.
        rate: f64,
    },
    /// Two failures, the more serious one first.
    #[error("{first}; also, {second}")]
    Both {
        /// The failure that makes the recording incomplete, or that endangers it.
        first: Box<RecordingError>,
        /// The less serious failure.
        second: Box<RecordingError>,
    },
    /// No variable of the recording can be played.
    #[error("none of the recording's variables can be played; {why}")]
    NothingToPlay {
        /// The reason, or the first variable with its reason.
        why: String,
    },
}

macro_rules! from {
    ($($error:ty => $variant:ident),* $(,)?) => {$(
        impl From<$error> for RecordingError {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        }
    )*};
}

from! {
    RecordError => Record, VariableRecordError => Variables, PlaybackError => Playback,
    StreamError => Stream, CallError => Call,
}
