//! Checksums of a file's segments, in a file beside it: `x.tdms.sums`.
//!
//! The format has none, so values that change unseen are other values. Other readers do not know
//! this file, and need not.
//!
//! ```text
//! 0          8          16        20        24
//! | TLSUMS1\n | id       | zeros   | check   |     once
//! | position  | bytes    | sum     | check   |     for each segment, in the order of the file
//! ```
//!
//! All numbers are little-endian. `sum` is the CRC32C of the segment's bytes in the data file.
//! `check` is the CRC32C of the 20 bytes before it; of an entry it goes on from that of the file's
//! begin, so that entries of another file are none of this one. Every entry has the same length:
//! where one is damaged, the next is found.

use std::io;

use crate::read_at::ReadAt;

mod check;
mod open;

pub use self::check::{SumsCheck, SumsState};
pub use self::open::{Summed, Unsummed};

/// Bytes of an entry, and of what stands before the first.
pub const SUMS_ENTRY_BYTES: usize = 24;

/// What such a file begins with.
const MAGIC: [u8; 8] = *b"TLSUMS1\n";
/// Bytes that are covered by `check`.
const CHECKED: usize = 20;

/// A segment, or several that were written at once, and the checksum of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentSum {
    /// Where it begins in the data file, in bytes.
    pub position: u64,
    /// Its bytes: lead-in, metadata and raw data.
    pub bytes: u64,
    /// CRC32C of them.
    pub sum: u32,
}

/// The checksum of what stands behind a header, which may become known later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BodySum {
    bytes: usize,
    sum: u32,
}

impl BodySum {
    /// With what comes behind it.
    #[must_use]
    pub fn with(self, piece: &[u8]) -> Self {
        Self {
            bytes: self.bytes + piece.len(),
            sum: crc32c::crc32c_append(self.sum, piece),
        }
    }
}

/// What all entries of one file go on from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SumsId {
    id: u64,
    check: u32,
}

impl SumsId {
    /// Of a new file; `id` is a number that no other one has.
    #[must_use]
    pub fn new(id: u64) -> Self {
        let check = crc32c::crc32c(&Self { id, check: 0 }.begin()[..CHECKED]);
        Self { id, check }
    }

    /// The number it was made of.
    #[must_use]
    pub fn number(self) -> u64 {
        self.id
    }

    /// What the file begins with.
    #[must_use]
    pub fn begin(self) -> [u8; SUMS_ENTRY_BYTES] {
        let mut bytes = [0; SUMS_ENTRY_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        bytes[CHECKED..].copy_from_slice(&self.check.to_le_bytes());
        bytes
    }

    /// Reads what a file begins with; none where it is no such file.
    fn read(bytes: &[u8; SUMS_ENTRY_BYTES]) -> Option<Self> {
        let id = u64::from_le_bytes(*bytes[8..].first_chunk()?);
        let made = Self::new(id);
        (made.begin() == *bytes).then_some(made)
    }
}

impl SegmentSum {
    /// Of a segment at `position`: its header, and what stands behind it.
    #[must_use]
    pub fn of(position: u64, header: &[u8], body: BodySum) -> Self {
        let (first, then) = (crc32c::crc32c(header), body.sum);
        Self {
            position,
            bytes: header.len() as u64 + body.bytes as u64,
            sum: crc32c::crc32c_combine(first, then, body.bytes),
        }
    }

    /// The entry of a file that begins with `id`.
    #[must_use]
    pub fn entry(&self, id: SumsId) -> [u8; SUMS_ENTRY_BYTES] {
        let mut bytes = [0; SUMS_ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.position.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..CHECKED].copy_from_slice(&self.sum.to_le_bytes());
        let check = crc32c::crc32c_append(id.check, &bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads an entry; none where it is damaged, or of another file.
    fn read(bytes: &[u8; SUMS_ENTRY_BYTES], id: SumsId) -> Option<Self> {
        let made = Self {
            position: u64::from_le_bytes(*bytes.first_chunk()?),
            bytes: u64::from_le_bytes(*bytes[8..].first_chunk()?),
            sum: u32::from_le_bytes(*bytes[16..].first_chunk()?),
        };
        (made.entry(id) == *bytes).then_some(made)
    }
}

/// Where the segments of a file begin that have checksums, and where the last of them ends;
/// ascending.
pub(crate) fn begins<S: ReadAt + ?Sized>(sums: &S) -> io::Result<Vec<u64>> {
    let entry_bytes = SUMS_ENTRY_BYTES as u64;
    let entries = sums.byte_len()? / entry_bytes;
    let (mut begins, mut end) = (Vec::new(), 0);
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
        if let Some(sum) = sum.filter(|sum| begins.is_empty() || sum.position >= end) {
            begins.push(sum.position);
            end = sum.position.saturating_add(sum.bytes);
        }
    }
    begins.extend((end > 0).then_some(end));
    Ok(begins)
}
