//! Moves the rows of a log segment to Parquet files, one per UTC date.
//!
//! A segment may contain rows of any number of dates. Each of the dates with the most rows gets its own file.
//! The rows of all other dates go to one file without a date.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::time::Duration;

use trunkline_types::Timestamp;
use trunkline_types::history::Rows;

use crate::catalogue::{ENGINE_SERIES, PartRow, Series};
use crate::error::Error;
use crate::files::footer::SealedLog;
use crate::files::part::PartWriter;
use crate::log::tail::{Segment, SeriesRows};

/// A day in nanoseconds.
const DAY: i64 = 86_400_000_000_000;
/// Maximum number of files with a date per segment.
const DATES_MAX: usize = 31;
/// Name of a partition whose column value is missing, by the convention of Apache Hive.
const NO_DATE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Writes the rows of a segment to files, and returns their catalogue entries. `series` is sorted by name and
/// id, and `keep_of` returns how long the rows of a series are kept.
pub(crate) fn seal(
    folder: &Path,
    segment: &Segment,
    series: &[Series],
    keep_of: &dyn Fn(&Series) -> Option<Duration>,
) -> Result<Vec<PartRow>, Error> {
    let ids: HashSet<u32> = series.iter().map(|one| one.id).collect();
    let is_known = |id: &u32| *id == ENGINE_SERIES || ids.contains(id);
    if !segment.rows.keys().all(is_known) {
        return Err(Error::damaged(
            "its catalogue lacks a series that the log contains",
        ));
    }
    let engine_series = Series::of_engine();
    let known = series.iter().filter(|one| one.id != ENGINE_SERIES);
    let dated = largest_dates(segment);
    // The key `None` has the rows of all dates without their own file.
    let mut files: BTreeMap<Option<i64>, Vec<(&Series, Cow<'_, Rows>)>> = BTreeMap::new();
    for one in std::iter::once(&engine_series).chain(known) {
        let Some(rows) = segment.rows.get(&one.id) else {
            continue;
        };
        for (day, rows) in by_day(rows.sorted(), &dated) {
            files.entry(day).or_default().push((one, rows));
        }
    }
    let spool_log = segment.spool_log.clone().map(|log| SealedLog {
        log,
        files: files.len(),
    });
    let mut parts = Vec::new();
    for (day, all) in files {
        let date = day.map_or(NO_DATE.to_owned(), date_of);
        let path = format!("samples/date={date}/{:010}.parquet", segment.number);
        let mut writer = PartWriter::create(folder, &path)?;
        let mut expires = i64::MIN;
        for (one, rows) in &all {
            writer.add_series(one, rows)?;
            expires = expires.max(expires_of(rows, keep_of(one)));
        }
        let segments = vec![(segment.number, segment.number)];
        let mut part = writer.finish(folder, segments, spool_log.iter().cloned().collect())?;
        part.expires = expires;
        parts.push(part);
    }
    Ok(parts)
}

/// Returns the time after which all of these rows and events have expired, in nanoseconds.
pub(crate) fn expires_of(rows: &Rows, keep: Option<Duration>) -> i64 {
    let last_of_rows = rows.times().last().copied();
    let last_of_marks = rows.events().iter().map(|mark| mark.key.time).max();
    match (last_of_rows.max(last_of_marks), keep) {
        (None, _) => i64::MIN,
        (Some(_), None) => i64::MAX,
        (Some(newest), Some(keep)) => {
            newest.saturating_add(i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX))
        }
    }
}

/// Returns the UTC date of a time, in days since 1970-01-01.
fn day_of(time: i64) -> i64 {
    time.div_euclid(DAY)
}

/// Returns the dates of a segment that get their own file, which are those with the most rows. Of two dates
/// with the same number of rows, the later one has priority.
fn largest_dates(segment: &Segment) -> BTreeSet<i64> {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for rows in segment.rows.values().flat_map(SeriesRows::pieces) {
        let mut add = |time: i64, rows: usize| {
            *counts.entry(day_of(time)).or_default() += rows as u64;
        };
        let times = rows.times();
        match times.iter().min().zip(times.iter().max()) {
            Some((first, last)) if day_of(*first) == day_of(*last) => add(*first, times.len()),
            Some(_) => times.iter().for_each(|time| add(*time, 1)),
            None => {}
        }
        rows.events().iter().for_each(|mark| add(mark.key.time, 1));
    }
    let mut days: Vec<(u64, i64)> = counts.into_iter().map(|(day, rows)| (rows, day)).collect();
    days.sort_unstable_by_key(|one| std::cmp::Reverse(*one));
    days.into_iter()
        .take(DATES_MAX)
        .map(|(_, day)| day)
        .collect()
}

/// Splits sorted rows by UTC date. Rows of dates that are not in `dated` go under the key `None`.
fn by_day<'r>(rows: Cow<'r, Rows>, dated: &BTreeSet<i64>) -> Vec<(Option<i64>, Cow<'r, Rows>)> {
    let file_of = |time: i64| Some(day_of(time)).filter(|day| dated.contains(day));
    let mut files: BTreeMap<Option<i64>, Rows> = BTreeMap::new();
    let first = rows.times().first().map(|time| day_of(*time));
    let last = rows.times().last().map(|time| day_of(*time));
    let has_marks_only_on = |day: i64| {
        rows.events()
            .iter()
            .all(|mark| day_of(mark.key.time) == day)
    };
    if let (Some(first), Some(last)) = (first, last)
        && first == last
        && has_marks_only_on(first)
    {
        return vec![(Some(first).filter(|day| dated.contains(day)), rows)];
    }
    let mut start = 0;
    while let Some(time) = rows.times().get(start) {
        let day = day_of(*time);
        let end = rows.times().partition_point(|time| day_of(*time) <= day);
        let part = files
            .entry(file_of(*time))
            .or_insert_with(|| Rows::new(rows.word_bytes()));
        part.append(&rows, start..end);
        start = end;
    }
    for mark in rows.events() {
        let part = files.entry(file_of(mark.key.time));
        part.or_insert_with(|| Rows::new(rows.word_bytes()))
            .push_event(*mark);
    }
    let files = files.into_iter();
    files.map(|(day, rows)| (day, Cow::Owned(rows))).collect()
}

/// Formats a day, counted from 1970-01-01, as YYYY-MM-DD.
fn date_of(day: i64) -> String {
    let text = Timestamp::from_nanos(day.saturating_mul(DAY)).to_string();
    text.split('T').next().unwrap_or(&text).to_owned()
}
