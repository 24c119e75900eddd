//! Compares the segments of a file with their checksums, without interpreting the content.

use std::io;

use super::{SUMS_ENTRY_BYTES, SegmentSum, SumsId};
use crate::data_type::TdmsType;
use crate::fault::{Fault, Finding};
use crate::read_at::ReadAt;

/// Maximum number of bytes read at a time.
const PIECE_BYTES: u64 = 64 * 1024;
/// Maximum number of findings that are kept; more findings are only counted.
const FINDINGS_MAX: usize = 1_000;

/// The validity of checksums for a data file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SumsState {
    /// The checksums belong to this file.
    ThisFile,
    /// The checksums belong to another file: no segment matches them, and the file does not refer
    /// to them.
    OtherFile,
    /// The checksums cannot be read, or the checksum file has none.
    Unusable,
}

/// The result of comparing a file with its checksums.
#[derive(Clone, PartialEq, Debug)]
pub struct SumsCheck {
    pub state: SumsState,
    /// Number of segments that match their checksums.
    pub segments: u64,
    /// Position in the data file up to which every byte is in a segment that matches its checksum.
    pub verified_to: u64,
    /// Position of the first segment that does not match its checksum.
    pub first_mismatch: Option<u64>,
    /// Number of bytes of the data file that no checksum covers.
    pub bytes_without_sum: u64,
    /// All faults, in the order of the data file and with positions in the data file.
    pub findings: Vec<Finding>,
    /// Number of findings that were not kept.
    pub findings_dropped: u64,
}

impl SumsCheck {
    /// Reads all bytes of `data` that the checksums in `sums` cover, and compares them.
    ///
    /// Both sources may have any content, because faults are part of the result. Memory use does
    /// not depend on the content.
    pub fn of<R, S>(data: &R, sums: &S) -> io::Result<Self>
    where
        R: ReadAt + ?Sized,
        S: ReadAt + ?Sized,
    {
        let mut check = Self {
            state: SumsState::Unusable,
            segments: 0,
            verified_to: 0,
            first_mismatch: None,
            bytes_without_sum: 0,
            findings: Vec::new(),
            findings_dropped: 0,
        };
        let mut comparison = Comparison {
            data_len: data.byte_len()?,
            data,
            next: 0,
            has_only_matches: true,
            damaged_entries: 0,
            piece: Vec::new(),
        };
        check.compare(&mut comparison, sums)?;
        Ok(check)
    }

    /// Returns true if every byte is in a segment that has a checksum and matches it.
    pub fn is_good(&self) -> bool {
        self.state == SumsState::ThisFile && self.findings.is_empty()
    }

    fn compare<R: ReadAt + ?Sized, S: ReadAt + ?Sized>(
        &mut self,
        comparison: &mut Comparison<'_, R>,
        sums: &S,
    ) -> io::Result<()> {
        let sums_len = sums.byte_len()?;
        let entry_bytes = SUMS_ENTRY_BYTES as u64;
        let entries = (sums_len / entry_bytes).saturating_sub(1);
        let mut entry = [0; SUMS_ENTRY_BYTES];
        let mut id = None;
        if entries > 0 {
            sums.read_exact_at(&mut entry, 0)?;
            id = SumsId::read(&entry);
            // Only the first segment shows that the checksums belong to this file.
            sums.read_exact_at(&mut entry, entry_bytes)?;
            let first = id.and_then(|id| SegmentSum::read(&entry, id));
            id = id.filter(|_| first.is_some_and(|first| first.position == 0));
        }
        let Some(id) = id else {
            self.bytes_without_sum = comparison.data_len;
            self.add_finding(0, Fault::UnusableSums { bytes: sums_len });
            return Ok(());
        };
        self.state = SumsState::ThisFile;
        for number in 1..=entries {
            sums.read_exact_at(&mut entry, number * entry_bytes)?;
            match SegmentSum::read(&entry, id).filter(|sum| comparison.may_follow(sum)) {
                Some(sum) => self.compare_segment(comparison, &sum)?,
                None => comparison.damaged_entries += 1,
            }
        }
        self.report_damaged(comparison);
        self.report_bytes_without_sum(comparison, comparison.data_len);
        if self.first_mismatch == Some(0) && !comparison.belong_to_file(id, self.segments)? {
            self.state = SumsState::OtherFile;
            self.bytes_without_sum = comparison.data_len;
            self.first_mismatch = None;
            self.findings.clear();
            self.findings_dropped = 0;
            self.add_finding(0, Fault::SumsOfOtherFile);
            return Ok(());
        }
        let partial_bytes = sums_len % entry_bytes;
        if partial_bytes > 0 {
            let position = comparison.next;
            self.add_finding(
                position,
                Fault::TruncatedSums {
                    bytes: partial_bytes,
                },
            );
        }
        Ok(())
    }

    /// Compares one segment with its checksum.
    fn compare_segment<R: ReadAt + ?Sized>(
        &mut self,
        comparison: &mut Comparison<'_, R>,
        sum: &SegmentSum,
    ) -> io::Result<()> {
        self.report_damaged(comparison);
        self.report_bytes_without_sum(comparison, sum.position);
        let end = sum.position + sum.bytes;
        let fault = match end.checked_sub(comparison.data_len).filter(|m| *m > 0) {
            Some(missing) => Some(Fault::ChecksumBeyondEnd { missing }),
            None => {
                (comparison.sum(sum)? != sum.sum).then_some(Fault::WrongSum { bytes: sum.bytes })
            }
        };
        comparison.next = end;
        let Some(fault) = fault else {
            self.segments += 1;
            if comparison.has_only_matches {
                self.verified_to = end;
            }
            return Ok(());
        };
        comparison.has_only_matches = false;
        self.first_mismatch.get_or_insert(sum.position);
        self.add_finding(sum.position, fault);
        Ok(())
    }

    /// Reports checksum entries that could not be read.
    fn report_damaged<R: ?Sized>(&mut self, comparison: &mut Comparison<'_, R>) {
        let entries = std::mem::take(&mut comparison.damaged_entries);
        if entries > 0 {
            comparison.has_only_matches = false;
            self.add_finding(comparison.next, Fault::DamagedSums { entries });
        }
    }

    /// Reports data before `end` that has no checksum.
    fn report_bytes_without_sum<R: ?Sized>(
        &mut self,
        comparison: &mut Comparison<'_, R>,
        end: u64,
    ) {
        let bytes = end.min(comparison.data_len).saturating_sub(comparison.next);
        if bytes > 0 {
            comparison.has_only_matches = false;
            self.bytes_without_sum += bytes;
            self.add_finding(comparison.next, Fault::NoSum { bytes });
        }
    }

    fn add_finding(&mut self, position: u64, fault: Fault) {
        match self.findings.len() < FINDINGS_MAX {
            true => self.findings.push(Finding { position, fault }),
            false => self.findings_dropped += 1,
        }
    }
}

/// The progress of a comparison.
struct Comparison<'a, R: ?Sized> {
    data: &'a R,
    data_len: u64,
    /// Position in the data file at which the next segment should begin.
    next: u64,
    /// True while all data so far matches its checksums.
    has_only_matches: bool,
    /// Number of consecutive entries that could not be read.
    damaged_entries: u64,
    piece: Vec<u8>,
}

impl<R: ReadAt + ?Sized> Comparison<'_, R> {
    /// Returns true if the checksums belong to this file although the first segment does not match.
    /// That is the case if the file's property `sums_id` refers to them, or if this property is
    /// damaged or missing and at least one other segment matches.
    fn belong_to_file(&mut self, id: SumsId, matching_segments: u64) -> io::Result<bool> {
        let mut name = b"sums_id".to_vec();
        name.extend(TdmsType::U64.code().to_le_bytes());
        let bytes = self.data_len.min(PIECE_BYTES) as usize;
        self.piece.resize(bytes, 0);
        self.data.read_exact_at(&mut self.piece, 0)?;
        let mut places = self.piece.windows(name.len() + size_of::<u64>());
        let stored_id = places.find_map(|bytes| {
            let number = bytes.strip_prefix(name.as_slice())?.first_chunk()?;
            Some(u64::from_le_bytes(*number))
        });
        // Ids are random. If two ids differ in only one or two bits, one is a damaged copy of the
        // other.
        Ok(
            match stored_id.map(|stored_id| (stored_id ^ id.number()).count_ones()) {
                Some(0) => true,
                Some(1..=2) | None => matching_segments > 0,
                Some(_) => false,
            },
        )
    }

    /// Returns true if the segment of an entry may follow the segments so far.
    fn may_follow(&self, sum: &SegmentSum) -> bool {
        let has_end = sum.position.checked_add(sum.bytes).is_some();
        has_end && sum.bytes > 0 && sum.position >= self.next
    }

    /// Computes the checksum of a segment, which must lie completely within the file.
    fn sum(&mut self, segment: &SegmentSum) -> io::Result<u32> {
        let (mut position, end) = (segment.position, segment.position + segment.bytes);
        let mut sum = 0;
        while position < end {
            self.piece
                .resize((end - position).min(PIECE_BYTES) as usize, 0);
            self.data.read_exact_at(&mut self.piece, position)?;
            sum = crc32c::crc32c_append(sum, &self.piece);
            position += self.piece.len() as u64;
        }
        Ok(sum)
    }
}
