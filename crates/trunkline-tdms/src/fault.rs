//! The faults that a file can have, and how each is handled.

use std::fmt;

use crate::data_type::TdmsType;
use crate::path::{ObjectPath, PathError};

/// A fault in a file, and its position.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// Position in the file, in bytes.
    pub position: u64,
    pub fault: Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.position, self.fault)
    }
}

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Fault {
    // The file, or its readable part, ends.
    #[error("the file is empty")]
    Empty,
    #[error("the file ends within a lead-in: {bytes} of 28 bytes")]
    TruncatedLeadIn { bytes: u64 },
    #[error("the file ends within the metadata: {missing} bytes are missing")]
    TruncatedMetadata { missing: u64 },
    #[error("the segment was never closed; its data extends to the end of the file")]
    NotClosed,
    #[error(
        "the next segment is not written yet: the file is being recorded, or its recorder was \
         stopped before; the {bytes} bytes from here on are not read"
    )]
    Unwritten { bytes: u64 },
    #[error("the file ends in the middle of data: {missing} bytes are missing")]
    TruncatedData { missing: u64 },
    #[error("no segment begins here; the {bytes} bytes from here on are not read")]
    Garbage { bytes: u64 },

    // Accepted, and reading continues.
    #[error("the lead-in of a segment is damaged; it was reconstructed from the rest of the file")]
    DamagedLeadIn,
    #[error("version {version} is not known; read as if it were 4713")]
    UnknownVersion { version: u32 },
    #[error("version {version} after segments of another; some readers refuse such a file")]
    VersionChange { version: u32 },
    #[error("another byte order than in the segments before")]
    ByteOrderChange,
    #[error("unknown bits {bits:#x} in the table of contents")]
    UnknownFlags { bits: u32 },
    #[error("a segment has data although its flags say that it has none; the data is read")]
    UnannouncedData,
    #[error("{path} occurs twice in one metadata block; the later one counts")]
    DuplicatePath { path: ObjectPath },
    #[error("the last chunk has {bytes} of {chunk} bytes; every channel is taken to be shortened")]
    ShortChunk {
        bytes: u64,
        /// Size of a whole chunk, in bytes.
        chunk: u64,
    },

    // Data of one segment that cannot be read.
    #[error("{bytes} bytes of data belong to no channel and are not read")]
    UnassignedData { bytes: u64 },
    #[error("{path} holds {data_type}, which cannot be read; no data of this segment is read")]
    UnreadableType {
        path: ObjectPath,
        data_type: TdmsType,
    },
    #[error("interleaved channels of different lengths; no data of this segment is read")]
    UnequalRows,
    #[error("strings interleaved with other channels; no data of this segment is read")]
    InterleavedStrings,
    #[error("DAQmx and plain channels in one segment; none of its data is read")]
    MixedDaqmx,
    #[error("{path} has DAQmx scalers that do not fit its rows; no data of this segment is read")]
    BadDaqmx { path: ObjectPath },
    #[error("the sizes of the data overflow; no data of this segment is read")]
    Overflow,
    #[error("the rest of the metadata cannot be read: {problem}; no data of this segment is read")]
    BadMetadata {
        /// The cause.
        problem: &'static str,
    },
    #[error("the segment relies on metadata that could not be read; none of its data is read")]
    LostMetadata,
    #[error("the string offsets do not fit the string data")]
    BadStrings,

    // The file is rejected as a whole: it is not a TDMS file, is inconsistent, or exceeds a limit.
    #[error("not a TDMS file: it begins with `{}`, not with `TDSm`", readable(tag))]
    NotTdms { tag: Vec<u8> },
    #[error("an index file, which holds no data; open the .tdms file, or open this as an index")]
    IndexFile,
    #[error(
        "not an index file: it begins with `{}`, not with `TDSh`",
        readable(tag)
    )]
    NotIndex { tag: Vec<u8> },
    #[error("the metadata has {metadata} bytes and the whole segment only {segment}")]
    MetadataBeyondSegment {
        metadata: u64,
        /// Size of metadata and data, in bytes.
        segment: u64,
    },
    #[error("the first segment has no metadata")]
    NoMetadata,
    /// A path is not well-formed.
    #[error("{0}")]
    Path(#[from] PathError),
    #[error("a path of {bytes} bytes; the limit is {limit}")]
    LongPath { bytes: u64, limit: u64 },
    #[error("more than {limit} objects")]
    TooManyObjects { limit: usize },
    #[error("the lists of channels change too often for the length of the file")]
    TooManyChanges,
    #[error("{path} has {dimensions} dimensions, not 1")]
    Dimensions {
        path: ObjectPath,
        /// The number in the file.
        dimensions: u32,
    },
    #[error("{path} reuses the data description of an earlier segment, but there is none")]
    NothingBefore { path: ObjectPath },
    #[error("{path} held {before} and now holds {now}; a channel keeps its type")]
    TypeChange {
        path: ObjectPath,
        before: TdmsType,
        now: TdmsType,
    },

    // Faults in the index file.
    #[error(
        "the index file differs from the data file at this position; it is ignored from here on"
    )]
    StaleIndex,
    // Faults in the checksum file.
    #[error("the checksum file ({bytes} bytes) is not valid; nothing was compared")]
    UnusableSums { bytes: u64 },
    #[error("no segment matches its checksum: the checksums belong to another file")]
    SumsOfAnother,
    #[error("the checksum of the next {bytes} bytes does not match; do not trust them")]
    WrongSum { bytes: u64 },
    #[error("the file ends within a segment that has a checksum: {missing} bytes are missing")]
    SummedBeyondEnd { missing: u64 },
    #[error("the {bytes} bytes from here on have no checksum")]
    NoSum { bytes: u64 },
    #[error("{entries} checksums of the following data are themselves damaged")]
    DamagedSums { entries: u64 },
    #[error("the checksum file ends within an entry: {bytes} of 24 bytes")]
    CutSums { bytes: u64 },
}

/// Returns the first bytes of a file as text; bytes that are not printable are escaped.
fn readable(tag: &[u8]) -> String {
    let escaped = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        byte => byte.escape_ascii().to_string(),
    };
    tag.iter().map(escaped).collect()
}
