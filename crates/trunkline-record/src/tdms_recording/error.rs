//! The layout of rows, and the errors of recording them.

use trunkline_tdms::{TdmsType, Text, Waveform, WriteError};

use crate::error::{QueueError, Refused};

/// The layout of a ring's elements: rows with one value of each channel, little-endian and without
/// padding.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TdmsLayout {
    /// The group of all channels.
    pub group: Text,
    /// Name and type of each channel, in the order of their values in a row.
    pub channels: Vec<(Text, TdmsType)>,
    /// Channels of 64-bit integers that hold times in nanoseconds since 1970, stored without
    /// conversion. Properties of the channel mark them as times.
    pub timestamps: Vec<Text>,
    /// The times of the rows, if they are evenly spaced; written as properties of each channel. In
    /// a series, the offset in each file is that of its own first row.
    pub waveform: Option<Waveform>,
}

/// The reason why rows are not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The format cannot represent the data.
    #[error(transparent)]
    Format(#[from] WriteError),
    #[error(
        "channel {channel} holds {data_type}, which has no fixed size; record it as a variable"
    )]
    NoSize { channel: Text, data_type: TdmsType },
    #[error("the recording has no channels; name at least one")]
    NoChannels,
    #[error(
        "the ring has elements of {element_bytes} bytes, and a row of these channels has \
         {row_bytes}; make them the same"
    )]
    OtherRows { element_bytes: u64, row_bytes: u64 },
    #[error(
        "an earlier header was longer than header_bytes_max, so this file accepts no further rows; \
         close it, and continue in another one with a larger header_bytes_max"
    )]
    HeaderOverflow,
    /// The region was not written; the error contains it.
    #[error(transparent)]
    Refused(#[from] Box<Refused>),
    #[error(transparent)]
    Queue(#[from] QueueError),
}
