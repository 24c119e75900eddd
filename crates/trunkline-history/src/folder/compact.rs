//! Compacts a folder into which no engine records.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use trunkline_types::Timestamp;
use trunkline_types::history::HistoryRule;

use crate::catalogue::{Catalogue, PartRow, Series};
use crate::error::Error;
use crate::files::join::{self};
use crate::files::merge::Merge;
use crate::files::part::{Part, SeriesSpan};
use crate::files::unsealed::{self, DamagedLog, Unsealed};
use crate::files::{orphans, seal};
use crate::folder::{FolderError, absence};
use crate::paths::{CATALOGUE, IDENTITY, remove_if_there};
use crate::rules::keep_of;
use crate::{lock_file, log};

/// Minimum number of files of one date that are joined at once.
const FILES_MIN: usize = 2;

/// The results of [`compact`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compacted {
    /// Number of logs whose rows were moved to files.
    pub logs: u64,
    /// Number of files that were joined.
    pub joined: u64,
    /// Number of files into which they were joined.
    pub joined_to: u64,
    /// Number of rows and events that were removed because they had expired.
    pub removed_rows: u64,
    /// Number of files whose footer, or copy of the footer, was restored.
    pub repaired: u64,
    /// Number of Parquet files of rows after compaction.
    pub files: u64,
    /// Sentences about unreadable data, which was left unchanged.
    pub damage: Vec<String>,
}

/// Moves the rows of all logs to files, joins small files, removes expired rows, and restores damaged
/// footers. Without rules, no rows expire. `wall` is the current time. `go_on` is called after each step; if
/// it returns false, the remaining steps are skipped.
///
/// # Errors
/// Returns a [`FolderError`] if the folder cannot be read or written. Completed steps stay in effect.
pub fn compact(
    folder: &Path,
    rules: &[HistoryRule],
    wall: Timestamp,
    go_on: &mut dyn FnMut(&Compacted) -> bool,
) -> Result<Compacted, FolderError> {
    let result = Compaction::open(folder, rules, wall).and_then(|mut compaction| {
        compaction.run(go_on)?;
        Ok(compaction.result)
    });
    result.map_err(|error| FolderError::of(error, folder))
}

/// A compaction in progress.
struct Compaction<'a> {
    folder: &'a Path,
    rules: &'a [HistoryRule],
    now: i64,
    catalogue: Catalogue,
    /// All series, sorted by name and id.
    series: Vec<Series>,
    parts: Vec<Arc<Part>>,
    unsealed: Unsealed,
    result: Compacted,
    _lock: std::fs::File,
}

impl<'a> Compaction<'a> {
    fn open(folder: &'a Path, rules: &'a [HistoryRule], wall: Timestamp) -> Result<Self, Error> {
        if !folder.join(CATALOGUE).exists() {
            return Err(absence(folder)?);
        }
        let folder_lock = lock_file::acquire(folder)?;
        let mut catalogue = Catalogue::open(&folder.join(CATALOGUE), false)?;
        let mut series = catalogue.series()?;
        let rows = catalogue.parts()?;
        let keep_of = |series: &Series| keep_of(rules, series);
        let is_expired = |spans: &[(Series, SeriesSpan)]| {
            let times = spans.iter().map(|(series, span)| (series, span.last_time));
            !rules.is_empty() && join::expiry_of(times, &keep_of) < wall.as_nanos()
        };
        let set_apart_count = orphans::remove(folder, &rows, &log::segments(folder)?, &is_expired)?;
        let mut result = Compacted::default();
        if set_apart_count > 0 {
            result.damage.push(orphans::sentence(set_apart_count));
        }
        let sealed = rows.iter().map(|part| part.segment).max().unwrap_or(0);
        let parts = rows.into_iter().map(|row| Arc::new(Part::new(folder, row)));
        let parts: Vec<Arc<Part>> = parts.collect();
        let mut unsealed = Unsealed::beside(folder, &parts, &[], wall)?;
        // With a spool, the last run may have ended there, so the next start must determine how it ended.
        if !folder.join(IDENTITY).try_exists()? {
            unsealed.add_interrupted(sealed);
        }
        // The logs that contain these ends are removed below.
        catalogue.add_spool_entries(&[], &unsealed.spool_ends)?;
        let new = unsealed::unknown(&unsealed.series, &series)?;
        catalogue.add_series(&new)?;
        series.extend(new);
        series.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        result
            .damage
            .extend(unsealed.damaged.iter().map(DamagedLog::sentence));
        Ok(Self {
            folder,
            rules,
            now: wall.as_nanos(),
            catalogue,
            series,
            parts,
            unsealed,
            result,
            _lock: folder_lock,
        })
    }

    fn run(&mut self, go_on: &mut dyn FnMut(&Compacted) -> bool) -> Result<(), Error> {
        for part in self.parts.clone() {
            self.repair(&part);
        }
        // Remove the logs only afterwards: until the last segment is in a file, only its log shows how the
        // last run ended.
        let segments = std::mem::take(&mut self.unsealed.segments);
        for segment in segments {
            let rules = self.rules;
            let keep = |series: &Series| keep_of(rules, series);
            let mut added = seal::seal(self.folder, &segment, &self.series, &keep)?;
            if rules.is_empty() {
                // The engine corrects this when it finds the file expired.
                added
                    .iter_mut()
                    .for_each(|part| part.expires = part.last_time);
            }
            self.replace(&[], added)?;
            self.result.logs += u64::from(log::path(self.folder, segment.number).exists());
            if !go_on(&self.result) {
                return Ok(());
            }
        }
        for number in log::segments(self.folder)? {
            remove_if_there(&log::path(self.folder, number))?;
        }
        if !self.rules.is_empty() {
            self.remove_expired()?;
        }
        let mut skipped = BTreeSet::new();
        while go_on(&self.result) {
            let chosen = join::choose(&self.parts, &skipped, FILES_MIN);
            if chosen.is_empty() {
                break;
            }
            let rules = self.rules;
            let keep = |series: &Series| keep_of(rules, series);
            match join::join(self.folder, &chosen, &self.series, &keep, self.now) {
                Ok(mut joined) => {
                    let rows =
                        |parts: &[Arc<Part>]| parts.iter().map(|one| one.row.rows).sum::<u64>();
                    let kept_rows = joined.as_ref().map_or(0, |part| part.rows);
                    self.result.joined += chosen.len() as u64;
                    self.result.joined_to += u64::from(joined.is_some());
                    self.result.removed_rows += rows(&chosen).saturating_sub(kept_rows);
                    if rules.is_empty()
                        && let Some(part) = &mut joined
                    {
                        let expires = chosen.iter().map(|one| one.row.expires).max();
                        part.expires = expires.unwrap_or(i64::MAX);
                    }
                    self.replace(&chosen, joined.into_iter().collect())?;
                }
                Err(error @ (Error::Damaged(_) | Error::Io(_))) => {
                    // Leave the files unchanged; queries return the rows that can be read. Skip damaged
                    // files, so that the other files are still joined.
                    let is_damaged = |part: &&Arc<Part>| !is_readable(part, &self.series);
                    let damaged: Vec<_> = chosen.iter().filter(is_damaged).collect();
                    if damaged.is_empty() {
                        return Err(error);
                    }
                    for part in damaged {
                        let path = &part.row.path;
                        let sentence = format!(
                            "{path} was not joined, because some of its rows cannot be read"
                        );
                        self.result.damage.push(sentence);
                        skipped.insert(path.clone());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.result.files = self.parts.len() as u64;
        Ok(())
    }

    fn repair(&mut self, part: &Part) {
        match part.repair() {
            Ok(was_damaged) => self.result.repaired += u64::from(was_damaged),
            Err(error) => {
                let path = &part.row.path;
                let sentence = format!("{path} cannot be read: {}", error.sentence());
                self.result.damage.push(sentence);
            }
        }
    }

    fn remove_expired(&mut self) -> Result<(), Error> {
        let rules = self.rules;
        let keep = |series: &Series| keep_of(rules, series);
        for part in self.parts.clone() {
            // Keep a file that cannot be read, because the age of its rows is unknown.
            let expires = join::expiry(&part, &self.series, &keep);
            if expires.is_ok_and(|expires| expires < self.now) {
                self.replace(std::slice::from_ref(&part), Vec::new())?;
                self.result.removed_rows += part.row.rows;
            }
        }
        Ok(())
    }

    fn replace(&mut self, removed: &[Arc<Part>], added: Vec<PartRow>) -> Result<(), Error> {
        let paths: Vec<String> = removed.iter().map(|part| part.row.path.clone()).collect();
        self.catalogue.replace_parts(&paths, &added, None)?;
        // Keep a replaced file if a new file has the same path.
        let kept: Vec<String> = added.iter().map(|row| row.path.clone()).collect();
        self.parts.retain(|part| !paths.contains(&part.row.path));
        let added = added
            .into_iter()
            .map(|row| Arc::new(Part::new(self.folder, row)));
        self.parts.extend(added);
        let is_replaced = |part: &&Arc<Part>| !kept.contains(&part.row.path);
        let mut removed = removed.iter().filter(is_replaced);
        removed.try_for_each(|part| part.remove())
    }
}

/// Returns true if every row of a part can be read.
fn is_readable(part: &Arc<Part>, series: &[Series]) -> bool {
    let engine_series = Series::of_engine();
    let known = series
        .iter()
        .chain([&engine_series])
        .map(|one| (one.id, one));
    let known: HashMap<u32, &Series> = known.collect();
    let read = || -> Result<(), Error> {
        for id in part.spans()?.into_iter().map(|(id, _)| id) {
            let one = known.get(&id);
            let one =
                one.ok_or_else(|| Error::damaged("the catalogue lacks a series of the file"))?;
            let mut rows = Merge::new(std::slice::from_ref(part), one)?;
            while rows.next()?.is_some() {}
        }
        Ok(())
    };
    read().is_ok()
}
