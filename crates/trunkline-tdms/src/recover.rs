//! Verifies and repairs files that lost their end.

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

/// Numbers of bytes and of strings read at a time.
const PIECE_BYTES: u64 = 64 * 1024;
const PIECE_STRINGS: u64 = 4_096;

/// The way to repair a file that lost its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepairMode {
    /// Cut off the last segment if it is incomplete. Earlier segments are unchanged.
    Cut,
    /// Keep the whole chunks of the last segment, and write its length into its lead-in.
    Close,
}

/// The steps that repair a file, to be done in this order.
#[derive(Clone, PartialEq, Debug)]
pub struct Repair {
    pub finding: Finding,
    /// The length to which the file must be truncated.
    pub length: u64,
    /// The position and the bytes to write there, if any.
    pub patch: Option<(u64, [u8; 8])>,
    /// Number of bytes cut off.
    pub bytes_lost: u64,
    /// Number of values, over all channels, that can be read before the repair but not after it.
    pub values_lost: u64,
}

/// The condition of a file, determined by reading all of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Verification {
    /// All faults; if the file is incomplete, the reason comes first.
    pub findings: Vec<Finding>,
    pub channels: u64,
    /// Number of values, over all channels.
    pub values: u64,
    /// True if the index file has exactly the content of the data file; `None` if there was no
    /// index.
    pub is_index_same: Option<bool>,
}

impl<R: ReadAt> TdmsFile<R> {
    /// Returns the steps that repair the file; `None` if it needs none.
    ///
    /// If there is an index file, it must be written again afterwards: [`TdmsFile::write_index`].
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
            let (kept, lost) = self.closed(&last, mode);
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

    /// Returns the number of bytes of the last segment's data that are kept, and the number of
    /// values that are lost.
    fn closed(&self, last: &LastSegment, mode: RepairMode) -> (u64, u64) {
        let run = self.map.runs.last();
        let data = last.position + LEAD_IN_BYTES + last.metadata_bytes;
        let of_last = run.and_then(|run| {
            let extent = run.extents.last().filter(|e| e.position == data)?;
            Some((run, extent))
        });
        let Some((run, extent)) = of_last else {
            return (0, 0);
        };
        let layout = &run.layout;
        let in_chunks: u64 = layout.columns.iter().map(|c| c.count).sum();
        let in_tail = tail_values(layout, run.tail);
        if mode == RepairMode::Cut {
            return (0, extent.chunks * in_chunks + in_tail);
        }
        let whole = extent.chunks * layout.chunk_bytes;
        // A partial chunk in a closed segment is read as if all channels were shortened in
        // proportion. If that yields the same values, they are kept.
        let is_alike = match &layout.form {
            Form::Interleaved { .. } => true,
            Form::Contiguous => layout.columns.len() == 1,
            Form::Daqmx { .. } => false,
        };
        match is_alike {
            true => (whole + layout.tail_bytes_used(run.tail), 0),
            false => (whole, in_tail),
        }
    }

    /// Reads every byte and every string, and compares the index file.
    ///
    /// The format has no checksums, so a change that turns values into other valid values is not
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
        let is_index_same = index.map(|index| self.is_index(index)).transpose();
        let is_index_same = is_index_same.map_err(|error| OpenError::source(0, error))?;
        Ok(Verification {
            findings,
            channels,
            values,
            is_index_same,
        })
    }

    /// Tries to read all strings, and returns the positions where that fails.
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
            cursor.pass(metadata_bytes);
            Ok(is_same)
        })?;
        Ok(is_same && cursor.is_at_end()?)
    }

    /// Writes the index file of this file.
    ///
    /// # Errors
    /// Any error of the source or of `out`.
    pub fn write_index(&self, out: &mut impl io::Write) -> io::Result<()> {
        let mut piece = Vec::new();
        self.segments(|at, lead_in, metadata_bytes| {
            out.write_all(&index_of(lead_in))?;
            let (mut at, mut left) = (at + LEAD_IN_BYTES, metadata_bytes);
            while left > 0 {
                piece.resize(left.min(PIECE_BYTES) as usize, 0);
                self.source.read_exact_at(&mut piece, at)?;
                out.write_all(&piece)?;
                at += piece.len() as u64;
                left -= piece.len() as u64;
            }
            Ok(true)
        })
    }

    /// Returns for each position the number, counted from 1, of the segment that contains it, or
    /// `None` if it is in no segment that was read. `positions` must be ascending.
    pub fn segments_of(&self, positions: &[u64]) -> io::Result<Vec<Option<u64>>> {
        let mut numbers = Vec::with_capacity(positions.len());
        let (mut left, mut number) = (positions.iter().copied().peekable(), 0);
        let mut end = 0;
        self.segments(|at, _, _| {
            while left.next_if(|position| *position < at).is_some() {
                numbers.push((number > 0).then_some(number));
            }
            number += 1;
            end = at;
            Ok(left.peek().is_some())
        })?;
        for position in left {
            let is_in_last = number > 0 && (end..self.map.end.max(end + 1)).contains(&position);
            numbers.push(is_in_last.then_some(number));
        }
        Ok(numbers)
    }

    /// Calls `visit` with position, lead-in and metadata length of each segment that was read,
    /// until it returns false.
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
