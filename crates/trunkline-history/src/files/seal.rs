//! Moves the rows of a segment from the log to Parquet files, one per UTC date.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use trunkline_types::Timestamp;
use trunkline_types::history::Rows;

use crate::catalogue::{ENGINE_SERIES, PartRow, Series};
use crate::error::Error;
use crate::files::part::PartWriter;
use crate::log::tail::Segment;

const DAY: i64 = 86_400_000_000_000;

/// Writes the rows of a segment to files, and returns these. `series` are in the order of their
/// names and ids; `keep_of` returns how long rows are kept.
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
            "its catalogue lacks series that the log has",
        ));
    }
    let of_engine = Series::of_engine();
    let known = series.iter().filter(|one| one.id != ENGINE_SERIES);
    let mut days: BTreeMap<i64, Vec<(&Series, Cow<'_, Rows>)>> = BTreeMap::new();
    for one in std::iter::once(&of_engine).chain(known) {
        let Some(rows) = segment.rows.get(&one.id) else {
            continue;
        };
        for (day, rows) in by_day(rows.sorted()) {
            days.entry(day).or_default().push((one, rows));
        }
    }
    let mut parts = Vec::new();
    for (day, all) in days {
        let date = date_of(day);
        let path = format!("samples/date={date}/{:010}.parquet", segment.number);
        let mut writer = PartWriter::create(folder, &path)?;
        let mut expires = i64::MIN;
        for (one, rows) in &all {
            writer.add(one, rows)?;
            expires = expires.max(expires_of(rows, keep_of(one)));
        }
        let mut part = writer.finish(folder, vec![(segment.number, segment.number)])?;
        part.expires = expires;
        parts.push(part);
    }
    Ok(parts)
}

/// Returns the time after which none of these rows and events is kept.
pub(crate) fn expires_of(rows: &Rows, keep: Option<Duration>) -> i64 {
    let of_rows = rows.times().last().copied();
    let of_marks = rows.marks().iter().map(|mark| mark.key.time).max();
    match (of_rows.max(of_marks), keep) {
        (None, _) => i64::MIN,
        (Some(_), None) => i64::MAX,
        (Some(newest), Some(keep)) => {
            newest.saturating_add(i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX))
        }
    }
}

/// Splits sorted rows by their UTC date.
fn by_day(rows: Cow<'_, Rows>) -> Vec<(i64, Cow<'_, Rows>)> {
    let day_of = |time: i64| time.div_euclid(DAY);
    let mut days: BTreeMap<i64, Rows> = BTreeMap::new();
    let first = rows.times().first().map(|time| day_of(*time));
    let last = rows.times().last().map(|time| day_of(*time));
    let marks_fit = |day: i64| rows.marks().iter().all(|mark| day_of(mark.key.time) == day);
    if let (Some(first), Some(last)) = (first, last)
        && first == last
        && marks_fit(first)
    {
        return vec![(first, rows)];
    }
    let mut start = 0;
    while let Some(time) = rows.times().get(start) {
        let day = day_of(*time);
        let end = rows.times().partition_point(|time| day_of(*time) <= day);
        let part = days
            .entry(day)
            .or_insert_with(|| Rows::new(rows.word_bytes()));
        part.append(&rows, start..end);
        start = end;
    }
    for mark in rows.marks() {
        let part = days.entry(day_of(mark.key.time));
        part.or_insert_with(|| Rows::new(rows.word_bytes()))
            .push_mark(*mark);
    }
    let days = days.into_iter();
    days.map(|(day, rows)| (day, Cow::Owned(rows))).collect()
}

/// The date of a day, counted from 1970-01-01, as YYYY-MM-DD.
fn date_of(day: i64) -> String {
    let text = Timestamp::from_nanos(day.saturating_mul(DAY)).to_string();
    text.split('T').next().unwrap_or(&text).to_owned()
}
