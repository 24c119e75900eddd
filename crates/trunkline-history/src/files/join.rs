//! Joins small files of one date into larger files, and omits expired rows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use trunkline_types::history::Rows;

use crate::catalogue::{ENGINE_SERIES, PartRow, Series};
use crate::error::Error;
use crate::files::footer::SealedLog;
use crate::files::merge::Merge;
use crate::files::part::{Part, PartWriter, segments_of};
use crate::files::seal::expires_of;
use crate::files::summary::Expected;

/// A file is small if it has fewer rows than this.
const SMALL_ROWS: u64 = 2 << 20;
/// Maximum number of rows in the files that are joined at once.
const JOINED_ROWS: u64 = 8 << 20;
/// A file is small only if it also has fewer bytes than this.
const SMALL_BYTES: u64 = 16 << 20;
/// Maximum number of bytes in the files that are joined at once.
const JOINED_BYTES: u64 = 64 << 20;
/// Maximum number of files that are joined at once. All of them may be open at the same time.
const FILES_MAX: usize = 32;
/// Minimum number of small files of one date that the engine joins at once.
pub(crate) const FILES_MIN: usize = 8;

/// First delay before another attempt to join files after an I/O error, in nanoseconds. It doubles with each
/// attempt.
const RETRY_MIN: i64 = 60_000_000_000;
/// Maximum delay before another attempt to join files after an I/O error, in nanoseconds.
const RETRY_MAX: i64 = 3_600_000_000_000;

/// Files that could not be joined: from path to the time of the next attempt.
#[derive(Debug, Default)]
pub(crate) struct Skipped(BTreeMap<String, Retry>);

#[derive(Clone, Copy, Debug)]
enum Retry {
    /// The file is damaged, so it is not joined any more.
    Never,
    /// The file may be joined `delay` nanoseconds after time `failed`.
    After { failed: i64, delay: i64 },
}

impl Skipped {
    /// Returns the paths of the files that must not be joined at time `now`.
    pub(crate) fn paths_at(&self, now: i64) -> BTreeSet<String> {
        let is_skipped = |retry: &Retry| match retry {
            Retry::Never => true,
            // If `now` is before `failed`, the clock was set back, and another attempt is made.
            Retry::After { failed, delay } => (0..*delay).contains(&now.saturating_sub(*failed)),
        };
        let skipped = self.0.iter().filter(|(_, retry)| is_skipped(retry));
        skipped.map(|(path, _)| path.clone()).collect()
    }

    /// Adds files that could not be joined, and removes entries of files that no longer exist. `all` are all
    /// files of the history.
    pub(crate) fn add(
        &mut self,
        files: &[Arc<Part>],
        is_damage: bool,
        all: &[Arc<Part>],
        now: i64,
    ) {
        self.0
            .retain(|path, _| all.iter().any(|part| part.row.path == *path));
        for part in files {
            let path = part.row.path.clone();
            let delay = match self.0.get(&path) {
                Some(Retry::After { delay, .. }) => delay.saturating_mul(2).min(RETRY_MAX),
                _ => RETRY_MIN,
            };
            let retry = match is_damage {
                true => Retry::Never,
                false => Retry::After { failed: now, delay },
            };
            self.0.insert(path, retry);
        }
    }
}

/// Chooses at least `count_min` files of one date to be joined, in the order of their segments. Returns no
/// files if there are not enough. `skipped` are the paths of files that must not be joined now.
pub(crate) fn choose(
    parts: &[Arc<Part>],
    skipped: &BTreeSet<String>,
    count_min: usize,
) -> Vec<Arc<Part>> {
    let mut small: Vec<&Arc<Part>> = parts
        .iter()
        .filter(|part| part.row.rows < SMALL_ROWS && part.row.bytes < SMALL_BYTES)
        .filter(|part| !skipped.contains(&part.row.path))
        .collect();
    let paths: HashSet<&str> = parts.iter().map(|part| part.row.path.as_str()).collect();
    small.sort_by_key(|part| (date_of(&part.row.path).to_owned(), part.row.segment));
    for same_date in small.chunk_by(|a, b| date_of(&a.row.path) == date_of(&b.row.path)) {
        for start in 0..same_date.len() {
            let (mut rows, mut bytes) = (0, 0);
            let fits = |part: &&&Arc<Part>| {
                rows += part.row.rows;
                bytes += part.row.bytes;
                rows <= JOINED_ROWS && bytes <= JOINED_BYTES
            };
            let following = same_date
                .iter()
                .skip(start)
                .take(FILES_MAX)
                .take_while(fits);
            let chosen: Vec<_> = following.map(|part| Arc::clone(part)).collect();
            // A file that contains these segments may already have the path of the joined file.
            let is_taken = |path: String| paths.contains(path.as_str());
            if chosen.len() >= count_min && !joined_path(&chosen).is_some_and(is_taken) {
                return chosen;
            }
        }
    }
    Vec::new()
}

/// Returns the path of the file into which these files are joined; `None` if there are no files.
fn joined_path(parts: &[Arc<Part>]) -> Option<String> {
    let segments = || parts.iter().filter_map(|part| segments_of(&part.row.path));
    let first = segments().map(|(first, _)| first).min()?;
    let last = segments().map(|(_, last)| last).max()?;
    let date = date_of(&parts.first()?.row.path);
    Some(format!("{date}/{first:010}-{last:010}.parquet"))
}

/// Returns the path of the folder that contains a file. The folder is named after the date of the rows.
pub(crate) fn date_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the time after which all rows of a part have expired, in nanoseconds.
///
/// # Errors
/// The index of the part cannot be read.
pub(crate) fn expiry(
    part: &Part,
    series: &[Series],
    keep_of: &dyn Fn(&Series) -> Option<Duration>,
) -> Result<i64, Error> {
    let by_id: HashMap<u32, &Series> = series.iter().map(|one| (one.id, one)).collect();
    let engine_series = Series::of_engine();
    let spans = part.spans()?.into_iter();
    let times = spans.map(|(id, span)| {
        (
            by_id.get(&id).copied().unwrap_or(&engine_series),
            span.last_time,
        )
    });
    Ok(expiry_of(times, keep_of))
}

/// Returns the time after which all rows of these series have expired, in nanoseconds. `times` has the time
/// of the last row of each series.
pub(crate) fn expiry_of<'s>(
    times: impl Iterator<Item = (&'s Series, i64)>,
    keep_of: &dyn Fn(&Series) -> Option<Duration>,
) -> i64 {
    let expiries = times.map(|(series, last_time)| {
        let keep = keep_of(series);
        let keep = keep.map(|keep| i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX));
        keep.map_or(i64::MAX, |keep| last_time.saturating_add(keep))
    });
    expiries.max().unwrap_or(i64::MIN)
}

/// Joins files. `series` is sorted by name and id, and `keep_of` returns how long the rows of a series are
/// kept. Returns `None` if all rows have expired.
pub(crate) fn join(
    folder: &Path,
    parts: &[Arc<Part>],
    series: &[Series],
    keep_of: &dyn Fn(&Series) -> Option<Duration>,
    now: i64,
) -> Result<Option<PartRow>, Error> {
    let Some(path) = joined_path(parts) else {
        return Ok(None);
    };
    let mut expected: HashMap<u32, Expected> = HashMap::new();
    for part in parts {
        for (id, span) in part.spans()? {
            let total = expected.entry(id).or_insert(Expected {
                rows: 0,
                first_time: i64::MAX,
                last_time: i64::MIN,
            });
            total.rows += span.rows;
            total.first_time = total.first_time.min(span.first_time);
            total.last_time = total.last_time.max(span.last_time);
        }
    }
    let engine_series = Series::of_engine();
    let all = || {
        let others = series.iter().filter(|one| one.id != ENGINE_SERIES);
        std::iter::once(&engine_series).chain(others)
    };
    let known: HashSet<u32> = all().map(|one| one.id).collect();
    if !expected.keys().all(|id| known.contains(id)) {
        return Err(Error::damaged(
            "its catalogue lacks a series that one of its files contains",
        ));
    }
    let mut writer = PartWriter::create(folder, &path)?;
    let mut expires = i64::MIN;
    for one in all() {
        let Some(expected) = expected.get(&one.id) else {
            continue;
        };
        let keep = keep_of(one);
        let oldest =
            keep.map(|keep| now.saturating_sub(i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX)));
        let mut merge = Merge::new(parts, one)?;
        let mut has_begun = false;
        while let Some(rows) = merge.next()? {
            let rows = match oldest {
                Some(oldest) => rows_since(&rows, oldest),
                None => rows,
            };
            if rows.is_empty() {
                continue;
            }
            if !std::mem::replace(&mut has_begun, true) {
                writer.begin_series(one, Some(*expected));
            }
            expires = expires.max(expires_of(&rows, keep));
            writer.add(one, &rows)?;
        }
        if has_begun {
            writer.end_series(one);
        }
    }
    if expires == i64::MIN {
        return Ok(None);
    }
    let (mut segments, mut spool_logs) = (Vec::new(), Vec::new());
    for part in parts {
        segments.extend(part.segments()?);
        spool_logs.extend(part.spool_logs()?);
    }
    let spool_logs = merge_logs(spool_logs);
    let mut part = writer.finish(folder, merge_ranges(segments), spool_logs)?;
    part.expires = expires;
    Ok(Some(part))
}

/// Merges overlapping and adjacent ranges.
fn merge_ranges(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in ranges {
        match merged.last_mut() {
            Some((_, last)) if from <= last.saturating_add(1) => *last = to.max(*last),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Names each log once, with its largest number of files. Two files of a date may name the same log if one of
/// them was restored.
fn merge_logs(mut logs: Vec<SealedLog>) -> Vec<SealedLog> {
    let order = |one: &SealedLog| (one.log.spool.clone(), one.log.log, Reverse(one.files));
    logs.sort_by_cached_key(order);
    logs.dedup_by(|one, before| one.log == before.log);
    logs
}

/// Returns the rows and events at or after this time.
fn rows_since(rows: &Rows, time: i64) -> Rows {
    let from = rows.times().partition_point(|one| *one < time);
    let mut kept = Rows::new(rows.word_bytes());
    kept.append(rows, from..rows.len());
    for mark in rows.events() {
        if mark.key.time >= time {
            kept.push_event(*mark);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use crate::catalogue::SpoolLog;

    use super::*;

    fn part(name: &str, segment: u64) -> Arc<Part> {
        let row = PartRow {
            path: format!("samples/date=2026-11-28/{name}.parquet"),
            segment,
            first_time: 0,
            last_time: 0,
            rows: 10,
            bytes: 1000,
            expires: i64::MAX,
            data_bytes: 900,
            footer: 0,
            summary: 0,
        };
        Arc::new(Part::new(Path::new("/nowhere"), row))
    }

    /// A joined file with the path of one of its sources would replace this source, and would then be removed
    /// together with the sources.
    #[test]
    fn files_are_not_joined_into_the_path_of_an_existing_file() {
        let joined = part("0000000001-0000000004", 4);
        let restored = part("0000000003", 3);
        let chosen = choose(&[joined, Arc::clone(&restored)], &BTreeSet::new(), 2);
        assert!(chosen.is_empty());
        let chosen = choose(&[restored, part("0000000005", 5)], &BTreeSet::new(), 2);
        assert_eq!(chosen.len(), 2);
    }
    /// H-14: a file that names a log twice would count as two of its files.
    #[test]
    fn joined_file_names_each_log_of_the_spool_once() {
        let sealed = |log, files| SealedLog {
            log: SpoolLog {
                spool: "9f0c".to_owned(),
                log,
            },
            files,
        };
        let logs = vec![sealed(3, 1), sealed(1, 2), sealed(3, 2), sealed(1, 2)];
        assert_eq!(merge_logs(logs), [sealed(1, 2), sealed(3, 2)]);
    }
}
