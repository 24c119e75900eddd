//! Records the position and layout of each segment's data.

use std::sync::Arc;

use super::Walk;
use crate::fault::Fault;
use crate::layout::{Layout, Tail};
use crate::lead_in::{LEAD_IN_BYTES, LeadIn, NOT_CLOSED, TOC_INTERLEAVED, TOC_RAW_DATA};
use crate::map::{Extent, LastSegment, Run};
use crate::open::OpenError;
use crate::read_at::ReadAt;

/// Number of layout columns that every file may have, whatever its length.
const COLUMNS_BASE: u64 = 1 << 14;

/// Number of bytes of file length that allow one more column. A normal file has at least one byte
/// of data per column; only a file layout to exhaust memory exceeds this bound.
const BYTES_PER_COLUMN: u64 = 4;

/// Returns the number of columns that a file of this length may have.
pub(super) fn columns_max(len: u64) -> u64 {
    COLUMNS_BASE + len / BYTES_PER_COLUMN
}

impl<R: ReadAt + ?Sized, I: ReadAt + ?Sized> Walk<'_, R, I> {
    /// Records the position of a segment's data, and moves to the next segment. `after` is the
    /// number of bytes after the lead-in.
    pub(super) fn record_data(&mut self, lead_in: &LeadIn, after: u64) -> Result<bool, OpenError> {
        let metadata = lead_in.metadata_bytes;
        let declared_bytes = lead_in.segment_bytes;
        let is_truncated = declared_bytes == NOT_CLOSED || declared_bytes > after;
        let data_bytes = declared_bytes.min(after) - metadata;
        let start = self.source_position + LEAD_IN_BYTES + metadata;
        let used = match data_bytes {
            0 => 0,
            _ => self.add_to_runs(lead_in, start, data_bytes, is_truncated)?,
        };
        self.map.last = Some(LastSegment {
            position: self.source_position,
            is_big_endian: self.is_big_endian == Some(true),
            metadata_bytes: metadata,
        });
        if !is_truncated {
            self.source_position = start + data_bytes;
            self.position = self.source_position;
            return Ok(true);
        }
        let fault = match declared_bytes {
            NOT_CLOSED => Fault::NotClosed,
            _ => Fault::TruncatedData {
                missing: declared_bytes - after,
            },
        };
        let ended = self.end_walk(fault, data_bytes - used);
        self.source_position = self.len;
        ended
    }

    /// Adds a segment's data to the runs. Returns the number of bytes that belong to values.
    fn add_to_runs(
        &mut self,
        lead_in: &LeadIn,
        start: u64,
        bytes: u64,
        is_truncated: bool,
    ) -> Result<u64, OpenError> {
        if !lead_in.has(TOC_RAW_DATA) {
            self.map.add_finding(self.position, Fault::UnannouncedData);
        }
        let layout = match self.layout(lead_in)? {
            Ok(layout) if layout.chunk_bytes == 0 => {
                self.map.add_finding(start, Fault::UnassignedData { bytes });
                return Ok(0);
            }
            Ok(layout) => layout,
            Err(fault) => {
                self.map.add_finding(self.position, fault);
                return Ok(0);
            }
        };
        let chunk = layout.chunk_bytes;
        let (chunks, tail_bytes) = (bytes / chunk, bytes % chunk);
        let tail = Tail {
            bytes: tail_bytes,
            is_truncated,
        };
        if tail_bytes > 0 && !is_truncated {
            let position = start + bytes - tail_bytes;
            self.map.add_finding(
                position,
                Fault::ShortChunk {
                    bytes: tail_bytes,
                    chunk,
                },
            );
        }
        let used = bytes - tail_bytes + layout.tail_bytes_used(tail);
        let last_run = self
            .map
            .runs
            .last_mut()
            .filter(|run| Arc::ptr_eq(&run.layout, &layout) && run.tail.bytes == 0);
        let run = match last_run {
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
        if let Some((layout_order, layout_flag, layout)) = &self.layout
            && (*layout_order, *layout_flag) == (order, is_interleaved)
        {
            return Ok(layout.clone());
        }
        let objects = &mut self.map.objects;
        // Objects that this segment lists are not counted, because their entries need space in the
        // file.
        let entries_read = objects.take_entries_read();
        self.columns += objects.active_len().saturating_sub(entries_read);
        if self.columns > self.columns_max {
            return self.refuse(Fault::TooManyChanges);
        }
        let layout = match objects.is_list_lost() {
            true => Err(Fault::LostMetadata),
            false => Layout::of(objects.active(), order, is_interleaved),
        };
        // A writer may repeat all metadata in every segment; equal layouts then share memory.
        let previous = self.map.runs.last().map(|run| &run.layout);
        let layout = layout.map(|layout| match previous {
            Some(previous) if **previous == layout => previous.clone(),
            _ => Arc::new(layout),
        });
        self.layout = Some((order, is_interleaved, layout.clone()));
        Ok(layout)
    }
}
