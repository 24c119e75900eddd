//! Reads bytes of the stream back from the files of a journal.

use super::error::JournalError;
use super::log::{Log, Segment, segment_name};
use super::record::{RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES};

/// Number of bytes read at a time, unless a single record is longer.
const READ_BYTES: usize = 64 << 10;

/// A location between two records in the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Number of the segment.
    pub(super) seq: u64,
    /// Offset in the file of the segment, in bytes.
    pub(super) offset: u64,
}

impl Log {
    /// Returns the location of the first record in the segment that contains `position`, and the
    /// stream position of that location.
    pub(super) fn place_before(&self, position: u64) -> Option<(Place, u64)> {
        let begins_before = |segment: &&Segment| segment.position <= position;
        let segment = self.segments.iter().rev().find(begins_before)?;
        let place = Place {
            seq: segment.seq,
            offset: SEGMENT_HEADER_BYTES as u64,
        };
        Some((place, segment.position))
    }

    /// Returns the location after the last record.
    pub(super) fn last_place(&self) -> Option<Place> {
        self.segments.back().map(|segment| Place {
            seq: segment.seq,
            offset: segment.len,
        })
    }

    /// Appends the data of the records from `place` on to `out`, and moves `place` past them. Stops
    /// when `out` contains [`READ_BYTES`] bytes, or before a record that ends after the stream
    /// position `limit`.
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
                // Everything before this segment has been read and then removed.
                *place = Place {
                    seq: first,
                    offset: SEGMENT_HEADER_BYTES as u64,
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
                place.offset = SEGMENT_HEADER_BYTES as u64;
                continue;
            }
            let len = self.read_chunk(segment, place.offset, limit, &mut chunk, out)?;
            if len == 0 {
                return Ok(());
            }
            place.offset += len;
        }
        Ok(())
    }

    /// Reads as many complete records as fit into a chunk, and appends their data to `out`. Returns
    /// the length of these records in the file.
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
        let mut chunk_len = READ_BYTES;
        loop {
            let remaining = usize::try_from(segment.len - offset).unwrap_or(usize::MAX);
            chunk.resize(chunk_len.min(remaining), 0);
            let read = segment.file.read_at(offset, chunk);
            let count = read.map_err(|cause| self.error("read", cause))?;
            if count < chunk.len() {
                return Err(damaged());
            }
            let mut rest = chunk.as_slice();
            while let Some((header_bytes, after_header)) =
                rest.split_first_chunk::<RECORD_HEADER_BYTES>()
            {
                let header = RecordHeader::decode(header_bytes).ok_or_else(damaged)?;
                let len = header.len as usize;
                let Some(payload) = after_header.get(..len) else {
                    chunk_len = RECORD_HEADER_BYTES + len;
                    break;
                };
                if !header.is_intact(segment.seed, header_bytes, payload) {
                    return Err(damaged());
                }
                if header.kind == RecordKind::Data {
                    if header.position + len as u64 > limit {
                        return Ok((chunk.len() - rest.len()) as u64);
                    }
                    out.extend_from_slice(payload);
                }
                rest = &after_header[len..];
            }
            let consumed = chunk.len() - rest.len();
            if consumed > 0 {
                return Ok(consumed as u64);
            }
            if chunk.len() == remaining {
                return Err(damaged());
            }
        }
    }
}
