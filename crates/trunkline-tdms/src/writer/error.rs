//! Defines the errors of writing a file.

use crate::data_type::TdmsType;
use crate::path::ObjectPath;
use crate::text::Text;

/// The reason why a segment cannot be written. Nothing was written.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum WriteError {
    #[error(
        "{path} has the type {before}, which cannot change; write the {now} values to a channel \
         with another name"
    )]
    TypeChange {
        path: ObjectPath,
        before: TdmsType,
        now: TdmsType,
    },
    #[error("{path} has values of the type {data_type}, which cannot be written")]
    Unwritable {
        path: ObjectPath,
        data_type: TdmsType,
    },
    #[error("the property {name} of {path} has the type {data_type}, which cannot be written")]
    UnwritableProperty {
        path: ObjectPath,
        name: Text,
        data_type: TdmsType,
    },
    #[error("{path}: {what} has {bytes} bytes; the limit is {limit}")]
    TooLong {
        path: ObjectPath,
        /// The part of the file that is too long.
        what: &'static str,
        bytes: u64,
        limit: u64,
    },
    #[error("{path} occurs twice in one segment; write its values together")]
    DuplicateChannel { path: ObjectPath },
    #[error("another writer created the channel; create the channel with this writer")]
    UnknownChannel,
    #[error(
        "{path} has {count} values, but the previous channels have {before}; interleaved channels \
         need the same number of values"
    )]
    UnequalRows {
        path: ObjectPath,
        count: u64,
        /// Number of values of the previous channels.
        before: u64,
    },
    #[error(
        "{path} contains strings, which cannot be interleaved; write the data channel by channel"
    )]
    InterleavedStrings { path: ObjectPath },
    #[error(
        "TDMS version 1.0 does not support interleaved data; write the data channel by channel, or \
         use version 2.0"
    )]
    InterleavedInVersion1,
    #[error(
        "the segment would make the file longer than the format allows; write it to a new file"
    )]
    FileTooLong,
}
