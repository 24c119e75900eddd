//! Continues a walk after damage: finds the next segment and corrects damaged lead-ins.
//!
//! A lead-in is corrected only if its other fields agree with the positions in the checksum file or
//! with the next segment. A skipped part may have described channels, so later data is read only
//! where its layout is described again.

use super::{FileKind, Walk};
use crate::fault::{Fault, Finding};
use crate::lead_in::{DATA_TAG, LEAD_IN_BYTES, LeadIn, NOT_CLOSED};
use crate::open::OpenError;
use crate::read_at::ReadAt;

/// Maximum number of bytes searched at a time.
const PIECE_BYTES: u64 = 16 * 1024;

impl<R: ReadAt + ?Sized, I: ReadAt + ?Sized> Walk<'_, R, I> {
    /// Returns true if a segment's tag is at position `at`; `None` if the file ends there.
    fn has_tag(&self, at: u64) -> Result<Option<bool>, OpenError> {
        if at >= self.len {
            return Ok(None);
        }
        let mut tag = [0; DATA_TAG.len()];
        let available = (self.len - at).min(tag.len() as u64) as usize;
        let tag = &mut tag[..available];
        self.source
            .read_exact_at(tag, at)
            .map_err(|error| OpenError::source(at, error))?;
        Ok(Some(DATA_TAG.starts_with(tag)))
    }

    /// Returns true if the bytes at position `at` are a lead-in that agrees with the data after the
    /// segment. Ignores the tag.
    fn is_lead_in(&self, at: u64, bytes: &[u8; LEAD_IN_BYTES as usize]) -> Result<bool, OpenError> {
        let lead_in = LeadIn::decode(bytes);
        let is_supported = matches!(lead_in.version, 4712 | 4713) && lead_in.unknown_flags() == 0;
        let after = self.len.saturating_sub(at).saturating_sub(LEAD_IN_BYTES);
        if !is_supported
            || lead_in.metadata_bytes > lead_in.segment_bytes
            || lead_in.metadata_bytes > after
        {
            return Ok(false);
        }
        if lead_in.segment_bytes == NOT_CLOSED {
            return Ok(bytes.starts_with(&DATA_TAG));
        }
        if lead_in.segment_bytes > after {
            return Ok(false);
        }
        let next = self.has_tag(at + LEAD_IN_BYTES + lead_in.segment_bytes)?;
        Ok(next.unwrap_or(true))
    }

    /// Corrects a lead-in whose tag or length is damaged, if possible.
    pub(super) fn repair_lead_in(
        &mut self,
        bytes: &mut [u8; LEAD_IN_BYTES as usize],
    ) -> Result<(), OpenError> {
        if !self.limits.is_salvaging || self.kind != FileKind::Data || self.map.segments == 0 {
            return Ok(());
        }
        let segment_starts = self.segment_starts;
        let index = segment_starts.binary_search(&self.source_position).ok();
        let mut lead_in = LeadIn::decode(bytes);
        let mut is_repaired = false;
        // According to the checksums, the segment ends here at the latest.
        let next = index
            .and_then(|index| segment_starts.get(index + 1))
            .copied();
        if let Some(next) =
            next.filter(|next| (self.source_position + LEAD_IN_BYTES..=self.len).contains(next))
        {
            let end = self.source_position.checked_add(LEAD_IN_BYTES);
            let end = end.and_then(|at| at.checked_add(lead_in.segment_bytes));
            let bytes_max = next - self.source_position - LEAD_IN_BYTES;
            let is_wrong = match end {
                Some(end) if end < next => self.has_tag(end)? == Some(false),
                Some(end) => end > next,
                None => true,
            };
            if is_wrong && lead_in.metadata_bytes <= bytes_max {
                lead_in.segment_bytes = bytes_max;
                is_repaired = true;
            }
        }
        let has_tag = bytes.starts_with(&DATA_TAG);
        let mut repaired = Vec::with_capacity(bytes.len());
        lead_in.encode(&mut repaired);
        if let Some(repaired) = repaired.first_chunk()
            && (is_repaired || !has_tag)
            && self.is_lead_in(self.source_position, repaired)?
        {
            *bytes = *repaired;
            self.map
                .repaired_lead_ins
                .push((self.source_position, *repaired));
            self.map.add_finding(self.position, Fault::DamagedLeadIn);
        }
        Ok(())
    }

    /// Moves to the next segment after the damage. Returns false if there is no other segment.
    pub(super) fn resume(&mut self) -> Result<bool, OpenError> {
        let is_possible = self.limits.is_salvaging && self.kind == FileKind::Data;
        let from = self.source_position.saturating_add(1);
        let damage = self.map.incomplete.as_ref().map(|finding| &finding.fault);
        // A truncated or unclosed end is not damage that other segments follow.
        let is_end = matches!(
            damage,
            None | Some(
                Fault::NotClosed
                    | Fault::Empty
                    | Fault::TruncatedLeadIn { .. }
                    | Fault::Unwritten { .. }
            )
        );
        if !is_possible || is_end || self.map.segments == 0 || from >= self.len {
            return Ok(false);
        }
        let Some(next) = self.next_lead_in(from)? else {
            return Ok(false);
        };
        if let Some(Finding { position, fault }) = self.map.incomplete.take() {
            let bytes = next - self.source_position;
            self.map.add_finding(
                position,
                match fault {
                    Fault::Garbage { .. } => Fault::Garbage { bytes },
                    other => other,
                },
            );
        }
        self.map.bytes_skipped += next - self.source_position;
        self.map.bytes_lost = 0;
        // The skipped part may have described channels.
        self.map.objects.record_loss();
        self.layout = None;
        self.index = None;
        (self.source_position, self.position) = (next, next);
        let number = self.map.segments;
        // The segment that was found last may have been a false match.
        self.map
            .segments_after_damage
            .pop_if(|(last, _)| *last == number);
        self.map.segments_after_damage.push((number, next));
        Ok(true)
    }

    /// Returns the position of the next segment.
    fn next_lead_in(&self, from: u64) -> Result<Option<u64>, OpenError> {
        let index = self.segment_starts.partition_point(|start| *start < from);
        let checksum_start = self
            .segment_starts
            .get(index)
            .filter(|start| **start < self.len);
        let mut at = from;
        let mut piece = vec![0; (self.len - from).min(PIECE_BYTES) as usize];
        while at + LEAD_IN_BYTES <= self.len {
            if let Some(start) = checksum_start.filter(|start| **start <= at) {
                return Ok(Some(*start));
            }
            let available = (self.len - at).min(PIECE_BYTES) as usize;
            let piece = &mut piece[..available];
            self.source
                .read_exact_at(piece, at)
                .map_err(|error| OpenError::source(at, error))?;
            for (number, bytes) in piece.windows(LEAD_IN_BYTES as usize).enumerate() {
                let Some(bytes) = bytes.first_chunk() else {
                    continue;
                };
                let place = at + number as u64;
                if bytes.starts_with(&DATA_TAG) && self.is_lead_in(place, bytes)? {
                    return Ok(Some(
                        checksum_start.map_or(place, |start| place.min(*start)),
                    ));
                }
            }
            // A lead-in may cross the end of this piece.
            at += (available as u64 + 1).saturating_sub(LEAD_IN_BYTES).max(1);
        }
        Ok(checksum_start.copied())
    }
}
