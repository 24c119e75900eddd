//! Opens the part of a file that its checksums confirm.

use super::{SumsCheck, SumsState, segment_starts};
use crate::fault::{Fault, Finding};
use crate::file::TdmsFile;
use crate::open::{Limits, OpenError};
use crate::read_at::ReadAt;
use crate::walk::{FileKind, Walk};

/// The treatment of segments without a checksum at the end of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UncheckedSegments {
    /// Do not read these segments or any data after them. Use this after a power loss, because such
    /// a segment may have a header but zeros instead of values.
    Remove,
    /// Read these segments. Use this if the checksum file lost its end for another reason.
    Keep,
}

/// A file whose readable part is limited to what its checksums confirm.
#[derive(Debug)]
pub struct ChecksummedFile<R> {
    /// The file. If a part was left out, the file is incomplete
    /// ([`Report::incomplete`](crate::Report::incomplete)), and [`repair`](TdmsFile::repair)
    /// returns the steps that remove this part.
    pub file: TdmsFile<R>,
    pub check: SumsCheck,
    /// Number of values that were left out but can be read without checksums.
    pub values_left_out: u64,
}

impl<R: ReadAt> TdmsFile<R> {
    /// Opens a data file up to the first segment that is incomplete, invalid, or does not match its
    /// checksum. Reads the whole file.
    ///
    /// Checksums that belong to another file or cannot be read are ignored, and no data is left
    /// out. [`SumsCheck::state`] reports this case.
    pub fn open_verified<S: ReadAt + ?Sized>(
        source: R,
        sums: &S,
        unchecked: UncheckedSegments,
        limits: Limits,
    ) -> Result<ChecksummedFile<R>, OpenError> {
        let failed = |source| OpenError::source(0, source);
        let check = SumsCheck::of(&source, sums).map_err(failed)?;
        let len = source.byte_len().map_err(failed)?;
        let end = match (check.state, unchecked) {
            (SumsState::ThisFile, UncheckedSegments::Remove) => check.verified_to,
            (SumsState::ThisFile, UncheckedSegments::Keep) => check.first_mismatch.unwrap_or(len),
            _ => len,
        };
        let starts = segment_starts(sums).map_err(failed)?;
        let walk = |end, limits| {
            let walk = Walk::new(&source, None::<&[u8]>, FileKind::Data, limits)?;
            walk.with_segment_starts(&starts).run_to(end)
        };
        let mut map = walk(end, limits)?;
        let mut all_values = 0;
        if end < len {
            let is_after_end = |finding: &&Finding| finding.position >= end;
            let fault = check.findings.iter().find(is_after_end);
            let fault = fault.map(|finding| finding.fault.clone());
            let fault = fault.unwrap_or(Fault::NoSum { bytes: len - end });
            let position = end;
            map.incomplete.get_or_insert(Finding { position, fault });
            map.bytes_lost += len - end;
            // This walk reads as far as possible, to count the values that are left out.
            let salvaging = Limits {
                is_salvaging: true,
                ..limits
            };
            let all = walk(len, salvaging);
            all_values = all.map_or(0, |map| TdmsFile::of(&source, map).values());
        }
        let file = Self::of(source, map);
        Ok(ChecksummedFile {
            values_left_out: all_values.saturating_sub(file.values()),
            file,
            check,
        })
    }

    /// Opens a data file and uses the positions in the checksum file to continue after damaged
    /// segments. Does not compare the data with the checksums.
    ///
    /// Checksums of another file have no effect.
    pub fn open_with_checksum_positions<S: ReadAt + ?Sized>(
        source: R,
        sums: &S,
        limits: Limits,
    ) -> Result<Self, OpenError> {
        let starts = segment_starts(sums).map_err(|source| OpenError::source(0, source))?;
        let walk = Walk::new(&source, None::<&[u8]>, FileKind::Data, limits)?;
        let map = walk.with_segment_starts(&starts).run()?;
        Ok(Self::of(source, map))
    }

    fn values(&self) -> u64 {
        self.channels().map(|channel| channel.len()).sum()
    }
}
