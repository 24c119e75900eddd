//! What can be recorded, and why something is not.

use trunkline_tdms::{TdmsType, Text, Waveform, WriteError};

use crate::error::{QueueError, Refused};

/// What the elements of a ring are: rows, of one value of each channel, little-endian and without
/// anything between them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TdmsLayout {
    /// The group of all channels.
    pub group: Text,
    /// Name and type of each, in the order in which they lie in a row.
    pub channels: Vec<(Text, TdmsType)>,
    /// Channels of 64-bit integers that are times: nanoseconds since 1970, as they lie in memory.
    /// Properties of the channel say so.
    pub timestamps: Vec<Text>,
    /// When the rows are taken, where they are so at even distances: properties of each channel. In
    /// a series each file has the offset of its own first row.
    pub waveform: Option<Waveform>,
}

/// Why rows are not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The format does not have that.
    #[error(transparent)]
    Format(#[from] WriteError),
    /// A type without a size of its own.
    #[error(
        "channel {channel} holds {data_type}, which has no fixed size; record it as a variable"
    )]
    NoSize {
        /// The channel.
        channel: Text,
        /// Its type.
        data_type: TdmsType,
    },
    /// No channel at all.
    #[error("a recording without channels; name at least one")]
    NoChannels,
    /// The ring has elements of another size than the channels make.
    #[error(
        "the ring has elements of {element_bytes} bytes, and a row of these channels has \
         {row_bytes}; make them the same"
    )]
    OtherRows {
        /// Bytes of an element.
        element_bytes: u64,
        /// Bytes of a row.
        row_bytes: u64,
    },
    /// A header did not fit, so the file can have no further rows.
    #[error(
        "an earlier header did not fit into the memory for it, so this file can have no further \
         rows; close it, and go on in another one with a larger header_bytes_max"
    )]
    Over,
    /// It was not written; the region is still held, in `refused`.
    #[error(transparent)]
    Refused(#[from] Box<Refused>),
    /// Writing as a whole.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
