//! The faults a file can have, and how each is handled.

use std::fmt;

use crate::data_type::TdmsType;
use crate::path::{ObjectPath, PathError};

/// A fault in a file, and its position.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// Position in the file, in bytes.
    pub position: u64,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.position, self.fault)
    }
}

/// A fault of a file.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    // The file, or its readable part, ends.
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file ends within a lead-in.
    #[error("the file ends within a lead-in: {bytes} of 28 bytes")]
    TornLeadIn {
        /// Bytes present.
        bytes: u64,
    },
    /// The file ends within the metadata of a segment.
    #[error("the file ends within the metadata: {missing} bytes are missing")]
    TornMetadata {
        /// Bytes missing.
        missing: u64,
    },
    /// The last segment was still being written.
    #[error("the segment was never closed; its data extends to the end of the file")]
    NotClosed,
    /// The placeholder of a segment that a recorder has not written yet.
    #[error(
        "the next segment is not written yet: the file is being recorded, or its recorder was \
         stopped before; the {bytes} bytes from here on are not read"
    )]
    Unwritten {
        /// Bytes from here to the end.
        bytes: u64,
    },
    /// The last segment is longer than the file.
    #[error("the file ends within the data: {missing} bytes are missing")]
    TornData {
        /// Bytes missing.
        missing: u64,
    },
    /// Something other than a segment where one should begin.
    #[error("no segment begins here; the {bytes} bytes from here on are not read")]
    Garbage {
        /// Bytes from here to the end.
        bytes: u64,
    },

    // Accepted, and reading continues.
    /// The tag or length in a lead-in is damaged, and was recovered from the rest of the file.
    #[error("the lead-in of a segment is damaged; the rest of the file says how to read it")]
    DamagedLeadIn,
    /// The version is unknown to this crate.
    #[error("version {version} is not known; read as if it were 4713")]
    UnknownVersion {
        /// The number in the lead-in.
        version: u32,
    },
    /// The version differs from that of earlier segments.
    #[error("version {version} after segments of another; some readers refuse such a file")]
    VersionChange {
        /// The number in the lead-in.
        version: u32,
    },
    /// The byte order differs from that of earlier segments.
    #[error("another byte order than in the segments before")]
    ByteOrderChange,
    /// The table of contents has bits without a meaning.
    #[error("unknown bits {bits:#x} in the table of contents")]
    UnknownFlags {
        /// The bits.
        bits: u32,
    },
    /// There is data although the table of contents says there is none.
    #[error("a segment has data although its flags say that it has none; the data is read")]
    UnannouncedData,
    /// A path occurs twice in one metadata block.
    #[error("{path} occurs twice in one metadata block; the later one counts")]
    DuplicatePath {
        /// The path.
        path: ObjectPath,
    },
    /// A closed segment ends with a partial chunk.
    #[error("the last chunk has {bytes} of {chunk} bytes; every channel is taken to be shortened")]
    ShortChunk {
        /// Bytes present.
        bytes: u64,
        /// Bytes of a whole chunk.
        chunk: u64,
    },

    // Data of one segment that cannot be read.
    /// There is data, but no channel that it belongs to.
    #[error("{bytes} bytes of data, and no channel has any; they are not read")]
    OwnerlessData {
        /// Bytes of data.
        bytes: u64,
    },
    /// A channel has a type that this crate does not read.
    #[error("{path} holds {data_type}, which cannot be read; no data of this segment is")]
    UnreadableType {
        /// The channel.
        path: ObjectPath,
        /// Its type.
        data_type: TdmsType,
    },
    /// Interleaved channels have different numbers of rows.
    #[error("interleaved channels of different lengths; no data of this segment is read")]
    UnequalRows,
    /// Strings are interleaved with other channels.
    #[error("strings interleaved with other channels; no data of this segment is read")]
    InterleavedStrings,
    /// DAQmx and plain channels are in the same segment.
    #[error("DAQmx and plain channels in one segment; none of its data is read")]
    MixedDaqmx,
    /// The scalers do not fit the rows they describe.
    #[error("{path} has DAQmx scalers that do not fit its rows; no data of this segment is read")]
    BadDaqmx {
        /// The channel.
        path: ObjectPath,
    },
    /// The sum of the data sizes overflows.
    #[error("the sizes of the data overflow; no data of this segment is read")]
    Overflow,
    /// The rest of the metadata cannot be read.
    #[error("the rest of the metadata cannot be read: {problem}; no data of this segment is")]
    BadMetadata {
        /// The cause.
        problem: &'static str,
    },
    /// The metadata relies on earlier metadata that could not be read.
    #[error("relies on metadata that could not be read; no data of this segment is read")]
    LostMetadata,
    /// A table of string ends is inconsistent.
    #[error("the ends of strings do not fit the text they are in")]
    BadStrings,

    // Refused: the file contradicts itself.
    /// The file is not in this format.
    #[error("not a TDMS file: it begins with `{}`, not with `TDSm`", tag.escape_ascii())]
    NotTdms {
        /// Its first bytes.
        tag: Vec<u8>,
    },
    /// An index file where a data file was expected.
    #[error("an index file, which holds no data; open the .tdms file, or open this as an index")]
    IndexFile,
    /// A data file, or something else, where an index file was expected.
    #[error("not an index file: it begins with `{}`, not with `TDSh`", tag.escape_ascii())]
    NotIndex {
        /// Its first bytes.
        tag: Vec<u8>,
    },
    /// The metadata is longer than its segment.
    #[error("the metadata has {metadata} bytes and the whole segment only {segment}")]
    MetadataBeyondSegment {
        /// Bytes of metadata.
        metadata: u64,
        /// Bytes of metadata and data.
        segment: u64,
    },
    /// The first segment relies on one before it.
    #[error("the first segment has no metadata")]
    NoMetadata,
    /// A path is not well-formed.
    #[error("{0}")]
    Path(#[from] PathError),
    /// A path is longer than the limit.
    #[error("a path of {bytes} bytes; the limit is {limit}")]
    LongPath {
        /// Its length in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file has more objects than the limit.
    #[error("more than {limit} objects")]
    TooManyObjects {
        /// The limit.
        limit: usize,
    },
    /// The lists of channels change too often for the length of the file.
    #[error("the lists of channels change too often for the length of the file")]
    TooManyChanges,
    /// The data has a number of dimensions other than one.
    #[error("{path} has {dimensions} dimensions, not 1")]
    Dimensions {
        /// The channel.
        path: ObjectPath,
        /// The number in the file.
        dimensions: u32,
    },
    /// An object says "as before" but was not described before.
    #[error("{path} says its data is as before, and was not described before")]
    NothingBefore {
        /// The channel.
        path: ObjectPath,
    },
    /// The type of a channel changes.
    #[error("{path} held {before} and now holds {now}; a channel keeps its type")]
    TypeChange {
        /// The channel.
        path: ObjectPath,
        /// The type it had.
        before: TdmsType,
        /// The type it now has.
        now: TdmsType,
    },

    // Faults of the index file.
    /// The index does not match the data file.
    #[error("the index file differs from the data file here; it is not used from here on")]
    StaleIndex,
    // Faults of the checksum file.
    /// The checksum file cannot be used: it is empty, damaged at its start, or not a checksum file.
    #[error("the {bytes} bytes of the file of checksums are not checksums; nothing was compared")]
    UnusableSums {
        /// Its length in bytes.
        bytes: u64,
    },
    /// No segment matches its checksum, and the file does not name these checksums.
    #[error("no segment is what its checksum says: the checksums are of another file")]
    SumsOfAnother,
    /// A segment has changed since it was written.
    #[error("the {bytes} bytes from here on are not what their checksum says; do not trust them")]
    WrongSum {
        /// Bytes of the segment.
        bytes: u64,
    },
    /// A segment with a checksum is missing or cut off.
    #[error("the file ends within a segment that has a checksum: {missing} bytes are missing")]
    SummedBeyondEnd {
        /// Bytes missing.
        missing: u64,
    },
    /// Data without a checksum.
    #[error("the {bytes} bytes from here on have no checksum")]
    NoSum {
        /// Bytes without a checksum.
        bytes: u64,
    },
    /// Entries of the checksum file are damaged.
    #[error("{entries} checksums of what follows are damaged themselves")]
    DamagedSums {
        /// Number of damaged entries.
        entries: u64,
    },
    /// The checksum file ends within an entry.
    #[error("the file of checksums ends within one: {bytes} of 24 bytes")]
    CutSums {
        /// Bytes present.
        bytes: u64,
    },
}
