//! Errors of writing.

use crate::data_type::TdmsType;
use crate::path::ObjectPath;
use crate::text::Text;

/// The reason why something cannot be written. Nothing was written.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The channel exists with another type.
    #[error("{path} holds {before}; a channel keeps its type, so give {now} another name")]
    TypeChange {
        /// The channel.
        path: ObjectPath,
        /// Its type.
        before: TdmsType,
        /// The requested type.
        now: TdmsType,
    },
    /// Values of this type are never written.
    #[error("{path}: values of type {data_type} are not written")]
    Unwritable {
        /// The object.
        path: ObjectPath,
        /// The type.
        data_type: TdmsType,
    },
    /// Properties of this type are never written.
    #[error("property {name} of {path}: values of type {data_type} are not written")]
    UnwritableProperty {
        /// The object.
        path: ObjectPath,
        /// The property.
        name: Text,
        /// The type.
        data_type: TdmsType,
    },
    /// The length of a path, name or text does not fit its field.
    #[error("{path}: {what} of {bytes} bytes; the limit is {limit}")]
    TooLong {
        /// The object.
        path: ObjectPath,
        /// The thing that is too long.
        what: &'static str,
        /// Its length in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A channel occurs twice in one segment.
    #[error("{path} occurs twice in one segment; write its values together")]
    Twice {
        /// The channel.
        path: ObjectPath,
    },
    /// The channel belongs to another writer.
    #[error("a channel that this writer did not make")]
    UnknownChannel,
    /// Interleaved channels have different numbers of values.
    #[error("{path} has {count} values and the channels before it {before}; rows need as many")]
    UnequalRows {
        /// The channel.
        path: ObjectPath,
        /// The number of its values.
        count: u64,
        /// The number of values of the channels before it.
        before: u64,
    },
    /// Strings cannot be interleaved.
    #[error("{path} holds strings, which cannot be interleaved; write them channel by channel")]
    InterleavedStrings {
        /// The channel.
        path: ObjectPath,
    },
    /// Version 1.0 has no interleaved data.
    #[error("version 1.0 has no interleaved data; write it channel by channel, or version 2.0")]
    InterleavedInVersion1,
    /// The file would be longer than positions can express.
    #[error("the segment would end beyond the longest file")]
    FileTooLong,
}
