//! Opens a file as far as its checksums confirm it.

use super::{SumsCheck, SumsState, begins};
use crate::fault::{Fault, Finding};
use crate::file::TdmsFile;
use crate::open::{Limits, OpenError};
use crate::read_at::ReadAt;
use crate::walk::{Kind, Walk};

/// The treatment of segments without a checksum at the end of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UncheckedSegments {
    /// Do not read them or anything after them. Use this after a power loss, when such a segment
    /// may have a header but zeros for values.
    Cut,
    /// Read them. Use this if the checksum file lost its end for another reason.
    Keep,
}

/// A file opened as far as its checksums confirm it.
#[derive(Debug)]
pub struct ChecksummedFile<R> {
    /// The file. If something was left out, it is incomplete
    /// ([`Report::incomplete`](crate::Report::incomplete)), and [`repair`](TdmsFile::repair)
    /// returns how to cut it off.
    pub file: TdmsFile<R>,
    pub check: SumsCheck,
    /// Number of values left out that could be read without checksums.
    pub values_left_out: u64,
}

impl<R: ReadAt> TdmsFile<R> {
    /// Opens a data file up to its first segment that is incomplete, invalid, or does not match its
    /// checksum. Reads the whole file.
    ///
    /// Checksums that belong to another file or cannot be read are ignored: nothing is left out.
    /// [`SumsCheck::state`] reports this.
    pub fn open_summed<S: ReadAt + ?Sized>(
        source: R,
        sums: &S,
        unchecked: UncheckedSegments,
        limits: Limits,
    ) -> Result<ChecksummedFile<R>, OpenError> {
        let failed = |source| OpenError::source(0, source);
        let check = SumsCheck::of(&source, sums).map_err(failed)?;
        let len = source.byte_len().map_err(failed)?;
        let end = match (check.state, unchecked) {
            (SumsState::OfThisFile, UncheckedSegments::Cut) => check.good_to,
            (SumsState::OfThisFile, UncheckedSegments::Keep) => check.first_wrong.unwrap_or(len),
            _ => len,
        };
        let begins = begins(sums).map_err(failed)?;
        let walk = |end, limits| {
            let walk = Walk::new(&source, None::<&[u8]>, Kind::Data, limits)?;
            walk.with_begins(&begins).run_to(end)
        };
        let mut map = walk(end, limits)?;
        let mut values_of_all = 0;
        if end < len {
            let is_behind = |finding: &&Finding| finding.position >= end;
            let fault = check.findings.iter().find(is_behind);
            let fault = fault.map(|finding| finding.fault.clone());
            let fault = fault.unwrap_or(Fault::NoSum { bytes: len - end });
            let position = end;
            map.incomplete.get_or_insert(Finding { position, fault });
            map.bytes_lost += len - end;
            // Reads as far as possible, to count the values that are left out.
            let is_salvaging = true;
            let salvaging = Limits {
                is_salvaging,
                ..limits
            };
            let all = walk(len, salvaging);
            values_of_all = all.map_or(0, |map| TdmsFile::of(&source, map).values());
        }
        let file = Self::of(source, map);
        Ok(ChecksummedFile {
            values_left_out: values_of_all.saturating_sub(file.values()),
            file,
            check,
        })
    }

    /// Opens a data file, and continues after damaged segments with the help of the checksums,
    /// which contain the position of each segment. Does not compare the data with them.
    ///
    /// Checksums of another file have no effect.
    pub fn open_guided<S: ReadAt + ?Sized>(
        source: R,
        sums: &S,
        limits: Limits,
    ) -> Result<Self, OpenError> {
        let begins = begins(sums).map_err(|source| OpenError::source(0, source))?;
        let walk = Walk::new(&source, None::<&[u8]>, Kind::Data, limits)?;
        let map = walk.with_begins(&begins).run()?;
        Ok(Self::of(source, map))
    }

    fn values(&self) -> u64 {
        self.channels().map(|channel| channel.len()).sum()
    }
}
