//! Defines the faults that a file can have. The messages say how the reader handles each fault.

use std::fmt;

use crate::data_type::TdmsType;
use crate::path::{ObjectPath, PathError};

/// A fault in a file, and its position.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// Position of the fault in the file, in bytes.
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
    // The file or its readable part ends here.
    #[error("the file is empty")]
    Empty,
    #[error("the file ends within a lead-in: {bytes} of 28 bytes")]
    TruncatedLeadIn { bytes: u64 },
    #[error("the file ends within the metadata: {missing} bytes are missing")]
    TruncatedMetadata { missing: u64 },
    #[error("the segment was never closed; its data extends to the end of the file")]
    NotClosed,
    #[error(
        "the next segment is not written yet: the file is still being recorded, or its recorder \
         stopped early; the {bytes} bytes from here on are not read"
    )]
    Unwritten { bytes: u64 },
    #[error("the file ends in the middle of data: {missing} bytes are missing")]
    TruncatedData { missing: u64 },
    #[error("no segment begins here; the {bytes} bytes from here on are not read")]
    Garbage { bytes: u64 },

    // The reader accepts these faults and continues.
    #[error(
        "the lead-in of a segment is damaged; the reader reconstructed it from the other data of \
         the file"
    )]
    DamagedLeadIn,
    #[error("version {version} is unknown; the segment is read as version 4713")]
    UnknownVersion { version: u32 },
    #[error("the version changes to {version}; some readers refuse files with several versions")]
    VersionChange { version: u32 },
    #[error("the byte order differs from that of the previous segments")]
    ByteOrderChange,
    #[error("the table of contents has the unknown bits {bits:#x}; they are ignored")]
    UnknownFlags { bits: u32 },
    #[error("a segment has data, but its flags declare none; the data is read")]
    UnannouncedData,
    #[error("{path} occurs twice in one metadata block; the later entry is used")]
    DuplicatePath { path: ObjectPath },
    #[error(
        "the last chunk has {bytes} of {chunk} bytes; it is read as if every channel had fewer values"
    )]
    ShortChunk {
        bytes: u64,
        /// Size of a whole chunk in bytes.
        chunk: u64,
    },

    // Data of one segment cannot be read.
    #[error("{bytes} bytes of data belong to no channel and are not read")]
    UnassignedData { bytes: u64 },
    #[error(
        "{path} has the type {data_type}, which cannot be read; no data of this segment is read"
    )]
    UnreadableType {
        path: ObjectPath,
        data_type: TdmsType,
    },
    #[error("interleaved channels have different lengths; no data of this segment is read")]
    UnequalRows,
    #[error("strings are interleaved with other channels; no data of this segment is read")]
    InterleavedStrings,
    #[error(
        "a segment has both DAQmx channels and plain channels; no data of this segment is read"
    )]
    MixedDaqmx,
    #[error("{path} has DAQmx scalers outside of its rows; no data of this segment is read")]
    BadDaqmx { path: ObjectPath },
    #[error("the declared data is larger than any file; no data of this segment is read")]
    Overflow,
    #[error("the remaining metadata cannot be read: {problem}; no data of this segment is read")]
    BadMetadata {
        /// The reason why the metadata cannot be read.
        problem: &'static str,
    },
    #[error(
        "the segment relies on metadata that could not be read; no data of this segment is read"
    )]
    LostMetadata,
    #[error("the string offsets do not match the string data")]
    BadStrings,

    // The whole file is rejected, because it is not a TDMS file, is inconsistent, or exceeds a
    // limit.
    #[error(
        "this is not a TDMS file, because it begins with `{}` instead of `TDSm`",
        readable(tag)
    )]
    NotTdms { tag: Vec<u8> },
    #[error(
        "this is an index file, which contains no data; open the .tdms file, or open this file as \
         an index"
    )]
    IndexFile,
    #[error(
        "this is not an index file, because it begins with `{}` instead of `TDSh`",
        readable(tag)
    )]
    NotIndex { tag: Vec<u8> },
    #[error("the metadata has {metadata} bytes, but the whole segment has only {segment}")]
    MetadataBeyondSegment {
        metadata: u64,
        /// Total size of metadata and data in bytes.
        segment: u64,
    },
    #[error("the first segment has no metadata")]
    NoMetadata,
    /// A path is not well-formed.
    #[error("{0}")]
    Path(#[from] PathError),
    #[error("an object path has {bytes} bytes; the limit is {limit}")]
    LongPath { bytes: u64, limit: u64 },
    #[error("the file has more than {limit} objects")]
    TooManyObjects { limit: usize },
    #[error("the lists of channels change too often for the length of the file")]
    TooManyChanges,
    #[error("{path} has {dimensions} dimensions; TDMS allows only 1")]
    Dimensions {
        path: ObjectPath,
        /// Number of dimensions in the file.
        dimensions: u32,
    },
    #[error(
        "{path} reuses the data description of an earlier segment, but no earlier segment has one"
    )]
    NoPreviousDescription { path: ObjectPath },
    #[error("{path} had the type {before} and now has {now}; a channel must keep its type")]
    TypeChange {
        path: ObjectPath,
        before: TdmsType,
        now: TdmsType,
    },

    // Faults in the index file.
    #[error(
        "the index file differs from the data file at this position; the index is ignored from here on"
    )]
    StaleIndex,
    // Faults in the checksum file.
    #[error("the checksum file ({bytes} bytes) is not valid; nothing was compared")]
    UnusableSums { bytes: u64 },
    #[error("no segment matches its checksum, because the checksums belong to another file")]
    SumsOfOtherFile,
    #[error("the checksum of the next {bytes} bytes does not match; do not trust them")]
    WrongSum { bytes: u64 },
    #[error("the file ends within a segment that has a checksum: {missing} bytes are missing")]
    ChecksumBeyondEnd { missing: u64 },
    #[error("the {bytes} bytes from here on have no checksum")]
    NoSum { bytes: u64 },
    #[error("{entries} checksums of the next data are damaged and cannot be compared")]
    DamagedSums { entries: u64 },
    #[error("the checksum file ends within an entry: {bytes} of 24 bytes")]
    TruncatedSums { bytes: u64 },
}

/// Returns the first bytes of a file as text; bytes that are not printable are escaped.
fn readable(tag: &[u8]) -> String {
    let escaped = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        byte => byte.escape_ascii().to_string(),
    };
    tag.iter().map(escaped).collect()
}
