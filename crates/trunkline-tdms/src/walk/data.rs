//! The position and layout of a segment's data.

use std::sync::Arc;

use super::Walk;
use crate::fault::Fault;
use crate::layout::{Layout, Tail};
use crate::lead_in::{LEAD_IN_BYTES, LeadIn, NOT_CLOSED, TOC_INTERLEAVED, TOC_RAW_DATA};
use crate::map::{Extent, LastSegment, Run};
use crate::open::OpenError;
use crate::read_at::ReadAt;

/// Number of layout columns that any file may have, and number of bytes that a file needs for each
/// further column. A normal file has at least one byte of data per column; only a file made to
/// exhaust memory has more columns than this bound.
const COLUMNS_BASE: u64 = 1 << 14;
const BYTES_PER_COLUMN: u64 = 4;

/// Returns the number of columns that a file of this length may have.
pub(super) fn columns_max(len: u64) -> u64 {
    COLUMNS_BASE + len / BYTES_PER_COLUMN
}

impl<R: ReadAt + ?Sized, I: ReadAt + ?Sized> Walk<'_, R, I> {
    /// Records the position of the data, and moves to the next segment.
    pub(super) fn take_data(&mut self, lead_in: &LeadIn, after: u64) -> Result<bool, OpenError> {
        let metadata = lead_in.metadata_bytes;
        let wanted = lead_in.segment_bytes;
        let is_truncated = wanted == NOT_CLOSED || wanted > after;
        let data_bytes = wanted.min(after) - metadata;
        let start = self.at + LEAD_IN_BYTES + metadata;
        let used = match data_bytes {
            0 => 0,
            _ => self.note_data(lead_in, start, data_bytes, is_truncated)?,
        };
        self.map.last = Some(LastSegment {
            position: self.at,
            is_big_endian: self.is_big == Some(true),
            metadata_bytes: metadata,
        });
        if !is_truncated {
            self.at = start + data_bytes;
            self.position = self.at;
            return Ok(true);
        }
        let fault = match wanted {
            NOT_CLOSED => Fault::NotClosed,
            _ => Fault::TruncatedData {
                missing: wanted - after,
            },
        };
        let ended = self.ends(fault, data_bytes - used);
        self.at = self.len;
        ended
    }

    /// Adds the data to the runs. Returns how many of its bytes belong to values.
    fn note_data(
        &mut self,
        lead_in: &LeadIn,
        start: u64,
        bytes: u64,
        is_truncated: bool,
    ) -> Result<u64, OpenError> {
        if !lead_in.has(TOC_RAW_DATA) {
            self.map.find(self.position, Fault::UnannouncedData);
        }
        let layout = match self.layout(lead_in)? {
            Ok(layout) if layout.chunk_bytes == 0 => {
                self.map.find(start, Fault::UnassignedData { bytes });
                return Ok(0);
            }
            Ok(layout) => layout,
            Err(fault) => {
                self.map.find(self.position, fault);
                return Ok(0);
            }
        };
        let chunk = layout.chunk_bytes;
        let (chunks, rest) = (bytes / chunk, bytes % chunk);
        let tail = Tail {
            bytes: rest,
            is_truncated,
        };
        if rest > 0 && !is_truncated {
            let position = start + bytes - rest;
            self.map
                .find(position, Fault::ShortChunk { bytes: rest, chunk });
        }
        let used = bytes - rest + layout.tail_bytes_used(tail);
        let continued = self
            .map
            .runs
            .last_mut()
            .filter(|run| Arc::ptr_eq(&run.layout, &layout) && run.tail.bytes == 0);
        let run = match continued {
            Some(run) => run,
            None => {
                self.map.runs.push(Run {
                    layout,
                    extents: Vec::new(),
                    tail,
                });
                let Some(run) = self.map.runs.last_mut() else {
                    return Ok(used);
                };
                run
            }
        };
        run.tail = tail;
        let chunks_before = run.chunks();
        run.extents.push(Extent {
            position: start,
            chunks_before,
            chunks,
        });
        Ok(used)
    }

    /// Returns the layout of the segment, or the reason why its data cannot be read.
    fn layout(&mut self, lead_in: &LeadIn) -> Result<Result<Arc<Layout>, Fault>, OpenError> {
        let is_interleaved = lead_in.has(TOC_INTERLEAVED);
        let order = lead_in.order();
        if let Some((for_order, for_flag, layout)) = &self.layout
            && (*for_order, *for_flag) == (order, is_interleaved)
        {
            return Ok(layout.clone());
        }
        let objects = &mut self.map.objects;
        // Objects that this segment lists do not count: their entries take up space in the file.
        let listed = objects.take_listed();
        self.columns += objects.active_len().saturating_sub(listed);
        if self.columns > self.columns_max {
            return self.refuse(Fault::TooManyChanges);
        }
        let made = match objects.is_list_lost() {
            true => Err(Fault::LostMetadata),
            false => Layout::of(objects.active(), order, is_interleaved),
        };
        // Shares the layout with a writer that repeats all metadata in every segment.
        let before = self.map.runs.last().map(|run| &run.layout);
        let made = made.map(|made| match before {
            Some(before) if **before == made => before.clone(),
            _ => Arc::new(made),
        });
        self.layout = Some((order, is_interleaved, made.clone()));
        Ok(made)
    }
}
