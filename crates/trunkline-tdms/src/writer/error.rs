//! Errors of writing.

use crate::data_type::TdmsType;
use crate::path::ObjectPath;
use crate::text::Text;

/// The reason why something cannot be written. Nothing was written.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum WriteError {
    #[error("{path} holds {before}; a channel keeps its type, so give {now} another name")]
    TypeChange {
        path: ObjectPath,
        before: TdmsType,
        now: TdmsType,
    },
    #[error("{path}: values of type {data_type} are not written")]
    Unwritable {
        path: ObjectPath,
        data_type: TdmsType,
    },
    #[error("property {name} of {path}: values of type {data_type} are not written")]
    UnwritableProperty {
        path: ObjectPath,
        name: Text,
        data_type: TdmsType,
    },
    #[error("{path}: {what} of {bytes} bytes; the limit is {limit}")]
    TooLong {
        path: ObjectPath,
        /// The thing that is too long.
        what: &'static str,
        bytes: u64,
        limit: u64,
    },
    #[error("{path} occurs twice in one segment; write its values together")]
    Twice { path: ObjectPath },
    #[error("the channel was not created by this writer")]
    UnknownChannel,
    #[error(
        "{path} has {count} values and the channels before it {before}; all channels of a row need the same number"
    )]
    UnequalRows {
        path: ObjectPath,
        count: u64,
        /// The number of values of the channels before it.
        before: u64,
    },
    #[error("{path} holds strings, which cannot be interleaved; write them channel by channel")]
    InterleavedStrings { path: ObjectPath },
    #[error(
        "TDMS version 1.0 does not support interleaved data; write the data channel by channel, or \
         use version 2.0"
    )]
    InterleavedInVersion1,
    #[error("the segment would end beyond the longest file")]
    FileTooLong,
}
