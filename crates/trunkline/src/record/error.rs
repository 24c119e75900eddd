//! Why something is not recorded or played.

use std::error::Error;
use std::io;

use trunkline_record::{PlaybackError, RecordError, VariableRecordError};
use trunkline_ring::NoRegion;
use trunkline_stream::StreamError;
use trunkline_types::DataType;

use crate::client::CallError;

/// Why something is not recorded or played, or not any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be made.
    #[error("the recording cannot be begun: {0}")]
    File(#[from] io::Error),
    /// It cannot be written.
    #[error(transparent)]
    Record(Box<RecordError>),
    /// It takes nothing more, and elements that were taken from a stream are in no file.
    #[error(
        "{elements} elements that were taken from the stream are not in the recording: {source}"
    )]
    Unwritten {
        /// How many.
        elements: u64,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Updates of variables cannot be written.
    #[error(transparent)]
    Variables(Box<VariableRecordError>),
    /// It cannot be played.
    #[error(transparent)]
    Playback(Box<PlaybackError>),
    /// The stream is over, or cannot be used.
    #[error(transparent)]
    Stream(Box<StreamError>),
    /// The engine does not answer.
    #[error(transparent)]
    Call(Box<CallError>),
    /// The ring is of no use any more.
    #[error(transparent)]
    Ring(#[from] NoRegion),
    /// Elements of this type do not become rows.
    #[error(
        "elements of the type {data_type} have no fixed size, or parts that are no plain values, \
         and cannot be recorded as rows; record them with record_elements"
    )]
    Type {
        /// The type.
        data_type: DataType,
    },
    /// The rows are of another size than the elements.
    #[error(
        "an element of the type {data_type} has {element_bytes:?} bytes, and a row of the recording \
         {row_bytes}; make the stream of a type that fits"
    )]
    OtherRows {
        /// The type of the stream.
        data_type: DataType,
        /// Bytes of an element; none where they vary.
        element_bytes: Option<usize>,
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// The elements of the recording are of another type than those of the stream.
    #[error(
        "the recording holds elements of the type {recorded}, and the stream is of the type \
         {stream}; make the stream of the type that was recorded"
    )]
    OtherElements {
        /// The type that was recorded.
        recorded: DataType,
        /// The type of the stream.
        stream: DataType,
    },
    /// A sample rate from which no times can be counted.
    #[error("{rate} is no sample rate; give a number of elements per second above 0")]
    SampleRate {
        /// What was asked for.
        rate: f64,
    },
    /// Two things have failed. The one that costs more comes first.
    #[error("{first}; besides, {second}")]
    Both {
        /// What makes the recording incomplete or unsafe.
        first: Box<RecordingError>,
        /// What failed beside it.
        second: Box<RecordingError>,
    },
    /// There is nothing that could be played.
    #[error("no variable of the recording is there to be played into; {why}")]
    NothingToPlay {
        /// Why not, for the first of them.
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
