//! More values behind a segment, under the same header.

use super::{Arrangement, Share, Writer};
use crate::lead_in::{LEAD_IN_BYTES, SEGMENT_BYTES_AT};

impl Writer {
    /// Makes the segment that [`header`](Self::header) was last called for longer by another chunk:
    /// these values, behind its raw data. None where that is not possible and a segment of their
    /// own is needed: other channels, counts or order, properties to be written, or no raw data
    /// there. Else the bytes of the chunk, by which [`lengthen_segment`] has to make the header's
    /// length longer.
    ///
    /// All chunks of a segment have the same channels with the same counts; how many there are
    /// follows from the length of the segment.
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

/// Makes the length that the header of a segment gives longer, by the bytes of
/// [`Writer::add_chunk`]. Nothing where there is no header.
pub fn lengthen_segment(header: &mut [u8], bytes: u64) {
    let lead_in = header.first_chunk_mut::<{ LEAD_IN_BYTES as usize }>();
    let length = lead_in.and_then(|lead_in| lead_in[SEGMENT_BYTES_AT..].first_chunk_mut());
    if let Some(length) = length {
        *length = u64::from_le_bytes(*length)
            .saturating_add(bytes)
            .to_le_bytes();
    }
}
