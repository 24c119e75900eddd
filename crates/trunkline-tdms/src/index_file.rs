//! The index file of a data file: a copy of the lead-ins and metadata without the data.
//!
//! An index may be older than the data, damaged, or belong to another file. The data file takes
//! precedence: the index is compared with it, and is used on its own only if there is no data file.

use std::io;

use crate::lead_in::{INDEX_TAG, LEAD_IN_BYTES};
use crate::read_at::ReadAt;

/// Number of bytes compared at a time.
const PIECE_BYTES: u64 = 4_096;

/// Returns the bytes of an index file for `header`, the lead-in and metadata of a segment.
///
/// An index file is the concatenation of these for all segments.
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

    /// Returns true if a complete segment begins here and has the lead-in `lead_in`. Also compares
    /// the metadata if `metadata` is given.
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
            Some((data, at)) => same(
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

    /// Moves past a segment. Returns the position of its metadata.
    pub(crate) fn pass(&mut self, metadata_bytes: u64) -> u64 {
        let metadata = self.at + LEAD_IN_BYTES;
        self.at = metadata + metadata_bytes;
        metadata
    }
}

/// Returns true if `bytes` bytes of two sources are equal.
pub(crate) fn same<A: ReadAt + ?Sized, B: ReadAt + ?Sized>(
    (a, mut at_a): (&A, u64),
    (b, mut at_b): (&B, u64),
    bytes: u64,
) -> io::Result<bool> {
    let mut left = bytes;
    let (mut piece_a, mut piece_b) = (Vec::new(), Vec::new());
    while left > 0 {
        let piece = left.min(PIECE_BYTES) as usize;
        piece_a.resize(piece, 0);
        piece_b.resize(piece, 0);
        a.read_exact_at(&mut piece_a, at_a)?;
        b.read_exact_at(&mut piece_b, at_b)?;
        if piece_a != piece_b {
            return Ok(false);
        }
        (at_a, at_b, left) = (
            at_a + piece as u64,
            at_b + piece as u64,
            left - piece as u64,
        );
    }
    Ok(true)
}
