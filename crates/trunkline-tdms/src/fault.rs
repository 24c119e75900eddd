//! What can be wrong with a file, and what is done about it.

use std::fmt;

use crate::data_type::TdmsType;
use crate::path::{ObjectPath, PathError};

/// Something in a file that is not as it should be, and the byte at which it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// Position in the file, in bytes.
    pub position: u64,
    /// What is wrong there.
    pub fault: Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.position, self.fault)
    }
}

/// What is wrong.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    // The file ends, or what can be read of it does.
    /// Nothing at all.
    #[error("the file is empty")]
    Empty,
    /// A lead-in that ends early.
    #[error("the file ends within a lead-in: {bytes} of 28 bytes")]
    TornLeadIn {
        /// Bytes that are there.
        bytes: u64,
    },
    /// A segment whose metadata ends early.
    #[error("the file ends within the metadata: {missing} bytes are missing")]
    TornMetadata {
        /// Bytes that are not there.
        missing: u64,
    },
    /// A segment that was being written.
    #[error("the segment was never closed; its data goes on to the end of the file")]
    NotClosed,
    /// The place of a segment that a recorder has not written yet.
    #[error(
        "the next segment is not written yet: the file is being recorded, or its recorder was \
         stopped before; the {bytes} bytes from here on are not read"
    )]
    Unwritten {
        /// Bytes from here to the end.
        bytes: u64,
    },
    /// A segment longer than the file.
    #[error("the file ends within the data: {missing} bytes are missing")]
    TornData {
        /// Bytes that are not there.
        missing: u64,
    },
    /// Something else where a segment should begin.
    #[error("no segment begins here; the {bytes} bytes from here on are not read")]
    Garbage {
        /// Bytes from here to the end.
        bytes: u64,
    },

    // Taken as it is, and read on.
    /// A lead-in whose tag or length is damaged, and can be told from the rest of the file.
    #[error("the lead-in of a segment is damaged; it is read as the rest of the file has it")]
    DamagedLeadIn,
    /// Not a version this crate knows.
    #[error("version {version} is not known; read as if it were 4713")]
    UnknownVersion {
        /// The number in the lead-in.
        version: u32,
    },
    /// A version other than that of the segments before.
    #[error("version {version} after segments of another; some readers refuse such a file")]
    VersionChange {
        /// The number in the lead-in.
        version: u32,
    },
    /// Another byte order than that of the segments before.
    #[error("another byte order than in the segments before")]
    ByteOrderChange,
    /// Bits of the table of contents without a meaning.
    #[error("unknown bits {bits:#x} in the table of contents")]
    UnknownFlags {
        /// The bits.
        bits: u32,
    },
    /// Data where the table of contents says there is none.
    #[error("data in a segment that says it has none; it is read")]
    UnannouncedData,
    /// The same path twice in one block.
    #[error("{path} stands twice in one metadata block; the later one counts")]
    DuplicatePath {
        /// The path.
        path: ObjectPath,
    },
    /// Bytes at the end of a closed segment that are no whole chunk.
    #[error("the last chunk has {bytes} of {chunk} bytes; every channel is taken to be shortened")]
    ShortChunk {
        /// Bytes that are there.
        bytes: u64,
        /// Bytes of a whole chunk.
        chunk: u64,
    },

    // Data of one segment that cannot be read.
    /// Data, and no channel that it would belong to.
    #[error("{bytes} bytes of data, and no channel has any; they are not read")]
    OwnerlessData {
        /// Bytes of data.
        bytes: u64,
    },
    /// A channel with a type this crate does not read.
    #[error("{path} holds {data_type}, which cannot be read; no data of this segment is")]
    UnreadableType {
        /// The channel.
        path: ObjectPath,
        /// Its type.
        data_type: TdmsType,
    },
    /// Row by row, with channels that have no rows in common.
    #[error("interleaved channels of different lengths; no data of this segment is read")]
    UnequalRows,
    /// Row by row, with strings.
    #[error("strings interleaved with other channels; no data of this segment is read")]
    InterleavedStrings,
    /// Acquisition data beside plain data.
    #[error("DAQmx and plain channels in one segment; none of its data is read")]
    MixedDaqmx,
    /// Scalers that do not fit the rows they describe.
    #[error("{path} has DAQmx scalers that do not fit its rows; no data of this segment is read")]
    BadDaqmx {
        /// The channel.
        path: ObjectPath,
    },
    /// Sizes whose sum is no number.
    #[error("the sizes of the data overflow; no data of this segment is read")]
    Overflow,
    /// Metadata of which the rest cannot be read.
    #[error("the rest of the metadata cannot be read: {problem}; no data of this segment is")]
    BadMetadata {
        /// Why.
        problem: &'static str,
    },
    /// Metadata that relies on some that could not be read.
    #[error("relies on metadata that could not be read; no data of this segment is read")]
    LostMetadata,
    /// A table of strings that contradicts itself.
    #[error("the ends of strings do not fit the text they are in")]
    BadStrings,

    // Refused: the file contradicts itself.
    /// Not a file of this format.
    #[error("not a TDMS file: it begins with `{}`, not with `TDSm`", tag.escape_ascii())]
    NotTdms {
        /// Its first bytes.
        tag: Vec<u8>,
    },
    /// An index file where a data file was expected.
    #[error("an index file, which holds no data; open the .tdms file, or open this as an index")]
    IndexFile,
    /// A data file where an index file was expected.
    #[error("not an index file: it begins with `{}`, not with `TDSh`", tag.escape_ascii())]
    NotIndex {
        /// Its first bytes.
        tag: Vec<u8>,
    },
    /// Metadata that is longer than its segment.
    #[error("the metadata has {metadata} bytes and the whole segment only {segment}")]
    MetadataBeyondSegment {
        /// Bytes of metadata.
        metadata: u64,
        /// Bytes of metadata and data.
        segment: u64,
    },
    /// A first segment that relies on one before it.
    #[error("the first segment has no metadata")]
    NoMetadata,
    /// A path outside the grammar.
    #[error("{0}")]
    Path(#[from] PathError),
    /// A path longer than the limit.
    #[error("a path of {bytes} bytes; the limit is {limit}")]
    LongPath {
        /// Its length.
        bytes: u64,
        /// The longest that is read.
        limit: u64,
    },
    /// More objects than the limit.
    #[error("more than {limit} objects")]
    TooManyObjects {
        /// As many are read.
        limit: usize,
    },
    /// Lists of channels that change too often for the length of the file.
    #[error("the lists of channels change too often for the length of the file")]
    TooManyChanges,
    /// Data of other than one dimension.
    #[error("{path} has {dimensions} dimensions, not 1")]
    Dimensions {
        /// The channel.
        path: ObjectPath,
        /// What the file says.
        dimensions: u32,
    },
    /// An object that says "as before" and was not described before.
    #[error("{path} says its data is as before, and was not described before")]
    NothingBefore {
        /// The channel.
        path: ObjectPath,
    },
    /// A channel whose type changes.
    #[error("{path} held {before} and now holds {now}; a channel keeps its type")]
    TypeChange {
        /// The channel.
        path: ObjectPath,
        /// The type it had.
        before: TdmsType,
        /// The type it is said to have.
        now: TdmsType,
    },

    // An index file beside the data.
    /// An index that is not of this file.
    #[error("the index file differs from the data file here; it is not used from here on")]
    StaleIndex,
    // Checksums beside the data.
    /// No checksums where some were expected.
    #[error("the {bytes} bytes of the file of checksums are none; nothing was compared")]
    UnusableSums {
        /// How long that file is.
        bytes: u64,
    },
    /// Checksums that no segment agrees with, and that the file does not name.
    #[error("no segment is what its checksum says: the checksums are of another file")]
    SumsOfAnother,
    /// A segment that has changed since it was written.
    #[error("the {bytes} bytes from here on are not what their checksum says; do not trust them")]
    WrongSum {
        /// Bytes of the segment.
        bytes: u64,
    },
    /// A segment with a checksum that is not there, or not all of it.
    #[error("the file ends within a segment that has a checksum: {missing} bytes are missing")]
    SummedBeyondEnd {
        /// Bytes that are not there.
        missing: u64,
    },
    /// Data without a checksum.
    #[error("the {bytes} bytes from here on have no checksum")]
    NoSum {
        /// How many.
        bytes: u64,
    },
    /// Entries of the file of checksums that are damaged.
    #[error("{entries} checksums of what follows are damaged themselves")]
    DamagedSums {
        /// How many.
        entries: u64,
    },
    /// A file of checksums that ends within one.
    #[error("the file of checksums ends within one: {bytes} of 24 bytes")]
    CutSums {
        /// Bytes that are there.
        bytes: u64,
    },
}
