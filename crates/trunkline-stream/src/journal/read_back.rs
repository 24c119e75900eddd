//! Reads bytes of the stream back from the files of a journal.

use super::error::JournalError;
use super::log::{Log, Segment, segment_name};
use super::record::{RECORD_HEAD, RecordHead, RecordKind, SEGMENT_HEAD};

/// Number of bytes read at once; a longer record is read whole.
const READ_BYTES: usize = 64 << 10;

/// A place between two records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) offset: u64,
}

impl Log {
    /// The beginning of the segment that contains `position`, and the stream position of that
    /// place.
    pub(super) fn place_before(&self, position: u64) -> Option<(Place, u64)> {
        let before = |segment: &&Segment| segment.position <= position;
        let segment = self.segments.iter().rev().find(before)?;
        let place = Place {
            seq: segment.seq,
            offset: SEGMENT_HEAD as u64,
        };
        Some((place, segment.position))
    }

    /// The place after the last record.
    pub(super) fn last_place(&self) -> Option<Place> {
        self.segments.back().map(|segment| Place {
            seq: segment.seq,
            offset: segment.len,
        })
    }

    /// Appends the data of the next records to `out`: only whole records, up to position `limit`,
    /// until `out` has [`READ_BYTES`] bytes or there are no more records.
    pub(super) fn read(
        &self,
        place: &mut Place,
        limit: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), JournalError> {
        let mut chunk = Vec::new();
        while out.len() < READ_BYTES {
            let first = self.segments.front().map_or(0, |segment| segment.seq);
            if place.seq < first {
                // Everything before this segment was read, and has been removed since.
                *place = Place {
                    seq: first,
                    offset: SEGMENT_HEAD as u64,
                };
            }
            let index = usize::try_from(place.seq.saturating_sub(first)).unwrap_or(usize::MAX);
            let Some(segment) = self.segments.get(index) else {
                return Ok(());
            };
            if place.offset >= segment.len {
                if index + 1 == self.segments.len() {
                    return Ok(());
                }
                place.seq += 1;
                place.offset = SEGMENT_HEAD as u64;
                continue;
            }
            let taken = self.read_chunk(segment, place.offset, limit, &mut chunk, out)?;
            if taken == 0 {
                return Ok(());
            }
            place.offset += taken;
        }
        Ok(())
    }

    /// Reads as many whole records as fit a chunk, and returns their length in the file.
    fn read_chunk(
        &self,
        segment: &Segment,
        offset: u64,
        limit: u64,
        chunk: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<u64, JournalError> {
        let damaged = || {
            let what = format!("byte {offset} of {}", segment_name(segment.seq));
            JournalError::damaged(self.disk.folder(), what)
        };
        let mut wanted = READ_BYTES;
        loop {
            let there = usize::try_from(segment.len - offset).unwrap_or(usize::MAX);
            chunk.resize(wanted.min(there), 0);
            let read = segment.file.read_at(offset, chunk);
            let count = read.map_err(|cause| self.error("read", cause))?;
            if count < chunk.len() {
                return Err(damaged());
            }
            let mut rest = chunk.as_slice();
            while let Some((head_bytes, behind)) = rest.split_first_chunk::<RECORD_HEAD>() {
                let head = RecordHead::decode(head_bytes).ok_or_else(damaged)?;
                let len = head.len as usize;
                let Some(payload) = behind.get(..len) else {
                    wanted = RECORD_HEAD + len;
                    break;
                };
                if !head.is_whole(segment.seed, head_bytes, payload) {
                    return Err(damaged());
                }
                if head.kind == RecordKind::Data {
                    if head.position + len as u64 > limit {
                        return Ok((chunk.len() - rest.len()) as u64);
                    }
                    out.extend_from_slice(payload);
                }
                rest = &behind[len..];
            }
            let taken = chunk.len() - rest.len();
            if taken > 0 {
                return Ok(taken as u64);
            }
            if chunk.len() == there {
                return Err(damaged());
            }
        }
    }
}
