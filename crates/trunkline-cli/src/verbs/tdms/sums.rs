//! Compares a file with the checksums next to it, and finds the part that they confirm.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use trunkline_tdms::{
    Fault, Finding, SUMS_ENTRY_BYTES, SumsCheck, SumsState, TdmsFile, UncheckedSegments,
};

use super::opened::{escaped_path, source};
use crate::{CliError, Context, Exit, Problem};

pub(super) fn sums_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".sums");
    name.into()
}

pub(crate) fn sums_of(path: &Path) -> Option<PathBuf> {
    let sums = sums_name(path);
    sums.is_file().then_some(sums)
}

/// The result of comparing a file with its checksums.
#[derive(Debug)]
pub(super) struct Compared {
    /// Path of the checksum file.
    pub(super) path: PathBuf,
    pub(super) check: SumsCheck,
    /// For each finding, the number of its segment, from 1.
    pub(super) segments: Vec<Option<u64>>,
}

/// Compares a file with the checksums next to it. Returns `None` if there are none.
pub(super) fn compare(path: &Path, file: &TdmsFile<File>) -> Result<Option<Compared>, Problem> {
    let Some(sums_path) = sums_of(path) else {
        return Ok(None);
    };
    let sums = source(&sums_path)?;
    let compared = SumsCheck::of(file.source(), &sums).and_then(|check| {
        let positions = check.findings.iter().map(|finding| finding.position);
        let positions: Vec<u64> = positions.collect();
        let segments = file.segments_of(&positions)?;
        Ok((check, segments))
    });
    let (check, segments) = compared.map_err(|error| {
        let path = escaped_path(path);
        let message = format!("{path} cannot be compared with its checksums: {error}");
        Problem::from_message("not-readable", message)
    })?;
    Ok(Some(Compared {
        path: sums_path,
        check,
        segments,
    }))
}

/// Reports the segments that differ from the checksums next to the file. Returns true if there are
/// any. This reads the whole file.
pub(crate) fn report_checksums(
    file: &TdmsFile<File>,
    path: &Path,
    context: &Context,
) -> Result<bool, CliError> {
    let Some(compared) = compare(path, file)? else {
        return Ok(false);
    };
    let findings = compared.check.findings.iter();
    let wrong = findings.filter(|finding| matches!(finding.fault, Fault::WrongSum { .. }));
    let wrong: Vec<&Finding> = wrong.collect();
    let Some(first) = wrong.first() else {
        return Ok(false);
    };
    let sentence = format!(
        "{}: {} {}: values there may be wrong; `trunkline tdms verify` lists all such segments",
        escaped_path(path),
        match wrong.len() {
            1 => "1 segment does not match its checksum, at byte".to_owned(),
            count => format!("{count} segments do not match their checksums, the first at byte"),
        },
        first.position
    );
    let problem = Problem::new(Exit::ProblemsFound, "wrong-sum", sentence);
    context.terminal.problem(&problem, 0)?;
    Ok(true)
}

impl Compared {
    /// Returns the length to which the file must be cut so that its checksums confirm all of it.
    /// Returns `None` if there is nothing to cut, or if the cut would remove data that the checksums
    /// confirm: a wrong segment in the middle stays, because intact segments follow it.
    pub(super) fn cut(&self, unchecked: UncheckedSegments, length: u64) -> Option<u64> {
        let check = &self.check;
        if check.state != SumsState::ThisFile || check.findings_dropped > 0 {
            return None;
        }
        let end = match unchecked {
            UncheckedSegments::Remove => check.verified_to,
            UncheckedSegments::Keep => check.first_mismatch?,
        };
        let after_cut = check
            .findings
            .iter()
            .filter(|finding| finding.position >= end);
        // Check that the part after the cut consists only of bytes that no checksum confirms.
        let unconfirmed: u64 = after_cut
            .map(|finding| match finding.fault {
                Fault::WrongSum { bytes } => bytes,
                Fault::NoSum { bytes } => match unchecked {
                    UncheckedSegments::Remove => bytes,
                    UncheckedSegments::Keep => 0,
                },
                Fault::ChecksumBeyondEnd { .. } => length.saturating_sub(finding.position),
                _ => 0,
            })
            .sum();
        (end < length && unconfirmed >= length - end).then_some(end)
    }

    /// Removes the checksums of the part that was cut off, after the file was cut to `length` bytes. If
    /// it is unclear which checksums these are, they stay, and the next comparison reports them.
    pub(super) fn shorten(&self, length: u64) -> io::Result<()> {
        if self.check.state != SumsState::ThisFile || self.check.verified_to != length {
            return Ok(());
        }
        let entries = self.check.segments.saturating_add(1);
        let bytes = entries.saturating_mul(SUMS_ENTRY_BYTES as u64);
        let sums = OpenOptions::new().write(true).open(&self.path)?;
        if sums.metadata()?.len() > bytes {
            sums.set_len(bytes)?;
            sums.sync_all()?;
        }
        Ok(())
    }
}
