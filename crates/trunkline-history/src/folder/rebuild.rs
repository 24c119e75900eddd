//! Creates a new catalogue from the files and logs of a folder.
//!
//! The files stay unchanged. If the engine was killed while it moved rows to files or joined files, several
//! files may contain the same rows. A file is not entered if its rows are in a log that is still needed, or
//! in a joined file. When an engine starts, it deletes such files, and moves files that cannot be read to
//! `set-apart`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use trunkline_types::Timestamp;

use crate::catalogue::snapshot::Snapshot;
use crate::catalogue::{Catalogue, PartRow, Series, SpoolLog};
use crate::error::Error;
use crate::files::files_in;
use crate::files::footer::{self, FileNote, SealedLog};
use crate::files::join::date_of;
use crate::files::part::SeriesSpan;
use crate::files::unsealed::Unsealed;
use crate::folder::FolderError;
use crate::folder::spooled::{self, KnownLogs};
use crate::folder::verify::Finding;
use crate::paths::{
    CATALOGUE, CATALOGUE_LOG, CATALOGUE_SHARED, SET_APART, UNFINISHED, remove_if_there,
};
use crate::private;
use crate::{lock_file, log};

/// Name of the folder within `unfinished` with a complete new catalogue.
const REBUILT: &str = "rebuilt";

/// The results of [`rebuild`].
#[derive(Clone, PartialEq, Debug)]
pub struct Rebuilt {
    /// Number of series.
    pub series: u64,
    /// Number of Parquet files that were entered.
    pub files: u64,
    /// Number of updates and events in these files.
    pub rows: u64,
    /// New path of the old catalogue; `None` if there was no catalogue.
    pub former: Option<String>,
    /// The reason why the old catalogue could not be read; `None` if it could be read.
    pub former_fault: Option<String>,
    /// The spool if its rows may be recorded a second time, because the old catalogue could not be read.
    pub possible_duplicates: Option<PossibleDuplicates>,
    /// Files that were not entered, with the reasons.
    pub left_out: Vec<Finding>,
}

/// A spool with rows that may also be in files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PossibleDuplicates {
    /// The folder of the spool. If it is not known, the file that names it.
    pub spool: PathBuf,
    /// The reason why the spool, or one of its logs, cannot be read; `None` if all of them can be read.
    pub fault: Option<String>,
}

/// A file whose footer could be read without the catalogue.
#[derive(Debug)]
pub(crate) struct ReadableFile {
    pub(crate) row: PartRow,
    series: Vec<(Series, SeriesSpan)>,
    segments: Vec<(u64, u64)>,
    spool_logs: Vec<SealedLog>,
}

/// The catalogue entries that the files and logs of a folder determine.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) parts: Vec<PartRow>,
    pub(crate) series: Vec<Series>,
    pub(crate) left_out: Vec<Finding>,
    /// The logs of spools whose rows are in these parts.
    pub(crate) spool_logs: Vec<SpoolLog>,
}

/// Writes a new catalogue. `wall` is the current time.
///
/// # Errors
/// Returns a [`FolderError`] if the folder cannot be read or written. The old catalogue is then unchanged.
pub fn rebuild(folder: &Path, wall: Timestamp) -> Result<Rebuilt, FolderError> {
    try_rebuild(folder, wall).map_err(|error| FolderError::of(error, folder))
}

fn try_rebuild(folder: &Path, wall: Timestamp) -> Result<Rebuilt, Error> {
    let has_files = folder.is_dir()
        && (folder.join(CATALOGUE).exists()
            || !log::segments(folder)?.is_empty()
            || !files_in(folder)?.is_empty());
    if !has_files {
        return Err(Error::NoHistory);
    }
    let _lock = lock_file::acquire(folder)?;
    let unfinished = folder.join(UNFINISHED);
    let rebuilt = unfinished.join(REBUILT);
    let (former, former_fault) = match read_former(folder, &rebuilt)? {
        Ok(former) => (Some(former), None),
        Err(fault) => (None, Some(fault)),
    };
    let scanned = scan(folder, former.as_ref(), wall)?;
    let possible_duplicates = match former {
        Some(_) => None,
        None => possible_duplicates(folder, &scanned.spool_logs),
    };
    private::create_folders(&rebuilt)?;
    for name in [CATALOGUE, CATALOGUE_SHARED, CATALOGUE_LOG] {
        remove_if_there(&unfinished.join(name))?;
    }
    let new = unfinished.join(CATALOGUE);
    let mut catalogue = Catalogue::open(&new, true)?;
    catalogue.add_series(&scanned.series)?;
    catalogue.replace_parts(&[], &scanned.parts, None)?;
    enter_spools(former, scanned.spool_logs, &mut catalogue)?;
    // Closing merges the write-ahead log into the database file, which is then complete.
    catalogue.close()?;
    File::open(&new)?.sync_all()?;
    // If this command is killed while it moves the old catalogue, the next one finds the new one here.
    let complete = rebuilt.join(CATALOGUE);
    std::fs::rename(&new, &complete)?;
    for changed in [&rebuilt, &unfinished, folder] {
        File::open(changed)?.sync_all()?;
    }
    let former = set_apart(folder)?;
    std::fs::rename(&complete, folder.join(CATALOGUE))?;
    File::open(folder)?.sync_all()?;
    // Otherwise, the next start of an engine removes it.
    let _ = std::fs::remove_dir_all(&unfinished);
    Ok(Rebuilt {
        series: scanned.series.len() as u64,
        files: scanned.parts.len() as u64,
        rows: scanned.parts.iter().map(|part| part.rows).sum(),
        former,
        former_fault,
        possible_duplicates,
        left_out: scanned.left_out,
    })
}

/// Returns true unless the log is readable and empty. An empty log reserves the number of a segment whose
/// rows are in the spool.
fn has_rows(folder: &Path, segment: u64) -> bool {
    let recovered = log::recover(&log::path(folder, segment), segment);
    !recovered.is_ok_and(|recovered| recovered.rows.is_empty() && recovered.damage.is_empty())
}

/// Reads the old catalogue. If an earlier command was killed while it moved the old catalogue, reads the new one
/// in `rebuilt`. If the catalogue is missing or damaged, returns a description of this fault instead.
fn read_former(folder: &Path, rebuilt: &Path) -> Result<Result<Snapshot, String>, Error> {
    let place = match folder.join(CATALOGUE).try_exists()? {
        true => folder,
        false => rebuilt,
    };
    if !place.join(CATALOGUE).try_exists()? {
        return Ok(Err(format!("{CATALOGUE} is missing")));
    }
    match Snapshot::read(place) {
        Ok(former) => Ok(Ok(former)),
        Err(error) if is_damage(&error, place) => Ok(Err(error.sentence())),
        Err(error) => Err(error),
    }
}

/// Returns true if this error means that the catalogue itself cannot be read. Reading it needs a copy, for
/// which there may be no room.
fn is_damage(error: &Error, place: &Path) -> bool {
    use ErrorCode::{DiskFull, OutOfMemory, SystemIoFailure};
    let is_readable = |name: &&str| {
        let read = File::open(place.join(name))
            .and_then(|mut file| io::copy(&mut file, &mut io::sink()).map(drop));
        read.map_or_else(|error| error.kind() == ErrorKind::NotFound, |()| true)
    };
    match error {
        Error::Damaged(_) | Error::Newer { .. } => true,
        Error::Sqlite(error) => !matches!(
            error.sqlite_error_code(),
            Some(DiskFull | OutOfMemory | SystemIoFailure)
        ),
        Error::Io(error) if error.kind() == ErrorKind::PermissionDenied => false,
        Error::Io(_) => ![CATALOGUE, CATALOGUE_LOG].iter().all(is_readable),
        _ => false,
    }
}

/// Returns true if the old catalogue is known and lists no file of this segment. The rows are then still in
/// the spool. If the catalogue cannot be read, the files are entered, because rows could be lost otherwise.
fn former_lacks(former: Option<&Snapshot>, segment: u64) -> bool {
    former.is_some_and(|former| former.parts.iter().all(|part| part.segment != segment))
}

/// Returns the logs of spools of which these files have all rows. The rows of each date of a log were written to
/// one file, so the dates of the files that name a log are counted, not the files.
fn sealed_logs(files: &[&ReadableFile]) -> Vec<SpoolLog> {
    let mut found: BTreeMap<(&str, u64), (usize, BTreeSet<&str>)> = BTreeMap::new();
    for file in files {
        for SealedLog { log, files } in &file.spool_logs {
            let (needed, dates) = found.entry((&log.spool, log.log)).or_default();
            *needed = (*needed).max(*files);
            dates.insert(date_of(&file.row.path));
        }
    }
    let complete = found.into_iter();
    let complete = complete.filter(|(_, (needed, dates))| dates.len() >= *needed);
    let logs = complete.map(|((spool, log), _)| SpoolLog {
        spool: spool.to_owned(),
        log,
    });
    logs.collect()
}

/// Returns the spool if it has rows in logs other than `in_files`, or cannot be read.
fn possible_duplicates(folder: &Path, in_files: &[SpoolLog]) -> Option<PossibleDuplicates> {
    let known = KnownLogs {
        in_files: in_files.to_vec(),
        ends: Vec::new(),
    };
    let mut may_have_rows = false;
    let spooled = spooled::read(folder, &known, &mut |_, _, read| {
        may_have_rows = !read.is_ok_and(|log| log.count() == 0);
        !may_have_rows
    });
    let (spool, fault) = match spooled {
        Ok(spooled) => spooled.map(|spooled| (spooled.folder, spooled.fault))?,
        Err(error) => (folder.join(log::spool::SPOOL_PATH), error.sentence()),
    };
    let fault = (!fault.is_empty()).then_some(fault);
    (may_have_rows || fault.is_some()).then_some(PossibleDuplicates { spool, fault })
}

/// Enters the logs of spools whose rows are in files, and what the old catalogue says about others. Nothing
/// removes a log before the new catalogue, which has all of these entries, is in its place.
fn enter_spools(
    former: Option<Snapshot>,
    mut logs: Vec<SpoolLog>,
    catalogue: &mut Catalogue,
) -> Result<(), Error> {
    let (of_former, ends) = former.map_or_else(Default::default, |former| {
        (former.spool_logs, former.spool_ends)
    });
    // The logs that were removed last stay the last ones.
    logs.extend(of_former);
    catalogue.add_spool_entries(&logs, &ends)
}

/// Moves the old catalogue to a new subfolder of `set-apart`. Returns its new path; `None` if there is none.
fn set_apart(folder: &Path) -> Result<Option<String>, Error> {
    // Move the write-ahead log last: without it, the catalogue would be in an older state, and an engine that
    // starts after an interruption would use that state.
    let names = [CATALOGUE, CATALOGUE_SHARED, CATALOGUE_LOG];
    let mut names = names
        .into_iter()
        .filter(|name| folder.join(name).exists())
        .peekable();
    if names.peek().is_none() {
        return Ok(None);
    }
    let target = (1..).map(|number| format!("{SET_APART}/catalogue-{number}"));
    let target = target.into_iter().find(|path| !folder.join(path).exists());
    let target = target.unwrap_or_default();
    private::create_folders(&folder.join(&target))?;
    for name in names {
        std::fs::rename(folder.join(name), folder.join(&target).join(name))?;
        File::open(folder)?.sync_all()?;
    }
    Ok(Some(format!("{target}/{CATALOGUE}")))
}

/// Determines the catalogue entries from the files and logs of a folder. `former` is the old catalogue, if it
/// can be read.
pub(crate) fn scan(
    folder: &Path,
    former: Option<&Snapshot>,
    wall: Timestamp,
) -> Result<Scanned, Error> {
    let mut scanned = Scanned::default();
    let mut found = Vec::new();
    let mut paths = files_in(folder)?;
    paths.sort();
    for path in paths {
        match read(folder, &path) {
            Ok(one) => found.push(one),
            Err(error) => scanned.left_out.push(Finding::of_file(
                &path,
                format!("the footer cannot be read: {}", error.sentence()),
                "restore the file from a backup, then rebuild the catalogue again",
            )),
        }
    }
    let logs: BTreeSet<u64> = log::segments(folder)?.into_iter().collect();
    let newest = found.iter().map(|one| one.row.segment).max().unwrap_or(0);
    let is_joined =
        |one: &ReadableFile| !matches!(one.segments.as_slice(), [(from, to)] if from == to);
    let in_joined =
        |one: &ReadableFile| is_joined(one) && one.segments.iter().any(|(_, last)| *last == newest);
    // Segments are moved to files one after the other, and the files are joined only afterwards. So only the
    // files of the newest segment may be incomplete.
    let incomplete = Some(newest)
        .filter(|newest| logs.contains(newest) && !found.iter().any(in_joined))
        .filter(|newest| has_rows(folder, *newest) || former_lacks(former, *newest));
    let is_in_log = |one: &ReadableFile| !is_joined(one) && Some(one.row.segment) == incomplete;
    let is_part_of = |one: &ReadableFile, other: &ReadableFile| {
        let contains = |(from, to): &(u64, u64)| {
            other
                .segments
                .iter()
                .any(|(first, last)| first <= from && to <= last)
        };
        // If two files contain the same segments, enter the one with the greater path.
        (one.row.path < other.row.path || one.segments != other.segments)
            && one.row.path != other.row.path
            && one.segments.iter().all(contains)
    };
    let mut by_date: HashMap<&str, Vec<&ReadableFile>> = HashMap::new();
    for one in &found {
        by_date.entry(date_of(&one.row.path)).or_default().push(one);
    }
    let is_entered = |one: &&ReadableFile| {
        let of_date = by_date.get(date_of(&one.row.path)).into_iter().flatten();
        !is_in_log(one) && !of_date.into_iter().any(|other| is_part_of(one, other))
    };
    let mut entered: Vec<&ReadableFile> = found.iter().filter(is_entered).collect();
    entered.sort_by_key(|one| (one.row.segment, one.row.path.clone()));
    let mut known: HashMap<u32, Series> = HashMap::new();
    let mut consistent = Vec::new();
    for one in entered {
        match unknown(&one.series, &known) {
            Ok(new) => {
                known.extend(new.iter().map(|one| (one.id, one.clone())));
                scanned.series.extend(new);
                scanned.parts.push(one.row.clone());
                consistent.push(one);
            }
            Err(name) => scanned.left_out.push(Finding::of_file(
                &one.row.path,
                format!("the series of {name} has a different name or type in an older file"),
                "move the file to the history to which it belongs",
            )),
        }
    }
    scanned.spool_logs = sealed_logs(&consistent);
    let sealed = scanned.parts.iter().map(|part| part.segment).max();
    let unsealed = Unsealed::read(folder, sealed.unwrap_or(0), &[], wall)?;
    for damaged in &unsealed.damaged {
        scanned.left_out.extend(Finding::of_log(damaged));
    }
    let new = crate::files::unsealed::unknown(&unsealed.series, &scanned.series)?;
    scanned.series.extend(new);
    Ok(scanned)
}

/// Returns the series of a file that are not in `known`, or the name of a series whose entry in `known`
/// differs.
fn unknown(
    of_file: &[(Series, SeriesSpan)],
    known: &HashMap<u32, Series>,
) -> Result<Vec<Series>, String> {
    let mut new = Vec::new();
    for (one, _) in of_file {
        match known.get(&one.id) {
            Some(known) if known.name == one.name && known.data_type == one.data_type => {}
            Some(_) => return Err(one.name.clone()),
            None if one.id == crate::catalogue::ENGINE_SERIES => {}
            None => new.push(one.clone()),
        }
    }
    Ok(new)
}

/// Determines the catalogue entry of a file from its footer.
fn read(folder: &Path, path: &str) -> Result<ReadableFile, Error> {
    let footer = footer::find(&folder.join(path), &footer::copy_path(folder, path))?;
    let content = footer.content()?;
    let FileNote {
        data_bytes,
        summary,
        segments,
        spool_logs,
    } = content.note;
    let spans = || content.series.iter().map(|(_, span)| span);
    let last_time = spans().map(|span| span.last_time).max().unwrap_or(0);
    let row = PartRow {
        path: path.to_owned(),
        segment: segments.last().map_or(0, |(_, last)| *last),
        first_time: spans().map(|span| span.first_time).min().unwrap_or(0),
        last_time,
        rows: spans().map(|span| span.rows).sum(),
        bytes: data_bytes + footer.bytes.len() as u64,
        // The engine corrects this when it finds the file expired.
        expires: last_time,
        data_bytes,
        footer: footer.sum(),
        summary,
    };
    Ok(ReadableFile {
        row,
        series: content.series,
        segments,
        spool_logs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, spool_logs: Vec<SealedLog>) -> ReadableFile {
        ReadableFile {
            row: PartRow {
                path: path.to_owned(),
                segment: 1,
                first_time: 0,
                last_time: 0,
                rows: 1,
                bytes: 1000,
                expires: i64::MAX,
                data_bytes: 900,
                footer: 0,
                summary: 0,
            },
            series: Vec::new(),
            segments: vec![(1, 1)],
            spool_logs,
        }
    }

    fn sealed(log: u64, files: usize) -> SealedLog {
        SealedLog {
            log: SpoolLog {
                spool: "9f0c".to_owned(),
                log,
            },
            files,
        }
    }

    /// H-14: with the file of one date twice, the rows of another date are only in the log.
    #[test]
    fn files_of_one_date_do_not_replace_the_file_of_another() {
        let logs = vec![sealed(1, 2), sealed(2, 1)];
        let once = file("samples/date=2026-11-27/0000000001.parquet", logs.clone());
        let joined = "samples/date=2026-11-27/0000000001-0000000002.parquet";
        let twice = file(joined, [logs, vec![sealed(1, 2)]].concat());
        let files = [&once, &twice];
        assert_eq!(sealed_logs(&files), [sealed(2, 1).log]);
        let other = file(
            "samples/date=2026-11-28/0000000001.parquet",
            vec![sealed(1, 2)],
        );
        let files = [&once, &twice, &other];
        assert_eq!(sealed_logs(&files), [sealed(1, 2).log, sealed(2, 1).log]);
    }
}
