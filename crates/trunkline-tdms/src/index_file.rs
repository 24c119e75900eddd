//! Builds and compares index files, which are copies of a data file's lead-ins and metadata.
//!
//! An index may be older than the data, damaged, or belong to another file. The data file therefore
//! takes precedence: the index is compared with it. An index is used alone only if there is no data
//! file.

use std::io;

use crate::lead_in::{INDEX_TAG, LEAD_IN_BYTES};
use crate::read_at::ReadAt;

/// Maximum number of bytes compared at a time.
const PIECE_BYTES: u64 = 4_096;

/// Returns the part of an index file for a segment whose lead-in and metadata are `header`.
///
/// An index file is the concatenation of the parts of all segments.
pub fn index_of(header: &[u8]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    let tag = bytes.get_mut(..INDEX_TAG.len());
    if let Some(tag) = tag {
        tag.copy_from_slice(&INDEX_TAG);
    }
    bytes
}

pub(crate) struct IndexCursor<'a, I: ?Sized> {
    source: &'a I,
    at: u64,
}

impl<'a, I: ReadAt + ?Sized> IndexCursor<'a, I> {
    pub(crate) fn new(source: &'a I) -> Self {
        Self { source, at: 0 }
    }

    pub(crate) fn source(&self) -> &'a I {
        self.source
    }

    /// Returns true if a complete segment with the lead-in `lead_in` begins at the current
    /// position. Also compares the metadata if `metadata` contains a source and a position.
    pub(crate) fn matches<R: ReadAt + ?Sized>(
        &self,
        lead_in: &[u8; LEAD_IN_BYTES as usize],
        metadata_bytes: u64,
        metadata: Option<(&R, u64)>,
    ) -> io::Result<bool> {
        let len = self.source.byte_len()?;
        let needed = LEAD_IN_BYTES.saturating_add(metadata_bytes);
        if len.saturating_sub(self.at) < needed {
            return Ok(false);
        }
        let mut bytes = [0; LEAD_IN_BYTES as usize];
        self.source.read_exact_at(&mut bytes, self.at)?;
        if bytes[..4] != INDEX_TAG || bytes[4..] != lead_in[4..] {
            return Ok(false);
        }
        match metadata {
            Some((data, at)) => are_equal(
                (self.source, self.at + LEAD_IN_BYTES),
                (data, at),
                metadata_bytes,
            ),
            None => Ok(true),
        }
    }

    pub(crate) fn is_at_end(&self) -> io::Result<bool> {
        Ok(self.source.byte_len()? == self.at)
    }

    /// Moves past a segment. Returns the position of the segment's metadata.
    pub(crate) fn skip_segment(&mut self, metadata_bytes: u64) -> u64 {
        let metadata = self.at + LEAD_IN_BYTES;
        self.at = metadata + metadata_bytes;
        metadata
    }
}

/// Returns true if `bytes` bytes of two sources are equal, starting at the given positions.
pub(crate) fn are_equal<A: ReadAt + ?Sized, B: ReadAt + ?Sized>(
    (a, mut at_a): (&A, u64),
    (b, mut at_b): (&B, u64),
    bytes: u64,
) -> io::Result<bool> {
    let mut remaining = bytes;
    let (mut piece_a, mut piece_b) = (Vec::new(), Vec::new());
    while remaining > 0 {
        let piece = remaining.min(PIECE_BYTES) as usize;
        piece_a.resize(piece, 0);
        piece_b.resize(piece, 0);
        a.read_exact_at(&mut piece_a, at_a)?;
        b.read_exact_at(&mut piece_b, at_b)?;
        if piece_a != piece_b {
            return Ok(false);
        }
        (at_a, at_b, remaining) = (
            at_a + piece as u64,
            at_b + piece as u64,
            remaining - piece as u64,
        );
    }
    Ok(true)
}
