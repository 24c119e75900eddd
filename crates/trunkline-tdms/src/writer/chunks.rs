//! Appends more values to a segment, under the same header.

use super::{Arrangement, Share, Writer};
use crate::lead_in::{LEAD_IN_BYTES, SEGMENT_BYTES_AT};

impl Writer {
    /// Extends the segment last described by [`header`](Self::header) by another chunk with these
    /// values, after its raw data. Returns the bytes of the chunk, which must be added to the
    /// length in the header with [`lengthen_segment`]. Returns `None` if a new segment is needed:
    /// for other channels, counts or another order, if properties are waiting to be written, or if
    /// the segment has no raw data.
    ///
    /// All chunks of a segment have the same channels with the same counts; their number follows
    /// from the length of the segment.
    pub fn add_chunk(&mut self, shares: &[Share], arrangement: Arrangement) -> Option<u64> {
        if self.open != Some(arrangement) {
            return None;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let is_as_before = self.check(shares, arrangement, &mut scratch).is_ok()
            && self.is_as_before(&scratch.checked);
        let shared = scratch.checked.iter();
        let bytes = shared.fold(0, |sum: u64, share| sum.saturating_add(share.bytes));
        self.scratch = scratch;
        let position = self.position.checked_add(bytes).filter(|_| is_as_before)?;
        self.position = position;
        Some(bytes)
    }
}

/// Adds the bytes of [`Writer::add_chunk`] to the length in a segment's header. Does nothing if
/// `header` is too short.
pub fn lengthen_segment(header: &mut [u8], bytes: u64) {
    let lead_in = header.first_chunk_mut::<{ LEAD_IN_BYTES as usize }>();
    let length = lead_in.and_then(|lead_in| lead_in[SEGMENT_BYTES_AT..].first_chunk_mut());
    if let Some(length) = length {
        *length = u64::from_le_bytes(*length)
            .saturating_add(bytes)
            .to_le_bytes();
    }
}
