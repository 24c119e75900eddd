//! Why something cannot be written.

use crate::data_type::TdmsType;
use crate::path::ObjectPath;
use crate::text::Text;

/// Why something cannot be written. Nothing of it was.
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
        /// The type it was to have.
        now: TdmsType,
    },
    /// A type that is read and never written.
    #[error("{path}: values of type {data_type} are not written")]
    Unwritable {
        /// The object.
        path: ObjectPath,
        /// The type.
        data_type: TdmsType,
    },
    /// A property of a type that is never written.
    #[error("property {name} of {path}: values of type {data_type} are not written")]
    UnwritableProperty {
        /// The object.
        path: ObjectPath,
        /// The property.
        name: Text,
        /// The type.
        data_type: TdmsType,
    },
    /// A path, a name or a text whose length does not fit its field.
    #[error("{path}: {what} of {bytes} bytes; the limit is {limit}")]
    TooLong {
        /// The object.
        path: ObjectPath,
        /// What is too long.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The longest.
        limit: u64,
    },
    /// The same channel twice in one segment.
    #[error("{path} stands twice in one segment; write its values together")]
    Twice {
        /// The channel.
        path: ObjectPath,
    },
    /// A channel of another writer.
    #[error("a channel that this writer did not make")]
    UnknownChannel,
    /// Row by row, with channels of different lengths.
    #[error("{path} has {count} values and the channels before it {before}; rows need as many")]
    UnequalRows {
        /// The channel.
        path: ObjectPath,
        /// How many it has.
        count: u64,
        /// How many the ones before have.
        before: u64,
    },
    /// Row by row, with strings.
    #[error("{path} holds strings, which cannot be interleaved; write them channel by channel")]
    InterleavedStrings {
        /// The channel.
        path: ObjectPath,
    },
    /// Row by row, in version 1.0.
    #[error("version 1.0 has no interleaved data; write it channel by channel, or version 2.0")]
    InterleavedInVersion1,
    /// A file longer than positions reach.
    #[error("the segment would end beyond the longest file")]
    FileTooLong,
}
