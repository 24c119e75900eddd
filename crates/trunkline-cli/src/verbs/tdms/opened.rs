//! Opens a file named on the command line, and describes its defects.

use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use trunkline_tdms::{Fault, Finding, Limits, OpenError, ReadAt, TdmsFile, UncheckedSegments};

use super::sums::sums_of;
use crate::output::record::json;
use crate::problem::file_reason;
use crate::terminal::is_stdio;
pub(super) use crate::terminal::{escaped, escaped_path};
use crate::{CliError, Context, Problem};

const INDEX_TAG: [u8; 4] = *b"TDSh";

/// Maximum number of findings that a command reports one by one.
const REPORTED_MAX: usize = 3;

/// Opens a regular file. Refuses directories, pipes and devices, because they have no length, and
/// opening some of them blocks.
pub(crate) fn regular_file(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    match metadata.is_file() {
        true => File::open(path),
        false if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

pub(super) fn source(path: &Path) -> Result<File, Problem> {
    regular_file(path).map_err(|error| {
        let sentence = format!("{}: {}", escaped_path(path), file_reason(&error));
        let problem = Problem::failed("bad-file", sentence);
        match is_stdio(path) {
            true => problem.with_hint(
                "a TDMS file needs random access, which standard input does not have; specify a \
                 file",
            ),
            false => problem,
        }
    })
}

/// Opens the readable part of a file, with its index file if there is one.
pub(super) fn open(path: &Path) -> Result<TdmsFile<File>, Problem> {
    open_with(path, index_of(path).as_deref())
}

/// Opens the readable part of a file without its index file.
pub(super) fn open_alone(path: &Path) -> Result<TdmsFile<File>, Problem> {
    open_with(path, None)
}

/// Opens the part of a file that its checksums confirm, without its index file. Also returns the
/// number of readable values that are left out.
pub(super) fn open_verified(
    path: &Path,
    sums: &Path,
    unchecked: UncheckedSegments,
) -> Result<(TdmsFile<File>, u64), Problem> {
    let opened =
        TdmsFile::open_verified(source(path)?, &source(sums)?, unchecked, salvaging_limits());
    opened
        .map(|summed| (summed.file, summed.values_left_out))
        .map_err(|error| open_problem(path, &error))
}

fn salvaging_limits() -> Limits {
    Limits {
        is_salvaging: true,
        ..Limits::default()
    }
}

fn open_with(path: &Path, index: Option<&Path>) -> Result<TdmsFile<File>, Problem> {
    let limits = salvaging_limits();
    // The index file only saves time, so an unreadable index file is ignored.
    let index = index.and_then(|index| source(index).ok());
    let opened = match index {
        Some(index) => TdmsFile::open_indexed(source(path)?, index, limits),
        None => TdmsFile::open_with(source(path)?, limits),
    };
    let opened = match opened {
        // The checksums show where segments begin, even if their lead-ins are damaged.
        Ok(file) if !file.report().is_sound() => match sums_of(path).map(|sums| source(&sums)) {
            Some(Ok(sums)) => TdmsFile::open_with_checksum_positions(source(path)?, &sums, limits),
            _ => Ok(file),
        },
        opened => opened,
    };
    match opened {
        Err(OpenError::Refused(Finding {
            fault: Fault::IndexFile,
            ..
        })) => TdmsFile::open_index(source(path)?, limits),
        opened => opened,
    }
    .map_err(|error| open_problem(path, &error))
}

fn open_problem(path: &Path, error: &OpenError) -> Problem {
    let problem = not_readable(path, error);
    let OpenError::Refused(finding) = error else {
        return problem;
    };
    let hint = match finding.fault {
        Fault::NotTdms { .. } | Fault::NotIndex { .. } => "check that this is the right file",
        _ => "nothing in the file can be read; use another copy",
    };
    Problem {
        code: "not-tdms".into(),
        ..problem.with_hint(hint)
    }
}

pub(super) fn not_readable(path: &Path, error: &dyn Display) -> Problem {
    let message = format!("{}: {}", escaped_path(path), escaped(&error.to_string()));
    Problem::from_message("not-readable", message)
}

pub(super) fn index_of(path: &Path) -> Option<PathBuf> {
    let index = index_name(path);
    index.is_file().then_some(index)
}

pub(super) fn index_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("_index");
    name.into()
}

/// Returns all defects in the data of a file. An unused index file is not a defect of the data.
pub(super) fn findings<R>(file: &TdmsFile<R>) -> Vec<Finding> {
    let report = file.report();
    let findings = report.incomplete.into_iter().chain(report.findings);
    findings
        .filter(|finding| finding.fault != Fault::StaleIndex)
        .cloned()
        .collect()
}

/// Reports the defects of a file briefly. Returns true if there are any.
pub(super) fn report_defects(
    file: &TdmsFile<File>,
    path: &Path,
    context: &Context,
) -> Result<bool, CliError> {
    if is_index(file) {
        let line = format!(
            "{}: this is an index file, which has no values; the values are in the file with the \
             same name without `_index`",
            escaped_path(path)
        );
        context.note_with_code("index-alone", &line)?;
    }
    if file
        .report()
        .findings
        .iter()
        .any(|finding| finding.fault == Fault::StaleIndex)
    {
        let index = escaped_path(&index_name(path));
        let line = format!(
            "{index} does not belong to this file, or is damaged; it is not used, and `trunkline \
             tdms repair` rewrites it"
        );
        context.note_with_code("stale-index", &line)?;
    }
    let findings = findings(file);
    let mut descriptions: Vec<String> = findings
        .iter()
        .take(REPORTED_MAX)
        .map(|finding| escaped(&finding.to_string()))
        .collect();
    if findings.len() > REPORTED_MAX {
        descriptions.push(format!("{} more findings", findings.len() - REPORTED_MAX));
    }
    let hint = "`trunkline tdms verify` shows what to do";
    for description in descriptions {
        let line = format!("{}: {description}", escaped_path(path));
        context.terminal.note(&match context.settings.is_json() {
            true => json(&Problem::from_message("finding", line).with_hint(hint)),
            false => line,
        })?;
    }
    if !findings.is_empty() {
        context.remark(&format!("  {hint}"))?;
    }
    Ok(!findings.is_empty())
}

fn is_index(file: &TdmsFile<File>) -> bool {
    let mut tag = [0; INDEX_TAG.len()];
    file.source().read_exact_at(&mut tag, 0).is_ok() && tag == INDEX_TAG
}

pub(super) fn advice(fault: &Fault) -> &'static str {
    match fault {
        Fault::Empty => "the file has no data to read or repair",
        Fault::TruncatedLeadIn { .. }
        | Fault::TruncatedMetadata { .. }
        | Fault::NotClosed
        | Fault::Unwritten { .. }
        | Fault::TruncatedData { .. }
        | Fault::Garbage { .. } => "`trunkline tdms repair` removes the incomplete part",
        Fault::UnknownVersion { .. }
        | Fault::VersionChange { .. }
        | Fault::ByteOrderChange
        | Fault::UnknownFlags { .. }
        | Fault::UnannouncedData
        | Fault::DuplicatePath { .. }
        | Fault::ShortChunk { .. } => "nothing is lost; `trunkline tdms defrag` rewrites the file",
        Fault::UnassignedData { .. }
        | Fault::UnreadableType { .. }
        | Fault::UnequalRows
        | Fault::InterleavedStrings
        | Fault::MixedDaqmx
        | Fault::BadDaqmx { .. }
        | Fault::Overflow
        | Fault::BadMetadata { .. }
        | Fault::LostMetadata => "this data is left out; the rest can be read",
        Fault::BadStrings => "the strings from here to the end of their chunk are lost",
        Fault::UnusableSums { .. } | Fault::SumsOfOtherFile => {
            "the file is read without checksums; restore its own checksums, or delete these"
        }
        Fault::DamagedLeadIn => {
            "nothing is lost; `trunkline tdms defrag` writes a file that other programs can open"
        }
        Fault::WrongSum { .. } => {
            "take these values from another copy; `trunkline tdms repair` removes such segments only at the end of the file"
        }
        Fault::ChecksumBeyondEnd { .. } => "`trunkline tdms repair` removes the incomplete part",
        Fault::NoSum { .. } => {
            "this data can be wrong after a loss of power; `trunkline tdms repair --unsummed cut` \
             removes it from the end of the file"
        }
        Fault::DamagedSums { .. } | Fault::TruncatedSums { .. } => {
            "no checksum covers these segments; the file itself may be intact"
        }
        Fault::StaleIndex => "delete the index file, or rewrite it with `trunkline tdms repair`",
        _ => "nothing after this can be read; `trunkline tdms repair` removes the incomplete part",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_file_has_the_name_of_its_file_with_a_suffix() {
        assert_eq!(
            index_name(Path::new("a/b.tdms")),
            PathBuf::from("a/b.tdms_index")
        );
    }
}
