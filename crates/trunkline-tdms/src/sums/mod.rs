//! Reads and builds the checksums of a file's segments, which are in a separate file `x.tdms.sums`.
//!
//! The TDMS format has no checksums, so a reader takes damaged values for valid ones. Other TDMS
//! readers ignore the checksum file.
//!
//! ```text
//! 0          8          16        20        24
//! | TLSUMS1\n | id       | zeros   | check   |     once
//! | position  | bytes    | sum     | check   |     for each segment, in the order of the file
//! ```
//!
//! All numbers are little-endian. `sum` is the CRC32C of the segment's bytes in the data file.
//! `check` is the CRC32C of the 20 bytes before it. The `check` of an entry continues from the
//! `check` of the first line, so entries of another file are not valid in this file. All entries
//! have the same length, so the reader finds the entry after a damaged one.

use std::io;

use crate::read_at::ReadAt;

mod check;
mod open;

pub use self::check::{SumsCheck, SumsState};
pub use self::open::{ChecksummedFile, UncheckedSegments};

/// Size in bytes of an entry, and of the part before the first entry.
pub const SUMS_ENTRY_BYTES: usize = 24;

/// The first bytes of a checksum file.
const MAGIC: [u8; 8] = *b"TLSUMS1\n";
/// Number of bytes that `check` covers.
const CHECKED_BYTES: usize = 20;

/// The position, length and checksum of one segment, or of several segments written together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentSum {
    /// Position of the segment in the data file.
    pub position: u64,
    /// Total length in bytes of lead-in, metadata and raw data.
    pub bytes: u64,
    /// CRC32C of these bytes.
    pub sum: u32,
}

/// The checksum of the bytes after a header, which may be computed before the header is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BodySum {
    bytes: usize,
    sum: u32,
}

impl BodySum {
    /// Returns the checksum extended by the next bytes.
    pub fn with(self, piece: &[u8]) -> Self {
        Self {
            bytes: self.bytes + piece.len(),
            sum: crc32c::crc32c_append(self.sum, piece),
        }
    }
}

/// Identifies a checksum file. All entries of the file depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SumsId {
    id: u64,
    check: u32,
}

impl SumsId {
    /// Creates the identity of a new checksum file. No other file may have the same `id`.
    pub fn new(id: u64) -> Self {
        let check = crc32c::crc32c(&Self { id, check: 0 }.begin()[..CHECKED_BYTES]);
        Self { id, check }
    }

    pub fn number(self) -> u64 {
        self.id
    }

    /// Returns the first bytes of the checksum file.
    pub fn begin(self) -> [u8; SUMS_ENTRY_BYTES] {
        let mut bytes = [0; SUMS_ENTRY_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[CHECKED_BYTES..].copy_from_slice(&self.check.to_le_bytes());
        bytes
    }

    /// Decodes the first bytes of a file; `None` if it is not a checksum file.
    fn read(bytes: &[u8; SUMS_ENTRY_BYTES]) -> Option<Self> {
        let id = u64::from_le_bytes(*bytes[8..].first_chunk()?);
        let decoded = Self::new(id);
        (decoded.begin() == *bytes).then_some(decoded)
    }
}

impl SegmentSum {
    /// Computes the checksum of a segment at `position` from the header and the checksum of the
    /// bytes after it.
    pub fn of(position: u64, header: &[u8], body: BodySum) -> Self {
        let (header_sum, body_sum) = (crc32c::crc32c(header), body.sum);
        Self {
            position,
            bytes: header.len() as u64 + body.bytes as u64,
            sum: crc32c::crc32c_combine(header_sum, body_sum, body.bytes),
        }
    }

    /// Returns the entry for a file that starts with `id`.
    pub fn entry(&self, id: SumsId) -> [u8; SUMS_ENTRY_BYTES] {
        let mut bytes = [0; SUMS_ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.position.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..CHECKED_BYTES].copy_from_slice(&self.sum.to_le_bytes());
        let check = crc32c::crc32c_append(id.check, &bytes[..CHECKED_BYTES]);
        bytes[CHECKED_BYTES..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Decodes an entry; `None` if it is damaged or belongs to another file.
    fn read(bytes: &[u8; SUMS_ENTRY_BYTES], id: SumsId) -> Option<Self> {
        let decoded = Self {
            position: u64::from_le_bytes(*bytes.first_chunk()?),
            bytes: u64::from_le_bytes(*bytes[8..].first_chunk()?),
            sum: u32::from_le_bytes(*bytes[16..].first_chunk()?),
        };
        (decoded.entry(id) == *bytes).then_some(decoded)
    }
}

/// Returns in ascending order the positions of the segments that have checksums, and the end of the
/// last of these segments.
pub(crate) fn segment_starts<S: ReadAt + ?Sized>(sums: &S) -> io::Result<Vec<u64>> {
    let entry_bytes = SUMS_ENTRY_BYTES as u64;
    let entries = sums.byte_len()? / entry_bytes;
    let (mut starts, mut end) = (Vec::new(), 0);
    let mut entry = [0; SUMS_ENTRY_BYTES];
    let mut id = None;
    for number in 0..entries {
        sums.read_exact_at(&mut entry, number * entry_bytes)?;
        let Some(id) = id else {
            id = SumsId::read(&entry);
            if id.is_none() {
                break;
            }
            continue;
        };
        let sum = SegmentSum::read(&entry, id);
        if let Some(sum) = sum.filter(|sum| starts.is_empty() || sum.position >= end) {
            starts.push(sum.position);
            end = sum.position.saturating_add(sum.bytes);
        }
    }
    starts.extend((end > 0).then_some(end));
    Ok(starts)
}
