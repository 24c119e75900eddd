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
    /// Number of files that resulted from joining.
    pub joined_to: u64,
    /// Number of rows and events that were removed because they were older than `keep`.
    pub removed_rows: u64,
    /// Number of files with a restored footer.
    pub repaired: u64,
    /// Number of files of rows after compaction.
    pub files: u64,
    /// Unreadable data, which was left as it is; in sentences.
    pub damage: Vec<String>,
}

/// Moves the rows of all logs to files, joins small files, removes rows that the rules do not keep,
/// and restores damaged footers. Without rules, nothing is removed. `wall` is the current time.
/// `go_on` is called after each step; if it returns false, the remaining steps are skipped.
///
/// # Errors
/// [`FolderError`]; completed steps are kept.
pub fn compact(
    folder: &Path,
    rules: &[HistoryRule],
    wall: Timestamp,
    go_on: &mut dyn FnMut(&Compacted) -> bool,
) -> Result<Compacted, FolderError> {
    let done = Tidy::open(folder, rules, wall).and_then(|mut tidy| {
        tidy.run(go_on)?;
        Ok(tidy.done)
    });
    done.map_err(|error| FolderError::of(error, folder))
}

struct Tidy<'a> {
    folder: &'a Path,
    rules: &'a [HistoryRule],
    now: i64,
    catalogue: Catalogue,
    /// Sorted by name and id.
    series: Vec<Series>,
    parts: Vec<Arc<Part>>,
    unsealed: Unsealed,
    done: Compacted,
    _held: std::fs::File,
}

impl<'a> Tidy<'a> {
    fn open(folder: &'a Path, rules: &'a [HistoryRule], wall: Timestamp) -> Result<Self, Error> {
        if !folder.join(CATALOGUE).exists() {
            return Err(absence(folder)?);
        }
        let held = lock_file::hold(folder)?;
        let mut catalogue = Catalogue::open(&folder.join(CATALOGUE), false)?;
        let mut series = catalogue.series()?;
        let rows = catalogue.parts()?;
        let keep_of = |series: &Series| keep_of(rules, series);
        let is_expired = |spans: &[(Series, SeriesSpan)]| {
            let times = spans.iter().map(|(series, span)| (series, span.last_time));
            !rules.is_empty() && join::expiry_of(times, &keep_of) < wall.as_nanos()
        };
        let apart = orphans::remove(folder, &rows, &log::segments(folder)?, &is_expired)?;
        let mut done = Compacted::default();
        if apart > 0 {
            done.damage.push(orphans::sentence(apart));
        }
        let sealed = rows.iter().map(|part| part.segment).max().unwrap_or(0);
        let parts = rows.into_iter().map(|row| Arc::new(Part::new(folder, row)));
        let parts: Vec<Arc<Part>> = parts.collect();
        let mut unsealed = Unsealed::beside(folder, &parts, &[], wall)?;
        // The last run may have ended in a spool. The next start will determine that from the files.
        if !folder.join(IDENTITY).try_exists()? {
            unsealed.add_end(sealed);
        }
        // Their logs, which say the same, are removed.
        catalogue.add_spool_ends(&unsealed.spool_ends)?;
        let new = unsealed::unknown(&unsealed.series, &series)?;
        catalogue.add_series(&new)?;
        series.extend(new);
        series.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        done.damage
            .extend(unsealed.damaged.iter().map(DamagedLog::sentence));
        Ok(Self {
            folder,
            rules,
            now: wall.as_nanos(),
            catalogue,
            series,
            parts,
            unsealed,
            done,
            _held: held,
        })
    }

    fn run(&mut self, go_on: &mut dyn FnMut(&Compacted) -> bool) -> Result<(), Error> {
        for part in self.parts.clone() {
            self.repair(&part);
        }
        // Without a spool, the last segment says how the last run ended; until it is in a file, the log says
        // so.
        let segments = std::mem::take(&mut self.unsealed.segments);
        for segment in segments {
            let rules = self.rules;
            let keep = |series: &Series| keep_of(rules, series);
            let mut added = seal::seal(self.folder, &segment, &self.series, &keep)?;
            if rules.is_empty() {
                // The engine determines later how long the rows are kept.
                added
                    .iter_mut()
                    .for_each(|part| part.expires = part.last_time);
            }
            self.replace(&[], added)?;
            self.done.logs += u64::from(log::path(self.folder, segment.number).exists());
            if !go_on(&self.done) {
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
        while go_on(&self.done) {
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
                    let left = joined.as_ref().map_or(0, |part| part.rows);
                    self.done.joined += chosen.len() as u64;
                    self.done.joined_to += u64::from(joined.is_some());
                    self.done.removed_rows += rows(&chosen).saturating_sub(left);
                    if rules.is_empty()
                        && let Some(part) = &mut joined
                    {
                        let before = chosen.iter().map(|one| one.row.expires).max();
                        part.expires = before.unwrap_or(i64::MAX);
                    }
                    self.replace(&chosen, joined.into_iter().collect())?;
                }
                Err(error @ (Error::Damaged(_) | Error::Io(_))) => {
                    // The files stay as they are; queries return their readable rows. A damaged file
                    // does not prevent the others from being joined.
                    let is_damaged = |part: &&Arc<Part>| !is_readable(part, &self.series);
                    let damaged: Vec<_> = chosen.iter().filter(is_damaged).collect();
                    if damaged.is_empty() {
                        return Err(error);
                    }
                    for part in damaged {
                        let path = &part.row.path;
                        let sentence =
                            format!("{path} cannot be read completely, and was not joined");
                        self.done.damage.push(sentence);
                        skipped.insert(path.clone());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.done.files = self.parts.len() as u64;
        Ok(())
    }

    fn repair(&mut self, part: &Part) {
        match part.repair() {
            Ok(was_damaged) => self.done.repaired += u64::from(was_damaged),
            Err(error) => {
                let path = &part.row.path;
                let sentence = format!("{path} cannot be read: {}", error.sentence());
                self.done.damage.push(sentence);
            }
        }
    }

    fn remove_expired(&mut self) -> Result<(), Error> {
        let rules = self.rules;
        let keep = |series: &Series| keep_of(rules, series);
        for part in self.parts.clone() {
            // Keep a file that cannot be read: the age of its rows is unknown.
            let expires = join::expiry(&part, &self.series, &keep);
            if expires.is_ok_and(|expires| expires < self.now) {
                self.replace(std::slice::from_ref(&part), Vec::new())?;
                self.done.removed_rows += part.row.rows;
            }
        }
        Ok(())
    }

    fn replace(&mut self, removed: &[Arc<Part>], added: Vec<PartRow>) -> Result<(), Error> {
        let paths: Vec<String> = removed.iter().map(|part| part.row.path.clone()).collect();
        self.catalogue.replace_parts(&paths, &added, None)?;
        // Do not remove a replaced file whose name a new file has.
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
    let of_engine = Series::of_engine();
    let known = series.iter().chain([&of_engine]).map(|one| (one.id, one));
    let known: HashMap<u32, &Series> = known.collect();
    let read = || -> Result<(), Error> {
        for id in part.spans()?.into_iter().map(|(id, _)| id) {
            let one = known.get(&id);
            let one = one.ok_or_else(|| Error::damaged("a series is not known"))?;
            let mut rows = Merge::new(std::slice::from_ref(part), one)?;
            while rows.next()?.is_some() {}
        }
        Ok(())
    };
    read().is_ok()
}
