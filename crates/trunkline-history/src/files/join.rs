//! Joins small files of one date into larger ones, and leaves out rows that are no longer kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use trunkline_types::history::Rows;

use crate::catalogue::{ENGINE_SERIES, PartRow, Series};
use crate::error::Error;
use crate::files::merge::Merge;
use crate::files::part::{Part, PartWriter, segments_of};
use crate::files::seal::expires_of;
use crate::files::summary::Expected;

/// Files with fewer rows are small.
const SMALL_ROWS: u64 = 2 << 20;
const JOINED_ROWS: u64 = 8 << 20;
/// The same limits in bytes of the files.
const SMALL_BYTES: u64 = 16 << 20;
const JOINED_BYTES: u64 = 64 << 20;
/// Maximum number of files joined at once: all of them may be open.
const FILES_MAX: usize = 32;
/// Minimum number of small files of a date that the engine joins at once.
pub(crate) const FILES_MIN: usize = 8;

/// Bounds of the delay, in nanoseconds, before another attempt to join files whose disk was full or failed.
const RETRY_MIN: i64 = 60_000_000_000;
const RETRY_MAX: i64 = 3_600_000_000_000;

/// Files that could not be joined.
#[derive(Debug, Default)]
pub(crate) struct Skipped(BTreeMap<String, Retry>);

#[derive(Clone, Copy, Debug)]
enum Retry {
    /// The file is damaged.
    Never,
    After {
        failed: i64,
        delay: i64,
    },
}

impl Skipped {
    /// Returns the paths of the files that must not be joined now.
    pub(crate) fn now(&self, now: i64) -> BTreeSet<String> {
        let is_skipped = |retry: &Retry| match retry {
            Retry::Never => true,
            // The clock may have been set back.
            Retry::After { failed, delay } => (0..*delay).contains(&now.saturating_sub(*failed)),
        };
        let skipped = self.0.iter().filter(|(_, retry)| is_skipped(retry));
        skipped.map(|(path, _)| path.clone()).collect()
    }

    /// Adds files that could not be joined, and drops entries of files that no longer exist.
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

/// Returns at least `least` files to be joined, or none. They have one date and are in the order of
/// their segments. `skipped` are the paths of files that must not be joined now.
pub(crate) fn choose(
    parts: &[Arc<Part>],
    skipped: &BTreeSet<String>,
    least: usize,
) -> Vec<Arc<Part>> {
    let mut small: Vec<&Arc<Part>> = parts
        .iter()
        .filter(|part| part.row.rows < SMALL_ROWS && part.row.bytes < SMALL_BYTES)
        .filter(|part| !skipped.contains(&part.row.path))
        .collect();
    let paths: HashSet<&str> = parts.iter().map(|part| part.row.path.as_str()).collect();
    small.sort_by_key(|part| (date_of(&part.row.path).to_owned(), part.row.segment));
    for of_date in small.chunk_by(|a, b| date_of(&a.row.path) == date_of(&b.row.path)) {
        for start in 0..of_date.len() {
            let (mut rows, mut bytes) = (0, 0);
            let fits = |part: &&&Arc<Part>| {
                rows += part.row.rows;
                bytes += part.row.bytes;
                rows <= JOINED_ROWS && bytes <= JOINED_BYTES
            };
            let following = of_date.iter().skip(start).take(FILES_MAX).take_while(fits);
            let chosen: Vec<_> = following.map(|part| Arc::clone(part)).collect();
            // A file that covers these segments may already have the name of the joined file.
            let is_taken = |path: String| paths.contains(path.as_str());
            if chosen.len() >= least && !joined_path(&chosen).is_some_and(is_taken) {
                return chosen;
            }
        }
    }
    Vec::new()
}

/// Returns the path of the file that these files are joined into; `None` if there are no files.
fn joined_path(parts: &[Arc<Part>]) -> Option<String> {
    let segments = || parts.iter().filter_map(|part| segments_of(&part.row.path));
    let first = segments().map(|(first, _)| first).min()?;
    let last = segments().map(|(_, last)| last).max()?;
    let date = date_of(&parts.first()?.row.path);
    Some(format!("{date}/{first:010}-{last:010}.parquet"))
}

/// Returns the folder of a file, which names its date.
pub(crate) fn date_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the time after which none of the rows of a part is kept.
///
/// # Errors
/// The part cannot be read, so the time is unknown.
pub(crate) fn expiry(
    part: &Part,
    series: &[Series],
    keep_of: &dyn Fn(&Series) -> Option<Duration>,
) -> Result<i64, Error> {
    let known: HashMap<u32, &Series> = series.iter().map(|one| (one.id, one)).collect();
    let of_engine = Series::of_engine();
    let spans = part.spans()?.into_iter();
    let times = spans.map(|(id, span)| {
        (
            known.get(&id).copied().unwrap_or(&of_engine),
            span.last_time,
        )
    });
    Ok(expiry_of(times, keep_of))
}

/// Returns the time after which no row of these series, each with its last time, is kept.
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

/// Joins files. `series` is sorted by name and id; `keep_of` returns how long the rows of a series
/// are kept. Returns `None` if all rows have expired.
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
            let known = expected.entry(id).or_insert(Expected {
                rows: 0,
                first_time: i64::MAX,
                last_time: i64::MIN,
            });
            known.rows += span.rows;
            known.first_time = known.first_time.min(span.first_time);
            known.last_time = known.last_time.max(span.last_time);
        }
    }
    let of_engine = Series::of_engine();
    let all = || {
        let others = series.iter().filter(|one| one.id != ENGINE_SERIES);
        std::iter::once(&of_engine).chain(others)
    };
    let known: HashSet<u32> = all().map(|one| one.id).collect();
    if !expected.keys().all(|id| known.contains(id)) {
        return Err(Error::damaged("its catalogue lacks series that a file has"));
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
        let mut is_begun = false;
        while let Some(rows) = merge.next()? {
            let rows = match oldest {
                Some(oldest) => since(&rows, oldest),
                None => rows,
            };
            if rows.is_empty() {
                continue;
            }
            if !std::mem::replace(&mut is_begun, true) {
                writer.begin_series(one, Some(*expected));
            }
            expires = expires.max(expires_of(&rows, keep));
            writer.add(one, &rows)?;
        }
        if is_begun {
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
    let mut part = writer.finish(folder, united(segments), spool_logs)?;
    part.expires = expires;
    Ok(Some(part))
}

/// Merges overlapping and adjacent ranges.
fn united(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut united: Vec<(u64, u64)> = Vec::new();
    for (from, to) in ranges {
        match united.last_mut() {
            Some((_, last)) if from <= last.saturating_add(1) => *last = to.max(*last),
            _ => united.push((from, to)),
        }
    }
    united
}

/// Returns the rows at or after this time.
fn since(rows: &Rows, time: i64) -> Rows {
    let from = rows.times().partition_point(|one| *one < time);
    let mut left = Rows::new(rows.word_bytes());
    left.append(rows, from..rows.len());
    for mark in rows.marks() {
        if mark.key.time >= time {
            left.push_mark(*mark);
        }
    }
    left
}

#[cfg(test)]
mod tests {
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

    /// Otherwise the joined file would replace one of its own sources, and be removed together with
    /// them.
    #[test]
    fn files_are_not_joined_to_one_with_the_name_of_a_file_that_is_there() {
        let joined = part("0000000001-0000000004", 4);
        let restored = part("0000000003", 3);
        let chosen = choose(&[joined, Arc::clone(&restored)], &BTreeSet::new(), 2);
        assert!(chosen.is_empty());
        let chosen = choose(&[restored, part("0000000005", 5)], &BTreeSet::new(), 2);
        assert_eq!(chosen.len(), 2);
    }
}
