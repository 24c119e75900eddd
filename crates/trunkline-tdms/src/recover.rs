//! Verifies files, repairs files that lost their end, and writes index files.

use std::io;

use crate::channel::ReadError;
use crate::data_type::TdmsType;
use crate::fault::{Fault, Finding};
use crate::file::TdmsFile;
use crate::index_file::{IndexCursor, index_of};
use crate::layout::{Form, Layout, Tail};
use crate::lead_in::{LEAD_IN_BYTES, LeadIn, SEGMENT_BYTES_AT};
use crate::map::LastSegment;
use crate::open::OpenError;
use crate::read_at::ReadAt;

/// Maximum number of bytes read at a time.
const PIECE_BYTES: u64 = 64 * 1024;
/// Maximum number of strings read at a time.
const PIECE_STRINGS: u64 = 4_096;

/// How to repair a file that lost its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepairMode {
    /// Remove the last segment if it is incomplete. Earlier segments stay the same.
    Remove,
    /// Keep the whole chunks of the last segment, and write the new length to its lead-in.
    Close,
}

/// The steps that repair a file, in the order in which they must be done.
#[derive(Clone, PartialEq, Debug)]
pub struct Repair {
    /// The fault to repair, and its position.
    pub finding: Finding,
    /// Length in bytes to which the file must be truncated.
    pub length: u64,
    /// Bytes to write to the file and the position at which to write them, if any.
    pub patch: Option<(u64, [u8; 8])>,
    /// Number of bytes that the repair removes.
    pub bytes_lost: u64,
    /// Number of values over all channels that can be read before the repair but not after it.
    pub values_lost: u64,
}

/// The condition of a file, determined by reading the whole file.
#[derive(Clone, PartialEq, Debug)]
pub struct Verification {
    /// All faults. If the file is incomplete, the reason comes first.
    pub findings: Vec<Finding>,
    pub channels: u64,
    /// Number of values over all channels.
    pub values: u64,
    /// True if the index file matches the data file exactly; `None` if no index was compared.
    pub is_index_equal: Option<bool>,
}

impl<R: ReadAt> TdmsFile<R> {
    /// Returns the steps that repair the file; `None` if the file needs no repair.
    ///
    /// After the repair, an existing index file must be written again
    /// ([`TdmsFile::write_index`]).
    pub fn repair(&self, mode: RepairMode) -> io::Result<Option<Repair>> {
        let Some(finding) = self.map.incomplete.clone() else {
            return Ok(None);
        };
        let len = self.source.byte_len()?;
        let is_truncated = matches!(
            finding.fault,
            Fault::NotClosed | Fault::TruncatedData { .. }
        );
        let last = self.map.last.filter(|_| is_truncated);
        let (mut length, mut patch, mut values_lost) = (self.map.end, None, 0);
        if let Some(last) = last {
            length = last.position;
            let (kept, lost) = self.kept_and_lost(&last, mode);
            values_lost = lost;
            let bytes = last.metadata_bytes + kept;
            if mode == RepairMode::Close && (kept > 0 || last.metadata_bytes > 0) {
                length = last.position + LEAD_IN_BYTES + bytes;
                let bytes = match last.is_big_endian {
                    true => bytes.to_be_bytes(),
                    false => bytes.to_le_bytes(),
                };
                patch = Some((last.position + SEGMENT_BYTES_AT as u64, bytes));
            }
        }
        Ok(Some(Repair {
            finding,
            length,
            patch,
            bytes_lost: len.saturating_sub(length),
            values_lost,
        }))
    }

    /// Returns the number of bytes of the last segment's data that the repair keeps, and the number
    /// of values that the repair loses.
    fn kept_and_lost(&self, last: &LastSegment, mode: RepairMode) -> (u64, u64) {
        let run = self.map.runs.last();
        let data = last.position + LEAD_IN_BYTES + last.metadata_bytes;
        let last_extent = run.and_then(|run| {
            let extent = run.extents.last().filter(|e| e.position == data)?;
            Some((run, extent))
        });
        let Some((run, extent)) = last_extent else {
            return (0, 0);
        };
        let layout = &run.layout;
        let values_per_chunk: u64 = layout.columns.iter().map(|c| c.count).sum();
        let values_in_tail = tail_values(layout, run.tail);
        if mode == RepairMode::Remove {
            return (0, extent.chunks * values_per_chunk + values_in_tail);
        }
        let whole = extent.chunks * layout.chunk_bytes;
        // In a closed segment, a partial chunk is read as if it had the same part of all channels.
        // If this gives the same values, they are kept.
        let keeps_tail = match &layout.form {
            Form::Interleaved { .. } => true,
            Form::Contiguous => layout.columns.len() == 1,
            Form::Daqmx { .. } => false,
        };
        match keeps_tail {
            true => (whole + layout.tail_bytes_used(run.tail), 0),
            false => (whole, values_in_tail),
        }
    }

    /// Reads every byte and every string, and compares the index file with the data file.
    ///
    /// The format has no checksums, so damage that turns values into other valid values is not
    /// detected.
    ///
    /// # Errors
    /// [`OpenError::Source`] if the data or the index cannot be read.
    pub fn verify<I: ReadAt + ?Sized>(&self, index: Option<&I>) -> Result<Verification, OpenError> {
        let len = self
            .source
            .byte_len()
            .map_err(|error| OpenError::source(0, error))?;
        let mut piece = Vec::new();
        let mut at = 0;
        while at < len {
            piece.resize((len - at).min(PIECE_BYTES) as usize, 0);
            self.source
                .read_exact_at(&mut piece, at)
                .map_err(|error| OpenError::source(at, error))?;
            at += piece.len() as u64;
        }
        let mut findings: Vec<Finding> = self.map.incomplete.iter().cloned().collect();
        findings.extend(self.map.findings.iter().cloned());
        let channels = self.channels().count() as u64;
        let values = self.channels().map(|channel| channel.len()).sum();
        findings.extend(self.damaged_strings()?);
        let is_index_equal = index.map(|index| self.is_index(index)).transpose();
        let is_index_equal = is_index_equal.map_err(|error| OpenError::source(0, error))?;
        Ok(Verification {
            findings,
            channels,
            values,
            is_index_equal,
        })
    }

    /// Reads all strings, and returns the positions of strings that cannot be read.
    pub fn damaged_strings(&self) -> Result<Vec<Finding>, OpenError> {
        let mut findings = Vec::new();
        for channel in self.channels() {
            if channel.data_type() != TdmsType::String {
                continue;
            }
            for chunk in channel.chunks() {
                let mut at = chunk.start;
                while at < chunk.end {
                    let count = (chunk.end - at).min(PIECE_STRINGS);
                    match channel.read_strings(at, count) {
                        Ok(_) => at += count,
                        Err(ReadError::Damaged { finding, .. }) => {
                            findings.push(finding);
                            break;
                        }
                        Err(ReadError::Source {
                            position, source, ..
                        }) => return Err(OpenError::source(position, source)),
                        Err(_) => break,
                    }
                }
            }
        }
        Ok(findings)
    }

    fn is_index<I: ReadAt + ?Sized>(&self, index: &I) -> io::Result<bool> {
        let mut cursor = IndexCursor::new(index);
        let mut is_same = true;
        self.segments(|at, lead_in, metadata_bytes| {
            let metadata = Some((&self.source, at + LEAD_IN_BYTES));
            is_same = is_same && cursor.matches(lead_in, metadata_bytes, metadata)?;
            cursor.skip_segment(metadata_bytes);
            Ok(is_same)
        })?;
        Ok(is_same && cursor.is_at_end()?)
    }

    /// Writes the content of the index file of this file to `out`.
    ///
    /// # Errors
    /// Any error of the source or of `out`.
    pub fn write_index(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut piece = Vec::new();
        self.segments(|at, lead_in, metadata_bytes| {
            out.write_all(&index_of(lead_in))?;
            let (mut at, mut remaining) = (at + LEAD_IN_BYTES, metadata_bytes);
            while remaining > 0 {
                piece.resize(remaining.min(PIECE_BYTES) as usize, 0);
                self.source.read_exact_at(&mut piece, at)?;
                out.write_all(&piece)?;
                at += piece.len() as u64;
                remaining -= piece.len() as u64;
            }
            Ok(true)
        })
    }

    /// Returns for each position the number of the segment that contains it, counted from 1. The
    /// number is `None` if no readable segment contains the position. `positions` must be in
    /// ascending order.
    pub fn segments_of(&self, positions: &[u64]) -> io::Result<Vec<Option<u64>>> {
        let mut numbers = Vec::with_capacity(positions.len());
        let (mut remaining, mut number) = (positions.iter().copied().peekable(), 0);
        let mut end = 0;
        self.segments(|at, _, _| {
            while remaining.next_if(|position| *position < at).is_some() {
                numbers.push((number > 0).then_some(number));
            }
            number += 1;
            end = at;
            Ok(remaining.peek().is_some())
        })?;
        for position in remaining {
            let is_in_last = number > 0 && (end..self.map.end.max(end + 1)).contains(&position);
            numbers.push(is_in_last.then_some(number));
        }
        Ok(numbers)
    }

    /// Calls `visit` with the position, the lead-in and the metadata length of each readable
    /// segment, until `visit` returns false.
    fn segments(
        &self,
        mut visit: impl FnMut(u64, &[u8; LEAD_IN_BYTES as usize], u64) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut at = 0;
        let mut after_damage = self.map.segments_after_damage.iter().peekable();
        for number in 0..self.map.segments {
            if let Some((_, place)) = after_damage.next_if(|(next, _)| *next == number) {
                at = *place;
            }
            let mut bytes = [0; LEAD_IN_BYTES as usize];
            if self.source.byte_len()?.saturating_sub(at) < LEAD_IN_BYTES {
                // The length in the previous lead-in is damaged.
                break;
            }
            match self
                .map
                .repaired_lead_ins
                .binary_search_by_key(&at, |(place, _)| *place)
            {
                Ok(index) => {
                    let repaired = self.map.repaired_lead_ins.get(index);
                    bytes = repaired.map_or(bytes, |(_, b)| *b);
                }
                Err(_) => self.source.read_exact_at(&mut bytes, at)?,
            }
            let lead_in = LeadIn::decode(&bytes);
            if !visit(at, &bytes, lead_in.metadata_bytes)? {
                break;
            }
            at = at.saturating_add(LEAD_IN_BYTES.saturating_add(lead_in.segment_bytes));
        }
        Ok(())
    }
}

fn tail_values(layout: &Layout, tail: Tail) -> u64 {
    let counts = layout.columns.iter().map(|c| layout.tail_count(c, tail));
    counts.sum()
}
