//! Encodes and decodes lead-ins, the 28 bytes at the start of each segment.
//!
//! ```text
//! 0      4      8         12              20              28
//! | tag  | ToC  | version | next segment  | raw data      | metadata, raw data ...
//! ```
//!
//! The tag and the table of contents (ToC) are the same in both byte orders. The two offsets count
//! from byte 28. `next segment` is therefore the length of metadata and raw data, and `raw data` is
//! the length of the metadata.

use crate::element::ByteOrder;

/// Size of a lead-in in bytes.
pub const LEAD_IN_BYTES: u64 = 28;
/// Offset of the segment length in a lead-in.
pub(crate) const SEGMENT_BYTES_AT: usize = 12;
pub(crate) const DATA_TAG: [u8; 4] = *b"TDSm";
pub(crate) const INDEX_TAG: [u8; 4] = *b"TDSh";
/// The value of the segment length in a segment that has not been closed.
pub(crate) const NOT_CLOSED: u64 = u64::MAX;

pub(crate) const TOC_METADATA: u32 = 0x02;
pub(crate) const TOC_NEW_LIST: u32 = 0x04;
pub(crate) const TOC_RAW_DATA: u32 = 0x08;
pub(crate) const TOC_INTERLEAVED: u32 = 0x20;
pub(crate) const TOC_BIG_ENDIAN: u32 = 0x40;
pub(crate) const TOC_DAQMX: u32 = 0x80;
const TOC_KNOWN: u32 =
    TOC_METADATA | TOC_NEW_LIST | TOC_RAW_DATA | TOC_INTERLEAVED | TOC_BIG_ENDIAN | TOC_DAQMX;

/// Metadata size in the lead-in of a segment that has not been written yet. It exceeds any file size.
const UNWRITTEN_METADATA_BYTES: u64 = 1 << 62;

/// Returns a placeholder lead-in for a segment that has not been written yet. The caller writes it
/// at the position where that segment will begin.
///
/// Readers treat the placeholder as a truncated last segment and stop there, whatever data follows.
/// The reader of this crate reports [`Fault::Unwritten`](crate::Fault::Unwritten).
pub fn unwritten_lead_in() -> [u8; LEAD_IN_BYTES as usize] {
    LeadIn::UNWRITTEN.to_little_endian()
}

/// Adds `bytes`, the chunk size that [`Writer::add_chunk`](crate::Writer::add_chunk) returned, to
/// the segment length in `header`. The header begins with the lead-in; a shorter header is left
/// unchanged.
pub fn lengthen_segment(header: &mut [u8], bytes: u64) {
    let lead_in = header.first_chunk_mut::<{ LEAD_IN_BYTES as usize }>();
    let length = lead_in.and_then(|lead_in| lead_in[SEGMENT_BYTES_AT..].first_chunk_mut());
    if let Some(length) = length {
        *length = u64::from_le_bytes(*length)
            .saturating_add(bytes)
            .to_le_bytes();
    }
}

/// A lead-in without its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeadIn {
    pub(crate) toc: u32,
    pub(crate) version: u32,
    /// Total size in bytes of metadata and raw data; [`NOT_CLOSED`] if the segment was not
    /// finished.
    pub(crate) segment_bytes: u64,
    pub(crate) metadata_bytes: u64,
}

impl LeadIn {
    /// The lead-in of a segment that has not been written yet.
    pub(crate) const UNWRITTEN: Self = Self {
        toc: TOC_METADATA,
        version: 4713,
        segment_bytes: NOT_CLOSED,
        metadata_bytes: UNWRITTEN_METADATA_BYTES,
    };

    /// Decodes a lead-in without checking its tag.
    pub(crate) fn decode(bytes: &[u8; LEAD_IN_BYTES as usize]) -> Self {
        let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let toc = u32::from_le_bytes(four(4));
        let is_big = toc & TOC_BIG_ENDIAN != 0;
        let u32_at = |at| match is_big {
            true => u32::from_be_bytes(four(at)),
            false => u32::from_le_bytes(four(at)),
        };
        let u64_at = |at| {
            let (first, second) = (u64::from(u32_at(at)), u64::from(u32_at(at + 4)));
            match is_big {
                true => first << 32 | second,
                false => second << 32 | first,
            }
        };
        Self {
            toc,
            version: u32_at(8),
            segment_bytes: u64_at(SEGMENT_BYTES_AT),
            metadata_bytes: u64_at(20),
        }
    }

    /// Returns the lead-in of a little-endian segment of a data file.
    pub(crate) fn to_little_endian(self) -> [u8; LEAD_IN_BYTES as usize] {
        let mut bytes = [0; LEAD_IN_BYTES as usize];
        bytes[..4].copy_from_slice(&DATA_TAG);
        bytes[4..8].copy_from_slice(&self.toc.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[SEGMENT_BYTES_AT..20].copy_from_slice(&self.segment_bytes.to_le_bytes());
        bytes[20..].copy_from_slice(&self.metadata_bytes.to_le_bytes());
        bytes
    }

    /// Appends the lead-in of a segment of a data file, in the segment's byte order.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if self.order() == ByteOrder::Little {
            return out.extend(self.to_little_endian());
        }
        out.extend(DATA_TAG);
        out.extend(self.toc.to_le_bytes());
        out.extend(self.version.to_be_bytes());
        out.extend(self.segment_bytes.to_be_bytes());
        out.extend(self.metadata_bytes.to_be_bytes());
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.toc & flag != 0
    }

    pub(crate) fn order(&self) -> ByteOrder {
        if self.has(TOC_BIG_ENDIAN) {
            ByteOrder::Big
        } else {
            ByteOrder::Little
        }
    }

    pub(crate) fn unknown_flags(&self) -> u32 {
        self.toc & !TOC_KNOWN
    }
}
