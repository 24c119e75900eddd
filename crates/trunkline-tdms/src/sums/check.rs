//! Compares a file with its checksums, byte by byte, regardless of its content.

use std::io;

use super::{SUMS_ENTRY_BYTES, SegmentSum, SumsId};
use crate::data_type::TdmsType;
use crate::fault::{Fault, Finding};
use crate::read_at::ReadAt;

/// Number of bytes read at a time.
const PIECE_BYTES: u64 = 64 * 1024;
/// Maximum number of findings that are kept; further ones are counted.
const FINDINGS_MAX: usize = 1_000;

/// The validity of checksums for a data file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SumsState {
    /// They belong to this file.
    OfThisFile,
    /// They belong to another file: no segment matches them, and the file does not refer to them.
    OfAnother,
    /// They cannot be read, or there are none.
    Unusable,
}

/// The result of comparing a file with its checksums.
#[derive(Clone, PartialEq, Debug)]
pub struct SumsCheck {
    pub state: SumsState,
    /// Number of segments that match their checksums.
    pub segments: u64,
    /// Position in the data file before which every byte is in such a segment.
    pub good_to: u64,
    /// Position of the first segment that does not match.
    pub first_wrong: Option<u64>,
    /// Number of bytes of the data file that no checksum covers.
    pub bytes_without_sum: u64,
    /// All faults in the order of the file; positions are those of the data file.
    pub findings: Vec<Finding>,
    /// Number of further findings that were not kept.
    pub findings_dropped: u64,
}

impl SumsCheck {
    /// Reads everything in `data` that `sums` covers, and compares it.
    ///
    /// Both may have any content: faults are part of the result. Memory use does not depend on the
    /// content.
    pub fn of<R, S>(data: &R, sums: &S) -> io::Result<Self>
    where
        R: ReadAt + ?Sized,
        S: ReadAt + ?Sized,
    {
        let mut check = Self {
            state: SumsState::Unusable,
            segments: 0,
            good_to: 0,
            first_wrong: None,
            bytes_without_sum: 0,
            findings: Vec::new(),
            findings_dropped: 0,
        };
        let mut comparing = Comparing {
            data_len: data.byte_len()?,
            data,
            next: 0,
            is_good_so_far: true,
            damaged: 0,
            piece: Vec::new(),
        };
        check.compare(&mut comparing, sums)?;
        Ok(check)
    }

    /// Returns true if every byte is in a segment with a checksum and matches it.
    pub fn is_good(&self) -> bool {
        self.state == SumsState::OfThisFile && self.findings.is_empty()
    }

    fn compare<R: ReadAt + ?Sized, S: ReadAt + ?Sized>(
        &mut self,
        comparing: &mut Comparing<'_, R>,
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
            // Without the first segment it is unknown whether they belong to this file.
            sums.read_exact_at(&mut entry, entry_bytes)?;
            let first = id.and_then(|id| SegmentSum::read(&entry, id));
            id = id.filter(|_| first.is_some_and(|first| first.position == 0));
        }
        let Some(id) = id else {
            self.bytes_without_sum = comparing.data_len;
            self.find(0, Fault::UnusableSums { bytes: sums_len });
            return Ok(());
        };
        self.state = SumsState::OfThisFile;
        for number in 1..=entries {
            sums.read_exact_at(&mut entry, number * entry_bytes)?;
            match SegmentSum::read(&entry, id).filter(|sum| comparing.may_follow(sum)) {
                Some(sum) => self.compare_segment(comparing, &sum)?,
                None => comparing.damaged += 1,
            }
        }
        self.report_damaged(comparing);
        self.report_bytes_without_sum(comparing, comparing.data_len);
        if self.first_wrong == Some(0) && !comparing.are_of_this_file(id, self.segments)? {
            self.state = SumsState::OfAnother;
            self.bytes_without_sum = comparing.data_len;
            self.first_wrong = None;
            self.findings.clear();
            self.findings_dropped = 0;
            self.find(0, Fault::SumsOfAnother);
            return Ok(());
        }
        let cut = sums_len % entry_bytes;
        if cut > 0 {
            let position = comparing.next;
            self.find(position, Fault::CutSums { bytes: cut });
        }
        Ok(())
    }

    /// Compares one segment.
    fn compare_segment<R: ReadAt + ?Sized>(
        &mut self,
        comparing: &mut Comparing<'_, R>,
        sum: &SegmentSum,
    ) -> io::Result<()> {
        self.report_damaged(comparing);
        self.report_bytes_without_sum(comparing, sum.position);
        let end = sum.position + sum.bytes;
        let fault = match end.checked_sub(comparing.data_len).filter(|m| *m > 0) {
            Some(missing) => Some(Fault::SummedBeyondEnd { missing }),
            None => {
                (comparing.sum(sum)? != sum.sum).then_some(Fault::WrongSum { bytes: sum.bytes })
            }
        };
        comparing.next = end;
        let Some(fault) = fault else {
            self.segments += 1;
            if comparing.is_good_so_far {
                self.good_to = end;
            }
            return Ok(());
        };
        comparing.is_good_so_far = false;
        self.first_wrong.get_or_insert(sum.position);
        self.find(sum.position, fault);
        Ok(())
    }

    /// Reports entries that could not be read.
    fn report_damaged<R: ?Sized>(&mut self, comparing: &mut Comparing<'_, R>) {
        let entries = std::mem::take(&mut comparing.damaged);
        if entries > 0 {
            comparing.is_good_so_far = false;
            self.find(comparing.next, Fault::DamagedSums { entries });
        }
    }

    /// Reports data up to `end` that has no checksum.
    fn report_bytes_without_sum<R: ?Sized>(&mut self, comparing: &mut Comparing<'_, R>, end: u64) {
        let bytes = end.min(comparing.data_len).saturating_sub(comparing.next);
        if bytes > 0 {
            comparing.is_good_so_far = false;
            self.bytes_without_sum += bytes;
            self.find(comparing.next, Fault::NoSum { bytes });
        }
    }

    fn find(&mut self, position: u64, fault: Fault) {
        match self.findings.len() < FINDINGS_MAX {
            true => self.findings.push(Finding { position, fault }),
            false => self.findings_dropped += 1,
        }
    }
}

/// The progress of a comparison.
struct Comparing<'a, R: ?Sized> {
    data: &'a R,
    data_len: u64,
    /// The position at which the next segment should begin.
    next: u64,
    is_good_so_far: bool,
    /// Number of consecutive entries that could not be read.
    damaged: u64,
    piece: Vec<u8>,
}

impl<R: ReadAt + ?Sized> Comparing<'_, R> {
    /// Returns true if the checksums belong to this file although its first segment does not match:
    /// the property `sums_id` of the file refers to them, or that property is damaged or missing
    /// and `good` other segments match.
    fn are_of_this_file(&mut self, id: SumsId, good: u64) -> io::Result<bool> {
        let mut name = b"sums_id".to_vec();
        name.extend(TdmsType::U64.code().to_le_bytes());
        let bytes = self.data_len.min(PIECE_BYTES) as usize;
        self.piece.resize(bytes, 0);
        self.data.read_exact_at(&mut self.piece, 0)?;
        let mut places = self.piece.windows(name.len() + size_of::<u64>());
        let named = places.find_map(|bytes| {
            let number = bytes.strip_prefix(name.as_slice())?.first_chunk()?;
            Some(u64::from_le_bytes(*number))
        });
        // Ids are random, so if two of them differ in only one or two bits, one is a damaged copy
        // of the other.
        Ok(
            match named.map(|named| (named ^ id.number()).count_ones()) {
                Some(0) => true,
                Some(1..=2) | None => good > 0,
                Some(_) => false,
            },
        )
    }

    /// Returns true if an entry continues the file.
    fn may_follow(&self, sum: &SegmentSum) -> bool {
        let has_end = sum.position.checked_add(sum.bytes).is_some();
        has_end && sum.bytes > 0 && sum.position >= self.next
    }

    /// Computes the checksum of a segment's present bytes, all of which must exist.
    fn sum(&mut self, segment: &SegmentSum) -> io::Result<u32> {
        let (mut at, end) = (segment.position, segment.position + segment.bytes);
        let mut sum = 0;
        while at < end {
            self.piece.resize((end - at).min(PIECE_BYTES) as usize, 0);
            self.data.read_exact_at(&mut self.piece, at)?;
            sum = crc32c::crc32c_append(sum, &self.piece);
            at += self.piece.len() as u64;
        }
        Ok(sum)
    }
}
