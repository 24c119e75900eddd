//! Verifies a folder: every checksum, every row, and that files, summaries and catalogue agree.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use trunkline_types::Timestamp;
use trunkline_types::history::{RowKey, Rows};

use crate::catalogue::snapshot::{ATTEMPTS, Snapshot};
use crate::catalogue::{ENGINE_SERIES, PartRow, Series, SpoolEnd};
use crate::error::Error;
use crate::files::block_checksums::BLOCK;
use crate::files::footer::Footer;
use crate::files::part::{BATCH_READ_BYTES, Part, SeriesSpan};
use crate::files::schema::Projection;
use crate::files::summary::SummaryBuilder;
use crate::files::unsealed::{self, DamagedLog, Unsealed};
use crate::files::{files_in, summary};
use crate::folder::rebuild::scan;
use crate::folder::spooled::{self, KnownLogs, Spooled};
use crate::folder::{FolderError, absence};
use crate::paths::CATALOGUE;
use crate::{lock_file, log};

/// Maximum number of findings kept; further ones are only counted.
const FINDINGS_MAX: usize = 10_000;
/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// A finding: damage in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Path of the file, relative to the folder; for the spool, its path.
    pub file: String,
    /// Offset in the file at which the damage begins, if known.
    pub byte: Option<u64>,
    /// The variable whose rows cannot be read; `None` if no rows are affected, or rows of all variables.
    pub variable: Option<String>,
    /// The times of the first and the last affected row.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Description of the damage.
    pub what: String,
    /// Suggested remedy.
    pub advice: &'static str,
}

/// The results of [`verify`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Number of files of rows.
    pub files: u64,
    /// Number of logs whose rows are not in files yet.
    pub logs: u64,
    /// Number of readable updates and events, without those in the spool.
    pub rows: u64,
    /// Number of bytes of files and logs, also those of the spool.
    pub bytes: u64,
    /// What waits in the spool of the history; `None` if it has none.
    pub spooled: Option<Spooled>,
    /// The damage found, at most 10,000 findings.
    pub findings: Vec<Finding>,
    /// Number of findings beyond that limit.
    pub findings_dropped: u64,
    /// False if `progress` ended the check early.
    pub is_complete: bool,
}

const RESTORE: &str = "restore the file from a backup; the other rows can be read";
const RETRY: &str = "check its disk; the engine tries again to read it";
const REBUILD: &str = "`trunkline history rebuild` writes a new catalogue";
const COMPACT: &str = "`trunkline history compact` writes it again";

impl Finding {
    pub(crate) fn of_file(file: &str, what: impl Into<String>, advice: &'static str) -> Self {
        Self {
            file: file.to_owned(),
            byte: None,
            variable: None,
            times: None,
            what: what.into(),
            advice,
        }
    }

    /// Returns a finding for each damaged section of a log.
    pub(crate) fn of_log(damaged: &DamagedLog) -> impl Iterator<Item = Self> + '_ {
        let file = format!("log-{:010}.tlh", damaged.segment);
        damaged.after.iter().map(move |after| {
            let what = match after {
                Some(after) => format!("rows after the commit at {after} are damaged"),
                None => "rows at its beginning are damaged".to_owned(),
            };
            let advice = "nothing can be done: the rows are missing, and an event `lost` says so";
            Self {
                times: after.map(|after| (after, after)),
                ..Self::of_file(&file, what, advice)
            }
        })
    }
}

/// Verifies a folder, even while an engine records into it. `wall` is the current time. `progress` is
/// called with the number of bytes checked and the total; if it returns false, the check ends.
///
/// # Errors
/// [`FolderError`]: there is no history, or the folder cannot be read at all. Damage is not an error.
pub fn verify(
    folder: &Path,
    wall: Timestamp,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Verified, FolderError> {
    let checked = try_verify(folder, wall, progress);
    checked.map_err(|error| FolderError::of(error, folder))
}

fn try_verify(
    folder: &Path,
    wall: Timestamp,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Verified, Error> {
    let mut check = Check {
        folder,
        result: Verified {
            is_complete: true,
            ..Verified::default()
        },
        all: 0,
        progress,
    };
    let (mut series, mut parts) = check.catalogue(wall)?;
    let mut seen: HashSet<String> = HashSet::new();
    for _ in 0..ATTEMPTS {
        let by_id: HashMap<u32, &Series> = series.iter().map(|one| (one.id, one)).collect();
        check.all += parts.iter().map(|part| part.bytes).sum::<u64>();
        for row in &parts {
            let Verified { files, rows, .. } = check.result;
            let (found, dropped) = (check.result.findings.len(), check.result.findings_dropped);
            check.part(&Part::new(folder, row.clone()), &by_id);
            // An engine may have replaced the file in the meantime.
            if check.result.findings.len() > found && !is_listed(folder, row) {
                check.result.findings.truncate(found);
                check.result = Verified {
                    files,
                    rows,
                    findings_dropped: dropped,
                    ..check.result
                };
            }
            if !check.result.is_complete {
                return Ok(check.result);
            }
        }
        seen.extend(parts.iter().map(|part| part.path.clone()));
        // Next, check files that an engine has entered in the meantime.
        let Ok(now) = Snapshot::read(folder) else {
            break;
        };
        series = now.series;
        parts = now.parts;
        parts.retain(|part| !seen.contains(&part.path));
        if parts.is_empty() {
            break;
        }
    }
    let ends = check.logs(&series, wall)?;
    check.spool(ends)?;
    check.strangers(&seen)?;
    Ok(check.result)
}

fn is_listed(folder: &Path, row: &PartRow) -> bool {
    // Without a catalogue, no engine replaces anything.
    Snapshot::read(folder).map_or(true, |now| now.parts.iter().any(|one| one.path == row.path))
}

struct Check<'a> {
    folder: &'a Path,
    result: Verified,
    /// Total bytes to check.
    all: u64,
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
}

impl Check<'_> {
    fn find(&mut self, finding: Finding) {
        match self.result.findings.len() < FINDINGS_MAX {
            true => self.result.findings.push(finding),
            false => self.result.findings_dropped += 1,
        }
    }

    fn add_bytes(&mut self, bytes: u64) {
        self.result.bytes += bytes;
        let done = self.result.bytes;
        self.result.is_complete &= (self.progress)(done, self.all.max(done));
    }

    /// Returns the content of the catalogue, or of a rebuilt one if it is missing or damaged.
    fn catalogue(&mut self, wall: Timestamp) -> Result<(Vec<Series>, Vec<PartRow>), Error> {
        let error = match Snapshot::checked(self.folder) {
            Ok(snapshot) => return Ok((snapshot.series, snapshot.parts)),
            Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => absence(self.folder)?,
            Err(error) => error,
        };
        if !matches!(error, Error::Damaged(_) | Error::Sqlite(_)) {
            return Err(error);
        }
        self.find(Finding::of_file(CATALOGUE, error.sentence(), REBUILD));
        let scanned = scan(self.folder, wall)?;
        scanned.left_out.into_iter().for_each(|one| self.find(one));
        Ok((scanned.series, scanned.parts))
    }

    fn part(&mut self, part: &Part, known: &HashMap<u32, &Series>) {
        self.result.files += 1;
        let path = part.row.path.as_str();
        let bad_blocks = match self.footers(part) {
            Ok(Some(footer)) => self.blocks(part, &footer),
            Ok(None) => return,
            Err(error) => {
                let what = format!("it cannot be read: {}", error.sentence());
                return self.find(Finding {
                    times: Some(times_of(part.row.first_time, part.row.last_time)),
                    ..Finding::of_file(path, what, RESTORE)
                });
            }
        };
        let bad_blocks = bad_blocks.unwrap_or_else(|error| {
            let what = format!("it cannot be read: {}", error.sentence());
            self.find(Finding::of_file(path, what, RESTORE));
            BTreeSet::new()
        });
        if !self.result.is_complete {
            return;
        }
        if let Err(error) = self.content(part, known, &bad_blocks) {
            let what = format!("it cannot be read: {}", error.sentence());
            self.find(Finding::of_file(path, what, RESTORE));
        }
    }

    /// Checks the footer and its copy, and returns an intact one.
    fn footers(&mut self, part: &Part) -> Result<Option<Footer>, Error> {
        let path = part.row.path.as_str();
        let (of_file, of_copy) = part.footers()?;
        let copy = part.copy_name(self.folder);
        if of_copy.is_none() {
            let what = "this copy of the footer is missing or damaged; the file itself has it";
            if of_file.is_some() {
                self.find(Finding::of_file(&copy, what, COMPACT));
            }
        }
        if of_file.is_none() {
            let finding = match of_copy.is_some() {
                true => {
                    let what = format!("its footer is damaged, and its copy {copy} is used");
                    Finding::of_file(path, what, COMPACT)
                }
                false => {
                    let what = "its footer and the copy of it are damaged: no row can be read";
                    let times = times_of(part.row.first_time, part.row.last_time);
                    Finding {
                        times: Some(times),
                        ..Finding::of_file(path, what, "restore the file from a backup")
                    }
                }
            };
            self.find(Finding {
                byte: Some(part.row.data_bytes),
                ..finding
            });
        }
        Ok(of_file.or(of_copy))
    }

    /// Compares the blocks before the footer with their checksums, and returns the damaged ones.
    fn blocks(&mut self, part: &Part, footer: &Footer) -> Result<BTreeSet<u64>, Error> {
        let sums = footer.content()?.sums;
        let mut bad = BTreeSet::new();
        let mut file = File::open(&part.path)?.take(footer.data_bytes);
        let mut buffer = vec![0; READ_BYTES];
        let mut block = 0;
        while block < sums.len() && self.result.is_complete {
            let mut filled = 0;
            while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                match file.read(rest) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let read = buffer.get(..filled).unwrap_or_default();
            let mut chunks = read.chunks(BLOCK);
            for _ in 0..READ_BYTES / BLOCK {
                let Some(sum) = sums.get(block) else {
                    break;
                };
                let found = chunks.next().map(crc32c::crc32c);
                if found != Some(*sum) {
                    bad.insert(block as u64);
                }
                block += 1;
            }
            self.add_bytes(filled as u64);
        }
        self.add_bytes(footer.bytes.len() as u64);
        Ok(bad)
    }

    /// Reads all rows of a part, and compares them with the catalogue and the summaries.
    fn content(
        &mut self,
        part: &Part,
        known: &HashMap<u32, &Series>,
        bad_blocks: &BTreeSet<u64>,
    ) -> Result<(), Error> {
        let path = part.row.path.as_str();
        let series = part.definitions()?;
        let mut found_times: Option<(i64, i64)> = None;
        let mut rows = 0;
        for (one, span) in &series {
            rows += span.rows;
            let (first, last) = found_times.unwrap_or((span.first_time, span.last_time));
            found_times = Some((first.min(span.first_time), last.max(span.last_time)));
            let is_same =
                |known: &&Series| known.name == one.name && known.data_type == one.data_type;
            if one.id != ENGINE_SERIES && !known.get(&one.id).is_some_and(is_same) {
                self.find(Finding {
                    variable: Some(one.name.clone()),
                    times: Some(times_of(span.first_time, span.last_time)),
                    ..Finding::of_file(path, "the catalogue lacks this series", REBUILD)
                });
            }
        }
        let of_catalogue = (
            part.row.rows,
            Some((part.row.first_time, part.row.last_time)),
        );
        if (rows, found_times) != of_catalogue {
            let what = "the catalogue has another number of rows or other times for it";
            self.find(Finding::of_file(path, what, REBUILD));
        }
        for block in bad_blocks {
            self.bad_block(part, &series, *block)?;
        }
        let summaries = self.summaries(part);
        let mut unreadable = HashSet::new();
        for (one, span) in &series {
            let widths = summaries.as_ref().and_then(|all| all.get(&one.id));
            let mut builder = widths.map(|summary| SummaryBuilder::new(summary.width));
            let read = self.series(part, (one, *span), &mut builder);
            let is_whole = read.as_ref().is_ok_and(|lost| lost.is_empty());
            for (from, to) in
                read.unwrap_or_else(|_| vec![(span.first_row, span.first_row + span.rows)])
            {
                unreadable.insert(one.id);
                // Damaged blocks have been reported already.
                if bad_blocks.is_empty() {
                    let times = part.times_of_rows(*span, from, to)?;
                    self.find(Finding {
                        variable: Some(one.name.clone()),
                        times: Some(times_of(times.0, times.1)),
                        ..Finding::of_file(path, "rows cannot be decoded", RESTORE)
                    });
                }
            }
            let filled = builder.map(SummaryBuilder::finish).filter(|_| is_whole);
            if let (Some(filled), Some(summary)) = (filled, widths)
                // Compared as text, so that NaN equals NaN.
                && format!("{filled:?}") != format!("{:?}", summary.buckets)
            {
                let name = part.summary_name(self.folder);
                self.find(Finding {
                    variable: Some(one.name.clone()),
                    times: Some(times_of(span.first_time, span.last_time)),
                    ..Finding::of_file(
                        &name,
                        "the summary differs from its rows",
                        "delete the summary; queries then read the rows",
                    )
                });
            }
        }
        Ok(())
    }

    /// Reports the rows in a damaged block.
    fn bad_block(
        &mut self,
        part: &Part,
        series: &[(Series, SeriesSpan)],
        block: u64,
    ) -> Result<(), Error> {
        let path = part.row.path.as_str();
        let byte = block * BLOCK as u64;
        let what = format!("the block of {} KiB is damaged", BLOCK >> 10);
        let ranges = part.rows_in(byte..byte + BLOCK as u64)?;
        let mut is_named = false;
        for (one, span) in series {
            let end = span.first_row + span.rows;
            let mut times: Option<(i64, i64)> = None;
            let inside = ranges
                .iter()
                .filter(|range| range.0 < end && range.1 > span.first_row);
            for (from, to) in inside {
                let (from, to) = ((*from).max(span.first_row), (*to).min(end));
                let (first, last) = part.times_of_rows(*span, from, to)?;
                let known = times.unwrap_or((first, last));
                times = Some((known.0.min(first), known.1.max(last)));
            }
            if let Some((first, last)) = times {
                is_named = true;
                self.find(Finding {
                    byte: Some(byte),
                    variable: Some(one.name.clone()),
                    times: Some(times_of(first, last)),
                    ..Finding::of_file(path, what.clone(), RESTORE)
                });
            }
        }
        if !is_named {
            let what = format!("{what}; `trunkline history` reads all rows, other programs do not");
            self.find(Finding {
                byte: Some(byte),
                ..Finding::of_file(path, what, RESTORE)
            });
        }
        Ok(())
    }

    /// Returns the summaries of a part if they are intact.
    fn summaries(&mut self, part: &Part) -> Option<HashMap<u32, Arc<summary::Summary>>> {
        if part.row.summary == 0 {
            return None;
        }
        let name = part.summary_name(self.folder);
        let place = self.folder.join(&name);
        let what = match summary::read(&place, part.row.summary) {
            Ok(Some(summaries)) => return Some(summaries),
            Ok(None) if !place.exists() => {
                "the summary is missing; queries read the rows".to_owned()
            }
            Ok(None) => "the summary is damaged; queries read the rows".to_owned(),
            Err(error) => format!("the summary cannot be read: {}", error.sentence()),
        };
        let advice = "nothing is lost, but queries by intervals are slower";
        self.find(Finding::of_file(&name, what, advice));
        None
    }

    /// Reads the rows of a series, and returns the ranges that cannot be read.
    fn series(
        &mut self,
        part: &Part,
        (one, span): (&Series, SeriesSpan),
        builder: &mut Option<SummaryBuilder>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let end = span.first_row + span.rows;
        let (mut next, mut lost) = (span.first_row, Vec::new());
        let mut last: Option<RowKey> = None;
        let mut times: Option<(i64, i64)> = None;
        let mut is_sorted = true;
        let mut stream = None;
        let page_end = |row: u64| -> Result<u64, Error> {
            let (_, page) = part.page_at(one, row, Projection::Whole)?;
            Ok(page.min(end))
        };
        while next < end {
            let mut rows = one.rows();
            let open = match stream.take() {
                Some(open) => Ok(open),
                None => part.stream(&[(one, next, end)], Projection::Whole, BATCH_READ_BYTES),
            };
            let taken = open.and_then(|mut open| {
                let taken = open.take(one, next, (end - next) as usize, &mut rows)?;
                stream = Some(open);
                Ok(taken)
            });
            let taken = taken.or_else(|_| {
                // Fall back to reading page by page, as queries do.
                rows = one.rows();
                let page = page_end(next)?;
                part.read(one, next, page, Projection::Whole, &mut rows)?;
                Ok::<u64, Error>(page - next)
            });
            match taken {
                Ok(taken) => {
                    next += taken;
                    self.result.rows += taken;
                }
                Err(_) => {
                    let page = page_end(next)?;
                    lost.push((next, page));
                    next = page;
                    continue;
                }
            }
            is_sorted &= is_in_order(&rows, &mut last, &mut times);
            if let Some(builder) = builder {
                builder.add(&rows, &one.data_type);
            }
        }
        let is_other = lost.is_empty() && times != Some((span.first_time, span.last_time));
        if !is_sorted || is_other {
            let what = match is_sorted {
                false => "the rows are not in the order of time",
                true => "the rows have other times than the index of the file",
            };
            self.find(Finding {
                variable: Some(one.name.clone()),
                times: Some(times_of(span.first_time, span.last_time)),
                ..Finding::of_file(&part.row.path, what, RESTORE)
            });
        }
        Ok(lost)
    }

    /// Checks the logs, and returns the ends of logs of the spool that they have.
    fn logs(&mut self, known: &[Series], wall: Timestamp) -> Result<Vec<SpoolEnd>, Error> {
        for _ in 0..ATTEMPTS {
            let sealed = Snapshot::read(self.folder).map_or(0, |now| now.sealed());
            let unsealed = match Unsealed::read(self.folder, sealed, &[], wall) {
                Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => continue,
                unsealed => unsealed?,
            };
            if Snapshot::read(self.folder).map_or(0, |now| now.sealed()) != sealed {
                continue;
            }
            for damaged in &unsealed.damaged {
                Finding::of_log(damaged).for_each(|finding| self.find(finding));
            }
            if let Err(error) = unsealed::unknown(&unsealed.series, known) {
                self.find(Finding::of_file("", error.sentence(), REBUILD));
            }
            for segment in &unsealed.segments {
                self.result.logs += 1;
                self.result.rows += segment.count as u64;
                let found = std::fs::metadata(log::path(self.folder, segment.number));
                self.add_bytes(found.map_or(0, |found| found.len()));
            }
            return Ok(unsealed.spool_ends);
        }
        Ok(Vec::new())
    }

    /// Checks the logs that wait in the spool.
    fn spool(&mut self, mut ends: Vec<SpoolEnd>) -> Result<(), Error> {
        let mut known = KnownLogs::default();
        // Without a catalogue, rows that are in files may be counted again.
        if let Ok(now) = Snapshot::read(self.folder) {
            ends.extend(now.spool_ends);
            known.in_files = now.spool_logs;
        }
        known.ends = ends;
        let mut damaged = Vec::new();
        let mut is_complete = self.result.is_complete;
        if !is_complete {
            return Ok(());
        }
        let folder = self.folder;
        let spooled = spooled::read(folder, &known, &mut |segment, bytes, read| {
            match read {
                Ok(recovered) => {
                    let after = recovered.damage.clone();
                    damaged.extend(Finding::of_log(&DamagedLog { segment, after }));
                }
                Err(error) => {
                    let file = format!("log-{segment:010}.tlh");
                    let what = format!("it cannot be read: {}", error.sentence());
                    damaged.push(Finding::of_file(&file, what, RETRY));
                }
            }
            self.add_bytes(bytes);
            is_complete = self.result.is_complete;
            is_complete
        })?;
        let Some(spooled) = spooled else {
            return Ok(());
        };
        for finding in damaged {
            let file = spooled.folder.join(&finding.file).display().to_string();
            self.find(Finding { file, ..finding });
        }
        self.result.spooled = Some(spooled);
        Ok(())
    }

    /// Reports files that are not in the catalogue, unless an engine is recording, which may be about
    /// to enter them.
    fn strangers(&mut self, known: &HashSet<String>) -> Result<(), Error> {
        if lock_file::is_held(self.folder)? {
            return Ok(());
        }
        for path in files_in(self.folder)? {
            if !known.contains(&path) {
                let what = "the catalogue does not have this file";
                let advice = "when an engine starts, it deletes the file if its rows are elsewhere, \
                              or sets it apart; `trunkline history rebuild` enters it";
                self.find(Finding::of_file(&path, what, advice));
            }
        }
        Ok(())
    }
}

/// Returns false if the rows are not in order, or do not follow the previous ones.
fn is_in_order(rows: &Rows, last: &mut Option<RowKey>, times: &mut Option<(i64, i64)>) -> bool {
    let mut is_sorted = rows.is_sorted() && rows.marks().is_sorted_by_key(|mark| mark.key);
    let of_rows = [0, rows.len().wrapping_sub(1)];
    let of_rows = of_rows.into_iter().filter_map(|row| rows.key(row));
    let of_marks = [rows.marks().first(), rows.marks().last()];
    let of_marks = of_marks.into_iter().flatten().map(|mark| mark.key);
    let keys: Vec<RowKey> = of_rows.chain(of_marks).collect();
    if let (Some(first), Some(newest)) = (keys.iter().min(), keys.iter().max()) {
        is_sorted &= last.is_none_or(|last| last <= *first);
        *last = Some(*newest);
        let known = times.unwrap_or((first.time, newest.time));
        *times = Some((known.0.min(first.time), known.1.max(newest.time)));
    }
    is_sorted
}

fn times_of(first: i64, last: i64) -> (Timestamp, Timestamp) {
    (Timestamp::from_nanos(first), Timestamp::from_nanos(last))
}
