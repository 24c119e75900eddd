//! Verifies a folder: all checksums, all rows, and whether files, summaries and catalogue agree.

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
use crate::files::part::{BATCH_BYTES_MAX, Part, SeriesSpan};
use crate::files::schema::Projection;
use crate::files::summary::SummaryBuilder;
use crate::files::unsealed::{self, DamagedLog, Unsealed};
use crate::files::{files_in, summary};
use crate::folder::rebuild::scan;
use crate::folder::spooled::{self, KnownLogs, Spooled};
use crate::folder::{FolderError, absence};
use crate::paths::CATALOGUE;
use crate::{lock_file, log};

/// Maximum number of findings in a result. Further findings are only counted.
const FINDINGS_MAX: usize = 10_000;
/// Number of bytes read from a file at a time.
const READ_BYTES: usize = 1 << 20;

/// A description of damage in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Path of the file: relative to the folder, or including the folder of the spool for a file of the
    /// spool.
    pub file: String,
    /// Offset of the damage in the file in bytes; `None` if it is not known.
    pub byte: Option<u64>,
    /// The variable whose rows are affected; `None` if no rows or the rows of all variables are affected.
    pub variable: Option<String>,
    /// The times of the first and the last affected row; `None` if they are not known.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Description of the damage.
    pub what: String,
    /// Suggested remedy.
    pub advice: &'static str,
}

/// The results of [`verify`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Number of Parquet files of rows.
    pub files: u64,
    /// Number of logs whose rows are not in files yet.
    pub logs: u64,
    /// Number of readable updates and events, not including those in the spool.
    pub rows: u64,
    /// Number of bytes checked, including those in the spool.
    pub bytes: u64,
    /// The rows in the spool; `None` if the history has no spool.
    pub spooled: Option<Spooled>,
    /// The damage, at most 10,000 findings.
    pub findings: Vec<Finding>,
    /// Number of findings beyond that limit.
    pub findings_dropped: u64,
    /// False if `progress` ended the check early.
    pub is_complete: bool,
}

const RESTORE: &str = "restore the file from a backup; the other rows can be read";
const RETRY: &str = "check its disk; the engine will try to read it again";
const REBUILD: &str = "`trunkline history rebuild` writes a new catalogue";
const COMPACT: &str = "`trunkline history compact` restores it";

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
            let advice = "the rows cannot be restored; the history has an event `lost` for them";
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
/// Returns a [`FolderError`] if there is no history, or the folder cannot be read. Damage is not an error.
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
    let mut check = Verifier {
        folder,
        result: Verified {
            is_complete: true,
            ..Verified::default()
        },
        bytes_total: 0,
        progress,
    };
    let (mut series, mut parts) = check.catalogue(wall)?;
    let mut checked: HashSet<String> = HashSet::new();
    for _ in 0..ATTEMPTS {
        let by_id: HashMap<u32, &Series> = series.iter().map(|one| (one.id, one)).collect();
        check.bytes_total += parts.iter().map(|part| part.bytes).sum::<u64>();
        for row in &parts {
            let Verified { files, rows, .. } = check.result;
            let (count, dropped) = (check.result.findings.len(), check.result.findings_dropped);
            check.part(&Part::new(folder, row.clone()), &by_id);
            // An engine may have replaced the file in the meantime.
            if check.result.findings.len() > count && !is_listed(folder, row) {
                check.result.findings.truncate(count);
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
        checked.extend(parts.iter().map(|part| part.path.clone()));
        // Next, check files that an engine has entered in the meantime.
        let Ok(now) = Snapshot::read(folder) else {
            break;
        };
        series = now.series;
        parts = now.parts;
        parts.retain(|part| !checked.contains(&part.path));
        if parts.is_empty() {
            break;
        }
    }
    let ends = check.logs(&series, wall)?;
    check.spool(ends)?;
    check.unlisted_files(&checked)?;
    Ok(check.result)
}

/// Returns true if the catalogue lists a file now.
fn is_listed(folder: &Path, row: &PartRow) -> bool {
    // If there is no catalogue, no engine is replacing files.
    Snapshot::read(folder).map_or(true, |now| now.parts.iter().any(|one| one.path == row.path))
}

struct Verifier<'a> {
    folder: &'a Path,
    result: Verified,
    /// Total number of bytes to check, if known.
    bytes_total: u64,
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
}

impl Verifier<'_> {
    /// Adds a finding to the result.
    fn report(&mut self, finding: Finding) {
        match self.result.findings.len() < FINDINGS_MAX {
            true => self.result.findings.push(finding),
            false => self.result.findings_dropped += 1,
        }
    }

    fn add_bytes(&mut self, bytes: u64) {
        self.result.bytes += bytes;
        let done = self.result.bytes;
        self.result.is_complete &= (self.progress)(done, self.bytes_total.max(done));
    }

    /// Returns the series and files in the catalogue. If the catalogue is missing or damaged, determines them
    /// from the files.
    fn catalogue(&mut self, wall: Timestamp) -> Result<(Vec<Series>, Vec<PartRow>), Error> {
        let error = match Snapshot::checked(self.folder) {
            Ok(snapshot) => return Ok((snapshot.series, snapshot.parts)),
            Err(Error::Io(error)) if error.kind() == ErrorKind::NotFound => absence(self.folder)?,
            Err(error) => error,
        };
        if !matches!(error, Error::Damaged(_) | Error::Sqlite(_)) {
            return Err(error);
        }
        self.report(Finding::of_file(CATALOGUE, error.sentence(), REBUILD));
        let former = Snapshot::read(self.folder).ok();
        let scanned = scan(self.folder, former.as_ref(), wall)?;
        scanned
            .left_out
            .into_iter()
            .for_each(|one| self.report(one));
        Ok((scanned.series, scanned.parts))
    }

    fn part(&mut self, part: &Part, known: &HashMap<u32, &Series>) {
        self.result.files += 1;
        let path = part.row.path.as_str();
        let bad_blocks = match self.footers(part) {
            Ok(Some(footer)) => self.blocks(part, &footer),
            Ok(None) => return,
            Err(error) => {
                let what = format!("the file cannot be read: {}", error.sentence());
                return self.report(Finding {
                    times: Some(times_of(part.row.first_time, part.row.last_time)),
                    ..Finding::of_file(path, what, RESTORE)
                });
            }
        };
        let bad_blocks = bad_blocks.unwrap_or_else(|error| {
            let what = format!("the file cannot be read: {}", error.sentence());
            self.report(Finding::of_file(path, what, RESTORE));
            BTreeSet::new()
        });
        if !self.result.is_complete {
            return;
        }
        if let Err(error) = self.content(part, known, &bad_blocks) {
            let what = format!("the file cannot be read: {}", error.sentence());
            self.report(Finding::of_file(path, what, RESTORE));
        }
    }

    /// Checks the footer of a file and its copy. Returns an intact one; `None` if both are damaged.
    fn footers(&mut self, part: &Part) -> Result<Option<Footer>, Error> {
        let path = part.row.path.as_str();
        let (in_file, in_copy) = part.footers()?;
        let copy = part.copy_name(self.folder);
        if in_copy.is_none() {
            let what = "this copy of a footer is missing or damaged; the original is intact";
            if in_file.is_some() {
                self.report(Finding::of_file(&copy, what, COMPACT));
            }
        }
        if in_file.is_none() {
            let finding = match in_copy.is_some() {
                true => {
                    let what = format!("the footer is damaged; queries use its copy {copy}");
                    Finding::of_file(path, what, COMPACT)
                }
                false => {
                    let what = "the footer and its copy are damaged, so no row can be read";
                    let times = times_of(part.row.first_time, part.row.last_time);
                    Finding {
                        times: Some(times),
                        ..Finding::of_file(path, what, "restore the file from a backup")
                    }
                }
            };
            self.report(Finding {
                byte: Some(part.row.data_bytes),
                ..finding
            });
        }
        Ok(in_file.or(in_copy))
    }

    /// Compares the blocks before the footer with their checksums. Returns the numbers of damaged blocks.
    fn blocks(&mut self, part: &Part, footer: &Footer) -> Result<BTreeSet<u64>, Error> {
        let sums = footer.content()?.sums;
        let mut bad = BTreeSet::new();
        let mut file = File::open(&part.path)?.take(footer.data_bytes);
        let mut buffer = vec![0; READ_BYTES];
        let mut block = 0;
        while block < sums.len() && self.result.is_complete {
            let mut filled = 0;
            while let Some(free) = buffer.get_mut(filled..).filter(|free| !free.is_empty()) {
                match file.read(free) {
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

    /// Reads all rows of a part, and compares them with the catalogue and the summary.
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
                self.report(Finding {
                    variable: Some(one.name.clone()),
                    times: Some(times_of(span.first_time, span.last_time)),
                    ..Finding::of_file(path, "the catalogue lacks this series", REBUILD)
                });
            }
        }
        let in_catalogue = (
            part.row.rows,
            Some((part.row.first_time, part.row.last_time)),
        );
        if (rows, found_times) != in_catalogue {
            let what = "the number of rows or their times differ from the catalogue";
            self.report(Finding::of_file(path, what, REBUILD));
        }
        for block in bad_blocks {
            self.bad_block(part, &series, *block)?;
        }
        let summaries = self.summaries(part);
        let mut unreadable = HashSet::new();
        for (one, span) in &series {
            let widths = summaries
                .as_ref()
                .and_then(|summaries| summaries.get(&one.id));
            let mut builder = widths.map(|summary| SummaryBuilder::new(summary.width));
            let read = self.series(part, (one, *span), &mut builder);
            let is_whole = read.as_ref().is_ok_and(|lost| lost.is_empty());
            for (from, to) in
                read.unwrap_or_else(|_| vec![(span.first_row, span.first_row + span.rows)])
            {
                unreadable.insert(one.id);
                // Damaged blocks were reported already.
                if bad_blocks.is_empty() {
                    let times = part.times_of_rows(*span, from, to)?;
                    self.report(Finding {
                        variable: Some(one.name.clone()),
                        times: Some(times_of(times.0, times.1)),
                        ..Finding::of_file(path, "rows cannot be decoded", RESTORE)
                    });
                }
            }
            let filled = builder.map(SummaryBuilder::finish).filter(|_| is_whole);
            if let (Some(filled), Some(summary)) = (filled, widths)
                // Compare as text, so that NaN equals NaN.
                && format!("{filled:?}") != format!("{:?}", summary.buckets)
            {
                let name = part.summary_name(self.folder);
                self.report(Finding {
                    variable: Some(one.name.clone()),
                    times: Some(times_of(span.first_time, span.last_time)),
                    ..Finding::of_file(
                        &name,
                        "the summary differs from the rows of its file",
                        "delete the summary; queries then read the rows",
                    )
                });
            }
        }
        Ok(())
    }

    /// Reports the rows that a damaged block makes unreadable.
    fn bad_block(
        &mut self,
        part: &Part,
        series: &[(Series, SeriesSpan)],
        block: u64,
    ) -> Result<(), Error> {
        let path = part.row.path.as_str();
        let byte = block * BLOCK as u64;
        let what = format!("a block of {} KiB is damaged", BLOCK >> 10);
        let ranges = part.rows_in(byte..byte + BLOCK as u64)?;
        let mut affects_series = false;
        for (one, span) in series {
            let end = span.first_row + span.rows;
            let mut times: Option<(i64, i64)> = None;
            let affected = ranges
                .iter()
                .filter(|range| range.0 < end && range.1 > span.first_row);
            for (from, to) in affected {
                let (from, to) = ((*from).max(span.first_row), (*to).min(end));
                let (first, last) = part.times_of_rows(*span, from, to)?;
                let earlier = times.unwrap_or((first, last));
                times = Some((earlier.0.min(first), earlier.1.max(last)));
            }
            if let Some((first, last)) = times {
                affects_series = true;
                self.report(Finding {
                    byte: Some(byte),
                    variable: Some(one.name.clone()),
                    times: Some(times_of(first, last)),
                    ..Finding::of_file(path, what.clone(), RESTORE)
                });
            }
        }
        if !affects_series {
            let what =
                format!("{what}; `trunkline history` can read all rows, but other programs cannot");
            self.report(Finding {
                byte: Some(byte),
                ..Finding::of_file(path, what, RESTORE)
            });
        }
        Ok(())
    }

    /// Returns the summary of each series of a part; `None` if the summary file is missing or damaged.
    fn summaries(&mut self, part: &Part) -> Option<HashMap<u32, Arc<summary::Summary>>> {
        if part.row.summary == 0 {
            return None;
        }
        let name = part.summary_name(self.folder);
        let place = self.folder.join(&name);
        let what = match summary::read(&place, part.row.summary) {
            Ok(Some(summaries)) => return Some(summaries),
            Ok(None) if !place.exists() => {
                "the summary is missing; queries read the rows instead".to_owned()
            }
            Ok(None) => "the summary is damaged; queries read the rows instead".to_owned(),
            Err(error) => format!("the summary cannot be read: {}", error.sentence()),
        };
        let advice = "no rows are lost, but queries with intervals are slower";
        self.report(Finding::of_file(&name, what, advice));
        None
    }

    /// Reads the rows of a series and checks their order. Returns the ranges of rows that cannot be read.
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
                None => part.stream(&[(one, next, end)], Projection::Whole, BATCH_BYTES_MAX),
            };
            let taken = open.and_then(|mut open| {
                let taken = open.take(one, next, (end - next) as usize, &mut rows)?;
                stream = Some(open);
                Ok(taken)
            });
            let taken = taken.or_else(|_| {
                // Read page by page, as queries do, so that only damaged pages are lost.
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
        let has_other_times = lost.is_empty() && times != Some((span.first_time, span.last_time));
        if !is_sorted || has_other_times {
            let what = match is_sorted {
                false => "the rows are not sorted by time",
                true => "the times of the rows differ from the index of the file",
            };
            self.report(Finding {
                variable: Some(one.name.clone()),
                times: Some(times_of(span.first_time, span.last_time)),
                ..Finding::of_file(&part.row.path, what, RESTORE)
            });
        }
        Ok(lost)
    }

    /// Checks the logs. Returns the ends of logs of the spool that these logs contain.
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
                Finding::of_log(damaged).for_each(|finding| self.report(finding));
            }
            if let Err(error) = unsealed::unknown(&unsealed.series, known) {
                self.report(Finding::of_file("", error.sentence(), REBUILD));
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

    /// Checks the logs in the spool whose rows are not in files.
    fn spool(&mut self, mut ends: Vec<SpoolEnd>) -> Result<(), Error> {
        let mut known = KnownLogs::default();
        // Without a catalogue, rows of the spool that are also in files are counted twice.
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
                    let what = format!("the log cannot be read: {}", error.sentence());
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
            self.report(Finding { file, ..finding });
        }
        self.result.spooled = Some(spooled);
        Ok(())
    }

    /// Reports files that are not in the catalogue. Does nothing while an engine is recording, because it may
    /// be about to enter them.
    fn unlisted_files(&mut self, known: &HashSet<String>) -> Result<(), Error> {
        if lock_file::is_held(self.folder)? {
            return Ok(());
        }
        for path in files_in(self.folder)? {
            if !known.contains(&path) {
                let what = "the catalogue does not list this file";
                let advice = "`trunkline history rebuild` enters it in the catalogue; otherwise, the \
                              next start of an engine deletes it if its rows are stored elsewhere, \
                              or moves it to set-apart";
                self.report(Finding::of_file(&path, what, advice));
            }
        }
        Ok(())
    }
}

/// Returns false if the rows are not sorted, or do not follow the previous rows. Updates `last`, the key of
/// the last row, and `times`, the times of the first and the last row.
fn is_in_order(rows: &Rows, last: &mut Option<RowKey>, times: &mut Option<(i64, i64)>) -> bool {
    let mut is_sorted = rows.is_sorted() && rows.events().is_sorted_by_key(|mark| mark.key);
    let row_keys = [0, rows.len().wrapping_sub(1)];
    let row_keys = row_keys.into_iter().filter_map(|row| rows.key(row));
    let mark_keys = [rows.events().first(), rows.events().last()];
    let mark_keys = mark_keys.into_iter().flatten().map(|mark| mark.key);
    let keys: Vec<RowKey> = row_keys.chain(mark_keys).collect();
    if let (Some(first), Some(newest)) = (keys.iter().min(), keys.iter().max()) {
        is_sorted &= last.is_none_or(|last| last <= *first);
        *last = Some(*newest);
        let earlier = times.unwrap_or((first.time, newest.time));
        *times = Some((earlier.0.min(first.time), earlier.1.max(newest.time)));
    }
    is_sorted
}

fn times_of(first: i64, last: i64) -> (Timestamp, Timestamp) {
    (Timestamp::from_nanos(first), Timestamp::from_nanos(last))
}
