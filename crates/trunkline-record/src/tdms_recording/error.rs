//! Defines the layout of recorded rows and the errors of recording.

use trunkline_tdms::{TdmsType, Text, Waveform, WriteError};

use crate::error::{QueueError, Refused};

/// The layout of a ring's elements. Each element is a row with one value of each channel, in
/// little-endian order and without padding.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TdmsLayout {
    /// Name of the group that contains all channels.
    pub group: Text,
    /// Name and type of each channel, in the order of their values in a row.
    pub channels: Vec<(Text, TdmsType)>,
    /// Names of the channels whose 64-bit integers are times in nanoseconds since 1970. The values
    /// are stored without conversion; properties of the channel mark them as times.
    pub timestamps: Vec<Text>,
    /// Times of the rows, if they are evenly spaced. They are written as properties of each
    /// channel. In a series, the offset in each file is that of the file's first row.
    pub waveform: Option<Waveform>,
}

/// The reason why rows are not recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The format cannot represent the data.
    #[error(transparent)]
    Format(#[from] WriteError),
    #[error(
        "channel {channel} has the type {data_type}, which has no fixed size; record it as a variable"
    )]
    NoSize { channel: Text, data_type: TdmsType },
    #[error("the recording has no channels; specify at least one")]
    NoChannels,
    #[error(
        "the ring's elements have {element_bytes} bytes, but a row of these channels has \
         {row_bytes}; change the channels to match the ring's elements"
    )]
    RowSizeMismatch { element_bytes: u64, row_bytes: u64 },
    #[error(
        "an earlier header was longer than header_bytes_max, so no more rows can be added \
         to this file; close it, and continue in a new file with a larger header_bytes_max"
    )]
    HeaderOverflow,
    /// The region was not written; the error contains it.
    #[error(transparent)]
    Refused(#[from] Box<Refused>),
    #[error(transparent)]
    Queue(#[from] QueueError),
}
